"""Risk and return of the portfolios of an estimator for several values of risk_aversion."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from sk_stormc.plotting._style import BLUE, COLORS, GRID, axes_for, check_kwargs, place_labels
from sk_stormc.utils.frames import columns_of
from sk_stormc.utils.types import ArrayLike, FloatArray
from sk_stormc.utils.validation import as_numbers, check_bool, check_number, check_numeric, check_text, naming, short
from sk_stormc.utils.warnings import warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FrontierDisplay"]

POINTS = 25  # number of portfolios of a frontier, unless the values of risk_aversion are given
DECADES = 2.0  # decades below and above the middle value of risk_aversion
ALONG = 200  # number of points of the curve that names must not cover
WRITTEN = 40  # maximum number of assets whose names are written
ROOM = 1.25  # upper limit of the risk axis, relative to the risk of the riskiest asset
LABELS = {
    "variance": "standard deviation of the return",
    "semivariance": "semideviation (losses below the mean) of the return",
    "entropic": "standard deviation of the return",  # the entropic risk changes with risk_aversion
}
BY_ROOT = (*LABELS, "semideviation")  # measures whose axis grows with the root of the time


class FrontierDisplay:
    """Mean return against risk, for portfolios with several values of risk_aversion and for the assets.

    Both axes have the unit of the returns, per period or per year. The risk is the standard deviation for the variance
    and for the entropic risk (whose own value changes with risk_aversion). It is the semideviation for the
    semivariance, and otherwise the estimator's risk measure itself.

    Parameters
    ----------
    risk, mean : array-like of shape (n_points,)
        Risk and mean return of the portfolios, in the order of increasing risk aversion.
    asset_risk, asset_mean : array-like of shape (n_assets,), default=None
        Risk and mean return of each asset.
    asset_names : sequence of str, default=None
        Names of the assets, which are written beside them if there is space.
    chosen : (float, float), default=None
        Risk and mean return of the fitted portfolio.
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
    >>> returns = make_gaussian_returns(500, 4, mean=np.linspace(0.02, 0.2, 4), random_state=0)
    >>> portfolio = CompositionalPortfolio(constraint="long_only", random_state=0).fit(returns)
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
        """Fit clones of an estimator for several values of risk_aversion, and draw their portfolios.

        An iterative solver starts each fit from the weights of the previous one.

        Parameters
        ----------
        estimator : CompositionalPortfolio
            If it is fitted, its portfolio is marked.
        X : array-like of shape (n_periods, n_assets)
            Returns, for the fits and for the figure. Names of columns are written beside the assets.
        risk_aversions : array-like of shape (n_points,), default=None
            Values of risk_aversion. None means 25 values over four decades, centred at the range of the assets' means
            divided by their risk.
        periods_per_year : float, default=None
            252 for daily returns, 52 for weekly and 12 for monthly ones. The mean returns are then those of a year, and
            so are standard deviations and semideviations, which grow with the root of the number of periods. Other
            risks stay those of a period, because there is no such rule for them. None means per period.
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
            If the estimator has no risk_aversion, if a value of it is not positive, and for the reasons of its ``fit``.

        Warns
        -----
        ConvergenceWarning
            If fits did not converge. It is given once, with the number of these fits.
        """
        params = estimator.get_params() if hasattr(estimator, "get_params") else {}
        if not {"risk_aversion", "risk_measure", "warm_start"} <= set(params):
            raise ValueError(f"estimator must be a CompositionalPortfolio, got {short(estimator)}")
        check_text("name", name)
        check_number("periods_per_year", periods_per_year, low=0, inclusive=False, words=(None,))
        check_numeric("X", X)
        with naming("X"):
            returns = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="X")
        measure = estimator.risk_measure
        # from the largest aversion on, whose optimum is closest to equal weights; bounds then become active one by one
        aversions = np.sort(_aversions(risk_aversions, returns, measure))[::-1]
        follower, weights, unsettled = clone(estimator).set_params(warm_start=True), [], []
        for value in aversions:
            warned = _fit_quietly(follower.set_params(risk_aversion=float(value)), X)
            if warned:  # tol is relative to the start, and a start at the optimum cannot be improved
                afresh = clone(follower).set_params(warm_start=False)
                warned = _fit_quietly(afresh, X)
                if afresh.loss_curve_[-1] < follower.loss_curve_[-1]:
                    follower = afresh.set_params(warm_start=True)
            weights.append(follower.weights_)
            unsettled += warned[:1]
        if unsettled:
            warn(
                f"{len(unsettled)} of the {len(aversions)} portfolios of the frontier have not converged. The first "
                f"said: {unsettled[0]}",
                ConvergenceWarning,
            )
        weights = np.array(weights, dtype=float)[::-1]
        by_root = measure in BY_ROOT
        periods, span = (1.0, "period") if periods_per_year is None else (periods_per_year, "year")
        scale = np.array([[periods**0.5 if by_root else 1.0], [periods]])
        risk, mean = scale * _risk_and_mean(follower, X, returns, weights)
        asset_risk, asset_mean = scale * _risk_and_mean(follower, X, returns, np.eye(returns.shape[1]))
        chosen = None
        if hasattr(estimator, "weights_") and len(estimator.weights_) == returns.shape[1]:
            own_risk, own_mean = scale * _risk_and_mean(follower, X, returns, estimator.weights_[None])
            chosen = float(own_risk[0]), float(own_mean[0])
        display = cls(
            risk,
            mean,
            asset_risk=asset_risk,
            asset_mean=asset_mean,
            asset_names=_names(X),
            chosen=chosen,
            risk_label=LABELS.get(measure, f"{measure} of the loss") + f" per {span if by_root else 'period'}",
            mean_label=f"mean return per {span}",
            name=name,
        )
        display.risk_aversions_, display.weights_ = aversions[::-1], weights
        return display.plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, legend: bool = True, **kwargs: Any) -> Self:
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
        check_kwargs("plot", kwargs, Line2D)
        risk, mean = _pair("risk", self.risk, "mean", self.mean)
        assets = None
        if self.asset_risk is not None:
            assets = _pair("asset_risk", self.asset_risk, "asset_mean", self.asset_mean)
            names = self.asset_names
            if names is not None and (isinstance(names, str) or np.shape(names) != assets[0].shape):
                given = len(names) if hasattr(names, "__len__") else short(names)
                raise ValueError(f"asset_names must be {len(assets[0])} names, got {given}")
        if self.chosen is not None:
            chosen = as_numbers("chosen", self.chosen)
            if chosen.shape != (2,) or not np.isfinite(chosen).all():
                raise ValueError(f"chosen must be a pair (risk, mean) of finite numbers, got {short(self.chosen)}")
        own = ax is None
        ax = axes_for(ax, figsize=(6.8, 4.8))
        style = {"color": BLUE, "linewidth": 2, "marker": "o", "markersize": 4, "markerfacecolor": "white"}
        (self.line_,) = ax.plot(risk, mean, **{**style, "label": self.name, **kwargs})
        self.scatter_, self.labels_, self.chosen_ = None, [], None
        if assets is not None:
            label = "single assets" if "single assets" not in ax.get_legend_handles_labels()[1] else None
            self.scatter_ = ax.scatter(*assets, color="0.35", marker="D", s=18, linewidths=0, zorder=2.5, label=label)
        if self.chosen is not None:
            look = {"marker": "*", "markersize": 14, "color": COLORS[1], "markeredgecolor": "white", "zorder": 3}
            (self.chosen_,) = ax.plot(*[[v] for v in self.chosen], linestyle="", label="as fitted", **look)
        ax.set(xlabel=self.risk_label, ylabel=self.mean_label)
        ax.grid(True, **GRID)
        ax.set_axisbelow(True)
        if own:
            ax.margins(0.08)
            _limit(ax, risk, mean, assets, self.chosen)
        self.legend_ = ax.legend(loc="best", fontsize="small", framealpha=0.85) if legend else None
        if assets is not None and self.asset_names is not None:
            self._name_assets(ax, np.column_stack(assets))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _name_assets(self, ax, points):
        """Write the names of the assets, from the outermost on, because there is least space in the middle."""
        scale = np.ptp(points, axis=0)
        far = np.abs((points - np.median(points, axis=0)) / np.where(scale > 0, scale, 1)).max(axis=1)
        order = np.argsort(-far, kind="stable")[:WRITTEN]
        ax.figure.figure.draw_without_rendering()  # the layout determines the positions
        taken = [] if self.legend_ is None else [self.legend_.get_window_extent()]
        along = np.linspace(0, len(self.line_.get_xdata()) - 1, ALONG)
        line = [np.interp(along, np.arange(len(v)), v) for v in self.line_.get_data()]
        spots = ax.transData.transform(np.concatenate([points, np.column_stack(line)]))
        taken += [Bbox.from_bounds(x - 2, y - 2, 4, 4) for x, y in spots]
        names = [str(self.asset_names[k]) for k in order]
        self.labels_ = place_labels(ax, points[order], names, taken=taken, fontsize="small", color="0.2")


