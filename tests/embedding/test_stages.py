"""The stages of a map: early exaggeration, rescaling, exaggeration to the end,
`optimize`, and `resume`."""

import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from helpers import Callback, few_of
from sklearn.base import clone
from sklearn.datasets import load_digits

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
    plain = new_map(100, kernel="gaussian", perplexity=10).fit(DIGITS[:200])
    early = clone(plain).set_params(early_exaggeration=4).fit(DIGITS[:200])
    assert plain.n_iter_ == early.n_iter_ == 100
    assert plain.ifo_[-1] + 3 * 200 == early.ifo_[-1]  # a second start
    assert plain.loss_curve_[0] == early.loss_curve_[0]  # without the exaggeration
    assert not np.array_equal(plain.embedding_, early.embedding_)
    # the first fifth of the iterations, in which there are no records
    assert (
        early.record_iterations_[:2].tolist() == [0, 20]
        and 0 < plain.record_iterations_[1] < 20
    )
    budget = new_map("auto", solver=STORMCompositional(max_ifo=20_000)).fit(
        DIGITS[:200]
    )
    assert budget.ifo_[-1] <= 20_000 + 600 and budget.stop_reason_ == "max_ifo"


def test_exaggeration_to_the_end_makes_maps_denser():
    plain = new_map(80).fit(X)
    dense = clone(plain).set_params(exaggeration=4).fit(X)
    assert dense.embedding_.std() < 0.4 * plain.embedding_.std()
    assert dense.kl_divergence_ > 1.2 * plain.kl_divergence_
    assert dense.loss_curve_[-1] == pytest.approx(dense.kl_divergence_, rel=1e-3)
    assert (
        np.mean(
            Y[
                np.square(dense.embedding_[:, None] - dense.embedding_)
                .sum(axis=2)
                .argsort()[:, 1]
            ]
            == Y
        )
        > 0.9
    )


