"""Callbacks: scikit-learn's and ours, alone and within a search."""

import contextlib
import io
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers import few_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    STORMCompositional,
    minimize,
)
from sk_stormc.callbacks import Checkpoint, EarlyStopping, TimeLimit
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem

callback = pytest.importorskip(
    "sklearn.callback", reason="callbacks need scikit-learn 1.9"
)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RETURNS = make_gaussian_returns(1500, 6, mean=0.1, random_state=0)
MARKET = RETURNS.mean(axis=1)
LOG = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(
    1500, random_state=0
)
DIGITS = load_digits().data[:200]
STEPS = STORMCompositional(batch_size=16, learning_rate=0.05)

FITS = [
    pytest.param(
        CompositionalPortfolio(STEPS, max_iter=1000, tol=0, random_state=0),
        (RETURNS, MARKET),
        {},
        id="r",
    ),
    pytest.param(
        BellmanValueEstimator(
            0.9, STEPS, objective="projected", max_iter=1000, tol=0, random_state=0
        ),
        (LOG.X, LOG.y),
        {"next_X": LOG.next_X, "terminal": LOG.terminal},
        id="values",
    ),
    pytest.param(SNEEmbedding(perplexity=10, random_state=0), (DIGITS,), {}, id="map"),
]


@pytest.mark.parametrize(("model", "data", "fit_params"), FITS[1:])
def test_a_progress_bar_counts_passes_and_changes_nothing(model, data, fit_params):
    plain = clone(model).fit(*data, **fit_params)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        watched = (
            clone(model).set_callbacks(callback.ProgressBar()).fit(*data, **fit_params)
        )
    np.testing.assert_array_equal(watched.loss_curve_, plain.loss_curve_)
    assert "passes" in out.getvalue()
    assert "100%" in out.getvalue()


@pytest.mark.parametrize(("model", "data", "fit_params"), FITS[:1])
def test_a_scoring_monitor_sees_the_fit_at_each_pass(model, data, fit_params):
    monitor = callback.ScoringMonitor(scoring="r2")
    fitted = clone(model).set_callbacks(monitor).fit(*data, **fit_params)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "pass"]
    # the last record may be at the end
    assert len(fitted.ifo_) - 2 <= len(rows) <= len(fitted.ifo_) - 1
    scores = [row["r2"] for row in rows]
    assert len(set(scores)) > 1
    last = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "fit"]
    assert last == [pytest.approx(r2_score(data[1], fitted.predict(data[0])))]


EXACT = {
    "bellman": BellmanValueEstimator(0.9),
    "projected": BellmanValueEstimator(0.9, "lstd", objective="projected"),
    "actions": ActionValueEstimator([0] * 5, 0.9),
    "greedy": ActionValueEstimator(gamma=0.9),
}
ACTIONS = {"action": np.random.default_rng(0).integers(3, size=1500)}


def exact(kind):
    """An exact fit, with its log: of indicators of states for the policy that is an
    array."""
    model = EXACT[kind]
    log = {"X": LOG.X, "y": LOG.y, "next_X": LOG.next_X, "terminal": LOG.terminal}
    if kind == "actions":
        rng = np.random.default_rng(0)
        log |= {name: np.eye(5)[rng.integers(5, size=1500)] for name in ("X", "next_X")}
    return clone(model), log | (
        ACTIONS if isinstance(model, ActionValueEstimator) else {}
    )


class Seen:
    """A callback that stores what each record shows."""

    def __init__(self, stops=False):
        self.stops, self.records, self.ends = stops, [], 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        if context.max_subtasks == 0:
            self.records.append(
                (
                    fitted_estimator.predict(X),
                    fitted_estimator.loss_curve_,
                    fitted_estimator.n_iter_,
                )
            )
        self.ends += context.parent is None
        return self.stops


