"""The results of `compare_solvers`: the runs of several solvers, and a table of
them."""

from __future__ import annotations

import html
import math
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sk_stormc.compare.tables import as_html, as_text, finite, table
from sk_stormc.engine.results import Recorded
from sk_stormc.utils.parameters import is_word

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from sk_stormc.plotting import ConvergenceDisplay

NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]\d+)?")
QUARTILES = ("q1", "median", "q3")


@dataclass(frozen=True)
class ComparedRun(Recorded):
    """The run of one solver with one seed.

    Attributes
    ----------
    label : str
        Label of the solver.
    seed : int
        Seed of the run.
    loss_curve, ifo : ndarray of shape (n_records,)
        As in the `SolverResult`, or as the estimator's ``loss_curve_`` and ``ifo_``.
    record_iterations : ndarray of shape (n_records,) or None
        Iteration of each record.
    seconds : ndarray of shape (n_records,)
        Wall time of the solver up to each record, with the time for the objective at
        the records. The time that an estimator takes before and after the solver is not
        included. For an estimator's own methods, such as "newton" and "lstd", it is the
        time of the whole fit at all records but the first.
    gradient_norm : ndarray of shape (n_records,) or None
        Norm of the exact gradient without the penalty, if it was requested.
    pass_ifo : int
        IFO of a pass, 2 n_inner + n_outer.
    n_evaluations : dict
        Number of component evaluations by kind.
    n_iter : int
        Number of iterations.
    stop_reason : str
        Why the run ended.
    warnings : tuple of str
        Messages of the warnings of the run.
    x : ndarray of shape (n_variables,) or None
        The point that the solver returned. None for "lstd" and other solvers that only
        the estimator has.
    objective_label : str
        Name of the quantity in ``loss_curve``.

    Examples
    --------
    >>> from sk_stormc import compare_solvers
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> found = compare_solvers(problem, ["storm-c"], n_seeds=1, random_state=0)
    >>> found.runs["storm-c"][0].stop_reason
    'converged'
    """

    label: str
    seed: int
    loss_curve: np.ndarray
    ifo: np.ndarray
    record_iterations: np.ndarray | None
    seconds: np.ndarray
    gradient_norm: np.ndarray | None
    pass_ifo: int
    n_evaluations: dict
    n_iter: int
    stop_reason: str
    warnings: tuple
    x: np.ndarray | None
    objective_label: str

    @property
    def fun(self) -> float:
        """The objective at the returned point."""
        return float(self.loss_curve[-1])

    def recorded(self) -> dict[str, Any]:
        """The values at the records, as a dict for the displays."""
        return {
            "label": self.label,
            "ifo": self.ifo,
            "objective": self.loss_curve,
            "iterations": self.record_iterations,
            "seconds": self.seconds,
            "gradient": self.gradient_norm,
            "pass_ifo": self.pass_ifo,
            "objective_label": self.objective_label,
        }


