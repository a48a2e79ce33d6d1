"""The stages of a map: early exaggeration, rescaling, exaggeration to the end,
`optimize`, and `resume`."""

import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from helpers import Callback, few_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.callbacks import Checkpoint, EarlyStopping, TimeLimit

DIGITS, LABELS = load_digits(return_X_y=True)
X, Y = DIGITS[:250], LABELS[:250]
NORMAL = np.random.default_rng(0).normal(size=(120, 5))
# ten copies, enough for a mesh
TIGHT = np.repeat(np.random.default_rng(0).normal(size=(110, 20)), 10, axis=0)

pytestmark = [
    pytest.mark.filterwarnings("ignore:the map:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0"),
]


def new_map(max_iter, **params):
    return SNEEmbedding(
        **{"perplexity": 15, "random_state": 0} | params, max_iter=max_iter
    )


def test_early_exaggeration():
    data = DIGITS[:120]
    plain = new_map(50, kernel="gaussian", perplexity=10).fit(data)
    early = clone(plain).set_params(early_exaggeration=4).fit(data)
    assert plain.n_iter_ == early.n_iter_ == 50
    assert plain.ifo_[-1] + 3 * 120 == early.ifo_[-1]  # a second start
    assert plain.loss_curve_[0] == early.loss_curve_[0]  # without the exaggeration
    assert not np.array_equal(plain.embedding_, early.embedding_)
    # the first fifth of the iterations, in which there are no records
    assert early.record_iterations_[:2].tolist() == [0, 10]
    assert 0 < plain.record_iterations_[1] < 10
    solver = STORMCompositional(max_ifo=10_000)
    budget = new_map("auto", solver=solver).fit(data)
    assert budget.ifo_[-1] <= 10_000 + 360 and budget.stop_reason_ == "max_ifo"


def test_exaggeration_to_the_end_makes_maps_denser():
    plain = new_map(60).fit(X)
    dense = clone(plain).set_params(exaggeration=4).fit(X)
    assert dense.embedding_.std() < 0.4 * plain.embedding_.std()
    assert dense.kl_divergence_ > 1.2 * plain.kl_divergence_
    assert dense.loss_curve_[-1] == pytest.approx(dense.kl_divergence_, rel=1e-3)
    nearest = NearestNeighbors(n_neighbors=1).fit(dense.embedding_)
    nearest = nearest.kneighbors(return_distance=False)[:, 0]
    assert np.mean(Y[nearest] == Y) > 0.85


def test_data_without_clusters_do_not_become_one_point():
    # an early stage of a fifth of 300 iterations would draw them together until float32
    # has nothing left
    model = new_map(300).fit(NORMAL)
    assert model.embedding_.std() > 1 and model.record_iterations_[1] == 30


