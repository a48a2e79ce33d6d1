"""Streams by moments: exact for the variance, near the optimum for the other measures, whatever the chunks."""

import pickle

import numpy as np
import pytest
from helpers import slow_but
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.portfolio.second_order.quadratic import Sums
from sk_stormc.solvers import SCGD

WAYS = {
    "free": {},
    "long_only": {"constraint": "long_only"},
    "bounds": {"constraint": (-0.2, 0.6), "budget": 1.0},
    "l1": {"l1": 0.02},
    "trades": {"constraint": "long_only", "previous_weights": np.full(5, 0.2), "transaction_cost": 0.01},
    "limits": {
        "constraint": "long_only", "linear_constraints": ([1.0, 1.0, 0.0, 0.0, 0.0], -np.inf, 0.3),
        "previous_weights": np.full(5, 0.2), "max_turnover": 0.5,
    },
}  # fmt: skip
RETURNS = make_gaussian_returns(6000, 5, mean=0.1, condition_number=50, random_state=3)


def correlated(n, d, seed, spread=0.1):
    """Returns with the condition number of real ones."""
    rng = np.random.default_rng(seed)
    A = np.eye(d) + spread * rng.standard_normal((d, d))
    return rng.standard_normal((n, d)) @ A + rng.normal(0.02, 0.03, d)


def streamed(X, size, sample_weight=None, **kwargs):
    portfolio = CompositionalPortfolio(**kwargs)
    for i in range(0, len(X), size):
        part = None if sample_weight is None else sample_weight[i : i + size]
        portfolio.partial_fit(X[i : i + size], sample_weight=part)
    return portfolio


def value(portfolio, X, w, **kwargs):
    return CompositionalPortfolio(**kwargs)._problem(X, None).value_at(w)


def excess(X, portfolio, **kwargs):
    """How far a portfolio is above the optimum, as a share of what equal weights are."""
    exact = CompositionalPortfolio("newton", **kwargs).fit(X)
    least = value(exact, X, exact.weights_, **kwargs)
    equal = np.full(X.shape[1], 1 / X.shape[1])
    return (value(exact, X, portfolio.weights_, **kwargs) - least) / (value(exact, X, equal, **kwargs) - least)


