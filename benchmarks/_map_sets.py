"""Odd data for maps: structureless and regular data, tables and metrics as users have
them, and data with faults."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

from sk_stormc.datasets import make_augmented_digits

SEED = 61


class Case(NamedTuple):
    """Data of n points, ``make(n, rng)``, and the parameters of their map."""

    group: str
    data: str
    n: int
    make: Callable
    metric: str = "euclidean"
    perplexity: float = 30.0

    def points(self, quick, draw=0):
        """A draw of the data, of few points in a quick run."""
        return self.make(
            min(self.n, 100) if quick else self.n, np.random.default_rng(SEED + draw)
        )


# data without structure


def fingerprints(n, rng):
    """Bits, each of which has its own probability of being set."""
    return (rng.random((n, 200)) < rng.beta(1, 6, 200)).astype(float)


def shuffled(n, rng):
    """Augmented digits, with each pixel permuted over all points."""
    return rng.permuted(make_augmented_digits(n, random_state=SEED)[0], axis=0)


def weak_clusters(n, rng):
    """Clusters that overlap."""
    return (
        rng.normal(size=(n, 50)) + rng.normal(0, 0.35, (8, 50))[rng.integers(0, 8, n)]
    )


NOISE = {
    "binary noise": lambda n, rng: rng.integers(0, 2, (n, 100)).astype(float),
    "normal noise": lambda n, rng: rng.normal(size=(n, 30)),
    "fingerprints": fingerprints,
    "shuffled columns": shuffled,
    "weak clusters": weak_clusters,
}

# curves, surfaces and trees


def grid(n, rng):
    """A square grid."""
    side = np.arange(int(np.sqrt(n)), dtype=float)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def torus(n, rng):
    """A torus with radii 3 and 1."""
    a, b = 2 * np.pi * rng.random((2, n))
    return np.stack(
        [(3 + np.cos(a)) * np.cos(b), (3 + np.cos(a)) * np.sin(b), np.sin(a)], axis=1
    )


def moebius(n, rng):
    """A Moebius strip."""
    a, across = 2 * np.pi * rng.random(n), rng.uniform(-0.4, 0.4, n)
    radius = 1 + across * np.cos(a / 2)
    return np.stack(
        [radius * np.cos(a), radius * np.sin(a), across * np.sin(a / 2)], axis=1
    )


def branches(n, rng):
    """A binary tree of 15 straight branches, each in a dimension of its own."""
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
    "circle": lambda n, rng: (
        np.exp(2j * np.pi * rng.random(n)).view(float).reshape(-1, 2)
    ),
    "random walks": lambda n, rng: (
        rng.normal(size=(10, n // 10, 20)).cumsum(axis=1).reshape(-1, 20)
    ),
    "torus": torus,
    "Moebius strip": moebius,
    "tree": branches,
}

# tables


def blobs(n, rng, kinds=6, d=10, apart=6):
    """Clusters of equal size."""
    return (
        rng.normal(size=(n, d))
        + rng.normal(0, apart / np.sqrt(2), (kinds, d))[np.arange(n) % kinds]
    )


def sized(n, rng, sizes):
    """Clusters of the given shares of the points."""
    cluster = np.searchsorted(
        np.cumsum(sizes) / np.sum(sizes), (np.arange(n) + 0.5) / n
    )
    return rng.normal(size=(n, 10)) + rng.normal(0, 5, (len(sizes), 10))[cluster]


def some_of(places, n, rng):
    """Rows drawn from others with replacement."""
    return places[rng.integers(0, len(places), n)]


def answers(n, rng):
    """Answers from 1 to 5 to twelve questions about three traits."""
    traits = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 12)) + rng.normal(
        size=(n, 12)
    )
    return np.clip(np.round(3 + 0.7 * traits), 1, 5)


def categories(n, rng):
    """Eight categories of six clusters as numbers, a third of them at random."""
    values = rng.integers(0, 5, (6, 8))[np.arange(n) % 6]
    return np.where(
        rng.random(values.shape) < 1 / 3, rng.integers(0, 5, values.shape), values
    ).astype(float)


def changed(X, rows, columns, value):
    """The table with some of its entries replaced."""
    X[rows, columns] = value
    return X


def windows(n, rng):
    """Windows of 50 steps of two sine waves with noise."""
    t = np.arange(n + 49)
    series = np.sin(t / 15) + 0.5 * np.sin(t / 47) + 0.1 * rng.normal(size=len(t))
    return np.lib.stride_tricks.sliding_window_view(series, 50).copy()


def sphere_with_centre(n, rng):
    """A sphere in five dimensions, and a cluster in its middle."""
    X, outer = rng.normal(size=(n, 5)), np.arange(n) < 2 * n // 3
    X[outer] *= 10 / np.linalg.norm(X[outer], axis=1, keepdims=True)
    return X


TABLES = [
    ("copies of 40 rows", 600, lambda n, rng: some_of(blobs(40, rng), n, rng)),
    ("each row twice", 600, lambda n, rng: np.repeat(blobs(n // 2, rng), 2, axis=0)),
    ("answers from 1 to 5", 600, answers),
    (
        "integers in two columns",
        600,
        lambda n, rng: rng.integers(0, 10, (n, 2)).astype(float),
    ),
    (
        "corners of a cube",
        1024,
        lambda n, rng: (np.arange(n)[:, None] >> np.arange(10) & 1).astype(float),
    ),
    (
        "one-hot categories",
        600,
        lambda n, rng: (
            (categories(n, rng)[:, :, None] == range(5)).reshape(n, -1) * 1.0
        ),
    ),
    ("one column", 600, lambda n, rng: rng.normal(size=(n, 1))),
    ("one column of clusters", 600, lambda n, rng: blobs(n, rng, d=1, apart=30)),
    ("two columns", 600, lambda n, rng: blobs(n, rng, d=2, apart=10)),
    ("more columns than rows", 300, lambda n, rng: blobs(n, rng, d=2000, apart=0.5)),
    (
        "an outlier at 1e6",
        600,
        lambda n, rng: changed(blobs(n, rng), n // 2, slice(None), 1e6),
    ),
    (
        "very unequal clusters",
        1500,
        lambda n, rng: sized(n, rng, [1500, 300, 100, 50, 30, 15, 5]),
    ),
    (
        "a giant and many tiny clusters",
        1500,
        lambda n, rng: sized(n, rng, [1000, *[5] * 100]),
    ),
    ("many tiny clusters", 1000, lambda n, rng: sized(n, rng, [1] * 200)),
    ("far from zero", 600, lambda n, rng: 1e7 + blobs(n, rng)),
    ("tiny unit", 600, lambda n, rng: 1e-100 * blobs(n, rng)),
    ("huge unit", 600, lambda n, rng: 1e100 * blobs(n, rng)),
    ("heavy tails", 600, lambda n, rng: rng.standard_cauchy(size=(n, 10))),
    ("log-normal numbers", 600, lambda n, rng: np.exp(2 * blobs(n, rng, apart=2))),
    ("proportions", 600, lambda n, rng: rng.dirichlet(np.full(8, 0.3), n)),
    ("windows of a time series", 600, windows),
    ("a sphere and its centre", 600, sphere_with_centre),
    *[
        ("clusters", 500, blobs, "euclidean", perplexity)
        for perplexity in (1.0, 2.0, 150.0)
    ],
]

# metrics


def counts(n, rng):
    """Counts of six kinds."""
    return rng.poisson(np.exp(blobs(n, rng, apart=1))).astype(float)


def cities(n, rng):
    """Latitudes and longitudes about thirty centres, in radians."""
    centres = np.stack(
        [np.arcsin(rng.uniform(-0.9, 0.9, 30)), rng.uniform(-3, 3, 30)], axis=1
    )
    return np.clip(
        some_of(centres, n, rng) + 0.03 * rng.normal(size=(n, 2)),
        [-1.57, -3.14],
        [1.57, 3.14],
    )


def paths(n, rng):
    """Numbers of steps between the nodes of a random tree."""
    parents = np.array([rng.integers(max(0, k - 20), k) for k in range(1, n)])
    return shortest_path(
        sparse.coo_array((np.ones(n - 1), (np.arange(1, n), parents)), shape=(n, n)),
        directed=False,
    )


def communities(n, rng):
    """Edges of a random graph with five communities."""
    kind = np.arange(n) % 5
    edges = np.triu(rng.random((n, n)) < np.where(kind[:, None] == kind, 0.1, 0.005), 1)
    return sparse.csr_array((edges | edges.T).astype(float))


def near(n, rng, k=91, mode="distance"):
    """A graph of the nearest neighbours of clusters."""
    return kneighbors_graph(blobs(n, rng), min(k, n - 1), mode=mode)


METRICS = [
    ("categories", 600, categories, "hamming"),
    ("counts", 600, counts, "manhattan"),
    ("counts", 600, counts, "braycurtis"),
    ("counts", 600, counts, "canberra"),
    ("normal noise", 600, NOISE["normal noise"], "chebyshev"),
    (
        "time series",
        600,
        lambda n, rng: rng.normal(size=(n, 40)).cumsum(axis=1),
        "correlation",
    ),
    ("cities", 600, cities, "haversine"),
    ("distances", 600, lambda n, rng: cdist(*[blobs(n, rng)] * 2), "precomputed"),
    ("steps in a tree", 600, paths, "precomputed"),
    ("graph of 91 neighbours", 600, near, "precomputed"),
    ("communities", 600, communities, "affinities"),
    (
        "lattice",
        900,
        lambda n, rng: sparse.csr_array((cdist(*[grid(n, rng)] * 2) == 1) * 1.0),
        "affinities",
    ),
]

# faults, which an error or a warning should name


def iris(n, rng, name, made):
    """Iris as a data frame with one more column."""
    frame = load_iris(as_frame=True).data.iloc[:n]
    return frame.assign(**{name: made(rng.permutation(len(frame)))})


def dates(days):
    """Dates as strings."""
    return [f"2026-{1 + day // 28:02}-{1 + day % 28:02}" for day in days]


def baskets(n, rng):
    """Baskets of 60 items in four kinds; some have only one item, which no other
    has."""
    often = rng.random((4, 60)) < 0.25
    X = rng.random((n, 60)) < np.where(often[np.arange(n) % 4], 0.5, 0.03)
    lonely = np.arange(0, n, n // 20)
    X[lonely] = False
    return np.hstack([X, np.arange(n)[:, None] == lonely])


def words(n, rng):
    """Sparse counts of 300 words about ten subjects; some texts have none."""
    rates = rng.gamma(0.15, 1.0, (10, 300))
    X = rng.poisson(
        0.3 * rates[np.arange(n) % 10] * rng.lognormal(0, 0.5, (n, 1))
    ).astype(float)
    return sparse.csr_array(changed(X, slice(None, None, n // 10), slice(None), 0))


FAULTS = [
    ("copies of 3 rows", 300, lambda n, rng: some_of(blobs(3, rng, 3), n, rng)),
    ("equal rows", 300, lambda n, rng: np.full((n, 5), 2.5)),
    ("one-hot rows", 300, lambda n, rng: np.eye(n)),
    ("float32 far from zero", 300, lambda n, rng: (1e8 + blobs(n,
    rng)).astype(np.float32)),
    ("iris and a unix time", 150, lambda n, rng: iris(n, rng, "time",
    lambda k: 1.7e9 + 3600 * k)),
    ("iris and dates", 150, lambda n, rng: iris(n, rng, "day", dates)),
    ("a missing value", 300, lambda n, rng: changed(blobs(n, rng), n // 2, 1, np.nan)),
    ("an infinite value", 300, lambda n, rng: changed(blobs(n, rng), n // 2, 1,
    np.inf)),
    ("unit of 1e200", 300, lambda n, rng: 1e200 * blobs(n, rng)),
    ("baskets", 600, baskets, "jaccard"),
    ("words", 600, words, "cosine"),
    ("cities in degrees", 300, lambda n, rng: np.degrees(cities(n, rng)), "haversine"),
    ("not symmetric", 300, lambda n, rng: changed(cdist(*[blobs(n, rng)] * 2), 0,
    slice(1, None), 9.0), "precomputed"),
    ("graph of 30 neighbours", 600, lambda n, rng: near(n, rng, 30), "precomputed"),
    ("graph within a radius", 600, lambda n, rng: radius_neighbors_graph(rng.random((n,
    2)), 0.2, mode="distance"),
     "precomputed"),
    ("graph of ones", 600, lambda n, rng: near(n, rng, mode="connectivity"),
    "precomputed"),
    *[("few points", n, blobs) for n in (2, 3, 5, 10, 40)],
    ("normal noise", 300, NOISE["normal noise"], "euclidean", 200.0),
]  # fmt: skip

CASES = [
    *[
        Case("noise", data, 1200, make, "euclidean", p)
        for data, make in NOISE.items()
        for p in (15.0, 100.0)
    ],
    *[
        Case("shapes", data, 1200, make, "euclidean", p)
        for data, make in SHAPES.items()
        for p in (30.0, 120.0)
    ],
    *[Case("tables", *of) for of in TABLES],
    *[Case("metrics", *of) for of in METRICS],
    *[Case("faults", *of) for of in FAULTS],
]
