"""Mean-risk portfolios: the registry of risk measures, and mean return against variance or semivariance."""

import inspect
from functools import cached_property
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.metrics import Metric
from sk_stormc.core.penalties import Box
from sk_stormc.core.source import FiniteSource
from sk_stormc.core.weighted import WeightedComponents, with_sum_one
from sk_stormc.streams.mapped import MappedRows, blocks
from sk_stormc.utils.docstrings import inherit_parameters
from sk_stormc.utils.types import ArrayLike, RiskMeasure
from sk_stormc.utils.validation import (
    check_choice,
    check_metric,
    check_number,
    check_numeric,
    check_weights,
    is_real,
    naming,
)

__all__ = ["ByRiskMeasure", "MEASURES", "PortfolioProblem", "check_parameters", "is_proportional"]

HIGHEST = 10  # largest order; with a higher one only the few largest losses would matter


class Traits(NamedTuple):
    """Properties of a risk measure."""

    power: int  # degree of homogeneity: the risk of k w is k**power times that of w; 0 if it is not homogeneous
    shift: float | None  # change of the risk if the return of each period grows by 1; None if it is not a constant
    parameter: str | None = None  # name of the parameter that is specific to the measure
    streams: bool = True  # whether `partial_fit` supports the measure


MEASURES = {
    "variance": Traits(2, 0.0),
    "semivariance": Traits(2, 0.0),
    "entropic": Traits(0, 0.0),  # the shift of the objective minus the mean return
    "cvar": Traits(1, -1.0, "confidence"),
    "evar": Traits(1, -1.0, "confidence"),
    "semideviation": Traits(1, 0.0, "order", streams=False),
    "downside": Traits(1, None, "order", streams=False),
    "cdar": Traits(1, None, "confidence", streams=False),
}


def is_proportional(risk_measure):
    """Whether the risk is proportional to the weights: homogeneous of degree 1."""
    return isinstance(risk_measure, str) and risk_measure in MEASURES and MEASURES[risk_measure].power == 1


def check_parameters(confidence=0.5, order=1):
    """Raise a ValueError unless the confidence is between 0 and 1, and the order 1 or from 2 to 10.

    Other powers have no second derivative at 0.
    """
    check_number("confidence", confidence, low=0, high=1, inclusive=False)
    if confidence == 1:
        raise ValueError(f"confidence must be below 1, got {confidence!r}")
    check_number("order", order, low=1, high=HIGHEST)
    if 1 < order < 2:
        raise ValueError(f"order must be 1 or from 2 to {HIGHEST}, got {order!r}")


class ByRiskMeasure:
    """Base class of problems that are selected by ``risk_measure``.

    Calling a subclass with ``risk_measure=name`` returns an instance of the class registered for that measure, if there
    is one. A class is registered by ``class Other(Problem, risk_measure="other")``. It inherits the descriptions of the
    parameters that it does not describe itself.
    """

    classes: dict[str, type] = {}  # the registered classes by risk measure
    own_measure: RiskMeasure  # the measure for which a class is registered
    __signature__: inspect.Signature  # that of __init__, because Python 3.11.2 would show that of __new__

    def __init_subclass__(cls, risk_measure=None, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)
        of_init = inspect.signature(cls.__init__)
        cls.__signature__ = of_init.replace(parameters=list(of_init.parameters.values())[1:])
        if risk_measure is not None:
            cls.classes[risk_measure], cls.own_measure = cls, risk_measure

    def __new__(cls, *args, risk_measure=None, **kwargs):
        """Create an instance of the registered class. Copying and unpickling call this without arguments."""
        other = cls.classes.get(risk_measure, cls) if isinstance(risk_measure, str) else cls
        return super().__new__(other if issubclass(other, cls) else cls)

    def check_class(self, risk_measure):
        """Raise a ValueError if this object is not an instance of the class registered for the risk measure."""
        needed = self.classes.get(risk_measure)
        if needed is not None and not isinstance(self, needed):
            raise ValueError(
                f"risk_measure={risk_measure!r} needs a subclass of {needed.__module__}.{needed.__name__}, "
                f"got {type(self).__name__}"
            )


RISK_MEASURES = tuple(MEASURES)
CHUNK = 4096  # rows that are converted to float64 at a time
PIECE = CHUNK // 16  # rows whose products are summed in the dtype of the returns


