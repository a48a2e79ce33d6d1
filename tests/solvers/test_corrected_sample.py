"""Rounds of corrected samples: minima of eight objectives by scipy, counts, penalties,
and rounds that fail."""

import numpy as np
import pytest
from helpers import composition, regression
from scipy.optimize import minimize as scipy_minimize
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import (
    CompositionalProblem,
    DifferentiableComposition,
    EntropicPortfolioProblem,
    LogMeanExpProblem,
)
from sk_stormc.solvers import CorrectedSample

N, D = 3000, 3
rng = np.random.default_rng(0)
A = rng.normal(size=(N, D)) * [0.5, 1.0, 1.5]
Y = np.where(A @ [1.0, -1.0, 0.5] + rng.standard_t(3, N) > 0.5, 1.0, -1.0)
GROUP = rng.integers(0, 3, N)


def losses(x, rows=A):
    return np.logaddexp(0, -Y * (rows @ x))


class Robust(LogMeanExpProblem):
    """T log mean exp(loss / T), with a ridge."""

    def __init__(self, temperature):
        self.scale, self.n_inner, self.n_variables = temperature, N, D

    def gather(self, draws):
        return (A, Y) if draws is None else (A[draws], Y[draws])

    def exponents(self, x, rows):
        return np.logaddexp(0, -rows[1] * (rows[0] @ x)) / self.scale

    def exponent_gradient(self, x, rows, p):
        return (
            (-p * rows[1] / (1 + np.exp(rows[1] * (rows[0] @ x))))
            @ rows[0]
            / self.scale
        )


def robust(temperature):
    return Robust(
        temperature
    ), lambda x: temperature * np.log(np.mean(np.exp(losses(x) / temperature)))


def by_jax(inner, outer, inner_data=(A, Y), outer_data=None):
    return DifferentiableComposition(
        inner, outer, inner_data, outer_data, x0=np.full(D, 0.1)
    )


def semideviation(jnp):
    def loss(x, row):
        return jnp.logaddexp(0, -row[1] * (row[0] @ x))

    def value(x):
        above = np.maximum(losses(x) - losses(x).mean(), 0)
        return np.mean(losses(x) + 2 * above**2)

    def outer(x, u, row):
        return loss(x, row) + 2 * jnp.maximum(loss(x, row) - u, 0) ** 2

    return by_jax(loss, outer, outer_data=(A, Y)), value


def group_dro(jnp):
    shares = (np.arange(3) == GROUP[:, None]) / np.mean(
        np.arange(3) == GROUP[:, None], axis=0
    )

    def inner(x, row):
        return row[2] * jnp.logaddexp(0, -row[1] * (row[0] @ x))

    def value(x):
        return 0.1 * np.log(
            np.sum(np.exp([losses(x)[k == GROUP].mean() / 0.1 for k in range(3)]))
        )

    return by_jax(
        inner, lambda x, u, row: 0.1 * jnp.log(jnp.exp(u / 0.1).sum()), (A, Y, shares)
    ), value


def average_precision(jnp):
    positive = A[Y > 0][:8]

    def inner(x, row):
        kernel = jnp.logaddexp(0, 2 * (row[0] @ x - positive @ x)) ** 2
        return {"positive": kernel * (row[1] > 0), "all": kernel}

    def value(x):
        kernel = np.logaddexp(0, 2 * (A @ x - (positive @ x)[:, None])) ** 2
        return 0.05 * x @ x - np.mean((kernel * (Y > 0)).mean(1) / kernel.mean(1))

    return by_jax(
        inner, lambda x, u, row: 0.05 * x @ x - jnp.mean(u["positive"] / u["all"])
    ), value


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
def test_minima_of_robust_losses(temperature):
    at_the_minimum(*robust(temperature))


@pytest.mark.slow
@pytest.mark.parametrize("make", [semideviation, group_dro, average_precision])
def test_minima_of_objectives_by_jax(make):
    at_the_minimum(*make(pytest.importorskip("jax.numpy", reason="needs JAX")))


def at_the_minimum(problem, value):
    x0 = problem.initial_point(None)
    assert np.isclose(problem.objective(x0), value(x0), rtol=1e-12)
    best = scipy_minimize(value, x0, method="BFGS", options={"gtol": 1e-7})
    result = minimize(
        problem, "corrected-sample", sample_size=600, tol=1e-6, random_state=0
    )
    assert result.success and result.n_iter <= 12
    assert result.fun - best.fun <= 1e-7 * (value(x0) - best.fun)
    assert np.allclose(result.x, best.x, atol=1e-3)


