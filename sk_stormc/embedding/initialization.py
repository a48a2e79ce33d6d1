"""Initialization of an embedding: principal components, eigenvectors of the neighbour
graph, noise, or an array."""

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn import config_context

from sk_stormc.embedding.neighbors.checks import FEATURELESS
from sk_stormc.embedding.neighbors.graph import offsets
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import check_choice, short

# width of the noise in additional dimensions, relative to the first column: without it,
# a map would never leave the dimensions of its start
NOISE_WIDTH = 0.1
# standard deviation of the widest column of an initialization
START_WIDTH = {"gaussian": 3.0, "student-t": 1e-4}


def check_init(init, metric, n_samples, n_components, rescale=True):
    """Check the parameter ``init``, and resolve "auto". ``rescale`` is as for
    `make_start`."""
    if isinstance(init, str) or init is None:
        check_choice("init", init, ("auto", "pca", "spectral", "random"))
        if init == "auto":
            return "spectral" if metric in FEATURELESS else "pca"
        if init == "pca" and metric in FEATURELESS:
            raise ValueError(
                "init must be 'auto', 'spectral', 'random' or an array with "
                f"metric={metric!r}, which has no features; got 'pca'"
            )
        return init
    start = as_numbers("init", init)
    if start.shape != (n_samples, n_components):
        raise ValueError(
            f"init must be an array of shape ({n_samples}, {n_components}), got one of "
            f"shape {start.shape}"
        )
    finite = np.isfinite(start).all(axis=1)
    if not finite.all():
        row = np.argmin(finite)
        raise ValueError(f"init must be finite, got {short(start[row])} in row {row}")
    # the forces of a map contain fourth powers of its width
    if not rescale and np.abs(start).max() > float(np.finfo(np.float32).max) ** 0.25:
        raise ValueError(
            "init must be a map with early_exaggeration=1, which does not rescale it, "
            f"got {np.abs(start).max():.3g}"
        )
    return start


def make_start(init, X, P, n_components, kernel, rng, rescale=True):
    """The initial positions, centred and scaled for the kernel. Without ``rescale`` an
    array keeps its width."""
    size = START_WIDTH[kernel]
    if not isinstance(init, str):
        if not rescale and _varies(init):
            size = init.std(axis=0).max()
        return _scaled(init, size, rng)
    if init == "random":
        return min(size, 1.0) * rng.standard_normal((P.shape[0], n_components))
    if init == "pca":
        return _scaled(_principal(X, n_components, rng), size, rng)
    return _scaled(spectral_coordinates(P, n_components, rng), size, rng)


def _scaled(start, size, rng):
    """Centre the columns, and scale the widest to a standard deviation of ``size``.
    Noise replaces constant columns."""
    if not _varies(start):
        return size * rng.standard_normal(start.shape)
    start = start - start.mean(axis=0)
    # avoids overflow and underflow of the squares
    start /= max(np.abs(start).max(), np.finfo(float).tiny)
    deviation = start.std(axis=0)
    widest = deviation.max()
    start *= size / widest
    flat = deviation < 1e-5 * widest
    noise = rng.standard_normal((len(start), int(flat.sum())))
    start[:, flat] = NOISE_WIDTH * size * noise
    return start


def _varies(X):
    """Whether some column varies by more than rounding errors."""
    precision = np.finfo(np.result_type(X.dtype, np.float32)).eps
    return (X.max(axis=0) - X.min(axis=0)).max() > 10 * precision * abs(X).max()


def _principal(X, n_components, rng):
    from sklearn.decomposition import PCA  # here, because it takes long to import

    n_found = min(n_components, *X.shape)
    if not _varies(X):
        return np.zeros((X.shape[0], n_components))
    if sparse.issparse(X) and n_found == min(X.shape):
        X = X.toarray()  # sparse PCA cannot return all components
    if not sparse.issparse(X):
        # its covariance is computed from products, in which large means would cause
        # cancellation
        X = X - offsets(X)
    # the ratio of explained variance may be undefined, and users may have configured
    # data frames as output
    with np.errstate(invalid="ignore"), config_context(transform_output="default"):
        components = PCA(n_found, random_state=rng).fit_transform(X)
    return np.pad(components.astype(float), ((0, 0), (0, n_components - n_found)))


def spectral_coordinates(P, n_components, rng):
    """Leading nontrivial eigenvectors of the random walk on the neighbour graph, for
    each connected component.

    They correspond to the smallest nonzero eigenvalues of the normalised Laplacian of P
    + P.T. Their width is proportional to the inverse square root of these eigenvalues.
    Each connected component has its own eigenvectors and its own position on a grid.
    """
    S = sparse.csr_array(P, dtype=float)
    S = (S + S.T).tocsr()
    n_parts, part = connected_components(S, directed=False)
    if n_parts == 1:
        return _filled(S, n_components, rng)
    sizes = np.bincount(part)
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(sizes)[:-1])
    largest_first = np.argsort(-sizes, kind="stable")
    rank = np.argsort(largest_first)
    width = (sizes / S.shape[0]) ** (1 / n_components)
    start = rng.standard_normal((S.shape[0], n_components))
    for k in largest_first[:100]:  # the others, which are small, get noise
        rows = members[k]
        if len(rows) > 2:
            start[rows] = _filled(S[rows][:, rows], n_components, rng)
    cells = _grid(n_parts, n_components)[rank[part]]
    return start * width[part][:, None] + 5 * width.max() * cells


def _filled(S, n_components, rng):
    """The leading eigenvectors of a connected graph, scaled to a standard deviation of
    at most 1. Noise is added if a small graph has too few."""
    vectors, values = _leading(S, n_components, rng)
    start = NOISE_WIDTH * rng.standard_normal((len(vectors), n_components))
    wide = (vectors / np.sqrt(np.maximum(1 - values, 1e-12)))[:, :n_components]
    # fix the arbitrary sign: the largest entry is positive
    top = np.take_along_axis(wide, np.abs(wide).argmax(axis=0)[None], axis=0)
    width = max(wide.std(axis=0).max(initial=0), np.finfo(float).tiny)
    start[:, : wide.shape[1]] = wide * np.sign(top) / width
    return start


def _grid(n_cells, d):
    """The coordinates of n_cells cells of a grid in d dimensions with about equal
    sides."""
    side = int(np.ceil(n_cells ** (1 / d) - 1e-9))
    rest, cells = np.arange(n_cells), np.zeros((n_cells, d))
    for column in cells.T:
        rest, column[:] = np.divmod(rest, side)
    return cells


def _leading(S, m, rng):
    """At most m leading nontrivial eigenvectors of a connected graph's random walk, and
    their eigenvalues."""
    n, root = S.shape[0], np.sqrt(S.sum(axis=1))
    A = sparse.diags_array(1 / root) @ S @ sparse.diags_array(1 / root)
    if n <= max(500, 2 * m):  # a dense matrix takes less time, or is necessary
        wanted = max(0, n - 1 - m), n - 1
        values, vectors = linalg.eigh(A.toarray(), subset_by_index=wanted)
    else:
        try:
            values, vectors = eigsh(A, m + 1, which="LA", v0=rng.random_sample(n))
        except ArpackNoConvergence as error:
            # noise replaces the eigenvectors that are missing
            values, vectors = error.eigenvalues, error.eigenvectors
        ascending = np.argsort(values)
        values, vectors = values[ascending], vectors[:, ascending]
    return vectors[:, -2::-1] / root[:, None], values[-2::-1]
