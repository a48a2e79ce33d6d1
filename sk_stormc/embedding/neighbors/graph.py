"""A fitted search with validated parameters, and the graph of the distances of each
point to its neighbours, with warnings if the choice of neighbours is arbitrary."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from sk_stormc.embedding.neighbors.checks import (
    check_distances,
    check_metric_of_data,
    naming_the_metric,
    parameters_of,
    row_numbers,
)
from sk_stormc.embedding.neighbors.inverted_file import approximate_neighbors
from sk_stormc.utils.machine import BLOCK_BYTES
from sk_stormc.utils.parameters import check_choice, is_word, short
from sk_stormc.utils.threads import threads
from sk_stormc.utils.warnings import warn

# relative rounding error of squared or cosine distances above which there is a warning
MAX_ROUNDING = 0.01
MIN_RECALL = 0.97  # recall of an approximate search below which there is a warning
GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, are evenly spread


def fit_search(X, n_neighbors, metric, metric_params, n_jobs, neighbors="exact"):
    """Fit a search for at most n_neighbors neighbours, on data that `fewest_neighbors`
    has checked."""
    # imported here, because sklearn.neighbors takes long to import
    from sk_stormc.embedding.neighbors.search import NeighborSearch

    check_choice("neighbors", neighbors, ("auto", "exact", "approximate"))
    k = min(n_neighbors, X.shape[0] - 1)
    check_metric_of_data(metric, metric_params, X)
    if metric == "precomputed" and sparse.issparse(X):
        X = _nearest_in_graph(X, k)
        k = int(np.diff(X.indptr).min())
    with naming_the_metric(metric, metric_params):
        params = parameters_of(metric, metric_params)
        search = NeighborSearch(
            n_neighbors=k,
            metric=metric,
            p=params.pop("p", 2) if metric == "minkowski" else 2,
            metric_params=params or None,
            n_jobs=n_jobs,
            neighbors=neighbors,
        ).fit(X)
    if neighbors == "approximate" and not search.may_be_approximate():
        raise ValueError(
            "neighbors='approximate' is for dense X with metric='euclidean', "
            "'sqeuclidean' or 'cosine', got "
            f"{'sparse' if sparse.issparse(X) else 'dense'} X with "
            f"metric={short(metric)}"
        )
    return search


def as_search(search):
    """Convert a fitted search of scikit-learn to one of `fit_search`, on the same data
    and with the same parameters."""
    from sk_stormc.embedding.neighbors.search import NeighborSearch

    if not hasattr(search, "_fit_X"):
        raise ValueError(
            "search must be a fitted NearestNeighbors, as from perplexity_search, got "
            f"{short(search)}"
        )
    if isinstance(search, NeighborSearch):
        return search
    params = search.metric_params
    if search.metric == "minkowski":
        params = {"p": search.p} | (params or {})
    return fit_search(
        search._fit_X, search.n_neighbors, search.metric, params, search.n_jobs
    )


def _nearest_in_graph(X, k):
    """The k nearest neighbours in each row, by distance and then by index, without the
    sample itself."""
    X = kept_entries(X, X.indices != row_numbers(X))
    row, farther, after = row_numbers(X), np.diff(X.data), np.diff(X.indices) > 0
    in_order = (farther > 0) | (farther == 0) & after | (np.diff(row) > 0)
    if not in_order.all():  # sorting takes long for many neighbours
        order = np.lexsort((X.indices, X.data, row))
        X = sparse.csr_array((X.data[order], X.indices[order], X.indptr), X.shape)
    return first_of_rows(X, k)


def first_of_rows(X, most):
    """A CSR array with at most the first ``most`` entries of each row."""
    count = np.diff(X.indptr)
    if count.max() <= most:
        return X
    return kept_entries(X, np.arange(X.nnz) - np.repeat(X.indptr[:-1], count) < most)


def kept_entries(X, kept):
    """A CSR array with some of the entries of X."""
    starts = np.concatenate([[0], np.cumsum(kept)])[X.indptr]
    # half the memory traffic of int64, which sparse arrays keep
    dtype = np.int32 if X.nnz < 2**31 else np.int64
    columns = X.indices[kept].astype(dtype, copy=False)
    return sparse.csr_array((X.data[kept], columns, starts.astype(dtype)), X.shape)


def neighbor_graph(search):
    """The distances of each point to its neighbours, without the point itself."""
    X = search._fit_X
    if search.metric == "precomputed" and sparse.issparse(X):
        search.recall_ = np.nan  # unknown for a graph of the user
        return X
    with threads(search.n_jobs):
        nearest = _approximate(search) if search.is_approximate() else None
        distances, neighbors, search.recall_ = nearest or _exact(search)
        chance = spread_ties(search, distances, neighbors)
    warn_of_chance(search, distances, chance)
    if search.recall_ < MIN_RECALL:
        warn(
            f"the approximate search found {search.recall_:.1%} of the true "
            "neighbours of a sample of the data. Use neighbors='exact'",
            UserWarning,
        )
    n, k = distances.shape
    columns = neighbors.astype(np.int32 if n * k < 2**31 else np.int64, copy=False)
    starts = np.arange(0, n * k + 1, k, dtype=columns.dtype)
    return sparse.csr_array(
        (distances.astype(float, copy=False).ravel(), columns.ravel(), starts),
        shape=(n, n),
    )


def _approximate(search):
    """Distances, neighbours and recall of an approximate search, or None if an exact
    search is as fast."""
    X, cosine = search._fit_X, search.effective_metric_ == "cosine"
    if cosine:
        size = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
        # zero vectors get an additional coordinate, so that they are at distance 1 from
        # all others
        nothing = size == 0
        X = np.hstack([X / np.where(nothing, 1, size), nothing.astype(X.dtype)])
        X -= offsets(X)
    # above a quarter of all pairs, an approximate search is hardly faster
    most = 1.0 if search.neighbors == "approximate" else 0.25
    nearest = approximate_neighbors(X, search.n_neighbors, most)
    if nearest is None:
        return None
    squares, neighbors, undecided, recall = nearest
    if len(undecided) > len(X) / 10:
        return None
    distances = squares
    if cosine:
        distances = np.where(nothing, 1, squares / 2)
    elif search.effective_metric_ != "sqeuclidean":
        distances = np.sqrt(squares)
    if len(undecided):
        distances[undecided], neighbors[undecided] = search.neighbors_of(undecided)
    return distances, neighbors, recall


def _exact(search):
    """Distances, neighbours and recall of an exact search."""
    with naming_the_metric(search.metric, search.metric_params):
        distances, neighbors = search.kneighbors()
    check_distances(distances, search.metric)
    return distances, neighbors, 1.0


# ties: samples that are equally far from many others, as samples without a common
# feature are by "jaccard"


def spread_ties(search, distances, neighbors):
    """Choose evenly among samples that are equally far, in place; return the rows most
    of whose neighbours are chance.

    A search takes those of them that come first in the table, so that it would depend
    on the order of the table which samples attract each other. This is done for the
    rows with at least half of their neighbours at the same distance, and those are
    returned for which most samples are at this distance.
    """
    n, k = distances.shape
    last = distances[:, -1]
    tied = (distances == last[:, None]).sum(axis=1)
    rows, chance = np.flatnonzero((2 * tied >= k) & (last > 0)), []
    size = max(1, BLOCK_BYTES // (8 * n))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        for row, to_others in zip(some, _to_all(search, some), strict=True):
            # the rounding of equal distances depends on the batch
            equal = np.flatnonzero(np.abs(to_others - last[row]) <= 1e-12 * last[row])
            equal, count = equal[equal != row], tied[row]
            if len(equal) > count:
                begin = GOLDEN * row % 1
                neighbors[row, k - count :] = equal[
                    ((np.arange(count) + begin) * len(equal) / count).astype(int)
                ]
                if 2 * len(equal) > n:
                    chance.append(row)
    return chance


def _to_all(search, rows):
    """The distances of some rows of the data to all rows."""
    # imported here, because they take long to import
    from sklearn.metrics import DistanceMetric, pairwise_distances
    from sklearn.neighbors import VALID_METRICS

    X, metric = search._fit_X, search.effective_metric_
    params = search.effective_metric_params_
    if metric == "precomputed":
        return X[rows]
    # some of these are unknown to pairwise_distances
    if is_word(metric, *VALID_METRICS["ball_tree"]):
        distance = DistanceMetric.get_metric(metric, dtype=X.dtype, **params)
        return distance.pairwise(X[rows], X)
    with warnings.catch_warnings():
        # the search has shown it
        warnings.simplefilter("ignore", DataConversionWarning)
        return pairwise_distances(X[rows], X, metric=metric, **params)


def warn_of_chance(search, distances, rows):
    """Warn if the choice of neighbours is partly arbitrary, as it mostly is in the rows
    that `spread_ties` returns."""
    if distances.shape[1] < len(distances) - 1 and distances.min() == distances.max():
        if distances.any():
            why = f"all pairs of samples are alike by metric={short(search.metric)}"
        else:
            why = (
                f"by metric={short(search.metric)} they do not differ from it, or "
                "rounding hides how: take the columns' means off X then"
            )
        warn(
            f"the {distances.shape[1]} neighbours that were found of each sample are "
            f"all at a distance of {distances.min():.4g}, and which samples are "
            f"neighbours is chance: {why}",
            UserWarning,
        )
        return
    if rows:
        warn(
            f"{len(rows)} of {len(distances)} samples are equally far from most "
            f"others by metric={short(search.metric)}, such as row {rows[0]}, at a "
            f"distance of {distances[rows[0], -1]:.4g}. At least half of the "
            f"{distances.shape[1]} neighbours of each are chance, and their places in "
            "a map have little meaning. Leave them out, or use a smaller perplexity "
            "or a metric that tells how far they are",
            UserWarning,
        )
    farthest = distances[:, -1].astype(float)
    # 0 for samples all of whose neighbours are copies
    farthest = farthest[farthest > 0]
    if len(farthest):
        _warn_of_rounding(search, farthest)


def _warn_of_rounding(search, farthest):
    """Warn if rounding errors are notable beside the distances to the farthest
    neighbours."""
    X, k = search._fit_X, search.n_neighbors
    dtype = X.dtype
    if search.effective_metric_ == "cosine":
        between = float(np.median(farthest))
        # of 1 minus a product, whose rounding error is absolute
        rounding = 4 * float(np.finfo(dtype).eps)
        why = (
            f"the rows of X have nearly the same direction: the farthest of the {k} "
            f"neighbours of a sample is at a cosine distance of {between:.2g}, and "
            f"rounding to {dtype} changes these by {rounding:.2g}"
        )
        remedy = "Take the columns' means off X, or use metric='euclidean'"
    elif search.is_euclidean:
        if search.effective_metric_ != "sqeuclidean":
            farthest = np.square(farthest)
        between = float(np.median(farthest))
        far = f"of the {k} neighbours of a sample is at {np.sqrt(between):.2g}"
        if sparse.issparse(X):
            # they are not centred, and |x|^2 + |y|^2 - 2 x.y is inaccurate
            size = float(np.median(sparse.csr_array(X).multiply(X).sum(axis=1)))
            rounding = 4 * np.finfo(float).eps * size
            why = (
                "the values of X are large beside their differences: the farthest "
                f"{far}, and rows have a length of {np.sqrt(size):.2g}. Distances of "
                "sparse rows are not exact then"
            )
            remedy = (
                "Take their means off the columns with large values, or pass X as an "
                "array, of which offsets are no matter"
            )
        else:
            rounding = search.grain_
            why = (
                f"the values of X are large beside their differences, and {dtype} has "
                f"rounded them: by that alone two samples are {np.sqrt(rounding):.2g} "
                f"apart, and the farthest {far}"
            )
            remedy = (
                "Take the columns' means off the data before they are rounded to this "
                "type"
            )
    else:
        return
    if rounding > MAX_ROUNDING * between:
        warn(
            f"{why}. Which samples are neighbours is partly chance. {remedy}",
            UserWarning,
        )


# the common offset of the samples, and the rounding error that it causes in distances


def offsets(X):
    """The lower median of each column.

    It is one of the column's values. Therefore integers stay integers, and equal
    distances stay equal, after it is subtracted. Unlike the mean it is robust against
    outliers.
    """
    rows = _some(X)
    middle = (len(rows) - 1) // 2
    return np.array(np.partition(rows, middle, axis=0)[middle])


def grain(X):
    """An estimate of the rounding error of squared distances: float32 numbers near 1e8
    are 8 apart, for example.

    Constant columns are ignored.
    """
    rows = _some(X)
    steps = np.spacing(np.abs(offsets(rows))).astype(float)
    varied = rows.max(axis=0) > rows.min(axis=0)
    # variance of the difference of two rounding errors
    return float(np.square(steps[varied]).sum() / 6)


def _some(X):
    """Evenly spaced rows, at most 10,000 of them."""
    return np.asarray(X[:: -(-len(X) // 10_000)])
