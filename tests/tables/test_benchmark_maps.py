"""The panel of measures by which maps are compared, and its data."""

import numpy as np
import pytest

from benchmarks import _sne_tables
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import MEASURES, panel, pieces, recall
from sk_stormc.affinities import perplexity_affinities


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] if k == "texts" else []) for k in KINDS])
def test_each_kind_of_data_has_labels_and_the_seed_decides(kind):
    n = 1900 if kind == "augmented digits" else 600  # the first 1,797 of these are the digits themselves
    X, y = KINDS[kind](n, 5)
    assert X.shape[0] == y.shape[0] == n and y.min() == 0 and np.isfinite(X).all()
    again, _ = KINDS[kind](n, 5)
    np.testing.assert_array_equal(X, again)
    if kind != "digits":
        assert not np.array_equal(X, KINDS[kind](n, 6)[0])


def test_recall_counts_common_neighbours():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    everyone = np.arange(300)
    assert recall(X, 2 * X + 1, everyone) == {10: 1.0, 30: 1.0, 100: 1.0}
    shuffled = recall(X, rng.permutation(X), everyone)
    for k, found in shuffled.items():
        assert found == pytest.approx(k / 299, abs=0.03)
    # by its definition
    Z = X[:, :2]
    D, E = (np.square(V[:, None] - V).sum(axis=2) + np.where(np.eye(300), np.inf, 0) for V in (X, Z))
    by_hand = np.mean([len(set(D[i].argsort()[:10]) & set(E[i].argsort()[:10])) / 10 for i in range(300)])
    assert recall(X, Z, everyone)[10] == pytest.approx(by_hand, abs=1e-12)


def test_pieces_counts_where_labels_are_torn_apart():
    rng = np.random.default_rng(0)
    places = np.array([[0, 0], [20, 0], [0, 20], [20, 20]])
    Z = np.repeat(places, 50, axis=0) + rng.normal(size=(200, 2))
    y = np.repeat([0, 1, 2, 1], 50)  # label 1 lies in two places
    from sklearn.neighbors import NearestNeighbors

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
    assert set(found) == set(MEASURES) - {"recall 500", "recall 100"} | {"recall 100"}
    assert found["t5"] == found["recall 10"] == found["recall 100"] == found["accuracy"] == 1
    assert found["pieces"] == found["all pieces"] == 4 and found["rank correlation"] == pytest.approx(1)
    worse = panel(X, y, perplexity_affinities(X, 20.0), rng.permutation(X))
    for key in ("t5", "recall 10", "accuracy", "silhouette", "rank correlation"):
        assert worse[key] < found[key] - 0.1, key


def test_the_table_says_where_it_is_behind():
    ours = {"data": "counts", "n": 100, "method": "SNEEmbedding", "kl": [1.0, 1.1, 1.2]}
    peer = {**ours, "method": "openTSNE", "kl": [1.05] * 3}
    ours, peer = ({**row, "t5": [value], "pieces": [5 + 10 * value]} for row, value in ((ours, 0.9), (peer, 0.8)))
    text = _sne_tables.behind([[ours, peer]])
    line = text.splitlines()[-1]
    assert line.startswith("| counts, 100 | 0.0500 |  |") and "| 1 |" in line
    text = _sne_tables.tables({"one": [ours, peer]}, {"one": ("counts", 100, 3, True)})["counts"]
    assert "| 100 | SNEEmbedding | 1.100 (1.000 to 1.200) |" in text


def test_uneven_clusters_keep_their_shares():
    _, y = KINDS["uneven clusters"](400, 1)
    assert np.bincount(y).tolist() == [200, 100, 50, 30, 15, 5]