def _pair(name, value, other_name, other):
    x, y = as_numbers(name, value), as_numbers(other_name, other)
    if x.ndim != 1 or x.shape != y.shape or not x.size or not (np.isfinite(x) & np.isfinite(y)).all():
        raise ValueError(
            f"{name} and {other_name} must be finite vectors of one length, got {short(value)} and {short(other)}"
        )
    return x, y


def _fit_quietly(portfolio, X):
    """Fit, and return the messages of a fit that has not converged. Other warnings are issued."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        portfolio.fit(X)
    unsettled = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    for other in caught:
        if not issubclass(other.category, ConvergenceWarning):
            warn(other.message)
    return unsettled


def _aversions(given, returns, measure):
    if given is None:
        returns = returns.astype(float)
        mean, deviation = returns.mean(axis=0), returns.std(axis=0)
        risk = np.median(deviation) ** (2 if measure in LABELS else 1)
        middle = np.ptp(mean) / risk if risk > 0 and np.ptp(mean) > 0 else 1.0
        return middle * 10 ** np.linspace(-DECADES, DECADES, POINTS)
    aversions = as_numbers("risk_aversions", given)
    if aversions.ndim != 1 or not aversions.size or not (np.isfinite(aversions) & (aversions > 0)).all():
        raise ValueError(f"risk_aversions must be a vector of finite numbers > 0, got {short(given)}")
    return aversions


def _risk_and_mean(fitted, X, returns, weights):
    """Risk and mean return of some portfolios, in the unit of the returns."""
    of_portfolios = returns.astype(float) @ weights.T
    mean = of_portfolios.mean(axis=0)
    if fitted.risk_measure in LABELS:
        below = of_portfolios - mean
        if fitted.risk_measure == "semivariance":
            below = np.minimum(below, 0.0)
        return np.sqrt(np.mean(below**2, axis=0)), mean
    judge, risk = clone(fitted).set_params(risk_aversion=1.0).__dict__, []
    for w in weights:  # the score is then the mean less the risk
        one = clone(fitted)
        one.__dict__.update(fitted.__dict__ | judge, weights_=w)
        risk.append(w @ returns.mean(axis=0, dtype=float) - one.score(X))
    return np.array(risk), mean


def _names(X):
    """Names of the columns of a data frame."""
    columns = columns_of(X)
    return None if columns is None else [str(name) for name in columns]


def _limit(ax, risk, mean, assets, chosen):
    """Limit the axes of an unbounded frontier to the surroundings of the assets."""
    if assets is None:
        return
    right = ROOM * max(assets[0].max(), risk.min(), chosen[0] if chosen else 0.0)
    if risk.max() <= right:
        return
    shown = np.concatenate([mean[risk <= right], assets[1], [] if chosen is None else chosen[1:]])
    room = 0.06 * (np.ptp(shown) or 1.0)
    ax.set(xlim=(min(0.0, risk.min()), right), ylim=(shown.min() - room, shown.max() + room))
