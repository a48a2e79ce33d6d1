"""The contract of a risk measure: its value, subgradient and traits. A new measure is
tested by being entered."""

import copy
import pickle

import numpy as np
import pytest
from definitions import INF, make_returns, risk, shares, utility
from scipy.optimize import approx_fprime, linprog

from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.risk import MEASURES, gini
from sk_stormc.problems import PortfolioProblem

PARAMETERS = {
    "confidence": [0.3, 0.95],
    "order": [1.0, 2.0, 3.0],
    "risk_aversion": [0.5, 4.0],
}


def instances():
    """Each measure with each of some values of its parameters."""
    for name, kind in MEASURES.items():
        values = [[]]
        for parameter in vars(kind()):
            values = [
                [*those, (parameter, value)]
                for those in values
                for value in PARAMETERS[parameter]
            ]
        yield from (
            pytest.param(kind(**dict(those)), id=" ".join(map(str, [name, *those])))
            for those in values
        )


INSTANCES = list(instances())
RNG = np.random.default_rng(0)
TIES = np.repeat([0.02, -0.01, -0.03, 0.0], 10)
PATHS = {
    "returns": RNG.standard_t(3, 60),
    "ties": TIES,
    "constant": np.full(12, -0.5),
    "gains": RNG.uniform(0, 1, 30),
}


@pytest.mark.parametrize("measure", INSTANCES)
def test_a_subgradient_gives_a_lower_bound(measure):
    rng = np.random.default_rng(1)
    for path, y in PATHS.items():
        for p in (None, shares(len(y), rng.uniform(0.1, 2, len(y)))):
            risk, slope = measure.value(y, p), measure.subgradient(y, p)
            for size in (1e-4, 1e-2, 1.0, 10.0):
                z = y + size * rng.normal(size=len(y))
                below = risk + slope @ (z - y)
                assert measure.value(z, p) >= below - 1e-9 * (1 + abs(risk))
            z = y + 1e-6 * rng.normal(size=len(y))
            below = risk + slope @ (z - y)
            if path == "returns":  # without ties it is the gradient
                assert measure.value(z, p) == pytest.approx(below, abs=1e-9)


@pytest.mark.parametrize("measure", INSTANCES)
def test_traits(measure):
    y, p = PATHS["returns"], shares(60, np.random.default_rng(1).uniform(0.1, 2, 60))
    risk = measure.value(y, p)
    if measure.power:
        assert measure.value(3 * y, p) == pytest.approx(3**measure.power * risk)
    shifted = measure.value(y + 1, p) - risk
    if measure.name == "entropic":  # contains the mean return
        shifted += 1
    assert measure.shift is None or shifted == pytest.approx(measure.shift, abs=1e-9)
    order = np.random.default_rng(2).permutation(60)
    assert (measure.value(y[order], p[order]) == pytest.approx(risk)) == (
        not measure.ordered
    )
    copies = np.repeat(y, 2), np.repeat(p, 2) / 2
    assert measure.ordered or measure.value(*copies) == pytest.approx(risk)
    assert measure.rounds in (None, "sums", "sample", "rows")


@pytest.mark.parametrize("measure", INSTANCES)
def test_all_paths_have_one_objective(measure):
    """The problem for iterative solvers, if there is one, the exact fit and the score
    agree on what is minimised."""
    R = make_returns(80, 4)
    options = {"risk_measure": measure.name, "risk_aversion": 0.8} | vars(measure)
    aversion = options["risk_aversion"]
    portfolio = CompositionalPortfolio(constraint="long_only", **options).fit(R)
    y = R @ portfolio.weights_
    mean = 0.0 if measure.name == "entropic" else y.mean()
    expected = (1.0 if measure.name == "entropic" else aversion) * measure.value(
        y
    ) - mean
    for value in (portfolio.loss_curve_[-1], -portfolio.score(R)):
        assert value == pytest.approx(expected, rel=1e-12)
    if measure.problem is None:
        return
    problem = PortfolioProblem(
        R, risk_measure=measure.name, risk_aversion=options["risk_aversion"]
    )
    assert type(problem) is measure.problem and problem.risk_measure == measure.name
    for other in (problem, copy.copy(problem), pickle.loads(pickle.dumps(problem))):
        value = other.objective(portfolio.weights_)
        assert value == pytest.approx(expected, rel=1e-12)


def test_a_tail_of_all_losses_is_their_mean():
    """The weights of so many periods sum to less than 1 - confidence, because of
    rounding."""
    R = np.random.default_rng(0).normal(size=(99_999, 1))
    for measure in ("cvar", "cdar"):
        value = MEASURES[measure](1e-15).value(R[:, 0])
        below = np.maximum(np.maximum.accumulate(np.cumsum(R)), 0) - np.cumsum(R)
        assert value == pytest.approx(
            (-R if measure == "cvar" else below).mean(), rel=1e-9
        )


@pytest.mark.parametrize(
    ("n", "confidence"), [(1, 0.9), (2, 0.01), (37, 0.9), (500, 0.01), (500, 0.99)]
)
def test_risks_by_their_definitions(n, confidence):
    y, rng = make_returns(n, 1)[:, 0], np.random.default_rng(n)
    for p in (None, shares(n, rng.uniform(0.1, 2, n))):
        found, expected = MEASURES["gini"]().value(y, p), risk(y, "gini", p=p)
        assert found == pytest.approx(expected, abs=1e-15)
        for measure in ("cvar", "evar", "cdar"):
            expected = (
                risk(y, measure, confidence, p=p)
                if n > 1 or measure == "cdar"
                else -y[0]
            )
            value = MEASURES[measure](confidence).value(y, p)
            assert value == pytest.approx(expected, rel=2e-5)
    assert MEASURES["evar"]().value(np.ones(5)) == pytest.approx(-1.0)


@pytest.mark.parametrize("differences", [2**22, 0])
def test_least_gini_is_that_of_a_linear_program(differences, monkeypatch):
    """By a hinge for each pair, and by cuts."""
    monkeypatch.setattr(gini, "MAX_DIFFERENCES", differences)
    R = make_returns(40, 4)
    i, j = np.triu_indices(40, 1)
    D, m = R[i] - R[j], len(i)
    share = np.full(m, 2 / 40**2)
    for aversion, earned in ((1.0, 0.0), (0.2, 1.0)):
        best = linprog(  # with a variable for each pair of periods
            np.r_[-earned * R.mean(axis=0), aversion * share],
            np.block([[D, -np.eye(m)], [-D, -np.eye(m)]]),
            np.zeros(2 * m),
            np.r_[np.ones(4), np.zeros(m)][None],
            [1.0],
            [(0, 0.6)] * 4 + [(0, None)] * m,
        ).fun
        portfolio = CompositionalPortfolio(
            risk_measure="gini",
            risk_aversion=aversion if earned else INF,
            constraint=(0, 0.6),
            budget=1,
        )
        assert portfolio.fit(R).loss_curve_[-1] == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize(
    ("measure", "risk_aversion"),
    [("variance", 0.7), ("variance", INF), ("semivariance", INF), ("entropic", 0.7)],
)
def test_gradients(measure, risk_aversion):
    R, x = 100 * make_returns(50), np.random.default_rng(0).normal(size=6)
    problem = PortfolioProblem(R, risk_aversion, risk_measure=measure)
    assert problem.objective(x) == pytest.approx(utility(x, R, measure, risk_aversion))
    np.testing.assert_allclose(
        problem.gradient(x), approx_fprime(x, problem.objective, 1e-6), atol=1e-3
    )
