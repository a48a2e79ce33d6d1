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
from sklearn.exceptions import ConvergenceWarning
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


@pytest.mark.parametrize(
    "metric", ["nan_euclidean", "p", "pyfunc", "matching", "euclid"]
)
def test_metrics_that_are_not_offered(metric):
    with pytest.raises(
        ValueError, match="metric must be one of 'braycurtis', .*'yule', got"
    ) as raised:
        SNEEmbedding(metric=metric).fit(NORMAL)
    assert f"'{metric}'" not in str(raised.value).partition(", got")[0]


def test_all_metrics_that_are_offered_work():
    with pytest.raises(ValueError, match="metric must be one of") as raised:
        SNEEmbedding(metric="none of these").fit(NORMAL)
    offered = [
        name.strip("' ")
        for name in str(raised.value)
        .partition("one of ")[2]
        .partition(", got")[0]
        .split(",")
    ]
    assert len(offered) > 20
    X = np.abs(NORMAL[:40, :2]) / 2
    params = {
        "seuclidean": {"V": X.var(axis=0)},
        "mahalanobis": {"V": np.cov(X, rowvar=False)},
    }
    binary = {
        "dice",
        "jaccard",
        "rogerstanimoto",
        "russellrao",
        "sokalmichener",
        "sokalsneath",
        "yule",
    }
    for metric in set(offered) - {"precomputed"}:
        data = (
            np.random.default_rng(0).integers(0, 2, (40, 30)) if metric in binary else X
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of distances that are alike
            P = perplexity_affinities(
                data, 5, metric=metric, metric_params=params.get(metric)
            )
        assert np.isfinite(P.data).all(), metric


def test_mahalanobis_by_the_covariance_or_its_inverse():
    X = NORMAL @ np.random.default_rng(1).normal(size=(5, 5))
    V = np.cov(X, rowvar=False)
    by_covariance, by_inverse = (
        perplexity_affinities(
            X, 5, metric="mahalanobis", metric_params=params
        ).toarray()
        for params in ({"V": V}, {"VI": np.linalg.inv(V)})
    )
    np.testing.assert_array_equal(by_covariance, by_inverse)
    whitened = X @ np.linalg.cholesky(np.linalg.inv(V))
    np.testing.assert_allclose(
        by_covariance, perplexity_affinities(whitened, 5).toarray(), atol=1e-9
    )
    with pytest.raises(
        ValueError, match="metric='mahalanobis' with metric_params=.*Singular"
    ):
        perplexity_affinities(
            X, 5, metric="mahalanobis", metric_params={"V": np.zeros((5, 5))}
        )


def test_the_power_of_a_fitted_search_is_its_own():
    P = affinities(NearestNeighbors(n_neighbors=16, p=1).fit(NORMAL), 5)
    expected = perplexity_affinities(NORMAL, 5, n_neighbors=16, metric="manhattan")
    np.testing.assert_allclose(P.toarray(), expected.toarray(), rtol=1e-9)
    same = perplexity_affinities(
        NORMAL, 5, n_neighbors=16, metric="minkowski", metric_params={"p": 1}
    )
    np.testing.assert_array_equal(same.toarray(), P.toarray())


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"metric": "haversine"},
            "with metric='haversine' X must have two columns, latitude and longitude, "
            "got 5",
        ),
        (
            {"metric_params": {"w": 1}},
            "metric='euclidean' with metric_params={'w': 1} does not work with these X",
        ),
        (
            {"metric": lambda a, b: np.nan},
            "metric must give distances, finite and not negative, got nan of two rows",
        ),
        (
            {"metric": lambda a, b: -1.0},
            "metric must give distances, finite and not negative, got -1.0 of two rows",
        ),
        (
            {"metric": lambda a, b: "far"},
            "metric must give distances, finite and not negative, got 'far' of two "
            "rows",
        ),
        (
            {"metric": "seuclidean"},
            "metric='seuclidean' needs metric_params={'V': ...}",
        ),
        (
            {"metric": "mahalanobis", "metric_params": {"w": 1}},
            "metric='mahalanobis' needs metric_params={'VI': ...}",
        ),
        (
            {"metric": "seuclidean", "metric_params": {"V": [1.0, 1.0, 0.0, 1.0, 1.0]}},
            r"metric_params\['V'\] must be above 0 in all columns, got 0 for column "
            r"2: leave constant columns out",
        ),
        (
            {"metric": "mahalanobis", "metric_params": {"VI": -np.eye(5)}},
            "must give finite distances, .* got nan for",
        ),
        ({"metric": "correlation"}, "'correlation' must give finite .* row 0 of X"),
    ],
)
def test_metrics_that_give_no_distances(params, words):
    X = NORMAL.copy()
    if params.get("metric") == "correlation":
        X[0] = 1  # a constant row has none
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        SNEEmbedding(**QUICK, **params).fit(X)


