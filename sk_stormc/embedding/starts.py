"""Initialisation of an embedding: principal components, eigenvectors of the neighbour graph, noise, or an array."""

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from sklearn import config_context

from sk_stormc.embedding.offsets import offsets
from sk_stormc.utils.validation import as_numbers, check_choice, short

__all__ = ["FEATURELESS", "check_init", "make_start", "spectral_coordinates"]

ROUNDING = 10  # units in the last place of the largest number; columns that vary by less count as constant
NOISE = 0.1  # width of the noise, relative to the first column, in dimensions that the data do not have
COARSEST = 500  # number of points up to which eigenvectors are computed densely
RATIO = 10  # points of one aggregate
SWEEPS, FEWER, DEGREE = 5, 2, 10  # sweeps of the Chebyshev filter, sweeps for many points, and its degree
MANY = 30_000  # number of points above which there are fewer sweeps
GUARDS = 4  # additional eigenvectors that make the wanted ones more accurate
SOLVED = 100  # number of the largest connected components that get eigenvectors of their own
FEATURELESS = ("precomputed", "affinities")  # metrics of data without features
SIZE = {"gaussian": 3.0, "student-t": 1e-4}  # standard deviation of the widest column of a start


def check_init(init, metric, n_samples, n_components):
    """Check the parameter ``init``, and resolve "auto"."""
    if isinstance(init, str) or init is None:
        check_choice("init", init, ("auto", "pca", "spectral", "random"))
        if init == "auto":
            return "spectral" if metric in FEATURELESS else "pca"
        if init == "pca" and metric in FEATURELESS:
            raise ValueError(
                f"init must be 'auto', 'spectral', 'random' or an array with metric={metric!r}, which has no features; "
                "got 'pca'"
            )
        return init
    start = as_numbers("init", init)
    if start.shape != (n_samples, n_components):
        raise ValueError(
            f"init must be an array of shape ({n_samples}, {n_components}), got one of shape {start.shape}"
        )
    wrong = ~np.isfinite(start).all(axis=1)
    if wrong.any():
        raise ValueError(f"init must be finite, got {short(start[wrong][0])} in row {np.argmax(wrong)}")
    return start


def make_start(way, X, P, n_components, kernel, rng):
    """The initial positions, centred and scaled for the kernel."""
    size = SIZE[kernel]
    if not isinstance(way, str):
        return _scaled(way, size, rng)
    if way == "random":
        return min(size, 1.0) * rng.standard_normal((P.shape[0], n_components))
    found = _principal(X, n_components, rng) if way == "pca" else spectral_coordinates(P, n_components, rng)
    return _scaled(found, size, rng)


def _scaled(start, size, rng):
    """Centre the columns, and scale the widest to a standard deviation of ``size``. Noise replaces constant columns."""
    if not _varies(start):
        return size * rng.standard_normal(start.shape)
    start = start - start.mean(axis=0)
    start /= max(np.abs(start).max(), np.finfo(float).tiny)  # so that squares neither overflow nor underflow
    deviation = start.std(axis=0)
    widest = deviation.max()
    start *= size / widest
    flat = deviation < 1e-5 * widest
    start[:, flat] = NOISE * size * rng.standard_normal((len(start), int(flat.sum())))
    return start


def _varies(X):
    """Whether some column varies by more than rounding errors."""
    precision = np.finfo(np.result_type(X.dtype, np.float32)).eps
    return (X.max(axis=0) - X.min(axis=0)).max() > ROUNDING * precision * abs(X).max()


def _principal(X, n_components, rng):
    from sklearn.decomposition import PCA  # here, because it takes long to import

    found = min(n_components, *X.shape)
    if not _varies(X):
        return np.zeros((X.shape[0], n_components))
    if sparse.issparse(X) and found == min(X.shape):
        X = X.toarray()  # sparse PCA cannot return all components
    if not sparse.issparse(X):
        X = X - offsets(X)  # its covariance comes from products, in which large means would drown it
    # the ratio of explained variance may not be there, and users may want frames of their own transformers
    with np.errstate(invalid="ignore"), config_context(transform_output="default"):
        components = PCA(found, random_state=rng).fit_transform(X)
    return np.pad(components.astype(float), ((0, 0), (0, n_components - found)))


