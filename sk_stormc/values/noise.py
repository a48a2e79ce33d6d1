"""The noise of minibatches in policy evaluation, which limits an automatic learning rate."""

import numpy as np

from sk_stormc.values.linear_value import LARGEST_METRIC, NEGLIGIBLE
from sk_stormc.values.markov import dense, scale_rows

__all__ = ["expected_smoothness"]

ENTRIES = 2**22  # numbers of one block of transitions


def expected_smoothness(problem, size, root):
    """The expected smoothness max_v E|H_B v|^2 / <v, H v> of a `ProjectedBellmanProblem`, in a metric M = root root^T.

    H_B = 2 J^T C^+ J_B + 2 diag(alpha) is the linear map of w in the gradient of a batch of B transitions, and H its
    mean. A step of length eta contracts in mean square if eta is below 2 over this number. H_B is not symmetric, so its
    largest eigenvalues are not enough to bound a step.
    """
    d = problem.n_variables
    if root is None or d > LARGEST_METRIC:
        return 0.0
    root = root if np.ndim(root) == 2 else root * np.eye(d)
    J = problem._full[0]
    pull = problem._root @ (problem._root.T @ (J @ root))  # C^+ J root
    weights, S = problem.weights, 0.0
    step = max(1, ENTRIES // d)
    for k in range(0, problem.n_inner, step):
        rows = slice(k, k + step)
        lengths = np.square(problem.features[rows] @ pull).sum(axis=1)
        difference = problem._difference[rows]
        S = S + dense(scale_rows(4 * weights[rows] * lengths, difference).T @ difference)
    half = root.T @ (2 * J.T @ (problem._root @ (problem._root.T @ J)))  # root^T H, without alpha
    whole = half + root.T * (2 * problem.alpha)
    second = whole.T @ whole + (0.0 if size is None else (S - half.T @ half) / size)
    values, vectors = np.linalg.eigh(problem.hessian())
    found = values > NEGLIGIBLE * max(values[-1], 0.0)
    if not found.any():
        return 0.0
    white = vectors[:, found] / np.sqrt(values[found])
    return float(np.linalg.eigvalsh(white.T @ second @ white)[-1])
