"""What steps are measured in: about the inverse Hessian."""

from sk_stormc.core.metrics import (
    Diagonal,
    Identity,
    LowRank,
    Matrix,
    Metric,
    as_metric,
)

__all__ = ["Diagonal", "Identity", "LowRank", "Matrix", "Metric", "as_metric"]
