"""Invalid arguments: an error names the parameter, the value and what is expected,
before any work is done."""

import copy
import inspect
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from argument_table import (
    ALLOWED,
    CALLED,
    CASES,
    METHODS,
    MODULES,
    WITHOUT_CASE,
    example,
    public,
)
from helpers import slow_but
from scipy.sparse import csr_array

from sk_stormc import (
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    minimize,
)
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import FiniteSource, PortfolioProblem
from sk_stormc.solvers import SCGD, SOLVERS

NAN, INF = math.nan, math.inf

# any argument of any public callable

INVALID = {
    "None": None,
    "string": "junk",
    "complex": 1 + 2j,
    "NaN": NAN,
    "inf": INF,
    "negative": -1,
    "fraction": 2.5,
    "bool": True,
    "empty": np.empty(0),
    "3-d": np.zeros((2, 2, 2)),
    "dict": {"a": 1},
    "dates": np.array(["2020-01-01"] * 3, "M8[D]"),
    "class": int,
}
SLOW = (
    "DifferentiableComposition",
    "DifferentiableLogMeanExp",
    "EmbeddingDisplay.from_estimator",
    "FrontierDisplay.from_estimator",
    "SNEEmbedding.fit",
    "check_solver",
)


PUBLIC = {name for module in MODULES for name in module.__all__} - WITHOUT_CASE.keys()
PUBLIC |= CASES.keys() | {*METHODS}


@pytest.mark.parametrize("name", slow_but(sorted(PUBLIC), *PUBLIC.difference(SLOW)))
@pytest.mark.filterwarnings(
    "ignore:.*:UserWarning", "ignore:.*:sklearn.exceptions.ConvergenceWarning"
)
def test_errors_name_the_argument(name, tmp_path, monkeypatch):
    """Each argument in turn is replaced by each value that is not allowed."""
    monkeypatch.chdir(tmp_path)
    case, mistakes = CASES[name] if name in CASES else example(name), []
    parameters = inspect.signature(public(name)).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    for argument, value in (defaults | case.given).items():
        allowed = {*case.allowed.get(argument, "").split(",")}
        allowed |= {*ALLOWED.get(argument, "").split(",")}
        allowed |= {"fraction"} if isinstance(value, float) else set()
        allowed |= {"bool"} if isinstance(value, bool) else set()
        allowed |= (
            {"None"} if value is None or defaults.get(argument, 0) is None else set()
        )
        # y is an argument that scikit-learn's interface has
        ignored = "all" in allowed or (argument == "y" and value is None)
        called = CALLED.get(argument, argument)
        for kind in () if ignored else INVALID.keys() - allowed:
            try:
                case.call(**case.given | {argument: INVALID[kind]})
            except (TypeError, ValueError) as error:
                if not re.search(rf"\b(?:{called})\b", str(error)):
                    mistakes.append(f"{argument}={kind} is not named: {error}")
            except Exception as error:
                kind_of_error = type(error).__name__
                mistakes.append(f"{argument}={kind} ends in {kind_of_error}: {error}")
            else:
                mistakes.append(f"{argument}={kind} is accepted")
    assert not mistakes, "\n" + "\n".join(mistakes)


# values out of range, by class

RETURNS = np.random.default_rng(0).normal(0.1, 1.0, (50, 5))
PROBLEM = PortfolioProblem(RETURNS)
FIVE = [0.0] * 5
NAMES = [repr(name) for name in SOLVERS]


def refused(call, *words, kind=ValueError):
    """Call and find these words in the message of the error; no problem may be
    evaluated and nothing drawn."""

    def evaluated(*args, **kwargs):
        raise AssertionError("work was done")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(kind) as error:
        for method in ("inner", "jacobian", "outer_gradient", "outer", "objective"):
            patch.setattr(PortfolioProblem, method, evaluated)
        for method in ("draw_inner", "draw_outer"):
            patch.setattr(FiniteSource, method, evaluated)
        call()
    message = str(error.value)
    assert [word for word in words if word not in message] == [] and len(message) < 1000


@pytest.fixture(scope="module")
def fitted():
    frame = pd.DataFrame(RETURNS[:, :3], columns=["a", "b", "c"])
    return CompositionalPortfolio(max_iter=3, random_state=0).fit(frame)


