"""Neighbours of samples that are equally far from many others, as samples without a common feature are by "jaccard"."""

import warnings

import numpy as np
from sklearn.exceptions import DataConversionWarning

from sk_stormc.utils.validation import is_word

__all__ = ["spread_ties"]

BLOCK = 2**23  # distances that are in memory at the same time
SAME = 1e-12  # relative difference of equal distances, whose rounding depends on the batch
GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, are evenly spread


def spread_ties(search, distances, neighbors):
    """Choose evenly among samples that are equally far, in place; return the rows most of whose neighbours are chance.

    A search takes those of them that come first in the table, so that it would depend on the order of the table which
    samples attract each other. This is done for the rows with at least half of their neighbours at the same distance,
    and those are returned for which most samples are at this distance.
    """
    n, k = distances.shape
    last = distances[:, -1]
    tied = (distances == last[:, None]).sum(axis=1)
    rows, chance = np.flatnonzero((2 * tied >= k) & (last > 0)), []
    size = max(1, BLOCK // n)
    for some in (rows[start : start + size] for start in range(0, len(rows), size)):
        for row, to_others in zip(some, _to_all(search, some), strict=True):
            equal = np.flatnonzero(np.abs(to_others - last[row]) <= SAME * last[row])
            equal, count = equal[equal != row], tied[row]
            if len(equal) > count:
                start = GOLDEN * row % 1
                neighbors[row, k - count :] = equal[((np.arange(count) + start) * len(equal) / count).astype(int)]
                if 2 * len(equal) > n:
                    chance.append(row)
    return chance


def _to_all(search, rows):
    """The distances of some rows of the data to all rows."""
    # imported here, because they take long to import
    from sklearn.metrics import DistanceMetric, pairwise_distances
    from sklearn.neighbors import VALID_METRICS

    X, metric, params = search._fit_X, search.effective_metric_, search.effective_metric_params_
    if search.metric == "precomputed":
        return X[rows]
    if is_word(metric, *VALID_METRICS["ball_tree"]):  # some of these are unknown to pairwise_distances
        return DistanceMetric.get_metric(metric, dtype=X.dtype, **params).pairwise(X[rows], X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)  # the search has shown it
        return pairwise_distances(X[rows], X, metric=metric, **params)
