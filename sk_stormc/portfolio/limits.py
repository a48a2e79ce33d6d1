"""What weights are allowed, and what they cost, as numbers for the second-order method."""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import Box, Simplex
from sk_stormc.portfolio.turnover import Turnover

__all__ = ["Limits"]


@dataclass
class Limits:
    """Bounds, budget, l1 norm and cost of trades of a penalty, for n weights."""

    n: int
    low: np.ndarray
    high: np.ndarray
    budget: float | None
    l1: float
    previous: np.ndarray
    cost: np.ndarray

    @classmethod
    def of(cls, penalty, n):
        """Those of a penalty or of None."""
        previous, cost = np.zeros(n), np.zeros(n)
        if isinstance(penalty, Turnover):
            previous, cost, penalty = penalty.previous, np.broadcast_to(penalty.cost, n), penalty.box
        if isinstance(penalty, Simplex):
            return cls(n, np.zeros(n), np.full(n, np.inf), penalty.total, 0.0, previous, cost)
        if isinstance(penalty, Box):
            low, high = (np.broadcast_to(bound, n).astype(float) for bound in (penalty.low, penalty.high))
            return cls(n, low, high, penalty.budget, penalty.alpha, previous, cost)
        l1 = 0.0 if penalty is None else penalty.alpha
        return cls(n, np.full(n, -np.inf), np.full(n, np.inf), None, l1, previous, cost)

    def forced(self):
        """The only weights that are allowed, where there is no choice; else None."""
        if self.n == 1 and self.budget is not None:
            return np.array([self.budget])
        if (self.low == self.high).all():
            return self.low.copy()
        for bound in (self.low, self.high) if self.budget is not None else ():
            total = bound.sum()
            if np.isfinite(total) and abs(total - self.budget) <= 1e-12 * max(1.0, np.abs(bound).sum()):
                return bound.copy()
        return None

    def size(self):
        """A typical weight, as bounds and budget say; None where they do not."""
        finite = np.concatenate([bound[np.isfinite(bound)] for bound in (self.low, self.high)])
        largest = np.abs(finite).max(initial=0.0)
        if self.budget:
            bounded = largest and np.isfinite(self.low + self.high).all()
            return min(abs(self.budget), largest) if bounded else abs(self.budget)
        return largest or None

    def held(self, found, size, n_hinges):
        """The weights that a solution has at a bound, at 0 or at what is held now; NaN for the others."""
        w, held = found.x[: self.n] * size, np.full(self.n, np.nan)
        at = found.at_bound[: self.n]
        held[at] = np.where(np.abs(w - self.low) <= np.abs(self.high - w), self.low, self.high)[at]
        kinks = [(np.zeros(self.n), np.arange(self.n))] * bool(self.l1)
        kinks += [(self.previous, np.flatnonzero(self.cost))] * bool(self.cost.any())
        for (kink, there), at in zip(kinks, found.at_kink[n_hinges - len(kinks) :], strict=True):
            held[there[at]] = kink[there[at]]
        return held

    def with_held(self, held):
        """The same limits, with some weights fixed."""
        there = np.isfinite(held)
        return replace(self, low=np.where(there, held, self.low), high=np.where(there, held, self.high))
