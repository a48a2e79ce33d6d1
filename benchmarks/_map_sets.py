"""Odd data for maps: structureless and regular data, tables and metrics as users bring them, and very few points."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

from sk_stormc.datasets import make_augmented_digits

SEED = 61


@dataclass(frozen=True)
class Case:
    """A data set with the parameters of its map.

    Attributes
    ----------
    group, data : str
    make : callable
        Returns the data of n points, from n and a random number generator.
    n : int
    perplexity : float
    metric : str
    true : tuple of str
        Phrases of warnings and errors that are true of these data.
    """

    group: str
    data: str
    make: Callable
    n: int
    perplexity: float = 30.0
    metric: str = "euclidean"
    true: tuple[str, ...] = ()

    @property
    def name(self):
        return f"{self.data}, {self.n:,} points, perplexity {self.perplexity:g}"

    def points(self, quick):
        """The data, of few points in a quick run."""
        return self.make(min(self.n, 100) if quick else self.n, np.random.default_rng(SEED))


# Data without structure


def fingerprints(n, rng):
    """Bits that are set with a probability of their own."""
    return (rng.random((n, 200)) < rng.beta(1, 6, 200)).astype(float)


def shuffled(n, rng):
    """Augmented digits, each pixel permuted over all points."""
    return np.stack([rng.permutation(column) for column in make_augmented_digits(n, random_state=SEED)[0].T], axis=1)


def weak_clusters(n, rng, kinds=8, d=50):
    """Clusters that overlap."""
    return rng.normal(size=(n, d)) + rng.normal(0, 0.35, (kinds, d))[rng.integers(0, kinds, n)]


NOISE = {
    "binary noise": lambda n, rng: rng.integers(0, 2, (n, 100)).astype(float),
    "normal noise": lambda n, rng: rng.normal(size=(n, 30)),
    "fingerprints": fingerprints,
    "shuffled columns": shuffled,
    "weak clusters": weak_clusters,
}

# Curves, surfaces and trees


def grid(n, rng):
    """A square grid."""
    side = np.arange(int(np.sqrt(n)), dtype=float)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def walks(n, rng):
    """Ten random walks in 20 dimensions."""
    return np.concatenate([rng.normal(size=(n // 10, 20)).cumsum(axis=0) for _ in range(10)])


def torus(n, rng):
    """A torus with radii 3 and 1."""
    a, b = 2 * np.pi * rng.random((2, n))
    return np.stack([(3 + np.cos(a)) * np.cos(b), (3 + np.cos(a)) * np.sin(b), np.sin(a)], axis=1)


def moebius(n, rng):
    """A Moebius strip."""
    a, across = 2 * np.pi * rng.random(n), rng.uniform(-0.4, 0.4, n)
    radius = 1 + across * np.cos(a / 2)
    return np.stack([radius * np.cos(a), radius * np.sin(a), across * np.sin(a / 2)], axis=1)


def branches(n, rng):
    """A binary tree of 15 straight branches in 15 dimensions, one for each branch."""
    branch, X = np.arange(n) % 15, np.zeros((n, 15))
    X[np.arange(n), branch] = rng.random(n)
    while branch.any():
        inner = branch > 0
        branch = np.where(inner, (branch - 1) // 2, 0)
        X[inner, branch[inner]] = 1
    return X + 0.01 * rng.normal(size=X.shape)


SHAPES = {
    "line": lambda n, rng: np.arange(n)[:, None] * np.array([1.0, 2.0, -1.0]),
    "grid": grid,
    "circle": lambda n, rng: np.exp(2j * np.pi * rng.random(n)).view(float).reshape(-1, 2),
    "random walks": walks,
    "torus": torus,
    "Moebius strip": moebius,
    "tree": branches,
}

# Tables


def blobs(n, rng, kinds=6, d=10, apart=6):
    """Clusters of equal size."""
    return rng.normal(size=(n, d)) + rng.normal(0, apart / np.sqrt(2), (kinds, d))[np.arange(n) % kinds]


def some_of(places, n, rng):
    """Rows that are drawn from others with replacement."""
    return places[rng.integers(0, len(places), n)]


def answers(n, rng):
    """Answers from 1 to 5 to twelve questions of three traits."""
    traits = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 12)) + rng.normal(size=(n, 12))
    return np.clip(np.round(3 + 0.7 * traits), 1, 5)


def categories(n, rng, metric="hamming"):
    """Eight categories of six clusters as numbers, with a third of them at random."""
    values = rng.integers(0, 5, (6, 8))[np.arange(n) % 6]
    return np.where(rng.random(values.shape) < 1 / 3, rng.integers(0, 5, values.shape), values).astype(float)


def one_hot(n, rng):
    """The same categories, a column for each of them."""
    return (categories(n, rng)[:, :, None] == np.arange(5)).reshape(n, -1).astype(float)


def with_outlier(n, rng):
    """Clusters and a point at 1e6."""
    X = blobs(n, rng)
    X[n // 2] = 1e6
    return X


def sized(n, rng, sizes):
    """Clusters of the given shares of the points, in 10 dimensions."""
    cluster = np.searchsorted(np.cumsum(sizes) / np.sum(sizes), (np.arange(n) + 0.5) / n)
    return rng.normal(size=(n, 10)) + rng.normal(0, 5, (len(sizes), 10))[cluster]


def windows(n, rng):
    """Windows of 50 steps of two sine waves with noise."""
    t = np.arange(n + 49)
    series = np.sin(t / 15) + 0.5 * np.sin(t / 47) + 0.1 * rng.normal(size=len(t))
    return np.lib.stride_tricks.sliding_window_view(series, 50).copy()


def sphere_with_centre(n, rng):
    """A sphere in five dimensions, and a cluster in its middle."""
    X = rng.normal(size=(n, 5))
    outer = np.arange(n) < 2 * n // 3
    X[outer] *= 10 / np.linalg.norm(X[outer], axis=1, keepdims=True)
    return X


def iris_and_time(n, rng):
    """Iris as a data frame, with a unix time."""
    import pandas as pd

    frame = load_iris(as_frame=True).data.iloc[:n]
    return frame.assign(time=pd.Timestamp("2026-01-01").timestamp() + 3600.0 * rng.permutation(len(frame)))


def iris_and_dates(n, rng):
    """Iris as a data frame, with dates as strings."""
    import pandas as pd

    frame = load_iris(as_frame=True).data.iloc[:n]
    return frame.assign(day=pd.date_range("2026-01-01", periods=len(frame)).strftime("%d.%m.%Y"))


def with_one(X, value):
    """The same numbers, one of them replaced."""
    X[len(X) // 2, 1] = value
    return X


COPIES, CHANCE, LOWERED = "do not differ", "chance", "is too large for data"
TABLES = [  # data, points, true phrases
    ("copies of 40 rows", lambda n, rng: some_of(blobs(40, rng), n, rng), 1000),
    ("copies of 3 rows", lambda n, rng: some_of(blobs(3, rng, 3), n, rng), 300, CHANCE),
    ("each row twice", lambda n, rng: np.repeat(blobs(n // 2, rng), 2, axis=0), 1000),
    ("equal rows", lambda n, rng: np.full((n, 5), 2.5), 300, CHANCE),
    ("answers from 1 to 5", answers, 1000),
    ("integers from 0 to 9 in two columns", lambda n, rng: rng.integers(0, 10, (n, 2)).astype(float), 1000),
    ("corners of a cube", lambda n, rng: (np.arange(n)[:, None] >> np.arange(10) & 1).astype(float), 1024),
    ("one-hot rows", lambda n, rng: np.eye(n), 300, CHANCE),
    ("one-hot categories", one_hot, 1000),
    ("constant columns", lambda n, rng: np.hstack([blobs(n, rng), np.full((n, 20), 7.0)]), 600),
    ("one column", lambda n, rng: rng.normal(size=(n, 1)), 1000),
    ("one column of clusters", lambda n, rng: blobs(n, rng, d=1, apart=30), 600),
    ("two columns", lambda n, rng: blobs(n, rng, d=2, apart=10), 600),
    ("more columns than rows", lambda n, rng: blobs(n, rng, d=2000, apart=0.5), 300),
    ("an outlier at 1e6", with_outlier, 600),
    ("very unequal clusters", lambda n, rng: sized(n, rng, [1500, 300, 100, 50, 30, 15, 5]), 2000),
    ("a giant and many tiny clusters", lambda n, rng: sized(n, rng, [1500, *[5] * 100]), 2000),
    ("many tiny clusters", lambda n, rng: sized(n, rng, [1] * 200), 1000),
    ("far from zero", lambda n, rng: 1e7 + blobs(n, rng), 600),
    ("far from zero in float32", lambda n, rng: (1e8 + blobs(n, rng)).astype(np.float32), 600, CHANCE),
    ("tiny unit", lambda n, rng: 1e-100 * blobs(n, rng), 600),
    ("huge unit", lambda n, rng: 1e100 * blobs(n, rng), 600),
    ("float32", lambda n, rng: blobs(n, rng).astype(np.float32), 600),
    ("heavy tails", lambda n, rng: rng.standard_cauchy(size=(n, 10)), 1000),
    ("log-normal numbers", lambda n, rng: np.exp(2 * blobs(n, rng, apart=2)), 1000),
    ("proportions", lambda n, rng: rng.dirichlet(np.full(8, 0.3), n), 1000),
    ("windows of a time series", windows, 1000),
    ("a sphere and its centre", sphere_with_centre, 1000),
    ("iris and a unix time", iris_and_time, 150, "vary very differently"),
    ("iris and dates as strings", iris_and_dates, 150, "day"),
    ("a missing value", lambda n, rng: with_one(blobs(n, rng), np.nan), 300, "NaN"),
    ("an infinite value", lambda n, rng: with_one(blobs(n, rng), np.inf), 300, "infinity"),
    ("unit of 1e200", lambda n, rng: 1e200 * blobs(n, rng), 300, "overflow"),
]  # fmt: skip

# Metrics


def baskets(n, rng):
    """Baskets of 60 items in four kinds; some are empty, and some have one item that no other has."""
    items = 60
    often = rng.random((4, items)) < 0.25
    X = rng.random((n, items)) < np.where(often[np.arange(n) % 4], 0.5, 0.03)
    X[:: n // 20] = False
    lonely = np.arange(n // 40, n, n // 20)
    X[lonely] = False
    return np.hstack([X, np.arange(n)[:, None] == lonely])


def words(n, rng):
    """Counts of 300 words in ten subjects, sparse; some texts have none."""
    rates = rng.gamma(0.15, 1.0, (10, 300))
    X = rng.poisson(0.3 * rates[np.arange(n) % 10] * rng.lognormal(0, 0.5, (n, 1))).astype(float)
    X[:: n // 10] = 0
    return sparse.csr_array(X)


def cities(n, rng):
    """Latitudes and longitudes about thirty centres, in radians."""
    centres = np.stack([np.arcsin(rng.uniform(-0.9, 0.9, 30)), rng.uniform(-3, 3, 30)], axis=1)
    return np.clip(some_of(centres, n, rng) + 0.03 * rng.normal(size=(n, 2)), [-1.57, -3.14], [1.57, 3.14])


def paths(n, rng):
    """Numbers of steps between the nodes of a random tree."""
    parents = np.array([rng.integers(max(0, k - 20), k) for k in range(1, n)])
    return shortest_path(sparse.coo_array((np.ones(n - 1), (np.arange(1, n), parents)), shape=(n, n)), directed=False)


def asymmetric(n, rng):
    """Distances, and from one of the points others."""
    D = cdist(*[blobs(n, rng)] * 2)
    D[0] *= 2
    return D


def communities(n, rng):
    """Edges of a random graph with five communities."""
    kind = np.arange(n) % 5
    edges = np.triu(rng.random((n, n)) < np.where(kind[:, None] == kind, 0.1, 0.005), 1)
    return sparse.csr_array((edges | edges.T).astype(float))


def lattice(n, rng):
    """Edges of a square lattice."""
    D = cdist(*[grid(n, rng)] * 2)
    return sparse.csr_array((D == 1).astype(float))


METRICS = [  # data, points, metric, true phrases
    ("baskets", baskets, 800, "jaccard", "equally far"),
    ("words", words, 1000, "cosine", "equally far"),
    ("categories", categories, 1000, "hamming"),
    ("counts", lambda n, rng: rng.poisson(np.exp(blobs(n, rng, apart=1))).astype(float), 1000, "manhattan"),
    ("counts", lambda n, rng: rng.poisson(np.exp(blobs(n, rng, apart=1))).astype(float), 1000, "braycurtis"),
    ("counts", lambda n, rng: rng.poisson(np.exp(blobs(n, rng, apart=1))).astype(float), 1000, "canberra"),
    ("normal noise", lambda n, rng: rng.normal(size=(n, 10)), 1000, "chebyshev"),
    ("time series", lambda n, rng: rng.normal(size=(n, 40)).cumsum(axis=1), 1000, "correlation"),
    ("cities", cities, 1000, "haversine"),
    ("cities in degrees", lambda n, rng: np.degrees(cities(n, rng)), 1000, "haversine", "radians"),
    ("distances", lambda n, rng: cdist(*[blobs(n, rng)] * 2), 600, "precomputed"),
    ("steps in a tree", paths, 600, "precomputed"),
    ("not symmetric", asymmetric, 300, "precomputed", "symmetric"),
    ("graph of 91 neighbours", lambda n, rng: kneighbors_graph(blobs(n, rng), min(91, n - 1), mode="distance"), 1000,
     "precomputed"),
    ("graph of 30 neighbours", lambda n, rng: kneighbors_graph(blobs(n, rng), 30, mode="distance"), 1000,
     "precomputed", LOWERED),
    ("graph within a radius", lambda n, rng: radius_neighbors_graph(rng.random((n, 2)), 0.2, mode="distance"), 1000,
     "precomputed", LOWERED),
    ("graph of ones", lambda n, rng: kneighbors_graph(blobs(n, rng), min(91, n - 1)), 600, "precomputed",
     "are 1, as with"),
    ("communities", communities, 600, "affinities"),
    ("lattice", lattice, 900, "affinities"),
]  # fmt: skip

# Few points, and perplexities at the ends of their range


def _cases():
    """All cases."""
    found = [Case("noise", name, make, 3000, p) for name, make in NOISE.items() for p in (15.0, 30.0, 50.0, 100.0)]
    found += [Case("shapes", name, make, 1200, p) for name, make in SHAPES.items() for p in (5.0, 30.0, 120.0)]
    found += [Case("tables", name, make, n, true=tuple(true)) for name, make, n, *true in TABLES]
    for name, make, n, metric, *true in METRICS:
        label = "" if metric in ("precomputed", "affinities") else f" by {metric}"
        found.append(Case("metrics", name + label, make, n, metric=metric, true=tuple(true)))
    found += [Case("few points", "clusters", blobs, n, true=(LOWERED,)) for n in (2, 3, 4, 5, 7, 10, 40)]
    found += [Case("few points", "clusters", blobs, 500, perp) for perp in (1.0, 2.0, 150.0)]
    found += [Case("few points", "normal noise", NOISE["normal noise"], 300, 200.0, true=(LOWERED,))]
    return found


CASES = _cases()


def distances(X, metric):
    """All distances of some data, dense, as numbers that differ are subtracted; None for affinities."""
    if metric == "affinities":
        return None
    if sparse.issparse(X):
        D = X.toarray()
        if metric == "precomputed":
            D[D == 0] = np.inf
            return D
        X = D
    if metric == "precomputed":
        return X
    if metric == "haversine":
        (a, b), size = X.T, np.cos(X[:, 0])
        places = np.stack([np.sin(a), size * np.cos(b), size * np.sin(b)], axis=1)
        return 2 * np.arcsin(np.minimum(cdist(places, places) / 2, 1))
    D = cdist(X, X, "cityblock" if metric == "manhattan" else metric)
    return np.where(np.isnan(D), 1.0, D)  # of rows of zeros