@pytest.mark.parametrize("seed", few_of([0, 2, 3], 2))
def test_a_perplexity_near_a_third_of_the_samples_does_not_leave_a_line(seed):
    """With the full early exaggeration, the map grows in one of its two dimensions
    only."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(40, 10)) + rng.normal(0, 4, (6, 10))[np.arange(40) % 6]
    model = new_map("auto", perplexity=13).fit(data)
    without = new_map("auto", perplexity=13, early_exaggeration=1).fit(data)
    centred = model.embedding_ - model.embedding_.mean(axis=0)
    wide, narrow = np.linalg.svd(centred, compute_uv=False)
    assert narrow > 0.45 * wide
    assert model.kl_divergence_ < 1.3 * without.kl_divergence_


def test_maps_of_tight_groups_are_rescaled():
    """They have a second early stage, half as long as the others, and are drawn out
    after it."""
    tight, loose, spatial = (
        new_map(60, perplexity=10, n_components=d).fit(data)
        for data, d in ((TIGHT, 2), (DIGITS[:1100], 2), (TIGHT, 3))
    )
    assert tight.record_iterations_[:3].tolist() == [0, 12, 36]
    assert loose.record_iterations_[1] == 12 and loose.record_iterations_[2] < 36
    assert spatial.record_iterations_[2] < 36
    assert tight.n_iter_ == loose.n_iter_ == 60
    assert tight.loss_curve_[3] < 0.5 * tight.loss_curve_[2]  # in one iteration
    assert loose.loss_curve_[2] > 0.5 * loose.loss_curve_[1]


class StopAt(Callback):
    """A callback that ends a fit at an iteration, or presses Ctrl-C there."""

    def __init__(self, n_iter, interrupts=False):
        self.n_iter, self.interrupts = n_iter, interrupts

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if (
            fitted_estimator is None
            or context.max_subtasks != 0
            or fitted_estimator.n_iter_ < self.n_iter
        ):
            return False
        if self.interrupts:
            raise KeyboardInterrupt
        return True


@pytest.fixture(scope="module")
def whole():
    """A map that is rescaled after its second stage."""
    model = new_map(20, record_every=1, perplexity=8, n_jobs=2).fit(TIGHT)
    assert np.diff(model.loss_curve_)[12] < -0.5 * model.loss_curve_[12]
    return model


@pytest.mark.parametrize(
    ("n_iter", "interrupts"),
    few_of(
        [(1, True), (4, False), (5, True), (11, False), (12, True), (13, False)],
        0,
        3,
        5,
    ),
)  # in each of three stages, and at their ends
def test_a_rescaled_map_has_the_same_bits_when_it_is_resumed(whole, n_iter, interrupts):
    every = {"record_every": 1, "perplexity": 8}
    stopped = new_map(20, **every).set_callbacks(StopAt(n_iter, interrupts))
    with pytest.raises(KeyboardInterrupt) if interrupts else nullcontext():
        stopped.fit(TIGHT)
    reason = "interrupted" if interrupts else "callback"
    assert (stopped.n_iter_, stopped.stop_reason_) == (n_iter, reason)
    stopped.set_callbacks().resume(TIGHT)
    for name in ("embedding_", "loss_curve_", "ifo_", "record_iterations_"):
        np.testing.assert_array_equal(getattr(stopped, name), getattr(whole, name))


def test_optimize_continues_with_the_map():
    model = new_map(15).fit(X)
    before = clone(model).fit(X)
    assert model.optimize(20, exaggeration=3, record_every=5) is model
    assert model.n_iter_ == 35 and model.embedding_.std() < before.embedding_.std()
    kept = len(before.loss_curve_)
    for name in ("loss_curve_", "ifo_", "record_iterations_"):
        of_fit = getattr(model, name)[:kept]
        np.testing.assert_array_equal(of_fit, getattr(before, name))
    assert model.record_iterations_[kept:].tolist() == [19, 24, 29, 34, 35]
    assert model.n_evaluations_["inner"] > before.n_evaluations_["inner"]
    assert (np.diff(model.ifo_) > 0).all()
    dense = model.kl_divergence_
    model.optimize(40)
    least = min(dense, 1.01 * before.kl_divergence_)
    assert model.n_iter_ == 75 and model.kl_divergence_ < least
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    again = before.optimize(20, exaggeration=3).optimize(40)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_optimize_with_a_learning_rate():
    model, moved = new_map(10).fit(X), []
    for rate in (1e-3, 1.0):
        further = pickle.loads(pickle.dumps(model)).optimize(5, learning_rate=rate)
        moved.append(np.abs(further.embedding_ - model.embedding_).max())
    assert 0 < moved[0] < 0.1 * moved[1]
    exact = new_map(10, solver="lbfgs").fit(X[:60])
    with pytest.raises(ValueError, match="^learning_rate must be None for LBFGS"):
        exact.optimize(5, learning_rate=0.1)
    assert exact.optimize(5).n_iter_ > 10


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"n_components": 3},
            "n_components must stay 2 for .* another map needs a new fit",
        ),
        (
            {"kernel": "gaussian"},
            "kernel must stay 'auto' for optimize, got 'gaussian'",
        ),
        ({"perplexity": 3}, "perplexity must stay 15 for optimize, got 3"),
        ({"dof": 0.5}, "dof must stay 1.0 for optimize, got 0.5"),
        (
            {"metric": "cosine"},
            "metric must stay 'euclidean' for optimize, got 'cosine'",
        ),
    ],
)
def test_what_optimize_may_not_change(params, words):
    model = new_map(5).fit(NORMAL)
    before = model.embedding_
    with pytest.raises(ValueError, match=words):
        model.set_params(**params).optimize()
    assert model.embedding_ is before


def test_callbacks_of_every_iteration():
    class Maps(Callback):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None and context.max_subtasks == 0:
                seen.append((fitted_estimator.n_iter_, fitted_estimator.embedding_))
            return False

    seen = []
    model = new_map(60, record_every=1).set_callbacks(Maps()).fit(X)
    assert [t for t, _ in seen] == list(range(1, 61))
    np.testing.assert_array_equal(model.record_iterations_, np.arange(61))
    maps = np.array([Z for _, Z in seen])
    moved = np.linalg.norm(np.diff(maps, axis=0), axis=(1, 2))
    assert moved[-1] < 0.6 * moved[-3]  # the learning rate falls to 0
    seen.clear()
    model.optimize(7, record_every=1)
    assert [t for t, _ in seen] == list(range(61, 68))
    assert len({Z.std() for _, Z in seen}) == 7
    model.set_callbacks(EarlyStopping(patience=1, min_delta=0.5))
    assert model.optimize(50).stop_reason_ == "callback"


@pytest.mark.parametrize(
    ("kernel", "d"), few_of([("student-t", 2), ("gaussian", 3)], 0)
)
def test_resume_with_a_larger_max_iter(kernel, d):
    short = new_map(30, n_components=d, kernel=kernel).fit(X)
    long = clone(short).set_params(max_iter=100).fit(X)
    again = pickle.loads(pickle.dumps(short))
    resumed = short.set_params(max_iter=100).resume(X)
    assert resumed.n_iter_ == resumed.record_iterations_[-1] == 100
    # most of what the longer fit gains
    gain = again.kl_divergence_ - long.kl_divergence_
    assert resumed.kl_divergence_ < long.kl_divergence_ + 0.35 * gain
    kept = len(again.loss_curve_)
    np.testing.assert_array_equal(resumed.loss_curve_[:kept], again.loss_curve_)
    records = resumed.ifo_, resumed.record_iterations_, resumed.loss_curve_
    assert len(set(map(len, records))) == 1 and len(resumed.ifo_) > kept
    assert all((np.diff(numbers) > 0).all() for numbers in records[:2])
    # there is nothing left to do
    before = resumed.embedding_
    np.testing.assert_array_equal(resumed.resume(X).embedding_, before)
    again.set_params(max_iter=100).resume(X)
    np.testing.assert_array_equal(again.embedding_, before)


def test_iterations_that_make_a_map_worse_are_left_out():
    model = new_map(
        60, perplexity=5, solver=STORMCompositional(learning_rate=30.0)
    ).fit(NORMAL)
    before, divergence = model.embedding_, model.loss_curve_[-1]
    model.set_params(max_iter=62).resume(NORMAL)
    np.testing.assert_array_equal(model.embedding_, before)
    assert model.n_iter_ == 60 and model.loss_curve_[-1] == divergence
    assert model.optimize(2).n_iter_ == 62  # what the user asks for is done


def test_a_stage_that_a_callback_ended_is_resumed(tmp_path):
    saved, model, data = Checkpoint(tmp_path / "map.npz"), new_map(10), DIGITS[:120]
    stage = {"n_iter": 15, "exaggeration": 2.0}
    whole = clone(model).fit(data).optimize(**stage)
    part = clone(model).fit(data).set_callbacks(saved, TimeLimit(0)).optimize(**stage)
    assert part.stop_reason_ == "callback" and part.n_iter_ < 25
    part.set_callbacks()
    for resumed in (part.resume(data), clone(model).set_callbacks(saved).resume(data)):
        assert resumed.n_iter_ == 25 and resumed.kl_divergence_ == whole.kl_divergence_
        for name in ("embedding_", "record_iterations_"):
            np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    # what fit has, and the stage
    assert part.set_params(max_iter=22).resume(data).n_iter_ == 37


def test_a_file_has_the_plan_of_the_stages(tmp_path):
    saved, model, data = Checkpoint(tmp_path / "map.npz"), new_map(10), DIGITS[:120]
    whole = clone(model).fit(data)
    for max_iter in (10, 20):
        # it ends after its first pass
        clone(model).set_callbacks(saved, TimeLimit(0)).fit(data)
        resumed = clone(model).set_params(max_iter=max_iter).set_callbacks(saved)
        expected = whole.set_params(max_iter=max_iter).resume(data).embedding_
        np.testing.assert_array_equal(resumed.resume(data).embedding_, expected)


@pytest.mark.parametrize(("verbose", "kernel"), [(1, "student-t"), (True, "gaussian")])
def test_verbose_prints_one_table(verbose, kernel, capsys):
    model = new_map(30, kernel=kernel, verbose=verbose).fit(NORMAL)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["iteration", "KL", "divergence", "seconds"]
    assert {len(line) for line in lines} == {len(header)}
    seconds = [float(line.split()[-1]) for line in lines]
    assert seconds == sorted(seconds) and min(seconds) >= 0
    parts, lines = lines[:3], lines[3:]
    assert [line.split()[0] for line in parts] == ["neighbors", "affinities", "start"]
    early = [line for line in lines if line.split()[0] == "early"]
    assert len(early) >= 3 if kernel == "student-t" else not early
    rows = [line.replace("early", "").split() for line in lines]
    records = [(int(row[0]), float(row[1])) for row in rows]
    assert records == sorted(set(records), key=lambda record: record[0])
    kept = zip(model.record_iterations_, model.loss_curve_, strict=True)
    assert {(int(i), float(f"{d:.6f}")) for i, d in kept} <= set(records)
    silent = clone(model).set_params(verbose=0).fit(NORMAL)
    assert not capsys.readouterr().out
    for name in ("embedding_", "loss_curve_", "ifo_"):
        np.testing.assert_array_equal(getattr(silent, name), getattr(model, name))
