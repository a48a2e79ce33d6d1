"""Parts of the automatic rule by themselves: its first batches, the distance of two steps, budgets, what u follows."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sk_stormc import AutomaticSTORM
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import Estimate, Oracle
from sk_stormc.engine.steps import Direction
from sk_stormc.penalties import Box
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem
from sk_stormc.solvers import anchored, automatic

EVEN, UNEVEN = [1.0] * 16, [0.01] * 15 + [1.0]  # curvatures of minibatches; the root mean square is 25 times the median


def settled(monkeypatch, n, size, *found):
    """The batches that are settled on, where probes find these curvatures, one after the other; and their L."""
    oracle = Oracle(PortfolioProblem(make_gaussian_returns(n, 3, random_state=0)), 0)
    probes = iter(found)
    monkeypatch.setattr(anchored, "curvatures", lambda *args: next(probes))
    found = anchored.settle(oracle, np.zeros(3), size)
    assert next(probes, None) is None  # all were asked for
    return found


def test_batches_grow_sixteenfold_until_their_curvatures_are_comparable(monkeypatch):
    assert settled(monkeypatch, 100_000, (16, 0, 16), EVEN) == ((16, 0, 16), 1.0)
    assert settled(monkeypatch, 100_000, (16, 0, 16), UNEVEN, EVEN) == ((256, 0, 256), 1.0)
    assert settled(monkeypatch, 100_000, (16, 0, 16), UNEVEN, UNEVEN, [3.0] * 16) == ((4096, 0, 4096), 3.0)


def test_a_probe_of_batches_never_takes_more_than_a_pass(monkeypatch):
    assert settled(monkeypatch, 16 * 256, (16, 0, 16), UNEVEN, EVEN)[0] == (256, 0, 256)
    assert settled(monkeypatch, 16 * 256 - 1, (16, 0, 16), UNEVEN, EVEN)[0] == (None, 0, None)


@pytest.mark.parametrize("size", [(None, 0, None), (None, None, None)])
def test_full_batches_are_left_however_uneven_their_curvatures(monkeypatch, size):
    assert settled(monkeypatch, 100, size, UNEVEN)[0] == size


def test_batches_of_a_linear_objective_are_left(monkeypatch):
    assert settled(monkeypatch, 100_000, (16, 0, 16), [0.0] * 16) == ((16, 0, 16), 0.0)


def test_batches_grow_where_a_curvature_overflows(monkeypatch):
    assert settled(monkeypatch, 100_000, (16, 0, 16), [math.inf] * 16, EVEN)[0] == (256, 0, 256)


def test_the_distance_of_two_steps_is_that_of_their_gradients_in_the_metric():
    def way(F):
        return Direction(math.nan, np.array(F), 0.25 * np.array(F))

    assert anchored.distance(way([0.3, 0.4]), way([0.0, 0.0])) == pytest.approx(0.25)
    assert anchored.distance(way([1.3, 0.4]), way([1.0, 0.0])) == pytest.approx(0.25)
    assert anchored.distance(way([1.3, 0.4]), way([1.3, 0.4])) == 0.0


@pytest.mark.parametrize(("n", "budget"), [(1024, (10_000, math.inf)), (1025, (math.inf, 100))])
def test_full_batches_have_a_budget_of_iterations_and_others_one_of_passes(n, budget):
    problem, solver = PortfolioProblem(make_gaussian_returns(n, 3, random_state=0)), AutomaticSTORM()
    oracle = Oracle(problem, 0)
    assert solver.default_budget(oracle, solver.init_state(oracle, np.zeros(3))) == budget


@pytest.mark.parametrize("n_outer", [1, 2])
def test_u_follows_its_jacobian_where_f_has_components_to_sample(n_outer):
    A = np.random.default_rng(0).normal(size=(2000, 3))
    problem = FiniteSumComposition(
        lambda x, j: A[j].mean(0) * x,
        lambda x, j: np.diag(A[j].mean(0)),
        lambda x, u, i: (None, u - 1),
        lambda x, u: float(((u - 1) ** 2).sum() / 2),
        n_inner=2000, n_outer=n_outer, x0=np.ones(3),
    )  # fmt: skip
    problem.jacobian_kind = "constant"
    state = AutomaticSTORM().init_state(Oracle(problem, 0), np.ones(3))
    assert (state.origin is not None) == (n_outer > 1)


def test_an_iteration_on_a_u_that_follows_costs_its_batch_of_f():
    oracle = Oracle(PortfolioProblem(make_gaussian_returns(2000, 3, random_state=0)), 0)
    solver = AutomaticSTORM(batch_size=(8, None, 32))
    s = solver.init_state(oracle, np.zeros(3))
    before, expected = oracle.ifo, solver.cost(oracle, s)
    solver.step(oracle, s)
    assert oracle.ifo - before == expected == 32


def judged(n_anchors, combined, length):
    """The state after an anchor whose |F| is so many times the last one's, and the anchors before it."""
    problem = PortfolioProblem(make_gaussian_returns(1100, 3, random_state=0))
    oracle, solver = Oracle(problem, 0), AutomaticSTORM(learning_rate=0.1, batch_size=16)
    s = solver.init_state(oracle, np.zeros(3))
    s.own_rate = True
    s.anchors = [replace(s.anchors[0]) for _ in range(n_anchors)]
    before, s.combined = list(s.anchors), combined
    s.way = replace(s.way, length=length * s.residual)
    solver._judge(oracle, s, drift=0.0)
    return s, before


