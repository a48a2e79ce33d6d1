"""Places for new samples among embedded ones."""

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from sk_stormc.embedding.affinities import conditional_probabilities
from sk_stormc.embedding.metrics import check_directions
from sk_stormc.embedding.neighbors import check_not_negative, largest_of_columns
from sk_stormc.utils.warnings import warn

__all__ = ["place", "spacings", "warn_of_far_samples"]

CHUNK = 2**20  # numbers in an array at a time
CANDIDATES = 50  # of the nearest, to begin from
LARGEST = 1e150  # the squares of larger numbers overflow, or sums of them
REACH = 4.0  # neighbours so many times farther than the nearest lose weight
ITERATIONS = 10
NEAREST = 10  # training samples that say how far away a sample is
FAR = 10.0  # times as far from them as they are from theirs: the place says little


def place(X, search, embedding, perplexity, spacing=None, dof=1.0):
    """Place new samples among embedded ones, each on its own.

    A sample goes where sum_j w_j log(1 + |z - x_j|^2 / dof) is smallest, x_j the points of its nearest training samples
    and w_j its affinities to them. This is the attraction of t-SNE. Unlike a mean it is hardly moved by a neighbour
    whose point is far from those of the others. There can be several minima. The best of the x_j begins, and
    fixed-point iterations improve it: they move it to weighted means of the x_j, so never beyond them.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_new, n_features)
        Or, where the metric of the search is "precomputed", distances or a sparse graph, (n_new, n_samples).
    search : sklearn.neighbors.NearestNeighbors
        Fitted on the training samples.
    embedding : ndarray of shape (n_samples, d)
        Their points.
    perplexity : float
        Of the affinities. They are to 3 perplexity + 1 neighbours, or to all that there are, such as those in the row
        of a graph; it is at most a third of their number.
    spacing : ndarray of shape (n_samples,), default=None
        From `spacings`.
    dof : float, default=1.0
        Degrees of freedom of the kernel.

    Returns
    -------
    places : ndarray of shape (n_new, d)
        float64. Each row depends on its own sample only, to the last bit.
    distances : ndarray of shape (n_new,)
        Only with a spacing: the distance to the tenth nearest training sample, or the last that is known, in units of
        the median spacing of these ten.

    Raises
    ------
    ValueError
        For data that are too large, distances that are negative or not finite, or an empty row of a graph.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import NearestNeighbors
    >>> from sk_stormc.embedding.placing import place
    >>> X = np.arange(10.0)[:, None]
    >>> place(X[3:5], NearestNeighbors().fit(X), np.hstack([X, -X]), 2.0)
    array([[ 3., -3.],
           [ 4., -4.]])
    """
    x, k = embedding.astype(float), int(3 * perplexity) + 1
    Z, distances = np.empty((X.shape[0], x.shape[1])), np.empty(X.shape[0])
    if search.metric == "precomputed":
        _check_distances(X)
    listed = search.metric == "precomputed" and sparse.issparse(X)
    more = min(max(k, NEAREST), search.n_samples_fit_)
    for rows, D, near in _listed(X, more) if listed else _found(X, search, more):
        order = np.lexsort((near, D))
        D, near = (np.take_along_axis(a, order, axis=1) for a in (D, near))
        if spacing is not None:
            distances[rows] = _distances(D[:, :NEAREST], spacing, near[:, :NEAREST])
        D, near = D[:, :k], near[:, :k]
        w = _weights(D, min(perplexity, max(1.0, D.shape[1] / 3)))
        for batch in gen_batches(len(w), max(1, CHUNK // (D.shape[1] * max(CANDIDATES, x.shape[1])))):
            Z[rows[batch]] = _lowest(w[batch], x.T[:, near[batch]], dof)
    return Z if spacing is None else (Z, distances)


def spacings(graph):
    """How far each sample is from its tenth neighbour, or the last that is known.

    Parameters
    ----------
    graph : CSR array of shape (n_samples, n_samples)
        Distances, of each row in order.

    Returns
    -------
    ndarray of shape (n_samples,)
        Where it is 0, as of a sample with ten copies, the mean of all.
    """
    count = np.diff(graph.indptr)
    found = graph.data[graph.indptr[:-1] + np.minimum(count, NEAREST) - 1].astype(float)
    return np.where(found > 0, found, found.mean())


def _distances(D, spacing, near):
    """The farthest of each row of D in units of the median spacing there."""
    unit = np.median(spacing[near], axis=1)
    return np.divide(D[:, -1], unit, out=np.where(D[:, -1] > 0, np.inf, 0.0), where=unit > 0)


def warn_of_far_samples(distances):
    """Say that new samples are far from the training data.

    Parameters
    ----------
    distances : ndarray of shape (n_new,)
        From `place`.
    """
    count = int((distances > FAR).sum())
    if count:
        row = int(distances.argmax())
        warn(
            f"{count} of {len(distances)} samples are far from the training data: row {row} is {distances[row]:.3g} "
            "times as far from its nearest training samples as these are from theirs. The places of such samples say "
            "little. transform(X, return_distance=True) gives this number for each sample",
            UserWarning,
        )


def _found(X, search, k):
    """Some rows at a time, their distances to their k nearest training samples, and which these are."""
    from sk_stormc.embedding.search import NeighborSearch  # here, because scikit-learn's takes long to load

    trained, exact, features = search._fit_X, EXACT.get(search.effective_metric_), 1
    if exact:
        _check_size(X)
    if search.effective_metric_ == "cosine":
        check_directions(X)
    if exact and (sparse.issparse(X) or sparse.issparse(trained)):
        X, trained = sparse.csr_array(X), sparse.csr_array(trained)
        features = max(1, (X.nnz + trained.nnz) // (X.shape[0] + trained.shape[0]))
    elif exact:
        features = X.shape[1]
    distances, neighbors = search.kneighbors(X, n_neighbors=k)
    finite = np.isfinite(distances).all(axis=1)
    if not finite.all():
        raise ValueError(f"distances to the training data must be finite, got inf or NaN in row {np.argmin(finite)}")
    if isinstance(search, NeighborSearch):
        X = search.moved(X)
    for batch in gen_batches(X.shape[0], max(1, CHUNK // (k * features))):
        D, near = np.maximum(distances[batch], 0, dtype=float), neighbors[batch]
        if exact:
            D = exact(X[batch][np.repeat(np.arange(len(near)), k)], trained[near.ravel()]).reshape(near.shape)
        yield np.arange(batch.start, batch.stop), D, near


def _listed(graph, k):
    """The same for rows of a graph: its k nearest of each row, or as many as it has; rows with as many together."""
    count = np.diff(graph.indptr)
    order = np.lexsort((graph.indices, graph.data, np.repeat(np.arange(len(count)), count)))
    for size in np.unique(np.minimum(count, k)):
        rows = np.flatnonzero(np.minimum(count, k) == size)
        chosen = order[graph.indptr[rows][:, None] + np.arange(size)]
        yield rows, graph.data[chosen].astype(float), graph.indices[chosen]


def _weights(D, perplexity):
    """Weights of neighbours at distances D, sorted: affinities of the given perplexity, made continuous in D.

    The farthest has none, so that it does not matter which of several equally far ones was found. As the nearest
    distance goes to 0 only the nearest keeps its weight.
    """
    p = conditional_probabilities(D, perplexity)
    w = p - p[:, -1:]
    w = np.where(w[:, :1] > 0, w, p)  # all are equally far
    nearest = D[:, :1]
    ratio = np.divide(nearest, D, out=np.ones_like(D), where=nearest < D)
    w *= np.square(np.minimum(1, REACH * ratio))
    return w / w.sum(axis=1, keepdims=True)


def _lowest(w, x, dof=1.0):
    """Where sum_j w_j log(1 + |z - x_j|^2 / dof) is lowest, for each row of w (n, k) and its points x (d, n, k).

    Sums go over the last axis, or over dimensions one at a time: their rounding does not depend on the number of rows.
    """
    squares = sum(np.square(c[:, :CANDIDATES, None] - c[:, None]) for c in x)
    value = (w[:, None] * np.log1p(squares / dof)).sum(axis=2)
    best = np.where(w[:, :CANDIDATES] > 0, value, np.inf).argmin(axis=1)
    z = x[:, np.arange(len(w)), best]
    for _ in range(ITERATIONS):
        pull = w / (1 + sum(np.square(c - a[:, None]) for c, a in zip(x, z, strict=True)) / dof)
        pull /= pull.sum(axis=1, keepdims=True)
        z = (pull * x).sum(axis=2)
    return z.T


def _squared(a, b):
    """Squared Euclidean distances of the rows of a to those of b."""
    difference = a.astype(float) - b
    return (difference * difference).sum(axis=1)


def _cosine(a, b):
    """Cosine distances of the rows of a to those of b; all that are 0 but for rounding are the same."""
    product = (normalize(a.astype(float)) * normalize(b.astype(float))).sum(axis=1)
    return np.maximum(1 - product, 4 * np.finfo(float).eps)


# The search takes these from products of whole batches. So the last bits depend on the batch, and equal rows are not at
# distance 0.
EXACT = {
    "euclidean": lambda a, b: np.sqrt(_squared(a, b)),
    "l2": lambda a, b: np.sqrt(_squared(a, b)),
    "sqeuclidean": _squared,
    "cosine": _cosine,
}


def _check_size(X):
    """Raise a ValueError if squares of the data would overflow."""
    largest = largest_of_columns(X)
    if largest.max() > LARGEST:
        column = np.argmax(largest)
        raise ValueError(f"the values of X must not be above {LARGEST:g}, got {largest[column]:.3g} in column {column}")


def _check_distances(X):
    """Raise a ValueError if distances are negative, or a graph has an empty row."""
    check_not_negative(X)
    if sparse.issparse(X) and not np.diff(X.indptr).all():
        row = np.argmin(np.diff(X.indptr))
        raise ValueError(f"the neighbour graph X must list a training sample in each row, got none in row {row}")
