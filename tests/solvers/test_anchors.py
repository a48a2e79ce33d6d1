"""The rule of "storm-c": its first batches, when an anchor is due, which anchors are
kept, and their combination."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gallery_problems import rank_digits
from sk_stormc import AutomaticSTORM, minimize
from sk_stormc.core.preconditioners import as_preconditioner
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import ALL, Estimate, Oracle, start
from sk_stormc.engine.steps import Direction, step_direction
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers.anchors import Anchor, combine


def portfolio(n=3000, d=10, **kwargs):
    return PortfolioProblem(
        make_gaussian_returns(n, d, mean=0.3, random_state=0), **kwargs
    )


def begin(problem, x=None, seed=0, **params):
    """The oracle, the solver and its first state."""
    oracle, solver = Oracle(problem, seed), AutomaticSTORM(**params)
    x = problem.initial_point(np.random.default_rng(0)) if x is None else x
    return oracle, solver, solver.init_state(oracle, x)


@pytest.mark.parametrize(
    "given",
    [{"batch_size": 16}, {"learning_rate": 0.1}, {"batch_size": (16, 16, None)}],
)
def test_parameters_that_are_given_do_not_change(given):
    """Otherwise every kind is sampled if one is."""
    _, _, s = begin(rank_digits(), **given)
    assert s.batch_size == (
        (16, 16, None) if given.get("batch_size") == (16, 16, None) else (16, 16, 16)
    )
    assert s.automatic_size == ("batch_size" not in given) and s.automatic_rate == (
        "learning_rate" not in given
    )


def test_batches_grow_where_few_components_dominate():
    R = make_gaussian_returns(30_000, 3, random_state=0)
    assert begin(PortfolioProblem(R))[2].batch_size == (16, 0, 16)
    R[::100] *= 30  # most batches of 16 have none of these
    assert begin(PortfolioProblem(R))[2].batch_size == (256, 0, 256)
    for given in ({"batch_size": (16, None, 16)}, {"learning_rate": 0.1}):
        assert begin(PortfolioProblem(R), **given)[2].batch_size == (16, 0, 16)
    # 16 batches of 256 cost more than a pass
    assert begin(PortfolioProblem(R[:4000]))[2].batch_size == (None, 0, None)


# when an anchor is due


# which anchors are kept


@pytest.mark.parametrize(
    ("above", "combined", "length", "good"),
    [
        # Phi decides
        (1e-8, False, 0.5, False),
        (-1e-8, False, 3.0, True),
        # if values are equal up to rounding, the gradient, which must become shorter
        # after a combination
        (1e-12, False, 1.9, True),
        (-1e-12, False, 2.1, False),
        (1e-12, True, 0.9, True),
        (-1e-12, True, 1.1, False),
    ],
)
def test_phi_decides_on_an_anchor_and_within_its_rounding_the_gradient(
    monkeypatch, above, combined, length, good
):
    oracle, solver, s = begin(portfolio(1100, 3), np.full(3, 0.1))
    s.anchors = [replace(s.anchors[0]) for _ in range(3)]
    before, rate = s.anchors[-1], s.rule.learning_rate
    s.combined, s.now, s.anchor_next = combined, copy.copy(s.now), True
    s.direction = replace(s.direction, length=length * s.residual)
    monkeypatch.setattr(
        oracle, "value", lambda x, u: before.value + above * abs(before.value)
    )
    solver._keep_or_discard(oracle, s, error=0.0)
    assert s.anchors[-1].estimate is s.now
    assert len(s.anchors) == (4 if good else 1) and (s.anchors[-1] is before) != good
    assert s.rule.learning_rate == (rate if good or combined else rate / 2)


def test_failures_halve_the_learning_rate_and_enlarge_batches_in_turn():
    problem = portfolio(preconditioner="variance")
    oracle, solver, s = begin(problem)
    rate, size, best = s.rule.learning_rate, s.batch_size[2], s.anchors[-1]
    found = []
    for _ in range(9):
        # uphill
        s.now, s.combined = (
            start(oracle, best.estimate.x + 0.1 * best.estimate.F, ALL),
            False,
        )
        solver._keep_or_discard(oracle, s, error=0.0)
        found.append((s.rule.learning_rate / rate, s.batch_size[2]))
        assert s.anchors == [best] and s.now is best.estimate and s.since_anchor == 0
    halved = [2.0 ** -(k // 2 + 1) for k in range(9)]
    sizes = [size * 4 ** ((k + 1) // 2) for k in range(9)]
    sizes = [b if b < problem.n_outer else None for b in sizes]
    assert found == list(zip(halved, sizes, strict=True))
    assert s.anchor_next == (s.batch_size[2] is None)


def test_the_best_anchor_is_returned_unless_the_last_iterate_is_better():
    problem = rank_digits()
    a_pass, n_anchors = 2 * problem.n_inner + problem.n_outer, 0
    for k in (4, 8, 16):
        result = minimize(
            problem, random_state=k, tol=0, max_ifo=int((4 + 0.37 * k) * a_pass)
        )
        last, best = result.state.state, result.state.state.best
        assert result.fun <= best.value + 1e-12
        assert any(np.array_equal(result.x, x) for x in (best.estimate.x, last.x))
        n_anchors += not np.array_equal(result.x, last.x)
    assert n_anchors


# the combination of anchors


def anchors_at(problem, xs, exact_jacobian=True):
    oracle, preconditioner, anchors = (
        Oracle(problem, 0),
        as_preconditioner(problem.preconditioner, problem.n_variables),
        [],
    )
    for x in xs:
        estimate = start(oracle, x, (None, 0 if exact_jacobian else None, None))
        direction = step_direction(problem, preconditioner, x, estimate.F, 0.05)
        anchors.append(Anchor(estimate, direction, oracle.value(x, estimate.u)))
    return anchors


@pytest.mark.parametrize("exact_jacobian", [True, False])
@pytest.mark.parametrize("preconditioner", [None, np.eye(5) + 0.1])
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_a_combination_minimises_a_quadratic(unit, preconditioner, exact_jacobian):
    """d + 1 anchors determine the gradient of a quadratic in d variables."""
    returns = unit * np.random.default_rng(0).normal(0.3, 1.0, size=(300, 5))
    problem = PortfolioProblem(returns, preconditioner=preconditioner)
    best = np.linalg.solve(2 * np.cov(returns.T, bias=True), returns.mean(0))
    xs = np.random.default_rng(2).normal(size=(6, 5)) * np.abs(best).max()
    anchors = anchors_at(problem, xs, exact_jacobian)
    combined = combine(anchors, problem)
    np.testing.assert_allclose(combined.x, best, rtol=0, atol=1e-8 * np.abs(best).max())
    np.testing.assert_allclose(combined.u, [returns.mean(0) @ best], rtol=1e-7)
    np.testing.assert_allclose(
        combined.F, np.zeros(5), atol=1e-8 * np.abs(anchors[-1].estimate.F).max()
    )
    if exact_jacobian:
        assert combined.J is None
    else:
        np.testing.assert_allclose(combined.J, [returns.mean(0)], rtol=1e-7)


def test_the_newest_anchors_count_however_far_away_the_oldest_is():
    H, anchors = np.diag([1.0, 2.0, 5.0]), []
    for x in np.array(
        [[1e6, 1e6, -1e6], [1.0, 2.0, 1.0], [1.0, 0.5, -1.0], [-0.5, 1.0, 0.5]]
    ):
        F = H @ x
        direction = Direction(float(np.linalg.norm(F)), F, F)
        anchors.append(
            Anchor(Estimate(x, x.copy(), None, F), direction, float(x @ F) / 2)
        )
    combined = combine(anchors, portfolio(30, 3))
    np.testing.assert_allclose(combined.x, 0, atol=1e-6)
    np.testing.assert_allclose(combined.F, 0, atol=1e-6)
    np.testing.assert_allclose(combined.u, combined.x)


def anchor_of(x, F):
    return Anchor(
        Estimate(x, x.copy(), None, F), Direction(float(np.linalg.norm(F)), F, F), 0.0
    )


@pytest.mark.parametrize("without_information", ["parallel", "equal"])
def test_anchors_without_information_on_the_curvature_do_not_count(without_information):
    """Their gradients differ from those of the others by errors only, which would
    decide on the combination."""
    H = np.diag([1.0, 2.0, 5.0])
    # of the difference, of the error
    factor, size = (1e5, 1.0) if without_information == "parallel" else (1e-5, 1e-6)
    error = size * np.array([1.0, -1.0, 1.0])
    old, new = np.array([1.0, 0.5, -1.0]), np.array([-0.5, 1.0, 0.5])
    odd = new + factor * (old - new)
    anchors = [anchor_of(x, H @ x) for x in (old, new)]
    expected = combine(anchors, portfolio(30, 3))
    combined = combine(
        [anchor_of(odd + error, H @ odd - error), *anchors], portfolio(30, 3)
    )
    np.testing.assert_array_equal(combined.x, expected.x)


def test_a_combination_is_feasible_and_keeps_the_dtype():
    returns, penalty = (
        make_gaussian_returns(300, 5, mean=0.3, random_state=0).astype(np.float32),
        Simplex(),
    )
    best = np.linalg.solve(
        2 * np.cov(returns.T.astype(float), bias=True), returns.mean(0)
    )
    # near the unconstrained optimum, so that the combination is not in the simplex
    points = 0.3 * np.random.default_rng(5).normal(size=(4, 5)) + 5 * best
    xs = [penalty.project(x.astype(np.float32)) for x in points]
    problem = PortfolioProblem(returns, penalty=penalty)
    anchors = anchors_at(problem, xs, exact_jacobian=False)
    assert combine(anchors, PortfolioProblem(returns)).x.min() < -0.01
    combined = combine(anchors, problem)
    assert (combined.x >= 0).all() and combined.x.sum() == pytest.approx(1.0, abs=1e-6)
    assert {getattr(combined, name).dtype for name in ("x", "u", "J", "F")} == {
        np.dtype(np.float32)
    }
