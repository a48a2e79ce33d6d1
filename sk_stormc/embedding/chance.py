"""Warnings if the nearest neighbours are partly chance: all distances are equal, or rounding errors decide."""

import numpy as np
from scipy import sparse

from sk_stormc.utils.validation import short
from sk_stormc.utils.warnings import warn

__all__ = ["warn_of_chance"]

ROUNDED = 0.01  # relative rounding error of squared or cosine distances above which there is a warning
ROUNDING = 4  # rounding error, in machine epsilons, of distances computed from scalar products


def warn_of_chance(search, distances):
    """Warn if the neighbours that were found are partly chance."""
    if distances.shape[1] < len(distances) - 1 and distances.min() == distances.max():
        if distances.any():
            why = f"all pairs of samples are alike by metric={short(search.metric)}"
        else:
            why = (
                f"by metric={short(search.metric)} they do not differ from it, or rounding hides how: take the "
                "columns' means off X then"
            )
        warn(
            f"the {distances.shape[1]} neighbours that were found of each sample are all at a distance of "
            f"{distances.min():.4g}, and which samples are neighbours is chance: {why}",
            UserWarning,
        )
        return
    farthest = distances[:, -1].astype(float)
    farthest = farthest[farthest > 0]  # 0 for samples with only copies as neighbours
    if not len(farthest):
        return
    if search.effective_metric_ == "cosine":
        _of_cosine(search, float(np.median(farthest)))
    elif search.is_euclidean:
        squares = farthest if search.effective_metric_ == "sqeuclidean" else np.square(farthest)
        between = float(np.median(squares))
        if sparse.issparse(search._fit_X):
            _of_sparse(search, between)
        elif search.grain_ > ROUNDED * between:
            warn(
                f"the values of X are large beside their differences, and {search._fit_X.dtype} has rounded them: by "
                f"that alone two samples are {np.sqrt(search.grain_):.2g} apart, and the farthest of the "
                f"{distances.shape[1]} neighbours of a sample is at {np.sqrt(between):.2g}. Which samples are "
                "neighbours is partly chance. Take the columns' means off the data before they are rounded to this "
                "type",
                UserWarning,
            )


def _of_cosine(search, between):
    """Warn of nearly parallel rows: a cosine distance is 1 minus a product, whose rounding error is absolute."""
    rounding = ROUNDING * float(np.finfo(search._fit_X.dtype).eps)
    if rounding > ROUNDED * between:
        warn(
            f"the rows of X have nearly the same direction: the farthest of the {search.n_neighbors} neighbours of a "
            f"sample is at a cosine distance of {between:.2g}, and rounding to {search._fit_X.dtype} changes these by "
            f"{rounding:.2g}. Which samples are neighbours is partly chance. Take the columns' means off X, or use "
            "metric='euclidean'",
            UserWarning,
        )


def _of_sparse(search, between):
    """Warn of sparse rows with large offsets: they are not centred, and |x|^2 + |y|^2 - 2 x.y is rounded."""
    X = sparse.csr_array(search._fit_X)
    size = float(np.median(X.multiply(X).sum(axis=1)))
    rounding = ROUNDING * np.finfo(float).eps * size
    if rounding > ROUNDED * between:
        warn(
            f"the values of X are large beside their differences: the farthest of the {search.n_neighbors} neighbours "
            f"of a sample is at {np.sqrt(between):.2g}, and rows have a length of {np.sqrt(size):.2g}. Distances of "
            "sparse rows are not exact then, and which samples are neighbours is partly chance. Take their means off "
            "the columns with large values, or pass X as an array, of which offsets are no matter",
            UserWarning,
        )
