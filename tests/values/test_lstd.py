"""solver="lstd": the exact solution of a fit, and of a stream by its moments."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
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
    P = rng.dirichlet(np.ones(n), size=n)
    alphas = alpha * np.array([1.0, 2.0, 0.5, 1.0, 0.0])
    projected = ProjectedBellmanProblem(
        A, after, r, 0.9, sample_weight=np.arange(1.0, n + 1), alpha=alphas
    )
    for problem in (projected, BellmanProblem(P, r, A, 0.9, alpha=alphas)):
        x = problem.minimizer()
        assert (
            abs(problem.gradient(x)).max()
            < 1e-9 * abs(problem.gradient(np.zeros(5))).max()
        )
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
    parts = walk()
    tiny = parts | {
        name: parts[name] * [1.0, 1.0, 1.0, 1e-12] for name in ("X", "next_X")
    }
    value = lstd(alpha=1e3, objective=objective).fit(**tiny)
    assert value.rank_ == 5 and value.condition_number_ < 1e5
    if (
        objective == "bellman"
    ):  # "projected" has one more feature that the error is projected onto
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
    parts = nearly_collinear(3e-6)
    for method in ("fit", "partial_fit"):
        with pytest.warns(
            ConvergenceWarning, match="condition_number_ is .*e.1. with rank_ 5.* alpha"
        ) as caught:
            value = getattr(lstd(), method)(**parts)
        assert caught[0].filename == __file__
        assert value.condition_number_ >= 1e10 and value.rank_ == 5
        ridge = getattr(lstd(alpha=1e-3), method)(**parts)
        assert ridge.condition_number_ < 1e10 and ridge.rank_ == 5
    assert lstd().fit(**nearly_collinear(1e-3)).condition_number_ < 1e9
    # equal to rounding: in silence
    assert lstd().fit(**nearly_collinear(1e-14)).rank_ == 4


def test_a_stream_warns_once():
    parts = nearly_collinear(3e-6)
    with pytest.warns(ConvergenceWarning) as caught:
        value = fed(lstd(), 100, **parts)
    assert len(caught) == 1 and value.condition_number_ >= 1e10


@pytest.mark.parametrize(
    ("n_columns", "decay"), [(3, 0.0), (400, 0.7)]
)  # 400 are solved in several blocks
def test_alpha_is_a_ridge_on_the_matrix_of_lstd(n_columns, decay):
    rng, n = np.random.default_rng(0), 700
    X = rng.normal(size=(n + 1, n_columns))
    parts = {
        "X": X[:-1],
        "y": rng.normal(size=n),
        "next_X": X[1:],
        "sample_weight": rng.random(n) + 0.5,
    }
    Z, next_Z = with_ones(parts["X"]), with_ones(parts["next_X"])
    traces, share = Z.copy(), parts["sample_weight"] / parts["sample_weight"].sum()
    for k in range(1, n):
        traces[k] += 0.9 * decay * traces[k - 1]
    A = (share[:, None] * traces).T @ (Z - 0.9 * next_Z) + np.diag(
        np.append(np.full(n_columns, 0.3), 0.0)
    )
    expected = np.linalg.solve(A, traces.T @ (share * parts["y"]))
    value = lstd(0.9, alpha=0.3, trace_decay=decay)
    values = [clone(value).fit(**parts), clone(value).partial_fit(**parts)]
    if not decay:
        values.append(clone(value).set_params(solver="storm-c", tol=1e-9).fit(**parts))
    for value in values:
        np.testing.assert_allclose(coefficients(value), expected, atol=1e-6)


def test_stream_is_fit():
    size, params = 7, {"alpha": 1e-2}
    parts = walk()
    stream, batch = fed(lstd(**params), size, **parts), lstd(**params).fit(**parts)
    np.testing.assert_allclose(coefficients(stream), coefficients(batch), rtol=1e-9)
    np.testing.assert_allclose(
        stream.loss_curve_, batch.loss_curve_, rtol=1e-6, atol=1e-12
    )
    assert (
        stream.n_evaluations_ == batch.n_evaluations_
        and stream.ifo_.tolist() == batch.ifo_.tolist()
    )
    assert stream.rank_ == batch.rank_ and stream.condition_number_ == pytest.approx(
        batch.condition_number_
    )
    assert (
        stream.stop_reason_ == "exhausted"
        and stream.solver_ == "lstd"
        and stream.objective_ == "projected"
    )


def test_sums_over_small_chunks_lose_nothing():
    """Beside a reward of 1e16 those of 1 are less than its last digit."""
    y = np.array([1e16, *np.ones(20), -1e16])
    value = fed(
        lstd(0.0, fit_intercept=False),
        1,
        X=np.ones((22, 1)),
        y=y,
        terminal=np.ones(22, dtype=bool),
    )
    np.testing.assert_allclose(value.coef_, 20 / 22)


def test_a_short_stream_predicts_with_what_it_has():
    parts = some(walk(3), slice(None), "terminal")
    # waits for its successor
    stream = lstd().partial_fit(parts["X"][:1], parts["y"][:1], time=[0])
    assert (
        (stream.predict(parts["X"]) == 0).all()
        and stream.rank_ == 0
        and stream.condition_number_ == 1
    )
    stream = lstd().partial_fit(**parts, terminal=np.ones(3, dtype=bool))
    np.testing.assert_allclose(stream.predict(parts["X"]), parts["y"])


def test_a_stream_is_pickled():
    parts = walk()
    stream = lstd().partial_fit(**some(parts, slice(400)))
    again = pickle.loads(pickle.dumps(stream)).partial_fit(
        **some(parts, slice(400, None))
    )
    np.testing.assert_array_equal(
        again.coef_, stream.partial_fit(**some(parts, slice(400, None))).coef_
    )


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
    parts = walk(n)
    value = BellmanValueEstimator(0.9, solver, random_state=0).partial_fit(**parts)
    before = value.coef_.copy()
    (name,) = params
    with pytest.raises(
        ValueError, match=f"{name} must stay .* while its stream goes on, got"
    ):
        value.set_params(**params).partial_fit(**parts)
    np.testing.assert_array_equal(value.coef_, before)
    value.fit(**parts).partial_fit(**parts)  # begins anew
    assert np.isfinite(value.coef_).all()


def test_alpha_may_change_in_a_stream_of_lstd():
    parts = walk()
    value = lstd().partial_fit(**parts).set_params(alpha=0.1).partial_fit(**parts)
    np.testing.assert_allclose(
        value.coef_, lstd(alpha=0.1).fit(**parts).coef_, rtol=1e-8
    )


def test_indicators_of_states_beside_an_intercept_do_not_warn():
    for n in (8000, 100_000):  # rounding grows with the rows
        rng = np.random.default_rng(0)
        state, after = rng.integers(3, size=n), rng.integers(4, size=n)
        value = BellmanValueEstimator(0.9, objective="projected")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value.fit(
                np.eye(3)[state],
                rng.normal(size=n),
                next_X=np.eye(3)[after % 3],
                terminal=after == 3,
            )
        assert value.rank_ == 3
