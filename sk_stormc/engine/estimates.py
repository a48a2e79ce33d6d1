"""The estimates of u, J and F at a point, and their update at the next point: steps 2, 3 and 7 to 10 of Algorithm 1.

In the paper's notation u is g_t (bold), J is G_t, F is F_t, and a_g, a_dg, a_Phi are the momenta.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.core.unit import InUnit
from sk_stormc.utils.types import Array
from sk_stormc.utils.validation import plain

__all__ = ["Estimate", "advance", "advance_inner", "advance_outer", "guard", "start", "start_inner"]


@dataclass
class Estimate:
    """The estimates at a point x: the inner value u, its Jacobian J and the compositional gradient F.

    J is the value of `Oracle.jacobian`. None means the exact constant Jacobian, which the oracle stores.

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 3, mean=0.1, random_state=0))
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
    """max(u, 0.8 u_old, floor), because a recursive estimate must not leave the domain of f."""
    if problem.inner_floor is None:
        return u
    floor = plain(problem.inner_floor)
    return np.maximum(u, floor if u_old is None else np.maximum(0.8 * u_old, floor))


def guard(oracle: Any, u: Array | InUnit, u_old: Array | InUnit | None) -> Array | InUnit:
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
    return kept if n_guarded else u  # the oracle recognises exact values by the identity of u


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
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 3, mean=0.1, random_state=0))
    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle, start
    >>> oracle = Oracle(problem, seed=0)
    >>> first = start(oracle, np.zeros(3), (10, 10, 5))
    >>> oracle.ifo, first.u.shape
    (25, (1,))
    """
    u, J = start_inner(oracle, x, size)
    return Estimate(x, u, J, oracle.gradient(x, u, J, oracle.draw("outer", size[2])))


def start_inner(oracle, x, size):
    """The estimates u and J of `start`."""
    batch = oracle.draw("inner", size[0])
    u = guard(oracle, oracle.inner(x, batch), None)
    return u, oracle.jacobian(x, oracle.draw_jacobian(size[1], batch))


def advance(oracle: Any, old: Any, x: Array, momentum: tuple, size: tuple) -> Estimate:
    """Steps 7 to 10 of Algorithm 1: u, J and F at x from those at ``old.x`` and one batch of each kind.

    With momentum 0 this is the update of SARAH-C (with the previous iterate as ``old``) and of VRSC-PG (with the
    checkpoint as ``old``). A batch of all components needs no correction, because its estimate is exact. With momentum
    1 the old estimate has no weight, and the old point is not evaluated.

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
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 3, mean=0.1, random_state=0))
    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle, advance, start
    >>> oracle = Oracle(problem, seed=0)
    >>> first = start(oracle, np.zeros(3), (10, 10, 5))
    >>> second = advance(oracle, first, first.x - 0.1 * first.F, (0.1, 0.1, 0.1), (4, 4, 2))
    >>> oracle.ifo, second.F.shape
    (35, (3,))
    """
    u, J, old_J = advance_inner(oracle, old, x, momentum, size)
    return advance_outer(oracle, old, x, u, J, old_J, momentum[2], size[2])


def advance_inner(oracle, old, x, momentum, size):
    """The estimates u and J of `advance` (steps 8 and 9), and the J at the old point that step 10 needs."""
    a_g, a_dg, a_phi = momentum
    batch = oracle.draw("inner", size[0])
    slope = oracle.draw_jacobian(size[1], batch)
    correct_u = not (batch.full or a_g == 1)
    correct_J = not (slope.full or slope.anew or a_dg == 1)
    # step 10 with Jacobians of two batches would accumulate their differences
    needs_old_J = slope.anew and a_phi != 1 and size[2] is not None

    before, (u, J) = oracle.inner_pair(old.x, x, batch, slope, correct_u, correct_J or needs_old_J)
    if correct_u:
        u = (1 - a_g) * (old.u - before[0]) + u  # step 8
    u = guard(oracle, u, old.u if correct_u else None)
    if correct_J:
        J = (1 - a_dg) * (old.J - before[1]) + J  # step 9
    return u, J, before[1] if needs_old_J else old.J


def advance_outer(oracle, old, x, u, J, old_J, a_phi, size):
    """Step 10 of Algorithm 1: F at x with u and J, from ``old`` with the Jacobian old_J, and an outer batch."""
    batch = oracle.draw("outer", size)
    if batch.full or a_phi == 1:
        F = oracle.gradient(x, u, J, batch)
    else:
        before, F = oracle.gradient_pair((old.x, old.u, old_J), (x, u, J), batch)
        F = (1 - a_phi) * (old.F - before) + F
    return Estimate(x, u, J, F)
