"""solver="auto" takes the second-order method, which records, stops, is interrupted and resumed like the others."""

import warnings

import numpy as np
import pytest
from helpers import Callback
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sk_stormc import AutomaticSTORM, CompositionalPortfolio
from sk_stormc.callbacks import Checkpoint, EarlyStopping, TimeLimit
from sk_stormc.portfolio.constraints import SAID

MEASURES = ("variance", "semivariance", "entropic", "cvar", "evar", "semideviation", "downside", "cdar")
LIMITS = {"previous_weights": np.full(6, 1 / 6), "max_turnover": 0.2, "linear_constraints": (np.eye(6)[:1], 0.1, 0.2)}


def returns(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + rng.uniform(0, 1e-3, d)


class Stop(Callback):
    """A callback of scikit-learn that acts at a record."""

    max_subtasks = 0

    def __init__(self, act, at=3):
        self.act, self.at, self.seen = act, at, []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if not hasattr(fitted_estimator, "weights_"):
            return False
        self.seen.append(fitted_estimator.weights_.copy())
        return self.act() if len(self.seen) == self.at else False


@pytest.mark.parametrize("measure", MEASURES)
def test_auto_is_exact_and_says_what_ran(measure):
    R = returns()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto = CompositionalPortfolio(risk_measure=measure, constraint="long_only").fit(R)
        newton = CompositionalPortfolio("newton", risk_measure=measure, constraint="long_only").fit(R)
    assert auto.get_params()["solver"] == "auto" and auto.solver_ == "newton"
    np.testing.assert_array_equal(auto.weights_, newton.weights_)
    assert len(auto.ifo_) == len(auto.loss_curve_) >= auto.n_iter_ + 1 >= 2
    assert (np.diff(auto.ifo_) >= 0).all() and (np.diff(auto.loss_curve_) <= 1e-9 * abs(auto.loss_curve_[0])).all()


def test_storm_c_stays_storm_c():
    """It ended in Newton's method where it had not converged."""
    R = returns(2000)
    portfolio = CompositionalPortfolio("storm-c", constraint="long_only", random_state=0).fit(R)
    assert isinstance(portfolio.solver_, AutomaticSTORM)
    with pytest.warns(ConvergenceWarning, match="has not converged.*solver='auto', which is exact"):
        CompositionalPortfolio("storm-c", constraint="long_only", max_iter=3, random_state=0).fit(R)


def test_parameters_of_the_solver_are_those_of_storm_c():
    portfolio = CompositionalPortfolio().set_params(solver__learning_rate=0.5)
    assert isinstance(portfolio.solver, AutomaticSTORM) and portfolio.solver.learning_rate == 0.5
    search = GridSearchCV(
        CompositionalPortfolio(constraint="long_only", max_iter=30, tol=0, random_state=0),
        {"solver__batch_size": [8, 32]},
        cv=TimeSeriesSplit(2),
    ).fit(returns())
    assert isinstance(search.best_estimator_.solver_, AutomaticSTORM)


def test_auto_takes_steps_where_returns_are_in_a_file(tmp_path):
    R = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=(2000, 6))
    R[:] = returns(2000)
    portfolio = CompositionalPortfolio(constraint="long_only", random_state=0).fit(R)
    assert isinstance(portfolio.solver_, AutomaticSTORM)


@pytest.mark.parametrize("params", [{}, LIMITS, {"objective": "ratio", **LIMITS}, {"max_risk": 0.02}])
def test_a_budget_leaves_feasible_weights_and_a_warning(params):
    R = returns()
    whole = CompositionalPortfolio(constraint="long_only", **params).fit(R)
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        early = CompositionalPortfolio(constraint="long_only", max_iter=4, **params).fit(R)
    assert early.stop_reason_ == "max_iter" and early.n_iter_ == 4 and early.dual_gap_ > 0
    assert early.loss_curve_[-1] >= whole.loss_curve_[-1] - 1e-9 * abs(whole.loss_curve_[-1])
    w = early.weights_
    assert w.sum() == pytest.approx(1) and (w >= 0).all()
    if "max_turnover" in params:
        assert np.abs(w - 1 / 6).sum() <= 0.2 + 2e-9 and 0.1 - 1e-9 <= w[0] <= 0.2 + 1e-9
    early.set_params(max_iter=None).resume(R)
    np.testing.assert_array_equal(early.weights_, whole.weights_)
    np.testing.assert_array_equal(early.loss_curve_, whole.loss_curve_)


