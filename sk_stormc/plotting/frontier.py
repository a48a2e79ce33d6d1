"""Risk and return of the portfolios of an estimator for several values of
risk_aversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox
from sklearn.base import clone

from sk_stormc.core.weighted import with_sum_one
from sk_stormc.plotting._style import (
    BLUE,
    COLORS,
    MAX_NAMES,
    axes_for,
    check_kwargs,
    draw_grid,
    grey,
    place_labels,
    shortened,
    write_literally,
)
from sk_stormc.plotting.frontier_fits import fitted_weights
from sk_stormc.portfolio.constraints import feasible_set_of
from sk_stormc.portfolio.returns import Returns
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.utils.arrays import all_finite, as_numbers
from sk_stormc.utils.blocks import blocks, is_dask
from sk_stormc.utils.frames import columns_of
from sk_stormc.utils.parameters import check_bool, check_number, check_text, short
from sk_stormc.utils.types import ArrayLike, FloatArray

DEVIATION = (
    "standard deviation of the {}",
    "tracking error (standard deviation of the {})",
)
LABELS = {  # of the risk without and with a benchmark
    "variance": DEVIATION,
    "semivariance": ("semideviation (losses below the mean) of the {}",) * 2,
    "entropic": DEVIATION,  # the entropic risk changes with risk_aversion
    "gini": ("Gini's mean difference of the {}",) * 2,
}
OTHERS = "{} of the loss", "{} of the loss against the benchmark"
# measures whose axis grows with the root of the time
BY_ROOT = (*LABELS, "semideviation")
RETURN = "return", "excess return"


class FrontierDisplay:
    """Mean return against risk, for portfolios with several values of risk_aversion and
    for the assets.

    Both axes have the unit of the returns, per period or per year. The risk is the
    standard deviation for the variance and for the entropic risk (whose own value
    changes with risk_aversion). It is the semideviation for the semivariance, and
    otherwise the estimator's risk measure itself. With a ``benchmark``, mean and risk
    are those of the excess return, so that the standard deviation is the tracking
    error. With ``half_life``, the periods have its weights. ``transaction_cost`` is
    subtracted from the mean returns.

    Parameters
    ----------
    risk, mean : array-like of shape (n_points,)
        Risk and mean return of the portfolios, in the order of increasing risk
        aversion.
    asset_risk, asset_mean : array-like of shape (n_assets,), default=None
        Risk and mean return of each asset.
    asset_names : sequence of str, default=None
        Names of the assets, which are written beside them if there is space.
    chosen : (float, float), default=None
        Risk and mean return of the fitted portfolio.
    max_risk : float, default=None
        Upper bound of the risk, which is drawn as a vertical line.
    risk_label : str, default="risk"
        Label of the horizontal axis.
    mean_label : str, default="mean return per period"
        Label of the vertical axis.
    name : str, default="portfolios"
        Name of the curve in the legend.

    Attributes
    ----------
    risk_aversions_ : ndarray of shape (n_points,)
        Only available if the display was created by `from_estimator`.
    weights_ : ndarray of shape (n_points, n_assets)
        Only available if the display was created by `from_estimator`.
    line_ : matplotlib.lines.Line2D
    scatter_ : matplotlib.collections.PathCollection or None
        The assets.
    chosen_ : matplotlib.lines.Line2D or None
    max_risk_ : matplotlib.lines.Line2D or None
    labels_ : list of matplotlib.text.Annotation
    legend_ : matplotlib.legend.Legend or None
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.plotting import FrontierDisplay
    >>> returns = make_gaussian_returns(
    ...     500, 4, mean=np.linspace(0.02, 0.2, 4), random_state=0
    ... )
    >>> portfolio = CompositionalPortfolio(constraint="long_only", random_state=0).fit(
    ...     returns
    ... )
    >>> display = FrontierDisplay.from_estimator(portfolio, returns)
    >>> bool((np.diff(display.risk) < 1e-6).all())
    True
    """

    ax_: Axes
    figure_: Figure
    risk_aversions_: FloatArray
    weights_: FloatArray
    labels_: list[Any]

    def __init__(
        self,
        risk: ArrayLike,
        mean: ArrayLike,
        *,
        asset_risk: ArrayLike | None = None,
        asset_mean: ArrayLike | None = None,
        asset_names: Sequence[str] | None = None,
        chosen: tuple[float, float] | None = None,
        max_risk: float | None = None,
        risk_label: str = "risk",
        mean_label: str = "mean return per period",
        name: str = "portfolios",
    ) -> None:
        self.risk = risk
        self.mean = mean
        self.asset_risk = asset_risk
        self.asset_mean = asset_mean
        self.asset_names = asset_names
        self.chosen = chosen
        self.max_risk = max_risk
        self.risk_label = risk_label
        self.mean_label = mean_label
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        risk_aversions: ArrayLike | None = None,
        periods_per_year: float | None = None,
        name: str = "portfolios",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Fit clones of an estimator for several values of risk_aversion, and draw
        their portfolios.

        For ``objective="ratio"``, ``max_risk`` and ``min_return`` the clones maximise
        the utility with the other constraints: the frontier that contains the portfolio
        of the estimator. The bound `max_risk` is drawn as a line. Mean and risk are
        those of the returns that are shifted to ``expected_returns``, if they are
        given. An iterative solver, and SCIP for integer limits, start each fit from the
        weights of the previous one.

        Parameters
        ----------
        estimator : CompositionalPortfolio
            If it is fitted on the assets of X, its portfolio is marked.
        X : array-like of shape (n_periods, n_assets)
            Returns, for the fits and for the figure. Names of columns are written
            beside the assets.
        risk_aversions : array-like of shape (n_points,), default=None
            Values of risk_aversion. None means 25 values over four decades, centred at
            the range of the assets' means divided by their risk.
        periods_per_year : float, default=None
            252 for daily returns, 52 for weekly and 12 for monthly ones. The mean
            returns are then those of a year, and so are standard deviations and
            semideviations, which grow with the root of the number of periods. Other
            risks stay those of a period, because there is no such rule for them. None
            means per period.
        name : str, default="portfolios"
        ax : matplotlib.axes.Axes, default=None
        **kwargs
            Properties of the curve, see `plot`.

        Returns
        -------
        FrontierDisplay

        Raises
        ------
        ValueError
            If the estimator has no risk_aversion, if a value of it is not positive, and
            for the reasons of its ``fit``.

        Warns
        -----
        ConvergenceWarning
            If fits did not converge. It is given once, with the number of these fits.
            So are other warnings of fits.
        """
        needed = "risk_aversion", "risk_measure", "warm_start"
        if not all(hasattr(estimator, name) for name in needed):
            raise ValueError(
                f"estimator must be a CompositionalPortfolio, got {short(estimator)}"
            )
        check_text("name", name)
        check_number(
            "periods_per_year", periods_per_year, low=0, inclusive=False, words=(None,)
        )
        measure, max_risk = estimator.risk_measure, estimator.max_risk
        data: Any = X
        given = Returns.of(data.compute() if is_dask(data) else data, least=2)
        rows = [block for _, block in blocks(given.values)]
        given = replace(given, values=np.concatenate(rows, dtype=float))
        given.check_finite()
        follower = clone(estimator)
        follower._check_parameters()
        follower.set_params(
            objective="utility", max_risk=None, min_return=None, warm_start=True
        )
        n_assets = given.shape[1]
        table, periods = given.excess(
            estimator.benchmark, estimator.expected_returns, estimator.half_life
        )
        returns, benchmark = table[:, :n_assets], table[:, n_assets:].sum(axis=1)
        excess = returns - benchmark[:, None]
        if risk_aversions is None:
            aversions = _default_aversions(excess, measure)
        else:
            aversions = _checked_aversions(risk_aversions)
        weights = fitted_weights(follower, X, aversions)
        span, n = (
            ("period", 1) if periods_per_year is None else ("year", periods_per_year)
        )
        growth = n**0.5 if measure in BY_ROOT else 1.0
        risk_of = MEASURES["variance" if measure == "entropic" else measure].of(
            estimator
        )
        periods = None if periods is None else with_sum_one(periods)
        feasible = feasible_set_of(estimator, given.columns)

        def places(weights):
            """Risks and mean returns of portfolios, per period or per year."""
            series = (returns @ weights.T).T - benchmark
            risk = np.power(
                [risk_of.value(y, periods) for y in series], 1 / risk_of.power
            )
            mean = np.average(series, axis=1, weights=periods)
            cost = np.abs(weights - feasible.previous) @ feasible.cost
            return growth * risk, n * (mean - cost)

        asset_risk, asset_mean = places(np.eye(n_assets))
        chosen, labels = None, columns_of(X)
        fitted = getattr(estimator, "feature_names_in_", labels)
        on_these = labels is None or list(fitted) == labels
        if on_these and np.shape(getattr(estimator, "weights_", ())) == (n_assets,):
            chosen = tuple(v.item() for v in places(estimator.weights_[None]))
        names = given.columns if given.named else None
        relative = estimator.benchmark is not None
        after_costs = ", after costs" if feasible.cost.any() else ""
        display = cls(
            *places(weights),
            asset_risk=asset_risk,
            asset_mean=asset_mean,
            asset_names=names and list(map(str, names)),
            chosen=chosen,
            max_risk=None if max_risk is None else growth * max_risk,
            risk_label=_risk_label(measure, relative, span),
            mean_label=f"mean {RETURN[relative]} per {span}{after_costs}",
            name=name,
        )
        display.risk_aversions_, display.weights_ = aversions, weights
        return display.plot(ax, **kwargs)

    def plot(
        self, ax: Axes | None = None, *, legend: bool = True, **kwargs: Any
    ) -> Self:
        """Draw the frontier and the assets.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None means axes of a new figure.
        legend : bool, default=True
        **kwargs
            Properties of the curve, such as ``color="black"``.

        Returns
        -------
        self : FrontierDisplay

        Raises
        ------
        ValueError
            If values are not finite, or have different lengths.
        """
        check_bool("legend", legend)
        check_text("risk_label", self.risk_label)
        check_text("mean_label", self.mean_label)
        check_text("name", self.name)
        check_number("max_risk", self.max_risk, words=(None,))
        check_kwargs("plot", kwargs, Line2D)
        risk, mean = _pair("risk", self.risk, "mean", self.mean)
        assets = None
        if self.asset_risk is not None:
            assets = _pair("asset_risk", self.asset_risk, "asset_mean", self.asset_mean)
            names, n = self.asset_names, len(assets[0])
            if names is not None and np.shape(names) != (n,):
                given = len(names) if hasattr(names, "__len__") else short(names)
                raise ValueError(f"asset_names must be {n} names, got {given}")
        chosen = np.empty(0)
        if self.chosen is not None:
            chosen = as_numbers("chosen", self.chosen)
            if chosen.shape != (2,) or not all_finite(chosen):
                raise ValueError(
                    "chosen must be a pair (risk, mean) of finite numbers, got "
                    f"{short(self.chosen)}"
                )
        own = ax is None
        ax = axes_for(ax, figsize=(6.8, 4.8))
        earlier = (*ax.get_xlim(), *ax.get_ylim()) if ax.has_data() else None
        style = {
            "color": BLUE,
            "linewidth": 2,
            "marker": "o",
            "markersize": 4,
            "markerfacecolor": rcParams["axes.facecolor"],
        }
        label = shortened(self.name)
        (self.line_,) = ax.plot(risk, mean, **{**style, "label": label, **kwargs})
        self.scatter_, self.labels_, self.chosen_, self.max_risk_ = None, [], None, None
        if assets is not None:
            label = "single assets"
            look = {"color": grey(0.35), "marker": "D", "s": 18, "linewidths": 0}
            if label not in ax.get_legend_handles_labels()[1]:
                look["label"] = label
            self.scatter_ = ax.scatter(*assets, zorder=2.5, **look)
        if self.chosen is not None:
            look = {
                "marker": "*",
                "markersize": 14,
                "color": COLORS[1],
                "markeredgecolor": rcParams["axes.facecolor"],
                "zorder": 3,
            }
            (self.chosen_,) = ax.plot(
                *chosen[:, None], linestyle="", label="as fitted", **look
            )
        if self.max_risk is not None:
            look = {"color": grey(0.35), "linestyle": "--", "label": "maximum risk"}
            self.max_risk_ = ax.axvline(self.max_risk, linewidth=1, **look)
        ax.set(
            xlabel=_with_earlier(ax.get_xlabel(), self.risk_label),
            ylabel=_with_earlier(ax.get_ylabel(), self.mean_label),
        )
        write_literally(ax.xaxis.label, ax.yaxis.label)
        draw_grid(ax)
        if own:
            ax.margins(0.08)
        if assets is not None:
            _limit(ax, risk, mean, assets, chosen, earlier)
        self.legend_ = None
        if legend:
            self.legend_ = ax.legend(loc="best", fontsize="small", framealpha=0.85)
            write_literally(self.legend_)
        if assets is not None and self.asset_names is not None:
            self._name_assets(ax, np.column_stack(assets))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _name_assets(self, ax, points):
        """Write the names of the assets, from the outermost on, because there is least
        space in the middle."""
        scale = np.ptp(points, axis=0)
        scale[scale == 0] = 1.0
        far = np.abs(points - np.median(points, axis=0)) / scale
        order = np.argsort(-far.max(axis=1), kind="stable")[:MAX_NAMES]
        ax.figure.figure.draw_without_rendering()  # the layout determines the positions
        taken = [] if self.legend_ is None else [self.legend_.get_window_extent()]
        # points of the curve, which names must not cover
        along = np.linspace(0, len(self.line_.get_xdata()) - 1, 200)
        line = [np.interp(along, np.arange(len(v)), v) for v in self.line_.get_data()]
        spots = ax.transData.transform(np.concatenate([points, np.column_stack(line)]))
        taken += [Bbox.from_bounds(x - 2, y - 2, 4, 4) for x, y in spots]
        names = [shortened(str(self.asset_names[k]), 24) for k in order]
        style = {"fontsize": "small", "color": grey(0.2)}
        self.labels_ = place_labels(ax, points[order], names, taken, **style)


