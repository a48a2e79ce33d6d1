"""Tests of solver="lstd": the exact solution of a fit, and of a stream by its moments."""

import pickle
import signal

import numpy as np
import pytest
from helpers import slow_but
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from sk_stormc import BellmanValueEstimator
from sk_stormc.problems import BellmanProblem, ProjectedBellmanProblem
from sk_stormc.values import lstd as _lstd
from sk_stormc.values.lstd import Moments

pytestmark = pytest.mark.filterwarnings("error")  # an exact deficiency is solved in silence


def walk(n=1500, d=4, seed=0):
    """Correlated states in order, rewards, successors, ends: (X, y, next_X, terminal)."""
    rng = np.random.default_rng(seed)
    states = np.zeros((n + 1, d))
    for t in range(n):
        states[t + 1] = 0.9 * states[t] + rng.normal(size=d)
    return states[:-1], np.cos(states[:-1]).sum(1) + rng.normal(size=n), states[1:], rng.random(n) < 0.02


def data(n=1500, d=4, seed=0):
    return dict(zip(("X", "y", "next_X", "terminal"), walk(n, d, seed), strict=True))


def lstd(gamma=0.99, **params):
    return BellmanValueEstimator(gamma, **{"solver": "lstd", "objective": "projected"} | params)


def fed(estimator, size, **parts):
    for start in range(0, len(parts["y"]), size):
        estimator.partial_fit(**{name: part[start : start + size] for name, part in parts.items()})
    return estimator


def numpys(Z, next_Z, y, gamma, weights=None):
    """Predictions at the left states of the solution that numpy's lstsq has of the same equations."""
    weights = np.ones(len(y)) if weights is None else weights
    weighted = weights[:, None] * Z
    return Z @ np.linalg.lstsq(weighted.T @ (Z - gamma * next_Z), weighted.T @ y, rcond=None)[0]


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


# the solution


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_numpys(gamma, weighted):
    X, y, next_X, terminal = walk()
    weights = np.random.default_rng(1).random(len(y)) if weighted else None
    value = lstd(gamma).fit(X, y, next_X=next_X, terminal=terminal, sample_weight=weights)
    expected = numpys(with_ones(X), with_ones(next_X) * ~terminal[:, None], y, gamma, weights)
    np.testing.assert_allclose(value.predict(X), expected, rtol=1e-8)
    assert value.rank_ == 5 and 1 <= value.condition_number_ < 1e5


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize("n", [3, 40])
def test_gradients_vanish_at_the_minimiser(alpha, n):
    rng = np.random.default_rng(0)
    A, after, r = rng.normal(size=(n, 5)), rng.normal(size=(n, 5)), rng.normal(size=n)
    P = rng.dirichlet(np.ones(n), size=n)
    alphas = alpha * np.array([1.0, 2.0, 0.5, 1.0, 0.0])
    projected = ProjectedBellmanProblem(A, after, r, 0.9, sample_weight=np.arange(1.0, n + 1), alpha=alphas)
    for problem in (projected, BellmanProblem(P, r, A, 0.9, alpha=alphas)):
        x = problem.minimizer()
        assert abs(problem.gradient(x)).max() < 1e-9 * abs(problem.gradient(np.zeros(5))).max()
        assert problem.solution().rank == (5 if n == 40 or alpha else 3)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
def test_bellman_rows_in_blocks_are_one_least_squares_problem(as_matrix, monkeypatch):
    rng = np.random.default_rng(0)
    A, r = rng.normal(size=(60, 4)), rng.normal(size=60)
    P = sparse.random_array((60, 60), density=0.2, random_state=rng).toarray() + np.eye(60)
    P /= P.sum(1, keepdims=True)
    monkeypatch.setattr("sk_stormc.values.least_squares.BLOCK", 7)
    x = BellmanProblem(as_matrix(P), r, as_matrix(A), 0.9).minimizer()
    np.testing.assert_allclose(x, np.linalg.lstsq(A - 0.9 * P @ A, r, rcond=None)[0], rtol=1e-9)


