"""Comparison of derivatives with central differences, entry by entry, for
`check_problem`."""

import math

import numpy as np

__all__ = ["MANY", "RANDOM", "directions", "worst", "wrong_slope"]

MANY, RANDOM = (
    100,
    4,
    # vectors of up to MANY entries are compared entry by entry, and along RANDOM
    # directions
)
# relative step of a second difference, whose points do not enclose the same kink
SECOND_LOOK = 0.15


def directions(rng, size):
    """Unit vectors and random vectors, or only random vectors if there are many
    entries."""
    random = rng.standard_normal((MANY if size > MANY else RANDOM, size))
    return random if size > MANY else np.vstack([np.eye(size), random])


def differences(function, point, steps):
    """Changes of a function along each step, by differences of fourth order."""
    parts, eps = [], float(np.finfo(point.dtype).eps)
    for step in steps:
        ends = np.array([point + c * step for c in (1, -1, 2, -2)]).astype(point.dtype)
        values = np.array([np.ravel(function(z)) for z in ends], dtype=float)
        (near, far), (way, way_2) = (
            (v[0] - v[1], v[2] - v[3]) for v in (values, ends.astype(float))
        )
        parts.append(
            [
                (8 * near - far) / 12,
                (8 * way - way_2) / 12,
                near / 2 - far / 4,
                np.abs(values),
            ]
        )
    change, way, error, size = (np.array(part) for part in zip(*parts, strict=True))
    tolerance = (
        3 * np.abs(error).max(0)
        + 10 * eps * size.max((0, 1))
        + 10 * _rounding(function, point)
    )
    return change, way, tolerance + 10 * math.sqrt(eps) * np.abs(change)


def _rounding(function, point):
    """How much values of the function change if the entries of the point change by
    their own rounding.

    A function that subtracts large terms, such as a variance from moments, loses more
    than the last bits of its value.
    """
    eps, signs = (
        np.finfo(point.dtype).eps,
        np.random.default_rng(0).choice([-2, 2], (RANDOM, point.size)),
    )
    values = [
        np.ravel(function(z.astype(point.dtype)))
        for z in (point, *(point * (1 + eps * signs)))
    ]
    return np.ptp(np.array(values, dtype=float), axis=0)


def worst(actual, expected, tolerance):
    """Index of the entry that exceeds its tolerance most, or None if no entry exceeds
    it."""
    difference = np.abs(np.asarray(actual, float) - np.asarray(expected, float))
    excess = np.where(np.isnan(difference), np.inf, difference - tolerance)
    k = np.unravel_index(np.argmax(excess), excess.shape)
    return tuple(int(i) for i in k) if excess[k] > 0 else None


def wrong_slope(derivative, function, point, scale, rng, combine=None, noise=0.0):
    """Find an entry or a direction for which a derivative and central differences
    disagree.

    Each entry of the derivative is compared. With more than `MANY` variables, random
    directions are compared first, and the entries only if a direction disagrees. A
    disagreement counts only if a shorter step confirms it.
    """
    step = float(np.finfo(point.dtype).eps) ** 0.2 * np.broadcast_to(scale, point.shape)

    def compare(ways):
        """The largest disagreement along some steps: its index, actual and expected
        value, tolerance and step."""
        change, way, tolerance = differences(function, point, ways)
        if combine is not None:
            change, tolerance = change @ combine.T, tolerance @ np.abs(combine.T)
        actual, tolerance = (
            way @ derivative.T,
            np.broadcast_to(tolerance + noise, change.shape),
        )
        k = worst(actual, change, tolerance)
        return k and (k, actual[k], change[k], tolerance[k], way[k[0]])

    def disagreement(ways):
        """The largest disagreement that a shorter step confirms, or None."""
        while len(ways) and (first := compare(ways)) is not None:
            row = first[0][0]
            if compare(SECOND_LOOK * ways[row : row + 1]) is not None:
                return first
            ways = np.delete(ways, row, 0)
        return None

    all_ways = step * directions(rng, point.size)
    entries = all_ways[:-RANDOM] if point.size <= MANY else np.empty((0, point.size))
    result = disagreement(entries) or disagreement(all_ways[len(entries) :])
    if (
        result is not None and point.size > MANY
    ):  # a random direction does not show which entry is wrong
        rows = (np.diag(step)[k : k + MANY] for k in range(0, point.size, MANY))
        result = next(
            (wrong for block in rows if (wrong := disagreement(block)) is not None),
            result,
        )
    if result is None:
        return None
    (_, value), actual, change, tolerance, way = result
    moved = np.flatnonzero(way)
    length = float(way[moved[0]]) if len(moved) == 1 else float(np.linalg.norm(way))
    variable = int(moved[0]) if len(moved) == 1 else None
    return (value, variable), actual / length, change / length, tolerance / abs(length)
