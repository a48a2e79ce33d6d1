"""Penalties against the definition of a proximal operator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sk_stormc.penalties import L1, Box, Simplex, check_penalty

INF = np.inf
quick = settings(max_examples=100, deadline=None, derandomize=True)


class Case:
    """A penalty with its bounds written out, a point and a step."""

    def __init__(self, penalty, x, step, low=-INF, high=INF, budget=None, alpha=0.0):
        self.penalty, self.x, self.step, self.budget, self.alpha = (
            penalty,
            x,
            step,
            budget,
            alpha,
        )
        self.low, self.high = (
            np.broadcast_to(low, x.shape),
            np.broadcast_to(high, x.shape),
        )
        self.steps = np.broadcast_to(step, x.shape)

    def __repr__(self):
        names = ("x", "step", "low", "high", "budget", "alpha")
        values = {name: getattr(self, name) for name in names}
        return f"Case({type(self.penalty).__name__}, {values!r})"

    def value(self, z):
        """sum (z - x)^2 / (2 step) + alpha |z|_1, what the prox minimises."""
        return ((z - self.x) ** 2 / self.steps).sum() / 2 + self.alpha * np.abs(z).sum()

    def slopes(self, z):
        """One-sided derivatives of `value`: to the left and to the right."""
        smooth = (z - self.x) / self.steps
        return smooth + self.alpha * np.where(
            z > 0, 1, -1
        ), smooth + self.alpha * np.where(z < 0, -1, 1)

    def check(self, z, rel=1e-10):
        """z is feasible, and no exchange that the constraints allow makes the value
        smaller."""
        assert z.shape == self.x.shape and z.dtype == self.x.dtype
        assert (z >= self.low).all() and (z <= self.high).all()
        left, right = self.slopes(z)
        rise, fall = right[z < self.high], left[z > self.low]
        slack = rel * (
            1 + (np.abs(self.x) / self.steps).max() + (np.abs(z) / self.steps).max()
        )
        if self.budget is None:
            assert (rise >= -slack).all() and (fall <= slack).all()
        else:
            assert abs(z.sum() - self.budget) <= rel * (
                1 + np.abs(z).max() + abs(self.budget)
            )
            assert not (rise.size and fall.size) or rise.min() >= fall.max() - slack


# the latter for ties
entry = st.one_of(st.floats(-10, 10), st.integers(-3, 3).map(float))
step_size = st.floats(1e-2, 1e2)


@st.composite
def cases(draw, kinds=("l1", "box", "simplex")):
    n = draw(st.integers(1, 7))
    vector = st.lists(entry, min_size=n, max_size=n).map(np.array)
    x = draw(vector)
    step = draw(
        st.one_of(step_size, st.lists(step_size, min_size=n, max_size=n).map(np.array))
    )
    kind = draw(st.sampled_from(kinds))
    if kind == "l1":
        alpha = draw(st.floats(0, 5))
        return Case(L1(alpha), x, step, alpha=alpha)
    if kind == "simplex":
        total = draw(st.floats(0.1, 20))
        return Case(Simplex(total), x, step, low=0.0, budget=total)
    if draw(st.booleans()):
        low, high = sorted((draw(entry), draw(entry)))
    else:
        ends = np.sort([draw(vector), draw(vector)], axis=0)
        low, high = ends
    unbounded = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    low = draw(st.sampled_from([low, -INF, np.where(draw(unbounded), -INF, low)]))
    high = draw(st.sampled_from([high, INF, np.where(draw(unbounded), INF, high)]))
    alpha = draw(st.sampled_from([0.0, draw(st.floats(0, 5))]))
    budget = None
    if draw(st.booleans()):
        least, most = (
            np.broadcast_to(np.clip(b, -20, 20), n).sum() for b in (low, high)
        )
        budget = float(
            least
            + draw(st.sampled_from([0.0, 0.5, 1.0, draw(st.floats(0, 1))]))
            * (most - least)
        )
    return Case(
        Box(low, high, budget=budget, alpha=alpha), x, step, low, high, budget, alpha
    )


@quick
@given(cases())
def test_prox_and_projection_are_optimal_feasible_and_keep_float32(case):
    penalty, wide = case.penalty, case.penalty.prox(case.x, case.step)
    case.check(wide)
    z = penalty.project(case.x)
    Case(penalty, case.x, 1.0, case.low, case.high, case.budget).check(z)
    again = penalty.project(z)
    np.testing.assert_allclose(again, z, rtol=0, atol=1e-12 * (1 + np.abs(z).max()))
    x, steps = case.x.astype(np.float32), np.float32(case.steps)
    x.flags.writeable = False  # and x is not written into
    wide = penalty.prox(x.astype(float), steps.astype(float))
    scale = 1 + np.abs(x).max() + np.abs(wide).max()
    # conditioned by the ratio of the steps where a budget couples the coordinates
    ratio = 1.0 if case.budget is None else steps.max() / steps.min()
    narrow = penalty.prox(x, steps)
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=1e-5 * scale * ratio)
    assert narrow.dtype == penalty.project(x).dtype == np.float32


# exact values


def test_l1_thresholds():
    x = np.array([3.0, -3.0, 0.5, -0.5, 0.0, 1.0])
    z = L1(2.0).prox(x, 0.5)
    np.testing.assert_array_equal(z, [2.0, -2.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(
        L1(1.0).prox(x, np.array([1, 2, 1, 0.25, 1, 0])), [2, -1, 0, -0.25, 0, 1]
    )
    np.testing.assert_array_equal(L1(0.0).prox(x, 5.0), x)
    np.testing.assert_array_equal(L1(7.0).project(x), x)
    assert L1(2.0).value(x) == 16.0
    assert L1(1e-8).value(np.ones(10**6, np.float32)) == pytest.approx(1e-2, rel=1e-7)


def test_box_values():
    assert Box(-1, 2).value(np.array([-5.0, 0.3])) == 0.0
    assert Box(-1, 2, alpha=2.0).value(np.array([-5.0, 0.3])) == pytest.approx(10.6)
    # no zero
    np.testing.assert_array_equal(
        Box(1.0, 4.0, alpha=1.0).prox(np.array([-5.0, 0.3, 5.0]), 0.5), [1, 1, 4]
    )


def test_zeros_are_exact():
    """None of the zeros of a sparse solution is a small number."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        x, step = rng.normal(size=30), rng.uniform(0.1, 10, 30)
        for penalty in (
            L1(0.5),
            Box(-1, 1, budget=0.7, alpha=0.3),
            Box(-1, 1, alpha=0.5),
            Simplex(),
        ):
            z = penalty.prox(x, step)
            assert (z == 0).any()
            assert (np.abs(z[z != 0]) > 1e-8).all()


