"""What is accepted and refused as a metric."""

import numpy as np
import pytest

from sk_stormc.core.attribute_checks import check_attributes
from sk_stormc.metrics import Diagonal, LowRank, Matrix, as_metric
from sk_stormc.problems import PortfolioProblem

W = np.full((3, 1), 0.1)
INDEFINITE = [[1, 2, 0], [2, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "metric, message",
    [
        (
            LowRank(np.ones(2), W),
            "scale of the metric LowRank must be 3 finite numbers > 0",
        ),
        (
            LowRank(np.array([1.0, 0.0, 1.0]), W),
            "scale of the metric LowRank must be 3 finite numbers > 0",
        ),
        (
            LowRank(np.array([1.0, np.inf, 1.0]), W),
            "scale of the metric LowRank must be 3 finite numbers > 0",
        ),
        (
            LowRank(np.ones(3), W[:2]),
            r"W of the metric LowRank must be finite numbers of shape \(3, rank\)",
        ),
        (
            LowRank(np.ones(3), W[:, 0]),
            r"W of the metric LowRank must be finite numbers of shape \(3, rank\)",
        ),
        (Diagonal(np.eye(3)), r"values of the metric Diagonal must have 1 dimension"),
        (Matrix(np.ones(3)), r"values of the metric Matrix must have 2 dimension"),
        ([1.0, 0.0, 2.0], "metric must be positive, got 0.0 at 1"),
        ([1.0, np.inf, 2.0], "metric must be finite, got inf at 1"),
        (np.diag([1.0, 1.0, np.nan]), r"metric must be finite, got nan at \(2, 2\)"),
        (
            np.diag([1.0, -1.0, 1.0]),
            "metric must be positive, got -1.0 on the diagonal at 1",
        ),
        (INDEFINITE, "metric must be positive definite, got an eigenvalue of -1$"),
        (
            [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]],
            r"metric must be symmetric, got 0.5 at \(0, 1\) and 0 at \(1, 0\)",
        ),
        (
            np.ones(4),
            r"metric must be a vector or matrix of 3 variables, got shape \(4,\)",
        ),
        (2.0, r"metric must be a vector or matrix of 3 variables, got shape \(\)"),
    ],
)
def test_refused(metric, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        as_metric(metric, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accepted(dtype):
    rng = np.random.default_rng(0)
    for metric in (LowRank(np.ones(3), W), Diagonal(np.ones(3)), Matrix(np.eye(3))):
        assert as_metric(metric, 3) is metric
    assert as_metric([1, 2, 3], 3).values.dtype == np.float64
    for scale in (1e-12, 1.0, 1e12):
        A = rng.normal(size=(5, 5))
        for values in (rng.uniform(0.1, 1, 5), A @ A.T + np.eye(5)):
            values = (scale * values).astype(dtype)
            assert as_metric(values, 5).values is values
    # an inverse Hessian of condition 1e20: its smallest eigenvalues are rounding, of
    # either sign
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    ill = (Q * np.logspace(-20, 0, 30)) @ Q.T
    as_metric(((ill + ill.T) / 2).astype(dtype), 30)


def test_metric_of_a_problem_is_an_array_or_a_metric():
    problem = PortfolioProblem(np.eye(3))
    problem.metric = [1.0, 1.0, 1.0]
    with pytest.raises(
        ValueError,
        match="^PortfolioProblem.metric: must be None, an array of numbers or a Metric",
    ):
        check_attributes(problem)


def test_the_size_of_a_point_in_a_metric_of_low_rank():
    rng = np.random.default_rng(0)
    scale, x = np.array([0.5, 2.0, 8.0]), rng.normal(size=3)
    factor = 0.4 * np.sqrt(scale)[:, None] * rng.uniform(size=(3, 2))
    M = np.diag(scale) - factor @ factor.T
    expected = np.sqrt(x @ np.linalg.solve(M, x))
    assert LowRank(scale, factor).size(x) == pytest.approx(expected, rel=1e-12)
