"""Bad input and bad runs: each is told in words, before any work is done, and nothing already fitted is lost."""

import contextlib
import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import few_of, slow_but
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import (
    ASCPG,
    CIVR,
    LBFGS,
    SCGD,
    SCVR,
    VRSCPG,
    CompositionalPortfolio,
    SARAHCompositional,
    STORMCompositional,
    minimize,
)
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import FiniteSource, FiniteSumComposition, PortfolioProblem
from sk_stormc.solvers import SOLVERS, SolverResult

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning", "error::DeprecationWarning")

NAN, INF = math.nan, math.inf
STOCHASTIC = [name for name in SOLVERS if name != "lbfgs"]


def make_returns(n=50, d=5, seed=0, mean=0.1):
    return np.random.default_rng(seed).normal(mean, 1.0, (n, d))


@pytest.fixture
def no_work(monkeypatch):
    """A context in which no problem may be evaluated."""

    @contextlib.contextmanager
    def watch():
        def refuse(*args, **kwargs):
            raise AssertionError("work was done")

        with monkeypatch.context() as patch:
            for method in ("inner", "jacobian", "outer_gradient", "outer", "objective"):
                patch.setattr(PortfolioProblem, method, refuse)
            for method in ("draw_inner", "draw_outer"):
                patch.setattr(FiniteSource, method, refuse)
            yield

    return watch


def check_message(error, *words):
    """The words are in the message, which is short."""
    message = str(error.value)
    for word in words:
        assert word in message
    assert len(message) < 1000


def check_refused(no_work, words, X=None, sample_weight=None, expected=ValueError, **params):
    """fit raises with these words, does no work, and leaves an earlier fit as it was."""
    X = make_returns() if X is None else X
    portfolio = CompositionalPortfolio(max_iter=3, random_state=0)
    portfolio.fit(pd.DataFrame(make_returns(40, 3), columns=["a", "b", "c"]))
    fitted = {name: value for name, value in vars(portfolio).items() if name.endswith("_")}
    before = pickle.dumps(fitted)
    portfolio.set_params(**params)
    with no_work(), pytest.raises(expected) as error:
        portfolio.fit(X, sample_weight=sample_weight)
    check_message(error, *words)
    after = {name: value for name, value in vars(portfolio).items() if name.endswith("_")}
    assert after.keys() == fitted.keys() >= {"weights_", "n_features_in_", "feature_names_in_"}
    assert all(after[name] is fitted[name] for name in fitted)
    assert pickle.dumps(after) == before


# --- returns -------------------------------------------------------------------------------------------


def spoilt(value):
    X = make_returns()
    X[3, 1] = X[7, 4] = value
    return X


QUICK = ("storm-c", "lbfgs", "scgd")
SOME = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in SOLVERS]


@pytest.mark.parametrize("value, word", [(NAN, "NaN"), (INF, "inf"), (-INF, "inf")])
@pytest.mark.parametrize("kind", ["array", "float32", "list", "pandas", "pandas, numbered", "polars"])
def test_returns_that_are_not_finite_are_named(no_work, kind, value, word):
    names = ["bonds", "gold", "oil", "shares", "timber"]
    X = {
        "array": lambda X: X,
        "float32": lambda X: X.astype(np.float32),
        "list": np.ndarray.tolist,
        "pandas": lambda X: pd.DataFrame(X, columns=names),
        "pandas, numbered": pd.DataFrame,
        "polars": lambda X: pl.DataFrame(X, schema=names),
    }[kind](spoilt(value))
    wrong = ["'gold'", "'timber'"] if kind in ("pandas", "polars") else ["1", "4"]
    check_refused(no_work, ["X must be finite", word, f"columns [{wrong[0]}, {wrong[1]}]"], X)


def test_many_columns_that_are_not_finite_are_counted(no_work):
    X = np.full((10, 300), NAN)
    check_refused(no_work, ["NaN", "[0, 1,", "290 more"], X)


def test_missing_values_of_pandas_are_named(no_work):
    X = pd.DataFrame(make_returns(), columns=list("abcde")).astype("Float64")
    X.loc[2, "d"] = pd.NA
    check_refused(no_work, ["NaN", "'d'"], X)