def test_sums_do_not_mind_an_offset_or_how_rows_are_divided():
    X = RETURNS[:1000]
    expected = np.cov(X.T, bias=True)
    for offset in (0.0, 1e6):
        for size in (1, 37, 1000):
            sums = Sums.none(5)
            for i in range(0, 1000, size):
                sums = sums.plus(Sums.of(X[i : i + size] + offset))
            np.testing.assert_allclose(sums.covariance(), expected, atol=1e-9)
            np.testing.assert_allclose(sums.mean - offset, X.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("risk_aversion", slow_but([1.0, np.inf], 1.0))
def test_moments_have_the_exact_variance(way, risk_aversion):
    if risk_aversion == np.inf and way in ("free", "l1"):
        return
    kwargs = WAYS[way] | {"risk_aversion": risk_aversion}
    weights = np.random.default_rng(0).uniform(0, 2, len(RETURNS))
    exact = CompositionalPortfolio("newton", **kwargs).fit(RETURNS, sample_weight=weights)
    whole = CompositionalPortfolio("moments", **kwargs).fit(RETURNS, sample_weight=weights)
    stream = streamed(RETURNS, 700, weights, solver="moments", **kwargs)
    for found in (whole, stream):
        np.testing.assert_allclose(found.weights_, exact.weights_, atol=2e-6)
        assert -1e-9 <= found.dual_gap_ <= 1e-6
    assert stream.loss_curve_[-1] == pytest.approx(exact.loss_curve_[-1], rel=1e-8)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cvar", "evar")]


@pytest.mark.parametrize("risk_measure", ["variance", "semivariance", "entropic", *SLOW])
def test_chunks_make_no_difference(risk_measure):
    kwargs = {"risk_measure": risk_measure, "constraint": "long_only"}
    one = streamed(RETURNS, 6000, **kwargs)
    for size in (611, 2500):
        other = streamed(RETURNS, size, **kwargs)
        assert other.weights_.tobytes() == one.weights_.tobytes()
        assert other.loss_curve_.tobytes() == one.loss_curve_.tobytes()
        assert other.ifo_.tolist() == one.ifo_.tolist() and other.n_iter_ == one.n_iter_
    again = pickle.loads(pickle.dumps(streamed(RETURNS[:3000], 1500, **kwargs)))
    for i in range(3000, 6000, 1500):
        again.partial_fit(RETURNS[i : i + 1500])
    assert again.weights_.tobytes() == one.weights_.tobytes()


@pytest.mark.parametrize("constraint", [None, "long_only"])
@pytest.mark.parametrize("risk_measure", ["variance", "semivariance", "entropic"])
def test_correlated_assets(risk_measure, constraint):
    X = correlated(6000, 20, seed=1)
    kwargs = {"risk_measure": risk_measure, "constraint": constraint}
    assert excess(X, streamed(X, 3000, **kwargs), **kwargs) < 2e-3  # 1e-1 and more by steps of the solver


@pytest.mark.parametrize("risk_measure", ["cvar", "evar"])
def test_tail_risks(risk_measure):
    X = correlated(8000, 4, seed=2)
    kwargs = {"risk_measure": risk_measure, "constraint": "long_only", "confidence": 0.9}
    portfolio = streamed(X, 4000, **kwargs)
    assert excess(X, portfolio, **kwargs) < 5e-3
    assert portfolio.loss_curve_[-1] == pytest.approx(value(portfolio, X, portfolio.weights_, **kwargs), rel=0.02)


def test_regimes():
    """The objective over rows of other regimes is known by moments, and nothing diverges."""
    chunks = [make_gaussian_returns(1000, 20, mean=0.1, random_state=i) for i in range(30)]
    portfolio = CompositionalPortfolio("moments", constraint="long_only", random_state=0)
    for chunk in chunks:
        portfolio.partial_fit(chunk)
        assert portfolio.stop_reason_ == "exhausted"
    assert abs(excess(np.concatenate(chunks), portfolio, constraint="long_only")) < 1e-6


def test_a_market_that_changes_is_warned_of_where_moments_do_not_say_all():
    kwargs = {"risk_measure": "evar", "constraint": "long_only", "confidence": 0.6}
    chunks = [make_gaussian_returns(5000, 10, mean=0.2, random_state=i) for i in range(4)]
    portfolio = CompositionalPortfolio(**kwargs)
    with pytest.warns(ConvergenceWarning, match="knows the objective over the rows so far roughly only"):
        for chunk in chunks:
            portfolio.partial_fit(chunk)


def test_what_weights_that_move_mean_for_entropic_risk_depends_on_its_exponents():
    """The weights move by a quarter; at lambda = 3 the objective is then a sixth of the spread above its minimum."""
    chunks = [make_gaussian_returns(5000, 10, mean=0.1, random_state=1000 + i) for i in range(12)]
    portfolio = CompositionalPortfolio(risk_measure="entropic", constraint="long_only", risk_aversion=3.0)
    for chunk in chunks[:-1]:
        portfolio.partial_fit(chunk)
    with pytest.warns(ConvergenceWarning, match="the weights have moved far since many rows came"):
        portfolio.partial_fit(chunks[-1])


@pytest.mark.parametrize("risk_measure", ["variance", "semivariance", SLOW[0]])
def test_half_life(risk_measure):
    first, last = correlated(6000, 6, seed=3, spread=0.3), correlated(4000, 6, seed=4, spread=0.3)
    X, half_life = np.concatenate([first, last]), 800
    kwargs = {"risk_measure": risk_measure, "constraint": "long_only", "half_life": half_life, "random_state": 0}
    portfolio = streamed(X, 2500, **kwargs)
    assert portfolio.weights_.tobytes() == streamed(X, 999, **kwargs).weights_.tobytes()
    fitted = CompositionalPortfolio("storm-c", **kwargs).fit(X)
    weights = 0.5 ** (np.arange(len(X))[::-1] / half_life)
    by_hand = CompositionalPortfolio("storm-c", **kwargs | {"half_life": None}).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(fitted.weights_, by_hand.weights_)
    problem = fitted._problem(X, weights)
    least, equal = problem.value_at(fitted.weights_), problem.value_at(np.full(6, 1 / 6))
    assert problem.value_at(portfolio.weights_) - least < 0.01 * (equal - least)
    exact = streamed(X, 2500, **kwargs | {"solver": "moments"})
    if risk_measure == "variance":
        assert problem.value_at(exact.weights_) - least < 1e-4 * (equal - least)


def test_a_period_without_weight_has_passed_all_the_same():
    weights = np.where(np.arange(6000) % 3 == 1, 0.0, 1.0)
    kwargs = {"solver": "moments", "constraint": "long_only", "half_life": 500.0}
    stream = streamed(RETURNS, 1400, weights, **kwargs)
    whole = CompositionalPortfolio(**kwargs).fit(RETURNS, sample_weight=weights)
    np.testing.assert_allclose(stream.weights_, whole.weights_, atol=1e-6)


def test_the_gap_of_returns_in_a_file(tmp_path):
    path = tmp_path / "returns.npy"
    np.save(path, RETURNS)
    held = np.load(path, mmap_mode="r")
    for solver in ("storm-c", "moments"):
        for risk_measure in ("variance", "entropic") if solver == "storm-c" else ("variance",):
            kwargs = {"constraint": "long_only", "risk_measure": risk_measure, "random_state": 0}
            portfolio = CompositionalPortfolio(solver, **kwargs).fit(held)
            exact = CompositionalPortfolio("newton", **kwargs).fit(RETURNS)
            above = value(exact, RETURNS, portfolio.weights_, **kwargs) - value(
                exact, RETURNS, exact.weights_, **kwargs
            )
            assert above - 1e-9 <= portfolio.dual_gap_ <= 1e-3
    stream = CompositionalPortfolio("moments", constraint="long_only").partial_fit(held)
    np.testing.assert_allclose(
        stream.weights_, CompositionalPortfolio("moments", constraint="long_only").fit(held).weights_, atol=1e-7
    )


def test_an_objective_without_a_minimum_is_warned_of():
    X = np.column_stack([RETURNS, np.full(len(RETURNS), 0.01)])
    with pytest.warns(ConvergenceWarning, match="may be above its minimum"):
        CompositionalPortfolio("moments").partial_fit(X)


def test_what_is_refused():
    with pytest.raises(ValueError, match="solver='moments' can fit risk_measure='variance'"):
        CompositionalPortfolio("moments", risk_measure="semivariance").fit(RETURNS)
    with pytest.raises(AttributeError, match="batches of a stream have too few periods of the tail"):
        CompositionalPortfolio("scgd", risk_measure="cvar", constraint="long_only").partial_fit(RETURNS)
    with pytest.raises(AttributeError, match="for partial_fit set solver='moments'"):
        CompositionalPortfolio("newton").partial_fit(RETURNS)
    with pytest.raises(ValueError, match="half_life=100 on a stream keeps moments"):
        CompositionalPortfolio(SCGD(), half_life=100).partial_fit(RETURNS)
    with pytest.raises(ValueError, match="solver='moments' on a stream keeps moments"):
        CompositionalPortfolio("moments").partial_fit(np.ones((3, 2001)))
    with pytest.raises(ValueError, match="half_life must be"):
        CompositionalPortfolio(half_life=-1.0).fit(RETURNS)
    moved = CompositionalPortfolio().partial_fit(RETURNS[:100])
    with pytest.raises(ValueError, match="solver must stay moments"):
        moved.set_params(solver="scgd").partial_fit(RETURNS)


def test_few_rows_are_enough_within_limits():
    portfolio = CompositionalPortfolio("moments", constraint="long_only").partial_fit(RETURNS[:2])
    assert portfolio.weights_.sum() == pytest.approx(1) and portfolio.weights_.max() > 0.3
    with pytest.warns(ConvergenceWarning, match="until there are 7 rows"):
        free = CompositionalPortfolio().partial_fit(RETURNS[:6])
    assert not free.weights_.any()
    assert free.partial_fit(RETURNS[6:200]).weights_.any()


def test_bits_do_not_depend_on_how_rows_lie_in_memory():
    returns = make_gaussian_returns(3000, 5, mean=0.1, random_state=0)
    by_row, by_column = (
        CompositionalPortfolio(constraint="long_only", random_state=0).partial_fit(R)
        for R in (returns, np.asfortranarray(returns))
    )
    np.testing.assert_array_equal(by_row.weights_, by_column.weights_)