@pytest.mark.parametrize("metric", ["jaccard", "sqeuclidean", "hamming"])
def test_metrics_for_dense_data_say_so(metric):
    X = sparse.random_array(
        (60, 20), density=0.3, rng=np.random.default_rng(0), format="csr"
    )
    with pytest.raises(
        ValueError,
        match=rf"metric='{metric}' is for dense X, got sparse X of .*: pass "
        rf"X.toarray\(\)",
    ):
        SNEEmbedding(perplexity=5, metric=metric).fit(X)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rows_that_are_too_small_to_have_a_direction(layout):
    small = NORMAL.copy()
    small[7] *= 1e-200
    words = (
        r"must be larger: row 7 has none above \d.*e-200, .* which metric='cosine' "
        r"needs, vanish in float64"
    )
    model = SNEEmbedding(metric="cosine", **QUICK)
    with pytest.raises(ValueError, match=words):
        clone(model).fit(layout(small))
    small[8] = 0  # no direction at all, which is no matter of size
    with pytest.raises(ValueError, match=words):
        model.fit(layout(NORMAL)).transform(layout(small))


@pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "cosine", "precomputed"])
@pytest.mark.parametrize("layout", [np.array, sparse.csr_array])
def test_the_users_array_may_change_after_the_fit(metric, layout):
    if layout is not np.array and metric == "seuclidean":
        pytest.skip("scikit-learn has no such metric of sparse data")
    X, new, V = DIGITS[:100].copy(), DIGITS[100:110], np.ones(64)
    if metric == "precomputed":
        graph = KNeighborsTransformer(n_neighbors=31).fit(X)
        dense = pairwise_distances(X), pairwise_distances(new, X)
        X, new = (
            dense if layout is np.array else (graph.transform(X), graph.transform(new))
        )
    X, params = layout(X), {"V": V} if metric == "seuclidean" else None
    model = SNEEmbedding(
        perplexity=10, metric=metric, metric_params=params, max_iter=5, random_state=0
    ).fit(X)
    Z = model.transform(new)
    (X if layout is np.array else X.data)[:] = 0
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
            sparse.csr_array(with_times(1.0, 1e7)),
            "euclidean",
            "large beside their differences: the farthest of",
        ),
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
        (
            NORMAL + 1e7,
            "cosine",
            "rows of X have nearly the same direction: .* or use metric='euclidean'",
        ),
        (
            (NORMAL + 1e3).astype(np.float32),
            "cosine",
            "nearly the same direction: .* rounding to float32 changes",
        ),
        (
            NORMAL,
            "hamming",
            "16 neighbours .* all at a distance of [01],.* by metric='hamming'",
        ),
        (
            NORMAL,
            "jaccard",
            "16 neighbours .* all at a distance of [01],.* by metric='jaccard'",
        ),
        (
            baskets(),
            "jaccard",
            "12 of 600 samples are equally far from most others by .*, such as row 3, "
            "at a dist",
        ),
        (
            baskets().astype(float),
            "cosine",
            "12 of 600 samples are equally far from most others by metric='cosine',",
        ),
        (
            pairwise_distances(baskets(), metric="jaccard"),
            "precomputed",
            "12 of 600 samples .* have little meaning",
        ),
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
        (DIGITS[:300] > 8, "hamming"),
        (DIGITS[:300] > 8, "jaccard"),
        (np.eye(17), "euclidean"),  # all are neighbours
        (DIGITS[:600] + 1e8, "euclidean"),
        ((DIGITS[:600] + 1e3).astype(np.float32), "euclidean"),
        (np.full((50, 20), 1e15, np.float32), "euclidean"),
        (np.random.default_rng(0).integers(1, 6, (600, 4)), "euclidean"),
        (
            np.stack(np.meshgrid(np.arange(20), np.arange(20)), axis=-1).reshape(-1, 2),
            "manhattan",
        ),
    ],
)
def test_neighbours_that_are_not_chance_do_not_warn(X, metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # copies are at distance 0 of each other, whichever were listed
        warnings.filterwarnings(
            "ignore", "the .* are all at a distance of 0", UserWarning
        )
        perplexity_affinities(X, 5, metric=metric)


@pytest.mark.parametrize("metric", ["jaccard", "cosine", "precomputed"])
def test_samples_that_are_equally_far_from_others_do_not_prefer_the_first_rows(metric):
    X = (
        pairwise_distances(baskets(), metric="jaccard")
        if metric == "precomputed"
        else baskets().astype(float)
    )
    rows, lonely = np.arange(600), np.arange(3, 600, 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        P = perplexity_affinities(X, 10, metric=metric)
    for row in lonely[::2]:  # those with a product of their own
        shares = np.bincount(rows // 100, P[[row]].toarray()[0])
        # of six groups, the first once had everything
        assert shares.max() < 0.3 and shares.min() > 0.05
    others = np.delete(rows, lonely)
    assert (
        P[others].toarray().reshape(len(others), 6, 100).sum(axis=2).max(axis=1) > 0.99
    ).mean() > 0.9


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (
            np.array([[10.0, 20], [48.1, 11.6], [1, 2]]),
            "the latitude in row 1 is 48.1, above 1.571: use numpy.radians",
        ),
        (
            np.array([[1.0, -2], [0.3, -179], [1, 2]]),
            "the longitude in row 1 is -179, above 6.283: use numpy.radians",
        ),
        (
            np.array([[-2.0, 1], [0.3, 0.2], [1, 1]]),
            "in this order and in radians, but the latitude in row 0 is -2,",
        ),
    ],
)
def test_coordinates_in_degrees_or_in_another_order(X, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="haversine", perplexity=1).fit(X)
    radians = np.radians(np.random.default_rng(0).uniform(-80, 80, (30, 2)))
    model = SNEEmbedding(metric="haversine", perplexity=5, max_iter=5).fit(radians)
    with pytest.raises(ValueError, match=words):
        model.transform(X)


def test_indices_and_distances_name_the_graph():
    distances, indices = NearestNeighbors(n_neighbors=15).fit(NORMAL).kneighbors()
    for pair in ((indices, distances), [distances, indices]):
        with pytest.raises(
            ValueError,
            match=r"got two arrays, of shapes \(120, 15\) .*KNeighborsTransformer",
        ):
            SNEEmbedding().fit(pair)
    with pytest.raises(
        ValueError,
        match=r"must be square, got shape \(120, 15\): .*KNeighborsTransformer",
    ):
        SNEEmbedding(metric="precomputed").fit(distances)


@pytest.mark.parametrize(
    "metric", ["euclidean", "sqeuclidean", "cosine", "correlation"]
)
@pytest.mark.parametrize("noise", [0, 1e-6])
def test_distances_that_are_read_as_features_warn(metric, noise):
    D = pairwise_distances(NORMAL, metric=metric)
    D += noise * np.random.default_rng(0).random(D.shape)
    for X in (D, pd.DataFrame(D).add_prefix("row "), D.astype(np.float32)):
        with pytest.warns(
            UserWarning,
            match="X is square with 120 rows and columns, .* Use metric='precomputed' "
            "for",
        ):
            SNEEmbedding(**QUICK).fit(X)


def test_graphs_that_are_read_as_features_warn():
    graph = KNeighborsTransformer(n_neighbors=20).fit_transform(NORMAL)
    for G in (graph, graph + graph.T, sparse.csr_array(graph).astype(np.float32)):
        with pytest.warns(
            UserWarning, match="X is square .* or metric='affinities' for similarities"
        ):
            SNEEmbedding(**QUICK).fit(G)


def test_square_features_do_not_warn():
    """Nor does another metric than the default, which a user has chosen for the
    features."""
    rng, D = np.random.default_rng(0), pairwise_distances(NORMAL)
    links = np.triu(rng.random((120, 120)) < 0.1, 1)
    squares = [
        rng.normal(size=(120, 120)),
        np.cov(NORMAL),
        np.corrcoef(NORMAL),
        rng.poisson(0.1, (120, 120)) * 1.0,
    ]
    squares += [
        sparse.csr_array(squares[-1]),
        1.0 * (links | links.T),
        -D,
        np.zeros((120, 120)),
    ]
    for X, params in [(X, {}) for X in squares] + [
        (D, {"metric": "manhattan"}),
        (D, {"metric": "precomputed"}),
    ]:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "X is square")
            warnings.simplefilter("ignore", ConvergenceWarning)
            SNEEmbedding(**QUICK, **params).fit(X)


