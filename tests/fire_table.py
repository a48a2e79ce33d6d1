"""Every public callable of the package with arguments that it takes: what tests/house/test_fire_arguments.py spoils.

A case is a function and its arguments. ``allowed`` names, for an argument, the wrong values that it may take after all,
because they are documented (None as a default), or because they cannot be told from right ones (a function).
"""

import copy
import warnings
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
    metrics,
    penalties,
    plotting,
    problems,
    schedules,
    solvers,
    theory,
)

MODULES = [sk, affinities, callbacks, checks, compare, datasets, metrics, penalties, plotting, problems, schedules]
MODULES += [solvers, theory]

# names without arguments of a user's that could be wrong
INSIDE = {
    "CompositionalProblem": "a base class",
    "CompositionalSolver": "a base class",
    "LogMeanExpProblem": "a base class",
    "Source": "a base class",
    "FiniteSource": "is part of a problem, whose check looks at it",
    "Advice": "is part of a problem, whose check looks at it",
    "Published": "a tuple of constants",
    "InUnit": "a value in every iteration, which arithmetic makes",
    "Metric": "a base class",
    "Identity": "has no arguments",
    "ComparedRun": "a result",
    "SolverResult": "a result",
    "PolicyValue": "a result",
    "StopReason": "constants",
    "SOLVERS": "a dict",
    "at": "is called in every iteration, with what solvers have checked",
}

RETURNS = np.random.default_rng(0).normal(0.1, 1.0, (12, 3))
POINTS = np.random.default_rng(1).normal(size=(20, 3))
LEFT, CAME = np.random.default_rng(2).normal(size=(2, 15, 2))
REWARDS = LEFT.sum(axis=1)
P = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.5, 0.5]])
CONSTANTS = theory.ProblemConstants(L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1)
PARAMETERS = theory.storm_parameters(CONSTANTS, 0.1)


@dataclass
class Case:
    """A function with arguments that it takes, and wrong values that it may take too, or refuse as it likes."""

    call: object
    valid: dict
    allowed: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)  # what a message may call an argument instead, a regular expression
    fails: tuple = ()  # what the valid arguments may end in: data that are not there


