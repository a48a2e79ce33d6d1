"""Metrics of the data: which are offered, their parameters, what is no distance, and
neighbours that are chance."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import affinities, perplexity_affinities

DIGITS = load_digits().data
NORMAL = np.random.default_rng(0).normal(size=(120, 5))
QUICK = {"perplexity": 5, "max_iter": 5, "random_state": 0}

pytestmark = pytest.mark.filterwarnings(
    "ignore:the map was still:sklearn.exceptions.ConvergenceWarning"
)


@pytest.mark.parametrize("metric", ["nan_euclidean", "pyfunc", "euclid"])
def test_metrics_that_are_not_offered(metric):
    words = "metric must be one of 'braycurtis', .*'yule', got"
    with pytest.raises(ValueError, match=words) as raised:
        SNEEmbedding(metric=metric).fit(NORMAL)
    assert f"'{metric}'" not in str(raised.value).partition(", got")[0]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of distances that are alike
def test_all_metrics_that_are_offered_work():
    with pytest.raises(ValueError, match="metric must be one of") as raised:
        SNEEmbedding(metric="none of these").fit(NORMAL)
    names = str(raised.value).partition("one of ")[2].partition(", got")[0]
    offered = {name.strip("' ") for name in names.split(",")}
    assert len(offered) > 20
    X, random = np.abs(NORMAL[:40, :2]) / 2, np.random.default_rng(0)
    params = {
        "seuclidean": {"V": X.var(axis=0)},
        "mahalanobis": {"V": np.cov(X, rowvar=False)},
    }
    binary = "dice jaccard rogerstanimoto russellrao sokalmichener sokalsneath yule"
    for metric in offered - {"precomputed"}:
        data = random.integers(0, 2, (40, 30)) if metric in binary.split() else X
        own = {"metric": metric, "metric_params": params.get(metric)}
        assert np.isfinite(perplexity_affinities(data, 5, **own).data).all(), metric


def test_mahalanobis_by_the_covariance_or_its_inverse():
    X = NORMAL @ np.random.default_rng(1).normal(size=(5, 5))

    def found(**params):
        own = {"metric": "mahalanobis", "metric_params": params}
        return perplexity_affinities(X, 5, **own).toarray()

    V = np.cov(X, rowvar=False)
    np.testing.assert_array_equal(found(V=V), found(VI=np.linalg.inv(V)))
    whitened = X @ np.linalg.cholesky(np.linalg.inv(V))
    expected = perplexity_affinities(whitened, 5).toarray()
    np.testing.assert_allclose(found(V=V), expected, atol=1e-9)
    with pytest.raises(ValueError, match="'mahalanobis' with metric_params=.*Singular"):
        found(V=np.zeros((5, 5)))


def test_the_power_of_a_fitted_search_is_its_own():
    P = affinities(NearestNeighbors(n_neighbors=16, p=1).fit(NORMAL), 5)
    expected = perplexity_affinities(NORMAL, 5, n_neighbors=16, metric="manhattan")
    np.testing.assert_allclose(P.toarray(), expected.toarray(), rtol=1e-9)
    same = perplexity_affinities(
        NORMAL, 5, n_neighbors=16, metric="minkowski", metric_params={"p": 1}
    )
    np.testing.assert_array_equal(same.toarray(), P.toarray())


NO_DISTANCE = "metric must give distances, finite and not negative, got "
POSITIVE = np.where(np.arange(5) == 2, 0.0, 1.0)


@pytest.mark.parametrize(
    ("metric", "params", "words"),
    [
        ("haversine", None, "X must have two columns, latitude and longitude, got 5"),
        ("euclidean", {"w": 1}, "metric_params={'w': 1} does not work with these X"),
        (lambda a, b: np.nan, None, NO_DISTANCE + "nan of two rows"),
        (lambda a, b: -1.0, None, NO_DISTANCE + "-1.0 of two rows"),
        (lambda a, b: "far", None, NO_DISTANCE + "'far' of two rows"),
        ("seuclidean", None, "metric='seuclidean' needs metric_params={'V': ...}"),
        ("mahalanobis", {"w": 1}, "'mahalanobis' needs metric_params={'VI': ...}"),
        (
            "seuclidean",
            {"V": POSITIVE},
            r"'V'\] must be above 0 .*, got 0 for column 2",
        ),
        ("mahalanobis", {"VI": -np.eye(5)}, "must give finite distances, .* got nan"),
        ("correlation", None, "'correlation' must give finite .* row 0 of X"),
    ],
)
def test_metrics_that_give_no_distances(metric, params, words):
    X = NORMAL.copy()
    if metric == "correlation":
        X[0] = 1  # a constant row has none
    model = SNEEmbedding(metric=metric, metric_params=params, **QUICK)
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        model.fit(X)


def test_metrics_for_dense_data_say_so():
    for metric in ("jaccard", "sqeuclidean"):
        words = f"'{metric}' is for dense X, got sparse X of .*: pass X.toarray"
        with pytest.raises(ValueError, match=words):
            SNEEmbedding(**QUICK, metric=metric).fit(sparse.csr_array(NORMAL))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rows_that_are_too_small_to_have_a_direction(layout):
    small = NORMAL.copy()
    small[7] *= 1e-200
    words = r"larger: row 7 has none above \d.*e-200, .* metric='cosine' needs, vanish"
    model = SNEEmbedding(metric="cosine", **QUICK)
    with pytest.raises(ValueError, match=words):
        clone(model).fit(layout(small))
    small[8] = 0  # no direction at all, which is no matter of size
    with pytest.raises(ValueError, match=words):
        model.fit(layout(NORMAL)).transform(layout(small))


@pytest.mark.parametrize("metric", ["seuclidean", "cosine", "precomputed", "graph"])
def test_the_users_array_may_change_after_the_fit(metric):
    X, new, V = DIGITS[:100].copy(), DIGITS[100:110], np.ones(64)
    if metric == "graph":
        graph = KNeighborsTransformer(n_neighbors=31).fit(X)
        X, new, metric = graph.transform(X), graph.transform(new), "precomputed"
    elif metric == "precomputed":
        X, new = pairwise_distances(X), pairwise_distances(new, X)
    elif metric == "cosine":
        X = sparse.csr_array(X)
    model = SNEEmbedding(**QUICK, metric=metric)
    if metric == "seuclidean":
        model.set_params(metric_params={"V": V})
    Z = model.fit(X).transform(new)
    (X.data if sparse.issparse(X) else X)[:] = 0
    V[:] = 100 * np.arange(1, 65)
    np.testing.assert_array_equal(model.transform(new), Z)


def baskets():
    """Six groups in order, of a hundred rows that share products; every fiftieth row
    has none, or one of its own."""
    X, rng = np.zeros((600, 66), bool), np.random.default_rng(5)
    for k in range(6):
        X[100 * k : 100 * k + 100, 10 * k : 10 * k + 10] = rng.random((100, 10)) < 0.5
    X[3::50] = False
    X[np.arange(3, 600, 100), np.arange(60, 66)] = True
    return X


BASKETS = pairwise_distances(baskets(), metric="jaccard")


def with_times(scale=1.0, offset=1.7e9):
    """Normal columns and one of times, in seconds since 1970, whose differences are
    below one."""
    return scale * np.hstack(
        [NORMAL, offset + np.random.default_rng(1).uniform(size=(120, 1))]
    )


@pytest.mark.parametrize(
    ("X", "metric", "words"),
    [
        (
            sparse.csr_array(with_times(1e-3, 1e7)),
            "euclidean",
            "large beside their differences: the farthest of",
        ),
        (
            sparse.csr_array(with_times()),
            "euclidean",
            "all at a distance of 0,.* rounding hides how: take",
        ),
        (
            (DIGITS[:600] + 1e8).astype(np.float32),
            "euclidean",
            "float32 has rounded them: .* are 24 apart, .* is at ",
        ),
        (NORMAL + 1e7, "cosine", "nearly the same direction: .* metric='euclidean'"),
        (
            (NORMAL + 1e3).astype(np.float32),
            "cosine",
            "nearly the same direction: .* rounding to float32 changes",
        ),
        (NORMAL, "hamming", "16 neighbours .* at a distance of [01],.*'hamming'"),
        (baskets(), "jaccard", "12 of 600 samples are equally far .*, such as row 3,"),
        (baskets() * 1.0, "cosine", "12 of 600 samples are equally far .*'cosine',"),
        (BASKETS, "precomputed", "12 of 600 samples .* have little meaning"),
    ],
)
def test_neighbours_that_are_chance_warn(X, metric, words):
    with pytest.warns(UserWarning, match=words):
        perplexity_affinities(X, 5, metric=metric)


@pytest.mark.parametrize(
    ("X", "metric"),
    [
        (sparse.csr_array(DIGITS[:300]), "euclidean"),
        (DIGITS[:300] + 100, "cosine"),
        (sparse.csr_array(np.repeat(DIGITS[:10], 30, axis=0)), "euclidean"),
        (DIGITS[:300] > 8, "jaccard"),
        (np.eye(17), "euclidean"),  # all are neighbours
        (DIGITS[:600] + 1e8, "euclidean"),
        ((DIGITS[:600] + 1e3).astype(np.float32), "euclidean"),
        (np.full((50, 20), 1e15, np.float32), "euclidean"),
        (np.random.default_rng(0).integers(1, 6, (600, 4)), "euclidean"),
        (np.argwhere(np.ones((20, 20))), "manhattan"),
    ],
)
def test_neighbours_that_are_not_chance_do_not_warn(X, metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # copies are at distance 0 of each other, whichever were listed
        copies = "the .* are all at a distance of 0"
        warnings.filterwarnings("ignore", copies, UserWarning)
        perplexity_affinities(X, 5, metric=metric)


@pytest.mark.filterwarnings("ignore:.* samples are equally far")
@pytest.mark.parametrize("metric", ["cosine", "precomputed"])
def test_samples_that_are_equally_far_from_others_do_not_prefer_the_first_rows(metric):
    X = BASKETS if metric == "precomputed" else baskets() * 1.0
    lonely = np.arange(3, 600, 50)
    P = perplexity_affinities(X, 10, metric=metric).toarray()
    shares = P.reshape(600, 6, 100).sum(axis=2)
    # of six groups, the first once had everything of those with a product of their own
    assert shares[lonely[::2]].max() < 0.3 and shares[lonely[::2]].min() > 0.05
    assert (np.delete(shares, lonely, axis=0).max(axis=1) > 0.99).mean() > 0.9


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([48.1, 11.6], "the latitude in row 1 is 48.1, above 1.571: use numpy.radians"),
        ([0.3, -179], "the longitude in row 1 is -179, above 6.283: use numpy.radians"),
        ([-2.0, 1], "in this order and in radians, but the latitude in row 1 is -2,"),
    ],
)
def test_coordinates_in_degrees_or_in_another_order(row, words):
    X = np.array([[0.1, 0.2], row, [1, 1]])
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="haversine", perplexity=1).fit(X)
    radians = np.radians(np.random.default_rng(0).uniform(-80, 80, (30, 2)))
    model = SNEEmbedding(metric="haversine", **QUICK).fit(radians)
    with pytest.raises(ValueError, match=words):
        model.transform(X)


def test_indices_and_distances_name_the_graph():
    distances, indices = NearestNeighbors(n_neighbors=15).fit(NORMAL).kneighbors()
    for model, X, words in (
        (SNEEmbedding(), (indices, distances), r"two arrays, of shapes \(120, 15\) "),
        (SNEEmbedding(metric="precomputed"), distances, "must be square, got shape "),
    ):
        with pytest.raises(ValueError, match=words + ".*KNeighborsTransformer"):
            model.fit(X)


def test_distances_that_are_read_as_features_warn():
    cosine = pairwise_distances(NORMAL, metric="cosine")
    noisy = pairwise_distances(NORMAL) + 1e-6 * np.random.default_rng(0).random(120)
    for X in (pd.DataFrame(cosine).add_prefix("row "), noisy.astype(np.float32)):
        words = "X is square with 120 rows and columns, .* Use metric='precomputed' for"
        with pytest.warns(UserWarning, match=words):
            SNEEmbedding(**QUICK).fit(X)
    graph = KNeighborsTransformer(n_neighbors=20).fit_transform(NORMAL)
    for X in (graph, sparse.csr_array(graph + graph.T).astype(np.float32)):
        words = "X is square .* or metric='affinities' for similarities"
        with pytest.warns(UserWarning, match=words):
            SNEEmbedding(**QUICK).fit(X)


@pytest.mark.filterwarnings("error:X is square")
def test_square_features_do_not_warn():
    """Nor does another metric than the default, which a user has chosen for the
    features."""
    rng, D = np.random.default_rng(0), pairwise_distances(NORMAL)
    links, counts = np.triu(rng.random((120, 120)) < 0.1, 1), rng.poisson(0.1, D.shape)
    squares = [rng.normal(size=D.shape), np.cov(NORMAL), np.corrcoef(NORMAL)]
    squares += [sparse.csr_array(counts * 1.0), 1.0 * (links | links.T), -D, 0 * D]
    cases = [(X, "euclidean") for X in squares]
    for X, metric in [*cases, (D, "manhattan"), (D, "precomputed")]:
        SNEEmbedding(**QUICK, metric=metric).fit(X)


def test_categories_that_are_numbers_warn():
    table = load_iris(as_frame=True).data
    kinds = table.assign(kind=pd.Categorical(np.arange(150) % 3))
    words = "column 'kind' of X holds categories, .*TableScaler"
    with pytest.warns(UserWarning, match=words):
        SNEEmbedding(**QUICK).fit(kinds)
    grades = table.assign(kind=pd.Categorical(np.arange(150) % 3, ordered=True))
    frame = pl.DataFrame(table.to_dict("list"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "the map was still")
        for X in (grades, kinds.astype({"kind": int}), frame):
            SNEEmbedding(**QUICK).fit(X)


def test_columns_of_polars_that_are_no_numbers():
    texts, numbers = [str(k) for k in range(40)], list(range(40))
    for dtype in (pl.String, pl.Categorical, pl.Enum(texts), pl.Date, pl.Object):
        values = numbers if dtype in (pl.Date, pl.Object) else texts
        column = pl.Series(values, dtype=dtype, strict=False)
        frame = pl.DataFrame({"a": np.arange(40.0), "b": column})
        with pytest.raises(ValueError, match="X must be numbers, but column 'b' holds"):
            SNEEmbedding(**QUICK).fit(frame)


def test_named_columns_in_very_different_units_warn():
    table = load_iris(as_frame=True).data
    days = table.assign(time=1.7e9 + 86400.0 * np.arange(150))
    words = (
        "deviation of 'time' is 3.74e.06, and 2 of 5 columns, such as .*StandardScaler"
    )
    with pytest.warns(UserWarning, match=words):
        SNEEmbedding(**QUICK).fit(days)
    scaled = StandardScaler().set_output(transform="pandas").fit_transform(days)
    scores = PCA().set_output(transform="pandas").fit_transform(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "the map was still")
        for X in (table, days.to_numpy(), scaled, scores):
            SNEEmbedding(**QUICK).fit(X)
        SNEEmbedding(**QUICK, metric="canberra").fit(days)
