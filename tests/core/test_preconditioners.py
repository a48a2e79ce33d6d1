"""What is accepted and refused as a preconditioner."""

import numpy as np
import pytest

from sk_stormc import SCGD, metrics, minimize
from sk_stormc.core.attribute_checks import check_attributes
from sk_stormc.engine import ALL, start
from sk_stormc.preconditioners import (
    Diagonal,
    LowRank,
    Matrix,
    Preconditioner,
    as_preconditioner,
)
from sk_stormc.problems import PortfolioProblem

W = np.full((3, 1), 0.1)
INDEFINITE = [[1, 2, 0], [2, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "preconditioner, message",
    [
        (
            LowRank(np.ones(2), W),
            "scale of the preconditioner LowRank must be 3 finite numbers > 0",
        ),
        (
            LowRank(np.array([1.0, 0.0, 1.0]), W),
            "scale of the preconditioner LowRank must be 3 finite numbers > 0",
        ),
        (
            LowRank(np.array([1.0, np.inf, 1.0]), W),
            "scale of the preconditioner LowRank must be 3 finite numbers > 0",
        ),
        (
            LowRank(np.ones(3), W[:2]),
            r"W of the preconditioner LowRank must be finite numbers of shape \(3, rank\)",
        ),
        (
            LowRank(np.ones(3), W[:, 0]),
            r"W of the preconditioner LowRank must be finite numbers of shape \(3, rank\)",
        ),
        (
            Diagonal(np.eye(3)),
            r"values of the preconditioner Diagonal must have 1 dimension",
        ),
        (
            Matrix(np.ones(3)),
            r"values of the preconditioner Matrix must have 2 dimension",
        ),
        ([1.0, 0.0, 2.0], "preconditioner must be positive, got 0.0 at 1"),
        ([1.0, np.inf, 2.0], "preconditioner must be finite, got inf at 1"),
        (
            np.diag([1.0, 1.0, np.nan]),
            r"preconditioner must be finite, got nan at \(2, 2\)",
        ),
        (
            np.diag([1.0, -1.0, 1.0]),
            "preconditioner must be positive, got -1.0 on the diagonal at 1",
        ),
        (
            INDEFINITE,
            "preconditioner must be positive definite, got an eigenvalue of -1$",
        ),
        (
            [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]],
            r"preconditioner must be symmetric, got 0.5 at \(0, 1\) and 0 at \(1, 0\)",
        ),
        (
            np.ones(4),
            r"preconditioner must be a vector or matrix of 3 variables, got shape \(4,\)",
        ),
        (
            2.0,
            r"preconditioner must be a vector or matrix of 3 variables, got shape \(\)",
        ),
    ],
)
def test_refused(preconditioner, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        as_preconditioner(preconditioner, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accepted(dtype):
    rng = np.random.default_rng(0)
    for preconditioner in (
        LowRank(np.ones(3), W),
        Diagonal(np.ones(3)),
        Matrix(np.eye(3)),
    ):
        assert as_preconditioner(preconditioner, 3) is preconditioner
    assert as_preconditioner([1, 2, 3], 3).values.dtype == np.float64
    for scale in (1e-12, 1.0, 1e12):
        A = rng.normal(size=(5, 5))
        for values in (rng.uniform(0.1, 1, 5), A @ A.T + np.eye(5)):
            values = (scale * values).astype(dtype)
            assert as_preconditioner(values, 5).values is values
    # an inverse Hessian of condition 1e20: its smallest eigenvalues are rounding, of
    # either sign
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    ill = (Q * np.logspace(-20, 0, 30)) @ Q.T
    as_preconditioner(((ill + ill.T) / 2).astype(dtype), 30)


def test_metric_of_a_problem_is_an_array_or_a_metric():
    problem = PortfolioProblem(np.eye(3))
    problem.preconditioner = [1.0, 1.0, 1.0]
    with pytest.raises(
        ValueError,
        match="^PortfolioProblem.preconditioner: must be None, an array of numbers or a Preconditioner",
    ):
        check_attributes(problem)


def test_the_size_of_a_point_in_a_metric_of_low_rank():
    rng = np.random.default_rng(0)
    scale, x = np.array([0.5, 2.0, 8.0]), rng.normal(size=3)
    factor = 0.4 * np.sqrt(scale)[:, None] * rng.uniform(size=(3, 2))
    M = np.diag(scale) - factor @ factor.T
    expected = np.sqrt(x @ np.linalg.solve(M, x))
    assert LowRank(scale, factor).size(x) == pytest.approx(expected, rel=1e-12)


OWN = np.array([1.0, 2.0, 3.0])


def test_the_former_name_works_with_a_warning():
    """In the arguments and attributes of problems, in solvers and problems of users,
    and in the module."""
    problem = PortfolioProblem(np.eye(3), preconditioner=OWN)
    x = minimize(problem, "scgd", max_iter=3, random_state=0).x
    with pytest.warns(FutureWarning, match="metric= is now preconditioner="):
        same = PortfolioProblem(np.eye(3), metric=OWN)
    with pytest.warns(FutureWarning, match="PortfolioProblem.metric is now precond"):
        assert same.metric is same.preconditioner
    others = [same, PortfolioProblem(np.eye(3))]
    with pytest.warns(FutureWarning, match="PortfolioProblem.metric is now precond"):
        others[1].metric = OWN
    with pytest.warns(FutureWarning, match="Mine.metric is now preconditioner"):
        others.append(type("Mine", (PortfolioProblem,), {"metric": OWN})(np.eye(3)))

    def step(self, oracle, s):
        s.x = self.move(oracle, s, start(oracle, s.x, ALL).F, metric=Diagonal(OWN))

    def run_metric(self, oracle, s):
        return oracle.metric

    for other in others:
        found = minimize(other, "scgd", max_iter=3, random_state=0).x
        np.testing.assert_array_equal(found, x)
    with pytest.warns(FutureWarning, match="Old.run_metric is now run_preconditioner"):
        old = type("Old", (SCGD,), {"step": step, "run_metric": run_metric})
    with pytest.warns(FutureWarning, match="metric=? is now preconditioner"):
        minimize(problem, old(), max_iter=3, random_state=0)
    with pytest.warns(FutureWarning, match="metrics.Metric is now .*Preconditioner"):
        assert metrics.Metric is Preconditioner
    with pytest.raises(AttributeError, match="no attribute 'distance'"):
        metrics.distance  # noqa: B018
