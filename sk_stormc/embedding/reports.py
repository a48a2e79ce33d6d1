"""The part of `SNEProblem` that says how good a map is, which no step needs."""

from functools import cached_property

import numpy as np

from sk_stormc.embedding.divergence import divergence_from
from sk_stormc.embedding.steps import CENSUS

__all__ = ["Reports"]

EXACT = 10_000  # up to so many points the divergence that is reported is over all pairs, where there is no mesh


class Reports:
    """Mixin of `SNEProblem`: the objective and the divergence."""

    def objective(self, x):
        """Phi(x), Z from the mesh; without one the normalisers come from 2048 columns where there are more."""
        own = self._remembering()
        return float(own.outer(x, own._normalisers(x, self._far_field.mesh, CENSUS)))

    def reported(self, x):
        """What records have: Phi(x) without exaggeration, so that those of all stages can be compared."""
        own = self._remembering()
        return float(own._attraction(x) + own._log_sum(own._normalisers(x, self._far_field.mesh, CENSUS)))

    def _normalisers(self, x, mesh, exact):
        """u to report, from the mesh; without one it comes from 2048 columns above so many points."""
        n, points = self.n_inner, self._points(x)
        if mesh is not None and mesh is not self._far_field.mesh:
            if mesh.pays(points):
                return np.array([mesh.total(points)])
            return self._all_pairs(x, self._far_field.all_columns(points)[0], whole=False)
        if mesh is None and n > exact and self.near_field:
            chosen = ((np.arange(CENSUS) + 0.5) * (n / CENSUS)).astype(int)
            blocks = np.array_split(chosen, -(-n * CENSUS // 2**23))
            sums = sum(self._far_field.columns(points, block)[0] for block in blocks)
            return self._all_pairs(x, x.dtype.type(n / CENSUS) * sums, whole=False)
        return self.inner(x, self.inner_batch(None))  # what an iteration needs at this point too

    def divergence(self, x, affinities=None):
        """KL(P || Q) at an embedding, without exaggeration.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        affinities : CSR array of shape (n_points, n_points), default=None
            Probabilities to use in place of the problem's own, such as those with more neighbours.

        Returns
        -------
        float
            "gaussian": (1/n) sum_i KL(P_i || Q_i); "student-t": KL of the joint probabilities.

        Notes
        -----
        It is more exact than the recorded Phi: Z comes from a finer mesh, or from all pairs where there is no mesh and
        there are at most 10,000 points.
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
