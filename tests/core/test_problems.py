"""Portfolio problems against closed forms, with weights, in any unit and precision."""

import numpy as np
import pytest
from helpers import Stacked

from sk_stormc.penalties import L1
from sk_stormc.problems import PortfolioProblem, check_problem

MEASURES = ("variance", "semivariance", "entropic")


def make_returns(n=200, d=5, unit=1.0, dtype=float, seed=0, mean=0.05):
    return (unit * np.random.default_rng(seed).normal(mean, 1.0, size=(n, d))).astype(
        dtype
    )


def close(a, b, rel):
    """Within rel of the largest entry of b."""
    np.testing.assert_allclose(a, b, rtol=0, atol=rel * np.abs(b).max())


@pytest.mark.parametrize("lam", [0.3, 5.0])
def test_variance_in_closed_form(lam):
    R = make_returns(mean=0.5)
    S, m = np.cov(R.T, bias=True), R.mean(0)
    problem, stacked = PortfolioProblem(R, lam), Stacked(R, lam)
    check_problem(stacked, n_draws=300)
    for x in np.random.default_rng(3).normal(size=(5, 5)):
        np.testing.assert_allclose(
            problem.gradient(x), -m + 2 * lam * S @ x, rtol=1e-11, atol=1e-12
        )
        np.testing.assert_allclose(
            problem.objective(x), -m @ x + lam * x @ S @ x, rtol=1e-12
        )
        np.testing.assert_allclose(
            stacked.gradient(x), problem.gradient(x), rtol=1e-11, atol=1e-12
        )
    best = np.linalg.solve(2 * lam * S, m)
    assert np.abs(problem.gradient(best)).max() < 1e-12


def naive(R, x, lam, measure, weights):
    """Phi, one period at a time."""
    total = sum(weights)
    y = [float(r @ x) for r in R]
    m = sum(w * v for w, v in zip(weights, y, strict=True)) / total
    if measure == "entropic":
        return (
            np.log(
                sum(w * np.exp(-lam * v) for w, v in zip(weights, y, strict=True))
                / total
            )
            / lam
        )
    deviations = [v - m if measure == "variance" else min(v - m, 0.0) for v in y]
    return (
        -m
        + lam * sum(w * v**2 for w, v in zip(weights, deviations, strict=True)) / total
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_objective_against_a_naive_one(measure, weighted):
    R, x = make_returns(n=60), np.random.default_rng(1).normal(size=5)
    weights = np.random.default_rng(2).uniform(0, 3, 60) if weighted else np.ones(60)
    problem = PortfolioProblem(
        R, 0.7, risk_measure=measure, sample_weight=weights if weighted else None
    )
    assert problem.objective(x) == pytest.approx(
        naive(R, x, 0.7, measure, weights), rel=1e-12
    )
    penalised = PortfolioProblem(
        R, 0.7, risk_measure=measure, sample_weight=weights, penalty=L1(0.2)
    )
    expected = naive(R, x, 0.7, measure, weights) + 0.2 * np.abs(x).sum()
    assert penalised.objective(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_weights_are_repetitions(measure):
    R, weights = make_returns(), np.random.default_rng(1).integers(0, 4, size=200)
    problem = PortfolioProblem(R, risk_measure=measure, sample_weight=weights)
    repeated = PortfolioProblem(np.repeat(R, weights, 0), risk_measure=measure)
    scaled_weights = PortfolioProblem(
        R, risk_measure=measure, sample_weight=1e-3 * weights
    )
    dropped = PortfolioProblem(
        R[weights > 0], risk_measure=measure, sample_weight=weights[weights > 0]
    )
    x = np.random.default_rng(0).normal(size=5)
    for other, rel in ((repeated, 5e-13), (scaled_weights, 5e-13), (dropped, 0)):
        close(problem.objective(x), other.objective(x), rel)
        close(problem.gradient(x), other.gradient(x), rel)
        close(problem.mean, other.mean, rel)
    assert problem.n_inner == dropped.n_inner == np.count_nonzero(weights)
    draws = problem.source.draw_inner(np.random.default_rng(0), (3, 100_000))
    counts = np.bincount(draws.ravel(), minlength=problem.n_inner) / draws.size
    kept = weights[weights > 0] / weights.sum()
    assert draws.shape == (3, 100_000)
    assert (np.abs(counts - kept) < 6 * np.sqrt(kept / draws.size)).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_means_are_accumulated_in_float64(weighted):
    R32 = make_returns(n=100_000, d=3, mean=100.0, dtype=np.float32)
    weights = np.random.default_rng(0).uniform(size=len(R32)) if weighted else None
    narrow = PortfolioProblem(R32, sample_weight=weights)
    wide = PortfolioProblem(R32.astype(float), sample_weight=weights)
    assert narrow.mean.dtype == np.float32
    close(narrow.mean, wide.mean, 3e-7)
    x = np.full(3, 1 / 3, np.float32)
    assert narrow.objective(x) == pytest.approx(wide.objective(x), rel=1e-6)
    assert narrow.gradient(x).dtype == np.float32
    close(narrow.gradient(x), wide.gradient(x), 3e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_metric_is_the_inverse_variance(weighted, dtype):
    R = make_returns(n=6000, dtype=dtype) * np.array([1e-3, 1, 50, 1, 1], dtype)
    R[:, 3], R[:, 4] = 0.1, 100.0  # two assets without risk
    weights = np.random.default_rng(0).integers(1, 4, len(R)) if weighted else None
    preconditioner = PortfolioProblem(
        R, sample_weight=weights, preconditioner="variance"
    ).preconditioner
    variance = np.repeat(R, weights if weighted else 1, 0)[:, :3].astype(float).var(0)
    assert preconditioner.dtype == dtype and preconditioner.shape == (5,)
    np.testing.assert_allclose(
        preconditioner[:3], 1 / variance, rtol=1e-5 if dtype == np.float32 else 1e-12
    )
    # the scale of the others
    np.testing.assert_allclose(
        preconditioner[3:], np.median(preconditioner[:3]), rtol=1e-5
    )
    nothing = PortfolioProblem(
        np.zeros((10, 2), dtype), preconditioner="variance"
    ).preconditioner
    np.testing.assert_array_equal(nothing, np.ones(2))
    own = np.arange(1.0, 6.0)
    np.testing.assert_array_equal(
        PortfolioProblem(R, preconditioner=own).preconditioner, own
    )
    assert PortfolioProblem(R).preconditioner is None
