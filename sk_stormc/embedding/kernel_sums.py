"""Sums of the kernel over pairs of points: exact sums over the edges of the graph, and
sums over all other pairs.

The near field is the kernel along the edges. The far field is estimated from sampled
columns of the matrix of all pairs, or computed from all columns or on a mesh. For an
edge of squared length D, only w (a function of D) is stored.
"""

from functools import cached_property

import numpy as np
from scipy import sparse

from sk_stormc.core.source import FiniteSource
from sk_stormc.embedding.sums_over_pairs import column_sums, columns, student_t_sums
from sk_stormc.utils.machine import BLOCK_BYTES, MATRIX_BYTES
from sk_stormc.utils.parameters import check_number

# for much larger values 1 + D / a rounds to 1 in float32; the kernel is then nearly
# exp(-D)
MAX_DOF = 1e4


class Gaussian:
    """The kernel k(D) = exp(-D) with the attraction phi(D) = D. Here w = k."""

    def base(self, D):
        """w, written over D."""
        return np.exp(np.negative(D, out=D), out=D)

    def value(self, w):
        """k."""
        return w

    def attraction(self, s, w):
        """s phi'."""
        return s

    def repulsion(self, w):
        """-k'."""
        return w


class StudentT:
    """The kernel k(D) = (1 + D / a)^-a with a degrees of freedom. Here w = 1 / (1 + D /
    a).

    The attraction is phi(D) = a log(1 + D / a). For a = 1 this is t-SNE's kernel, and
    for large a it is nearly exp(-D). openTSNE uses the same kernel, after Kobak et al.,
    "Heavy-tailed kernels reveal a finer cluster structure in t-SNE visualisations",
    2019. scikit-learn uses the power (a + 1) / 2 in place of a.

    Parameters
    ----------
    dof : float, default=1.0
        Degrees of freedom a.
    """

    def __init__(self, dof=1.0):
        self.dof = dof

    def base(self, D):
        """w, written over D."""
        if self.dof != 1:
            D /= D.dtype.type(self.dof)
        return np.reciprocal(np.add(D, 1, out=D), out=D)

    def value(self, w):
        """k."""
        return w if self.dof == 1 else w**self.dof

    def attraction(self, s, w):
        """s phi'."""
        return s * w

    def repulsion(self, w):
        """-k'."""
        return w * w if self.dof == 1 else w ** (self.dof + 1)


def check_degrees_of_freedom(dof, kernel):
    """Raise a ValueError if ``dof`` is not positive, is too large, or is not 1 for the
    Gaussian kernel."""
    check_number("dof", dof, low=0, high=MAX_DOF, inclusive=False)
    if kernel == "gaussian" and dof != 1:
        raise ValueError(
            "dof must be 1 for kernel='gaussian', because only kernel='student-t' uses "
            f"it; got {dof}"
        )


def negentropy(p):
    """sum p log p."""
    p = p[p > 0]  # the smallest may have underflowed
    return float(p @ np.log(p))


def same_point(x, y):
    """Whether two arrays hold the same point. They are compared by value, because
    arrays may be changed in place."""
    return x is not None and x.dtype == y.dtype and bool((x == y).all())


class NearField:
    """The kernel along the edges, and the weights of the attraction, cached for the
    last point.

    One iteration needs them several times at the same point. Each run has its own near
    field, so that runs are independent.

    Parameters
    ----------
    edges : Edges
    kernel : object
        A kernel of this module.
    exaggeration : float
        The factor alpha of the attraction.
    """

    def __init__(self, edges, kernel, exaggeration):
        self.edges, self.kernel, self.exaggeration = edges, kernel, exaggeration
        self._x = self._rows = self._w = self._weight = self._attraction = None

    def at(self, x):
        """The coordinates as rows, and the w of each edge."""
        if not same_point(self._x, x):
            # the cache stays empty if the following code is interrupted
            self._x = self._attraction = None
            if self._w is None or self._w.dtype != x.dtype:
                weight = 2 * self.exaggeration * self.edges.weight
                self._weight = weight.astype(x.dtype)
                self._w = np.empty_like(self._weight)
            self._rows = np.ascontiguousarray(x.reshape(self.edges.n, -1).T)
            self.edges.squares(self._rows, self._w, self.kernel.base)
            self._x = x.copy()
        return self._rows, self._w

    def forces(self, x):
        """The weights c_ij = 2 alpha s_ij phi'(D_ij) of the edges, s = P + P.T, their
        sums for each point i, and the gradient of the attraction as rows, sum_j c_ij
        (x_i - x_j)."""
        rows, w = self.at(x)
        if self._attraction is None:
            c = self.kernel.attraction(self._weight, w)
            self._attraction = c, *self.edges.forces(c, rows)
        return self._attraction


class ColumnBatch:
    """A batch of columns of the matrix of all pairs, with a cache for the last point.

    Attributes
    ----------
    chosen : ndarray of int or None
        The columns. None means all.
    x : ndarray or None
        A copy of the last point.
    sums : tuple or None
        The value of `FarField.at` at the last point.
    """

    def __init__(self, chosen):
        self.chosen = chosen
        self.x = self.sums = None


