"""Arrays with a common exponent against arithmetic with fractions, which have no
range."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sk_stormc.core.unit import MAX_POWER, InUnit, in_one_unit

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

DTYPES = (np.float64, np.float32)
OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "maximum": lambda a, b: (
        np.maximum(a, b)
        if isinstance(a, InUnit) or isinstance(b, InUnit)
        else max(a, b)
    ),
    "minimum": lambda a, b: (
        np.minimum(a, b)
        if isinstance(a, InUnit) or isinstance(b, InUnit)
        else min(a, b)
    ),
}
COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def fractions(value):
    """The entries as exact numbers."""
    array, power = (
        (value.array, value.power)
        if isinstance(value, InUnit)
        else (np.asarray(value), 0)
    )
    return [Fraction(float(entry)) * Fraction(2) ** power for entry in np.ravel(array)]


def number(rng, power, dtype=float, size=5):
    return InUnit(rng.normal(size=size).astype(dtype), power)


def close(found, exact, eps):
    """Each entry is within the rounding of the exact one, or next to nothing beside the
    largest: all have one unit."""
    largest = max(map(abs, exact)) * Fraction(2) ** (
        -1000 if found.dtype == float else -100
    )
    return all(
        abs(a - b) <= Fraction(eps) * abs(b) + largest
        for a, b in zip(fractions(found), exact, strict=True)
    )


# arithmetic


POWERS = [(0, 0), (0, 7), (-3, -40), (64, 32), (200, 100), (-64, 3000), (9999, -9999)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_rounded_once(name, dtype):
    rng, eps = np.random.default_rng(0), float(np.finfo(dtype).eps)
    of = OPERATIONS[name]
    pairs = [[number(rng, power, dtype) for power in powers] for powers in POWERS]
    for x, y in [*pairs, *(pair[::-1] for pair in pairs)]:
        found = of(x, y)
        assert (
            isinstance(found, InUnit) and found.dtype == dtype and found.shape == (5,)
        )
        assert close(
            found,
            [of(p, q) for p, q in zip(fractions(x), fractions(y), strict=True)],
            eps,
        )


@pytest.mark.parametrize("name", OPERATIONS)
def test_plain_numbers_are_in_the_unit_one(name):
    rng, of = np.random.default_rng(1), OPERATIONS[name]
    others = (0.8, 3, -2.5, np.float64(1.5), rng.normal(size=5), np.array(0.25))
    for power, b in product((0, 32, -300, 5000), others):
        a = number(rng, power)
        others = fractions(b) * (5 if np.ndim(b) == 0 else 1)
        for forward in (True, False):
            found = of(a, b) if forward else of(b, a)
            pairs = zip(fractions(a), others, strict=True)
            assert isinstance(found, InUnit)
            assert close(
                found, [of(p, q) if forward else of(q, p) for p, q in pairs], 2.0**-52
            )


@pytest.mark.parametrize("powers", [(0, 0), (0, 1), (40, 0), (5000, -5000)])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name, powers):
    rng, of = np.random.default_rng(2), COMPARISONS[name]
    a, b = (number(rng, power) for power in powers)
    same = InUnit(np.ldexp(a.array, -3), a.power + 3)
    for x, y in ((a, b), (b, a), (a, same), (a, 0.0), (a, 0.5), (np.full(5, 0.25), b)):
        exact = zip(
            fractions(x), fractions(y) * (5 if np.ndim(y) == 0 else 1), strict=True
        )
        found = of(x, y)
        assert type(found) is np.ndarray and found.dtype == bool
        assert found.tolist() == [of(p, q) for p, q in exact]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_far_from_one_gets_a_unit_that_fits(dtype):
    value, exact = InUnit(np.array([1.0, 0.75], dtype)), Fraction(1)
    for _ in range(3000):
        value, exact = value * 0.25, exact / 4
    assert fractions(value) == [exact, exact * Fraction(3, 4)] and value.power < -5900
    for _ in range(6000):
        value, exact = 8 * value, 8 * exact
    assert fractions(value) == [exact, exact * Fraction(3, 4)] and value.dtype == dtype
    back = value / value
    np.testing.assert_array_equal(back.plain(), [1, 1])
    square = InUnit(np.array([2.0**MAX_POWER, 1.0], dtype), 10)
    for _ in range(5):
        square = square * square
    assert fractions(square)[0] == Fraction(2) ** (32 * (MAX_POWER + 10))


def test_zero_has_no_size():
    zero, small = InUnit(np.zeros(3), 5000), InUnit(np.array([1.0, 2.0, 3.0]), -3000)
    for found in (
        zero + small,
        small + zero,
        small - zero,
        np.maximum(zero, small),
        small + 0.0,
        small + np.zeros(3),
    ):
        assert fractions(found) == fractions(small)
    assert (
        fractions(zero + zero) == [0, 0, 0]
        and not (zero > 0).any()
        and (small > zero).all()
    )
    assert not InUnit(np.zeros(1)) and InUnit(np.ones(1), -9000)


# what an array has


def test_products_of_vectors_and_matrices():
    rng = np.random.default_rng(4)
    v, J, x = rng.normal(size=2), rng.normal(size=(2, 5)), rng.normal(size=5)
    plain = InUnit(v, -4000).dot(InUnit(J, 4000))
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, v.dot(J))
    np.testing.assert_array_equal(InUnit(v, -3990) @ InUnit(J, 3991), 2 * v.dot(J))
    moved = InUnit(J, 4000) @ x
    assert isinstance(moved, InUnit)
    np.testing.assert_array_equal((moved / InUnit(1.0, 4000)).plain(), J @ x)
    np.testing.assert_array_equal(
        (v @ InUnit(J, 4000) / InUnit(1.0, 4000)).plain(), v @ J
    )
    with np.errstate(over="ignore"):
        assert np.isinf(InUnit(v, 4000) @ InUnit(J, 0)).all()  # as floats end


def test_plain_numbers_or_an_error():
    assert (
        float(InUnit(np.array(1.5), 10)) == 1536.0
        and float(InUnit(np.array(0.0), 5000)) == 0.0
    )
    assert (
        float(InUnit(np.array(np.inf), 0)) == np.inf
        and float(InUnit(np.float64(3))) == 3.0
    )
    for power in (2000, -2000):
        with (
            np.errstate(over="ignore"),
            pytest.raises(OverflowError, match=r"beyond the range.*numpy\.log"),
        ):
            float(InUnit(np.array(1.5), power))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (np.asarray, "plain()"),
        (np.array, "plain()"),
        (lambda u: np.array([u, u]), "plain()"),
        (lambda u: np.concatenate([u, u]), "plain()"),
        (lambda u: np.ones(2).dot(u), "plain()"),
        (np.sqrt, "numpy.sqrt"),
        (np.exp, "numpy.exp"),
        (np.add.reduce, "numpy.add.reduce"),
        (lambda u: np.add(u, 1.0, out=np.zeros(2)), "numpy.add with out"),
        (lambda u: np.zeros(2).__iadd__(u), "numpy.add with out"),
        (lambda u: u**2, "unsupported"),
        (lambda u: {u}, "unhashable"),
        (lambda u: u.__setitem__(0, 1.0), "__setitem__"),
    ],
)
def test_what_is_not_defined_is_refused(call, name):
    error = AttributeError if name == "__setitem__" else TypeError
    with pytest.raises(error, match=name.replace("(", r"\(").replace(")", r"\)")):
        call(InUnit(np.array([1.0, 2.0]), 0))


# exponentials


@pytest.mark.parametrize("top", [-1e6, -700.0, -3.0, 0.0, 11.0, 12.0, 1e3, 1e6])
def test_exponentials_of_any_size(top):
    e = top - np.array([0.0, 0.5, 30.0, 600.0])
    found = InUnit.exp(e)
    np.testing.assert_allclose(np.log(found), e, rtol=1e-15, atol=1e-13)
    assert 2.0**-17 < found.array.max() < 2.0**17
    np.testing.assert_allclose(
        np.log(InUnit.exp(e, 0.25)), e - np.log(4), rtol=1e-15, atol=1e-13
    )


# several values


def test_arrays_in_one_unit_combine_as_the_values_do():
    rng = np.random.default_rng(6)
    values, weights = (
        [number(rng, power) for power in (0, 40, 70, 30)],
        (0.5, -1.5, 1.0, 1.0),
    )
    arrays, back = in_one_unit(values)
    found = back(sum(w * array for w, array in zip(weights, arrays, strict=True)))
    entries = zip(*map(fractions, values), strict=True)
    exact = [
        sum(Fraction(w) * f for w, f in zip(weights, entry, strict=True))
        for entry in entries
    ]
    assert close(found, exact, 1e-14)
    far, _ = in_one_unit(
        [InUnit(np.ones(2), 5000), InUnit(np.ones(2), -5000), InUnit(np.zeros(2), 9000)]
    )
    np.testing.assert_array_equal(far, [[1, 1], [0, 0], [0, 0]])
