"""Quantiles of numbers that lie in blocks, by histograms that are refined around the
quantile."""

import numpy as np

__all__ = ["histogram", "quantile"]

# bins of a histogram; so many values of a bin are sorted instead of counted again
BINS = 4096


def quantile(total, mass, low, high, slack=0.0):
    """The smallest value v such that the values up to v have the given mass.

    ``total(f)`` is the sum of ``f(values, masses)`` over the blocks. Lists that f
    returns are joined. The values of positive mass are from low to high. With a slack,
    the values below v have the given mass, or less by at most the slack.
    """
    below, mass = 0.0, mass * (1 - 1e-12)
    while np.nextafter(low, high) < high:
        edges, masses, counts, _ = histogram(total, low, high)
        up_to = below + np.cumsum(masses)
        k = min(int(np.searchsorted(up_to, mass)), len(masses) - 1)
        # rounding: all masses together are below the given one
        while k and not counts[k]:
            k -= 1
        if k == len(edges) - 1:  # the values at the upper end
            return float(edges[-1])
        low, high, below = edges[k], edges[k + 1], up_to[k - 1] if k else below
        if masses[k] <= slack:
            break
        if counts[k] <= BINS:
            return _sorted_quantile(total, low, high, mass - below)
    return float(low)


def histogram(total, low, high):
    """The edges of bins, and for each the mass, the number and the sum of the values
    from its edge up to the next one.

    Arrays of the edges' length. The last bin has the values at the upper end.
    """
    # fewer bins, if they would be as narrow as numbers are dense
    edges = np.unique(np.linspace(low, high, BINS + 1))
    edges[0], edges[-1] = low, high

    def of_block(v, p):
        some = (v >= edges[0]) & (v <= edges[-1])
        v, p = v[some], p[some]
        place, size = np.searchsorted(edges, v, side="right") - 1, len(edges)
        sums = [np.bincount(place, x, size) for x in (p, None, p * v)]
        return np.array(sums)

    return edges, *total(of_block)


def _sorted_quantile(total, low, high, mass):
    """The quantile of the values in [low, high), which are collected."""

    def inside(v, p):
        some = (v >= low) & (v < high)
        return v[some].tolist(), p[some].tolist()

    v, p = map(np.array, total(inside))
    order = np.argsort(v, kind="stable")
    k = int(np.searchsorted(np.cumsum(p[order]), mass))
    return float(v[order[min(k, len(v) - 1)]])