class Factors(NamedTuple):
    """Constant factors of sums over a batch. Multiplying by a constant row is the fastest way to sum."""

    mean: np.ndarray  # a row of the weights of the periods in the mean
    minus: np.ndarray  # a row of -1
    weight: np.ndarray  # return weight times the weight of each period; a 0-d array is faster than a float
    slope: np.ndarray  # 2 lambda times the weight of each period


def combine(c, rows):
    """c @ rows. Sums over many rows are accumulated in float64."""
    if isinstance(rows, np.ndarray) and (len(rows) <= PIECE or rows.dtype == np.float64):
        return c.dot(rows)
    total = np.zeros(rows.shape[1])
    for start, block in blocks(rows):
        for i in range(0, len(block), PIECE):
            piece = block[i : i + PIECE]
            total += c[start + i : start + i + len(piece)] @ piece
    return total.astype(rows.dtype)


def deviation_of(y, p=None):
    """The standard deviation of a portfolio's returns or losses y, with weights p of the periods."""
    return float(np.sqrt(np.average((y - np.average(y, weights=p)) ** 2, weights=p)))


def typical_size(y, p=None):
    """The standard deviation of y. If that is 0 up to rounding, the largest |y|, or 1 if y is 0 too."""
    deviation, size = deviation_of(y, p), float(np.abs(y).max())
    return deviation if deviation > 1e-9 * size else size or 1.0


def with_aversion(problem, risk_aversion, penalty=None):
    """The problem with the same returns and risk, and another risk aversion and penalty."""
    options = {"risk_measure": problem.risk_measure, "sample_weight": problem.weights, "penalty": penalty}
    return PortfolioProblem(problem.returns, risk_aversion, **options, **problem.parameters())


