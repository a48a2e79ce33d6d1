"""Projection on bounds and a budget in a diagonal norm, for the penalties."""

import numpy as np


def floating(x):
    """x as an array of floats, because integer arrays would truncate the result of a
    step or projection."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def near_one(step):
    """The step divided by a power of two, so that its largest entry is between 0.5 and
    1.

    A projection depends only on the ratios of the steps. Divisions by a very large or
    small step could overflow.
    """
    step = np.asarray(step, float)
    return np.ldexp(step, -np.frexp(step.max())[1])


def soft(x, threshold):
    """Soft thresholding: x moved towards 0 by the threshold, but not beyond 0."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def within(box, x, step, shrink, bends):
    """The vector clip(shrink(x - step nu)) between the bounds of a `Box`, with nu such
    that its budget is met."""

    def at(nu):
        return np.clip(shrink(x - step * nu), box.low, box.high)

    x, step = floating(x), near_one(step)
    dtype, x = x.dtype, x.astype(float)
    solution = at(0.0)
    if box.budget is not None:
        for _ in range(3):
            nu = _multiplier(box, x, step, bends, lambda nu: at(nu).sum())
            solution = at(nu)
            missing = abs(solution.sum() - box.budget)
            if missing <= 1e-12 * max(1.0, abs(box.budget)):
                break
            # repeat with the shifted x, because a large nu has a large rounding error
            x = x - step * nu
    return solution.astype(dtype, copy=False)


def _multiplier(box, x, step, bends, total):
    """nu with total(nu) = budget, by bisection.

    total is nonincreasing in nu, and linear between the values at which a coordinate
    meets a bound or a kink. Bisection over these values followed by one interpolation
    is exact.
    """
    kinks = np.sort(np.concatenate([np.ravel((x - bend) / step) for bend in bends]))
    kinks = kinks[np.isfinite(kinks)]
    first, last = 0, len(kinks) - 1
    while last - first > 1:
        middle = (first + last) // 2
        if total(kinks[middle]) >= box.budget:
            first = middle
        else:
            last = middle
    a, b = (kinks[first], kinks[last]) if len(kinks) else (0.0, 0.0)
    over, under = total(a), total(b)
    if over >= box.budget >= under and over > under:
        # interpolate from the nearer end, for less rounding
        part = (over - box.budget) / (over - under)
        if part < 0.5:
            return a + (b - a) * part
        return b - (b - a) * ((box.budget - under) / (over - under))
    # beyond the outermost kinks only coordinates without a bound change
    a, over, bound = (b, under, box.low) if under > box.budget else (a, over, box.high)
    slopes = np.where(np.isfinite(bound), 0.0, step)
    slope = np.broadcast_to(slopes, x.shape).sum()
    return a + (over - box.budget) / slope if slope else a
