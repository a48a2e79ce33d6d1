"""Fits of values of states: to logs in memory, and to logs whose rows lie in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.fitting.runs import Fit
from sk_stormc.streams.rows import stack
from sk_stormc.utils.blocks import MappedRows, blocks, is_dask
from sk_stormc.utils.warnings import warn
from sk_stormc.values.linear_estimator import notify_of
from sk_stormc.values.markov import dense
from sk_stormc.values.reading.states import digests, distinct_rows
from sk_stormc.values.sums.least_squares import check_ends, of_columns
from sk_stormc.values.sums.log_blocks import LogBlocks, LogInMemory, reads_blocks
from sk_stormc.values.sums.lstd import (
    LSTD,
    Collected,
    TransitionMoments,
    attributes_of,
    check_products,
    solve_bellman,
)
from sk_stormc.values.sums.objectives import (
    REPEATING,
    choose_objective,
    text_of_repeating,
    value_problem,
)
from sk_stormc.values.sums.problems import LARGEST_HESSIAN
from sk_stormc.values.sums.traces import warn_if_disordered
from sk_stormc.values.sums.uncertainty import (
    spread_of_bellman,
    spread_of_sums,
    sums_of_episodes,
)


def reason_for_blocks(estimator, X, log_columns):
    """Why a `BellmanValueEstimator` minimises the "projected" objective by blocks, or
    None if it does not do so."""
    if not reads_blocks(X, log_columns, estimator) or (
        estimator.objective == "bellman" and not is_dask(X)
    ):
        return None
    if estimator.objective != "auto":
        return "as given"
    if is_dask(X):
        return "rows in partitions are summed, and not grouped by their states"
    hashes = np.concatenate(
        [
            digests(np.asarray(block, dtype=float))
            for _, block in blocks(MappedRows.of(X))
        ]
    )
    for weights in (log_columns.sample_weight, log_columns.importance_ratio):
        if np.shape(weights) == hashes.shape:  # other shapes raise an error later
            hashes = np.where(np.asarray(weights) > 0, hashes, 0)
    visits = np.unique(hashes[hashes > 0], return_counts=True)[1]
    share = visits[visits > 1].sum() / max(1, visits.sum())
    return text_of_repeating(share) if share < REPEATING else None


def fit_states(estimator, X, y, log_columns, before):
    """Fit a `BellmanValueEstimator`, or resume the fit whose progress is ``before``.
    Its attributes change at the end."""
    solver = estimator._make_solver()  # raises if a parameter is wrong
    reason = reason_for_blocks(estimator, X, log_columns)
    log = (LogInMemory if reason is None else LogBlocks)(estimator, X, y, log_columns)
    gamma, decay, d = estimator.gamma, estimator.trace_decay, len(log.columns)
    # only "lstd" supports traces and rows in blocks
    size = d if log.in_memory and not decay else 0
    alpha, solver = estimator._alphas(d), estimator._solver_for(solver, size)
    objective, spread, few, more = "projected", None, None, {}
    if log.in_memory:
        rows = log.chunk.counted()
        check_products(rows.Z, rows.next_Z, rows.y)
        first, number = distinct_rows(rows.states)
        visited, more = (number, first), {"n_states_": len(first)}
        few = FewStates(rows.states[first[:d]], rows.Z[first[:d]])
        objective, reason = choose_objective(
            estimator.objective, rows.rows, visited, gamma, alpha, decay
        )
        if gamma == 1 and (objective, solver) != ("projected", LSTD):
            A, _, C = TransitionMoments.of_log(*rows.rows, gamma).means()
            check_ends(A, C)
        if decay and log_columns.next_X is not None:
            warn_if_disordered(log.chunk)

    def values(x):
        return of_columns(log.spread_out(x), estimator.fit_intercept) | {
            "features_": log.features,
            "_given": log.given,
        }

    fit = Fit.if_observed(estimator, solver, X, y, before, **log_columns._asdict())
    labelled = log_columns.episode is not None and d <= LARGEST_HESSIAN
    sums, exact, run = Collected.none(d, gamma, decay), {}, ()
    if objective == "projected" and (labelled or solver is LSTD):
        moments, n_ends, few = log.sum(partial(sums_of, sums, few))
        log.given = log.given[0], n_ends > 0
    if solver is not LSTD:
        problem = value_problem(
            objective, rows.rows, visited, rows.leads_to, gamma, alpha
        )
        estimator._accept(solver, problem)
        result = fit.run(solver, problem, verbose=estimator.verbose, attributes=values)
        x, run = result.x, (solver, problem, result)
    elif objective == "projected":
        solution = moments.solution(alpha, ends=gamma == 1)
        x, exact = solution.x, attributes_of(solution, moments.n_rows)
    else:
        x, exact = solve_bellman(rows.rows, visited, gamma, alpha)
    if exact:
        notify_of(fit, exact, x, values)
        if not alpha.any():
            few.warn_of_columns(d - estimator.fit_intercept)
    if labelled and objective == "projected":
        columns = np.flatnonzero(moments.largest)
        parts = log, moments, x, alpha, sums, columns
        spread = spread_of_projected(estimator, *parts), log.columns[columns]
    elif labelled:
        parts = number, x, alpha, gamma, estimator.half_life
        spread = spread_of_bellman(rows, *parts), log.columns
    fitted = values(x) | {
        "objective_": objective,
        "objective_reason_": reason,
        "_spread": spread,
    }
    return estimator._store(log.table, fitted | more, exact, fit, run)


def sums_of(before, few, t):
    """Sums over transitions for the "projected" objective, of which ``before`` has the
    traces: moments, the number of ends, and the `FewStates` if they are not known."""
    few = few or FewStates.of(t.states, t.Z)
    return before.plus(t).moments, int(t.terminal.sum()), few


def spread_of_projected(estimator, log, moments, x, alpha, sums, columns):
    """The `Spread` of the solution x of the "projected" objective, for some of the
    features, from the moments of a log and the `Collected` before it."""

    def scores_of(t):
        eligible = t.Z
        if sums.traces.decay:
            eligible = np.vstack([traces for _, traces in sums.traces.over(t)])
        error = t.Z @ x - sums.gamma * (t.next_Z @ x) - t.y
        return sums_of_episodes(t, eligible[:, columns], error)

    bread = (moments.means()[0] + np.diag(alpha))[np.ix_(columns, columns)]
    return spread_of_sums(log.sum(scores_of), bread, moments, estimator.half_life)


@dataclass(frozen=True, eq=False)
class FewStates:
    """Distinct states and their features, up to as many as there are features."""

    states: np.ndarray
    Z: Any

    @classmethod
    def of(cls, states, Z):
        """The first distinct states."""
        most = Z.shape[1]
        n = 4 * most
        while len(first := distinct_rows(states[:n])[0]) < most and n < len(states):
            n *= 4
        return cls(states[first[:most]], Z[first[:most]])

    def __add__(self, other):
        states = np.concatenate([self.states, other.states])
        return FewStates.of(states, stack([self.Z, other.Z]))

    def warn_of_columns(self, n_columns):
        """Warn if these are fewer than those of the first features that differ in them:
        other values are not determined."""
        n = len(self.states)
        if 1 < n < n_columns:
            features = dense(self.Z[:, :n_columns])
            n_columns = int(np.count_nonzero(np.ptp(features, axis=0)))
        if n < n_columns:
            warn(
                f"{n} distinct states do not determine the coefficients of "
                f"{n_columns} features: the values of these states are fitted exactly, "
                "and those of other states may be anything. Set alpha (1e-3 times the "
                "mean square of a feature, say), use fewer features, or more "
                "transitions.",
                ConvergenceWarning,
            )
