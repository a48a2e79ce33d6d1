"""Cubic B-splines between points and a mesh: the points' density at the nodes, and interpolation at the points."""

import numpy as np

from sk_stormc.utils.threads import each, parts

__all__ = ["Spread"]

POINTS = 2**13  # points of a block, few enough to stay in the cache
SHARES = 4  # largest number of parts of the points that are spread in parallel


class Spread:
    """Points in one or two dimensions, each spread over its four nearest nodes along each axis.

    Parameters
    ----------
    x : ndarray of shape (n, d)
    low : ndarray of shape (d,)
        Minima of the columns of x.
    spacing : float
        Distance of neighbouring nodes.
    shape : tuple of int
        Shape of the mesh. It covers all points, with three more nodes along each axis.
    """

    def __init__(self, x, low, spacing, shape):
        (self.n, d), self.dtype = x.shape, x.dtype
        self.spacing, self.shape = spacing, shape
        self._splines = np.empty((d, 2, 4, self.n), x.dtype)  # for each axis, the weights and their derivatives
        self._first = np.zeros(self.n, np.intp)  # index of the first node of each point
        self._steps = (1,) if d == 1 else (shape[1], 1)  # distance in memory of neighbouring nodes along each axis

        def lay(rows):
            for column, least, step, both in zip(x.T, low, self._steps, self._splines, strict=True):
                place = (column[rows] - least) / x.dtype.type(spacing)
                corner = place.astype(np.int32)
                place -= corner.astype(x.dtype)  # without the cast, float32 would become float64
                both[:, :, rows] = _splines(place)
                self._first[rows] += corner.astype(np.intp) * step

        each(lay, parts(self.n, POINTS))

    def density(self):
        """The density of the points at the nodes."""
        d, size = len(self.shape), int(np.prod(self.shape))
        # parallel parts need a mesh each, which pays off if the mesh has few nodes compared with the points
        shares = max(1, min(SHARES, self.n * 4**d // (4 * size)))
        ahead = [np.arange(4) * step for step in self._steps]
        ahead = (ahead[0] if d == 1 else np.add.outer(*ahead)).reshape(-1, 1)

        def spread(rows):
            density = np.zeros(size, self.dtype)
            for some in parts(rows.stop, POINTS, rows.start):
                weights = [both[0, :, some] for both in self._splines]
                entries = weights[0] if d == 1 else weights[0][:, None] * weights[1]
                np.add.at(density, (self._first[some] + ahead).ravel(), entries.ravel())
            return density

        found = each(spread, parts(self.n, -(-self.n // shares)))
        density = found[0]
        for more in found[1:]:
            density += more
        return density.reshape(self.shape)

    def slopes(self, potential):
        """The derivatives at the points of a potential at the nodes, of shape (n, d)."""
        values, slopes = potential.reshape(-1), np.empty((self.n, len(self.shape)), self.dtype)

        def gather(rows):
            first = self._first[rows]
            splines = [both[:, :, rows] for both in self._splines]
            _, *along = _interpolated(values, first, self._steps, splines)
            for axis, slope in enumerate(along):
                np.divide(slope, self.dtype.type(self.spacing), out=slopes[rows, axis])

        each(gather, parts(self.n, POINTS))
        return slopes


def _interpolated(values, first, steps, splines):
    """The interpolated value at each point and its derivatives. ``first`` has the index of each point's first node."""
    (weights, slopes), *others = splines
    total = None
    for k in range(4):
        ahead = values[k * steps[0] :]
        if others:
            value, *along = _interpolated(ahead, first, steps[1:], others)
        else:
            value, along = ahead.take(first, mode="clip"), []
        parts_of = [weights[k] * value, slopes[k] * value, *(weights[k] * slope for slope in along)]
        if total is None:
            total = parts_of
        else:
            for whole, part in zip(total, parts_of, strict=True):
                whole += part
    return total


def _splines(t):
    """Cubic B-splines at the four nodes around each point, and their derivatives."""
    s, t2 = 1 - t, t * t
    t3 = t2 * t
    weights = np.stack([s * s * s, 3 * t3 - 6 * t2 + 4, 1 + 3 * (t + t2 - t3), t3])
    slopes = np.stack([-s * s, 3 * t2 - 4 * t, 1 + 2 * t - 3 * t2, t2])
    weights /= 6
    slopes /= 2
    return np.stack([weights, slopes])