def _pair(name, value, other_name, other):
    x, y = as_numbers(name, value), as_numbers(other_name, other)
    if (
        x.ndim != 1
        or x.shape != y.shape
        or not x.size
        or not all_finite(x)
        or not all_finite(y)
    ):
        raise ValueError(
            f"{name} and {other_name} must be finite vectors of one length, got "
            f"{short(value)} and {short(other)}"
        )
    return x, y


def _risk_label(measure, relative, span):
    """What the horizontal axis shows: risks of a year have the root of the time."""
    if measure in LABELS:
        label = LABELS[measure][relative].format(RETURN[relative])
    else:
        label = OTHERS[relative].format(measure)
    return f"{label} per {span if measure in BY_ROOT else 'period'}"


def _default_aversions(returns, measure):
    """Aversions over four decades, centred at the range of the means divided by the
    risk."""
    mean, deviation = returns.mean(axis=0), returns.std(axis=0)
    risk = np.median(deviation) ** (1 if MEASURES[measure].power == 1 else 2)
    middle = np.ptp(mean) / risk if risk > 0 and np.ptp(mean) > 0 else 1.0
    return middle * np.logspace(-2, 2, 25)


def _checked_aversions(given):
    """Aversions in ascending order."""
    aversions = as_numbers("risk_aversions", given)
    good = np.isfinite(aversions) & (aversions > 0)
    if aversions.ndim != 1 or not aversions.size or not good.all():
        raise ValueError(
            f"risk_aversions must be a vector of finite numbers > 0, got {short(given)}"
        )
    return np.sort(aversions)


def _with_earlier(earlier, label):
    """The label of an axis on which something else was drawn before."""
    labels = [*filter(None, earlier.split("; "))]
    return "; ".join(labels if label in labels else [*labels, label])


def _limit(ax, risk, mean, assets, chosen, earlier):
    """Limit the axes of an unbounded frontier to the surroundings of the assets, and to
    the limits of what was drawn before, if there are any."""
    right = 1.25 * max(assets[0].max(), risk.min(), *chosen[:1])
    if risk.max() <= right:
        return
    shown = np.concatenate([mean[risk <= right], assets[1], chosen[1:]])
    room = 0.06 * (np.ptp(shown) or 1.0)
    x, y = [min(0.0, risk.min()), right], [shown.min() - room, shown.max() + room]
    if earlier is not None:
        x, y = [*x, *earlier[:2]], [*y, *earlier[2:]]
    ax.set(xlim=(min(x), max(x)), ylim=(min(y), max(y)))