def quiet(call):
    """The function without its warnings, which are not what is looked at."""

    def called(**arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(**arguments)

    return called


def portfolio_problem():
    return problems.PortfolioProblem(RETURNS)


def fit_portfolio(**parameters):
    return sk.CompositionalPortfolio(**{"max_iter": 2} | parameters).fit(RETURNS)


def fit_values(**parameters):
    value = sk.BellmanValueEstimator(**{"max_iter": 2} | parameters)
    return value.fit(LEFT, REWARDS, next_X=CAME, episode=np.arange(15) // 3)


def fit_actions(**parameters):
    q = sk.ActionValueEstimator(**{"max_iter": 2} | parameters)
    return q.fit(LEFT, REWARDS, action=np.arange(15) % 2, next_X=CAME)


def fit_map(**parameters):
    return sk.SNEEmbedding(**{"max_iter": 5, "perplexity": 4.0} | parameters).fit(POINTS)


def run(solver):
    """Run a solver of these parameters."""
    return lambda **parameters: sk.minimize(portfolio_problem(), solver(**parameters), random_state=0)


def run_problem(problem, **solver):
    """Run a problem of these arguments."""
    return lambda **arguments: sk.minimize(problem(**arguments), max_iter=2, random_state=0, **solver)


def run_stream(batches, problem, window=4):
    stream = problems.StreamingProblem(batches, problem, window=window)
    return sk.minimize(stream, "scgd", random_state=0, batch_size=2)


def offline(**arguments):
    with mock.patch("sk_stormc.datasets.french.urlopen", side_effect=OSError("no network")):
        return datasets.fetch_french_portfolios(**arguments)


def composed(**arguments):
    return run_problem(problems.FiniteSumComposition)(**arguments)


def differentiable(**arguments):
    pytest.importorskip("jax", reason="needs JAX")
    return run_problem(problems.DifferentiableComposition)(**arguments)


FITTED = quiet(fit_portfolio)()
VALUES = quiet(fit_values)()
ACTIONS = quiet(fit_actions)()
MAP = quiet(fit_map)()
MODEL = datasets.MarkovRewardProcess(P, [1.0, 0.0, 2.0])
RESULT = quiet(sk.minimize)(problem=portfolio_problem(), max_iter=3, random_state=0)
COMPARED = quiet(sk.compare_solvers)(
    problem_or_estimator=portfolio_problem(), solvers=["storm-c"], n_seeds=1, max_iter=2
)
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
    "inner_vjp": None,
    "x0": np.zeros(3),
    "penalty": None,
    "metric": None,
    "inner_floor": None,
}
ANY_SEED = {"random_state": "None,bool"}
SOLVER = {"learning_rate": 0.01, "batch_size": 4, "max_iter": 2, "max_ifo": None, "tol": 1e-4}
EPOCHS = {"checkpoint_batch_size": None, "epoch_length": 3}
RETURNS_OPEN = {"risk_aversion": "inf", "sample_weight": "None", "penalty": "None", "metric": "None"}
TAIL = {"returns": RETURNS, "risk_aversion": 1.0, "confidence": 0.9, "width": None, "sample_weight": np.ones(12),
        "penalty": None, "metric": None}
PARTIAL = {name: value for name, value in TAIL.items() if name != "confidence"} | {"order": 3.0}
TAIL_OPEN = RETURNS_OPEN | {"width": "None,fraction", "risk_measure": "None"}
AXES = {"ax": "None"}
ANY_NUMBER = "negative,fraction"
FUNCTION = "class,function"
OPEN = {"max_iter": "None", "max_ifo": "None", "batch_size": "None", "tol": "None", "learning_rate": FUNCTION}
EPOCHS_OPEN = OPEN | {"checkpoint_batch_size": "None"}
TEXT = dict.fromkeys(("x_label", "y_label", "risk_label", "name"), "string")
RISING = {"scale": "negative", "exponent": "negative", "start": "negative", "end": "negative", "horizon": "fraction"}
ITS_BUDGET = {"max_iter": "None", "tol": "None,fraction", "verbose": "bool"}
NEIGHBOURS = {"metric": FUNCTION, "metric_params": "None,dict", "n_jobs": "None,negative,bool"}


def parameters_of(solver, more=None, allowed=None):
    return Case(run(solver), SOLVER | (more or {}), OPEN | (allowed or {}))


CASES = {
    # estimators, whose parameters are looked at in fit
    "CompositionalPortfolio": Case(
        fit_portfolio,
        {"solver": "storm-c", "risk_measure": "variance", "risk_aversion": 1.0, "constraint": None, "budget": None,
         "confidence": 0.9, "order": 3.0, "previous_weights": np.zeros(3), "transaction_cost": 0.1,
         "l1": 0.0, "half_life": 100.0, "max_iter": 2, "tol": None, "warm_start": False, "verbose": 0,
         "random_state": 0},
        {"half_life": "None,fraction", "risk_aversion": "inf",
         "constraint": "None", "budget": f"None,{ANY_NUMBER}", "previous_weights": "None",
         "transaction_cost": "fraction,bool"} | ITS_BUDGET | ANY_SEED,
        {"constraint": "constraint|low"},
    ),
    "CompositionalPortfolio, limits": Case(
        fit_portfolio,
        {"max_turnover": 5.0, "linear_constraints": (np.ones((1, 3)), -5.0, 5.0), "groups": ["a", "a", "b"],
         "benchmark": np.full(3, 0.3), "objective": "utility"},
        {"max_turnover": "None,fraction", "linear_constraints": "None", "groups": "None,dict", "benchmark": "None"},
    ),
    "CompositionalPortfolio.fit": Case(FITTED.fit, {"X": RETURNS, "sample_weight": np.ones(12)},
                                       {"sample_weight": "None"}),
    "CompositionalPortfolio.predict": Case(FITTED.predict, {"X": RETURNS}),
    "CompositionalPortfolio.score": Case(FITTED.score, {"X": RETURNS, "sample_weight": np.ones(12)},
                                         {"sample_weight": "None"}),
    "CompositionalPortfolio.resume": Case(lambda **a: quiet(fit_portfolio)().set_params(max_iter=3).resume(**a),
                                          {"X": RETURNS}),
    "BellmanValueEstimator": Case(
        fit_values,
        {"gamma": 0.5, "solver": "storm-c", "objective": "projected", "features": None, "fit_intercept": True,
         "alpha": 0.0, "trace_decay": 0.0, "half_life": 100.0, "max_iter": 2, "tol": None, "verbose": 0,
         "random_state": 0},
        {"features": "None", "half_life": "None"} | ITS_BUDGET | ANY_SEED,
    ),
    "BellmanValueEstimator.fit": Case(
        VALUES.fit,
        {"X": LEFT, "y": REWARDS, "next_X": CAME, "terminal": np.zeros(15, bool), "sample_weight": np.ones(15),
         "importance_ratio": np.ones(15)},
        {"next_X": "None", "terminal": "None", "sample_weight": "None,fraction,bool", "importance_ratio": "None,bool"},
    ),
    "BellmanValueEstimator.fit, time": Case(
        VALUES.fit, {"X": LEFT, "y": REWARDS, "time": np.arange(15)}, {"time": "None"}
    ),
    "BellmanValueEstimator.fit, episode": Case(
        VALUES.fit, {"X": LEFT, "y": REWARDS, "episode": np.repeat(["a", "b", "c"], 5)}, {"episode": "None"}
    ),
    "BellmanValueEstimator.predict": Case(
        lambda **a: quiet(fit_values)().predict(**a), {"X": LEFT, "return_std": True}
    ),
    "BellmanValueEstimator.value_interval": Case(
        lambda **a: quiet(fit_values)().value_interval(**a),
        {"X0": LEFT, "confidence": 0.5, "mean": True}, {"confidence": "fraction"},
    ),
    "BellmanValueEstimator.score": Case(
        VALUES.score, {"X": LEFT, "y": REWARDS, "next_X": CAME, "terminal": np.zeros(15, bool),
                       "sample_weight": np.ones(15), "importance_ratio": np.ones(15)},
        {"terminal": "None", "sample_weight": "None,fraction,bool", "importance_ratio": "None,bool"},
    ),
    "ActionValueEstimator": Case(
        fit_actions,
        {"policy": "greedy", "gamma": 0.5, "solver": "lstd", "features": None, "fit_intercept": True, "alpha": 0.0,
         "max_iter": 2, "tol": None, "verbose": 0, "random_state": 0},
        {"features": "None", "policy": FUNCTION} | ITS_BUDGET | ANY_SEED,
    ),
    "ActionValueEstimator.fit": Case(
        ACTIONS.fit,
        {"X": LEFT, "y": REWARDS, "action": np.arange(15) % 2, "next_X": CAME, "terminal": np.zeros(15, bool),
         "sample_weight": np.ones(15)},
        {"action": "None", "next_X": "None", "terminal": "None", "sample_weight": "None,fraction,bool"},
    ),
    "ActionValueEstimator.predict": Case(ACTIONS.predict, {"X": LEFT}),
    "ActionValueEstimator.policy": Case(ACTIONS.policy, {"X": LEFT}),
    "ActionValueEstimator.score": Case(
        ACTIONS.score, {"X": LEFT, "y": REWARDS, "action": np.arange(15) % 2, "next_X": CAME,
                        "terminal": np.zeros(15, bool), "sample_weight": np.ones(15)},
        {"terminal": "None", "sample_weight": "None,fraction,bool"},
    ),
    "SNEEmbedding": Case(
        fit_map,
        {"n_components": 2, "perplexity": 4.0, "kernel": "auto", "dof": 1.0, "solver": "storm-c", "init": "auto",
         "exaggeration": 1.0, "record_every": "auto",
         "metric": "euclidean", "metric_params": None, "neighbors": "auto", "max_iter": 5,
         "early_exaggeration": "auto", "tol": "auto",
         "transform_perplexity": None, "verbose": 0, "random_state": 0, "n_jobs": None},
        {"early_exaggeration": "fraction", "transform_perplexity": "None,fraction"}
        | ITS_BUDGET | NEIGHBOURS | ANY_SEED,
    ),
    "SNEEmbedding.fit": Case(lambda X: quiet(fit_map)().fit(X), {"X": POINTS}),
    "SNEEmbedding.optimize": Case(
        lambda **a: quiet(copy.deepcopy(MAP).optimize)(**a),
        {"n_iter": 3, "exaggeration": 1.0, "learning_rate": 0.1, "record_every": "auto"},
        {"learning_rate": "None"},
    ),
    "SNEEmbedding.transform": Case(MAP.transform, {"X": POINTS, "return_distance": False}),
    "sharpe_ratio": Case(sk.sharpe_ratio, {"estimator": FITTED, "X": RETURNS}),
    "make_sharpe_scorer": Case(
        sk.make_sharpe_scorer, {"periods_per_year": 252, "risk_free": 0.0},
        {"periods_per_year": "fraction", "risk_free": "string,negative"},
    ),
    # solvers
    "STORMCompositional": parameters_of(
        sk.STORMCompositional,
        {"precision": 1.0, "momentum": 0.1, "init_batch_size": 4, "normalization": None, "anchor": None,
         "output": "last"},
        {"init_batch_size": "None", "normalization": "None", "anchor": "None", "momentum": FUNCTION},
    ),
    "AutomaticSTORM": parameters_of(sk.AutomaticSTORM, {}),
    "SketchySTORM": parameters_of(sk.SketchySTORM, {"rank": 2, "sketch_batch_size": 4}),
    "SARAHCompositional": parameters_of(sk.SARAHCompositional, EPOCHS, EPOCHS_OPEN),
    "CIVR": parameters_of(sk.CIVR, EPOCHS | {"precision": 1.0}, EPOCHS_OPEN | {"precision": "None"}),
    "VRSCPG": parameters_of(sk.VRSCPG, EPOCHS, EPOCHS_OPEN),
    "SCVR": parameters_of(sk.SCVR, EPOCHS, EPOCHS_OPEN),
    "SCGD": parameters_of(sk.SCGD, {"beta": 0.5, "exponents": (-0.5, -0.5)}),
    "ASCPG": parameters_of(sk.ASCPG, {"beta": 0.5, "exponents": (-0.5, -0.5)}),
    "LBFGS": Case(run(sk.LBFGS), {"memory": 3, "max_iter": 2, "max_ifo": None, "tol": 1e-4}, OPEN),
    "get_solver": Case(solvers.get_solver, {"solver": "storm-c"}),
    "minimize": Case(
        sk.minimize,
        {"problem": portfolio_problem(), "solver": "storm-c", "x0": np.zeros(3), "random_state": 0, "state": None,
         "record_every": 10, "on_record": None, "verbose": 0, "max_iter": 2},
        {"x0": "None", "state": "None", "record_every": "None", "on_record": f"None,{FUNCTION}",
         "verbose": "bool", "max_iter": "None"} | ANY_SEED,
    ),
    "off_policy_value": Case(
        sk.off_policy_value,
        {"y": REWARDS, "importance_ratio": np.ones(15), "episode": np.repeat(["a", "b", "c"], 5), "gamma": 0.5,
         "method": "dr", "time": None, "X": LEFT, "action": np.arange(15) % 2,
         "target": np.full((15, 2), 0.5), "next_X": CAME, "terminal": np.arange(15) % 5 == 4, "estimator": None,
         "cv": 2},
        {"importance_ratio": "None,bool", "next_X": "None", "estimator": "None", "time": "None", "target": FUNCTION},
    ),
    "estimated_ratios": Case(
        sk.estimated_ratios,
        {"X": LEFT, "action": np.arange(15) % 2, "target": np.full((15, 2), 0.5), "classifier": LogisticRegression(),
         "episode": np.repeat(["a", "b", "c"], 5), "cv": 2},
        {"episode": "None"},
    ),
    "compare_solvers": Case(
        sk.compare_solvers,
        {"problem_or_estimator": sk.CompositionalPortfolio(), "solvers": ["storm-c"], "X": RETURNS, "n_seeds": 1,
         "max_ifo": 100, "gaps": (0.1,), "optimum": None, "gradient": False, "random_state": 0, "progress": None},
        {"max_ifo": "None", "gaps": "empty", "optimum": f"None,{ANY_NUMBER}", "progress": f"None,{FUNCTION}"}
        | ANY_SEED,
        {"solvers": "solvers?"},
    ),
    "SolverComparison.plot": Case(COMPARED.plot, {"x": "passes", "y": "objective", "ax": None}, AXES),
    "check_solver": Case(
        checks.check_solver,
        {"solver": sk.SCGD(), "problem": None, "max_iter": 4, "random_state": 0}, {"problem": "None"} | ANY_SEED,
    ),
    # problems, whose data are looked at when they are made, and penalties at the latest when they are run
    "PortfolioProblem": Case(
        run_problem(problems.PortfolioProblem),
        {"returns": RETURNS, "risk_aversion": 1.0, "risk_measure": "variance", "sample_weight": np.ones(12),
         "penalty": None, "metric": None},
        RETURNS_OPEN,
    ),
    "EntropicPortfolioProblem": Case(
        run_problem(problems.EntropicPortfolioProblem),
        {"returns": RETURNS, "risk_aversion": 1.0, "risk_measure": "entropic", "sample_weight": np.ones(12),
         "penalty": None, "metric": None},
        RETURNS_OPEN,
    ),
    "CVaRPortfolioProblem": Case(
        run_problem(problems.CVaRPortfolioProblem), TAIL | {"risk_measure": "cvar"}, TAIL_OPEN
    ),
    "EVaRPortfolioProblem": Case(
        run_problem(problems.EVaRPortfolioProblem), TAIL | {"risk_measure": "evar"}, TAIL_OPEN
    ),
    "SemideviationPortfolioProblem": Case(
        run_problem(problems.SemideviationPortfolioProblem), PARTIAL | {"risk_measure": "semideviation"}, TAIL_OPEN
    ),
    "DownsidePortfolioProblem": Case(
        run_problem(problems.DownsidePortfolioProblem), PARTIAL | {"risk_measure": "downside"}, TAIL_OPEN
    ),
    "DrawdownPortfolioProblem": Case(
        lambda **a: quiet(problems.DrawdownPortfolioProblem)(**a).value_at(np.ones(3)),
        {name: value for name, value in TAIL.items() if name != "width"} | {"risk_measure": "cdar"}, RETURNS_OPEN
    ),
    "BellmanProblem": Case(
        run_problem(problems.BellmanProblem),
        {"transition_matrix": P, "rewards": np.ones(3), "features": np.eye(3)[:, :2], "gamma": 0.5,
         "next_features": np.eye(3)[:, :2], "sample_weight": np.ones(3), "alpha": 0.0, "sampling": "successor",
         "metric": "auto"},
        {"alpha": "bool", "features": "None", "next_features": "None", "sample_weight": "None", "metric": "None"},
        {"features": "next_features|features"},  # None is one for each state
    ),
    "ProjectedBellmanProblem": Case(
        run_problem(problems.ProjectedBellmanProblem),
        {"features": LEFT, "next_features": CAME, "rewards": REWARDS, "gamma": 0.5, "sample_weight": np.ones(15),
         "alpha": 0.0, "metric": "auto", "covariance": None},
        {"alpha": "bool", "sample_weight": "None", "metric": "None", "covariance": "None"},
        {"rewards": "rewards|features"},  # of other lengths
    ),
    "SNEProblem": Case(
        run_problem(problems.SNEProblem),
        {"affinities": AFFINITIES, "n_components": 2, "kernel": "gaussian", "exaggeration": 1.0, "n_iter": None,
         "dof": 1.0, "joint": False, "near_field": True, "jacobian": "operator", "dtype": np.float32},
        {"n_iter": "None"},
    ),
    "FiniteSumComposition": Case(
        composed, COMPOSITION,
        {"inner": FUNCTION, "inner_jacobian": f"None,{FUNCTION}", "outer_gradient": FUNCTION, "outer": FUNCTION,
         "n_variables": "None", "inner_vjp": f"None,{FUNCTION}", "x0": "None", "penalty": "None", "metric": "None",
         "inner_floor": f"None,bool,{ANY_NUMBER}"},
    ),
    "DifferentiableComposition": Case(
        differentiable,
        {"inner": lambda x, row: row @ x, "outer": lambda x, u, row: x @ x + u * row[0], "inner_data": RETURNS,
         "outer_data": RETURNS, "x0": np.zeros(3), "jacobian": "auto", "sample_weight": None, "penalty": None,
         "metric": None, "inner_floor": None},
        {"inner": FUNCTION, "outer": FUNCTION, "inner_data": "None,3-d", "outer_data": "None,3-d",
         "x0": "negative,fraction,bool,3-d,dict", "sample_weight": "None", "penalty": "None", "metric": "None",
         "inner_floor": f"None,bool,{ANY_NUMBER}"},
    ),
    "StreamingProblem": Case(
        run_stream, {"batches": [RETURNS], "problem": problems.PortfolioProblem, "window": 4},
        {"batches": "3-d", "problem": FUNCTION},
    ),
    "check_problem": Case(
        problems.check_problem,
        {"problem": portfolio_problem(), "x": np.ones(3), "repeated": None, "n_draws": 30, "random_state": 0},
        {"x": "None", "repeated": "None"} | ANY_SEED,
    ),
    # penalties, metrics, schedules
    "L1": Case(penalties.L1, {"alpha": 0.1}),
    "Box": Case(penalties.Box, {"low": 0.0, "high": 1.0, "budget": None, "alpha": 0.0},
                {"low": "negative,empty,bool", "high": "inf,empty,bool", "budget": f"None,{ANY_NUMBER}"}),
    "Simplex": Case(penalties.Simplex, {"total": 1.0}),
    "check_penalty": Case(
        penalties.check_penalty, {"penalty": penalties.Simplex(), "n_variables": 3}, {"penalty": "None"}
    ),
    "Diagonal": Case(lambda values: metrics.as_metric(metrics.Diagonal(values), 3), {"values": np.ones(3)}),
    "Matrix": Case(lambda values: metrics.as_metric(metrics.Matrix(values), 3), {"values": np.eye(3)}),
    "LowRank": Case(
        lambda **arguments: metrics.as_metric(metrics.LowRank(**arguments), 3),
        {"scale": np.ones(3), "W": np.full((3, 1), 0.1)},
    ),
    "as_metric": Case(metrics.as_metric, {"metric": np.ones(3), "n_variables": 3}, {"metric": "None"}),
    "Geometric": Case(schedules.Geometric, {"start": 1.0, "end": 0.1, "horizon": 10}, {"horizon": "fraction"}),
    "Slowed": Case(schedules.Slowed, {"schedule": schedules.power(-0.5), "times": 2.0}, {"schedule": FUNCTION}),
    "constant": Case(schedules.constant, {"value": 1.0}, {"value": "negative"}, {}),
    "inverse": Case(schedules.inverse, {"scale": 1.0}, RISING),
    "power": Case(schedules.power, {"exponent": -0.5, "scale": 1.0}, RISING),
    "decay_to": Case(schedules.decay_to, {"end": 0.1, "start": 1.0, "horizon": 10, "hold": 0.5}, RISING),
    # neighbours
    "affinities": Case(affinities.affinities, {"search": SEARCH, "perplexity": 4.0}),
    "check_affinities": Case(affinities.check_affinities, {"P": AFFINITIES, "joint": False}, {}, {"P": "affinities"}),
    "conditional_probabilities": Case(
        affinities.conditional_probabilities, {"distances": np.abs(POINTS), "perplexity": 2.0}
    ),
    "nearest_neighbors": Case(
        affinities.nearest_neighbors,
        {"X": POINTS, "n_neighbors": 4, "metric": "euclidean", "metric_params": None, "n_jobs": None,
         "neighbors": "exact"},
        NEIGHBOURS,
    ),
    "perplexity_affinities": Case(
        affinities.perplexity_affinities,
        {"X": POINTS, "perplexity": 4.0, "n_neighbors": 10, "metric": "euclidean", "metric_params": None,
         "n_jobs": None, "neighbors": "exact"},
        {"n_neighbors": "None"} | NEIGHBOURS,
    ),
    "perplexity_search": Case(
        affinities.perplexity_search,
        {"X": POINTS, "perplexity": 4.0, "factor": 3, "metric": "euclidean", "metric_params": None, "n_jobs": None,
         "neighbors": "exact"},
        NEIGHBOURS,
    ),
    # callbacks
    "Checkpoint": Case(callbacks.Checkpoint, {"path": "run.npz", "every": 1}, {"path": "string"}),
    "EarlyStopping": Case(
        callbacks.EarlyStopping, {"monitor": "loss", "patience": 5, "min_delta": 1e-4}, {"monitor": FUNCTION}
    ),
    "TimeLimit": Case(callbacks.TimeLimit, {"seconds": 1.0}),
    # data sets
    "MarkovRewardProcess": Case(
        datasets.MarkovRewardProcess,
        {"transition_matrix": P, "rewards": np.ones(3), "features": np.eye(3), "gamma": 0.5}, {"features": "None"},
    ),
    "MarkovRewardProcess.transitions": Case(MODEL.transitions, {"n_transitions": 4, "random_state": 0}, ANY_SEED),
    "MarkovRewardProcess.from_gymnasium": Case(
        datasets.MarkovRewardProcess.from_gymnasium,
        {"env": "FrozenLake-v1", "policy": None, "gamma": 0.9, "features": None},
        {"policy": "None", "features": "None"},
    ),
    "collect_transitions": Case(
        datasets.collect_transitions,
        {"env": "FrozenLake-v1", "policy": None, "n_transitions": 5, "seed": 0, "one_hot": True,
         "target": np.full((16, 4), 0.25)},
        {"policy": "None", "seed": "None", "target": "None"},
    ),
    "transitions_from_episodes": Case(
        datasets.transitions_from_episodes,
        {"episodes": [{"observations": LEFT, "actions": np.arange(14) % 2, "rewards": REWARDS[:14]}],
         "observation_space": None, "one_hot": True},
        {"observation_space": "None"},
    ),
    "transitions_from_arrays": Case(
        datasets.transitions_from_arrays,
        {"observations": LEFT, "actions": np.arange(15) % 2, "rewards": REWARDS, "terminals": np.arange(15) % 5 == 4,
         "timeouts": np.zeros(15), "next_observations": CAME, "observation_space": None, "one_hot": True},
        {"timeouts": "None", "next_observations": "None", "observation_space": "None"},
    ),
    "fetch_french_portfolios": Case(
        offline,
        {"region": "Europe", "sort": "OP", "data_home": None, "download_if_missing": False, "as_frame": False},
        {"data_home": "None,string"},
        fails=(OSError,),
    ),
    "make_augmented_digits": Case(datasets.make_augmented_digits, {"n_samples": 10, "random_state": 0}, ANY_SEED),
    "make_bellman_problem": Case(
        datasets.make_bellman_problem,
        {"n_states": 4, "n_features": 2, "gamma": 0.5, "kind": "dense", "random_state": 0},
        {"n_features": "None"} | ANY_SEED,
    ),
    "make_gaussian_returns": Case(
        datasets.make_gaussian_returns,
        {"n_periods": 4, "n_assets": 2, "mean": 1.0, "condition_number": 20.0, "random_state": 0},
        {"mean": "negative,bool"} | ANY_SEED,
    ),
    # theory
    "ProblemConstants": Case(theory.ProblemConstants, vars(CONSTANTS), dict.fromkeys(vars(CONSTANTS), "fraction")),
    "StormParameters": Case(theory.StormParameters, vars(PARAMETERS), dict.fromkeys(vars(PARAMETERS), "fraction")),
    "storm_parameters": Case(
        theory.storm_parameters, {"constants": CONSTANTS, "epsilon": 0.1, "variant": "corrected", "round_up": True}
    ),
    "equipartition": Case(
        theory.equipartition, {"constants": CONSTANTS, "epsilon": 0.1, "parameters": PARAMETERS}
    ),
    "theorem_condition": Case(
        theory.theorem_condition,
        {"constants": CONSTANTS, "epsilon": 0.1, "parameters": PARAMETERS, "variant": "corrected"},
    ),
    "estimate_constants": Case(
        theory.estimate_constants,
        {"problem": portfolio_problem(), "x0": np.ones(3), "radius": 1.0, "n_samples": 5, "random_state": 0},
        ANY_SEED,
    ),
    # displays
    "ConvergenceDisplay": Case(
        lambda **arguments: plotting.ConvergenceDisplay(**arguments).plot(),
        {"curves": {"a": [([1, 2], [2.0, 1.0])]}, "x_label": "IFO", "y_label": "objective", "y_scale": "log"},
        TEXT,
    ),
    "ConvergenceDisplay.from_results": Case(
        plotting.ConvergenceDisplay.from_results,
        {"results": {"a": RESULT}, "x": "ifo", "y": "objective", "optimum": None, "pass_ifo": 36, "ax": None,
         "x_scale": "log"},
        {"optimum": f"None,{ANY_NUMBER}", "pass_ifo": "None"} | AXES,
    ),
    "ConvergenceDisplay.from_estimator": Case(
        plotting.ConvergenceDisplay.from_estimator,
        {"estimator": FITTED, "x": "ifo", "y": "objective", "optimum": None, "pass_ifo": 36, "ax": None,
         "x_scale": "log"},
        {"optimum": f"None,{ANY_NUMBER}", "pass_ifo": "None"} | AXES,
    ),
    "EmbeddingDisplay": Case(
        lambda **arguments: plotting.EmbeddingDisplay(**arguments).plot(),
        {"embedding": POINTS[:, :2], "y": np.arange(20) % 2, "y_label": "class"}, {"y": "None"} | TEXT,
    ),
    "EmbeddingDisplay.from_estimator": Case(
        plotting.EmbeddingDisplay.from_estimator,
        {"estimator": MAP, "y": np.arange(20) % 2, "y_label": "class", "ax": None, "legend": True},
        {"y": "None"} | TEXT | AXES,
    ),
    "FrontierDisplay": Case(
        lambda **arguments: plotting.FrontierDisplay(**arguments).plot(),
        {"risk": [1.0, 2.0], "mean": [0.1, 0.2], "asset_risk": [1.0, 3.0], "asset_mean": [0.1, 0.3],
         "asset_names": ["a", "b"], "chosen": None, "risk_label": "risk", "name": "portfolios"},
        {"asset_names": "None,names", "chosen": "None", "asset_risk": "None"} | TEXT,
    ),
    "FrontierDisplay.from_estimator": Case(
        plotting.FrontierDisplay.from_estimator,
        {"estimator": sk.CompositionalPortfolio(max_iter=2, constraint="long_only"), "X": RETURNS,
         "risk_aversions": [1.0, 10.0], "name": "portfolios", "ax": None},
        {"risk_aversions": "None"} | TEXT | AXES,
    ),
    "plot_curves": Case(
        plotting.plot_curves, {"panels": {"row": {"scgd": [([0, 1], [2.0, 1.0])]}}, "labels": ["objective"]}
    ),
    "plot_embeddings": Case(
        plotting.plot_embeddings, {"panels": {"map": POINTS[:, :2]}, "labels": np.arange(20) % 2}, {"labels": "None"}
    ),
}
