"""SNEEmbedding: quality beside other methods, divergences, scikit-learn's interface, dtypes, floating-point errors."""

import inspect
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
from sklearn.datasets import load_digits, load_iris, make_blobs, make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.problems import SNEProblem

DIGITS, LABELS = load_digits(return_X_y=True)
KERNELS = ("gaussian", "student-t")
SOLVERS = ("storm-c", "storm-c-paper", "scgd", "sarah-c", "lbfgs")

short = pytest.mark.filterwarnings("ignore:the map:sklearn.exceptions.ConvergenceWarning")


def points(n=50, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def radius_of_classes(Z, y):
    """The median distance of a point to the middle of its class, over that of all points to the middle of the map."""
    of_class = [np.linalg.norm(Z[y == k] - Z[y == k].mean(axis=0), axis=1) for k in np.unique(y)]
    return np.median(np.concatenate(of_class)) / np.median(np.linalg.norm(Z - Z.mean(axis=0), axis=1))


# --- quality ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("d", "least"), [(2, 0.957), (5, 0.997), (10, 0.9985)])
def test_gaussian_digits(d, least):
    model = SNEEmbedding(d, kernel="gaussian", random_state=0).fit(DIGITS)
    assert trustworthiness(DIGITS, model.embedding_, n_neighbors=5) >= least
    assert model.stop_reason_ == "max_iter" and model.n_iter_ == 120 and model.kernel_ == "gaussian"
    assert model.ifo_[0] == 0 and len(model.ifo_) == len(model.loss_curve_) == len(model.record_iterations_) > 5
    assert model.loss_curve_[-1] == pytest.approx(model.kl_divergence_, rel=1e-5)
    assert model.record_iterations_[0] == 0 and model.record_iterations_[-1] == 120
    if d == 2:
        exact = SNEEmbedding(d, kernel="gaussian", solver="lbfgs", random_state=0).fit(DIGITS)
        assert exact.stop_reason_ == "converged" and -0.005 < model.kl_divergence_ - exact.kl_divergence_ < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["digits", "blobs", "uneven", "roll"])
def test_maps_beside_those_of_scikit_learn(shape):
    X, y = {
        "digits": lambda: (DIGITS[:1200], LABELS[:1200]),
        "blobs": lambda: make_blobs(1200, 20, centers=10, center_box=(-300, 300), random_state=5),
        "uneven": lambda: make_blobs([500, 300, 100, 70, 30], 10, center_box=(-20, 20), random_state=5),
        "roll": lambda: (make_swiss_roll(1200, random_state=5)[0], None),
    }[shape]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = SNEEmbedding(random_state=0).fit_transform(X)
    theirs = TSNE(random_state=0).fit_transform(X.astype(np.float32))
    problem = SNEProblem(perplexity_affinities(X, 30), 2, kernel="student-t", dtype=np.float64)
    ours_kl, theirs_kl = (problem.divergence(Z.ravel().astype(float)) for Z in (ours, theirs))
    assert ours_kl < 1.02 * theirs_kl
    away = np.linalg.norm(ours - np.median(ours, axis=0), axis=1)
    assert away.max() < 5 * np.median(away)
    if shape == "blobs":
        assert radius_of_classes(ours, y) > 0.6 * radius_of_classes(theirs, y)
    if shape == "digits":
        assert trustworthiness(X, ours, n_neighbors=5) >= 0.99
        assert KNeighborsClassifier(10).fit(ours, y).score(ours, y) > 0.97


