"""Positions of new samples in an embedding."""

import copy

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches
from sklearn.utils.validation import validate_data

from sk_stormc.embedding.affinities import conditional_probabilities
from sk_stormc.embedding.neighborhoods import SPACING_NEIGHBORS
from sk_stormc.embedding.neighbors.checks import (
    check_coordinates,
    check_directions,
    largest_of_columns,
    not_negative,
)
from sk_stormc.utils.blocks import map_lazily, without_rows
from sk_stormc.utils.machine import BLOCK_BYTES
from sk_stormc.utils.warnings import warn


def place(X, search, embedding, perplexity, spacing, dof):
    """Place new samples in an embedding, independently of each other. Return also their
    relative distances from the training samples.

    The position z of a sample minimises sum_j w_j log(1 + |z - x_j|^2 / dof), where x_j
    are the embedded points of its nearest training samples and w_j its affinities to
    them. This is the attraction of t-SNE. Unlike a mean it is robust against a
    neighbour whose point is far from the others. There can be several minima.
    Fixed-point iterations start from the best of the x_j. Each iterate is a weighted
    mean of the x_j, so z stays in their convex hull.
    """
    x, k = embedding.astype(float), int(3 * perplexity) + 1
    Z, distances = np.empty((X.shape[0], x.shape[1])), np.empty(X.shape[0])
    if search.metric == "precomputed":
        X = _distances_to_trained(X)
    listed = search.metric == "precomputed" and sparse.issparse(X)
    more = min(max(k, SPACING_NEIGHBORS), search.n_samples_fit_)
    for rows, D, near in _listed(X, more) if listed else _found(X, search, more):
        order = np.lexsort((near, D))
        D, near = (np.take_along_axis(a, order, axis=1) for a in (D, near))
        distances[rows] = _distances(D, spacing, near)
        D, near = D[:, :k], near[:, :k]
        w = _weights(D, min(perplexity, max(1.0, D.shape[1] / 3)))
        numbers = D.shape[1] * max(D.shape[1], x.shape[1])
        for batch in gen_batches(len(w), max(1, BLOCK_BYTES // (8 * numbers))):
            Z[rows[batch]] = _lowest(w[batch], x.T[:, near[batch]], dof)
    return Z, distances


def transform_lazily(estimator, X, return_distance):
    """``transform`` of a dask collection: lazy arrays of the places and, if desired, of
    the distances."""
    validate_data(estimator, without_rows(X), reset=False, skip_check_array=True)
    light, embedding = copy.copy(estimator), estimator.embedding_
    # what transform does not need does not travel
    light._progress, light._of_map = None, {}
    if not return_distance:
        return map_lazily(light.transform, X, embedding.shape[1:], embedding.dtype)

    def of_part(part):
        return np.column_stack(light.transform(part, True))

    both = map_lazily(of_part, X, (embedding.shape[1] + 1,))
    return both[:, :-1].astype(embedding.dtype), both[:, -1]


def _distances(D, spacing, near):
    """The distance of each row to its tenth neighbour, or to the farthest if there are
    fewer, divided by the median spacing of these neighbours."""
    far = D[:, :SPACING_NEIGHBORS][:, -1]
    unit = np.median(spacing[near[:, :SPACING_NEIGHBORS]], axis=1)
    return np.divide(far, unit, out=np.where(far > 0, np.inf, 0.0), where=unit > 0)


def warn_of_far_samples(distances):
    """Warn if new samples are far from the training data."""
    count = int((distances > 10).sum())
    if count:
        row = distances.argmax()
        how = (
            "differs from them, and they are all alike"
            if np.isinf(distances[row])
            else f"is {distances[row]:.3g} times as far from its nearest training "
            "samples as these are from theirs"
        )
        warn(
            f"{count} of {len(distances)} samples are far from the training data: row "
            f"{row} {how}. The places of such samples have little meaning. "
            "transform(X, return_distance=True) returns this number for each sample",
            UserWarning,
        )


def _found(X, search, k):
    """Yield blocks of rows, the distances to their k nearest training samples, and the
    indices of these samples."""
    trained, exact, features = search._fit_X, EXACT.get(search.effective_metric_), 1
    if exact:
        _check_size(X)
    if search.effective_metric_ == "cosine":
        check_directions(X)
    if search.effective_metric_ == "haversine":
        check_coordinates(X)
    if exact and (sparse.issparse(X) or sparse.issparse(trained)):
        X, trained = sparse.csr_array(X), sparse.csr_array(trained)
    if exact:  # of sparse rows, the stored ones
        features += (X.size + trained.size) // (X.shape[0] + trained.shape[0])
    distances, neighbors = search.kneighbors(X, k)
    finite = np.isfinite(distances).all(axis=1)
    if not finite.all():
        raise ValueError(
            "distances to the training data must be finite, got inf or NaN in row "
            f"{np.argmin(finite)}"
        )
    X = search.moved(X)
    for batch in gen_batches(X.shape[0], max(1, BLOCK_BYTES // (8 * k * features))):
        D, near = np.maximum(distances[batch], 0, dtype=float), neighbors[batch]
        if exact:
            samples = np.repeat(np.arange(batch.start, batch.stop), k)
            D = exact(X[samples], trained[near.ravel()]).reshape(near.shape)
        yield np.arange(batch.start, batch.stop), D, near


def _listed(graph, k):
    """As `_found`, for a graph, grouped by the number of neighbours of a row: the k
    nearest, or all if fewer."""
    count = np.diff(graph.indptr)
    order = np.lexsort(
        (graph.indices, graph.data, np.repeat(np.arange(len(count)), count))
    )
    listed = np.minimum(count, k)
    for size in np.unique(listed):
        rows = np.flatnonzero(listed == size)
        chosen = order[graph.indptr[rows][:, None] + np.arange(size)]
        yield rows, graph.data[chosen].astype(float), graph.indices[chosen]


def _weights(D, perplexity):
    """Weights of neighbours at distances D, sorted: affinities of the given perplexity,
    made continuous in D.

    The farthest neighbour has weight 0, so the result does not depend on which of
    several equally distant ones was found. Neighbours that are more than four times
    farther than the nearest lose weight: as the nearest distance tends to 0, only the
    nearest neighbour keeps its own.
    """
    p = conditional_probabilities(D, perplexity)
    w = p - p[:, -1:]
    w = np.where(w[:, :1] > 0, w, p)  # keep p if all neighbours are equally far
    nearest = D[:, :1]
    ratio = np.divide(nearest, D, out=np.ones_like(D), where=nearest < D)
    w *= np.square(np.minimum(1, 4 * ratio))
    return w / w.sum(axis=1, keepdims=True)


def _lowest(w, x, dof):
    """The minimiser of sum_j w_j log(1 + |z - x_j|^2 / dof) for each row of w (n, k)
    and its points x (d, n, k).

    Sums are over the last axis, or over dimensions one at a time, so that rounding does
    not depend on the number of rows.
    """
    squares = sum(np.square(c[:, :, None] - c[:, None]) for c in x)
    value = (w[:, None] * np.log1p(squares / dof)).sum(axis=2)
    best = np.where(w > 0, value, np.inf).argmin(axis=1)
    z = x[:, np.arange(len(w)), best]
    for _ in range(10):  # fixed-point iterations
        squares = sum(np.square(c - a[:, None]) for c, a in zip(x, z, strict=True))
        pull = w / (1 + squares / dof)
        pull /= pull.sum(axis=1, keepdims=True)
        z = (pull * x).sum(axis=2)
    return z.T


def _squared(a, b):
    """Squared Euclidean distances of the rows of a to those of b."""
    difference = a.astype(float) - b
    return (difference * difference).sum(axis=1)


def _euclidean(a, b):
    """Euclidean distances of the rows of a to those of b."""
    return np.sqrt(_squared(a, b))


def _cosine(a, b):
    """Cosine distances of the rows of a to those of b. Distances that are 0 up to
    rounding get the same small value."""
    product = (normalize(a.astype(float)) * normalize(b.astype(float))).sum(axis=1)
    return np.maximum(1 - product, 4 * np.finfo(float).eps)


# The search computes these distances from matrix products. Their last bits depend on
# the batch, and equal rows do not have the distance 0. The distances are therefore
# computed again, from differences.
EXACT = {
    "euclidean": _euclidean,
    "l2": _euclidean,
    "sqeuclidean": _squared,
    "cosine": _cosine,
}


def _check_size(X):
    """Raise a ValueError if squares of the data would overflow."""
    largest = largest_of_columns(X)
    most = np.sqrt(np.finfo(float).max / len(largest)) / 2
    if largest.max() > most:
        column = np.argmax(largest)
        raise ValueError(
            f"the values of X must not be above {most:.3g}, got {largest[column]:.3g} "
            f"in column {column}"
        )


def _distances_to_trained(X):
    """The distances without negative rounding errors. Raises ValueError for negative
    ones and empty rows of a graph."""
    if sparse.issparse(X) and not np.diff(X.indptr).all():
        row = np.argmin(np.diff(X.indptr))
        raise ValueError(
            "the neighbour graph X must list a training sample in each row, got none "
            f"in row {row}"
        )
    return not_negative(X)
