"""Affinities of a neighbour embedding: conditional probabilities of a given perplexity."""

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array

from sk_stormc._validation import check_number

__all__ = [
    "affinities",
    "check_affinities",
    "check_perplexity",
    "conditional_probabilities",
    "nearest_neighbors",
    "perplexity_affinities",
]

TOLERANCE = 1e-6  # of log(perplexity)
MAX_ITER = 100


def conditional_probabilities(distances, perplexity):
    """p_j prop. to exp(-beta D_j^2) for each row, beta such that the row's perplexity is the one asked for.

    Parameters
    ----------
    distances : ndarray of shape (n_points, n_neighbors)
        Not squared.
    perplexity : float
        exp of the entropy of each row. Where ties do not allow it, as near as they do.

    Returns
    -------
    ndarray of shape (n_points, n_neighbors)
        Rows sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import conditional_probabilities
    >>> p = conditional_probabilities(np.array([[1.0, 2.0, 3.0]]), perplexity=2.0)
    >>> round(float(np.exp(-(p * np.log(p)).sum())), 4)
    2.0
    """
    D = np.square(distances, dtype=float)
    D -= D.min(axis=1, keepdims=True)
    D /= np.maximum(D.mean(axis=1, keepdims=True), np.finfo(float).tiny)  # each row in its own unit
    n, target = len(D), np.log(float(perplexity))
    P = np.full(D.shape, 1 / D.shape[1])
    beta, low, high = np.ones(n), np.zeros(n), np.full(n, np.inf)
    rows = np.arange(n)
    for _ in range(MAX_ITER):
        d, b = D[rows], beta[rows]
        p = np.exp(-d * b[:, None])
        total = p.sum(axis=1)
        p /= total[:, None]
        mean = np.einsum("ij,ij->i", p, d)
        excess = np.log(total) + b * mean - target  # entropy, which falls with beta
        P[rows] = p
        low[rows] = np.where(excess > 0, b, low[rows])
        high[rows] = np.where(excess > 0, high[rows], b)
        slope = b * b * (np.einsum("ij,ij,ij->i", p, d, d) - mean * mean)  # -d entropy / d log beta
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            newton = b * np.exp(np.clip(excess / slope, -2, 2))
        middle = np.where(np.isinf(high[rows]), 4 * b, (low[rows] + high[rows]) / 2)
        inside = (newton > low[rows]) & (newton < high[rows])
        beta[rows] = np.where(inside, newton, middle)
        rows = rows[(np.abs(excess) > TOLERANCE) & (beta[rows] < 1e12)]
        if not rows.size:
            break
    return P


def nearest_neighbors(X, n_neighbors, *, metric="euclidean", metric_params=None, n_jobs=None):
    """A fitted search for the neighbours of the points of X, and of others among them.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_points, n_features)
        With metric="precomputed" distances or a sparse neighbour graph, (n_points, n_points).
    n_neighbors : int
    metric, metric_params, n_jobs
        Of `sklearn.neighbors.NearestNeighbors`.

    Returns
    -------
    sklearn.neighbors.NearestNeighbors

    Raises
    ------
    ValueError
        For distances that are negative or not square, or a graph with too few neighbours.
    """
    if metric == "precomputed":
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"with metric='precomputed' X must be square, got shape {X.shape}")
        _check_distances(X)
        if sparse.issparse(X):
            found = np.diff(X.indptr) - _lists_itself(X)
            if found.min() < n_neighbors:
                row = int(np.argmin(found))
                raise ValueError(
                    f"the neighbour graph X must hold {n_neighbors} neighbors of each sample for this perplexity, "
                    f"got {found[row]} in row {row}"
                )
    search = NearestNeighbors(n_neighbors=n_neighbors, metric=metric, metric_params=metric_params, n_jobs=n_jobs)
    return search.fit(X)


def _check_distances(X):
    lowest = X.data.min(initial=0) if sparse.issparse(X) else X.min()
    if lowest < 0:
        raise ValueError(f"with metric='precomputed' X must hold distances, none negative, got {lowest}")


def _lists_itself(X):
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.bincount(row[X.indices == row], minlength=X.shape[0])


def affinities(search, perplexity):
    """Sparse conditional probabilities p_{j|i} over each point's nearest neighbours.

    Parameters
    ----------
    search : sklearn.neighbors.NearestNeighbors
        Fitted on the points.
    perplexity : float

    Returns
    -------
    sparse array of shape (n_points, n_points)
        CSR; rows sum to 1, the diagonal is empty.
    """
    distances, neighbors = search.kneighbors()
    n, k = distances.shape
    P = conditional_probabilities(distances, min(perplexity, k))
    return sparse.csr_array((P.ravel(), neighbors.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


def perplexity_affinities(X, perplexity=30.0, *, n_neighbors=None, metric="euclidean", metric_params=None, n_jobs=None):
    """Sparse conditional probabilities p_{j|i} over each point's nearest neighbours, from the points.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_points, n_features)
        With metric="precomputed" distances or a sparse neighbour graph, (n_points, n_points).
    perplexity : float, default=30.0
        At least 1, below the number of points.
    n_neighbors : int, default=None
        k; None means 3 perplexity + 1, at most n_points - 1.
    metric, metric_params, n_jobs
        Of `sklearn.neighbors.NearestNeighbors`.

    Returns
    -------
    sparse array of shape (n_points, n_points)
        CSR; rows sum to 1, the diagonal is empty.

    Raises
    ------
    ValueError
        For a perplexity that is not below the number of points, or a graph with too few neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import perplexity_affinities
    >>> P = perplexity_affinities(np.random.default_rng(0).normal(size=(50, 3)), perplexity=5)
    >>> P.shape, P.nnz, bool(np.allclose(P.sum(axis=1), 1))
    ((50, 50), 800, True)
    """
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
    k = check_perplexity(perplexity, X.shape[0], 3) if n_neighbors is None else n_neighbors
    search = nearest_neighbors(X, k, metric=metric, metric_params=metric_params, n_jobs=n_jobs)
    return affinities(search, perplexity)


def check_perplexity(perplexity, n, factor):
    """The number of neighbours that a perplexity asks for: factor * perplexity + 1, at most n - 1."""
    check_number("perplexity", perplexity, low=1)
    if perplexity >= n:
        raise ValueError(f"perplexity must be less than n_samples, got perplexity={perplexity!r}, n_samples={n}")
    return min(n - 1, int(factor * perplexity) + 1)


def check_affinities(P):
    """P as a float CSR array, if its rows are probabilities and its diagonal is empty.

    Parameters
    ----------
    P : sparse matrix of shape (n_points, n_points)

    Returns
    -------
    sparse array of shape (n_points, n_points)

    Raises
    ------
    ValueError
        Naming the first row that does not sum to 1, or what else is wrong.
    """
    if not sparse.issparse(P) or P.ndim != 2 or P.shape[0] != P.shape[1] or P.shape[0] < 2:
        raise ValueError(
            f"affinities must be a square sparse matrix of at least two points, got {getattr(P, 'shape', type(P))}"
        )
    P = sparse.csr_array(P, dtype=float)
    P.sum_duplicates()
    P.eliminate_zeros()
    if not np.isfinite(P.data).all() or (P.data < 0).any():
        raise ValueError("affinities must be finite and not negative")
    sums = P.sum(axis=1)
    row = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[row] - 1) > 1e-5:
        raise ValueError(f"the rows of affinities must sum to 1, row {row} sums to {sums[row]:.6g}")
    if P.diagonal().any():
        raise ValueError(f"the diagonal of affinities must be empty, got {P.diagonal().max():.3g}")
    return P
