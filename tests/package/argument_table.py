"""Every public callable with valid arguments, which test_invalid_arguments.py replaces
by invalid ones: those of the example in its docstring, or of a case here."""

import ast
import copy
import doctest
import inspect
import warnings

import numpy as np
import pytest

import sk_stormc as sk
from sk_stormc import (
    affinities,
    callbacks,
    checks,
    compare,
    datasets,
    penalties,
    plotting,
    preconditioners,
    preprocessing,
    problems,
    schedules,
    solvers,
    theory,
)

MODULES = [
    sk,
    affinities,
    callbacks,
    checks,
    compare,
    datasets,
    preconditioners,
    penalties,
    plotting,
    preprocessing,
    problems,
]
MODULES += [schedules, solvers, theory]

WITHOUT_CASE = {
    **dict.fromkeys(
        ("CompositionalProblem", "CompositionalSolver", "LogMeanExpProblem", "Source"),
        "a base class",
    ),
    **dict.fromkeys(
        ("Preconditioner", "Published", "StopReason", "SOLVERS"),
        "has no arguments that could be wrong",
    ),
    **dict.fromkeys(
        (
            "ComparedRun",
            "SolverComparison",
            "SolverResult",
            "PolicyValue",
            "WholeShares",
            "Identity",
            "InUnit",
        ),
        "made by the package",
    ),
    **dict.fromkeys(
        ("WalkForwardResult", "WalkForwardComparison"), "made by walk_forward"
    ),
    "PolicyComparison": "made by compare_policies",
    "FiniteSource": "checked with the problem that has it",
    "at": "called in every iteration, with what solvers have checked",
}

# beside the names in __all__
METHODS = [
    "ActionValueEstimator.fit",
    "ActionValueEstimator.predict",
    "ActionValueEstimator.predict_action",
    "BellmanValueEstimator.fit",
    "BellmanValueEstimator.predict",
    "BellmanValueEstimator.value_interval",
    "CompositionalPortfolio.fit",
    "ConvergenceDisplay.from_results",
    "MarkovRewardProcess.from_gymnasium",
    "MarkovRewardProcess.transitions",
    "PolicyValueDisplay.from_comparison",
    "SNEEmbedding.transform",
    "WalkForwardDisplay.from_results",
]

# Invalid values that an argument may take after all, because they are documented or
# cannot be told from valid ones: wherever it occurs, and of one callable. None where it
# is the default, fractions where a number is a float, and integers where it is a bool
# need not be named.
ALLOWED = {
    "batch_size": "None",
    "budget": "negative,fraction",
    "horizon": "fraction",
    "importance_ratio": "bool",
    "inner_floor": "bool,negative,fraction",
    "learning_rate": "class,fraction",
    "max_ifo": "None",
    "metric_params": "dict",
    "n_jobs": "negative,bool",
    "optimum": "negative,fraction",
    "periods_per_year": "fraction",
    "precision": "fraction",
    "random_state": "None,bool",
    "risk_aversion": "inf",
    "tol": "fraction",
    "transaction_cost": "bool",
    "verbose": "bool",
}
FRACTIONS = ("early_exaggeration", "half_life", "max_gross", "max_risk", "max_turnover")
FRACTIONS += ("perplexity", "transform_perplexity")
CONSTANTS = ("L_f", "L_g", "L_phi", "M_f", "M_g", "H_1", "H_2", "H_3", "Delta")
CONSTANTS += ("B_g", "B_dg", "B_f", "S_g", "S_dg", "S_f", "T")
ALLOWED |= dict.fromkeys(FRACTIONS + CONSTANTS, "fraction")
ALLOWED |= dict.fromkeys(("inner", "metric", "outer"), "class")
ALLOWED |= dict.fromkeys(("x_label", "y_label", "risk_label", "mean_label"), "string")
ALLOWED_OF = {
    "CompositionalPortfolio.fit": {"sample_weight": "fraction,bool"},
    "BellmanValueEstimator.fit": {"sample_weight": "fraction,bool"},
    "ActionValueEstimator.fit": {"sample_weight": "fraction,bool"},
    "SNEEmbedding": {"max_iter": "None", "tol": "None"},
    "make_sharpe_scorer": {"risk_free": "negative"},
    "compare_policies": {"classifier": "all"},
    "STORMCompositional": {
        "momentum": "class",
        "init_batch_size": "None",
        "normalization": "None",
    },
    "CIVR": {"precision": "None"},
    "minimize": {"on_record": "class"},
    "compare_solvers": {"gaps": "empty", "progress": "class"},
    "BellmanProblem": {"alpha": "bool", "preconditioner": "None"},
    "ProjectedBellmanProblem": {"alpha": "bool", "preconditioner": "None"},
    "FiniteSumComposition": {"inner_jacobian": "None,class", "outer_gradient": "class"},
    "StreamingProblem": {"batches": "3-d", "problem": "class"},
    "Advice": {
        "normalization": "all",
        "smoothness": "class",
        "unbounded_below": "class",
        "instead": "all",
    },
    "L1": {"alpha": "dict"},
    "Box": {"alpha": "dict", "low": "negative,empty", "high": "inf,bool,empty"},
    "check_penalty": {"name": "all"},
    "as_preconditioner": {"preconditioner": "None"},
    "Slowed": {"schedule": "class"},
    "constant": {"value": "negative"},
    "inverse": {"scale": "negative"},
    "power": {"scale": "negative", "exponent": "negative"},
    "decay_to": {"end": "negative", "start": "negative"},
    "fetch_french_portfolios": {"data_home": "string"},
    "make_bellman_problem": {"n_features": "None"},
    "make_gaussian_returns": {"mean": "negative,bool"},
    "Checkpoint": {"path": "string"},
    "EarlyStopping": {"monitor": "class"},
}
# what a message may call an argument instead
CALLED = {"constraint": "constraint|low", "P": "P|affinities"}


