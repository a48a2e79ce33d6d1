"""The part of `SNEProblem` that evaluates a map: the objective and the divergence. Steps do not need it."""

from functools import cached_property

import numpy as np

from sk_stormc.embedding.divergence import divergence_from
from sk_stormc.embedding.steps import CENSUS

__all__ = ["Reports"]

EXACT = 10_000  # largest number of points for which the reported divergence sums over all pairs, without a mesh


class Reports:
    """Mixin of `SNEProblem`: the objective and the divergence."""

    def objective(self, x):
        """Phi(x). Z is computed on the mesh. Without a mesh, normalisers are estimated from at most 2048 columns."""
        own = self._remembering()
        return float(own.outer(x, own._normalisers(x, self._far_field.mesh, CENSUS)))

    def reported(self, x):
        """The recorded value: Phi(x) without exaggeration, so that the values of all stages can be compared."""
        own = self._remembering()
        return float(own._attraction(x) + own._log_sum(own._normalisers(x, self._far_field.mesh, CENSUS)))

    def _normalisers(self, x, mesh, exact):
        """The normalisers u for reports: from the mesh, or with more than ``exact`` points from 2048 columns."""
        n, points = self.n_inner, self._points(x)
        if mesh is not None and mesh is not self._far_field.mesh:
            if mesh.pays(points):
                return np.array([mesh.total(points)])
            return np.array([self._far_field.all_columns(points)[0]])
        if mesh is None and n > exact and self.near_field:
            chosen = ((np.arange(CENSUS) + 0.5) * (n / CENSUS)).astype(int)
            blocks = np.array_split(chosen, -(-n * CENSUS // 2**23))
            sums = sum(self._far_field.columns(points, block, self._far_field.left_out)[0] for block in blocks)
            return self._all_pairs(x, x.dtype.type(n / CENSUS) * sums, whole=False)
        return self.inner(x, self.inner_batch(None))  # cached, because the next iteration needs it too

    def divergence(self, x, affinities=None):
        """KL(P || Q) at an embedding, without exaggeration.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        affinities : CSR array of shape (n_points, n_points), default=None
            Affinities to use in place of the problem's own, such as those with more neighbours.

        Returns
        -------
        float
            (1/n) sum_i KL(P_i || Q_i) for "gaussian", and the KL divergence of the joint probabilities for "student-t".

        Notes
        -----
        It is more accurate than the recorded Phi: Z comes from a finer mesh. Without a mesh, and with at most 10,000
        points, the normalisers are sums over all pairs.
        """
        own = self._remembering()
        log_sum = own._log_sum(own._normalisers(x, self._fine, EXACT))
        if affinities is not None:
            return divergence_from(affinities, self._points(x), self.per_point, log_sum, self.dof)
        return self.divergence_of(own._attraction(x) + log_sum)

    def divergence_of(self, fun):
        """KL(P || Q) from the value of Phi without exaggeration.

        Parameters
        ----------
        fun : float or ndarray

        Returns
        -------
        float or ndarray
        """
        return (fun + self._negentropy) / (self.n_inner if self.per_point else 1)

    @cached_property
    def _negentropy(self):
        """sum p log p."""
        p = self.P.data[self.P.data > 0] if self.per_point else self.edges.weight / 2
        return (1 if self.per_point else 2) * float(p @ np.log(p))
