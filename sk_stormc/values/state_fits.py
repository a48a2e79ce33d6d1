"""Fits of values of states: to logs in memory, and to logs whose rows lie in blocks."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from sk_stormc.fitting.runs import Fit
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.mapped_rows import MappedRows, blocks
from sk_stormc.values.least_squares import check_ends, of_columns
from sk_stormc.values.linear_estimator import notify_of
from sk_stormc.values.log_blocks import LogBlocks, reads_blocks
from sk_stormc.values.lspi import Largest
from sk_stormc.values.lstd import (
    LSTD,
    Collected,
    Moments,
    attributes_of,
    check_products,
    solve_bellman,
    warn_if_undetermined,
    warn_of_few_states,
)
from sk_stormc.values.markov import dense
from sk_stormc.values.objectives import (
    REPEATING,
    choose_objective,
    text_of_repeating,
    value_problem,
)
from sk_stormc.values.problems import LARGEST_HESSIAN
from sk_stormc.values.states import digests, distinct_rows
from sk_stormc.values.traces import continues
from sk_stormc.values.transitions import NONE, Reader, read_log
from sk_stormc.values.uncertainty import (
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
        return "rows in partitions are added up, and not grouped by their states"
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
    estimator._make_solver()  # raises if a parameter is wrong
    reason = reason_for_blocks(estimator, X, log_columns)
    if reason is not None:
        return fit_blocks(estimator, X, y, log_columns, reason)
    names, reader = log_columns.names(), Reader(copy.copy(estimator))
    chunk, occurs = read_log(reader, X, y, log_columns)
    chunk, columns = chunk.without_zeros(occurs)
    log = chunk.counted()
    check_products(log.Z, log.next_Z, log.y)
    gamma, decay = estimator.gamma, estimator.trace_decay
    alpha = estimator._alphas(len(columns))
    if gamma == 1:
        A, _, C = Moments.of_log(*log.rows, gamma).means()
        check_ends(A, C)
    first, number = distinct_rows(log.states)
    visited = number, first
    objective, reason = choose_objective(
        estimator.objective, log.rows, visited, gamma, alpha, decay
    )
    # only "lstd" supports traces
    solver = estimator._solver_for(0 if decay else len(columns))
    projected = objective == "projected"
    if decay and log_columns.next_X is not None and log.episode is not None:
        ends = chunk.terminal | np.append(log.episode[1:] != log.episode[:-1], True)
        continues(chunk.states, chunk.follows(), ends)  # may warn

    def values(x):
        w = np.zeros(len(occurs))
        w[columns] = x
        return of_columns(w, estimator.fit_intercept) | {
            "features_": reader.features,
            "_given": names,
        }

    exact, run, sums = {}, (), Collected.none(len(columns), gamma, decay)
    fit = Fit.if_observed(estimator, solver, X, y, before, **log_columns._asdict())
    labelled = log.episode is not None and len(columns) <= LARGEST_HESSIAN
    if projected and (labelled or solver is LSTD):
        moments = sums.plus(chunk).moments
    if solver is LSTD:
        if projected:
            solution = moments.solution(alpha, ends=gamma == 1)
            x, exact = solution.x, attributes_of(solution, moments.n_rows)
        else:
            x, exact = solve_bellman(log.rows, visited, gamma, alpha)
        notify_of(fit, exact, x, values)
        if not np.any(alpha):
            warn_if_undetermined(log.Z, first, len(columns) - estimator.fit_intercept)
    else:
        problem = value_problem(
            objective, log.rows, visited, log.leads_to, gamma, alpha
        )
        estimator._accept(solver, problem)
        result = fit.run(solver, problem, verbose=estimator.verbose, attributes=values)
        x, run = result.x, (solver, problem, result)

    spread = None
    if labelled and projected:
        occur = np.arange(len(columns))
        spread = spread_of_projected(estimator, chunk, moments, x, alpha, sums, occur)
    elif labelled:
        spread = spread_of_bellman(log, number, x, alpha, gamma, estimator.half_life)
    fitted = values(x) | {
        "_spread": spread and (spread, columns),
        "n_states_": len(first),
        "objective_": objective,
        "objective_reason_": reason,
    }
    return estimator._store(X, fitted, exact, fit, run)


def fit_blocks(estimator, X, y, log_columns, reason):
    """Fit a `BellmanValueEstimator` by the "projected" objective. Its attributes change
    at the end."""
    log, gamma = LogBlocks(estimator, X, y, log_columns), estimator.gamma

    def moments_of(t):
        moments = Moments.of_log(*t.rows, gamma)
        ends = np.stack(
            [dense(t.Z.max(axis=0)).ravel(), -dense(t.Z.min(axis=0)).ravel()]
        )
        few = FewRows.of(t.states, t.Z.shape[1])
        return moments, int(t.terminal.sum()), Largest(ends), few

    total = log.sum(moments_of)
    if total is None:
        raise ValueError(NONE)
    moments, n_ends, ends, few = total
    d = len(moments.largest)
    alpha = estimator._alphas(d)
    solution = moments.solution(alpha, ends=gamma == 1)
    x, columns, spread = solution.x, np.flatnonzero(moments.largest), None
    if log_columns.episode is not None and d <= LARGEST_HESSIAN:
        sums = Collected.none(d, gamma)
        parts = log, moments, x, alpha, sums, columns
        spread = spread_of_projected(estimator, *parts), columns
    if not alpha.any():
        differ = moments.largest if len(few.rows) == 1 else ends.values.sum(axis=0)
        warn_of_few_states(
            len(few.rows), np.count_nonzero(differ[: d - estimator.fit_intercept])
        )
    exact = attributes_of(solution, moments.n_rows)
    fitted = of_columns(x, estimator.fit_intercept) | {
        "features_": log.features,
        "objective_": "projected",
        "objective_reason_": reason,
        "_spread": spread,
        "_given": (log_columns.successor_names(), n_ends > 0),
    }
    return estimator._store(log.empty, fitted, exact)


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
class FewRows:
    """Distinct rows of a matrix, up to a largest number of them."""

    rows: np.ndarray
    most: int

    @classmethod
    def of(cls, rows, most):
        """The first distinct rows."""
        return cls(rows[distinct_rows(rows)[0][:most]], most)

    def __add__(self, other):
        return FewRows.of(np.concatenate([self.rows, other.rows]), self.most)
