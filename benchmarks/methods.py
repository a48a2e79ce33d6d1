"""All methods at equal oracle calls, each tuned: the portfolio problem and the Bellman problem.

    OMP_NUM_THREADS=1 python benchmarks/methods.py [--quick] [--methods NAME ...] [--returns FILE.npz ...]

Every solver of `sk_stormc.solvers.SOLVERS` is run on every problem from x_0 = 0, at every setting of its grid, with the
tuning seeds; the setting with the smallest median gap is run with the reporting seeds, of which the table holds the
median and the worst. Tuning and reporting are done for each budget by itself. The grid is the product of learning
rates and of the batch sizes and other settings printed above the tables. "auto" is what the library would do untuned.
"""

import argparse
import inspect
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import minimize
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.schedules import Power
from sk_stormc.solvers import SOLVERS

PASSES = (10, 30)
RATES = tuple(2.0**k for k in range(-6, 4))  # times 1/L, L the largest eigenvalue of the (metric times) Hessian
TUNING, REPORTING = (0, 1), (100, 101, 102, 103, 104)
BATCHES = (16, 64)
FRENCH = Path(__file__).resolve().parents[2] / "shared" / "data" / "french25_Japan_OP.npz"

# what is tried beside learning rate and batch size; for a solver that is not named, its defaults
SETTINGS = {
    "storm-c-paper": [{}, {"momentum": 0.1}, {"momentum": 0.1, "precision": 1.0}],
    "civr": [{}, {"precision": 0.1}],
}
UNTUNED = ("lbfgs",)  # a line search, full gradients: nothing to choose


def portfolio_problems(quick, files):
    """(name, problem, Phi*, what gaps are divided by)."""
    sizes = (300, 5) if quick else (2000, 50)
    sets = {
        f"Gaussian returns {sizes}, kappa {kappa}": make_gaussian_returns(
            *sizes, mean=4.0, condition_number=kappa, random_state=0
        )
        for kappa in (4, 20)
    }
    for path in files:
        with np.load(path) as data:
            R = data["returns_bp"] / 100.0 if "returns_bp" in data else data["returns"]
        sets[f"{Path(path).stem} {R.shape}, percent"] = R
    for name, R in sets.items():
        problem = PortfolioProblem(R)
        best = problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))
        yield name, problem, best, abs(best)


def bellman_problems(quick):
    """The same of the paper's model and a Garnet without the metric, as in the papers, and once with it."""
    size = {"n_states": 40, "n_features": 5} if quick else {"n_states": 400, "n_features": 100}
    for kind, metric in (("dense", None), ("garnet", None), ("dense", "auto")):
        model = make_bellman_problem(**size, kind=kind, random_state=1)
        problem = model.problem() if metric else model.problem(metric=None)
        best = problem.objective(problem.minimizer())
        about = f"Bellman, {kind}, n = {size['n_states']}, d = {size['n_features']}"
        name = f"{about}, {'inverse Hessian as metric' if metric else 'no metric'}"
        yield name, problem, best, problem.objective(np.zeros(problem.n_variables)) - best


def largest_eigenvalue(problem, metric):
    """L, of the Hessian in the metric; all the problems here are quadratic."""
    x, v = np.zeros(problem.n_variables), np.random.default_rng(0).normal(size=problem.n_variables)
    start = problem.gradient(x)
    for _ in range(100):
        w = problem.gradient(v) - start
        w = w if metric is None else metric * w if metric.ndim == 1 else metric @ w
        size = np.linalg.norm(w) / np.linalg.norm(v)
        v = w / np.linalg.norm(w)
    return size


def grid(name, problem, rates, batches):
    """Settings of a solver, as (a short text, parameters, place of the learning rate in the grid)."""
    if name in UNTUNED:
        return [("-", {}, None)]
    solver = SOLVERS[name]
    L = largest_eigenvalue(problem, None if name == "storm-c-paper" else problem.metric)
    if name == "sketchy-storm":  # its rates are those of a metric that is about the inverse Hessian
        L = 1.0
    scale = getattr(solver, "exponents", None)
    # no step of a Bellman problem takes the constant Jacobian exactly, as in the papers; of a portfolio problem all do
    exact = isinstance(problem, PortfolioProblem)
    choices = []
    if name != "storm-c-paper":
        choices += [(f"B={B}", {"batch_size": (B, None if exact else B, B)}) for B in batches]
    if name in ("storm-c", "storm-c-paper", "sketchy-storm") or problem.n_inner <= 1024:  # full; or part of the method
        choices.append(("", {}))
    found = []
    for setting in SETTINGS.get(name, [{}]):
        for text, batch in choices:
            words = [text, *(f"{key}={value}" for key, value in setting.items())]
            for k, rate in enumerate(("auto", *rates)):
                eta = rate if rate == "auto" else rate / L
                eta = Power(eta, scale[0]) if scale and rate != "auto" else eta
                label = " ".join([rate if rate == "auto" else f"{rate:g}/L", *filter(None, words)])
                place = None if rate == "auto" else (k == 1, k == len(rates))
                found.append((label, {"learning_rate": eta, **batch, **setting}, place))
    return found


