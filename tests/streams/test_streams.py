"""Streams: rows that are used once, counts, states, and errors."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers import composition, regression
from stream_helpers import (
    RETURNS,
    STREAMING,
    chunks,
    result_bits,
    solver_for_streams,
    stream_of,
)

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine.curvature import CURVATURE_BATCHES
from sk_stormc.engine.oracle import KINDS
from sk_stormc.penalties import L1, Box
from sk_stormc.problems import Advice, PortfolioProblem, StreamingProblem, check_problem
from sk_stormc.solvers import STORMCompositional


@pytest.mark.parametrize(
    "solver",
    ["storm-c", "vrsc-pg", "scgd", STORMCompositional(output="random")],
    ids=str,
)
def test_a_run_is_continued_from_its_state(solver):
    solver = solver_for_streams(solver) if isinstance(solver, str) else solver
    solver.set_params(tol=0)
    whole = minimize(stream_of(RETURNS), solver, random_state=0)
    # it is computed from a window, of which the first rows are a part
    metric = stream_of(RETURNS).preconditioner
    for first in (40, 900):
        stream, result = stream_of(RETURNS[:first], 50), None
        stream.preconditioner = stream.source.first.preconditioner = metric
        for chunk in [RETURNS[:0], *chunks(RETURNS[first:], 270)]:
            stream.feed(chunk)
            state = result and result.state
            result = minimize(stream, solver, random_state=0, state=state)
            assert result.stop_reason == "exhausted"
        found, expected = result_bits(result), result_bits(whole)
        assert found[0][0] == expected[0][0] and found[1:] == expected[1:]
        assert result.ifo[-1] == whole.ifo[-1]


def test_a_state_and_its_stream_can_be_pickled():
    stream = stream_of(RETURNS[:900])
    result = minimize(stream, random_state=0)
    stream, state = pickle.loads(pickle.dumps((stream, result.state)))
    assert stream.starved()
    stream.feed(RETURNS[900:])
    assert not stream.starved()
    expected = minimize(stream_of(RETURNS), random_state=0).x
    assert minimize(stream, state=state).x.tobytes() == expected.tobytes()


# counting


class Watched(StreamingProblem):
    """Notes which rows each kind draws."""

    def __init__(self, *args, **kwargs):
        self.drawn, self.counted = [], []  # shared by copies
        super().__init__(*args, **kwargs)
        draw = self.source.draw_inner

        def noted(place, shape):
            rows = draw(place, shape)
            self.drawn.append((KINDS[place.offset], rows.ravel()))
            return rows

        self.source.draw_inner = self.source.draw_outer = noted

    def rows_of(self, kind):
        return np.concatenate([rows for k, rows in self.drawn if k == kind])

    def inner_batch(self, draws):
        self.counted.append(len(draws))
        return super().inner_batch(draws)

    def outer_batch(self, draws):
        self.counted.append(1 if draws is None else len(draws))
        return super().outer_batch(draws)


def watched(**kwargs):
    return Watched(
        chunks(RETURNS, 113),
        partial(PortfolioProblem, preconditioner="variance", **kwargs),
    )


@pytest.mark.parametrize("risk", ["variance", "entropic"])
@pytest.mark.parametrize("solver", STREAMING)
def test_each_row_once_for_each_kind_in_order(solver, risk):
    stream, solver = watched(risk_measure=risk), solver_for_streams(solver)
    result = minimize(stream, solver, learning_rate=1e-3, tol=0, random_state=0)
    assert result.stop_reason == "exhausted" and result.n_iter > 3
    assert risk == "entropic" or result.ifo[-1] == sum(stream.counted)
    kinds = ["inner", "jacobian"] + ["outer"] * (risk != "entropic")
    assert {kind for kind, _ in stream.drawn} == set(kinds)
    for number, kind in enumerate(kinds):
        rows = stream.rows_of(kind)
        assert (np.diff(rows) == 1).all()
        assert rows[0] == number * len(stream.drawn[0][1])
    # too few rows are left for an iteration
    largest = max(len(rows) for _, rows in stream.drawn)
    assert len(RETURNS) - 1 - rows[-1] < largest
    for i in range(0, len(stream.drawn), len(kinds)):
        batches = stream.drawn[i : i + len(kinds)]
        assert [kind for kind, _ in batches] == kinds
        together = np.concatenate([rows for _, rows in batches])
        assert len(np.unique(together)) == len(together)


@pytest.mark.parametrize("first, then", [(8, 32), (128, 16), (100, 100)])
def test_rows_are_apart_where_the_first_batches_have_another_size(first, then):
    stream, solver = watched(), STORMCompositional(learning_rate=1e-3)
    sizes = {"batch_size": then, "init_batch_size": first}
    minimize(stream, solver, **sizes, random_state=0)
    for i in range(0, len(stream.drawn), 3):
        together = np.concatenate([rows for _, rows in stream.drawn[i : i + 3]])
        assert len(np.unique(together)) == len(together)
    for kind in ("inner", "jacobian", "outer"):
        assert (np.diff(stream.rows_of(kind)) >= 1).all()  # no row twice


@pytest.mark.parametrize("rate", ["auto", 0.01])
def test_ifo_in_closed_form(rate):
    S, B, n = 100, 20, len(RETURNS)
    given = {"batch_size": B, "init_batch_size": S, "random_state": 0}
    solver = STORMCompositional(learning_rate=rate)
    result = minimize(stream_of(RETURNS), solver, **given)
    curvature = CURVATURE_BATCHES * 3 * B if rate == "auto" else 0
    assert (n - 3 * S) // B == result.n_iter
    assert result.ifo[-1] == 3 * S + 3 * B * result.n_iter + curvature
    stream = stream_of(RETURNS, risk_measure="entropic")
    solver.set_params(learning_rate=0.01)
    result = minimize(stream, solver, **given)
    assert result.n_iter == (n - 2 * S) // B
    assert result.ifo[-1] == (2 * S + 1) + (2 * B + 1) * result.n_iter


def test_batches_that_are_larger_than_half_of_the_window():
    """The rows of g are then further back than the window."""
    stream = stream_of(make_gaussian_returns(20_000, 3, random_state=0), 500)
    solver = STORMCompositional(learning_rate=1e-3)
    result = minimize(stream, solver, batch_size=400, random_state=0)
    assert result.stop_reason == "exhausted" and result.n_iter == 20_000 // 400 - 3


def test_max_ifo_and_max_iter_on_a_stream():
    assert minimize(stream_of(RETURNS), max_iter=7, random_state=0).n_iter == 7
    result = minimize(stream_of(RETURNS), max_ifo=3000, random_state=0)
    assert result.stop_reason == "max_ifo" and 3000 - 96 < result.ifo[-1] <= 3000


# StreamingProblem


def test_advice_on_steps_holds_and_on_batch_sizes_does_not():
    def make(R):
        problem = PortfolioProblem(R)
        problem.advice = Advice(learning_rate=0.02, batch_size=None, max_iter=7)
        return problem

    advised = minimize(StreamingProblem([RETURNS], make), random_state=0)
    plain = StreamingProblem([RETURNS], PortfolioProblem)
    given = minimize(plain, random_state=0, learning_rate=0.02)
    assert advised.stop_reason == "exhausted" and (advised.x == given.x).all()


def test_errors_of_streams():
    differ = "batches must differ in their number of rows only"
    for batches, problem, message in (
        ([], PortfolioProblem, "batches must have a row"),
        ([RETURNS[:0]], PortfolioProblem, "batches must have a row"),
        ([RETURNS, RETURNS[:, :2]], PortfolioProblem, differ),
        ([RETURNS, (RETURNS, RETURNS)], PortfolioProblem, differ),
        ([RETURNS, RETURNS[0]], PortfolioProblem, differ),
        ([(RETURNS, RETURNS[:3])], PortfolioProblem, differ),
        ([3.0], PortfolioProblem, "arrays with rows"),
        (
            [RETURNS],
            np.asarray,
            "problem must return a CompositionalProblem, got array",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            minimize(StreamingProblem(iter(batches), problem), random_state=0)
    all_at_once, sizes = "needs all components at once", "batch_size must be one number"
    for solver, params, message in (
        (STORMCompositional(), {"batch_size": None}, sizes),
        (STORMCompositional(), {"init_batch_size": None}, f"init_{sizes}"),
        (STORMCompositional(), {"anchor": 3}, all_at_once),
        ("lbfgs", {}, all_at_once),
        ("sarah-c", {}, all_at_once),
    ):
        with pytest.raises(ValueError, match=message):
            minimize(stream_of(RETURNS), solver, random_state=0, **params)


def test_batches_of_unequal_sizes_are_refused():
    for size in ((64, 64, 16), (16, None, 16)):
        with pytest.raises(ValueError, match="be one number for g, its Jacobian and f"):
            minimize(stream_of(RETURNS), batch_size=size, random_state=0)
    # f of the second has one component, which is no batch
    for size, risk in (((16, 16, 16), "variance"), ((64, 64, 16), "entropic")):
        stream = stream_of(RETURNS, risk_measure=risk)
        result = minimize(stream, batch_size=size, random_state=0)
        assert result.stop_reason == "exhausted"


@pytest.mark.parametrize("size", [37, 1500])
def test_rows_that_were_dropped(size):
    stream = stream_of(np.tile(RETURNS, (3, 1)), size)
    result = minimize(stream, random_state=0)
    with pytest.raises(ValueError, match="was dropped"):
        minimize(stream, "scgd", random_state=0)
    stream.feed(np.tile(RETURNS, (3, 1)))
    assert minimize(stream, state=result.state).n_iter > result.n_iter
    with pytest.raises(ValueError, match="was dropped"):
        minimize(stream, state=result.state)


def test_batches_of_no_rows_and_other_forms():
    expected = minimize(stream_of(RETURNS), random_state=0).x.tobytes()
    for batches in (
        [RETURNS[:0], RETURNS[:700], RETURNS[:0], RETURNS[700:], RETURNS[:0]],
        [RETURNS[:1000].tolist(), pd.DataFrame(RETURNS[1000:])],
        [(RETURNS[:3],), RETURNS[3:]],
    ):
        stream = StreamingProblem(
            batches, partial(PortfolioProblem, preconditioner="variance")
        )
        assert minimize(stream, random_state=0).x.tobytes() == expected


def test_rows_are_read_as_they_are_needed():
    read = []

    def endless():
        for k in range(10**9):
            read.append(k)
            yield make_gaussian_returns(50, 3, mean=0.1, random_state=k)

    result = minimize(
        StreamingProblem(endless(), PortfolioProblem), max_iter=40, random_state=0
    )
    assert result.stop_reason == "max_iter"
    assert len(read) <= 32 * (40 + 3) / 50 + 1


@pytest.mark.parametrize(
    ("solver", "way"), [("storm-c", "jacobian"), ("sarah-c", "vjp")]
)
def test_a_composition_of_functions(solver, way):
    A, b = regression(2000)
    make = partial(composition, way=way, penalty=L1(1e-4))
    found = []
    for size in (2000, "mixed"):
        stream = StreamingProblem(
            zip(chunks(A, size), chunks(b, size), strict=True), make
        )
        solved = minimize(stream, solver_for_streams(solver), tol=0, random_state=0)
        found.append(solved)
    assert solved.stop_reason == "exhausted"
    assert result_bits(found[0]) == result_bits(found[1])
    whole = make(A, b)
    best = minimize(composition(A, b, penalty=L1(1e-4)), random_state=0).fun
    start = whole.objective(whole.initial_point(None))
    # measured: at most .013
    assert whole.objective(solved.x) - best < 0.03 * (start - best)


# weights of rows: a row of weight k equals k rows


def of_long_only(risk):
    box = Box(0, 1, budget=1.0)
    return partial(
        PortfolioProblem, preconditioner="variance", penalty=box, risk_measure=risk
    )


@pytest.mark.parametrize("risk", ["entropic", "semivariance"])
def test_weighted_streams_end_near_the_minimum_of_the_repeated_rows(risk):
    X = make_gaussian_returns(3000, 4, mean=0.3, random_state=0)
    counts = np.random.default_rng(3).integers(1, 4, size=len(X))
    # so that the first asset looks better than without weights
    counts[X[:, 0] > np.median(X[:, 0])] += 4
    problem, weights = of_long_only(risk), counts.astype(float)
    batches = zip(chunks(X, 500), chunks(weights, 500), strict=True)
    found = minimize(StreamingProblem(batches, problem, weighted=True), random_state=0)
    assert found.stop_reason == "exhausted"
    whole = problem(np.repeat(X, counts, axis=0))
    best = minimize(whole, random_state=0, tol=1e-6).fun
    start = whole.objective(np.full(4, 0.25))
    assert whole.objective(found.x) - best < 0.1 * (start - best)


@pytest.mark.parametrize("risk", ["entropic", "semivariance"])
def test_equal_weights_are_no_weights(risk):
    X, problem = make_gaussian_returns(1500, 3, random_state=0), of_long_only(risk)
    twos = [(X, np.full(1500, 2.0))]
    plain = minimize(StreamingProblem([X], problem), random_state=0)
    stream = StreamingProblem(twos, problem, weighted=True)
    weighted = minimize(stream, random_state=0)
    assert plain.stop_reason == weighted.stop_reason == "exhausted"
    np.testing.assert_allclose(weighted.x, plain.x, rtol=1e-6, atol=1e-9)


def test_check_problem_compares_weights():
    returns = make_gaussian_returns(60, 3, random_state=0)
    check_problem(PortfolioProblem(returns, risk_measure="semivariance"))

    class Deaf(PortfolioProblem):
        def inner_batch(self, draws, weights=None):
            return super().inner_batch(draws)

    with pytest.raises(ValueError, match="Deaf.inner: a batch with weights"):
        check_problem(Deaf(returns))
