"""Which states of a log are the same one, found without sorting where all of them differ."""

import numpy as np
import pytest

from sk_stormc.values.log import ODD, all_differ, distinct_rows

RNG = np.random.default_rng(0)
WITHOUT = {
    "none": np.zeros(0),
    "one": np.ones(1),
    "random": RNG.normal(size=5000),
    "integers": np.arange(-2500.0, 2500.0),
    "neighbours": 1 + np.arange(5000) * np.finfo(float).eps,
    # of all these the product with ODD begins with the same bits
    "one place": (np.arange(1, 3000, dtype=np.uint64) * np.uint64(pow(ODD, -1, 2**64))).view(np.float64),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_numbers_that_differ(name):
    numbers = WITHOUT[name]
    numbers = numbers[np.isfinite(numbers)]
    assert all_differ(numbers)
    if len(numbers):
        twice = np.append(numbers, numbers[len(numbers) // 2])
        assert not all_differ(twice) and not all_differ(RNG.permutation(twice))


def test_zero_has_no_sign():
    assert not all_differ(np.array([1.0, 0.0, -0.0]))
    first, number = distinct_rows(np.array([[0.0, 2.0], [1.0, 2.0], [-0.0, 2.0]]))
    np.testing.assert_array_equal(first[number], [0, 1, 0])


@pytest.mark.parametrize("kinds", [1, 7, 900])
def test_against_unique(kinds):
    rows = RNG.normal(size=(kinds, 3))[RNG.integers(kinds, size=1000)]
    first, number = distinct_rows(rows)
    np.testing.assert_array_equal(rows[first][number], rows)
    assert len(first) == len(np.unique(rows, axis=0)) and len(np.unique(first)) == len(first)
