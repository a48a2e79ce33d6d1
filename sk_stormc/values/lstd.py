"""solver="lstd": the exact solution, for all transitions at once or from the moments of a stream."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn
from sk_stormc.values.guards import warn_of_endless_values
from sk_stormc.values.least_squares import ridge, solve_rows
from sk_stormc.values.log import by_state
from sk_stormc.values.markov import largest_values, minus_scaled, scale_rows
from sk_stormc.values.moments import OVERFLOW, Moments
from sk_stormc.values.traces import Traces

__all__ = [
    "ILL_CONDITIONED",
    "UNGROUPED",
    "Collected",
    "attributes_of",
    "check_products",
    "check_stays",
    "check_stream_size",
    "forget",
    "solve_bellman",
    "solve_projected",
    "stream_moments",
]

ILL_CONDITIONED = 1e10  # condition number from which a solution may lose more than half of its digits
LARGEST_STREAM = 4000  # features whose moments, four square matrices, still fit in 512 MB
UNGROUPED = "a stream does not group the transitions of a state"
ATTRIBUTES = ("rank_", "condition_number_")


@dataclass(frozen=True, eq=False)
class Collected:
    """The state of a stream for "lstd": the moments of its transitions, and the eligibility traces at its end.

    Attributes
    ----------
    gamma : float
    moments : Moments
    traces : Traces
    """

    gamma: float
    moments: Moments
    traces: Traces

    @classmethod
    def none(cls, n_features, gamma, trace_decay=0.0):
        """The state before the first transition."""
        return cls(gamma, Moments.none(n_features), Traces(gamma * trace_decay, np.zeros((0, n_features))))

    def plus(self, Z, next_Z, y, weights, keys=None):
        """Add transitions. ``keys``, the argument of `Traces.over`, are needed for traces only."""
        counted = weights > 0
        if not self.traces.decay and not counted.all():
            Z, next_Z, y, weights = Z[counted], next_Z[counted], y[counted], weights[counted]
        if not len(y):
            return self
        if not self.traces.decay:
            return replace(self, moments=self.moments + Moments.of_log(Z, next_Z, self.gamma, y, weights))
        traced = self.traces.over(Z, counted, keys)
        moments = self.moments + Moments.of(Z, minus_scaled(Z, self.gamma, next_Z), y, weights, traced)
        return replace(self, moments=moments, traces=traced.after)

    def solution(self, alpha):
        """LSTD's solution, as in `Moments.solution`."""
        return self.moments.solution(alpha, ends=self.gamma == 1)


def check_products(*parts):
    """Raise a ValueError if sums of squares overflow, which all solvers compute."""
    with np.errstate(over="ignore"):
        for part in parts:
            numbers = part.data if sparse.issparse(part) else part.ravel(order="K")
            if not np.isfinite(numbers @ numbers):
                raise ValueError(OVERFLOW)


def solve_bellman(rows, visited, gamma, alpha):
    """The exact minimiser of the "bellman" objective, and the fitted attributes."""
    share, features, difference, reward = by_state(rows, visited, gamma)
    root, unit, n = np.sqrt(share), largest_values(features), len(share)
    found = solve_rows(scale_rows(root, difference), root * reward, alpha, np.where(unit > 0, unit, 1.0))
    return found.x, attributes_of(found, {"inner": n, "jacobian": n, "outer": n}, StopReason.CONVERGED)


def solve_projected(rows, gamma, alpha, trace_decay=0.0, keys=None):
    """The solution of LSTD(lambda), and the fitted attributes. ``keys`` are from `keys_in_order`, for traces."""
    order, keys = keys or (slice(None), None)
    collected = Collected.none(len(alpha), gamma, trace_decay).plus(*(part[order] for part in rows), keys)
    found = collected.solution(alpha)
    return found.x, attributes_of(found, _one_pass(len(rows[2])), StopReason.CONVERGED)


