"""solver="auto" takes the second-order method, which records, stops, is interrupted and
resumed like the others."""

import warnings

import numpy as np
import pytest
from definitions import Stop, make_returns
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sk_stormc import AutomaticSTORM, CompositionalPortfolio
from sk_stormc.callbacks import Checkpoint, EarlyStopping, TimeLimit
from sk_stormc.portfolio.constraints import warn_of_no_constraint

R = make_returns(300)
LIMITS = {
    "previous_weights": np.full(6, 1 / 6),
    "max_turnover": 0.2,
    "linear_constraints": (np.eye(6)[:1], 0.1, 0.2),
}


NARROW = {"linear_constraints": (np.eye(6)[:1], 0.3, 0.3001)}


def long_only(solver="auto", **params):
    return CompositionalPortfolio(
        solver, constraint="long_only", random_state=0, **params
    )


@pytest.mark.parametrize("measure", ["variance", "entropic", "cvar"])
def test_auto_is_exact_and_records_each_iteration(measure):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto, newton = (
            long_only(solver, risk_measure=measure).fit(R)
            for solver in ("auto", "newton")
        )
    assert auto.get_params()["solver"] == "auto" and auto.solver_ == "newton"
    np.testing.assert_array_equal(auto.weights_, newton.weights_)
    assert len(auto.ifo_) == len(auto.loss_curve_) >= auto.n_iter_ + 1 >= 2
    assert (np.diff(auto.loss_curve_) <= 1e-9 * abs(auto.loss_curve_[0])).all()
    # a gradient and a Hessian
    an_iteration = sum(auto.n_evaluations_.values()) // auto.n_iter_
    assert an_iteration == (4 * 300 + 2 if measure in ("entropic", "evar") else 6 * 300)
    assert auto.ifo_.tolist() == [
        an_iteration * min(k, auto.n_iter_) for k in range(len(auto.ifo_))
    ]


def test_storm_c_stays_storm_c(tmp_path):
    """It ended in Newton's method where it had not converged."""
    assert isinstance(
        long_only("storm-c").fit(make_returns(2000)).solver_, AutomaticSTORM
    )
    with pytest.warns(
        ConvergenceWarning, match="has not converged.*solver='auto', which is exact"
    ):
        long_only("storm-c", max_iter=3).fit(make_returns(2000))
    file = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=(300, 6))
    file[:] = R
    assert isinstance(long_only("storm-c").fit(file).solver_, AutomaticSTORM)


@pytest.mark.parametrize("params", [LIMITS, NARROW, {"objective": "ratio", **LIMITS}])
def test_a_budget_leaves_feasible_weights_and_a_warning(params):
    converged = long_only(**params).fit(R)
    for budget in (1, 3, 6):
        with pytest.warns(ConvergenceWarning, match="has not converged"):
            early = long_only(max_iter=budget, **params).fit(R)
        assert early.stop_reason_ == "max_iter" and early.n_iter_ == budget
        true = early.loss_curve_[-1] - converged.loss_curve_[-1]
        assert early.dual_gap_ >= true - 1e-12 and early.dual_gap_ > 0
        w = early.weights_
        assert w.sum() == pytest.approx(1) and (w >= 0).all()
        if "max_turnover" in params:
            assert np.abs(w - 1 / 6).sum() <= 0.2 + 2e-9
        if "linear_constraints" in params:
            _, low, high = params["linear_constraints"]
            assert low - 2e-9 <= w[0] <= high + 2e-9
    early.set_params(max_iter=None).resume(R)
    np.testing.assert_array_equal(early.weights_, converged.weights_)
    np.testing.assert_array_equal(early.loss_curve_, converged.loss_curve_)


@pytest.mark.parametrize("params", [{}, {"objective": "ratio", **LIMITS}])
def test_ctrl_c_keeps_the_best_weights_so_far(params):
    pytest.importorskip("sklearn.callback")
    portfolio = long_only(**params)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        portfolio.set_callbacks(Stop(interrupt)).fit(R)
    assert portfolio.stop_reason_ == "interrupted"
    assert portfolio.weights_.sum() == pytest.approx(1)
    assert (portfolio.weights_ >= 0).all()
    portfolio.set_callbacks().resume(R)
    np.testing.assert_array_equal(
        portfolio.weights_, long_only(**params).fit(R).weights_
    )


def test_callbacks_see_each_iteration_and_may_stop_it(tmp_path):
    pytest.importorskip("sklearn.callback")
    watch, path = Stop(), tmp_path / "fit.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        portfolio = long_only().set_callbacks(watch).fit(R)
    assert portfolio.stop_reason_ == "callback" and portfolio.n_iter_ == 3
    np.testing.assert_array_equal(watch.seen[2][0], portfolio.weights_)
    assert watch.seen[2][1] == pytest.approx(-portfolio.score(R))
    for callback in (EarlyStopping(patience=100), TimeLimit(1000), Checkpoint(path)):
        converged = long_only().set_callbacks(callback).fit(R)
        assert converged.stop_reason_ == "converged"
    fresh = long_only().set_callbacks(Checkpoint(path)).resume(R)
    np.testing.assert_array_equal(fresh.weights_, converged.weights_)


def test_verbose_prints_a_line_an_iteration(capsys):
    portfolio = long_only(verbose=1).fit(R)
    # with the heading and the start
    assert len(capsys.readouterr().out.splitlines()) == portfolio.n_iter_ + 2


def test_a_portfolio_without_a_constraint_warns_once():
    """In all of a process, also within a search."""
    warn_of_no_constraint.cache_clear()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for sign in (1, -1):
            CompositionalPortfolio().fit(sign * R)
        GridSearchCV(CompositionalPortfolio(), {"risk_aversion": [1.0, 2.0]}, cv=2).fit(
            R
        )
    assert len(found) == 1 and found[0].filename == __file__
    assert "only risk_aversion" in str(found[0].message)
    assert "long_only" in str(found[0].message)


def test_a_portfolio_with_a_constraint_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        long_only().fit(R)
        # infinite bounds gave NumPy's warnings
        for constraint in (
            (-np.inf, 0.5),
            (-np.inf, np.inf),
            (np.array([-np.inf, 0, 0, 0, 0, 0]), np.inf),
        ):
            CompositionalPortfolio(constraint=constraint, budget=1.0).fit(R)
