"""partial_fit: the same bits for any chunks, accuracy, and chunks that raise errors."""

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import slow_but
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from stream_helpers import (
    RETURNS,
    STREAMING,
    bits,
    chunks,
    fed,
    portfolio,
    result_bits,
    solver_for_streams,
    stream_of,
)

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import SCGD, SARAHCompositional, STORMCompositional

CONSTRAINTS = {
    "long_only": {"constraint": "long_only"},
    "bounds": {"constraint": (-0.2, 0.6), "budget": 1.0},
    "l1": {"l1": 0.01},
}


# bits


@pytest.mark.parametrize("risk", slow_but(["variance", "entropic"], "entropic"))
@pytest.mark.parametrize("solver", ["storm-c", "storm-c-paper", "sarah-c", "asc-pg"])
def test_bits_do_not_depend_on_chunks(solver, risk):
    one = bits(fed(portfolio(solver, risk_measure=risk), RETURNS, len(RETURNS)))
    for size in (37, "mixed"):
        assert bits(fed(portfolio(solver, risk_measure=risk), RETURNS, size)) == one
    result = minimize(
        stream_of(RETURNS, 101, risk_measure=risk),
        solver_for_streams(solver).set_params(tol=0),
        random_state=0,
    )
    assert [
        (p.dtype, p.tobytes()) for p in (result.x, result.loss_curve, result.ifo)
    ] == one[0][:3]
    assert result.n_iter > 0 and np.any(result.x)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("solver", ["storm-c", "scgd"])
def test_bits_with_constraints_and_float32(solver, constraint):
    X = RETURNS.astype(np.float32)
    one = fed(portfolio(solver, **CONSTRAINTS[constraint]), X, 1500)
    assert one.weights_.dtype == np.float32
    assert bits(fed(portfolio(solver, **CONSTRAINTS[constraint]), X, "mixed")) == bits(
        one
    )
    w = one.weights_
    if constraint == "long_only":
        assert (w >= 0).all() and w.sum() == pytest.approx(1, abs=1e-5)
    if constraint == "bounds":
        assert (
            w.min() >= -0.2 - 1e-6
            and w.max() <= 0.6 + 1e-6
            and w.sum() == pytest.approx(1, abs=1e-5)
        )


@pytest.mark.parametrize(
    "copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy]
)
def test_copies_between_chunks_change_nothing(copied):
    estimator = portfolio("vrsc-pg", constraint="long_only")
    for chunk in chunks(RETURNS, 90):  # before and after the first window is complete
        before, estimator = estimator, copied(estimator.partial_fit(chunk))
        before.partial_fit(chunk)  # the two have nothing in common
    assert bits(estimator) == bits(
        fed(portfolio("vrsc-pg", constraint="long_only"), RETURNS, 1500)
    )


def test_the_pickle_does_not_grow_with_rows():
    estimator, sizes = portfolio(), []
    for k in range(4):
        fed(estimator, make_gaussian_returns(5000, 4, mean=0.1, random_state=k), 500)
        sizes.append(len(pickle.dumps(estimator)))
    assert sizes[-1] <= 1.1 * sizes[0]
    # five windows of 512 rows of 4 numbers, and the state of a run
    assert max(sizes) < 110_000


def test_the_caller_may_reuse_arrays():
    for size in (30, 500):  # before and after the first window is complete
        buffer, estimator = np.empty((size, 4)), portfolio()
        for chunk in chunks(RETURNS, size):
            buffer[:] = chunk
            estimator.partial_fit(buffer)
        buffer[:] = 0
        assert bits(estimator) == bits(fed(portfolio(), RETURNS, 1500))

    def batches(buffer):
        for chunk in chunks(RETURNS, 30):
            buffer[:] = chunk
            yield buffer

    stream = StreamingProblem(
        batches(np.empty((30, 4))), partial(PortfolioProblem, preconditioner="variance")
    )
    assert result_bits(minimize(stream, random_state=0)) == result_bits(
        minimize(stream_of(RETURNS), random_state=0)
    )


# accuracy


def gap(X, weights):
    """The objective's excess over that of the closed form for these rows, relative to
    it."""
    S, m = np.cov(X.T, bias=True), X.mean(0)
    best = np.linalg.solve(2 * S, m)

    def objective(w):
        return w @ S @ w - m @ w

    return (objective(weights) - objective(best)) / abs(objective(best))


