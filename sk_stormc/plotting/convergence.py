"""Convergence curves: the objective, its gap or the gradient's norm against the cost of
the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sk_stormc.plotting._curves import (
    curve_of_estimator,
    curve_of_result,
    grouped,
    x_of,
    y_of,
)
from sk_stormc.plotting._style import (
    axes_for,
    check_kwargs,
    draw_grid,
    log_axis,
    shortened,
    styles_of,
    write_literally,
)
from sk_stormc.utils.parameters import (
    check_bool,
    check_choice,
    check_int,
    check_number,
    check_text,
    short,
)
from sk_stormc.utils.warnings import warn_of_an_optimum

X_LABELS = {
    "ifo": "IFO",
    "passes": "passes over the data",
    "seconds": "seconds",
    "iterations": "iterations",
}
Y_LABELS = {
    "objective": "objective",
    "gap": "objective gap",
    "gradient": "exact gradient norm",
}
# number of labels above which the legend is beside the axes, in a new figure
MAX_LABELS_INSIDE = 5


class ConvergenceDisplay:
    """Convergence of runs: a quantity at their records against the cost.

    Several runs of a method, with different seeds, are drawn as their median with a
    band between the quartiles. A run that has ended keeps its last value. It is
    recommended to create a display with `from_estimator`, `from_results`, or the
    ``plot`` method of the result of `sk_stormc.compare_solvers`.

    Parameters
    ----------
    curves : dict of list
        For each label, a list of pairs (x, y), one for each seed. x and y are
        array-like of shape (n_records,), and x does not decrease. Values of y that are
        infinite or NaN are above all others, because the run has diverged. The names
        of `sk_stormc.solvers.SOLVERS` have the same style in all figures.
    x_label, y_label : str, default=""
        Labels of the axes, with the units.
    y_scale : {"auto", "linear", "log"}, default="auto"
        "auto" means "log" if all values of y are positive and the largest initial value
        is more than ten times the smallest value.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        One line for each label.
    bands_ : list
        The bands of the labels with several runs.
    legend_ : matplotlib.legend.Legend or None
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there are no curves, or if a curve has no finite value, x and y of different
        lengths, or an x that is negative or decreases.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.plotting import ConvergenceDisplay
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 5, random_state=0))
    >>> runs = {
    ...     name: minimize(problem, name, random_state=0)
    ...     for name in ("storm-c", "sarah-c")
    ... }
    >>> display = ConvergenceDisplay.from_results(runs, y="gap")
    >>> [line.get_label() for line in display.lines_]
    ['storm-c', 'sarah-c']
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        curves: dict[str, list],
        *,
        x_label: str = "",
        y_label: str = "",
        y_scale: Literal["auto", "linear", "log"] = "auto",
    ) -> None:
        self.curves = curves
        self.x_label = x_label
        self.y_label = y_label
        self.y_scale = y_scale

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: Literal["ifo", "passes", "iterations"] = "ifo",
        y: Literal["objective", "gap"] = "objective",
        optimum: float | None = None,
        pass_ifo: int | None = None,
        ax: Axes | None = None,
        x_scale: Literal["log", "linear"] = "log",
        **kwargs: Any,
    ) -> Self:
        """Draw the loss curves of fitted estimators.

        Parameters
        ----------
        estimator : fitted estimator, a list of them, or a dict of estimators or lists \
                of them
            Estimators of this package. In a list, those with the same solver are
            treated as its runs with several seeds. In a dict, those in the list of a
            label are.
        x : {"ifo", "passes", "iterations"}, default="ifo"
            Quantity on the horizontal axis. An estimator does not record times, but
            `sk_stormc.compare_solvers` does.
        y : {"objective", "gap"}, default="objective"
        optimum : float, default=None
            The value that is subtracted for the gap. None means the best value of all
            the estimators.
        pass_ifo : int, default=None
            IFO of a pass, which is 2 n_inner + n_outer of the problem, for runs that do
            not tell it, such as a `SolverResult` and an estimator after
            ``partial_fit``. For n periods of returns it is 3 n.
        ax : matplotlib.axes.Axes, default=None
            None means axes of a new figure.
        x_scale : {"log", "linear"}, default="log"
        **kwargs
            Properties of all lines, see `plot`.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        ValueError
            If an argument has an invalid value, or if the quantity was not recorded.
        """
        groups = grouped("estimator", estimator, curve_of_estimator)
        return cls._from_groups(groups, x, y, optimum, pass_ifo).plot(
            ax, x_scale=x_scale, **kwargs
        )

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        x: Literal["ifo", "passes", "seconds", "iterations"] = "ifo",
        y: Literal["objective", "gap", "gradient"] = "objective",
        optimum: float | None = None,
        pass_ifo: int | None = None,
        ax: Axes | None = None,
        x_scale: Literal["log", "linear"] = "log",
        **kwargs: Any,
    ) -> Self:
        """Draw the curves of results.

        Parameters
        ----------
        results : SolverResult, a list of them, or a dict of results or lists of them
            As for `from_estimator`. Runs of `sk_stormc.compare_solvers` contain times
            and passes, and optionally gradients.
        x : {"ifo", "passes", "seconds", "iterations"}, default="ifo"
            "passes" needs ``pass_ifo`` for a `SolverResult`, which does not contain
            times.
        y : {"objective", "gap", "gradient"}, default="objective"
            Quantity on the vertical axis. "gradient", the norm of the exact gradient,
            requires the runs of ``compare_solvers(..., gradient=True)``.
        optimum, pass_ifo, ax, x_scale, **kwargs
            As for `from_estimator`.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        ValueError
            If an argument has an invalid value, or if the quantity was not recorded.
        """
        groups = grouped("results", results, curve_of_result)
        return cls._from_groups(groups, x, y, optimum, pass_ifo).plot(
            ax, x_scale=x_scale, **kwargs
        )

    @classmethod
    def _from_groups(cls, groups, x, y, optimum, pass_ifo):
        check_choice("x", x, tuple(X_LABELS))
        check_choice("y", y, tuple(Y_LABELS))
        check_number("optimum", optimum, words=(None,))
        check_int("pass_ifo", pass_ifo, low=1, words=(None,))
        everything = [curve for runs in groups.values() for curve in runs]
        objective, y_label = everything[0].objective_label, Y_LABELS[y]
        if y == "objective":
            y_label = objective
        elif y == "gap":
            values = np.concatenate([curve.objective for curve in everything])
            best = float(np.min(values[np.isfinite(values)], initial=np.inf))
            if optimum is None:
                optimum, y_label = best, f"gap to the best {objective} seen, {best:.6g}"
            else:
                y_label = f"{objective} gap to the optimum {optimum:.6g}"
                warn_of_an_optimum(optimum, best, "was seen")
        curves = {
            label: [
                (x_of(curve, x, pass_ifo), y_of(curve, y, optimum)) for curve in runs
            ]
            for label, runs in groups.items()
        }
        scale = "auto" if y == "objective" else "log"
        return cls(curves, x_label=X_LABELS[x], y_label=y_label, y_scale=scale)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x_scale: Literal["log", "linear"] = "log",
        legend: bool = True,
        styles: dict[str, dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None means axes of a new figure.
        x_scale : {"log", "linear"}, default="log"
            "log" shows x_0 at 0, and is logarithmic from the first record on.
        legend : bool, default=True
            Whether to draw a legend. A single curve never has one.
        styles : dict of dict, default=None
            Properties of the lines by label. None means the default styles.
        **kwargs
            Properties of all lines, such as ``linewidth=1`` or ``marker=""``.

        Returns
        -------
        self : ConvergenceDisplay
        """
        check_choice("x_scale", x_scale, ("log", "linear"))
        check_choice("y_scale", self.y_scale, ("auto", "linear", "log"))
        check_text("x_label", self.x_label)
        check_text("y_label", self.y_label)
        check_bool("legend", legend)
        check_kwargs("plot", kwargs, Line2D)
        if styles is not None and not isinstance(styles, Mapping):
            raise ValueError(
                f"styles must be a dict by label or None, got {short(styles)}"
            )
        curves = _finite_curves(self.curves)
        values = [y[np.isfinite(y)] for runs in curves.values() for _, y in runs]
        start, low = max(y[0] for y in values), min(y.min() for y in values)
        log = self.y_scale == "log" or (
            self.y_scale == "auto" and low > 0 and start > 10 * low
        )
        limits = (_log_limits if log else _linear_limits)(start, values)
        own = ax is None
        ax = axes_for(ax, figsize=(6.4 + 1.8 * (len(curves) > MAX_LABELS_INSIDE), 4.4))
        x_range = x_limits([x for runs in curves.values() for x, _ in runs])
        styles = styles_of(curves) | dict(styles or {})
        self.lines_, self.bands_ = [], []
        for k, (label, runs) in enumerate(curves.items()):
            x, low, middle, high = _summary(runs, limits, log)
            markers = _markers(x, k, len(curves), x_range, x_scale)
            face = rcParams["axes.facecolor"]
            look = {"markersize": 6, "markevery": markers, "markerfacecolor": face}
            style = styles[label] | look | kwargs | {"label": shortened(str(label))}
            (line,) = ax.plot(x, middle, **style)
            self.lines_.append(line)
            if len(runs) > 1:
                look = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0}
                self.bands_.append(ax.fill_between(x, low, high, **look))
        if log:
            ax.set_yscale("log")
            log_axis(ax.yaxis)
        ax.set(ylim=limits, xlabel=self.x_label, ylabel=self.y_label)
        scale_x(ax, x_range, x_scale)
        draw_grid(ax)
        write_literally(ax.xaxis.label, ax.yaxis.label)
        self.legend_ = _write_legend(ax, own) if legend and len(curves) > 1 else None
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _finite_curves(curves):
    """(x, y) of each run by label, where y is finite."""
    groups = curves.values() if isinstance(curves, Mapping) else ()
    if not groups or not all(hasattr(runs, "__len__") and len(runs) for runs in groups):
        raise ValueError(
            "curves must be a dict with a list of runs for each label, got "
            f"{short(curves)}"
        )
    return {
        label: [_finite(label, x, y) for x, y in runs] for label, runs in curves.items()
    }


def _finite(label, x, y):
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(
            f"x and y of {label!r} must be vectors of one length, got {x.shape} and "
            f"{y.shape}"
        )
    if not (np.isfinite(x).all() and (np.diff(x, prepend=0.0) >= 0).all()):
        raise ValueError(
            f"x of {label!r} must be finite numbers >= 0 that do not decrease, got "
            f"{short(x)}"
        )
    if not np.isfinite(y).any():
        raise ValueError(f"y of {label!r} must have a finite value, got {short(y)}")
    return x, np.where(np.isnan(y), np.inf, y)


def _log_limits(start, values):
    """Limits from nine decades below the initial value to a little above it, so that
    diverging runs do not dominate."""
    if not start > 0:  # an initial gap of 0 cannot decrease
        return 1e-3, 1.0
    low = max(min(y[y > 0].min(initial=start) for y in values), start * 1e-9)
    tops = [y.max() for y in values]
    # at least one curve is shown completely, because a gradient may increase at first
    high = max(min(max(tops), 3 * start), min(min(tops), start * 1e9))
    room = max(1.05, (high / low) ** 0.04)
    return low / room, high * room


def _linear_limits(start, values):
    low = min(y.min() for y in values)
    span = start - low or abs(start) or 1.0
    high = min(max(y.max() for y in values), start + 0.2 * span)
    return low - 0.05 * span, high + 0.05 * span


def _summary(runs, limits, log):
    """x of all records, with the lower quartile, the median and the upper quartile at
    these."""
    x = np.unique(np.concatenate([x for x, _ in runs]))
    # values far outside the figure (a gap of 0, an overflow) are clipped to just
    # outside
    low, high = limits
    low, high = (1e-3 * low, 1e3 * high) if log else (2 * low - high, 2 * high - low)
    scale = np.log10 if log else np.asarray
    ys = [np.interp(x, x_run, scale(np.clip(y, low, high))) for x_run, y in runs]
    quartiles = np.quantile(ys, [0.25, 0.5, 0.75], axis=0)
    return x, *(10**quartiles if log else quartiles)


def x_limits(xs):
    """The first record after x_0 of all runs, and the last record of all."""
    xs = np.concatenate(xs)
    last = xs.max() or 1.0
    return xs[xs > 0].min(initial=last), last


def scale_x(ax, limits, scale):
    """Scale the x axis from x_0, at 0, to the last record: logarithmic from the first
    record on, or linear."""
    first, last = limits
    if scale == "linear":
        ax.set_xlim(0, 1.03 * last)
        return
    room = max(0.4, 0.12 * np.log10(last / first))  # space for x_0, in decades
    ax.set_xscale("symlog", linthresh=first, linscale=room)
    log_axis(ax.xaxis, first)
    ax.set_xlim(0, 1.15 * last)


def _markers(x, k, n, limits, scale):
    """Indices of the records with a marker. They differ between curves, so that
    coinciding curves are visible."""
    allowed = np.arange(k, len(x), n) if len(x) > n else np.arange(len(x))
    where, (low, high) = x, (0.0, limits[1])
    if scale == "log":
        low, high = np.log10(limits)
        where, low = np.log10(np.maximum(x, limits[0])), low - 1e-9
    targets = low + (high - low) * (np.arange(6) + (k + 0.5) / n) / 6
    targets = targets[targets <= where[-1]]
    if not targets.size:
        return [int(allowed[-1])]
    nearest = np.abs(where[allowed][:, None] - targets).argmin(axis=0)
    return np.unique(allowed[nearest]).tolist()


def _write_legend(ax, own):
    style = {"handlelength": 4, "fontsize": "small"}
    handles, labels = ax.get_legend_handles_labels()
    if own and len(labels) > MAX_LABELS_INSIDE:
        legend = ax.figure.legend(handles, labels, loc="outside right upper", **style)
    else:
        legend = ax.legend(handles, labels, loc="best", framealpha=0.85, **style)
    write_literally(legend)
    return legend
