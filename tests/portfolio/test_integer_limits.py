"""At most so many assets, and a least weight of those held: the best of all choices of
assets, and no limit broken."""

import itertools
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from definitions import Stop, make_returns
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio, walk_forward
from sk_stormc.plotting import FrontierDisplay

pytest.importorskip("pyscipopt")

R = make_returns(16, 5, seed=3)
NAMES = list("abcde")
TABLE = pd.DataFrame(R, columns=NAMES)
AVERSION = {"variance": 60.0, "semivariance": 60.0}
MEASURES = {
    "variance": {}, "semivariance": {}, "semideviation of order 1": {"order": 1},
    "semideviation": {},
    "downside of order 1": {"order": 1}, "downside": {}, "cvar": {"confidence": 0.8},
    "cdar": {"confidence": 0.8}, "gini": {},
}  # fmt: skip
LARGEST = {"cdar": 0.03, "gini": 0.013}  # risk that is allowed, instead of 0.011
GOALS = {
    "utility": {},
    "ratio": {"objective": "ratio"},
    "max_risk": {"max_risk": 0.011},
}
HELD = np.array([0.5, 0.0, 0.0, 0.5, 0.0])
LIMITS = {
    "costs and turnover": {"previous_weights": HELD, "transaction_cost": 3e-4,
    "max_turnover": 1.4, "half_life": 30.0},
    "sectors and benchmark": {"groups": list("uuvvv"),
    "linear_constraints": "u >= 0.3",
                              "benchmark": R[:, :3].mean(axis=1)},
    "l1": {"constraint": (-0.4, 0.9), "l1": 2e-4},
}  # fmt: skip


def fit(X=R, sample_weight=None, **params):
    """A fit to a small gap, whose warnings are errors."""
    given = {
        "constraint": (0.0, 0.7),
        "budget": 1.0,
        "tol": 1e-5,
        "time_limit": 300.0,
    } | params
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CompositionalPortfolio(**given).fit(X, sample_weight=sample_weight)


def with_measure(name, goal="utility", **params):
    measure = name.split()[0]
    aversion = {"risk_aversion": AVERSION.get(measure, 1.0)}
    if goal == "max_risk":
        params["max_risk"] = LARGEST.get(measure, 0.011)
    return aversion | MEASURES[name] | GOALS[goal] | {"risk_measure": measure} | params


def best_of_all(most, min_held=0.0, X=R, **params):
    """The objective of the best portfolio of all choices of assets and signs, with the
    bounds 0 of the others."""
    low, high = params.pop("constraint", (0.0, 0.7))
    low, high, least = (np.broadcast_to(bound, 5) for bound in (low, high, min_held))
    smallest, values = 1 if least.any() else most, []
    below = least.any() and (low < 0).any()
    for signs in itertools.product((0, 1, -1) if below else (0, 1), repeat=5):
        held = np.array(signs)
        if not smallest <= np.count_nonzero(held) <= most:
            continue
        lows = np.where(held > 0, least if least.any() else low, low * (held < 0))
        highs = np.where(held > 0, high, -least * (held < 0))
        try:
            portfolio = fit(X, constraint=(lows, highs), **params)
        except ValueError:  # no portfolio of these assets
            continue
        values.append(portfolio.loss_curve_[-1])
    return min(values)


def check(portfolio, best, most, least=0.0, low=0.0, high=0.7):
    """The objective is the best one, `dual_gap_` is a bound, and bounds, budget and
    integer limits are kept."""
    w, value = portfolio.weights_, portfolio.loss_curve_[-1]
    size = abs(best) if portfolio.objective == "ratio" else np.std(R @ w)
    assert value == pytest.approx(best, abs=1e-6 * size)
    assert portfolio.solver_ == "scip" and portfolio.stop_reason_ == "converged"
    assert 0 <= portfolio.dual_gap_ <= 1e-4 * size
    assert value - portfolio.dual_gap_ <= best + 1e-7 * size
    assert np.count_nonzero(w) <= most
    assert (np.abs(w[w != 0]) >= np.broadcast_to(least, 5)[w != 0] - 1e-9).all()
    assert (w >= low).all()
    assert (w <= high).all()
    assert w.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("measure", "goal"), [*zip(MEASURES, itertools.cycle(GOALS), strict=False)]
)
def test_the_best_of_all_choices(measure, goal):
    params = with_measure(measure, goal)
    X = R[:12] if measure == "gini" else R  # it takes long
    portfolio = fit(X, max_assets=2, **params)
    check(portfolio, best_of_all(2, X=X, **params), 2)
    if goal == "max_risk":
        only = {
            "max_risk": None,
            "constraint": (portfolio.weights_, portfolio.weights_),
            "risk_aversion": np.inf,
        }
        risk = fit(X, **params | only).loss_curve_[-1]
        risk = risk**0.5 if measure in AVERSION else risk
        assert risk <= params["max_risk"] * (1 + 1e-7)


