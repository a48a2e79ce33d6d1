"""Metrics (preconditioners) of the steps, which approximate the inverse Hessian."""

from sk_stormc.core.metrics import (
    Diagonal,
    Identity,
    LowRank,
    Matrix,
    Metric,
    as_metric,
)

__all__ = ["Diagonal", "Identity", "LowRank", "Matrix", "Metric", "as_metric"]