@pytest.mark.parametrize("kind", EXACT)
def test_exact_fits_of_values_call_callbacks(kind):
    model, log = exact(kind)
    plain, seen = clone(model).fit(**log), Seen()
    fitted = model.set_callbacks(seen).fit(**log)
    np.testing.assert_array_equal(fitted.coef_, plain.coef_)
    assert (
        len(seen.records) == fitted.n_iter_ == len(fitted.loss_curve_) - 1
        and seen.ends == 1
    )
    values, curve, n_iter = seen.records[-1]
    np.testing.assert_array_equal(values, fitted.predict(log["X"]))
    np.testing.assert_array_equal(curve, fitted.loss_curve_)
    assert n_iter == fitted.n_iter_


def test_a_callback_ends_policy_iteration():
    model, log = exact("greedy")
    plain = clone(model).fit(**log)
    seen = Seen(stops=True)
    stopped = model.set_callbacks(seen).fit(**log)
    assert (stopped.n_iter_, stopped.stop_reason_) == (
        1,
        "callback",
    ) and plain.n_iter_ > 1
    np.testing.assert_array_equal(seen.records[0][0], stopped.predict(log["X"]))
    np.testing.assert_array_equal(
        stopped.set_callbacks().resume(**log).coef_, plain.coef_
    )


def test_an_exact_fit_of_values_resumes_from_its_file(tmp_path):
    model, log = exact("projected")
    saved = Checkpoint(tmp_path / "run.npz")
    fitted = model.set_callbacks(saved).fit(**log)
    np.testing.assert_array_equal(clone(model).resume(**log).coef_, fitted.coef_)
    with pytest.raises(ValueError, match="gamma must stay 0.9 for resume"):
        clone(model).set_params(gamma=0.5).resume(**log)


