"""An approximate search for the nearest neighbours of all points among themselves, by
an inverted file.

k-means divides the points into cells (an inverted file). The cells nearest to a point's
own cell are searched first. They give an upper bound of the distance of its farthest
neighbour. The next cells are those whose centres are nearest to the point and not much
farther away than its own, in units of the bound. Only points within the bound are kept.
The number of cells is chosen by the recall on a sample whose true neighbours are
computed.

The points are processed in blocks of points that are close together. The coordinates
are relative to the centre of the block, so float32 is sufficient even if the blocks are
far apart. Neither the blocks nor the result depend on the number of threads.
"""

import math
from functools import cache

import numpy as np
from scipy import sparse

from sk_stormc.utils.machine import MATRIX_BYTES, TASK_NUMBERS
from sk_stormc.utils.threads import each, parts

TARGET_RECALL = 0.996  # for which the cells to search are chosen
# points whose neighbours are computed exactly, half to choose the cells and half to
# report the recall, which would be inaccurate with fewer
RECALL_SAMPLE = 512
BLOCK_POINTS = 4096  # points that are searched together, near to each other
EPS = float(np.finfo(np.float32).eps)


def approximate_neighbors(X, k, most):
    """Approximate nearest neighbours of each point, without the point itself. None if
    they are searched among more than the fraction ``most`` of the points."""
    # after scaling, squares neither overflow nor underflow
    unit = 2.0 ** np.frexp(float(np.abs(X).max()))[1]
    cells = Cells(X / X.dtype.type(unit))
    sample, true, reach = cells.exact_sample(k)
    *limits, share = cells.limits(sample[::2], true[::2])
    if share > most:
        return None
    squares, neighbors, unsure = cells.search(k, *limits)
    others = cells.order[sample[1::2]]
    # compare distances in float64 with a tolerance, so that ties count as found
    difference = X[neighbors[others]].astype(float) - X[others, None]
    distances = np.square(difference / unit).sum(axis=2)
    recall = float((distances <= reach[1::2, None] * (1 + 1e-6)).mean())
    return unit**2 * squares.astype(float), neighbors, unsure, recall


