"""All of the paper's experiments and one report, which compares each claim of the paper with measurements.

Every experiment is run with the published constants, and with each method tuned on separate seeds. The report is saved
as report.md in DIR, with its figures.

The full report takes about 25 minutes on one core, the quick one about 3 minutes.
"""

import time
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.core.schedules import power
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, SNEProblem
from sk_stormc.reproduce import bellman, complexity, portfolio, streaming
from sk_stormc.reproduce.claims import CLAIMS, METHODS, STORM, Entry, Results, verdict
from sk_stormc.reproduce.files import directory
from sk_stormc.reproduce.runner import Case, group_runs, progress_line, run_methods
from sk_stormc.reproduce.sne import RECORDS, affinities_of, scheduled, sne_case, starts
from sk_stormc.reproduce.tuning import VARIANTS, Setting, largest_curvature, settings_of, tune
from sk_stormc.reproduce.valley import FallingValley
from sk_stormc.reproduce.writing import draw, write_report
from sk_stormc.solvers import STORMCompositional, minimize
from sk_stormc.theory import equipartition, storm_parameters, theorem_condition

__all__ = ["FULL", "QUICK", "add_arguments", "make_report", "report"]

FULL = {
    "seeds": 5,  # the reported seeds 0, 1, ...
    "tuning_seeds": (1000, 1001),
    "rates": tuple(2.0**k for k in range(-6, 4)),  # divided by the largest curvature of Phi
    "portfolio": {"periods": 2000, "assets": 200, "max_ifo": 3_000_000},
    "streaming": {"max_ifo": 3_000_000},
    "bellman": {"states": 400, "features": 100, "published_ifo": 144_000, "max_ifo": 144_000},
    "sne": {
        "points": 1797,
        "dimension": 10,
        "published_ifo": 105_300,  # 350 iterations of STORM-C
        "max_ifo": 400_000,
        "factors": (0.25, 0.5, 1.0, 2.0),  # multiples of the problem's learning rate
        "seeds": 3,
    },
    "complexity": {"n_epsilons": 7, "seeds": 20},
    "theory": {"epsilon": 0.3, "seeds": 3},
}
QUICK = {
    "seeds": 3,
    "tuning_seeds": (1000, 1001),
    "rates": (0.25, 1.0, 4.0),
    "portfolio": {"periods": 2000, "assets": 200, "max_ifo": 360_000},
    "streaming": {"max_ifo": 600_000},
    "bellman": {"states": 150, "features": 30, "published_ifo": 144_000, "max_ifo": 36_000},
    "sne": {
        "points": 1100,
        "dimension": 10,
        "published_ifo": 30_300,
        "max_ifo": 150_000,
        "factors": (0.5, 1.0, 2.0),
        "seeds": 2,
    },
    "complexity": {"n_epsilons": 4, "seeds": 6},
    "theory": {"epsilon": 0.3, "seeds": 1},
}
# Parameters of the published scripts for SNE. f is sampled like g.
_SNE_AVERAGING = {"learning_rate": 1e-5, "batch_size": 1000, "beta": 0.9}
_SNE_EPOCHS = {"learning_rate": 1e-5, "checkpoint_batch_size": 1000, "batch_size": 5, "epoch_length": 10}
SNE_PUBLISHED = {
    "scgd": _SNE_AVERAGING,
    "asc-pg": _SNE_AVERAGING,
    "vrsc-pg": _SNE_EPOCHS,
    "sarah-c": _SNE_EPOCHS,
    STORM: {},
}
PUBLISHED = {
    "portfolio": portfolio.METHODS,
    "streaming": streaming.METHODS,
    "bellman": bellman.METHODS,
    "sne": SNE_PUBLISHED,
}


def add_arguments(parser):
    """Add the options of the command."""
    parser.add_argument("--out", type=directory, metavar="DIR", required=True, help="where the report goes")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, about 3 minutes instead of 25 minutes")
    parser.add_argument(
        "--french",
        action="store_true",
        help="stream the paper's six sets of daily returns, downloaded once (in full 20 minutes more)",
    )


def report(args):
    """Run all experiments and write the report."""
    with progress_line() as show:
        path, verdicts = make_report(
            args.out, QUICK if args.quick else FULL, quick=args.quick, french=args.french, progress=show
        )
    width = max(map(len, verdicts.values()))
    for claim, words in verdicts.items():
        print(f"{words:{width}}  {claim}")
    print(f"\nReport written to {path}")


