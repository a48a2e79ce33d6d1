"""Portfolios of files by rounds: equal to fits in memory within the proved gap, and
never wrong in silence."""

import re
import warnings

import numpy as np
import pytest
from definitions import INF, Stop, make_returns, risk
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.constraints import warn_of_no_constraint

N = 1200
R = make_returns(N, 5, seed=3)
EQUAL = np.full(5, 0.2)
AVERSION = {
    "variance": 10.0,
    "semivariance": 20.0,
    "entropic": 20.0,
    "cvar": 0.1,
    "evar": 0.05,
    "cdar": 0.02,
}
KINDS = [*AVERSION, "semideviation", "downside", "semideviation 1", "downside 1"]


def heavy():
    return np.random.default_rng(5).standard_t(2.1, size=(N, 5)) * 0.01 + 2e-4


DATA = {
    "plain": R,
    "heavy tails": heavy(),
    "sorted": R[np.argsort(R.mean(axis=1))],
    "copies": R[np.random.default_rng(0).integers(0, 40, N)],
    "cash": R * [0, 1, 1, 1, 1],
    "constant column": np.where(np.arange(5) == 4, 2e-4, R),
    "one asset": R[:, :1],
    "another unit": 1e6 * R,
    "float32": R.astype(np.float32),
}
LIMITS = {
    "none": {},
    "costs": {"previous_weights": EQUAL, "transaction_cost": 1e-4},
    "turnover": {"previous_weights": EQUAL, "max_turnover": 0.3},
    "linear": {"linear_constraints": (np.eye(5)[:2], [0.0, 0.1], [0.2, 0.3])},
    "bounds, l1": {"constraint": (-0.3, 0.7), "budget": 1.0, "l1": 1e-4},
    "benchmark": {"benchmark": EQUAL, "half_life": 1000},
}
GOALS = {
    "utility": {},
    "least risk": {"risk_aversion": INF},
    "ratio": {"objective": "ratio"},
    "max_risk": {"max_risk": None},
}


def mapped(folder, X, name="x.npy"):
    np.save(folder / name, X)
    return np.load(folder / name, mmap_mode="r")


def portfolio(kind, **params):
    measure, _, order = kind.partition(" ")
    of_kind = {"order": float(order)} if order else {}
    of_kind |= (
        {}
        if {"objective", "max_risk"} & params.keys()
        else {"risk_aversion": AVERSION.get(measure, 0.1)}
    )
    return CompositionalPortfolio(
        risk_measure=measure, **{"constraint": "long_only"} | of_kind | params
    )


