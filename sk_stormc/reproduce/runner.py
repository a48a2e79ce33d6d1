"""What the experiments share: run methods from several seeds, collect their curves, make the table."""

import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.compare.text_table import format_table
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.solvers import StopReason, minimize
from sk_stormc.utils.validation import check_int

__all__ = [
    "TARGET", "Case", "Run", "check_methods", "draw_runs", "format_table", "group_runs", "run_methods", "summarize"
]  # fmt: skip

TARGET = 1e-3  # the relative gap that passes are counted to


@dataclass(frozen=True)
class Case:
    """A problem to run methods on.

    Attributes
    ----------
    name : str
    problem : CompositionalProblem
    x0 : ndarray of shape (n_variables,)
        The start of all methods.
    optimum : float
        Phi*, the smallest value of Phi.
    scale : float
        What a relative gap is relative to, |Phi*| for the portfolio.
    stream : callable, default=None
        ``stream(seed)`` makes what the methods are run on, a fresh stream whose expectation is ``problem``. None means
        ``problem`` itself.
    """

    name: str
    problem: CompositionalProblem
    x0: np.ndarray
    optimum: float
    scale: float
    stream: Callable | None = None


@dataclass(frozen=True)
class Run:
    """One method on one case from one seed.

    Attributes
    ----------
    case, method : str
    seed : int
    ifo : ndarray of shape (n_records,)
        Cumulative IFO at the records: about one record a pass, x_0 first, the returned x last.
    optimum : float
        Phi*.
    gap : ndarray of shape (n_records,)
        Phi - Phi*, 0 where rounding makes it negative.
    gradient_norm : ndarray of shape (n_records,)
        |grad Phi|, of the exact gradient.
    passes : float
        IFO at the first record with gap <= `TARGET` * scale, in passes; inf where there is none.
    seconds : float
        Wall time of `minimize`, Phi at the records included, the exact gradients not.
    stop_reason : str
        A value of `sk_stormc.solvers.StopReason`.
    """

    case: str
    method: str
    seed: int
    ifo: np.ndarray
    optimum: float
    gap: np.ndarray
    gradient_norm: np.ndarray
    passes: float
    seconds: float
    stop_reason: str


def check_methods(names, methods):
    """The parameters of the methods asked for."""
    names = list(names)
    unknown = [name for name in names if name not in methods]
    if unknown or not names:
        found = ", ".join(map(repr, unknown)) or "none"
        raise ValueError(f"methods must be some of {', '.join(methods)}; got {found}")
    return {name: methods[name] for name in names}


def run_methods(cases, methods, *, max_ifo, n_seeds, first_seed=0, progress=None):
    """Run every method on every case from the seeds first_seed, ..., first_seed + n_seeds - 1."""
    check_int("max_ifo", max_ifo, low=1)
    check_int("n_seeds", n_seeds, low=1)
    todo = list(itertools.product(cases, methods, range(n_seeds)))
    runs = []
    for i, (case, method, seed) in enumerate(todo):

        def show(ifo, i=i, text=f"{case.name}, {method}, seed {seed + 1} of {n_seeds}"):
            if progress is not None:
                progress(text, (i + min(ifo / max_ifo, 1)) / len(todo))

        runs.append(_run(case, method, methods[method], first_seed + seed, max_ifo, show))
    return runs


