"""Sums of the Student-t kernel over all pairs of points in one or two dimensions, on a
mesh, by Fourier transforms.

Cubic B-splines spread the points over the nodes of a mesh. The sums at the nodes are a
convolution with the kernel, and the same splines interpolate them at the points. This
is the particle-mesh method of molecular dynamics (Essmann et al., "A smooth particle
mesh Ewald method", 1995).

The sums at the nodes include the action of each point on itself, which is not constant:
it has a maximum at the nodes. Its slopes would pull all points towards the nodes, so
that a map would have the density of a lattice.
"""

import math
from functools import reduce

import numpy as np
from scipy import fft

from sk_stormc.embedding.convolution import PADDING_NODES, Convolution
from sk_stormc.utils.machine import CACHE_NUMBERS
from sk_stormc.utils.threads import each, parts

MAX_CELLS = 4096  # along a side of a mesh, whose memory a wide map would exhaust


class Mesh:
    """Sums over all pairs of points of k(D) = (1 + D / a)^-a, D = |x_i - x_j|^2, in one
    or two dimensions.

    Parameters
    ----------
    spacing : float, default=0.5
        Largest distance between two nodes, in units of the kernel's width. With .5, Z
        has a relative error below 1e-4. A map too wide for 4096 cells along a side
        has a coarser mesh.
    dof : float, default=1.0
        Degrees of freedom a. With a < 1 the kernel is narrower near 0, and the mesh is
        finer.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.embedding.mesh import Mesh
    >>> total, forces = Mesh(spacing=0.2)(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(total, 3), (forces.round(2) + 0.0).tolist()
    (1.0, [[-0.25, 0.0], [0.25, 0.0]])
    """

    def __init__(self, spacing=0.5, dof=1.0):
        self.spacing, self.dof = spacing * min(1.0, math.sqrt(dof)), dof
        # shape, spacing and precision of the last mesh; its kernel, and what a point
        # contributes to its own sum
        self._known = None, None

    def __call__(self, x):
        """The sum over all pairs i != j, and the repulsive forces on the points."""
        low, spacing, shape = _layout(x, self.spacing)
        key = shape, spacing, x.dtype
        known, sums = self._known  # another thread may replace it
        if known != key:
            convolution = Convolution(shape, spacing, self.dof, x.dtype)
            sums = convolution, _self_potential(convolution, x.dtype)
            self._known = key, sums
        convolution, (mean, amplitudes) = sums
        n, places = len(x), _places(x, low, spacing, shape)
        density = _density(*places, shape)
        potential = convolution(density)
        # equal to interpolation at the points, with the same splines
        total = float(np.vdot(density, potential))
        total += n * ((n - 1) * convolution.taken_off - mean)
        slopes = _slopes(*places, potential, spacing)
        for axis, harmonics in enumerate(amplitudes):
            for order, amplitude in enumerate(harmonics, start=1):
                frequency = x.dtype.type(2 * np.pi * order / spacing)
                phase = frequency * (x[:, axis] - low[axis])
                total -= float(amplitude * np.cos(phase).sum(dtype=float))
                # half of the derivative: the total has the pair (i, i) once
                slopes[:, axis] += amplitude * frequency / 2 * np.sin(phase)
        return total, slopes * x.dtype.type(-0.5)

    def pays(self, x):
        """Whether sums on the mesh cost less than direct sums. They cost more for wide
        maps of few points."""
        shape = _layout(x, self.spacing)[-1]
        # measured costs of a cell and of a point on the mesh, in units of a pair's
        return 21 * math.prod(shape) + 350 * len(x) < len(x) ** 2


def _self_potential(convolution, dtype):
    """The potential of a point at its own place, as a function of its place between the
    nodes: the mean, and the amplitudes of the first two harmonics along each axis.

    The place t has the potential sum_ab B(t - a) B(t - b) G(a - b), where B are the
    splines and G is the mesh's Green's function, the potential of a node.
    """
    d, samples = len(convolution.shape), 8
    node, reach = 4, 3  # splines of one point overlap up to three nodes apart
    unit = np.zeros(convolution.shape, dtype)
    unit[(node,) * d] = 1
    near = slice(node - reach, node + reach + 1)
    potential = convolution(unit)[(near,) * d].astype(float)
    t = np.arange(samples) / samples
    overlaps = np.array([np.convolve(B, B[::-1]) for B in _splines(t)[0].T])
    for _ in range(d):
        # moves the axis of the result to the end, so that each axis is first once
        potential = np.tensordot(potential, overlaps, (0, 1))
    # the mixed harmonics are a hundred times smaller
    waves = 2 / samples * np.cos(2 * np.pi * np.outer(t, [1, 2])).astype(dtype)
    along = [
        potential.mean(axis=tuple(k for k in range(d) if k != j)) for j in range(d)
    ]
    return float(potential.mean()), [values.astype(dtype) @ waves for values in along]