def test_inconsistent_equations_end_at_the_minimum():
    """A is singular where C is not: no w solves A w = b, and the metric of C decides."""
    A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    after = A / 0.5
    after[:, 1] = 0
    problem = ProjectedBellmanProblem(A, after, [1.0, 2.0, -1.0], 0.5)
    x = problem.minimizer()
    assert problem.solution().rank == 1 and problem.objective(x) > 0.01
    np.testing.assert_allclose(problem.gradient(x), 0, atol=1e-12)


@pytest.mark.parametrize("objective", ["projected", "bellman"])
@pytest.mark.parametrize("alpha", [0.0, 1e-4])
def test_units_do_not_matter(objective, alpha):
    """Every column with a unit of its own. alpha is a weight in a unit, so it is told what they are."""
    X, y, next_X, terminal = walk(d=5)
    next_X[terminal] = 0
    unit = np.array([1e-8, 1e-4, 1.0, 1e4, 1e8])
    if objective == "projected":
        a = ProjectedBellmanProblem(X, next_X, y, 0.99, alpha=alpha).solution()
        b = ProjectedBellmanProblem(X * unit, next_X * unit, y, 0.99, alpha=alpha * unit**2).solution()
    else:
        a = BellmanProblem(np.eye(1500), y, X, 0.99, next_features=next_X, alpha=alpha).solution()
        b = BellmanProblem(
            np.eye(1500), y, X * unit, 0.99, next_features=next_X * unit, alpha=alpha * unit**2
        ).solution()
    np.testing.assert_allclose(b.x * unit, a.x, rtol=1e-9)
    assert b.rank == a.rank == 5 and b.condition == pytest.approx(a.condition, rel=1e-6)


def test_units_of_the_estimator():
    parts = data()
    unit = np.array([1e-8, 1.0, 1e4, 1e8])
    scaled = parts | {name: parts[name] * unit for name in ("X", "next_X")}
    expected = lstd().fit(**parts).predict(parts["X"])
    for value in (lstd().fit(**scaled), fed(lstd(), 100, **scaled)):
        np.testing.assert_allclose(value.predict(scaled["X"]), expected, rtol=1e-9)


@pytest.mark.parametrize("objective", ["projected", "bellman"])
def test_alpha_holds_a_column_in_a_tiny_unit_at_0(objective):
    """Its ridge is 1e14 times the other columns, which still count."""
    X, y, next_X, terminal = walk()
    tiny = np.array([1.0, 1.0, 1.0, 1e-12])
    parts = {"y": y, "terminal": terminal, "next_X": next_X * tiny}
    value = lstd(alpha=1e3, objective=objective).fit(X * tiny, **parts)
    without = lstd(alpha=1e3, objective=objective).fit(X[:, :3], y, terminal=terminal, next_X=next_X[:, :3])
    assert value.rank_ == 5 and value.condition_number_ < 1e5
    if objective == "bellman":  # "projected" has one more feature that the error is projected onto
        np.testing.assert_allclose(value.predict(X * tiny), without.predict(X[:, :3]), rtol=1e-9)


def test_deficient_features_have_the_shortest_solution_whatever_their_units():
    """Indicators and an intercept: numpy's shortest solution, also at states that were never left."""
    states, ends, y = np.arange(300) % 7, np.arange(300) % 10 == 9, np.arange(300.0) % 4
    Z, next_Z = with_ones(np.eye(8)[states]), with_ones(np.eye(8)[(states + 2) % 7])
    next_Z[ends] = 0
    expected = np.linalg.lstsq(Z.T @ (Z - 0.99 * next_Z), Z.T @ y, rcond=None)[0]
    for unit in (1.0, np.array([1e-6, 1e-3, 1.0, 1.0, 1e3, 1e6, 1e7, 1.0])):
        X, next_X = Z[:, :-1] * unit, next_Z[:, :-1] * unit
        for method in ("fit", "partial_fit"):
            value = getattr(lstd(), method)(X, y, next_X=next_X, terminal=ends)
            np.testing.assert_allclose(value.coef_ * unit, expected[:-1], rtol=1e-8, atol=1e-10)
            assert value.intercept_ == pytest.approx(expected[-1], rel=1e-8)
            assert value.rank_ == 7 and value.coef_[7] == 0


