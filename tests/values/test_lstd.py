"""solver="lstd": the exact solution of a fit, and of a stream by its moments."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from value_logs import coefficients, fed, some, walk, with_ones

from sk_stormc import BellmanValueEstimator
from sk_stormc.problems import BellmanProblem, ProjectedBellmanProblem

# an exact deficiency is solved in silence
pytestmark = pytest.mark.filterwarnings("error")


def lstd(gamma=0.99, **params):
    return BellmanValueEstimator(
        gamma, **{"solver": "lstd", "objective": "projected"} | params
    )


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("n", [3, 40])
def test_gradients_vanish_at_the_minimiser(alpha, n):
    rng = np.random.default_rng(0)
    A, after, r = rng.normal(size=(n, 5)), rng.normal(size=(n, 5)), rng.normal(size=n)
    P, weights = rng.dirichlet(np.ones(n), size=n), np.arange(1.0, n + 1)
    alphas = {"alpha": alpha * np.array([1.0, 2.0, 0.5, 1.0, 0.0])}
    for problem in (
        ProjectedBellmanProblem(A, after, r, 0.9, sample_weight=weights, **alphas),
        BellmanProblem(P, r, A, 0.9, **alphas),
    ):
        x, start = problem.minimizer(), problem.gradient(np.zeros(5))
        assert abs(problem.gradient(x)).max() < 1e-9 * abs(start).max()
        assert problem.solution().rank == (5 if n == 40 or alpha else 3)


def test_many_bellman_rows_are_one_least_squares_problem():
    rng, n = np.random.default_rng(0), 10_000  # in blocks of 4096
    A, r = rng.normal(size=(n, 4)), rng.normal(size=n)
    stays = sparse.eye_array(n, format="csr")
    P = 0.5 * (stays + stays[rng.permutation(n)])
    x = BellmanProblem(P, r, A, 0.9).minimizer()
    np.testing.assert_allclose(
        x, np.linalg.lstsq(A - 0.9 * P @ A, r, rcond=None)[0], rtol=1e-9
    )


def test_inconsistent_equations_end_at_the_minimum():
    """A is singular where C is not: no w solves A w = b, and the preconditioner of C
    decides."""
    A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    after = A / 0.5
    after[:, 1] = 0
    problem = ProjectedBellmanProblem(A, after, [1.0, 2.0, -1.0], 0.5)
    x = problem.minimizer()
    assert problem.solution().rank == 1 and problem.objective(x) > 0.01
    np.testing.assert_allclose(problem.gradient(x), 0, atol=1e-12)


@pytest.mark.parametrize("objective", ["projected", "bellman"])
def test_alpha_holds_a_column_in_a_tiny_unit_at_0(objective):
    """Its ridge is 1e14 times the other columns, which still count."""
    parts, unit = walk(), np.array([1.0, 1.0, 1.0, 1e-12])
    tiny = parts | {name: parts[name] * unit for name in ("X", "next_X")}
    value = lstd(alpha=1e3, objective=objective).fit(**tiny)
    assert value.rank_ == 5 and value.condition_number_ < 1e5
    # "projected" has one more feature that the error is projected onto
    if objective == "bellman":
        three = parts | {name: parts[name][:, :3] for name in ("X", "next_X")}
        expected = lstd(alpha=1e3, objective=objective).fit(**three).predict(three["X"])
        np.testing.assert_allclose(value.predict(tiny["X"]), expected, rtol=1e-9)


def test_deficient_features_have_the_shortest_solution_whatever_their_units():
    """Indicators and an intercept: numpy's shortest solution, also at states that were
    never left."""
    states, ends, y = np.arange(300) % 7, np.arange(300) % 10 == 9, np.arange(300.0) % 4
    Z, next_Z = with_ones(np.eye(8)[states]), with_ones(np.eye(8)[(states + 2) % 7])
    next_Z[ends] = 0
    expected = np.linalg.lstsq(Z.T @ (Z - 0.99 * next_Z), Z.T @ y, rcond=None)[0]
    for unit in (1.0, np.array([1e-6, 1e-3, 1.0, 1.0, 1e3, 1e6, 1e7, 1.0])):
        X, next_X = Z[:, :-1] * unit, next_Z[:, :-1] * unit
        for method in ("fit", "partial_fit"):
            value = getattr(lstd(), method)(X, y, next_X=next_X, terminal=ends)
            np.testing.assert_allclose(
                value.coef_ * unit, expected[:-1], rtol=1e-8, atol=1e-10
            )
            assert value.intercept_ == pytest.approx(expected[-1], rel=1e-8)
            assert value.rank_ == 7 and value.coef_[7] == 0


def nearly_collinear(size):
    """Two columns that differ by ``size`` of their length."""
    parts = walk(1500)
    for name in ("X", "next_X"):
        parts[name][:, 1] = parts[name][:, 0] + size * parts[name][:, 1]
    return parts


def test_nearly_collinear_features_warn():
    parts, text = (
        nearly_collinear(3e-6),
        "condition_number_ is .*e.1. with rank_ 5.* al",
    )
    for method in ("fit", "partial_fit"):
        with pytest.warns(ConvergenceWarning, match=text) as caught:
            value = getattr(lstd(), method)(**parts)
        assert caught[0].filename == __file__
        assert value.condition_number_ >= 1e10 and value.rank_ == 5
        ridge = getattr(lstd(alpha=1e-3), method)(**parts)
        assert ridge.condition_number_ < 1e10 and ridge.rank_ == 5
    with pytest.warns(ConvergenceWarning) as caught:
        fed(lstd(), 500, **parts)
    assert len(caught) == 1  # a stream warns once
    assert lstd().fit(**nearly_collinear(1e-3)).condition_number_ < 1e9
    # equal to rounding: in silence
    assert lstd().fit(**nearly_collinear(1e-14)).rank_ == 4


def test_many_features_are_solved_in_several_blocks():
    rng, n, d = np.random.default_rng(0), 700, 400
    X, weights = rng.normal(size=(n + 1, d)), rng.random(n) + 0.5
    parts = {"X": X[:-1], "y": rng.normal(size=n), "next_X": X[1:]}
    Z, next_Z = with_ones(parts["X"]), with_ones(parts["next_X"])
    traces, share = Z.copy(), weights / weights.sum()
    for k in range(1, n):
        traces[k] += 0.9 * 0.7 * traces[k - 1]
    ridge = np.diag(np.append(np.full(d, 0.3), 0.0))
    A = (share[:, None] * traces).T @ (Z - 0.9 * next_Z) + ridge
    expected = np.linalg.solve(A, traces.T @ (share * parts["y"]))
    value = lstd(0.9, alpha=0.3, trace_decay=0.7).fit(**parts, sample_weight=weights)
    np.testing.assert_allclose(coefficients(value), expected, atol=1e-6)


def test_alpha_is_that_of_the_iterative_solvers():
    exact, sampled = lstd(0.9, alpha=0.3), lstd(0.9, alpha=0.3, solver="storm-c")
    exact.fit(**walk()), sampled.set_params(tol=1e-9, random_state=0).fit(**walk())
    np.testing.assert_allclose(coefficients(sampled), coefficients(exact), atol=1e-6)


def test_stream_is_fit():
    parts = walk(200)
    stream, batch = fed(lstd(alpha=1e-2), 7, **parts), lstd(alpha=1e-2).fit(**parts)
    np.testing.assert_allclose(coefficients(stream), coefficients(batch), rtol=1e-9)
    curve = batch.loss_curve_
    np.testing.assert_allclose(stream.loss_curve_, curve, rtol=1e-6, atol=1e-12)
    assert stream.n_evaluations_ == batch.n_evaluations_
    assert stream.ifo_.tolist() == batch.ifo_.tolist()
    assert stream.rank_ == batch.rank_
    assert stream.condition_number_ == pytest.approx(batch.condition_number_)
    assert (stream.stop_reason_, stream.solver_) == ("exhausted", "lstd")
    assert stream.objective_ == "projected"
    again = pickle.loads(pickle.dumps(stream)).partial_fit(**walk(seed=1))
    np.testing.assert_array_equal(again.coef_, stream.partial_fit(**walk(seed=1)).coef_)


def test_sums_over_small_chunks_lose_nothing():
    """Beside a reward of 1e16 those of 1 are less than its last digit."""
    log = {"X": np.ones((22, 1)), "y": np.array([1e16, *np.ones(20), -1e16])}
    log["terminal"] = np.ones(22, dtype=bool)
    value = fed(lstd(0.0, fit_intercept=False), 1, **log)
    np.testing.assert_allclose(value.coef_, 20 / 22)


def test_a_short_stream_predicts_with_what_it_has():
    parts = some(walk(3), slice(None), "terminal")
    # waits for its successor
    stream = lstd().partial_fit(parts["X"][:1], parts["y"][:1], time=[0])
    assert (stream.predict(parts["X"]) == 0).all()
    assert stream.rank_ == 0 and stream.condition_number_ == 1
    stream = lstd().partial_fit(**parts, terminal=np.ones(3, dtype=bool))
    np.testing.assert_allclose(stream.predict(parts["X"]), parts["y"])


@pytest.mark.parametrize(
    ("solver", "n", "params"),
    [
        ("storm-c", 100, {"fit_intercept": False}),  # rows that only wait
        ("storm-c", 600, {"alpha": 1.0}),
        ("storm-c", 600, {"solver": "lstd"}),
        ("lstd", 100, {"gamma": 0.5}),
        ("lstd", 100, {"trace_decay": 0.2}),
        ("lstd", 100, {"half_life": 10.0}),
        ("lstd", 100, {"solver": "storm-c"}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_stay_within_a_stream(solver, n, params):
    parts, (name,) = walk(n), params
    value = BellmanValueEstimator(0.9, solver, random_state=0).partial_fit(**parts)
    before = value.coef_.copy()
    with pytest.raises(ValueError, match=f"{name} must stay .* stream goes on, got"):
        value.set_params(**params).partial_fit(**parts)
    np.testing.assert_array_equal(value.coef_, before)
    value.fit(**parts).partial_fit(**parts)  # begins anew
    assert np.isfinite(value.coef_).all()


def test_alpha_may_change_in_a_stream_of_lstd():
    parts, expected = walk(), lstd(alpha=0.1).fit(**walk()).coef_
    value = lstd().partial_fit(**parts).set_params(alpha=0.1).partial_fit(**parts)
    np.testing.assert_allclose(value.coef_, expected, rtol=1e-8)


def test_indicators_of_states_beside_an_intercept_do_not_warn():
    for n in (8000, 100_000):  # rounding grows with the rows
        rng = np.random.default_rng(0)
        X, after = np.eye(3)[rng.integers(3, size=n)], rng.integers(4, size=n)
        y = rng.normal(size=n)
        value = BellmanValueEstimator(0.9, objective="projected")
        value.fit(X, y, next_X=np.eye(3)[after % 3], terminal=after == 3)
        assert value.rank_ == 3
