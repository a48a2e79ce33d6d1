"""Problems that are the log of a mean of exponentials: exact for exponents of any
size."""

import numpy as np
import pytest

from sk_stormc.core.unit import InUnit
from sk_stormc.problems import (
    LogMeanExpProblem,
    PortfolioProblem,
    check_problem,
)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

DTYPES = (np.float64, np.float32)


class RobustRegression(LogMeanExpProblem):
    """tau log sum_j w_j exp((<a_j, x> - b_j)^2 / tau + more)."""

    def __init__(self, A, b, tau, weights=None, more=0.0):
        self.A, self.b, self.scale, self.weights, self.more = A, b, tau, weights, more
        self.n_inner, self.n_variables = A.shape

    def initial_point(self, rng):
        return np.zeros(self.n_variables, self.A.dtype)

    def gather(self, draws):
        return (self.A, self.b) if draws is None else (self.A[draws], self.b[draws])

    def exponents(self, x, rows):
        A, b = rows
        return (A @ x - b) ** 2 / self.scale + self.more

    def exponent_gradient(self, x, rows, p):
        A, b = rows
        return 2 / self.scale * (p * (A @ x - b)) @ A


def regression(tau=2.0, dtype=float, weights=None, n=60, more=0.0):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(n, 3))
    b = A @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=n)
    return RobustRegression(A.astype(dtype), b.astype(dtype), tau, weights, more)


def portfolio(size, unit=1.0, dtype=float, weighted=False, n=200, **kwargs):
    """Entropic risk with exponents of about this size at x = (1, 1, 1, 1) / 4, whatever
    the unit of the returns."""
    rng = np.random.default_rng(1)
    R = unit * (rng.standard_t(4, size=(n, 4)) + 0.3)
    weights = rng.integers(1, 5, size=n) if weighted else None
    return PortfolioProblem(
        R.astype(dtype),
        size / unit,
        risk_measure="entropic",
        sample_weight=weights,
        **kwargs,
    )


def exact(problem, x):
    """Phi, its gradient and the exponents of a portfolio, in long double."""
    R, weight = problem.returns.astype(np.longdouble), problem.weights
    weight = (
        np.full(len(R), 1 / np.longdouble(len(R)))
        if weight is None
        else weight.astype(np.longdouble)
    )
    e = -np.longdouble(problem.risk_aversion) * (R @ x.astype(np.longdouble))
    p = weight * np.exp(e - e.max())
    return (e.max() + np.log(p.sum())) / problem.risk_aversion, -(p @ R) / p.sum(), e


def evaluated(problem, x):
    """f(g(x)) and F over all components, as the engine evaluates them."""
    everything = problem.inner_batch(None)
    u, J = problem.inner(x, everything), problem.jacobian(x, everything)
    assert u.dtype == J.dtype == x.dtype and u.shape == (1,) and J.shape == (1, x.size)
    return problem.outer(x, u), problem.compositional_gradient(
        x, u, J, problem.outer_batch(None)
    )


def log_u(problem, x, batch=None):
    """log u over all components, or on a batch."""
    return problem.log_of(
        problem.inner(x, problem.inner_batch(None) if batch is None else batch)
    )


# exactness


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", [1e-6, 1e4])
@pytest.mark.parametrize("size", [0.1, 1e5])
def test_exact_to_the_rounding_of_the_exponents(size, unit, dtype, weighted):
    problem, eps = portfolio(size, unit, dtype, weighted), np.finfo(dtype).eps
    for x in (np.full(4, 0.25, dtype), np.array([0.7, 0.1, -0.3, 0.5], dtype)):
        Phi, gradient, e = exact(problem, x)
        # what is summed in e_j
        terms = problem.risk_aversion * float(
            (np.abs(problem.returns) @ np.abs(x)).max()
        )
        rounding = 8 * eps * terms
        assert abs(problem.objective(x) - Phi) <= rounding / problem.risk_aversion
        # weights of relative errors up to 2 `rounding`, and the sums' own rounding
        bound = (2 * rounding + 100 * eps) * np.abs(problem.returns).max()
        assert np.abs(problem.gradient(x) - gradient).max() <= bound
        value, F = evaluated(problem, x)
        assert abs(value - Phi) <= (rounding + 10 * eps) / problem.risk_aversion
        assert np.abs(F - gradient).max() <= bound
    assert np.abs(e).max() >= size


