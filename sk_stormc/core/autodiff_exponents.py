"""The logarithm of a mean of exponentials, whose exponents JAX differentiates."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sk_stormc.core.autodiff import DifferentiableComposition
from sk_stormc.core.log_mean_exp import LogMeanExpProblem
from sk_stormc.core.weighted import with_sum_one
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import check_callable, check_number, check_weights

__all__ = ["DifferentiableLogMeanExp"]


class _Exponents(DifferentiableComposition):
    """The exponents as inner values, which are never averaged in a run."""

    _inner_name = "exponent"
    _data_names = {"inner": "data", "outer": "outer_data"}


class DifferentiableLogMeanExp(LogMeanExpProblem):
    r"""Minimise the logarithm of a mean of exponentials, with derivatives by JAX.

    .. math::

        \Phi(x) = \mathrm{scale} \cdot \log \sum_j w_j \exp(e(x; a_j)) + R(x)

    Exponents may be of any size, as in `LogMeanExpProblem`. A composition of exp and
    log would overflow. With the exponent loss / T and scale T it is the loss that is
    robust in a Kullback-Leibler ball. A ridge r(x) may be added to the loss, since log
    mean exp(e + r) = r + log mean exp(e).

    Parameters
    ----------
    exponent : callable
        ``exponent(x, row)``: the exponent of one row, a number, written with
        `jax.numpy`.
    data : array-like, DataFrame or pytree of these
        As ``inner_data`` of `DifferentiableComposition`.
    x0 : array-like or pytree of these
        Starting point, as for `DifferentiableComposition`.
    scale : float, default=1.0
        A positive number.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows.
    penalty : object of `sk_stormc.penalties`, default=None
        The penalty or constraint R.
    device_bytes : int, default=2**32
        As for `DifferentiableComposition`.

    Raises
    ------
    ImportError
        If JAX is not installed.
    ValueError
        As for `DifferentiableComposition`.

    Examples
    --------
    Logistic regression that is robust in a Kullback-Leibler ball, at a small
    temperature:

    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import DifferentiableLogMeanExp
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(500, 3))
    >>> y = np.where(A @ [1.0, -1.0, 0.5] + rng.normal(size=500) > 0, 1.0, -1.0)
    >>> import jax.numpy as jnp  # doctest: +SKIP
    >>> def exponent(x, row):
    ...     a, y = row
    ...     return jnp.logaddexp(0, -y * (a @ x)) / 0.001
    >>> problem = DifferentiableLogMeanExp(
    ...     exponent, (A, y), x0=np.zeros(3), scale=0.001
    ... )  # doctest: +SKIP
    >>> minimize(problem, "lbfgs").success  # doctest: +SKIP
    True
    """

    def __init__(
        self,
        exponent: Callable,
        data: Any,
        *,
        x0: Any,
        scale: float = 1.0,
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        device_bytes: int = 2**32,
    ) -> None:
        check_callable("exponent", exponent)
        check_number("scale", scale, low=0, inclusive=False)
        if data is None:
            raise ValueError("data must hold at least one array, got None")
        self._exponents = problem = _Exponents(
            exponent,
            _mean,
            data,
            x0=x0,
            penalty=penalty,
            jacobian="sampled",
            device_bytes=device_bytes,
        )
        if problem.inner(problem.initial_point(None), None).size != 1:
            raise ValueError("exponent must return a number for each row, got several")
        self.n_inner, self.n_variables, self.penalty = (
            problem.n_inner,
            problem.n_variables,
            problem.penalty,
        )
        self.scale = float(scale)
        if sample_weight is not None:
            self.weights = with_sum_one(
                check_weights(sample_weight, self.n_inner, "in row")
            )

    def initial_point(self, rng):
        """x0, flat."""
        return self._exponents.initial_point(rng)

    def ravel(self, x):
        """An x of the structure of x0 as a flat array."""
        return self._exponents.ravel(x)

    def unravel(self, x):
        """A flat x, or several, in the structure of x0."""
        return self._exponents.unravel(x)

    def gather(self, draws):
        """The indices. None stays None, for all components."""
        return draws

    def exponents(self, x, rows):
        """The exponents of these rows, by blocks."""
        return np.concatenate(
            [self._call("values", part, x).ravel() for _, part in self._parts(rows)]
        )

    def exponent_gradient(self, x, rows, p):
        """sum_k p_k grad e_k(x) over these rows, by blocks."""
        one = np.ones(1, x.dtype)
        return sum(
            self._call("weighted_vjp", part, x, one, p[cut])
            for cut, part in self._parts(rows)
        )

    def _call(self, name, part, *args):
        return self._exponents._evaluations.over_batches(name, args, part)

    def _parts(self, rows):
        """Blocks of at most two sizes: their positions among the rows, and pairs of the
        side and their rows."""
        evaluations = self._exponents._evaluations
        if rows is not None:
            return evaluations.parts("inner", rows)
        ends = (
            np.linspace(
                0, self.n_inner, -(-self.n_inner // evaluations.block("inner")) + 1
            )
            .astype(int)
            .tolist()
        )
        cuts = list(map(slice, ends[:-1], ends[1:]))
        in_memory = evaluations.placement.host["inner"] is not None
        return [
            (cut, ("inner", cut if in_memory else np.arange(cut.start, cut.stop)))
            for cut in cuts
        ]


def _mean(x, u):
    """The outer function of `_Exponents`."""
    return u.sum()