@pytest.mark.parametrize(("n", "kept"), [(1, 2), (8, 9), (9, 10), (10, 10), (12, 10)])
def test_ten_anchors_are_kept_the_oldest_goes_first(n, kept):
    s, before = judged(n, combined=False, length=0.5)
    assert len(s.anchors) == kept
    assert all(one is other for one, other in zip(s.anchors[:-1], before[1 - kept :], strict=True))


@pytest.mark.parametrize("combined", [False, True])
def test_after_an_anchor_that_is_not_good_only_the_best_is_left(combined):
    s, before = judged(5, combined, length=3.0)
    assert len(s.anchors) == 1 and s.anchors[0] is before[-1]


def test_a_combination_that_leads_to_where_it_came_from_is_no_good_anchor():
    s, before = judged(3, combined=True, length=1.0)
    assert s.anchors == before[-1:]


@pytest.mark.parametrize(("above", "length", "good"), [
    (1e-12, 0.5, True), (1e-12, 3.0, False), (-1e-12, 3.0, False), (1e-8, 0.5, False), (-1e-8, 3.0, True),
])  # fmt: skip
def test_phi_decides_between_anchors_but_for_its_rounding(monkeypatch, above, length, good):
    problem = PortfolioProblem(make_gaussian_returns(1100, 3, mean=1.0, random_state=0))
    oracle, solver = Oracle(problem, 0), AutomaticSTORM()
    s = solver.init_state(oracle, np.full(3, 0.1))
    (before,) = s.anchors
    s.way = replace(s.way, length=length * s.residual)
    monkeypatch.setattr(oracle, "value", lambda x, u: before.value + above * abs(before.value))
    solver._judge(oracle, s, drift=0.0)
    assert (s.anchors[-1] is not before) == good


def test_differences_of_the_newest_anchors_count_however_far_the_oldest_was():
    """Three differences find the minimum of a quadratic of three variables, those of steps of 1 beside one of 1e6."""
    H, anchors = np.diag([1.0, 2.0, 5.0]), []
    for x in np.array([[1e6, 1e6, -1e6], [1.0, 2.0, 1.0], [1.0, 0.5, -1.0], [-0.5, 1.0, 0.5]]):
        F = H @ x
        way = Direction(float(np.linalg.norm(F)), F, F)
        anchors.append(anchored.Anchor(Estimate(x, x.copy(), None, F), way, float(x @ F) / 2))
    found = anchored.extrapolate(anchors, SimpleNamespace(penalty=None, inner_floor=None))
    np.testing.assert_allclose(found.x, 0, atol=1e-6)
    np.testing.assert_allclose(found.F, 0, atol=1e-6)
    np.testing.assert_allclose(found.u, found.x)


@pytest.mark.parametrize("set_", [{"batch_size": 16}, {"learning_rate": 0.1}, {"batch_size": 16, "learning_rate": 0.1}])
def test_only_batches_and_rates_that_are_both_automatic_are_settled(monkeypatch, set_):
    monkeypatch.setattr(automatic, "settle", lambda *args: pytest.fail("settled"))
    problem = PortfolioProblem(make_gaussian_returns(1100, 3, random_state=0))
    s = AutomaticSTORM(**set_).init_state(Oracle(problem, 0), np.zeros(3))
    assert s.batch_size[0] == s.batch_size[2] == 16


def test_the_first_step_is_that_of_the_beginning_of_a_schedule():
    problem = PortfolioProblem(make_gaussian_returns(1100, 3, mean=1.0, random_state=0), penalty=Box(-0.1, 0.1))
    oracle = Oracle(problem, 0)
    s = AutomaticSTORM(learning_rate=lambda t: 100.0 if t == 0 else 1e-3).init_state(oracle, np.zeros(3))
    np.testing.assert_array_equal(np.abs(s.way.target), 0.1)  # so long a step ends at the bounds
