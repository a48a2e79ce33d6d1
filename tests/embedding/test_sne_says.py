"""What a map says of itself: how far new samples are, whether it is done, the lines of verbose, missing parameters."""

import inspect
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import few_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding.elsewhere import ELSEWHERE

DIGITS = load_digits().data
TRAINED, NEW = DIGITS[:300], DIGITS[300:340]


@pytest.fixture(scope="module")
def model():
    return SNEEmbedding(perplexity=20, random_state=0).fit(TRAINED)


# --- how far new samples are ----------------------------------------------------------------------------


def test_distances_of_new_samples(model):
    Z, distances = model.transform(NEW, return_distance=True)
    np.testing.assert_array_equal(Z, model.transform(NEW))
    D = np.sort(pairwise_distances(NEW, TRAINED), axis=1)
    near = np.argsort(pairwise_distances(NEW, TRAINED), axis=1)[:, :10]
    own = np.sort(pairwise_distances(TRAINED), axis=1)[:, 10]
    np.testing.assert_allclose(distances, D[:, 9] / np.median(own[near], axis=1))
    assert 0.8 < np.median(distances) < 1.3
    of_trained = model.transform(TRAINED, return_distance=True)[1]
    assert np.median(of_trained) == pytest.approx(1, abs=0.1) and of_trained.max() < 3


@pytest.mark.parametrize("transform_perplexity", [1, 2, 50])
def test_distances_do_not_depend_on_the_perplexity(model, transform_perplexity):
    other = pickle.loads(pickle.dumps(model)).set_params(transform_perplexity=transform_perplexity)
    there, here = (m.transform(NEW, return_distance=True)[1] for m in (other, model))
    np.testing.assert_array_equal(there, here)


def test_samples_far_away_warn(model):
    X = np.vstack([NEW[:5], 1e6 * NEW[5:6], NEW[6:9], 1e4 * NEW[9:10]])
    words = r"2 of 10 samples are far from the training data: row 5 is \d\.\d+e\+06 times as far from its nearest"
    with pytest.warns(UserWarning, match=words):
        Z = model.transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, distances = model.transform(X, return_distance=True)  # who asks need not be told
        model.transform(X[:5])
    np.testing.assert_array_equal(again, Z)
    assert set(np.flatnonzero(distances > 10)) == {5, 9}


def test_distances_of_other_data(model):
    _, same = model.transform(NEW, return_distance=True)
    known = SNEEmbedding(perplexity=20, metric="precomputed", max_iter=5, init="random", random_state=0)
    graph = KNeighborsTransformer(n_neighbors=70).fit(TRAINED)
    for trained, new in (
        (pairwise_distances(TRAINED), pairwise_distances(NEW, TRAINED)),
        (graph.transform(TRAINED), graph.transform(NEW)),
    ):
        np.testing.assert_allclose(known.fit(trained).transform(new, return_distance=True)[1], same, rtol=1e-6)


def test_distances_beside_copies():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 3)), 15, axis=0)
    model = SNEEmbedding(perplexity=5, max_iter=20, random_state=0).fit(X)
    distances = model.transform(np.vstack([X[:1], X[:1] + 1e9]), return_distance=True)[1]
    assert distances[0] == 0 and 1e7 < distances[1] < np.inf


def categorical(n, seed):
    """Rows of two one-hot columns, without the pair of both first categories."""
    first, second = np.random.default_rng(seed).integers((4, 3), size=(n, 2)).T
    X = np.hstack([np.eye(4)[first], np.eye(3)[second]])
    return X[first + second > 0]


@pytest.mark.filterwarnings("ignore:the .* neighbours that were found", "ignore:the map")
@pytest.mark.parametrize("precomputed", [False, True])
def test_distances_of_categories(precomputed):
    X, unseen = categorical(700, 0), np.array([[1.0, 0, 0, 0, 1, 0, 0]])
    model = SNEEmbedding(perplexity=5, max_iter=10, init="random", random_state=0)
    new = np.vstack([X[:1], unseen, 100 * unseen])
    if precomputed:
        model.set_params(metric="precomputed").fit(pairwise_distances(X))
        new = pairwise_distances(new, X)
    else:
        model.fit(X)
    distances = model.transform(new, return_distance=True)[1]
    np.testing.assert_allclose(distances[:2], [0, 1])
    assert 50 < distances[2] < 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(new[:2])


