"""partial_fit: the same bits for any chunks, accuracy, and chunks that raise errors."""

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
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
    whole_bits,
)

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import SCGD, SARAHCompositional, STORMCompositional

# bits


@pytest.mark.parametrize(
    ("solver", "risk"),
    [
        ("storm-c", "entropic"),
        ("storm-c-paper", "variance"),
        ("sarah-c", "entropic"),
        ("asc-pg", "variance"),
    ],
)
def test_bits_do_not_depend_on_chunks(solver, risk):
    one = bits(portfolio(solver, risk_measure=risk).partial_fit(RETURNS))
    assert bits(fed(portfolio(solver, risk_measure=risk), RETURNS, "mixed")) == one
    stream = stream_of(RETURNS, 101, risk_measure=risk)
    result = minimize(stream, solver_for_streams(solver), tol=0, random_state=0)
    assert result_bits(result)[0] == one[0][:3]
    assert result.n_iter > 0 and np.any(result.x)


@pytest.mark.parametrize(
    ("solver", "given", "low", "high"),
    [
        ("storm-c", {"constraint": "long_only"}, 0.0, 1.0),
        ("scgd", {"constraint": (-0.2, 0.6), "budget": 1.0}, -0.2, 0.6),
        ("storm-c", {"l1": 0.01}, None, None),
    ],
)
def test_bits_with_constraints_and_float32(solver, given, low, high):
    X = RETURNS.astype(np.float32)
    one = portfolio(solver, **given).partial_fit(X)
    assert bits(fed(portfolio(solver, **given), X, "mixed")) == bits(one)
    w = one.weights_
    assert w.dtype == np.float32
    if low is not None:
        assert w.min() >= low - 1e-6 and w.max() <= high + 1e-6
        assert w.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy]
)
def test_copies_between_chunks_change_nothing(copied):
    estimator = portfolio("vrsc-pg", constraint="long_only")
    expected = bits(clone(estimator).partial_fit(RETURNS))
    for chunk in chunks(RETURNS, 250):  # before and after the first window is complete
        before, estimator = estimator, copied(estimator.partial_fit(chunk))
        before.partial_fit(chunk)  # the two have nothing in common
    assert bits(estimator) == expected


def test_the_pickle_does_not_grow_with_rows():
    estimator, sizes = portfolio(), []
    for k in range(3):
        X = make_gaussian_returns(5000, 4, mean=0.1, random_state=k)
        sizes.append(len(pickle.dumps(fed(estimator, X, 1000))))
    assert sizes[-1] <= 1.1 * sizes[0]
    # five windows of 512 rows of 4 numbers, and the state of a run
    assert max(sizes) < 110_000


def test_the_caller_may_reuse_arrays():
    def batches(size):
        buffer = np.empty((size, 4))
        for chunk in chunks(RETURNS, size):
            buffer[:] = chunk
            yield buffer
        buffer[:] = 0

    for size in (100, 500):  # before and after the first window is complete
        estimator = portfolio()
        for chunk in batches(size):
            estimator.partial_fit(chunk)
        assert bits(estimator) == whole_bits()
    stream = StreamingProblem(
        batches(30), partial(PortfolioProblem, preconditioner="variance")
    )
    expected = result_bits(minimize(stream_of(RETURNS), random_state=0))
    assert result_bits(minimize(stream, random_state=0)) == expected


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
    gaps = {2000: [], 10_000: []}
    for n in gaps:
        for seed in range(3):
            X = make_gaussian_returns(n, 5, mean=0.1, random_state=seed)
            weights = fed(portfolio(random_state=seed), X, 5000).weights_
            gaps[n].append(gap(X, weights))
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
    fed(estimator, RETURNS[10:], 137)
    stream = stream_of(RETURNS, penalty=Simplex())
    expected = minimize(stream, x0=start, random_state=0).x
    assert estimator.weights_.tobytes() == expected.tobytes()


