"""Maps of data as they come: what a user is told where neighbours are chance, a metric fails, or nothing was found."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.affinities import affinities, perplexity_affinities

DIGITS = load_digits().data
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(120, 5))
QUICK = {"perplexity": 5, "max_iter": 5, "random_state": 0}

unfinished = pytest.mark.filterwarnings("ignore:the map was still:sklearn.exceptions.ConvergenceWarning")


# --- neighbours that are chance -----------------------------------------------------------------------------


def with_times(n=120):
    return np.hstack([NORMAL[:n], 1.7e9 + RNG.uniform(size=(n, 1))])


@unfinished
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_sparse_data_with_an_offset_warn(scale):
    X = with_times()
    X[:, -1] = scale * (1e7 + X[:, -1] - 1.7e9)
    with pytest.warns(
        UserWarning, match="values of X are large beside their differences: the farthest of the 16 neigh"
    ):
        SNEEmbedding(**QUICK).fit(sparse.csr_array(np.hstack([scale * NORMAL, X[:, -1:]])))
    with pytest.warns(UserWarning, match="all at a distance of 0,.* or rounding hides how: take the columns' means"):
        perplexity_affinities(sparse.csr_array(with_times()), 5)


def test_directions_that_hardly_differ_warn():
    with pytest.warns(UserWarning, match="rows of X have nearly the same direction: .* or use metric='euclidean'"):
        perplexity_affinities(NORMAL + 1e7, 5, metric="cosine")
    with pytest.warns(UserWarning, match="nearly the same direction: .* rounding to float32 changes"):
        perplexity_affinities((NORMAL + 1e3).astype(np.float32), 5, metric="cosine")


@pytest.mark.parametrize("metric", ["hamming", "jaccard"])
def test_a_metric_that_does_not_tell_samples_apart_warns(metric):
    with pytest.warns(UserWarning, match=f"16 neighbours .* all at a distance of [01],.* by metric='{metric}'"):
        perplexity_affinities(NORMAL, 5, metric=metric)


@pytest.mark.parametrize(
    ("X", "metric"),
    [
        (sparse.csr_array(DIGITS[:300]), "euclidean"),
        (sparse.csr_array(DIGITS[:300]), "cosine"),
        (DIGITS[:300] + 100, "cosine"),
        (DIGITS[:300].astype(np.float32), "cosine"),
        (sparse.csr_array(np.repeat(DIGITS[:10], 30, axis=0)), "euclidean"),
        (DIGITS[:300] > 8, "hamming"),
        (DIGITS[:300] > 8, "jaccard"),
        (np.eye(17), "euclidean"),  # all are neighbours
    ],
    ids=str,
)
def test_neighbours_that_are_not_chance_do_not_warn(X, metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # copies are at distance 0 of each other, whichever are found
        warnings.filterwarnings("ignore", "the .* are all at a distance of 0", UserWarning)
        perplexity_affinities(X, 5, metric=metric)


# --- metrics ------------------------------------------------------------------------------------------------


def test_the_power_of_a_fitted_search_is_its_own():
    search = NearestNeighbors(n_neighbors=16, p=1).fit(NORMAL)
    P, expected = affinities(search, 5), perplexity_affinities(NORMAL, 5, n_neighbors=16, metric="manhattan")
    np.testing.assert_allclose(P.toarray(), expected.toarray(), rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = perplexity_affinities(NORMAL, 5, n_neighbors=16, metric="minkowski", metric_params={"p": 1})
    np.testing.assert_array_equal(given.toarray(), P.toarray())


def no_number(a, b):
    return "far"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"metric": "euclid"}, "metric must be one of 'braycurtis', .*'yule', got 'euclid'"),
        ({"metric": "haversine"}, "metric='haversine' does not work with these X: "),
        ({"metric_params": {"w": 1}}, "metric='euclidean' with metric_params={'w': 1} does not work with these X"),
        ({"metric": lambda a, b: np.nan}, "metric must give distances, finite and not negative, got nan of two rows"),
        ({"metric": lambda a, b: -1.0}, "metric must give distances, finite and not negative, got -1.0 of two rows"),
        ({"metric": no_number}, "metric must give distances, finite and not negative, got 'far' of two rows"),
        (
            {"metric": "seuclidean", "metric_params": {"V": [1.0, 1.0, 0.0, 1.0, 1.0]}},
            r"metric_params\['V'\] must be above 0 in all columns, got 0 for column 2: leave constant columns out",
        ),
        (
            {"metric": "mahalanobis", "metric_params": {"VI": -np.eye(5)}},
            "must give finite distances, .* got nan for row",
        ),
    ],
)
def test_metrics_that_give_no_distances(params, words):
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        SNEEmbedding(**QUICK, **params).fit(NORMAL)


def test_rows_without_a_correlation():
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="'correlation' must give finite .* row 0 of X"):
        SNEEmbedding(metric="correlation", **QUICK).fit(np.vstack([np.ones((30, 5)), NORMAL[:40]]))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@unfinished
def test_rows_that_are_too_small_to_have_a_direction(layout):
    small = NORMAL.copy()
    small[7] *= 1e-200
    words = r"must be larger: row 7 has none above \d.*e-200, .* which metric='cosine' needs, vanish in float64"
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="cosine", **QUICK).fit(layout(small))
    small[8] = 0  # no direction at all, which is no matter of size
    model = SNEEmbedding(metric="cosine", **QUICK).fit(layout(NORMAL))
    with pytest.raises(ValueError, match=words):
        model.transform(layout(small))


# --- maps that show nothing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"exaggeration": 100}, "hardly left its start: .* Use a smaller exaggeration: 100 draws all points together"),
        ({"solver": STORMCompositional(max_ifo=3000)}, "hardly left its start: .* a larger learning_rate or a larger"),
        ({"tol": 1e9}, r"hardly left its start: .* Use a smaller tol: with 1e\+09 the solver ended there"),
    ],
)
def test_a_map_that_is_one_point_warns(params, words):
    with pytest.warns(ConvergenceWarning, match=words):
        model = SNEEmbedding(perplexity=5, max_iter=30, random_state=0, **params).fit(NORMAL)
    assert model.embedding_.std() < 0.01


def test_data_without_clusters_do_not_become_one_point():
    # an early stage of a fifth of 300 iterations would draw them together until float32 has nothing left
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the map's divergence")
        model = SNEEmbedding(max_iter=300, random_state=0).fit(np.random.default_rng(1).normal(size=(400, 20)))
    assert model.embedding_.std() > 1
    assert [stage.n_iter for stage in model._progress.plan] == [30, 270]


# --- what must not depend on how often a fit is recorded -------------------------------------------------------


@unfinished
def test_the_map_does_not_depend_on_how_often_it_is_recorded():
    X = make_swiss_roll(60, random_state=1)[0]
    model = SNEEmbedding(perplexity=2, random_state=0).fit(X)
    for every in (1, 3, 1000):
        again = clone(model).set_params(record_every=every).fit(X)
        np.testing.assert_array_equal(again.embedding_, model.embedding_)
    short = clone(model).set_params(max_iter=40, record_every=1000)
    with pytest.warns(ConvergenceWarning, match="still moving after 40 iterations"):
        short.fit(X)


@pytest.mark.parametrize("data", ["normal", "roll"])
def test_a_map_that_gains_from_more_iterations_is_found_too_short(data):
    X = np.random.default_rng(2).normal(size=(300, 10)) if data == "normal" else make_swiss_roll(300, random_state=2)[0]
    perplexity, max_iter = (2, 20) if data == "normal" else (10, 45)
    model = SNEEmbedding(perplexity=perplexity, max_iter=max_iter, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still moving after .* iterations: .* Increase max_iter"):
        model.fit(X)
    longer = clone(model).set_params(max_iter=240).fit(X)
    assert longer.kl_divergence_ < 0.95 * model.kl_divergence_


# --- arguments ----------------------------------------------------------------------------------------------


@unfinished
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_components", 3, "n_components must stay 2 for optimize, got 3: another map needs a new fit"),
        ("kernel", "gaussian", "kernel must stay 'auto' for optimize, got 'gaussian'"),
        ("perplexity", 3, "perplexity must stay 5 for optimize, got 3"),
        ("dof", 0.5, "dof must stay 1.0 for optimize, got 0.5"),
    ],
)
def test_a_stage_is_of_the_same_map(name, value, words):
    model = SNEEmbedding(**QUICK).fit(NORMAL)
    before = model.embedding_
    with pytest.raises(ValueError, match=words):
        model.set_params(**{name: value}).optimize(5)
    assert model.embedding_ is before


def test_values_that_are_refused():
    start = np.zeros((120, 2))
    start[3] = np.nan
    with pytest.raises(ValueError, match=r"init must be finite, got array\(\[nan, nan\]\) in row 3"):
        SNEEmbedding(init=start, **QUICK).fit(NORMAL)
    with pytest.raises(ValueError, match="dof must be a finite number > 0 and <= 10000.0, got 10000000000.0"):
        SNEEmbedding(dof=1e10, **QUICK).fit(NORMAL)
    with pytest.raises(ValueError, match="X must have all its values, got 3 that are masked: fill them"):
        SNEEmbedding(**QUICK).fit(np.ma.masked_array(NORMAL, mask=np.arange(600).reshape(120, 5) < 3))


@unfinished
@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_frames_that_all_transformers_are_to_give(frames):
    pytest.importorskip(frames)
    expected = SNEEmbedding(**QUICK).fit(DIGITS[:100])
    with config_context(transform_output=frames):
        model = SNEEmbedding(**QUICK).fit(DIGITS[:100])
        assert type(model.transform(DIGITS[:3])).__name__ == "DataFrame"
    np.testing.assert_array_equal(model.embedding_, expected.embedding_)