def public(name):
    """A public callable, or a method of one."""
    first, *rest = name.split(".")
    found = next(
        getattr(module, first) for module in MODULES if first in module.__all__
    )
    return getattr(found, *rest) if rest else found


class Case:
    """A function with valid arguments; arguments that are not given have their
    defaults."""

    def __init__(self, call, allowed=None, **given):
        self.call, self.allowed, self.given = call, allowed or {}, given


class _Recorded(Exception):
    """The arguments of the call of an example."""


class _Called(ast.NodeTransformer):
    """Replace the first call of a name, ``f(...)``, by ``_called(f, ...)``."""

    def __init__(self, name):
        self.name, self.found = name, False

    def visit_Call(self, node):
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        if self.found or name != self.name:
            return self.generic_visit(node)
        self.found = True
        function = ast.Name("_called", ast.Load())
        return ast.Call(function, [node.func, *node.args], node.keywords)


def example(name):
    """The `Case` of a callable in the example of its docstring, or of its class: a call
    runs the example from there on."""
    owner, _, method = name.partition(".")
    own = public(name).__doc__ or ""
    text = own if ">>>" in own else public(owner).__doc__
    lines = doctest.DocTestParser().get_examples(text)
    called, parts = _Called(method or owner), ([], [])
    for statement in ast.parse("".join(line.source for line in lines)).body:
        statement = ast.fix_missing_locations(called.visit(statement))
        parts[called.found].append(statement)
    assert called.found, f"the example of {name} must call it"
    before, after = (compile(ast.Module(part, []), name, "exec") for part in parts)
    space = {"__name__": name}
    exec(before, space)

    def run(**changes):
        def replaced(function, *args, **kwargs):
            bound = inspect.signature(function).bind(*args, **kwargs)
            names = list(bound.signature.parameters)[: len(bound.args)]
            given = dict(zip(names, bound.args, strict=True)) | bound.kwargs
            if not changes:
                raise _Recorded(given)
            return function(**given | changes)

        exec(after, {**space, "_called": replaced})

    with pytest.raises(_Recorded) as recorded:
        run()
    return Case(run, ALLOWED_OF.get(name), **recorded.value.args[0])


RETURNS = np.random.default_rng(0).normal(0.1, 1.0, (12, 3))
POINTS = np.random.default_rng(1).normal(size=(20, 3))
STATES, NEXT = np.random.default_rng(2).normal(size=(2, 15, 2))
REWARDS, ACTIONS, EPISODES = (
    STATES.sum(axis=1),
    np.arange(15) % 2,
    np.repeat(["a", "b", "c"], 5),
)
ENDS, TARGET = np.arange(15) % 5 == 4, np.full((15, 2), 0.5)


