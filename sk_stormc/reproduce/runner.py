"""Common functions of the experiments: run methods with several seeds, show progress, make the table and the figure."""

import itertools
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.compare.text_table import format_table
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.solvers import StopReason, minimize
from sk_stormc.utils.validation import check_int

__all__ = [
    "TARGET",
    "Case",
    "Run",
    "check_methods",
    "curves",
    "draw_runs",
    "format_table",
    "group_runs",
    "progress_line",
    "run_methods",
    "summarize",
]

TARGET = 1e-3  # relative gap that defines the reported number of passes
LABELS = ["objective gap  $\\Phi(x) - \\Phi^*$", "exact gradient  $|\\nabla\\Phi(x)|$"]


@dataclass(frozen=True)
class Case:
    """A problem on which methods are run."""

    name: str
    problem: CompositionalProblem
    x0: np.ndarray  # the initial point of all methods
    optimum: float = 0.0  # Phi*, the smallest value of Phi
    scale: float = 1.0  # denominator of the relative gap, |Phi*| for the portfolio
    stream: Callable | None = None  # function of a seed that returns a new stream, whose expectation is the problem


@dataclass(frozen=True)
class Run:
    """A run of one method on one case with one seed. There is about one record per pass, from x_0 to the returned x."""

    case: Case
    method: str
    seed: int
    ifo: np.ndarray  # cumulative IFO at the records
    gap: np.ndarray  # Phi - Phi* at the records
    gradient_norm: np.ndarray  # |grad Phi| at the records, from the exact gradient
    seconds: float  # wall time of `minimize`, including Phi at the records, without the exact gradients
    stop_reason: str
    n_iter: int
    x: np.ndarray = field(repr=False)

    @property
    def failed(self):
        """Whether the run overflowed."""
        return self.stop_reason == StopReason.NON_FINITE

    @property
    def passes(self):
        """IFO at the first record within `TARGET`, in passes; inf if there is none."""
        near = np.flatnonzero(self.gap <= TARGET * self.case.scale)
        problem = self.case.problem
        return self.ifo[near[0]] / (2 * problem.n_inner + problem.n_outer) if near.size else np.inf


def check_methods(names, methods):
    """The parameters of the requested methods."""
    names = list(names)
    unknown = [name for name in names if name not in methods]
    if unknown or not names:
        invalid = ", ".join(map(repr, unknown)) or "none"
        raise ValueError(f"methods must be some of {', '.join(methods)}; got {invalid}")
    return {name: methods[name] for name in names}


def run_methods(jobs, *, max_ifo, n_seeds, first_seed=0, progress=None):
    """Run methods on cases, ``jobs`` of (case, parameters by method), with the seeds first_seed, first_seed + 1, ..."""
    check_int("max_ifo", max_ifo, low=1)
    check_int("n_seeds", n_seeds, low=1)
    todo = [(case, *item) for case, methods in jobs for item in methods.items()]
    runs = []
    for k, ((case, method, params), seed) in enumerate(itertools.product(todo, range(n_seeds))):
        if progress is not None:
            progress(f"{case.name}, {method}, seed {seed + 1} of {n_seeds}", k / (len(todo) * n_seeds))
        runs.append(_run(case, method, params, first_seed + seed, max_ifo))
    return runs


