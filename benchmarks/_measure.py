"""What several benchmarks share: times, the published return sets, reference minima,
passes to a gap."""

import math
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REGIONS = (
    "Asia Pacific ex Japan",
    "Europe",
    "Global",
    "Global ex US",
    "Japan",
    "North America",
)
GAUSSIAN = ("gaussian_cov_20", "gaussian_cov_4")
GAPS, GAP_NAMES = (1e-3, 1e-4), ("1e-3", "1e-4")
SEEDS, LIMIT = (0, 1, 2, 3, 4), 100  # LIMIT in passes


def timed(function, *args, **kwargs):
    """CPU seconds of a call, what it returns, and whether it warned that something has
    not converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        value = function(*args, **kwargs)
        seconds = time.process_time() - began
    return (
        seconds,
        value,
        any(issubclass(warning.category, ConvergenceWarning) for warning in caught),
    )


def published(data):
    """The eight published return sets by name; daily returns as fractions."""
    files = {
        **{r: f"french25_{r.replace(' ', '_')}_OP" for r in REGIONS},
        **{name: name for name in GAUSSIAN},
    }
    sets = {}
    for name, stem in files.items():
        with np.load(data / f"{stem}.npz") as file:
            sets[name] = (
                file["returns"] if "returns" in file else file["returns_bp"] / 1e4
            )
    return sets


def generated():
    """Two small sets in place of the published ones, for quick runs."""
    return {
        f"generated {k}": make_gaussian_returns(
            1100, 5, mean=0.2, condition_number=k, random_state=0
        )
        for k in (4, 20)
    }


def returns_and_seeds(quick, data):
    """The return sets and the seeds of a run: the published ones, or for quick runs
    generated ones and few seeds."""
    return (generated(), SEEDS[:2]) if quick else (published(data), SEEDS)


def settings(seeds):
    """What is stored beside passes to gaps."""
    return {"gaps": GAPS, "seeds": seeds, "limit": LIMIT}


def a_pass(problem):
    """IFO of one full compositional gradient."""
    return 2 * problem.n_inner + problem.n_outer


def least_variance(problem):
    """The minimum of the mean-variance objective without a penalty, by its closed
    form."""
    R = problem.returns
    return problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))


def least_penalised_variance(problem, iterations=200_000):
    """The minimum of the mean-variance objective with a penalty.

    By accelerated proximal gradient steps on the covariance matrix, restarted where
    they turn back. It shares nothing with the methods that are compared.
    """
    R, penalty = problem.returns, problem.penalty
    mean, hessian = R.mean(0), 2 * problem.risk_aversion * np.cov(R.T, bias=True)
    step = 1 / np.linalg.eigvalsh(hessian)[-1]
    x = y = penalty.prox(np.zeros(len(mean)), step)
    momentum = 1.0
    for _ in range(iterations):
        new = penalty.prox(y - step * (hessian @ y - mean), step)
        if np.abs(new - y).max() <= 1e-14 * np.abs(new).max():
            break
        if (y - new) @ (new - x) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        x, y, momentum = new, new + (momentum - 1) / following * (new - x), following
    return problem.objective(new)


def least_by_lbfgs(problem):
    """The minimum of a smooth objective, as a long run of L-BFGS finds it."""
    return minimize(problem, "lbfgs", tol=1e-12, max_ifo=10**9).fun


def passes_to_gaps(problem, solver, best, scale, seed, limit=LIMIT):
    """Passes of one run to each of `GAPS`, by IFO and by evaluations."""
    n, found = a_pass(problem), []

    def near(record):
        while len(found) < len(GAPS) and record.fun - best <= GAPS[len(found)] * scale:
            evaluations = record.snapshot().oracle["n_evaluations"]
            found.append((record.ifo / n, sum(evaluations.values()) / n))
        return len(found) == len(GAPS)

    budget = {"tol": 0, "max_ifo": int(limit * n), "record_every": max(1, n // 40)}
    timed(minimize, problem, solver, random_state=seed, on_record=near, **budget)
    return np.array(found + [(np.inf, np.inf)] * (len(GAPS) - len(found)))


def median_and_worst(problem, solver, best, scale=None, seeds=SEEDS):
    """Over the seeds, of shape (2 gaps, 3): IFO median, IFO worst, evaluations median,
    in passes."""
    runs = np.array(
        [
            passes_to_gaps(problem, solver, best, scale or abs(best), seed)
            for seed in seeds
        ]
    )
    return np.column_stack(
        [np.median(runs, 0)[:, 0], runs.max(0)[:, 0], np.median(runs, 0)[:, 1]]
    )


# Cells


def number(value):
    """Passes as a cell has them; None is a gap that was not reached."""
    return f"> {LIMIT}" if reached_at(value) == math.inf else f"{value:.1f}"


def reached_at(value):
    """The passes of a stored result, infinite where there are none."""
    return math.inf if value is None else value


def once(first, second, separator=" / "):
    """Two texts, or one where they agree."""
    return first if first == second else f"{first}{separator}{second}"


def cell(entry, evaluations=True):
    """IFO median / worst, and in brackets evaluations."""
    text = once(number(entry[0]), number(entry[1]))
    return f"{text} ({number(entry[2])})" if evaluations else text


def summary(entries):
    """Of several problems: the mean of the medians, or on how many there is none, / the
    worst run of all."""
    if not entries:
        return ""
    medians, worst = ([reached_at(entry[k]) for entry in entries] for k in (0, 1))
    mean, missing = number(sum(medians) / len(medians)), medians.count(math.inf)
    return (
        f"{mean} on {missing} of {len(medians)}"
        if missing
        else f"{mean} / {number(max(worst))}"
    )


def spread(entries):
    """Of several problems: the least to the largest median, and in brackets those of
    the evaluations."""
    passes, evaluations = ([reached_at(entry[k]) for entry in entries] for k in (0, 2))
    texts = [
        once(number(min(values)), number(max(values)), " to ")
        for values in (passes, evaluations)
    ]
    return f"{texts[0]} ({texts[1]})"


def by_gap(solvers, text):
    """Columns of each gap and solver, whose cells are ``text(row, solver, number of the
    gap)``."""
    return {
        f"{solver}, to {gap}": lambda row, solver=solver, k=k: text(row, solver, k)
        for k, gap in enumerate(GAP_NAMES)
        for solver in solvers
    }
