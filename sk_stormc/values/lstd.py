"""solver="lstd": the exact solution, of all transitions at once or of the moments of a stream."""

import copy

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.solvers import SOLVERS, StopReason
from sk_stormc.utils.validation import check_choice
from sk_stormc.utils.warnings import warn
from sk_stormc.values.least_squares import check_ends, root_of_inverse, solve_moments
from sk_stormc.values.markov import dense, scale_rows
from sk_stormc.values.traces import goes_on, trace_blocks

__all__ = [
    "UNGROUPED",
    "TransitionSums",
    "attributes_of",
    "check_products",
    "check_stays",
    "forget",
    "solve_exactly",
    "solve_traced",
    "solver_or_lstd",
    "stream_moments",
]

ILL_CONDITIONED = 1e10  # condition number from which a solution may have lost more than half of its digits
LARGEST_STREAM = 4000  # features whose moments, four square matrices, still fit in 512 MB
UNGROUPED = "a stream does not group the transitions of a state"
OVERFLOW = "X, y and sample_weight must have finite products: divide what is very large by its scale"
ATTRIBUTES = ("rank_", "condition_number_")


class TransitionSums:
    """Sums over transitions that determine LSTD's solution. Adding makes new ones, so that a failure loses nothing.

    A = sum_k d_k phi_k (phi_k - gamma phi'_k)^T, C = sum_k d_k phi_k phi_k^T, b = sum_k d_k phi_k r_k, each with what
    rounding has taken from it: a million small chunks are as accurate as one large one.

    With traces the first phi_k of A and the phi_k of b are z_k = phi_k + gamma lambda rho_{k-1} z_{k-1}: LSTD(lambda),
    with importance ratios rho that the weights d_k contain too.

    Parameters
    ----------
    n_features : int
        With the intercept's.
    gamma : float
    trace_decay : float, default=0.0
        lambda.
    """

    def __init__(self, n_features, gamma, trace_decay=0.0):
        d = n_features
        self.gamma, self.trace_decay = gamma, trace_decay
        self.trace, self.expected = np.zeros(d), None  # of the last row, and where that row led
        self.sums = [np.zeros((d, d)), np.zeros((d, d)), np.zeros(d)]  # A, C and b
        self.lost = [np.zeros_like(part) for part in self.sums]
        self.weight, self.n_rows, self.largest = 0.0, 0, np.zeros(d)  # the largest absolute value of each feature

    def plus(self, Z, next_Z, y, weights, keys=None):
        """The moments with more transitions.

        Parameters
        ----------
        Z, next_Z : ndarrays or sparse matrices of shape (n, n_features)
            next_Z is 0 where an episode ended.
        y, weights : ndarrays of shape (n,)
            Transitions of weight 0 do not count.
        keys : tuple (left, after, terminal, ratios)
            For `goes_on`, and importance ratios; only needed for traces, which go on behind no row of weight 0.

        Returns
        -------
        TransitionSums
        """
        counted = weights > 0
        if not counted.any():
            result = copy.copy(self)
            result.expected = None if len(y) else self.expected
            return result
        if not counted.all() and not self.trace_decay:
            Z, next_Z, y, weights = Z[counted], next_Z[counted], y[counted], weights[counted]
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = scale_rows(weights, Z)
            if self.trace_decay:
                follows, expected = goes_on(*keys[:3], self.expected)
                follows[1:] &= counted[:-1]
                A, b, trace = self._traced(Z, next_Z, y, weights, follows, np.where(counted, keys[3], 0.0))
            else:
                expected, trace = None, self.trace
                A, b = dense(weighted.T @ (Z - self.gamma * next_Z)), weighted.T @ y
            chunk = A, dense(weighted.T @ Z), b
        if not all(np.isfinite(part).all() for part in chunk):
            raise ValueError(OVERFLOW)
        result = copy.copy(self)
        result.trace, result.expected = trace, expected
        result.weight, result.n_rows = self.weight + weights.sum(), self.n_rows + np.count_nonzero(weights)
        result.largest = np.maximum(self.largest, dense(abs(Z[weights > 0]).max(axis=0)).ravel())
        added = [_add(*parts) for parts in zip(self.sums, self.lost, chunk, strict=True)]
        result.sums, result.lost = ([pair[i] for pair in added] for i in (0, 1))
        return result

    def _traced(self, Z, next_Z, y, weights, follows, ratios):
        """What rows add to A and b, and the last trace times its ratio."""
        trace, A, b = self.trace, np.zeros_like(self.sums[0]), np.zeros_like(self.trace)
        for rows, traces in trace_blocks(Z, follows, self.gamma * self.trace_decay, trace, ratios):
            weighted, trace = weights[rows, None] * traces, ratios[rows][-1] * traces[-1]
            A += weighted.T @ (Z[rows] - self.gamma * next_Z[rows])
            b += weighted.T @ y[rows]
        return A, b, trace

    def solution(self, alpha):
        """LSTD's solution, as `ProjectedBellmanProblem` of the same transitions has it, and the objective there.

        Parameters
        ----------
        alpha : ndarray of shape (n_features,)

        Returns
        -------
        x : ndarray of shape (n_features,)
            0 for a feature that no left state has.
        solution : Solution
        fun : float
        """
        known = np.flatnonzero(self.largest)
        x = np.zeros(len(self.largest))
        A, C, b = ((total + lost) / (self.weight or 1.0) for total, lost in zip(self.sums, self.lost, strict=True))
        A, C, b, alpha = A[np.ix_(known, known)], C[np.ix_(known, known)], b[known], alpha[known]
        if self.gamma == 1:
            check_ends(A, C)
        found = solve_moments(A, b, C, alpha, self.largest[known])
        x[known] = found.x
        if found.vanishes:
            return x, found, 0.0
        residual = root_of_inverse(C)[0].T @ (A @ found.x - b)
        return x, found, float(residual @ residual + alpha @ found.x**2)


