"""The problems that logged transitions make."""

from functools import partial

import numpy as np
from scipy import sparse

from sk_stormc.metrics import Matrix
from sk_stormc.problems import BellmanProblem, ProjectedBellmanProblem, StreamingProblem
from sk_stormc.problems._linear_value import inverse
from sk_stormc.problems.streaming import stack

__all__ = ["choose_objective", "grouped_problem", "stream_problem"]

RIDGE = 1e-3  # of the mean eigenvalue: stands for what the first transitions of a stream do not show
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


def stream_problem(batches, window, gamma, alpha, fit_intercept):
    """The stream of (features, next_features, rewards), with metric and covariance of its first transitions."""
    first = [stack(parts)[:window] for parts in zip(*batches, strict=True)]
    d = first[0].shape[1]
    alphas = np.full(d, float(alpha))
    if fit_intercept:
        alphas[-1] = 0.0
    problem = partial(ProjectedBellmanProblem, gamma=gamma, alpha=alphas)
    C = problem(*first).covariance
    problem.keywords["covariance"] = C + RIDGE * np.trace(C) / d * np.eye(d)
    stream = StreamingProblem(batches, problem, window=window)
    H = problem(*first).hessian()
    stream.metric = Matrix(inverse(H + RIDGE * np.trace(H) / d * np.eye(d)))
    stream.defaults["batch_size"] = max(32, d // 2)
    return stream
