"""Moments: sums over the transitions of a log, a stream or an episode, which determine LSTD's solution."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sk_stormc.values.least_squares import check_ends, is_endless, solve_moments
from sk_stormc.values.markov import dense, largest_values, minus_scaled, scale_rows

__all__ = ["OVERFLOW", "Moments"]

ROWS, NUMBERS = 256, 2**17  # smallest number of rows of a block, and the numbers of a block, which stay in the cache
OVERFLOW = "X, y and sample_weight must have finite products: divide very large ones by their scale"


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over transitions. They are immutable.

    A = sum_k d_k z_k (phi_k - gamma phi'_k)^T, b = sum_k d_k z_k r_k and C = sum_k d_k phi_k phi_k^T, where z_k is
    phi_k or, with eligibility traces, the trace of row k. Moments of different rows are added with ``+``. The addition
    is compensated, so that a million small chunks are as accurate as one large chunk. Multiplication by a number
    multiplies all weights.

    Attributes
    ----------
    A, C : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,)
    weight : float
        Sum of the weights d_k.
    n_rows : int
        Number of transitions, including those of weight 0.
    largest : ndarray of shape (n_features,)
        The largest absolute value of each feature, over transitions of positive weight.
    lost : tuple of three arrays or numbers
        Rounding errors of A, b and C, to be added to them.
    """

    A: np.ndarray = field(repr=False)
    b: np.ndarray = field(repr=False)
    C: np.ndarray = field(repr=False)
    weight: float
    n_rows: int
    largest: np.ndarray = field(repr=False)
    lost: tuple = field(repr=False, default=(0.0, 0.0, 0.0))

    @classmethod
    def none(cls, n_features):
        """The moments of no transition."""
        d = n_features
        return cls(np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), 0.0, 0, np.zeros(d))

    @classmethod
    def of(cls, Z, difference, y, weights, traced=None):
        """The moments of transitions. ``traced`` are blocks of rows with their eligibility traces; None means phi_k."""
        n, d = Z.shape
        largest = largest_values(Z if (weights > 0).all() else Z[weights > 0])
        with np.errstate(over="ignore", invalid="ignore"):
            same = n > 0 and bool((weights == weights[0]).all())  # avoids a copy of the rows
            weighted, factor = (Z.T, weights[0]) if same else (scale_rows(weights, Z).T, 1.0)
            C = factor * dense(weighted @ Z)
            if traced is None:
                A, b = factor * dense(weighted @ difference), factor * (weighted @ y)
            else:
                A, b = np.zeros((d, d)), np.zeros(d)
                for rows, traces in traced:
                    weighted = (weights[rows, None] * traces).T
                    A += weighted @ difference[rows]
                    b += weighted @ y[rows]
        if not all(np.isfinite(part).all() for part in (A, b, C)):
            raise ValueError(OVERFLOW)
        return cls(A, b, C, float(weights.sum()), n, largest)

    @classmethod
    def of_log(cls, Z, next_Z, gamma, y, weights):
        """The moments of many transitions, computed block by block without large temporary arrays."""
        total, step = cls.none(Z.shape[1]), max(ROWS, NUMBERS // Z.shape[1])
        for start in range(0, len(y), step):
            rows = slice(start, start + step)
            left = Z[rows]
            total += cls.of(left, minus_scaled(left, gamma, next_Z[rows]), y[rows], weights[rows])
        return total

    def __add__(self, other: Moments) -> Moments:
        added = [
            _add(total, lost, part, more)
            for total, lost, part, more in zip(self._sums, self.lost, other._sums, other.lost, strict=True)
        ]
        (A, b, C), lost = zip(*added, strict=True)
        largest = np.maximum(self.largest, other.largest)
        return Moments(A, b, C, self.weight + other.weight, self.n_rows + other.n_rows, largest, lost)

    def __mul__(self, factor: float) -> Moments:
        A, b, C = (factor * part for part in self._sums)
        lost = tuple(factor * part for part in self.lost)
        return replace(self, A=A, b=b, C=C, weight=factor * self.weight, lost=lost)

    def __deepcopy__(self, memo):
        return self  # immutable

    @property
    def _sums(self):
        return self.A, self.b, self.C

    def means(self):
        """A, b and C divided by the sum of the weights."""
        if self.weight and self.largest.any() and not self.C.any():
            raise ValueError(
                f"X must have features whose squares are not 0, got {self.largest.max():.2g} at the most: multiply "
                "them by a large number"
            )
        return tuple((total + lost) / (self.weight or 1.0) for total, lost in zip(self._sums, self.lost, strict=True))

    def solution(self, alpha, ends=False):
        """LSTD's solution with a ridge, that of `ProjectedBellmanProblem`; x is 0 for features that no state has."""
        known = np.flatnonzero(self.largest)
        x = np.zeros(len(self.largest))
        A, b, C = self.means()
        A, b, C = A[np.ix_(known, known)], b[known], C[np.ix_(known, known)]
        if ends:
            check_ends(A, C)
        ridge = np.diag(alpha[known])
        A, C = A + ridge, C + ridge
        found = solve_moments(A, b, C, np.zeros(len(known)), self.largest[known])
        x[known] = found.x
        whole = 1 + ridge.sum()  # in the problem the ridge's rows have weight too, and all weights sum to one
        endless = is_endless(A, C, found.x, self.n_rows)
        return replace(found, x=x, endless=endless, start=found.start / whole, fun=found.fun / whole)


def _add(total, lost, part, more):
    """The sum of two arrays, and the sum of its rounding errors (Neumaier's compensated summation)."""
    result = total + part
    kept = result - total
    return result, lost + more + ((total - (result - kept)) + (part - kept))