def test_separate_clusters_have_the_radius_of_classes_of_scikit_learn():
    """Clusters without edges between them repel each other for ever: their maps drifted apart until they were dots."""
    X, y = make_blobs(300, 20, centers=4, center_box=(-300, 300), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = SNEEmbedding(perplexity=10, random_state=0).fit_transform(X)
    theirs = TSNE(perplexity=10, random_state=0).fit_transform(X)
    assert radius_of_classes(ours, y) > 0.6 * radius_of_classes(theirs, y)


def test_copies_lie_together():
    """Of few neighbours, ties were cut by the order of rows, and eleven of the copies lay apart."""
    X = np.vstack([np.zeros((39, 3)), np.ones((1, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z = SNEEmbedding(perplexity=13, random_state=0).fit(X).embedding_[:39]
    assert np.linalg.norm(Z - np.median(Z, axis=0), axis=1).max() < 1e-2


@short
@pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0")
@pytest.mark.parametrize("copies", [2, 10])
def test_maps_of_copies_converge(copies):
    """A step limit on averaged directions let their divergence rise by a quarter, once it had been low."""
    X = np.repeat(np.random.default_rng(0).normal(size=(1200 // copies, 20)), copies, axis=0)
    losses = SNEEmbedding(max_iter=150, random_state=0).fit(X).loss_curve_
    assert losses[-1] < 1.02 * losses.min() and losses[-1] < 0.7 * losses[0]


@short
def test_more_iterations_on_data_without_structure_do_not_raise_the_divergence():
    few, many = (SNEEmbedding(perplexity=10, max_iter=k, random_state=0).fit(points(1100, 20)) for k in (60, 300))
    assert many.kl_divergence_ < 0.98 * few.kl_divergence_


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_small_map_is_nearly_that_of_the_exact_method(kernel):
    X = load_iris().data
    model = SNEEmbedding(kernel=kernel, random_state=0).fit(X)
    exact = SNEEmbedding(kernel=kernel, solver="lbfgs", random_state=0).fit(X)
    assert model.kl_divergence_ < exact.kl_divergence_ + 0.03
    assert trustworthiness(X, model.embedding_) > 0.98


@pytest.mark.parametrize(("n_components", "perplexity"), few_of([(4, 2), (4, 1), (5, 3)], 0))
def test_few_neighbors_in_many_dimensions_do_not_diverge(n_components, perplexity):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SNEEmbedding(n_components, perplexity=perplexity, random_state=0).fit(DIGITS[:1200])
    assert model.loss_curve_[-1] < 0.25 * model.loss_curve_[0]
    assert model.loss_curve_[-1] <= model.loss_curve_.min() + 0.01


@pytest.mark.slow
@short
@pytest.mark.parametrize("solver", ["scgd", "acc-scgd", "asc-pg", "sarah-c", "civr", "vrsc-pg", "scvr"])
def test_every_solver_makes_a_map(solver):
    X, _ = make_augmented_digits(1200, random_state=0)
    model = SNEEmbedding(solver=solver, random_state=0).fit(X)
    assert trustworthiness(X, model.embedding_, n_neighbors=5) > 0.95


def test_the_papers_steps_hardly_move():
    model = SNEEmbedding(solver="storm-c-paper", init=np.tile(np.arange(200)[:, None] / 200, 2), random_state=0)
    with pytest.warns(ConvergenceWarning, match="has hardly left its start: .* use solver='storm-c', a larger"):
        Z = model.fit_transform(DIGITS[:200])
    np.testing.assert_allclose(Z[:, 0], Z[:, 1], atol=1e-3)  # a line it was, a line it stays


@pytest.mark.slow
def test_maps_are_robust():
    """Against the order of the samples, their precision, the seed, the start, and the samples that are there."""
    X, _ = make_augmented_digits(2500, random_state=1)
    order = np.random.default_rng(0).permutation(len(X))
    start = PCA(2, random_state=0).fit_transform(X)
    start *= 1 + 1e-5 * np.random.default_rng(1).normal(size=start.shape)
    some = np.random.default_rng(2).choice(len(X), 2000, replace=False)
    model = SNEEmbedding(random_state=0)
    Z = clone(model).fit_transform(X)
    for other in (
        clone(model).set_params(random_state=1).fit_transform(X.astype(np.float32)),
        clone(model).fit_transform(X[order])[np.argsort(order)],
        clone(model).set_params(init=start).fit_transform(X),
    ):
        assert procrustes(Z, other)[2] < 0.1  # .01 is usual; .25 to .35 in version 0.1.0
    assert procrustes(Z[some], clone(model).fit_transform(X[some]))[2] < 0.3


# --- divergences ------------------------------------------------------------------------------------------


@short
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "dof"), [(300, 1.0), (1200, 1.0), (300, 0.6)])
def test_divergences(n, dof, kernel):
    """They are those of 3 perplexity + 1 neighbours, as TSNE's, and those of the records nearly so."""
    if kernel == "gaussian" and dof != 1:
        pytest.skip("it has no degrees of freedom")
    X, size = make_augmented_digits(n, random_state=0)[0], {"gaussian": 3, "student-t": 1e-4}[kernel]
    model = SNEEmbedding(kernel=kernel, dof=dof, max_iter=60, random_state=0)
    assert not hasattr(model, "kl_divergence_")
    unread = pickle.dumps(model.fit(X))
    exact = SNEProblem(perplexity_affinities(X, 30), 2, kernel=kernel, dof=dof, jacobian="dense", dtype=np.float64)
    divergence = exact.divergence(model.embedding_.ravel())
    model.set_params(kernel="auto", dof=3.0, n_components=1)  # of another map
    assert model.kl_divergence_ == pytest.approx(divergence, rel=1e-3)
    for kept in (unread, pickle.dumps(model)):
        assert pickle.loads(kept).kl_divergence_ == model.kl_divergence_
    assert model.loss_curve_[-1] == pytest.approx(divergence, rel=0.1)  # of fewer neighbours, if there are many points
    start = PCA(2, random_state=0).fit_transform(X)
    start *= size / start[:, 0].std()
    assert model.loss_curve_[0] == pytest.approx(exact.divergence(start.ravel()), rel=0.1)
    assert (np.diff(model.record_iterations_) > 0).all() and model.record_iterations_[-1] == model.n_iter_
    model.set_params(kernel=kernel, dof=dof, n_components=2)
    assert model.optimize(10).kl_divergence_ != pytest.approx(divergence, rel=1e-4)


# --- scikit-learn -------------------------------------------------------------------------------------


@short
@parametrize_with_checks([SNEEmbedding(perplexity=2, max_iter=10)])
def test_check_estimator(estimator, check):
    check(estimator)


@short
@pytest.mark.slow
@parametrize_with_checks([SNEEmbedding(perplexity=2, solver="sarah-c", kernel="gaussian", max_iter=10)])
def test_check_estimator_with_another_solver(estimator, check):
    check(estimator)


@short
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_dtypes_and_centred_maps(kernel, solver):
    model = SNEEmbedding(kernel=kernel, solver=solver, perplexity=10, max_iter=8, random_state=0)
    for dtype in (np.float64, np.float32):
        Z = model.fit_transform(DIGITS[:300].astype(dtype))
        assert Z.dtype == model.transform(DIGITS[:3].astype(dtype)).dtype == dtype
        assert np.abs(Z.mean(axis=0, dtype=float)).max() < 1e-6 * max(Z.std(), 1e-4)


@short
def test_data_frames():
    X, names = load_iris().data, ["sneembedding0", "sneembedding1"]
    model = SNEEmbedding(perplexity=10, max_iter=5, random_state=0)
    expected = clone(model).fit_transform(X)
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(150) + 7)
    out = clone(model).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == names and out.index[0] == 7
    fitted = clone(model).set_output(transform="polars").fit(pl.DataFrame(X, schema=list("abcd")))
    assert fitted.transform(pl.DataFrame(X[:3], schema=list("abcd"))).columns == names
    assert list(fitted.get_feature_names_out()) == names and list(fitted.feature_names_in_) == list("abcd")
    Z, distances = fitted.transform(pl.DataFrame(X[:3], schema=list("abcd")), return_distance=True)
    assert Z.columns == names and distances.shape == (3,)
    with config_context(transform_output="pandas"):
        np.testing.assert_array_equal(clone(model).fit(X).embedding_, expected)


@short
@pytest.mark.filterwarnings("ignore:.*has not converged")
def test_in_a_pipeline_and_searched():
    pipe = make_pipeline(SNEEmbedding(perplexity=10, max_iter=20, random_state=0), LogisticRegression())
    grid = {"sneembedding__solver__batch_size": [50, None], "sneembedding__perplexity": [10, [5, 15]]}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(DIGITS[:200], LABELS[:200])
    assert search.best_score_ > 0.6
    assert search.best_estimator_[0].solver_.batch_size == search.best_params_["sneembedding__solver__batch_size"]


@short
def test_the_kernel_follows_the_dimension():
    for d, kernel in ((1, "student-t"), (3, "student-t"), (4, "gaussian")):
        assert SNEEmbedding(d, perplexity=5, max_iter=5, random_state=0).fit(DIGITS[:100]).kernel_ == kernel


@short
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_seed(kernel):
    X, _ = make_augmented_digits(1100, random_state=0)
    one, two, other = (
        SNEEmbedding(kernel=kernel, max_iter=6, random_state=seed).fit_transform(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    # a mesh and principal components leave nothing to chance
    assert np.array_equal(one, other) == (kernel == "student-t")


@short
@pytest.mark.parametrize("layout", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_and_precomputed_data(layout):
    X, new = DIGITS[:200], DIGITS[200:205]
    model = SNEEmbedding(perplexity=10, init=X[:, 26:28], max_iter=20, random_state=0)
    expected = clone(model).fit(X)
    graph, known = KNeighborsTransformer(n_neighbors=31).fit(X), clone(model).set_params(metric="precomputed")
    for estimator, data, more in (
        (model, layout(X), layout(new)),
        (known, pairwise_distances(X), pairwise_distances(new, X)),
        (known, layout(graph.transform(X)), layout(graph.transform(new))),
    ):
        # distances that differ in their last digit come to differ in the second on the way
        assert estimator.fit(data).kl_divergence_ == pytest.approx(expected.kl_divergence_, abs=0.02)
        np.testing.assert_array_equal(estimator.transform(data), estimator.embedding_)
        assert estimator.transform(more).shape == (5, 2)


@short
def test_degrees_of_freedom():
    """Heavy tails make a map wider, and light ones press it together."""
    widths = [
        SNEEmbedding(dof=dof, max_iter=60, random_state=0, perplexity=15).fit(DIGITS[:300]).embedding_.std()
        for dof in (0.6, 1.0, 10.0)
    ]
    assert widths[0] > 1.3 * widths[1] > 2.5 * widths[2]


def test_signatures_are_those_of_the_parameters():
    assert set(inspect.signature(SNEEmbedding).parameters) == set(SNEEmbedding().get_params(deep=False))

    class WithMethod(SNEEmbedding):
        def __init__(self, n_components=2, *, method=None):
            super().__init__(n_components)
            self.method = method

    assert clone(WithMethod(3, method="own")).method == "own"


# --- unusual data and floating-point errors -----------------------------------------------------------------


@short
@pytest.mark.filterwarnings("ignore:perplexity")
@pytest.mark.parametrize("kernel", KERNELS)
def test_few_points_are_embedded(kernel):
    for n in (2, 3, 4, 5, 11, 31):
        Z = SNEEmbedding(kernel=kernel, max_iter=20, random_state=0).fit_transform(points(n))
        assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) == n
        assert np.ptp(Z, axis=0).min() > 0


def unusual(n):
    X = points(n)
    yield np.repeat(X[: n // 3], 3, axis=0)
    yield np.ones((n, 4))
    yield np.vstack([X, np.full((1, 5), 1e6)])
    yield np.hstack([X, np.full((n, 1), 4.0)])
    yield sparse.random_array((n, 20), density=0.2, format="csc", random_state=np.random.RandomState(0))


@pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0")  # of ones
@pytest.mark.filterwarnings("ignore:the map was still|.* returns its last point:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", few_of([60, 1300], 0))
def test_unusual_data_have_finite_maps(n, kernel):
    for X in unusual(n):
        for solver in ("storm-c", "scgd", "sarah-c") if n > 1024 else ("storm-c",):
            model = SNEEmbedding(perplexity=5, kernel=kernel, solver=solver, max_iter=30, random_state=0)
            assert np.isfinite(model.fit_transform(X)).all() and np.isfinite(model.kl_divergence_)
            assert np.isfinite(model.transform(X[:5])).all()


@pytest.mark.parametrize(("n_components", "perplexity"), [(2, 2), (3, 10), (4, 2)])
def test_floating_point_errors_are_not_raised(n_components, perplexity):
    X = points(1100 if n_components == 3 else 200)
    X[:20] *= 1e3
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SNEEmbedding(n_components, perplexity=perplexity, max_iter=20, random_state=0).fit(X)
        assert np.isfinite(model.kl_divergence_)
        assert np.isfinite(model.optimize(5).transform(X[:3] + 0.1)).all()


@short
@pytest.mark.parametrize("kernel", KERNELS)
def test_products_of_a_run_are_finite(monkeypatch, kernel):
    """What a kernel makes of infinity times the zeros beside it depends on the processor.

    Values may be right and a floating-point flag raised all the same.
    """
    calls, matmul = [], np.matmul

    def checked(a, b, **kwargs):
        assert np.isfinite(a).all() and np.isfinite(b).all()
        calls.append(a.shape)
        return matmul(a, b, **kwargs)

    monkeypatch.setattr(np, "matmul", checked)
    SNEEmbedding(3, kernel=kernel, perplexity=5, max_iter=12, random_state=0).fit(points(1100, 4))
    assert calls


# --- invalid arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"perplexity": 0.5}, "^perplexity must be"),
        ({"perplexity": []}, "^perplexity must be"),
        ({"perplexity": [0.5, 3]}, "^perplexity must be"),
        ({"perplexity": [[3, 4]]}, "^perplexity must be"),
        ({"perplexity": [True, 2.0]}, "^perplexity must be"),
        ({"n_components": 0}, "^n_components must be"),
        ({"kernel": "cauchy"}, "^kernel must be"),
        ({"init": "laplacian"}, "init must be one of 'auto', 'pca', 'spectral', 'random'"),
        ({"init": None}, "init must be"),
        ({"init": np.zeros((3, 2))}, r"init must be an array of shape \(60, 2\)"),
        ({"init": np.where(np.arange(60) == 3, np.nan, np.ones((2, 60))).T}, "init must be finite, got .* in row 3"),
        ({"init": [["a", "b"]] * 60}, "init must be"),
        ({"early_exaggeration": 0.5}, "^early_exaggeration must be"),
        ({"exaggeration": 0.5}, "^exaggeration must be"),
        ({"max_iter": 0}, "^max_iter must be"),
        ({"record_every": 0}, "^record_every must be"),
        ({"tol": -1}, "^tol must be"),
        ({"solver": "adam"}, "solver must be"),
        ({"solver": STORMCompositional(momentum=2)}, "momentum must be"),
        ({"dof": 0}, "^dof must be"),
        ({"dof": 1e10}, "dof must be a finite number > 0 and <= 10000.0, got 10000000000.0"),
        ({"dof": 2, "kernel": "gaussian"}, "^dof must be"),
        ({"transform_perplexity": 0.5}, "^transform_perplexity must be"),
        ({"verbose": -1}, "^verbose must be an integer >= 0"),
        ({"verbose": "loud"}, "^verbose must be an integer >= 0"),
        ({"metric": 3}, "^metric must be a name or a callable, got 3"),
        ({"metric": "precomputed"}, "must be square"),
        ({"metric": "precomputed", "init": "pca"}, "init must be 'auto', 'spectral', 'random' or an array with"),
    ],
)
def test_invalid_arguments(params, words):
    model = SNEEmbedding(perplexity=5, max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = model.fit(points(40)).embedding_
    with pytest.raises(ValueError, match=words):
        model.set_params(**params).fit(points(60))
    assert model.embedding_ is before and model.perplexity_ == 5


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
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        SNEEmbedding(nonsense=1)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (points(1), "minimum of 2 is required"),
        (np.full((60, 3), np.nan), "NaN"),
        (np.ma.masked_array(points(60), np.arange(300).reshape(60, 5) < 3), "X must have all its values, got 3 that"),
    ],
)
def test_invalid_data(X, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding().fit(X)