def test_one_pass_ends_near_the_closed_form():
    gaps = {}
    for n in (2000, 10_000):
        X = [
            make_gaussian_returns(n, 5, mean=0.1, random_state=seed)
            for seed in range(3)
        ]
        gaps[n] = [
            gap(x, fed(portfolio(random_state=seed), x, 5000).weights_)
            for seed, x in enumerate(X)
        ]
    # measured: at most .1 and .002
    assert max(gaps[2000]) < 0.3 and max(gaps[10_000]) < 0.01
    assert np.mean(gaps[2000]) > 4 * np.mean(gaps[10_000])


@pytest.mark.parametrize("solver", STREAMING)
def test_every_solver_decreases_the_objective(solver):
    X = make_gaussian_returns(10_000, 4, mean=1.0, random_state=0)
    # it is 1 at the start
    assert gap(X, fed(portfolio(solver), X, 1000).weights_) < 0.2


# fit and partial_fit


def test_partial_fit_after_fit_starts_from_its_weights():
    estimator = portfolio(constraint="long_only").fit(RETURNS)
    start = estimator.weights_
    estimator.partial_fit(RETURNS[:10])
    np.testing.assert_allclose(estimator.weights_, start, atol=1e-14)  # projected
    assert estimator.n_iter_ == 0
    fed(estimator, RETURNS[10:], 37)
    stream = stream_of(RETURNS, penalty=Simplex())
    assert (
        estimator.weights_.tobytes()
        == minimize(stream, x0=start, random_state=0).x.tobytes()
    )


def test_parameters_are_those_of_the_first_call():
    estimator = fed(portfolio(), RETURNS[:1000], 100).set_params(
        risk_aversion=9.0, max_iter=1, tol=1e9, random_state=7
    )
    assert bits(fed(estimator, RETURNS[1000:], 50)) == bits(
        fed(portfolio(), RETURNS, 1500)
    )
    with pytest.raises(ValueError, match="risk_aversion must be"):
        estimator.set_params(risk_aversion=-1.0).partial_fit(RETURNS)


def test_another_solver_is_refused():
    estimator = fed(portfolio(), RETURNS[:1000], 100)
    for rows in (RETURNS[:5], RETURNS):  # enough for an iteration or not
        with pytest.raises(ValueError, match="solver must stay AutomaticSTORM"):
            estimator.set_params(solver="scgd").partial_fit(rows)
    with pytest.raises(ValueError, match="solver must stay"):
        estimator.set_params(solver="auto").partial_fit(RETURNS)
    estimator.set_params(solver=solver_for_streams("storm-c"))
    assert bits(fed(estimator, RETURNS[1000:], 50)) == bits(
        fed(portfolio(), RETURNS, 1500)
    )
    assert (
        fed(clone(estimator).set_params(solver="scgd"), RETURNS, 50).stop_reason_
        == "exhausted"
    )


def test_max_iter_and_tol_are_for_fit():
    assert bits(fed(portfolio(max_iter=2, tol=10.0), RETURNS, 37)) == bits(
        fed(portfolio(), RETURNS, 1500)
    )
    limited = STORMCompositional(max_iter=2, max_ifo=100)
    assert fed(portfolio(limited), RETURNS, 37).n_iter_ > 20
    with pytest.raises(ValueError, match="max_iter"):
        portfolio(max_iter=0).partial_fit(RETURNS)


