"""Every parameter of a map meets every other, every kind of data, every container and
every relation: each allowed pair of values occurs in a case."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import covering_array
from scipy import sparse
from scipy.spatial import procrustes
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities

RNG = np.random.default_rng(0)
N = 120
CENTRES = 4 * RNG.normal(size=(4, 8))
DATA = {
    "clusters": CENTRES[np.arange(N) % 4] + RNG.normal(size=(N, 8)),
    "counts": RNG.poisson(np.exp(CENTRES[np.arange(N) % 4] / 3)).astype(float),
    "copies": np.repeat(1 + RNG.normal(size=(N // 3, 8)), 3, axis=0),
    "line": np.linspace(1, 2, N)[:, None] ** 2 * np.arange(1.0, 9),
    "many": CENTRES[np.arange(1050) % 4] + RNG.normal(size=(1050, 8)),
}
FEATURELESS = ("precomputed", "graph", "affinities")
CONTAINERS = {
    "array": np.asarray,
    "float32": lambda X: np.asarray(X, np.float32),
    "columns first": np.asfortranarray,
    "frame": pd.DataFrame,
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
}
VALUES = {
    "perplexity": {"5": 5.0, "several": [3, 10.0], "lowered": 1000.0},
    "init": {"array": lambda n, d: np.random.default_rng(1).normal(size=(n, d))},
}
FACTORS = {
    "data": list(DATA),
    "container": list(CONTAINERS),
    "metric": ["euclidean", "cosine", "manhattan", *FEATURELESS],
    "n_components": [1, 2, 3, 5],
    "kernel": ["auto", "gaussian", "student-t"],
    "solver": ["auto", "storm-c", "lbfgs"],
    "init": ["auto", "spectral", "random", "array"],
    "perplexity": list(VALUES["perplexity"]),
    "dof": [1.0, 0.7, 3.0],
    "early_exaggeration": ["auto", 1.0, 4.0],
    "exaggeration": [1.0, 2.0],
    "relation": ["again", "permutation", "container", "distances", "chunks", "threads"],
}
FORBIDDEN = [
    *({"kernel": "gaussian", "dof": dof} for dof in (0.7, 3.0)),
    *({"kernel": "auto", "n_components": 5, "dof": dof} for dof in (0.7, 3.0)),
    # a sparse matrix of distances is a graph, and only that
    *({"metric": "precomputed", "container": kind} for kind in ("csr", "csc")),
    *(
        {"metric": "graph", "container": kind}
        for kind in CONTAINERS
        if kind not in ("csr", "csc")
    ),
    *({"relation": "distances", "metric": metric} for metric in FEATURELESS),
    # principal components, which distances do not have
    {"relation": "distances", "init": "auto"},
    # draws amplify rounding
    {"relation": "distances", "solver": "storm-c"},
    {"relation": "container", "container": "array"},
    {"relation": "container", "metric": "graph"},
    {"relation": "chunks", "metric": "affinities"},
    # rows have draws of their own, as do columns without variance
    {"relation": "permutation", "init": "random"},
    {"relation": "permutation", "solver": "storm-c"},
    {"relation": "permutation", "kernel": "gaussian", "solver": "auto"},
    {"relation": "permutation", "kernel": "auto", "solver": "auto", "n_components": 5},
    {"relation": "permutation", "data": "line"},
    {"relation": "permutation", "data": "copies"},
    # all have the same direction
    {"data": "line", "metric": "cosine"},
    # take long
    {"data": "many", "solver": "lbfgs"},
    {"data": "many", "perplexity": "lowered"},
    *({"data": "many", "n_components": d} for d in (3, 5)),
]
CASES = covering_array(FACTORS, FORBIDDEN)


def as_data(X, metric):
    """The data as a metric takes them."""
    if metric == "graph":
        return KNeighborsTransformer(n_neighbors=60).fit_transform(X)
    if metric == "precomputed":
        return pairwise_distances(X)
    if metric == "affinities":
        return perplexity_affinities(X, 8.0).toarray()
    return X


def model_of(case, n):
    """The estimator of a case, for n samples."""
    d = case["n_components"]
    same = ("kernel", "solver", "dof", "early_exaggeration", "exaggeration")
    init = VALUES["init"].get(case["init"])
    return SNEEmbedding(
        d,
        **{name: case[name] for name in same},
        metric="precomputed" if case["metric"] == "graph" else case["metric"],
        perplexity=VALUES["perplexity"][case["perplexity"]],
        init=case["init"] if init is None else init(n, d),
        max_iter=8,
        random_state=0,
    )


def divergence(model, P):
    """The divergence of a map from affinities, over all pairs."""
    Z, n, dof = model.embedding_.astype(float), P.shape[0], model.dof
    D = pairwise_distances(Z, metric="sqeuclidean")
    np.fill_diagonal(D, np.inf)
    P = P.toarray() if sparse.issparse(P) else np.asarray(P, float)
    if model.kernel_ == "gaussian":
        P = P / P.sum(axis=1, keepdims=True) / n
        log_Q = -D - logsumexp(-D, axis=1, keepdims=True)
        return float((P[P > 0] * (np.log(n * P[P > 0]) - log_Q[P > 0])).sum())
    P = (P + P.T) / (P + P.T).sum()
    log_k = -dof * np.log1p(D / dof)
    return float((P[P > 0] * (np.log(P[P > 0]) - log_k[P > 0])).sum()) + float(
        logsumexp(log_k)
    )


def fit(model, X):
    """The fitted estimator, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(X)


