"""Every public callable with valid arguments, which test_invalid_arguments.py replaces
by invalid ones."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

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

RETURNS = np.random.default_rng(0).normal(0.1, 1.0, (12, 3))
POINTS = np.random.default_rng(1).normal(size=(20, 3))
STATES, NEXT = np.random.default_rng(2).normal(size=(2, 15, 2))
REWARDS, ACTIONS, EPISODES = (
    STATES.sum(axis=1),
    np.arange(15) % 2,
    np.repeat(["a", "b", "c"], 5),
)
ENDS, TARGET = np.arange(15) % 5 == 4, np.full((15, 2), 0.5)
P = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.5, 0.5]])
CONSTANTS = theory.ProblemConstants(
    L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1
)
PARAMETERS = theory.storm_parameters(CONSTANTS, 0.1)


@dataclass
class Case:
    """A function with valid arguments; arguments that are not given have their
    defaults.

    ``allowed`` has, for an argument, the names of invalid values that it may take after
    all, because they are documented or cannot be told from valid ones. None where it is
    the default, fractions where a number is a float, and integers where it is a bool
    need not be named.
    """

    call: Callable
    given: dict
    allowed: dict = field(default_factory=dict)
    # what a message may call an argument instead, a regular expression
    names: dict = field(default_factory=dict)
    # exceptions of a call with valid arguments, because data are missing
    fails: tuple = ()


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


def run(solver):
    """A function that runs a solver with its arguments."""
    return lambda **parameters: sk.minimize(
        portfolio_problem(), solver(**parameters), random_state=0
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


def run_stream(batches, problem, window=4, **arguments):
    stream = problems.StreamingProblem(batches, problem, window=window, **arguments)
    return sk.minimize(stream, "scgd", random_state=0, batch_size=2)


def offline(**arguments):
    with mock.patch(
        "sk_stormc.datasets.french.urlopen", side_effect=OSError("no network")
    ):
        return datasets.fetch_french_portfolios(**arguments)


def plotted(display):
    return lambda **arguments: display(**arguments).plot()


FITTED, VALUES, QVALUES, MAP = fit_portfolio(), fit_values(), fit_actions(), fit_map()
MODEL = datasets.MarkovRewardProcess(P, [1.0, 0.0, 2.0])
RESULT = quiet(sk.minimize)(portfolio_problem(), max_iter=3, random_state=0)
COMPARED = quiet(sk.compare_solvers)(
    portfolio_problem(), ["storm-c"], n_seeds=1, max_iter=2
)
WALKED = quiet(sk.walk_forward)(
    sk.CompositionalPortfolio(constraint="long_only"), RETURNS / 100, window=6
)
LOGGED = {
    "s": STATES, "after": NEXT, "a": ACTIONS, "r": REWARDS, "e": EPISODES, "end": ENDS,
    "t": np.tile(np.arange(5), 3), "p": np.full(15, 0.5),
}  # fmt: skip
COMPARING = {
    "data": LOGGED, "policies": {"even": TARGET}, "state": "s", "action": "a",
    "reward": "r", "episode": "e", "time": "t", "terminal": "end",
    "next_state": "after", "probability": "p", "classifier": None, "gamma": 0.5,
}  # fmt: skip
COMPARED_POLICIES = sk.compare_policies(**COMPARING)
AFFINITIES = affinities.perplexity_affinities(POINTS, 4.0)
SEARCH = affinities.perplexity_search(POINTS, 4.0)[0]

COMPOSITION = {
    "inner": lambda x, j: RETURNS[j].mean(axis=0) @ x * np.ones(1),
    "inner_jacobian": lambda x, j: RETURNS[j].mean(axis=0)[None],
    "outer_gradient": lambda x, u, i: (x, np.ones(1)),
    "outer": lambda x, u: float(0.5 * x @ x + u[0]),
    "n_inner": 12,
    "n_outer": 12,
    "n_variables": 3,
    "x0": np.zeros(3),
}
ANY_SEED = {"random_state": "None,bool"}
SOLVER = {"learning_rate": 0.01, "batch_size": 4, "max_iter": 2}
EPOCHS = SOLVER | {"epoch_length": 3}
BUDGET = {"max_iter": "None", "tol": "fraction", "verbose": "bool"}
FITTING = {"max_iter": 2, "random_state": 0}
ANY_NUMBER = "negative,fraction"
TEXT = dict.fromkeys(
    ("x_label", "y_label", "risk_label", "mean_label", "name"), "string"
)
RISING = {
    "scale": "negative",
    "exponent": "negative",
    "start": "negative",
    "end": "negative",
    "horizon": "fraction",
}
SOLVING = {"max_iter": "None", "batch_size": "None", "learning_rate": "class"}
WEIGHTS = {"sample_weight": np.ones(12)}
NO_WEIGHTS = {
    "sample_weight": "None,fraction,bool",
    "importance_ratio": "None,bool",
    "terminal": "None",
}
CURVES = {"optimum": ANY_NUMBER, "pass_ifo": "None"}
TRANSITIONS = {
    "X": STATES,
    "y": REWARDS,
    "next_X": NEXT,
    "terminal": np.zeros(15, bool),
    "sample_weight": np.ones(15),
}


def solver_case(solver, more=None, allowed=None):
    return Case(run(solver), SOLVER | (more or {}), SOLVING | (allowed or {}))


def display_case(make, given):
    return Case(make, given, TEXT | CURVES)


ESTIMATORS = {
    "CompositionalPortfolio": Case(
        fit_portfolio,
        {
            "solver": "storm-c",
            "previous_weights": np.zeros(3),
            "transaction_cost": 0.1,
            "half_life": 100.0,
        }
        | FITTING,
        {
            "half_life": "None,fraction",
            "risk_aversion": "inf",
            "budget": ANY_NUMBER,
            "previous_weights": "None",
            "transaction_cost": "fraction,bool",
            "max_risk": "fraction",
            "max_turnover": "fraction",
            "max_gross": "fraction",
            "l2": "fraction",
        }
        | BUDGET
        | ANY_SEED,
        {"constraint": "constraint|low"},
    ),
    "CompositionalPortfolio, limits": Case(
        fit_portfolio,
        {
            "max_turnover": 5.0,
            "linear_constraints": (np.ones((1, 3)), -5.0, 5.0),
            "groups": ["a", "a", "b"],
            "benchmark": np.full(3, 0.3),
            "objective": "utility",
        },
        {
            "max_turnover": "None",
            "linear_constraints": "None",
            "groups": "None,dict",
            "benchmark": "None",
        },
    ),
    "CompositionalPortfolio, forecasts": Case(
        fit_portfolio,
        {
            "expected_returns": np.full(3, 0.1),
            "min_return": 0.1,
            "max_gross": 5.0,
            "l2": 0.1,
            "risk_aversion": np.inf,
        },
        {
            "expected_returns": "None",
            "min_return": "None,negative",
            "max_gross": "None,fraction",
            "l2": "fraction",
            "risk_aversion": "inf",
        },
    ),
    "CompositionalPortfolio, integer limits": Case(
        fit_portfolio,
        {
            "solver": "scip",
            "constraint": "long_only",
            "max_assets": 2,
            "min_held": 0.1,
            "time_limit": 5.0,
        },
        {
            "constraint": "None",
            "max_assets": "None",
            "min_held": "None,fraction,bool",
            "time_limit": "fraction",
        },
        {"constraint": "constraint|low"},
    ),
    "CompositionalPortfolio.fit": Case(
        FITTED.fit, {"X": RETURNS} | WEIGHTS, {"sample_weight": "None,fraction,bool"}
    ),
    "CompositionalPortfolio.predict": Case(FITTED.predict, {"X": RETURNS}),
    "CompositionalPortfolio.score": Case(
        FITTED.score,
        {"X": RETURNS} | WEIGHTS,
        {"sample_weight": "None,fraction,bool"},
    ),
    "CompositionalPortfolio.resume": Case(
        lambda **a: fit_portfolio().set_params(max_iter=3).resume(**a), {"X": RETURNS}
    ),
    "BellmanValueEstimator": Case(
        fit_values,
        {
            "gamma": 0.5,
            "solver": "storm-c",
            "objective": "projected",
            "half_life": 100.0,
        }
        | FITTING,
        {"half_life": "None"} | BUDGET | ANY_SEED,
    ),
    "BellmanValueEstimator.fit": Case(
        VALUES.fit,
        TRANSITIONS | {"importance_ratio": np.ones(15)},
        {"next_X": "None"} | NO_WEIGHTS,
    ),
    "BellmanValueEstimator.fit, time": Case(
        VALUES.fit, {"X": STATES, "y": REWARDS, "time": np.arange(15)}, {"time": "None"}
    ),
    "BellmanValueEstimator.fit, episode": Case(
        VALUES.fit,
        {"X": STATES, "y": REWARDS, "episode": EPISODES},
        {"episode": "None"},
    ),
    "BellmanValueEstimator.predict": Case(
        lambda **a: fit_values().predict(**a), {"X": STATES, "return_std": True}
    ),
    "BellmanValueEstimator.value_interval": Case(
        lambda **a: fit_values().value_interval(**a),
        {"X0": STATES, "confidence": 0.5, "mean": True},
    ),
    "BellmanValueEstimator.score": Case(
        VALUES.score, TRANSITIONS | {"importance_ratio": np.ones(15)}, NO_WEIGHTS
    ),
    "ActionValueEstimator": Case(
        fit_actions,
        {"gamma": 0.5, "solver": "lstd"} | FITTING,
        {"policy": "class"} | BUDGET | ANY_SEED,
    ),
    "ActionValueEstimator.fit": Case(
        QVALUES.fit,
        TRANSITIONS | {"action": ACTIONS},
        {"action": "None", "next_X": "None"} | NO_WEIGHTS,
    ),
    "ActionValueEstimator.predict": Case(QVALUES.predict, {"X": STATES}),
    "ActionValueEstimator.predict_action": Case(QVALUES.predict_action, {"X": STATES}),
    "ActionValueEstimator.score": Case(
        QVALUES.score, TRANSITIONS | {"action": ACTIONS}, NO_WEIGHTS
    ),
    "SNEEmbedding": Case(
        fit_map,
        {"perplexity": 4.0, "max_iter": 5, "random_state": 0},
        {
            "early_exaggeration": "fraction",
            "transform_perplexity": "fraction",
            "metric": "class",
            "metric_params": "dict",
            "n_jobs": "negative,bool",
        }
        | BUDGET
        | {"tol": "None,fraction"}
        | ANY_SEED,
    ),
    "SNEEmbedding.fit": Case(lambda **a: fit_map().fit(**a), {"X": POINTS}),
    "SNEEmbedding.optimize": Case(
        lambda **a: quiet(copy.deepcopy(MAP).optimize)(**a),
        {"n_iter": 3, "learning_rate": 0.1},
        {"learning_rate": "None"},
    ),
    "SNEEmbedding.transform": Case(MAP.transform, {"X": POINTS}),
    "sharpe_ratio": Case(sk.sharpe_ratio, {"estimator": FITTED, "X": RETURNS}),
    "make_sharpe_scorer": Case(
        sk.make_sharpe_scorer,
        {},
        {"periods_per_year": "fraction", "risk_free": "string,negative"},
    ),
    "walk_forward": Case(
        quiet(sk.walk_forward),
        {
            "portfolio": sk.CompositionalPortfolio(constraint="long_only"),
            "returns": RETURNS,
            "window": 6,
            "first_window": 5,
            "refit_every": 4,
            "benchmark": np.full(12, 0.1),
            "unit": "fractions",
        },
        {
            "window": "None",
            "first_window": "None",
            "benchmark": "None",
            "unit": "None",
            "n_jobs": "negative",
            "verbose": "bool",
            "periods_per_year": "fraction",
        },
    ),
    "compare_policies": Case(
        sk.compare_policies,
        COMPARING,
        {
            "episode": "None",
            "time": "None",
            "terminal": "None",
            "next_state": "None",
            "probability": "None",
            "classifier": "all",
        },
    ),
    "off_policy_value": Case(
        sk.off_policy_value,
        {
            "y": REWARDS,
            "importance_ratio": np.ones(15),
            "episode": EPISODES,
            "gamma": 0.5,
            "method": "dr",
            "X": STATES,
            "action": ACTIONS,
            "target": TARGET,
            "next_X": NEXT,
            "terminal": ENDS,
            "cv": 2,
        },
        {"importance_ratio": "None,bool", "next_X": "None", "target": "class"},
    ),
    "estimated_ratios": Case(
        sk.estimated_ratios,
        {
            "X": STATES,
            "action": ACTIONS,
            "target": TARGET,
            "classifier": LogisticRegression(),
            "episode": EPISODES,
            "cv": 2,
        },
        {"episode": "None"},
    ),
}
SOLVERS = {
    "STORMCompositional": solver_case(
        sk.STORMCompositional,
        {
            "precision": 1.0,
            "momentum": 0.1,
            "init_batch_size": 4,
            "normalization": None,
        },
        {"init_batch_size": "None", "normalization": "None", "momentum": "class"},
    ),
    "AutomaticSTORM": solver_case(sk.AutomaticSTORM),
    "SketchySTORM": solver_case(sk.SketchySTORM, {"rank": 2, "sketch_batch_size": 4}),
    "SARAHCompositional": solver_case(sk.SARAHCompositional, EPOCHS),
    "CIVR": solver_case(sk.CIVR, EPOCHS | {"precision": 1.0}, {"precision": "None"}),
    "VRSCPG": solver_case(sk.VRSCPG, EPOCHS),
    "SCVR": solver_case(sk.SCVR, EPOCHS),
    "SCGD": solver_case(sk.SCGD, {"beta": 0.5, "exponents": (-0.5, -0.5)}),
    "ASCPG": solver_case(sk.ASCPG, {"beta": 0.5, "exponents": (-0.5, -0.5)}),
    "LBFGS": Case(run(sk.LBFGS), {"memory": 3, "max_iter": 2}, SOLVING),
    "CorrectedSample": Case(
        run_corrected, {"sample_size": 5, "solver": "lbfgs", "max_iter": 2}, SOLVING
    ),
    "get_solver": Case(solvers.get_solver, {"solver": "storm-c"}),
    "minimize": Case(
        sk.minimize,
        {
            "problem": portfolio_problem(),
            "x0": np.zeros(3),
            "random_state": 0,
            "record_every": 10,
            "max_iter": 2,
        },
        {
            "x0": "None",
            "record_every": "None",
            "on_record": "class",
            "verbose": "bool",
            "max_iter": "None",
        }
        | ANY_SEED,
    ),
    "compare_solvers": Case(
        sk.compare_solvers,
        {
            "problem_or_estimator": sk.CompositionalPortfolio(),
            "solvers": ["storm-c"],
            "X": RETURNS,
            "n_seeds": 1,
            "max_ifo": 100,
            "gaps": (0.1,),
            "random_state": 0,
        },
        {"max_ifo": "None", "gaps": "empty", "optimum": ANY_NUMBER, "progress": "class"}
        | ANY_SEED,
        {"solvers": "solvers?"},
    ),
    "SolverComparison.plot": Case(COMPARED.plot, {"y": "objective"}),
    "check_solver": Case(
        checks.check_solver, {"solver": sk.SCGD(), "max_iter": 4}, ANY_SEED
    ),
    # theory
    "ProblemConstants": Case(
        theory.ProblemConstants,
        vars(CONSTANTS),
        dict.fromkeys(vars(CONSTANTS), "fraction"),
    ),
    "StormParameters": Case(
        theory.StormParameters,
        vars(PARAMETERS),
        dict.fromkeys(vars(PARAMETERS), "fraction"),
    ),
    "storm_parameters": Case(
        theory.storm_parameters, {"constants": CONSTANTS, "epsilon": 0.1}
    ),
    "equipartition": Case(
        theory.equipartition,
        {"constants": CONSTANTS, "epsilon": 0.1, "parameters": PARAMETERS},
    ),
    "theorem_condition": Case(
        theory.theorem_condition,
        {"constants": CONSTANTS, "epsilon": 0.1, "parameters": PARAMETERS},
    ),
    "estimate_constants": Case(
        theory.estimate_constants,
        {
            "problem": portfolio_problem(),
            "x0": np.ones(3),
            "radius": 1.0,
            "n_samples": 5,
            "random_state": 0,
        },
        ANY_SEED,
    ),
}
PROBLEMS = {
    "PortfolioProblem": Case(
        run_problem(problems.PortfolioProblem),
        {"returns": RETURNS} | WEIGHTS,
        {"risk_aversion": "inf", "sample_weight": "None"},
    ),
    "EntropicPortfolioProblem": Case(
        run_problem(problems.EntropicPortfolioProblem),
        {"returns": RETURNS} | WEIGHTS,
        {"risk_aversion": "inf", "sample_weight": "None"},
    ),
    "BellmanProblem": Case(
        run_problem(problems.BellmanProblem),
        {
            "transition_matrix": P,
            "rewards": np.ones(3),
            "features": np.eye(3)[:, :2],
            "gamma": 0.5,
            "next_features": np.eye(3)[:, :2],
            "sample_weight": np.ones(3),
        },
        {
            "alpha": "bool",
            "features": "None",
            "next_features": "None",
            "sample_weight": "None",
            "preconditioner": "None",
        },
        {"features": "next_features|features"},  # None is one for each state
    ),
    "ProjectedBellmanProblem": Case(
        run_problem(problems.ProjectedBellmanProblem),
        {
            "features": STATES,
            "next_features": NEXT,
            "rewards": REWARDS,
            "gamma": 0.5,
            "sample_weight": np.ones(15),
        },
        {"alpha": "bool", "sample_weight": "None", "preconditioner": "None"},
        {"rewards": "rewards|features"},  # of other lengths
    ),
    "SNEProblem": Case(run_problem(problems.SNEProblem), {"affinities": AFFINITIES}),
    "FiniteSumComposition": Case(
        run_problem(problems.FiniteSumComposition),
        COMPOSITION,
        {
            "n_variables": "None",
            "x0": "None",
            "inner_floor": f"bool,{ANY_NUMBER}",
            "inner_jacobian": "None,class",
        }
        | dict.fromkeys(("inner", "outer_gradient", "outer", "inner_vjp"), "class"),
    ),
    "DifferentiableComposition": Case(
        run_differentiable,
        {
            "inner": lambda x, row: row @ x,
            "outer": lambda x, u, row: x @ x + u * row[0],
            "inner_data": RETURNS,
            "outer_data": RETURNS,
            "x0": np.zeros(3),
        },
        {
            "inner": "class",
            "outer": "class",
            "inner_data": "None,3-d",
            "outer_data": "None,3-d",
            "x0": "negative,fraction,bool,3-d,dict",
            "inner_floor": f"bool,{ANY_NUMBER}",
        },
    ),
    "DifferentiableLogMeanExp": Case(
        run_robust,
        {"exponent": lambda x, row: row @ x, "data": RETURNS, "x0": np.zeros(3)}
        | WEIGHTS,
        {
            "exponent": "class",
            "data": "3-d",
            "x0": "negative,fraction,bool,3-d,dict",
            "sample_weight": "None",
        },
    ),
    "StreamingProblem": Case(
        run_stream,
        {"batches": [RETURNS], "problem": problems.PortfolioProblem, "window": 4},
        {"batches": "3-d", "problem": "class", "weighted": "bool"},
    ),
    "Advice": Case(
        problems.Advice,
        {},
        {"batch_size": "None", "normalization": "all", "instead": "all"}
        | dict.fromkeys(("learning_rate", "precision"), "fraction,class")
        | dict.fromkeys(("smoothness", "unbounded_below"), "class"),
    ),
    "check_problem": Case(
        problems.check_problem,
        {"problem": portfolio_problem(), "x": np.ones(3), "n_draws": 30},
        {"x": "None"} | ANY_SEED,
    ),
    # penalties, preconditioners, schedules
    "L1": Case(penalties.L1, {"alpha": 0.1}, {"alpha": "dict"}),
    "Box": Case(
        penalties.Box,
        {"low": 0.0, "high": 1.0},
        {
            "low": "negative,empty,bool",
            "high": "inf,empty,bool",
            "budget": ANY_NUMBER,
            "alpha": "dict",
        },
    ),
    "Simplex": Case(penalties.Simplex, {}),
    "check_penalty": Case(
        penalties.check_penalty,
        {"penalty": penalties.Simplex(), "n_variables": 3},
        {"penalty": "None", "name": "all"},
    ),
    "Diagonal": Case(
        lambda values: preconditioners.as_preconditioner(
            preconditioners.Diagonal(values), 3
        ),
        {"values": np.ones(3)},
    ),
    "Matrix": Case(
        lambda values: preconditioners.as_preconditioner(
            preconditioners.Matrix(values), 3
        ),
        {"values": np.eye(3)},
    ),
    "LowRank": Case(
        lambda **arguments: preconditioners.as_preconditioner(
            preconditioners.LowRank(**arguments), 3
        ),
        {"scale": np.ones(3), "W": np.full((3, 1), 0.1)},
    ),
    "as_preconditioner": Case(
        preconditioners.as_preconditioner,
        {"preconditioner": np.ones(3), "n_variables": 3},
        {"preconditioner": "None"},
    ),
    "Geometric": Case(
        schedules.Geometric,
        {"start": 1.0, "end": 0.1, "horizon": 10},
        {"horizon": "fraction"},
    ),
    "Slowed": Case(
        schedules.Slowed,
        {"schedule": schedules.power(-0.5), "times": 2.0},
        {"schedule": "class"},
    ),
    "constant": Case(schedules.constant, {"value": 1.0}, {"value": "negative"}),
    "inverse": Case(schedules.inverse, {"scale": 1.0}, RISING),
    "power": Case(schedules.power, {"exponent": -0.5}, RISING),
    "decay_to": Case(
        schedules.decay_to,
        {"end": 0.1, "start": 1.0, "horizon": 10, "hold": 0.5},
        RISING,
    ),
}
NEIGHBOURS = {"metric": "class", "metric_params": "dict", "n_jobs": "negative,bool"}
DATA = {
    "affinities": Case(affinities.affinities, {"search": SEARCH, "perplexity": 4.0}),
    "check_affinities": Case(
        affinities.check_affinities, {"P": AFFINITIES}, {}, {"P": "affinities"}
    ),
    "conditional_probabilities": Case(
        affinities.conditional_probabilities,
        {"distances": np.abs(POINTS), "perplexity": 2.0},
    ),
    "nearest_neighbors": Case(
        affinities.nearest_neighbors, {"X": POINTS, "n_neighbors": 4}, NEIGHBOURS
    ),
    "perplexity_affinities": Case(
        affinities.perplexity_affinities,
        {"X": POINTS, "perplexity": 4.0, "n_neighbors": 10},
        {"n_neighbors": "None"} | NEIGHBOURS,
    ),
    "perplexity_search": Case(
        affinities.perplexity_search, {"X": POINTS, "perplexity": 4.0}, NEIGHBOURS
    ),
    "MarkovRewardProcess": Case(
        datasets.MarkovRewardProcess,
        {
            "transition_matrix": P,
            "rewards": np.ones(3),
            "features": np.eye(3),
            "gamma": 0.5,
        },
        {"features": "None"},
    ),
    "MarkovRewardProcess.transitions": Case(
        MODEL.transitions, {"n_transitions": 4, "random_state": 0}, ANY_SEED
    ),
    "MarkovRewardProcess.from_gymnasium": Case(
        datasets.MarkovRewardProcess.from_gymnasium,
        {"env": "FrozenLake-v1", "gamma": 0.9},
    ),
    "collect_transitions": Case(
        datasets.collect_transitions,
        {
            "env": "FrozenLake-v1",
            "n_transitions": 5,
            "seed": 0,
            "target": np.full((16, 4), 0.25),
        },
        {"seed": "None", "target": "None"},
    ),
    "transitions_from_episodes": Case(
        datasets.transitions_from_episodes,
        {
            "episodes": [
                {
                    "observations": STATES,
                    "actions": np.arange(14) % 2,
                    "rewards": REWARDS[:14],
                }
            ]
        },
    ),
    "transitions_from_arrays": Case(
        datasets.transitions_from_arrays,
        {
            "observations": STATES,
            "actions": ACTIONS,
            "rewards": REWARDS,
            "terminals": ENDS,
            "timeouts": np.zeros(15),
            "next_observations": NEXT,
        },
        {"timeouts": "None", "next_observations": "None"},
    ),
    "returns_from_prices": Case(
        datasets.returns_from_prices, {"prices": 1.0 + np.abs(RETURNS)}
    ),
    "whole_shares": Case(
        sk.whole_shares,
        {"weights": [0.5, 0.5], "prices": [3.0, 7.0], "capital": 100.0},
    ),
    "returns_from_moments": Case(
        datasets.returns_from_moments,
        {"mean": [0.1, 0.2, 0.1], "covariance": np.eye(3)},
    ),
    "fetch_french_portfolios": Case(
        offline,
        {"download_if_missing": False},
        {"data_home": "string"},
        fails=(OSError,),
    ),
    "make_augmented_digits": Case(
        datasets.make_augmented_digits, {"n_samples": 10, "random_state": 0}, ANY_SEED
    ),
    "make_bellman_problem": Case(
        datasets.make_bellman_problem,
        {"n_states": 4, "n_features": 2, "gamma": 0.5, "random_state": 0},
        {"n_features": "None"} | ANY_SEED,
    ),
    "make_gaussian_returns": Case(
        datasets.make_gaussian_returns,
        {"n_periods": 4, "n_assets": 2, "mean": 1.0, "random_state": 0},
        {"mean": "negative,bool"} | ANY_SEED,
    ),
    # callbacks
    "Checkpoint": Case(callbacks.Checkpoint, {"path": "run.npz"}, {"path": "string"}),
    "EarlyStopping": Case(callbacks.EarlyStopping, {}, {"monitor": "class"}),
    "TimeLimit": Case(callbacks.TimeLimit, {"seconds": 1.0}),
    # displays
    "ConvergenceDisplay": display_case(
        plotted(plotting.ConvergenceDisplay),
        {
            "curves": {"a": [([1, 2], [2.0, 1.0])]},
            "x_label": "IFO",
            "y_label": "objective",
            "y_scale": "log",
        },
    ),
    "ConvergenceDisplay.from_results": display_case(
        plotting.ConvergenceDisplay.from_results,
        {"results": {"a": RESULT}, "pass_ifo": 36},
    ),
    "ConvergenceDisplay.from_estimator": display_case(
        plotting.ConvergenceDisplay.from_estimator,
        {"estimator": FITTED, "pass_ifo": 36},
    ),
    "EmbeddingDisplay": Case(
        plotted(plotting.EmbeddingDisplay),
        {
            "embedding": POINTS[:, :2],
            "y": np.arange(20) % 2,
            "y_label": "class",
            "palette": ["red", "blue"],
            "order": ["0", "1"],
            "new": POINTS[:5, :2],
            "y_new": np.arange(5) % 2,
        },
        {
            "y": "None",
            "palette": "None",
            "order": "None",
            "new": "None",
            "y_new": "None",
        }
        | TEXT,
    ),
    "EmbeddingDisplay.from_estimator": Case(
        plotting.EmbeddingDisplay.from_estimator,
        {"estimator": MAP, "y": np.arange(20) % 2, "y_label": "class", "legend": True},
        {"y": "None"} | TEXT,
    ),
    "WalkForwardDisplay": Case(
        plotted(plotting.WalkForwardDisplay),
        {
            "returns": {"a": RETURNS[:, 0] / 10},
            "weights": {"a": RETURNS},
            "dates": np.arange(12),
            "asset_names": ["x", "y", "z"],
        },
        {
            "weights": "None",
            "dates": "None",
            "asset_names": "None,dates",
            "periods_per_year": "fraction",
        },
    ),
    "WalkForwardDisplay.from_results": Case(
        plotting.WalkForwardDisplay.from_results,
        {"results": WALKED},
        {"periods_per_year": "fraction"},
    ),
    "TearsheetDisplay": Case(
        plotted(plotting.TearsheetDisplay),
        {
            "returns": {"a": RETURNS[:, 0] / 100},
            "dates": np.arange(12),
            "turnover": [0.5, 0.1],
            "costs": [0.01, 0.0],
            "trade_dates": [0, 6],
            "statistics": {"a": {"beta": 1.0}},
            "periods_per_year": 252,
        },
        {
            **dict.fromkeys(("dates", "costs", "trade_dates", "statistics"), "None"),
            "turnover": "None,empty",
            "periods_per_year": "fraction",
        },
    ),
    "TearsheetDisplay.from_result": Case(
        plotting.TearsheetDisplay.from_result, {"result": WALKED}
    ),
    "PolicyValueDisplay": Case(
        plotted(plotting.PolicyValueDisplay),
        {"values": {"a": [1, 0, 2]}, "differences": {"a": [0, 0, 0]}},
        {"baseline": "string", "confidence": "all", "warned": "all"},
    ),
    "PolicyValueDisplay.from_comparison": Case(
        plotting.PolicyValueDisplay.from_comparison,
        {"comparison": COMPARED_POLICIES},
    ),
    "FrontierDisplay": Case(
        plotted(plotting.FrontierDisplay),
        {
            "risk": [1.0, 2.0],
            "mean": [0.1, 0.2],
            "asset_risk": [1.0, 3.0],
            "asset_mean": [0.1, 0.3],
            "asset_names": ["a", "b"],
            "max_risk": 1.5,
        },
        {
            "asset_names": "None",
            "asset_risk": "None",
            "max_risk": "None,negative,fraction",
        }
        | TEXT,
    ),
    "FrontierDisplay.from_estimator": Case(
        plotting.FrontierDisplay.from_estimator,
        {
            "estimator": sk.CompositionalPortfolio(max_iter=2, constraint="long_only"),
            "X": RETURNS,
            "risk_aversions": [1.0, 10.0],
        },
        {"risk_aversions": "None", "periods_per_year": "fraction"} | TEXT,
    ),
    "plot_curves": Case(
        plotting.plot_curves,
        {"panels": {"row": {"scgd": [([0, 1], [2.0, 1.0])]}}, "labels": ["objective"]},
    ),
    "align_embedding": Case(
        plotting.align_embedding,
        {"embedding": POINTS, "reference": POINTS[::-1]},
        {"rows": "None"},
        names={"rows": "rows|reference"},
    ),
    "TableScaler": Case(
        lambda **a: preprocessing.TableScaler(**a).fit(POINTS), {"max_categories": 40}
    ),
    "TableScaler.fit": Case(
        lambda **a: preprocessing.TableScaler().fit(**a), {"X": POINTS}
    ),
    "plot_embeddings": Case(
        plotting.plot_embeddings,
        {"panels": {"map": POINTS[:, :2]}, "labels": np.arange(20) % 2},
        {"labels": "None"},
    ),
}
CASES = ESTIMATORS | SOLVERS | PROBLEMS | DATA