class Cells:
    """Points sorted by the cells of a k-means.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
        Points with coordinates between -1 and 1.

    Attributes
    ----------
    X : ndarray of shape (n_points, n_features)
        The points, sorted by cells. Cells that are close in space are close in this
        order.
    order : ndarray of shape (n_points,)
        Indices of the sorted points in the data.
    starts : ndarray of shape (n_cells + 1,)
        Index of the first point of each cell.
    """

    def __init__(self, X):
        n = len(X)
        # few points have smaller cells: larger ones would leave too many pairs
        n_cells = int(max(3 * np.sqrt(min(n, 20_000)), 1.5 * np.sqrt(n)))
        n_cells = max(1, min(n // 8, n_cells))
        # k-means is trained on 40 points for each cell
        chosen = np.random.RandomState(0).permutation(n)[: 40 * n_cells]
        training, first = np.sort(chosen), chosen[:n_cells]
        middles = _k_means(X[training].astype(np.float32), X[first].astype(np.float32))
        middles = middles[_along(middles)]
        self._lifted = _lifted(middles).T
        own = _nearest(X, self._lifted)
        self.order = np.argsort(own, kind="stable")
        self.own, self.X = own[self.order], X[self.order]
        self.sizes = np.bincount(own, minlength=n_cells)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self.near = _ranked(self._nearness(middles)).astype(np.int32)

    def _nearness(self, X):
        """Minus the squared distance from points to the centre of each cell, up to a
        constant for each point."""
        return _nearness(X, self._lifted)

    def exact_sample(self, k):
        """Some points, their true neighbours, and the squared distances of the
        farthest. Indices refer to X."""
        n = len(self.X)
        sample = np.unique(np.linspace(0, n - 1, min(n, RECALL_SAMPLE)).astype(int))
        some = parts(len(sample), MATRIX_BYTES // (4 * n))
        true = np.concatenate([self._true_neighbors(sample[rows], k) for rows in some])
        difference = self.X[true].astype(float) - self.X[sample, None]
        return sample, true, np.square(difference).sum(axis=2).max(axis=1)

    def _true_neighbors(self, sample, k):
        points, n = self.X[sample].astype(float), len(self.X)
        s = np.empty((len(sample), n), np.float32)
        true = np.empty((len(sample), k), np.intp)
        norms = np.square(points).sum(axis=1, keepdims=True)
        left = np.hstack([_with_ones(points), -norms])
        # a bound from every stride-th of n points leaves k stride of them
        stride = max(1, math.isqrt(n // k))

        def products(columns):
            s[:, columns] = left @ _with_ones(_lifted(self.X[columns].astype(float))).T

        def select(rows):
            bound = _kth_largest(s[rows, ::stride], k)
            for i, least in zip(range(rows.start, rows.stop), bound, strict=True):
                near = np.flatnonzero(s[i] >= least)
                true[i] = near[np.argpartition(-s[i, near], k - 1)[:k]]

        each(products, parts(n, BLOCK_POINTS))
        s[np.arange(len(sample)), sample] = -np.inf
        each(select, parts(len(sample), 16))
        return true

    def first_cells(self, cell, k):
        """A cell and the cells nearest to it, with enough points for a bound of the
        distance to the kth neighbour."""
        near = self.near[cell]
        count = np.searchsorted(np.cumsum(self.sizes[near]), 5 * k) + 1
        return near[:count]

    def _places(self, cells):
        return np.concatenate(
            [np.arange(self.starts[c], self.starts[c + 1]) for c in cells]
        )

    def _judged(self, sample, k):
        """Ranks of the cells by distance from each sample point, and their excess
        distances over the nearest cell."""
        nearness, bound = self._nearness(self.X[sample]), np.empty((len(sample), 1))
        for i, point in enumerate(sample):
            places = self._places(self.first_cells(self.own[point], k))
            difference = self.X[places].astype(float) - self.X[point]
            bound[i] = np.partition(np.square(difference).sum(axis=1), k)[k]
        return np.argsort(_ranked(nearness), axis=1), _farther(nearness, bound)

    def limits(self, sample, true):
        """The two parameters of the search, which are the number of nearest cells and
        the limit of their excess distance, and the mean fraction of all points that lie
        in the cells searched for a sample point."""
        of_cells = self._judged(sample, true.shape[1])
        rank, farther = (
            np.take_along_axis(a, self.own[true], axis=1) for a in of_cells
        )
        # half of the loss is due to each of the limits
        n_cells = int(np.quantile(rank, TARGET_RECALL**0.5, method="higher")) + 1
        inside = rank < n_cells
        within = min(1.0, TARGET_RECALL / inside.mean())
        limit = float(np.quantile(farther[inside], within, method="higher"))
        rank, farther = of_cells
        searched = (rank < n_cells) & (farther <= limit)
        return n_cells, limit, (searched @ self.sizes).mean() / len(self.X)

    def search(self, k, n_cells, limit):
        """Squared distances and neighbours of all points, in the order of the data, and
        the undecided points."""
        n = len(self.X)
        squares = np.empty((n, k), np.float32)
        neighbors = np.empty((n, k), np.int32 if n < 2**31 else np.int64)

        def block(rows):
            return self._block(rows, k, n_cells, limit, squares, neighbors)

        unsure = each(block, parts(n, BLOCK_POINTS))
        return squares, neighbors, np.sort(np.concatenate(unsure))

    def _block(self, rows, k, n_cells, limit, squares, neighbors):
        """Find the neighbours of a block of points. Return the undecided points."""
        X, size = self.X[rows], rows.stop - rows.start
        middle = X.mean(axis=0)
        left = _with_ones((X - middle).astype(np.float32))
        norms = np.einsum("ij,ij->i", left[:, :-1], left[:, :-1])

        @cache
        def right(cell):
            points = self.X[self.starts[cell] : self.starts[cell + 1]] - middle
            return _lifted(points.astype(np.float32)) / 2

        candidates, done, bound = [], [], np.empty(size, np.float32)
        for cell in range(self.own[rows.start], self.own[rows.stop - 1] + 1):
            own = self.starts[[cell, cell + 1]] - rows.start
            begin, end = np.clip(own, 0, size)
            cells = self.first_cells(cell, k)
            done.append((cells, slice(begin, end)))
            places = self._places(cells)
            opposite = np.concatenate([right(c) for c in cells]).T
            for some in parts(end, TASK_NUMBERS // len(places), begin):
                mine = np.arange(some.start, some.stop)
                s = left[mine] @ opposite
                s[places == (mine + rows.start)[:, None]] = -np.inf
                bound[mine] = _kth_largest(s, k)
                candidates.append(_those(s, bound[mine], mine, places))
        looked = np.empty((len(self.sizes), size), bool)
        reach = np.maximum(norms - 2 * bound, 0)[:, None]
        for some in parts(size, TASK_NUMBERS // len(self.sizes)):
            nearness = self._nearness(X[some])
            near = nearness >= _kth_largest(nearness, n_cells)[:, None]
            looked[:, some] = (near & (_farther(nearness, reach[some]) <= limit)).T
        for cells, mine in done:
            looked[cells, mine] = False
        # plus rounding errors, or copies of the farthest neighbour would be collected
        bound += 2 * EPS * norms
        for cell in np.flatnonzero(looked.any(axis=1) & (self.sizes > 0)):
            places, looking = self._places([cell]), np.flatnonzero(looked[cell])
            for some in parts(len(looking), TASK_NUMBERS // len(places)):
                mine = looking[some]
                s = left[mine] @ right(cell).T
                candidates.append(_those(s, bound[mine], mine, places))
        row, place, s = (np.concatenate(part) for part in zip(*candidates, strict=True))
        here = self.order[rows]
        square = np.maximum(norms[row] - 2 * s, 0)
        squares[here], neighbors[here] = _best(row, square, self.order[place], size, k)
        # rounding of a thousandth may change which points are neighbours
        return here[np.flatnonzero(8 * EPS * norms > 1e-3 * squares[here, -1])]


def _k_means(X, middles):
    """Centres of cells by a few of Lloyd's iterations. The centre of an empty cell does
    not move.

    scikit-learn's KMeans is not used, because its result depends on the number of
    threads (order of summation).
    """
    for _ in range(6):
        own = _nearest(X, _lifted(middles).T)
        count = np.bincount(own, minlength=len(middles))[:, None]
        ones, pointer = np.ones(len(X), X.dtype), np.arange(len(X) + 1)
        of_cell = sparse.csr_array((ones, own, pointer), (len(X), len(middles)))
        means = of_cell.T @ X / np.maximum(count, 1, dtype=X.dtype)
        middles = np.where(count > 0, means, middles)
    return middles


def _nearness(X, lifted):
    """Minus the squared distance from points to each centre, up to a constant for each
    point."""
    return _with_ones(X.astype(np.float32, copy=False)) @ lifted


def _nearest(X, lifted):
    """The index of the centre nearest to each point."""
    own = np.empty(len(X), np.int32)

    def assign(rows):
        own[rows] = _nearness(X[rows], lifted).argmax(axis=1)

    each(assign, parts(len(X), TASK_NUMBERS // lifted.shape[1]))
    return own


def _ranked(nearness):
    """The indices of the cells of each row, the nearest first."""
    return np.argsort(-nearness, axis=1, kind="stable")


def _kth_largest(s, k):
    """The kth largest number of each row."""
    place = s.shape[1] - k
    return np.partition(s, place, axis=1)[:, place]


def _with_ones(X):
    return np.hstack([X, np.ones((len(X), 1), X.dtype)])


def _lifted(X):
    """The row (2 y, -|y|^2) for each row y. Its product with (x, 1) is -|x - y|^2 +
    |x|^2."""
    return np.hstack([2 * X, -np.einsum("ij,ij->i", X, X)[:, None]])


def _farther(nearness, bound):
    """The excess squared distance of each cell over the nearest cell, in units of the
    bound (a squared distance)."""
    gap = nearness.max(axis=1, keepdims=True) - nearness
    return gap / np.maximum(bound, 1e-30).astype(gap.dtype)


def _along(points):
    """An order in which close points are mostly adjacent, by repeated halving along the
    widest axis."""
    n = len(points)
    if n <= 8:
        return np.arange(n)
    order = np.argsort(points[:, np.argmax(np.ptp(points, axis=0))], kind="stable")
    halves = order[: n // 2], order[n // 2 :]
    return np.concatenate([half[_along(points[half])] for half in halves])


def _those(s, bound, rows, places):
    """Rows, places and values of the products that are at least the bound of their
    row."""
    at = np.flatnonzero(s >= bound[:, None])
    row, column = np.divmod(at.astype(np.int32), np.int32(s.shape[1]))
    return rows[row].astype(np.uint16), places[column], s.ravel()[at]


def _best(row, square, neighbor, size, k):
    """The k nearest candidates of each row, sorted. Among ties, the candidates with the
    smallest index."""
    order = np.argsort(row, kind="stable")
    row, count = row[order], np.bincount(row, minlength=size)
    begin = np.cumsum(count) - count
    # floats that are not negative have the order of their bits
    high = square[order].view(np.uint32).astype(np.uint64) << np.uint64(32)
    key = high | neighbor[order].astype(np.uint64)
    # rows with many candidates are reduced separately, as they would need a wide array
    width = int(min(count.max(), 6 * k))
    candidates = np.full((size, width), np.iinfo(np.uint64).max)
    place = np.arange(len(row)) - begin[row]
    kept = place < width
    candidates[row[kept], place[kept]] = key[kept]
    for i in np.flatnonzero(count > width):
        own = key[begin[i] : begin[i] + count[i]]
        candidates[i] = np.partition(own, width - 1)[:width]
    best = np.sort(np.partition(candidates, k - 1, axis=1)[:, :k], axis=1)
    squares = (best >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return squares, best & np.uint64(2**32 - 1)
