"""The parts of a step along F: steps 5 and 6 of Algorithm 1.

`direction` applies the metric and the proximal step, `Limit` shortens the step, and `Inertia` averages the directions.
A `StepRule` contains the learning rate, limit and inertia of a run. `curvature` estimates L, from which automatic
learning rates are set.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.schedules import at
from sk_stormc.engine.estimates import keep_in_domain

__all__ = ["Direction", "Inertia", "Limit", "StepRule", "curvature", "curvatures", "direction", "proximal_point"]

N_BATCHES, POWER_ITERATIONS = 16, 6  # minibatches whose curvature is estimated, and iterations for each


@dataclass(slots=True)
class Direction:
    """The direction of a step, q = (x - x~) / eta.

    Attributes
    ----------
    length : float
        |x~ - x| / eta in the norm of the metric's inverse, which is |F| without penalty and metric. NaN if it is not
        finite.
    q, p : ndarray of shape (n_variables,)
        The direction q, and p = metric^-1 q, so that length^2 = <q, p>.
    target : ndarray of shape (n_variables,) or None
        The point x~. None means x - eta q.
    """

    length: float
    q: np.ndarray
    p: np.ndarray
    target: np.ndarray | None = None


def proximal_point(problem, metric, x, F, eta):
    """x~ = prox_{eta R}(x - eta metric F), step 5 of Algorithm 1."""
    x_tilde = x - eta * metric.apply(F)
    if problem.penalty is None or not np.isfinite(x_tilde).all():  # the loop handles values that are not finite
        return x_tilde
    return problem.penalty.prox(x_tilde, metric.prox_step(eta))


def direction(problem, metric, x, F, eta):
    """The `Direction` of the step from x along F."""
    target = None
    if problem.penalty is None:
        q, p = metric.apply(F), F
    else:
        # if a schedule has decreased to 0, x does not move, but the stopping rule needs a length
        target = proximal_point(problem, metric, x, F, eta or 1.0)
        q = (x - target) / (eta or 1.0)
        p = metric.apply_inverse(q)
        target = target if eta else None
    square = float(q.dot(p))
    return Direction(math.sqrt(square) if square >= 0 else math.nan, q, p, target)


@dataclass(frozen=True)
class Limit:
    """Step 6 of Algorithm 1: steps are shortened by gamma = min(eta eps / |x~ - x|, 1/2).

    Parameters
    ----------
    precision : float or callable
        The precision epsilon, or a function of the iteration.
    by_block : bool, default=False
        Whether each of the problem's blocks has its own gamma. Otherwise there is one gamma for all of x.

    Examples
    --------
    >>> from sk_stormc.engine import Limit
    >>> Limit(0.1)
    Limit(precision=0.1, by_block=False)
    """

    precision: float | Callable
    by_block: bool = False

    def gamma(self, problem, metric, way, t):
        """The factor of a `Direction` in this metric: a number, or an array with a number for each variable."""
        eps = at(self.precision, t)
        if not self.by_block:
            return min(0.5, eps / way.length) if way.length else 0.5
        lengths = metric.block_lengths(way.q, way.p, problem.n_blocks)
        gamma = np.minimum(0.5, eps / np.maximum(lengths, np.finfo(lengths.dtype).tiny))
        return np.repeat(gamma, way.q.size // problem.n_blocks)


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
        """The average after q was added. ``velocity`` is the last average, or None at first."""
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

    def next_point(self, problem, metric, x, way, eta, t):
        """The end point of a step along ``way``: x~, or a point before it if the limit shortens the step."""
        if self.limit is not None:
            return x - (eta * self.limit.gamma(problem, metric, way, t)) * way.q
        return x - eta * way.q if way.target is None else way.target  # return x~ itself, for exact zeros

    def average(self, problem, metric, way, velocity, t):
        """The average of the directions after ``way`` was added, for a rule with inertia.

        Each direction is shortened before it is added. If the average were shortened instead, the long directions of a
        few iterations would determine it for many more, and blocks would oscillate.
        """
        q = way.q if self.limit is None else self.limit.gamma(problem, metric, way, t) * way.q
        return self.inertia.average(q, velocity)


# the curvature for automatic learning rates; the oracle calls are counted


def curvature(oracle, x, size):
    """The curvature L: the root mean square of `curvatures`. It is 0 for a linear objective."""
    return math.sqrt(np.mean(np.square(curvatures(oracle, x, size))))


def curvatures(oracle, x, size):
    """Largest eigenvalues of metric @ Hessian of 16 minibatches.

    They are computed by power iterations on finite differences of the minibatch gradient. The first vector for a batch
    is the last vector for the previous batch. g and f use independent batches. There is one minibatch if batches are
    full.
    """
    problem, metric = oracle.problem, oracle.metric.at(x, 0)
    v = oracle.rng.standard_normal(x.size).astype(x.dtype)
    v, start_v = metric.apply(v), v
    v = v / math.sqrt(float(start_v @ v))  # of length 1 in the norm of the metric's inverse
    rounding = math.sqrt(np.finfo(x.dtype).eps)
    h = rounding * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(v))
    eigenvalues = []
    for _ in range(1 if oracle.is_full(size) else N_BATCHES):
        inner, outer = oracle.draw("inner", size[0]), oracle.draw("outer", size[2])
        slope = oracle.draw_jacobian(size[1], inner)

        def gradient(x, inner=inner, outer=outer, slope=slope):
            u = keep_in_domain(problem, oracle.inner(x, inner), None)
            return oracle.gradient(x, u, oracle.jacobian(x, slope), outer)

        F = gradient(x)
        length = math.sqrt(float(F @ metric.apply(F)))
        top = 0.0
        for k in range(POWER_ITERATIONS + 1):
            w = (gradient(x + h * v) - F) / h
            v_new = metric.apply(w)
            top = math.sqrt(max(float(w @ v_new), 0.0))
            if not (math.isfinite(top) and top > 0):
                break
            if k or not length:
                v = v_new / top
            # the step h changes F by a thousandth in any unit, and x by more than rounding; k = 0 only determines h
            longest = float(np.linalg.norm(x) / np.linalg.norm(v)) or math.inf  # a step of the length of x
            # a gradient that is constant near x may change farther away
            step = max(min(1e-3 * length / top, longest), rounding * longest if longest < math.inf else 0.0)
            if step > 1e-7 * h:  # otherwise F is a rounding error
                h = step
        eigenvalues.append(top)
    return eigenvalues
