"""Sums of the Student-t kernel over all pairs of points in one or two dimensions, on a mesh, by Fourier transforms.

Points are spread over the nodes of a mesh by cubic B-splines. The sums at the nodes are a convolution with the kernel,
and they are interpolated at the points with the same splines. This is the particle-mesh method of molecular dynamics
(Essmann et al., "A smooth particle mesh Ewald method", 1995).
"""

import math

import numpy as np
from scipy import fft

from sk_stormc.embedding.convolution import EMPTY, Convolution
from sk_stormc.embedding.splines import Spread

__all__ = ["Mesh"]

SPACING = 0.5  # distance of nodes in units of the kernel's width, for a relative error of Z of about 1e-3
LEAST, MOST = 64, 4096  # smallest and largest number of cells along a side
RUNGS = 4  # number of allowed spacings for each factor of two
# Cost of a mesh cell and of a point on the mesh, in the time of a pair
CELL, POINT = 21, 350


class Mesh:
    """Sums over all pairs of points of k(D) = (1 + D / a)^-a, D = |x_i - x_j|^2, in one or two dimensions.

    Parameters
    ----------
    spacing : float, default=0.5
        Largest distance between two nodes. A map too wide for 4096 cells along a side has a coarser mesh.
    dof : float, default=1.0
        Degrees of freedom a. With a < 1 the kernel is narrower near 0, and the mesh is finer.

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
        """The sum over all pairs i != j, and the repulsive forces on the points."""
        if not np.isfinite(x).all():
            return math.nan, np.full_like(x, math.nan)
        points, total, potential = self._sums(x)
        return total, points.slopes(potential) * x.dtype.type(-0.5)

    def pays(self, x):
        """Whether sums on the mesh cost less than direct sums. They cost more for wide maps of few points."""
        if not np.isfinite(x).all():
            return True  # the mesh returns NaN at no cost
        low, high = _bounds(x)
        _, shape = _layout(high - low, self.spacing)
        return CELL * math.prod(shape) + POINT * len(x) < len(x) ** 2

    def total(self, x):
        """The sum Z, without the forces."""
        return self._sums(x)[1] if np.isfinite(x).all() else math.nan

    def _sums(self, x):
        """The points on the mesh, Z, and the potential at the nodes."""
        low, high = _bounds(x)
        spacing, shape = _layout(high - low, self.spacing)
        key = shape, spacing, x.dtype
        known = self._known  # read once, because another thread may replace it
        if known is None or known[0] != key:
            self._known = known = key, Convolution(shape, spacing, self.dof, x.dtype)
        points, convolution = Spread(x, low, spacing, shape), known[1]
        density = points.density()
        potential = convolution(density)
        total = float(np.vdot(density, potential))  # equals interpolation at the points, with the same splines
        return points, total + len(x) * (len(x) * convolution.taken_off - 1), potential


def _bounds(x):
    """The minimum and the maximum of each column."""
    return np.array([(c.min(), c.max()) for c in x.T]).T  # faster than axis=0 for a narrow array


def _layout(extent, spacing):
    """Spacing and shape of the mesh for a map of this extent.

    Only some spacings are allowed, so that the transform of the kernel can be reused in several iterations.
    """
    widest = float(extent.max()) or 1.0
    steps = RUNGS * math.log2(max(min(spacing, widest / LEAST), widest / MOST) / spacing)
    spacing *= 2 ** ((math.floor(steps) if steps < 0 else math.ceil(steps)) / RUNGS)
    return spacing, tuple(_length(int(side / spacing) + 4 + EMPTY) for side in extent)


def _length(least):
    """An even length with a fast transform. Few lengths are allowed, so that the kernel's transform can be reused."""
    step = 2 ** max(2, least.bit_length() - 5)
    return 2 * fft.next_fast_len(-(-least // (2 * step)) * step, real=True)
