"""Gini's mean difference, the mean of |y_i - y_j| over all pairs of periods."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.convex_program import Formulation, Hinges
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, mean_of, shares
from sk_stormc.portfolio.risk.cuts import Cuts, cuts_of_parts

__all__ = ["Gini"]

# with more differences of returns, cutting planes from a sort each are faster than a
# hinge for each pair of periods, and need less memory
MAX_DIFFERENCES = 2**22
PARTS = 20  # of the periods, with cuts of their own


def ranks(y, p):
    """The order of the returns y, and for each in this order its weight, and the weight
    of the smaller ones minus that of the larger ones."""
    order = np.argsort(y, kind="stable")
    p = shares(len(y), p)[order]
    total = np.cumsum(p)
    return order, p, 2 * total - p - total[-1]


@dataclass
class Gini(Measure):
    """The sum of p_i p_j |y_i - y_j| over all pairs of periods."""

    name = "gini"
    rounds = "sample"
    by_cuts = True

    def value(self, y, p=None):
        """Twice the weighted sum of the returns times their ranks."""
        order, q, rank = ranks(y, p)
        return 2 * float((q * rank) @ (y - mean_of(y, p))[order])

    def subgradient(self, y, p=None):
        """Twice the ranks times the weights."""
        order, q, rank = ranks(y, p)
        slope = np.empty(len(y))
        slope[order] = 2 * q * rank
        return slope

    def in_blocks(self, total, mean, ends):
        """The value from all returns at once. Equal returns have the same rank."""
        y, p = np.concatenate(total(lambda y, p: [np.column_stack([y, p])])).T
        order = np.argsort(y)
        levels, before = y[order], np.append(0.0, np.cumsum(p[order]))

        def slope(y, p):
            smaller, larger = (
                before[np.searchsorted(levels, y, side)] for side in ("left", "right")
            )
            return 2 * p * (smaller + larger - before[-1])

        return RiskInBlocks(self.value(y, p), slope)

    def formulation(self, scaled, v):
        """A hinge for each pair of periods: |z| = 2 max(z, 0) - z."""
        i, j = np.triu_indices(len(scaled.p), 1)
        kept = scaled.p[i] * scaled.p[j] > 0
        i, j = i[kept], j[kept]
        cost = 4 * scaled.risk_weight * scaled.p[i] * scaled.p[j]
        rows, zero = scaled.Q[i] - scaled.Q[j], np.zeros(len(i))
        linear = -scaled.expected_return - cost @ rows / 2
        return Formulation(linear, hinges=[Hinges(rows, zero, cost, zero)])

    def solve(self, scaled, start, callback=None):
        """By the interior-point method for few periods, and by cutting planes for
        many."""
        n, n_assets = scaled.Q.shape
        if n * (n - 1) // 2 * n_assets <= MAX_DIFFERENCES:
            return super().solve(scaled, start, callback)
        begins = np.arange(PARTS) * n // PARTS

        def cuts_at(v):
            slopes = self._slopes(scaled, v, begins)
            return Cuts(0.0, np.arange(PARTS), slopes, np.zeros(PARTS))

        return scaled.minimise_by_cuts(
            start, cuts_of_parts(cuts_at, PARTS), 1 + PARTS, callback
        )

    def _slopes(self, scaled, v, begins):
        """For each part the gradient at v of the sum of p_i p_j |y_i - y_j| over the
        periods i of the part and all j."""
        order, q, rank = ranks(scaled.Q @ v, scaled.p)
        rows = scaled.Q[order]
        total = np.cumsum(q[:, None] * rows, axis=0)
        others = 2 * total - q[:, None] * rows - total[-1]
        slopes = np.empty_like(rows)
        slopes[order] = q[:, None] * (rank[:, None] * rows - others)
        return np.add.reduceat(slopes, begins, axis=0)
