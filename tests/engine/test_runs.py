"""Runs: heavy-ball momentum, preconditioners, budgets, interrupts, and the output of
verbose."""

import os
import pickle
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
from helpers import SEED, draws_of

from sk_stormc import SCGD, SARAHCompositional, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Box, Simplex
from sk_stormc.preconditioners import Diagonal
from sk_stormc.problems import Advice, PortfolioProblem

D = 5


@pytest.fixture(scope="module")
def returns():
    return make_gaussian_returns(1500, D, mean=0.3, condition_number=5, random_state=0)


def with_momentum(returns, inertia, **kwargs):
    problem = PortfolioProblem(returns, **kwargs)
    problem.advice = replace(problem.advice, inertia=inertia)
    return problem


def same_run(one, other):
    """Assert that two results have the same bits."""
    assert (one.n_iter, one.stop_reason) == (other.n_iter, other.stop_reason)
    assert one.n_evaluations == other.n_evaluations
    for name in ("x", "ifo", "loss_curve"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# heavy-ball momentum


def gradient(rows, x, u, G):
    d = rows @ x - u
    return ((2 * d - 1) @ rows - 2 * d.sum() * G) / len(rows)


@pytest.mark.parametrize("preconditioner", [None, np.linspace(0.5, 2, D)])
@pytest.mark.parametrize("normalization", [None, "global"])
def test_momentum_is_a_heavy_ball_average_of_directions(
    returns, preconditioner, normalization
):
    """m <- b m + (1 - b) gamma M F from m = 0, with gamma of step 6, which shortens
    each direction."""
    b, eta, eps, beta, T = 0.8, 0.05, 0.02, 0.7, 12
    problem = with_momentum(returns, b, preconditioner=preconditioner)
    problem.advice = replace(problem.advice, normalization=normalization, precision=eps)
    solver = SCGD(learning_rate=eta, beta=beta, batch_size=5, max_iter=T, tol=0)
    result = minimize(problem, solver, np.ones(D), random_state=SEED)
    oracle, weight = (
        draws_of(problem),
        np.ones(D) if preconditioner is None else preconditioner,
    )
    x, y, m = np.ones(D), None, 0.0
    for _ in range(T):
        m_g, m_dg, (rows, _) = (
            oracle.draw(k, 5).data for k in ("inner", "jacobian", "outer")
        )
        y = m_g[0] @ x if y is None else (1 - beta) * y + beta * (m_g[0] @ x)
        way = weight * gradient(rows, x, y, m_dg[0])
        length = np.sqrt((way**2 / weight).sum())
        gamma = 1 if normalization is None else min(eps / length, 0.5)
        m = b * m + (1 - b) * gamma * way
        x = x - eta * m
    np.testing.assert_allclose(result.x, x, rtol=1e-12)
    np.testing.assert_allclose(result.state.state.velocity, m, rtol=1e-12)


@pytest.mark.parametrize("penalty", [Simplex(), Box(-0.1, 0.2)])
def test_momentum_keeps_the_constraints(returns, penalty):
    problem, points = with_momentum(returns, 0.9, penalty=penalty), []
    solver = SARAHCompositional(learning_rate=0.1, batch_size=8, max_iter=200, tol=0)
    keep = {"record_every": 1, "on_record": lambda record: points.append(record.x)}
    minimize(problem, solver, random_state=0, **keep)
    for x in points:
        np.testing.assert_allclose(penalty.project(x), x, atol=1e-15)


# preconditioners


class Wandering(Diagonal):
    """diag(1 / (1 + x^2 + t / 100)): another preconditioner at every x and t."""

    stays = False

    def __init__(self):
        super().__init__(None)
        self.asked = []

    def at(self, x, t):
        self.asked.append(t)
        return Diagonal(1 / (1 + x**2 + t / 100))


def test_scgd_steps_in_a_metric_that_changes(returns):
    eta, beta, T = 0.05, 0.7, 12
    problem = PortfolioProblem(returns)
    problem.preconditioner = Wandering()
    result = minimize(
        problem,
        SCGD(learning_rate=eta, beta=beta, batch_size=5, max_iter=T, tol=0),
        np.ones(D),
        random_state=SEED,
    )
    oracle = draws_of(problem)
    x, y = np.ones(D), None
    for t in range(T):
        m_g, m_dg, (rows, _) = (
            oracle.draw(k, 5).data for k in ("inner", "jacobian", "outer")
        )
        y = m_g[0] @ x if y is None else (1 - beta) * y + beta * (m_g[0] @ x)
        F = gradient(rows, x, y, m_dg[0])
        x, F_0 = x - eta * F / (1 + x**2 + t / 100), F / np.sqrt(1 + x**2 + t / 100)
    np.testing.assert_allclose(result.x, x, rtol=1e-12)
    assert result.state.state.residual == pytest.approx(np.linalg.norm(F_0))
    assert set(problem.preconditioner.asked) == set(range(T))


# interrupts


def small_batches(name):
    return {} if name == "lbfgs" else {"batch_size": 8}


@pytest.mark.parametrize("name", ["storm-c", "lbfgs"])
def test_a_second_ctrl_c_within_an_iteration_raises_at_once(returns, name):
    """A signal handler of Python's own is back, and the problem is as it was."""
    problem, calls = PortfolioProblem(returns, 0.5), []
    settings = {
        "max_iter": 30,
        "tol": 0,
        "record_every": 1,
        "random_state": 0,
    } | small_batches(name)
    whole, inner = minimize(problem, name, **settings), problem.inner

    def pressed_twice(x, batch):
        calls.append(x)
        if len(calls) == 8:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return inner(x, batch)

    problem.inner = pressed_twice
    with pytest.raises(KeyboardInterrupt):
        minimize(problem, name, **settings | {"max_iter": 100})
    assert (
        len(calls) == 8
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    same_run(minimize(problem, name, **settings), whole)


@pytest.mark.parametrize(
    ("name", "stop", "times"), [("storm-c", 0, 1), ("sarah-c", 1, 2), ("lbfgs", 7, 1)]
)
def test_ctrl_c_ends_a_run_after_its_iteration(returns, name, stop, times):
    """A second one is a KeyboardInterrupt at once, here in the callback, after whole
    iterations too."""
    problem = PortfolioProblem(returns, 0.5, risk_measure="entropic")
    settings = {"max_iter": 12, "tol": 0, "record_every": 1} | small_batches(name)
    whole = minimize(problem, name, random_state=0, **settings)

    def look(record):
        if record.iteration == stop:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    part = minimize(problem, name, random_state=0, on_record=look, **settings)
    assert (part.stop_reason, part.n_iter) == ("interrupted", stop)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    np.testing.assert_array_equal(
        part.loss_curve[: stop + 1], whole.loss_curve[: stop + 1]
    )
    same_run(
        minimize(
            problem, name, state=pickle.loads(pickle.dumps(part.state)), **settings
        ),
        whole,
    )


def test_a_handler_of_the_callers_own_is_left_alone(returns):
    calls = []
    before = signal.signal(signal.SIGINT, lambda *args: calls.append(args))
    try:
        result = minimize(
            PortfolioProblem(returns), random_state=0, max_iter=20, tol=0,
            record_every=1,
            on_record=lambda r: os.kill(os.getpid(),
            signal.SIGINT) if r.iteration == 5 else None
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    assert (len(calls), result.stop_reason, result.n_iter) == (1, "max_iter", 20)


# budgets


class Short(PortfolioProblem):
    advice = Advice(max_iter=7)


STEPS = {
    "learning_rate": 0.001,
    "batch_size": (16, 16, 16),
    "tol": 0,
    "random_state": 0,
}


@pytest.mark.parametrize(
    ("budget", "n_iter"), [({}, 7), ({"max_iter": 9}, 9), ({"max_ifo": 48 * 20}, 20)]
)
def test_a_problem_advises_a_budget_if_the_user_gives_none(returns, budget, n_iter):
    assert minimize(Short(returns), "scgd", **STEPS | budget).n_iter == n_iter


@pytest.mark.parametrize(
    "budget",
    [{"max_ifo": 4800}, {"max_iter": 100}, {"max_iter": 100, "max_ifo": 10**6}],
)
def test_records_estimate_how_many_are_left(returns, budget):
    left = []
    settings = (
        STEPS
        | {
            "record_every": 480,
            "on_record": lambda record: left.append(record.n_left()),
        }
        | budget
    )
    minimize(PortfolioProblem(returns), "scgd", **settings)
    assert left == [np.inf, *range(9, -1, -1)]  # no cost is known at the start


# verbose


@pytest.mark.parametrize("name", ["storm-c", "lbfgs"])
def test_verbose_prints_an_aligned_line_for_each_record(returns, capsys, name):
    problem, records = PortfolioProblem(returns), []
    settings = {
        "max_iter": 6,
        "tol": 0,
        "record_every": 1,
        "random_state": 0,
    } | small_batches(name)
    quiet = minimize(problem, name, **settings)
    assert capsys.readouterr().out == ""
    result = minimize(problem, name, verbose=1, on_record=records.append, **settings)
    head, *lines = capsys.readouterr().out.splitlines()
    same_run(result, quiet)
    assert head.split() == ["iteration", "passes", "objective", "residual", "seconds"]
    assert len(lines) == len(records) == 7
    assert {len(line) for line in lines} == {len(head)}
    ends = [match.end() for match in re.finditer(r"\S+", head)]
    for line, record in zip(lines, records, strict=True):
        assert [match.end() for match in re.finditer(r"\S+", line)] == ends
        iteration, passes, fun, residual, seconds = line.split()
        assert int(iteration) == record.iteration
        assert float(passes) == pytest.approx(
            record.ifo / (3 * len(returns)), abs=0.005
        )
        assert float(fun) == pytest.approx(record.fun, rel=1e-7)
        assert residual == "-" or float(residual) >= 0
        assert float(seconds) >= 0
    assert lines[0].split()[3] == "-"


@pytest.mark.parametrize("name", ["storm-c", "lbfgs"])
def test_a_callback_may_raise_stop_iteration(returns, name):
    seen = []

    def stop(record):
        seen.append(record)
        if len(seen) == 3:
            raise StopIteration

    class Callback:
        on_record = staticmethod(stop)

    problem = PortfolioProblem(returns)
    for how in ({"on_record": stop}, {"callbacks": [Callback()]}):
        seen.clear()
        result = minimize(problem, name, random_state=0, tol=0, record_every=1, **how)
        assert result.stop_reason == "callback" and len(seen) == 3
