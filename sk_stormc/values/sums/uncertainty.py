"""Standard errors of values over samples of episodes: cluster-robust sandwich
covariances."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse, stats

from sk_stormc.values.markov import dense, minus_scaled, scale_rows, side_by_side
from sk_stormc.values.reading.episodes import (
    hashes_of,
    keys_of,
    numbers_of_labels,
    remembered,
)
from sk_stormc.values.sums.least_squares import SINGULAR
from sk_stormc.values.sums.traces import Traces

# effective number of episodes below which standard errors are themselves uncertain
FEW_EPISODES = 20
# number of groups into which the episodes of a stream are hashed; a standard error from
# fewer would be uncertain
GROUPS = 64
# number of features up to which a stream keeps a matrix for each group (134 MB)
MAX_GROUPED_FEATURES = 512


@dataclass(frozen=True, eq=False)
class Spread:
    """The sandwich estimate of the covariance of the coefficients over samples of
    episodes."""

    bread: np.ndarray  # Jacobian of the estimating equations
    # sum of the outer products of the clusters' scores, their contributions to the
    # equations
    meat: np.ndarray
    # number of episodes or of groups of them; with a half-life, their effective number
    n_clusters: float
    n_rows: float  # number of transitions; with a half-life, their effective number

    @classmethod
    def of(cls, bread, scores, n_rows, half_life=None, weights=None):
        """The estimate from the scores of clusters, of shape (n_clusters, n_features).

        With a half-life, ``weights`` are the sums of the clusters' weights.
        """
        n = len(scores)
        share = (
            np.full(n, 1 / max(n, 1)) if half_life is None else weights / weights.sum()
        )
        centred = scores - share[:, None] * scores.sum(axis=0)
        n_clusters = n if half_life is None else 1 / np.square(share).sum()
        return cls(
            bread, centred.T @ centred, n_clusters, remembered(half_life, n_rows)
        )

    @cached_property
    def covariance(self):
        """The covariance matrix of the coefficients, of shape (n_features,
        n_features)."""
        m, n, d = self.n_clusters, self.n_rows, len(self.bread)
        size = np.sqrt(np.square(self.bread).sum(axis=0))
        scale = 1 / np.where(size > 0, size, 1.0)
        inverse = scale[:, None] * np.linalg.pinv(self.bread * scale, rcond=SINGULAR)
        correction = m / (m - 1) * max(n - 1, 1) / max(n - d, 1)
        return correction * (inverse @ self.meat @ inverse.T)

    def deviation(self, Z):
        """Standard deviations of the values of states with features Z."""
        variance = (Z * (Z @ self.covariance)).sum(axis=1)
        return np.sqrt(np.maximum(variance, 0.0))

    def reach(self, confidence):
        """The two-sided quantile of Student's t, by which an interval multiplies the
        standard deviation."""
        return float(stats.t.ppf(0.5 + confidence / 2, self.n_clusters - 1))


def spread_of_bellman(log, number, x, alpha, gamma, half_life):
    """The `Spread` of a minimiser x of the "bellman" objective, from a log with
    episodes and the numbers of its states. With a half-life the weights of the log are
    already discounted."""
    Z, next_Z, y, weights = log.rows
    weights, error = weights / weights.sum(), Z @ x - gamma * (next_Z @ x) - y
    episode, difference = numbers_of_labels(log.episode), minus_scaled(Z, gamma, next_Z)
    # contribution of row k to sum_s d_s a_s e_s, with the mean difference a_s and the
    # mean error e_s of a state
    visits = np.bincount(number, weights)
    share = weights / visits[number]
    mean = sums_by(number, difference, share)
    mean_error = np.bincount(number, share * error)[number]
    scores = sums_by(episode, difference, weights * mean_error)
    scores -= sums_by(episode, mean[number], weights * mean_error)
    scores += sums_by(episode, mean[number], weights * error)
    bread = mean.T @ scale_rows(visits, mean) + np.diag(alpha)
    weights = np.bincount(episode, weights)
    return Spread.of(bread, scores, len(y), half_life, weights)


def sums_of_episodes(t, eligible, error):
    """Sums over the episodes of a chunk of the rows' contributions to the equations,
    ``eligible`` features times the weighted errors, and of the weights."""
    scores = scale_rows(t.weights * error, eligible)
    rows = side_by_side(scores, t.weights[:, None])
    most = max(4, 2**24 // rows.shape[1])  # 134 MB, before episodes are grouped
    return SumsByKey.by(keys_of(t.episode), rows, most)


def spread_of_sums(scores, bread, total, half_life=None):
    """The `Spread` of a fit from the sums of all episodes that count. ``total`` has the
    weight and the number of all rows."""
    sums = scores.sums[scores.sums[:, -1] > 0] / total.weight
    return Spread.of(bread, sums[:, :-1], total.n_rows, half_life, sums[:, -1])


def sums_by(numbers, rows, factors):
    """Sums of rows with the same number, each multiplied by its factor: an ndarray of
    shape (n_numbers, d)."""
    n = len(numbers)
    gather = sparse.csr_array(
        (factors, (numbers, np.arange(n))), shape=(numbers.max() + 1, n)
    )
    return dense(gather @ rows)


@dataclass(frozen=True, eq=False)
class SumsByKey:
    """Sums of the rows with the same key, in the order of the keys (immutable). Sums of
    other rows are added by ``+``.

    Once there are more than ``most`` keys, those with the same remainder are joined.
    """

    keys: np.ndarray
    sums: np.ndarray
    most: int | None = None
    joined: bool = False

    @classmethod
    def by(cls, keys, rows, most=None, joined=False):
        """The sums of some rows, of which each has a key."""
        unique, number = np.unique(
            keys % np.uint64(most // 2) if joined else keys, return_inverse=True
        )
        if most is not None and not joined and len(unique) > most:
            return cls.by(keys, rows, most, joined=True)
        total = sums_by(number, rows, np.ones(len(keys))) if len(keys) else rows
        return cls(unique, total, most, joined)

    def __add__(self, other):
        keys, sums = (
            np.concatenate(pair)
            for pair in ((self.keys, other.keys), (self.sums, other.sums))
        )
        return self.by(keys, sums, self.most, self.joined or other.joined)

    def of(self, keys):
        """The sums for some of the keys."""
        return self.sums[np.searchsorted(self.keys, keys)]


@dataclass(frozen=True, eq=False)
class Groups:
    """Sums over the transitions of a stream for groups of its episodes. The group is a
    hash of the episode's label."""

    gamma: float
    traces: Traces
    n_rows: int  # number of transitions of positive weight
    # of each group: A and b, side by side as one row, the weighted sizes of the
    # features, and the weights, discounted with a half-life
    sums: SumsByKey

    @classmethod
    def none(cls, n_features, gamma, trace_decay):
        """The sums of zero transitions."""
        sums = SumsByKey(np.zeros(0, dtype=int), np.zeros((0, (n_features + 1) ** 2)))
        return cls(gamma, Traces(gamma * trace_decay), 0, sums)

    def plus(self, t, left=1.0):
        """Add the transitions of a chunk.

        ``left`` is the discount factor of the weights of earlier transitions.
        """
        if not len(t.y):
            return self
        Z, next_Z, y, weights = t.rows
        eligible, traces = Z, self.traces
        if traces.decay:
            traced = traces.over(t)
            eligible = np.vstack([block for _, block in traced])
            traces = traced.after
        weighted = scale_rows(weights, eligible).T
        right = side_by_side(minus_scaled(Z, self.gamma, next_Z), y[:, None])
        keys = hashes_of(t.episode, zlib.crc32) % GROUPS
        groups = np.unique(keys)
        equations = [
            dense(weighted[:, some] @ right[some]).ravel()
            for some in (np.flatnonzero(keys == group) for group in groups)
        ]
        sizes = side_by_side(abs(scale_rows(weights, Z)), weights[:, None])
        sizes = SumsByKey.by(keys, sizes).sums
        sums = replace(self.sums, sums=left * self.sums.sums)
        sums += SumsByKey(groups, np.hstack([equations, sizes]))
        n_rows = self.n_rows + np.count_nonzero(weights)
        return replace(self, traces=traces, n_rows=n_rows, sums=sums)

    @property
    def weight(self):
        """The sum of the weights."""
        return self.sums.sums[:, -1].sum() or 1.0

    def columns(self):
        """Indices of the features that are not 0 in all transitions."""
        d = math.isqrt(self.sums.sums.shape[1]) - 1
        return np.flatnonzero(self.sums.sums[:, -1 - d : -1].any(axis=0))

    def spread(self, x, alpha, half_life=None):
        """The `Spread` at the coefficients x."""
        sums, d, occurs = self.sums.sums, len(x), self.columns()
        equations = sums[:, : d * (d + 1)].reshape(-1, d, d + 1)[:, occurs]
        A, b = equations[:, :, occurs], equations[:, :, -1]
        scores = np.column_stack([A @ x[occurs] - b, sums[:, -1]])
        bread = A.sum(axis=0) / self.weight + np.diag(alpha[occurs])
        scores = SumsByKey(self.sums.keys, scores)
        return spread_of_sums(scores, bread, self, half_life)
