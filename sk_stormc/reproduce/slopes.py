"""Exponents of power laws: their fit, with an interval, and their picture."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

__all__ = ["Slope", "draw_slopes", "fit_slope"]


@dataclass(frozen=True)
class Slope:
    """A fitted exponent, log IFO against log(1/eps), and its 95 % interval."""

    value: float
    low: float
    high: float


def fit_slope(epsilons, ifo, resampled=None):
    """The exponent p of IFO ~ eps^-p, by least squares on logarithms, with a 95 % interval.

    The variance of the slope is that from the residuals, which a curve that is no power law enlarges, plus that over
    the bootstrap, if given; the interval is Student's with two degrees of freedom less than there are points. The
    residuals contain the seeds' noise as well, so it is rather too wide.
    """
    x = -np.log(np.asarray(epsilons, dtype=float))
    if x.size < 2:
        return Slope(math.nan, math.nan, math.nan)
    x = x - x.mean()

    def fit(values):
        return np.log(values) @ x / (x @ x)

    y = np.log(ifo)
    p = float(fit(ifo))
    if x.size < 3:
        return Slope(p, math.nan, math.nan)
    residual = y - y.mean() - p * x
    variance = residual @ residual / (x.size - 2) / (x @ x)
    if resampled is not None:
        variance += np.var(fit(np.asarray(resampled)))
    half = student.ppf(0.975, x.size - 2) * math.sqrt(variance)
    return Slope(p, float(p - half), float(p + half))


def draw_slopes(measured):
    """IFO against eps, with the fitted lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from sk_stormc.plotting._style import GRID, styles_of

    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    styles = styles_of(m.row.name for m in measured)
    for m in measured:
        if not m.ifo.size:
            continue
        errors = np.abs(np.percentile(m.resampled, [2.5, 97.5], axis=0) - m.ifo)
        label = f"{m.row.name}: {m.slope.value:.2f} [{m.slope.low:.2f}, {m.slope.high:.2f}]"
        color, marker = styles[m.row.name]["color"], styles[m.row.name]["marker"]
        ax.errorbar(m.epsilons, m.ifo, errors, fmt=marker, color=color, ms=5, capsize=3, label=label)
        level = np.mean(np.log(m.ifo) + m.slope.value * np.log(m.epsilons))
        ax.plot(m.epsilons, np.exp(level) * m.epsilons**-m.slope.value, color=color, linewidth=1.2)
    ax.set(xscale="log", yscale="log", xlabel="eps", ylabel="IFO to  E$|\\nabla\\Phi|$ <= eps")
    ax.invert_xaxis()
    ax.grid(True, **GRID)
    ax.legend(title="slope [95 % interval]", fontsize="small")
    return figure
