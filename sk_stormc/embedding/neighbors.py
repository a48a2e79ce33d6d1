"""The nearest-neighbour search for affinities: validation of the data, graphs, and warnings."""

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from sk_stormc.embedding.brute_force import nearest_by_products
from sk_stormc.embedding.cells import nearest_in_cells
from sk_stormc.embedding.chance import warn_of_chance
from sk_stormc.embedding.metrics import (
    check_directions,
    check_distances,
    check_metric_of_data,
    naming_the_metric,
    parameters_of,
)
from sk_stormc.embedding.offsets import offsets
from sk_stormc.utils.threads import threads
from sk_stormc.utils.validation import check_choice, short
from sk_stormc.utils.warnings import warn

__all__ = [
    "as_search",
    "fewest_neighbors",
    "fit_search",
    "largest_of_columns",
    "neighbor_graph",
    "neighbors_of_each",
    "not_negative",
]

BLOCK = 2**22  # entries of a matrix in one block
# rounding error of a distance, relative to the largest: that of 1 - x.y in float32 is 2e-7, also where it was converted
# to float64, and in a graph of close neighbours the largest may be .01
BELOW_ZERO = 1e-4
ASYMMETRY = 1e-3  # tolerance of the symmetry, relative to the mean distance
LEAST_RECALL = 0.97  # recall of an approximate search below which there is a warning
WORTH = 0.25  # fraction of all pairs above which an approximate search is hardly faster
UNSURE = 0.1  # largest fraction of points that may be undecided in float32


def fewest_neighbors(X, metric):
    """Check the data, and return the smallest number of neighbours that a sample has."""
    if not isinstance(metric, str) and not callable(metric):
        raise ValueError(f"metric must be a name or a callable, got {short(metric)}")
    _check_size(X)
    if metric == "cosine":
        check_directions(X)
    if metric != "precomputed":
        return X.shape[0] - 1
    if not sparse.issparse(X):
        _check_symmetry(X)
        return X.shape[0] - 1
    row = _row_numbers(X)
    others = X.indices != row
    found = np.bincount(row[others], minlength=X.shape[0])
    if not found.min():
        raise ValueError(
            "the neighbour graph X must hold at least one neighbour of each sample besides itself, got none in row "
            f"{int(np.argmin(found))}"
        )
    if (X.data[others] == 1).all():
        warn(
            "all distances in the neighbour graph X are 1, as with mode='connectivity': all neighbours of a sample "
            "then have the same affinity. If this is not intended, use mode='distance'",
            UserWarning,
        )
    return int(found.min())


def not_negative(X):
    """The distances, dense or in a graph, with 0 in place of negative ones that are rounding. ValueError for others."""
    values = X.data if sparse.issparse(X) else X
    lowest = values.min(initial=0)
    if lowest == 0:
        return X
    largest = values.max(initial=0)
    if lowest < -BELOW_ZERO * largest:
        raise ValueError(
            f"with metric='precomputed' X must hold distances, none negative, got {lowest:.6g}, which is no rounding "
            f"error beside the largest, {largest:.6g}"
        )
    if not sparse.issparse(X):
        return np.maximum(X, 0)
    X = X.copy()  # the caller's graph stays as it is
    np.maximum(X.data, 0, out=X.data)
    return X


def largest_of_columns(X):
    """The largest absolute value of each column, in float64."""
    if sparse.issparse(X):
        largest = np.zeros(X.shape[1])  # abs(X) would sort the rows of the caller's graph in place
        np.maximum.at(largest, X.indices, np.abs(X.data))
        return largest
    return np.maximum(X.max(axis=0), -X.min(axis=0)).astype(float)


def _check_size(X):
    """Raise a ValueError if squares of the data overflow or underflow in their dtype."""
    largest = largest_of_columns(X)
    top = largest.max()
    if not top > 0:
        return
    kind = np.finfo(np.result_type(X.dtype, np.float32))
    high = np.sqrt(float(kind.max)) / 2 / np.sqrt(np.square(largest / top).sum())
    low = np.sqrt(float(kind.tiny))
    if not low <= top <= high:
        size, verb = ("smaller", "overflow") if top > high else ("larger", "vanish in")
        raise ValueError(
            f"the values of X must be {size}: column {int(largest.argmax())} has the largest, {top:.3g}, and squared "
            f"distances {verb} {kind.dtype} {'above' if top > high else 'below'} {high if top > high else low:.1e}; "
            "scale the data"
        )


