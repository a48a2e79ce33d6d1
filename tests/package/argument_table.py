"""Every public callable with valid arguments, which test_invalid_arguments.py replaces
by invalid ones."""

import copy
import warnings
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


class Case:
    """A function with valid arguments; arguments that are not given have their
    defaults.

    ``allowed`` has, for an argument, the names of further invalid values that it may
    take here. None where it is the default, fractions where a number is a float, and
    integers where it is a bool need not be named. ``names`` is what a message may call
    an argument instead, a regular expression, and ``fails`` has exceptions of a call
    with valid arguments, because data are missing.
    """

    def __init__(self, call, allowed=None, names=None, fails=(), **given):
        self.call, self.given, self.fails = call, given, fails
        self.allowed, self.names = allowed or {}, names or {}


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
# invalid values that an argument of this name may take wherever it occurs, because they
# are documented or cannot be told from valid ones
ALLOWED = {
    "batch_size": "None",
    "budget": "negative,fraction",
    "horizon": "fraction",
    "importance_ratio": "bool",
    "inner_floor": "bool,negative,fraction",
    "metric_params": "dict",
    "n_jobs": "negative,bool",
    "optimum": "negative,fraction",
    "periods_per_year": "fraction",
    "random_state": "None,bool",
    "risk_aversion": "inf",
    "transaction_cost": "bool",
    "verbose": "bool",
}
ALLOWED |= dict.fromkeys(("inner", "learning_rate", "metric", "outer"), "class")
ALLOWED |= dict.fromkeys(("x_label", "y_label", "risk_label", "mean_label"), "string")
SOLVER = {"learning_rate": 0.01, "batch_size": 4, "max_iter": 2}
EPOCHS = SOLVER | {"epoch_length": 3}
FITTING = {"max_iter": 2, "random_state": 0}
WEIGHTS = {"sample_weight": np.ones(12)}
TRANSITIONS = {
    "X": STATES,
    "y": REWARDS,
    "next_X": NEXT,
    "terminal": np.zeros(15, bool),
    "sample_weight": np.ones(15),
}


def solver_case(solver, more=None, allowed=None):
    return Case(run(solver), allowed, **SOLVER | (more or {}))


