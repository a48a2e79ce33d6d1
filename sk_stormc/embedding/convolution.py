"""Convolution with the Student-t kernel on a mesh, with a short-range part, and a
long-range part on a coarser mesh.

The kernel decays slowly, so its periodic convolution on one mesh would wrap around
unless the mesh were padded to twice its length. Therefore the kernel is split, as in
Ewald summation of the Coulomb potential. With a degrees of freedom and s = 1 + D / a,
the kernel s^-a is the integral of t^(a - 1) exp(-t s) / Gamma(a). The part with t > t0
decays as fast as exp(-t0 s), so a few empty nodes as padding are enough. The part with
t < t0 is smooth. It is summed on a mesh with a quarter of the nodes along each axis,
padded to twice the length of the map. Cubic B-splines on the coarser mesh are sums of
those on the finer mesh, so the transfer between the meshes is exact.
"""

from functools import lru_cache, reduce

import numpy as np
from scipy import fft, sparse, special

from sk_stormc.embedding.kernel_sums import StudentT
from sk_stormc.utils.machine import TASK_NUMBERS
from sk_stormc.utils.threads import each, n_threads, parts

# padding in nodes, over which the short-range part decays to exp(-CUT *
# PADDING_NODES**2) = .5 %; with fewer, opposite ends of a map would act on each other
PADDING_NODES = 30
# t0 / a in units of the mesh; with a larger one, the coarser mesh does not resolve the
# long-range part
CUT = 0.006
COARSER = 4  # ratio of the node spacings of the two meshes, a power of two
# coefficients of a cubic B-spline of twice the width in those of single width
TWICE = np.array([1, 4, 6, 4, 1]) / 8


