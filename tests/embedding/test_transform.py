"""New samples among embedded ones: where they are placed, without jumps, each on its
own, and how far away they are."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsTransformer,
    NearestNeighbors,
)

from sk_stormc import SNEEmbedding
from sk_stormc.embedding import transform as module

DIGITS, LABELS = load_digits(return_X_y=True)
TRAINED, NEW = DIGITS[:300], DIGITS[300:340]

pytestmark = [
    pytest.mark.filterwarnings("ignore:the map:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the .* neighbours that were found|perplexity"),
]


@pytest.fixture(scope="module")
def model():
    return SNEEmbedding(perplexity=20, max_iter=60, random_state=0).fit(TRAINED)


def quick_map(X=TRAINED, **params):
    return SNEEmbedding(
        **{"perplexity": 10, "max_iter": 5, "random_state": 0} | params
    ).fit(X)


def at(X, Z, **params):
    """A map whose points lie at Z."""
    model = quick_map(X, **params)
    model.embedding_ = np.asarray(Z, float)
    return model


def moved(model, X):
    """How far each row is placed from the point of the training row that it comes
    from."""
    return np.linalg.norm(model.transform(X) - model.embedding_, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "gain"), [(0, -0.002), (4, 0.01)])
def test_new_digits_are_placed_as_well_as_at_the_nearest_point(noise, gain):
    """With noise, where the nearest sample is often of another class, the point of one
    is a poor choice."""
    ours, copied = np.mean([placed(noise, seed) for seed in range(3)], axis=0)
    assert ours[0] >= copied[0] + gain and ours[1] > copied[1] - 0.001


def placed(noise, seed):
    """Accuracy and trustworthiness of new digits by `transform`, and at the point of
    the nearest sample."""
    X = DIGITS + noise * np.random.default_rng(seed).standard_normal(DIGITS.shape)
    a, b, y_a, y_b = train_test_split(
        X, LABELS, test_size=500, random_state=seed, stratify=LABELS
    )
    model = SNEEmbedding(random_state=0).fit(a)
    Z, search = model.embedding_, NearestNeighbors(n_neighbors=1).fit(a)
    nearest = search.kneighbors(b, return_distance=False)[:, 0]
    labels, union = KNeighborsClassifier(10).fit(Z, y_a), np.vstack([a, b])
    return [
        [labels.score(new, y_b), trustworthiness(union, np.vstack([Z, new]))]
        for new in (model.transform(b), Z[nearest])
    ]


@pytest.mark.parametrize("dof", [0.5, 1.0, 5.0])
def test_places_are_minima_of_the_attraction(dof):
    """With neighbours that are equally far, all weights are equal."""
    X, Z = np.eye(40), np.random.default_rng(0).exponential(size=(40, 2))

    def attraction(z):
        return np.log1p(np.square(Z - z).sum(axis=1) / dof).sum()

    start, options = min(Z, key=attraction), {"xatol": 1e-6}
    expected = minimize(attraction, start, method="Nelder-Mead", options=options).x
    model = at(X, Z, kernel="student-t", dof=dof, perplexity=13)
    place = model.transform(np.zeros((1, 40)))
    np.testing.assert_allclose(place[0], expected, atol=1e-3)


def test_training_rows_have_their_points(model):
    np.testing.assert_array_equal(model.transform(TRAINED), model.embedding_)
    noise = np.random.default_rng(0).standard_normal(TRAINED.shape)
    for size in (1e-12, 1e-6):
        assert moved(model, TRAINED + size * noise).max() <= size
        assert moved(model, TRAINED + size).max() <= size


def test_there_is_no_jump_on_the_way_from_a_training_row(model):
    t = np.linspace(0, 0.02, 21)[:, None]
    there = np.argmin(pairwise_distances(NEW, TRAINED), axis=1)
    for new, start in zip(NEW[:3], there[:3], strict=True):
        way = model.transform((1 - t) * TRAINED[start] + t * new)
        np.testing.assert_array_equal(way[0], model.embedding_[start])
        assert np.linalg.norm(way[1:] - way[0], axis=1).max() < 0.1


def test_cosine_distances_have_no_scale():
    model = quick_map(metric="cosine", max_iter=30)
    for factor in (1, 3, 1e-3):
        assert moved(model, factor * TRAINED).max() < 1e-9
    assert moved(model, TRAINED + 1e-9).max() < 1e-6


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_copies_in_the_training_data(metric):
    X, new = np.repeat(TRAINED[:100], 2, axis=0), TRAINED[:100]
    if metric == "cosine":
        X[1::2] *= 3  # the same but for rounding
    # pairs far from each other, and others that lie together
    places = np.random.default_rng(0).normal(size=(200, 2)) * 10
    places[100:] = np.repeat(places[100::2], 2, axis=0)
    places[100::2] += 0.5
    model = at(X, places, metric=metric)
    Z, first, second = model.transform(new), places[::2], places[1::2]
    np.testing.assert_allclose(Z[50:], (first + second)[50:] / 2, atol=1e-6)
    apart = np.linalg.norm(first - second, axis=1)
    far = apart > 4
    assert far.sum() > 30
    assert (np.linalg.norm(Z - first, axis=1) < 1.32 / apart)[far].all()
    assert np.abs(model.transform(new + 1e-9) - Z).max() < 1e-6


def test_rows_do_not_depend_on_the_blocks_in_which_they_are_placed(model, monkeypatch):
    Z = model.transform(NEW)
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 3 * 46 * 64)  # three rows at a time
    np.testing.assert_array_equal(model.transform(NEW), Z)


def test_the_order_of_the_training_rows_does_not_matter():
    # many are equally far, at the farthest of the neighbours that are taken too
    X = np.argwhere(np.ones((8, 8, 8))) * 1.0
    Z = X[:, :2] + np.random.default_rng(0).normal(size=(512, 2))
    new = np.random.default_rng(1).integers(0, 16, size=(100, 3)) / 2 + 0.25
    order = np.random.default_rng(2).permutation(512)
    there, again = (at(X[rows], Z[rows], max_iter=1) for rows in (slice(512), order))
    for perplexity in (2, 5, 15):
        places, others = (
            some.set_params(transform_perplexity=perplexity).transform(new)
            for some in (there, again)
        )
        np.testing.assert_allclose(places, others, atol=1e-9)


def test_samples_without_weight_are_no_place_to_begin():
    # the last two are equally far, and one of them lies in the middle of the others
    X = np.append(np.linspace(1, 1.2, 15), [2.0, -2.0])[:, None]
    ring = 0.3 * np.exp(4j * np.arange(15))
    Z, found = np.vstack([np.c_[ring.real, ring.imag], [[0, 0], [50, 50]]]), []
    for order in ([*range(17)], [*range(15), 16, 15]):
        model = at(X[order], Z[order], perplexity=5, transform_perplexity=5)
        found.append(model.transform(np.zeros((1, 1))))
    np.testing.assert_array_equal(*found)


def test_precomputed_distances_place_as_features_do(model):
    expected = copy.deepcopy(model).set_params(transform_perplexity=10).transform(NEW)
    graph = KNeighborsTransformer(n_neighbors=61).fit(TRAINED)
    own = {"metric": "precomputed", "transform_perplexity": 10}
    for trained, new in (
        (pairwise_distances(TRAINED), pairwise_distances(NEW, TRAINED)),
        (graph.transform(TRAINED), graph.transform(NEW)),
    ):
        known = at(trained, model.embedding_, **own)
        np.testing.assert_allclose(known.transform(new), expected, atol=1e-5)
        np.testing.assert_array_equal(known.transform(trained), known.embedding_)


def test_rows_of_a_graph_may_list_any_number():
    D = pairwise_distances(NEW, TRAINED)
    count = np.random.default_rng(1).integers(1, 100, size=40)
    listed = D.argsort(axis=1).argsort(axis=1) < count[:, None]
    Z = np.random.default_rng(0).normal(size=(300, 2))
    known = at(pairwise_distances(TRAINED), Z, metric="precomputed")
    graph = sparse.csr_array(np.where(listed, D, 0))  # not sorted by distance
    only, far = count.argmax(), np.where(listed, D, 1e9)  # which weighs nothing
    there, expected = known.transform(graph)[only], known.transform(far)[only]
    np.testing.assert_allclose(there, expected, atol=1e-6)
    one = sparse.csr_array(np.where(D.min(axis=1, keepdims=True) == D, D, 0))
    np.testing.assert_allclose(known.transform(one), Z[D.argmin(axis=1)])


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_few_training_rows(n):
    model = quick_map(TRAINED[:n], n_components=1, perplexity=1)
    np.testing.assert_array_equal(model.transform(TRAINED[:n]), model.embedding_)
    assert np.isfinite(model.set_params(transform_perplexity=100).transform(NEW)).all()
    distances = model.transform(TRAINED[: n + 1], return_distance=True)[1]
    assert np.isfinite(distances).all() and distances[n] < 5


def test_the_perplexity_of_new_samples(model):
    other = copy.deepcopy(model)

    def placed(perplexity):
        return other.set_params(transform_perplexity=perplexity).transform(NEW)

    np.testing.assert_array_equal(placed(15), model.transform(NEW))
    assert not np.array_equal(placed(5.0), placed(15))
    # a third of the training data
    np.testing.assert_array_equal(placed(1e5), placed(100.0))
    nearest = pairwise_distances(NEW, TRAINED).argmin(axis=1)
    away = np.linalg.norm(placed(1) - other.embedding_[nearest], axis=1)
    assert np.median(away) < 1e-3
    other = quick_map(perplexity=5)
    np.testing.assert_array_equal(other.transform(NEW), placed(5))


def test_distances_of_new_samples(model):
    Z, distances = model.transform(NEW, return_distance=True)
    np.testing.assert_array_equal(Z, model.transform(NEW))
    D, known = pairwise_distances(NEW, TRAINED), pairwise_distances(TRAINED)
    own, near = np.sort(known, axis=1)[:, 10], np.argsort(D, axis=1)[:, :10]
    expected = np.sort(D, axis=1)[:, 9] / np.median(own[near], axis=1)
    np.testing.assert_allclose(distances, expected)
    other = pickle.loads(pickle.dumps(model)).set_params(transform_perplexity=1)
    again = other.transform(NEW, return_distance=True)[1]
    np.testing.assert_array_equal(again, distances)
    graph = KNeighborsTransformer(n_neighbors=70).fit(TRAINED)
    for trained, new in ((known, D), (graph.transform(TRAINED), graph.transform(NEW))):
        other = quick_map(trained, metric="precomputed", init="random")
        again = other.transform(new, return_distance=True)[1]
        np.testing.assert_allclose(again, distances, rtol=1e-6)


def test_samples_far_away_warn(model):
    X = np.vstack([NEW[:5], 1e6 * NEW[5:6], NEW[6:9], 1e4 * NEW[9:10]])
    words = (
        r"2 of 10 samples are far .*: row 5 is \d\.\d+e\+06 times as far from its near"
    )
    with pytest.warns(UserWarning, match=words):
        Z = model.transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # who asks need not be told
        again, distances = model.transform(X, return_distance=True)
        model.transform(X[:5])
    np.testing.assert_array_equal(again, Z)
    assert set(np.flatnonzero(distances > 10)) == {5, 9}


def test_distances_from_copies():
    rows = np.random.default_rng(0).normal(size=(90, 3))
    for X in (np.repeat(rows[:20], 15, axis=0), np.vstack([np.zeros((30, 3)), rows])):
        new = np.vstack([X[:1], X[:1] + [0.01, 0, 0], X[:1] + 1e9])
        distances = quick_map(X, perplexity=5).transform(new, return_distance=True)[1]
        assert distances[0] == 0 and distances[1] < 1 and 1e7 < distances[2] < np.inf
    alike = quick_map(np.ones((30, 3)), perplexity=2)
    words = "row 1 differs from them, and they are all alike"
    with pytest.warns(UserWarning, match=words):
        alike.transform([[1, 1, 1], [2, 1, 1]])


def test_distances_of_categories():
    """Rows of two one-hot columns, without the pair of both first categories."""
    first, second = np.random.default_rng(0).integers((4, 3), size=(400, 2)).T
    X = np.hstack([np.eye(4)[first], np.eye(3)[second]])[first + second > 0]
    unseen = np.array([[1.0, 0, 0, 0, 1, 0, 0]])
    new = np.vstack([X[:1], unseen, 100 * unseen])
    model = quick_map(X, perplexity=5, init="random")
    distances = model.transform(new, return_distance=True)[1]
    np.testing.assert_allclose(distances[:2], [0, 1])
    assert 50 < distances[2] < 200


def test_invalid_arguments(model):
    for value in (0.5, np.nan, "auto", True):
        with pytest.raises(ValueError, match="transform_perplexity"):
            copy.deepcopy(model).set_params(transform_perplexity=value).transform(NEW)
    with pytest.raises(
        ValueError, match="return_distance must be True or False, got 'yes'"
    ):
        model.transform(NEW, return_distance="yes")


def endless(a, b):
    return np.inf if a[0] > 50 and b[0] < 50 else np.abs(a - b).sum()


LISTED = sparse.csr_array(np.eye(4, 300) * [[1], [1], [1], [0]])


@pytest.mark.parametrize(
    ("X", "new", "metric", "words"),
    [
        (
            pairwise_distances(TRAINED),
            np.full((2, 300), -1.0),
            "precomputed",
            "none negative, got -1",
        ),
        (
            KNeighborsTransformer(n_neighbors=31).fit_transform(TRAINED),
            LISTED,
            "precomputed",
            "must list a training sample in each row, got none in row 3",
        ),
        (
            TRAINED,
            np.where(np.arange(64) == 7, -1e200, NEW),
            "euclidean",
            r"above 8\.38e\+152, got 1e\+200 in column 7",
        ),
        (TRAINED[:, :3], [[3.0] * 3, [99.0] * 3], endless, "got inf or NaN in row 1"),
    ],
)
def test_invalid_new_samples(X, new, metric, words):
    model = quick_map(X, metric=metric)
    with pytest.raises(ValueError, match=words):
        model.transform(new)
