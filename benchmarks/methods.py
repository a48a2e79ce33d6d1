"""All methods at equal oracle calls, each tuned: portfolio problems and Bellman
problems.

Every solver of `sk_stormc.solvers.SOLVERS` is run on every problem from x_0 = 0, at
every setting of its grid, with the first tuning seed; the best settings for each budget
also with the second. The setting with the smallest median gap is run with the reporting
seeds, of which the table holds the median and the worst. Tuning and reporting are done
for each budget and problem by itself. The grid is the product of learning rates and of
the batch sizes and other settings. "auto" is what the library does untuned. A new
solver needs nothing here, unless its learning rate has a schedule.
"""

from functools import cache, partial

import numpy as np

from benchmarks._measure import a_pass, least_variance, once, published, timed
from benchmarks._tables import table
from sk_stormc import minimize
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce.tuning import N_FINALISTS, Setting, largest_curvature, tune
from sk_stormc.schedules import power
from sk_stormc.solvers import SOLVERS

DURATION = "8 minutes"
NEEDS_DATA = True
PASSES = (10, 30)
# times 1/L, L the largest eigenvalue of the Hessian
RATES = tuple(2.0**k for k in range(-6, 4))
TUNING, REPORTING = (0, 1), (100, 101, 102, 103, 104)
BATCHES = (16, 64)
# what is tried beside learning rate and batch size; for a solver that is not named, its
# defaults
SETTINGS = {
    "storm-c-paper": [{}, {"momentum": 0.1}, {"momentum": 0.1, "precision": 1.0}],
    "civr": [{}, {"precision": 0.1}],
}
# rates decrease as (k+1)^exponent
EXPONENTS = {"scgd": -3 / 4, "acc-scgd": -5 / 7, "asc-pg": -5 / 9}


def problems(quick, data):
    """(name, problem, Phi*, what gaps are divided by): portfolios; the paper's model
    and a Garnet, unscaled."""
    size = (300, 5) if quick else (2000, 50)
    for kappa in (4, 20):
        R = make_gaussian_returns(
            *size, mean=4.0, condition_number=kappa, random_state=0
        )
        yield f"Gaussian, {kappa}", *of_portfolio(R)
    if not quick:
        yield "Japan", *of_portfolio(100 * published(data)["Japan"])
    size = (
        {"n_states": 40, "n_features": 5}
        if quick
        else {"n_states": 400, "n_features": 100}
    )
    for name, kind in (("Bellman", "dense"), ("Garnet", "garnet")):
        problem = make_bellman_problem(**size, kind=kind, random_state=1).problem(
            preconditioner=None
        )
        best = problem.objective(problem.minimizer())
        yield (
            name,
            problem,
            best,
            problem.objective(np.zeros(problem.n_variables)) - best,
        )


def of_portfolio(R):
    """The mean-variance problem, its minimum and the size of this."""
    problem = PortfolioProblem(R)
    best = least_variance(problem)
    return problem, best, abs(best)


def grid(name, problem, rates, batches):
    """Settings of a solver, as (a short text, parameters, whether the learning rate is
    at an end of the grid)."""
    if name in (
        "lbfgs",
        "corrected-sample",
    ):  # a line search, full gradients: nothing to choose
        return [("-", {}, False)]
    # the rates of "sketchy-storm" are those of a preconditioner that is about the
    # inverse Hessian
    L = (
        1.0
        if name == "sketchy-storm"
        else largest_curvature(problem, np.zeros(problem.n_variables))
    )
    # no step of a Bellman problem takes the constant Jacobian exactly, as in the
    # papers; of a portfolio problem all do
    exact = isinstance(problem, PortfolioProblem)
    choices = []
    if name != "storm-c-paper":
        choices += [
            (f"B={B}", {"batch_size": (B, None if exact else B, B)}) for B in batches
        ]
    if (
        name in ("storm-c", "storm-c-paper", "sketchy-storm") or problem.n_inner <= 1024
    ):  # full; or part of the method
        choices.append(("", {}))
    found = []
    for setting in SETTINGS.get(name, [{}]):
        for text, batch in choices:
            words = [text, *(f"{key}={value}" for key, value in setting.items())]
            for rate in ("auto", *rates):
                eta = rate if rate == "auto" else rate / L
                eta = (
                    power(EXPONENTS[name], eta)
                    if name in EXPONENTS and rate != "auto"
                    else eta
                )
                label = " ".join(
                    [rate if rate == "auto" else f"{rate:g}/L", *filter(None, words)]
                )
                found.append(
                    (
                        label,
                        {"learning_rate": eta, **batch, **setting},
                        rate in (rates[0], rates[-1]),
                    )
                )
    return found


