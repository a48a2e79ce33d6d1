"""Solvers: counts, algorithm boxes, convergence, records, states and parameters."""

import pickle

import numpy as np
import pytest
from helpers import SEED, draws_of, slow_but
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import (
    ASCPG,
    CIVR,
    SCGD,
    SCVR,
    VRSCPG,
    SARAHCompositional,
    STORMCompositional,
    minimize,
)
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import L1, Box
from sk_stormc.problems import PortfolioProblem
from sk_stormc.schedules import constant, decay_to, power
from sk_stormc.solvers import SOLVERS, get_solver

# with anchors or checkpoints on all data
EXACT = ("storm-c", "sarah-c", "civr", "vrsc-pg", "scvr")
STOCHASTIC = [name for name in SOLVERS if name not in ("lbfgs", "corrected-sample")]


@pytest.fixture(scope="module")
def returns():
    return make_gaussian_returns(1500, 6, mean=0.3, condition_number=5, random_state=0)


@pytest.fixture(scope="module")
def problem(returns):
    return PortfolioProblem(returns)


@pytest.fixture(scope="module")
def entropic(returns):
    return PortfolioProblem(returns, 0.5, risk_measure="entropic")


def minimum(R):
    x = np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0))
    return x, PortfolioProblem(R).objective(x)


# counting


def test_lemma_3_1(problem, seed=0):
    rng = np.random.default_rng(seed)
    S, B = (
        tuple(int(b) for b in rng.integers(1, problem.n_inner, 3)) for _ in range(2)
    )
    T = int(rng.integers(1, 30))
    result = minimize(
        problem,
        "storm-c-paper",
        batch_size=B,
        init_batch_size=S,
        max_iter=T,
        tol=0,
        random_state=seed,
    )
    assert result.n_iter == T
    assert result.ifo[0] == 0
    assert result.ifo[-1] == sum(S) + T * sum(B)
    # the recursions evaluate each batch at both points
    expected = {
        k: s + 2 * T * b
        for k, s, b in zip(("inner", "jacobian", "outer"), S, B, strict=True)
    }
    assert result.n_evaluations == expected


@pytest.mark.parametrize(
    ("solver", "ifo"),
    [
        # J exact: n once; u, J, F at x_0, then two differences a step
        (
            STORMCompositional(
                learning_rate=0.1, batch_size=(10, None, 20), anchor=None
            ),
            1500 + 30 + 7 * 30,
        ),
        (
            STORMCompositional(learning_rate=0.1, batch_size=(10, 10, 20), anchor=3),
            40 + 5 * 40 + 2 * 4500,
        ),
        (
            SARAHCompositional(learning_rate=0.1, batch_size=(5, 5, 1), epoch_length=3),
            4500 + 6 * 11 + 4500,
        ),
        (
            VRSCPG(learning_rate=0.1, batch_size=(5, 5, 1), epoch_length=3),
            4500 + 6 * 11 + 4500,
        ),
        (SCGD(learning_rate=0.1, beta=0.5, batch_size=(4, 5, 6)), 7 * 15),
        (
            SCGD(learning_rate=0.1, beta=0.5, batch_size=None),
            1500 + 7 * 3000,
        ),  # None: the constant Jacobian once
        (ASCPG(learning_rate=0.1, beta=0.5, batch_size=(4, 5, 6)), 7 * 15),
        (
            SCVR(learning_rate=0.1, batch_size=(5, 5, 1), epoch_length=3),
            4500 + 6 * 11 + 4500,
        ),
        # J exact: n once
        (
            SCVR(learning_rate=0.1, batch_size=(5, None, 1), epoch_length=3),
            4500 + 6 * 6 + 3000,
        ),
        (
            CIVR(
                learning_rate=0.1, precision=1.0, batch_size=(5, 5, 1), epoch_length=3
            ),
            4500 + 6 * 11 + 4500,
        ),
    ],
)
def test_charges(problem, solver, ifo):
    assert minimize(problem, solver, max_iter=7, tol=0, random_state=0).ifo[-1] == ifo


def test_the_curvature_estimate_is_charged(problem):
    # 16 batches of B_g + B_f = 32, then u and F on all data and the exact Jacobian,
    # which u follows
    assert (
        minimize(problem, "storm-c", max_iter=1, tol=0, random_state=0).ifo[-1]
        == 16 * 32 + 4500 + 16
    )
    # an Algorithm 1 with these batches draws g in each iteration
    assert minimize(problem, STORMCompositional(), batch_size=(16, None, 16),
    init_batch_size=None, max_iter=1, tol=0,
                    random_state=0).ifo[-1] == 16 * 32 + 4500 + 32  # fmt: skip


