"""Preconditioners of the steps, which approximate the inverse Hessian."""

from sk_stormc.core.preconditioners import (
    Diagonal,
    Identity,
    LowRank,
    Matrix,
    Preconditioner,
    as_preconditioner,
)

__all__ = [
    "Diagonal",
    "Identity",
    "LowRank",
    "Matrix",
    "Preconditioner",
    "as_preconditioner",
]
