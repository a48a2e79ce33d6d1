"""L-BFGS: bounds, l1 norms and preconditioners, the counts of its evaluations, and its ends."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import LBFGS, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import L1, Box
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem

RETURNS = make_gaussian_returns(300, 4, mean=0.3, random_state=0)
D = np.array([0.5, 2.0, 3.0, 0.25])
PENALTIES = [
    None,
    L1(0.1),
    Box(-0.05, 0.1),
    Box(-0.1, 0.2, alpha=0.1),
    Box(0.01, 0.3, alpha=0.1),
    Box(-0.3, -0.01, alpha=0.1),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_the_minimum_with_a_penalty_with_any_preconditioner(penalty):
    expected = minimize(
        PortfolioProblem(RETURNS, penalty=penalty), "storm-c", tol=1e-10
    )
    for preconditioner in (None, D, np.diag(D)) if penalty is None else (None, D):
        problem = PortfolioProblem(
            RETURNS, penalty=penalty, preconditioner=preconditioner
        )
        curve = []
        result = minimize(
            problem, "lbfgs", tol=1e-10, on_record=lambda r, c=curve: c.append(r.fun)
        )
        assert result.success
        np.testing.assert_allclose(result.x, expected.x, atol=1e-6)
        assert curve == sorted(curve, reverse=True) and result.fun == problem.objective(
            result.x
        )


def test_newton_steps_in_the_inverse_hessian():
    inverse = np.linalg.inv(2 * np.cov(RETURNS.T, bias=True))
    result = minimize(
        PortfolioProblem(RETURNS, preconditioner=inverse), "lbfgs", tol=1e-9
    )
    np.testing.assert_allclose(result.x, inverse @ RETURNS.mean(0), rtol=1e-6)
    assert result.n_iter <= 3


def test_an_evaluation_is_counted_as_a_pass():
    result = minimize(PortfolioProblem(RETURNS), "lbfgs", tol=1e-8)
    assert result.ifo[-1] == 900 * result.state.state.n_calls
    assert result.n_evaluations == dict.fromkeys(
        ("inner", "jacobian", "outer"), 300 * result.state.state.n_calls
    )


def of_x(value, slope, x0, n=40):
    """A function of x with its gradient, as a composition with g(x) = x."""
    return FiniteSumComposition(
        lambda x, j: x,
        lambda x, j: np.eye(len(x0)),
        lambda x, u, i: slope(u),
        lambda x, u: value(u),
        n,
        n,
        x0=x0,
    )


def test_a_gradient_that_is_not_finite():
    problem = of_x(
        lambda u: float(-u.sum()),
        lambda u: np.where(u > 0.5, np.nan, -1.0),
        np.zeros(2),
    )
    with pytest.warns(ConvergenceWarning, match="not finite"):
        assert minimize(problem, LBFGS()).stop_reason == "non_finite"


def test_an_objective_that_falls_ever_more_steeply():
    problem = of_x(
        lambda u: float(-(u**4).sum()), lambda u: -4 * u**3, np.array([0.1, 0.2])
    )
    with pytest.warns(ConvergenceWarning, match="unbounded below"):
        result = minimize(problem, LBFGS())
    assert (
        result.stop_reason == "max_ifo"
        and result.ifo[-1] == 3 * 40 * result.state.state.n_calls
    )
    assert np.abs(result.x).max() < 1e9


@pytest.mark.parametrize("solver", ["lbfgs", "corrected-sample"])
def test_a_start_at_the_minimum_has_converged(solver):
    def of_start(x):
        return of_x(lambda u: float(np.cosh(u - 1).sum()), lambda u: np.sinh(u - 1), x)

    # a step would lower the objective by less than its rounding error
    for start in (np.full(2, 1 + 1e-9), np.array([1 - 1e-10, 1 + 1e-10])):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            result = minimize(of_start(start), solver, random_state=0)
        assert result.success and np.allclose(result.x, 1)


def test_a_gradient_that_is_not_that_of_the_objective_is_no_used_up_budget():
    problem = of_x(lambda u: float(u @ u) / 2, lambda u: -u, np.full(2, 3.0))
    with pytest.warns(ConvergenceWarning, match="no step lowers") as caught:
        result = minimize(problem, LBFGS())
    assert result.stop_reason == "no_decrease" and len(caught) == 1
    assert result.message.startswith("No step lowered")


def test_a_distant_start_is_not_an_objective_without_a_minimum():
    problem = of_x(lambda u: float(u @ u) / 2, lambda u: u, np.full(2, 1e6))
    assert minimize(problem, LBFGS()).success