class FarField:
    """Sums of the kernel over the pairs of a batch, and their forces (gradients).

    Parameters
    ----------
    edges : Edges
    near_field : bool
        Whether the edges are left out, because the near field contains them.
    per_point : bool
        Whether each point has its own normaliser, as for the Gaussian kernel, or there
        is one for all pairs.
    mesh : Mesh or None
        The mesh for sums over all pairs, which is used if it costs less than direct
        summation.
    dof : float
        Degrees of freedom of the Student-t kernel.
    """

    def __init__(self, edges, near_field, per_point, mesh, dof):
        self.edges, self.near_field, self.per_point = edges, near_field, per_point
        self.mesh, self.dof = mesh, dof

    @cached_property
    def itself(self):
        """The pairs of each point with itself, which are left out of all sums."""
        return sparse.eye_array(self.edges.n, format="csr", dtype=np.int8)

    @cached_property
    def left_out(self):
        """The pairs that are left out of sampled columns: each point's pair with
        itself, and the near field."""
        if not self.near_field:
            return self.itself
        return self.itself + self.edges.symmetric().astype(bool).astype(np.int8)

    def at(self, x, batch):
        """The sums of a batch at x."""
        if not same_point(batch.x, x):
            batch.x = batch.sums = None  # free the memory of the last point first
            points, chosen, weight = x.reshape(self.edges.n, -1), batch.chosen, 1.0
            if chosen is not None:
                sums, far = self.columns(points, chosen, self.left_out)
                weight = self.edges.n / len(chosen)
            elif self.per_point:
                sums, far = self.all_columns(points)
            else:
                sums, far = student_t_sums(points, self.mesh, self.dof)
            x, weight = x.copy(), x.dtype.type(weight)
            batch.sums = weight * sums, (x, weight, far, chosen is None)
            batch.x = x
        return batch.sums

    def columns(self, points, chosen, left_out):
        """Sums over some columns without the pairs that are left out, and the terms for
        their forces."""
        if not self.per_point:
            return column_sums(points, chosen, left_out, self.dof)
        E, sums = columns(points, chosen, left_out)
        return sums, (chosen, E)

    def _in_blocks(self, points):
        """`columns` of all columns, in blocks that take little memory."""
        n = self.edges.n
        for block in np.array_split(np.arange(n), -(-4 * n * n // BLOCK_BYTES)):
            yield self.columns(points, block, self.itself)

    def all_columns(self, points):
        """Sums over all columns, and the terms for their forces, for the Gaussian
        kernel."""
        if self.edges.n**2 * points.dtype.itemsize <= MATRIX_BYTES:
            return self.columns(points, np.arange(self.edges.n), self.itself)
        return sum(sums for sums, _ in self._in_blocks(points)), None

    def forces(self, J, v):
        """-2 sum_j (v_l + v_j) (-k') (x_l - x_j) for each point l, over the pairs of
        the batch of J."""
        x, weight, far, _ = J
        if not self.per_point:
            return far * (-4 * weight * v[0])
        points = x.reshape(self.edges.n, -1)
        blocks = self._in_blocks(points) if far is None else [(None, far)]
        return weight * sum(self._block_forces(points, v, *far) for _, far in blocks)

    def _block_forces(self, points, v, chosen, E):
        """-2 sum_b (v_l + v_b) e_lb (x_l - x_b), by one product with [1, x_b, v_b, v_b
        x_b]."""
        d, v_b, x_b = points.shape[1], v[chosen][:, None], points[chosen]
        T = E @ np.hstack([np.ones_like(v_b), x_b, v_b, v_b * x_b])
        of_l = v[:, None] * (points * T[:, :1] - T[:, 1 : d + 1])
        return -2 * (of_l + points * T[:, d + 1 : d + 2] - T[:, d + 2 :])


class ColumnSource(FiniteSource):
    """Columns of n points. f is never sampled, because it is one sparse product and
    sampling it would cause most noise.

    Parameters
    ----------
    n : int
        Number of points.
    n_near : int
        Cost of the near field of a batch, in components. With a near field, draws are
        stratified: one from each of batch_size equal intervals. 0 means that there is
        no near field, and that draws are independent.
    """

    def __init__(self, n, n_near):
        super().__init__(n, n)
        self.n_near = n_near

    def sizes(self, size):
        """The batch size for g and its Jacobian, and None (all) for f."""
        return size, size, None

    def price(self, kind, size):
        """The cost of a batch: the draws, and for g and its Jacobian also the near
        field."""
        return size if kind == "outer" else size + self.n_near

    def draw_inner(self, rng, shape):
        """Indices of the drawn columns."""
        if not self.n_near:
            return super().draw_inner(rng, shape)
        spread = (np.arange(shape[-1]) + rng.random(shape)) * (self.n_inner / shape[-1])
        return np.minimum(spread.astype(np.intp), self.n_inner - 1)
