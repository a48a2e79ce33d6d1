"""Islands of a map, and what the rows on each of them have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import label

from sk_stormc.utils.frames import column, columns_of, is_table

POINTS_A_CELL = 4  # mean number of points of a cell of the grid
LEAST, SHARE = 10, 0.01  # points of an island, at least, also as a share of all
SHOWN = 3  # columns in which an island differs most


def islands(Z: np.ndarray) -> np.ndarray:
    """The number of the island of each point, the largest first, or -1 for points on
    none.

    An island is a connected group of occupied cells of a square grid.
    """
    n = len(Z)
    side = max(int(np.sqrt(n / POINTS_A_CELL)), 2)
    low, width = Z.min(axis=0), np.ptp(Z, axis=0).max() or 1.0
    cells = np.minimum(((Z - low) / width * side).astype(int), side - 1)
    occupied = np.zeros((side,) * Z.shape[1], dtype=bool)
    occupied[tuple(cells.T)] = True
    groups, _ = label(occupied, np.ones((3,) * Z.shape[1]))
    group = groups[tuple(cells.T)]
    sizes = np.bincount(group)
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] >= max(LEAST, SHARE * n)]
    numbers = np.full(len(sizes), -1)
    numbers[order] = np.arange(len(order))
    return numbers[group]


def describe_islands(Z: np.ndarray, X: Any) -> list[dict]:
    """A row for each island and for each of the columns of X in which it differs most
    from the other points, in units of the column's standard deviation."""
    of_point, rows = islands(Z), []
    columns = list(_columns(X))
    for k in range(of_point.max() + 1):
        here = of_point == k
        if here.all():
            continue
        found = [_difference(values, here) for _, values in columns]
        order = np.argsort([-difference[0] for difference in found], kind="stable")
        rows += [
            {
                "island": k + 1,
                "points": int(here.sum()),
                "column": columns[j][0],
                "here": found[j][1],
                "elsewhere": found[j][2],
            }
            for j in order[:SHOWN]
            if found[j][0] > 0
        ]
    return rows


def _columns(X):
    """The names and the values of the columns of a table or an array."""
    if is_table(X):
        names = columns_of(X)
        for j, name in enumerate(names):
            yield name, np.asarray(column(X, j))
    else:
        for j, values in enumerate(np.asarray(X).T):
            yield f"column {j + 1}", values


def _difference(values, here):
    """How much the points of an island differ in a column, and what is compared: means
    of numbers, or the share of the value of a category that differs most."""
    if values.dtype.kind in "iufb":
        values = values.astype(float)
        known = np.isfinite(values)
        inside, outside = values[known & here], values[known & ~here]
        spread = values[known].std() if known.any() else 0.0
        if not spread > 0 or not inside.size or not outside.size:
            return 0.0, "", ""
        means = inside.mean(), outside.mean()
        return abs(means[0] - means[1]) / spread, f"{means[0]:.3g}", f"{means[1]:.3g}"
    texts = np.array([str(value) for value in values])
    best = 0.0, "", ""
    kinds, codes = np.unique(texts, return_inverse=True)
    if len(kinds) > len(texts) / 2:  # names
        return best
    inside = np.bincount(codes[here], minlength=len(kinds)) / here.sum()
    outside = np.bincount(codes[~here], minlength=len(kinds)) / (~here).sum()
    share = np.bincount(codes, minlength=len(kinds)) / len(codes)
    size = np.abs(inside - outside) / np.sqrt(np.maximum(share * (1 - share), 1e-12))
    if len(kinds) > 1:
        j = int(np.argmax(size))
        best = size[j], f"{inside[j]:.0%} {kinds[j]}", f"{outside[j]:.0%}"
    return best
