"""The far field: sums of the kernel over pairs that are not edges, by columns of the matrix of all pairs or a mesh."""

from functools import cached_property

import numpy as np
from scipy import sparse

from sk_stormc.embedding.near_field import same_point
from sk_stormc.embedding.pairs import AllPairs, column_sums, columns

__all__ = ["Columns", "FarField"]

KEPT = 2**27  # largest size in bytes of the kernel values that a full batch keeps between its two uses


class Columns:
    """A batch of columns of the matrix of all pairs, with a cache for the last point.

    Attributes
    ----------
    chosen : ndarray of int or None
        The columns. None means all.
    x : ndarray or None
        A copy of the last point.
    found : tuple or None
        The value of `FarField.at` at the last point.
    """

    def __init__(self, chosen):
        self.chosen = chosen
        self.x = self.found = None


class FarField:
    """Sums of the kernel over the pairs of a batch, and their forces (gradients).

    Parameters
    ----------
    edges : Edges
    near_field : bool
        Whether the edges are left out, because they are summed exactly elsewhere.
    per_point : bool
        Whether each point has a normaliser, as for the Gaussian kernel, or all pairs have one.
    mesh : Mesh or None
        Sums over all pairs by a mesh, which is used if it costs less than direct summation.
    dof : float, default=1.0
        Degrees of freedom of the Student-t kernel.
    """

    def __init__(self, edges, near_field, per_point, mesh, dof=1.0):
        self.edges, self.near_field, self.per_point, self.mesh, self.dof = edges, near_field, per_point, mesh, dof

    @cached_property
    def itself(self):
        """The pairs of each point with itself, which all sums leave out."""
        return sparse.eye_array(self.edges.n, format="csr", dtype=np.int8)

    @cached_property
    def left_out(self):
        """The pairs that sampled columns leave out: each point's pair with itself, and the near field."""
        if not self.near_field:
            return self.itself
        return (self.itself + self.edges.symmetric().astype(bool).astype(np.int8)).tocsr()

    @cached_property
    def pairs(self):
        """The sums of a full batch without a mesh, unless each point has a normaliser."""
        return AllPairs(self.edges.n)

    def at(self, x, points, batch):
        """The sums of a batch at x."""
        if not same_point(batch.x, x):
            batch.x = batch.found = None  # free the memory of the last point first
            x = x.copy()
            if batch.chosen is not None:
                sums, far = self.columns(points, batch.chosen, self.left_out)
                weight = x.dtype.type(self.edges.n / len(batch.chosen))
                batch.found = weight * sums, (x, weight, far, False)
            else:
                meshed = self.mesh is not None and self.mesh.pays(points)
                sums, far = self.mesh(points) if meshed else self.all_columns(points)
                batch.found = sums, (x, x.dtype.type(1), far, True)
            batch.x = x
        return batch.found

    def columns(self, points, chosen, left_out):
        """Sums over some columns without the pairs that are left out, and the terms that their forces need."""
        if not self.per_point:
            return column_sums(points, chosen, left_out, self.dof)
        E, sums = columns(points, chosen, left_out)
        return sums, (chosen, E)

    def _blocks(self):
        n = self.edges.n
        return np.array_split(np.arange(n), -(-n * n // 2**22))

    def all_columns(self, points):
        """Sums over all columns, and the terms that their forces need."""
        if not self.per_point:
            return self.pairs(points, self.dof)
        if self.edges.n**2 * points.dtype.itemsize <= KEPT:
            return self.columns(points, np.arange(self.edges.n), self.itself)
        return sum(self.columns(points, block, self.itself)[0] for block in self._blocks()), None

    def forces(self, points, J, v):
        """-2 sum_j (v_l + v_j) (-k') (x_l - x_j) for each point l, over the pairs of the batch of J."""
        _, weight, far, _ = J
        if not self.per_point:
            return far * (-4 * weight * v[0])
        if far is None:
            of_blocks = (self.columns(points, block, self.itself)[1] for block in self._blocks())
            return sum(self._block_forces(points, v, *far) for far in of_blocks)
        return self._block_forces(points, v, *far) * weight

    def _block_forces(self, points, v, chosen, E):
        """-2 sum_b (v_l + v_b) e_lb (x_l - x_b), by one product with [1, x_b, v_b, v_b x_b]."""
        d, v_b, x_b = points.shape[1], v[chosen][:, None], points[chosen]
        T = E @ np.hstack([np.ones_like(v_b), x_b, v_b, v_b * x_b])
        of_l = v[:, None] * (points * T[:, :1] - T[:, 1 : d + 1])
        return -2 * (of_l + points * T[:, d + 1 : d + 2] - T[:, d + 2 :])