def _add(total, lost, part):
    """The sum of two arrays, and the sum of the rounding so far (Neumaier's compensated summation)."""
    result = total + part
    kept = result - total
    return result, lost + ((total - (result - kept)) + (part - kept))


def check_products(Z, next_Z, y):
    """Raise where squares of numbers overflow, which all solvers add."""
    with np.errstate(over="ignore"):
        largest = max(float(abs(part).max()) for part in (Z, next_Z, y))
        if not np.isfinite(largest * largest * len(y)):
            raise ValueError(OVERFLOW)


def solve_exactly(problem):
    """The minimiser of a problem of policy evaluation, and the fitted attributes that tell of it."""
    found = problem.solution()
    n_evaluations = {"inner": problem.n_inner, "jacobian": problem.n_inner, "outer": problem.n_outer}
    fun = 0.0 if found.vanishes else problem.objective(found.x)
    return found.x, attributes_of(found, fun, n_evaluations, StopReason.CONVERGED)


def solve_traced(estimator, rows, order, keys, alpha):
    """As `solve_exactly`, for LSTD(lambda); ``order`` and ``keys`` are from `keys_in_order`."""
    rows = (part[order] for part in rows)
    moments = TransitionSums(len(alpha), estimator.gamma, estimator.trace_decay).plus(*rows, keys)
    x, found, fun = moments.solution(alpha)
    n_evaluations = {"inner": moments.n_rows, "jacobian": moments.n_rows, "outer": 1}
    return x, attributes_of(found, fun, n_evaluations, StopReason.CONVERGED)