def refit_refused(
    fitted, words, X=RETURNS, sample_weight=None, kind=ValueError, **params
):
    """A second fit with these parameters is refused, and keeps the first; a first fit
    leaves nothing behind."""
    before = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    again, first = (
        copy.copy(fitted).set_params(**params),
        CompositionalPortfolio(**params),
    )
    refused(lambda: again.fit(X, sample_weight=sample_weight), *words, kind=kind)
    after = {name: value for name, value in vars(again).items() if name.endswith("_")}
    assert after.keys() == before.keys() and all(
        after[name] is before[name] for name in before
    )
    refused(lambda: first.fit(X, sample_weight=sample_weight), *words, kind=kind)
    assert not [name for name in vars(first) if name.endswith("_")]


PORTFOLIO = [
    ({"solver": "adam"}, ["solver", "'adam'", *NAMES]),
    ({"solver": SCGD(tol=-1)}, ["tol", "-1", ">= 0"]),
    (
        {"risk_measure": "omega"},
        ["risk_measure", "'omega'", "'variance'", "'semivariance'", "'entropic'"],
    ),
    ({"risk_aversion": 0}, ["risk_aversion", "> 0", "got 0"]),
    (
        {"constraint": "short_only"},
        ["constraint", "'short_only'", "'long_only'", "(low, high)"],
    ),
    ({"constraint": (0, 0.5, 1)}, ["constraint", "(0, 0.5, 1)", "(low, high)"]),
    ({"constraint": (0.5, 0.25)}, ["low", "high", "0.5", "0.25"]),
    ({"constraint": (FIVE, [1, 1, 1, -0.125, 1])}, ["low", "high", "-0.125", "3"]),
    ({"constraint": (0, NAN)}, ["high", "NaN"]),
    ({"constraint": (INF, INF)}, ["low", "inf"]),
    ({"constraint": ("little", 1)}, ["low", "little"]),
    ({"constraint": ([0, 0], [1, 1])}, ["low", "(5,)", "(2,)"]),
    ({"constraint": (np.zeros((1, 5)), 1)}, ["low", "(1, 5)"]),
    ({"budget": 1.0, "constraint": (0, 0.125)}, ["budget", "1.0", "0.0", "0.625"]),
    ({"budget": 1.0, "constraint": (0.25, 1)}, ["budget", "1.0", "1.25", "5.0"]),
    ({"budget": 0, "constraint": "long_only"}, ["budget", "> 0", "0"]),
    ({"l1": 0.5, "constraint": "long_only"}, ["l1", "0.5", "'long_only'"]),
    (
        {"solver": "lbfgs", "constraint": "long_only"},
        ["solver", "lbfgs", "simplex", "'storm-c'"],
    ),
    ({"solver": "lbfgs", "budget": 1.0}, ["solver", "lbfgs", "budget", "'storm-c'"]),
]


@pytest.mark.parametrize("params, words", PORTFOLIO, ids=lambda value: str(value)[:60])
def test_parameters_of_the_portfolio(fitted, params, words):
    refit_refused(fitted, words, **params)


COLUMNS = ["bonds", "gold", "oil", "shares", "timber"]
SPOILT = RETURNS.copy()
SPOILT[3, 1] = SPOILT[7, 4] = NAN
DATA = [
    (SPOILT, ["X must be finite", "NaN", "columns [1, 4]"]),
    (
        np.where(np.isnan(SPOILT), -INF, SPOILT).tolist(),
        ["X must be finite", "inf", "columns [1, 4]"],
    ),
    (pd.DataFrame(SPOILT, columns=COLUMNS), ["NaN", "columns ['gold', 'timber']"]),
    (
        pd.DataFrame(SPOILT, columns=COLUMNS).astype("Float64").replace(NAN, pd.NA),
        ["NaN", "'gold'"],
    ),
    (pl.DataFrame(SPOILT, schema=COLUMNS), ["NaN", "columns ['gold', 'timber']"]),
    (np.full((10, 300), NAN), ["NaN", "[0, 1,", "290 more"]),
    (RETURNS[:1], ["1 sample(s)", "minimum of 2"]),
    (RETURNS[0], ["1D array", "2D"]),
    (RETURNS[:, :0], ["0 feature(s)"]),
    (RETURNS[None], ["dim 3"]),
    (RETURNS[:3].astype(complex), ["Complex"]),
    ([[1.0, 2.0], [3.0]], ["inhomogeneous"]),
    (np.ma.masked_less(RETURNS, 0), ["X must have all its values", "masked"]),
]


@pytest.mark.parametrize(
    "X, words",
    DATA,
    ids=lambda value: str(value)[:40] if isinstance(value, list) else "",
)
def test_data(fitted, X, words):
    refit_refused(fitted, words, X)


