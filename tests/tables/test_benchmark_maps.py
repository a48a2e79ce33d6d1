"""The benchmark of maps: its data, and its measures of how good a map is."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import manifold
from sklearn.neighbors import NearestNeighbors

from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import (
    MEASURES,
    divergence,
    normalisers,
    panel,
    pieces,
    recall,
    trustworthiness,
)
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    return SimpleNamespace(
        X=X, y=rng.integers(3, size=400), P=perplexity_affinities(X, 30.0)
    )


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind != "texts"]
)  # which take long to read
def test_each_kind_of_data_has_labels_and_the_seed_decides(kind):
    # the first 1,797 of these are the digits themselves
    n = 1900 if kind == "augmented digits" else 600
    X, y = KINDS[kind](n, 5)
    assert X.shape[0] == y.shape[0] == n and y.min() == 0 and np.isfinite(X).all()
    again, _ = KINDS[kind](n, 5)
    np.testing.assert_array_equal(X, again)
    if kind != "digits":
        assert not np.array_equal(X, KINDS[kind](n, 6)[0])


# measures


@pytest.mark.parametrize("kernel", ["student-t", "gaussian"])
def test_divergence(data, kernel, monkeypatch):
    Z = data.X[:, :5] + 0.1
    # in float64 the problem's own is exact as well, where it has no mesh
    own = SNEProblem(data.P, 5, kernel=kernel, dtype=np.float64).divergence(Z.ravel())
    assert divergence(data.P, Z, kernel) == pytest.approx(own, rel=1e-12)
    whole = normalisers(Z, kernel)
    monkeypatch.setattr("benchmarks._sne_panel.BLOCK", 7 * 400)
    np.testing.assert_allclose(normalisers(Z, kernel), whole, rtol=1e-12)


def test_trustworthiness(data, monkeypatch):
    Z = data.X[:, :2]
    theirs = manifold.trustworthiness(data.X, Z, n_neighbors=5)
    assert trustworthiness(data.X, Z) == pytest.approx(theirs, rel=1e-12)
    monkeypatch.setattr("benchmarks._sne_panel.ALL", 100)
    monkeypatch.setattr("benchmarks._sne_panel.FEW", 300)
    sampled = trustworthiness(data.X, Z)
    assert sampled != theirs and sampled == pytest.approx(theirs, abs=0.01)
    assert trustworthiness(
        data.X[:300], Z[:300], (data.X[300:], Z[300:])
    ) == pytest.approx(theirs, abs=0.03)


def test_recall_counts_common_neighbours():
    X = np.random.default_rng(0).normal(size=(300, 3))
    Z, everyone = X[:, :2], np.arange(300)
    assert recall(X, 2 * X + 1, everyone) == {10: 1.0, 30: 1.0, 100: 1.0}
    D, E = (
        np.square(V[:, None] - V).sum(axis=2) + np.where(np.eye(300), np.inf, 0)
        for V in (X, Z)
    )
    by_hand = np.mean(
        [
            len(set(D[i].argsort()[:10]) & set(E[i].argsort()[:10])) / 10
            for i in range(300)
        ]
    )
    assert recall(X, Z, everyone)[10] == pytest.approx(by_hand, abs=1e-12)


def test_pieces_counts_where_labels_are_torn_apart():
    rng = np.random.default_rng(0)
    places = np.array([[0, 0], [20, 0], [0, 20], [20, 20]])
    Z = np.repeat(places, 50, axis=0) + rng.normal(size=(200, 2))
    y = np.repeat([0, 1, 2, 1], 50)  # label 1 lies in two places
    near = NearestNeighbors(n_neighbors=10).fit(Z).kneighbors(return_distance=False)
    assert pieces(near, y[near] == y[:, None]) == 4
    y = np.repeat([0, 1, 2, 3], 50)
    y[:5] = 1  # fewer than ten points are no piece
    assert pieces(near, y[near] == y[:, None]) == 4
    assert pieces(near, y[near] == y[:, None], 50) == 3  # one of them has 45 points


def test_a_perfect_map_is_perfect_by_every_measure():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 60)
    X = 12 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[y] + rng.normal(size=(240, 2))
    found = panel(X, y, perplexity_affinities(X, 20.0), X)
    assert set(found) == set(MEASURES) - {"recall 500"}
    assert (
        found["t5"]
        == found["recall 10"]
        == found["recall 100"]
        == found["accuracy"]
        == 1
    )
    assert found["pieces"] == found["all pieces"] == 4 and found[
        "rank correlation"
    ] == pytest.approx(1)
    worse = panel(X, y, perplexity_affinities(X, 20.0), rng.permutation(X))
    for key in ("t5", "recall 10", "accuracy", "silhouette", "rank correlation"):
        assert worse[key] < found[key] - 0.1, key