def gaps_of(problem, best, scale, name, params, seed, passes):
    """The gap of the last record within each budget; infinite where the run overflowed."""
    a_pass = 2 * problem.n_inner + problem.n_outer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = minimize(
            problem, name, np.zeros(problem.n_variables), random_state=seed, tol=0, max_ifo=max(passes) * a_pass,
            record_every=max(1, a_pass // 5), **params
        )  # fmt: skip
    if result.stop_reason == "non_finite":
        return [np.inf] * len(passes)
    last = [np.flatnonzero(result.ifo <= k * a_pass)[-1] for k in passes]
    return [max((result.loss_curve[i] - best) / scale, 0.0) for i in last]


def compare(
    problem,
    best,
    scale,
    rates=RATES,
    batches=BATCHES,
    tuning=TUNING,
    reporting=REPORTING,
    passes=PASSES,
    methods=tuple(SOLVERS),
):
    """Tune and report.

    Returns
    -------
    dict
        By solver: for each budget (median gap, worst gap, setting, whether at an end of the grid).
    """
    table = {}
    for name in methods:
        settings = grid(name, problem, rates, batches)
        tuned = [
            np.median([gaps_of(problem, best, scale, name, params, s, passes) for s in tuning], axis=0)
            for _, params, _ in settings
        ]
        table[name], reported = [], {}
        for b in range(len(passes)):
            i = int(np.argmin([row[b] for row in tuned]))
            label, params, place = settings[i]
            if i not in reported:
                reported[i] = [gaps_of(problem, best, scale, name, params, s, passes) for s in reporting]
            final = [row[b] for row in reported[i]]
            edge = "" if place is None or not any(place) else " (low end)" if place[0] else " (high end)"
            table[name].append((np.median(final), np.max(final), label, edge))
    return table


def show(name, table, passes):
    """Print a problem's table as Markdown."""
    print(f"\n**{name}**\n")
    print("| method |" + "".join(f" {k} passes: median / worst | setting |" for k in passes))
    print("|---|" + "---|---|" * len(passes))
    for solver, row in table.items():
        cells = "".join(f" {median:.1e} / {worst:.1e} | {label}{edge} |" for median, worst, label, edge in row)
        print(f"| {solver} |{cells}", flush=True)


def main(argv=None):
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(inspect.getmodule(main)).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny problems, a short grid: seconds")
    parser.add_argument("--returns", nargs="*", default=[FRENCH] if FRENCH.exists() else [], metavar="FILE")
    parser.add_argument("--methods", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), metavar="NAME")
    args = parser.parse_args(argv)
    grids = {"rates": RATES, "batches": BATCHES, "tuning": TUNING, "reporting": REPORTING, "passes": PASSES}
    if args.quick:
        grids = {"rates": (0.125, 0.5), "batches": (16,), "tuning": (0,), "reporting": (100, 101), "passes": (2, 5)}
    print(
        f"x_0 = 0. Learning rates: auto and c/L, c = {', '.join(f'{c:g}' for c in grids['rates'])}, for scgd, acc-scgd "
        "and asc-pg times\ntheir papers' powers of k. "
        f"Batch sizes B = {', '.join(map(str, grids['batches']))} for g, dg and f (portfolio: dg exactly, once), and\n"
        "the automatic ones where those are full and for storm-c and sketchy-storm (whose rates are c);\n"
        "for storm-c-paper the published ones. Also\n"
        + "; ".join(f"{name}: {settings}" for name, settings in SETTINGS.items())
        + f".\nTuning seeds {grids['tuning']}, by median; reporting seeds {grids['reporting']}.\n"
        "Gaps: portfolio (Phi - Phi*) / |Phi*|, Bellman (Phi - Phi*) / (Phi(0) - Phi*)."
    )
    began = time.perf_counter()
    for group in (portfolio_problems(args.quick, [] if args.quick else args.returns), bellman_problems(args.quick)):
        for name, problem, best, scale in group:
            show(name, compare(problem, best, scale, **grids, methods=args.methods), grids["passes"])
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