def make_report(out, sizes=FULL, *, quick=False, french=False, progress=lambda text, fraction: None):
    """Run all experiments, and save report.md and its figures in a directory."""
    out.mkdir(exist_ok=True)
    began = time.process_time()
    sources = streaming.french_sets() if french else streaming.markets()
    results = Results()
    with warnings.catch_warnings():  # the report contains the end of each run
        warnings.simplefilter("ignore", ConvergenceWarning)
        progress("theory", 0.0)
        results.theory = {"Lemma 3.1": count(), **theory(**sizes["theory"])}
        _run_quadratics(results, sizes, sources, progress)
        _run_sne(results, sizes["sne"], sizes["tuning_seeds"], progress)
        progress("complexity", 0.85)
        epsilons = complexity.EPSILONS[: sizes["complexity"]["n_epsilons"]]
        results.complexity = complexity.run_complexity(
            [STORM, "sarah-c"], epsilons, n_seeds=sizes["complexity"]["seeds"]
        )
    draw(results, out)
    path = out / "report.md"
    text = write_report(results, sizes, PUBLISHED, quick=quick, seconds=time.process_time() - began)
    path.write_text(text, encoding="utf-8")
    decisions = ((claim, claim.decide(results)) for claim in CLAIMS)
    return path, {f"{c.source}: {c.text}": verdict(*decision[:2], c.theory) for c, decision in decisions}


def _run_quadratics(results, sizes, sources, progress):
    """Run the experiments on portfolios and Bellman residuals."""
    size = sizes["portfolio"]
    for name, returns in portfolio.published_sets(size["periods"], size["assets"]).items():
        progress(f"portfolio, {name}", 0.05)
        _compare(results, "portfolio", portfolio.portfolio_case(name, returns), sizes)
    for name, source in sources.items():
        progress(f"streaming, {name}", 0.15)
        _compare(results, "streaming", streaming.stream_case(name, source), sizes)
    size = sizes["bellman"]
    name = f"{size['states']} states"
    progress(f"Bellman, {name}", 0.35)
    model = make_bellman_problem(size["states"], size["features"], random_state=1)
    charged = {  # the published variant, whose checkpoints use one component of f
        f"{method} (f 100)": {**bellman.METHODS[method], "solver": method, "checkpoint_batch_size": (100, 100, 100)}
        for method in ("vrsc-pg", "sarah-c")
    }
    _compare(results, "bellman", bellman.bellman_case(name, model, metric=None), sizes, charged)


def _compare(results, experiment, case, sizes, more=None):
    """Run the methods of an experiment on a case, as published and tuned."""
    size, seeds = sizes[experiment], sizes["seeds"]
    max_ifo = size["max_ifo"]
    published = {method: PUBLISHED[experiment][method] for method in METHODS}
    L = largest_curvature(case.problem, np.zeros(case.problem.n_variables))
    jobs = [(case, {**published, **(more or {})})]
    runs = run_methods(jobs, max_ifo=size.get("published_ifo", max_ifo), n_seeds=seeds)
    _add(results, experiment, "published", runs)

    def params_of(rate, variant):
        others = {name: value for name, value in variant.items() if name != "exponent"}
        exponent = variant.get("exponent")
        return {"learning_rate": rate / L if exponent is None else power(exponent, rate / L), **others, "tol": 0}

    for method, params in published.items():
        grid = settings_of(VARIANTS[experiment][method], sizes["rates"], params_of)
        grid = [Setting("as published", {**params, "tol": 0}), *grid]
        _tune(results, experiment, case, method, grid, max_ifo, sizes["tuning_seeds"], seeds)


def _add(results, experiment, part, runs, **tuned):
    """Add runs to the results, by case and method."""
    cases = results.entries.setdefault((experiment, part), {})
    for case, methods in group_runs(runs).items():
        for method, seeds in methods.items():
            cases.setdefault(case, {})[method] = Entry(seeds, **tuned)


def _tune(results, experiment, case, method, grid, max_ifo, tuning_seeds, n_seeds):
    """Tune a method, and add its runs with the seeds of the report."""

    def value_of(params, seed):
        (run,) = run_methods([(case, {method: params})], max_ifo=max_ifo, n_seeds=1, first_seed=seed)
        return np.inf if run.failed else run.gap[-1] / case.scale

    best, first = tune(grid, value_of, tuning_seeds)
    runs = run_methods([(case, {method: best.params})], max_ifo=max_ifo, n_seeds=n_seeds)
    tried = [value for setting, value in zip(grid, first, strict=True) if setting.text != "as published"]
    _add(results, experiment, "tuned", runs, setting=best.text, at_end=best.at_end, grid=tried)


