"""Sums of the Student-t kernel over all pairs of points in one or two dimensions, on a mesh, by one pair of FFTs.

Points are spread over the nodes of a mesh by cubic B-splines, the kernel is summed there as a convolution, and the sums
are gathered with the same splines: the particle mesh of molecular dynamics (Essmann et al., "A smooth particle mesh
Ewald method", 1995).
"""

import math

import numpy as np
from scipy import fft, sparse

__all__ = ["Mesh"]

SPACING = 0.5  # of the nodes, in units of the kernel's width; Z is then right to about 1e-3
LEAST, MOST = 64, 4096  # cells a side


class Mesh:
    """Sums over all pairs of points of the kernel k(D) = 1 / (1 + D), D = |x_i - x_j|^2, in one or two dimensions.

    Parameters
    ----------
    spacing : float, default=0.5
        Largest distance between two nodes. A map too wide for 4096 cells a side has a coarser mesh.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.embedding.mesh import Mesh
    >>> total, forces = Mesh(spacing=0.2)(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(total, 3), (forces.round(2) + 0.0).tolist()
    (1.0, [[-0.25, 0.0], [0.25, 0.0]])
    """

    def __init__(self, spacing=SPACING):
        self.spacing = spacing
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
            sum_j k(D_ij)^2 (x_i - x_j): -1/4 of the exact gradient of this Z, for a mesh that does not move.
        """
        if not np.isfinite(x).all():
            return math.nan, np.full_like(x, math.nan)
        points = _Spread(x, self.spacing)
        kernel, taken_off = self._kernel(points)
        waves = points.waves()
        waves *= kernel  # in place: fresh memory of that size costs as much as the product
        potential = points.sums(waves)
        total = float((points.stencil() @ potential).sum(dtype=float))
        forces = np.empty_like(x)
        for axis in range(x.shape[1]):
            forces[:, axis] = points.stencil(slope=axis) @ potential
        forces *= x.dtype.type(-0.5 / points.spacing)
        return total + len(x) * (len(x) * taken_off - 1), forces

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
        waves = points.waves()
        power = np.square(waves.real)
        power += np.square(waves.imag)
        power *= kernel
        twice = 2 * power.sum(dtype=float) - power[..., 0].sum(dtype=float)  # all waves but the first come in pairs,
        if points.shape[-1] % 2 == 0:
            twice -= power[..., -1].sum(dtype=float)  # and but the last of an even length
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
                step = np.arange(length)
                D = D + along(axis, np.square(np.minimum(step, length - step) * points.spacing))
            kernel = 1 / (1 + D)
            taken_off = float(kernel.min())
            kernel = fft.rfftn((kernel - taken_off).astype(points.dtype)).real
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
        low = x.min(axis=0)
        extent = x.max(axis=0) - low
        widest = float(extent.max()) or 1.0
        self.spacing = max(min(spacing, widest / LEAST), widest / MOST)
        self.shape = tuple(_length(2 * (int(side / self.spacing) + 4)) for side in extent)
        self.nodes = tuple(-(-length // 2) for length in self.shape)
        place = (x - low) / x.dtype.type(self.spacing)
        corner = place.astype(np.int32)
        self._splines = [_splines(t) for t in (place - corner).T]
        four = np.arange(4, dtype=np.int32)
        index = corner[:, 0, None] + four
        if d == 2:
            index = (index * self.nodes[1])[:, :, None] + (corner[:, 1, None] + four)[:, None]
        self._index, self._pointer = index.reshape(-1), np.arange(0, index.size + 1, 4**d, dtype=np.int32)

    def stencil(self, slope=None):
        """The matrix from nodes to points of the splines, or of their derivative along an axis."""
        factors = [both[axis == slope] for axis, both in enumerate(self._splines)]
        entries = factors[0] if len(factors) == 1 else factors[0][:, :, None] * factors[1][:, None]
        data = entries.reshape(-1), self._index, self._pointer
        return sparse.csr_array(data, shape=(self.n, math.prod(self.nodes)))

    def waves(self):
        """The transform of the points' density; rows that are empty are left out along the first axis."""
        density = (self.stencil().T @ np.ones(self.n, self.dtype)).reshape(self.nodes)
        waves = fft.rfft(density, self.shape[-1], axis=-1)
        return waves if len(self.shape) == 1 else fft.fft(waves, self.shape[0], axis=0, overwrite_x=True)

    def sums(self, waves):
        """Back to the nodes that hold the map."""
        if len(self.shape) == 2:
            waves = fft.ifft(waves, axis=0, overwrite_x=True)[: self.nodes[0]]
        return fft.irfft(waves, self.shape[-1], axis=-1)[..., : self.nodes[-1]].reshape(-1)


def _length(least):
    """A length that transforms fast, one of few: the kernel's transform stays as it is while the map grows a little."""
    step = 2 ** max(3, least.bit_length() - 4)
    return fft.next_fast_len(-(-least // step) * step, real=True)


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
