"""The methods of the literature: their algorithm boxes, and special cases."""

import numpy as np
import pytest
from helpers import SEED, draws_of

from sk_stormc import (
    ASCPG,
    CIVR,
    SCVR,
    VRSCPG,
    SARAHCompositional,
    minimize,
)
from sk_stormc.penalties import Simplex
from sk_stormc.problems import CompositionalProblem, check_problem
from sk_stormc.schedules import power
from sk_stormc.solvers import get_solver

D = 4
KINDS = ("inner", "jacobian", "outer")


class Curved(CompositionalProblem):
    """g_j(x) = a_j * h(x) + e_j, h(x) = x + .1 sin x, and f_i(u) = 1/2 <u - b_i, w_i *
    (u - b_i)>, coordinate by coordinate; the means are a = w = 1, e = 0, so that x*
    solves h(x*) = mean w_i b_i. Strongly convex around it.
    """

    def __init__(self, n=600, m=500, seed=0):
        rng = np.random.default_rng(seed)
        self.n_inner, self.n_outer, self.n_variables = m, n, D
        self.a, self.w = (1 + 0.3 * centred(rng.uniform(-1, 1, (k, D))) for k in (m, n))
        self.e, self.b = centred(rng.normal(size=(m, D))), rng.normal(size=(n, D))
        self.x_star = np.linspace(-1, 1, D)
        self.b += h(self.x_star) - (self.w * self.b).mean(0)

    def inner_batch(self, draws):
        return slice(None) if draws is None else draws

    outer_batch = inner_batch

    def inner(self, x, j):
        return self.a[j].mean(0) * h(x) + self.e[j].mean(0)

    def jacobian(self, x, j):
        return np.diag(self.a[j].mean(0) * (1 + 0.1 * np.cos(x)))

    def outer_gradient(self, x, u, i):
        return None, (self.w[i] * (u - self.b[i])).mean(0)

    def outer(self, x, u):
        return 0.5 * float((self.w * (u - self.b) ** 2).mean(0).sum())


def centred(A):
    return A - A.mean(0)


def h(x):
    return x + 0.1 * np.sin(x)


@pytest.fixture(scope="module")
def curved():
    problem = Curved()
    check_problem(problem)
    np.testing.assert_allclose(problem.gradient(problem.x_star), 0, atol=1e-12)
    return problem


# the algorithm boxes, transcribed


def test_accelerated_scgd():
    problem, penalty, B, T = Curved(), Simplex(), (3, 4, 5), 12
    problem.penalty = penalty
    alpha, beta = power(-5 / 7, 0.3), power(-4 / 7)
    x0 = np.full(D, 0.25)
    settings = {
        "learning_rate": alpha,
        "beta": beta,
        "batch_size": B,
        "max_iter": T,
        "tol": 0,
    }
    result = minimize(problem, "acc-scgd", x0, random_state=SEED, **settings)
    oracle = draws_of(problem)
    x, y = x0, problem.inner(x0, oracle.draw("inner", 3).data)
    for k in range(T):
        G, i = (
            problem.jacobian(x, oracle.draw("jacobian", 4).data),
            oracle.draw("outer", 5).data,
        )
        x_new = penalty.project(x - alpha(k) * G.T @ problem.outer_gradient(x, y, i)[1])
        b = beta(k + 1)
        z = (1 - 1 / b) * x + (1 / b) * x_new
        y = (1 - b) * y + b * problem.inner(z, oracle.draw("inner", 3).data)
        x = x_new
    np.testing.assert_allclose(result.x, x, rtol=1e-12, atol=1e-15)
    assert result.ifo[-1] == T * 12
    assert result.n_evaluations == {"inner": 3 * T, "jacobian": 4 * T, "outer": 5 * T}


def test_accelerated_scgd_is_asc_pg_with_other_exponents(curved):
    """Its box is transcribed above; these are the schedules that it has by itself."""
    assert type(get_solver("acc-scgd")) is ASCPG
    names = ("acc-scgd", "asc-pg", "scgd")
    states = [
        minimize(curved, name, max_iter=1, random_state=0).state.state for name in names
    ]
    rates, betas = zip(*((s.rule.learning_rate, s.beta) for s in states), strict=True)
    assert [r.exponent for r in rates] == [-5 / 7, -5 / 9, -3 / 4]
    assert [b.exponent for b in betas] == [-4 / 7, -4 / 9, -1 / 2]
    assert len({r.scale for r in rates}) == 1  # one probe for all
    assert 0.4 < rates[0].scale < 1  # 0.7 / L, L about 1


