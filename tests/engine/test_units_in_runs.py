"""Runs on values that carry their own unit: no method, no state and no name of a field knows of it."""

import pickle
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
from helpers import slow_but

from sk_stormc import minimize
from sk_stormc.core.unit import InUnit
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import CompositionalSolver, Estimate, MethodState, Oracle, RunState, at, guard, start
from sk_stormc.engine.checkpoint_file import read, write
from sk_stormc.engine.steps import Direction
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SOLVERS
from sk_stormc.solvers.anchored import Anchor, extrapolate
from sk_stormc.solvers.civr import CIVR

D = 5
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def returns():
    return make_gaussian_returns(1500, D, mean=0.3, condition_number=5, random_state=0)


def same_run(one, other):
    assert (one.n_iter, one.stop_reason, one.n_evaluations) == (other.n_iter, other.stop_reason, other.n_evaluations)
    for name in ("x", "ifo", "loss_curve"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# names of fields


@dataclass
class NamedU(MethodState):
    u: object = None
    z: np.ndarray = None
    batch_size: tuple = None


@dataclass
class NamedAverage(MethodState):
    average: object = None
    z: np.ndarray = None
    batch_size: tuple = None


@dataclass
class InAList(MethodState):
    kept: dict = None
    z: np.ndarray = None
    batch_size: tuple = None


class NASA(CompositionalSolver):
    """NASA of docs/write_a_solver.md; where its average of u is kept is the state's affair."""

    state = NamedU

    def __init__(self, learning_rate="auto", tau=0.1, batch_size="auto", max_iter=None, max_ifo=None, tol=1e-4):
        self.learning_rate = learning_rate
        self.tau = tau
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def keep(self, s, u):
        setattr(s, fields(self.state)[-3].name, u)

    def kept(self, s):
        return getattr(s, fields(self.state)[-3].name)

    def init_state(self, oracle, x):
        size = self.sizes("batch_size", oracle, rule=16)
        now = start(oracle, x, size)
        s = self.state(x, rule=self.step_rule(oracle, x, size, 1.4), z=now.F, batch_size=size)
        self.keep(s, now.u)
        return s

    def step(self, oracle, s):
        B_g, B_dg, B_f = s.batch_size
        tau = at(self.tau, s.t)
        x = s.x + tau * (self.move(oracle, s, s.z) - s.x)
        batch = oracle.draw("inner", B_g)
        u = self.kept(s)
        u = guard(oracle, (1 - tau) * u + tau * oracle.inner(x, batch), u)
        self.keep(s, u)
        J = oracle.jacobian(x, oracle.draw_jacobian(B_dg, batch))
        s.z = (1 - tau) * s.z + tau * oracle.gradient(x, u, J, oracle.draw("outer", B_f))
        s.x = x


class RenamedNASA(NASA):
    state = NamedAverage


class HiddenNASA(NASA):
    state = InAList

    def keep(self, s, u):
        s.kept = {"of g": [u]}

    def kept(self, s):
        return s.kept["of g"][0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("other", [RenamedNASA, HiddenNASA])
def test_a_renamed_field_changes_nothing(other, dtype):
    """In version 0.2.0 the fields named u were rescaled, and these runs ended at 86.5 and at 4.5."""
    R = 30 * make_gaussian_returns(300, D, mean=0.1, random_state=0)
    problem = PortfolioProblem(R.astype(dtype), 1.0, risk_measure="entropic")
    x0, settings = np.full(D, -0.3, dtype), {"random_state": 0, "max_iter": 400, "tol": 0}
    one, renamed = (minimize(problem, method(learning_rate=1e-3), x0, **settings) for method in (NASA, other))
    same_run(one, renamed)
    assert one.loss_curve[0] > 20 and np.isfinite(one.loss_curve).all() and one.x.dtype == dtype
    part = minimize(problem, other(learning_rate=1e-3), x0, **settings | {"max_iter": 150})
    state = pickle.loads(pickle.dumps(part.state))
    same_run(one, minimize(problem, other(learning_rate=1e-3), state=state, max_iter=400, tol=0))


def test_no_room_but_the_core_speaks_of_units_of_u():
    words = ("log_scale", "to_unit", "change_of_unit", "follow_unit", "forget_unit", "_in_unit(", "def scaled")
    for path in (ROOT / "sk_stormc").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in words if word in text], path


# runs from far away


FITTING = [name for name in SOLVERS if name != "storm-c-paper"]  # whose batches miss what u is


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some end above a recorded value
@pytest.mark.parametrize("name", slow_but(FITTING, "storm-c", "lbfgs", "sarah-c", "scgd"))
def test_runs_through_all_sizes_of_u(returns, name):
    """From exponents of hundreds to those near 0, which no one unit could hold."""
    problem = PortfolioProblem(returns[:300], 1.0, risk_measure="entropic")
    far = np.full(D, -400.0)
    exact = name in ("storm-c", "lbfgs", "sketchy-storm")
    # one return makes up u at the start: there is no curvature there to take a learning rate from
    settings = {} if exact else {"learning_rate": 1.0}
    result = minimize(problem, name, far, random_state=0, max_iter=1500, tol=1e-9, **settings)
    assert problem.log_mean(far) > 300
    assert np.isfinite(result.loss_curve).all()
    if exact:
        best = minimize(problem, "lbfgs", tol=1e-9).fun
        assert result.fun - best < 1e-6 * abs(best)
    else:
        assert result.fun < result.loss_curve[0] - 20


@pytest.mark.parametrize("unit", [100.0, 1e4, 3e5])  # percent, basis points, and no unit at all
@pytest.mark.parametrize("name", ["storm-c", "sarah-c", "civr", "scgd"])
def test_units_of_the_returns_do_not_matter(returns, name, unit):
    """Powers of two apart the runs have the same bits; here they differ by rounding."""
    R, power = returns[:300], 2.0 ** round(np.log2(unit))
    settings = {"random_state": 0, "max_iter": 40, "tol": 0}
    one, other = (
        minimize(
            PortfolioProblem(factor * R, 3 / factor, risk_measure="entropic", penalty=Simplex(), metric="variance"),
            name,
            **settings,
        )
        for factor in (1.0, power)
    )
    np.testing.assert_allclose(other.x, one.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.loss_curve / power, one.loss_curve, rtol=1e-9)


def test_wild_steps_end_or_return(returns):
    """A learning rate far too large is halved where it is automatic, and said to have overflowed where it is not."""
    problem = PortfolioProblem(100 * returns[:300], 1.0, risk_measure="entropic")
    automatic = minimize(problem, random_state=0)
    best = minimize(problem, "lbfgs", tol=1e-9).fun
    assert automatic.stop_reason == "converged" and automatic.fun - best < 1e-3 * (automatic.loss_curve[0] - best)
    with pytest.warns(Warning):
        wild = minimize(problem, "storm-c-paper", random_state=0, learning_rate=1e30, normalization=None, max_iter=20)
    assert wild.stop_reason == "non_finite" and wild.fun == problem.objective(wild.x)


# states


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "lbfgs"])
def test_runs_in_files_go_on_with_the_same_bits(returns, name, tmp_path):
    problem = PortfolioProblem(50 * returns, 1.0, risk_measure="entropic", penalty=Simplex())
    settings = {"tol": 0, "batch_size": 8}
    whole = minimize(problem, name, random_state=0, max_iter=24, **settings)
    part = minimize(problem, name, random_state=0, max_iter=9, **settings)
    write(tmp_path / "run", part.state)
    same_run(whole, minimize(problem, name, state=read(tmp_path / "run", RunState), max_iter=24, **settings))


