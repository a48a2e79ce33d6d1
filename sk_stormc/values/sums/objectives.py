"""The choice of the objective for logged transitions, and its problem."""

import numpy as np
from scipy import sparse

from sk_stormc.streams.rows import stack
from sk_stormc.values.markov import dense, largest_values, scale_rows, summed_entries
from sk_stormc.values.reading.states import distinct_rows
from sk_stormc.values.sums.least_squares import solve_rows
from sk_stormc.values.sums.lstd import by_state
from sk_stormc.values.sums.problems import LARGEST_HESSIAN, BellmanProblem, inverse
from sk_stormc.values.sums.projected import ProjectedBellmanProblem

# fraction of transitions from states visited more than once, from which "auto" may
# select "bellman"; with fewer its bias is large
REPEATING = 0.5


def choose_objective(objective, transitions, visited, gamma, alpha, trace_decay=0.0):
    """Choose the objective. Return it with the reason.

    "auto" selects "bellman" if states repeat and its minimiser is reliable. It is
    reliable if the features distinguish the states, so that the residual can vanish, or
    if the bias of few visits is at most the noise. Visits are numbers of rows, because
    weights may be importance ratios.
    """
    if objective != "auto":
        return objective, "as given"
    if trace_decay:
        return "projected", "it has eligibility traces"
    visits = np.bincount(visited[0])
    share = visits[visits > 1].sum() / visits.sum()
    reason = text_of_repeating(share)
    if share < REPEATING:
        return "projected", reason
    features = transitions[0][visited[1]]
    if distinguish_states(features):
        return "bellman", f"{reason}, and features tell the states apart"
    if features.shape[1] > LARGEST_HESSIAN:
        return (
            "projected",
            f"{reason}, but there are too many features to know whether they tell the "
            "states apart",
        )
    bias, noise = bias_and_noise(transitions, visited, gamma, alpha)
    bias_text = (
        f"the bias that so few visits give values (about {bias:.2g}) is {{}} their "
        f"noise (about {noise:.2g})"
    )
    if bias > noise:
        return "projected", f"{reason}, but {bias_text.format('above')}"
    return "bellman", f"{reason}, and {bias_text.format('not above')}"


def text_of_repeating(share):
    """The fraction of transitions from states that repeat, for the reason of a
    choice."""
    return f"{share:.0%} of the transitions are from states visited more than once"


def distinguish_states(features):
    """Whether the features, of shape (n_states, n_features), distinguish the states:
    their rows are independent."""
    n, d = features.shape
    if n > d:
        return False
    rows, columns = features.nonzero()
    own = np.bincount(columns, minlength=d)[columns] == 1  # features of only one state
    if len(np.unique(rows[own])) == n:
        return True
    return n <= LARGEST_HESSIAN and np.linalg.matrix_rank(dense(features)) == n


def bias_and_noise(transitions, visited, gamma, alpha):
    """Bias and standard error of the values that minimise the Bellman residual of an
    estimated model.

    The residual contains the variance of the mean target of a state, r + gamma V(s')
    over its n_s visits, which biases V towards small values. The gradient of the
    variance is gamma sum_s d_s Cov(phi', r + gamma V(s') | s) / n_s, and is estimated
    within states. For states that were visited once, the mean variance of the other
    states is used. Both results are root mean squares over the states, to first order
    in the variance.
    """
    _, next_Z, y, weights = transitions
    share, features, A, reward = by_state(transitions, visited, gamma)
    state, root = visited[0], np.sqrt(share)
    rows = scale_rows(root, A)
    x = solve_rows(rows, root * reward, alpha, largest_values(features)).x
    visits, weights = np.bincount(state), weights / weights.max()
    part = weights / np.bincount(state, weights)[state]
    target = y + gamma * (next_Z @ x)
    error = target - np.bincount(state, part * target)[state]
    often = visits > 1
    unbiased = np.where(often, visits / np.maximum(visits - 1, 1), 0.0)
    spread = np.bincount(state, part * error**2) * unbiased  # variance of a target
    spread[~often] = np.average(spread[often], weights=share[often])
    # one over the number of visits, if weights are equal
    fraction = np.bincount(state, part**2)
    # weight of states visited once, for which the others are used
    once = share[~often].sum() / share[often].sum()
    gradient = gamma * (
        ((share * (fraction + once) * unbiased)[state] * part * error) @ next_Z
    )
    H = inverse(dense(rows.T @ rows) + np.diag(alpha))
    bias = features @ (H @ gradient)
    C = dense(scale_rows(share, features).T @ features)
    # noise of the gradient due to the target of each state
    rows = scale_rows(share * np.sqrt(fraction * spread), A)
    return float(np.sqrt(share @ bias**2)), float(
        np.sqrt(np.sum((H @ C @ H) * dense(rows.T @ rows)))
    )


def value_problem(objective, transitions, visited, leads_to, gamma, alpha):
    """The problem of an objective, for an iterative solver.

    ``visited`` contains the number of each transition's state and the first transition
    of each state. ``leads_to`` returns rows that identify the successors.
    """
    Z, next_Z, y, weights = transitions
    if objective == "projected":
        rows = with_ridge(Z, next_Z, y, weights, alpha)
        return ProjectedBellmanProblem.checked(*rows[:3], gamma, rows[3], 0.0)
    state, first = visited
    where, successor = distinct_rows(leads_to())
    return grouped_problem(
        state, successor, weights, y, Z[first], next_Z[where], gamma, alpha
    )


def with_ridge(Z, next_Z, y, weights, alpha):
    """Append rows that add alpha to the diagonals of A and C: transitions from single
    features to the end."""
    alone, d = np.flatnonzero(alpha), len(alpha)
    if not len(alone):
        return Z, next_Z, y, weights
    rows = sparse.eye_array(d, format="csr")[alone]
    rows = rows if sparse.issparse(Z) else dense(rows)
    return (
        stack([Z, rows]),
        stack([next_Z, 0.0 * rows]),
        np.append(y, np.zeros(len(alone))),
        np.append(weights, weights.sum() * alpha[alone]),
    )


def grouped_problem(
    state, successor, weights, y, features, next_features, gamma, alpha
):
    """The Bellman problem of the estimated model: frequencies of successors and mean
    rewards of transitions."""
    shape = features.shape[0], next_features.shape[0]
    total, rewards = summed_entries(state, successor, weights, y, shape)
    visits = np.bincount(state, weights)
    return BellmanProblem(
        scale_rows(1 / visits, total),
        rewards,
        features,
        gamma,
        next_features=next_features,
        sample_weight=visits,
        alpha=alpha,
    )