def close(one, other, case):
    """Whether two maps are the same but for rounding, which iterations amplify."""
    assert one.kl_divergence_ == pytest.approx(other.kl_divergence_, rel=0.06, abs=1e-3)
    if case["data"] == "clusters" and case["solver"] == "auto":
        assert procrustes(one.embedding_, other.embedding_)[2] < 0.02


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: "-".join(map(str, case.values()))
)
def test_map(case):
    points = DATA[case["data"]]
    plain, n = as_data(points, case["metric"]), len(points)
    X = CONTAINERS[case["container"]](plain)
    model = model_of(case, n)
    fitted = fit(model, X)
    Z, d = fitted.embedding_, case["n_components"]
    assert Z.shape == (n, d) and np.isfinite(Z).all()
    assert Z.dtype == (np.float32 if case["container"] == "float32" else float)
    assert np.abs(Z.mean(axis=0, dtype=float)).max() < 1e-5 * max(Z.std(), 1e-4)
    assert fitted.kernel_ == (
        case["kernel"]
        if case["kernel"] != "auto"
        else "gaussian"
        if d > 3
        else "student-t"
    )
    own = {"perplexity": fitted.perplexity_, "metric": model.metric}
    P = plain if case["metric"] == "affinities" else perplexity_affinities(X, **own)
    expected = divergence(fitted, P)
    assert fitted.kl_divergence_ == pytest.approx(expected, rel=1e-3, abs=1e-5)
    RELATIONS[case["relation"]](case, points, X, model, fitted)


def again(case, points, X, model, fitted):
    """Another fit, and a copy, have the same bits, and a stage continues from both."""
    twin, copied = fit(model, X), pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(twin.embedding_, fitted.embedding_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        further = [one.optimize(2).embedding_ for one in (twin, copied)]
    np.testing.assert_array_equal(*further)


def permutation(case, points, X, model, fitted):
    """The order of the rows makes no difference."""
    order = np.random.default_rng(2).permutation(len(points))
    other = model_of(case, len(points))
    if case["init"] == "array":
        other.set_params(init=other.init[order])
    data = as_data(points[order], case["metric"])
    other = fit(other, CONTAINERS[case["container"]](data))
    assert np.isfinite(other.kl_divergence_)  # before the map has another order
    other.embedding_ = other.embedding_[np.argsort(order)]
    close(fitted, other, case)


def container(case, points, X, model, fitted):
    """The container makes no difference."""
    close(fitted, fit(model, as_data(points, case["metric"])), case)


def distances(case, points, X, model, fitted):
    """Distances have the map of the data that they are of."""
    D = pairwise_distances(points, metric=case["metric"])
    close(fitted, fit(clone(model).set_params(metric="precomputed"), D), case)


def chunks(case, points, X, model, fitted):
    """A new sample does not depend on those beside it, and lies within the map."""
    rows = (
        X.iloc
        if isinstance(X, pd.DataFrame)
        else sparse.csr_array(X)
        if (sparse.issparse(X))
        else X
    )
    whole = fitted.transform(rows[:40])
    for part in (slice(0, 1), slice(1, 7), slice(20, 40)):
        np.testing.assert_array_equal(fitted.transform(rows[part]), whole[part])
    # cosine distances and copies have training samples beside them
    if case["data"] in ("clusters", "many") and case["metric"] != "cosine":
        np.testing.assert_allclose(whole, fitted.embedding_[:40], atol=1e-5)
    if model.metric != "precomputed":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            far = fitted.transform(1e3 * points[:5] + 1)
        radius = np.linalg.norm(fitted.embedding_, axis=1).max()
        assert np.linalg.norm(far, axis=1).max() <= radius * (1 + 1e-5)


def threads(case, points, X, model, fitted):
    """The number of threads makes no difference, to the last bit."""
    other = fit(clone(model).set_params(n_jobs=2), X)
    np.testing.assert_array_equal(other.embedding_, fitted.embedding_)
    assert other.kl_divergence_ == fitted.kl_divergence_


RELATIONS = {
    function.__name__: function
    for function in (again, permutation, container, distances, chunks, threads)
}