def nearly_collinear(size):
    """Two columns that differ by ``size`` of their length."""
    X, y, next_X, terminal = walk()
    X[:, 1], next_X[:, 1] = X[:, 0] + size * X[:, 1], next_X[:, 0] + size * next_X[:, 1]
    return {"X": X, "y": y, "next_X": next_X, "terminal": terminal}


def test_nearly_collinear_features_warn():
    parts = nearly_collinear(3e-6)
    for method in ("fit", "partial_fit"):
        with pytest.warns(ConvergenceWarning, match="condition_number_ is .*e.1. with rank_ 5.* alpha") as caught:
            value = getattr(lstd(), method)(**parts)
        assert caught[0].filename == __file__
        assert value.condition_number_ >= 1e10 and value.rank_ == 5
        ridge = getattr(lstd(alpha=1e-3), method)(**parts)
        assert ridge.condition_number_ < 1e10 and ridge.rank_ == 5
    assert lstd().fit(**nearly_collinear(1e-3)).condition_number_ < 1e9
    assert lstd().fit(**nearly_collinear(1e-14)).rank_ == 4  # equal to rounding: in silence


def test_a_stream_warns_once():
    parts = nearly_collinear(3e-6)
    with pytest.warns(ConvergenceWarning) as caught:
        value = fed(lstd(), 100, **parts)
    assert len(caught) == 1 and value.condition_number_ >= 1e10


def acrobot(n=4000):
    """States of Gymnasium's Acrobot, as float32, under a policy that swings up in about a hundred steps."""
    gymnasium = pytest.importorskip("gymnasium")
    env, rng = gymnasium.make("Acrobot-v1"), np.random.default_rng(0)
    rows, state = [], env.reset(seed=0)[0]
    while len(rows) < n:
        action = 2 * (state[5] > 0) if rng.random() < 0.7 else rng.integers(3)
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, reward, after, terminated))
        state = env.reset()[0] if terminated or truncated else after
    return dict(zip(("X", "y", "next_X", "terminal"), map(np.array, zip(*rows, strict=True)), strict=True))


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_acrobot_with_splines():
    """Cosines and sines of two angles in float32: splines of them are deficient but for their rounding."""
    parts = acrobot()
    splines = SplineTransformer(n_knots=8)
    value = lstd(0.999, features=splines).fit(**parts)
    Z, next_Z = (with_ones(value.features_.transform(parts[name])) for name in ("X", "next_X"))
    next_Z[parts["terminal"]] = 0
    expected = numpys(Z, next_Z, parts["y"], 0.999)
    np.testing.assert_allclose(value.predict(parts["X"]), expected, atol=1e-3)
    assert value.predict(parts["X"]).min() > -1000 and value.rank_ < Z.shape[1]
    stream = fed(lstd(0.999, features=value.features_), 4000, **parts)
    np.testing.assert_allclose(stream.predict(parts["X"]), value.predict(parts["X"]), atol=1e-6)


# streams


@pytest.mark.parametrize("size", slow_but([1, 7, 100, 1500], 7))
@pytest.mark.parametrize("params", [{}, {"alpha": 1e-2}, {"fit_intercept": False}], ids=str)
def test_stream_is_fit(size, params):
    parts = data(100 if size == 1 else 1500)
    stream, batch = fed(lstd(**params), size, **parts), lstd(**params).fit(**parts)
    np.testing.assert_allclose(stream.coef_, batch.coef_, rtol=1e-9)
    assert stream.intercept_ == pytest.approx(batch.intercept_, rel=1e-9)
    assert stream.loss_curve_[-1] == pytest.approx(batch.loss_curve_[-1], rel=1e-6, abs=1e-12)
    assert stream.n_evaluations_ == batch.n_evaluations_ and stream.ifo_[-1] == batch.ifo_[-1]
    assert stream.rank_ == batch.rank_ and stream.condition_number_ == pytest.approx(batch.condition_number_)
    assert stream.stop_reason_ == "exhausted" and stream.solver_ == "lstd" and stream.objective_ == "projected"
    assert stream.loss_curve_[0] == pytest.approx(batch.loss_curve_[0]) and stream.ifo_.tolist() == [0, stream.ifo_[1]]
    assert len(stream.loss_curve_) == 2 and stream.n_iter_ == 1


