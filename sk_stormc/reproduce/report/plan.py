"""The report's pieces: every experiment at the published constants, tuned, and with the library's defaults."""

from functools import cache, partial

import numpy as np
from sklearn.datasets import load_digits

from sk_stormc.datasets.gaussian_returns import make_gaussian_returns
from sk_stormc.datasets.markov import make_bellman_problem
from sk_stormc.embedding.affinities import perplexity_affinities
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem
from sk_stormc.reproduce import bellman, complexity, portfolio, streaming
from sk_stormc.reproduce.report.grids import METHODS, STORM, VARIANTS
from sk_stormc.reproduce.report.sne import sne_maps, sne_piece
from sk_stormc.reproduce.report.store import Piece
from sk_stormc.reproduce.report.theory import THEORY
from sk_stormc.reproduce.runner import Case, run_methods
from sk_stormc.reproduce.sne import PERPLEXITY, starts
from sk_stormc.reproduce.tuning import largest_curvature, settings_of, tune
from sk_stormc.solvers import StopReason

__all__ = ["CHECKPOINTS", "COMPLEXITY", "DEFAULTS", "make_plan", "thinned"]

DEFAULTS = {  # the methods that run with nothing but their defaults
    "portfolio": ("storm-c", "lbfgs"),
    "streaming": ("storm-c",),  # L-BFGS needs all data
    "bellman": ("storm-c", "lbfgs"),
    "sne": ("storm-c", "lbfgs"),
}
COMPLEXITY = (STORM, "sarah-c")  # the methods whose order is measured
CHECKPOINTS = " (f 100)"  # of a method whose checkpoints have as many components of f as they are charged for
RECORDS = 150  # of a curve, at the most

# Seconds of one run at full size on one core, by experiment and method: for the progress bar and the time that is told.
_SECONDS = {
    "portfolio": {"scgd": 0.2, "asc-pg": 0.2, "vrsc-pg": 0.6, "sarah-c": 0.6, STORM: 0.6, "storm-c": 0.2, "lbfgs": 0.1},
    "streaming": {"scgd": 0.8, "asc-pg": 0.8, "vrsc-pg": 1.2, "sarah-c": 1.2, STORM: 1.1, "storm-c": 2.2},
    "bellman": {"scgd": 1.0, "asc-pg": 1.0, "vrsc-pg": 3.0, "sarah-c": 3.0, STORM: 2.0, "storm-c": 0.1, "lbfgs": 0.1},
    "complexity": {STORM: 25.0, "sarah-c": 25.0},
}
_GRID = {"portfolio": 2.0, "streaming": 1.5, "bellman": 0.5}  # a run of the grid, over a published one


def thinned(values, n=RECORDS):
    """Indices of at most about n of so many records: the first, the last, and the rest ever more apart."""
    if values <= n:
        return np.arange(values)
    return np.unique(np.concatenate([[0, values - 1], np.geomspace(1, values - 1, n).round()]).astype(int))


def _curve(run):
    kept = thinned(len(run.ifo))
    return {
        "seed": run.seed,
        "ifo": run.ifo[kept].tolist(),
        "gap": np.asarray(run.gap)[kept].tolist(),
        "gradient": run.gradient_norm[kept].tolist(),
        "seconds": run.seconds,
        "failed": run.stop_reason == StopReason.NON_FINITE,
    }


def _compared(case_of, method, params, sizes, max_ifo, variants, show):
    """Run a method on a case from the reporting seeds; tuned before where there are variants."""
    case, setting, n_seeds, tried = case_of(), None, sizes["seeds"], []
    if variants is not None:
        L = largest_curvature(case.problem, np.zeros(case.problem.n_variables))
        grid = settings_of(variants, sizes["rates"], lambda rate: rate / L, published=params)

        def value_of(params, seed):
            (run,) = run_methods([case], {method: {**params, "tol": 0}}, max_ifo=max_ifo, n_seeds=1, first_seed=seed)
            tried.append(np.inf if run.stop_reason == StopReason.NON_FINITE else float(run.gap[-1]))
            return tried[-1]

        setting = tune(grid, value_of, sizes["tuning_seeds"], lambda fraction: show(0.85 * fraction))
        params = {**setting.params, "tol": 0}
    begin = 0.85 if variants is not None else 0.0
    runs = run_methods(
        [case],
        {method: params},
        max_ifo=max_ifo,
        n_seeds=n_seeds,
        progress=lambda text, fraction: show(begin + (1 - begin) * fraction),
    )
    return {
        "optimum": case.optimum,
        "scale": case.scale,
        "setting": None if setting is None else setting.text,
        "at_end": setting is not None and setting.at_end,
        "grid": tried[1 : len(grid)] if variants is not None else [],  # without the published setting
        "curves": [_curve(run) for run in runs],
    }