@pytest.mark.parametrize(
    "X, words",
    [
        (make_returns(1), ["1 sample(s)", "minimum of 2"]),
        (make_returns()[0], ["1D array", "2D"]),
        (make_returns()[:0], ["0 sample(s)"]),
        (make_returns()[:, :0], ["0 feature(s)"]),
        (make_returns()[None], ["dim 3"]),
        (0.5, ["scalar", "2D"]),
        (make_returns().astype(complex)[:3], ["Complex"]),
        ([["high", "low"], ["low", "high"]], ["high"]),
        ([[1.0, 2.0], [3.0]], ["inhomogeneous"]),
    ],
)
def test_returns_of_the_wrong_shape_or_kind(no_work, X, words):
    check_refused(no_work, words, X)


def test_sparse_returns(no_work):
    sparse = pytest.importorskip("scipy.sparse").csr_array(make_returns())
    check_refused(no_work, ["parse"], sparse, expected=TypeError)


def test_column_names_of_mixed_types(no_work):
    X = pd.DataFrame(make_returns(), columns=["a", 1, 2, 3, "b"])
    check_refused(no_work, ["string", "names"], X, expected=TypeError)


@pytest.mark.parametrize("method", ["predict", "score"])
def test_new_returns_that_are_not_finite(method):
    portfolio = CompositionalPortfolio(max_iter=3).fit(make_returns())
    for value, word in ((NAN, "NaN"), (INF, "infinity")):
        with pytest.raises(ValueError, match=word):
            getattr(portfolio, method)(spoilt(value))


@pytest.mark.parametrize(
    "returns, words",
    [
        (spoilt(NAN), ["returns", "nan", "finite"]),
        (spoilt(INF), ["returns", "inf", "finite"]),
        (make_returns()[0], ["returns", "(5,)", "(n_periods, n_assets)"]),
        (make_returns()[:0], ["returns", "(0, 5)"]),
        (make_returns()[None], ["returns", "(1, 50, 5)"]),
    ],
)
def test_returns_of_a_problem(returns, words):
    with pytest.raises(ValueError) as error:
        PortfolioProblem(returns)
    check_message(error, *words)


# --- sample_weight -------------------------------------------------------------------------------------


def weights(**at):
    w = np.ones(50)
    for index, value in at.items():
        w[int(index[1:])] = value
    return w


@pytest.mark.parametrize(
    "sample_weight, words",
    [
        (np.zeros(50), ["zero"]),
        (weights(_7=-1.5), ["-1.5", ">= 0"]),
        (weights(_7=NAN), ["nan", "finite"]),
        (weights(_7=INF), ["inf", "finite"]),
        (np.ones(49), ["50", "49"]),
        (np.ones((50, 1)), ["50", "(50, 1)"]),
        (np.ones(51).tolist(), ["50", "51"]),
        (2.0, ["50"]),
        (["heavy"] * 50, ["heavy"]),
        ([None] * 50, []),
    ],
    ids=str,
)
def test_sample_weight(no_work, sample_weight, words):
    check_refused(no_work, ["sample_weight", *words], sample_weight=sample_weight)
    with pytest.raises(ValueError) as error:
        PortfolioProblem(make_returns(), sample_weight=sample_weight)
    check_message(error, "sample_weight", *words)
    portfolio = CompositionalPortfolio(max_iter=3).fit(make_returns())
    with pytest.raises(ValueError) as error:
        portfolio.score(make_returns(), sample_weight=sample_weight)
    check_message(error, "sample_weight", *words)


# --- the estimator's parameters ------------------------------------------------------------------------

KNOWN = [repr(name) for name in SOLVERS]
FIVE = [0.0] * 5