DATES = np.arange("2020-01-01", "2020-02-20", dtype="M8[D]")
NO_NUMBERS = [
    (np.c_[DATES, DATES], "X must be numbers"),
    ([[day] for day in DATES], "X must be numbers"),
    (np.c_[DATES, DATES].astype(object), "X"),
    (pd.DataFrame({"day": DATES, "other": DATES}), "column 'day'"),
    (pd.DataFrame({"day": ["a", "b"] * 25}), "column 'day'"),
    (pl.DataFrame({"day": DATES.tolist()}), "column 'day'"),
]


@pytest.mark.parametrize("X, words", NO_NUMBERS, ids=range(len(NO_NUMBERS)))
def test_data_that_are_not_numbers(X, words):
    for model in (
        CompositionalPortfolio(),
        BellmanValueEstimator(),
        SNEEmbedding(perplexity=2.0, max_iter=10),
    ):
        refused(
            lambda model=model: model.fit(X, np.ones(50)),
            "X",
            words,
            kind=(TypeError, ValueError),
        )
    numbers = np.arange(50.0 * np.shape(X)[1]).reshape(50, -1)
    fit = BellmanValueEstimator().fit
    refused(
        lambda: fit(numbers, np.ones(50), next_X=X),
        "next_X",
        kind=(TypeError, ValueError),
    )


def test_data_of_other_kinds(fitted):
    refit_refused(fitted, ["parse"], csr_array(RETURNS), kind=TypeError)
    refit_refused(
        fitted,
        ["string", "names"],
        pd.DataFrame(RETURNS, columns=["a", 1, 2, 3, "b"]),
        kind=TypeError,
    )
    for method in (fitted.predict, fitted.score):
        refused(
            lambda method=method: method(
                pd.DataFrame(SPOILT[:, :3], columns=["a", "b", "c"])
            ),
            "NaN",
        )
    for returns, words in (
        (SPOILT, ["nan", "finite"]),
        (RETURNS[0], ["(5,)", "(n_periods, n_assets)"]),
    ):
        refused(lambda returns=returns: PortfolioProblem(returns), "returns", *words)
    refused(
        lambda: BellmanValueEstimator().fit(np.ones((50, 1)), DATES),
        "y must be numbers",
    )


def weights(value):
    return np.where(np.arange(50) == 7, value, 1.0)


SAMPLE_WEIGHT = [
    (np.zeros(50), ["positive entry", "zeros"]),
    (weights(-1.5), ["-1.5", ">= 0"]),
    (weights(NAN), ["nan", "finite"]),
    (weights(INF), ["inf", "finite"]),
    (np.ones(49), ["50", "49"]),
    (np.ones((50, 1)), ["50", "(50, 1)"]),
    (["heavy"] * 50, ["heavy"]),
]


@pytest.mark.parametrize("sample_weight, words", SAMPLE_WEIGHT, ids=lambda value: "")
def test_sample_weight(fitted, sample_weight, words):
    words = ["sample_weight", *words]
    refit_refused(fitted, words, sample_weight=sample_weight)
    refused(lambda: PortfolioProblem(RETURNS, sample_weight=sample_weight), *words)
    refused(
        lambda: fitted.score(
            pd.DataFrame(RETURNS[:, :3], columns=list("abc")), None, sample_weight
        ),
        *words,
    )


