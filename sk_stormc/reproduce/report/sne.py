"""The report's pieces of neighbour embedding."""

from dataclasses import replace
from functools import partial

import numpy as np

from sk_stormc.embedding.problem import SNEProblem
from sk_stormc.reproduce.report.grids import SNE_VARIANTS, STORM
from sk_stormc.reproduce.report.store import Piece
from sk_stormc.reproduce.sne import embed, scheduled
from sk_stormc.reproduce.tuning import settings_of, tune
from sk_stormc.solvers import STORMCompositional

__all__ = ["MAPS", "PUBLISHED", "sne_maps", "sne_piece"]

# Of the published scripts, f sampled as g is.
_AVERAGING = {"learning_rate": 1e-5, "batch_size": 1000, "beta": 0.9}
_EPOCHS = {"learning_rate": 1e-5, "checkpoint_batch_size": 1000, "batch_size": 5, "epoch_length": 10}
PUBLISHED = {
    "scgd": _AVERAGING,
    "asc-pg": _AVERAGING,
    "vrsc-pg": _EPOCHS,
    "sarah-c": _EPOCHS,
    STORM: {},
}
MAPS = {  # title: method, its part, whether from the paper's start
    "storm-c-paper,\nx_i = i/n": (STORM, "published", True),
    "storm-c-paper,\nprincipal components": (STORM, "published", False),
    "storm-c, defaults": ("storm-c", "defaults", False),
    "lbfgs, defaults": ("lbfgs", "defaults", False),
}


def sne_piece(part, name, method, data, sizes):
    """A method's part of the experiment."""
    size = sizes["sne"]
    n_runs = size["seeds"] + (2 * len(size["factors"]) if part == "tuned" else 0)
    share = size["points"] / 1797 * (size["published_ifo"] if part == "published" else size["max_ifo"]) / 4e5
    run = partial(_compared, part, method, data, sizes)
    return Piece(f"sne/{part}/{name}/{method}", 4.0 * n_runs * share, run)


def _compared(part, method, data, sizes, show):
    size, setting = sizes["sne"], None
    P, all_starts, _ = data()
    d = size["dimension"]
    if part == "published":
        problem, x0, max_ifo = _literal(P, d), all_starts[d][1], size["published_ifo"]

        def params_of(setting):
            return PUBLISHED[method]

    else:
        problem = SNEProblem(P, d, dtype=np.float64 if method == "lbfgs" else np.float32)
        x0, max_ifo = all_starts[d][0], size["max_ifo"]

        def params_of(setting):
            return _steps(problem, method, max_ifo, setting)

    def one(params, seed, report, gradients=False):
        return embed(problem, method, x0, _solver(method, part), params, seed, max_ifo, report, gradients)

    begin, tried = 0.0, []
    if part == "tuned":
        begin = 0.7
        # one number, the factor of the problem's own rate
        grid = settings_of(SNE_VARIANTS[method], size["factors"], lambda factor: factor)

        def value_of(params, seed):
            tried.append(float(one({**params_of(params), "tol": 0}, seed, lambda fraction: None).kl[-1]))
            return tried[-1]

        setting = tune(grid, value_of, sizes["tuning_seeds"], lambda fraction: show(begin * fraction))
    params = params_of({} if setting is None else setting.params)
    if part != "defaults":
        params = {**params, "tol": 0}
    curves, n_seeds = [], 1 if method == "lbfgs" else size["seeds"]
    for seed in range(n_seeds):

        def report(fraction, seed=seed):
            show(begin + (1 - begin) * (seed + fraction) / n_seeds)

        run = one(params, seed, report, gradients=part != "defaults")
        curves.append(
            {
                "seed": seed,
                "ifo": run.ifo.tolist(),
                "gap": run.kl.tolist(),
                "gradient": run.gradient_norm.tolist(),
                "seconds": run.seconds,
                "failed": not np.isfinite(run.kl[-1]),
            }
        )
    return {
        "optimum": None,  # many local minima: the gap is the divergence, taken to the best of all runs afterwards
        "scale": None,
        "setting": None if setting is None else setting.text,
        "at_end": setting is not None and setting.at_end,
        "grid": [value if np.isfinite(value) else np.inf for value in tried[: len(grid)]] if tried else [],
        "curves": curves,
    }


def _literal(P, d):
    """The problem without the library's steps: all pairs are sampled, no metric, no limit but Algorithm 1's own."""
    problem = SNEProblem(P, d, near_field=False)
    problem.metric = None
    problem.advice = problem.advice.only("max_iter", "record_every", "unbounded_below", "published", "many_minima")
    return problem


def _solver(method, part):
    """The solver: tuned, Algorithm 1 takes the problem's metric and limit, as the other methods do."""
    return STORMCompositional() if method == STORM and part == "tuned" else method


def _steps(problem, method, max_ifo, setting):
    """The problem's learning rate, made to end with the budget, times the setting's factor."""
    if method == "lbfgs":
        return {}
    params = {name: value for name, value in setting.items() if name != "learning_rate"}
    rate = scheduled(problem, method, max_ifo, params.get("epoch_length"))
    factor = setting.get("learning_rate", 1.0)
    return {"learning_rate": replace(rate, start=factor * rate.start), **params}


def sne_maps(data, sizes):
    """Embeddings in two dimensions, to be looked at."""
    return Piece("sne/maps", 8.0 * sizes["sne"]["points"] / 1797, partial(_maps, data, sizes["sne"]))


def _maps(data, size, show):
    P, all_starts, labels = data()
    found = {}
    for k, (title, (method, part, from_line)) in enumerate(MAPS.items()):
        if part == "published":
            problem, max_ifo, params = _literal(P, 2), size["published_ifo"], {"tol": 0}
        else:
            problem = SNEProblem(P, 2, dtype=np.float64 if method == "lbfgs" else np.float32)
            max_ifo, params = size["max_ifo"], _steps(problem, method, size["max_ifo"], {})
        run = embed(problem, method, all_starts[2][int(from_line)], method, params, 0, max_ifo, lambda f: None)
        found[title] = {"points": np.round(run.embedding, 4).tolist(), "kl": float(run.kl[-1])}
        show((k + 1) / len(MAPS))
    return {"maps": found, "labels": labels.tolist()}
