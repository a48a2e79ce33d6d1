"""Preconditioners of steps.

Steps are along ``preconditioner.apply(F)``, so a good preconditioner approximates the
inverse Hessian.

A problem's ``preconditioner`` is None (unscaled steps), an array (a vector is a
diagonal, a square array a matrix), or an object of this module. For a preconditioner
that changes with x or t, derive a class that overrides `Preconditioner.at` and sets
``stays`` to False."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.utils.arrays import check_all_finite
from sk_stormc.utils.parameters import check_int, short
from sk_stormc.utils.types import ArrayLike, FloatArray


class Preconditioner:
    """A symmetric positive definite matrix M, given by the operations that a step
    needs.

    Attributes
    ----------
    stays : bool
        Whether `at` returns the same preconditioner for every x and t. Gradients
        measured with different preconditioners cannot be combined.
    curvature : float or None
        The curvature L of the problem with this preconditioner, if known. If it is
        None, methods estimate it.
    has_prox : bool
        Whether a penalty's proximal step has a closed form, as for a diagonal M. The
        preconditioner then has the methods ``apply_inverse(q)``, which returns M^-1 q,
        and ``prox_step(learning_rate)``, which returns the ``step`` for a penalty's
        ``prox``.
    mixes : bool
        Whether M is a full matrix by which the problem approximates its inverse
        Hessian.

    Examples
    --------
    >>> from sk_stormc.preconditioners import Identity, Preconditioner
    >>> isinstance(Identity(), Preconditioner), Preconditioner.stays
    (True, True)
    """

    stays = True
    curvature: float | None = None
    has_prox = False
    mixes = False

    def bound(self, oracle):
        """The preconditioner for one run with this oracle. It is another object if it
        depends on the draws of the run.

        Parameters
        ----------
        oracle : Oracle

        Returns
        -------
        Preconditioner
        """
        return self

    def at(self, x: FloatArray, t: int) -> Preconditioner:
        """The preconditioner of the step from x at iteration t.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        t : int

        Returns
        -------
        Preconditioner
        """
        return self

    def apply(self, F: FloatArray) -> FloatArray:
        """M F, the direction of a step.

        Parameters
        ----------
        F : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        raise NotImplementedError

    def size(self, x: FloatArray) -> float:
        """sqrt(x^T M^-1 x), or a lower bound if it is expensive. It is used to detect
        steps that are rounding errors.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        raise NotImplementedError

    def block_lengths(self, q: FloatArray, p: FloatArray, n_blocks: int) -> FloatArray:
        """Lengths of the blocks of a direction. Step 6 of Algorithm 1 can limit each of
        them separately.

        Parameters
        ----------
        q : ndarray of shape (n_variables,)
        p : ndarray of shape (n_variables,)
            M^-1 q.
        n_blocks : int

        Returns
        -------
        ndarray of shape (n_blocks,)
        """
        return np.sqrt(
            np.einsum("ij,ij->i", q.reshape(n_blocks, -1), p.reshape(n_blocks, -1))
        )

    def root(self) -> float | FloatArray | None:
        """R with R R^T = M, a vector for a diagonal M and otherwise a lower triangular
        matrix.

        Returns
        -------
        ndarray of shape (n_variables,) or (n_variables, n_variables), or None
            None if it is not available.
        """
        return None


class Identity(Preconditioner):
    """M = I, for the unscaled step of the papers.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.preconditioners import Identity
    >>> Identity().apply(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    has_prox = True

    def apply(self, F: FloatArray) -> FloatArray:
        """F itself."""
        return F

    def apply_inverse(self, q: FloatArray) -> FloatArray:
        """q itself."""
        return q

    def prox_step(self, learning_rate: float) -> float | FloatArray:
        """The ``step`` for a penalty's ``prox``."""
        return learning_rate

    def size(self, x: FloatArray) -> float:
        """The Euclidean length."""
        return float(np.linalg.norm(x))

    def root(self) -> float | FloatArray | None:
        """The number 1."""
        return 1.0


class Diagonal(Preconditioner):
    """M = diag(values), such as the assets' inverse variances.

    Parameters
    ----------
    values : ndarray of shape (n_variables,)
        Finite and > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.preconditioners import Diagonal
    >>> Diagonal(np.array([4.0, 1.0])).apply(np.array([1.0, 1.0]))
    array([4., 1.])
    """

    has_prox = True

    def __init__(self, values: FloatArray):
        self.values = values

    def apply(self, F: FloatArray) -> FloatArray:
        """M F."""
        return self.values * F

    def apply_inverse(self, q: FloatArray) -> FloatArray:
        """M^-1 q."""
        return q / self.values

    def prox_step(self, learning_rate: float) -> float | FloatArray:
        """The ``step`` for a penalty's ``prox``, with one number for each variable."""
        return learning_rate * self.values

    def size(self, x: FloatArray) -> float:
        """sqrt(x^T M^-1 x)."""
        return float(np.linalg.norm(x / np.sqrt(self.values)))

    def root(self) -> float | FloatArray | None:
        """The vector sqrt(values)."""
        return np.sqrt(self.values)


class Matrix(Preconditioner):
    """M = values, a full matrix.

    Parameters
    ----------
    values : ndarray of shape (n_variables, n_variables)
        Symmetric and positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.preconditioners import Matrix
    >>> Matrix(np.array([[2.0, 1.0], [1.0, 2.0]])).apply(np.array([1.0, 0.0]))
    array([2., 1.])
    """

    mixes = True

    def __init__(self, values: FloatArray):
        self.values = values

    def apply(self, F: FloatArray) -> FloatArray:
        """M F."""
        return self.values @ F

    def size(self, x: FloatArray) -> float:
        """max_j |x_j| / sqrt(M_jj), a lower bound by the Cauchy-Schwarz inequality."""
        return float(np.max(np.abs(x) / np.sqrt(self.values.diagonal())))

    def root(self) -> float | FloatArray | None:
        """The Cholesky factor."""
        return np.linalg.cholesky(self.values)


@dataclass(eq=False, repr=False)
class LowRank(Preconditioner):
    """M = diag(scale) - W W^T, stored as n_variables (rank + 1) numbers.

    Parameters
    ----------
    scale : ndarray of shape (n_variables,)
    W : ndarray of shape (n_variables, rank)
        Small enough for M to be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.preconditioners import LowRank
    >>> LowRank(np.ones(2), np.array([[0.5], [0.0]])).apply(np.array([1.0, 1.0]))
    array([0.75, 1.  ])
    """

    scale: FloatArray
    W: FloatArray

    def apply(self, F: FloatArray) -> FloatArray:
        """M F."""
        return self.scale * F - self.W @ (F @ self.W)

    def size(self, x: FloatArray) -> float:
        """sqrt(x^T M^-1 x), by Woodbury's formula."""
        y, W = x / self.scale, self.W.astype(float)
        inner = np.eye(W.shape[1]) - W.T @ (W / self.scale[:, None])
        return math.sqrt(float(x @ y + (y @ W) @ np.linalg.solve(inner, y @ W)))


def check_preconditioner(name, preconditioner, n_variables):
    """A preconditioner given as numbers: a positive vector, or a symmetric positive
    definite matrix."""
    values = np.asarray(preconditioner)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, got {short(preconditioner)}")
    d = n_variables
    if values.shape not in ((d,), (d, d)):
        raise ValueError(
            f"{name} must be a vector or matrix of {d} variables, got shape "
            f"{values.shape}"
        )
    values = (
        values if values.dtype in (np.float32, np.float64) else values.astype(float)
    )
    check_all_finite(name, values)
    diagonal = values if values.ndim == 1 else values.diagonal()
    if diagonal.min() <= 0:
        k = int(diagonal.argmin())
        where = "" if values.ndim == 1 else " on the diagonal"
        raise ValueError(f"{name} must be positive, got {diagonal[k]}{where} at {k}")
    if values.ndim == 2:
        _check_definite(name, values.astype(float), float(np.finfo(values.dtype).eps))
    return values


def _check_definite(name, matrix, eps):
    asymmetry, size = np.abs(matrix - matrix.T), np.abs(matrix).max()
    if asymmetry.max() > 1000 * eps * size:
        i, j = (int(k) for k in np.unravel_index(asymmetry.argmax(), matrix.shape))
        raise ValueError(
            f"{name} must be symmetric, got {matrix[i, j]:.6g} at ({i}, {j}) and "
            f"{matrix[j, i]:.6g} at ({j}, {i})"
        )
    try:
        np.linalg.cholesky(matrix)
    # an ill-conditioned matrix may fail because of rounding errors
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(matrix)
        if values[0] < -len(matrix) * eps * values[-1]:
            raise ValueError(
                f"{name} must be positive definite, got an eigenvalue of "
                f"{values[0]:.6g}"
            ) from None


def as_preconditioner(
    preconditioner: Preconditioner | ArrayLike | None, n_variables: int
) -> Preconditioner:
    """Turn a problem's ``preconditioner`` into a `Preconditioner`.

    Parameters
    ----------
    preconditioner : None, array-like or Preconditioner
    n_variables : int

    Returns
    -------
    Preconditioner

    Raises
    ------
    ValueError
        If an array has a wrong shape or is not finite, symmetric and positive definite,
        or if a `LowRank` preconditioner has a wrong shape.

    Examples
    --------
    >>> from sk_stormc.preconditioners import as_preconditioner
    >>> type(as_preconditioner([1.0, 2.0], 2)).__name__
    'Diagonal'
    """
    check_int("n_variables", n_variables, low=1)
    if preconditioner is None:
        return Identity()
    if not isinstance(preconditioner, Preconditioner):
        values = check_preconditioner("preconditioner", preconditioner, n_variables)
        return Diagonal(values) if values.ndim == 1 else Matrix(values)
    if type(preconditioner) in (Diagonal, Matrix):
        name = f"values of the preconditioner {type(preconditioner).__name__}"
        values = check_preconditioner(name, vars(preconditioner)["values"], n_variables)
        if values.ndim != 1 + preconditioner.mixes:
            raise ValueError(
                f"{name} must have {1 + preconditioner.mixes} dimension(s)"
            )
    if type(preconditioner) is LowRank:
        _check_low_rank(preconditioner, n_variables)
    return preconditioner


def _check_low_rank(preconditioner, n_variables):
    scale, W = np.asarray(preconditioner.scale), np.asarray(preconditioner.W)
    if (
        scale.dtype.kind not in "fiu"
        or scale.shape != (n_variables,)
        or not (np.isfinite(scale) & (scale > 0)).all()
    ):
        raise ValueError(
            f"scale of the preconditioner LowRank must be {n_variables} finite numbers "
            f"> 0, got {short(scale)}"
        )
    if (
        W.dtype.kind not in "fiu"
        or W.ndim != 2
        or len(W) != n_variables
        or not np.isfinite(W).all()
    ):
        raise ValueError(
            f"W of the preconditioner LowRank must be finite numbers of shape "
            f"({n_variables}, rank), got {short(W)}"
        )