def stream_moments(estimator, rows, keys, left=1.0):
    """Add transitions to the moments of a stream, and solve. Return the new attributes of the estimator."""
    collected = estimator.__dict__.get("_stream")
    began = collected is not None
    d = rows[0].shape[1]
    check_stream_size(d)
    if not began:
        collected = Collected.none(d, estimator.gamma, estimator.trace_decay)
    if left != 1:
        collected = replace(collected, moments=collected.moments * left)
    collected = collected.plus(*rows, keys)
    found = collected.solution(ridge(estimator.alpha, d, estimator.fit_intercept))
    x, n = found.x, collected.moments.n_rows
    if not collected.moments.weight and hasattr(estimator, "coef_"):
        x = np.append(estimator.coef_, estimator.intercept_)[: len(x)]  # the only row waits for its successor
    told = began and getattr(estimator, "condition_number_", 0.0) >= ILL_CONDITIONED
    return attributes_of(found, _one_pass(n), StopReason.EXHAUSTED, told) | {
        "_stream": collected,
        "coef_": x[:-1] if estimator.fit_intercept else x,
        "intercept_": float(x[-1]) if estimator.fit_intercept else 0.0,
        "objective_": "projected",
        "objective_reason_": UNGROUPED,
    }


def check_stream_size(d):
    """Raise a ValueError if there are too many features for the matrices of a stream."""
    if d > LARGEST_STREAM:
        raise ValueError(
            f"X must have at most {LARGEST_STREAM} features for partial_fit with solver='lstd', which keeps four "
            f"matrices of n_features x n_features numbers ({32 * d**2 / 1e9:.1f} GB here), got {d}, the intercept "
            "included, for all actions together: set a stochastic solver, or features= with fewer columns"
        )


def check_stays(estimator, exact, labelled):
    """The parameters that must not change during a stream. Raise a ValueError if one has, or the kind of solver."""
    stream, pending = (estimator.__dict__.get(name) for name in ("_stream", "_pending"))
    held = {name: getattr(estimator, name) for name in ("gamma", "fit_intercept", "trace_decay" if exact else "alpha")}
    held |= {"half_life": estimator.half_life, "episode": labelled}
    if stream is None and pending is None:
        return held
    if stream is not None and isinstance(stream, Collected) != exact:
        before = repr(estimator.solver_) if exact else "'lstd'"
        raise ValueError(
            f"solver must stay {before} while its stream goes on, got {estimator.solver!r}: begin again with fit or a "
            "clone"
        )
    for name, before in vars(estimator).get("_held", held).items():  # missing in pickles of old versions
        now = held[name]
        if name == "episode" and before != now:
            raise ValueError(
                f"episode must stay {'given' if before else 'None'} while the stream goes on: begin again with fit or "
                "a clone"
            )
        if before != now:
            raise ValueError(
                f"{name} must stay {before} while its stream goes on, got {now}: begin again with fit or a clone"
            )
    return held


def forget(estimator):
    """Remove the attributes that only "lstd" sets."""
    for name in ATTRIBUTES:
        estimator.__dict__.pop(name, None)


def _one_pass(n):
    return {"inner": n, "jacobian": n, "outer": 1}


def warn_if_undetermined(n_states, n_columns):
    """Warn if there are fewer distinct states than features, so that values elsewhere are a matter of chance."""
    if n_states < n_columns:
        warn(
            f"{n_states} distinct states do not determine the coefficients of {n_columns} features: the values of "
            "these states are fitted exactly, and those of other states may be anything. Set alpha (1e-3 times the "
            "mean square of a feature, say), use fewer features, or more transitions.",
            ConvergenceWarning,
        )


def attributes_of(found, n_evaluations, stop_reason, told=False):
    """The fitted attributes of a `Solution`. It warns if the solution is ill-conditioned or does not exist."""
    if found.condition >= ILL_CONDITIONED and not told:
        warn(
            f"The features are nearly collinear: condition_number_ is {found.condition:.1e} with rank_ {found.rank}. "
            f"Rounding alone may change the values by about {found.condition * np.finfo(float).eps:.0e} of their size, "
            "and noise in the data by far more. Set alpha (1e-6 times the mean square of a feature is a small value), "
            "or use fewer features.",
            ConvergenceWarning,
        )
    if found.endless:
        warn_of_endless_values()
    return {
        "loss_curve_": np.array([found.start, found.fun]),
        "ifo_": np.array([0, sum(n_evaluations.values())]),
        "n_evaluations_": n_evaluations,
        "n_iter_": 1,
        "stop_reason_": stop_reason,
        "solver_": "lstd",
        "rank_": found.rank,
        "condition_number_": found.condition,
    }
