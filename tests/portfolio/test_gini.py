"""risk_measure="gini", the mean of |y_i - y_j| over all pairs of periods."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from definitions import make_returns
from scipy.optimize import linprog

from sk_stormc import CompositionalPortfolio
from sk_stormc.plotting import FrontierDisplay
from sk_stormc.portfolio.risk import gini
from sk_stormc.portfolio.risk.gini import Gini

R = make_returns(40, 4)


def mean_difference(y, p=None):
    """The risk by its definition."""
    p = np.full(len(y), 1 / len(y)) if p is None else p / np.sum(p)
    return p @ np.abs(y[:, None] - y) @ p


def fit(X=R, sample_weight=None, **params):
    """A fit that does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CompositionalPortfolio(
            risk_measure="gini", **{"constraint": (0, 0.6), "budget": 1} | params
        ).fit(X, sample_weight=sample_weight)


def least(R, of_risk=1.0, of_mean=0.0, most=np.inf):
    """The least of_risk * risk - of_mean * mean return, by a linear program with a
    variable for each pair of periods; the risk is at most ``most``."""
    n, d = R.shape
    i, j = np.triu_indices(n, 1)
    D, m = R[i] - R[j], len(i)
    share = np.full(m, 2 / n**2)
    A = np.block([[D, -np.eye(m)], [-D, -np.eye(m)]])
    limit = np.zeros(2 * m)
    if np.isfinite(most):
        A, limit = np.vstack([A, np.r_[np.zeros(d), share]]), np.append(limit, most)
    run = linprog(
        np.r_[-of_mean * R.mean(axis=0), of_risk * share],
        A,
        limit,
        np.r_[np.ones(d), np.zeros(m)][None],
        [1.0],
        [(0, 0.6)] * d + [(0, None)] * m,
    )
    return run.fun


def test_value_and_subgradient():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        y, p = np.round(rng.normal(size=n), 1), rng.integers(1, 4, n).astype(float)
        measure, shares = Gini(), p / p.sum()
        value = measure.value(y, shares)
        assert value == pytest.approx(mean_difference(y, p), abs=1e-14)
        assert measure.value(y) == pytest.approx(mean_difference(y), abs=1e-14)
        copies = np.repeat(y, p.astype(int))
        assert measure.value(copies) == pytest.approx(value, abs=1e-14)
        assert measure.value(3 * y + 5, shares) == pytest.approx(3 * value)
        slope = measure.subgradient(y, shares)
        assert slope @ y == pytest.approx(value, abs=1e-14)
        assert slope.sum() == pytest.approx(0, abs=1e-14)
        for _ in range(20):
            z = rng.normal(size=n)
            assert mean_difference(z, p) >= slope @ z - 1e-14


def test_score_is_that_of_the_definition():
    """With the pairs i = j, unlike skfolio, whose value is T / (T - 1) times it."""
    portfolio = fit(risk_aversion=0.5)
    y, n = R @ portfolio.weights_, len(R)
    unbiased = np.mean([abs(a - b) for a, b in combinations(y, 2)])
    expected = y.mean() - 0.5 * (n - 1) / n * unbiased
    assert portfolio.score(R) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("differences", [2**22, 0])
def test_optimum_is_that_of_the_linear_program(differences, monkeypatch):
    """By a hinge for each pair, and by cuts."""
    monkeypatch.setattr(gini, "MAX_DIFFERENCES", differences)
    smallest = least(R)
    found = fit(risk_aversion=np.inf)
    assert found.loss_curve_[-1] == pytest.approx(smallest, rel=1e-9)
    found = fit(risk_aversion=0.2)
    assert found.loss_curve_[-1] == pytest.approx(least(R, 0.2, 1.0), rel=1e-8)
    most = 1.2 * smallest
    found = fit(max_risk=most)
    best = -least(R, 0.0, 1.0, most)
    assert R.mean(axis=0) @ found.weights_ == pytest.approx(best, rel=1e-6)
    assert mean_difference(R @ found.weights_) <= most * (1 + 1e-9)
    ratio = -fit(objective="ratio").loss_curve_[-1]
    # the largest ratio is the aversion whose least objective is 0
    assert least(R, ratio, 1.0) == pytest.approx(0, abs=1e-8 * smallest)


def test_weights_of_periods_are_copies():
    p = np.random.default_rng(1).integers(0, 4, len(R))
    weighted, copied = fit(sample_weight=p), fit(np.repeat(R, p, axis=0))
    gap = weighted.dual_gap_ + copied.dual_gap_
    assert abs(weighted.loss_curve_[-1] - copied.loss_curve_[-1]) <= gap + 1e-15


def test_files_and_dask_collections(tmp_path):
    da = pytest.importorskip("dask.array")
    X, p = make_returns(150, 3, 1), np.random.default_rng(0).random(150)
    file = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=X.shape)
    file[:] = X
    dask, utility = da.from_array(X, chunks=(50, 3)), {"risk_aversion": 0.5}
    for container, params in ((file, {"objective": "ratio"}), (dask, utility)):
        expected, found = fit(X, p, **params), fit(container, p, **params)
        room = found.dual_gap_ + expected.dual_gap_ + 1e-15
        assert 0 <= found.dual_gap_ <= 1e-3 * abs(found.loss_curve_[-1])
        assert abs(found.loss_curve_[-1] - expected.loss_curve_[-1]) <= room
        score = found.score(container, sample_weight=p)
        assert score == pytest.approx(found.score(X, sample_weight=p), rel=1e-12)


def test_frontier():
    portfolio = CompositionalPortfolio(risk_measure="gini", constraint="long_only")
    display = FrontierDisplay.from_estimator(
        portfolio, R, risk_aversions=[0.05, 0.2, 1.0]
    )
    assert "Gini's mean difference" in display.ax_.get_xlabel()
    for risk, mean in zip(display.risk, display.mean, strict=True):
        aim = {"constraint": "long_only", "budget": None, "max_risk": risk * (1 + 1e-9)}
        assert R.mean(axis=0) @ fit(**aim).weights_ == pytest.approx(mean, rel=1e-3)