RETURNS = make_gaussian_returns(4000, 4, mean=0.1, random_state=0)


def test_few_rounds_and_their_counts():
    problem = EntropicPortfolioProblem(RETURNS)
    result = minimize(problem, "corrected-sample", tol=1e-6, random_state=0)
    a_pass, a_sample = 2 * 4000 + problem.n_outer, 2 * 1000 + problem.n_outer
    assert result.success and result.n_iter <= 6
    assert result.ifo[1:].tolist() == [
        a_pass + a_sample + a_pass * t for t in range(1, result.n_iter + 1)
    ]
    on_sample = result.n_evaluations["jacobian"] - 4000 * (result.n_iter + 1)
    assert on_sample > 0 and on_sample % 1000 == 0


@pytest.mark.parametrize(
    ("penalty", "solver"),
    [(L1(0.02), "lbfgs"), (Box(0.0, 0.1), "lbfgs"), (Simplex(), "storm-c")],
)
def test_penalties(penalty, solver):
    problem = EntropicPortfolioProblem(RETURNS, penalty=penalty)
    expected = minimize(problem, "storm-c", tol=1e-9, random_state=0)
    result = minimize(problem, CorrectedSample(solver=solver, tol=1e-7), random_state=0)
    assert result.success and np.allclose(result.x, expected.x, atol=1e-6)


def test_a_small_sample_is_doubled_and_a_run_never_ends_above_its_start():
    problem = EntropicPortfolioProblem(RETURNS, risk_aversion=30.0)
    result = minimize(
        problem, "corrected-sample", sample_size=2, tol=1e-6, random_state=0
    )
    assert result.state.state.batch_size[0] > 2
    assert result.success and (np.diff(result.loss_curve) <= 0).all()


def test_a_tol_below_rounding_ends_as_converged():
    problem = EntropicPortfolioProblem(RETURNS)
    result = minimize(problem, "corrected-sample", tol=1e-12, random_state=0)
    expected = minimize(problem, "lbfgs", tol=1e-12)
    assert result.success and np.isclose(result.fun, expected.fun, rtol=1e-12)
    assert np.allclose(result.x, expected.x, atol=1e-6)


class Distances(CompositionalProblem):
    """The mean distance to points, which has kinks, as a function of the mean inner
    value x."""

    n_variables = 2

    def __init__(self, points):
        self.points, self.n_inner, self.n_outer = points, 1, len(points)

    def inner_batch(self, draws, weights=None):
        return None

    def outer_batch(self, draws, weights=None):
        return self.points if draws is None else self.points[draws]

    def inner(self, x, batch):
        return x.copy()

    def jacobian(self, x, batch):
        return np.eye(2)

    def outer_gradient(self, x, u, batch):
        return None, np.sign(u - batch).mean(0)

    def outer(self, x, u):
        return self.outer_mean(x, u, self.points)

    def outer_mean(self, x, u, batch):
        return float(np.abs(u - batch).sum(1).mean())


def test_an_objective_with_kinks_ends_or_warns_and_is_not_worse():
    points = np.random.default_rng(0).normal(size=(2001, 2))
    problem = Distances(points)
    with pytest.warns(ConvergenceWarning):
        result = minimize(
            problem, "corrected-sample", sample_size=200, tol=1e-9, random_state=0
        )
    medians = problem.objective(np.median(points, axis=0))
    assert (
        result.fun <= problem.objective(np.zeros(2))
        and result.fun - medians < 1e-3
        and not result.success
    )


def test_a_problem_without_values_on_a_sample_uses_all_of_f():
    problem = composition(*regression(300), "jacobian")
    result = minimize(
        problem, "corrected-sample", sample_size=100, tol=1e-6, random_state=0
    )
    expected = minimize(problem, "lbfgs", tol=1e-8)
    assert result.success and np.isclose(result.fun, expected.fun, rtol=1e-10)
    assert result.state.state.batch_size == (100, 300)


def test_what_is_refused():
    with pytest.raises(
        ValueError, match=r"'corrected-sample' .* CorrectedSample\(solver='storm-c'\)"
    ):
        minimize(
            EntropicPortfolioProblem(RETURNS, penalty=Simplex()), "corrected-sample"
        )
    with pytest.raises(ValueError, match="sample_size must be"):
        minimize(Robust(1.0), "corrected-sample", sample_size=0)