@pytest.mark.filterwarnings("ignore:the .* neighbours that were found", "ignore:the map")
def test_far_from_samples_that_are_all_alike():
    model = SNEEmbedding(perplexity=2, max_iter=10, random_state=0).fit(np.ones((30, 3)))
    with pytest.warns(UserWarning, match="row 1 differs from them, and they are all alike"):
        model.transform([[1, 1, 1], [2, 1, 1]])


def test_distances_beside_copies_and_others():
    X = np.vstack([np.zeros((30, 3)), np.random.default_rng(0).normal(size=(70, 3))])
    model = SNEEmbedding(perplexity=5, max_iter=20, random_state=0).fit(X)
    distances = model.transform(np.array([[0.0, 0, 0], [0.1, 0, 0], [1e9, 0, 0]]), return_distance=True)[1]
    assert distances[0] == 0 and distances[1] < 1 and 1e8 < distances[2] < np.inf


@pytest.mark.filterwarnings("ignore:perplexity")
def test_distances_of_few_training_rows():
    model = SNEEmbedding(max_iter=60, random_state=0).fit(TRAINED[:3])
    distances = model.transform(TRAINED[:4], return_distance=True)[1]
    assert np.isfinite(distances).all() and distances[3] < 3


def test_distances_with_data_frames(model):
    fitted = clone(model).set_params(max_iter=5).set_output(transform="pandas").fit(TRAINED)
    Z, distances = fitted.transform(NEW, return_distance=True)
    assert isinstance(Z, pd.DataFrame) and distances.shape == (40,)


def test_return_distance_is_a_bool(model):
    with pytest.raises(ValueError, match="return_distance must be True or False, got 'yes'"):
        model.transform(NEW, return_distance="yes")


# --- whether the map is done ------------------------------------------------------------------------------


def test_a_map_that_does_not_leave_its_start_warns():
    with pytest.warns(ConvergenceWarning, match="has hardly left its start: .* use solver='storm-c', a larger"):
        model = SNEEmbedding(solver="storm-c-paper", random_state=0).fit(DIGITS[:200])
    assert model.embedding_.std() < 1e-3
    with pytest.warns(ConvergenceWarning, match="has hardly left its start"):
        SNEEmbedding(solver=STORMCompositional(learning_rate=1e-9), random_state=0).fit(DIGITS[:200])


