"""A map by several measures, since one that is better by one of them may be worse by what that one does not see.

Recall, trustworthiness and the correlation of distances are of a sample of points; the labels' measures are of all.
"""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import spearmanr
from sklearn.metrics import pairwise_distances, silhouette_score
from sklearn.neighbors import NearestNeighbors

from benchmarks._sne_quality import divergence, trustworthiness

SAMPLED = 3000  # points that are looked at, where there are more
DEPTHS = (10, 30, 100, 500)  # of recall
PAIRS = 200_000  # whose distances are correlated
NEAR = 10  # neighbours in the map, of labels
BLOCK = 500  # points whose distances to all others are taken together
LEAST = 10  # points of a piece, at least
OF_LABELS = "accuracy", "silhouette", "pieces", "all pieces", "class radius"
MEASURES = ("kl", "t5", *(f"recall {k}" for k in DEPTHS), *OF_LABELS, "rank correlation")


def panel(X, y, P, Z, seed=0):
    """All measures of a map.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
    y : ndarray of int of shape (n_points,)
        Labels, from 0.
    P : sparse array of shape (n_points, n_points)
        Conditional probabilities, the same for all maps that are compared.
    Z : ndarray of shape (n_points, d)
    seed : int, default=0
        Of the sample, the same for all maps that are compared.

    Returns
    -------
    dict
        By the names of `MEASURES`. "pieces" counts the pieces of labels (`pieces`) that have at least n / 500 points,
        and "all pieces" those that have at least ten. Of these and of "kl" less is better, and of all others more.
        "class radius" (`class_radius`) shows clusters that have become dots.
    """
    n, rng = len(X), np.random.default_rng(seed)
    chosen = np.sort(rng.choice(n, min(SAMPLED, n), replace=False))
    near = NearestNeighbors(n_neighbors=NEAR).fit(Z).kneighbors(return_distance=False)
    same = y[near] == y[:, None]
    votes = np.zeros((n, y.max() + 1), dtype=np.int32)
    np.add.at(votes, (np.arange(n)[:, None], y[near]), 1)
    recalls = recall(X, Z, chosen)
    a, b = rng.integers(n, size=(2, PAIRS))
    apart = [np.sqrt(np.square(V[a] - V[b]).sum(axis=1)) for V in (X, Z)]
    return {
        "kl": divergence(P, Z),
        "t5": trustworthiness(X, Z),
        **{f"recall {k}": value for k, value in recalls.items()},
        "accuracy": float(np.mean(votes.argmax(axis=1) == y)),
        "silhouette": float(silhouette_score(Z[chosen], y[chosen])),
        "pieces": pieces(near, same, max(LEAST, n // 500)),
        "all pieces": pieces(near, same),
        "class radius": class_radius(Z, y),
        "rank correlation": float(spearmanr(*apart).statistic),
    }


def recall(X, Z, chosen):
    """Share of the k nearest points of the data that are among the k nearest in the map, by k; of the chosen points."""
    depths = [k for k in DEPTHS if k < len(X) // 2]
    found = dict.fromkeys(depths, 0)
    for rows in np.array_split(chosen, -(-len(chosen) // BLOCK)):
        orders = []
        for V in (X, Z):
            D = pairwise_distances(V[rows], V)
            D[np.arange(len(rows)), rows] = np.inf
            first = np.argpartition(D, depths[-1], axis=1)[:, : depths[-1]]
            order = np.take_along_axis(D, first, axis=1).argsort(axis=1)
            orders.append(np.take_along_axis(first, order, axis=1))
        for k in depths:
            for one, other in zip(*orders, strict=True):
                found[k] += len(np.intersect1d(one[:k], other[:k], assume_unique=True))
    return {k: found[k] / (k * len(chosen)) for k in depths}


def class_radius(Z, y):
    """Median distance of a point to the mean of its class, over that of all points to the mean of the map."""
    apart = np.empty(len(Z))
    for label in np.unique(y):
        apart[y == label] = np.linalg.norm(Z[y == label] - Z[y == label].mean(axis=0), axis=1)
    return float(np.median(apart) / np.median(np.linalg.norm(Z - Z.mean(axis=0), axis=1)))


def pieces(near, same, least=LEAST):
    """Pieces of labels: groups of at least ``least`` points that neighbours of the same label connect.

    A label that lies in one place is one piece, and one that is torn apart is several.
    """
    n = len(near)
    rows = np.repeat(np.arange(n), near.shape[1])[same.ravel()]
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, near[same])), shape=(n, n))
    _, group = connected_components(graph, directed=False)
    return int(np.sum(np.bincount(group) >= least))