@pytest.mark.parametrize(
    ("measure", "limits"), [*zip(list(MEASURES)[-3:], LIMITS, strict=False)]
)
def test_with_other_limits_and_costs(measure, limits):
    params = with_measure(measure) | LIMITS[limits]
    low, high = params.get("constraint", (0.0, 0.7))
    portfolio = fit(max_assets=2, min_held=0.1, **params)
    check(portfolio, best_of_all(2, 0.1, **params), 2, 0.1, low, high)
    w = portfolio.weights_
    if "max_turnover" in params:
        assert np.abs(w - HELD).sum() <= 1.4 + 1e-8
    if "groups" in params:
        assert w[:2].sum() >= 0.3 - 1e-8


def test_a_least_weight_of_each_asset_alone():
    """Short positions are at least as large in absolute value; without `max_assets`
    only the least weight counts."""
    least = pd.Series([0.3, 0.25, 0.3, 0.2, 0.35], index=NAMES)
    params = {"risk_aversion": 10.0, "constraint": (-0.35, 0.8)}
    by_label = fit(TABLE[NAMES[::-1]], max_assets=3, min_held=least, **params)
    w = by_label.named_weights()[NAMES]
    assert (w.abs()[w != 0] >= least[w != 0] - 1e-9).all() and (w < 0).any()
    as_dict = fit(TABLE, max_assets=3, min_held=least.to_dict(), **params)
    np.testing.assert_allclose(as_dict.weights_, w, atol=1e-7)
    check(as_dict, by_label.loss_curve_[-1], 3, least, -0.35, 0.8)
    alone = fit(min_held=0.3, **with_measure("variance"))
    assert alone.weights_[alone.weights_ > 0].min() >= 0.3 - 1e-9
    assert fit(**with_measure("variance")).weights_[alone.weights_ > 0].min() < 0.3


def test_any_unit_of_the_returns_and_weights_of_periods():
    params, p = with_measure("cvar", max_assets=2), np.arange(16) % 3.0
    expected = fit(R, p, **params)
    scaled = fit(1e-9 * R, p, **params)
    np.testing.assert_allclose(scaled.weights_, expected.weights_, atol=1e-6)
    copies = fit(np.repeat(R, p.astype(int), axis=0), **params)
    np.testing.assert_allclose(copies.weights_, expected.weights_, atol=1e-6)


def test_limits_that_do_not_bind_change_nothing():
    free, loose = fit(risk_measure="cvar"), fit(risk_measure="cvar", max_assets=5)
    np.testing.assert_allclose(loose.weights_, free.weights_, atol=1e-9)
    assert loose.dual_gap_ == pytest.approx(free.dual_gap_, abs=1e-12)
    assert loose.solver_ == "scip"


def test_limits_that_contradict_each_other_are_named():
    groups = ["tech", "tech", "oil", "banks", "other"]
    rows = ["tech >= 0.2", "oil >= 0.2", "banks >= 0.2", "other <= 0.5"]
    for goal in ("utility", "max_risk"):
        with pytest.raises(
            ValueError, match=r"max_assets=2.*tech >= 0.2.*oil >= 0.2.*banks >= 0.2"
        ) as error:
            fit(
                TABLE,
                max_assets=2,
                groups=groups,
                linear_constraints=rows,
                **with_measure("variance", goal),
            )
        assert "other" not in str(error.value)
    with pytest.raises(ValueError, match="min_held"):
        fit(min_held=0.6)
    with pytest.raises(ValueError, match="max_assets=2 and max_turnover=0.1"):
        fit(max_assets=2, previous_weights=np.full(5, 0.2), max_turnover=0.1)
    least = (
        fit(max_assets=1, risk_aversion=np.inf, constraint="long_only").loss_curve_[-1]
        ** 0.5
    )
    with pytest.raises(ValueError, match="max_assets=1 and max_risk="):
        fit(max_assets=1, max_risk=0.99 * least, constraint="long_only")
    fit(max_assets=1, max_risk=1.01 * least, constraint="long_only")