def _run_sne(results, size, tuning_seeds, progress):
    X = load_digits().data[: size["points"]]
    P, d = affinities_of(X), size["dimension"]
    name = f"digits, {d} dimensions"
    components, line = starts(X, d)
    budgets = {"published": size["published_ifo"], "tuned": size["max_ifo"]}
    records = {part: max(1, max_ifo // RECORDS) for part, max_ifo in budgets.items()}

    progress(f"SNE, {name}, published", 0.6)
    fixed = {"tol": 0, "record_every": records["published"]}
    jobs = [(sne_case(name, _literal(P, d), line), {m: {**params, **fixed} for m, params in SNE_PUBLISHED.items()})]
    _add(results, "sne", "published", run_methods(jobs, max_ifo=budgets["published"], n_seeds=size["seeds"]))

    progress(f"SNE, {name}, tuned", 0.65)
    case = sne_case(name, SNEProblem(P, d, dtype=np.float32), components)

    def steps(method, solver, factor, variant):
        """The problem's learning rate, adapted to the budget, times a factor."""
        rate = scheduled(case.problem, method, budgets["tuned"], variant.get("epoch_length"))
        rate = replace(rate, start=factor * rate.start)
        return {"solver": solver, "learning_rate": rate, "record_every": records["tuned"], "tol": 0, **variant}

    for method in METHODS:
        # when tuned, Algorithm 1 uses the problem's preconditioner and step clipping, as the other methods do
        solver = STORMCompositional() if method == STORM else method
        grid = settings_of(VARIANTS["sne"][method], size["factors"], partial(steps, method, solver))
        _tune(results, "sne", case, method, grid, budgets["tuned"], tuning_seeds, size["seeds"])


def _literal(P, d):
    """The problem with plain steps: all pairs are sampled, and only Algorithm 1 clips its steps."""
    problem = SNEProblem(P, d, near_field=False)
    problem.metric = None
    problem.advice = problem.advice.only("max_iter", "record_every", "unbounded_below", "published", "many_minima")
    return problem


def count(n_runs=20):
    """Lemma 3.1: runs of Algorithm 1 with random batch sizes, their IFO and the number in the lemma."""
    problem = PortfolioProblem(make_gaussian_returns(500, 5, random_state=0))
    rng, counts = np.random.default_rng(0), []
    for k in range(n_runs):
        S, B, T = rng.integers(1, 100, 3).tolist(), rng.integers(1, 100, 3).tolist(), int(rng.integers(1, 60))
        params = {"init_batch_size": tuple(S), "batch_size": tuple(B), "max_iter": T, "tol": 0}
        result = minimize(problem, STORM, random_state=k, **params)
        counts.append((int(result.ifo[-1]), sum(S) + T * sum(B)))
    return counts


def theory(epsilon, seeds):
    """Proposition 3.2, as printed and corrected, and the mean of |grad Phi| over the iterates for the latter."""
    problem = FallingValley()
    constants, proposition = problem.constants(), {"epsilon": epsilon}
    for variant in ("paper", "corrected"):
        p = storm_parameters(constants, epsilon, variant)
        proposition[variant] = {
            "condition": theorem_condition(constants, epsilon, p),
            "printed_condition": theorem_condition(constants, epsilon, p, "paper"),
            "equipartition": float(equipartition(constants, epsilon, p).max()),
            "ifo": p.ifo,
            "closing_formula": p.S_g + p.S_dg + p.S_f + epsilon * (p.B_g + p.B_dg + p.B_f) / epsilon**3,
        }
    solver = STORMCompositional.from_theory(constants, epsilon=epsilon)
    case = Case("valley", problem, problem.initial_point(None))
    runs = run_methods([(case, {"from_theory": {"solver": solver, "record_every": 1}})], max_ifo=10**12, n_seeds=seeds)
    return {
        "Proposition 3.2": proposition,
        "Theorem 1": {
            "epsilon": epsilon,
            "means": [float(np.mean(run.gradient_norm[1:])) for run in runs],
            "iterations": solver.max_iter,
            "start": float(runs[0].gradient_norm[0]),
        },
    }