@pytest.mark.parametrize("params", [{}, LIMITS, {"objective": "ratio", **LIMITS}])
def test_ctrl_c_keeps_the_best_weights_so_far(params):
    pytest.importorskip("sklearn.callback")
    R, portfolio = returns(), CompositionalPortfolio(constraint="long_only", **params)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        portfolio.set_callbacks(Stop(interrupt)).fit(R)
    assert portfolio.stop_reason_ == "interrupted"
    assert portfolio.weights_.sum() == pytest.approx(1) and (portfolio.weights_ >= 0).all()
    portfolio.set_callbacks().resume(R)
    whole = CompositionalPortfolio(constraint="long_only", **params).fit(R)
    np.testing.assert_array_equal(portfolio.weights_, whole.weights_)


def test_callbacks_see_each_iteration_and_may_stop_it(tmp_path):
    pytest.importorskip("sklearn.callback")
    R, watch = returns(), Stop(lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        portfolio = CompositionalPortfolio(constraint="long_only").set_callbacks(watch).fit(R)
    assert portfolio.stop_reason_ == "callback" and portfolio.n_iter_ == 3
    np.testing.assert_array_equal(watch.seen[2], portfolio.weights_)
    path = tmp_path / "fit.npz"
    for callback in (EarlyStopping(patience=100), TimeLimit(1000), Checkpoint(path)):
        whole = CompositionalPortfolio(constraint="long_only").set_callbacks(callback).fit(R)
        assert whole.stop_reason_ == "converged"
    fresh = CompositionalPortfolio(constraint="long_only").set_callbacks(Checkpoint(path)).resume(R)
    np.testing.assert_array_equal(fresh.weights_, whole.weights_)


def test_verbose_prints_a_line_an_iteration(capsys):
    portfolio = CompositionalPortfolio(constraint="long_only", verbose=1).fit(returns())
    assert len(capsys.readouterr().out.splitlines()) == portfolio.n_iter_ + 2  # with the heading and the start


@pytest.mark.parametrize("solver", ["storm-c", "lbfgs", "moments"])
def test_what_needs_the_second_order_method_is_refused_by_others(solver):
    for params, needs in (
        ({"objective": "ratio"}, "objective='ratio'"),
        ({"max_risk": 0.1}, "max_risk"),
        ({"max_turnover": 2.0}, "max_turnover"),
        ({"risk_measure": "cdar"}, "risk_measure='cdar'"),
    ):
        if solver == "moments" and "max_turnover" in params:  # moments keep to limits too
            continue
        with pytest.raises(ValueError, match=f"{solver}.*{needs}.*solver='auto' or 'newton'"):
            CompositionalPortfolio(solver, constraint="long_only", **params).fit(returns())


@pytest.mark.parametrize("params", [{}, {"objective": "ratio"}, {"max_turnover": 0.3}, {"max_risk": 0.05}])
def test_more_than_five_hundred_assets(params):
    """The S&P 500 has 503 columns, and ratios and limits refused more than 500."""
    R = returns(600, 503, 1)
    held = {"previous_weights": np.full(503, 1 / 503)} if "max_turnover" in params else {}
    portfolio = CompositionalPortfolio(constraint="long_only", **params, **held).fit(R)
    assert portfolio.stop_reason_ == "converged" and portfolio.weights_.sum() == pytest.approx(1)


def test_a_weight_that_bounds_and_budget_leave_no_choice_is_exact():
    """It was off by a last bit, which depended on the processor."""
    R = returns(200, 2)
    for measure in MEASURES:
        one = CompositionalPortfolio(risk_measure=measure, constraint=(-1.0, 1.0), budget=0.5).fit(R[:, :1])
        assert one.weights_[0] == 0.5
        both = CompositionalPortfolio(
            risk_measure=measure, constraint="long_only", linear_constraints=([1.0, 0.0], 0.3, 0.3)
        ).fit(R)
        np.testing.assert_allclose(both.weights_, [0.3, 0.7], rtol=1e-15)


def test_an_unlimited_portfolio_is_said_once():
    SAID.clear()
    R = returns()
    with pytest.warns(UserWarning, match=r"weights sum to .* only risk_aversion.*long_only") as said:
        portfolio = CompositionalPortfolio().fit(R)
        CompositionalPortfolio().fit(R)
    assert len(said) == 1 and f"sum to {portfolio.weights_.sum():.3g}" in str(said[0].message)
    SAID.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CompositionalPortfolio(constraint="long_only").fit(R)
    SAID.append(1.0)  # other tests turn warnings into errors


def test_no_warnings_of_numpy():
    """Infinite bounds on both sides gave "invalid value encountered in add"."""
    R = returns()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for constraint in ((-np.inf, 0.5), (-np.inf, np.inf), (np.array([-np.inf, 0, 0, 0, 0, 0]), np.inf)):
            CompositionalPortfolio(constraint=constraint, budget=1.0).fit(R)