def test_bounds_and_weights_of_any_size():
    """SCIP takes numbers from 1e20 on for infinite ones."""
    few = R[:, :3]
    expected = CompositionalPortfolio(max_assets=2).fit(few)
    for bound in (1e19, 1e300):
        wide = CompositionalPortfolio(max_assets=2, constraint=(-bound, bound)).fit(few)
        assert np.allclose(wide.weights_, expected.weights_)
    with pytest.raises(ValueError, match="min_held must be in the unit of the wei"):
        CompositionalPortfolio(min_held=1e20).fit(few)
    large = CompositionalPortfolio(min_held=50.0, budget=1.0, max_assets=2).fit(few)
    held = large.weights_[large.weights_ != 0]
    assert len(held) == 2 and abs(held).min() >= 50 * (1 - 1e-9)
    assert np.isclose(held.sum(), 1)


HARD = (
    0.01
    * np.random.default_rng(0).normal(size=(200, 40))
    @ (np.eye(40) + 0.3 * np.random.default_rng(1).normal(size=(40, 40)))
)


def hard(**params):
    given = {"risk_aversion": np.inf, "max_assets": 8, "min_held": 0.02}
    return CompositionalPortfolio(constraint="long_only", **given | params)


def check_early(portfolio):
    w = portfolio.weights_
    assert w.sum() == pytest.approx(1)
    assert np.count_nonzero(w) <= 8
    assert w[w != 0].min() >= 0.02 - 1e-9
    assert 0 < portfolio.dual_gap_ < portfolio.loss_curve_[-1]
    assert (np.diff(portfolio.loss_curve_) <= 0).all() and portfolio.n_iter_ >= 1


def test_the_time_limit_keeps_the_best_portfolio_and_warns_of_the_gap():
    with pytest.warns(ConvergenceWarning, match=r"time_limit=0.2 seconds.*by up to"):
        portfolio = hard(time_limit=0.2).fit(HARD)
    assert portfolio.stop_reason_ == "time_limit"
    check_early(portfolio)


def test_a_time_limit_without_a_portfolio_raises():
    rows = (np.repeat(np.eye(5), 8, axis=1), np.full(5, 0.1), np.full(5, np.inf))
    held = np.where(np.arange(40) % 8, 0.05, 0.18)
    with pytest.raises(
        ValueError, match="time_limit=1e-09 has ended before a portfolio was found"
    ):
        hard(time_limit=1e-9, linear_constraints=rows, min_held=held, max_assets=5).fit(
            HARD
        )


def test_ctrl_c_keeps_the_best_portfolio_and_its_gap():
    pytest.importorskip("sklearn.callback")
    later = (
        f"import os, signal, time; time.sleep(.3); os.kill({os.getpid()}, "
        f"signal.{signal.SIGINT.name})"
    )
    portfolio = hard().set_callbacks(
        Stop(lambda: subprocess.Popen([sys.executable, "-c", later]) and False, at=1)
    )
    with pytest.raises(KeyboardInterrupt):
        portfolio.fit(HARD)
    assert portfolio.stop_reason_ == "interrupted"
    check_early(portfolio)


def test_a_callback_stops_it():
    pytest.importorskip("sklearn.callback")
    portfolio = hard().set_callbacks(Stop(at=1)).fit(HARD)
    assert portfolio.stop_reason_ == "callback" and portfolio.n_iter_ == 1
    check_early(portfolio)


def test_a_warm_start_begins_at_the_last_portfolio():
    X = make_returns(24, 5, seed=3)
    portfolio = fit(X, max_assets=2, **with_measure("cvar"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cold = clone(portfolio).set_params(max_iter=1).fit(X)
        warm = portfolio.set_params(max_iter=1, warm_start=True).fit(X)
    assert warm.loss_curve_[0] < cold.loss_curve_[0] - 1e-5
    with pytest.raises(ValueError, match="5 assets fitted before, got 4"):
        warm.fit(X[:, :4])


def test_a_frontier_and_a_walk_keep_the_limits():
    portfolio = CompositionalPortfolio(
        max_assets=2, min_held=0.1, constraint="long_only", risk_measure="cvar"
    )
    display = FrontierDisplay.from_estimator(portfolio, R, risk_aversions=[0.3])
    result = walk_forward(portfolio.set_params(warm_start=True), R, window=11)
    for w in (*display.weights_, *result.weights_after):
        assert np.count_nonzero(w) <= 2 and w[w != 0].min() >= 0.1 - 1e-9
