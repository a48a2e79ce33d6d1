"""SNEEmbedding: quality beside other methods, divergences, scikit-learn's interface,
dtypes, floating-point errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import few_of
from scipy import sparse
from scipy.spatial import procrustes
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE, trustworthiness
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.problems import SNEProblem

DIGITS, LABELS = load_digits(return_X_y=True)
KERNELS = ("gaussian", "student-t")

short = pytest.mark.filterwarnings(
    "ignore:the map:sklearn.exceptions.ConvergenceWarning"
)


def points(n=50, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def radius_of_classes(Z, y):
    """The median distance of a point to the middle of its class, over that of all
    points to the middle of the map."""
    of_class = [
        np.linalg.norm(Z[y == k] - Z[y == k].mean(axis=0), axis=1) for k in np.unique(y)
    ]
    return np.median(np.concatenate(of_class)) / np.median(
        np.linalg.norm(Z - Z.mean(axis=0), axis=1)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("d", "least"), [(2, 0.957), (10, 0.9985)])
def test_gaussian_digits(d, least):
    model = SNEEmbedding(d, kernel="gaussian", random_state=0).fit(DIGITS)
    assert trustworthiness(DIGITS, model.embedding_, n_neighbors=5) >= least
    assert (
        model.stop_reason_ == "max_iter"
        and model.n_iter_ == 120
        and model.kernel_ == "gaussian"
    )
    assert (
        model.ifo_[0] == 0
        and len(model.ifo_)
        == len(model.loss_curve_)
        == len(model.record_iterations_)
        > 5
    )
    assert model.loss_curve_[-1] == pytest.approx(model.kl_divergence_, rel=1e-5)
    assert model.record_iterations_[0] == 0 and model.record_iterations_[-1] == 120
    if d == 2:
        exact = SNEEmbedding(d, kernel="gaussian", solver="lbfgs", random_state=0).fit(
            DIGITS
        )
        assert (
            exact.stop_reason_ == "converged"
            and -0.005 < model.kl_divergence_ - exact.kl_divergence_ < 0.01
        )


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["digits", "far", "uneven"])
def test_maps_beside_those_of_scikit_learn(shape):
    X, y = {
        "digits": lambda: (DIGITS[:1200], LABELS[:1200]),
        "far": lambda: make_blobs(
            1200, 20, centers=10, center_box=(-300, 300), random_state=5
        ),
        "uneven": lambda: make_blobs(
            [500, 300, 100, 70, 30], 10, center_box=(-20, 20), random_state=5
        ),
    }[shape]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = SNEEmbedding(random_state=0).fit_transform(X)
    theirs = TSNE(random_state=0).fit_transform(X.astype(np.float32))
    problem = SNEProblem(
        perplexity_affinities(X, 30), 2, kernel="student-t", dtype=np.float64
    )
    ours_kl, theirs_kl = (
        problem.divergence(Z.ravel().astype(float)) for Z in (ours, theirs)
    )
    assert ours_kl < 1.02 * theirs_kl
    away = np.linalg.norm(ours - np.median(ours, axis=0), axis=1)
    assert away.max() < 5 * np.median(away)
    if shape == "digits":
        assert trustworthiness(X, ours, n_neighbors=5) >= 0.99
        assert KNeighborsClassifier(10).fit(ours, y).score(ours, y) > 0.97


def test_separate_clusters_have_the_radius_of_classes_of_scikit_learn():
    """Clusters without edges between them repel each other for ever: their maps drifted
    apart until they were dots."""
    X, y = make_blobs(160, 20, centers=4, center_box=(-300, 300), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = SNEEmbedding(perplexity=10, random_state=0).fit_transform(X)
    theirs = TSNE(perplexity=10, random_state=0).fit_transform(X)
    assert radius_of_classes(ours, y) > 0.6 * radius_of_classes(theirs, y)


def test_copies_lie_together():
    """Of few neighbours, ties were cut by the order of rows, and eleven of the copies
    lay apart."""
    X = np.vstack([np.zeros((39, 3)), np.ones((1, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z = SNEEmbedding(perplexity=13, random_state=0).fit(X).embedding_[:39]
    assert np.linalg.norm(Z - np.median(Z, axis=0), axis=1).max() < 1e-2


@short
@pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0")
@pytest.mark.parametrize(("copies", "n"), few_of([(2, 1200), (10, 1200), (10, 600)], 2))
def test_maps_of_copies_converge(copies, n):
    """A step limit on averaged directions let their divergence rise by a quarter, once
    it had been low."""
    X = np.repeat(
        np.random.default_rng(0).normal(size=(n // copies, 20)), copies, axis=0
    )
    losses = SNEEmbedding(max_iter=150, random_state=0).fit(X).loss_curve_
    # groups of ten equal points still move a little, by up to 3 % of the divergence
    assert losses[-1] < 1.1 * losses.min() and losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_small_map_is_nearly_that_of_the_exact_method(kernel):
    X = load_iris().data[::2]
    model = SNEEmbedding(kernel=kernel, random_state=0).fit(X)
    exact = SNEEmbedding(kernel=kernel, solver="lbfgs", random_state=0).fit(X)
    assert model.kl_divergence_ < exact.kl_divergence_ + 0.03
    assert trustworthiness(X, model.embedding_) > 0.97


@pytest.mark.parametrize(("n_components", "perplexity"), [(4, 2), (5, 3)])
def test_few_neighbors_in_many_dimensions_do_not_diverge(n_components, perplexity):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SNEEmbedding(n_components, perplexity=perplexity, random_state=0).fit(
            DIGITS[:300]
        )
    assert model.loss_curve_[-1] < 0.25 * model.loss_curve_[0]
    assert model.loss_curve_[-1] <= model.loss_curve_.min() + 0.01


@pytest.mark.slow
def test_maps_are_robust():
    """Against the order of the samples, their precision, the seed, the start, and the
    samples that are there."""
    X, _ = make_augmented_digits(1800, random_state=1)
    order = np.random.default_rng(0).permutation(len(X))
    start = PCA(2, random_state=0).fit_transform(X)
    start *= 1 + 1e-5 * np.random.default_rng(1).normal(size=start.shape)
    some = np.random.default_rng(2).choice(len(X), 1500, replace=False)
    model = SNEEmbedding(random_state=0)
    Z = clone(model).fit_transform(X)
    for other in (
        clone(model).set_params(random_state=1).fit_transform(X.astype(np.float32)),
        clone(model).fit_transform(X[order])[np.argsort(order)],
        clone(model).set_params(init=start).fit_transform(X),
    ):
        # .01 is usual; .25 to .35 in version 0.1.0
        assert procrustes(Z, other)[2] < 0.1
    assert procrustes(Z[some], clone(model).fit_transform(X[some]))[2] < 0.3


@short
def test_divergences():
    """They are those of 3 perplexity + 1 neighbours, as TSNE's, and those of the
    records nearly so. Parameters that were set after the fit do not count."""
    X = make_augmented_digits(200, random_state=0)[0]
    model = SNEEmbedding(kernel="student-t", dof=0.6, max_iter=30, random_state=0)
    assert not hasattr(model, "kl_divergence_")
    unread = pickle.dumps(model.fit(X))
    exact = SNEProblem(
        perplexity_affinities(X, 30), kernel="student-t", dof=0.6, dtype=np.float64
    )
    divergence = exact.divergence(model.embedding_.ravel())
    model.set_params(kernel="auto", dof=3.0, n_components=1)  # of another map
    assert model.kl_divergence_ == pytest.approx(divergence, rel=1e-3)
    for kept in (unread, pickle.dumps(model)):
        assert pickle.loads(kept).kl_divergence_ == model.kl_divergence_
    # of fewer neighbours, if there are many points
    assert model.loss_curve_[-1] == pytest.approx(divergence, rel=0.1)
    start = PCA(2, random_state=0).fit_transform(X)
    start *= 1e-4 / start[:, 0].std()
    first = exact.divergence(start.ravel())
    assert model.loss_curve_[0] == pytest.approx(first, rel=0.1)
    records = model.record_iterations_
    assert (np.diff(records) > 0).all() and records[-1] == model.n_iter_
    model.set_params(kernel="student-t", dof=0.6, n_components=2)
    assert model.optimize(5).kl_divergence_ != pytest.approx(divergence, rel=1e-4)


@short
@parametrize_with_checks([SNEEmbedding(perplexity=2, max_iter=2)])
def test_check_estimator(estimator, check):
    check(estimator)


@short
def test_data_frames():
    X, names = load_iris().data[::3], ["sneembedding0", "sneembedding1"]
    model = SNEEmbedding(perplexity=10, max_iter=5, random_state=0)
    expected = clone(model).fit_transform(X)
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(50) + 7)
    out = clone(model).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == names and out.index[0] == 7
    rows = pl.DataFrame(X, schema=list("abcd"))
    fitted = clone(model).set_output(transform="polars").fit(rows)
    assert fitted.transform(rows[:3]).columns == names
    assert list(fitted.get_feature_names_out()) == names
    assert list(fitted.feature_names_in_) == list("abcd")
    Z, distances = fitted.transform(rows[:3], return_distance=True)
    assert Z.columns == names and distances.shape == (3,)
    with config_context(transform_output="pandas"):
        np.testing.assert_array_equal(clone(model).fit(X).embedding_, expected)


@short
@pytest.mark.filterwarnings("ignore:.*has not converged")
def test_in_a_pipeline_and_searched():
    pipe = make_pipeline(
        SNEEmbedding(perplexity=10, max_iter=10, random_state=0), LogisticRegression()
    )
    size = "sneembedding__solver__batch_size"
    grid = [{size: [50, None]}, {"sneembedding__perplexity": [[5, 15]]}]
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise")
    search.fit(DIGITS[:120], LABELS[:120])
    assert search.best_score_ > 0.5
    sized = search.estimator.set_params(**{size: 50}).fit(DIGITS[:60], LABELS[:60])
    assert sized[0].solver_.batch_size == 50


def test_a_subclass_has_parameters_of_its_own():
    class WithMethod(SNEEmbedding):
        def __init__(self, n_components=2, *, method=None):
            super().__init__(n_components)
            self.method = method

    assert clone(WithMethod(3, method="own")).method == "own"


@short
@pytest.mark.filterwarnings("ignore:perplexity|the .* are all at a distance of 0")
@pytest.mark.parametrize("kernel", KERNELS)
def test_few_points_and_unusual_data_have_finite_maps(kernel):
    for n in (2, 3, 4, 5, 11, 31):
        model = SNEEmbedding(kernel=kernel, max_iter=6, random_state=0)
        Z = model.fit_transform(points(n))
        assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) == n
        assert np.ptp(Z, axis=0).min() > 0
    random = np.random.default_rng(0)
    for X in (
        np.ones((60, 4)),
        np.vstack([points(60), np.full((1, 5), 1e6)]),
        np.hstack([points(60), np.full((60, 1), 4.0)]),
        sparse.random_array((60, 20), density=0.2, format="csc", rng=random),
    ):
        model = SNEEmbedding(perplexity=5, kernel=kernel, solver="storm-c")
        model.set_params(max_iter=20, random_state=0)
        assert np.isfinite(model.fit_transform(X)).all()
        assert np.isfinite(model.kl_divergence_)
        assert np.isfinite(model.transform(X[:5])).all()


@pytest.mark.parametrize(
    ("n_components", "perplexity", "n"), [(2, 2, 200), (4, 5, 200), (2, 5, 1050)]
)
def test_floating_point_errors_are_not_raised(n_components, perplexity, n, monkeypatch):
    """What a kernel makes of infinity times the zeros beside it depends on the
    processor, so products have none."""
    X, matmul = points(n), np.matmul

    def checked(a, b, **kwargs):
        assert np.isfinite(a).all() and np.isfinite(b).all()
        return matmul(a, b, **kwargs)

    monkeypatch.setattr(np, "matmul", checked)
    X[:20] *= 1e3
    model = SNEEmbedding(n_components, perplexity=perplexity, max_iter=12)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(model.fit(X).kl_divergence_)
        assert np.isfinite(model.optimize(5).transform(X[:3] + 0.1)).all()
