"""The logarithm of a mean of exponentials, whose exponents JAX differentiates."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sk_stormc.core.autodiff import DifferentiableComposition
from sk_stormc.core.block_rows import BlockSum, equal_parts
from sk_stormc.core.log_mean_exp import LogMeanExpProblem, exponentials
from sk_stormc.core.source import LazySource
from sk_stormc.core.unit import InUnit
from sk_stormc.core.weighted import with_sum_one
from sk_stormc.utils.blocks import added
from sk_stormc.utils.parameters import check_callable, check_number
from sk_stormc.utils.rows import check_weights
from sk_stormc.utils.types import ArrayLike


class _Exponents(DifferentiableComposition):
    """The exponents as inner values, which are never averaged in a run."""

    _names = {"inner": "exponent", "outer": "outer"}
    _data_names = {"inner": "data", "outer": "outer_data"}

    def _check_values(self):
        """Means of exponents over rows in blocks would take a pass of their own."""
        if not self._evaluations.placement.blocks:
            super()._check_values()


@dataclass
class ExponentialsOfBlock(BlockSum):
    """sum_j w_j exp(e_j(x)) over a block of rows, and its gradient. ``name`` is
    "inner"."""

    n_rows: int = 1

    def __call__(self, start, *parts):
        """The two sums, of shapes (1,) and (1, n_variables)."""
        (x,), one, total = self.args, np.ones(1, self.functions.dtype), None
        for rows, p in self.portions(start, parts):
            e = self.called("values", x, rows, None).ravel()
            w = exponentials(e, 1.0 / self.n_rows if p is None else p)
            weights = w.array.astype(x.dtype, copy=False)
            slope = self.called("vjp", x, one, rows, weights)
            sums = np.sum(w.array, keepdims=True), slope[None]
            total = added(total, tuple(InUnit(part, w.power) for part in sums))
        return total


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
    data : array-like, DataFrame, dask collection or pytree of these
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
            sample_weight=sample_weight,
            device_bytes=device_bytes,
        )
        if problem._u_structure.size != 1:
            raise ValueError("exponent must return a number for each row, got several")
        self.n_inner, self.n_variables = problem.n_inner, problem.n_variables
        self.penalty = problem.penalty
        self.scale = float(scale)
        if sample_weight is not None:
            self.weights = with_sum_one(
                check_weights(sample_weight, self.n_inner, "in row")
            )
        self._in_blocks = bool(problem._evaluations.placement.blocks)
        if self._in_blocks:
            value = self._over_all(problem._x0)
            self._last = problem._x0, value
            if not all(np.isfinite(part.array).all() for part in value):
                raise ValueError(
                    "exponent must be finite at x0, and so must its gradient, got the "
                    f"logarithm of the mean {self.log_of(value[0])}"
                )

    _last, _remembers = (None, None), False  # as in `DifferentiableComposition`

    def in_run(self):
        """A copy that remembers the values at the last point at which it was evaluated
        on all rows in blocks."""
        run = copy.copy(self)
        run._remembers = True
        return run

    @property
    def source(self):
        """Components drawn by their weights, of which dask collections have no
        minibatches."""
        source = self._exponents.source
        lazy = () if source is None else source.lazy
        return LazySource(self.n_inner, 1, self.weights, None, lazy)

    def inner(self, x, batch):
        """u, of shape (1,)."""
        if batch[0] is None and self._in_blocks:
            return self._over_all(x)[0].astype(x.dtype, copy=False)
        return super().inner(x, batch)

    def jacobian(self, x, batch):
        """The Jacobian, of shape (1, n_variables)."""
        if batch[0] is None and self._in_blocks:
            return self._over_all(x)[1]
        return super().jacobian(x, batch)

    def log_mean(self, x):
        """The logarithm of u, in float64."""
        if self._in_blocks:
            return self.log_of(self._over_all(x)[0])
        return super().log_mean(x)

    def gradient(self, x):
        """The exact gradient of Phi without R, by one pass over rows in blocks."""
        alone = self._in_blocks and not self._remembers
        return self.in_run().gradient(x) if alone else super().gradient(x)

    def _over_all(self, x):
        """u in float64 and its Jacobian over rows in blocks, by one pass."""
        if np.array_equal(self._last[0], x):
            return self._last[1]
        evaluations = self._exponents._evaluations
        kind = partial(ExponentialsOfBlock, n_rows=self.n_inner)
        value = evaluations.over_blocks("inner", x, kind=kind)
        if self._remembers:
            self._last = x.copy(), value
        return value

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
        in_memory = evaluations.placement.takes("inner")
        return [
            (cut, ("inner", cut if in_memory else np.arange(cut.start, cut.stop)))
            for cut in equal_parts(self.n_inner, evaluations.block("inner"))
        ]


def _mean(x, u):
    """The outer function of `_Exponents`."""
    return u.sum()
