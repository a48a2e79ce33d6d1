"""Fits of values of states to logs whose rows lie in blocks: sums over the blocks, and
exact solutions in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sk_stormc.fitting.compat import callbacks_of
from sk_stormc.solvers import StopReason
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.mapped_rows import MappedRows, blocks
from sk_stormc.values.log_blocks import LogBlocks
from sk_stormc.values.lspi import Largest, of_columns
from sk_stormc.values.lstd import Moments, attributes_of, warn_of_few_states
from sk_stormc.values.markov import dense, scale_rows
from sk_stormc.values.objectives import REPEATING, text_of_repeating
from sk_stormc.values.problems import LARGEST_HESSIAN
from sk_stormc.values.transitions import NONE, digests, distinct_rows
from sk_stormc.values.uncertainty import spread_of_sums, sums_of_episodes


def reads_blocks(X, log_columns, estimator):
    """Whether a fit adds up blocks: of dask collections, and of files if the rows have
    successors of their own.

    Other fits of files read them into memory.
    """
    if is_dask(X):
        return True
    if (
        log_columns.next_X is None
        or log_columns.time is not None
        or not isinstance(MappedRows.of(X), MappedRows)
    ):
        return False
    special = (
        callbacks_of(estimator)
        or estimator.features is not None
        or getattr(estimator, "trace_decay", 0)
    )
    return estimator.solves_itself() and X.shape[1] < LARGEST_HESSIAN and not special


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


def fit_states(estimator, X, y, log_columns, reason):
    """Fit a `BellmanValueEstimator` by the "projected" objective. Its attributes change
    at the end."""
    log, gamma = LogBlocks(estimator, X, y, log_columns), estimator.gamma

    def moments_of(t):
        if not len(t.y):
            return None
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
    d, n = len(moments.b), moments.n_rows
    alpha = estimator._alphas(d)
    solution = moments.solution(alpha, ends=gamma == 1)
    x, columns, spread = solution.x, np.flatnonzero(moments.largest), None
    if log_columns.episode is not None and d <= LARGEST_HESSIAN:

        def scores_of(t):
            if not len(t.y):
                return None
            error = t.weights * (t.Z @ x - gamma * (t.next_Z @ x) - t.y)
            return sums_of_episodes(t, dense(scale_rows(error, t.Z[:, columns])))

        bread = moments.means()[0] + np.diag(alpha)
        bread = bread[np.ix_(columns, columns)]
        scores = log.sum(scores_of)
        spread = spread_of_sums(scores, bread, moments, estimator.half_life), columns
    if not alpha.any():
        differ = moments.largest if len(few.rows) == 1 else ends.values.sum(axis=0)
        warn_of_few_states(
            len(few.rows), np.count_nonzero(differ[: d - estimator.fit_intercept])
        )
    exact = attributes_of(
        solution, {"inner": n, "jacobian": n, "outer": 1}, StopReason.CONVERGED
    )
    fitted = of_columns(x, estimator.fit_intercept) | {
        "features_": log.features,
        "objective_": "projected",
        "objective_reason_": reason,
        "_spread": spread,
        "_given": (log_columns.successor_names(), n_ends > 0),
    }
    return estimator._store(log.empty, fitted, exact)


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
