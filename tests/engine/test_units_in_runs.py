"""Runs on inner values with a unit: methods and their states do not depend on it."""

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem

D = 5


@pytest.fixture(scope="module")
def returns():
    return make_gaussian_returns(1500, D, mean=0.3, condition_number=5, random_state=0)


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # some end above a recorded value
@pytest.mark.parametrize("name", ["storm-c", "lbfgs", "civr"])
def test_runs_through_all_sizes_of_u(returns, name):
    """From exponents of hundreds to those near 0, which no one unit could hold."""
    problem = PortfolioProblem(returns[:300], 1.0, risk_measure="entropic")
    far = np.full(D, -400.0)
    exact = name != "civr"
    # one return makes up u at the start: there is no curvature there to take a learning
    # rate from
    settings = {} if exact else {"learning_rate": 1.0}
    result = minimize(
        problem, name, far, random_state=0, max_iter=1500, tol=1e-9, **settings
    )
    assert problem.log_mean(far) > 300
    assert np.isfinite(result.loss_curve).all()
    if exact:
        best = minimize(problem, "lbfgs", tol=1e-9).fun
        assert result.fun - best < 1e-6 * abs(best)
    else:
        assert result.fun < result.loss_curve[0] - 20


@pytest.mark.parametrize(("name", "power"), [("storm-c", 2.0**18), ("civr", 2.0**7)])
def test_units_of_the_returns_do_not_matter(returns, name, power):
    R = returns[:300]
    settings = {"random_state": 0, "max_iter": 40, "tol": 0}
    one, other = (
        minimize(
            PortfolioProblem(
                factor * R,
                3 / factor,
                risk_measure="entropic",
                penalty=Simplex(),
                preconditioner="variance",
            ),
            name,
            **settings,
        )
        for factor in (1.0, power)
    )
    np.testing.assert_allclose(other.x, one.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.loss_curve / power, one.loss_curve, rtol=1e-9)


def test_wild_steps_end_or_return(returns):
    """A learning rate far too large is halved where it is automatic, and said to have
    overflowed where it is not."""
    problem = PortfolioProblem(100 * returns[:300], 1.0, risk_measure="entropic")
    automatic = minimize(problem, random_state=0)
    best = minimize(problem, "lbfgs", tol=1e-9).fun
    assert automatic.stop_reason == "converged" and automatic.fun - best < 1e-3 * (
        automatic.loss_curve[0] - best
    )
    with pytest.warns(Warning):
        wild = minimize(
            problem,
            "storm-c-paper",
            random_state=0,
            learning_rate=1e30,
            normalization=None,
            max_iter=20,
        )
    assert wild.stop_reason == "non_finite" and wild.fun == problem.objective(wild.x)
