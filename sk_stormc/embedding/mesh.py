"""Sums of the Student-t kernel over all pairs of points in one or two dimensions, on a mesh, by Fourier transforms.

Points are spread over the nodes of a mesh by cubic B-splines, the kernel is summed there as a convolution, and the sums
are gathered with the same splines: the particle mesh of molecular dynamics (Essmann et al., "A smooth particle mesh
Ewald method", 1995).
"""

import math

import numpy as np
from scipy import fft

from sk_stormc.embedding.convolution import EMPTY, Convolution
from sk_stormc.embedding.splines import Spread

__all__ = ["Mesh"]

SPACING = 0.5  # of the nodes, in units of the kernel's width; Z is then right to about 1e-3
LEAST, MOST = 64, 4096  # cells a side
RUNGS = 4  # spacings for each factor of two
CELL, POINT = 21, 350  # pairs that are taken instead of a cell of the mesh, and of a point on it. By time a cell is 10:
# the rest is for pairs being exact, where forces of the mesh are wrong by a fifth on wide maps of few points


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
        points, total, potential = self._sums(x)
        return total, points.slopes(potential) * x.dtype.type(-0.5)

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
        """Z alone.

        Parameters
        ----------
        x : ndarray of shape (n, d)

        Returns
        -------
        float
        """
        return self._sums(x)[1] if np.isfinite(x).all() else math.nan

    def _sums(self, x):
        """The points on the mesh, Z, and the sums at the nodes."""
        low, high = _bounds(x)
        spacing, shape = _layout(high - low, self.spacing)
        key = shape, spacing, x.dtype
        known = self._known  # another thread may have another shape
        if known is None or known[0] != key:
            self._known = known = key, Convolution(shape, spacing, self.dof, x.dtype)
        points, convolution = Spread(x, low, spacing, shape), known[1]
        density = points.density()
        potential = convolution(density)
        total = float(np.vdot(density, potential))  # what gathering would give, since both use the same splines
        return points, total + len(x) * (len(x) * convolution.taken_off - 1), potential


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
    return spacing, tuple(_length(int(side / spacing) + 4 + EMPTY) for side in extent)


def _length(least):
    """An even length that transforms fast, one of few: the kernel's transform stays while the map grows a little."""
    step = 2 ** max(2, least.bit_length() - 5)
    return 2 * fft.next_fast_len(-(-least // (2 * step)) * step, real=True)
