"""The compositional problem of a portfolio, for stochastic solvers: mean return against
variance or semivariance."""

from functools import cached_property
from operator import methodcaller
from typing import Any, Literal, NamedTuple

import numpy as np

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.preconditioners import Preconditioner, check_preconditioner
from sk_stormc.core.source import FiniteSource
from sk_stormc.core.weighted import WeightedComponents
from sk_stormc.portfolio.mean_risk import MeanRisk
from sk_stormc.utils.arrays import check_all_finite
from sk_stormc.utils.blocks import MappedRows, blocks
from sk_stormc.utils.docstrings import inherit_parameters
from sk_stormc.utils.parameters import check_choice, is_word, naming
from sk_stormc.utils.rows import check_numeric
from sk_stormc.utils.types import ArrayLike

__all__ = ["PortfolioProblem", "combine"]

# rows whose products are summed in the dtype of the returns; the sum of more in float32
# would lose digits
FLOAT32_ROWS = 256


class Factors(NamedTuple):
    """Constant factors of sums over a batch. Multiplying by a constant row is the
    fastest way to sum."""

    mean: np.ndarray  # a row of the weights of the periods in the mean
    minus: np.ndarray  # a row of -1
    # return weight times the weight of each period; a 0-d array is faster than a float
    weight: np.ndarray
    slope: np.ndarray  # 2 lambda times the weight of each period


def combine(c, rows):
    """c @ rows. Sums over many rows are accumulated in float64."""
    accurate = len(rows) <= FLOAT32_ROWS or rows.dtype == np.float64
    if isinstance(rows, np.ndarray) and accurate:
        return c.dot(rows)
    total = np.zeros(rows.shape[1])
    for start, block in blocks(rows):
        for i in range(0, len(block), FLOAT32_ROWS):
            piece = block[i : i + FLOAT32_ROWS]
            total += c[start + i : start + i + len(piece)] @ piece
    return total.astype(rows.dtype)


def measures():
    """The risk measures that have a compositional problem, by name. Their files import
    this one, so that it can import them only later."""
    from sk_stormc.portfolio.risk import MEASURES

    return {name: measure for name, measure in MEASURES.items() if measure.problem}