class Convolution:
    """Convolution of a density on the nodes of a mesh with the kernel.

    Splines spread the points on the nodes and interpolate the potential. The transform
    of the kernel compensates for the smoothing by both.

    Parameters
    ----------
    shape : tuple of int
        Shape of the mesh, with a padding of PADDING_NODES nodes along each axis.
    spacing : float
        Distance of neighbouring nodes.
    dof : float
        Degrees of freedom a.
    dtype : dtype
        Dtype of the sums.

    Attributes
    ----------
    taken_off : float
        A constant that is subtracted from the kernel. On a small map the kernel is
        nearly 1 everywhere, and the rounding error of this constant would be larger
        than the forces.
    """

    def __init__(self, shape, spacing, dof, dtype):
        self.shape = shape
        self._lay, self._lift, self._coarse = _transfer(shape, dtype)

        t0 = CUT * dof / spacing**2
        # distance beyond which the short-range part is below the rounding error
        reach = spacing * np.sqrt(-np.log(np.finfo(dtype).eps) / CUT)

        def kernel(of_shape, apart):
            """The kernel on a quarter of a mesh, and its short-range part there."""
            sides = [np.arange(length // 2 + 1) * apart for length in of_shape]
            D = reduce(np.add.outer, map(np.square, sides))
            student_t, near = StudentT(dof), np.zeros_like(D)
            value = student_t.value(student_t.base(D))
            some = (slice(int(reach / apart) + 1),) * len(of_shape)
            s = value[some] ** (-1 / dof)
            near[some] = value[some] * special.gammaincc(dof, t0 * s)
            return value, near

        _, near = kernel(shape, spacing)
        far = np.subtract(*kernel(self._coarse, COARSER * spacing))
        self.taken_off = float(far.min())
        self._near = _transformed(near, shape, dtype)
        self._far = _transformed(far - self.taken_off, self._coarse, dtype)

    def __call__(self, density):
        """Spline coefficients of the potential sum_j (k(D_ij) - taken_off), which
        includes j = i."""
        far = _product(self._lift[0], density)
        if len(self.shape) == 2:
            far = _product(self._lift[1], far.T).T
        nodes = tuple(slice(length) for length in far.shape)
        far = _convolved(far, self._far, self._coarse)[nodes]
        if len(self.shape) == 2:
            far = _product(self._lay[1], far.T).T
        potential = _convolved(density, self._near, self.shape)
        return _product(self._lay[0], far, potential)


# a map that expands has meshes of the same few shapes, with other spacings
@lru_cache(32)
def _transfer(shape, dtype):
    """The matrices from the coarser to the finer mesh along each axis, those back, and
    the coarser mesh's shape."""
    lay = [_subdivision(length, length - PADDING_NODES, dtype) for length in shape]
    # as much padding on the coarser mesh, between the largest distance in a map and
    # half the length of the mesh, where the kernel wraps around
    padding = -(-PADDING_NODES // COARSER)
    coarse = tuple(2 * fft.next_fast_len(U.shape[1] + padding, real=True) for U in lay)
    lift = [_by_rows(U.T.tocsr()) for U in lay]
    return [_by_rows(U) for U in lay], lift, coarse


def _subdivision(n, used, dtype):
    """The matrix from splines of the coarser mesh to the first ``used`` of n nodes of
    the finer mesh."""
    wider = np.zeros(2 * len(TWICE) - 1)
    wider[::2] = TWICE
    # coefficients of splines of four times the width (COARSER)
    taps = np.convolve(TWICE, wider)
    half = len(taps) // 2
    middle = COARSER * np.arange(-1, -(-(used + half) // COARSER))
    node = np.add.outer(middle, np.arange(-half, half + 1))
    inside = (node >= 0) & (node < used)
    row = node[inside].astype(np.int32)
    column = np.flatnonzero(inside).astype(np.int32) // len(taps)
    entries = np.broadcast_to(taps, node.shape)[inside].astype(dtype)
    return sparse.csr_array((entries, (row, column)), (n, len(middle)))


def _by_rows(U):
    """A matrix as blocks of rows, for products with a matrix of about as many
    columns."""
    n = U.shape[0]
    return [(rows, U[rows]) for rows in parts(n, TASK_NUMBERS // n)]


def _product(blocks, X, out=None):
    """U X for one or several columns, added to ``out`` if it is passed."""
    X = np.ascontiguousarray(X)
    if out is None:
        out = np.zeros((blocks[-1][0].stop, *X.shape[1:]), X.dtype)

    def some(block):
        rows, U = block
        out[rows] += U @ X

    each(some, blocks, out.size)
    return out


def _transformed(kernel, shape, dtype):
    """The Fourier transform of a kernel on a quarter of the mesh, divided by the
    squared transform of the splines.

    The kernel is even, so the cosine transform of a quarter is the Fourier transform of
    the whole.
    """
    kernel = fft.dctn(
        kernel.astype(dtype), type=1, overwrite_x=True, workers=n_threads()
    )
    for axis, length in enumerate(shape):
        frequencies = 2 * np.pi / length * np.arange(kernel.shape[axis])
        smooth = (2 + np.cos(frequencies)) / 3
        along = kernel.swapaxes(axis, -1)  # a view
        along /= np.square(smooth).astype(dtype)
    return kernel


def _convolved(density, kernel, shape):
    """The convolution of a density with a kernel, from the kernel's Fourier
    transform."""
    workers = n_threads()
    waves = fft.rfft(density, shape[-1], workers=workers)
    if len(shape) == 2:
        waves = fft.fft(waves, shape[0], axis=0, overwrite_x=True, workers=workers)
    _filter(waves, kernel)
    if len(shape) == 2:
        waves = fft.ifft(waves, axis=0, overwrite_x=True, workers=workers)
        waves = waves[: len(density)]
    return fft.irfft(waves, shape[-1], workers=workers)


def _filter(waves, kernel):
    """Multiply two Fourier transforms, in place, because allocating memory would cost
    as much as the product.

    Along the first of two axes, the positive frequencies are followed by the negative
    ones.
    """
    half = len(kernel)

    def multiply(rows):
        waves[rows] *= kernel[rows]
        if waves.ndim == 2:
            first, last = rows.start, max(rows.start, min(rows.stop, half - 2))
            backwards = slice(half - 2 - first, half - 2 - last, -1)
            waves[half + first : half + last] *= kernel[backwards]

    each(multiply, parts(half, TASK_NUMBERS // kernel[0].size))
