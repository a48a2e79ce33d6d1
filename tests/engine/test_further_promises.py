"""Promises of the engine that no other test held: what is evaluated, kept, printed, read, and left with a stream."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SCGD, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import ALL, MethodState, Oracle, advance, start
from sk_stormc.engine.diagnostics import warn_of_the_end
from sk_stormc.engine.results import Record, RunState, StopReason
from sk_stormc.engine.steps import StepRule
from sk_stormc.engine.stopping import Stopping, StoppingRule
from sk_stormc.penalties import Box
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem, StreamingProblem

RETURNS = make_gaussian_returns(600, 3, mean=0.2, random_state=0)


def squares(at, size=1.0, **more):
    """Half the squared distance to a point, in a unit of x."""
    at = np.asarray(at, float)
    return FiniteSumComposition(
        lambda x, j: x / size - at,
        None,
        lambda x, u, i: u,
        lambda x, u: float(u @ u) / 2,
        n_inner=4, n_outer=4, x0=np.full(at.size, size), inner_vjp=lambda x, j, v: v / size, **more,
    )  # fmt: skip


def test_with_momentum_1_the_old_point_is_not_evaluated():
    oracle = Oracle(squares([1.0, 2.0]), 0)
    first = start(oracle, np.zeros(2), ALL)
    before = dict(oracle.n_evaluations)
    advance(oracle, first, np.ones(2), (1, 1, 1), (3, 3, 2))
    found = {kind: n - before[kind] for kind, n in oracle.n_evaluations.items()}
    assert found == {"inner": 3, "jacobian": 3, "outer": 2}


def test_a_run_is_silent_unless_it_is_asked_to_speak(capsys):
    SCGD(max_iter=3).solve(PortfolioProblem(RETURNS), random_state=0)
    assert capsys.readouterr().out == ""


def test_the_text_of_a_record_is_its_numbers():
    record = Record(3, 60, -0.5, np.zeros(1), snapshot=lambda: None, n_left=lambda: 7)
    assert repr(record) == "Record(iteration=3, ifo=60, fun=-0.5, x=array([0.]))"


# streams


def test_a_stream_has_the_state_of_its_run():
    stream = StreamingProblem([RETURNS], partial(PortfolioProblem, metric="variance"))
    result = minimize(stream, "scgd", random_state=0)
    assert result.stop_reason == "exhausted" and stream.state is result.state


def test_a_stream_that_ends_above_its_start_is_told_beyond_chance(recwarn):
    def told(uphill):
        source = SimpleNamespace(uphill=lambda x, start: uphill, instead="more rows")
        oracle = SimpleNamespace(source=source, problem=SimpleNamespace(objective=lambda x: 1.0))
        ended = {"x": np.ones(1), "fun": 2.0, "n_iter": 5, "stop_reason": StopReason.EXHAUSTED}
        result = SimpleNamespace(**ended, state=SimpleNamespace(start=np.zeros(1)))
        warn_of_the_end(SCGD(), oracle, result, comparable=False, unlimited=False)

    told(uphill=False)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="objective of 2 over the last rows, where the start's is 1.*more rows"):
        told(uphill=True)


# the stopping rule


def rule_of(problem, x, tol=0.1, **known):
    run = RunState("SCGD", state=MethodState(x), start=problem.initial_point(None), stopping=Stopping(**known))
    return StoppingRule(SCGD(tol=tol), Oracle(problem, 0), run, SimpleNamespace(max_ifo=np.inf))


def test_points_that_differ_in_one_coordinate_are_two():
    x, y = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    rule, s = rule_of(squares([0.0, 0.0]), x), MethodState(x, t=1, residual=1.0, rule=StepRule(0.1))
    rule.oracle.exact.append((y, y))
    rule.watch(s)
    assert not rule.run.stopping.exact
    rule.oracle.exact.append((x, x))
    rule.watch(s)
    assert rule.run.stopping.exact


def test_an_average_begins_a_pass_after_an_exact_value():
    """Some methods have one in each epoch, and are compared there."""
    x = np.array([1.0, 2.0])
    rule, s = rule_of(squares([0.0, 0.0]), x), MethodState(x, t=1, residual=1.0, rule=StepRule(0.1))
    rule.oracle.exact.append((x, x))
    rule.watch(s)
    known, s.x = rule.run.stopping, x + 1
    for ifo, number in ((rule.a_pass - 1, 0), (rule.a_pass, 1)):
        rule.oracle.ifo = ifo
        rule.watch(s)
        assert known.number == number


def test_estimates_that_nobody_could_confirm_are_no_residual():
    """The last exact value was that at the start."""
    known = {"first": 2.0, "seen": 2.0, "began": 2.0, "value": 0.02, "measured": 9}
    rule = rule_of(squares([0.0]), np.ones(1), **known, asked=0, found=1.0)
    assert rule.residual() == 1.0 > rule.solver.tol


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_whether_a_point_is_at_rest_does_not_depend_on_the_unit_of_x(size):
    """A step by a thousandth of x stays between the bounds."""
    problem = squares([0.5, 0.25], size, penalty=Box(0.0, size))
    for at, rests in (([0.5, 0.25], True), ([0.51, 0.26], False), ([0.9, 0.6], False)):
        x = size * np.array(at)
        s = MethodState(x, t=1, rule=StepRule(1e-12 * size**2))
        assert rule_of(problem, x).at_rest(s) == rests
