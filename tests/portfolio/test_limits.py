"""Linear constraints, groups of assets, a limit on trades and a benchmark: with every measure, exact, or refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import few_of, slow_but
from scipy import sparse
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sk_stormc import CompositionalPortfolio, STORMCompositional
from sk_stormc.portfolio.linear_constraints import rows_of

MEASURES = ("variance", "semivariance", "entropic", "cvar", "evar")
NAMES = ["oil", "gas", "US bonds", "gold", "tech", "cash"]
SECTOR = ["energy", "energy", "rates", "metal", "shares", "rates"]
HELD = np.array([0.3, 0.1, 0.2, 0.1, 0.2, 0.1])


def returns(n=120, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + 0.001 * rng.normal(size=d)


def frame(n=120, seed=0):
    return pd.DataFrame(returns(n, seed=seed), columns=NAMES)


def fit(X, **params):
    return CompositionalPortfolio(**{"constraint": "long_only", "risk_aversion": 10.0, **params}).fit(X)


def objective(y, measure, a=10.0):
    """Of returns y, by its definition; smooth where the measure is."""
    if measure == "variance":
        return -y.mean() + a * y.var()
    if measure == "semivariance":
        return -y.mean() + a * np.mean(np.minimum(y - y.mean(), 0) ** 2)
    if measure == "entropic":
        return np.log(np.mean(np.exp(-a * y))) / a
    if measure == "cvar":
        part = np.clip(0.05 * len(y) - np.arange(len(y)), 0, 1)
        return -y.mean() + a * (part @ np.sort(-y)[::-1]) / (0.05 * len(y))
    t = np.exp(np.linspace(-9, 3, 6001))[:, None] * y.std()
    e = -y / t
    top = e.max(axis=1)
    return -y.mean() + a * (t[:, 0] * (np.log(np.exp(e - top[:, None]).mean(axis=1)) + top + np.log(20))).min()


def best(R, b, measure, A, lower, upper, held, most):
    """The least objective, long only, by scipy: HiGHS for CVaR, else SLSQP with purchases and sales as variables."""
    n, d = R.shape
    a, unit, one = 10.0, np.eye(d), np.ones(d)
    if measure == "cvar":  # w, |w - held|, level, excess
        excess = np.hstack([-R, np.zeros((n, d)), -np.ones((n, 1)), -np.eye(n)])
        pad = np.zeros((len(A), d + 1 + n))
        rest = np.zeros((d, 1 + n))
        rows = [excess, np.hstack([A, pad]), np.hstack([-A, pad]), np.hstack([unit, -unit, rest])]
        rows += [np.hstack([-unit, -unit, rest]), np.r_[0 * one, one, np.zeros(1 + n)][None]]
        limit = np.r_[-b, upper, -lower, held, -held, most]
        cost = np.r_[-R.mean(axis=0), 0 * one, a, np.full(n, a / n / 0.05)]
        keep = np.isfinite(limit)
        found = linprog(
            cost, np.concatenate(rows)[keep], limit[keep], np.r_[one, np.zeros(d + 1 + n)][None], [1.0],
            bounds=[(0, None)] * 2 * d + [(None, None)] + [(0, None)] * n,
        )  # fmt: skip
        return found.fun + b.mean()
    keep_up, keep_low = np.isfinite(upper), np.isfinite(lower)

    def trades(z):
        return held + z[:d] - z[d:]

    def value(z):
        y = R @ trades(z) - b
        if measure != "evar":
            return 1e3 * objective(y, measure)
        e = -y / np.exp(z[-1])
        return 1e3 * (-y.mean() + a * np.exp(z[-1]) * (np.log(np.mean(np.exp(e - e.max()))) + e.max() + np.log(20)))

    level = 1 if measure == "evar" else 0
    if measure == "evar":
        inner = trades

        def trades(z):
            return inner(z[:-1])

    found = minimize(
        value,
        np.r_[np.full(2 * d, 1e-3), [np.log(0.01)] * level],
        bounds=[(0, None)] * 2 * d + [(-9, 0)] * level,
        constraints=[
            {"type": "eq", "fun": lambda z: trades(z).sum() - 1},
            {"type": "ineq", "fun": trades},
            {"type": "ineq", "fun": lambda z: (upper - A @ trades(z))[keep_up]},
            {"type": "ineq", "fun": lambda z: (A @ trades(z) - lower)[keep_low]},
            {"type": "ineq", "fun": lambda z: most - np.abs(z[: 2 * d]).sum()},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return found.fun / 1e3


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", few_of([0, 1], 0))
def test_every_measure_with_all_limits_is_exact(measure, seed):
    rng = np.random.default_rng(seed)
    R = returns(seed=seed)
    b = R @ rng.dirichlet(np.ones(6)) + 0.002 * rng.normal(size=len(R))
    A = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 0, -2, 1], [0, 1, 0, 1, 1, 0]])
    lower, upper = np.array([-np.inf, A[1] @ HELD, 0.1]), np.array([0.38, A[1] @ HELD, 0.6])
    portfolio = fit(
        R, risk_measure=measure, linear_constraints=(A, lower, upper),
        max_turnover=0.3, previous_weights=HELD, benchmark=b,
    )  # fmt: skip
    w, value = portfolio.weights_, objective(R @ portfolio.weights_ - b, measure)
    assert (w >= 0).all() and w.sum() == pytest.approx(1, abs=1e-12) and np.abs(w - HELD).sum() <= 0.3 + 1e-8
    assert (A @ w <= upper + 1e-8).all() and (A @ w >= lower - 1e-8).all()
    least, size = best(R, b, measure, A, lower, upper, HELD, 0.3), np.std(R @ w - b)
    assert value <= least + 2e-5 * size
    assert -1e-9 * size <= portfolio.dual_gap_ <= 1e-6 * size
    assert value - portfolio.dual_gap_ <= least + 1e-6 * size  # of SLSQP's own constraints
    assert portfolio.stop_reason_ == "converged" and portfolio.loss_curve_[-1] == pytest.approx(value, abs=1e-6 * size)
    assert portfolio.score(R) == pytest.approx(-value, abs=1e-6 * size)


@pytest.mark.parametrize("measure", slow_but(MEASURES, "variance", "evar"))
def test_a_benchmark_is_a_shift_of_each_period(measure):
    R = returns(seed=2)
    b = R @ np.array([0.5, 0, 0.2, 0.3, 0, 0])
    active = fit(R, risk_measure=measure, benchmark=b)
    shifted = fit(R - b[:, None], risk_measure=measure, solver="newton")
    np.testing.assert_allclose(active.weights_, shifted.weights_, atol=1e-5)
    assert active.loss_curve_[-1] == pytest.approx(shifted.loss_curve_[-1], rel=1e-6)
    by_weights = fit(R, risk_measure=measure, benchmark=[0.5, 0, 0.2, 0.3, 0, 0])
    np.testing.assert_allclose(active.weights_, by_weights.weights_, atol=1e-7)


def test_a_benchmark_that_can_be_held_is_held():
    R = returns(seed=3)
    for measure in ("variance", "cvar", "evar"):
        portfolio = fit(R, risk_measure=measure, risk_aversion=np.inf, benchmark=HELD)
        np.testing.assert_allclose(portfolio.weights_, HELD, atol=1e-4)


def test_a_column_is_the_benchmark():
    X = frame()
    X["index"] = X.to_numpy() @ HELD
    portfolio = fit(X, benchmark="index")
    assert portfolio.weights_.shape == (7,) and portfolio.weights_[-1] == 0
    np.testing.assert_allclose(portfolio.weights_[:-1], fit(X[NAMES], benchmark=HELD).weights_, atol=1e-7)
    assert portfolio.predict(X).shape == (120,)
    labelled = fit(X[NAMES], benchmark=pd.Series(HELD[::-1], index=NAMES[::-1]))
    np.testing.assert_allclose(labelled.weights_, portfolio.weights_[:-1], atol=1e-7)
    search = GridSearchCV(
        portfolio, {"linear_constraints": [None, "oil <= 0.1"]}, cv=TimeSeriesSplit(2), error_score="raise"
    ).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("constraint", "row", "lower", "upper"),
    [
        ("energy <= 0.6", [1, 1, 0, 0, 0, 0], -np.inf, 0.6),
        ("0.6 >= energy", [-1, -1, 0, 0, 0, 0], -0.6, np.inf),
        ("US bonds == 2 * gold", [0, 0, 1, -2, 0, 0], 0, 0),
        ("'US bonds' - .5*gold + 1e-1 >= -tech", [0, 0, 1, -0.5, 1, 0], -0.1, np.inf),
        ("oil * 2 + oil <= 1 + metal", [3, 0, 0, -1, 0, 0], -np.inf, 1),
    ],
)
def test_words(constraint, row, lower, upper):
    known = dict(zip(NAMES, np.eye(6), strict=True)) | {"energy": np.eye(6)[:2].sum(0), "metal": np.eye(6)[3]}
    (found,) = rows_of(constraint, known, 6)
    np.testing.assert_array_equal(found[0], row)
    assert found[1:] == (lower, upper)


def test_a_chain_of_words_is_two_constraints():
    X = frame()
    chain = fit(X, linear_constraints="0.1 <= metal + shares <= 0.2", groups=SECTOR)
    pair = fit(X, linear_constraints=["metal + shares >= 0.1", "metal + shares <= 0.2"], groups=SECTOR)
    np.testing.assert_allclose(chain.weights_, pair.weights_, atol=1e-9)
    assert 0.1 - 1e-9 <= chain.weights_[[3, 4]].sum() <= 0.2 + 1e-9


@pytest.mark.parametrize(
    ("constraint", "found"),
    [
        ("enrgy <= 1", "'enrgy'"), ("energy < 1", "'< 1'"), ("energy", "no comparison"), ("1 <= 2", "without a name"),
        ("energy <=", "nothing beside"), ("oil * gas <= 1", "'gas'"), ("oil <= +", "the end"), ("", "no comparison"),
        ("oil 'gas' <= 1", "'gas'"),
    ],
)  # fmt: skip
def test_words_that_are_no_constraint_are_shown(constraint, found):
    with pytest.raises(ValueError, match="linear_constraints") as raised:
        fit(frame(), linear_constraints=[constraint], groups=SECTOR)
    assert found in str(raised.value)


GROUPS = {
    "list": SECTOR,
    "array of kinds": np.array([SECTOR, ["x"] * 6]),
    "mapping": dict(zip(NAMES, SECTOR, strict=True)),
    "mapping of lists": {name: ["x", sector] for name, sector in zip(NAMES, SECTOR, strict=True)},
    "Series": pd.Series(SECTOR[::-1], index=NAMES[::-1]),
    "frame by asset": pd.DataFrame({"sector": SECTOR, "kind": [None, "x"] * 3}, index=NAMES).iloc[::-1],
    "frame by kind": pd.DataFrame([SECTOR], columns=NAMES, index=["sector"]),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_groups_come_in_many_forms(kind):
    portfolio = fit(frame(), linear_constraints=["energy <= 0.2", "rates >= .5"], groups=GROUPS[kind])
    by_asset = fit(frame(), linear_constraints=["oil + gas <= 0.2", "US bonds + cash >= .5"])
    np.testing.assert_array_equal(portfolio.weights_, by_asset.weights_)
    assert portfolio.weights_[:2].sum() <= 0.2 + 1e-9 and portfolio.weights_[[2, 5]].sum() >= 0.5 - 1e-9


def test_matrices_come_in_many_forms():
    A = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]])
    table = pd.DataFrame(A[:, ::-1], columns=NAMES[::-1], index=["energy", "rates"])
    plain = fit(frame(), linear_constraints=(A, [-np.inf, 0.5], [0.2, np.inf])).weights_
    for given in (sparse.csr_array(A), table):
        found = fit(frame(), linear_constraints=[given, [-np.inf, 0.5], [0.2, np.inf]]).weights_
        np.testing.assert_array_equal(found, plain)
    np.testing.assert_array_equal(fit(frame(), linear_constraints=(A[0], None, 0.2)).weights_,
                                  fit(frame(), linear_constraints="oil + gas <= 0.2").weights_)  # fmt: skip


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"linear_constraints": ["energy >= 0.8", "rates >= 0.4", "metal <= 1"]},
            ["'energy >= 0.8' and 'rates >= 0.4'", "missed by 0.2"],
        ),
        ({"linear_constraints": "rates <= -0.1"}, ["'rates <= -0.1'", "missed by 0.1"]),
        ({"linear_constraints": "tech == 1", "max_turnover": 0.5}, ["'tech == 1' and 'max_turnover=0.5'"]),
        ({"linear_constraints": (np.ones((1, 6)), 2, 3)}, ["'row 0 of linear_constraints'"]),
        ({"linear_constraints": (np.eye(6), 0.2, 0.1)}, ["lower", "0.2", "0.1"]),
        ({"linear_constraints": (np.eye(5), 0.2, 0.3)}, ["shape \\(n_constraints, 6\\)", "\\(5, 5\\)"]),
        ({"linear_constraints": ["oil <= 1"], "groups": ["oil"] * 6}, ["groups", "'oil'"]),
        ({"groups": {"coal": "energy"}}, ["groups", "'coal'"]),
        ({"groups": [SECTOR, SECTOR]}, ["groups", "'energy' in two"]),
        ({"benchmark": "index"}, ["benchmark", "'index'"]),
        ({"benchmark": np.ones(7)}, ["benchmark", "\\(120,\\)", "\\(6,\\)", "\\(7,\\)"]),
        ({"max_turnover": -1}, ["max_turnover", "-1"]),
        ({"solver": "lbfgs", "max_turnover": 1.0}, ["lbfgs", "max_turnover", "newton"]),
        ({"solver": STORMCompositional(learning_rate=0.1), "benchmark": HELD}, ["benchmark", "newton"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_before_any_work(params, words):
    given = {"constraint": "long_only", "groups": SECTOR, "previous_weights": HELD} | params
    portfolio = CompositionalPortfolio(**given)
    for word in words:
        with pytest.raises(ValueError, match=word):
            portfolio.fit(frame())
    assert not hasattr(portfolio, "weights_")


def test_streams_and_large_returns_are_refused(tmp_path):
    limited = CompositionalPortfolio(constraint="long_only", linear_constraints="oil <= 0.2")
    with pytest.raises(ValueError, match="partial_fit of solver='scgd' cannot be used with linear_constraints"):
        limited.set_params(solver="scgd").partial_fit(frame())
    assert limited.set_params(solver="moments").partial_fit(frame()).named_weights()["oil"] <= 0.2 + 1e-8
    with pytest.raises(ValueError, match="benchmark cannot be used with partial_fit"):
        CompositionalPortfolio(constraint="long_only", benchmark=HELD).partial_fit(frame())
    with pytest.raises(ValueError, match="max_turnover needs returns .* at most 4096 assets"):
        fit(np.random.default_rng(0).normal(size=(3, 4097)), max_turnover=2.0)
    held = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=(50, 6))
    held[:] = returns(50)
    with pytest.raises(ValueError, match="benchmark needs returns that are an array in memory"):
        fit(held, benchmark=HELD)
    with pytest.raises(ValueError, match="in memory"):
        fit(held, max_turnover=2.0)
    with pytest.raises(ValueError, match="as many periods as assets"):
        fit(returns(6), benchmark=HELD)


@pytest.mark.parametrize("measure", slow_but(MEASURES, "semivariance", "cvar"))
def test_limits_without_an_interior(measure):
    """A cap that only one portfolio of a sector meets, a weight that is forced, and no trades at all."""
    R = returns(seed=4)
    params = {"constraint": (0.0, 0.25), "budget": 1.0, "groups": SECTOR, "risk_measure": measure}
    full = fit(R, linear_constraints="energy >= 0.5", **params)
    np.testing.assert_allclose(full.weights_[:2], 0.25, atol=1e-9)
    for words in (["rates + energy == 1"], ["energy >= .5", "rates >= .5"]):
        forced = fit(R, linear_constraints=words, **params)
        np.testing.assert_allclose(forced.weights_, [0.25, 0.25, 0.25, 0, 0, 0.25], atol=1e-9)
    still = fit(R, risk_measure=measure, previous_weights=HELD, max_turnover=0.0)
    np.testing.assert_allclose(still.weights_, HELD, atol=1e-12)
    assert forced.stop_reason_ == still.stop_reason_ == full.stop_reason_ == "converged"


def test_a_limit_on_trades_that_is_wide_changes_nothing():
    R = returns(seed=5)
    free = fit(R, solver="newton")
    assert np.abs(free.weights_ - HELD).sum() < 2
    wide = fit(R, previous_weights=HELD, max_turnover=2.0)
    np.testing.assert_allclose(wide.weights_, free.weights_, atol=1e-6)
    narrow = fit(R, previous_weights=HELD, max_turnover=0.1)
    assert np.abs(narrow.weights_ - HELD).sum() == pytest.approx(0.1, abs=1e-8)
    assert (narrow.weights_ == HELD).any()  # what is not traded stays as it was, exactly


def test_the_linear_constraints_may_set_the_size():
    R = returns(seed=6)
    by_row = fit(R, constraint=(0.0, np.inf), linear_constraints=(np.ones(6), 1.0, 1.0), risk_measure="cvar")
    np.testing.assert_allclose(by_row.weights_, fit(R, risk_measure="cvar", solver="newton").weights_, atol=1e-6)
    with pytest.raises(ValueError, match="sets the size"):
        fit(R, constraint=None, linear_constraints=(np.ones(6), 0.0, 1.0), risk_measure="cvar")


def test_a_fit_with_limits_is_copied_and_kept():
    X = frame()
    portfolio = fit(X, linear_constraints=["energy <= .2"], groups=pd.Series(SECTOR, index=NAMES), benchmark=HELD)
    again = pickle.loads(pickle.dumps(portfolio))
    assert again.score(X) == portfolio.score(X)
    np.testing.assert_array_equal(clone(portfolio).fit(X).weights_, portfolio.weights_)
    single = clone(portfolio).fit(X.astype(np.float32))
    assert single.weights_.dtype == np.float32
    np.testing.assert_allclose(single.weights_, portfolio.weights_, atol=1e-3)
    assert single.dual_gap_ >= 0