class PortfolioProblem(ByRiskMeasure, WeightedComponents):
    r"""Minimise a risk minus the mean return, over portfolios x.

    .. math::

        \Phi(x) = -u + \lambda \, \mathrm{risk}(x) + R(x), \qquad u = \frac{1}{n} \sum_i r_i^T x

    Here r_i are the returns of period i, and the mean return u is the inner value. Two risks are

    .. math::

        \text{variance:} \quad & \frac{1}{n} \sum_i (r_i^T x - u)^2 \\
        \text{semivariance:} \quad & \frac{1}{n} \sum_i \min(r_i^T x - u, \, 0)^2

    For both the Jacobian is the mean of the r_i, which is constant. The other risks have their own classes, and this
    class returns an instance of them: an `EntropicPortfolioProblem` for ``risk_measure="entropic"``, a
    `CVaRPortfolioProblem` for "cvar" and an `EVaRPortfolioProblem` for "evar". The last two have an additional variable
    and a parameter ``confidence``. "semideviation" returns a `SemideviationPortfolioProblem` and "downside" a
    `DownsidePortfolioProblem`, which have a parameter ``order``. "cdar" returns a `DrawdownPortfolioProblem`, which can
    be evaluated but not sampled.

    Parameters
    ----------
    returns : array-like of shape (n_periods, n_assets)
        Returns in any unit. float32 is kept, with means accumulated in float64. A memmap of floats stays on disk, and
        its rows are read in blocks or batches.
    risk_aversion : float, default=1.0
        lambda > 0, in the inverse unit of the returns. ``numpy.inf`` drops the mean return and gives the risk the
        weight 1.
    risk_measure : str, default="variance"
        "variance", "semivariance", or one of the measures above with their own classes.
    sample_weight : array-like of shape (n_periods,), default=None
        Weights of the periods in all means. A batch draws periods with probabilities proportional to them.
    penalty : object of `sk_stormc.penalties`, default=None
        The regulariser or constraint R.
    metric : "variance", ndarray, `sk_stormc.metrics.Metric` or None, default=None
        Preconditioner of the steps. "variance" uses 1 / Var(r_j) for each asset, so that steps do not depend on the
        units of the assets. None means unscaled steps, as in the papers.

    Raises
    ------
    ValueError
        If returns are not finite or not two-dimensional, weights are negative or all zero, or a parameter is out of
        range.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[0.1, 0.0], [-0.1, 0.2]]), risk_aversion=2.0)
    >>> round(problem.objective(np.array([1.0, 1.0])), 10)
    -0.1
    """

    jacobian_kind = "constant"
    ordered = False  # whether the risk depends on the order of the periods
    advice = Advice(
        unbounded_below=methodcaller("unbounded_below"), published=Published(eta=0.1, epsilon=0.1, a=0.01, B=100, S=100)
    )

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: RiskMeasure = "variance",
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        if not (is_real(risk_aversion) and risk_aversion == np.inf):
            check_number("risk_aversion", risk_aversion, low=0, inclusive=False)
        check_choice("risk_measure", risk_measure, RISK_MEASURES)
        self.check_class(risk_measure)
        R = MappedRows.of(returns)
        if not isinstance(R, MappedRows):
            check_numeric("returns", R)
            with naming("returns"):
                if np.iscomplexobj(R):
                    raise ValueError("returns must be real numbers, got complex ones")
                R = np.ascontiguousarray(R, dtype=None if np.asarray(R).dtype == np.float32 else np.float64)
        if R.ndim != 2 or not R.size:
            raise ValueError(f"returns must be of shape (n_periods, n_assets), got {R.shape}")
        for _, block in blocks(R):
            if not np.isfinite(block).all():
                raise ValueError(f"returns must be finite, got {block[~np.isfinite(block)][0]}")
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(R), "for period")
            if not (weights.all() or self.ordered) and isinstance(R, np.ndarray):  # drop periods of weight 0
                R, weights = R[weights > 0], weights[weights > 0]
            weights = with_sum_one(weights)
        self.returns, self.weights = R, weights
        self.risk_aversion, self.risk_measure = float(risk_aversion), risk_measure
        self.semi = risk_measure == "semivariance"
        self.n_inner, self.n_variables = R.shape
        self.n_outer = self.n_inner
        self.penalty = penalty
        self._metric = self._check_metric(metric)
        self._known_factors: dict = {}

    @property
    def _return_weight(self):
        return 0.0 if self.risk_aversion == np.inf else 1.0

    @property
    def _risk_weight(self):
        return 1.0 if self.risk_aversion == np.inf else self.risk_aversion

    def initial_point(self, rng):
        """The empty portfolio, x = 0, which the solver projects on the constraint."""
        return np.zeros(self.n_variables, dtype=self.returns.dtype)

    @property
    def source(self):
        """Periods drawn with probability proportional to their weights, for g and for f."""
        return FiniteSource(self.n_inner, self.n_outer, self.weights, self.weights)

    def inner_batch(self, draws, weights=None):
        """The batch's mean return, of shape (1, n_assets), which is all that g needs."""
        if draws is None:
            return self.mean[None]
        return self._factors_of(draws, weights).mean.dot(self.returns.take(draws, 0, mode="clip"))

    def outer_batch(self, draws, weights=None):
        """The rows of a batch, and the `Factors` of sums over them."""
        if draws is None:
            weight = 1.0 / self.n_inner if self.weights is None else self.weights.astype(self.returns.dtype)
            return self.returns, self._factors(weight, self.n_inner)
        return self.returns.take(draws, 0, mode="clip"), self._factors_of(draws, weights)

    def _factors_of(self, draws, weights):
        """The factors of a drawn batch, which are cached for each size."""
        size = len(draws)
        if weights is not None:
            return self._factors(weights / size, size)
        key = size, self.risk_aversion
        if key not in self._known_factors:
            self._known_factors[key] = self._factors(1 / size, size)
        return self._known_factors[key]

    def _factors(self, weight, size):
        weights = (self._return_weight * weight, 2 * self._risk_weight * weight)
        mean, minus = (np.full((1, size), value, self.returns.dtype) for value in (weight, -1.0))
        return Factors(mean, minus, *(np.array(value, self.returns.dtype) for value in weights))

    def _period_weights(self):
        return 1 / self.n_inner if self.weights is None else self.weights

    def _weighted_blocks(self):
        """Blocks of the returns, with the weights of their periods."""
        for start, rows in blocks(self.returns):
            yield rows, 1 / self.n_inner if self.weights is None else self.weights[start : start + len(rows)]

    def description(self):
        """Sizes, risk measure and risk aversion."""
        return f"{super().description()}, risk_measure={self.risk_measure!r}, risk_aversion={self.risk_aversion:g}"

    def parameters(self):
        """The parameters of the risk measure, as a dict."""
        name = MEASURES[self.risk_measure].parameter
        return {} if name is None else {name: getattr(self, name)}

    # conversion between x and the portfolio, for problems with variables in addition to the weights

    def weights_of(self, x):
        """The portfolio's weights in x: here x itself."""
        return x

    def start_at(self, weights):
        """A starting point x with these weights."""
        return weights

    def value_at(self, weights):
        """The exact objective of a portfolio, including R."""
        return self.objective(weights)

    # g, dg, f and its gradient

    def inner(self, x, batch):
        """u = <mean r, x>, of shape (1,)."""
        return batch.dot(x)

    def jacobian(self, x, batch):
        """mean r, of shape (1, n_assets)."""
        return batch

    def outer_gradient(self, x, u, batch):
        """f_x = mean (2 lambda d_i - 1) r_i and f_u = -2 lambda mean d_i with d_i = <r_i, x> - u."""
        rows, factors = batch
        d = rows.dot(x)  # dot is a third faster than @ for arrays as small as a batch
        d -= u[..., 0]  # subtracting a 0-d array is three times as fast as one of shape (1,)
        if self.semi:
            np.minimum(d, 0, out=d)
        d *= factors.slope
        f_u = factors.minus.dot(d)
        d -= factors.weight
        return combine(d, rows), f_u

    def outer(self, x, u):
        """f(x, u) over all periods."""
        total = 0.0
        for start, rows in blocks(self.returns):
            y = rows @ x
            d = y - u[0]
            if self.semi:
                np.minimum(d, 0, out=d)
            values = self._risk_weight * d.astype(float) ** 2 - self._return_weight * y
            total += values.sum() if self.weights is None else self.weights[start : start + len(y)] @ values
        return float(total / self.n_inner if self.weights is None else total)

    def unbounded_below(self):
        """True if some portfolio has a mean return but no risk, False if none has, None if this is unknown.

        Such a portfolio exists if an asset is constant, or if there are no more periods than assets.
        """
        if not self._return_weight:
            return False  # a risk is not negative
        R, penalty = self.returns, self.penalty
        free = isinstance(penalty, Box) and not penalty.alpha and np.isinf([penalty.low, penalty.high]).all()
        if penalty is not None and not free:
            return None
        if len(R) + free <= R.shape[1]:  # some portfolio has no variance, and in general a nonzero mean
            return bool(self.mean.any())
        if free:
            return None
        suspects = np.flatnonzero((R[:64] == R[0]).all(axis=0) & (R[0] != 0))
        for _, rows in blocks(R):
            suspects = suspects[(rows[:, suspects] == R[0][suspects]).all(axis=0)]
        return bool(suspects.size) or None

    # means

    def _chunks(self):
        """Blocks of rows in float64, with their weights as a column."""
        for i in range(0, self.n_inner, CHUNK):
            weight = 1 / self.n_inner if self.weights is None else self.weights[i : i + CHUNK, None]
            yield self.returns[i : i + CHUNK].astype(float), weight

    def _check_metric(self, metric):
        if isinstance(metric, str):
            check_choice("metric", metric, ("variance",))
        if metric is None or isinstance(metric, (str, Metric)):
            return metric
        return check_metric("metric", metric, self.n_variables).astype(self.returns.dtype, copy=False)

    @cached_property
    def _mean(self):
        return sum((weight * rows).sum(0) for rows, weight in self._chunks())

    @cached_property
    def mean(self):
        """The mean return, of shape (n_assets,)."""
        return self._mean.astype(self.returns.dtype)

    @cached_property
    def metric(self):
        """Preconditioner of the steps, computed on first use, because a stream uses that of its first rows only."""
        return self._inverse_variance() if isinstance(self._metric, str) else self._metric

    def _inverse_variance(self):
        second = variance = 0
        for rows, weight in self._chunks():  # both in one pass over the data
            second = second + (weight * rows**2).sum(0)
            variance = variance + (weight * (rows - self._mean) ** 2).sum(0)
        varying = variance > 1e-12 * second  # the variance of a constant asset is only rounding error
        typical = np.median(variance[varying]) if varying.any() else second.max() or 1.0
        return (1 / np.where(varying, variance, typical)).astype(self.returns.dtype)
