"""solver="auto": the exact solution up to a number of features, else "storm-c"; records of exact solutions."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import sk_stormc
from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.datasets import make_bellman_problem
from sk_stormc.solvers import SOLVERS, AutomaticSTORM
from sk_stormc.values import linear_estimator


def log(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    next_X = 0.5 * X + 0.5 * rng.normal(size=(n, d))
    return {"X": X, "y": X[:, 0] + rng.normal(size=n), "next_X": next_X, "terminal": rng.random(n) < 0.1}


class Always:
    """A policy of one action. Its name in a test is the same in all processes."""

    def __init__(self, action):
        self.action = action

    def __call__(self, X):
        return np.full(len(X), self.action)

    def __repr__(self):
        return f"Always({self.action})"


def of_actions(seed=0):
    return log(seed=seed) | {"action": np.arange(300) % 2}


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_the_default_is_the_exact_solution(objective):
    parts = log()
    value = BellmanValueEstimator(0.9, objective=objective).fit(**parts)
    exact = BellmanValueEstimator(0.9, "lstd", objective=objective).fit(**parts)
    np.testing.assert_array_equal(value.coef_, exact.coef_)
    assert value.solver_ == "lstd" and value.condition_number_ == exact.condition_number_
    parts = of_actions()
    q = ActionValueEstimator(Always(1), 0.9).fit(**parts)
    np.testing.assert_array_equal(q.coef_, ActionValueEstimator(Always(1), 0.9, "lstd").fit(**parts).coef_)
    assert q.solver_ == ActionValueEstimator(gamma=0.9).fit(**parts).solver_ == "lstd"


def test_with_more_features_it_is_storm_c(monkeypatch):
    monkeypatch.setattr(linear_estimator, "EXACT", 5)
    assert BellmanValueEstimator(0.9).fit(**log()).solver_ == "lstd"  # five columns with the intercept's
    value = BellmanValueEstimator(0.9, max_iter=7, tol=1e-7, random_state=0).fit(**log(d=5))
    assert isinstance(value.solver_, AutomaticSTORM) and value.solver_.max_iter == 7 and value.solver_.tol == 1e-7
    assert value.solver == "auto" and not hasattr(value, "rank_")
    assert len(value.loss_curve_) == len(value.ifo_) >= 2
    np.testing.assert_allclose(value.coef_, BellmanValueEstimator(0.9, "lstd").fit(**log(d=5)).coef_, rtol=1e-6)
    q = ActionValueEstimator(Always(1), 0.9, random_state=0).fit(**of_actions())
    assert isinstance(q.solver_, AutomaticSTORM)  # ten columns of both actions together
    assert ActionValueEstimator(gamma=0.9).fit(**of_actions()).solver_ == "lstd"  # nothing else finds the best policy
    stream = BellmanValueEstimator(0.9, random_state=0).partial_fit(**log(d=5))
    assert isinstance(stream.solver_, AutomaticSTORM)
    with pytest.raises(ValueError, match="gamma must be < 1 for partial_fit, except with solver='lstd', got 1"):
        BellmanValueEstimator(1).partial_fit(**log(d=5))
    traced = BellmanValueEstimator(0.9, objective="projected", trace_decay=0.5)
    order = {"X": log(d=5)["X"], "y": log()["y"], "episode": np.arange(300) // 30}
    assert traced.fit(**order).solver_ == clone(traced).partial_fit(**order).solver_ == "lstd"


def test_a_stream_of_the_default_is_fit_whatever_the_chunks():
    parts = log()
    whole = BellmanValueEstimator(0.9, objective="projected").fit(**parts)
    stream, q = BellmanValueEstimator(0.9), ActionValueEstimator(Always(1), 0.9)
    for rows in np.array_split(np.arange(300), 7):
        part = {name: column[rows] for name, column in of_actions().items()}
        q.partial_fit(**part)
        stream.partial_fit(**{name: part[name] for name in parts})
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9)
    assert stream.solver_ == q.solver_ == "lstd"
    np.testing.assert_allclose(q.coef_, clone(q).fit(**of_actions()).coef_, rtol=1e-9)


def test_parameters_of_a_solver_make_an_instance_of_storm_c():
    for estimator in (BellmanValueEstimator(0.9), ActionValueEstimator(Always(1), 0.9)):
        estimator.set_params(solver__batch_size=16)
        assert isinstance(estimator.solver, AutomaticSTORM) and estimator.solver.batch_size == 16
    with pytest.raises(ValueError, match="solver must be one of 'storm-c'.*'auto', 'lstd', got 'newton'"):
        BellmanValueEstimator(solver="newton").fit(**log())


@pytest.mark.parametrize("objective", ["bellman", "projected"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_exact_solutions_leave_the_start_and_the_end(objective, alpha):
    """The same two ends as an iterative solver, which records Phi itself."""
    parts = log()
    value = BellmanValueEstimator(0.9, objective=objective, alpha=alpha).fit(**parts)
    curve = BellmanValueEstimator(0.9, "storm-c", objective=objective, alpha=alpha).fit(**parts).loss_curve_
    np.testing.assert_allclose(value.loss_curve_, curve[[0, -1]], rtol=1e-6, atol=1e-9)
    assert value.ifo_[0] == 0 < value.ifo_[1] == sum(value.n_evaluations_.values())


def test_exact_values_of_actions_leave_a_record_for_each_policy():
    q = ActionValueEstimator(gamma=0.9, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q.fit(**of_actions())
    assert len(q.loss_curve_) == len(q.ifo_) == 2 and q.n_iter_ == 1 and q.loss_curve_[0] > q.loss_curve_[1]
    q = ActionValueEstimator(Always(1), 0.9, alpha=0.1).fit(**of_actions())
    curve = ActionValueEstimator(Always(1), 0.9, "storm-c", alpha=0.1).fit(**of_actions()).loss_curve_
    np.testing.assert_allclose(q.loss_curve_, curve[[0, -1]], rtol=1e-6, atol=1e-9)
    stream = clone(q).partial_fit(**of_actions())
    np.testing.assert_allclose(stream.loss_curve_, q.loss_curve_, rtol=1e-6, atol=1e-12)
    assert len(stream.ifo_) == 2


def test_few_rows_for_many_collinear_features_warn():
    """40 rows of a pendulum with 125 smooth features and an intercept: hardly determined anywhere else."""
    rng = np.random.default_rng(0)
    angle = np.cumsum(rng.normal(scale=0.1, size=41))
    states = np.column_stack([np.cos(angle), np.sin(angle), np.gradient(angle)])
    smooth = np.cos(states @ rng.normal(scale=0.4, size=(3, 125)) + rng.uniform(0, 6, size=125))
    with pytest.warns(ConvergenceWarning, match="nearly collinear.*Set alpha"):
        value = BellmanValueEstimator().fit(smooth[:-1], -angle[:-1] ** 2, next_X=smooth[1:], terminal=[False] * 40)
    assert value.rank_ <= 40


def test_budgets_do_not_depend_on_whether_rows_are_weighted_or_repeated():
    parts, times = log(30), np.arange(30) % 3
    repeated = {name: np.repeat(part, times, axis=0) for name, part in parts.items()}
    for name in ("scgd", "acc-scgd", "storm-c-paper"):
        value = BellmanValueEstimator(0.9, name, objective="projected", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            weighted, other = clone(value).fit(**parts, sample_weight=times), clone(value).fit(**repeated)
        np.testing.assert_allclose(weighted.coef_, other.coef_, rtol=1e-7)
        assert weighted.n_iter_ == other.n_iter_


def expected_failures(estimator):
    """objective="auto" counts rows as visits, so that it is "bellman" for repeated rows. The two have one minimum."""
    reason = "with the published constants the two objectives are not minimised up to the check's 1e-7"
    auto = isinstance(estimator, BellmanValueEstimator) and estimator.objective == "auto"
    paper = estimator.solver == "storm-c-paper" and auto
    return {"check_sample_weight_equivalence_on_dense_data": reason} if paper else {}


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [BellmanValueEstimator(), BellmanValueEstimator(solver="scgd"), ActionValueEstimator(alpha=0.1)]
)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [BellmanValueEstimator(solver=name) for name in ["lstd", *SOLVERS]]
    + [BellmanValueEstimator(solver=name, objective="projected") for name in SOLVERS]
    + [ActionValueEstimator(Always(0), solver=name) for name in ["auto", "lstd", *SOLVERS]],
    expected_failed_checks=expected_failures,
)
def test_check_estimator_with_every_solver(estimator, check):
    check(estimator)


def test_a_default_fit_enters_few_files():
    model = make_bellman_problem(n_states=30, n_features=None, gamma=0.9, kind="garnet", random_state=0)
    parts, here, files = model.transitions(4000, random_state=0)._asdict(), str(Path(sk_stormc.__file__).parent), set()

    def see(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(here):
            files.add(frame.f_code.co_filename)

    value = BellmanValueEstimator(gamma=0.9)
    before = sys.getprofile()
    sys.setprofile(see)
    try:
        value.fit(**parts)
    finally:
        sys.setprofile(before)
    assert value.solver_ == "lstd" and len(files) <= 14


def test_fewer_states_than_features_warn_and_indicators_do_not():
    """Values of 1e16 where rewards are of order 10, in silence."""
    rng = np.random.default_rng(1)
    states = rng.normal(size=(41, 3))
    smooth = np.column_stack([states**k * states[:, [j]] for k in range(9) for j in range(3)])
    parts = {"next_X": smooth[1:], "terminal": [False] * 40}
    with pytest.warns(ConvergenceWarning, match="40 distinct states do not determine the coefficients of"):
        BellmanValueEstimator(0.9).fit(smooth[:-1], -states[:-1, 0] ** 2, **parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BellmanValueEstimator(0.9, alpha=0.1).fit(smooth[:-1], -states[:-1, 0] ** 2, **parts)
        visited = np.eye(50)[rng.integers(0, 20, 41)]  # 30 of 50 states are never visited
        last = np.arange(40) == 39
        BellmanValueEstimator(0.9).fit(visited[:-1], rng.normal(size=40), next_X=visited[1:], terminal=last)