def test_categories_that_are_numbers_warn():
    table = load_iris(as_frame=True).data
    kinds = table.assign(kind=pd.Categorical(np.arange(150) % 3))
    with pytest.warns(
        UserWarning, match="column 'kind' of X holds categories, .*TableScaler"
    ):
        SNEEmbedding(**QUICK).fit(kinds)
    grades = table.assign(kind=pd.Categorical(np.arange(150) % 3, ordered=True))
    for X in (
        grades,
        kinds.astype({"kind": int}),
        kinds.astype(float),
        pl.DataFrame(table.to_dict("list")),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", "the map was still")
            SNEEmbedding(**QUICK).fit(X)


@pytest.mark.parametrize(
    "dtype",
    [
        pl.String,
        pl.Categorical,
        pl.Enum([str(k) for k in range(40)]),
        pl.Date,
        pl.Object,
    ],
)
def test_columns_of_polars_that_are_no_numbers(dtype):
    values = (
        list(range(40))
        if dtype in (pl.Date, pl.Object)
        else [str(k) for k in range(40)]
    )
    frame = pl.DataFrame(
        {"a": np.arange(40.0), "b": pl.Series(values, dtype=dtype, strict=False)}
    )
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
    for X, params in (
        (table, {}),
        (days.to_numpy(), {}),
        (scaled, {}),
        (scores, {}),
        (days, {"metric": "canberra"}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", "the map was still")
            SNEEmbedding(**QUICK, **params).fit(X)