def _check_symmetry(X):
    """Raise a ValueError unless distances are symmetric and 0 on the diagonal, up to rounding."""
    n, largest, mean = X.shape[0], 0.0, float(X.mean(dtype=float))
    for rows in gen_batches(n, max(1, BLOCK // n)):
        difference = np.abs(X[rows] - X[:, rows].T)
        if difference.max() > largest:
            i, j = (int(k) for k in np.unravel_index(difference.argmax(), difference.shape))
            i, largest = i + rows.start, float(difference.max())
    if largest > ASYMMETRY * mean:
        raise ValueError(
            f"with metric='precomputed' X must be symmetric; the largest asymmetry is {largest:.3g}, with X[{i}, {j}] "
            f"= {X[i, j]:.6g} and X[{j}, {i}] = {X[j, i]:.6g}"
        )
    own = X.diagonal()
    if own.max() > ASYMMETRY * mean:
        k = int(own.argmax())
        raise ValueError(
            "with metric='precomputed' X must hold distances, 0 from each sample to itself; got "
            f"X[{k}, {k}] = {own[k]:.6g}"
        )


def _row_numbers(X):
    """The row of each stored entry of a CSR matrix."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def fit_search(X, n_neighbors, *, metric="euclidean", metric_params=None, n_jobs=None, neighbors="exact"):
    """A fitted search for at most n_neighbors neighbours, on data that `fewest_neighbors` has checked."""
    from sk_stormc.embedding.search import NeighborSearch  # here, because sklearn.neighbors takes long to import

    check_choice("neighbors", neighbors, ("auto", "exact", "approximate"))
    k = min(n_neighbors, X.shape[0] - 1)
    check_metric_of_data(metric, metric_params, X)
    with naming_the_metric(metric, metric_params):
        params = parameters_of(metric, metric_params)
    p = params.pop("p", 2) if metric == "minkowski" else 2
    if metric == "precomputed" and sparse.issparse(X):
        X = _nearest_in_graph(X, k)
        k = int(np.diff(X.indptr).min())
    with naming_the_metric(metric, metric_params):
        search = NeighborSearch(
            n_neighbors=k, metric=metric, p=p, metric_params=params or None, n_jobs=n_jobs, neighbors=neighbors
        ).fit(X)
    if neighbors == "approximate" and not search.may_be_approximate():
        raise ValueError(
            "neighbors='approximate' is for dense X with metric='euclidean', 'sqeuclidean' or 'cosine', got "
            f"{'sparse' if sparse.issparse(X) else 'dense'} X with metric={short(metric)}"
        )
    return search


def as_search(search):
    """Convert a fitted search of scikit-learn to one of `fit_search`, on the same data and with the same parameters."""
    from sk_stormc.embedding.search import NeighborSearch

    if isinstance(search, NeighborSearch) and hasattr(search, "_fit_X"):
        return search
    if not hasattr(search, "_fit_X"):
        raise ValueError(f"search must be a fitted NearestNeighbors, as from perplexity_search, got {short(search)}")
    same = {name: getattr(search, name) for name in ("metric", "metric_params", "n_jobs")}
    if search.metric == "minkowski":
        same["metric_params"] = {"p": search.p} | (search.metric_params or {})
    return fit_search(search._fit_X, search.n_neighbors, **same)


def _nearest_in_graph(X, k):
    """The k nearest neighbours in each row, by distance and, if equally far, by index, without the sample itself."""
    n, row = X.shape[0], _row_numbers(X)
    others = X.indices != row
    row, column, distance = row[others], X.indices[others], X.data[others]
    farther = np.diff(distance)
    if (((farther < 0) | (farther == 0) & (np.diff(column) < 0)) & (np.diff(row) == 0)).any():
        order = np.lexsort((column, distance, row))
        column, distance = column[order], distance[order]
    count = np.bincount(row, minlength=n)
    if count.max() > k:
        near = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) < k
        column, distance, count = column[near], distance[near], np.minimum(count, k)
    return sparse.csr_array((distance, column, np.concatenate([[0], np.cumsum(count)])), shape=X.shape)


def neighbor_graph(search):
    """The distances of each point to its neighbours, without the point itself."""
    X = search._fit_X
    if search.metric == "precomputed" and sparse.issparse(X):
        search.recall_ = np.nan  # unknown, because the user made the graph
        return X
    distances, neighbors = neighbors_of_each(search)
    n, k = distances.shape
    columns = neighbors.astype(np.int32 if n * k < 2**31 else np.int64, copy=False)
    starts = np.arange(0, n * k + 1, k, dtype=columns.dtype)
    return sparse.csr_array((distances.astype(float, copy=False).ravel(), columns.ravel(), starts), shape=(n, n))


def neighbors_of_each(search):
    """Distances and indices of the neighbours of each point of a fitted search, without the point itself."""
    with threads(search.n_jobs):
        found = _in_cells(search) if search.is_approximate() else None
        if found is None:
            found = _exactly(search)
    distances, neighbors, search.recall_ = found
    warn_of_chance(search, distances)
    if search.recall_ < LEAST_RECALL:
        warn(
            f"the approximate search found {search.recall_:.1%} of the true neighbours of a sample of the data. Use "
            "neighbors='exact'",
            UserWarning,
        )
    return distances, neighbors


def _in_cells(search):
    """Distances, neighbours and recall of an approximate search, or None if an exact search is as fast."""
    X, cosine = search._fit_X, search.effective_metric_ == "cosine"
    if cosine:
        size = np.sqrt(np.einsum("ij,ij->i", X, X))
        nothing = size == 0  # zero vectors get an extra coordinate, so that they are at distance 1 from all others
        X = np.hstack([X / np.where(nothing, 1, size)[:, None], nothing[:, None].astype(X.dtype)])
        X -= offsets(X)
    most = 1.0 if search.neighbors == "approximate" else WORTH
    found = nearest_in_cells(X, search.n_neighbors, most)
    if found is None:
        return None
    squares, neighbors, unsure, recall = found
    if len(unsure) > UNSURE * len(X):
        return None
    distances = squares / 2 if cosine else squares if search.effective_metric_ == "sqeuclidean" else np.sqrt(squares)
    if cosine:
        distances[nothing] = 1
    if len(unsure):
        distances[unsure], neighbors[unsure] = search.neighbors_of(unsure)
    return distances, neighbors, recall


def _exactly(search):
    """Distances, neighbours and recall of an exact search."""
    X, found = search._fit_X, None
    if search._fit_method == "brute" and search.effective_metric_ == "euclidean" and isinstance(X, np.ndarray):
        found = nearest_by_products(X, search.n_neighbors)
    if found is None:
        with naming_the_metric(search.metric, search.metric_params):
            found = *search.kneighbors(), ()
        check_distances(found[0], search.metric)
    distances, neighbors, unsure = found
    if len(unsure):
        distances[unsure], neighbors[unsure] = search.neighbors_of(unsure)
    return distances, neighbors, 1.0
