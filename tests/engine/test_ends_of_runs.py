"""Warnings about the end of a run."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SCGD, CompositionalPortfolio, STORMCompositional, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine.diagnostics import warn_of_the_end
from sk_stormc.engine.results import RunState
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem
from sk_stormc.solvers import StopReason

RETURNS = make_gaussian_returns(2000, 6, mean=0.3, random_state=5)


def warn_of(fun, curve, tol=1e-6, dtype=float):
    """Make the warnings of a run with these recorded values, which a callback ended at
    ``fun``."""
    result = SimpleNamespace(
        x=np.zeros(2, dtype),
        fun=fun,
        loss_curve=np.array(curve),
        n_iter=5,
        stop_reason=StopReason.CALLBACK,
    )
    warn_of_the_end(
        SCGD(tol=tol),
        SimpleNamespace(problem=None),
        result,
        comparable=True,
        unlimited=False,
    )


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1.0), (np.float64, -1e-6)])
def test_an_end_above_the_start_unless_it_is_rounding(size, dtype, recwarn):
    unit = float(np.finfo(dtype).eps) * abs(size)
    warn_of(size + 4 * unit, [size, size], dtype=dtype)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="above the start's"):
        warn_of(size + 16 * unit, [size, size], dtype=dtype)


@pytest.mark.parametrize(("tol", "part"), [(1e-6, 1e-4), (0.1, 0.1)])
def test_an_end_above_a_recorded_point_by_a_notable_part_of_the_decrease(
    tol, part, recwarn
):
    start, best = 5.0, 3.0
    warn_of(best + 0.9 * part * (start - best), [start, best], tol)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="above one that it had recorded, 3"):
        warn_of(best + 1.1 * part * (start - best), [start, best, 4.0], tol)


def test_a_stream_that_ends_above_its_start_beyond_chance(recwarn):
    def warn_if(uphill, excesses=()):
        source = SimpleNamespace(uphill=lambda x, start: uphill, instead="more rows")
        oracle = SimpleNamespace(
            source=source, problem=SimpleNamespace(objective=lambda x: 1.0)
        )
        ended = {
            "x": np.ones(1),
            "fun": 2.0,
            "n_iter": 5,
            "stop_reason": StopReason.EXHAUSTED,
        }
        state = RunState("SCGD", start=np.zeros(1), excesses=list(excesses))
        result = SimpleNamespace(**ended, state=state)
        warn_of_the_end(SCGD(), oracle, result, comparable=False, unlimited=False)

    warn_if(uphill=False)
    assert not recwarn
    with pytest.warns(
        ConvergenceWarning,
        match="is above the start's .* last rows it is 2, and .* start 1.*more rows",
    ):
        warn_if(uphill=True)
    # of the records in the second half, of which one alone is not enough
    for excesses in ([9.0, 9.0, 0.0, 5.0], [4.4], [8.0, 8.0, -1.0, 2.0]):
        recwarn.clear()
        warn_if(uphill=False, excesses=excesses)
        assert not recwarn
    with pytest.warns(ConvergenceWarning, match="on average over its last records"):
        warn_if(uphill=False, excesses=[-5.0, -3.0, 2.5, 4.0])


def test_a_start_at_the_minimum_is_said_once():
    problem = PortfolioProblem(RETURNS)
    minimum = minimize(problem, "lbfgs", tol=1e-12).x
    with pytest.warns(ConvergenceWarning, match="above the start's") as said:
        minimize(problem, "scgd", minimum, random_state=0, max_iter=200)
    assert len(said) == 1  # and not that a larger budget would help


def test_a_budget_below_the_cost_of_the_start():
    problem = PortfolioProblem(RETURNS)
    with pytest.warns(
        ConvergenceWarning,
        match="made no iteration .* max_ifo=1 .* Raise max_ifo to at least",
    ) as said:
        result = minimize(problem, max_ifo=1, random_state=0)
    message = str(said[0].message)
    assert result.n_iter == 0 and f"the start took {result.ifo[-1]} IFO" in message
    enough = int(message.split()[-1].rstrip("."))
    assert minimize(problem, max_ifo=enough, tol=0, random_state=0).n_iter == 1


@pytest.mark.parametrize(("dtype", "n_iter"), [(np.float64, 7), (np.float32, 4)])
def test_a_gradient_of_1_over_eps_times_the_first_is_an_overflow(dtype, n_iter):
    """Each step multiplies the gradient by -1000. The first one stays the scale, also
    where a run continues."""
    returns = RETURNS[:, :1].astype(dtype)
    problem = PortfolioProblem(returns, np.inf)
    solver = STORMCompositional(
        learning_rate=1001 / (2 * float(returns.var())), batch_size=None, tol=0
    )
    whole = minimize(problem, solver, np.ones(1), max_iter=100, random_state=0)
    assert (whole.stop_reason, whole.n_iter) == ("non_finite", n_iter) and whole.x == 1
    for k in range(1, n_iter):
        part = minimize(problem, solver, np.ones(1), max_iter=k, random_state=0)
        rest = minimize(problem, solver, state=part.state, max_iter=100)
        assert (part.stop_reason, rest.stop_reason, rest.n_iter) == (
            "max_iter",
            "non_finite",
            n_iter,
        )


def test_a_fit_warns_once():
    with pytest.warns(ConvergenceWarning, match="made no iteration") as said:
        CompositionalPortfolio(SCGD(max_ifo=10), random_state=0).fit(RETURNS)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("budget", "advice"),
    [
        ({"max_iter": 5}, "Raise max_iter or tol"),
        ({}, "Raise max_iter or max_ifo or tol"),
    ],
)
def test_a_warning_names_the_budget_that_was_set(budget, advice):
    with pytest.warns(ConvergenceWarning, match=advice):
        CompositionalPortfolio(SCGD(learning_rate=1e-5, **budget), random_state=0).fit(
            RETURNS[:400]
        )


@pytest.mark.parametrize(
    ("budget", "warns"),
    [
        ({}, True),
        ({"max_iter": 50}, False),
        ({"max_ifo": 5000}, False),
    ],
)
def test_minimize_warns_if_its_default_budget_ends_before_tol(budget, warns):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = minimize(
            PortfolioProblem(RETURNS[:60]), "scgd", random_state=0, tol=1e-9, **budget
        )
    assert result.stop_reason in ("max_iter", "max_ifo")
    told = [
        str(w.message)
        for w in found
        if "has not converged: its budget ended" in str(w.message)
    ]
    assert len(told) == warns
    if warns:
        assert issubclass(found[-1].category, ConvergenceWarning)
        assert (
            f"{result.ifo[-1]} IFO" in told[0]
            and "tol=1e-09" in told[0]
            and f"{result.residual:.2g}" in told[0]
        )


@pytest.mark.parametrize(
    ("name", "away"), [("storm-c", 1e8), ("sarah-c", 1e4), ("lbfgs", 1e8)]
)
def test_a_start_so_far_away_that_tol_is_met_above_the_minimum(name, away):
    problem = PortfolioProblem(RETURNS)
    with pytest.warns(ConvergenceWarning, match="x0, which is far away"):
        far = minimize(problem, name, x0=np.full(6, away), random_state=0)
    # which is Phi at the problem's own start
    assert not far.success and far.stop_reason == "converged" and far.fun > 0


@pytest.mark.parametrize("mean", [0.3, 0.0])
def test_no_warning_after_ordinary_starts(mean, recwarn):
    """With mean 0 the problem's own start is a minimum, and runs from any other start
    end above it."""
    R = make_gaussian_returns(2000, 6, mean=0.3, random_state=5)
    problem = PortfolioProblem(R if mean else R - R.mean(axis=0))
    for name in ("storm-c", "sarah-c", "lbfgs", "sketchy-storm"):
        for seed, size in enumerate((1e-3, 10.0)):
            x0 = size * np.random.default_rng(seed).standard_normal(6)
            assert minimize(problem, name, x0=x0, random_state=seed).success
    assert not recwarn


def log_of_mean(floor):
    """The logarithm of the mean of (x - a_j)^2 + 0.1, of which the least value is about
    0.1."""
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


def test_a_floor_above_g(recwarn):
    assert minimize(log_of_mean(0.0), max_iter=200, random_state=0).success
    assert not recwarn
    with pytest.warns(
        ConvergenceWarning,
        match=r"inner_floor=0\.5, where 1 entries of g\(x\).* are below it",
    ):
        minimize(log_of_mean(0.5), max_iter=200, random_state=0)