def _run(case, method, params, seed, max_ifo):
    """Run one method, with the solver of its name unless the parameters contain ``solver``."""
    values, norms, aside = [], [], 0.0
    problem = case.problem if case.stream is None else case.stream(seed)

    def add(point):
        # a stream evaluates Phi only on its latest rows
        values.append(point.fun if case.stream is None else case.problem.objective(point.x))
        norms.append(np.linalg.norm(case.problem.gradient(point.x)))

    def on_record(record):
        nonlocal aside
        began = time.perf_counter()
        add(record)
        aside += time.perf_counter() - began

    began = time.perf_counter()
    with warnings.catch_warnings():  # stop_reason has the same information, and Phi has a minimum
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = minimize(
            problem,
            x0=case.x0,
            random_state=seed,
            max_ifo=max_ifo,
            on_record=on_record,
            **{"solver": method, **params},
        )
    seconds = time.perf_counter() - began - aside
    if result.stop_reason == StopReason.INTERRUPTED:  # Ctrl-C ends the whole experiment
        raise KeyboardInterrupt
    if not result.n_iter and result.ifo[-1] > max_ifo:
        raise ValueError(f"--ifo must pay for the first batch of {method}, {result.ifo[-1]}; got {max_ifo}")
    if len(values) < len(result.ifo):  # the returned x is recorded without a call
        with np.errstate(over="ignore", invalid="ignore"):
            add(result)
    gap = np.maximum(np.array(values) - case.optimum, 0.0)  # negative only by rounding
    return Run(
        case=case,
        method=method,
        seed=seed,
        ifo=result.ifo,
        gap=gap,
        gradient_norm=np.array(norms),
        seconds=seconds,
        stop_reason=result.stop_reason,
        n_iter=result.n_iter,
        x=result.x,
    )


@contextmanager
def progress_line():
    """A progress line on stderr for the duration of the block, rewritten in place on a terminal."""
    stream, width = sys.stderr, 0
    terminal = stream.isatty()

    def show(text, fraction):
        nonlocal width
        line = f"{100 * fraction:3.0f} %  {text}"
        stream.write(f"\r{line:<{width}}" if terminal else f"{line}\n")
        stream.flush()
        width = len(line)

    try:
        yield show
    finally:
        if terminal:
            stream.write(f"\r{'':<{width}}\r")
            stream.flush()


def group_runs(runs):
    """Runs by the name of the case and by method."""
    groups = {}
    for run in runs:
        groups.setdefault(run.case.name, {}).setdefault(run.method, []).append(run)
    return groups


def curves(by_case, relative=False):
    """The curves of runs by case and method for `plot_curves`: IFO, gaps (optionally relative) and gradients."""
    return {
        case: {
            method: [(r.ifo, r.gap / r.case.scale if relative else r.gap, r.gradient_norm) for r in runs]
            for method, runs in by_method.items()
        }
        for case, by_method in by_case.items()
    }


def draw_runs(runs, path, labels=LABELS, relative=False):
    """Draw gaps (optionally relative) and gradients against IFO, with a row for each case, and save the figure."""
    from sk_stormc.plotting import plot_curves  # imports matplotlib, which --help does not need

    plot_curves(curves(group_runs(runs), relative), labels).savefig(path, dpi=150)


def summarize(runs, passes=True):
    """A table of the runs, with the median over the seeds for each case and method."""
    header = ["data set", "method", "IFO", "Phi - Phi*", "|grad Phi|", *["passes to 1e-3"] * passes, "seconds"]
    rows, notes = [], []
    for case, by_method in group_runs(runs).items():
        for method, seeds in by_method.items():
            numbers = [(r.ifo[-1], r.gap[-1], r.gradient_norm[-1], r.passes, r.seconds) for r in seeds]
            ifo, gap, norm, needed, seconds = np.median(numbers, axis=0)
            reached = [f"{needed:.1f}" if np.isfinite(needed) else "-"] * passes
            rows.append((case, method, f"{ifo:.0f}", f"{gap:.3e}", f"{norm:.3e}", *reached, f"{seconds:.3f}"))
            failed = sum(r.failed for r in seeds)
            if failed:
                notes.append(
                    f"{case}, {method}: overflowed from {failed} of {len(seeds)} seeds; the numbers are those of the "
                    "best iterate."
                )
    optima = ", ".join(f"{name} {optimum:.6g}" for name, optimum in {r.case.name: r.case.optimum for r in runs}.items())
    n_seeds = 1 + max(r.seed for r in runs)
    legend = [f"Phi*: {optima}. {f'Medians over {n_seeds} seeds' if n_seeds > 1 else 'One seed'}."]
    if passes:
        legend.append(
            "passes to 1e-3: IFO to a relative gap of 1e-3, in passes of 2 n_inner + n_outer IFO; - where never."
        )
    legend.append("seconds: of minimize() with its record of Phi once a pass; the exact gradients are not in them.")
    return "\n".join([format_table(header, rows), "", *legend, *notes])