def gaps_of(problem, best, scale, name, params, seed, passes):
    """The gap of the last record within each budget; infinite where the run
    overflowed."""
    n = a_pass(problem)
    budget = {"tol": 0, "max_ifo": max(passes) * n, "record_every": max(1, n // 5)}
    _, result, _ = timed(
        minimize,
        problem,
        name,
        np.zeros(problem.n_variables),
        random_state=seed,
        **budget,
        **params,
    )
    if result.stop_reason == "non_finite":
        return [np.inf] * len(passes)
    last = [np.flatnonzero(result.ifo <= k * n)[-1] for k in passes]
    return [max((result.loss_curve[i] - best) / scale, 0.0) for i in last]


def compare(problem, best, scale, rates, batches, tuning, reporting, passes):
    """Tune and report: by method and budget the median gap, the worst, the setting,
    whether it is at an end."""
    found = {}
    for name in SOLVERS:
        settings = grid(name, problem, rates, batches)

        @cache  # a run serves all budgets
        def gaps(i, seed, name=name, settings=settings):
            return gaps_of(problem, best, scale, name, settings[i][1], seed, passes)

        found[name] = []
        for b in range(len(passes)):
            numbered = [Setting(text, i) for i, (text, *_) in enumerate(settings)]
            tuned, _ = tune(
                numbered, lambda i, seed, b=b, gaps=gaps: gaps(i, seed)[b], tuning
            )
            final = [gaps(tuned.params, seed)[b] for seed in reporting]
            found[name].append(
                (np.median(final), np.max(final), tuned.text, settings[tuned.params][2])
            )
    return found


def run(quick, data):
    """Measure: for each problem what `compare` returns."""
    grids = {
        "rates": RATES,
        "batches": BATCHES,
        "tuning": TUNING,
        "reporting": REPORTING,
        "passes": PASSES,
    }
    if quick:
        grids = {
            "rates": (0.125, 0.5),
            "batches": (16,),
            "tuning": (0,),
            "reporting": (100, 101),
            "passes": (2, 5),
        }
    results = {}
    for name, problem, best, scale in problems(quick, data):
        results[name] = compare(problem, best, scale, **grids)
        print(f"{name}: done", flush=True)
    return {
        "settings": {**grids, "kept": N_FINALISTS, "others": SETTINGS},
        "results": results,
    }


def gap(value):
    """A gap as a cell has it; None is an overflow."""
    if value is None:
        return "overflow"
    if value < 1e-15:
        return "<1e-15"
    digits, exponent = f"{value:.1e}".split("e")
    return digits if int(exponent) == 0 else f"{digits}e{int(exponent)}"


def tables(stored):
    """One table for each budget: median / worst, a * at an end of the grid."""
    results, found = stored["results"], {}

    def text(method, problem, b):
        median, worst, _, edge = results[problem][method][b]
        return once(gap(median), gap(worst)) + (" *" if edge else "")

    for b, budget in enumerate(stored["settings"]["passes"]):
        columns = {
            f"{budget} passes": str,
            **{name: partial(text, problem=name, b=b) for name in results},
        }
        found[f"{budget}-passes"] = table(next(iter(results.values())), columns)
    return found