def stream_moments(estimator, rows, keys):
    """Add transitions to the moments of an estimator's stream, and solve; nothing is changed.

    Parameters
    ----------
    estimator : BellmanValueEstimator
    rows : tuple (Z, next_Z, y, weights)
        Features of states and successors with the intercept's column, rewards, weights.
    keys : tuple
        For `goes_on`.

    Returns
    -------
    dict
        The new attributes.

    Raises
    ------
    ValueError
        For too many features, and products that are not finite.
    """
    moments = estimator.__dict__.get("_stream")
    began = moments is not None
    d = rows[0].shape[1]
    if d > LARGEST_STREAM:
        raise ValueError(
            f"X must have at most {LARGEST_STREAM} features for partial_fit with solver='lstd', which keeps four "
            f"matrices of n_features x n_features numbers ({32 * d**2 / 1e9:.1f} GB here), got {d}, the intercept "
            "included: set a stochastic solver, or features= with fewer columns"
        )
    if not began:
        moments = TransitionSums(d, estimator.gamma, estimator.trace_decay)
    moments = moments.plus(*rows, keys)
    alpha = np.full(len(moments.largest), float(estimator.alpha))
    if estimator.fit_intercept:
        alpha[-1] = 0.0
    x, found, fun = moments.solution(alpha)
    if not moments.n_rows and hasattr(estimator, "coef_"):
        x = np.append(estimator.coef_, estimator.intercept_)[: len(x)]  # a row may wait for its successor
    n_evaluations = {"inner": moments.n_rows, "jacobian": moments.n_rows, "outer": 1}
    told = began and getattr(estimator, "condition_number_", 0.0) >= ILL_CONDITIONED
    return attributes_of(found, fun, n_evaluations, StopReason.EXHAUSTED, told) | {
        "_stream": moments,
        "coef_": x[:-1] if estimator.fit_intercept else x,
        "intercept_": float(x[-1]) if estimator.fit_intercept else 0.0,
        "objective_": "projected",
        "objective_reason_": UNGROUPED,
    }


def solver_or_lstd(estimator, make):
    """The solver that ``make()`` has of an estimator's parameters; the name "lstd" stands for itself."""
    if isinstance(estimator.solver, str):
        check_choice("solver", estimator.solver, (*SOLVERS, "lstd"))
    elif isinstance(estimator.solver, type):
        name = estimator.solver.__name__
        raise ValueError(f"solver must be an instance or one of {[*SOLVERS, 'lstd']}, got a class: give {name}()")
    if not isinstance(estimator.solver, str) or estimator.solver != "lstd":
        return make()
    probe = copy.copy(estimator)
    probe.solver = "storm-c"
    CompositionalEstimator._make_solver(probe)  # max_iter and tol are checked all the same
    return "lstd"


def check_stays(estimator, exact):
    """Raise where a stream would go on with other parameters, or with "lstd" after a stochastic solver or before one.

    Returns
    -------
    dict
        What holds until the stream ends.
    """
    stream, pending = (estimator.__dict__.get(name) for name in ("_stream", "_pending"))
    held = {name: getattr(estimator, name) for name in ("gamma", "fit_intercept", "trace_decay" if exact else "alpha")}
    if stream is None and pending is None:
        return held
    if stream is not None and isinstance(stream, TransitionSums) != exact:
        before = repr(estimator.solver_) if exact else "'lstd'"
        raise ValueError(
            f"solver must stay {before} while its stream goes on, got {estimator.solver!r}: begin again with fit or a "
            "clone"
        )
    for name, before in vars(estimator).get("_held", held).items():  # not there in what an old version made
        now = getattr(estimator, name)
        if before != now:
            raise ValueError(
                f"{name} must stay {before} while its stream goes on, got {now}: begin again with fit or a clone"
            )
    return held


def forget(estimator):
    """Remove the attributes that only "lstd" leaves."""
    for name in ATTRIBUTES:
        estimator.__dict__.pop(name, None)


def attributes_of(found, fun, n_evaluations, stop_reason, told=False):
    """The fitted attributes that tell of a `Solution`, with a warning where rounding may have spoilt it."""
    if found.condition >= ILL_CONDITIONED and not told:
        warn(
            f"The features are nearly collinear: condition_number_ is {found.condition:.1e} with rank_ {found.rank}. "
            f"Rounding alone may change the values by about {found.condition * np.finfo(float).eps:.0e} of their size, "
            "and chance in the data by far more. Set alpha (1e-6 (1 - gamma)^2 times the mean square of a feature is "
            "little), or take fewer features.",
            ConvergenceWarning,
        )
    return {
        "loss_curve_": np.array([fun]),
        "ifo_": np.array([sum(n_evaluations.values())]),
        "n_evaluations_": n_evaluations,
        "n_iter_": 1,
        "stop_reason_": stop_reason,
        "solver_": "lstd",
        "rank_": found.rank,
        "condition_number_": found.condition,
    }
