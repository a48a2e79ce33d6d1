"""How far and which way a method goes along F: steps 5 and 6 of Algorithm 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sk_stormc.utils.kept import Kept

__all__ = ["Direction", "StepRule", "direction", "land", "proximal_point"]


@dataclass
class StepRule(Kept):
    """The constants of a run's steps, resolved for its problem.

    Attributes
    ----------
    learning_rate : float or callable
        eta, or a function of the iteration.
    normalization : {"global", "block"} or None
        gamma of step 6: one for all x, one for each of the problem's blocks, or 1.
    precision : float, callable or None
        epsilon of step 6.
    inertia : float
        Weight of the earlier directions in a heavy-ball average; 0 takes each by itself.
    """

    learning_rate: float | Callable
    normalization: str | None = None
    precision: float | Callable | None = None
    inertia: float = 0.0


@dataclass(slots=True)
class Direction(Kept):
    """Where a step leads: q = (x - x~) / eta.

    Attributes
    ----------
    length : float
        |x~ - x| / eta in the norm of the metric's inverse: |F| without penalty and metric. NaN where it is not finite.
    q, p : ndarray of shape (n_variables,)
        p = metric^-1 q, so that length^2 = <q, p>.
    target : ndarray of shape (n_variables,) or None
        x~; None where it is x - eta q.
    """

    length: float
    q: np.ndarray
    p: np.ndarray
    target: np.ndarray | None = None


def proximal_point(problem, metric, x, F, eta):
    """x~ = prox_{eta R}(x - eta metric F), step 5 of Algorithm 1."""
    x_tilde = x - eta * metric.apply(F)
    if problem.penalty is None or not np.isfinite(x_tilde).all():  # the loop looks for values that are not finite
        return x_tilde
    return problem.penalty.prox(x_tilde, metric.prox_step(eta))


def direction(problem, metric, x, F, eta):
    """The `Direction` of the step from x along F."""
    target = None
    if problem.penalty is None:
        q, p = metric.apply(F), F
    else:
        # at the end of a schedule that falls to 0 nothing moves, but the stopping rule still has a length to look at
        target = proximal_point(problem, metric, x, F, eta or 1.0)
        q = (x - target) / (eta or 1.0)
        p = metric.apply_inverse(q)
        target = target if eta else None
    square = float(q.dot(p))
    return Direction(math.sqrt(square) if square >= 0 else math.nan, q, p, target)


def land(problem, metric, x, way, eta, normalization=None, precision=None):
    """Step 6 of Algorithm 1: x_t + gamma_t (x~ - x_t) with gamma_t = min(eta eps / |x~ - x|, 1/2).

    ``normalization`` "global" has one gamma for all x, "block" one for each block; None goes all the way, gamma = 1.
    ``way`` is a `Direction` found in ``metric``.
    """
    if normalization is None:
        return x - eta * way.q if way.target is None else way.target  # x~ itself: its zeros are exact
    if normalization == "global":
        return x - (eta * (min(0.5, precision / way.length) if way.length else 0.5)) * way.q
    lengths = metric.block_lengths(way.q, way.p, problem.n_blocks)
    gamma = np.minimum(0.5, precision / np.maximum(lengths, np.finfo(lengths.dtype).tiny))
    return x - eta * (gamma[:, None] * way.q.reshape(problem.n_blocks, -1)).ravel()