# the algorithm boxes, transcribed


def gradient(rows, x, u, G):
    d = rows @ x - u
    return ((2 * d - 1) @ rows - 2 * d.sum() * G) / len(rows)


def test_algorithm_1(problem):
    eta, eps, a_g, a_dg, a_phi, T = 0.1, 0.05, 0.1, 0.2, 0.3, 25
    S, B = (30, 40, 50), (7, 8, 9)
    result = minimize(
        problem,
        STORMCompositional(
            learning_rate=eta,
            precision=eps,
            momentum=(a_g, a_dg, a_phi),
            batch_size=B,
            init_batch_size=S,
            normalization="global",
            anchor=None,
            max_iter=T,
            tol=0,
        ),
        x0=np.ones(6),
        random_state=SEED,
    )
    oracle = draws_of(problem)

    def batches(sizes):
        return [
            oracle.draw(k, s).data
            for k, s in zip(("inner", "jacobian", "outer"), sizes, strict=True)
        ]

    x = np.ones(6)
    m_g, m_dg, (rows, _) = batches(S)
    g, G = m_g @ x, m_dg[0]
    F = gradient(rows, x, g, G)
    for _ in range(T):
        x_tilde = x - eta * F
        gamma = min(eta * eps / np.linalg.norm(x_tilde - x), 0.5)
        x_new = x + gamma * (x_tilde - x)
        m_g, m_dg, (rows, _) = batches(B)
        g_new = (
            (1 - a_g) * g + a_g * (m_g @ x_new) + (1 - a_g) * (m_g @ x_new - m_g @ x)
        )
        G_new = (1 - a_dg) * G + a_dg * m_dg[0] + (1 - a_dg) * (m_dg[0] - m_dg[0])
        new, old = gradient(rows, x_new, g_new, G_new), gradient(rows, x, g, G)
        F = (1 - a_phi) * F + a_phi * new + (1 - a_phi) * (new - old)
        x, g, G = x_new, g_new, G_new
    np.testing.assert_allclose(result.x, x, rtol=1e-12)


@pytest.mark.parametrize("name", ["sarah-c", "vrsc-pg"])
def test_checkpoint_methods(problem, name):
    eta, K, T = 0.02, 3, 10
    result = minimize(
        problem, name, np.ones(6), random_state=SEED, learning_rate=eta, batch_size=5,
        epoch_length=K,
        max_iter=T, tol=0
    )  # fmt: skip
    oracle = draws_of(problem)
    R = problem.returns
    x = np.ones(6)
    ref = now = (x, R.mean(0) @ x, R.mean(0), problem.gradient(x))
    for t in range(1, T + 1):
        x = now[0] - eta * now[3]
        if t % (K + 1) == 0:
            ref = now = (x, R.mean(0) @ x, R.mean(0), problem.gradient(x))
            continue
        x_old, u_old, J_old, F_old = ref if name == "vrsc-pg" else now
        m_g, m_dg, (rows, _) = (
            oracle.draw(k, 5).data for k in ("inner", "jacobian", "outer")
        )
        u = u_old + m_g[0] @ x - m_g[0] @ x_old
        J = J_old + m_dg[0] - m_dg[0]
        now = (
            x,
            u,
            J,
            F_old + gradient(rows, x, u, J) - gradient(rows, x_old, u_old, J_old),
        )
    np.testing.assert_allclose(result.x, x, rtol=1e-12)


@pytest.mark.parametrize("name", ["scgd", "asc-pg"])
def test_moving_averages(problem, name):
    alpha, beta, T = 0.02, 0.7, 10
    result = minimize(
        problem, name, np.ones(6), random_state=SEED, learning_rate=alpha, beta=beta,
        batch_size=5, max_iter=T,
        tol=0
    )  # fmt: skip
    oracle = draws_of(problem)
    x = x_old = np.ones(6)
    y = None
    for _ in range(T):
        m_g, m_dg, (rows, _) = (
            oracle.draw(k, 5).data for k in ("inner", "jacobian", "outer")
        )
        z = x if name == "scgd" else (1 - 1 / beta) * x_old + x / beta
        y = m_g[0] @ z if y is None else (1 - beta) * y + beta * (m_g[0] @ z)
        x_old, x = x, x - alpha * gradient(rows, x, y, m_dg[0])
    np.testing.assert_allclose(result.x, x, rtol=1e-12)


