"""The problems that logged transitions make."""

import numpy as np
from scipy import sparse

from sk_stormc.streams.problem import WINDOW
from sk_stormc.values.moments import TransitionStream
from sk_stormc.values.problem import BellmanProblem, ProjectedBellmanProblem

__all__ = ["choose_objective", "grouped_problem", "value_problem", "value_stream", "window_of"]

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


def value_problem(objective, transitions, visited, leads_to, gamma, alpha):
    """The problem of an objective.

    Parameters
    ----------
    objective : {"bellman", "projected"}
    transitions : tuple
        Features of states and of successors (0 where an episode ended), rewards, weights.
    visited : tuple of ndarray
        For each transition the number of its state, and for each state its first transition.
    leads_to : ndarray of shape (n_transitions, n_keys)
        What identifies a successor.
    gamma : float
    alpha : ndarray of shape (n_features,)

    Returns
    -------
    BellmanProblem or ProjectedBellmanProblem
    """
    Z, next_Z, y, weights = transitions
    if objective == "projected":
        return ProjectedBellmanProblem(Z, next_Z, y, gamma, sample_weight=weights, alpha=alpha)
    state, first = visited
    _, where, successor = np.unique(leads_to, axis=0, return_index=True, return_inverse=True)
    return grouped_problem(state, successor.reshape(-1), weights, y, Z[first], next_Z[where], gamma, alpha)


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