def quiet(call):
    """The function without its warnings."""

    def called(*args, **arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*args, **arguments)

    return called


def portfolio_problem():
    return problems.PortfolioProblem(RETURNS)


@quiet
def fit_portfolio(**parameters):
    return sk.CompositionalPortfolio(**{"max_iter": 2} | parameters).fit(RETURNS)


@quiet
def fit_values(**parameters):
    value = sk.BellmanValueEstimator(**{"max_iter": 2} | parameters)
    return value.fit(STATES, REWARDS, next_X=NEXT, episode=np.arange(15) // 3)


@quiet
def fit_actions(**parameters):
    q = sk.ActionValueEstimator(**{"max_iter": 2} | parameters)
    return q.fit(STATES, REWARDS, action=ACTIONS, next_X=NEXT)


@quiet
def fit_map(**parameters):
    return sk.SNEEmbedding(**{"max_iter": 5, "perplexity": 4.0} | parameters).fit(
        POINTS
    )


def run_corrected(**parameters):
    return sk.minimize(
        problems.EntropicPortfolioProblem(RETURNS),
        sk.CorrectedSample(**parameters),
        random_state=0,
    )


def run_problem(problem, **solver):
    """A function that runs a problem with its arguments."""
    return lambda **arguments: sk.minimize(
        problem(**arguments), max_iter=2, random_state=0, **solver
    )


def run_differentiable(**arguments):
    pytest.importorskip("jax", reason="needs JAX")
    return run_problem(problems.DifferentiableComposition)(**arguments)


def run_robust(**arguments):
    pytest.importorskip("jax", reason="needs JAX")
    return run_problem(problems.DifferentiableLogMeanExp)(**arguments)


def plotted(display):
    return lambda **arguments: display(**arguments).plot()


FITTED, VALUES, QVALUES, MAP = fit_portfolio(), fit_values(), fit_actions(), fit_map()
COMPARED = quiet(sk.compare_solvers)(
    portfolio_problem(), ["storm-c"], n_seeds=1, max_iter=2
)
WALKED = quiet(sk.walk_forward)(
    sk.CompositionalPortfolio(constraint="long_only"), RETURNS / 100, window=6
)

FITTING = {"max_iter": 2, "random_state": 0}
WEIGHTS = {"sample_weight": np.ones(12)}
TRANSITIONS = {
    "X": STATES,
    "y": REWARDS,
    "next_X": NEXT,
    "terminal": np.zeros(15, bool),
    "sample_weight": np.ones(15),
}


CASES = {
    "CompositionalPortfolio.predict": Case(FITTED.predict, X=RETURNS),
    "CompositionalPortfolio.score": Case(
        FITTED.score, allowed={"sample_weight": "fraction,bool"}, X=RETURNS, **WEIGHTS
    ),
    "CompositionalPortfolio.resume": Case(
        lambda **a: fit_portfolio().set_params(max_iter=3).resume(**a), X=RETURNS
    ),
    "BellmanValueEstimator.score": Case(
        VALUES.score,
        allowed={"sample_weight": "fraction,bool"},
        **TRANSITIONS,
        importance_ratio=np.ones(15),
    ),
    "ActionValueEstimator.score": Case(
        QVALUES.score,
        allowed={"sample_weight": "fraction,bool"},
        **TRANSITIONS,
        action=ACTIONS,
    ),
    "SNEEmbedding.fit": Case(lambda **a: fit_map().fit(**a), X=POINTS),
    "SNEEmbedding.optimize": Case(
        lambda **a: quiet(copy.deepcopy(MAP).optimize)(**a), n_iter=3, learning_rate=0.1
    ),
    "sharpe_ratio": Case(sk.sharpe_ratio, estimator=FITTED, X=RETURNS),
    "off_policy_value": Case(
        sk.off_policy_value,
        allowed={"importance_ratio": "None", "target": "class"},
        y=REWARDS,
        importance_ratio=np.ones(15),
        episode=EPISODES,
        gamma=0.5,
        method="dr",
        X=STATES,
        action=ACTIONS,
        target=TARGET,
        next_X=NEXT,
        terminal=ENDS,
        cv=2,
    ),
    "CorrectedSample": Case(run_corrected, sample_size=5, solver="lbfgs", max_iter=2),
    "SolverComparison.plot": Case(COMPARED.plot, y="objective"),
    "PortfolioProblem": Case(
        run_problem(problems.PortfolioProblem), returns=RETURNS, **WEIGHTS
    ),
    "EntropicPortfolioProblem": Case(
        run_problem(problems.EntropicPortfolioProblem), returns=RETURNS, **WEIGHTS
    ),
    "DifferentiableComposition": Case(
        run_differentiable,
        allowed={
            "inner_data": "3-d",
            "outer_data": "3-d",
            "x0": "negative,fraction,bool,3-d,dict",
        },
        inner=lambda x, row: row @ x,
        outer=lambda x, u, row: x @ x + u * row[0],
        inner_data=RETURNS,
        outer_data=RETURNS,
        x0=np.zeros(3),
    ),
    "DifferentiableLogMeanExp": Case(
        run_robust,
        allowed={
            "exponent": "class",
            "data": "3-d",
            "x0": "negative,fraction,bool,3-d,dict",
        },
        exponent=lambda x, row: row @ x,
        data=RETURNS,
        x0=np.zeros(3),
        **WEIGHTS,
    ),
    "Diagonal": Case(
        lambda values: preconditioners.as_preconditioner(
            preconditioners.Diagonal(values), 3
        ),
        values=np.ones(3),
    ),
    "Matrix": Case(
        lambda values: preconditioners.as_preconditioner(
            preconditioners.Matrix(values), 3
        ),
        values=np.eye(3),
    ),
    "LowRank": Case(
        lambda **arguments: preconditioners.as_preconditioner(
            preconditioners.LowRank(**arguments), 3
        ),
        scale=np.ones(3),
        W=np.full((3, 1), 0.1),
    ),
    "ConvergenceDisplay": Case(
        plotted(plotting.ConvergenceDisplay),
        curves={"a": [([1, 2], [2.0, 1.0])]},
        x_label="IFO",
        y_label="objective",
        y_scale="log",
    ),
    "ConvergenceDisplay.from_estimator": Case(
        plotting.ConvergenceDisplay.from_estimator, estimator=FITTED, pass_ifo=36
    ),
    "EmbeddingDisplay.from_estimator": Case(
        plotting.EmbeddingDisplay.from_estimator,
        estimator=MAP,
        y=np.arange(20) % 2,
        y_label="class",
        legend=True,
    ),
    "WalkForwardDisplay": Case(
        plotted(plotting.WalkForwardDisplay),
        allowed={"asset_names": "dates"},
        returns={"a": RETURNS[:, 0] / 10},
        weights={"a": RETURNS},
        dates=np.arange(12),
        asset_names=["x", "y", "z"],
    ),
    "TearsheetDisplay": Case(
        plotted(plotting.TearsheetDisplay),
        allowed={"turnover": "empty"},
        returns={"a": RETURNS[:, 0] / 100},
        dates=np.arange(12),
        turnover=[0.5, 0.1],
        costs=[0.01, 0.0],
        trade_dates=[0, 6],
        statistics={"a": {"beta": 1.0}},
        periods_per_year=252,
    ),
    "TearsheetDisplay.from_result": Case(
        plotting.TearsheetDisplay.from_result, result=WALKED
    ),
    "PolicyValueDisplay": Case(
        plotted(plotting.PolicyValueDisplay),
        allowed={"baseline": "string", "confidence": "all", "warned": "all"},
        values={"a": [1, 0, 2]},
        differences={"a": [0, 0, 0]},
    ),
    "FrontierDisplay": Case(
        plotted(plotting.FrontierDisplay),
        allowed={"max_risk": "negative", "name": "string"},
        risk=[1.0, 2.0],
        mean=[0.1, 0.2],
        asset_risk=[1.0, 3.0],
        asset_mean=[0.1, 0.3],
        asset_names=["a", "b"],
        max_risk=1.5,
    ),
    "FrontierDisplay.from_estimator": Case(
        plotting.FrontierDisplay.from_estimator,
        allowed={"name": "string"},
        estimator=sk.CompositionalPortfolio(max_iter=2, constraint="long_only"),
        X=RETURNS,
        risk_aversions=[1.0, 10.0],
    ),
    "TableScaler.fit": Case(lambda **a: preprocessing.TableScaler().fit(**a), X=POINTS),
}
