"""Promises of the core that no other test held: numbers of NumPy, units one step apart, sums far from a simplex."""

import numpy as np
import pytest

from sk_stormc.core.declared import check_attributes, require_plain
from sk_stormc.core.unit import STEP, InUnit
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.metrics import as_metric
from sk_stormc.penalties import Box, Simplex, check_penalty
from sk_stormc.problems import Advice, FiniteSumComposition, PortfolioProblem
from sk_stormc.schedules import Geometric, Slowed, decay_to, power

RETURNS = make_gaussian_returns(60, 3, random_state=0)


def test_advice_has_plain_numbers_whatever_it_was_given():
    advice = Advice(batch_size=np.int64(8), inertia=np.float64(0.5), tracking=np.bool_(False))
    assert [type(value) for value in (advice.batch_size, advice.inertia, advice.tracking)] == [int, float, bool]


def test_no_function_can_write_into_the_indices_of_all_components():
    seen = []

    def inner(x, j):
        seen.append(j)
        return x

    problem = FiniteSumComposition(inner, None, lambda x, u, j: u, lambda x, u: u @ u / 2, 4, 4, n_variables=2)
    problem.inner(np.zeros(2), problem.inner_batch(None))
    with pytest.raises(ValueError, match="read-only"):
        seen[-1] += 1


def test_a_metric_of_something_else_is_named_with_its_problem():
    problem = PortfolioProblem(RETURNS)
    problem.metric = [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="^PortfolioProblem.metric: must be None, an array of numbers or a Metric"):
        check_attributes(problem)


class Unreadable:
    """Written without an error, and not to be read again."""

    def __reduce__(self):
        return int, ("no number",)


def test_a_jacobian_that_cannot_be_read_again_is_refused():
    with pytest.raises(ValueError, match="PortfolioProblem.jacobian: must return plain data"):
        require_plain(PortfolioProblem(RETURNS), Unreadable())


@pytest.mark.parametrize("check", [as_metric, check_penalty])
def test_there_is_at_least_one_variable(check):
    with pytest.raises(ValueError, match="n_variables must be"):
        check(None, 0)


@pytest.mark.parametrize("n", [0, 1.5, "many"])
def test_a_composition_has_a_whole_number_of_variables(n):
    with pytest.raises(ValueError, match="n_variables must be"):
        FiniteSumComposition(lambda x, j: x, None, lambda x, u, j: u, lambda x, u: u @ u / 2, 4, 4, n_variables=n)


# penalties


@pytest.mark.parametrize("budget", [-11.5, -10.0, -8.5, -7.0, -5.5, -4.0])
def test_a_budget_is_met_where_all_must_be_negative_and_an_l1_norm_pulls_up(budget):
    box = Box(-4.0, -1.0, budget=budget, alpha=0.5)
    x, step = np.array([-3.0, 2.0, -1.2]), np.array([1.0, 3.0, 0.5])
    z = box.prox(x, step)
    assert z.sum() == pytest.approx(budget, abs=1e-12) and (z >= -4).all() and (z <= -1).all()
    # between the bounds nothing is gained where one coordinate gives to another
    slope = (z - x) / step - 0.5
    inside = (z > -4) & (z < -1)
    assert inside.any() and np.ptp(slope[inside]) < 1e-12
    assert (slope[z == -4] >= slope[inside].max()).all() and (slope[z == -1] <= slope[inside].min()).all()


def test_a_common_shift_of_any_size_changes_nothing_on_the_simplex():
    shift = 2.0**40
    x = np.array([0.0, 0.25, 0.75]) + [0, np.spacing(shift), 0]  # the next number would be lost in twice the shift
    np.testing.assert_array_equal(Simplex().prox(x + shift, 1.0), Simplex().prox(x, 1.0))


# schedules


def test_a_geometric_schedule_goes_from_start_to_end():
    schedule = Geometric(4.0, 0.25, horizon=2)
    assert [schedule(t) for t in (0, 1, 2, 9)] == [4.0, 1.0, 0.25, 0.25]


def test_a_decay_holds_its_start_and_then_goes_down_in_equal_steps():
    schedule = decay_to(1.0, 5.0, horizon=8, hold=0.5)
    assert [schedule(t) for t in (0, 4, 5, 6, 7, 8, 20)] == [5.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0]


def test_nothing_is_slowed_down_by_a_factor_of_zero():
    with pytest.raises(ValueError, match="times must be"):
        Slowed(power(-0.5), 0.0)


@pytest.mark.parametrize("name", ["start", "end"])
def test_a_geometric_schedule_is_between_numbers_above_zero(name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        Geometric(**({"start": 1.0, "end": 0.1, "horizon": 4} | {name: 0.0}))


# values with a unit


def test_units_that_are_one_step_apart_are_taken_into_account():
    one, same = InUnit(np.array([1.0, 3.0]), STEP), InUnit(np.array([1.0, 3.0]) * 2.0**STEP, 0)
    for a, b in ((one, same), (same, one)):
        np.testing.assert_array_equal((a + b).plain(), 2 * same.array)
        np.testing.assert_array_equal((a - b).plain(), 0.0)
        assert (a == b).all()


def test_squares_of_a_product_stay_within_float32():
    product = InUnit(np.array([2.0**-40], np.float32)) * 2.0**-35
    assert product.array**2 > 0
    product = InUnit(np.array([2.0**40], np.float32)) * 2.0**35
    assert np.isfinite(product.array**2)


def test_a_value_in_its_own_type_is_a_copy_unless_that_is_not_asked_for():
    value = InUnit(np.ones(2))
    assert not np.shares_memory(value.astype(float).array, value.array)
    assert np.shares_memory(value.astype(float, copy=False).array, value.array)


def test_the_opposite_of_a_value_has_its_unit():
    value = InUnit(np.array([1.0, -3.0]), STEP)
    np.testing.assert_array_equal((-value).plain(), -value.plain())