def _comparison(experiment, cases, published, sizes):
    """Pieces of an experiment; ``cases`` has a function of no argument for (name, metric or not)."""
    size, pieces = sizes[experiment], []

    def add(part, name, case_of, label, method, params, variants=None):
        n_runs, max_ifo = sizes["seeds"], size.get(f"{part}_ifo", size["max_ifo"])
        if variants is not None:
            n_runs += _GRID[experiment] * len(variants) * len(sizes["rates"])
        share = max_ifo / {"portfolio": 3e6, "streaming": 3e6, "bellman": 144e3}[experiment]
        seconds = _SECONDS[experiment][method] * n_runs * share
        run = partial(_compared, case_of, method, params, sizes, max_ifo, variants)
        pieces.append(Piece(f"{experiment}/{part}/{name}/{label}", seconds, run))

    for name, (plain, scaled) in cases.items():
        for method in METHODS:
            add("published", name, plain, method, method, published[method])
        if experiment == "bellman":  # charged as published
            for method in ("vrsc-pg", "sarah-c"):
                params = {**published[method], "checkpoint_batch_size": (100, 100, 100)}
                add("published", name, plain, method + CHECKPOINTS, method, params)
        for method in METHODS:
            add("tuned", name, plain, method, method, published[method], VARIANTS[experiment][method])
        for method in DEFAULTS[experiment]:
            add("defaults", name, scaled, method, method, {})
    return pieces


def _portfolio_case(name, kappa, size, metric):
    returns = make_gaussian_returns(size["periods"], size["assets"], mean=4.0, condition_number=kappa, random_state=0)
    problem = PortfolioProblem(returns, metric=metric)
    optimum = portfolio.minimum(PortfolioProblem(returns))
    return Case(name, problem, np.ones(problem.n_variables), optimum, abs(optimum))


def _bellman_case(name, size, scaled):
    model = make_bellman_problem(size["states"], size["features"], random_state=1)
    problem = model.problem() if scaled else model.problem(metric=None)
    x0 = problem.initial_point(None)
    optimum = problem.objective(problem.minimizer())
    return Case(name, problem, x0, optimum, problem.objective(x0) - optimum)


def _sne_data(size):
    X, y = load_digits(return_X_y=True)
    X, y = X[: size["points"]], y[: size["points"]]
    P = perplexity_affinities(X, min(PERPLEXITY, (len(X) - 1) / 3))
    return P, {d: starts(X, d) for d in {2, size["dimension"]}}, y


def make_plan(sizes, sources):
    """All pieces of the report, in the order in which they are computed."""
    pieces = [
        Piece(f"theory/{name}", 1.5 * sizes["theory"]["seeds"], partial(run, sizes["theory"]))
        for name, run in THEORY.items()
    ]

    def both(make, *args, plain, scaled):
        return cache(partial(make, *args, plain)), cache(partial(make, *args, scaled))

    cases = {
        name: both(_portfolio_case, name, kappa, sizes["portfolio"], plain=None, scaled="variance")
        for name, kappa in (("condition number 4", 4), ("condition number 20", 20))
    }
    pieces += _comparison("portfolio", cases, portfolio.METHODS, sizes)
    cases = {
        name: both(streaming.stream_case, name, source, plain=None, scaled="variance")
        for name, source in sources.items()
    }
    pieces += _comparison("streaming", cases, streaming.METHODS, sizes)
    name = "{states} states".format(**sizes["bellman"])
    cases = {name: both(_bellman_case, name, sizes["bellman"], plain=False, scaled=True)}
    pieces += _comparison("bellman", cases, bellman.METHODS, sizes)

    data = cache(partial(_sne_data, sizes["sne"]))
    name = "digits, {dimension} dimensions".format(**sizes["sne"])
    for part, methods in (("published", METHODS), ("tuned", METHODS), ("defaults", DEFAULTS["sne"])):
        pieces += [sne_piece(part, name, method, data, sizes) for method in methods]
    pieces.append(sne_maps(data, sizes))

    for name in COMPLEXITY:
        size = sizes["complexity"]
        seconds = _SECONDS["complexity"][name] * size["seeds"] / 20 * 10 ** ((size["n_epsilons"] - 7) / 2)
        pieces.append(Piece(f"complexity/{name}", seconds, partial(_complexity, name, size)))
    return pieces


def _complexity(name, size, show):
    epsilons = complexity.EPSILONS[: size["n_epsilons"]]
    measured = complexity.run_complexity(
        [name], epsilons, n_seeds=size["seeds"], progress=lambda text, fraction: show(fraction)
    )
    return {
        m.row.name: {"epsilons": m.epsilons.tolist(), "ifo": m.ifo.tolist(), "resampled": m.resampled.tolist()}
        for m in measured
    }
