"""Estimates, steps, batch sizes and curvature estimates, against formulas written
out."""

import numpy as np
import pytest
from helpers import composition, regression

from sk_stormc.engine import (
    ALL,
    Estimate,
    MethodState,
    Oracle,
    StepRule,
    advance,
    start,
)
from sk_stormc.engine.curvature import curvature
from sk_stormc.engine.steps import Limit, proximal_point, step_direction
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.preconditioners import as_preconditioner
from sk_stormc.problems import CompositionalProblem, PortfolioProblem
from sk_stormc.solvers import SCGD

N, D, LAM = 300, 5, 1.5


def make_returns(seed=0, unit=1.0):
    """One factor on top of noise: the covariance has one large eigenvalue."""
    rng = np.random.default_rng(seed)
    factor = 5 * rng.normal(size=(N, 1)) * rng.uniform(0.5, 1.5, D)
    return unit * (0.3 + factor + rng.normal(size=(N, D)))


def set_preconditioner(problem, kind):
    """A preconditioner that is None, a vector or a matrix, and the matrix that it stands
    for."""
    A = np.random.default_rng(1).normal(size=(D, D))
    vector, matrix = np.array([0.5, 1.0, 2.0, 1.5, 0.7]), np.eye(D) + 0.05 * A @ A.T
    M = {None: np.eye(D), "vector": np.diag(vector), "matrix": matrix}[kind]
    problem.preconditioner = {None: None, "vector": np.diag(M), "matrix": M}[kind]
    return M


def hessian(returns):
    return 2 * LAM * np.cov(returns.T, bias=True)


class Curved(CompositionalProblem):
    """g_j(x) = (exp(<r_j, x>), <r_j, x>^2, <r_j, x>) and f_i(x, u) = <r_i, x> u_1 +
    u_2^2 + u_1 sin(u_3)."""

    def __init__(self, returns, kind="sampled"):
        self.R, self.jacobian_kind = returns, kind
        self.n_inner, self.n_variables = returns.shape
        self.n_outer = self.n_inner

    def inner_batch(self, draws):
        return self.R if draws is None else self.R[draws]

    outer_batch = inner_batch

    def inner(self, x, batch):
        y = batch @ x
        return np.array([np.exp(y).mean(), (y**2).mean(), y.mean()])

    def jacobian(self, x, batch):
        y = batch @ x
        return np.array([np.exp(y), 2 * y, np.ones_like(y)]) @ batch / len(batch)

    def outer_gradient(self, x, u, batch):
        m = batch.mean(0)
        return u[0] * m, np.array([m @ x + np.sin(u[2]), 2 * u[1], u[0] * np.cos(u[2])])

    def outer(self, x, u):
        return float(self.R.mean(0) @ x * u[0] + u[1] ** 2 + u[0] * np.sin(u[2]))


def curved(kind="sampled"):
    return Curved(0.2 * make_returns(), kind)


def points(n, scale=0.1, seed=5):
    return scale * np.random.default_rng(seed).normal(size=(n, D))


def exact(problem, x, eta=0.1):
    """The Estimate at x from all components, J included."""
    return start(Oracle(problem, 0), x, ALL)


def preconditioner_of(problem):
    return as_preconditioner(problem.preconditioner, problem.n_variables)


def way_along(problem, x, F, eta):
    """The `Direction` of a step in the problem's preconditioner."""
    return step_direction(problem, preconditioner_of(problem), x, F, eta)


def target(problem, x, F, eta):
    return proximal_point(problem, preconditioner_of(problem), x, F, eta)


def limit(normalization, precision):
    return (
        None
        if normalization is None
        else Limit(precision, by_block=normalization == "block")
    )


def move(problem, x, F, eta, normalization=None, precision=None):
    """The next point and the residual, by `CompositionalSolver.move`."""
    s = MethodState(x, rule=StepRule(eta, limit(normalization, precision)))
    return SCGD().move(Oracle(problem, 0), s, F), s.residual


# start and advance


@pytest.mark.parametrize("kind", ["sampled", "operator"])
def test_full_batches_are_exact(kind):
    problem = curved(kind)
    x, other = points(2)
    everything = problem.inner_batch(None)
    old = Estimate(other, np.full(3, 9.0), np.full((3, D), 9.0), np.full(D, 9.0))
    for size in (ALL, (N, N, N), (N, None, N)):
        oracle = Oracle(problem, 0)
        for new in (
            start(oracle, x, size),
            advance(oracle, old, x, (0.3, 0.3, 0.3), size),
        ):
            np.testing.assert_array_equal(new.u, problem.inner(x, everything))
            np.testing.assert_array_equal(new.J, problem.jacobian(x, everything))
            np.testing.assert_array_equal(new.F, problem.gradient(x))
            assert new.x is x
        assert oracle.ifo == 2 * oracle.cost(size) == 6 * N


