"""Sums of the Student-t kernel over all pairs of points in one or two dimensions, on a mesh, by one pair of FFTs.

Points are spread over the nodes of a mesh by cubic B-splines, the kernel is summed there as a convolution, and the sums
are gathered with the same splines: the particle mesh of molecular dynamics (Essmann et al., "A smooth particle mesh
Ewald method", 1995).
"""

import math

import numpy as np
from scipy import fft, sparse

from sk_stormc.embedding.kernels import StudentT
from sk_stormc.utils.threads import each, n_threads, parts

__all__ = ["Mesh"]

SPACING = 0.5  # of the nodes, in units of the kernel's width; Z is then right to about 1e-3
LEAST, MOST = 64, 4096  # cells a side
RUNGS = 4  # spacings for each factor of two
POINTS, CELLS = 2**13, 2**18  # of a thread at a time: few enough points to stay in the cache
SHARES = 4  # of the points, at most, that are spread at the same time
CELL, POINT = 7, 350  # pairs that are taken in the time of a cell of the mesh, and of a point on it


class Mesh:
    """Sums over all pairs of points of k(D) = (1 + D / a)^-a, D = |x_i - x_j|^2, in one or two dimensions.

    Parameters
    ----------
    spacing : float, default=0.5
        Largest distance between two nodes. A map too wide for 4096 cells a side has a coarser mesh.
    dof : float, default=1.0
        a. The mesh is finer for kernels that are narrower near 0, a < 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.embedding.mesh import Mesh
    >>> total, forces = Mesh(spacing=0.2)(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(total, 3), (forces.round(2) + 0.0).tolist()
    (1.0, [[-0.25, 0.0], [0.25, 0.0]])
    """

    def __init__(self, spacing=SPACING, dof=1.0):
        self.spacing, self.dof = spacing * min(1.0, math.sqrt(dof)), dof
        self._known = None  # shape, spacing and precision of the last mesh, and its kernel

    def __call__(self, x):
        """The sum over all pairs i != j, and what pushes each point away from the others.

        Parameters
        ----------
        x : ndarray of shape (n, d)

        Returns
        -------
        total : float
            Z = sum_{i != j} k(D_ij).
        forces : ndarray of shape (n, d)
            sum_j -k'(D_ij) (x_i - x_j): -1/4 of the exact gradient of this Z, for a mesh that does not move.
        """
        if not np.isfinite(x).all():
            return math.nan, np.full_like(x, math.nan)
        points = _Spread(x, self.spacing)
        kernel, taken_off = self._kernel(points)
        density = points.density()
        potential = points.sums(_filtered(points.waves(density), kernel))
        total = float(np.vdot(density, potential))  # what gathering would give, since both use the same splines
        return total + len(x) * (len(x) * taken_off - 1), points.slopes(potential) * x.dtype.type(-0.5)

    def pays(self, x):
        """Whether sums on the mesh cost less than those over pairs: they do not where few points make a wide map.

        Parameters
        ----------
        x : ndarray of shape (n, d)

        Returns
        -------
        bool
        """
        if not np.isfinite(x).all():
            return True  # there is nothing to sum
        low, high = _bounds(x)
        _, shape = _layout(high - low, self.spacing)
        return CELL * math.prod(shape) + POINT * len(x) < len(x) ** 2

    def total(self, x):
        """Z alone: by Parseval's theorem it needs no transform back.

        Parameters
        ----------
        x : ndarray of shape (n, d)

        Returns
        -------
        float
        """
        if not np.isfinite(x).all():
            return math.nan
        points = _Spread(x, self.spacing)
        kernel, taken_off = self._kernel(points)
        waves = points.waves(points.density())
        power = np.square(waves.real)
        power += np.square(waves.imag)
        power = _filtered(power, kernel)
        twice = 2 * power.sum(dtype=float) - power[..., 0].sum(dtype=float) - power[..., -1].sum(dtype=float)
        # all waves along the last axis but the first and the last come in pairs
        return float(twice) / math.prod(points.shape) + len(x) * (len(x) * taken_off - 1)

    def _kernel(self, points):
        """The kernel's transform, divided by the square of the splines': spreading and gathering smooth it twice.

        The kernel's least value is taken off first: on a small map it is nearly 1 everywhere, and forces would drown in
        the rounding of a large constant.
        """
        key = points.shape, points.spacing, points.dtype
        known = self._known  # another thread may have another shape
        if known is None or known[0] != key:

            def along(axis, values):
                return values.reshape([-1 if k == axis else 1 for k in range(len(points.shape))])

            D = 0.0
            for axis, length in enumerate(points.shape):
                D = D + along(axis, np.square(np.arange(length // 2 + 1) * points.spacing))
            kernel = StudentT(self.dof).value(StudentT(self.dof).base(D))
            taken_off = float(kernel.min())
            kernel -= taken_off
            # the kernel is even: the cosine transform of a quarter of the mesh is the Fourier transform of all
            kernel = fft.dctn(kernel.astype(points.dtype), type=1, overwrite_x=True, workers=n_threads())
            for axis, length in enumerate(points.shape):
                smooth = (2 + np.cos(2 * np.pi * np.arange(kernel.shape[axis]) / length)) / 3
                kernel /= along(axis, np.square(smooth).astype(points.dtype))
            self._known = known = key, (kernel, taken_off)
        return known[1]


class _Spread:
    """Points on a mesh that is twice as long as the map each way, so that sums do not wrap around.

    Attributes
    ----------
    spacing : float
    shape, nodes : tuple of int
        Of the whole mesh, and of the part that holds the map.
    """

    def __init__(self, x, spacing):
        self.n, d = x.shape
        self.dtype = x.dtype
        low, high = _bounds(x)
        self.spacing, self.shape = _layout(high - low, spacing)
        self.nodes = tuple(length // 2 for length in self.shape)
        self._splines = np.empty((d, 2, self.n, 4), x.dtype)
        self._index = np.empty((self.n, 4**d), np.int32)
        four = np.arange(4, dtype=np.int32)

        def lay(rows):
            place = (x[rows] - low) / x.dtype.type(self.spacing)
            corner = place.astype(np.int32)
            place -= corner.astype(x.dtype)  # of integers themselves it would be float64, and all that follows
            for both, t in zip(self._splines, place.T, strict=True):
                both[0, rows], both[1, rows] = _splines(t)
            index = corner[:, 0, None] + four
            if d == 2:
                index = (index * self.nodes[1])[:, :, None] + (corner[:, 1, None] + four)[:, None]
            self._index[rows] = index.reshape(len(index), -1)

        each(lay, parts(self.n, POINTS))

    def stencil(self, rows=slice(None), slope=None):
        """The matrix from nodes to some points of the splines, or of their derivative along an axis."""
        factors = [both[int(axis == slope), rows] for axis, both in enumerate(self._splines)]
        entries = factors[0] if len(factors) == 1 else factors[0][:, :, None] * factors[1][:, None]
        n, width = len(entries), self._index.shape[1]
        data = entries.reshape(-1), self._index[rows].reshape(-1), np.arange(0, n * width + 1, width, dtype=np.int32)
        return sparse.csr_array(data, shape=(n, math.prod(self.nodes)))

    def density(self):
        """How much of the points each node has."""
        # a mesh of its own for each share is worth it where it has few nodes beside the points
        shares = max(1, min(SHARES, self._index.size // (4 * math.prod(self.nodes))))
        found = each(
            lambda rows: self.stencil(rows).T @ np.ones(rows.stop - rows.start, self.dtype),
            parts(self.n, -(-self.n // shares)),
        )
        density = found[0]
        for more in found[1:]:
            density += more
        return density.reshape(self.nodes)

    def slopes(self, potential):
        """The derivatives at the points of what is known at the nodes, (n, d)."""
        values, slopes = potential.reshape(-1), np.empty((self.n, len(self.shape)), self.dtype)

        def gather(rows):
            for axis in range(len(self.shape)):
                slopes[rows, axis] = self.stencil(rows, slope=axis) @ values
            slopes[rows] /= self.dtype.type(self.spacing)

        each(gather, parts(self.n, POINTS))
        return slopes

    def waves(self, density):
        """The density's transform; rows that are empty are left out along the first axis."""
        workers = n_threads()
        waves = fft.rfft(density, self.shape[-1], axis=-1, workers=workers)
        if len(self.shape) == 1:
            return waves
        return fft.fft(waves, self.shape[0], axis=0, overwrite_x=True, workers=workers)

    def sums(self, waves):
        """Back to the nodes that hold the map."""
        workers = n_threads()
        if len(self.shape) == 2:
            waves = fft.ifft(waves, axis=0, overwrite_x=True, workers=workers)[: self.nodes[0]]
        return fft.irfft(waves, self.shape[-1], axis=-1, workers=workers)[..., : self.nodes[-1]]


def _filtered(waves, kernel):
    """Waves times the kernel's, in place: fresh memory of that size costs as much as the product.

    Along the first axis of two the negative waves follow the positive ones.
    """
    half = kernel.shape[0]

    def filter_(rows):
        waves[rows] *= kernel[rows]

    def filter_negative(rows):
        waves[half + rows.start : half + rows.stop] *= kernel[half - 2 - rows.start : half - 2 - rows.stop : -1]

    size = CELLS // kernel[0].size
    each(filter_, parts(half, size))
    if waves.ndim == 2:
        each(filter_negative, parts(half - 2, size))
    return waves


def _bounds(x):
    """The least and the largest of each column."""
    return np.array([(c.min(), c.max()) for c in x.T]).T  # along the first axis of a narrow array it takes longer


def _layout(extent, spacing):
    """Spacing and shape of the mesh for a map of this extent.

    The spacing is one of few, so that the kernel's transform serves for several iterations while a map is small.
    """
    widest = float(extent.max()) or 1.0
    steps = RUNGS * math.log2(max(min(spacing, widest / LEAST), widest / MOST) / spacing)
    spacing *= 2 ** ((math.floor(steps) if steps < 0 else math.ceil(steps)) / RUNGS)
    return spacing, tuple(_length(2 * (int(side / spacing) + 4)) for side in extent)


def _length(least):
    """An even length that transforms fast, one of few: the kernel's transform stays while the map grows a little."""
    step = 2 ** max(2, least.bit_length() - 5)
    return 2 * fft.next_fast_len(-(-least // (2 * step)) * step, real=True)


def _splines(t):
    """Cubic B-splines at the four nodes around each point, and their derivatives.

    Parameters
    ----------
    t : ndarray of shape (n,)
        In [0, 1]: where a point lies between the second node and the third.

    Returns
    -------
    weights, slopes : ndarray of shape (n, 4)
    """
    s, t2 = 1 - t, t * t
    t3 = t2 * t
    weights = np.stack([s * s * s, 3 * t3 - 6 * t2 + 4, 1 + 3 * (t + t2 - t3), t3], axis=1) / 6
    return weights, np.stack([-s * s, 3 * t2 - 4 * t, 1 + 2 * t - 3 * t2, t2], axis=1) / 2