ESTIMATORS = {
    "CompositionalPortfolio": Case(
        fit_portfolio,
        allowed={
            "max_risk": "fraction",
            "max_turnover": "fraction",
            "max_gross": "fraction",
            "tol": "fraction",
        },
        names={"constraint": "constraint|low"},
        solver="storm-c",
        previous_weights=np.zeros(3),
        transaction_cost=0.1,
        half_life=100.0,
        **FITTING,
    ),
    "CompositionalPortfolio, limits": Case(
        fit_portfolio,
        allowed={"groups": "dict"},
        max_turnover=5.0,
        linear_constraints=(np.ones((1, 3)), -5.0, 5.0),
        groups=["a", "a", "b"],
        benchmark=np.full(3, 0.3),
        objective="utility",
    ),
    "CompositionalPortfolio, forecasts": Case(
        fit_portfolio,
        allowed={"min_return": "negative"},
        expected_returns=np.full(3, 0.1),
        min_return=0.1,
        max_gross=5.0,
        l2=0.1,
        risk_aversion=np.inf,
    ),
    "CompositionalPortfolio, integer limits": Case(
        fit_portfolio,
        allowed={"min_held": "bool"},
        names={"constraint": "constraint|low"},
        solver="scip",
        constraint="long_only",
        max_assets=2,
        min_held=0.1,
        time_limit=5.0,
    ),
    "CompositionalPortfolio.fit": Case(
        FITTED.fit, allowed={"sample_weight": "fraction,bool"}, X=RETURNS, **WEIGHTS
    ),
    "CompositionalPortfolio.predict": Case(FITTED.predict, X=RETURNS),
    "CompositionalPortfolio.score": Case(
        FITTED.score, allowed={"sample_weight": "fraction,bool"}, X=RETURNS, **WEIGHTS
    ),
    "CompositionalPortfolio.resume": Case(
        lambda **a: fit_portfolio().set_params(max_iter=3).resume(**a), X=RETURNS
    ),
    "BellmanValueEstimator": Case(
        fit_values,
        allowed={"tol": "fraction"},
        gamma=0.5,
        solver="storm-c",
        objective="projected",
        half_life=100.0,
        **FITTING,
    ),
    "BellmanValueEstimator.fit": Case(
        VALUES.fit,
        allowed={"sample_weight": "fraction,bool"},
        **TRANSITIONS,
        importance_ratio=np.ones(15),
    ),
    "BellmanValueEstimator.fit, time": Case(
        VALUES.fit, X=STATES, y=REWARDS, time=np.arange(15)
    ),
    "BellmanValueEstimator.fit, episode": Case(
        VALUES.fit, X=STATES, y=REWARDS, episode=EPISODES
    ),
    "BellmanValueEstimator.predict": Case(
        lambda **a: fit_values().predict(**a), X=STATES, return_std=True
    ),
    "BellmanValueEstimator.value_interval": Case(
        lambda **a: fit_values().value_interval(**a),
        X0=STATES,
        confidence=0.5,
        mean=True,
    ),
    "BellmanValueEstimator.score": Case(
        VALUES.score,
        allowed={"sample_weight": "fraction,bool"},
        **TRANSITIONS,
        importance_ratio=np.ones(15),
    ),
    "ActionValueEstimator": Case(
        fit_actions,
        allowed={"policy": "class", "tol": "fraction"},
        gamma=0.5,
        solver="lstd",
        **FITTING,
    ),
    "ActionValueEstimator.fit": Case(
        QVALUES.fit,
        allowed={"sample_weight": "fraction,bool"},
        **TRANSITIONS,
        action=ACTIONS,
    ),
    "ActionValueEstimator.predict": Case(QVALUES.predict, X=STATES),
    "ActionValueEstimator.predict_action": Case(QVALUES.predict_action, X=STATES),
    "ActionValueEstimator.score": Case(
        QVALUES.score,
        allowed={"sample_weight": "fraction,bool"},
        **TRANSITIONS,
        action=ACTIONS,
    ),
    "SNEEmbedding": Case(
        fit_map,
        allowed={
            "early_exaggeration": "fraction",
            "transform_perplexity": "fraction",
            "max_iter": "None",
            "tol": "None,fraction",
        },
        perplexity=4.0,
        max_iter=5,
        random_state=0,
    ),
    "SNEEmbedding.fit": Case(lambda **a: fit_map().fit(**a), X=POINTS),
    "SNEEmbedding.optimize": Case(
        lambda **a: quiet(copy.deepcopy(MAP).optimize)(**a), n_iter=3, learning_rate=0.1
    ),
    "SNEEmbedding.transform": Case(MAP.transform, X=POINTS),
    "sharpe_ratio": Case(sk.sharpe_ratio, estimator=FITTED, X=RETURNS),
    "make_sharpe_scorer": Case(
        sk.make_sharpe_scorer, allowed={"risk_free": "string,negative"}
    ),
    "walk_forward": Case(
        quiet(sk.walk_forward),
        portfolio=sk.CompositionalPortfolio(constraint="long_only"),
        returns=RETURNS,
        window=6,
        first_window=5,
        refit_every=4,
        benchmark=np.full(12, 0.1),
        unit="fractions",
    ),
    "compare_policies": Case(
        sk.compare_policies, allowed={"classifier": "all"}, **COMPARING
    ),
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
    "estimated_ratios": Case(
        sk.estimated_ratios,
        X=STATES,
        action=ACTIONS,
        target=TARGET,
        classifier=LogisticRegression(),
        episode=EPISODES,
        cv=2,
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
        {"init_batch_size": "None", "momentum": "class"},
    ),
    "AutomaticSTORM": solver_case(sk.AutomaticSTORM),
    "SketchySTORM": solver_case(sk.SketchySTORM, {"rank": 2, "sketch_batch_size": 4}),
    "SARAHCompositional": solver_case(sk.SARAHCompositional, EPOCHS),
    "CIVR": solver_case(sk.CIVR, EPOCHS | {"precision": 1.0}, {"precision": "None"}),
    "VRSCPG": solver_case(sk.VRSCPG, EPOCHS),
    "SCVR": solver_case(sk.SCVR, EPOCHS),
    "SCGD": solver_case(sk.SCGD, {"beta": 0.5, "exponents": (-0.5, -0.5)}),
    "ASCPG": solver_case(sk.ASCPG, {"beta": 0.5, "exponents": (-0.5, -0.5)}),
    "LBFGS": Case(run(sk.LBFGS), memory=3, max_iter=2),
    "CorrectedSample": Case(run_corrected, sample_size=5, solver="lbfgs", max_iter=2),
    "get_solver": Case(solvers.get_solver, solver="storm-c"),
    "minimize": Case(
        sk.minimize,
        allowed={"on_record": "class", "max_iter": "None"},
        problem=portfolio_problem(),
        x0=np.zeros(3),
        random_state=0,
        record_every=10,
        max_iter=2,
    ),
    "compare_solvers": Case(
        sk.compare_solvers,
        allowed={"gaps": "empty", "progress": "class"},
        names={"solvers": "solvers?"},
        problem_or_estimator=sk.CompositionalPortfolio(),
        solvers=["storm-c"],
        X=RETURNS,
        n_seeds=1,
        max_ifo=100,
        gaps=(0.1,),
        random_state=0,
    ),
    "SolverComparison.plot": Case(COMPARED.plot, y="objective"),
    "check_solver": Case(checks.check_solver, solver=sk.SCGD(), max_iter=4),
    # theory
    "ProblemConstants": Case(
        theory.ProblemConstants,
        allowed={
            "L_f": "fraction",
            "L_g": "fraction",
            "L_phi": "fraction",
            "M_f": "fraction",
            "M_g": "fraction",
            "H_1": "fraction",
            "H_2": "fraction",
            "H_3": "fraction",
            "Delta": "fraction",
        },
        **(vars(CONSTANTS)),
    ),
    "StormParameters": Case(
        theory.StormParameters,
        allowed={
            "B_g": "fraction",
            "B_dg": "fraction",
            "B_f": "fraction",
            "S_g": "fraction",
            "S_dg": "fraction",
            "S_f": "fraction",
            "T": "fraction",
        },
        **(vars(PARAMETERS)),
    ),
    "storm_parameters": Case(theory.storm_parameters, constants=CONSTANTS, epsilon=0.1),
    "equipartition": Case(
        theory.equipartition, constants=CONSTANTS, epsilon=0.1, parameters=PARAMETERS
    ),
    "theorem_condition": Case(
        theory.theorem_condition,
        constants=CONSTANTS,
        epsilon=0.1,
        parameters=PARAMETERS,
    ),
    "estimate_constants": Case(
        theory.estimate_constants,
        problem=portfolio_problem(),
        x0=np.ones(3),
        radius=1.0,
        n_samples=5,
        random_state=0,
    ),
}
PROBLEMS = {
    "PortfolioProblem": Case(
        run_problem(problems.PortfolioProblem), returns=RETURNS, **WEIGHTS
    ),
    "EntropicPortfolioProblem": Case(
        run_problem(problems.EntropicPortfolioProblem), returns=RETURNS, **WEIGHTS
    ),
    "BellmanProblem": Case(
        run_problem(problems.BellmanProblem),
        allowed={"alpha": "bool", "preconditioner": "None"},
        names={"features": "next_features|features"},
        transition_matrix=P,
        rewards=np.ones(3),
        features=np.eye(3)[:, :2],
        gamma=0.5,
        next_features=np.eye(3)[:, :2],
        sample_weight=np.ones(3),
    ),
    "ProjectedBellmanProblem": Case(
        run_problem(problems.ProjectedBellmanProblem),
        allowed={"alpha": "bool", "preconditioner": "None"},
        names={"rewards": "rewards|features"},
        features=STATES,
        next_features=NEXT,
        rewards=REWARDS,
        gamma=0.5,
        sample_weight=np.ones(15),
    ),
    "SNEProblem": Case(run_problem(problems.SNEProblem), affinities=AFFINITIES),
    "FiniteSumComposition": Case(
        run_problem(problems.FiniteSumComposition),
        allowed={
            "inner_jacobian": "None,class",
            "outer_gradient": "class",
            "inner_vjp": "class",
        },
        **COMPOSITION,
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
    "StreamingProblem": Case(
        run_stream,
        allowed={"batches": "3-d", "problem": "class"},
        batches=[RETURNS],
        problem=problems.PortfolioProblem,
        window=4,
    ),
    "Advice": Case(
        problems.Advice,
        allowed={
            "normalization": "all",
            "instead": "all",
            "learning_rate": "fraction",
            "precision": "fraction,class",
            "smoothness": "class",
            "unbounded_below": "class",
        },
    ),
    "check_problem": Case(
        problems.check_problem, problem=portfolio_problem(), x=np.ones(3), n_draws=30
    ),
    # penalties, preconditioners, schedules
    "L1": Case(penalties.L1, allowed={"alpha": "dict"}, alpha=0.1),
    "Box": Case(
        penalties.Box,
        allowed={
            "low": "negative,empty,bool",
            "high": "inf,empty,bool",
            "alpha": "dict",
        },
        low=0.0,
        high=1.0,
    ),
    "Simplex": Case(penalties.Simplex),
    "check_penalty": Case(
        penalties.check_penalty,
        allowed={"penalty": "None", "name": "all"},
        penalty=penalties.Simplex(),
        n_variables=3,
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
    "as_preconditioner": Case(
        preconditioners.as_preconditioner,
        allowed={"preconditioner": "None"},
        preconditioner=np.ones(3),
        n_variables=3,
    ),
    "Geometric": Case(schedules.Geometric, start=1.0, end=0.1, horizon=10),
    "Slowed": Case(
        schedules.Slowed,
        allowed={"schedule": "class"},
        schedule=schedules.power(-0.5),
        times=2.0,
    ),
    "constant": Case(schedules.constant, allowed={"value": "negative"}, value=1.0),
    "inverse": Case(schedules.inverse, allowed={"scale": "negative"}, scale=1.0),
    "power": Case(
        schedules.power,
        allowed={"scale": "negative", "exponent": "negative"},
        exponent=-0.5,
    ),
    "decay_to": Case(
        schedules.decay_to,
        allowed={"start": "negative", "end": "negative"},
        end=0.1,
        start=1.0,
        horizon=10,
        hold=0.5,
    ),
}
DATA = {
    "affinities": Case(affinities.affinities, search=SEARCH, perplexity=4.0),
    "check_affinities": Case(
        affinities.check_affinities, names={"P": "affinities"}, P=AFFINITIES
    ),
    "conditional_probabilities": Case(
        affinities.conditional_probabilities, distances=np.abs(POINTS), perplexity=2.0
    ),
    "nearest_neighbors": Case(affinities.nearest_neighbors, X=POINTS, n_neighbors=4),
    "perplexity_affinities": Case(
        affinities.perplexity_affinities, X=POINTS, perplexity=4.0, n_neighbors=10
    ),
    "perplexity_search": Case(affinities.perplexity_search, X=POINTS, perplexity=4.0),
    "MarkovRewardProcess": Case(
        datasets.MarkovRewardProcess,
        transition_matrix=P,
        rewards=np.ones(3),
        features=np.eye(3),
        gamma=0.5,
    ),
    "MarkovRewardProcess.transitions": Case(
        MODEL.transitions, n_transitions=4, random_state=0
    ),
    "MarkovRewardProcess.from_gymnasium": Case(
        datasets.MarkovRewardProcess.from_gymnasium, env="FrozenLake-v1", gamma=0.9
    ),
    "collect_transitions": Case(
        datasets.collect_transitions,
        env="FrozenLake-v1",
        n_transitions=5,
        seed=0,
        target=np.full((16, 4), 0.25),
    ),
    "transitions_from_episodes": Case(
        datasets.transitions_from_episodes,
        episodes=[
            {
                "observations": STATES,
                "actions": np.arange(14) % 2,
                "rewards": REWARDS[:14],
            }
        ],
    ),
    "transitions_from_arrays": Case(
        datasets.transitions_from_arrays,
        observations=STATES,
        actions=ACTIONS,
        rewards=REWARDS,
        terminals=ENDS,
        timeouts=np.zeros(15),
        next_observations=NEXT,
    ),
    "returns_from_prices": Case(
        datasets.returns_from_prices, prices=1.0 + np.abs(RETURNS)
    ),
    "whole_shares": Case(
        sk.whole_shares, weights=[0.5, 0.5], prices=[3.0, 7.0], capital=100.0
    ),
    "returns_from_moments": Case(
        datasets.returns_from_moments, mean=[0.1, 0.2, 0.1], covariance=np.eye(3)
    ),
    "fetch_french_portfolios": Case(
        offline,
        allowed={"data_home": "string"},
        fails=(OSError,),
        download_if_missing=False,
    ),
    "make_augmented_digits": Case(
        datasets.make_augmented_digits, n_samples=10, random_state=0
    ),
    "make_bellman_problem": Case(
        datasets.make_bellman_problem,
        allowed={"n_features": "None"},
        n_states=4,
        n_features=2,
        gamma=0.5,
        random_state=0,
    ),
    "make_gaussian_returns": Case(
        datasets.make_gaussian_returns,
        allowed={"mean": "negative,bool"},
        n_periods=4,
        n_assets=2,
        mean=1.0,
        random_state=0,
    ),
    # callbacks
    "Checkpoint": Case(
        callbacks.Checkpoint, allowed={"path": "string"}, path="run.npz"
    ),
    "EarlyStopping": Case(callbacks.EarlyStopping, allowed={"monitor": "class"}),
    "TimeLimit": Case(callbacks.TimeLimit, seconds=1.0),
    # displays
    "ConvergenceDisplay": Case(
        plotted(plotting.ConvergenceDisplay),
        curves={"a": [([1, 2], [2.0, 1.0])]},
        x_label="IFO",
        y_label="objective",
        y_scale="log",
    ),
    "ConvergenceDisplay.from_results": Case(
        plotting.ConvergenceDisplay.from_results, results={"a": RESULT}, pass_ifo=36
    ),
    "ConvergenceDisplay.from_estimator": Case(
        plotting.ConvergenceDisplay.from_estimator, estimator=FITTED, pass_ifo=36
    ),
    "EmbeddingDisplay": Case(
        plotted(plotting.EmbeddingDisplay),
        embedding=POINTS[:, :2],
        y=np.arange(20) % 2,
        y_label="class",
        palette=["red", "blue"],
        order=["0", "1"],
        new=POINTS[:5, :2],
        y_new=np.arange(5) % 2,
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
    "WalkForwardDisplay.from_results": Case(
        plotting.WalkForwardDisplay.from_results, results=WALKED
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
    "PolicyValueDisplay.from_comparison": Case(
        plotting.PolicyValueDisplay.from_comparison, comparison=COMPARED_POLICIES
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
    "plot_curves": Case(
        plotting.plot_curves,
        panels={"row": {"scgd": [([0, 1], [2.0, 1.0])]}},
        labels=["objective"],
    ),
    "align_embedding": Case(
        plotting.align_embedding,
        names={"rows": "rows|reference"},
        embedding=POINTS,
        reference=POINTS[::-1],
    ),
    "TableScaler": Case(
        lambda **a: preprocessing.TableScaler(**a).fit(POINTS), max_categories=40
    ),
    "TableScaler.fit": Case(lambda **a: preprocessing.TableScaler().fit(**a), X=POINTS),
    "plot_embeddings": Case(
        plotting.plot_embeddings,
        panels={"map": POINTS[:, :2]},
        labels=np.arange(20) % 2,
    ),
}
CASES = ESTIMATORS | SOLVERS | PROBLEMS | DATA