def test_scvr(curved):
    eta, K, T, B = 0.3, 4, 13, (3, 4, 5)
    result = minimize(
        curved,
        SCVR(
            learning_rate=eta,
            batch_size=B,
            checkpoint_batch_size=None,
            epoch_length=K,
            max_iter=T,
            tol=0,
        ),
        np.zeros(D),
        random_state=SEED,
    )
    oracle, grad_f = draws_of(curved), lambda u, i: curved.outer_gradient(None, u, i)[1]
    everything = slice(None)
    x = np.zeros(D)
    for t in range(T):
        if t % (K + 1) == 0:  # the checkpoint, and the step that follows it
            x_ref, G_ref, full = x, curved.inner(x, everything), curved.gradient(x)
            F = full
        else:
            A, j, i = (
                oracle.draw(kind, b).data for kind, b in zip(KINDS, B, strict=True)
            )
            G_hat = G_ref - (curved.inner(x_ref, A) - curved.inner(x, A))
            F = (
                curved.jacobian(x, j).T @ grad_f(G_hat, i)
                - curved.jacobian(x_ref, j).T @ grad_f(G_ref, i)
                + full
            )
        x = x - eta * F
    np.testing.assert_allclose(result.x, x, rtol=1e-12)
    inner_steps = T - T // (K + 1)
    # the last estimate serves no step
    assert result.ifo[-1] == (1 + T // (K + 1)) * 1600 + inner_steps * 12
    checkpoints = 1 + T // (K + 1)
    sizes = zip(KINDS, (500, 500, 600), B, strict=True)
    assert result.n_evaluations == {
        k: checkpoints * n + 2 * inner_steps * b for k, n, b in sizes
    }


@pytest.mark.parametrize("eps", [None, 0.05])
@pytest.mark.parametrize("S", [None, (50, 60, 70)])
def test_civr(curved, eps, S):
    eta, K, T, B = 0.3, 4, 13, (3, 4, 5)
    result = minimize(
        curved,
        CIVR(
            learning_rate=eta,
            precision=eps,
            batch_size=B,
            checkpoint_batch_size=S,
            epoch_length=K,
            max_iter=T,
            tol=0,
        ),
        np.zeros(D),
        random_state=SEED,
    )
    oracle, grad_f = draws_of(curved), lambda u, i: curved.outer_gradient(None, u, i)[1]
    x = x_old = np.zeros(D)
    for t in range(T):
        if t % (K + 1) == 0:
            j, k, i = (
                oracle.draw(kind, n).data
                for kind, n in zip(KINDS, S or (None,) * 3, strict=True)
            )
            y, z = curved.inner(x, j), curved.jacobian(x, k)
            v = grad_f(y, i)
        else:
            j, k, i = (
                oracle.draw(kind, b).data for kind, b in zip(KINDS, B, strict=True)
            )
            y_new = y + curved.inner(x, j) - curved.inner(x_old, j)
            z = z + curved.jacobian(x, k) - curved.jacobian(x_old, k)
            v = v + grad_f(y_new, i) - grad_f(y, i)
            y = y_new
        F = z.T @ v
        x_tilde = x - eta * F
        gamma = 1 if eps is None else min(eta * eps / np.linalg.norm(x_tilde - x), 0.5)
        x_old, x = x, x + gamma * (x_tilde - x)
    np.testing.assert_allclose(result.x, x, rtol=1e-12)
    checkpoints = 1 + T // (K + 1)
    inner_steps = T + 1 - checkpoints
    assert result.ifo[-1] == checkpoints * sum(S or (500, 500, 600)) + inner_steps * 12
    sizes = zip(KINDS, S or (500, 500, 600), B, strict=True)
    assert result.n_evaluations == {
        k: checkpoints * n + 2 * inner_steps * b for k, n, b in sizes
    }


def test_automatic_precision_of_civr(curved):
    x0 = np.full(D, 3.0)
    state = minimize(curved, "civr", x0, max_iter=1, random_state=0).state.state
    assert not state.rule.limit.by_block
    assert state.rule.limit.precision == pytest.approx(
        np.linalg.norm(curved.gradient(x0)), rel=1e-12
    )
    settings = {"learning_rate": 0.3, "max_iter": 8, "epoch_length": 4, "tol": 0}
    later = minimize(curved, "civr", x0, random_state=0, **settings).state.state
    # the checkpoint is three steps behind
    assert later.t == 8 and later.since_checkpoint == 3
    assert later.rule.limit.precision == pytest.approx(
        np.linalg.norm(curved.gradient(later.checkpoint.x)), rel=1e-12
    )
    plain = minimize(
        curved, "civr", x0, precision=None, max_iter=1, random_state=0
    ).state.state
    assert plain.rule.limit is None
    assert state.rule.learning_rate == 2 * plain.rule.learning_rate  # gamma is 1/2
    sarah = minimize(curved, "sarah-c", x0, max_iter=1, random_state=0).state.state
    assert plain.rule.learning_rate == sarah.rule.learning_rate


# where methods coincide, and where they do not


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # f is not sampled
        (
            CIVR(learning_rate=0.3, precision=None, batch_size=(4, 4, None)),
            SARAHCompositional(learning_rate=0.3, batch_size=(4, 4, None)),
            True,
        ),
        (
            CIVR(learning_rate=0.3, precision=None, batch_size=4),
            SARAHCompositional(learning_rate=0.3, batch_size=4),
            False,
        ),
        # the normalised step
        (
            CIVR(learning_rate=0.3, precision=0.02, batch_size=(4, 4, None)),
            SARAHCompositional(learning_rate=0.3, batch_size=(4, 4, None)),
            False,
        ),
        # only g is sampled
        (
            SCVR(learning_rate=0.3, batch_size=(4, None, None)),
            VRSCPG(learning_rate=0.3, batch_size=(4, None, None)),
            True,
        ),
        (
            SCVR(learning_rate=0.3, batch_size=4),
            VRSCPG(learning_rate=0.3, batch_size=4),
            False,
        ),
    ],
)
def test_pairs_on_a_curved_problem(curved, one, other, same):
    points = [
        minimize(curved, s, np.zeros(D), random_state=0, max_iter=30, tol=0).x
        for s in (one, other)
    ]
    assert np.allclose(*points, rtol=1e-10) is same
