"""The steps of Algorithm 1, as functions from which the methods are built.

`start` (steps 2 and 3) and `advance` (steps 7 to 10) estimate u, J and F. A `StepRule`
moves x along F (steps 5 and 6): `step_direction` applies the preconditioner and the
proximal step, `Limit` shortens the step, and `Inertia` averages the directions. In the
paper's notation u is g_t (bold), J is G_t, F is F_t, and a_g, a_dg, a_Phi are the
momenta.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.core.schedules import at
from sk_stormc.core.unit import InUnit
from sk_stormc.utils.parameters import is_list, plain, short
from sk_stormc.utils.types import Array

# steps 2, 3 and 7 to 10: the estimates


@dataclass
class Estimate:
    """The estimates at a point x: the inner value u, its Jacobian J and the
    compositional gradient F.

    J is the value of `Oracle.jacobian`. None means the exact constant Jacobian, which
    the oracle stores.

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> from sk_stormc.engine import ALL, Oracle, start
    >>> import numpy as np
    >>> start(Oracle(problem, seed=0), np.zeros(3), ALL).F.shape
    (3,)
    """

    x: np.ndarray
    u: np.ndarray | InUnit
    J: object
    F: np.ndarray


def keep_in_domain(problem, u, u_old):
    """max(u, 0.8 u_old, floor), because a recursive estimate must not leave the domain
    of f."""
    if problem.inner_floor is None:
        return u
    floor = plain(problem.inner_floor)
    return np.maximum(u, floor if u_old is None else np.maximum(0.8 * u_old, floor))


def guard(
    oracle: Any, u: Array | InUnit, u_old: Array | InUnit | None
) -> Array | InUnit:
    """Keep an estimate of u in the domain of f. Entries outside the domain are counted.

    Examples
    --------
    An estimate of a mean of exponentials must stay above 0:

    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle, guard
    >>> from sk_stormc.problems import EntropicPortfolioProblem
    >>> oracle = Oracle(EntropicPortfolioProblem(np.ones((4, 2))), seed=0)
    >>> u_old = oracle.inner(np.zeros(2), oracle.draw("inner", None))
    >>> bool((guard(oracle, -1 * u_old, u_old) > 0 * u_old).all()), oracle.n_guarded
    (True, 1)
    """
    if oracle.problem.inner_floor is None:
        return u
    kept = keep_in_domain(oracle.problem, u, u_old)
    n_guarded = int(np.count_nonzero(kept != u))
    oracle.count_guarded(u, n_guarded)
    return kept if n_guarded else u  # u itself, because the unit of `kept` may differ


def start(oracle: Any, x: Array, size: tuple) -> Estimate:
    """Steps 2 and 3 of Algorithm 1: u, J and F at x from fresh batches.

    Parameters
    ----------
    oracle : Oracle
    x : ndarray of shape (n_variables,)
    size : tuple
        The batch sizes (S_g, S_dg, S_f), from `CompositionalSolver.sizes`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle, start
    >>> oracle = Oracle(problem, seed=0)
    >>> first = start(oracle, np.zeros(3), (10, 10, 5))
    >>> oracle.ifo, first.u.shape
    (25, (1,))
    """
    check_sizes(size)
    inner = oracle.draw("inner", size[0])
    u = guard(oracle, oracle.inner(x, inner), None)
    J = oracle.jacobian(x, oracle.draw_jacobian(size[1], inner))
    return Estimate(x, u, J, oracle.gradient(x, u, J, oracle.draw("outer", size[2])))


def check_sizes(size):
    """Raise a ValueError for batch sizes of another form."""
    if not is_list(size) or len(size) != 3:
        raise ValueError(
            "the batch sizes of a step must be three, (B_g, B_dg, B_f), as self.sizes "
            f"returns them, got {short(size)}"
        )


def advance(oracle: Any, old: Any, x: Array, momentum: tuple, size: tuple) -> Estimate:
    """Steps 7 to 10 of Algorithm 1: u, J and F at x from those at ``old.x`` and one
    batch of each kind.

    With momentum 0 this is the update of SARAH-C (with the previous iterate as ``old``)
    and of VRSC-PG (with the checkpoint as ``old``). A batch of all components needs no
    correction, because its estimate is exact. With momentum 1 the old estimate has no
    weight, and the old point is not evaluated.

    Parameters
    ----------
    oracle : Oracle
    old : Estimate
    x : ndarray of shape (n_variables,)
    momentum : tuple of float
        The momenta (a_g, a_dg, a_Phi).
    size : tuple
        The batch sizes (B_g, B_dg, B_f).

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle, advance, start
    >>> oracle = Oracle(problem, seed=0)
    >>> first = start(oracle, np.zeros(3), (10, 10, 5))
    >>> second = advance(
    ...     oracle, first, first.x - 0.1 * first.F, (0.1, 0.1, 0.1), (4, 4, 2)
    ... )
    >>> oracle.ifo, second.F.shape
    (35, (3,))
    """
    if not is_list(momentum):
        raise ValueError(
            f"momentum must be three numbers, for u, J and F, got {short(momentum)}"
        )
    check_sizes(size)
    u, J, J_old = advance_inner(oracle, old, x, momentum, size)
    return advance_outer(oracle, old, J_old, (x, u, J), momentum[2], size)


def corrected(a, old, before, now):
    """The recursive estimate (1 - a) (old - before) + now, where ``before`` and ``now``
    are the values of one batch at the old point and at the new one."""
    return (1 - a) * (old - before) + now


def advance_inner(oracle, old, x, momentum, size):
    """Steps 7 to 9: u and J at x, and the J at the old point that step 10 needs."""
    a_g, a_dg, a_Phi = momentum
    batch = oracle.draw("inner", size[0])
    slope = oracle.draw_jacobian(size[1], batch)
    correct_u = not (batch.full or a_g == 1)
    correct_J = not (slope.full or slope.anew or a_dg == 1)
    # step 10 with Jacobians of two batches would accumulate their differences
    needs_J_old = slope.anew and a_Phi != 1 and size[2] is not None

    (u_before, J_before), (u, J) = oracle.inner_pair(
        old.x, x, batch, slope, correct_u, correct_J or needs_J_old
    )
    if correct_u:
        u = corrected(a_g, old.u, u_before, u)  # step 8
    u = guard(oracle, u, old.u if correct_u else None)
    if correct_J:
        J = corrected(a_dg, old.J, J_before, J)  # step 9
    return u, J, J_before if needs_J_old else old.J


def advance_outer(oracle, old, J_old, new, a_Phi, size):
    """Steps 7 and 10: F at new = (x, u, J)."""
    batch = oracle.draw("outer", size[2])
    if batch.full or a_Phi == 1:
        return Estimate(*new, oracle.gradient(*new, batch))
    F_before, F = oracle.gradient_pair((old.x, old.u, J_old), new, batch)
    return Estimate(*new, corrected(a_Phi, old.F, F_before, F))  # step 10


# steps 5 and 6: the next point


@dataclass(slots=True)
class Direction:
    """The direction of a step, q = (x - x~) / eta.

    Attributes
    ----------
    length : float
        |x~ - x| / eta in the norm of the preconditioner's inverse, which is |F| without
        penalty and preconditioner. NaN if it is not finite.
    q, p : ndarray of shape (n_variables,)
        The direction q, and p = preconditioner^-1 q, so that length^2 = <q, p>.
    target : ndarray of shape (n_variables,) or None
        The point x~. None means x - eta q.
    """

    length: float
    q: np.ndarray
    p: np.ndarray
    target: np.ndarray | None = None


def proximal_point(problem, preconditioner, x, F, eta):
    """x~ = prox_{eta R}(x - eta preconditioner F), step 5 of Algorithm 1."""
    x_tilde = x - eta * preconditioner.apply(F)
    # the loop handles values that are not finite
    if problem.penalty is None or not np.isfinite(x_tilde).all():
        return x_tilde
    return problem.penalty.prox(x_tilde, preconditioner.prox_step(eta))


def step_direction(problem, preconditioner, x, F, eta):
    """The `Direction` of the step from x along F."""
    target = None
    if problem.penalty is None:
        q, p = preconditioner.apply(F), F
    else:
        # if a schedule has decreased to 0, x does not move, but the stopping rule needs
        # a length
        target = proximal_point(problem, preconditioner, x, F, eta or 1.0)
        q = (x - target) / (eta or 1.0)
        p = preconditioner.apply_inverse(q)
        target = target if eta else None
    square = float(q.dot(p))
    return Direction(math.sqrt(square) if square >= 0 else math.nan, q, p, target)


@dataclass(frozen=True)
class Limit:
    """Step 6 of Algorithm 1: steps are shortened by gamma = min(eta eps / |x~ - x|,
    1/2).

    Parameters
    ----------
    precision : float or callable
        The precision epsilon, or a function of the iteration.
    by_block : bool, default=False
        Whether each of the problem's blocks has its own gamma. Otherwise there is one
        gamma for all of x.

    Examples
    --------
    >>> from sk_stormc.engine import Limit
    >>> Limit(0.1)
    Limit(precision=0.1, by_block=False)
    """

    precision: float | Callable
    by_block: bool = False

    def gamma(self, problem, preconditioner, direction, t):
        """The factor of a `Direction` in this preconditioner: a number, or an array
        with a number for each variable."""
        eps = at(self.precision, t)
        if not self.by_block:
            return min(0.5, eps / direction.length) if direction.length else 0.5
        lengths = preconditioner.block_lengths(
            direction.q, direction.p, problem.n_blocks
        )
        gamma = np.minimum(0.5, eps / np.maximum(lengths, np.finfo(lengths.dtype).tiny))
        return np.repeat(gamma, direction.q.size // problem.n_blocks)


@dataclass(frozen=True)
class Inertia:
    """A heavy-ball average of the directions.

    Parameters
    ----------
    weight : float
        Weight of the earlier directions, in [0, 1). With 0 there is no averaging.

    Examples
    --------
    >>> from sk_stormc.engine import Inertia
    >>> Inertia(0.9)
    Inertia(weight=0.9)
    """

    weight: float

    def average(self, q, velocity):
        """The average after q was added. ``velocity`` is the last average, or None at
        first."""
        q = (1 - self.weight) * q
        return q if velocity is None else q + self.weight * velocity


@dataclass
class StepRule:
    """The rule of a run's steps, resolved for its problem.

    Attributes
    ----------
    learning_rate : float or callable
        The learning rate eta, or a function of the iteration.
    limit : Limit or None
        None means that steps are not shortened.
    inertia : Inertia or None
        None means that directions are not averaged.

    Examples
    --------
    >>> from sk_stormc.engine import Inertia, Limit, StepRule
    >>> StepRule(0.5, limit=Limit(0.1), inertia=Inertia(0.9)).learning_rate
    0.5
    """

    learning_rate: float | Callable
    limit: Limit | None = None
    inertia: Inertia | None = None

    def next_point(self, problem, preconditioner, x, direction, eta, t):
        """The end point of a step along ``direction``: x~, or a point before it if the
        limit shortens the step."""
        if self.limit is not None:
            gamma = self.limit.gamma(problem, preconditioner, direction, t)
            return x - (eta * gamma) * direction.q
        # x~ itself has exact zeros
        return x - eta * direction.q if direction.target is None else direction.target

    def average(self, problem, preconditioner, direction, velocity, t):
        """The average of the directions after ``direction`` was added, for a rule with
        inertia.

        Each direction is shortened before it is added. If the average were shortened
        instead, the long directions of a few iterations would determine it for many
        more, and blocks would oscillate.
        """
        q = (
            direction.q
            if self.limit is None
            else self.limit.gamma(problem, preconditioner, direction, t) * direction.q
        )
        return self.inertia.average(q, velocity)
