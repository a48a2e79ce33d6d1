"""The common part of the experiments: run methods on cases by `compare_solvers`, make
the table and the figure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sk_stormc.cli.arguments import progress_line, save_figure
from sk_stormc.cli.comparisons import check_budget
from sk_stormc.compare import compare_solvers
from sk_stormc.compare.tables import as_text, finite, table
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.solvers import StopReason, get_solver

# default budgets of a run; 3,000,000 are 10,000 iterations of STORM-C at the published
# batch sizes, and 144,000 are 360 n
MAX_IFO = {
    "portfolio": 3_000_000,
    "streaming": 3_000_000,
    "sne": 400_000,
    "bellman": 144_000,
    "complexity": 10**10,
}
TARGET = 1e-3  # relative gap that defines the reported number of passes
AXES = ["objective gap  $\\Phi(x) - \\Phi^*$", "exact gradient  $|\\nabla\\Phi(x)|$"]


@dataclass(frozen=True)
class Case:
    """A problem on which methods are compared. Cases of the same name share their rows
    of the table."""

    name: str
    # parameters by method, which is the name of the solver unless they contain
    # ``solver``
    methods: dict
    # or a function of a seed that returns a stream
    problem: CompositionalProblem | Callable
    x0: np.ndarray  # the initial point of all methods
    optimum: float = 0.0  # Phi*, the smallest value of Phi
    # denominator of the relative gap, by default the gap at x0
    scale: float | None = None
    # the problem of the stream's distribution
    expectation: CompositionalProblem | None = None
    record_every: int | None = None  # IFO, by default a pass


class Labels(NamedTuple):
    """Texts of an experiment in the report."""

    title: str
    gap: str  # header of the column of relative gaps
    digits: str  # format of relative gaps
    axes: list  # of the figure: relative gap and exact gradient


def five_methods(averaging, epochs):
    """The paper's methods: two that average, two with epochs, and Algorithm 1 with the
    constants of the paper."""
    return dict.fromkeys(("scgd", "asc-pg"), averaging) | {
        "vrsc-pg": epochs,
        "sarah-c": epochs,
        "storm-c-paper": {"tol": 0},
    }


def methods_of(names, methods):
    """The parameters of the requested methods."""
    unknown = [name for name in names if name not in methods]
    if unknown or not names:
        invalid = ", ".join(map(repr, unknown)) or "none"
        raise ValueError(f"methods must be some of {', '.join(methods)}; got {invalid}")
    return {name: methods[name] for name in names}


def run(cases, max_ifo, seeds, progress=lambda text, fraction: None):
    """Compare the methods of each case. Return the comparisons by the names of the
    cases."""
    results, cases = {}, [case for case in cases if case.methods]
    for k, case in enumerate(cases):

        def show(text, fraction, k=k, name=case.name):
            progress(f"{name}, {text}", (k + fraction) / len(cases))

        compared = compare_solvers(
            case.problem,
            [_labelled(method, **params) for method, params in case.methods.items()],
            n_seeds=seeds,
            max_ifo=max_ifo,
            gaps=(TARGET,),
            optimum=case.optimum,
            gradient=True,
            expectation=case.expectation,
            progress=show,
            x0=case.x0,
            record_every=case.record_every,
        )
        check_budget(compared, max_ifo)
        compared.scale = case.scale or compared.scale
        results.setdefault(case.name, compared).runs |= compared.runs
    return results


def _labelled(method, solver=None, **params):
    """A label and the solver with these parameters."""
    return method, get_solver(solver or method).set_params(**params)


def run_command(cases, max_ifo, n_seeds):
    """Run cases for a command, with a progress line and the seeds 0, 1, ..."""
    with progress_line() as show:
        return run(cases, max_ifo, range(n_seeds), show)


def show_results(results, path, *texts):
    """Print texts, save the figure, and print where it is."""
    draw(results, path)
    print(*texts, sep="\n")
    print(f"\nPicture written to {path}")


def summarize(results, passes=True):
    """A table of the comparisons, with the median over the seeds for each case and
    method."""
    columns = {
        "data set": "{case}",
        "method": "{solver}",
        "IFO": "{ifo_median:.0f}",
        "Phi - Phi*": "{gap:.3e}",
        "|grad Phi|": "{gradient_median:.3e}",
        "passes to 1e-3": lambda row: finite(
            row[f"passes_to_{TARGET:g}_median"], ".1f"
        ),
        "seconds": "{seconds_median:.3f}",
    }
    legend = [
        "IFO: calls of an oracle that evaluates one sample. Phi - Phi*: the gap at the "
        "end. |grad Phi|: the exact gradient there.",
        "passes to 1e-3: IFO to a relative gap of 1e-3, in passes of 2 n_inner + "
        "n_outer IFO; - where never.",
        "seconds: of minimize() with its record of Phi once a pass; the exact "
        "gradients are not in them.",
    ]
    if not passes:
        del columns["passes to 1e-3"], legend[1]
    rows = [
        {"case": case, "gap": row["gap_median"] * comparison.scale, **row}
        for case, comparison in results.items()
        for row in comparison.table
    ]
    for row in rows:
        failed = row["stop_reasons"].get(StopReason.NON_FINITE)
        if failed:
            text = (
                "{case}, {solver}: overflowed from {0} of {runs} seeds; the numbers "
                "are those of the best iterate."
            )
            legend.append(text.format(failed, **row))
    optima = ", ".join(
        f"{case} {comparison.optimum:.6g}" for case, comparison in results.items()
    )
    n_seeds = rows[0]["runs"]
    medians = f"Medians over {n_seeds} seeds" if n_seeds > 1 else "One seed"
    return "\n".join(
        [as_text(*table(rows, columns)), "", f"Phi*: {optima}. {medians}.", *legend]
    )


def draw(results, path, axes=AXES, relative=False, dpi=150):
    """Draw gaps (optionally relative) and gradients against IFO, with a row for each
    case, and save the figure."""
    # imports matplotlib, which --help does not need
    from sk_stormc.plotting import plot_curves

    panels = {}
    for case, comparison in results.items():
        scale = comparison.scale if relative else 1.0
        panels[case] = {
            method: [
                (run.ifo, comparison.gap_curve(run) / scale, run.gradient_norm)
                for run in runs
            ]
            for method, runs in comparison.runs.items()
        }
    save_figure(plot_curves(panels, axes), path, dpi)
