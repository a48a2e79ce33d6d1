"""The sketched preconditioner of "sketchy-storm", and the inner value that follows a
constant Jacobian in "storm-c"."""

import pickle

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.preconditioners import LowRank
from sk_stormc.problems import PortfolioProblem, SNEProblem
from sk_stormc.solvers import SketchySTORM

PROBE = 16  # minibatches of the curvature estimate


def factor_returns(n=4000, d=25, seed=0):
    """Assets that share three factors and differ in size: the Hessian's condition
    number is in the thousands."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 3)) * [3.0, 1.0, 0.5] @ rng.normal(size=(3, d))
    return (
        common
        + rng.normal(size=(n, d)) * rng.uniform(0.1, 1, d)
        + rng.normal(0.1, 0.1, d)
    ) * rng.uniform(1, 5, d)


@pytest.fixture(scope="module")
def returns():
    return factor_returns()


def hessian(R):
    return 2 * np.cov(R.T, bias=True)


def minimum(R):
    return PortfolioProblem(R).objective(np.linalg.solve(hessian(R), R.mean(0)))


def state(problem, solver=None, **params):
    return minimize(
        problem, solver or "sketchy-storm", random_state=0, **params
    ).state.state


# the preconditioner


@pytest.mark.parametrize("preconditioner", [None, "variance"])
def test_the_sketch_of_all_data_in_all_directions_is_the_damped_newton_matrix(
    returns, preconditioner
):
    problem = PortfolioProblem(
        returns[:500], preconditioner=preconditioner
    )  # full batches
    d = problem.n_variables
    P = state(problem, rank=d, max_iter=1).preconditioner
    root = np.ones(d) if preconditioner is None else np.sqrt(problem.preconditioner)
    A = root[:, None] * hessian(problem.returns) * root
    rho = np.linalg.eigvalsh(A)[0]
    expected = root[:, None] * np.linalg.inv(A + rho * np.eye(d)) * root
    F = np.random.default_rng(0).normal(size=d)
    np.testing.assert_allclose(P.apply(F), expected @ F, rtol=1e-4)


def test_the_sketch_lowers_the_condition_number(returns):
    problem = PortfolioProblem(returns, preconditioner="variance")
    P = state(problem, max_iter=1).preconditioner
    assert isinstance(P, LowRank)
    preconditioner = np.array([P.apply(e) for e in np.eye(problem.n_variables)])
    np.testing.assert_allclose(
        preconditioner, preconditioner.T, atol=1e-9 * np.abs(preconditioner).max()
    )
    assert np.linalg.eigvalsh(preconditioner)[0] > 0

    def condition(M):
        values = np.sort(np.linalg.eigvals(M @ hessian(returns)).real)
        return values[-1] / values[0]

    assert condition(preconditioner) < condition(np.diag(problem.preconditioner)) / 10


def test_directions_that_are_not_sketched_count_as_twice_the_least_that_is(returns):
    P, r = state(PortfolioProblem(returns), rank=6, max_iter=1).preconditioner, 6
    values = np.linalg.eigvalsh([P.apply(e) for e in np.eye(len(P.scale))])
    # lambda_r + rho = 2 rho, and 2 rho elsewhere
    np.testing.assert_allclose(values[r - 1 :], P.scale[0], rtol=1e-6)
    assert values[r - 2] < 0.99 * P.scale[0]


def test_without_curvature_the_problem_keeps_its_preconditioner():
    """A linear objective: there is nothing to sketch."""
    problem = PortfolioProblem(
        np.full((2000, 3), 0.5), preconditioner=np.array([1.0, 2.0, 3.0])
    )
    with pytest.warns(UserWarning, match="unbounded"):
        found = state(problem, max_iter=3)
    assert found.preconditioner is None
    # the steps are in it
    np.testing.assert_allclose(found.x / found.x[0], [1, 2, 3], rtol=1e-12)


# the inner value


@pytest.mark.parametrize("name", ["storm-c", "sketchy-storm"])
@pytest.mark.parametrize("n", [500, 4000])
def test_u_is_exact_without_further_draws_of_g(returns, n, name):
    problem = PortfolioProblem(returns[:n], risk_measure="semivariance")
    results = [
        minimize(problem, name, random_state=0, tol=0, max_iter=k) for k in (1, 700)
    ]
    now = results[1].state.state.now
    np.testing.assert_allclose(now.u, problem.mean @ now.x, rtol=1e-9)
    for kind in ("inner", "jacobian"):
        assert results[0].n_evaluations[kind] == results[1].n_evaluations[kind]


def test_charges_with_a_constant_jacobian(returns):
    n, S, r, B, T = len(returns), 100, 4, 8, 5
    rule = minimize(
        PortfolioProblem(returns),
        "storm-c",
        batch_size=(B, None, B),
        max_iter=T,
        tol=0,
        random_state=0,
    )
    # J, the probe's g and f, u and F at x_0, and f alone in T steps
    assert rule.ifo[-1] == n + PROBE * 2 * B + 2 * n + T * B
    solver = SketchySTORM(
        batch_size=(B, None, B), rank=r, sketch_batch_size=S, max_iter=T, tol=0
    )
    result = minimize(PortfolioProblem(returns), solver, random_state=0)
    # J, the sketch's g and f, the probe's, u and F at x_0, and f alone in T steps
    assert result.ifo[-1] == n + 2 * S + PROBE * 2 * B + 2 * n + T * B
    probe = result.n_evaluations["inner"] - S - n  # as many of g as of f
    assert result.n_evaluations["jacobian"] == n
    assert result.n_evaluations["outer"] == (r + 4) * S + probe + n + 2 * T * B


def test_anchors_cost_f_alone_where_the_jacobian_is_constant(returns):
    """With u exact an anchor needs no component of g, whose number n_inner would come
    to."""
    n, B, counts = len(returns), 16, []
    settings = {
        "batch_size": (B, None, B),
        "learning_rate": 2e-4,
        "tol": 0,
        "max_iter": 800,
        "record_every": 1,
    }

    def keep(record):
        counts.append(record.ifo)

    result = minimize(
        PortfolioProblem(returns), "storm-c", random_state=0, on_record=keep, **settings
    )
    assert set(np.diff(counts[1:])) == {B, n}
    # u at x_0, and J
    assert result.n_evaluations["inner"] == result.n_evaluations["jacobian"] == n


# runs


def test_resume_gives_the_same_bits(returns):
    problem = PortfolioProblem(returns, preconditioner="variance")
    whole = minimize(problem, "sketchy-storm", random_state=0, tol=1e-6)
    for stop in (1, 130):
        part = minimize(
            problem, "sketchy-storm", random_state=0, tol=1e-6, max_iter=stop
        )
        rest = minimize(
            problem,
            "sketchy-storm",
            state=pickle.loads(pickle.dumps(part.state)),
            tol=1e-6,
        )
        np.testing.assert_array_equal(rest.x, whole.x)
        np.testing.assert_array_equal(rest.ifo, whole.ifo)
        assert rest.n_evaluations == whole.n_evaluations


# what is refused


@pytest.mark.parametrize("jacobian", ["operator", "dense"])
def test_neighbour_embedding_is_refused(jacobian):
    P = perplexity_affinities(np.random.default_rng(0).normal(size=(40, 3)), 5)
    with pytest.raises(ValueError, match="got SNEProblem, .* use 'storm-c'"):
        minimize(SNEProblem(P, 2, jacobian=jacobian), "sketchy-storm")
