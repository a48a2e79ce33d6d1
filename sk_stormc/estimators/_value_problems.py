"""The problems that logged transitions make."""

import numpy as np
from scipy import sparse

from sk_stormc.problems import BellmanProblem
from sk_stormc.problems._moments import TransitionStream
from sk_stormc.problems.streaming import WINDOW

__all__ = ["choose_objective", "grouped_problem", "value_stream", "window_of"]

REPEATING = 0.5  # share of the transitions from states visited more than once that makes objective="auto" "bellman"


def choose_objective(objective, state, weights, trace_decay=0.0):
    """The objective, and why. Integer weights are visits; with others (importance ratios) each row is one visit."""
    if objective != "auto":
        return objective, "as given"
    if trace_decay:
        return "projected", "it has eligibility traces"
    visits = np.bincount(state, weights if (weights == np.rint(weights)).all() else None)
    share = visits[visits > 1].sum() / visits.sum()
    reason = f"{share:.0%} of the transitions are from states visited more than once"
    return ("bellman" if share >= REPEATING else "projected"), reason


def grouped_problem(state, successor, weights, y, features, next_features, gamma, alpha):
    """The Bellman problem of the estimated model: frequencies of successors and mean rewards of transitions."""
    n, m = features.shape[0], next_features.shape[0]
    entry = state.astype(np.int64) * m + successor
    entries, number = np.unique(entry, return_inverse=True)
    total = np.bincount(number, weights)
    visits = np.bincount(state, weights)
    rows, columns = entries // m, entries % m
    P = sparse.csr_array((total / visits[rows], (rows, columns)), shape=(n, m))
    R = sparse.csr_array((np.bincount(number, weights * y) / total, (rows, columns)), shape=(n, m))
    return BellmanProblem(
        P, R, features, gamma, next_features=next_features, sample_weight=visits, alpha=alpha
    )


def window_of(n_features):
    """Transitions by which a stream is known."""
    return max(WINDOW, 10 * n_features)


def value_stream(batches, window, gamma, alpha, fit_intercept):
    """The stream of (features, next_features, rewards, weights)."""
    d = batches[0][0].shape[1]
    alphas = np.full(d, float(alpha))
    if fit_intercept:
        alphas[-1] = 0.0
    return TransitionStream(batches, window, gamma, alphas)
