"""Resumed fits have the bits of uninterrupted ones: in memory, from a pickle, and from
a file."""

import copy
import json
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import Callback
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sk_stormc import (
    AutomaticSTORM,
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    STORMCompositional,
)
from sk_stormc.callbacks import Checkpoint
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.engine import checkpoint_file
from sk_stormc.fitting.runs import Progress

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RETURNS = make_gaussian_returns(1500, 6, mean=0.1, random_state=0)
LOG = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(
    1500, random_state=0
)
DIGITS = load_digits().data[:80]
KEPT = ("loss_curve_", "ifo_", "n_iter_", "stop_reason_", "n_evaluations_")


class StopAfter(Callback):
    """A callback that ends a fit after some passes."""

    def __init__(self, passes):
        self.passes = passes

    def setup(self, estimator, context):
        self.seen = 0

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        return self.seen == self.passes


NEXT = {"next_X": LOG.next_X, "terminal": LOG.terminal}
PORTFOLIO = (RETURNS,), {}, "weights_"
VALUES = (LOG.X, LOG.y), NEXT, "coef_"
MAP = (DIGITS,), {}, "embedding_"
MODELS = [
    (CompositionalPortfolio("storm-c-paper"), *PORTFOLIO, 4),
    (
        CompositionalPortfolio(
            "storm-c", risk_measure="semivariance", constraint=(-0.3, 0.6)
        ),
        *PORTFOLIO,
        4,
    ),
    (CompositionalPortfolio("civr", risk_measure="entropic"), *PORTFOLIO, 1),
    (BellmanValueEstimator(0.9, "storm-c", objective="bellman"), *VALUES, 1),
    (BellmanValueEstimator(0.9, "lbfgs", objective="projected"), *VALUES, 4),
    (SNEEmbedding(solver="scgd", kernel="gaussian", perplexity=10), *MAP, 4),
    (SNEEmbedding(solver="lbfgs", perplexity=10), *MAP, 1),
]


@pytest.mark.parametrize(("model", "data", "fit_params", "values", "passes"), MODELS)
def test_resumed_fits_equal_uninterrupted_ones(
    model, data, fit_params, values, passes, tmp_path
):
    model.set_params(random_state=3, max_iter=25)
    saved = Checkpoint(tmp_path / "run.npz")
    whole = clone(model).fit(*data, **fit_params)
    part = clone(model).set_callbacks(saved, StopAfter(passes)).fit(*data, **fit_params)
    resumed = [
        pickle.loads(pickle.dumps(part)).set_callbacks().resume(*data, **fit_params)
    ]
    if part.stop_reason_ == "callback":
        assert part.n_iter_ <= whole.n_iter_
        resumed.append(clone(model).set_callbacks(saved).resume(*data, **fit_params))
    for found in resumed:
        for name in (values, *KEPT):
            np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


@pytest.mark.parametrize("seed", [0, np.random.RandomState(0), None])
def test_resume_with_a_larger_budget_and_the_same_seed(seed):
    portfolio = CompositionalPortfolio(
        AutomaticSTORM(batch_size=16), max_iter=40, random_state=seed
    )
    portfolio.fit(RETURNS)
    assert portfolio.stop_reason_ == "max_iter"
    whole = clone(portfolio).set_params(max_iter=90, random_state=0).fit(RETURNS)
    state = (
        None if seed is None else seed if isinstance(seed, int) else seed.get_state()
    )
    # random_state is not used
    portfolio.set_params(max_iter=90, random_state=1).resume(RETURNS)
    assert portfolio.n_iter_ == 90
    if seed is not None:
        np.testing.assert_array_equal(portfolio.weights_, whole.weights_)
    if isinstance(seed, np.random.RandomState):
        np.testing.assert_equal(seed.get_state(), state)


def test_resume_of_a_converged_fit_to_a_smaller_tol():
    model = CompositionalPortfolio(tol=1e-2, random_state=0).fit(RETURNS)
    before = model.weights_
    np.testing.assert_array_equal(model.resume(RETURNS).weights_, before)
    whole = clone(model).set_params(tol=1e-6).fit(RETURNS)
    np.testing.assert_array_equal(
        model.set_params(tol=1e-6).resume(RETURNS).weights_, whole.weights_
    )


def test_errors_name_the_data_or_parameter_that_differs():
    model = CompositionalPortfolio("storm-c", max_iter=20, random_state=0).fit(RETURNS)
    weights = model.weights_
    for data in (
        RETURNS[::-1],
        RETURNS[:-1],
        RETURNS.astype(np.float32),
        RETURNS + 1e-9,
    ):
        with pytest.raises(
            ValueError, match="^X must be the data of the fit to resume"
        ):
            model.resume(data)
    with pytest.raises(ValueError, match="^sample_weight must be the data of the fit"):
        model.resume(RETURNS, sample_weight=np.ones(len(RETURNS)))
    weighted = clone(model).fit(RETURNS, sample_weight=np.arange(len(RETURNS)))
    with pytest.raises(
        ValueError,
        match="^sample_weight must be the data of the fit to resume, .* got None",
    ):
        weighted.resume(RETURNS)
    for name, value in (
        ("risk_aversion", 2.0),
        ("solver", "civr"),
        ("constraint", (0, np.full(6, 0.3))),
    ):
        with pytest.raises(ValueError, match=f"^{name}.* must stay .* for resume"):
            copy.copy(model).set_params(**{name: value}).resume(RETURNS)
    assert model.weights_ is weights
    with pytest.raises(NotFittedError, match="no fit to resume"):
        clone(model).resume(RETURNS)
    embedding = SNEEmbedding(perplexity=10, max_iter=20, random_state=0).fit(DIGITS)
    with pytest.raises(
        ValueError, match="^max_iter must be at least 20 for resume, got 15"
    ):
        embedding.set_params(max_iter=15).resume(DIGITS)


