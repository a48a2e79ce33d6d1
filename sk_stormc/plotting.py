"""Pictures of runs: curves against IFO, one row a data set, one column a quantity; and embeddings."""

from itertools import cycle

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["plot_curves", "plot_embeddings"]

# Okabe & Ito's colours, and line styles that stay apart without them. Methods that nearly coincide are one
# wide, one narrow, so that both are seen.
_STYLES = {
    "scgd": {"color": "#E69F00", "linestyle": "-", "linewidth": 4.5, "zorder": 1.8},
    "acc-scgd": {"color": "#CC79A7", "linestyle": (0, (1, 1)), "linewidth": 3.0, "zorder": 1.9},
    "asc-pg": {"color": "#000000", "linestyle": (0, (1, 2)), "linewidth": 1.6},
    "vrsc-pg": {"color": "#56B4E9", "linestyle": (0, (2.5, 0.5)), "linewidth": 4.5, "zorder": 1.8},
    "scvr": {"color": "#0072B2", "linestyle": (0, (4, 1, 1, 1, 1, 1)), "linewidth": 1.4},
    "civr": {"color": "#D55E00", "linestyle": (0, (8, 2)), "linewidth": 1.4},
    "sarah-c": {"color": "#000000", "linestyle": (0, (5, 3)), "linewidth": 1.3},
    "storm-c-paper": {"color": "#009E73", "linestyle": (0, (6, 1.5, 1, 1.5)), "linewidth": 2.2},
    "storm-c": {"color": "#D55E00", "linestyle": "-", "linewidth": 2.2},
    "sketchy-storm": {"color": "#882255", "linestyle": (0, (1, 1)), "linewidth": 2.4},
    "lbfgs": {"color": "#0072B2", "linestyle": (0, (3, 1.2)), "linewidth": 2.2},
}
_OTHERS = [
    {"color": color, "linestyle": style, "linewidth": 2.0}
    for color, style in zip(
        ("#CC79A7", "#0072B2", "#D55E00", "#009E73", "#000000"), ("-", "--", "-.", ":", (0, (8, 2))), strict=True
    )
]
_DECADES = 9  # shown below the start; a curve that falls further leaves the picture


def plot_curves(panels, labels):
    """Draw curves against IFO, both axes logarithmic, x_0 at the left edge.

    Several runs of a method are drawn as their median, with a band from the smallest to the largest. A run
    that ended holds its last value. The picture ends a little above the start of the runs, so that one that
    diverges does not flatten the others.

    Parameters
    ----------
    panels : dict of dict of list
        ``panels[row][method]`` is a list of runs; a run is ``(ifo, y_1, ..., y_k)``, each array-like of shape
        (n_records,), the IFO increasing from 0. The names are the rows' titles and the legend's entries; the
        names of `sk_stormc.solvers.SOLVERS` look the same in all pictures.
    labels : list of str of length k
        What y_1, ..., y_k are: one column of the picture each.

    Returns
    -------
    matplotlib.figure.Figure
        Free of pyplot; matplotlib's backend is left alone.

    Raises
    ------
    ValueError
        Without panels, or where a run has not one array more than there are labels.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.plotting import plot_curves
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 5, random_state=0))
    >>> runs = {name: minimize(problem, name, random_state=0) for name in ("storm-c", "sarah-c")}
    >>> best = min(run.fun for run in runs.values())
    >>> curves = {name: [(run.ifo, run.loss_curve - best)] for name, run in runs.items()}
    >>> figure = plot_curves({"five assets": curves}, ["gap to the best"])
    >>> len(figure.axes)
    1
    """
    if not panels or not all(panels.values()):
        raise ValueError(f"panels must hold at least one row, and each row a method, got {panels!r}")
    styles = _choose_styles(panels)
    figure = Figure(figsize=(4.9 * len(labels) + 0.4, 3.1 * len(panels) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), len(labels), sharex=True, squeeze=False)
    for row, (title, methods) in zip(axes, panels.items(), strict=True):
        row[0].set_ylabel(title)
        for k, ax in enumerate(row, start=1):
            curves = {method: _curves(method, runs, k, len(labels)) for method, runs in methods.items()}
            limits = _limits([y for runs in curves.values() for _, y in runs])
            for method, runs in curves.items():
                _draw(ax, runs, limits, {**styles[method], "label": method})
            ax.set(yscale="log", ylim=limits)
            ax.grid(True, color="0.9", linewidth=0.6)
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set_title(label, fontsize="medium")
    for ax in axes[-1]:
        ax.set_xlabel("IFO")
    figure.align_ylabels(axes[:, 0])
    _scale_x(axes[0, 0], [run[0] for methods in panels.values() for runs in methods.values() for run in runs])
    handles = {line.get_label(): line for ax in axes[:, 0] for line in ax.get_lines()}
    figure.legend(handles=[handles[name] for name in styles], loc="outside lower center", ncols=4, handlelength=4)
    return figure