def test_parameters_are_those_of_the_first_call():
    """max_iter and tol are for fit."""
    estimator = fed(portfolio(max_iter=2, tol=10.0), RETURNS[:1000], 500)
    estimator.set_params(risk_aversion=9.0, max_iter=1, tol=1e9, random_state=7)
    assert bits(fed(estimator, RETURNS[1000:], 250)) == whole_bits()
    limited = STORMCompositional(max_iter=2, max_ifo=100)
    assert portfolio(limited).partial_fit(RETURNS).n_iter_ > 20
    for name, wrong in (("risk_aversion", -1.0), ("max_iter", 0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            estimator.set_params(**{name: wrong}).partial_fit(RETURNS)


def test_another_solver_is_refused():
    estimator = portfolio().partial_fit(RETURNS[:1000])
    for rows in (RETURNS[:5], RETURNS):  # enough for an iteration or not
        for other in ("scgd", "auto"):
            with pytest.raises(ValueError, match="solver must stay AutomaticSTORM"):
                estimator.set_params(solver=other).partial_fit(rows)
    estimator.set_params(solver=solver_for_streams("storm-c"))
    assert bits(estimator.partial_fit(RETURNS[1000:])) == whole_bits()
    other = clone(estimator).set_params(solver="scgd").partial_fit(RETURNS)
    assert other.stop_reason_ == "exhausted"


IN_ONE_PLACE = np.arange(RETURNS.size).reshape(RETURNS.shape) == 14
WRONG = {
    "columns": RETURNS[:, :3],
    "NaN": np.where(IN_ONE_PLACE, np.nan, RETURNS),
    "infinity": np.where(IN_ONE_PLACE, np.inf, RETURNS),
    "no rows": RETURNS[:0],
    "words": np.full((5, 4), "a"),
    "one axis": RETURNS[0],
}


@pytest.mark.parametrize("first", [300, 1000])
def test_a_wrong_chunk_changes_nothing(first):
    """Before and after the first window is complete."""
    estimator = portfolio().partial_fit(RETURNS[:first])
    before = bits(estimator)
    for wrong in WRONG.values():
        with pytest.raises(ValueError):
            estimator.partial_fit(wrong)
        assert bits(estimator) == before
    assert bits(fed(estimator, RETURNS[first:], 150)) == whole_bits()


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)]
)
def test_frames_keep_their_names(frame):
    names, estimator = list("abcd"), portfolio()
    for chunk in chunks(RETURNS, 500):
        estimator.partial_fit(frame(chunk, columns=names))
    assert (
        list(estimator.feature_names_in_) == names and bits(estimator) == whole_bits()
    )
    missing = frame(np.array([[0, np.nan, 0, 0.0]]), columns=names)
    for wrong, message in (
        (frame(RETURNS, columns=list("abdc")), "feature names"),
        (missing, r"NaN in column \['b'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.partial_fit(wrong)
    assert estimator.partial_fit(frame(RETURNS, columns=names)).n_features_in_ == 4


def test_solvers_without_partial_fit():
    for solver, what in (
        ("lbfgs", ""),
        (SARAHCompositional(), "checkpoint_batch_size to a number"),
        (STORMCompositional(anchor=5), "anchor=None"),
    ):
        estimator = CompositionalPortfolio(solver)
        assert not hasattr(estimator, "partial_fit")
        with pytest.raises(AttributeError, match=f"set {what}"):
            estimator.partial_fit(RETURNS)
    value = BellmanValueEstimator(solver="lbfgs")
    with pytest.raises(AttributeError, match="at once; for partial_fit set"):
        value.partial_fit(RETURNS, RETURNS[:, 0])
    assert not hasattr(value, "partial_fit")
    assert hasattr(value.set_params(solver="scgd"), "partial_fit")
    with pytest.raises(ValueError, match="solver must be"):
        CompositionalPortfolio("sgd").partial_fit(RETURNS)


def test_too_large_a_learning_rate():
    for solver in (SCGD(learning_rate=1e300), STORMCompositional(learning_rate=1e300)):
        estimator = portfolio(solver)
        with pytest.warns(ConvergenceWarning, match="not finite"):
            estimator.partial_fit(RETURNS)
        assert estimator.stop_reason_ == "non_finite"
        assert np.isfinite(estimator.weights_).all()
        assert estimator.score(RETURNS) == -np.inf
        before = bits(estimator)
        for _ in range(2):
            with pytest.raises(ValueError, match="begin again with fit or a clone"):
                estimator.partial_fit(RETURNS)
        assert bits(estimator) == before
        estimator.set_params(solver="storm-c").fit(RETURNS)
        assert estimator.partial_fit(RETURNS).stop_reason_ == "exhausted"


def test_bellman_time_gives_next_X_in_any_chunks():
    """One walk, whose times jump after some rows."""
    rng, k = np.random.default_rng(4), np.arange(1500)
    time = k + np.isin(k, [11, 37, 38, 701, 702, 1101]).cumsum()
    X, y, weights = (
        np.eye(12)[rng.integers(12, size=1500)],
        rng.normal(size=1500),
        k % 3,
    )
    terminal = np.isin(k, [5, 36, 73, 74, 900])
    log = {"X": X, "y": y, "terminal": terminal, "sample_weight": weights + 0.5}
    value = BellmanValueEstimator(0.8, solver_for_streams("storm-c"), random_state=0)
    kept = np.flatnonzero(terminal | (np.diff(time, append=time[-1] + 2) == 1))
    explicit = log | {"next_X": np.roll(X, -1, axis=0)}
    explicit = {name: part[kept] for name, part in explicit.items()}
    expected = bits(clone(value).partial_fit(**explicit))
    log["time"] = time
    for size in ("mixed", 1500):  # some of them are single rows
        estimator = clone(value)
        for i in chunks(k, size):
            chunk = {name: part[i] for name, part in log.items()}
            estimator = pickle.loads(pickle.dumps(estimator)).partial_fit(**chunk)
        assert bits(estimator) == expected