class OfMeasure:
    """Base class that makes ``PortfolioProblem(returns, risk_measure="entropic")`` an
    instance of the class for "entropic"."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)

    def __new__(cls, *args, risk_measure=None, **kwargs):
        """Create an instance of the measure's class. Copying and unpickling call this
        without arguments."""
        known, kind = measures(), cls
        if is_word(risk_measure, *known):
            kind = known[risk_measure].problem
        return super().__new__(kind if issubclass(kind, cls) else cls)


class PortfolioProblem(OfMeasure, WeightedComponents):
    r"""Minimise a risk minus the mean return, over portfolios x.

    .. math::

        \Phi(x) = -u + \lambda \, \mathrm{risk}(x) + R(x), \qquad u = \frac{1}{n} \sum_i
        r_i^T x

    Here r_i are the returns of period i, and the mean return u is the inner value. Two
    risks are

    .. math::

        \text{variance:} \quad & \frac{1}{n} \sum_i (r_i^T x - u)^2 \\
        \text{semivariance:} \quad & \frac{1}{n} \sum_i \min(r_i^T x - u, \, 0)^2

    For both the Jacobian is the mean of the r_i, which is constant. For
    ``risk_measure="entropic"`` this class returns an `EntropicPortfolioProblem`. The
    other risks of `CompositionalPortfolio` have an exact method, and no problem class.

    Parameters
    ----------
    returns : array-like of shape (n_periods, n_assets)
        Returns in any unit. float32 is kept, with means accumulated in float64. A
        memmap of floats stays on disk, and its rows are read in blocks or batches.
    risk_aversion : float, default=1.0
        lambda > 0, in the inverse unit of the returns. ``numpy.inf`` drops the mean
        return and gives the risk the weight 1.
    risk_measure : str, default="variance"
        "variance", "semivariance" or "entropic".
    sample_weight : array-like of shape (n_periods,), default=None
        Weights of the periods in all means. A batch draws periods with probabilities
        proportional to them.
    penalty : object of `sk_stormc.penalties`, default=None
        The regulariser or constraint R.
    preconditioner : "variance", ndarray, Preconditioner or None, default=None
        Preconditioner of the steps. "variance" uses 1 / Var(r_j) for each asset, so
        that steps do not depend on the units of the assets. None means unscaled steps,
        as in the papers.

    Raises
    ------
    ValueError
        If returns are not finite or not two-dimensional, weights are negative or all
        zero, or a parameter is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> returns = np.array([[0.1, 0.0], [-0.1, 0.2]])
    >>> problem = PortfolioProblem(returns, risk_aversion=2.0)
    >>> round(problem.objective(np.array([1.0, 1.0])), 10)
    -0.1
    """

    jacobian_kind = "constant"
    advice = Advice(
        unbounded_below=methodcaller("unbounded_below"),
        published=Published(eta=0.1, epsilon=0.1, a=0.01, B=100, S=100),
    )

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: Literal["variance", "semivariance", "entropic"] = "variance",
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        preconditioner: Any = None,
    ) -> None:
        check_choice("risk_measure", risk_measure, measures())
        measure = measures()[risk_measure]
        if not isinstance(self, measure.problem):
            needed = f"{measure.problem.__module__}.{measure.problem.__name__}"
            raise ValueError(
                f"risk_measure={risk_measure!r} needs a subclass of {needed}, got "
                f"{type(self).__name__}"
            )
        self._set_up(
            returns, risk_aversion, measure(), sample_weight, penalty, preconditioner
        )

    def _set_up(
        self, returns, risk_aversion, measure, sample_weight, penalty, preconditioner
    ):
        """Store the data, whose returns are checked here."""
        R = MappedRows.of(returns)
        if not isinstance(R, MappedRows):
            check_numeric("returns", R)
            with naming("returns"):
                if np.iscomplexobj(R):
                    raise ValueError("returns must be real numbers, got complex ones")
                kept = np.asarray(R).dtype == np.float32
                R = np.ascontiguousarray(R, dtype=None if kept else np.float64)
        if R.ndim != 2 or not R.size:
            raise ValueError(
                f"returns must be of shape (n_periods, n_assets), got {R.shape}"
            )
        for start, rows in blocks(R):
            check_all_finite("returns", rows, start)
        task = MeanRisk.of(R, measure, risk_aversion, sample_weight, penalty)
        self.task, self.measure, self.penalty = task, measure, penalty
        self.returns, self.weights = task.returns, task.p
        self.risk_aversion, self.risk_measure = task.risk_aversion, measure.name
        self._return_weight, self._risk_weight = task.return_weight, task.risk_weight
        self.n_inner, self.n_outer = task.n_inner, task.n_outer
        self.n_variables = R.shape[1]
        self._preconditioner = self._check_preconditioner(preconditioner)
        self._known_factors: dict = {}

    def initial_point(self, rng):
        """The empty portfolio, x = 0, which the solver projects on the constraint."""
        return np.zeros(self.n_variables, dtype=self.returns.dtype)

    @property
    def source(self):
        """Periods drawn with probability proportional to their weights, for g and for
        f."""
        return FiniteSource(self.n_inner, self.n_outer, self.weights, self.weights)

    def inner_batch(self, draws, weights=None):
        """The batch's mean return, of shape (1, n_assets), which is all that g
        needs."""
        if draws is None:
            return self.mean[None]
        return self._factors_of(draws, weights).mean.dot(
            self.returns.take(draws, 0, mode="clip")
        )

    def outer_batch(self, draws, weights=None):
        """The rows of a batch, and the `Factors` of sums over them."""
        if draws is not None:
            rows = self.returns.take(draws, 0, mode="clip")
            return rows, self._factors_of(draws, weights)
        weight = 1 / self.n_inner
        if self.weights is not None:
            weight = self.weights.astype(self.returns.dtype)
        return self.returns, self._factors(weight, self.n_inner)

    def _factors_of(self, draws, weights):
        """The factors of a drawn batch, which are cached for each size."""
        size = len(draws)
        if weights is not None:
            return self._factors(weights / size, size)
        if size not in self._known_factors:  # a third of the time of a step
            self._known_factors[size] = self._factors(1 / size, size)
        return self._known_factors[size]

    def _factors(self, weight, size):
        dtype = self.returns.dtype
        return Factors(
            np.full((1, size), weight, dtype),
            np.full((1, size), -1.0, dtype),
            np.array(self._return_weight * weight, dtype),
            np.array(2 * self._risk_weight * weight, dtype),
        )

    def description(self):
        """Sizes, risk measure and risk aversion."""
        return (
            f"{super().description()}, risk_measure={self.risk_measure!r}, "
            f"risk_aversion={self.risk_aversion:g}"
        )

    # g, dg, f and its gradient

    def inner(self, x, batch):
        """u = <mean r, x>, of shape (1,)."""
        return batch.dot(x)

    def jacobian(self, x, batch):
        """mean r, of shape (1, n_assets)."""
        return batch

    def outer_gradient(self, x, u, batch):
        """f_x = mean (2 lambda d_i - 1) r_i and f_u = -2 lambda mean d_i with d_i =
        <r_i, x> - u."""
        rows, factors = batch
        d = rows.dot(x)  # dot is a third faster than @ for arrays as small as a batch
        # subtracting a 0-d array is three times as fast as one of shape (1,)
        d -= u[..., 0]
        if self.measure.below_mean:
            np.minimum(d, 0, out=d)
        d *= factors.slope
        f_u = factors.minus.dot(d)
        d -= factors.weight
        return combine(d, rows), f_u

    def outer(self, x, u):
        """f(x, u) over all periods."""
        return self.measure.objective(self.task, x, u[0])

    def unbounded_below(self):
        """Whether the objective has no lower bound: True, False, or None if this is
        unknown."""
        return self.measure.unbounded_below(self.task)

    # means

    def _check_preconditioner(self, preconditioner):
        if isinstance(preconditioner, str):
            check_choice("preconditioner", preconditioner, ("variance",))
        if preconditioner is None or isinstance(preconditioner, (str, Preconditioner)):
            return preconditioner
        return check_preconditioner(
            "preconditioner", preconditioner, self.n_variables
        ).astype(self.returns.dtype, copy=False)

    @cached_property
    def mean(self):
        """The mean return, of shape (n_assets,)."""
        return self.task.mean.astype(self.returns.dtype)

    @cached_property
    def preconditioner(self):
        """Preconditioner of the steps, computed on first use, because a stream uses
        that of its first rows only."""
        named = isinstance(self._preconditioner, str)
        return self.task.inverse_variances() if named else self._preconditioner