def test_sparse_features_of_a_stream():
    """As many indicators as Gymnasium's Taxi has states, most of which have not been seen at first."""
    rng = np.random.default_rng(0)
    states = rng.integers(400, size=3001)
    X, y, ends = states[:, None], rng.normal(size=3000), rng.random(3000) < 0.1
    encoder = OneHotEncoder(categories=[np.arange(500)])
    parts = {"X": X[:-1], "y": y, "next_X": X[1:], "terminal": ends}
    batch = lstd(features=encoder).fit(**parts)
    stream = fed(lstd(features=encoder), 1000, **parts)
    np.testing.assert_allclose(stream.coef_, batch.coef_, atol=1e-9 * abs(batch.coef_).max())
    assert (stream.coef_[400:] == 0).all() and stream.rank_ == batch.rank_ == 400
    dense = fed(lstd(features=clone(encoder).set_params(sparse_output=False)), 1000, **parts)
    np.testing.assert_allclose(dense.coef_, stream.coef_, atol=1e-9 * abs(batch.coef_).max())


def test_weighted_moments():
    """Weighting k times is repeating; rows of weight 0 do not count."""
    X, y, next_X, terminal = walk(40)
    next_X[terminal] = 0
    k = np.arange(40) % 3
    weighted = _lstd.Collected.none(4, 0.9).plus(X, next_X, y, k.astype(float))
    rows = (np.repeat(part, k, axis=0) for part in (X, next_X, y))
    repeated = _lstd.Collected.none(4, 0.9).plus(*rows, np.ones(k.sum()))
    expected = ProjectedBellmanProblem(X, next_X, y, 0.9, sample_weight=k).minimizer()
    for moments in (weighted, repeated):
        np.testing.assert_allclose(moments.solution(np.zeros(4)).x, expected, rtol=1e-10)
    assert weighted.moments.n_rows == np.count_nonzero(k)


@pytest.mark.slow
def test_sums_over_many_small_chunks_lose_nothing():
    """A sum of 50,000 that is added up row by row would have lost its last digits."""
    rng = np.random.default_rng(0)
    Z, y = 1 + rng.random((50_000, 1)), rng.random(50_000)
    moments = Moments.none(1)
    for k in range(0, 50_000, 5):
        moments += Moments.of(Z[k : k + 5], Z[k : k + 5], y[k : k + 5], np.ones(5))
    exact = sum((np.longdouble(v) for v in (Z * Z).ravel()), np.longdouble(0))
    assert abs((moments.C + moments.lost[2])[0, 0] - exact) < 4e-16 * exact


def test_time_in_chunks():
    X, y, _, terminal = walk(600)
    time = np.arange(600) + np.isin(np.arange(600), [11, 300]).cumsum()
    batch = lstd().fit(X, y, time=time, terminal=terminal)
    for size in (7, 50):
        stream = fed(lstd(), size, X=X, y=y, time=time, terminal=terminal)
        np.testing.assert_allclose(stream.coef_, batch.coef_, rtol=1e-8)


def test_a_pending_row_is_a_copy():
    X, y, *_ = walk(100)
    expected = fed(lstd(fit_intercept=False), 50, X=X, y=y, time=np.arange(100))
    stream, memory = lstd(fit_intercept=False), np.empty((50, 4))
    for start in (0, 50):
        memory[:] = X[start : start + 50]
        stream.partial_fit(memory, y[start : start + 50], time=np.arange(start, start + 50))
    np.testing.assert_array_equal(stream.coef_, expected.coef_)


def test_a_short_stream_predicts_with_what_it_has():
    X, y, next_X, terminal = walk(3)
    stream = lstd().partial_fit(X[:1], y[:1], time=[0])  # waits for its successor
    assert (stream.predict(X) == 0).all() and stream.rank_ == 0 and stream.condition_number_ == 1
    stream = lstd().partial_fit(X, y, next_X=next_X, terminal=np.ones(3, dtype=bool))
    np.testing.assert_allclose(stream.predict(X), y)


