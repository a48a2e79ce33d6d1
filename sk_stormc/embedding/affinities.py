"""Affinities of a neighbour embedding: conditional probabilities of a given
perplexity, and affinities that the user passes in place of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sk_stormc.embedding.neighbors.checks import (
    as_points,
    fewest_neighbors,
    not_negative,
    row_numbers,
)
from sk_stormc.embedding.neighbors.graph import as_search, fit_search, neighbor_graph
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.machine import CACHE_NUMBERS
from sk_stormc.utils.parameters import (
    check_bool,
    check_choice,
    check_int,
    check_number,
    is_list,
    is_word,
    short,
)
from sk_stormc.utils.threads import each, parts, threads
from sk_stormc.utils.types import (
    Array,
    ArrayLike,
    FloatArray,
    Neighbors,
    SparseMatrix,
)
from sk_stormc.utils.warnings import warn

if TYPE_CHECKING:
    from sklearn.neighbors import NearestNeighbors

TINY = np.finfo(float).tiny


def check_perplexity(perplexity):
    """The checked perplexity as a float, or several as a tuple of floats. Raises
    ValueError if it is neither."""
    several = is_list(perplexity) or (
        isinstance(perplexity, np.ndarray) and perplexity.ndim == 1
    )
    values = perplexity if several else [perplexity]
    if not len(values):
        raise ValueError(
            "perplexity must be a number or a sequence of some, got "
            f"{short(perplexity)}"
        )
    for value in values:
        check_number("perplexity", value, low=1)
    return tuple(map(float, values)) if several else float(perplexity)


def conditional_probabilities(distances: ArrayLike, perplexity: float) -> FloatArray:
    """Convert distances to probabilities proportional to exp(-beta D^2), with the beta
    of each row for its perplexity.

    Parameters
    ----------
    distances : array-like of shape (n_points, n_neighbors)
        Distances D, not squared.
    perplexity : float
        The exponential of the entropy of each row, at least 1. If it cannot be attained
        because of ties among the distances, the nearest possible value is used.

    Returns
    -------
    ndarray of shape (n_points, n_neighbors)
        Rows sum to 1.

    Raises
    ------
    ValueError
        If a distance is negative or not finite, or the perplexity is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import conditional_probabilities
    >>> p = conditional_probabilities(np.array([[1.0, 2.0, 3.0]]), perplexity=2.0)
    >>> round(float(np.exp(-(p * np.log(p)).sum())), 4)
    2.0
    """
    check_number("perplexity", perplexity, low=1)
    P = as_numbers("distances", distances)
    if P.ndim != 2 or not P.size or not (np.isfinite(P) & (P >= 0)).all():
        raise ValueError(
            "distances must be finite, >= 0 and of shape (n_points, n_neighbors), got "
            f"{short(distances)}"
        )
    _to_probabilities(P, perplexity)
    return P


@np.errstate(under="ignore")  # for neighbours that are much farther than others
def _to_probabilities(D, perplexity):
    """Turn distances into probabilities, in place."""
    n, k = D.shape
    target = np.log(min(float(perplexity), k))
    guess = _guess(k, target)

    def block(rows):
        d = D[rows]
        # before the square, which could overflow
        d /= np.maximum(d.max(axis=1, keepdims=True), TINY)
        np.square(d, out=d)
        d -= d.min(axis=1, keepdims=True)
        # scale each row to a mean of 1
        d /= np.maximum(d.mean(axis=1, keepdims=True), TINY)
        d *= -_precisions(d.astype(np.float32), target, np.full(len(d), guess))[:, None]
        np.exp(d, out=d)
        d /= d.sum(axis=1, keepdims=True)

    each(block, parts(n, CACHE_NUMBERS // k), D.size)


@lru_cache(8)
def _guess(k, target):
    """A first guess of the precision beta: the beta of k evenly spaced squared
    distances, which are typical of data."""
    D = np.linspace(0, 2, k, dtype=np.float32)[None]
    return _precisions(D, target, np.ones(1))[0]


def _precisions(D, target, beta):
    """The beta of each row for which the entropy of exp(-beta D) is the target, in
    float32, from a first guess."""
    space, betas = np.empty_like(D), beta
    rows, going = np.arange(len(D)), np.ones(len(D), bool)
    low, high = np.zeros(len(D)), np.full(len(D), np.inf)
    # the last Newton step squares the error, here that of log(perplexity)
    tolerance = np.sqrt(np.finfo(D.dtype).eps)
    for _ in range(100):  # ties can make the target unattainable
        p = np.multiply(D, -beta[:, None].astype(D.dtype), out=space[: len(D)])
        np.exp(p, out=p)
        # not a product with ones, whose rounding would depend on the other rows
        total = p.sum(axis=1).astype(float)
        p *= D
        mean, square = p.sum(axis=1) / total, np.einsum("ij,ij->i", p, D) / total
        # excess of the entropy, which decreases in beta
        excess = np.log(total) + beta * mean - target
        low, high = np.where(excess > 0, beta, low), np.where(excess > 0, high, beta)
        slope = beta * beta * (square - mean * mean)  # -d entropy / d log beta
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            newton = beta * np.exp(np.clip(excess / slope, -2, 2))
        middle = np.where(np.isinf(high), 4 * beta, (low + high) / 2)
        beta = np.where((newton > low) & (newton < high), newton, middle)
        betas[rows[going]] = beta[going]
        going &= (np.abs(excess) > tolerance) & (beta < 1e12)
        # drop the finished rows once they are the majority
        if 2 * going.sum() < len(going):
            D, beta, low, high, rows = (a[going] for a in (D, beta, low, high, rows))
            going = going[going]
            if not rows.size:
                break
    return betas


def _points(X, metric):
    """Points, or distances without negative rounding errors, as floats."""
    X = as_points(X, metric)
    if not is_word(metric, "precomputed"):
        return X
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"with metric='precomputed' X must be square, got shape {X.shape}: for "
            "distances to some neighbours only, pass a sparse graph, as "
            "sklearn.neighbors.KNeighborsTransformer(mode='distance') creates it"
        )
    return not_negative(X)


def nearest_neighbors(
    X: FloatArray | SparseMatrix,
    n_neighbors: int,
    *,
    metric: str | Callable = "euclidean",
    metric_params: dict | None = None,
    n_jobs: int | None = None,
    neighbors: Neighbors = "exact",
) -> NearestNeighbors:
    """Fit a search for the nearest neighbours of the points of X, and of new points
    among them.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_points, n_features)
        With metric="precomputed" distances or a sparse neighbour graph, (n_points,
        n_points).
    n_neighbors : int
        Number of neighbours. If the data have fewer, all are used. For a graph, at most
        the length of its shortest row.
    metric, metric_params, n_jobs
        Parameters of `sklearn.neighbors.NearestNeighbors`.
    neighbors : {"exact", "approximate", "auto"}, default="exact"
        Method of finding the neighbours of X among themselves, as in `SNEEmbedding`.

    Returns
    -------
    sklearn.neighbors.NearestNeighbors

    Raises
    ------
    ValueError
        If squares of the data overflow or underflow, if distances are negative, not
        square or not symmetric, or if a row of a graph has no neighbours.

    Examples
    --------
    >>> from sk_stormc.affinities import nearest_neighbors
    >>> search = nearest_neighbors([[0.0], [1.0], [3.0]], 1)
    >>> distances, neighbors = search.kneighbors()
    >>> neighbors.ravel(), distances.ravel()
    (array([1, 0, 1]), array([1., 1., 2.]))
    """
    check_int("n_neighbors", n_neighbors, low=1)
    X = _points(X, metric)
    fewest_neighbors(X, metric)
    return fit_search(X, n_neighbors, metric, metric_params, n_jobs, neighbors)


def perplexity_search(
    X: FloatArray | SparseMatrix,
    perplexity: float | Sequence[float],
    factor: int = 3,
    *,
    metric: str | Callable = "euclidean",
    metric_params: dict | None = None,
    n_jobs: int | None = None,
    neighbors: Neighbors = "exact",
) -> tuple[NearestNeighbors, float | tuple[float, ...]]:
    """Fit a search for the neighbours that a perplexity needs, and return the largest
    perplexity that the data allow.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_points, n_features)
        With metric="precomputed" distances or a sparse neighbour graph, (n_points,
        n_points).
    perplexity : float or sequence of float
        At least 1. If it is above a third of the smallest number of neighbours that a
        point has (n_points - 1, or the length of the shortest row of a graph), it is
        lowered to this third, but not below 1, with a UserWarning.
    factor : {2, 3}, default=3
        The search is for factor * perplexity + 1 neighbours, for the largest of several
        perplexities.
    metric, metric_params, n_jobs
        Parameters of `sklearn.neighbors.NearestNeighbors`.
    neighbors : {"exact", "approximate", "auto"}, default="exact"
        Method of finding the neighbours of X among themselves, as in `SNEEmbedding`.

    Returns
    -------
    search : sklearn.neighbors.NearestNeighbors
    perplexity : float or tuple of float
        The perplexity to use, lowered if necessary.

    Raises
    ------
    ValueError
        As for `nearest_neighbors`.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import perplexity_search
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> search, perplexity = perplexity_search(X, 5)
    >>> search.n_samples_fit_, perplexity
    (50, 5.0)
    """
    asked = check_perplexity(perplexity)
    check_choice("factor", factor, (2, 3))
    X = _points(X, metric)
    fewest = fewest_neighbors(X, metric)
    several = isinstance(asked, tuple)
    most, used = max(1.0, fewest / 3), asked if several else (asked,)
    if most < max(used):
        used = tuple(value for value in used if value <= most)
        if most not in used:
            used += (most,)  # only once, even if several are lowered to it
        warn(
            f"perplexity={perplexity} is too large for data in which a sample has "
            f"{fewest} neighbours: lowered to {most:.4g}, a third of that (but at "
            "least 1), as the probabilities would be nearly equal otherwise",
            UserWarning,
        )
    k = int(factor * max(used)) + 1
    search = fit_search(X, k, metric, metric_params, n_jobs, neighbors)
    return search, used if several else used[0]


def affinities(
    search: NearestNeighbors, perplexity: float | Sequence[float]
) -> SparseMatrix:
    """Compute sparse conditional probabilities p_{j|i} over each point's nearest
    neighbours.

    Parameters
    ----------
    search : sklearn.neighbors.NearestNeighbors
        A search returned by `nearest_neighbors` or `perplexity_search`.
    perplexity : float or sequence of float
        At least 1. With a sequence, the affinities of all its perplexities are
        averaged.

    Returns
    -------
    sparse array of shape (n_points, n_points)
        In CSR format. Rows sum to 1, and the diagonal is empty.

    Raises
    ------
    ValueError
        If the search is not fitted, or the perplexity is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import affinities, nearest_neighbors
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> P = affinities(nearest_neighbors(X, 15), 5)
    >>> P.shape, bool(np.allclose(P.sum(axis=1), 1))
    ((50, 50), True)
    """
    perplexity, search = check_perplexity(perplexity), as_search(search)
    with threads(search.n_jobs):
        return graph_affinities(neighbor_graph(search), perplexity)


def graph_affinities(
    graph: SparseMatrix, perplexity: float | tuple[float, ...]
) -> SparseMatrix:
    """Sparse conditional probabilities p_{j|i} from a graph of the distances of each
    point to its neighbours."""
    if isinstance(perplexity, tuple):
        several = [graph_affinities(graph, value) for value in perplexity]
        several[0].data = sum(P.data for P in several) / len(several)
        return several[0]
    data, columns, starts = graph.data.astype(float), graph.indices.copy(), graph.indptr
    counts = np.diff(starts)
    for k in np.unique(counts):
        if (counts == k).all():
            _to_probabilities(data.reshape(-1, k), perplexity)
        else:
            entries = starts[np.flatnonzero(counts == k), None] + np.arange(k)
            data[entries] = conditional_probabilities(data[entries], perplexity)
    return sparse.csr_array((data, columns, starts.copy()), shape=graph.shape)


def perplexity_affinities(
    X: ArrayLike | SparseMatrix,
    perplexity: float | Sequence[float] = 30.0,
    *,
    n_neighbors: int | None = None,
    metric: str | Callable = "euclidean",
    metric_params: dict | None = None,
    n_jobs: int | None = None,
    neighbors: Neighbors = "exact",
) -> SparseMatrix:
    """Compute sparse conditional probabilities p_{j|i} over each point's nearest
    neighbours, from the points.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_points, n_features)
        With metric="precomputed" distances or a sparse neighbour graph, (n_points,
        n_points).
    perplexity : float or sequence of float, default=30.0
        At least 1. It is lowered with a UserWarning if it is above a third of the
        number of neighbours. With a sequence, the affinities of all its perplexities
        are averaged, all with the neighbours of the largest.
    n_neighbors : int, default=None
        Number of neighbours. None means 3 perplexity + 1, for the largest perplexity.
        If the data have fewer, all are used.
    metric, metric_params, n_jobs
        Parameters of `sklearn.neighbors.NearestNeighbors`.
    neighbors : {"exact", "approximate", "auto"}, default="exact"
        Method of finding the neighbours of X among themselves, as in `SNEEmbedding`.

    Returns
    -------
    sparse array of shape (n_points, n_points)
        In CSR format. Rows sum to 1, and the diagonal is empty.

    Raises
    ------
    ValueError
        If squares of the data overflow, if distances are negative, not square or not
        symmetric, or if a row of a graph has no neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import perplexity_affinities
    >>> P = perplexity_affinities(
    ...     np.random.default_rng(0).normal(size=(50, 3)), perplexity=5
    ... )
    >>> P.shape, P.nnz, bool(np.allclose(P.sum(axis=1), 1))
    ((50, 50), 800, True)
    """
    X = _points(X, metric)
    how: dict[str, Any] = {
        "metric": metric,
        "metric_params": metric_params,
        "n_jobs": n_jobs,
        "neighbors": neighbors,
    }
    if n_neighbors is None:
        return affinities(*perplexity_search(X, perplexity, **how))
    check_int("n_neighbors", n_neighbors, low=1)
    check_perplexity(perplexity)
    return affinities(nearest_neighbors(X, n_neighbors, **how), perplexity)


def normalised_affinities(X: Array | SparseMatrix, joint: bool) -> SparseMatrix:
    """Normalise affinities that the user passed in place of data."""
    if X.ndim != 2 or X.shape[0] != X.shape[1]:
        raise ValueError(
            f"with metric='affinities' X must be square, got shape {X.shape}"
        )
    P = sparse.csr_array(X, dtype=float, copy=True)
    P.sum_duplicates()
    lowest = P.data.min(initial=0)
    if lowest < 0:
        raise ValueError(
            f"with metric='affinities' X must not be negative, got {lowest:.6g}"
        )
    P.data[row_numbers(P) == P.indices] = 0
    top = P.data.max(initial=0)
    if top > 0:
        P.data /= top  # avoids overflow and underflow of the sums
    if joint:
        P = ((P + P.T) / 2).tocsr()
    P.eliminate_zeros()
    P.sort_indices()
    sums = P.sum(axis=1)
    if not sums.all():
        raise ValueError(
            "with metric='affinities' X must have a positive affinity of each sample "
            f"to another, got none in row {int(np.argmin(sums))}"
        )
    P.data /= sums.sum() if joint else np.repeat(sums, np.diff(P.indptr))
    return P


def check_affinities(P: SparseMatrix, joint: bool = False) -> SparseMatrix:
    """Check that P contains probabilities and has an empty diagonal, and return it as a
    float CSR array.

    Parameters
    ----------
    P : sparse matrix of shape (n_points, n_points)
    joint : bool, default=False
        If true, all entries of P together must sum to 1, and otherwise each row.

    Returns
    -------
    sparse array of shape (n_points, n_points)

    Raises
    ------
    ValueError
        If P is not square, not sparse or not finite, has negative or diagonal entries,
        or does not sum to 1. The message names the row.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import check_affinities, perplexity_affinities
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> check_affinities(perplexity_affinities(X, perplexity=5)).shape
    (50, 50)
    """
    check_bool("joint", joint)
    if (
        not sparse.issparse(P)
        or P.ndim != 2
        or P.shape[0] != P.shape[1]
        or P.shape[0] < 2
    ):
        raise ValueError(
            "affinities must be a square sparse matrix of at least two points, got "
            f"{getattr(P, 'shape', type(P))}"
        )
    P = sparse.csr_array(P, dtype=float)
    P.sum_duplicates()
    P.eliminate_zeros()
    if not np.isfinite(P.data).all() or (P.data < 0).any():
        raise ValueError("affinities must be finite and not negative")
    sums = P.sum(axis=1)
    if joint and abs(sums.sum() - 1) > 1e-5:
        raise ValueError(f"joint affinities must sum to 1, got {sums.sum():.6g}")
    row = int(np.argmax(np.abs(sums - 1)))
    if not joint and abs(sums[row] - 1) > 1e-5:
        raise ValueError(
            f"the rows of affinities must sum to 1, row {row} sums to {sums[row]:.6g}"
        )
    if P.diagonal().any():
        raise ValueError(
            f"the diagonal of affinities must be empty, got {P.diagonal().max():.3g}"
        )
    return P