def test_resume_after_ctrl_c():
    class PressCtrlC(StopAfter):
        def on_fit_task_end(self, estimator, context):
            if super().on_fit_task_end(estimator, context):
                signal.raise_signal(signal.SIGINT)

    model = SNEEmbedding(perplexity=10, random_state=0)
    whole = clone(model).fit(DIGITS)
    for passes in (1, 5):  # the fifth is the end of the early stage, between two runs
        part = clone(model).set_callbacks(PressCtrlC(passes))
        with pytest.raises(KeyboardInterrupt):
            part.fit(DIGITS)
        np.testing.assert_array_equal(
            part.set_callbacks().resume(DIGITS).embedding_, whole.embedding_
        )


# files


def halving(t):
    return 0.1 * 0.99**t


def test_files_have_no_pickles_and_functions_come_from_the_solver(tmp_path):
    path = tmp_path / "run.npz"
    solver = STORMCompositional(
        learning_rate=halving, momentum=(halving, 0.1, halving), batch_size=16
    )
    model = CompositionalPortfolio(solver, max_iter=500, tol=0, random_state=0)
    whole = clone(model).fit(RETURNS)
    clone(model).set_params(max_iter=300).set_callbacks(Checkpoint(path)).fit(RETURNS)
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        assert json.loads(file["header"].tobytes())["format"] == 5
    np.testing.assert_array_equal(
        clone(model).set_callbacks(Checkpoint(path)).resume(RETURNS).weights_,
        whole.weights_,
    )
    with pytest.raises(
        ValueError,
        match=r"solver__learning_rate must stay .*halving for resume, got 0.1",
    ):
        clone(model).set_params(solver__learning_rate=0.1).set_callbacks(
            Checkpoint(path)
        ).resume(RETURNS)


def test_stages_of_a_map_are_resumed_from_a_file(tmp_path):
    model = SNEEmbedding(perplexity=10, random_state=0)
    saved, whole = Checkpoint(tmp_path / "run.npz"), clone(model).fit(DIGITS)
    part = clone(model).set_callbacks(saved, StopAfter(28)).fit(DIGITS)
    early = checkpoint_file.read(saved.path, Progress).plan[0].n_iter
    assert part.stop_reason_ == "callback"
    assert part.n_iter_ > early  # in the second stage
    again = clone(model).set_callbacks(saved).resume(DIGITS)
    for name in (*KEPT, "embedding_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


CHILD = """
import sys, warnings
from pathlib import Path
import numpy as np
warnings.simplefilter("ignore")
from sk_stormc import CompositionalPortfolio, STORMCompositional
from sk_stormc.callbacks import Checkpoint
from sk_stormc.datasets import make_gaussian_returns

path, out = sys.argv[1:]
solver = STORMCompositional(batch_size=16, learning_rate=0.05)
model = CompositionalPortfolio(solver, max_iter=15_000, tol=0, random_state=0).set_callbacks(Checkpoint(path))
returns = make_gaussian_returns(1500, 6, mean=0.1, random_state=0)
model.resume(returns) if Path(path).exists() else model.fit(returns)
np.save(out, np.append(model.weights_, model.ifo_[-1]))
"""


@pytest.mark.slow
def test_a_killed_process(tmp_path):
    path, out, rng = (
        tmp_path / "run.npz",
        tmp_path / "out.npy",
        np.random.RandomState(0),
    )
    reached, kills = [], 0
    while not out.exists():
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), str(out)])
        if kills < 2:
            while not path.exists() and child.poll() is None:
                time.sleep(0.01)
            written = path.stat().st_mtime_ns
            while (
                path.stat().st_mtime_ns == written and child.poll() is None
            ):  # until it has begun to write
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.05))
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
        reached.append(checkpoint_file.read(path, Progress).runs[-1].state.t)
    assert kills  # two, unless a child finishes before it can be killed
    assert np.all(np.diff(reached) > 0)
    solver = STORMCompositional(batch_size=16, learning_rate=0.05)
    whole = CompositionalPortfolio(solver, max_iter=15_000, tol=0, random_state=0).fit(
        RETURNS
    )
    np.testing.assert_array_equal(
        np.load(out), np.append(whole.weights_, whole.ifo_[-1])
    )


def test_a_fit_that_overflowed_is_not_continued():
    model = CompositionalPortfolio(
        STORMCompositional(learning_rate=1e6), max_iter=500, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(RETURNS)
    assert model.stop_reason_ == "non_finite"
    weights = model.weights_
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=600).resume(RETURNS)
    np.testing.assert_array_equal(model.weights_, weights)


def test_pickles_of_another_minor_version_are_refused():
    returns = np.random.default_rng(0).normal(0.1, 1.0, (30, 3))
    model = CompositionalPortfolio(constraint="long_only").fit(returns)
    state = model.__getstate__()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.weights_, model.weights_)
    assert "_sk_stormc_version" not in vars(again)
    for version in ("0.4.0", "99.1.0"):
        with pytest.raises(ValueError, match=f"got a pickle of version {version}"):
            CompositionalPortfolio().__setstate__(
                state | {"_sk_stormc_version": version}
            )
    del state["_sk_stormc_version"]  # as of 0.4.0
    with pytest.raises(ValueError, match="got a pickle of version 0.4 or older"):
        CompositionalPortfolio().__setstate__(state)