PARAMETERS = [
    ({"solver": "adam"}, ["solver", "'adam'", *KNOWN]),
    ({"solver": "STORM-C"}, ["solver", "'STORM-C'", *KNOWN]),
    ({"solver": None}, ["solver", "None", *KNOWN]),
    ({"solver": 3}, ["solver", "3", *KNOWN]),
    ({"solver": STORMCompositional}, ["solver", "STORMCompositional", *KNOWN]),
    ({"risk_measure": "omega"}, ["risk_measure", "'omega'", "'variance'", "'semivariance'", "'entropic'"]),
    ({"risk_measure": None}, ["risk_measure", "None", "'entropic'"]),
    ({"risk_aversion": 0}, ["risk_aversion", "> 0", "got 0"]),
    ({"risk_aversion": -2.5}, ["risk_aversion", "> 0", "-2.5"]),
    ({"risk_aversion": NAN}, ["risk_aversion", "finite", "nan"]),
    ({"risk_aversion": -INF}, ["risk_aversion", "finite", "inf"]),
    ({"risk_aversion": "high"}, ["risk_aversion", "number", "'high'"]),
    ({"risk_aversion": None}, ["risk_aversion", "number", "None"]),
    ({"constraint": "short_only"}, ["constraint", "'short_only'", "'long_only'", "(low, high)"]),
    ({"constraint": 0.5}, ["constraint", "0.5", "(low, high)"]),
    ({"constraint": (0, 0.5, 1)}, ["constraint", "(0, 0.5, 1)", "(low, high)"]),
    ({"constraint": (0,)}, ["constraint", "(0,)", "(low, high)"]),
    ({"constraint": (0.5, 0.25)}, ["low", "high", "0.5", "0.25"]),
    ({"constraint": (FIVE, [1, 1, 1, -0.125, 1])}, ["low", "high", "-0.125", "3"]),
    ({"constraint": (NAN, 1)}, ["low", "NaN"]),
    ({"constraint": (0, NAN)}, ["high", "NaN"]),
    ({"constraint": (INF, INF)}, ["low", "inf"]),
    ({"constraint": (-INF, -INF)}, ["high", "inf"]),
    ({"constraint": ("little", 1)}, ["low", "little"]),
    ({"constraint": (None, 1)}, ["low", "None"]),
    ({"constraint": ([0, 0], [1, 1])}, ["low", "(5,)", "(2,)"]),
    ({"constraint": (FIVE[1:], [1] * 5)}, ["low", "high", "(4,)", "(5,)"]),
    ({"constraint": (np.zeros((1, 5)), 1)}, ["low", "(1, 5)"]),
    ({"budget": NAN}, ["budget", "finite", "nan"]),
    ({"budget": INF}, ["budget", "finite", "inf"]),
    ({"budget": "all"}, ["budget", "number", "'all'"]),
    ({"budget": 1.0, "constraint": (0, 0.125)}, ["budget", "1.0", "0.0", "0.625"]),
    ({"budget": 1.0, "constraint": (0.25, 1)}, ["budget", "1.0", "1.25", "5.0"]),
    ({"budget": 0, "constraint": "long_only"}, ["budget", "> 0", "0"]),
    ({"budget": -1, "constraint": "long_only"}, ["budget", "> 0", "-1"]),
    ({"l1": -0.5}, ["l1", ">= 0", "-0.5"]),
    ({"l1": NAN}, ["l1", "finite", "nan"]),
    ({"l1": INF}, ["l1", "finite", "inf"]),
    ({"l1": None}, ["l1", "number", "None"]),
    ({"l1": 0.5, "constraint": "long_only"}, ["l1", "0.5", "'long_only'"]),
    ({"max_iter": 0}, ["max_iter", ">= 1", "got 0"]),
    ({"max_iter": 2.0}, ["max_iter", "integer", "2.0"]),
    ({"max_iter": "many"}, ["max_iter", "integer", "'many'"]),
    ({"tol": -1e-3}, ["tol", ">= 0", "-0.001"]),
    ({"tol": NAN}, ["tol", "finite", "nan"]),
    ({"tol": "tight"}, ["tol", "number", "'tight'"]),
    ({"random_state": "seed"}, ["'seed'", "seed"]),
    ({"warm_start": 2}, ["warm_start", "True or False", "2"]),
    ({"solver": "lbfgs", "constraint": "long_only"}, ["solver", "lbfgs", "simplex", "'storm-c'"]),
    ({"solver": "lbfgs", "budget": 1.0}, ["solver", "lbfgs", "budget", "'storm-c'"]),
    ({"solver": LBFGS(), "budget": 1.0, "constraint": (0, 1)}, ["lbfgs", "budget", "'storm-c'"]),
]


@pytest.mark.parametrize("params, words", PARAMETERS, ids=lambda value: str(value)[:60])
def test_parameters_of_the_estimator(no_work, params, words):
    check_refused(no_work, words, **params)


def test_the_first_fit_leaves_nothing_behind_when_it_is_refused(no_work):
    for params, _ in PARAMETERS:
        portfolio = CompositionalPortfolio(**params)
        with pytest.raises(ValueError):
            portfolio.fit(make_returns())
        assert not [name for name in vars(portfolio) if name.endswith("_")]


