"""A nearest-neighbour search that is accurate for data far from zero."""

import warnings
from contextlib import nullcontext

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.neighbors import NearestNeighbors

from sk_stormc.embedding.neighbors.graph import grain, offsets
from sk_stormc.utils.machine import BLOCK_BYTES
from sk_stormc.utils.parameters import is_word

# "minkowski" with p = 2 becomes "euclidean"
EUCLIDEAN = ("euclidean", "l2", "sqeuclidean", "minkowski")
MAX_EXACT_SEARCH = 10_000  # number of points above which "auto" is approximate
# values of effective_metric_ for which scikit-learn uses products
PRODUCTS = ("euclidean", "l2", "sqeuclidean")


class NeighborSearch(NearestNeighbors):
    """scikit-learn's search on a copy of the data, centred near zero if they are dense
    and Euclidean.

    scikit-learn computes Euclidean distances from |x|^2 + |y|^2 - 2 x.y. This is fast,
    but suffers from cancellation if distances are small compared with |x|. Therefore a
    common offset is subtracted from all samples. If the samples are far apart, this is
    not sufficient for some of them. Their neighbours are found by a tree, which uses
    differences.

    Parameters
    ----------
    n_neighbors, metric, p, metric_params, n_jobs
        As in `sklearn.neighbors.NearestNeighbors`.
    neighbors : {"exact", "approximate", "auto"}, default="exact"
        Method of finding the neighbours of the data among themselves. "auto" is
        "approximate" for many points.

    Attributes
    ----------
    offset_ : ndarray of shape (n_features,), or None
        The offset that is subtracted. None for data or metrics that do not need it.
    grain_ : float
        Estimated rounding error of squared distances in the dtype of the data.
    """

    def __init__(
        self,
        *,
        n_neighbors=5,
        metric="euclidean",
        p=2,
        metric_params=None,
        n_jobs=None,
        neighbors="exact",
    ):
        super().__init__(
            n_neighbors=n_neighbors,
            metric=metric,
            p=p,
            metric_params=metric_params,
            n_jobs=n_jobs,
        )
        self.neighbors = neighbors

    def fit(self, X, y=None):
        """Store a copy of the data, without their offset."""
        self.offset_, self.grain_, self._tree = None, 0.0, None
        if is_word(self.metric, *EUCLIDEAN) and not sparse.issparse(X):
            self.offset_, self.grain_ = offsets(X), grain(X)
            return super().fit(self.moved(X))
        return super().fit(X if self.metric == "precomputed" else X.copy())

    def moved(self, X):
        """X without the offset of the data of `fit`. None stays None."""
        return X if X is None or self.offset_ is None else X - self.offset_

    def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
        """Distances and indices of the nearest neighbours, in the form of
        scikit-learn's method."""
        nearest = self._nearest(self.moved(X), n_neighbors or self.n_neighbors)
        return nearest if return_distance else nearest[1]

    def radius_neighbors(self, X=None, *args, **kwargs):
        """Neighbours within a radius, in the form of scikit-learn's method."""
        return super().radius_neighbors(self.moved(X), *args, **kwargs)

    def neighbors_of(self, rows):
        """Distances and indices of the neighbours of some rows of the data, without the
        rows themselves."""
        return without_own(
            *self._nearest(self._fit_X[rows], self.n_neighbors + 1), rows
        )

    def to_nearest_unlike(self):
        """Distances of some rows of the data to the nearest row that differs, or 0 if
        none was found."""
        n = self.n_samples_fit_
        count = max(1, min(n, 100, BLOCK_BYTES // (8 * n)))
        rows = np.linspace(0, n - 1, count).astype(int)
        if self.metric == "precomputed" and sparse.issparse(self._fit_X):
            D = self._fit_X[rows].toarray()
        else:
            D = self._nearest(self._fit_X[rows], n)[0]
        nearest = np.where(D > 0, D, np.inf).min(axis=1)
        return np.where(np.isfinite(nearest), nearest, 0.0)

    def may_be_approximate(self):
        """Whether the approximate search supports the data: dense, with Euclidean or
        cosine distances."""
        if self.effective_metric_ == "cosine":
            return not sparse.issparse(self._fit_X)
        return self.offset_ is not None and self.is_euclidean

    def is_approximate(self):
        """Whether the approximate search is used."""
        # a tree is fast for few features
        tree = self._fit_method == "kd_tree" and self.n_features_in_ <= 5
        many = self.n_samples_fit_ > MAX_EXACT_SEARCH
        automatic = self.neighbors == "auto" and many and not tree
        wanted = automatic or self.neighbors == "approximate"
        return wanted and self.may_be_approximate()

    @property
    def is_euclidean(self):
        """Whether distances are Euclidean, or their squares."""
        return self.effective_metric_ in PRODUCTS

    def _nearest(self, X, k):
        """The k nearest neighbours of centred samples. None means the data themselves,
        each without itself."""
        binary = not self.is_euclidean and _is_binary(self._fit_X if X is None else X)
        # boolean metrics use 0 and 1 unchanged
        quiet = {"action": "ignore", "category": DataConversionWarning}
        # products of parts of the rows would have other rounding errors
        serial = self.effective_metric_ == "cosine"
        with (
            warnings.catch_warnings(**quiet) if binary else nullcontext(),
            parallel_config(backend="sequential") if serial else nullcontext(),
        ):
            distances, neighbors = super().kneighbors(X, k)
        by_products = self.offset_ is not None and self._fit_method == "brute"
        if by_products and self.is_euclidean:
            self._resolve(X, distances, neighbors)
        return distances, neighbors

    def _resolve(self, X, distances, neighbors):
        """Correct the rows whose squared distances are small compared with their
        rounding error."""
        samples = self._fit_X if X is None else X
        squared = self.effective_metric_ == "sqeuclidean"
        square = distances[:, -1] if squared else np.square(distances[:, -1])
        size = np.einsum("ij,ij->i", samples, samples, dtype=float) + square
        # a relative rounding error of 1e-6 is accepted
        rows = np.flatnonzero(4 * np.finfo(float).eps * size > 1e-6 * square)
        if not len(rows):
            return
        copies = np.array(
            [(self._fit_X[neighbors[i]] == samples[i]).all() for i in rows], dtype=bool
        )
        distances[rows[copies]] = 0
        rows = rows[~copies]
        if not len(rows):
            return
        if self._tree is None:
            tree = NearestNeighbors(algorithm="kd_tree", n_jobs=self.n_jobs)
            self._tree = tree.fit(self._fit_X)
        k = distances.shape[1] + (X is None)
        nearest = self._tree.kneighbors(samples[rows], k)
        exact, neighbors[rows] = without_own(*nearest, rows) if X is None else nearest
        distances[rows] = np.square(exact) if squared else exact


def _is_binary(X):
    """Whether all numbers are 0 or 1."""
    values = X.data if sparse.issparse(X) else X
    return bool((values[:1] <= 1).all() and ((values == 0) | (values == 1)).all())


def without_own(distances, neighbors, rows):
    """Remove each row itself from its k + 1 neighbours."""
    other = neighbors != rows[:, None]
    # if the row is replaced by copies, remove the farthest neighbour
    other[other.all(axis=1), -1] = False
    return tuple(a[other].reshape(len(rows), -1) for a in (distances, neighbors))
