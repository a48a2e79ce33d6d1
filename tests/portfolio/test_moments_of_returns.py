"""Streams by moments: exact for the variance, near the optimum for the other measures,
whatever the chunks."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

CASES = {
    "free": {},
    "long_only": {"constraint": "long_only"},
    "bounds": {"constraint": (-0.2, 0.6), "budget": 1.0},
    "l1": {"l1": 0.02},
    "trades": {"constraint": "long_only", "previous_weights": np.full(5, 0.2),
    "transaction_cost": 0.01},
    "limits": {
        "constraint": "long_only", "linear_constraints": ([1.0, 1.0, 0.0, 0.0, 0.0],
        -np.inf, 0.3),
        "previous_weights": np.full(5, 0.2), "max_turnover": 0.5,
    },
}  # fmt: skip
RETURNS = make_gaussian_returns(6000, 5, mean=0.1, condition_number=50, random_state=3)
LONG = {"constraint": "long_only"}


def correlated(n, d, seed, spread=0.1):
    """Returns with the condition number of real ones."""
    rng = np.random.default_rng(seed)
    A = np.eye(d) + spread * rng.standard_normal((d, d))
    return rng.standard_normal((n, d)) @ A + rng.normal(0.02, 0.03, d)


def streamed(X, size, sample_weight=None, **params):
    portfolio = CompositionalPortfolio(**params)
    for i in range(0, len(X), size):
        part = None if sample_weight is None else sample_weight[i : i + size]
        portfolio.partial_fit(X[i : i + size], sample_weight=part)
    return portfolio


def excess(X, portfolio, sample_weight=None, **params):
    """How far a portfolio is above the optimum, as a share of what equal weights
    are."""
    exact = CompositionalPortfolio("newton", **params).fit(
        X, sample_weight=sample_weight
    )
    least = exact.score(X, sample_weight=sample_weight)
    values = []
    for weights in (portfolio.weights_, np.full(X.shape[1], 1 / X.shape[1])):
        exact.weights_ = weights
        values.append(least - exact.score(X, sample_weight=sample_weight))
    return values[0] / values[1]


def same_fit(one, other):
    assert one.weights_.tobytes() == other.weights_.tobytes()
    assert one.loss_curve_.tobytes() == other.loss_curve_.tobytes()
    assert one.ifo_.tolist() == other.ifo_.tolist() and one.n_iter_ == other.n_iter_


@pytest.mark.parametrize("case", CASES)
def test_moments_have_the_exact_variance(case):
    params, X = CASES[case], RETURNS[:3000]
    weights = np.random.default_rng(0).uniform(0, 2, len(X))
    exact = CompositionalPortfolio("newton", **params).fit(X, sample_weight=weights)
    at_once = CompositionalPortfolio("moments", **params).fit(X, sample_weight=weights)
    stream = streamed(X, 700, weights, solver="moments", **params)
    for found in (at_once, stream):
        np.testing.assert_allclose(found.weights_, exact.weights_, atol=2e-6)
        assert -1e-9 <= found.dual_gap_ <= 1e-6
    assert stream.loss_curve_[-1] == pytest.approx(exact.loss_curve_[-1], rel=1e-8)


def test_an_offset_of_the_returns_does_not_matter(offset=1e5):
    plain, moved = (
        streamed(X, 700, solver="moments", **LONG) for X in (RETURNS, RETURNS + offset)
    )
    np.testing.assert_allclose(moved.weights_, plain.weights_, atol=1e-7)


def test_assets_of_very_different_units():
    """The scales of the assets differ by 1e10: the smallest takes its share of the risk
    all the same."""
    unit = np.array([1e-5, 1.0, 1e5, 1e-3, 1e2])
    X = RETURNS * unit
    found, exact = (
        CompositionalPortfolio(solver, **LONG).fit(X)
        for solver in ("moments", "newton")
    )
    np.testing.assert_allclose(found.weights_, exact.weights_, rtol=1e-6, atol=1e-12)
    assert found.stop_reason_ == "converged"
    assert found.dual_gap_ <= 1e-9 * abs(found.loss_curve_[-1])


@pytest.mark.parametrize("measure", ["variance", "semivariance"])
def test_chunks_make_no_difference(measure):
    params = {"risk_measure": measure, **LONG}
    if measure == "variance":
        params["half_life"] = 800
    one = streamed(np.asfortranarray(RETURNS), 6000, **params)
    same_fit(streamed(RETURNS, 997, **params), one)
    again = pickle.loads(pickle.dumps(streamed(RETURNS[:3000], 1500, **params)))
    for i in range(3000, 6000, 1500):
        again.partial_fit(RETURNS[i : i + 1500])
    same_fit(again, one)


def test_a_chunk_that_raises_changes_nothing():
    """A warning that is an error comes after the stream has seen the rows."""
    X = np.column_stack([RETURNS, np.full(len(RETURNS), 0.01)])
    stream = CompositionalPortfolio("moments", **LONG).partial_fit(X[:50])
    before, chunk = pickle.dumps(stream), X[50:200]
    stream.set_params(constraint=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning, match="until there are 7 rows"):
            CompositionalPortfolio().partial_fit(RETURNS[:6])
        fresh = CompositionalPortfolio("moments")
        with pytest.raises(ConvergenceWarning, match="may be above its minimum"):
            fresh.partial_fit(X)
    assert set(vars(fresh)) == set(vars(CompositionalPortfolio()))  # as new
    stream.set_params(constraint="long_only")
    assert pickle.dumps(stream) == before
    same_fit(
        stream.partial_fit(chunk),
        CompositionalPortfolio("moments", **LONG).partial_fit(X[:200]),
    )


@pytest.mark.parametrize(
    ("measure", "constraint"), [("semivariance", None), ("entropic", "long_only")]
)
def test_correlated_assets(measure, constraint):
    X = correlated(6000, 20, seed=1)
    params = {"risk_measure": measure, "constraint": constraint}
    # 1e-1 and more by steps of the solver
    assert excess(X, streamed(X, 3000, **params), **params) < 2e-3


def test_a_drifting_mean_is_followed_as_by_fit():
    """The expansion of earlier rows is moved with the weights: its mean, which would be
    3e-2 off in the weights without, and its value, which would double."""
    X = np.random.default_rng(5).standard_normal((12_000, 5)) + 0.05
    X += 0.1 * np.linspace(-1, 1, 12_000)[:, None] * np.linspace(-1, 1, 5)
    params = {"risk_measure": "entropic", **LONG}
    stream = streamed(X, 4000, **params)
    exact = CompositionalPortfolio(**params).fit(X)
    np.testing.assert_allclose(stream.weights_, exact.weights_, atol=2e-3)
    assert stream.loss_curve_[-1] == pytest.approx(exact.loss_curve_[-1], rel=0.01)


def test_a_market_that_changes_is_warned_of():
    chunks = [
        make_gaussian_returns(5000, 6, mean=0.1, random_state=1000 + i)
        for i in range(12)
    ]
    portfolio = CompositionalPortfolio(
        risk_measure="entropic", risk_aversion=3.0, **LONG
    )
    with pytest.warns(
        ConvergenceWarning,
        match="objective over the rows so far roughly only, since the weights have",
    ):
        for chunk in chunks:
            portfolio.partial_fit(chunk)


@pytest.mark.parametrize("measure", ["variance", "semivariance"])
def test_half_life(measure):
    X = np.concatenate(
        [correlated(n, 6, seed, spread=0.3) for n, seed in ((4000, 3), (3000, 4))]
    )
    half_life = 800
    params = {"risk_measure": measure, "half_life": half_life, **LONG}
    portfolio = streamed(X, 2500, **params)
    weights = 0.5 ** (np.arange(len(X))[::-1] / half_life)
    assert excess(X, portfolio, weights, **params | {"half_life": None}) < 0.01
    if measure == "variance":
        exact = streamed(X, 2500, **params | {"solver": "moments"})
        assert excess(X, exact, weights, **params | {"half_life": None}) < 1e-4


def test_a_period_without_weight_has_passed_all_the_same():
    weights = np.where(np.arange(6000) % 3 == 1, 0.0, 1.0)
    weights[1400:2800] = 0  # an entire chunk
    params = {"solver": "moments", "half_life": 500.0, **LONG}
    stream = streamed(RETURNS, 1400, weights, **params)
    at_once = CompositionalPortfolio(**params).fit(RETURNS, sample_weight=weights)
    np.testing.assert_allclose(stream.weights_, at_once.weights_, atol=1e-6)


def test_few_rows_are_enough_within_limits():
    portfolio = CompositionalPortfolio("moments", **LONG).partial_fit(RETURNS[:2])
    assert portfolio.weights_.sum() == pytest.approx(1)
    assert portfolio.weights_.max() > 0.3
    with pytest.warns(ConvergenceWarning, match="until there are 7 rows"):
        free = CompositionalPortfolio().partial_fit(RETURNS[:6])
    assert not free.weights_.any()
    with pytest.raises(ValueError, match="solver must stay moments"):
        CompositionalPortfolio().partial_fit(RETURNS[:100]).set_params(
            solver="scgd"
        ).partial_fit(RETURNS)
    assert free.partial_fit(RETURNS[6:200]).weights_.any()
