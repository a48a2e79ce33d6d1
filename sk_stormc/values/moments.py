"""Sums over transitions, which determine LSTD's solution: those of a log, of a stream or of an episode."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sk_stormc.values.least_squares import check_ends, is_endless, root_of_inverse, solve_moments
from sk_stormc.values.markov import dense, largest_values, minus_scaled, scale_rows

__all__ = ["OVERFLOW", "Moments"]

ROWS, NUMBERS = 256, 2**17  # of a block, at the least; this many numbers are quickly at hand again
OVERFLOW = "X, y and sample_weight must have finite products: divide what is very large by its scale"


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over transitions. Nothing is written into them: what they are added to becomes new ones.

    A = sum_k d_k z_k (phi_k - gamma phi'_k)^T, b = sum_k d_k z_k r_k and C = sum_k d_k phi_k phi_k^T, where z_k is
    phi_k or, with eligibility traces, the trace of row k. Moments of different rows are added with ``+``, which keeps
    what rounding takes from the sums: a million small chunks are as accurate as one large one. Moments that are
    multiplied by a number are those of rows whose weights were.

    Attributes
    ----------
    A, C : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,)
    weight : float
        Sum of the weights d_k.
    n_rows : int
        Number of transitions, those of weight 0 too.
    largest : ndarray of shape (n_features,)
        The largest absolute value of each feature, over transitions of positive weight.
    lost : tuple of three arrays or numbers
        What rounding has taken from A, b and C.
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
        """Those of no transition."""
        d = n_features
        return cls(np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), 0.0, 0, np.zeros(d))

    @classmethod
    def of(cls, Z, difference, y, weights, traced=None):
        """Those of some transitions.

        Parameters
        ----------
        Z : ndarray or sparse matrix of shape (n, n_features)
            Features phi_k of the states that are left.
        difference : ndarray or sparse matrix of shape (n, n_features)
            phi_k - gamma phi'_k, with phi'_k = 0 where an episode ended.
        y, weights : ndarrays of shape (n,)
        traced : iterable of (rows, traces), default=None
            Parts of the rows with their eligibility traces, dense. None is phi_k itself.

        Returns
        -------
        Moments

        Raises
        ------
        ValueError
            Where products are not finite.
        """
        n, d = Z.shape
        largest = largest_values(Z if (weights > 0).all() else Z[weights > 0])
        with np.errstate(over="ignore", invalid="ignore"):
            same = n > 0 and bool((weights == weights[0]).all())  # rows then need no copy
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
        """Those of many transitions, a block of rows after the other, which then need no large arrays of their own.

        Parameters
        ----------
        Z, next_Z : ndarray or sparse matrix of shape (n, n_features)
            Features of states and of successors; 0 where an episode ended.
        gamma : float
        y, weights : ndarrays of shape (n,)

        Returns
        -------
        Moments

        Raises
        ------
        ValueError
            Where products are not finite.
        """
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
        return self  # nothing is written into

    @property
    def _sums(self):
        return self.A, self.b, self.C

    def means(self):
        """A, b and C over the sum of the weights.

        Returns
        -------
        A, b, C : ndarrays

        Raises
        ------
        ValueError
            Where C is 0 and features are not.
        """
        if self.weight and self.largest.any() and not self.C.any():
            raise ValueError(
                f"X must have features whose squares are not 0, got {self.largest.max():.2g} at the most: multiply "
                "them by a large number"
            )
        return tuple((total + lost) / (self.weight or 1.0) for total, lost in zip(self._sums, self.lost, strict=True))

    def solution(self, alpha, ends=False):
        """LSTD's solution, as `ProjectedBellmanProblem` of the same transitions has it, and the objective there.

        Parameters
        ----------
        alpha : ndarray of shape (n_features,)
            Of the ridge: it is added to the diagonals of A and C.
        ends : bool, default=False
            Whether to raise where values without a discount are not determined.

        Returns
        -------
        x : ndarray of shape (n_features,)
            0 for a feature that no left state has.
        solution : Solution
        fun : float
        """
        known = np.flatnonzero(self.largest)
        x = np.zeros(len(self.largest))
        A, b, C = self.means()
        A, b, C = A[np.ix_(known, known)], b[known], C[np.ix_(known, known)]
        if ends:
            check_ends(A, C)
        ridge = np.diag(alpha[known])
        A, C = A + ridge, C + ridge
        found = solve_moments(A, b, C, np.zeros(len(known)), self.largest[known])
        found = replace(found, endless=is_endless(A, C, found.x, self.n_rows))
        x[known] = found.x
        if found.vanishes:
            return x, found, 0.0
        residual = root_of_inverse(C)[0].T @ (A @ found.x - b)
        return x, found, float(residual @ residual)


def _add(total, lost, part, more):
    """The sum of two arrays, and that of what rounding took from them (Neumaier's compensated summation)."""
    result = total + part
    kept = result - total
    return result, lost + more + ((total - (result - kept)) + (part - kept))
