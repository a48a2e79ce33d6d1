"""The point nearest to another one within bounds and a budget, in a diagonal norm: what penalties are made of."""

import numpy as np

__all__ = ["floating", "near_one", "soft", "within"]


def floating(x):
    """x as an array of floats: integers would cut off what a step or a projection makes of them."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def near_one(step):
    """The step, over a power of two that brings its largest entry to between .5 and 1.

    A projection depends on the ratios of the steps only. Divisions by a step near the end of the number range would
    overflow.
    """
    step = np.asarray(step, float)
    return np.ldexp(step, -np.frexp(step.max())[1])


def soft(x, threshold):
    """x moved towards 0 by the threshold, and not beyond it."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def within(box, x, step, shrink, bends):
    """The vector clip(shrink(x - step nu)) between the bounds of a `Box`, with nu such that its budget is met.

    Parameters
    ----------
    box : Box
    x : ndarray of shape (n_variables,)
    step : float or ndarray of shape (n_variables,)
    shrink : callable
        Of each coordinate: rising, piecewise linear with slopes 0 and 1.
    bends : list of float or ndarray of shape (n_variables,)
        Where the slope of clip(shrink(z)) changes.

    Returns
    -------
    ndarray of shape (n_variables,)
    """

    def at(nu):
        return np.clip(shrink(x - step * nu), box.low, box.high)

    x, step = floating(x), near_one(step)
    dtype, x = x.dtype, x.astype(float)
    solution = at(0.0)
    if box.budget is not None:
        for _ in range(3):
            nu = _multiplier(box, x, step, bends, lambda nu: at(nu).sum())
            solution = at(nu)
            if abs(solution.sum() - box.budget) <= 1e-12 * max(1.0, abs(box.budget)):
                break
            x = x - step * nu  # nu was as large as x, and rounded as such
    return solution.astype(dtype, copy=False)


def _multiplier(box, x, step, bends, total):
    """nu with total(nu) = budget, by bisection.

    total falls in nu, and is linear between the values where a coordinate meets a bound or a kink: bisection over
    those, then one interpolation, is exact.
    """
    kinks = np.sort(np.concatenate([np.ravel((x - bend) / step) for bend in bends]))
    kinks = kinks[np.isfinite(kinks)]
    first, last = 0, len(kinks) - 1
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if total(kinks[middle]) >= box.budget else (first, middle)
    a, b = (kinks[first], kinks[last]) if len(kinks) else (0.0, 0.0)
    over, under = total(a), total(b)
    if over >= box.budget >= under and over > under:
        part = (over - box.budget) / (over - under)  # from the nearer end, which rounds less
        return a + (b - a) * part if part < 0.5 else b - (b - a) * ((box.budget - under) / (over - under))
    # beyond the outermost kinks only the coordinates without a bound there move
    a, over, bound = (b, under, box.low) if under > box.budget else (a, over, box.high)
    slope = np.broadcast_to(np.where(np.isfinite(bound), 0.0, step), x.shape).sum()
    return a + (over - box.budget) / slope if slope else a