def _run(case, method, params, seed, max_ifo, show):
    ifo, gap, norm = [], [], []
    problem = case.problem if case.stream is None else case.stream(seed)
    watching = 0.0  # seconds that the records took, which are not the method's

    def on_record(record):
        nonlocal watching
        began = time.perf_counter()
        ifo.append(record.ifo)
        gap.append(_objective(case, record) - case.optimum)
        norm.append(np.linalg.norm(case.problem.gradient(record.x)))
        show(record.ifo)
        watching += time.perf_counter() - began

    began = time.perf_counter()
    with warnings.catch_warnings():  # stop_reason has the same information, and Phi is known to have a minimum
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = minimize(
            problem, method, case.x0, random_state=seed, max_ifo=max_ifo, on_record=on_record, **params
        )
    if result.stop_reason == StopReason.INTERRUPTED:  # Ctrl-C is for the whole experiment
        raise KeyboardInterrupt
    if not result.n_iter and result.ifo[-1] > max_ifo:
        raise ValueError(f"--ifo must pay for the first batch of {method}, {result.ifo[-1]}; got {max_ifo}")
    seconds = time.perf_counter() - began - watching
    if result.ifo[-1] > ifo[-1]:  # the returned x is recorded without a call
        with np.errstate(over="ignore", invalid="ignore"):
            norm.append(np.linalg.norm(case.problem.gradient(result.x)))
            gap.append(_objective(case, result) - case.optimum)
        ifo.append(result.ifo[-1])
    ifo, gap = np.array(ifo), np.maximum(gap, 0.0)
    near = np.flatnonzero(gap <= TARGET * case.scale)
    a_pass = 2 * case.problem.n_inner + case.problem.n_outer
    passes = ifo[near[0]] / a_pass if near.size else np.inf
    return Run(
        case=case.name,
        method=method,
        seed=seed,
        ifo=ifo,
        optimum=case.optimum,
        gap=gap,
        gradient_norm=np.array(norm),
        passes=passes,
        seconds=seconds,
        stop_reason=result.stop_reason,
    )


def _objective(case, record):
    """Phi at a record's x or a result's; a stream itself knows only that of its latest rows."""
    return record.fun if case.stream is None else case.problem.objective(record.x)


def group_runs(runs):
    """Runs by case and method."""
    groups = {}
    for run in runs:
        groups.setdefault(run.case, {}).setdefault(run.method, []).append(run)
    return groups


def draw_runs(runs, path):
    """Draw gaps and gradients against IFO, a row for each case, and save the picture."""
    from sk_stormc.plotting import plot_curves  # matplotlib: not for --help

    panels = {
        case: {method: [(r.ifo, r.gap, r.gradient_norm) for r in seeds] for method, seeds in by_method.items()}
        for case, by_method in group_runs(runs).items()
    }
    figure = plot_curves(panels, ["objective gap  $\\Phi(x) - \\Phi^*$", "exact gradient  $|\\nabla\\Phi(x)|$"])
    figure.savefig(path, dpi=150)


def summarize(runs, passes=True):
    """A table of the runs: for each case and method the median over the seeds."""
    header = ("data set", "method", "IFO", "Phi - Phi*", "|grad Phi|", "passes to 1e-3", "seconds")
    header = header if passes else (*header[:5], header[6])
    rows, notes = [], []
    for case, by_method in group_runs(runs).items():
        for method, seeds in by_method.items():
            ifo, gap, norm, needed, seconds = np.median(
                [(r.ifo[-1], r.gap[-1], r.gradient_norm[-1], r.passes, r.seconds) for r in seeds], axis=0
            )
            reached = [f"{needed:.1f}" if np.isfinite(needed) else "-"] if passes else []
            rows.append((case, method, f"{ifo:.0f}", f"{gap:.3e}", f"{norm:.3e}", *reached, f"{seconds:.3f}"))
            diverged = sum(r.stop_reason == StopReason.NON_FINITE for r in seeds)
            if diverged:
                notes.append(
                    f"{case}, {method}: overflowed from {diverged} of {len(seeds)} seeds; the numbers are those "
                    "of the best iterate."
                )
    optima = ", ".join(f"{case} {optimum:.6g}" for case, optimum in {r.case: r.optimum for r in runs}.items())
    n_seeds = 1 + max(r.seed for r in runs)
    legend = [
        f"Phi*: {optima}. {f'Medians over {n_seeds} seeds' if n_seeds > 1 else 'One seed'}.",
        "seconds: of minimize() with its record of Phi once a pass; the exact gradients are not in them.",
    ]
    if passes:
        legend.insert(
            1, "passes to 1e-3: IFO to a relative gap of 1e-3, in passes of 2 n_inner + n_outer IFO; - where never."
        )
    return "\n".join([format_table(header, rows), "", *legend, *notes])
