"""Helpers of sk_stormc.utils.validation that messages and parameters rely on."""

import numpy as np
import pytest

from sk_stormc.utils.validation import check_metric, plain, short


def test_plain_makes_pythons_numbers():
    pairs = [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("auto"), "auto"),
    ]
    for given, expected in pairs:
        assert plain(given) == expected and type(plain(given)) is type(expected)
        assert [type(part) for part in plain((given, None, "auto"))] == [type(expected), type(None), str]
        assert type(plain([given])) is list and type(plain([given])[0]) is type(expected)


def test_plain_leaves_the_rest_alone():
    for value in (3, 0.5, "auto", None, (1, None), [2, 3], np.arange(3), len, {"a": 1}):
        assert plain(value) is value


def test_short_is_one_short_line():
    assert short("l1") == "'l1'" and short(None) == "None"
    assert short(np.array([0.5, 1.0])) == "array([0.5, 1. ])"
    for value in (np.zeros((500, 500)), list(range(1000)), "x" * 1000, [np.ones(300), np.ones((20, 20))]):
        assert len(short(value)) <= 120 and "\n" not in short(value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_metric_that_is_one(dtype):
    rng = np.random.default_rng(0)
    for scale in (1e-12, 1.0, 1e12):
        vector = (scale * rng.uniform(0.1, 1, 5)).astype(dtype)
        assert check_metric("metric", vector, 5) is vector
        A = rng.normal(size=(5, 5))
        matrix = (scale * (A @ A.T + np.eye(5))).astype(dtype)
        assert check_metric("metric", matrix, 5) is matrix
    assert check_metric("metric", [1, 2, 3], 3).dtype == np.float64
    # an inverse Hessian of condition 1e20: its smallest eigenvalues are rounding, of either sign
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    ill = (Q * np.logspace(-20, 0, 30)) @ Q.T
    check_metric("metric", ((ill + ill.T) / 2).astype(dtype), 30)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ([1.0, 0.0, 2.0], "metric must be positive, got 0.0 at 1"),
        ([1.0, 1.0, -2.0], "metric must be positive, got -2.0 at 2"),
        ([1.0, np.inf, 2.0], "metric must be finite, got inf at 1"),
        (np.diag([1.0, 1.0, np.nan]), r"metric must be finite, got nan at \(2, 2\)"),
        (np.diag([1.0, -1.0, 1.0]), "metric must be positive, got -1.0 on the diagonal at 1"),
        ([[1, 2, 0], [2, 1, 0], [0, 0, 1]], "metric must be positive definite, got an eigenvalue of -1$"),
        ([[1, 0.5, 0], [0, 1, 0], [0, 0, 1]], r"metric must be symmetric, got 0.5 at \(0, 1\) and 0 at \(1, 0\)"),
        (np.ones(4), r"metric must be a vector or matrix of 3 variables, got shape \(4,\)"),
        (2.0, r"metric must be a vector or matrix of 3 variables, got shape \(\)"),
        ("variance", "metric must be numbers, got 'variance'"),
        (np.ones(3, complex), "metric must be numbers, got"),
    ],
)
def test_a_metric_that_is_none(metric, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check_metric("metric", metric, 3)
