"""How good a map is: the exact KL on a common P, trustworthiness, labels."""

from functools import cached_property

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.reproduce.sne import label_accuracy

K = 5  # of trustworthiness
ALL, SAMPLED = 6000, 1000  # above so many points trustworthiness is of a sample of so many
BLOCK = 2**22  # pairs looked at together
LONGEST = 4000  # rows of a block


class Judge:
    """Measures of maps of one data set.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
    y : ndarray of int of shape (n_points,)
    """

    def __init__(self, X, y):
        self.X, self.y = X, y

    @cached_property
    def P(self):
        """Conditional probabilities at perplexity 30 over 91 neighbours, the same for all methods."""
        return perplexity_affinities(self.X, 30.0)

    def kl(self, Z, kernel="student-t"):
        """KL(P || Q), its normalisers over all pairs in float64."""
        return divergence(self.P, Z, kernel)

    def measures(self, Z, kernel="student-t"):
        """KL, trustworthiness and the label accuracy of 10 neighbours."""
        return {"kl": self.kl(Z, kernel), "t5": trustworthiness(self.X, Z), "accuracy": label_accuracy(Z, self.y)}


def divergence(P, Z, kernel="student-t"):
    """KL of an embedding: of the joint probabilities, or for "gaussian" the mean over the points.

    Parameters
    ----------
    P : sparse array of shape (n_points, n_points)
        Conditional probabilities.
    Z : ndarray of shape (n_points, d)
    kernel : {"gaussian", "student-t"}, default="student-t"

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from benchmarks._sne_quality import divergence
    >>> triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
    >>> P = sparse.csr_array((np.ones((3, 3)) - np.eye(3)) / 2)
    >>> abs(round(divergence(P, triangle), 12)), abs(round(divergence(P, triangle, "gaussian"), 12))
    (0.0, 0.0)
    """
    n, Z = P.shape[0], np.asarray(Z, float)
    joint = P if kernel == "gaussian" else (P + P.T) / (2 * n)
    joint = joint.tocoo()
    i, j, p = joint.row[joint.data > 0], joint.col[joint.data > 0], joint.data[joint.data > 0]
    squares = np.zeros(len(p))
    for column in Z.T:
        squares += np.square(column[i] - column[j])
    sums = normalisers(Z, kernel)
    if kernel == "gaussian":
        tiny = np.finfo(float).tiny
        return float(p @ (np.log(p) + squares) + np.log(np.maximum(sums, tiny)).sum()) / n
    return float(p @ (np.log(p) + np.log1p(squares)) + np.log(sums.sum()))


def normalisers(Z, kernel):
    """sum_j k(|z_i - z_j|^2) over the other points, for each point; each pair is looked at once."""
    n = len(Z)
    sums, length = np.zeros(n), np.square(Z).sum(axis=1)
    height = min(LONGEST, max(1, BLOCK // n))
    for first in range(0, n, height):
        rows = slice(first, first + height)
        D = Z[rows] @ Z[first:].T
        D *= -2
        D += length[rows, None]
        D += length[first:]
        np.maximum(D, 0, out=D)
        if kernel == "gaussian":
            np.negative(D, out=D)
            np.exp(D, out=D)
        else:
            D += 1
            np.reciprocal(D, out=D)
        np.fill_diagonal(D, 0)
        sums[rows] += D.sum(axis=1)
        sums[first + height :] += D[:, height:].sum(axis=0)
    return sums


def trustworthiness(X, Z, new=None):
    """scikit-learn's with 5 neighbours, its outer mean over a sample where the points are many.

    Parameters
    ----------
    X, Z : ndarray of shape (n_points, ...)
        Data and map.
    new : tuple of two ndarray, default=None
        Other samples and their places, which are then looked at in place of X and Z, among these.
    """
    n = len(X)
    search = NearestNeighbors(n_neighbors=K + (new is None)).fit(Z)
    if new is None:
        chosen = np.arange(n) if n <= ALL else np.random.default_rng(0).choice(n, SAMPLED, replace=False)
        near = search.kneighbors(Z[chosen], return_distance=False)
        itself = near == chosen[:, None]
        itself[~itself.any(axis=1), -1] = True  # hidden by others at its place
        near, samples = near[~itself].reshape(-1, K), X[chosen]
    else:
        samples, near = new[0], search.kneighbors(new[1], return_distance=False)
        n += 1
    total = 0
    for rows in np.array_split(np.arange(len(near)), -(-len(near) * n // BLOCK)):
        D = pairwise_distances(samples[rows], X)
        if new is None:
            D[np.arange(len(rows)), chosen[rows]] = np.inf
        for column in near[rows].T:
            rank = 1 + (np.take_along_axis(D, column[:, None], axis=1) > D).sum(axis=1)
            total += np.maximum(rank - K, 0).sum()
    return 1 - total * 2 / (len(near) * K * (2 * n - 3 * K - 1))