def test_storm_without_momentum_and_with_anchors_is_sarah(entropic):
    storm = STORMCompositional(
        learning_rate=0.05,
        momentum=0.0,
        batch_size=8,
        init_batch_size=None,
        anchor=4,
        max_iter=30,
        tol=0,
    )
    sarah = SARAHCompositional(
        learning_rate=0.05, batch_size=8, epoch_length=3, max_iter=30, tol=0
    )
    np.testing.assert_array_equal(
        *(minimize(entropic, s, random_state=0).x for s in (storm, sarah))
    )


# every method reaches the closed form


@pytest.mark.parametrize("name", [*EXACT, "lbfgs"])
def test_linear_convergence(problem, returns, name):
    x, best = minimum(returns)
    result = minimize(problem, name, tol=1e-8, random_state=0)
    assert result.stop_reason == "converged"
    np.testing.assert_allclose(result.x, x, rtol=1e-5)
    assert result.fun - best < 1e-10 * abs(best)


@pytest.mark.parametrize(
    "penalty", [L1(0.05), Box(0, 0.4, budget=1.0)], ids=["l1", "box and budget"]
)
@pytest.mark.parametrize("name", EXACT)
def test_penalties(returns, penalty, name):
    best = minimize(
        PortfolioProblem(returns, penalty=penalty), "storm-c", tol=1e-10, random_state=1
    ).fun
    result = minimize(PortfolioProblem(returns, penalty=penalty), name, random_state=0)
    gap = (result.fun - best) / abs(best)
    assert -1e-9 < gap < 1e-6
    np.testing.assert_allclose(penalty.project(result.x), result.x, atol=1e-12)


def test_normalised_steps_with_a_penalty_end_at_exact_zeros(returns):
    problem, x0 = PortfolioProblem(returns, penalty=L1(0.25)), np.ones(6)
    result = minimize(
        problem,
        STORMCompositional(normalization="global", precision=10.0),
        x0,
        max_iter=100,
        random_state=0,
    )
    # x_T has none, because every step is halved
    assert 0 < np.count_nonzero(result.x) < 6


# records and stopping


def test_record_every(problem):
    result = minimize(
        problem, "storm-c-paper", random_state=0, max_iter=60, tol=0, record_every=3000
    )
    np.testing.assert_array_equal(result.ifo, [0, *range(3000, 18001, 3000), 18300])
    default = minimize(problem, "storm-c-paper", random_state=0, max_iter=60, tol=0)
    # a pass
    np.testing.assert_array_equal(default.ifo, [0, 4500, 9000, 13500, 18000, 18300])


def test_default_budget_is_100_passes(problem):
    result = minimize(problem, "storm-c-paper", random_state=0, tol=0)
    assert result.stop_reason == "max_ifo"
    assert 450_000 - 300 < result.ifo[-1] <= 450_000


@pytest.mark.parametrize("name", STOCHASTIC)
def test_tol(problem, name):
    if name in EXACT:  # at an anchor: the exact gradient
        result = minimize(problem, name, tol=1e-3, random_state=0)
        start, end = (
            np.linalg.norm(problem.gradient(x)) for x in (np.zeros(6), result.x)
        )
        assert end <= 2e-3 * start
    else:
        result = minimize(problem, name, tol=0.5, random_state=0, x0=np.full(6, 10.0))
    assert result.stop_reason == "converged"
    assert (
        minimize(problem, name, tol=0, random_state=0, max_iter=50).stop_reason
        == "max_iter"
    )


@pytest.mark.parametrize("name", STOCHASTIC)
def test_non_finite(problem, name):
    x0 = np.full(6, 0.1)
    # normalised steps would stay finite
    extra = {"storm-c-paper": {"normalization": None}, "civr": {"precision": None}}.get(
        name, {}
    )
    with pytest.warns(ConvergenceWarning, match="learning_rate"):
        result = minimize(
            problem, name, x0, random_state=0, learning_rate=1e300, **extra
        )
    assert result.stop_reason == "non_finite"
    assert np.isfinite(result.loss_curve).all()
    assert result.fun == problem.objective(result.x) <= problem.objective(x0)


# states


@pytest.mark.parametrize("name", slow_but(SOLVERS, "storm-c", "scgd", "lbfgs"))
def test_resume_to_the_tolerance(entropic, name):
    stop, every = 40, 2000
    whole = minimize(
        entropic, name, random_state=0, max_ifo=30_000, tol=1e-3, record_every=every
    )
    part = minimize(
        entropic, name, random_state=0, max_iter=stop, tol=1e-3, record_every=every
    )
    state = pickle.loads(pickle.dumps(part.state))
    for _ in range(2):  # resuming leaves the state as it was
        resumed = minimize(
            entropic, name, state=state, max_ifo=30_000, tol=1e-3, record_every=every
        )
        np.testing.assert_array_equal(resumed.x, whole.x)
        np.testing.assert_array_equal(resumed.loss_curve, whole.loss_curve)
        np.testing.assert_array_equal(resumed.ifo, whole.ifo)
        assert resumed.n_evaluations == whole.n_evaluations
        assert (resumed.n_iter, resumed.stop_reason) == (
            whole.n_iter,
            whole.stop_reason,
        )


