"""Several displays in one figure: curves by data set (rows) and quantity (columns), and
embeddings."""

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from sk_stormc.plotting._style import (
    shortened,
    styles_of,
    unmanaged_figure,
    write_literally,
)
from sk_stormc.plotting.convergence import ConvergenceDisplay, scale_x, x_limits
from sk_stormc.plotting.embedding import EmbeddingDisplay
from sk_stormc.utils.parameters import check_text, naming, short
from sk_stormc.utils.types import ArrayLike


def plot_curves(
    panels: dict[str, dict[str, list]], labels: list[str] | tuple[str, ...]
) -> Figure:
    """Draw curves against IFO on logarithmic axes, with x_0 at the left edge.

    Several runs of a method are drawn as their median, with a band between their
    quartiles. A run that has ended keeps its last value. The vertical axis ends a
    little above the initial values of the runs, so that a diverging run does not
    compress the other curves.

    Parameters
    ----------
    panels : dict of dict of list
        ``panels[row][method]`` is a list of runs. A run is ``(ifo, y_1, ..., y_k)``,
        where each is array-like of shape (n_records,), and the IFO increase from 0. The
        names are the titles of the rows and the entries of the legend. The names of
        `sk_stormc.solvers.SOLVERS` have the same style in all figures.
    labels : list of str of length k
        Names of y_1, ..., y_k, each of which has its own column in the figure.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that is not managed by pyplot. Matplotlib's backend is not changed.

    Raises
    ------
    ValueError
        If there are no panels, or if the number of arrays of a run is not one more than
        the number of labels.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.plotting import plot_curves
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 5, random_state=0))
    >>> runs = {
    ...     name: minimize(problem, name, random_state=0)
    ...     for name in ("storm-c", "sarah-c")
    ... }
    >>> best = min(run.fun for run in runs.values())
    >>> curves = {
    ...     name: [(run.ifo, run.loss_curve - best)] for name, run in runs.items()
    ... }
    >>> figure = plot_curves({"five assets": curves}, ["gap to the best"])
    >>> len(figure.axes)
    1
    """
    rows = panels.values() if isinstance(panels, Mapping) else ()
    if not rows or not all(isinstance(row, Mapping) and row for row in rows):
        raise ValueError(
            "panels must hold at least one row, and each row a method, as a dict of "
            f"dicts; got {short(panels)}"
        )
    if not isinstance(labels, (list, tuple)) or not labels:
        raise ValueError(
            "labels must be a list of strings, one for each column, got "
            f"{short(labels)}"
        )
    for label in labels:
        check_text("labels", label)
    figure = unmanaged_figure(4.9 * len(labels) + 0.4, 3.1 * len(panels) + 0.9)
    axes = figure.subplots(len(panels), len(labels), sharex=True, squeeze=False)
    styles = styles_of(dict.fromkeys(method for methods in rows for method in methods))
    for row, (title, methods) in zip(axes, panels.items(), strict=True):
        for k, ax in enumerate(row, start=1):
            curves = {
                method: _curves(method, runs, k, len(labels))
                for method, runs in methods.items()
            }
            display = ConvergenceDisplay(curves, y_scale="log")
            display.plot(ax, legend=False, styles=styles)
        label = title if "\n" in title else textwrap.fill(title, 30)
        row[0].set_ylabel(label, parse_math=False)
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set_title(label, fontsize="medium", parse_math=False)
    for ax in axes[-1]:
        ax.set_xlabel("IFO")
    figure.align_ylabels(axes[:, 0])
    ifo = [
        np.asarray(run[0], dtype=float)
        for methods in rows
        for runs in methods.values()
        for run in runs
    ]
    scale_x(axes[0, 0], x_limits(ifo), "log")
    handles = {line.get_label(): line for ax in axes[:, 0] for line in ax.get_lines()}
    handles = [handles[shortened(name)] for name in styles]
    write_literally(
        figure.legend(
            handles=handles, loc="outside lower center", ncols=4, handlelength=4
        )
    )
    return figure


def plot_embeddings(
    panels: dict[str, ArrayLike], labels: ArrayLike | None = None
) -> Figure:
    """Scatter embeddings side by side, coloured by label.

    Parameters
    ----------
    panels : dict of array-like of shape (n_points, 2)
        Embeddings by title. Only the first two components are drawn.
    labels : array-like of shape (n_points,), default=None
        Classes or numbers, shown by colours as in `EmbeddingDisplay`. None draws all
        points in one colour.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that is not managed by pyplot.

    Raises
    ------
    ValueError
        If there are no panels.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.plotting import plot_embeddings
    >>> points = np.random.default_rng(0).normal(size=(30, 2))
    >>> figure = plot_embeddings({"noise": points}, np.arange(30) % 3)
    >>> len(figure.axes)
    1
    """
    if not isinstance(panels, Mapping) or not panels:
        raise ValueError(
            f"panels must hold at least one embedding, as a dict; got {short(panels)}"
        )
    for points in panels.values():
        if np.ndim(points) != 2:
            raise ValueError(
                f"panels must hold arrays of shape (n_points, 2), got {short(points)}"
            )
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = unmanaged_figure(3.2 * columns, 3.5 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax, (title, points) in zip(axes, panels.items(), strict=False):
        with naming("labels"):
            EmbeddingDisplay(np.asarray(points)[:, :2], y=labels).plot(ax, legend=False)
        ax.set_title(title, fontsize="medium", parse_math=False)
        ax.set(xlabel="", ylabel="")
    return figure


def _curves(method, runs, k, n_labels):
    """(ifo, y_k) of each run."""
    n = n_labels + 1
    for run in runs:
        if len(run) != n:
            raise ValueError(
                f"a run must be {n} arrays, IFO first and then one for each of labels; "
                f"one of {method!r} has {len(run)}"
            )
    return [(run[0], run[k]) for run in runs]
