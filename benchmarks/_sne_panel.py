"""A map by several measures, since one that is better by one of them may be worse by
what that one does not see.

Recall, trustworthiness and the correlation of distances are of a sample of points; the
labels' measures are of all.
"""

import numpy as np
from scipy.sparse import coo_array, find
from scipy.sparse.csgraph import connected_components
from scipy.stats import spearmanr
from sklearn.metrics import euclidean_distances, pairwise_distances, silhouette_score
from sklearn.neighbors import NearestNeighbors

SAMPLED = 3000  # points that are looked at, where there are more
DEPTHS = (10, 30, 100, 500)  # of recall
PAIRS = 200_000  # whose distances are correlated
NEAR = 10  # neighbours in the map, of labels
LEAST = 10  # points of a piece, at least
OF_LABELS = "accuracy", "silhouette", "pieces", "all pieces", "class radius"
MEASURES = (
    "kl",
    "t5",
    *(f"recall {k}" for k in DEPTHS),
    *OF_LABELS,
    "rank correlation",
)
K = 5  # of trustworthiness
ALL, FEW = 6000, 1000  # above so many points trustworthiness is of a sample of so many
BLOCK = 2**22  # pairs looked at together


def panel(X, y, P, Z, kernel="student-t"):
    """All measures of a map, by the names of `MEASURES`; P has conditional
    probabilities, the same for all maps.

    "pieces" counts the pieces of labels that have at least n / 500 points, and "all
    pieces" those that have at least ten. Of these and of "kl" less is better, and of
    all others more. "class radius" shows clusters that have become dots.
    """
    n, rng = len(X), np.random.default_rng(0)
    chosen = np.sort(rng.choice(n, min(SAMPLED, n), replace=False))
    near = NearestNeighbors(n_neighbors=NEAR).fit(Z).kneighbors(return_distance=False)
    same = y[near] == y[:, None]
    votes = np.zeros((n, y.max() + 1), dtype=np.int32)
    np.add.at(votes, (np.arange(n)[:, None], y[near]), 1)
    recalls = recall(X, Z, chosen)
    a, b = rng.integers(n, size=(2, PAIRS))
    apart = [np.sqrt(np.square(V[a] - V[b]).sum(axis=1)) for V in (X, Z)]
    return {
        "kl": divergence(P, Z, kernel),
        "t5": trustworthiness(X, Z),
        **{f"recall {k}": value for k, value in recalls.items()},
        "accuracy": float(np.mean(votes.argmax(axis=1) == y)),
        "silhouette": float(silhouette_score(Z[chosen], y[chosen])),
        "pieces": pieces(near, same, max(LEAST, n // 500)),
        "all pieces": pieces(near, same),
        "class radius": class_radius(Z, y),
        "rank correlation": float(spearmanr(*apart).statistic),
    }


def divergence(P, Z, kernel="student-t"):
    """KL(P || Q) over all pairs: of the joint probabilities, or for "gaussian" the mean
    over the points."""
    n, Z = P.shape[0], np.asarray(Z, float)
    i, j, p = find(P if kernel == "gaussian" else (P + P.T) / (2 * n))
    squares, sums = np.square(Z[i] - Z[j]).sum(axis=1), normalisers(Z, kernel)
    if kernel == "gaussian":
        tiny = np.finfo(float).tiny
        return (
            float(p @ (np.log(p) + squares) + np.log(np.maximum(sums, tiny)).sum()) / n
        )
    return float(p @ (np.log(p) + np.log1p(squares)) + np.log(sums.sum()))


def normalisers(Z, kernel):
    """sum_j k(|z_i - z_j|^2) over the other points, for each point."""
    sums = np.empty(len(Z))
    for rows in blocks(np.arange(len(Z)), len(Z)):
        D = euclidean_distances(Z[rows], Z, squared=True)
        k = np.exp(-D) if kernel == "gaussian" else 1 / (1 + D)
        k[np.arange(len(rows)), rows] = 0
        sums[rows] = k.sum(axis=1)
    return sums


def blocks(rows, n):
    """Parts of some rows, whose pairs with n others are looked at together."""
    return np.array_split(rows, -(-len(rows) * n // BLOCK))


def trustworthiness(X, Z, new=None):
    """scikit-learn's with 5 neighbours, its outer mean over a sample where the points
    are many.

    Of ``new``, other samples and their places, the neighbours among X and Z are looked
    at.
    """
    n = len(X)
    search = NearestNeighbors(n_neighbors=K + (new is None)).fit(Z)
    if new is None:
        chosen = (
            np.arange(n)
            if n <= ALL
            else np.random.default_rng(0).choice(n, FEW, replace=False)
        )
        near = search.kneighbors(Z[chosen], return_distance=False)
        itself = near == chosen[:, None]
        itself[~itself.any(axis=1), -1] = True  # hidden by others at its place
        near, samples = near[~itself].reshape(-1, K), X[chosen]
    else:
        samples, near = new[0], search.kneighbors(new[1], return_distance=False)
        n += 1
    total = 0
    for rows in blocks(np.arange(len(near)), n):
        D = pairwise_distances(samples[rows], X)
        if new is None:
            D[np.arange(len(rows)), chosen[rows]] = np.inf
        for column in near[rows].T:
            rank = 1 + (np.take_along_axis(D, column[:, None], axis=1) > D).sum(axis=1)
            total += np.maximum(rank - K, 0).sum()
    return 1 - total * 2 / (len(near) * K * (2 * n - 3 * K - 1))


def recall(X, Z, chosen):
    """Share of the k nearest points of the data that are among the k nearest in the
    map, by k; of the chosen points."""
    depths = [k for k in DEPTHS if k < len(X) // 2]
    found = dict.fromkeys(depths, 0)
    for rows in blocks(chosen, len(X)):
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
    """Median distance of a point to the mean of its class, over that of all points to
    the mean of the map."""
    apart = np.empty(len(Z))
    for label in np.unique(y):
        apart[y == label] = np.linalg.norm(
            Z[y == label] - Z[y == label].mean(axis=0), axis=1
        )
    return float(
        np.median(apart) / np.median(np.linalg.norm(Z - Z.mean(axis=0), axis=1))
    )


def pieces(near, same, least=LEAST):
    """Pieces of labels: groups of at least ``least`` points that neighbours of the same
    label connect.

    A label that lies in one place is one piece, and one that is torn apart is several.
    """
    n = len(near)
    rows = np.repeat(np.arange(n), near.shape[1])[same.ravel()]
    graph = coo_array(
        (np.ones(len(rows), dtype=np.int8), (rows, near[same])), shape=(n, n)
    )
    _, group = connected_components(graph, directed=False)
    return int(np.sum(np.bincount(group) >= least))