def test_a_stream_after_fit_is_a_new_one():
    parts, other = data(500), data(500, seed=1)
    value = lstd().fit(**other)
    coef = value.coef_.copy()
    value.partial_fit(parts["X"][:1], parts["y"][:1], time=[0])
    np.testing.assert_array_equal(value.coef_, coef)  # no transition has come yet
    stream = lstd().fit(**other).partial_fit(**parts)
    np.testing.assert_allclose(stream.coef_, lstd().fit(**parts).coef_, rtol=1e-9)
    assert not hasattr(stream, "n_states_")
    assert lstd().partial_fit(**other).fit(**parts).partial_fit(**parts).n_evaluations_["inner"] == 500


def test_fitted_features_of_the_first_chunk_stay():
    parts = data()
    features = make_pipeline(StandardScaler(), SplineTransformer(n_knots=4, extrapolation="linear"))
    stream = fed(lstd(features=features), 500, **parts)
    assert stream.features_[0].mean_ == pytest.approx(parts["X"][:500].mean(0))


def test_a_stream_is_pickled_and_cloned():
    parts = data(900)
    first, rest = ({name: part[rows] for name, part in parts.items()} for rows in (slice(400), slice(400, None)))
    stream = lstd().partial_fit(**first)
    again = pickle.loads(pickle.dumps(stream)).partial_fit(**rest)
    np.testing.assert_array_equal(again.coef_, stream.partial_fit(**rest).coef_)
    assert not hasattr(clone(stream), "coef_")


def test_solvers_do_not_change_within_a_stream():
    parts = data(700)
    stream = lstd().partial_fit(**parts)
    coef = stream.coef_.copy()
    with pytest.raises(ValueError, match="solver must stay 'lstd' .*got 'storm-c'"):
        stream.set_params(solver="storm-c").partial_fit(**parts)
    with pytest.raises(ValueError, match="gamma must stay 0.99 .*got 0.5"):
        stream.set_params(solver="lstd", gamma=0.5).partial_fit(**parts)
    np.testing.assert_array_equal(stream.coef_, coef)
    other = BellmanValueEstimator(0.5, "storm-c", random_state=0).partial_fit(**parts)
    with pytest.raises(ValueError, match="solver must stay .*STORM.*got 'lstd'"):
        other.set_params(solver="lstd").partial_fit(**parts)


def test_other_solvers_leave_no_rank():
    parts = data(700)
    value = lstd().fit(**parts).set_params(solver="storm-c", random_state=0, tol=1e-2).fit(**parts)
    assert not hasattr(value, "rank_") and not hasattr(value, "condition_number_")


def test_too_many_features():
    with pytest.raises(ValueError, match="at most 4000 features .*got 4001, the intercept included"):
        lstd().partial_fit(np.zeros((2, 4000)), [0.0, 1.0], next_X=np.zeros((2, 4000)))


def test_large_numbers_are_refused():
    with pytest.raises(ValueError, match="finite products"):
        lstd().partial_fit(np.full((2, 1), 1e200), [0.0, 1.0], terminal=[True, True])


@pytest.mark.parametrize("where", ["plus", "solution"])
@pytest.mark.parametrize("how", ["error", "signal"])
def test_a_failure_within_a_chunk_changes_nothing(where, how, monkeypatch):
    """Also a real Ctrl-C: the state is that before the chunk, and the stream goes on."""
    parts = data(900)
    first, rest = ({name: part[rows] for name, part in parts.items()} for rows in (slice(400), slice(400, None)))
    stream = lstd().partial_fit(**first)
    before = pickle.dumps(stream)
    original = getattr(_lstd.Collected, where)

    def fails(self, *args):
        original(self, *args)
        if how == "signal":
            signal.raise_signal(signal.SIGINT)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(_lstd.Collected, where, fails)
        with pytest.raises(KeyboardInterrupt if how == "signal" else MemoryError):
            stream.partial_fit(**rest)
    assert pickle.dumps(stream) == before
    np.testing.assert_allclose(stream.partial_fit(**rest).coef_, lstd().fit(**parts).coef_, rtol=1e-9)