# x-hat


def test_random_output_is_uniform_among_the_iterates(problem):
    settings = {"max_iter": 4, "tol": 0, "batch_size": 4, "learning_rate": 0.01}
    counts = np.zeros(4)
    for seed in range(200):
        points = []
        solver, keep = (
            STORMCompositional(output="random"),
            lambda r, points=points: points.append(r.x),
        )
        result = minimize(
            problem,
            solver,
            random_state=seed,
            record_every=1,
            on_record=keep,
            **settings,
        )
        counts[next(k for k, x in enumerate(points[1:5]) if (x == result.x).all())] += 1
        assert result.loss_curve[-1] == result.fun == problem.objective(result.x)
    last = minimize(problem, STORMCompositional(), random_state=seed, **settings)
    np.testing.assert_array_equal(points[4], last.x)  # the iterates are those of "last"
    assert (
        (counts - 50) ** 2 / 50
    ).sum() < 16.3  # chi-square, 3 degrees of freedom, one in a thousand


# parameters


@pytest.mark.parametrize("name", ["learning_rate", "momentum", "precision"])
def test_schedules(problem, name):
    numbers = {"learning_rate": 0.05, "momentum": 0.2, "precision": 0.01}
    fixed = {"normalization": "global", "max_iter": 20, "random_state": 0}
    as_number = minimize(problem, STORMCompositional(), **fixed, **numbers)
    for same in (
        constant(numbers[name]),
        decay_to(numbers[name], numbers[name], horizon=9),
        lambda t: numbers[name],
    ):
        result = minimize(
            problem, STORMCompositional(), **fixed, **numbers | {name: same}
        )
        np.testing.assert_array_equal(result.x, as_number.x)
    falling = minimize(
        problem,
        STORMCompositional(),
        **fixed,
        **numbers | {name: power(-2 / 3, numbers[name])},
    )
    assert not (falling.x == as_number.x).any()


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (
            SCGD(learning_rate=lambda t: "fast"),
            ["learning_rate", "iteration 0", "fast"],
        ),
        (SCGD(learning_rate=constant(-1.0)), ["learning_rate", ">= 0", "-1.0"]),
        (SCGD(beta=constant(2.0)), ["beta", "2.0"]),
        (
            STORMCompositional(momentum=(0.1, constant(2.0), 0.1)),
            ["momentum", "iteration 1", "2.0"],
        ),
        (STORMCompositional(momentum=lambda t: np.nan), ["momentum", "nan"]),
        (CIVR(precision=constant(0.0)), ["precision", "> 0"]),
    ],
)
def test_invalid_schedules(solver, words):
    with pytest.raises(ValueError) as error:
        solver.validate()
    assert all(word in str(error.value) for word in words)


def test_solvers_by_name_and_instance():
    for name, solver in SOLVERS.items():
        assert type(get_solver(name)) is type(solver())
        assert not hasattr(solver, "fit")
    instance = STORMCompositional(learning_rate=0.5)
    assert get_solver(instance) is not instance
    assert get_solver(instance).learning_rate == 0.5


def test_preconditioner(returns):
    """Steps in the preconditioner D are steps of the scaled problem: x = D^(1/2) z."""
    D = np.linspace(0.5, 2, 6)
    settings = {"learning_rate": 0.1, "max_iter": 30, "tol": 0, "random_state": 0}
    plain = minimize(PortfolioProblem(returns * np.sqrt(D)), "sarah-c", **settings)
    vector = minimize(
        PortfolioProblem(returns, preconditioner=D), "sarah-c", **settings
    )
    matrix = minimize(
        PortfolioProblem(returns, preconditioner=np.diag(D)), "sarah-c", **settings
    )
    np.testing.assert_allclose(np.sqrt(D) * plain.x, vector.x, rtol=1e-10)
    np.testing.assert_allclose(vector.x, matrix.x, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "n"),
    [("storm-c", 400), ("storm-c", 1500), ("vrsc-pg", 1500)],
)
def test_a_start_at_the_optimum_converges(returns, name, n):
    x, best = minimum(returns[:n])
    result = minimize(PortfolioProblem(returns[:n]), name, x, random_state=0)
    assert result.stop_reason == "converged"
    assert result.ifo[-1] < 20 * 3 * n
    assert result.fun <= best + 1e-12 * abs(best)