class SolverComparison:
    """The result of `compare_solvers`. Printing it shows the tables.

    Attributes
    ----------
    runs : dict of list of ComparedRun
        The runs of each label, one for each seed.
    gaps : tuple of float
        Relative gaps, for which the table has the costs.
    optimum : float
        The value from which gaps are measured.
    optimum_from : str
        How ``optimum`` was determined.
    start : float
        The objective at the start. If runs start from several points, it is the
        highest.
    scale : float
        The gap that relative gaps are divided by: that at the start, unless you set
        another one, such as ``abs(comparison.optimum)``.

    Examples
    --------
    >>> from sk_stormc import compare_solvers
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> found = compare_solvers(
    ...     problem, ["storm-c", "lbfgs"], n_seeds=1, random_state=0
    ... )
    >>> sorted(found.runs), found.table[0]["solver"]
    (['lbfgs', 'storm-c'], 'storm-c')
    """

    def __init__(
        self,
        runs: dict[str, list[ComparedRun]],
        gaps: tuple,
        optimum: float,
        optimum_from: str,
    ) -> None:
        self.runs = runs
        self.gaps = gaps
        self.optimum = optimum
        self.optimum_from = optimum_from
        self.start = max(
            float(run.loss_curve[0]) for seeds in runs.values() for run in seeds
        )
        self.scale = self.start - optimum

    def gap_curve(self, run: ComparedRun) -> np.ndarray:
        """The objective minus ``optimum`` at the records of a run, or 0 where it is
        lower.

        Parameters
        ----------
        run : ComparedRun

        Returns
        -------
        ndarray of shape (n_records,)
        """
        return np.maximum(run.loss_curve - self.optimum, 0.0)

    def _reached(self, run, gap):
        """Passes and seconds at the first record with such a gap, or infinity if there
        is none."""
        near = np.flatnonzero(run.loss_curve - self.optimum <= gap * self.scale)
        if not near.size:
            return math.inf, math.inf
        return run.ifo[near[0]] / run.pass_ifo, run.seconds[near[0]]

    @property
    def table(self) -> list[dict[str, Any]]:
        """The table as a list of dicts, one for each solver.

        The keys are ``solver`` and ``runs``; ``objective``, ``gap`` (relative),
        ``ifo``, ``passes``, ``seconds``, ``n_iter`` and, if it was requested,
        ``gradient`` (the norm) at the end of the runs, each with the suffixes
        ``_median``, ``_q1`` and ``_q3`` over the seeds; for each gap, ``reached_0.01``
        (the number of runs that reached it), and ``passes_to_0.01`` and
        ``seconds_to_0.01`` with the same suffixes, which are infinite if too few runs
        reached it; ``stop_reasons`` (a dict of counts) and ``warnings`` (their number).
        """
        rows = []
        for label, runs in self.runs.items():
            gaps = [self.gap_curve(run)[-1] for run in runs]
            final = {
                "objective": [run.fun for run in runs],
                "gap": [gap / self.scale if self.scale > 0 else 0.0 for gap in gaps],
                "ifo": [run.ifo[-1] for run in runs],
                "passes": [run.ifo[-1] / run.pass_ifo for run in runs],
                "seconds": [run.seconds[-1] for run in runs],
                "n_iter": [run.n_iter for run in runs],
            }
            norms = [run.gradient_norm for run in runs if run.gradient_norm is not None]
            if len(norms) == len(runs):
                final["gradient"] = [norm[-1] for norm in norms]
            row = {"solver": label, "runs": len(runs)}
            for name, values in final.items():
                row |= _quartiles(name, values)
            for gap in self.gaps:
                costs = np.array([self._reached(run, gap) for run in runs])
                row[f"reached_{gap:g}"] = int(np.isfinite(costs[:, 0]).sum())
                row |= _quartiles(f"passes_to_{gap:g}", costs[:, 0])
                row |= _quartiles(f"seconds_to_{gap:g}", costs[:, 1])
            row["stop_reasons"] = dict(Counter(run.stop_reason for run in runs))
            row["warnings"] = sum(len(run.warnings) for run in runs)
            rows.append(row)
        return rows

    @property
    def warnings(self) -> dict[str, dict[str, int]]:
        """The warnings of each solver's runs and their counts, as a dict of dicts."""
        return {
            label: dict(Counter(message for run in runs for message in run.warnings))
            for label, runs in self.runs.items()
        }

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame, one row for each solver.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas as pd

        rows = [row | {"stop_reasons": stop_reasons(row)} for row in self.table]
        return pd.DataFrame(rows).set_index("solver")

    def plot(
        self,
        *,
        x: Literal["passes", "seconds", "ifo", "iterations"] = "passes",
        y: Literal["gap", "objective", "gradient"] = "gap",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ConvergenceDisplay:
        """Draw the runs, the median of each solver and a band between the quartiles.

        Parameters
        ----------
        x : {"passes", "seconds", "ifo", "iterations"}, default="passes"
        y : {"gap", "objective", "gradient"}, default="gap"
            "gap" is the absolute difference from ``optimum``.
        ax : matplotlib.axes.Axes, default=None
        **kwargs
            For `sk_stormc.plotting.ConvergenceDisplay.from_results`.

        Returns
        -------
        sk_stormc.plotting.ConvergenceDisplay
        """
        from sk_stormc.plotting import ConvergenceDisplay  # matplotlib

        best = min(
            float(np.nanmin(run.loss_curve))
            for seeds in self.runs.values()
            for run in seeds
        )
        # None: the best value, labelled so
        optimum = self.optimum if is_word(y, "gap") and self.optimum != best else None
        with warnings.catch_warnings():
            # compare_solvers has given this warning already
            warnings.filterwarnings("ignore", "optimum=")
            return ConvergenceDisplay.from_results(
                self.runs, x=x, y=y, optimum=optimum, ax=ax, **kwargs
            )

    def _tables(self):
        """Headers and rows of the tables that are shown: the results of the runs, and
        their costs up to the gaps."""
        ends = {
            "solver": "{solver}",
            "objective": partial(_spread, name="objective", digits=8),
            "rel. gap": "{gap_median:.1e}",
            "IFO": "{ifo_median:.0f}",
            "passes": partial(_spread, name="passes", digits=3),
            "seconds": partial(_spread, name="seconds", digits=2),
            "stop": stop_reasons,
            "warnings": "{warnings}",
        }
        costs = {
            f"{what} to {gap:g}": partial(
                _cost, what=what, digits=digits, gap=f"{gap:g}"
            )
            for what, digits in (("passes", 3), ("seconds", 2))
            for gap in self.gaps
        }
        tables = [ends, {"solver": "{solver}"} | costs] if costs else [ends]
        return [table(self.table, columns) for columns in tables]

    def _notes(self):
        """The lines below the tables."""
        n_seeds = max(map(len, self.runs.values()))
        seeds = "One seed"
        if n_seeds > 1:
            seeds = f"Medians over {n_seeds} seeds [and quartiles]"
        unit = f"1 at the start, {self.start:.6g}"
        if self.scale != self.start - self.optimum:
            unit = f"divided by {self.scale:.6g}"
        lines = [
            f"{seeds}; - where a gap was not reached.",
            f"Relative gaps are {unit}, and 0 at the optimum, {self.optimum:.10g}.",
            f"The optimum is {self.optimum_from}.",
        ]
        messages = []
        for label, counts in self.warnings.items():
            first, alike = {}, Counter()  # messages that differ in their numbers only
            for text, count in counts.items():
                kind = NUMBER.sub("0", text)
                first.setdefault(kind, text)
                alike[kind] += count
            messages += [f"{label}, {alike[kind]} x: {first[kind]}" for kind in first]
        return lines + (["", "Warnings:", *messages] if messages else [])

    def __str__(self):
        tables = [as_text(*shown, left=1) for shown in self._tables()]
        return "\n\n".join([*tables, "\n".join(self._notes())])

    def _repr_html_(self):
        tables = [as_html(*shown, left=1) for shown in self._tables()]
        notes = [f"<p>{html.escape(line)}</p>" for line in self._notes() if line]
        return "\n".join(tables + notes)

    __repr__ = __str__


def _quartiles(name, values):
    values = np.asarray(values, dtype=float)
    # there is no value between a number and infinity, so use that of the next run
    method = "linear" if np.isfinite(values).all() else "higher"
    quartiles = np.quantile(values, (0.25, 0.5, 0.75), method=method).tolist()
    names = [f"{name}_{part}" for part in QUARTILES]
    return dict(zip(names, quartiles, strict=True))


def _spread(row, name, digits):
    """A cell with the median and the quartiles."""
    low, middle, high = (
        finite(row[f"{name}_{part}"], f".{digits}g") for part in QUARTILES
    )
    return middle if row["runs"] == 1 else f"{middle} [{low}, {high}]"


def _cost(row, what, digits, gap):
    """A cell with the cost of the runs that reached a gap, and their number if there
    are others."""
    n, runs = row[f"reached_{gap}"], row["runs"]
    cell = _spread(row, f"{what}_to_{gap}", digits) if n else "-"
    return cell if n in (0, runs) else f"{cell} ({n} of {runs})"


def stop_reasons(row):
    """The stop reasons of a row of the table as text, with their counts if they
    differ."""
    reasons = row["stop_reasons"]
    return ", ".join(
        name if len(reasons) == 1 else f"{name} {count}"
        for name, count in reasons.items()
    )