# --- the solvers' parameters ---------------------------------------------------------------------------

EVERY = tuple(SOLVERS.values())
STORM = (STORMCompositional, SOLVERS["storm-c-paper"])
EPOCHS = (SARAHCompositional, CIVR, VRSCPG, SCVR)
AVERAGING = (SCGD, SOLVERS["acc-scgd"], ASCPG)
SAMPLING = (SOLVERS["storm-c"], *STORM) + EPOCHS + AVERAGING

SOLVER_PARAMETERS = [
    (SAMPLING, "learning_rate", [0, -1.0, NAN, INF, "fast", None, True, [0.1]], ["> 0", "'auto'"]),
    (STORM, "precision", [0, -1.0, NAN, "fine", None], ["> 0", "'auto'"]),
    ((CIVR,), "precision", [0, -1.0, NAN, INF, "fine", True], ["> 0", "'auto'", "None"]),
    (STORM, "momentum", [-0.125, 1.125, NAN, "much", None], [">= 0", "<= 1", "'auto'"]),
    (STORM, "momentum", [(0, 0), (0,), (0, 0, 0, 0)], ["(a_g, a_dg, a_Phi)"]),
    (SAMPLING, "batch_size", [0, -1, 2.5, 8.0, "some", True], ["integer >= 1", "None", "'auto'"]),
    (SAMPLING, "batch_size", [(1, 2), (1,), (1, 2, 3, 4), []], ["triple (B_g, B_dg, B_f)"]),
    (STORM, "init_batch_size", [0, -1, 2.5, "some"], ["integer >= 1", "None"]),
    (STORM, "init_batch_size", [(1, 2)], ["triple (B_g, B_dg, B_f)"]),
    (EPOCHS, "checkpoint_batch_size", [0, -1, 2.5, "some"], ["integer >= 1", "None"]),
    (EPOCHS, "checkpoint_batch_size", [(1, 2)], ["triple (B_g, B_dg, B_f)"]),
    (EPOCHS, "epoch_length", [0, -1, 2.5, None, "long"], ["integer >= 1", "'auto'"]),
    (AVERAGING, "beta", [0, -0.5, 1.5, NAN, "slow", None], ["> 0", "<= 1", "'auto'"]),
    (AVERAGING, "exponents", [-1, (-1,), (-1, 0.5), (-1, "x"), None], ["<= 0"]),
    ((LBFGS,), "memory", [0, -1, 2.5, None, "long"], ["integer >= 1"]),
    (EVERY, "max_iter", [0, -1, 2.0, "many"], ["integer >= 1", "None"]),
    (EVERY, "max_ifo", [0, -1, 1e5, "many"], ["integer >= 1", "None"]),
    (EVERY, "tol", [-1e-3, NAN, INF, None, "tight"], [">= 0"]),
    (STORM, "anchor", [0, -1, 2.5, "never", True], ["integer >= 1", "None"]),
    (STORM, "normalization", ["each", 1, True], ["'global'", "'block'", "None"]),
    (STORM, "output", ["best", None, 1], ["'last'", "'random'"]),
]
SOLVER_CASES = [
    pytest.param(solver, name, values, words, id=f"{solver.__name__}-{name}-{k}")
    for k, (solvers, name, values, words) in enumerate(SOLVER_PARAMETERS)
    for solver in solvers
]


@pytest.mark.parametrize("solver, name, values, words", SOLVER_CASES)
def test_parameters_of_the_solvers(no_work, solver, name, values, words):
    problem = PortfolioProblem(make_returns())
    for value in values:
        with no_work(), pytest.raises(ValueError) as error:
            minimize(problem, solver(), **{name: value})
        check_message(error, name, repr(value), *words)
        with no_work(), pytest.raises(ValueError) as error:
            minimize(problem, solver(**{name: value}))
        check_message(error, name, repr(value), *words)


@pytest.mark.parametrize(
    "name, value, wrong, words",
    [
        ("momentum", (0, 0, 2), "2", ["<= 1"]),
        ("momentum", (0, "x", 0), "'x'", ["number"]),
        ("momentum", [-1, 0, 0], "-1", [">= 0"]),
        ("batch_size", (1, 0, 1), "0", ["integer >= 1"]),
        ("batch_size", (1, 2, 3.0), "3.0", ["integer >= 1"]),
        ("batch_size", (1, "auto", 3), "'auto'", ["integer >= 1"]),
        ("init_batch_size", (1, 2, -1), "-1", ["integer >= 1"]),
    ],
)
def test_one_wrong_value_of_three(no_work, name, value, wrong, words):
    with no_work(), pytest.raises(ValueError) as error:
        minimize(PortfolioProblem(make_returns()), STORMCompositional(), **{name: value})
    check_message(error, name, f"got {wrong}", *words)