@pytest.mark.filterwarnings("ignore:perplexity=30")
@pytest.mark.parametrize(("n", "seed"), few_of([(2, 0), (3, 0), (3, 1)], 0))
def test_a_divergence_of_nothing_is_not_said_to_fall(n, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        SNEEmbedding(random_state=seed).fit(np.random.default_rng(seed).normal(size=(n, 5)))


@pytest.mark.parametrize("seed", few_of([2, 3, 4], 0))
def test_many_dimensions_of_few_samples_do_not_warn(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SNEEmbedding(50, random_state=seed).fit(np.random.default_rng(seed).random((100, 100)))


@pytest.mark.parametrize(("n_components", "perplexity", "seed"), few_of([(4, 2, 0), (4, 1, 1), (5, 3, 2)], 0))
def test_few_neighbors_in_many_dimensions(n_components, perplexity, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SNEEmbedding(n_components, perplexity=perplexity, random_state=seed).fit(DIGITS)
    assert model.loss_curve_[-1] < 0.25 * model.loss_curve_[0]
    assert model.loss_curve_[-1] <= model.loss_curve_.min() + 0.01


def test_few_neighbors_of_few_samples_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SNEEmbedding(4, perplexity=2, random_state=0).fit(DIGITS[:1000])


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_map_that_ends_above_its_best_says_so_once():
    solver = STORMCompositional(learning_rate=1e3, batch_size=(20, 20, None), normalization="block", precision=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        SNEEmbedding(kernel="gaussian", solver=solver, perplexity=5, max_iter=40, random_state=0).fit(TRAINED)
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert len(said) == 1 and "the map's divergence" in said[0] and "is above one that was recorded" in said[0]


@pytest.mark.parametrize("kernel", ["student-t", "gaussian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps_are_centred(kernel, dtype):
    Z = SNEEmbedding(kernel=kernel, perplexity=20, max_iter=30, random_state=0).fit_transform(TRAINED.astype(dtype))
    assert np.abs(Z.mean(axis=0, dtype=float)).max() < 1e-6 * Z.std()


# --- verbose ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verbose", "kernel"), few_of([(1, "student-t"), (2, "student-t"), (True, "gaussian")], 0, 2))
def test_verbose_prints_the_divergence_in_one_table(verbose, kernel, capsys):
    model = SNEEmbedding(perplexity=10, kernel=kernel, max_iter=30, verbose=verbose, random_state=0).fit(TRAINED)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["iteration", "KL", "divergence", "seconds"]
    assert {len(line) for line in lines} == {len(header)}
    parts, lines = lines[:3], lines[3:]
    assert [line.split()[0] for line in parts] == ["neighbors", "affinities", "start"]
    seconds = [float(line.split()[-1]) for line in (*parts, *lines)]
    assert seconds == sorted(seconds) and min(seconds) >= 0
    early = [line.split() for line in lines if line.split()[0] == "early"]
    assert len(early) >= 3 if kernel == "student-t" else not early
    records = [(int(i), float(d)) for i, d, _ in (line.replace("early", "").split() for line in lines)]
    assert records == sorted(set(records), key=lambda record: record[0])
    kept = zip(model.record_iterations_, model.loss_curve_, strict=True)
    assert {(int(i), float(f"{d:.6f}")) for i, d in kept} <= set(records)
    silent = clone(model).set_params(verbose=0).fit(TRAINED)
    assert not capsys.readouterr().out
    np.testing.assert_array_equal(silent.embedding_, model.embedding_)
    np.testing.assert_array_equal(silent.loss_curve_, model.loss_curve_)
    np.testing.assert_array_equal(silent.ifo_, model.ifo_)


@pytest.mark.parametrize("verbose", [-1, 1.5, "loud", None])
def test_bad_verbose(verbose):
    with pytest.raises(ValueError, match="verbose must be an integer >= 0"):
        SNEEmbedding(verbose=verbose).fit(TRAINED)


# --- metrics with parameters of their own -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "params"),
    [("seuclidean", {"V": TRAINED.var(axis=0) + 1}), ("mahalanobis", {"VI": np.diag(1 / (TRAINED.var(axis=0) + 1))})],
)
def test_metrics_that_need_parameters(metric, params):
    model = SNEEmbedding(perplexity=10, metric=metric, max_iter=5, random_state=0)
    with pytest.raises(ValueError, match=rf"metric='{metric}' needs metric_params={{'{next(iter(params))}': ...}}"):
        model.fit(TRAINED)
    with pytest.raises(ValueError, match="needs metric_params="):
        perplexity_affinities(TRAINED, 10, metric=metric, metric_params={"w": 1})
    assert model.set_params(metric_params=params).fit(TRAINED).transform(NEW).shape == (40, 2)


# --- parameters of other packages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n_iter", "max_iter"),
        ("learning_rate", "solver__learning_rate"),
        ("method", "solver='lbfgs'"),
        ("early_exaggeration_iter", "a fifth of max_iter"),
        ("initialization", "init"),
        ("n_neighbors", "perplexity"),
    ],
)
def test_parameters_of_other_packages(name, words):
    with pytest.raises(TypeError, match=f"SNEEmbedding has no parameter '{name}'. In its place there is: .*{words}"):
        SNEEmbedding(**{name: 1})


def test_other_unknown_parameters_and_subclasses():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        SNEEmbedding(nonsense=1)

    class WithMethod(SNEEmbedding):
        def __init__(self, n_components=2, *, method=None):
            super().__init__(n_components)
            self.method = method

    assert clone(WithMethod(3, method="own")).method == "own"


def test_signatures_are_those_of_the_parameters():
    assert set(inspect.signature(SNEEmbedding).parameters) == set(SNEEmbedding().get_params(deep=False))


def test_the_guide_has_the_parameters_of_other_packages():
    guide = (Path(__file__).parents[2] / "docs/guide/embedding.md").read_text(encoding="utf-8")
    assert not [name for name in ELSEWHERE if f"`{name}`" not in guide]