def literal(problem, old, x, momentum, g_rows, dg_rows, f_rows):
    """Steps 8 to 10 as the algorithm box has them, with the batches' rows."""
    a_g, a_dg, a_phi = momentum
    x_t, g_t, G_t, F_t = old.x, old.u, old.J, old.F

    def g(x, rows):
        return np.mean([problem.inner(x, r[None]) for r in rows], axis=0)

    def dg(x, rows):
        return np.mean([problem.jacobian(x, r[None]) for r in rows], axis=0)

    def gradient(x, u, G, rows):
        pairs = [problem.outer_gradient(x, u, r[None]) for r in rows]
        return np.mean([f_x + G.T @ f_u for f_x, f_u in pairs], axis=0)

    g_1 = (
        (1 - a_g) * g_t
        + a_g * g(x, g_rows)
        + (1 - a_g) * (g(x, g_rows) - g(x_t, g_rows))
    )
    G_1 = (
        (1 - a_dg) * G_t
        + a_dg * dg(x, dg_rows)
        + (1 - a_dg) * (dg(x, dg_rows) - dg(x_t, dg_rows))
    )
    new, was = gradient(x, g_1, G_1, f_rows), gradient(x_t, g_t, G_t, f_rows)
    F_1 = (1 - a_phi) * F_t + a_phi * new + (1 - a_phi) * (new - was)
    return g_1, G_1, F_1


@pytest.mark.parametrize("momentum", [(0.0,) * 3, (1.0,) * 3, (0.1, 0.7, 0.4)])
def test_advance_is_steps_8_to_10(momentum):
    problem, rng, size = curved(), np.random.default_rng(1), (4, 7, 2)
    oracle, twin = Oracle(problem, 3), Oracle(problem, 3)  # the same batches
    x, *path = points(4)
    # not exact
    old = Estimate(x, rng.normal(size=3), rng.normal(size=(3, D)), rng.normal(size=D))
    for x in path:
        rows = [
            twin.draw(kind, s).data
            for kind, s in zip(("inner", "jacobian", "outer"), size, strict=True)
        ]
        u, J, F = literal(problem, old, x, momentum, *rows)
        kept = [array.copy() for array in (old.x, old.u, old.J, old.F)]
        new = advance(oracle, old, x, momentum, size)
        for found, expected in ((new.u, u), (new.J, J), (new.F, F)):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        for array, before in zip((old.x, old.u, old.J, old.F), kept, strict=True):
            np.testing.assert_array_equal(array, before)  # no array is changed in place
        old = new
    assert oracle.ifo == 3 * sum(size) == twin.ifo
    kinds = zip(("inner", "jacobian", "outer"), size, momentum, strict=True)
    # with a = 1 the old point is not evaluated
    assert oracle.n_evaluations == {
        kind: (3 if a == 1 else 6) * s for kind, s, a in kinds
    }


def test_operator_jacobians_of_one_batch_correct_f():
    """Step 10 with Jacobians of two batches would accumulate their differences."""
    problem, (x, other), size = curved("operator"), points(2), (6, 6, 8)
    oracle, twin = Oracle(problem, 3), Oracle(problem, 3)
    old = exact(problem, other)
    old.J = None  # not used
    new = advance(oracle, old, x, (0.3, 0.3, 0.4), size)
    inner, outer = twin.draw("inner", 6).data, twin.draw("outer", 8).data
    now = problem.compositional_gradient(x, new.u, problem.jacobian(x, inner), outer)
    was = problem.compositional_gradient(
        other, old.u, problem.jacobian(other, inner), outer
    )
    np.testing.assert_allclose(new.F, now + 0.6 * (old.F - was), rtol=1e-12)
    assert oracle.n_evaluations == {"inner": 12, "jacobian": 12, "outer": 16}
    # F does not change if x does not
    standing = exact(problem, x)
    for _ in range(50):
        standing = advance(oracle, standing, x, (0, 0, 0), size)
    np.testing.assert_allclose(standing.F, problem.gradient(x), rtol=1e-12)


# move