@pytest.mark.parametrize("name", SOLVERS)
def test_solver_parameters_are_checked_through_the_estimator(no_work, name):
    solver = SOLVERS[name]()
    check_refused(no_work, ["max_ifo", "got 0", ">= 1"], solver=solver, solver__max_ifo=0)
    check_refused(no_work, ["tol", "-1", ">= 0"], solver=name, solver__tol=-1)


@pytest.mark.parametrize("name", SOLVERS)
def test_unknown_solver_parameters(no_work, name):
    with no_work(), pytest.raises(ValueError) as error:
        minimize(PortfolioProblem(make_returns()), name, stepsize=0.1)
    check_message(error, "stepsize", "max_iter")


# --- what solve is given -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "x0, words",
    [
        (np.ones(4), ["(5,)", "(4,)"]),
        (np.ones((5, 1)), ["(5,)", "(5, 1)"]),
        (1.0, ["(5,)", "()"]),
        ([1, 2, NAN, 4, 5], ["finite", "nan", "2"]),
        ([1, 2, 3, INF, 5], ["finite", "inf", "3"]),
        (["one"] * 5, ["one"]),
    ],
    ids=str,
)
def test_x0(no_work, name, x0, words):
    with no_work(), pytest.raises(ValueError) as error:
        minimize(PortfolioProblem(make_returns()), name, x0=x0)
    check_message(error, "x0", *words)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("value", [0, -5, 2.5, "often", True])
def test_record_every(no_work, name, value):
    with no_work(), pytest.raises(ValueError) as error:
        minimize(PortfolioProblem(make_returns()), name, record_every=value)
    check_message(error, "record_every", "integer >= 1", repr(value))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_state_of_another_run(no_work, name):
    problem = PortfolioProblem(make_returns())
    own = minimize(problem, name, max_iter=2, random_state=0).state
    other = "scgd" if name in ("asc-pg", "acc-scgd") else "asc-pg"
    kinds = [type(SOLVERS[key]()).__name__ for key in (name, other)]
    foreign = minimize(problem, other, max_iter=2, random_state=0)
    with no_work():
        with pytest.raises(ValueError) as error:
            minimize(problem, name, state=foreign.state)
        check_message(error, "state", *kinds)
        with pytest.raises(ValueError) as error:
            minimize(problem, name, state=foreign)
        check_message(error, "state", kinds[0], SolverResult.__name__)
        with pytest.raises(ValueError) as error:
            minimize(PortfolioProblem(make_returns(d=3)), name, state=own)
        check_message(error, "state", "5", "3")


@pytest.mark.parametrize("penalty", [Simplex(), Box(0, 1, budget=1.0)])
def test_lbfgs_names_the_alternative(no_work, penalty):
    problem = PortfolioProblem(make_returns(), penalty=penalty)
    with no_work(), pytest.raises(ValueError) as error:
        minimize(problem, "lbfgs")
    check_message(error, "lbfgs", "budget", "simplex", type(penalty).__name__, "'storm-c'")


@pytest.mark.parametrize("name", SOLVERS)
def test_bounds_that_do_not_fit_the_problem(no_work, name):
    with no_work(), pytest.raises(ValueError) as error:
        minimize(PortfolioProblem(make_returns(), penalty=Box([0, 0], [1, 1])), name)
    check_message(error, "low", "(5,)", "(2,)")
    problem = PortfolioProblem(make_returns(), penalty=Box(0, 0.1, budget=1))
    with no_work(), pytest.raises(ValueError) as error:
        minimize(problem, name)
    check_message(error, "budget")


@pytest.mark.parametrize("name", SOLVERS)
def test_a_penalty_beside_a_dense_metric(no_work, name):
    if name == "storm-c-paper":  # takes no metric
        return
    problem = PortfolioProblem(make_returns(), penalty=L1(0.1), metric=np.eye(5))
    with no_work(), pytest.raises(ValueError) as error:
        minimize(problem, name)
    check_message(error, "penalty", "metric", "diagonal")