def test_huge_values():
    """Budgets are met to the rounding of what is given."""
    x = 1e8 + np.array([0.3, 0.0, -0.2, 0.1])
    for penalty in (Simplex(), Box(0, 1, budget=1.0), Box(0, 1, budget=1.0, alpha=1e8)):
        for sign in (1, -1):
            assert abs(penalty.prox(sign * x, 1.0).sum() - 1) <= 1e-7
    np.testing.assert_allclose(
        Box(-INF, INF, budget=4e8).prox(x, 1.0), 1e8 + x - x.mean(), rtol=1e-15
    )
    for penalty in (Simplex(), Box(0, 1, budget=1.0)):
        assert (
            abs(penalty.prox(1e8 + np.array([0.3, 0.0, -0.2]), 1.0).sum() - 1) <= 1e-10
        )
    np.testing.assert_array_equal(
        Simplex().prox(np.array([1e17, 0.0]), 1.0), [1.0, 0.0]
    )
    shift = 2.0**40  # the next number would be lost in twice the shift
    x = np.array([0.0, 0.25, 0.75]) + [0, np.spacing(shift), 0]
    np.testing.assert_array_equal(
        Simplex().prox(x + shift, 1.0), Simplex().prox(x, 1.0)
    )


@pytest.mark.parametrize("budget", [-11.5, -8.5, -4.0])
def test_negative_budget_with_an_l1_norm(budget):
    box, x, step = (
        Box(-4.0, -1.0, budget=budget, alpha=0.5),
        np.array([-3.0, 2.0, -1.2]),
        np.array([1.0, 3.0, 0.5]),
    )
    Case(box, x, step, -4.0, -1.0, budget, 0.5).check(box.prox(x, step), rel=1e-12)


