"""Which ends of a run are worth a warning: those above the start, or above a recorded point by a notable part."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SCGD, CompositionalPortfolio, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine.diagnostics import falls_for_ever, warn_of_the_end
from sk_stormc.penalties import Box
from sk_stormc.problems import Advice, FiniteSumComposition, PortfolioProblem
from sk_stormc.solvers import StopReason

RETURNS = make_gaussian_returns(2000, 6, mean=0.3, random_state=5)


def told(fun, curve, tol=1e-6, dtype=float):
    """What is said of a run with these recorded values, which a callback ended at ``fun``."""
    result = SimpleNamespace(
        x=np.zeros(2, dtype), fun=fun, loss_curve=np.array(curve), n_iter=5, stop_reason=StopReason.CALLBACK
    )
    warn_of_the_end(SCGD(tol=tol), SimpleNamespace(problem=None), result, comparable=True, unlimited=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, -1.0, 1e6, -1e-6])
def test_an_end_above_the_start_is_told_unless_it_is_rounding(size, dtype, recwarn):
    unit = float(np.finfo(dtype).eps) * abs(size)
    told(size + 4 * unit, [size, size], dtype=dtype)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="above the start's"):
        told(size + 16 * unit, [size, size], dtype=dtype)


@pytest.mark.parametrize(("tol", "part"), [(1e-6, 1e-4), (0.1, 0.1)])
def test_an_end_above_a_recorded_point_is_told_where_it_is_a_notable_part_of_the_way(tol, part, recwarn):
    start, best = 5.0, 3.0
    told(best + 0.9 * part * (start - best), [start, best], tol)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="above one that it had recorded, 3"):
        told(best + 1.1 * part * (start - best), [start, best, 4.0], tol)


def falls(objective, way=1.0, penalty=None):
    """Whether the objective is said to fall for ever by a run that came from 3 to 3 + way."""
    problem = SimpleNamespace(advice=Advice(), penalty=penalty, objective=objective)
    x = np.array([3.0 + way])
    return falls_for_ever(problem, SimpleNamespace(milestones=(np.array([3.0]), x)), x, objective(x))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_whether_an_objective_falls_for_ever_does_not_depend_on_its_unit(unit):
    assert falls(lambda x: -unit * x[0])
    assert not falls(lambda x: -unit * np.tanh(x[0]))
    assert not falls(lambda x: unit * (1e-9 * x[0] ** 2 - x[0]))  # turns up a thousand million steps away
    assert not falls(lambda x: -unit * x[0], way=5e-15)  # rounding
    assert not falls(lambda x: -unit * x[0], penalty=Box(0, 1000))


def test_a_run_too_short_to_have_been_anywhere_says_nothing_of_what_is_far():
    problem = SimpleNamespace(advice=Advice(), penalty=None, objective=lambda x: -x[0])
    assert not falls_for_ever(problem, SimpleNamespace(milestones=(None, None)), np.ones(1), -1.0)


def test_a_budget_that_does_not_pay_for_the_start_is_told_with_what_it_takes():
    problem = PortfolioProblem(RETURNS)
    with pytest.warns(ConvergenceWarning, match="made no iteration .* max_ifo=1 .* Raise max_ifo to at least") as said:
        result = minimize(problem, max_ifo=1, random_state=0)
    message = str(said[0].message)
    assert result.n_iter == 0 and f"the start took {result.ifo[-1]} IFO" in message
    enough = int(message.split()[-1].rstrip("."))
    assert minimize(problem, max_ifo=enough, tol=0, random_state=0).n_iter == 1


def test_a_fit_says_it_once():
    with pytest.warns(ConvergenceWarning, match="made no iteration") as said:
        CompositionalPortfolio(SCGD(max_ifo=10), random_state=0).fit(RETURNS)
    assert len(said) == 1


@pytest.mark.parametrize("name", ["storm-c", "sarah-c", "lbfgs"])
@pytest.mark.parametrize("away", [1e4, 1e8])
def test_a_start_far_away_does_not_converge_far_above_the_minimum_in_silence(name, away):
    problem = PortfolioProblem(RETURNS)
    with pytest.warns(ConvergenceWarning, match="x0, which is far away"):
        far = minimize(problem, name, x0=np.full(6, away), random_state=0)
    assert far.success and far.fun > 0  # which is Phi at the problem's own start


@pytest.mark.parametrize("name", ["storm-c", "sarah-c", "lbfgs", "sketchy-storm"])
@pytest.mark.parametrize("mean", [0.3, 0.0])
def test_ordinary_starts_are_no_cause_for_a_warning(name, mean, recwarn):
    """Without a mean the problem's own start is a minimum, and any other start ends above it."""
    R = make_gaussian_returns(2000, 6, mean=0.3, random_state=5)
    problem = PortfolioProblem(R if mean else R - R.mean(axis=0))
    for seed in range(4):
        for size in (1e-3, 1.0, 10.0):
            x0 = size * np.random.default_rng(seed).standard_normal(6)
            assert minimize(problem, name, x0=x0, random_state=seed).success
    assert not recwarn


def log_of_mean(floor):
    """The logarithm of the mean of (x - a_j)^2 + 0.1, of which the least value is about 0.1."""
    a = 0.01 * np.random.default_rng(0).standard_normal(50)
    return FiniteSumComposition(
        lambda x, j: np.mean((x - a[j]) ** 2 + 0.1, keepdims=True),
        lambda x, j: np.mean(2 * (x - a[j]), keepdims=True)[None],
        lambda x, u, i: (None, 1 / u),
        lambda x, u: float(np.log(u[0])),
        50,
        1,
        x0=np.ones(1),
        inner_floor=floor,
    )


def test_a_floor_above_g_is_the_reason_that_is_given_for_a_wrong_gradient(recwarn):
    assert minimize(log_of_mean(0.0), max_iter=200, random_state=0).success
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match=r"inner_floor=0\.5, where 1 entries of g\(x\).* are below it"):
        minimize(log_of_mean(0.5), max_iter=200, random_state=0)