def fit(X, kind, sample_weight=None, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("default", "CompositionalPortfolio has no constraint")
        return portfolio(kind, **params).fit(X, sample_weight=sample_weight)


def same_within_the_gap(rounds, direct, size=1.0):
    """The objective of rounds is above the least one by at most dual_gap_."""
    above = rounds.loss_curve_[-1] - direct.loss_curve_[-1]
    rounding = 1e-8 * size * abs(direct.loss_curve_[-1]) + 1e-15
    assert -direct.dual_gap_ - rounding <= above <= rounds.dual_gap_ + rounding
    assert rounds.stop_reason_ == "converged" and rounds.solver_ == "newton"


def cases():
    """Two goals of each kind, while limits and data alternate. With few rows, which are
    one table, every goal and limit is in tests/pairs."""
    for k, kind in enumerate(KINDS):
        for j, goal in enumerate(GOALS):
            limits = list(LIMITS)[(5 * k + j) % len(LIMITS)]
            data = list(DATA)[(4 * k + 3 * j) % len(DATA)]
            if data == "one asset" or (goal, limits) == ("max_risk", "benchmark"):
                limits = "none"
            if goal == "ratio" and data in ("constant column", "one asset"):
                data = "plain"  # a portfolio has no risk, or there is no choice
            if not (k + j // 2) % 2 and (kind != "entropic" or goal == "utility"):
                names = kind, goal, limits, data
                quick = goal != "max_risk" or kind == "downside 1"
                marks = () if quick else pytest.mark.slow
                yield pytest.param(*names, marks=marks, id=", ".join(names))


@pytest.mark.parametrize(("kind", "goal", "limits", "data"), [*cases()])
def test_rounds_give_the_fit_in_memory_within_the_proved_gap(
    tmp_path, kind, goal, limits, data
):
    X, weight = DATA[data][: 600 if kind == "cdar" else N], None
    params, (measure, _, order) = GOALS[goal] | LIMITS[limits], kind.partition(" ")
    order = float(order or 2)
    if goal == "max_risk":
        equal = X.astype(float).mean(axis=1)
        params["max_risk"] = risk(equal, measure, order=order)
    elif goal == "utility":
        weight = np.random.default_rng(0).uniform(size=len(X))
        if data == "another unit" and AVERSION.get(measure, 0) > 1:
            params["risk_aversion"] = 1e-6 * AVERSION[measure]
    rounds = fit(mapped(tmp_path, X), kind, weight, **params)
    same_within_the_gap(rounds, fit(X.astype(float), kind, weight, **params), 100.0)
    assert len(rounds.loss_curve_) == len(rounds.ifo_) == rounds.n_iter_ + 1
    assert rounds.weights_.dtype == X.dtype
    # after ten more without progress all rows would become one table
    assert rounds.n_iter_ <= 12 or kind == "cdar"
    if goal == "max_risk":
        found = risk(X.astype(float) @ rounds.weights_, measure, order=order)
        assert found <= params["max_risk"] * (1 + 1e-9)


@pytest.mark.parametrize(("kind", "seed"), [("semivariance", 4), ("evar", 5)])
def test_ratios_if_the_mean_returns_of_some_assets_are_negative(tmp_path, kind, seed):
    """Lower bounds were above the objective, and ended the rounds too early."""
    rng = np.random.default_rng(seed)
    X = 0.01 * rng.standard_t(4, size=(1200, 6))
    X = X @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6))) + 6e-4 * rng.normal(size=6)
    params = {"objective": "ratio", "constraint": (-0.3, 0.8), "budget": 1.0}
    rounds, direct = (fit(X, kind, **params) for X in (mapped(tmp_path, X), X))
    same_within_the_gap(rounds, direct)
    assert rounds.dual_gap_ >= 0


@pytest.mark.parametrize("kind", ["evar", "semideviation"])
def test_ratios_if_the_empty_portfolio_is_feasible(tmp_path, kind):
    """No bound was found for 50 rounds, which ended with a warning."""
    params = {"objective": "ratio", "constraint": (-0.2, 0.4)}
    same_within_the_gap(*(fit(X, kind, **params) for X in (mapped(tmp_path, R), R)))


@pytest.mark.parametrize("kind", ["variance", "cvar"])
def test_a_maximum_risk_below_that_of_all_portfolios_is_refused(tmp_path, kind):
    least = r"max_risk must be at least (0\.\d{4})"
    found = []
    for X in (mapped(tmp_path, R), R):
        with pytest.raises(ValueError, match=least) as error:
            fit(X, kind, max_risk=1e-4)
        found.append(re.match(least, str(error.value))[1])
    assert found[0] == found[1]


def test_more_assets_than_rows_of_a_table(tmp_path):
    X = make_returns(800, 40, seed=1)
    for kind in ("semivariance", "cvar"):
        same_within_the_gap(*(fit(X, kind) for X in (mapped(tmp_path, X), X)))


def test_without_limits_the_gap_is_that_of_weights_near_the_largest(tmp_path):
    warn_of_no_constraint.cache_clear()
    with pytest.warns(UserWarning, match="no constraint"):
        rounds = fit(mapped(tmp_path, R), "semivariance", constraint=None, tol=1e-3)
    direct = fit(R, "semivariance", constraint=None)
    assert rounds.loss_curve_[-1] - direct.loss_curve_[-1] <= rounds.dual_gap_


@pytest.mark.parametrize("kind", ["semivariance", "entropic"])
def test_an_objective_without_a_minimum_is_not_a_success(tmp_path, kind):
    """Weights of 0 counted as optimal for a sample."""
    X = np.column_stack([R[:, :2], np.full(N, 1e-4)])  # cash, without bounds
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        portfolio(kind, constraint=None).fit(mapped(tmp_path, X))