@pytest.mark.parametrize("dtype, reach", [(np.float64, 250), (np.float32, 30)])
@pytest.mark.parametrize("size", [0.1, 1e3, 1e5])
def test_phi_and_its_gradient_do_not_depend_on_the_unit_of_u(size, dtype, reach):
    problem, x = portfolio(size, dtype=dtype), np.full(4, 0.25, dtype)
    everything = problem.inner_batch(None)
    u, J = problem.inner(x, everything), problem.jacobian(x, everything)
    Phi, F = evaluated(problem, x)
    for way in range(-reach, reach + 1, reach // 5):
        other, J_other = (
            InUnit(np.ldexp(value.array, -way), value.power + way) for value in (u, J)
        )
        assert problem.outer(x, other) == pytest.approx(Phi, rel=4e-16)
        np.testing.assert_array_equal(
            problem.compositional_gradient(x, other, J_other, None), F
        )


@pytest.mark.parametrize("more", [0.0, -3000.0, 3000.0])
def test_u_and_its_jacobian_are_what_they_say(more):
    problem, x = regression(more=more), np.array([0.3, -0.2, 0.1])
    draws = np.array([3, 5, 5])
    batch, rows = problem.inner_batch(draws), problem.gather(draws)
    e = problem.exponents(x, rows) - more  # of moderate size
    assert log_u(problem, x, batch) == pytest.approx(
        np.log(np.exp(e).mean()) + more, abs=1e-12
    )
    J = problem.jacobian(x, batch) / problem.inner(x, batch)
    np.testing.assert_allclose(
        J.plain()[0],
        problem.exponent_gradient(x, rows, np.exp(e)) / np.exp(e).sum(),
        rtol=1e-11,
    )
    if not more:
        assert problem.inner(x, batch).plain()[0] == pytest.approx(
            np.exp(e).mean(), rel=1e-14
        )


def test_a_row_without_weight_does_not_set_the_unit():
    """Beside its exponent all that has weight would vanish."""
    problem = regression(tau=1e-3)
    x = np.array([3.0, 3.0, 3.0])
    e = problem.exponents(x, problem.gather(None))
    problem.weights = np.where(e > np.median(e), 0.0, 1.0) / (e <= np.median(e)).sum()
    assert e.max() - np.median(e) > 1000
    assert log_u(problem, x) == pytest.approx(problem.log_mean(x), rel=1e-14)


# the contract


@pytest.mark.parametrize("dtype, more", [(float, -2000.0), (np.float32, 0.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_check_problem_in_any_unit(weighted, dtype, more):
    counts = (
        np.random.default_rng(0).integers(1, 4, size=60)
        if weighted
        else np.ones(60, int)
    )
    problem = regression(
        dtype=dtype, weights=counts / counts.sum() if weighted else None, more=more
    )
    repeated = RobustRegression(
        np.repeat(problem.A, counts, 0), np.repeat(problem.b, counts), 2.0, more=more
    )
    check_problem(problem, repeated=repeated, n_draws=200)


class LooksAtTheArray(RobustRegression):
    """A problem that forgets the unit of u."""

    def outer(self, x, u):
        return self.scale * float(np.log(u.array[0]))

    def objective(self, x):
        return self.outer(x, self.inner(x, self.inner_batch(None)))


def test_check_problem_finds_a_unit_that_is_forgotten():
    problem = regression()
    forgetful = LooksAtTheArray(problem.A, problem.b, 2.0)
    with pytest.raises(
        ValueError, match="LooksAtTheArray.outer: its value with u in two units"
    ):
        check_problem(forgetful, np.array([0.3, -0.2, 0.1]), n_draws=200)
