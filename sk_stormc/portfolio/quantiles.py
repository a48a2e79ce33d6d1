"""Quantiles of numbers that lie in blocks, by histograms that are refined around the
quantile."""

import numpy as np

__all__ = ["extremes", "quantile"]

# bins of a histogram; so many values of a bin are sorted instead of counted again
BINS = 4096


def extremes(values):
    """The smallest and the largest value, or infinities if there is none."""
    return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))


def quantile(total, mass):
    """The smallest value v such that the values up to v have the given mass.

    ``total(f)`` is the sum of ``f(values, masses)`` over the blocks. Lists that f
    returns are joined.
    """
    low, high = np.transpose(total(lambda v, p: [extremes(v[p > 0])]))
    low, high, below = float(low.min()), float(high.max()), 0.0
    mass = mass * (1 - 1e-12)
    while np.nextafter(low, high) < high:
        edges = _edges(low, high)

        def histogram(v, p, edges=edges):
            some = (v >= edges[0]) & (v <= edges[-1])
            v, p, n = v[some], p[some], len(edges)
            place = np.searchsorted(edges, v, side="right") - 1
            return np.array([np.bincount(place, p, n), np.bincount(place, minlength=n)])

        masses, counts = total(histogram)
        up_to = below + np.cumsum(masses)
        k = min(int(np.searchsorted(up_to, mass)), len(masses) - 1)
        # rounding: all masses together are below the given one
        while k and not counts[k]:
            k -= 1
        if k == len(edges) - 1:  # the values at the upper end
            return float(edges[-1])
        low, high, below = edges[k], edges[k + 1], up_to[k - 1] if k else below
        if counts[k] <= BINS:
            return _sorted_quantile(total, low, high, mass - below)
    return float(low)


def _edges(low, high):
    """Ascending edges of bins, of which there are fewer if they would be as narrow as
    numbers are dense."""
    edges = np.unique(np.linspace(low, high, BINS + 1))
    edges[0], edges[-1] = low, high
    return edges


def _sorted_quantile(total, low, high, mass):
    """The quantile of the values in [low, high), which are collected."""

    def inside(v, p):
        some = (v >= low) & (v < high)
        return v[some].tolist(), p[some].tolist()

    v, p = map(np.array, total(inside))
    order = np.argsort(v, kind="stable")
    k = int(np.searchsorted(np.cumsum(p[order]), mass))
    return float(v[order[min(k, len(v) - 1)]])
