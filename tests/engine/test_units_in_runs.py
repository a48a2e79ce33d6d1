"""Runs on inner values with a unit: methods and their states do not depend on it."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import CompositionalSolver, MethodState, guard, start
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem

D = 5


@pytest.fixture(scope="module")
def returns():
    return make_gaussian_returns(1500, D, mean=0.3, condition_number=5, random_state=0)


def same_run(one, other):
    assert (one.n_iter, one.stop_reason, one.n_evaluations) == (other.n_iter, other.stop_reason, other.n_evaluations)
    for name in ("x", "ifo", "loss_curve"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# a method whose state keeps u in a container


@dataclass
class NestedState(MethodState):
    kept: dict = None
    z: np.ndarray = None
    batch_size: tuple = None


class NASA(CompositionalSolver):
    """NASA of docs/write_a_solver.md, with its average of u in a list within a dictionary."""

    def __init__(self, learning_rate="auto", batch_size="auto", max_iter=None, max_ifo=None, tol=1e-4):
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def init_state(self, oracle, x):
        size = self.sizes("batch_size", oracle, rule=16)
        now = start(oracle, x, size)
        rule = self.step_rule(oracle, x, size, 1.4)
        return NestedState(x, rule=rule, kept={"of g": [now.u]}, z=now.F, batch_size=size)

    def step(self, oracle, s):
        B_g, B_dg, B_f = s.batch_size
        x = s.x + 0.1 * (self.move(oracle, s, s.z) - s.x)
        batch, u = oracle.draw("inner", B_g), s.kept["of g"][0]
        u = guard(oracle, 0.9 * u + 0.1 * oracle.inner(x, batch), u)
        J = oracle.jacobian(x, oracle.draw_jacobian(B_dg, batch))
        s.z = 0.9 * s.z + 0.1 * oracle.gradient(x, u, J, oracle.draw("outer", B_f))
        s.x, s.kept = x, {"of g": [u]}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_name_of_a_field_does_not_matter(dtype):
    """In version 0.2.0 only fields named u were rescaled, and this run ended at 4.5."""
    R = 30 * make_gaussian_returns(300, D, mean=0.1, random_state=0)
    problem = PortfolioProblem(R.astype(dtype), 1.0, risk_measure="entropic")
    settings = {"random_state": 0, "max_iter": 400, "tol": 0}
    whole = minimize(problem, NASA(learning_rate=1e-3), np.full(D, -0.3, dtype), **settings)
    assert whole.fun == pytest.approx(86.53, rel=1e-3) and whole.x.dtype == dtype
    part = minimize(problem, NASA(learning_rate=1e-3), np.full(D, -0.3, dtype), **settings | {"max_iter": 150})
    state = pickle.loads(pickle.dumps(part.state))
    same_run(whole, minimize(problem, NASA(learning_rate=1e-3), state=state, max_iter=400, tol=0))


# runs from far away


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some end above a recorded value
@pytest.mark.parametrize("name", ["storm-c", "sketchy-storm", "lbfgs", "civr", "scgd"])
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


@pytest.mark.parametrize("power", [2.0**7, 2.0**18])
@pytest.mark.parametrize("name", ["storm-c", "civr"])
def test_units_of_the_returns_do_not_matter(returns, name, power):
    R = returns[:300]
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