def test_civr_tracks_values_of_f_in_the_inverse_unit(returns):
    problem = PortfolioProblem(100 * returns, 1.0, risk_measure="entropic")
    oracle, solver = Oracle(problem, 0), CIVR(learning_rate=1e-6, batch_size=64)
    now = solver.refresh(oracle, np.full(D, -1.0), (None, None, None))
    after = solver.estimate(oracle, now, np.full(D, -1.001), (64, 64, None))
    for e in (now, after):
        u, (f_x, f_u) = e.u, e.v
        assert f_x is None and u.power > 32 and f_u.power < -32
        assert type(e.F) is np.ndarray
        np.testing.assert_allclose((f_u * u).plain(), problem.scale, rtol=1e-12)


@pytest.mark.parametrize("powers", [(0, 0, 0), (64, 32, 0), (6400, 32, -3200)])
def test_anchors_of_several_units_are_combined(powers):
    """As in one unit: a combination of u that is in none of theirs is what plain arithmetic gives."""
    rng = np.random.default_rng(0)
    problem = PortfolioProblem(rng.normal(size=(20, 3)), risk_measure="entropic")
    anchors = []
    for power in powers:
        F, x = rng.normal(size=(2, 3))
        u, J = rng.uniform(1, 2, 1), rng.normal(size=(1, 3))
        anchors.append(Anchor(Estimate(x, InUnit(u, power), InUnit(J, power), F), Direction(1.0, F, F), 0.0))
    found, largest = extrapolate(anchors, problem), max(powers)
    plain = []
    for anchor in anchors:
        e = anchor.estimate
        u, J = (InUnit(value.array, value.power - largest).plain() for value in (e.u, e.J))
        plain.append(Anchor(Estimate(e.x, u, J, e.F), anchor.way, 0.0))
    expected = extrapolate(plain, problem)
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.F, expected.F)
    for ours, theirs in ((found.u, expected.u), (found.J, expected.J)):
        np.testing.assert_allclose(InUnit(ours.array, ours.power - largest).plain(), theirs, rtol=1e-14, atol=1e-300)