def test_data_without_clusters_do_not_become_one_point():
    # an early stage of a fifth of 300 iterations would draw them together until float32
    # has nothing left
    model = SNEEmbedding(max_iter=300, random_state=0).fit(
        np.random.default_rng(1).normal(size=(400, 20))
    )
    assert model.embedding_.std() > 1 and model.record_iterations_[1] == 30


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_perplexity_near_a_third_of_the_samples_does_not_leave_a_line(seed):
    """With the full early exaggeration, the map grows in one of its two dimensions
    only."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(40, 10)) + rng.normal(0, 4, (6, 10))[np.arange(40) % 6]
    model = new_map("auto", perplexity=13).fit(data)
    without = new_map("auto", perplexity=13, early_exaggeration=1).fit(data)
    wide, narrow = np.linalg.svd(
        model.embedding_ - model.embedding_.mean(axis=0), compute_uv=False
    )
    assert narrow > 0.45 * wide
    assert model.kl_divergence_ < 1.3 * without.kl_divergence_


def test_maps_of_tight_groups_are_rescaled():
    """They have a second early stage, half as long as the others, and are drawn out
    after it."""
    tight, loose = (
        new_map(60, perplexity=10).fit(data) for data in (TIGHT, DIGITS[:1100])
    )
    assert (
        tight.record_iterations_[:3].tolist() == [0, 12, 36]
        and loose.record_iterations_[1] == 12
    )
    assert loose.record_iterations_[2] < 36 and tight.n_iter_ == loose.n_iter_ == 60
    assert tight.loss_curve_[3] < 0.5 * tight.loss_curve_[2]  # in one iteration
    assert loose.loss_curve_[2] > 0.5 * loose.loss_curve_[1]
    assert (
        new_map(60, perplexity=10, n_components=3).fit(TIGHT).record_iterations_[2] < 36
    )


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
    [(1, True), (4, False), (5, True), (11, False), (12, True), (13, False)],
)  # in each of three stages, and at their ends
def test_a_rescaled_map_has_the_same_bits_when_it_is_resumed(whole, n_iter, interrupts):
    every = {"record_every": 1, "perplexity": 8}
    stopped = new_map(20, **every).set_callbacks(StopAt(n_iter, interrupts))
    with pytest.raises(KeyboardInterrupt) if interrupts else nullcontext():
        stopped.fit(TIGHT)
    assert stopped.n_iter_ == n_iter and stopped.stop_reason_ == (
        "interrupted" if interrupts else "callback"
    )
    stopped.set_callbacks().resume(TIGHT)
    for name in ("embedding_", "loss_curve_", "ifo_", "record_iterations_"):
        np.testing.assert_array_equal(getattr(stopped, name), getattr(whole, name))


def test_optimize_continues_with_the_map():
    model = new_map(30).fit(X)
    before = clone(model).fit(X)
    assert model.optimize(20, exaggeration=3, record_every=5) is model
    assert model.n_iter_ == 50 and model.embedding_.std() < before.embedding_.std()
    kept = len(before.loss_curve_)
    for name in ("loss_curve_", "ifo_", "record_iterations_"):
        np.testing.assert_array_equal(
            getattr(model, name)[:kept], getattr(before, name)
        )
    of_stage = model.record_iterations_[kept:]
    assert (
        len(of_stage) == 5
        and of_stage[-1] == 50
        and (np.diff(of_stage[:-1]) == 5).all()
    )
    assert (
        model.n_evaluations_["inner"] > before.n_evaluations_["inner"]
        and (np.diff(model.ifo_) > 0).all()
    )
    dense = model.kl_divergence_
    model.optimize(60)
    assert model.n_iter_ == 110 and model.kl_divergence_ < min(
        dense, 1.01 * before.kl_divergence_
    )
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    again = before.optimize(20, exaggeration=3).optimize(60)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    twin = pickle.loads(pickle.dumps(again)).optimize(10)
    np.testing.assert_array_equal(twin.embedding_, again.optimize(10).embedding_)


def test_optimize_with_a_learning_rate():
    model = new_map(30).fit(X)
    before = model.embedding_
    moved = [
        np.abs(
            clone(model).fit(X).optimize(10, learning_rate=rate).embedding_ - before
        ).max()
        for rate in (1e-3, 1.0)
    ]
    assert 0 < moved[0] < 0.1 * moved[1]
    exact = new_map(10, solver="lbfgs").fit(X[:100])
    with pytest.raises(ValueError, match="^learning_rate must be None for LBFGS"):
        exact.optimize(5, learning_rate=0.1)
    assert exact.optimize(5).n_iter_ > 10


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"n_components": 3},
            "n_components must stay 2 for optimize, got 3: another map needs a new fit",
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
    class Widths(Callback):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None and context.max_subtasks == 0:
                seen.append(
                    (fitted_estimator.n_iter_, fitted_estimator.embedding_.std())
                )
            return False

    seen = []
    model = new_map(20, record_every=1).set_callbacks(Widths()).fit(X)
    assert [t for t, _ in seen] == list(range(1, 21))
    np.testing.assert_array_equal(model.record_iterations_, np.arange(21))
    seen.clear()
    model.optimize(7, record_every=1)
    assert [t for t, _ in seen] == list(range(21, 28)) and len(
        {width for _, width in seen}
    ) == 7
    assert (
        model.set_callbacks(EarlyStopping(patience=1, min_delta=0.5))
        .optimize(50)
        .stop_reason_
        == "callback"
    )


@pytest.mark.parametrize(
    ("kernel", "d"), few_of([("student-t", 2), ("gaussian", 3)], 0)
)
def test_resume_with_a_larger_max_iter(kernel, d):
    short = new_map(30, n_components=d, kernel=kernel).fit(DIGITS[:500])
    long = clone(short).set_params(max_iter=100).fit(DIGITS[:500])
    again = pickle.loads(pickle.dumps(short))
    resumed = short.set_params(max_iter=100).resume(DIGITS[:500])
    assert resumed.n_iter_ == resumed.record_iterations_[-1] == 100
    # most of what the longer fit gains
    assert resumed.kl_divergence_ < long.kl_divergence_ + 0.25 * (
        again.kl_divergence_ - long.kl_divergence_
    )
    kept = len(again.loss_curve_)
    np.testing.assert_array_equal(resumed.loss_curve_[:kept], again.loss_curve_)
    assert (
        len(resumed.loss_curve_)
        == len(resumed.ifo_)
        == len(resumed.record_iterations_)
        > kept
    )
    assert (np.diff(resumed.ifo_) > 0).all() and (
        np.diff(resumed.record_iterations_) > 0
    ).all()
    np.testing.assert_array_equal(
        again.set_params(max_iter=100).resume(DIGITS[:500]).embedding_,
        resumed.embedding_,
    )
    before = resumed.embedding_
    # there is nothing left to do
    np.testing.assert_array_equal(resumed.resume(DIGITS[:500]).embedding_, before)


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
    saved, model = Checkpoint(tmp_path / "map.npz"), new_map(20)
    whole = clone(model).fit(X).optimize(30, exaggeration=2.0)
    part = (
        clone(model)
        .fit(X)
        .set_callbacks(saved, TimeLimit(0))
        .optimize(30, exaggeration=2.0)
    )
    assert part.stop_reason_ == "callback" and part.n_iter_ < 50
    part.set_callbacks()
    for resumed in (part.resume(X), clone(model).set_callbacks(saved).resume(X)):
        np.testing.assert_array_equal(resumed.embedding_, whole.embedding_)
        np.testing.assert_array_equal(
            resumed.record_iterations_, whole.record_iterations_
        )
        assert resumed.n_iter_ == 50 and resumed.kl_divergence_ == whole.kl_divergence_
    # what fit has, and the stage
    assert part.set_params(max_iter=45).resume(X).n_iter_ == 75


def test_a_file_has_the_plan_of_the_stages(tmp_path):
    saved, model = Checkpoint(tmp_path / "map.npz"), new_map(20)
    whole = clone(model).fit(X)
    for max_iter in (20, 40):
        # it ends after its first pass
        clone(model).set_callbacks(saved, TimeLimit(0)).fit(X)
        resumed = (
            clone(model).set_params(max_iter=max_iter).set_callbacks(saved).resume(X)
        )
        np.testing.assert_array_equal(
            resumed.embedding_, whole.set_params(max_iter=max_iter).resume(X).embedding_
        )


@pytest.mark.parametrize(("verbose", "kernel"), [(1, "student-t"), (True, "gaussian")])
def test_verbose_prints_one_table(verbose, kernel, capsys):
    model = new_map(30, kernel=kernel, verbose=verbose).fit(X)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["iteration", "KL", "divergence", "seconds"]
    assert {len(line) for line in lines} == {len(header)}
    parts, lines = lines[:3], lines[3:]
    assert [line.split()[0] for line in parts] == ["neighbors", "affinities", "start"]
    seconds = [float(line.split()[-1]) for line in (*parts, *lines)]
    assert seconds == sorted(seconds) and min(seconds) >= 0
    early = [line for line in lines if line.split()[0] == "early"]
    assert len(early) >= 3 if kernel == "student-t" else not early
    records = [
        (int(i), float(d))
        for i, d, _ in (line.replace("early", "").split() for line in lines)
    ]
    assert records == sorted(set(records), key=lambda record: record[0])
    kept = zip(model.record_iterations_, model.loss_curve_, strict=True)
    assert {(int(i), float(f"{d:.6f}")) for i, d in kept} <= set(records)
    silent = clone(model).set_params(verbose=0).fit(X)
    assert not capsys.readouterr().out
    for name in ("embedding_", "loss_curve_", "ifo_"):
        np.testing.assert_array_equal(getattr(silent, name), getattr(model, name))