@pytest.mark.parametrize("size", [1e-320, 1e-309, 1e-300, 1e-9, 1e9, 1e300])
@pytest.mark.parametrize(
    "penalty", [Simplex(), Box(0, 0.8, budget=1.0)], ids=["simplex", "box"]
)
def test_only_the_ratio_of_steps_decides_a_projection(penalty, size):
    # a divisor as small as the first two would make infinities of weights
    x = np.array([0.3, 0.2, 0.9])
    for step in (1.0, np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0])):
        # what is left of the numbers at the end of the range
        rtol = 1e-3 if size < 1e-307 else 1e-12
        np.testing.assert_allclose(
            penalty.prox(x, size * step), penalty.prox(x, step), rtol=rtol
        )
        assert penalty.prox(x, size * step).sum() == pytest.approx(1, abs=1e-12)


# errors


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Box(0, [1, np.nan]), "low and high must not be NaN"),
        (
            lambda: Box([0, 3], [1, 2]),
            "low must not exceed high, got low=3.0 > high=2.0 for coordinate 1",
        ),
        (
            lambda: Box([0, 0], 1).check(3),
            r"low and high must be scalars or of shape \(3,\), got \(2,\)",
        ),
        (lambda: Box(0.3334, 1, budget=1.0).check(3), "budget=1.0 is unreachable"),
        (
            lambda: Box(0, 0.2, budget=1.0).check(3),
            "budget=1.0 is unreachable.* 3 .*from 0.0 to 0.6",
        ),
        (
            lambda: Box(0.5, INF, budget=1.0).check(3),
            "budget=1.0 is unreachable.* from 1.5 to inf",
        ),
        (lambda: Simplex(0.0), "total must be .*finite.*> 0, got 0.0"),
        (lambda: Box(INF, INF), "low .*high"),
        (lambda: Box(np.zeros((2, 2)), 1), "low .*high"),
    ],
)
def test_errors(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "penalty", [L1(0.5), Box(0, 1), Box(0, 1, budget=1.0), Simplex()]
)
def test_a_number_that_is_not_known_stays_so(penalty):
    """The simplex put its whole total on it."""
    x = np.array([0.2, np.nan, 0.3])
    assert np.isnan(penalty.prox(x, 1.0)[1]) and np.isnan(penalty.project(x)[1])


def test_box_keeps_its_own_bounds():
    low = np.zeros(3)
    box = Box(low, 1.0)
    low[0] = 0.9
    np.testing.assert_array_equal(box.project(np.full(3, 0.5)), np.full(3, 0.5))


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (L1(0.5), [1.0, 0.0, -3.0]),
        (Box(-0.25, 0.75), [0.75, 0.0, -0.25]),
        (Box(-1, 2, budget=0.5), [1.25, 0.25, -1.0]),
        (Simplex(), [1.0, 0.0, 0.0]),
        (Simplex(1.5), [1.25, 0.25, 0.0]),
    ],
)
@pytest.mark.parametrize("kind", [np.int64, np.int8, list])
def test_integers_are_numbers(penalty, expected, kind):
    """They were cut off to integers: the projection of (1, 0, -3) on a box below 1 was
    0."""
    given = [1, 0, -3] if kind is list else np.array([1, 0, -3], kind)
    np.testing.assert_allclose(penalty.project(given), expected, atol=1e-15)
    wide = np.array([1.0, 0.0, -3.0])
    for of in (
        penalty.project,
        lambda z: penalty.prox(z, 1),
        lambda z: penalty.prox(z, np.full(3, 2)),
    ):
        assert of(given).dtype == np.float64
        np.testing.assert_array_equal(of(given), of(wide))


class Minimal:
    """What a penalty of the user's own must have."""

    def value(self, x):
        return 0.0

    def prox(self, x, step):
        return x

    def project(self, x):
        return x


def test_what_is_a_penalty():
    for penalty in (None, L1(0.1), Box(0, 1), Box([0, 0, 0], 1), Simplex(), Minimal()):
        check_penalty(penalty, 3)
    check_penalty(Box(0.1, 1, budget=0.3), 3)  # up to rounding
    check_penalty(Box(0, 1 / 49, budget=1.0), 49)
    with pytest.raises(
        ValueError, match=r"low and high must be scalars or of shape \(3,\)"
    ):
        check_penalty(Box([0, 0], 1), 3)
    with pytest.raises(ValueError, match="budget=5.0 is unreachable"):
        check_penalty(Box(0, 1, budget=5), 3)
    for penalty in ("l1", Simplex, object(), lambda x: x):
        with pytest.raises(
            ValueError,
            match=r"^Mine.penalty: must be None or have .*L1.*Box.*Simplex.*got ",
        ):
            check_penalty(penalty, 3, "Mine.penalty:")
