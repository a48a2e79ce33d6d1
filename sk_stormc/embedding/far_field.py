"""Pairs of points that are no edges: sums of the kernel over columns of the matrix of all pairs, or over a mesh."""

from functools import cached_property

import numpy as np
from scipy import sparse

from sk_stormc.embedding.near_field import same_point
from sk_stormc.embedding.pairs import column_sums, columns

__all__ = ["Columns", "FarField"]

KEPT = 2**27  # bytes of kernel values that a full batch keeps between its two uses


class Columns:
    """Columns of the matrix of all pairs (None: all), and what was found at the last point.

    Attributes
    ----------
    chosen : ndarray or None
    x : ndarray or None
        A copy of that point, which nobody writes into.
    found : tuple or None
        What `FarField.at` returned there.
    """

    def __init__(self, chosen):
        self.chosen = chosen
        self.x = self.found = None


class FarField:
    """The kernel's sums over the pairs of a batch, and the forces that belong to them.

    Parameters
    ----------
    edges : Edges
    near_field : bool
        Whether the edges are left out, since they are taken exactly.
    per_point : bool
        Whether there is a normaliser for each point, as the Gaussian kernel has, or one for all.
    mesh : Mesh or None
        What sums all pairs, where that costs less than to take them one by one.
    dof : float, default=1.0
        Of the Student-t kernel.
    """

    def __init__(self, edges, near_field, per_point, mesh, dof=1.0):
        self.edges, self.near_field, self.per_point, self.mesh, self.dof = edges, near_field, per_point, mesh, dof

    @cached_property
    def left_out(self):
        """What columns leave out: each point's pair with itself, and the near field."""
        itself = sparse.eye_array(self.edges.n, format="csr", dtype=np.int8)
        if not self.near_field:
            return itself
        return (itself + self.edges.symmetric().astype(bool).astype(np.int8)).tocsr()

    def at(self, x, points, batch):
        """A batch at x.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        points : ndarray of shape (n_points, d)
            x, as points.
        batch : Columns

        Returns
        -------
        sums : float or ndarray of shape (n_points,)
            Of k, without the near field's.
        J : tuple
            (a copy of x, weight, far, whole), which `forces` needs; ``whole`` says that the near field is in the sums.
        """
        if not same_point(batch.x, x):
            batch.x = batch.found = None  # free the memory of the last ones first
            x = x.copy()
            one = x.dtype.type(1)
            if batch.chosen is not None:
                sums, far = self.columns(points, batch.chosen)
                weight = x.dtype.type(self.edges.n / len(batch.chosen))
                batch.found = weight * sums, (x, weight, far, False)
            elif self.mesh is not None and self.mesh.pays(points):
                total, far = self.mesh(points)
                batch.found = total, (x, one, far, True)
            else:
                sums, far = self.all_columns(points)
                batch.found = sums, (x, one, far, False)
            batch.x = x
        return batch.found

    def columns(self, points, chosen):
        """Sums over some columns, and what their forces come from."""
        if not self.per_point:
            return column_sums(points, chosen, self.left_out, self.dof)
        E, sums = columns(points, chosen, self.left_out)
        return sums, (chosen, E)

    def _blocks(self):
        n = self.edges.n
        return np.array_split(np.arange(n), -(-n * n // 2**22))

    def all_columns(self, points):
        """Sums over all columns, block by block, and what their forces come from."""
        if not self.per_point:
            total, forces = 0.0, 0.0
            for block in self._blocks():  # none of their forces is kept
                of_block, part = self.columns(points, block)
                total, forces = total + of_block, forces + part
            return total, forces
        if self.edges.n**2 * points.dtype.itemsize <= KEPT:
            return self.columns(points, np.arange(self.edges.n))
        return sum(self.columns(points, block)[0] for block in self._blocks()), None

    def forces(self, points, J, v):
        """-2 sum_j (v_l + v_j) (-k') (x_l - x_j) for each point l, over the pairs of the batch that J is of."""
        _, weight, far, _ = J
        if not self.per_point:
            return far * (-4 * weight * v[0])
        if far is None:
            return sum(self._block_forces(points, v, *self.columns(points, block)[1]) for block in self._blocks())
        return self._block_forces(points, v, *far) * weight

    def _block_forces(self, points, v, chosen, E):
        """-2 sum_b (v_l + v_b) e_lb (x_l - x_b), by one product with [1, x_b, v_b, v_b x_b]."""
        d, v_b, x_b = points.shape[1], v[chosen][:, None], points[chosen]
        T = E @ np.hstack([np.ones_like(v_b), x_b, v_b, v_b * x_b])
        of_l = v[:, None] * (points * T[:, :1] - T[:, 1 : d + 1])
        return -2 * (of_l + points * T[:, d + 1 : d + 2] - T[:, d + 2 :])
