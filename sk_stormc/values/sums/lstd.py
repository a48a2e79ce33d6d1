"""Sums over transitions (moments), and solver="lstd": the exact solution that they
determine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.fitting.runs import Direct
from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import (
    dense,
    largest_values,
    minus_scaled,
    normalized_weights,
    scale_rows,
)
from sk_stormc.values.reading.log_warnings import warn_of_endless_values
from sk_stormc.values.sums.least_squares import (
    check_ends,
    is_endless,
    solve_moments,
    solve_rows,
)
from sk_stormc.values.sums.traces import Traces

LSTD = Direct("lstd")
OVERFLOW = (
    "X, y and sample_weight must have finite products: divide very large ones by "
    "their scale"
)
# condition number from which a solution may lose more than half of its digits
ILL_CONDITIONED = 1e10
# features for which the moments, four square matrices, still fit in 512 MB
LARGEST_STREAM = 4000


@dataclass(frozen=True, eq=False)
class TransitionMoments:
    """Weighted sums over transitions (immutable).

    A = sum_k d_k z_k (phi_k - gamma phi'_k)^T, b = sum_k d_k z_k r_k and C = sum_k d_k
    phi_k phi_k^T, where z_k is phi_k or, with eligibility traces, the trace of row k.
    Moments of different rows are added with ``+``. The summation is compensated, so
    that a million small chunks are as accurate as one large chunk. Multiplication by a
    number multiplies all weights.
    """

    sums: np.ndarray  # A, C and b side by side
    weight: float  # sum of the weights d_k
    n_rows: int  # including those of weight 0
    # absolute value of each feature, over transitions of positive weight
    largest: np.ndarray
    lost: np.ndarray | float = 0.0  # rounding errors of the sums, to be added to them

    @classmethod
    def none(cls, n_features):
        """The moments of zero transitions."""
        d = n_features
        return cls(np.zeros((d, 2 * d + 1)), 0.0, 0, np.zeros(d))

    @property
    def parts(self):
        """The sums A, b and C."""
        return split(self.sums)

    @classmethod
    def of(cls, Z, difference, y, weights, eligible=None):
        """The moments of transitions. ``eligible`` are their eligibility traces; None
        means phi_k."""
        n, d = Z.shape
        largest = largest_values(Z if (weights > 0).all() else Z[weights > 0])
        with np.errstate(over="ignore", invalid="ignore"):
            # avoids a copy of the rows
            same = n > 0 and bool((weights == weights[0]).all())
            weighted, factor = (
                (Z.T, weights[0]) if same else (scale_rows(weights, Z).T, 1.0)
            )
            C = factor * dense(weighted @ Z)
            if eligible is not None:
                weighted, factor = scale_rows(weights, eligible).T, 1.0
            A, b = factor * dense(weighted @ difference), factor * (weighted @ y)
        sums = np.column_stack([A, C, b])
        if not np.isfinite(sums).all():
            raise ValueError(OVERFLOW)
        return cls(sums, float(weights.sum()), n, largest)

    @classmethod
    def of_log(cls, Z, next_Z, y, weights, gamma, traced=None):
        """The moments of many transitions, computed block by block without large
        temporary arrays. ``traced`` are blocks of rows with their traces."""
        total, step = cls.none(Z.shape[1]), max(256, 2**17 // Z.shape[1])
        # blocks fit in the cache
        starts = range(0, len(y), step)
        for rows, eligible in traced or ((slice(k, k + step), None) for k in starts):
            left = Z[rows]
            difference = minus_scaled(left, gamma, next_Z[rows])
            total += cls.of(left, difference, y[rows], weights[rows], eligible)
        return total

    def __add__(self, other: TransitionMoments) -> TransitionMoments:
        # Neumaier's compensated summation
        total, part = self.sums, other.sums
        result = total + part
        kept = result - total
        lost = (total - (result - kept)) + (part - kept)
        return TransitionMoments(
            result,
            self.weight + other.weight,
            self.n_rows + other.n_rows,
            np.maximum(self.largest, other.largest),
            self.lost + other.lost + lost,
        )

    def __mul__(self, factor: float) -> TransitionMoments:
        sums, lost = factor * self.sums, factor * self.lost
        return replace(self, sums=sums, lost=lost, weight=factor * self.weight)

    def __deepcopy__(self, memo):
        return self  # immutable

    def means(self):
        """A, b and C divided by the sum of the weights."""
        if self.weight and self.largest.any() and not self.parts[2].any():
            raise ValueError(
                "X must have features whose squares are not 0, got "
                f"{self.largest.max():.2g} at the most: multiply them by a large number"
            )
        return split((self.sums + self.lost) / (self.weight or 1.0))

    def solution(self, alpha, ends=False):
        """LSTD's solution with a ridge, as in `ProjectedBellmanProblem`; x is 0 for
        features that no state has."""
        occurs = np.flatnonzero(self.largest)
        x = np.zeros(len(self.largest))
        A, b, C = self.means()
        A, b, C = A[np.ix_(occurs, occurs)], b[occurs], C[np.ix_(occurs, occurs)]
        if ends:
            check_ends(A, C)
        ridge = np.diag(alpha[occurs])
        A, C = A + ridge, C + ridge
        solution = solve_moments(A, b, C, np.zeros(len(occurs)), self.largest[occurs])
        x[occurs] = solution.x
        # the rows of the ridge also have weight in the problem, and all weights sum to
        # one
        total = 1 + ridge.sum()
        endless = is_endless(A, C, solution.x, self.n_rows)
        return replace(
            solution,
            x=x,
            endless=endless,
            start=solution.start / total,
            fun=solution.fun / total,
        )


def split(sums):
    """A, b and C, which stand side by side."""
    d = len(sums)
    return sums[:, :d], sums[:, -1], sums[:, d:-1]


@dataclass(frozen=True, eq=False)
class Collected:
    """The state of a stream for "lstd": the moments of its transitions, and the
    eligibility traces at its end."""

    gamma: float
    moments: TransitionMoments
    traces: Traces

    @classmethod
    def none(cls, n_features, gamma, trace_decay=0.0):
        """The state before the first transition."""
        return cls(
            gamma, TransitionMoments.none(n_features), Traces(gamma * trace_decay)
        )

    def plus(self, t):
        """Add the transitions of a chunk."""
        if not self.traces.decay or not len(t.y):
            moments = TransitionMoments.of_log(*t.counted().rows, self.gamma)
            return replace(self, moments=self.moments + moments)
        traced = self.traces.over(t)
        moments = TransitionMoments.of_log(*t.rows, self.gamma, traced)
        moments = replace(moments, n_rows=np.count_nonzero(t.weights))
        return replace(self, moments=self.moments + moments, traces=traced.after)


def check_products(*parts):
    """Raise a ValueError if sums of squares overflow, which all solvers compute."""
    with np.errstate(over="ignore"):
        for part in parts:
            numbers = part.data if sparse.issparse(part) else part.ravel(order="K")
            if not np.isfinite(numbers @ numbers):
                raise ValueError(OVERFLOW)


def by_state(rows, visited, gamma):
    """Shares of the states, their features, and means over their transitions of phi -
    gamma phi' and of the reward."""
    (Z, next_Z, y, weights), (number, first) = rows, visited
    visits, n = np.bincount(number, weights), len(y)
    mean = sparse.csr_array(
        (weights / visits[number], (number, np.arange(n))), shape=(len(first), n)
    )
    features = Z[first]
    return (
        normalized_weights(visits, len(visits)),
        features,
        minus_scaled(features, gamma, mean @ next_Z),
        mean @ y,
    )


def solve_bellman(rows, visited, gamma, alpha):
    """The exact minimiser of the "bellman" objective, and the fitted attributes."""
    share, features, difference, reward = by_state(rows, visited, gamma)
    root, n = np.sqrt(share), len(share)
    solution = solve_rows(
        scale_rows(root, difference),
        root * reward,
        alpha,
        largest_values(features),
    )
    return solution.x, attributes_of(solution, n, n_outer=n)


def forget(estimator):
    """Remove the attributes that only some fits set."""
    for name in (
        "rank_",
        "condition_number_",
        "n_states_",
        "policy_changes_",
    ):
        vars(estimator).pop(name, None)


def attributes_of(
    solution,
    n_rows,
    stop_reason=StopReason.CONVERGED,
    losses=(),
    n_outer=1,
    warned=False,
):
    """The fitted attributes of a `LeastSquaresSolution`. Warns if it is ill-conditioned
    or does not exist.

    Exact solutions cost one pass over the data, for each policy. The first of the
    ``losses`` is at 0.
    """
    condition, rank = solution.condition, solution.rank
    if condition >= ILL_CONDITIONED and not warned:
        warn(
            f"The features are nearly collinear: condition_number_ is {condition:.1e} "
            f"with rank_ {rank}. Rounding alone may change the values by about "
            f"{condition * np.finfo(float).eps:.0e} of their size, and noise in the "
            "data by far more. Set alpha (1e-6 times the mean square of a feature is a "
            "small value), or use fewer features.",
            ConvergenceWarning,
        )
    if solution.endless:
        warn_of_endless_values()
    losses = losses or (solution.start, solution.fun)
    n, pass_ifo = len(losses) - 1, 2 * n_rows + n_outer
    return {
        "loss_curve_": np.array(losses),
        "ifo_": pass_ifo * np.arange(n + 1),
        "_pass_ifo": pass_ifo,
        "n_evaluations_": {
            "inner": n * n_rows,
            "jacobian": n * n_rows,
            "outer": n * n_outer,
        },
        "n_iter_": n,
        "stop_reason_": stop_reason,
        "solver_": "lstd",
        "rank_": rank,
        "condition_number_": condition,
    }
