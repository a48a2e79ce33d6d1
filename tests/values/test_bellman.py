"""Problems of policy evaluation, and models whose values are known."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh

from sk_stormc import BellmanValueEstimator, minimize
from sk_stormc.datasets import MarkovRewardProcess, make_bellman_problem
from sk_stormc.preconditioners import as_preconditioner
from sk_stormc.problems import BellmanProblem, ProjectedBellmanProblem, check_problem


@pytest.mark.parametrize("sampling", ["successor", "column"])
def test_check_with_own_successors(sampling):
    """Successors that are no states, the end of an episode among them."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(6, 0.3), size=9)
    P[P < 0.05] = 0
    P = sparse.csr_matrix(P / P.sum(1, keepdims=True))
    features, after, R = (rng.normal(size=shape) for shape in ((9, 4), (6, 4), (9, 6)))
    after[2] = 0
    given = {"gamma": 0.9, "next_features": after, "sampling": sampling}
    check_problem(BellmanProblem(P, R, features, **given), n_draws=150)


def test_sparse_and_dense_models_agree():
    model = make_bellman_problem(30, 5, 0.9, "garnet", random_state=0)
    P = model.transition_matrix
    R = np.random.default_rng(0).normal(size=P.shape)
    a = BellmanProblem(P.toarray(), R, model.features, 0.9)
    b = BellmanProblem(P, sparse.csr_matrix(R), sparse.csc_matrix(model.features), 0.9)
    x = np.arange(5.0)
    assert a.objective(x) == pytest.approx(b.objective(x), rel=1e-12)
    np.testing.assert_allclose(a.gradient(x), b.gradient(x), rtol=1e-10)
    np.testing.assert_allclose(
        a.preconditioner, b.preconditioner, rtol=1e-8, atol=1e-12
    )


def test_rows_of_a_model_are_divided_by_their_sums():
    """Sums that are 1 up to rounding to float32, on which a discount near 1 would
    build."""
    exact = np.random.default_rng(0).dirichlet(np.ones(4), size=4)
    for P in (exact * (1 + 5e-7), sparse.csr_array(exact * (1 + 5e-7))):
        value = MarkovRewardProcess(P, np.ones(4), gamma=0.9999).exact_value()
        np.testing.assert_allclose(value, 1e4, rtol=1e-9)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
def test_successors_have_their_probabilities(as_matrix):
    """Rows that are skewed too, and rows with a single successor. What has probability
    0 never comes."""
    P = np.random.default_rng(0).dirichlet(np.ones(6), size=6) ** 4
    P[2], P[3] = np.eye(6)[4], np.eye(6)[5]
    P[P < 1e-3] = 0
    P /= P.sum(1, keepdims=True)
    model = MarkovRewardProcess(as_matrix(P), np.ones(6))
    log = model.transitions(30_000, random_state=0)
    counts = log.X.T @ log.next_X
    assert not counts[P == 0].any()
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), P, atol=0.02)


def test_singular_features_have_a_preconditioner():
    features = np.column_stack([np.eye(4), np.ones(4), np.zeros(4)])
    problem = BellmanProblem(np.full((4, 4), 0.25), np.arange(4.0), features, 0.9)
    np.linalg.cholesky(problem.preconditioner)
    result = minimize(problem, tol=1e-8, random_state=0)
    assert result.fun < 1e-12
    assert np.abs(result.x).max() < 100


@pytest.mark.parametrize(
    ("n", "gamma", "kind"), [(50, 0.95, "garnet"), (400, 0.9, "dense")]
)
def test_defaults(n, gamma, kind):
    problem = make_bellman_problem(n, 40, gamma, kind, random_state=0).problem()
    best, first = map(problem.objective, (problem.minimizer(), np.zeros(40)))
    result = minimize(problem, random_state=0, record_every=n // 2)
    gap = (result.loss_curve - best) / (first - best)
    assert result.ifo[np.argmax(gap <= 1e-3)] <= 120 * n
    assert result.ifo[np.argmax(gap <= 1e-4)] <= 200 * n
    assert result.stop_reason == "converged" and -1e-9 < gap[-1] <= 1e-4


@pytest.mark.parametrize(
    "preconditioner", ["auto", None, np.array([0.5, 2.0])], ids=range(3)
)
@pytest.mark.parametrize("B", [1, 2, None])
def test_expected_smoothness_is_that_of_all_batches(preconditioner, B):
    rng, alpha = np.random.default_rng(0), [0.3, 0.0]
    (Z, next_Z), weights = rng.standard_normal((2, 6, 2)), rng.random(6)
    given = {"sample_weight": weights, "alpha": alpha}
    problem = ProjectedBellmanProblem(Z, next_Z, np.ones(6), 0.9, **given)
    if not isinstance(preconditioner, str):
        problem.preconditioner = preconditioner
    preconditioner = as_preconditioner(problem.preconditioner, 2)
    weights = weights / weights.sum()
    M = np.column_stack([preconditioner.apply(e) for e in np.eye(2)])
    difference, weighted = Z - 0.9 * next_Z, (Z * weights[:, None]).T
    pull, second = 2 * (weighted @ difference).T @ np.linalg.inv(weighted @ Z), 0.0
    for batch in itertools.product(range(6), repeat=B) if B else [range(6)]:
        batch = list(batch)
        w = weights[batch] if B is None else np.full(B, 1 / B)
        H_B = pull @ (Z[batch] * w[:, None]).T @ difference[batch] + 2 * np.diag(alpha)
        second = second + (1 if B is None else weights[batch].prod()) * H_B.T @ M @ H_B
    expected = eigh(second, problem.hessian(), eigvals_only=True)[-1]
    found = problem.expected_smoothness((B, 0, None), preconditioner)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["dense", "garnet"])
def test_exact_value(kind):
    model = make_bellman_problem(30, None, 0.9, kind, random_state=0)
    P, R = model.transition_matrix, model.rewards
    P = P.toarray() if sparse.issparse(P) else P
    V, expected = model.exact_value(), R if R.ndim == 1 else (P * R).sum(1)
    np.testing.assert_allclose(V, expected + 0.9 * P @ V)
    np.testing.assert_allclose(model.problem().minimizer(), V)


def test_transitions_of_a_model():
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    model = MarkovRewardProcess(P, [1.0, 1.0, 0.0], gamma=0.5)
    X, y, next_X, terminal = drawn = model.transitions(4000, random_state=0)
    assert not X[:, 2].any()  # none starts at the end
    np.testing.assert_array_equal(terminal, next_X[:, 2] == 1)
    assert (y == 1).all()
    np.testing.assert_allclose(X[:, 0].mean(), 0.5, atol=0.05)
    value = BellmanValueEstimator(0.5, fit_intercept=False).fit(**drawn._asdict())
    np.testing.assert_allclose(value.coef_, model.exact_value(), atol=0.05)
    np.testing.assert_array_equal(X, model.transitions(4000, random_state=0).X)