@pytest.mark.parametrize("n_jobs", few_of([1, 2], 0))
def test_within_a_search(n_jobs, tmp_path):
    monitor = callback.ScoringMonitor(scoring="r2")
    model = CompositionalPortfolio(STEPS, max_iter=500, tol=0, random_state=0)
    callbacks = monitor, EarlyStopping(patience=100), Checkpoint(tmp_path / "run.npz")
    search = GridSearchCV(
        clone(model).set_callbacks(*callbacks),
        {"risk_aversion": [0.5, 2.0]},
        cv=2,
        n_jobs=n_jobs,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        search.set_callbacks(callback.ProgressBar()).fit(RETURNS, MARKET)
    plain = GridSearchCV(model, {"risk_aversion": [0.5, 2.0]}, cv=2).fit(RETURNS)
    np.testing.assert_array_equal(
        search.best_estimator_.weights_, plain.best_estimator_.weights_
    )
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    files = sorted(os.listdir(tmp_path))  # of four fits for scores, and of the last one
    assert files == [
        "run-0-0.npz",
        "run-0-1.npz",
        "run-0-2.npz",
        "run-0-3.npz",
        "run-1.npz",
    ]
    paths = {
        row["task_id_path"][:3]
        for row in monitor.get_logs().data
        if row["task_name"] == "pass"
    }
    assert len(paths) == 5


def test_early_stopping_by_loss_and_by_score():
    model = CompositionalPortfolio(STEPS, max_iter=20_000, tol=0, random_state=0)
    stopped = (
        clone(model)
        .set_callbacks(EarlyStopping(patience=3, min_delta=1e-3))
        .fit(RETURNS)
    )
    assert stopped.stop_reason_ == "callback"
    curve = (
        stopped.loss_curve_[:-1]
        if stopped.loss_curve_[-1] == stopped.loss_curve_[-2]
        else stopped.loss_curve_
    )
    best = np.minimum.accumulate(curve)
    # three passes without a gain, and no earlier three
    assert np.all(curve[-3:] > best[-4] - 1e-3 * abs(best[-4]))
    assert stopped.n_iter_ < 20_000

    calls = []

    def score(estimator, X, y):
        calls.append(estimator.weights_)
        return -len(calls)

    scored = clone(model).set_callbacks(EarlyStopping(score, patience=2)).fit(RETURNS)
    assert scored.stop_reason_ == "callback"
    assert len(calls) == 3
    assert not np.array_equal(calls[0], calls[1])


def test_early_stopping_does_not_look_at_the_early_stage():
    model = SNEEmbedding(perplexity=10, random_state=0)
    plain = clone(model).fit(DIGITS)
    patient = (
        clone(model).set_callbacks(EarlyStopping(patience=3, min_delta=0.0)).fit(DIGITS)
    )
    assert patient.n_iter_ > plain.n_iter_ // 5
    assert patient.kl_divergence_ < 1.1 * plain.kl_divergence_


def test_a_time_limit_is_of_each_fit():
    limit = TimeLimit(0.1)
    model = CompositionalPortfolio(
        STEPS, max_iter=10**8, tol=0, random_state=0
    ).set_callbacks(limit)
    for _ in range(2):
        began = time.monotonic()
        assert model.fit(RETURNS).stop_reason_ == "callback"
        assert time.monotonic() - began >= 0.1


def test_threads_share_callbacks_and_keep_their_own_state(tmp_path):
    stopping = EarlyStopping(patience=3, min_delta=1e-3)
    models = [
        CompositionalPortfolio(
            STEPS, risk_aversion=lam, max_iter=20_000, tol=0, random_state=0
        ).set_callbacks(stopping)
        for lam in (0.5, 1.0, 2.0)
    ]
    alone = [clone(model).fit(RETURNS) for model in models]
    threads = [threading.Thread(target=model.fit, args=(RETURNS,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, other in zip(models, alone, strict=True):
        np.testing.assert_array_equal(model.weights_, other.weights_)
        np.testing.assert_array_equal(model.ifo_, other.ifo_)
    assert not stopping._fits


def test_a_checkpoint_needs_a_folder():
    with pytest.raises(ValueError, match="path must be in a folder that exists"):
        Checkpoint("nowhere/at/all.npz")


HIDDEN = """
import sys, warnings
import sk_stormc.callbacks
for name in [name for name in sys.modules if name.startswith("sk_stormc")]:
    del sys.modules[name]
sys.modules["sklearn.callback"] = None
from sk_stormc import CompositionalPortfolio
from sk_stormc.callbacks import TimeLimit
from sk_stormc.datasets import make_gaussian_returns
X = make_gaussian_returns(200, 4, mean=0.1, random_state=0)
with warnings.catch_warnings(record=True) as caught:
    model = CompositionalPortfolio(random_state=0).set_callbacks(TimeLimit(0)).fit(X).fit(X)
print(model.stop_reason_, [str(w.message) for w in caught])
"""


@pytest.mark.slow
def test_without_the_experimental_module_fits_go_on_and_say_so_once():
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("converged ['callbacks are off: ")
    assert done.stdout.count("callbacks are off") == 1


# minimize


def test_callbacks_of_minimize(tmp_path):
    problem = PortfolioProblem(RETURNS)
    options = {"solver": "scgd", "random_state": 0, "tol": 0}
    whole = minimize(problem, **options, max_iter=600)
    saved = Checkpoint(tmp_path / "run.npz")
    assert saved.load_run() is None
    minimize(problem, **options, max_iter=400, callbacks=[saved])
    rest = minimize(
        problem, **options, max_iter=600, state=saved.load_run(), callbacks=[saved]
    )
    assert np.array_equal(rest.x, whole.x) and np.array_equal(
        rest.loss_curve, whole.loss_curve
    )

    seen = []
    look = {
        "on_record": lambda record: seen.append(record.ifo),
        "callbacks": [TimeLimit(0)],
    }
    stopped = minimize(problem, **options, max_iter=10**9, **look)
    assert stopped.stop_reason == "callback" and seen == [0]
    early = EarlyStopping(patience=2, min_delta=0.5)
    runs = [
        minimize(problem, **options, max_iter=10**9, callbacks=[early])
        for _ in range(2)
    ]
    assert runs[0].stop_reason == "callback" and np.array_equal(runs[0].x, runs[1].x)
    with pytest.raises(ValueError, match="monitor must be 'loss' in minimize"):
        minimize(problem, callbacks=[EarlyStopping(monitor="r2")])
    for one in (TimeLimit(0), lambda record: True):
        assert minimize(problem, **options, callbacks=one).stop_reason == "callback"
    with pytest.raises(ValueError, match="callbacks must be functions of a record or"):
        minimize(problem, callbacks=[3])