def plot_embeddings(panels, labels=None):
    """Scatter embeddings side by side, coloured by label.

    Parameters
    ----------
    panels : dict of array-like of shape (n_points, 2)
        By title; more than two components are not shown.
    labels : array-like of int of shape (n_points,), default=None
        None draws all points in one colour.

    Returns
    -------
    matplotlib.figure.Figure
        Free of pyplot.

    Raises
    ------
    ValueError
        Without panels.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.plotting import plot_embeddings
    >>> points = np.random.default_rng(0).normal(size=(30, 2))
    >>> figure = plot_embeddings({"noise": points}, np.arange(30) % 3)
    >>> len(figure.axes)
    1
    """
    if not panels:
        raise ValueError(f"panels must hold at least one embedding, got {panels!r}")
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.2 * columns, 3.5 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax, (title, points) in zip(axes, panels.items(), strict=False):
        points = np.asarray(points)
        ax.scatter(points[:, 0], points[:, 1], c=labels, cmap=None if labels is None else "tab10", s=3, linewidths=0)
        ax.set_title(title, fontsize="medium")
        ax.set(xticks=[], yticks=[])
        ax.set_aspect("equal", "datalim")
    return figure


def _choose_styles(panels):
    others = cycle(_OTHERS)
    names = dict.fromkeys(method for methods in panels.values() for method in methods)
    return {name: _STYLES.get(name) or next(others) for name in names}


def _curves(method, runs, k, n_labels):
    """(ifo, y_k) of each run, where y_k is finite."""
    curves = []
    for run in runs:
        if len(run) != n_labels + 1:
            raise ValueError(f"a run must be {n_labels + 1} arrays, IFO first; one of {method!r} has {len(run)}")
        x, y = np.asarray(run[0], dtype=float), np.asarray(run[k], dtype=float)
        curves.append((x[np.isfinite(y)], y[np.isfinite(y)]))
    return curves


def _limits(curves):
    start = max(y[0] for y in curves)
    if not start > 0:  # nothing to come down from
        return 1e-3, 1.0
    low = min(y[y > 0].min(initial=start) for y in curves)
    return max(low, start * 10.0**-_DECADES) / 2, start * 3


def _draw(ax, runs, limits, style):
    x = np.unique(np.concatenate([x for x, _ in runs]))
    # what is far out of the picture (a gap of 0, an overflow) is kept just out of it
    y = [np.log10(np.clip(y_run, 1e-3 * limits[0], 1e3 * limits[1])) for _, y_run in runs]
    y = np.array([np.interp(x, x_run, y_run) for (x_run, _), y_run in zip(runs, y, strict=True)])
    ax.plot(x, 10 ** np.median(y, axis=0), **style)
    if len(runs) > 1:
        ax.fill_between(x, 10 ** y.min(axis=0), 10 ** y.max(axis=0), color=style["color"], alpha=0.2, linewidth=0)


def _scale_x(ax, ifo):
    # logarithmic from the first record on; before it there is room for x_0, at 0
    ifo = np.concatenate(ifo)
    first, last = ifo[ifo > 0].min(initial=ifo.max() or 1), ifo.max() or 1
    ax.set_xscale("symlog", linthresh=first, linscale=0.4)
    ax.set_xlim(0, 1.15 * last)
    ax.set_xticks([], minor=True)
    ax.set_xticks([0, *10.0 ** np.arange(np.ceil(np.log10(first)), np.log10(last) + 1e-9)])
