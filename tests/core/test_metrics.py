"""What is refused as a metric, by name."""

import numpy as np
import pytest

from sk_stormc.metrics import Diagonal, LowRank, Matrix, as_metric

W = np.full((3, 1), 0.1)


@pytest.mark.parametrize(
    "metric, match",
    [
        (LowRank(np.ones(2), W), "scale of the metric LowRank must be 3 finite numbers > 0"),
        (LowRank(np.array([1.0, 0.0, 1.0]), W), "scale of the metric LowRank must be 3 finite numbers > 0"),
        (LowRank(np.array([1.0, np.inf, 1.0]), W), "scale of the metric LowRank must be 3 finite numbers > 0"),
        (LowRank(np.array(["a", "b", "c"]), W), "scale of the metric LowRank must be 3 finite numbers > 0"),
        (LowRank(np.ones(3), W[:2]), r"W of the metric LowRank must be finite numbers of shape \(3, rank\)"),
        (LowRank(np.ones(3), W[:, 0]), r"W of the metric LowRank must be finite numbers of shape \(3, rank\)"),
        (LowRank(np.ones(3), np.nan * W), r"W of the metric LowRank must be finite numbers of shape \(3, rank\)"),
        (Diagonal(np.eye(3)), r"values of the metric Diagonal must have 1 dimension"),
        (Matrix(np.ones(3)), r"values of the metric Matrix must have 2 dimension"),
        (np.ones(2), "metric must"),
        (-np.eye(3), "metric must"),
    ],
)
def test_what_is_refused(metric, match):
    with pytest.raises(ValueError, match=match):
        as_metric(metric, 3)


@pytest.mark.parametrize("metric", [LowRank(np.ones(3), W), Diagonal(np.ones(3)), Matrix(np.eye(3))])
def test_what_is_right_is_kept(metric):
    assert as_metric(metric, 3) is metric