def test_an_l1_norm_may_keep_all_weights_at_0(tmp_path):
    penalised = fit(mapped(tmp_path, R), "semivariance", constraint=None, l1=0.01)
    assert not penalised.weights_.any()
    assert abs(penalised.dual_gap_) < 1e-12


def test_a_maximum_risk_near_the_least_one(tmp_path):
    """The gap of a mean return was compared with a variance."""
    rng = np.random.default_rng(2)
    X = 0.002 * rng.normal(size=(2000, 8)) @ (np.eye(8) + 0.3 * rng.normal(size=8))
    X = X + 3e-4 * rng.normal(size=8)
    limits = {"constraint": (-0.3, 0.8), "budget": 1.0}
    least = fit(X, "variance", risk_aversion=INF, **limits).loss_curve_[-1]
    fit(mapped(tmp_path, X), "variance", max_risk=1.001 * least**0.5, **limits)


@pytest.mark.parametrize("kind", ["cvar", "semideviation 1"])
def test_many_periods_in_memory_take_rounds(kind):
    """They took five to ten times as long."""
    X = make_returns(20_000, 4, seed=4)
    rounds = fit(X, kind)
    assert rounds.n_iter_ <= 5  # of Newton's method there would be twenty
    w, measure = rounds.weights_, kind.split()[0]
    order = 1 if " " in kind else 2
    objective = (
        AVERSION.get(measure, 0.1) * risk(X @ w, measure, order=order)
        - X.mean(axis=0) @ w
    )
    assert rounds.loss_curve_[-1] == pytest.approx(objective, rel=1e-9)
    assert rounds.dual_gap_ < 1e-6 * risk(X @ w, measure, order=order)


def interrupt():
    raise KeyboardInterrupt


def test_callbacks_output_and_budgets_count_rounds(tmp_path, capsys):
    file = mapped(tmp_path, R)
    every = Stop(lambda: False)
    whole = (
        portfolio("semivariance", tol=1e-6, verbose=1).set_callbacks(every).fit(file)
    )
    assert len(every.seen) == whole.n_iter_ >= 3
    assert len(capsys.readouterr().out.splitlines()) == whole.n_iter_ + 2
    with pytest.warns(ConvergenceWarning, match="after 2 rounds"):
        early = portfolio("semivariance", tol=1e-6, max_iter=2).fit(file)
    assert early.n_iter_ == 2 and early.stop_reason_ == "max_iter"
    assert early.loss_curve_[-1] - whole.loss_curve_[-1] <= early.dual_gap_
    stopped = portfolio("semivariance", tol=1e-6).set_callbacks(Stop(at=2)).fit(file)
    assert stopped.stop_reason_ == "callback"
    np.testing.assert_array_equal(stopped.weights_, early.weights_)
    broken = portfolio("semivariance", tol=1e-6).set_callbacks(Stop(interrupt, at=2))
    with pytest.raises(KeyboardInterrupt):
        broken.fit(file)
    np.testing.assert_array_equal(broken.weights_, early.weights_)


def test_weights_of_periods_of_a_file(tmp_path):
    """Weights of 0 leave a period out, and whole numbers count copies."""
    file, weight = mapped(tmp_path, R), np.random.default_rng(1).integers(0, 3, N)
    X = np.repeat(R, weight, axis=0)
    for kind in ("cvar", "evar"):
        same_within_the_gap(fit(file, kind, weight), fit(X, kind))
    with pytest.raises(
        ValueError, match="sample_weight must be finite and >= 0, got -1.0 for period 2"
    ):
        fit(file, "cvar", np.where(np.arange(N) == 2, -1, weight))


@pytest.mark.parametrize("benchmark", [0, EQUAL])
def test_a_file_has_the_score_of_its_excess_returns(tmp_path, benchmark):
    file, weight = mapped(tmp_path, R), np.random.default_rng(2).uniform(size=N)
    for kind, params in (("cvar", {}), ("variance", {"objective": "ratio"})):
        direct = fit(R, kind, benchmark=benchmark, **params)
        for p in (None, weight):
            score = direct.score(R, sample_weight=p)
            assert direct.score(file, sample_weight=p) == pytest.approx(score, rel=1e-9)
    with pytest.raises(ValueError, match="benchmark needs returns that are an array"):
        fit(file, "variance", solver="moments", benchmark=benchmark)
