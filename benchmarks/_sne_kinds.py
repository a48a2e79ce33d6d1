"""Kinds of data for maps: images, counts with clusters and a continuum, texts, clusters
and surfaces."""

import ast
import functools
import sys
import sysconfig
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_blobs, make_s_curve, make_swiss_roll
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from sk_stormc.datasets import make_augmented_digits

COMPONENTS = 50


def digits(n, seed):
    """At most 1,797 digits, the same for all seeds."""
    X, y = load_digits(return_X_y=True)
    return X[:n], y[:n]


def augmented_digits(n, seed):
    """Digits that are shifted and scaled, with noise."""
    return make_augmented_digits(n, random_state=seed)


def counts(n, seed):
    """Counts of 500 features: ten clusters of uneven size, and a path with two branches
    that joins three of them.

    Each point has a size of its own (log-normal), and its counts are negative binomial,
    as those of single cells are. Features are divided by the point's size, their
    logarithms taken, and 50 principal components kept.
    """
    rng = np.random.default_rng(seed)
    genes, kinds = 500, 10
    base = rng.normal(0, 1.0, genes)
    centres = base + rng.normal(0, 0.9, (kinds, genes)) * (
        rng.random((kinds, genes)) < 0.25
    )
    share = rng.dirichlet(np.full(kinds, 2.0)) * 0.7
    y = rng.choice(kinds + 2, n, p=[*share, 0.2, 0.1])
    log_mean = centres[np.minimum(y, kinds - 1)].copy()
    for label, (first, last) in {kinds: (0, 1), kinds + 1: (0, 2)}.items():
        of = np.flatnonzero(y == label)
        t = rng.random(len(of))[:, None]
        log_mean[of] = (1 - t) * centres[first] + t * centres[last]
    size = rng.lognormal(0, 0.4, (n, 1))
    mean = size * np.exp(log_mean - 1)
    X = rng.poisson(mean * rng.gamma(2.0, 0.5, mean.shape))
    X = np.log1p(X / np.maximum(X.sum(axis=1, keepdims=True), 1) * 1000)
    return PCA(COMPONENTS, random_state=0).fit_transform(X), y.astype(int)


def texts(n, seed):
    """Pieces of the source texts of Python's standard library: TF-IDF of words, 50
    components, rows of length one.

    A label is the package or the module that a piece is of; the twenty with the most
    text are taken. There are about 20,000 pieces of eight lines.
    """
    X, y = _all_texts()
    if n > len(y):
        raise ValueError(
            f"n must be at most {len(y)}, the pieces of text that Python "
            f"{sys.version_info[:2]} ships"
        )
    chosen = np.random.default_rng(seed).permutation(len(y))[:n]
    return X[chosen], y[chosen]


@functools.cache
def _all_texts():
    library = Path(sysconfig.get_paths()["stdlib"])
    found = {}
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        if {"site-packages", "lib2to3", "idlelib"} & set(parts) or "data" in parts:
            continue
        try:
            text = path.read_text(encoding="utf-8")
            ast.parse(text)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        label = (
            "/".join(parts[:2]) if parts[0] == "test" else parts[0].removesuffix(".py")
        )
        lines = [line for line in text.splitlines() if line.strip()]
        found.setdefault(label, []).extend(
            "\n".join(lines[k : k + 8]) for k in range(0, len(lines) - 7, 8)
        )
    largest = sorted(found, key=lambda label: (-len(found[label]), label))[:20]
    pieces = [piece for label in largest for piece in found[label]]
    y = np.repeat(np.arange(len(largest)), [len(found[label]) for label in largest])
    words = TfidfVectorizer(
        sublinear_tf=True, min_df=5, max_df=0.2, max_features=20_000
    ).fit_transform(pieces)
    X = normalize(TruncatedSVD(COMPONENTS, random_state=0).fit_transform(words))
    # pieces with the same words, such as tables, would be one point many times
    _, first = np.unique(X.round(6), axis=0, return_index=True)
    first.sort()
    return X[first], y[first]


def swiss_roll(n, seed):
    """A surface in three dimensions; a label is a stretch along the roll."""
    X, along = make_swiss_roll(n, random_state=seed)
    return X, (2 * (along - along.min())).astype(int)


def far_clusters(n, seed):
    """Ten clusters in 20 dimensions, so far from each other that the graph of
    neighbours falls apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 10
    return (100 * rng.standard_normal((10, 20)))[y] + rng.standard_normal((n, 20)), y


def uneven_clusters(n, seed):
    """Six clusters in 20 dimensions, of 2000, 1000, 500, 300, 150 and 50 of 4000
    points."""
    rng = np.random.default_rng(seed)
    first = np.array([0, 2000, 3000, 3500, 3800, 3950]) / 4000 * n
    y = np.searchsorted(first, np.arange(n), side="right") - 1
    return (6 * rng.standard_normal((6, 20)))[y] + rng.standard_normal((n, 20)), y


def blobs(n, seed):
    """Eight Gaussian clusters in 50 dimensions."""
    return make_blobs(n, n_features=50, centers=8, random_state=seed)


def hierarchy(n, seed):
    """Twenty clusters in four groups of five, in 30 dimensions."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 20
    centres = np.repeat(rng.normal(0, 20, (4, 30)), 5, axis=0) + rng.normal(
        0, 4, (20, 30)
    )
    return centres[y] + rng.standard_normal((n, 30)), y


def s_curve(n, seed):
    """A surface in three dimensions; a label is a stretch along the curve."""
    X, along = make_s_curve(n, random_state=seed)
    return X, (3 * (along - along.min())).astype(int)


def uniform_noise(n, seed):
    """No structure, in eight dimensions; a label is a quarter of the first coordinate's
    range."""
    X = np.random.default_rng(seed).random((n, 8))
    return X, (4 * X[:, 0]).astype(int)


def tree(n, seed):
    """Twelve branches in 40 dimensions, each a line that begins at a random point of an
    earlier one."""
    rng = np.random.default_rng(seed)
    branches, first = [], np.zeros(40)
    for _ in range(12):
        branches.append((first, first + rng.normal(0, 3, 40)))
        start, end = branches[rng.integers(len(branches))]
        first = start + rng.random() * (end - start)
    y = np.arange(n) % 12
    start, end = (np.array(points)[y] for points in zip(*branches, strict=True))
    return start + rng.random((n, 1)) * (end - start) + 0.3 * rng.standard_normal(
        (n, 40)
    ), y


def linked_circles(n, rng):
    """Points of two linked circles in three dimensions, the circle of each point, and
    its angle on it."""
    y, angle = np.arange(n) % 2, 2 * np.pi * rng.random(n)
    circles = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=1)
    circles[y == 1] = circles[y == 1][:, [0, 2, 1]] + [1, 0, 0]
    return circles, y, angle


def rings(n, seed):
    """Two linked circles in three dimensions, embedded in ten with a little noise."""
    rng = np.random.default_rng(seed)
    circles, y, _ = linked_circles(n, rng)
    return np.pad(circles, ((0, 0), (0, 7))) + 0.03 * rng.standard_normal((n, 10)), y


FUNCTIONS = (
    digits,
    augmented_digits,
    counts,
    texts,
    far_clusters,
    uneven_clusters,
    blobs,
    hierarchy,
)
FUNCTIONS += swiss_roll, s_curve, uniform_noise, tree, rings
KINDS = {function.__name__.replace("_", " "): function for function in FUNCTIONS}