TRIPLE = ["triple (B_g, B_dg, B_f)"]
# parameter, values, words; of every solver that has the parameter
SOLVER_PARAMETERS = [
    ("learning_rate", [0, -1.0, [0.1]], ["> 0", "'auto'"]),
    ("precision", [0, -1.0], ["> 0", "'auto'"]),
    ("momentum", [-0.125, 1.125], [">= 0", "<= 1", "'auto'"]),
    ("momentum", [(0, 0), (0, 0, 0, 0)], ["(a_g, a_dg, a_Phi)"]),
    ("momentum", [(0, 0, 2), [-1, 0, 0]], []),
    ("batch_size", [0, -1, 8.0], ["integer >= 1", "None", "'auto'"]),
    ("batch_size", [(1, 2), (1, 2, 3, 4), []], TRIPLE),
    ("batch_size", [(1, 0, 1), (1, 2, 3.0), (1, "auto", 3)], ["integer >= 1"]),
    ("init_batch_size", [0, (1, 2, -1)], ["integer >= 1"]),
    ("init_batch_size", [(1, 2)], TRIPLE),
    ("checkpoint_batch_size", [0, -1], ["integer >= 1", "None"]),
    ("checkpoint_batch_size", [(1, 2)], TRIPLE),
    ("epoch_length", [0, -1], ["integer >= 1", "'auto'"]),
    ("beta", [0, -0.5, 1.5], ["> 0", "<= 1", "'auto'"]),
    ("exponents", [-1, (-1,), (-1, 0.5)], ["<= 0"]),
    ("memory", [0, -1], ["integer >= 1"]),
    ("rank", [0, -1], ["integer >= 1"]),
    ("max_iter", [0, -1, 2.0], ["integer >= 1", "None"]),
    ("max_ifo", [0, -1, 1e5], ["integer >= 1", "None"]),
    ("tol", [-1e-3, INF], [">= 0"]),
    ("anchor", [0, -1], ["integer >= 1", "None"]),
    ("normalization", ["each", 1], ["'global'", "'block'", "None"]),
    ("output", ["best", 1], ["'last'", "'random'"]),
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_parameters_of_the_solver(solver):
    parameters = SOLVERS[solver]().get_params()
    for name, values, words in SOLVER_PARAMETERS:
        for value in values if name in parameters else []:
            shown = [] if isinstance(value, (tuple, list)) else [repr(value)]
            refused(
                lambda name=name, value=value: minimize(
                    PROBLEM, solver, **{name: value}
                ),
                name,
                *shown,
                *words,
            )
    refused(lambda: minimize(PROBLEM, solver, stepsize=0.1), "stepsize", "max_iter")
    starts = (
        (np.ones(4), ["(5,)", "(4,)"]),
        (1.0, ["(5,)", "()"]),
        ([1, 2, NAN, 4, 5], ["finite", "nan", "2"]),
    )
    for x0, words in starts:
        refused(lambda x0=x0: minimize(PROBLEM, solver, x0=x0), "x0", *words)
    for value in (0, 2.5, "often", True):
        refused(
            lambda value=value: minimize(PROBLEM, solver, record_every=value),
            "record_every",
            repr(value),
        )


@pytest.mark.parametrize("solver", SOLVERS)
def test_state_of_another_run(solver):
    other = "scgd" if solver in ("asc-pg", "acc-scgd") else "asc-pg"
    foreign, own = (
        minimize(PROBLEM, name, max_iter=2, random_state=0) for name in (other, solver)
    )
    kinds = [type(SOLVERS[name]()).__name__ for name in (solver, other)]
    refused(lambda: minimize(PROBLEM, solver, state=foreign.state), "state", *kinds)
    refused(
        lambda: minimize(PROBLEM, solver, state=own),
        "state",
        kinds[0],
        "SolverResult",
        "give its state",
    )
    fewer, semi = (
        PortfolioProblem(RETURNS[:, :3]),
        PortfolioProblem(RETURNS, risk_measure="semivariance"),
    )
    refused(lambda: minimize(fewer, solver, state=own.state), "state", "5", "3")
    refused(
        lambda: minimize(semi, solver, state=own.state),
        "state must come from a run on",
        "semivariance",
    )


def test_problems_that_a_solver_cannot_take():
    for penalty in (Simplex(), Box(0, 1, budget=1.0)):
        problem, kind = (
            PortfolioProblem(RETURNS, penalty=penalty),
            type(penalty).__name__,
        )
        refused(
            lambda p=problem: minimize(p, "lbfgs"),
            "lbfgs",
            "budget",
            "simplex",
            kind,
            "'storm-c'",
        )
    for solver in SOLVERS:
        short = PortfolioProblem(RETURNS, penalty=Box([0, 0], [1, 1]))
        refused(lambda s=solver, p=short: minimize(p, s), "low", "(5,)", "(2,)")
        unreachable = PortfolioProblem(RETURNS, penalty=Box(0, 0.1, budget=1))
        refused(lambda s=solver, p=unreachable: minimize(p, s), "budget")
        if solver != "storm-c-paper":  # which ignores a preconditioner
            dense = PortfolioProblem(RETURNS, penalty=L1(0.1), preconditioner=np.eye(5))
            refused(
                lambda s=solver, p=dense: minimize(p, s),
                "penalty",
                "preconditioner",
                "diagonal",
            )
    refused(lambda: minimize(RETURNS), "problem", "ndarray", "PortfolioProblem")
    refused(lambda: minimize(PROBLEM, SCGD), "got the class: give an instance, SCGD()")