# --- an objective without a minimum --------------------------------------------------------------------


def fit(name, R, **params):
    """A fit, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        portfolio = CompositionalPortfolio(name, random_state=0, **params).fit(R)
    assert all(issubclass(w.category, ConvergenceWarning) for w in caught), [str(w.message) for w in caught]
    assert all(w.filename == __file__ or "sk_stormc" in w.filename for w in caught)
    return portfolio, [str(w.message) for w in caught]


def honest(portfolio, messages, near_copies=False):
    """What a bounded run may warn of, and where its budget ended first, must: that tol was not met, and how far x_T is.

    Once each, and the latter only where a recorded objective is below that of x_T. A converged fit of near-copies may
    say that they are.
    """
    if near_copies and portfolio.stop_reason_ == "converged":
        messages = [message for message in messages if "nearly combinations of others" not in message]
    ended = portfolio.solver_.tol > 0 and portfolio.stop_reason_ in ("max_iter", "max_ifo")
    short = sum("has not converged: its budget ended" in message for message in messages)
    above = sum("returns its last point" in message for message in messages)
    lower = portfolio.loss_curve_[-1] > portfolio.loss_curve_.min()
    return len(messages) == short + above and short == ended and above <= lower


def constant_asset(n, value):
    return np.c_[make_returns(n, 4), np.full(n, value)]


UNBOUNDED = {
    "fewer periods than assets": make_returns(20, 30),
    "fewer periods than assets, daily": make_returns(20, 30, mean=0.05) / 100,
    "as many periods as assets": make_returns(30, 30),
    "a constant asset": constant_asset(300, 0.02),
    "a constant asset, many periods": constant_asset(1500, 0.02),
    "a constant asset that loses": constant_asset(300, -0.02),
    "cash of a day": constant_asset(1500, 0.01) / 100,
    "nothing but cash": np.full((100, 3), 0.01),
}


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("case", UNBOUNDED)
def test_an_unbounded_objective_is_told(name, case):
    R = UNBOUNDED[case]
    portfolio, messages = fit(name, R)
    assert len(messages) == 1
    assert "unbounded" in messages[0]
    assert "constraint" in messages[0]
    assert type(portfolio.solver_).__name__ in messages[0]
    assert np.isfinite(portfolio.weights_).all()
    assert portfolio.loss_curve_[-1] < portfolio.loss_curve_[0]
    if name in ("storm-c", "sketchy-storm") and len(R) <= 1024:  # full batches, whose budget is in iterations
        assert (portfolio.stop_reason_, portfolio.n_iter_) == ("max_iter", 100)
    else:
        assert portfolio.stop_reason_ == "max_ifo"
        assert portfolio.ifo_[-1] <= 101 * 3 * len(R)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("params", few_of([{"budget": 1.0}, {"constraint": (-INF, INF)}], 0))
def test_an_unbounded_objective_is_told_under_a_penalty_that_does_not_bound_it(name, params):
    if name == "lbfgs" and "budget" in params:
        return
    _, messages = fit(name, make_returns(20, 30), **params)
    assert len(messages) == 1
    assert "unbounded" in messages[0]


@pytest.mark.parametrize("name", SOLVERS)
def test_an_unbounded_entropic_objective_is_told(name):
    # in every period some portfolio wins
    portfolio, messages = fit(name, np.abs(make_returns(60, 3)), risk_measure="entropic")
    assert len(messages) == 1
    assert "unbounded" in messages[0]
    assert np.isfinite(portfolio.weights_).all()


MARKET = np.random.default_rng(1).normal(size=(1500, 1))
BOUNDED = {
    "small": make_returns(300, 5),
    "large": make_returns(1500, 5),
    "fractions": make_returns(1500, 5) / 100,
    "basis points": make_returns(1500, 5) * 100,
    "hardly more periods than assets": make_returns(62, 60),
    "two identical assets": np.c_[make_returns(300, 4), make_returns(300, 4)[:, 1]],
    "two nearly identical assets": np.c_[MARKET, MARKET + 1e-4 * make_returns(1500, 1)],
    "an asset of nothing": np.c_[make_returns(300, 4), np.zeros(300)],
    "nothing": np.zeros((100, 3)),
    "no mean return": make_returns(300, 4) - make_returns(300, 4).mean(0),
    "very different units": make_returns(1500, 5) * 10.0 ** np.arange(-4, 6, 2),
    "heavy tails": 0.1 + np.random.default_rng(0).standard_t(2, (1500, 5)),
    "nearly cash": np.c_[make_returns(1500, 4), 0.01 + 1e-4 * make_returns(1500, 1, seed=1, mean=0)],
}


@pytest.mark.parametrize("name", slow_but(SOLVERS, "storm-c", "lbfgs"))
@pytest.mark.parametrize("case", BOUNDED)
def test_a_bounded_objective_is_not_called_unbounded(name, case):
    for params in ({}, {"max_iter": 1}, {"max_iter": 10}, {"max_iter": 100, "tol": 0.0}):
        portfolio, messages = fit(name, BOUNDED[case], **params)
        assert not any("unbounded" in message for message in messages)
        # heavy tails can carry the fixed automatic rates of the checkpoint methods away; they say so
        assert case == "heavy tails" or honest(portfolio, messages, case == "two nearly identical assets")


@pytest.mark.parametrize("name", STOCHASTIC)
@pytest.mark.parametrize("rate", slow_but([1e-9, 1e-6, 1e-3], 1e-9))
def test_steps_far_too_short_are_not_called_unbounded(name, rate):
    for case in ("small", "large", "two nearly identical assets"):
        assert honest(*fit(SOLVERS[name](rate, max_iter=300), BOUNDED[case]), case == "two nearly identical assets")


@pytest.mark.parametrize("name", ["storm-c", "scgd"])
@pytest.mark.parametrize("bounded", [True, False])
def test_an_infimum_that_is_not_attained_is_not_called_unbounded(name, bounded):
    slope = (lambda u: -np.exp(-u)) if bounded else (lambda u: -np.ones(1))
    value = (lambda u: np.exp(-u[0])) if bounded else (lambda u: -u[0])
    one = FiniteSumComposition(
        lambda x, j: x.copy(), lambda x, j: np.eye(1), lambda x, u, i: slope(u), lambda x, u: value(u), 1, 1, 1
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = minimize(one, name, random_state=0, max_iter=20, tol=0)
    assert result.stop_reason == "max_iter" and result.fun < result.loss_curve[0]
    assert ["unbounded" in str(w.message) for w in found] == [True] * (not bounded)


def test_rounding_is_not_called_unbounded():
    # steps far too long, on the simplex: what x changes by at the end is its own rounding
    returns = make_gaussian_returns(3000, 10, mean=0.1, random_state=0)
    solver = SARAHCompositional(learning_rate=0.3, batch_size=8)
    assert honest(*fit(solver, returns, constraint="long_only", max_iter=200))


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "params",
    [
        {"constraint": "long_only"},
        {"constraint": (-1, 1)},
        {"constraint": (0, 0.5), "budget": 1.0},
        {"constraint": (-1, 1), "l1": 0.01},
        {"l1": 5.0},
    ],
)
def test_constraints_bound_the_unbounded(name, params):
    if name == "lbfgs" and ("budget" in params or params.get("constraint") == "long_only"):
        return
    for R in (make_returns(20, 30), constant_asset(300, 0.02), constant_asset(1500, -0.02)):
        for budget in ({}, {"max_iter": 1}, {"max_iter": 10}):
            assert honest(*fit(name, R, **params, **budget))


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_other_risk_measures_with_a_minimum_are_not_called_unbounded(name):
    for risk_measure in ("semivariance", "entropic"):
        for case in ("small", "large", "fractions", "nothing", "two identical assets"):
            for params in ({}, {"max_iter": 1}, {"max_iter": 10}):
                assert honest(*fit(name, BOUNDED[case], risk_measure=risk_measure, **params))


# --- steps that are far too long -----------------------------------------------------------------------


@pytest.mark.parametrize("magnitude", [1e3, 1e6, 1e12, 1e300])
@pytest.mark.parametrize("n", [300, 1500])
# the normalised steps of "storm-c-paper" are too long for ever, but cannot overflow
@pytest.mark.parametrize("name", [name for name in STOCHASTIC if name != "storm-c-paper"])
def test_a_learning_rate_far_too_large(name, n, magnitude):
    R = make_returns(n)
    portfolio, messages = fit(SOLVERS[name](0.1 * magnitude), R)
    assert np.isfinite(portfolio.weights_).all()
    assert np.isfinite(portfolio.loss_curve_).all()
    start = portfolio.loss_curve_[0]
    if name in ("storm-c", "sketchy-storm") and n == 300 and portfolio.stop_reason_ == "converged":
        good, _ = fit("storm-c", R)  # full batches: the combination of anchors finds the way back
        assert portfolio.loss_curve_[-1] <= good.loss_curve_[-1] + 1e-3 * abs(good.loss_curve_[-1])
        return
    assert len(messages) == 1
    assert "learning_rate" in messages[0]
    assert "Decrease" in messages[0]
    assert portfolio.stop_reason_ == "non_finite"
    # the best iterate, which is never worse than the start
    assert portfolio.loss_curve_[-1] == portfolio.loss_curve_.min() <= start
    objective = PortfolioProblem(R).objective(portfolio.weights_)
    assert objective == pytest.approx(portfolio.loss_curve_[-1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("magnitude", slow_but([10, 30, 100], 10, 100))
@pytest.mark.parametrize("name", STOCHASTIC)
def test_a_learning_rate_too_large_is_never_a_quiet_disaster(name, magnitude):
    for n in (300, 1500):
        portfolio, messages = fit(SOLVERS[name](0.1 * magnitude), make_returns(n))
        assert np.isfinite(portfolio.weights_).all()
        assert messages or portfolio.loss_curve_[-1] <= portfolio.loss_curve_[0] + 10


# judged at anchors; the other methods know |F| by their estimates only
@pytest.mark.slow
@pytest.mark.parametrize("name", ["storm-c", "sarah-c", "vrsc-pg"])
@pytest.mark.parametrize("risk_measure", ["variance", "semivariance", "entropic"])
def test_what_is_worse_than_the_start_has_not_converged(name, risk_measure):
    for n in (300, 1500):
        for rate in (1.0, 100.0):
            portfolio, messages = fit(SOLVERS[name](rate), make_returns(n), risk_measure=risk_measure)
            worse = portfolio.loss_curve_[-1] > portfolio.loss_curve_[0]
            assert not (worse and portfolio.stop_reason_ == "converged"), (n, rate)
            assert not any("unbounded" in message for message in messages), (n, rate)


@pytest.mark.parametrize(
    "params",
    [
        {"constraint": "long_only"},
        {"constraint": (-1, 1)},
        {"constraint": (0, 0.5), "budget": 1.0},
        {"budget": 1.0},
        {"l1": 0.01},
        {"risk_measure": "semivariance"},
        {"risk_measure": "entropic"},
        {"risk_measure": "entropic", "constraint": "long_only"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["storm-c", *(pytest.param(n, marks=pytest.mark.slow) for n in STOCHASTIC[1:])])
def test_a_learning_rate_far_too_large_never_crashes(name, params):
    for rate, n in ((1e3, 1500), (1e18, 300), (1e150, 1500), (1e300, 300)):
        portfolio, messages = fit(SOLVERS[name](rate, max_iter=150), make_returns(n), **params)
        assert np.isfinite(portfolio.weights_).all()
        assert np.isfinite(portfolio.loss_curve_).all()
        assert not any("unbounded" in message for message in messages)
        if "budget" in params or params.get("constraint") == "long_only":
            scale = max(1.0, np.abs(portfolio.weights_).max())
            assert abs(portfolio.weights_.sum() - 1) <= 1e-10 * scale
        if "constraint" in params:
            assert portfolio.weights_.min() >= (-1 if params["constraint"] == (-1, 1) else 0)
            assert portfolio.weights_.max() <= 1


def test_a_warning_names_the_line_of_the_user():
    with pytest.warns(ConvergenceWarning, match="non_finite|not finite") as caught:
        minimize(PortfolioProblem(make_returns(300)), "scgd", learning_rate=1e12)
    assert len(caught) == 1
    assert re.search(r"objective -?[0-9.]", str(caught[0].message))


def test_an_objective_that_is_not_finite_at_the_start():
    problem = PortfolioProblem(make_returns(300))
    with pytest.warns(ConvergenceWarning, match="not finite"):
        result = minimize(problem, x0=np.full(5, 1e200))
    assert result.stop_reason == "non_finite"
    assert result.n_iter == 0
    np.testing.assert_array_equal(result.x, np.full(5, 1e200))
    assert len(result.ifo) == len(result.loss_curve) == 1
