"""A search for neighbours that does not lose them where the data are far from zero."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.neighbors import NearestNeighbors

from sk_stormc.embedding.offsets import grain, offsets
from sk_stormc.utils.validation import is_word

__all__ = ["NeighborSearch"]

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean", "minkowski")  # minkowski with p = 2 becomes euclidean
MANY = 10_000  # points above which "auto" is approximate
FEW_FEATURES = 5  # up to so many a tree is quick
PRODUCTS = ("euclidean", "l2", "sqeuclidean")  # what comes from products, as effective_metric_ names it
RESOLVED = 1e-6  # rounding of a squared distance to the farthest neighbour that changes hardly any neighbour


class NeighborSearch(NearestNeighbors):
    """scikit-learn's search on a copy of the data, of dense ones with what is near their middle at zero.

    scikit-learn takes Euclidean distances from |x|^2 + |y|^2 - 2 x.y. That is quick, but loses what is small beside
    |x|. So an offset is taken off first, the same of all samples. Where samples lie far apart that does not do, and
    the neighbours of those that it does not do for are found by a tree, which takes differences.

    Parameters
    ----------
    n_neighbors, metric, p, metric_params, n_jobs
        Of `sklearn.neighbors.NearestNeighbors`.
    neighbors : {"exact", "approximate", "auto"}, default="exact"
        How the neighbours of the data among themselves are found. "auto" is "approximate" for many.

    Attributes
    ----------
    offset_ : ndarray of shape (n_features,), or None
        What is taken off; None where the metric has no such distances.
    grain_ : float
        What rounding to the data's own type may have changed a squared distance by.
    """

    def __init__(self, *, n_neighbors=5, metric="euclidean", p=2, metric_params=None, n_jobs=None, neighbors="exact"):
        super().__init__(n_neighbors=n_neighbors, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs)
        self.neighbors = neighbors

    def fit(self, X, y=None):
        """Keep a copy of the data, without their offset."""
        dense = is_word(self.metric, *EUCLIDEAN)
        dense = dense and not sparse.issparse(X)
        self.offset_ = offsets(X) if dense else None
        self.grain_ = grain(X) if dense else 0.0
        self._tree = None
        return super().fit(self.moved(X) if dense else X if self.metric == "precomputed" else X.copy())

    def moved(self, X):
        """X, with the same offset taken off as from the data of `fit`."""
        return X if self.offset_ is None else X - self.offset_

    def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
        """Distances and indices of the nearest neighbours, as scikit-learn's method gives them."""
        found = self._nearest(None if X is None else self.moved(X), n_neighbors or self.n_neighbors)
        return found if return_distance else found[1]

    def radius_neighbors(self, X=None, *args, **kwargs):
        """Neighbours within a radius, as scikit-learn's method gives them."""
        return super().radius_neighbors(None if X is None else self.moved(X), *args, **kwargs)

    def neighbors_of(self, rows):
        """Distances and indices of the neighbours of a few of the data, themselves left out."""
        return without_own(*self._nearest(self._fit_X[rows], self.n_neighbors + 1), rows)

    def may_be_approximate(self):
        """Whether the neighbours of these data can be found in cells: dense ones with Euclidean or cosine distances."""
        return (self.offset_ is not None or self.metric == "cosine" and not sparse.issparse(self._fit_X)) and (
            self.effective_metric_ in (*PRODUCTS, "cosine")
        )

    def is_approximate(self):
        """Whether they are to be found so."""
        tree = self._fit_method == "kd_tree" and self.n_features_in_ <= FEW_FEATURES
        automatic = self.neighbors == "auto" and self.n_samples_fit_ > MANY and not tree
        return self.may_be_approximate() and (automatic or self.neighbors == "approximate")

    def _nearest(self, X, k):
        """The k nearest of moved samples; None are the data themselves, each without itself."""
        with warnings.catch_warnings():
            if _is_binary(self._fit_X if X is None else X):  # metrics of yes and no take 0 and 1 as they are
                warnings.simplefilter("ignore", DataConversionWarning)
            distances, neighbors = super().kneighbors(X, k)
        by_products = self.offset_ is not None and self._fit_method == "brute"
        if by_products and self.effective_metric_ in PRODUCTS:
            self._resolve(X, distances, neighbors)
        return distances, neighbors

    def _resolve(self, X, distances, neighbors):
        """Correct the rows whose squared distances are not large beside their rounding."""
        samples = self._fit_X if X is None else X
        squared = self.effective_metric_ == "sqeuclidean"
        square = distances[:, -1] if squared else np.square(distances[:, -1])
        size = np.einsum("ij,ij->i", samples, samples, dtype=float) + square
        rows = np.flatnonzero(4 * np.finfo(float).eps * size > RESOLVED * square)
        copies = np.array([(self._fit_X[neighbors[i]] == samples[i]).all() for i in rows], dtype=bool)
        distances[rows[copies]] = 0
        rows = rows[~copies]
        if not len(rows):
            return
        if self._tree is None:
            self._tree = NearestNeighbors(algorithm="kd_tree", n_jobs=self.n_jobs).fit(self._fit_X)
        k = distances.shape[1]
        if X is None:
            found = without_own(*self._tree.kneighbors(samples[rows], k + 1), rows)
        else:
            found = self._tree.kneighbors(samples[rows], k)
        distances[rows], neighbors[rows] = np.square(found[0]) if squared else found[0], found[1]


def _is_binary(X):
    """Whether there are no other numbers than 0 and 1."""
    values = X.data if sparse.issparse(X) else X
    return bool((values[:1] <= 1).all() and ((values == 0) | (values == 1)).all())


def without_own(distances, neighbors, rows):
    """Neighbours of some of the data without themselves, of which there is one more than is wanted."""
    other = neighbors != rows[:, None]
    other[other.all(axis=1), -1] = False  # copies of the point may have taken its place
    k = neighbors.shape[1] - 1
    return distances[other].reshape(-1, k), neighbors[other].reshape(-1, k)
