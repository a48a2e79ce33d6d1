"""Formulas that are defined at the mean of g, and not at each of its components."""

import math

import numpy as np
import pytest
from helpers import few_of

from sk_stormc import minimize
from sk_stormc.problems import FiniteSumComposition, check_problem


def sharpe(of, mean=0.1, scale=1.0, n=400, seed=0, **changes):
    """-u_1 / sqrt(u_2 - u_1^2), u the first two moments of the returns: of a single one the root is that of 0."""
    R = mean + scale * np.random.default_rng(seed).normal(size=(n, 4))

    def inner(x, j):
        y = R[j] @ x
        return np.array([y.mean(), (y * y).mean()])

    def inner_jacobian(x, j):
        return np.stack([R[j].mean(0), 2 * (R[j] @ x) @ R[j] / len(j)])

    def outer_gradient(x, u, i):
        s = of.sqrt(u[1] - u[0] ** 2)
        return np.array([-1 / s - u[0] ** 2 / s**3, u[0] / (2 * s**3)])

    def outer(x, u):
        return -u[0] / of.sqrt(u[1] - u[0] ** 2)

    functions = {"inner": inner, "inner_jacobian": inner_jacobian, "outer_gradient": outer_gradient, "outer": outer}
    return FiniteSumComposition(**functions | {"n_inner": n, "n_outer": 1, "x0": np.full(4, 0.25)} | changes)


@pytest.mark.parametrize("mean, scale", [(0.1, 1.0), (5e-4, 0.01), (3.0, 1.0), (1.0, 0.01)])
@pytest.mark.parametrize("of", few_of([math, np], 1), ids=["math", "numpy"])
def test_a_ratio_of_moments_passes_its_check(of, mean, scale):
    """Far from the mean the root is that of a negative number, so the check must not leave the domain either."""
    check_problem(sharpe(of, mean, scale), random_state=1)


def test_it_is_minimised():
    problem = sharpe(math, n=400)
    R = 0.1 + np.random.default_rng(0).normal(size=(400, 4))
    best = math.sqrt(R.mean(0) @ np.linalg.solve(np.cov(R.T, bias=True), R.mean(0)))
    assert minimize(problem, "lbfgs", tol=1e-7).fun == pytest.approx(-best, rel=1e-7)


@pytest.mark.parametrize("name", ["outer", "outer_gradient"])
def test_mistakes_are_still_found(name):
    def wrong(x, u, *i):
        s = np.sqrt(u[1] - u[0] ** 2)
        value = np.array([-1 / s - u[0] ** 2 / s**3, u[0] / (2 * s**3)])
        return 1.01 * value if i else -1.01 * u[0] / s

    with pytest.raises(ValueError, match="central differences"):
        check_problem(sharpe(np, 3.0, 1.0, **{name: wrong}))
    summed = {"outer_gradient": lambda x, u, i: len(i) * wrong(x, u, i)}
    with pytest.raises(ValueError, match="outer_gradient must return the mean"):
        sharpe(np, **summed)


def test_an_error_of_f_says_where_it_was_called():
    with pytest.raises(ZeroDivisionError) as error:
        sharpe(math, x0=np.zeros(4))
    assert "u the mean of inner over all components, array([0., 0.])" in error.value.__notes__[0]
    assert "x0" in error.value.__notes__[0]