def spectral_coordinates(P, n_components, rng):
    """Leading nontrivial eigenvectors of the random walk on the neighbour graph, for each connected component.

    They correspond to the smallest nonzero eigenvalues of the normalised Laplacian of P + P.T. Their width is
    proportional to the inverse square root of these eigenvalues. Each connected component has its own eigenvectors and
    its own position on a grid. The method is multilevel: the eigenvectors of a graph of aggregates are computed
    recursively, interpolated on the points and smoothed. It costs about thirty products of the graph with n_components
    vectors.
    """
    S = sparse.csr_array(P, dtype=np.float32)
    S = (S + S.T).tocsr()
    n_parts, part = connected_components(S, directed=False)
    if n_parts == 1:
        return _filled(*_leading(S, n_components + GUARDS, rng), n_components, rng)
    sizes = np.bincount(part)
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(sizes)[:-1])
    largest_first = np.argsort(-sizes, kind="stable")
    rank = np.argsort(largest_first)
    width = (sizes / S.shape[0]) ** (1 / n_components)
    start = rng.standard_normal((S.shape[0], n_components))
    for k in largest_first[:SOLVED]:
        rows = members[k]
        if len(rows) > 2:
            start[rows] = _filled(*_leading(S[rows][:, rows], n_components + GUARDS, rng), n_components, rng)
    return start * width[part][:, None] + 5 * width.max() * _grid(n_parts, n_components)[rank[part]]


def _filled(vectors, values, n_components, rng):
    """The first vectors, scaled to a standard deviation of at most 1. A small graph with too few gets noise."""
    start = NOISE * rng.standard_normal((len(vectors), n_components))
    found = (vectors / np.sqrt(np.maximum(1 - values, 1e-12)))[:, :n_components]
    # fix the arbitrary sign: the largest entry is positive
    top = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    start[:, : found.shape[1]] = found * np.sign(top) / max(found.std(axis=0).max(initial=0), np.finfo(float).tiny)
    return start


def _grid(n_cells, d):
    """The coordinates of n_cells cells of a grid in d dimensions with about equal sides."""
    side = int(np.ceil(n_cells ** (1 / d) - 1e-9))
    rest, cells = np.arange(n_cells), np.zeros((n_cells, d))
    for k in range(d):
        rest, cells[:, k] = rest // side, rest % side
    return cells


def _leading(S, m, rng):
    """At most m leading nontrivial eigenvectors of a connected graph's random walk, and their eigenvalues."""
    n = S.shape[0]
    degree = S.sum(axis=1, dtype=float)
    if n <= COARSEST:
        root = np.sqrt(degree)
        A = S.toarray().astype(float) / root / root[:, None]
        values, vectors = linalg.eigh(A, subset_by_index=(max(0, n - 1 - m), n - 1))
        return vectors[:, -2::-1] / root[:, None], values[-2::-1]
    label, n_coarse = _aggregates(S, rng)
    lay = sparse.csr_array((np.ones(n, S.dtype), label, np.arange(n + 1)), shape=(n, n_coarse))
    V, values = _leading(sparse.csr_array(lay.T @ (S @ lay)), m, rng)
    V = V[label]
    walk = S.copy()
    walk.data /= np.repeat(degree, np.diff(S.indptr)).astype(S.dtype)
    for _ in range(SWEEPS if n <= MANY else FEWER):
        V = _filtered(walk, V.astype(S.dtype), max(0.0, float(values[-1]))).astype(float)
        V -= degree @ V / degree.sum()
        V /= np.sqrt(degree @ np.square(V))
        mass = V.T @ (degree[:, None] * V)
        values, turn = linalg.eigh(V.T @ (S @ V), mass + 1e-9 * np.eye(V.shape[1]))
        V, values = V @ turn[:, ::-1], values[::-1]
    return V, values


def _filtered(walk, V, cut):
    """A Chebyshev polynomial of the walk applied to V: small for eigenvalues from -1 to the cut, large above."""
    centre, radius = V.dtype.type((cut - 1) / 2), V.dtype.type((cut + 1) / 2)
    before, now = V, (walk @ V - centre * V) / radius
    for _ in range(DEGREE - 1):
        before, now = now, 2 / radius * (walk @ now - centre * now) - before
    return now


def _aggregates(S, rng):
    """Aggregates around random seeds: the label of each point, and the number of seeds."""
    n = S.shape[0]
    label = np.full(n, -1)
    seeds = np.sort(rng.permutation(n)[: n // RATIO])
    label[seeds] = np.arange(len(seeds))
    row = np.repeat(np.arange(n), np.diff(S.indptr))
    while (label < 0).any():
        weight = np.where(label[S.indices] >= 0, S.data, 0)
        strongest = np.maximum.reduceat(weight, S.indptr[:-1])
        at = np.flatnonzero((weight == strongest[row]) & (weight > 0))
        nearest = np.full(n, -1)
        nearest[row[at]] = S.indices[at]
        free = (label < 0) & (nearest >= 0)
        label[free] = label[nearest[free]]
    return label, len(seeds)
