"""How good a map is: the exact KL on a common P, trustworthiness, labels; and the data of sne_vs_tsne."""

from functools import cached_property

import numpy as np
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_augmented_digits
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


def data(name, n, seed):
    """Points and integer labels of a data set: digits, augmented digits and three shapes."""
    rng = np.random.default_rng(seed)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:n], y[:n]
    if name == "augmented digits":
        return make_augmented_digits(n, random_state=seed)
    if name == "swiss roll":
        X, along = make_swiss_roll(n, random_state=seed)
        return X, (2 * along).astype(int)
    if name == "ten far clusters":  # so far that the neighbour graph falls apart
        centres, y = 100 * rng.standard_normal((10, 20)), np.arange(n) % 10
    else:  # six clusters of 2000, 1000, 500, 300, 150 and 50 of 4000 points
        shares = np.array([0, 2000, 3000, 3500, 3800, 3950]) / 4000
        centres, y = 6 * rng.standard_normal((6, 10)), np.searchsorted(shares * n, np.arange(n), side="right") - 1
    return centres[y] + rng.standard_normal((n, centres.shape[1])), y


def rolls_and_knots(n, seed=0):
    """Points near surfaces, curves and centres in three dimensions, in random order.

    Three swiss rolls of different sizes and noise (a quarter of the points each), a tube along a trefoil knot (three
    twentieths) and ten Gaussian clusters (a tenth).

    Returns
    -------
    X : ndarray of shape (n, 3)
    y : ndarray of float of shape (n,)
        In [k, k + 1) for the points of part k: where they are along a roll or the knot, and the cluster's number / 10.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array([n // 4] * 3 + [3 * n // 20])
    parts = []
    for k, (size, width) in enumerate(zip(sizes[:3], (1.0, 2.0, 0.7), strict=True)):
        X, t = make_swiss_roll(size, noise=0.1 * k, random_state=seed + k)
        parts.append((width * X + [60.0 * k, 0, 0], k + (t - t.min()) / (1.001 * np.ptp(t))))
    t = rng.random(sizes[3])
    a = 2 * np.pi * t
    knot = np.column_stack([np.sin(a) + 2 * np.sin(2 * a), np.cos(a) - 2 * np.cos(2 * a), -np.sin(3 * a)])
    parts.append((10 * knot + [0, 0, 60.0] + 0.5 * rng.standard_normal(knot.shape), 3 + t))
    cluster = rng.integers(10, size=n - sizes.sum())
    centres = 30 * rng.standard_normal((10, 3)) + [0, 100.0, 0]
    parts.append((centres[cluster] + rng.standard_normal((len(cluster), 3)), 4 + cluster / 10))
    X, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = rng.permutation(n)
    return X[order], y[order]