def _layout(x, spacing):
    """Minima of the columns of a map, and spacing and shape of its mesh.

    A side has at least 64 and at most MAX_CELLS cells. Only some spacings are allowed,
    four for each factor of two, so that the transform of the kernel can be reused in
    several iterations.
    """
    # faster than axis=0 for a narrow array
    low, high = np.array([(c.min(), c.max()) for c in x.T]).T
    extent = high - low
    widest = float(extent.max()) or 1.0
    limited = max(min(spacing, widest / 64), widest / MAX_CELLS)
    quarters = 4 * math.log2(limited / spacing)
    rounded = math.floor(quarters) if quarters < 0 else math.ceil(quarters)
    spacing *= 2 ** (rounded / 4)
    nodes = [int(side / spacing) + 4 + PADDING_NODES for side in extent]
    return low, spacing, tuple(_length(least) for least in nodes)


def _length(least):
    """An even length with a fast transform. Few lengths are allowed, so that the
    kernel's transform can be reused."""
    step = 2 ** max(2, least.bit_length() - 5)
    return 2 * fft.next_fast_len(-(-least // (2 * step)) * step, real=True)


def _places(x, low, spacing, shape):
    """Where points lie among their four nearest nodes along each axis.

    Parameters
    ----------
    x : ndarray of shape (n, d)
    low : ndarray of shape (d,)
        Minima of the columns of x.
    spacing : float
        Distance of neighbouring nodes.
    shape : tuple of int
        Shape of the mesh. It covers all points, with three more nodes along each axis.

    Returns
    -------
    first : ndarray of shape (n,)
        Index of the first node of each point.
    steps : tuple of int
        Distance in memory of neighbouring nodes along each axis.
    splines : ndarray of shape (d, 2, 4, n)
        For each axis, the weights of the nodes and their derivatives.
    """
    n, d = x.shape
    first, splines = np.zeros(n, np.intp), np.empty((d, 2, 4, n), x.dtype)
    steps = (1,) if d == 1 else (shape[1], 1)

    def lay(rows):
        for column, least, step, both in zip(x.T, low, steps, splines, strict=True):
            place = (column[rows] - least) / x.dtype.type(spacing)
            corner = place.astype(np.int32)
            # without the cast, float32 would become float64
            place -= corner.astype(x.dtype)
            both[:, :, rows] = _splines(place)
            first[rows] += corner.astype(np.intp) * step

    each(lay, parts(n, CACHE_NUMBERS // 4))
    return first, steps, splines


def _density(first, steps, splines, shape):
    """The density of the points at the nodes."""
    n, size = len(first), math.prod(shape)
    # each parallel part needs its own mesh, which is efficient if there are few nodes
    # compared with the points; with more than four parts it is not
    shares = max(1, min(4, n * 4 ** len(shape) // (4 * size)))
    ahead = reduce(np.add.outer, [np.arange(4) * step for step in steps])
    ahead = ahead.reshape(-1, 1)

    def spread(rows):
        density = np.zeros(size, splines.dtype)
        for some in parts(rows.stop, CACHE_NUMBERS // 4, rows.start):
            weights = splines[:, 0, :, some]
            entries = reduce(lambda a, b: a[:, None] * b, weights)
            np.add.at(density, (first[some] + ahead).ravel(), entries.ravel())
        return density

    densities = each(spread, parts(n, -(-n // shares)))
    return reduce(np.add, densities).reshape(shape)


def _slopes(first, steps, splines, potential, spacing):
    """The derivatives at the points of a potential at the nodes, of shape (n, d)."""
    values = potential.reshape(-1)
    slopes = np.empty((len(first), len(steps)), splines.dtype)

    def gather(rows):
        _, *along = _interpolated(values, first[rows], steps, splines[..., rows])
        for axis, slope in enumerate(along):
            np.divide(slope, slope.dtype.type(spacing), out=slopes[rows, axis])

    each(gather, parts(len(first), CACHE_NUMBERS // 4))
    return slopes


def _interpolated(values, first, steps, splines):
    """The interpolated value at each point and its derivatives. ``first`` is the index
    of each point's first node."""
    (weights, slopes), *others = splines
    total = None
    for k in range(4):
        ahead = values[k * steps[0] :]
        if others:
            value, *along = _interpolated(ahead, first, steps[1:], others)
        else:
            value, along = ahead.take(first, mode="clip"), []
        along = [weights[k] * slope for slope in along]
        of_node = [weights[k] * value, slopes[k] * value, *along]
        if total is None:
            total = of_node
        else:
            for accumulated, part in zip(total, of_node, strict=True):
                accumulated += part
    return total


def _splines(t):
    """Cubic B-splines at the four nodes around each point, and their derivatives."""
    s, t2 = 1 - t, t * t
    t3 = t2 * t
    sixths = [
        s * s * s,
        3 * t3 - 6 * t2 + 4,
        1 + 3 * (t + t2 - t3),
        t3,
    ]
    halves = [
        -s * s,
        3 * t2 - 4 * t,
        1 + 2 * t - 3 * t2,
        t2,
    ]
    both = np.stack([sixths, halves])
    both[0] /= 6
    both[1] /= 2
    return both
