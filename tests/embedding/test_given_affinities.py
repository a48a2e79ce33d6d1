"""Affinities that are given, several perplexities at once, exaggeration to the end, and stages in public."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import affinities, perplexity_affinities, perplexity_search
from sk_stormc.callbacks import Checkpoint, EarlyStopping, TimeLimit
from sk_stormc.datasets import make_augmented_digits

X, Y = load_digits(return_X_y=True)
X, Y = X[:250], Y[:250]
P = perplexity_affinities(X, 15)

pytestmark = pytest.mark.filterwarnings("ignore:the map was still:sklearn.exceptions.ConvergenceWarning")


def joint(P):
    P = ((P + P.T) / 2).toarray()
    return P / P.sum()


# --- affinities ---------------------------------------------------------------------------------------


def test_affinities_in_every_form_give_the_same_map():
    model = SNEEmbedding(metric="affinities", init="random", max_iter=30, random_state=0)
    expected = model.fit(P).embedding_
    assert model.kl_divergence_ == pytest.approx(model.loss_curve_[-1], rel=1e-4) and np.isnan(model.perplexity_)
    assert np.isnan(model.neighbor_recall_)
    with_diagonal = P.toarray() + 3 * np.eye(250)
    for given in (joint(P), sparse.coo_matrix(1e-3 * joint(P)), with_diagonal, 1e-200 * P.toarray()):
        before = given.copy()
        found = clone(model).fit(given)
        assert procrustes(found.embedding_, expected)[2] < 1e-2  # rounding may move a map of few iterations
        assert found.kl_divergence_ == pytest.approx(model.kl_divergence_, rel=2e-2)
        assert (before != given).sum() == 0


def test_the_same_affinities_have_the_divergence_of_a_fit_of_points():
    of_points = SNEEmbedding(perplexity=15, max_iter=70, random_state=0).fit(X)
    found = SNEEmbedding(metric="affinities", max_iter=70, init=of_points.embedding_, random_state=0).fit(P)
    assert found.kl_divergence_ == pytest.approx(of_points.kl_divergence_, rel=0.05)
    D = np.square(found.embedding_[:, None] - found.embedding_).sum(axis=2)
    q, p = 1 / (1 + D) - np.eye(250), joint(P)
    kept = p > 0
    assert found.kl_divergence_ == pytest.approx(np.sum(p[kept] * np.log(p[kept] * q.sum() / q[kept])), rel=1e-4)
    gaussian = SNEEmbedding(4, metric="affinities", max_iter=30, random_state=0).fit(P)
    assert gaussian.kernel_ == "gaussian" and np.isfinite(gaussian.embedding_).all()


@pytest.mark.parametrize(
    "given, words",
    [
        (np.ones((5, 4)), "X must be square"),
        (-np.eye(5)[::-1], "X must not be negative"),
        (np.eye(5), "positive affinity of each sample to another, got none in row 0"),
        (np.full((5, 5), np.nan), "X contains NaN"),
    ],
)
def test_what_are_no_affinities(given, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="affinities").fit(given)
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="affinities").fit(sparse.csr_array(given))


def test_affinities_have_neither_transform_nor_principal_components():
    model = SNEEmbedding(metric="affinities", max_iter=10, random_state=0).fit(P)
    with pytest.raises(ValueError, match="^metric must have distances for transform"):
        model.transform(P[:3])
    with pytest.raises(ValueError, match="^init must be .* with metric='affinities'"):
        clone(model).set_params(init="pca").fit(P)
    assert model.__sklearn_tags__().input_tags.pairwise


# --- several perplexities -----------------------------------------------------------------------------


def test_several_perplexities_are_the_mean_of_their_affinities():
    search, used = perplexity_search(X, [5, 20])
    assert used == (5.0, 20.0) and search.n_neighbors == 61
    found = affinities(search, used)
    parts = [affinities(search, value) for value in used]
    np.testing.assert_allclose(found.toarray(), (parts[0] + parts[1]).toarray() / 2, atol=1e-15)
    np.testing.assert_array_equal(perplexity_affinities(X, (5, 20)).toarray(), found.toarray())
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_maps_of_several_perplexities():
    model = SNEEmbedding(perplexity=[5, 20], max_iter=30, random_state=0).fit(X)
    assert model.perplexity_ == (5.0, 20.0)
    same = SNEEmbedding(perplexity=np.array([20.0, 20.0]), max_iter=30, random_state=0).fit(X)
    one = SNEEmbedding(perplexity=20.0, max_iter=30, random_state=0).fit(X)
    np.testing.assert_array_equal(same.embedding_, one.embedding_)
    assert model.transform(X[:5] + 0.1).shape == (5, 2)
    with pytest.warns(UserWarning, match=r"perplexity=\[5, 400\] is too large"):
        assert clone(model).set_params(perplexity=[5, 400]).fit(X).perplexity_ == (5.0, 83.0)
    for wrong in ([], [0.5, 3], ["a"], [[3, 4]], None, [True, 2.0]):
        with pytest.raises(ValueError, match="^perplexity must be"):
            clone(model).set_params(perplexity=wrong).fit(X)


# --- exaggeration and stages --------------------------------------------------------------------------


def test_exaggeration_to_the_end_makes_maps_denser():
    plain = SNEEmbedding(perplexity=15, max_iter=80, random_state=0).fit(X)
    found = clone(plain).set_params(exaggeration=4).fit(X)
    assert found.embedding_.std() < 0.4 * plain.embedding_.std()
    assert found.kl_divergence_ > 1.2 * plain.kl_divergence_
    assert found.loss_curve_[-1] == pytest.approx(found.kl_divergence_, rel=0.1)  # of fewer neighbours
    assert np.mean(Y[np.square(found.embedding_[:, None] - found.embedding_).sum(axis=2).argsort()[:, 1]] == Y) > 0.9


def test_stages_in_public_go_on_with_the_map():
    model = SNEEmbedding(perplexity=15, max_iter=30, random_state=0).fit(X)
    before = clone(model).fit(X)
    assert model.optimize(20, exaggeration=3, record_every=5) is model
    assert model.n_iter_ == 50 and model.embedding_.std() < before.embedding_.std()
    kept = len(before.loss_curve_)
    for name in ("loss_curve_", "ifo_", "record_iterations_"):
        np.testing.assert_array_equal(getattr(model, name)[:kept], getattr(before, name))
    of_stage = model.record_iterations_[kept:]
    assert len(of_stage) == 5 and of_stage[-1] == 50 and (np.diff(of_stage[:-1]) == 5).all()
    assert model.n_evaluations_["inner"] > before.n_evaluations_["inner"]
    model.optimize(60)
    assert model.n_iter_ == 110 and model.kl_divergence_ < 1.01 * before.kl_divergence_
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    again = before.optimize(20, exaggeration=3).optimize(60)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    twin = pickle.loads(pickle.dumps(again)).optimize(10)
    np.testing.assert_array_equal(twin.embedding_, again.optimize(10).embedding_)


def test_a_stage_has_a_learning_rate_of_its_own():
    model = SNEEmbedding(perplexity=15, max_iter=30, random_state=0).fit(X)
    before = model.embedding_
    moved = [
        np.abs(clone(model).fit(X).optimize(10, learning_rate=rate).embedding_ - before).max() for rate in (1e-3, 1.0)
    ]
    assert 0 < moved[0] < 0.1 * moved[1]
    exact = SNEEmbedding(perplexity=15, solver="lbfgs", max_iter=10, random_state=0).fit(X[:100])
    with pytest.raises(ValueError, match="^learning_rate must be None for LBFGS"):
        exact.optimize(5, learning_rate=0.1)
    assert exact.optimize(5).n_iter_ > 10


def test_stages_of_affinities_and_of_the_gaussian_kernel():
    for model in (
        SNEEmbedding(metric="affinities", max_iter=20, random_state=0),
        SNEEmbedding(3, kernel="gaussian", metric="affinities", max_iter=20, random_state=0),
    ):
        divergence = model.fit(P).kl_divergence_
        assert model.optimize(40).kl_divergence_ < divergence


def test_callbacks_see_every_iteration_where_that_is_asked_for(tmp_path):
    seen = []

    class Watch:
        setup = teardown = on_fit_task_begin = lambda self, estimator, context: None

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None and context.max_subtasks == 0:
                seen.append((fitted_estimator.n_iter_, fitted_estimator.embedding_.std()))
            return False

    model = SNEEmbedding(perplexity=15, max_iter=20, record_every=1, random_state=0).set_callbacks(Watch()).fit(X)
    assert [t for t, _ in seen][:4] == [1, 2, 3, 4] and len(seen) == 20
    np.testing.assert_array_equal(model.record_iterations_, np.arange(21))
    seen.clear()
    model.optimize(7, record_every=1)
    assert len({width for _, width in seen}) == len(seen) == 7
    assert model.set_callbacks(EarlyStopping(patience=1, min_delta=0.5)).optimize(50).stop_reason_ == "callback"


def test_a_stage_that_was_ended_is_resumed(tmp_path):
    saved = Checkpoint(tmp_path / "map.npz")
    model = SNEEmbedding(perplexity=15, max_iter=20, random_state=0)
    whole = clone(model).fit(X).optimize(30, exaggeration=2.0)
    part = clone(model).fit(X).set_callbacks(saved, TimeLimit(0)).optimize(30, exaggeration=2.0)
    assert part.stop_reason_ == "callback" and part.n_iter_ < 50
    part.set_callbacks()
    for found in (part.resume(X), clone(model).set_callbacks(saved).resume(X)):
        np.testing.assert_array_equal(found.embedding_, whole.embedding_)
        np.testing.assert_array_equal(found.record_iterations_, whole.record_iterations_)
        assert found.n_iter_ == 50 and found.kl_divergence_ == whole.kl_divergence_
    assert part.set_params(max_iter=45).resume(X).n_iter_ == 75  # what fit has, and the stage


@pytest.mark.slow
def test_all_that_is_new_has_the_same_bits_in_two_threads():
    points = make_augmented_digits(1500, random_state=0)[0]
    model = SNEEmbedding(max_iter=5, dof=0.7, perplexity=[10, 30], exaggeration=2, random_state=0)
    maps = [clone(model).set_params(n_jobs=n_jobs).fit(points).optimize(5).embedding_ for n_jobs in (1, 2)]
    np.testing.assert_array_equal(*maps)


@pytest.mark.parametrize("wrong", [{"n_iter": 0}, {"exaggeration": 0.5}, {"learning_rate": 0.0}, {"record_every": 0}])
def test_stages_that_are_refused_leave_the_map(wrong):
    model = SNEEmbedding(perplexity=15, max_iter=10, random_state=0).fit(X)
    before = model.embedding_
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
        model.optimize(**wrong)
    assert model.embedding_ is before


@pytest.mark.slow
def test_a_search_over_them():
    pipe = make_pipeline(SNEEmbedding(max_iter=20, random_state=0), KNeighborsClassifier())
    grid = {"sneembedding__perplexity": [10, [5, 15]], "sneembedding__dof": [0.8, 1], "sneembedding__exaggeration": [2]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X[:200], Y[:200])
    assert search.best_score_ > 0.7 and np.isfinite(search.cv_results_["mean_test_score"]).all()
