"""The stopping rule by itself: what is compared with tol, and when a point is at rest."""

from types import SimpleNamespace

import numpy as np
import pytest

from sk_stormc import SCGD
from sk_stormc.engine import MethodState, Oracle
from sk_stormc.engine.results import RunState
from sk_stormc.engine.steps import StepRule
from sk_stormc.engine.stopping import StoppingRule
from sk_stormc.problems import FiniteSumComposition


def corner(at):
    """Half the square of what x is below a point: flat beyond it."""
    return FiniteSumComposition(
        lambda x, j: x,
        lambda x, j: np.eye(1),
        lambda x, u, i: (None, np.minimum(u - at, 0)),
        lambda x, u: float(np.minimum(u - at, 0) @ np.minimum(u - at, 0)) / 2,
        n_inner=4, n_outer=4, x0=np.ones(1),
    )  # fmt: skip


def rule_of(problem, tol=0.1, **known):
    run = RunState("SCGD", state=MethodState(np.ones(1)), start=np.ones(1))
    for name, value in known.items():
        setattr(run.stopping, name, value)
    return StoppingRule(SCGD(tol=tol), Oracle(problem, 0), run, SimpleNamespace(max_ifo=np.inf))


def test_the_residual_is_what_was_measured_unless_that_was_denied():
    def residual(**known):
        return rule_of(corner(2.0), first=2.0, exact=True, **known).residual()

    assert np.isnan(residual())
    assert residual(value=1.0) == 0.5
    assert residual(value=0.02) == 0.01  # nobody has asked yet
    assert residual(value=0.02, asked=3, found=0.4) == 0.4  # a full gradient says more than estimates
    assert residual(value=1.0, asked=3, found=0.4) == 0.5  # what was asked for was elsewhere
    assert rule_of(corner(2.0), first=0.0, exact=True, value=0.0).residual() == 0


@pytest.mark.parametrize(("rate", "length", "found"), [
    (0.1, 0.0, 0.0), (0.1, 1e-18, 0.0), (0.1, 1e-3, np.inf), (None, 0.0, 0.0), (None, 1e-18, np.inf),
])  # fmt: skip
def test_from_a_start_where_no_step_is_possible_only_rounding_is_as_good(rate, length, found):
    rule = rule_of(corner(1.0), first=0.0)
    s = MethodState(np.ones(1), t=1, rule=None if rate is None else StepRule(rate))
    rule._compare(s, s.x, length)
    assert rule.run.stopping.found == found


def test_a_point_beside_a_flat_place_is_not_at_rest():
    rule, s = rule_of(corner(1.0005)), MethodState(np.ones(1), t=1, rule=StepRule(1e-9))
    assert not rule.at_rest(s)
    rule, s = rule_of(corner(1.0)), MethodState(np.ones(1), t=1, rule=StepRule(1e-9))
    assert rule.at_rest(s) and rule.run.stopping.rested == 1


def test_what_was_exact_is_looked_at_once():
    rule, s = rule_of(corner(2.0)), MethodState(np.ones(1), t=1, residual=0.5, rule=StepRule(0.1))
    rule.oracle.exact.append((s.x, np.full(1, -1.0)))
    rule.watch(s)
    assert rule.run.stopping.exact and rule.run.stopping.value == 1 and not rule.oracle.exact


def test_in_a_metric_that_changes_a_length_is_taken_where_the_methods_own_is_small():
    """Beside the first one at x_0, if that is known: the first exact value may be of another point."""
    rule = rule_of(corner(2.0), tol=0.1, first=1.0, seen=100.0)
    rule.oracle.metric, taken = SimpleNamespace(stays=False), []
    rule.solver.length = lambda *args: taken.append(args) or 0.07
    for residual, value in ((5.0, 5.0), (0.09, 0.07)):
        s = MethodState(np.ones(1), t=3, residual=residual)
        rule.oracle.exact.append((s.x, np.ones(1)))
        rule.watch(s)
        assert rule.run.stopping.value == value and bool(taken) == (residual < 0.1)
