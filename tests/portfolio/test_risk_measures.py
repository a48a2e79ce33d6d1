"""The contract of a risk measure: its value, subgradient and traits. A new measure is
tested by being entered."""

import copy
import pickle

import numpy as np
import pytest
from definitions import INF, make_returns, risk, shares, utility
from scipy.optimize import approx_fprime

from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.risk import MEASURES
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


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", INSTANCES)
def test_a_subgradient_gives_a_lower_bound(measure, weighted, path):
    y, rng = PATHS[path], np.random.default_rng(1)
    p = shares(len(y), rng.uniform(0.1, 2, len(y))) if weighted else None
    risk, slope = measure.value(y, p), measure.subgradient(y, p)
    for size in (1e-4, 1e-2, 1.0, 10.0):
        z = y + size * rng.normal(size=len(y))
        assert measure.value(z, p) >= risk + slope @ (z - y) - 1e-9 * (1 + abs(risk))
    if path == "returns":  # without ties it is the gradient
        z = y + 1e-6 * rng.normal(size=len(y))
        assert measure.value(z, p) == pytest.approx(risk + slope @ (z - y), abs=1e-9)


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
    value = problem.objective(portfolio.weights_)
    assert value == pytest.approx(expected, rel=1e-12)
    for other in (
        copy.copy(problem),
        copy.deepcopy(problem),
        pickle.loads(pickle.dumps(problem)),
    ):
        assert type(other) is type(problem)
        assert other.objective(portfolio.weights_) == value


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


@pytest.mark.parametrize("n", [1, 2, 37, 500])
@pytest.mark.parametrize("confidence", [0.01, 0.9, 0.99])
def test_risks_by_their_definitions(n, confidence):
    y, rng = make_returns(n, 1)[:, 0], np.random.default_rng(n)
    for p in (None, shares(n, rng.uniform(0.1, 2, n))):
        for measure in ("cvar", "evar", "cdar"):
            expected = (
                risk(y, measure, confidence, p=p)
                if n > 1 or measure == "cdar"
                else -y[0]
            )
            value = MEASURES[measure](confidence).value(y, p)
            assert value == pytest.approx(expected, rel=2e-5)
    assert MEASURES["evar"]().value(np.ones(5)) == pytest.approx(-1.0)


@pytest.mark.parametrize("risk_aversion", [0.7, INF])
@pytest.mark.parametrize("measure", ["variance", "semivariance", "entropic"])
def test_gradients(measure, risk_aversion):
    if (measure, risk_aversion) == ("entropic", INF):
        return
    R, x = 100 * make_returns(50), np.random.default_rng(0).normal(size=6)
    problem = PortfolioProblem(R, risk_aversion, risk_measure=measure)
    assert problem.objective(x) == pytest.approx(utility(x, R, measure, risk_aversion))
    np.testing.assert_allclose(
        problem.gradient(x), approx_fprime(x, problem.objective, 1e-6), atol=1e-3
    )
