"""An exact search for the nearest neighbours of all points among themselves, by matrix products in float32.

scikit-learn computes all distances in float64. Here float32 selects few candidates for each point, and only their
distances are computed in float64. A bound of the rounding error guarantees that no neighbour is missed.
"""

import numpy as np

from sk_stormc.utils.threads import each, parts

__all__ = ["nearest_by_products"]

LEAST_POINTS = 10_000  # with fewer points, or with more features, this is hardly faster
MOST_FEATURES, MOST_KEPT = 128, 400
ROWS, COLUMNS = 256, 8192  # size of a block of the product matrix, which stays in the cache
TASK = 8 * ROWS  # rows of a thread's task
UNSURE = 0.1  # fraction of undecided rows in a block above which scikit-learn is faster


def nearest_by_products(X, k):
    """Distances and indices of the nearest neighbours of each point, without the point itself."""
    n, d = X.shape
    kept = k + 1 + k // 4 + 8  # with the point itself, and a margin for rounding in float32
    if n < LEAST_POINTS or d > MOST_FEATURES or kept > min(MOST_KEPT, n / 32):
        return None
    X = X - X.mean(axis=0, dtype=float)
    size = np.abs(X).max()
    if not 1e-12 < size < 1e12:
        return None
    norms = np.einsum("ij,ij->i", X, X)
    single = X.astype(np.float32)
    # |x - y|^2 / 2 = |x|^2 / 2 - s(x, y), s = x.y - |y|^2 / 2
    right = np.vstack([single.T, -(norms / 2).astype(np.float32)])
    left = np.hstack([single, np.ones((n, 1), np.float32)])
    tiles = [(tile.start, np.ascontiguousarray(right[:, tile])) for tile in parts(n, COLUMNS)]
    rounding = (d + 4) * np.finfo(np.float32).eps
    stride = min(16, n // (32 * kept) + 1)
    sample, sampled = np.ascontiguousarray(right[:, ::stride]), int(kept / stride + 3 * np.sqrt(kept / stride)) + 1
    distances, neighbors = np.empty((n, k)), np.empty((n, k), np.int32)

    def block(rows, space, gathered):
        """Find the neighbours of some rows. Return the rows that are undecided in float32."""
        size = rows.stop - rows.start
        threshold = _largest(left[rows] @ sample, sampled)
        candidates, value = _candidates(left[rows], tiles, threshold, kept, space)
        order = np.argpartition(-value, kept - 1, axis=1)[:, :kept]
        near, value = np.take_along_axis(candidates, order, axis=1), np.take_along_axis(value, order, axis=1)
        difference = np.take(X, near, axis=0, out=gathered[:size], mode="clip")
        difference -= X[rows, None]
        square = np.einsum("ijk,ijk->ij", difference, difference)
        own = near == np.arange(rows.start, rows.stop)[:, None]
        square[own] = -1
        order = np.argsort(square, axis=1)[:, 1 : k + 1]
        neighbors[rows] = np.take_along_axis(near, order, axis=1)
        square = np.take_along_axis(square, order, axis=1)
        distances[rows] = np.sqrt(square)
        # the farthest neighbour must be nearer than any point that was not a candidate
        least, reach = value.min(axis=1), np.sqrt(norms[rows]) + distances[rows, -1]
        left_out = norms[rows] - 2 * (least + rounding * np.square(reach))
        wrong = (square[:, -1] >= left_out) | ~np.isfinite(least) | (own.sum(axis=1) != 1)
        return np.flatnonzero(wrong) + rows.start

    many = []  # blocks with many undecided rows

    def task(some):
        """The undecided rows of some blocks."""
        space, gathered, unsure = np.empty(ROWS * COLUMNS, np.float32), np.empty((ROWS, kept, d)), []
        for rows in parts(some.stop, ROWS, some.start):
            if not many:
                unsure.append(block(rows, space, gathered))
                if len(unsure[-1]) > UNSURE * (rows.stop - rows.start):
                    many.append(rows)
        return np.concatenate([np.empty(0, np.intp), *unsure])

    unsure = each(task, parts(n, TASK))
    return None if many else (distances, neighbors, np.concatenate(unsure))


def _largest(s, count):
    """The count-th largest value of each row."""
    return np.partition(s, s.shape[1] - count, axis=1)[:, s.shape[1] - count]


def _candidates(left, tiles, threshold, least, space):
    """Columns and values of the products >= each row's threshold, padded with column 0 and -inf."""
    found = []
    for first, right in tiles:
        width = right.shape[1]
        s = np.matmul(left, right, out=space[: len(left) * width].reshape(len(left), width))
        at = np.flatnonzero(s >= threshold[:, None])
        row, column = np.divmod(at, width)
        found.append((row, column + first, s.ravel()[at]))
    row, column, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    row, count = row[order], np.bincount(row, minlength=len(left))
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    width = max(least, count.max())
    columns, values = np.zeros((len(left), width), np.int32), np.full((len(left), width), -np.inf, np.float32)
    columns[row, place], values[row, place] = column[order], value[order]
    return columns, values
