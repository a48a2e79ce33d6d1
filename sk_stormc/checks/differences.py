"""Comparison of derivatives with central differences, entry by entry, for
`check_problem`."""

import math

import numpy as np

# Vectors of up to MAX_ENTRIES entries are compared entry by entry, and along
# N_DIRECTIONS random directions. This would take too long for longer ones, which are
# compared along MAX_ENTRIES directions.
MAX_ENTRIES = 100
N_DIRECTIONS = 4


def directions(rng, size):
    """Unit vectors and random vectors, or only random vectors if there are many
    entries."""
    if size > MAX_ENTRIES:
        return rng.standard_normal((MAX_ENTRIES, size))
    return np.vstack([np.eye(size), rng.standard_normal((N_DIRECTIONS, size))])


def differences(function, point, steps):
    """Changes of a function along each step, by differences of fourth order: the
    changes, the steps after rounding, and the tolerance of each change."""
    parts, eps = [], float(np.finfo(point.dtype).eps)
    for step in steps:
        ends = [point + c * step for c in (1, -1, 2, -2)]
        ends = np.array(ends).astype(point.dtype)
        values = np.array([np.ravel(function(z)) for z in ends], dtype=float)
        near, far = values[0] - values[1], values[2] - values[3]
        ends = ends.astype(float)
        way, way_2 = ends[0] - ends[1], ends[2] - ends[3]
        change, error = (8 * near - far) / 12, near / 2 - far / 4
        parts.append([change, (8 * way - way_2) / 12, error, np.abs(values)])
    change, way, error, size = (np.array(part) for part in zip(*parts, strict=True))
    rounding = eps * size.max((0, 1)) + _rounding(function, point)
    tolerance = 3 * np.abs(error).max(0) + 10 * rounding
    return change, way, tolerance + 10 * math.sqrt(eps) * np.abs(change)


def _rounding(function, point):
    """How much values of the function change if the entries of the point change by
    their own rounding.

    A function that subtracts large terms, such as a variance from moments, loses more
    than the last bits of its value.
    """
    eps = np.finfo(point.dtype).eps
    signs = np.random.default_rng(0).choice([-2, 2], (N_DIRECTIONS, point.size))
    moved = (point * (1 + eps * signs)).astype(point.dtype)
    values = [np.ravel(function(z)) for z in (point, *moved)]
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

    Each entry of the derivative is compared. With more than `MAX_ENTRIES` variables,
    random directions are compared first, and the entries only if a direction disagrees.
    A disagreement counts only if a shorter step confirms it.
    """
    eps = float(np.finfo(point.dtype).eps)
    step = eps**0.2 * np.broadcast_to(scale, point.shape)

    def compare(ways):
        """The largest disagreement along some steps: its index, actual and expected
        value, tolerance and step."""
        change, way, tolerance = differences(function, point, ways)
        if combine is not None:
            change, tolerance = change @ combine.T, tolerance @ np.abs(combine.T)
        actual = way @ derivative.T
        tolerance = np.broadcast_to(tolerance + noise, change.shape)
        k = worst(actual, change, tolerance)
        return k and (k, actual[k], change[k], tolerance[k], way[k[0]])

    def disagreement(ways):
        """The largest disagreement that a shorter step confirms, or None."""
        while len(ways) and (first := compare(ways)) is not None:
            row = first[0][0]
            # the points of this shorter step do not enclose the same kink
            if compare(0.15 * ways[row : row + 1]) is not None:
                return first
            ways = np.delete(ways, row, 0)
        return None

    all_ways, many = step * directions(rng, point.size), point.size > MAX_ENTRIES
    n_entries = 0 if many else point.size
    result = disagreement(all_ways[:n_entries]) or disagreement(all_ways[n_entries:])
    if result is not None and many:
        # a random direction does not show which entry is wrong
        starts = range(0, point.size, MAX_ENTRIES)
        found = (disagreement(np.diag(step)[k : k + MAX_ENTRIES]) for k in starts)
        result = next(filter(None, found), result)
    if result is None:
        return None
    (_, value), actual, change, tolerance, way = result
    variable, length = None, float(np.linalg.norm(way))
    if np.count_nonzero(way) == 1:
        variable = int(np.flatnonzero(way)[0])
        length = float(way[variable])
    return (value, variable), actual / length, change / length, tolerance / abs(length)