IN_ONE_PLACE = np.arange(RETURNS.size).reshape(RETURNS.shape) == 14
WRONG = {
    "columns": RETURNS[:, :3],
    "NaN": np.where(IN_ONE_PLACE, np.nan, RETURNS),
    "infinity": np.where(IN_ONE_PLACE, np.inf, RETURNS),
    "no rows": RETURNS[:0],
    "words": np.full((5, 4), "a"),
    "one axis": RETURNS[0],
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "first", [300, 1000]
)  # before and after the first window is complete
def test_a_wrong_chunk_changes_nothing(wrong, first):
    estimator = portfolio().partial_fit(RETURNS[:first])
    before = bits(estimator)
    with pytest.raises(ValueError):
        estimator.partial_fit(WRONG[wrong])
    assert bits(estimator) == before
    assert bits(fed(estimator, RETURNS[first:], 50)) == bits(
        fed(portfolio(), RETURNS, 1500)
    )


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)]
)
def test_frames_keep_their_names(frame):
    names = list("abcd")
    estimator = portfolio()
    for chunk in chunks(RETURNS, 250):
        estimator.partial_fit(frame(chunk, columns=names))
    assert list(estimator.feature_names_in_) == names
    assert bits(estimator) == bits(fed(portfolio(), RETURNS, 1500))
    with pytest.raises(ValueError, match="feature names"):
        estimator.partial_fit(frame(RETURNS, columns=list("abdc")))
    with pytest.raises(ValueError, match=r"NaN in column \['b'\]"):
        estimator.partial_fit(frame(np.array([[0, np.nan, 0, 0.0]]), columns=names))
    estimator.partial_fit(frame(RETURNS, columns=names))
    assert estimator.n_features_in_ == 4


def test_solvers_without_partial_fit():
    for solver, what in (
        ("lbfgs", ""),
        (SARAHCompositional(), "checkpoint_batch_size to a number"),
        (STORMCompositional(anchor=5), "anchor=None"),
    ):
        estimator = CompositionalPortfolio(solver)
        assert not hasattr(estimator, "partial_fit")
        with pytest.raises(AttributeError) as error:
            estimator.partial_fit(RETURNS)
        assert f"set {what}" in str(error.value)
    value = BellmanValueEstimator(solver="lbfgs")
    with pytest.raises(
        AttributeError, match="needs all samples at once; for partial_fit set"
    ):
        value.partial_fit(RETURNS, RETURNS[:, 0])
    assert not hasattr(value, "partial_fit") and hasattr(
        value.set_params(solver="scgd"), "partial_fit"
    )
    with pytest.raises(ValueError, match="solver must be"):
        CompositionalPortfolio("sgd").partial_fit(RETURNS)


def test_too_large_a_learning_rate():
    for solver in (SCGD(learning_rate=1e300), STORMCompositional(learning_rate=1e300)):
        estimator = portfolio(solver)
        with pytest.warns(ConvergenceWarning, match="not finite"):
            estimator.partial_fit(RETURNS)
        assert (
            estimator.stop_reason_ == "non_finite"
            and np.isfinite(estimator.weights_).all()
        )
        assert estimator.score(RETURNS) == -np.inf
        before = bits(estimator)
        for _ in range(2):
            with pytest.raises(ValueError, match="begin again with fit or a clone"):
                estimator.partial_fit(RETURNS)
        assert bits(estimator) == before
        estimator.set_params(solver="storm-c").fit(RETURNS)
        assert estimator.partial_fit(RETURNS).stop_reason_ == "exhausted"


# values


def value():
    return BellmanValueEstimator(0.8, solver_for_streams("storm-c"), random_state=0)


def trajectory(n, gap=()):
    """States, rewards and times of one walk, times jumping after the rows of
    ``gap``."""
    rng = np.random.default_rng(4)
    X, y = np.eye(12)[rng.integers(12, size=n)], rng.normal(size=n)
    return (
        X,
        y,
        np.arange(n) + np.isin(np.arange(n), np.array(gap, dtype=int) + 1).cumsum(),
    )


def test_bellman_time_gives_next_X_in_any_chunks():
    gaps = [10, 36, 37, 700, 701, 1100]
    X, y, time = trajectory(1500, gaps)
    terminal, weights = (
        np.zeros(1500, dtype=bool),
        np.random.default_rng(0).gamma(1.0, size=1500),
    )
    terminal[[5, 36, 73, 74, 900]] = True
    log = {"X": X, "y": y, "terminal": terminal, "sample_weight": weights}
    kept = np.flatnonzero(terminal | (np.diff(time, append=time[-1] + 2) == 1))
    explicit = value().partial_fit(
        **{name: part[kept] for name, part in log.items()},
        next_X=np.roll(X, -1, axis=0)[kept],
    )
    log["time"] = time
    for size in (37, "mixed", 1500):  # some of them are single rows
        estimator = value()
        for i in chunks(np.arange(1500), size):
            chunk = {name: part[i] for name, part in log.items()}
            estimator = pickle.loads(pickle.dumps(estimator)).partial_fit(**chunk)
        assert bits(estimator) == bits(explicit)