@pytest.mark.parametrize(
    "penalty", [L1(0.4), Box(-0.2, 0.3), Box(-1, 1, budget=1.0, alpha=0.2), Simplex()]
)
@pytest.mark.parametrize("preconditioner", [None, np.array([0.3, 1.0, 2.0, 0.5, 4.0])])
def test_residual_with_a_penalty(preconditioner, penalty):
    """x~ solves its own problem in the preconditioner's norm, and the length is that of x - x~
    in it."""
    F, x = np.random.default_rng(0).normal(size=(2, D))
    x, eta = penalty.project(x), 0.7
    weight = np.ones(D) if preconditioner is None else preconditioner
    problem = PortfolioProblem(
        make_returns(), penalty=penalty, preconditioner=preconditioner
    )
    x_tilde = target(problem, x, F, eta)

    def model(z):
        return (
            F @ (z - x) + ((z - x) ** 2 / weight).sum() / (2 * eta) + penalty.value(z)
        )

    for z in np.random.default_rng(1).normal(size=(200, D)):
        assert model(x_tilde) <= model(penalty.project(z)) + 1e-12
        assert model(x_tilde) <= model(penalty.project(x_tilde + 1e-3 * z)) + 1e-12
    way = way_along(problem, x, F, eta)
    np.testing.assert_allclose(way.q, (x - x_tilde) / eta)
    assert way.length == pytest.approx(
        np.sqrt(((x - x_tilde) ** 2 / weight).sum()) / eta
    )
    assert way.length**2 == pytest.approx(way.q @ way.p)
    np.testing.assert_array_equal(way.target, x_tilde)
    new, again = move(problem, x, F, eta)
    np.testing.assert_allclose(new, x_tilde, atol=1e-15)
    assert again == way.length


@pytest.mark.parametrize("precision", [1e-3, 0.5, 1e3])
@pytest.mark.parametrize("penalty", [None, L1(0.1)])
def test_shorten_is_step_6(penalty, precision):
    problem = PortfolioProblem(np.tile(make_returns(), 2)[:, :6], LAM, penalty=penalty)
    problem.n_blocks, eta = 3, 0.2
    x, F = np.random.default_rng(0).normal(size=(2, 6)) * [[1], [3]]
    x_tilde = target(problem, x, F, eta)
    for normalization, n_blocks in (("global", 1), ("block", 3)):
        new, _ = move(problem, x, F, eta, normalization, precision)
        for block in np.split(np.arange(6), n_blocks):
            step = x_tilde[block] - x[block]
            gamma = min(eta * precision / np.linalg.norm(step), 0.5)
            np.testing.assert_allclose(
                new[block] - x[block], gamma * step, rtol=1e-12, atol=1e-15
            )
            # Lemma A.4
            assert np.linalg.norm(new[block] - x[block]) <= eta * precision * (
                1 + 1e-12
            )
    np.testing.assert_allclose(move(problem, x, F, eta, None, precision)[0], x_tilde)


# curvature


@pytest.mark.parametrize("preconditioner", [None, "vector", "matrix"])
def test_curvature_at_full_batch_is_the_top_eigenvalue(preconditioner):
    returns = make_returns()
    problem = PortfolioProblem(returns, LAM)
    M = set_preconditioner(problem, preconditioner)
    top, second = np.sort(np.linalg.eigvals(M @ hessian(returns)).real)[[-1, -2]]
    assert second < 0.1 * top  # so that six power iterations are enough
    for seed in range(2):
        for x in (np.zeros(D), np.random.default_rng(seed).normal(size=D)):
            assert curvature(Oracle(problem, seed), x, ALL) == pytest.approx(
                top, rel=1e-6
            )


def test_curvature_at_the_optimum_is_no_rounding_error():
    returns = make_returns()
    top, mean = np.linalg.eigvalsh(hessian(returns))[-1], returns.mean(0)
    best = np.linalg.solve(hessian(returns), mean)
    for R, x in (
        (returns, best),
        (returns, 1.001 * best),
        (returns - mean, np.zeros(D)),
    ):
        problem = PortfolioProblem(R.astype(np.float32), LAM)
        assert curvature(
            Oracle(problem, 0), x.astype(np.float32), ALL
        ) == pytest.approx(top, rel=0.05)


@pytest.mark.parametrize("x", [np.zeros(3), np.array([1e-9, 0, 0]), np.full(3, 0.5)])
def test_curvature_that_varies_is_that_near_x(x):
    problem, h = composition(*regression(200)), 1e-5
    H = np.array(
        [
            (problem.gradient(x + h * e) - problem.gradient(x - h * e)) / (2 * h)
            for e in np.eye(3)
        ]
    )
    top = np.abs(np.linalg.eigvalsh((H + H.T) / 2)).max()
    # six power iterations fall short
    assert curvature(Oracle(problem, 0), x, ALL) == pytest.approx(top, rel=0.25)
