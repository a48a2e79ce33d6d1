"""Names for the types of public signatures. Shapes and units are in the docstrings."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Array: TypeAlias = NDArray
FloatArray: TypeAlias = NDArray[np.floating]
SparseMatrix: TypeAlias = sparse.sparray | sparse.spmatrix
Features: TypeAlias = ArrayLike | SparseMatrix
RandomState: TypeAlias = int | np.random.RandomState | None
Schedule: TypeAlias = Callable[[int], float]  # a function of the iteration
Auto: TypeAlias = Literal["auto"]
# batch size, or sizes for g, its Jacobian and f
Size: TypeAlias = int | tuple | Auto | None
Kernel: TypeAlias = Literal["student-t", "gaussian"]
Neighbors: TypeAlias = Literal["auto", "exact", "approximate"]
Variant: TypeAlias = Literal["corrected", "paper"]
RiskMeasure: TypeAlias = Literal[
    "variance",
    "semivariance",
    "entropic",
    "cvar",
    "evar",
    "semideviation",
    "downside",
    "cdar",
    "gini",
]
SolverName: TypeAlias = Literal[
    "storm-c", "storm-c-paper", "sarah-c", "civr", "vrsc-pg", "scvr", "scgd",
    "acc-scgd", "asc-pg", "lbfgs",
    "corrected-sample", "sketchy-storm",
]  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])  # a function that is decorated
