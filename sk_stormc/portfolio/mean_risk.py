"""The task of a portfolio as data (`MeanRisk`), and the base class of the risk
measures."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sk_stormc.core.penalties import penalized
from sk_stormc.core.weighted import with_sum_one
from sk_stormc.portfolio.rounds.rows import Rows
from sk_stormc.portfolio.sums import BLOCK_ROWS
from sk_stormc.utils.parameters import check_number, is_real
from sk_stormc.utils.rows import check_weights

__all__ = [
    "MeanRisk",
    "Measure",
    "RiskInBlocks",
    "check_confidence",
    "check_order",
    "deviation_of",
    "mean_of",
    "shares",
]

# with a higher order only the few largest losses would matter
HIGHEST_ORDER = 10


def check_confidence(name, value):
    """Raise a ValueError unless the confidence is between 0 and 1."""
    check_number(name, value, low=0, high=1, inclusive=False)
    if value == 1:
        raise ValueError(f"{name} must be below 1, got {value!r}")


def check_order(name, value):
    """Raise a ValueError unless the order is 1 or from 2 to 10. Other powers have no
    second derivative at 0."""
    check_number(name, value, low=1, high=HIGHEST_ORDER)
    if 1 < value < 2:
        raise ValueError(
            f"{name} must be 1 or from 2 to {HIGHEST_ORDER}, got {value!r}"
        )


def shares(n, p=None):
    """The weights p of n periods, of sum 1. None means equal weights."""
    return np.full(n, 1 / n) if p is None else p


def mean_of(values, p=None):
    """The mean of values with the weights p, of sum 1. None means equal weights."""
    return float(values.mean() if p is None else p @ values)


def deviation_of(y, p=None):
    """The standard deviation of a portfolio's returns y, with the weights p of the
    periods."""
    return float(np.sqrt(np.average((y - np.average(y, weights=p)) ** 2, weights=p)))


# of the parameters of measures
CHECKS = {"confidence": check_confidence, "order": check_order}


class RiskInBlocks(NamedTuple):
    """The risk of returns that lie in blocks."""

    value: float
    # slope(y, p) is the part of the subgradient for the returns y of a block, of
    # weights p; None if rounds do not need it
    slope: Callable | None
    # the return at which a piecewise linear risk changes its slope
    kink: float | None = None


class Measure:
    """A risk measure. Subclasses are dataclasses, whose fields are the parameters of
    the measure.

    Its functions of a portfolio's returns y, of shape (n_periods,), have the weights p
    of the periods as an argument, whose sum is 1. None means equal weights.
    """

    name: str
    # degree of homogeneity: the risk of k w is k**power times that of w; 0 if it is not
    # homogeneous
    power = 1
    # change of the risk if the return of each period grows by 1; None if not a constant
    shift: float | None = 0.0
    nonnegative = True  # whether no portfolio has a negative risk
    # whether it is a mean of squares of the returns below their mean
    below_mean = False
    ordered = False  # whether the risk depends on the order of the periods
    # whether it may be minimised by cutting planes, which are those of all assets
    by_cuts = False
    # how rounds over blocks of rows can add it up: by "sums", a "sample" or "rows"
    rounds: str | None = None
    # whether the outer function of `problem` is a single one, and not a mean over
    # periods
    single_outer = False
    # class of the moments for `partial_fit`, or None if all periods are needed at once
    moments: Any = None
    # class of the compositional problem for iterative solvers, or None if there is the
    # exact method only
    problem: Any = None

    def __post_init__(self):
        for name, value in vars(self).items():
            CHECKS[name](name, value)
            setattr(self, name, float(value))

    @classmethod
    def of(cls, owner):
        """The measure whose parameters are attributes of the owner, such as an
        estimator."""
        return cls(**{field.name: getattr(owner, field.name) for field in fields(cls)})

    def value(self, y, p=None):
        """The risk of the returns y."""
        raise NotImplementedError

    def subgradient(self, y, p=None):
        """Slopes g with risk(z) >= risk(y) + g @ (z - y) for all z."""
        raise NotImplementedError

    def in_blocks(self, total, mean, ends):
        """The `RiskInBlocks` of returns y with weights p, whose sums ``total(f)`` of
        ``f(y, p)`` over the blocks gives.

        ``mean`` is their mean, and ``ends`` are the smallest and the largest return of
        positive weight. Lists that f returns are joined.
        """
        raise NotImplementedError

    def objective(self, task, w):
        """The objective of a `MeanRisk` at the weights w, without penalty."""
        risk = self.value(task.returns_of(w), task.p)
        return task.risk_weight * risk - task.return_weight * float(task.mean @ w)

    def unbounded_below(self, task):
        """Whether the objective of a `MeanRisk` has no lower bound, or None if this is
        unknown."""
        return None

    def formulation(self, scaled, v):
        """The `Formulation` of a `Scaled` objective for the interior-point method,
        which starts at v."""
        raise NotImplementedError

    def solve(self, scaled, start, callback=None):
        """The minimiser of a `Scaled` objective, as a `Solution`."""
        return scaled.minimise(start, self.formulation, callback)


@dataclass(eq=False)
class MeanRisk:
    """Minimise -return_weight * mean return + risk_weight * risk + penalty over the
    weights w of the assets.

    The weights p of the periods have the sum 1; None means equal weights. An infinite
    risk aversion drops the mean.
    """

    returns: Any  # of shape (n_periods, n_assets): an array, or rows of a file
    measure: Measure
    risk_aversion: float = 1.0
    p: np.ndarray | None = None
    penalty: Any = None
    linear: np.ndarray | None = None  # the risk is the measure's plus linear @ w

    def __post_init__(self):
        self.return_weight, self.risk_weight = 1.0, self.risk_aversion
        if self.risk_aversion == np.inf:
            self.return_weight, self.risk_weight = 0.0, 1.0
        # numbers of components, for the count of oracle calls
        self.n_inner = len(self.returns)
        self.n_outer = 1 if self.measure.single_outer else self.n_inner
        self.linear_weight = self.risk_weight if self.measure.power else 1.0

    @classmethod
    def of(
        cls,
        returns,
        measure,
        risk_aversion,
        sample_weight=None,
        penalty=None,
        linear=None,
    ):
        """The task with checked parameters. Periods of weight 0 are dropped, unless the
        order counts."""
        if not (is_real(risk_aversion) and risk_aversion == np.inf):
            check_number("risk_aversion", risk_aversion, low=0, inclusive=False)
        p = None
        if sample_weight is not None:
            p = check_weights(sample_weight, len(returns), "for period")
            if not (p.all() or measure.ordered) and isinstance(returns, np.ndarray):
                returns, p = returns[p > 0], p[p > 0]
            p = with_sum_one(p)
        if isinstance(returns, np.ndarray):
            # float32 is too coarse for the gap of a measure without squares, and rows
            # of a data frame must give the same bits
            dtype = float if measure.power == 1 else returns.dtype
            returns = np.ascontiguousarray(returns, dtype)
        return cls(returns, measure, float(risk_aversion), p, penalty, linear)

    def with_aversion(self, risk_aversion, penalty=None):
        """The task with the same returns and measure, and another risk aversion and
        penalty."""
        return replace(self, risk_aversion=float(risk_aversion), penalty=penalty)

    @property
    def in_blocks(self):
        """Whether the returns are `Rows`."""
        return isinstance(self.returns, Rows)

    def problem(self, penalty):
        """The compositional problem, for an iterative solver."""
        return self.measure.problem(
            self.returns,
            risk_measure=self.measure.name,
            sample_weight=self.p,
            penalty=penalty,
            preconditioner="variance",
            risk_aversion=self.risk_aversion,
        )

    def unbounded_below(self):
        """Whether the objective has no lower bound, or None if this is unknown."""
        return None if self.in_blocks else self.measure.unbounded_below(self)

    @cached_property
    def mean(self):
        """The mean return of each asset, in float64."""
        if self.in_blocks:
            return self.returns.mean
        return sum((weight * rows).sum(0) for rows, weight in self._chunks())

    def inverse_variances(self):
        """1 / Var(r_j) for each asset, in the dtype of the returns. A constant asset
        has that of a typical one."""
        second = variance = 0
        for rows, weight in self._chunks():  # both in one pass over the data
            second = second + (weight * rows**2).sum(0)
            variance = variance + (weight * (rows - self.mean) ** 2).sum(0)
        # the variance of a constant asset is only rounding error
        varying = variance > 1e-12 * second
        typical = np.median(variance[varying]) if varying.any() else second.max() or 1.0
        return (1 / np.where(varying, variance, typical)).astype(self.returns.dtype)

    def returns_of(self, w):
        """The portfolio's return in each period, in float64."""
        return (self.returns @ np.asarray(w, self.returns.dtype)).astype(float)

    def value(self, w):
        """The exact objective of the weights w, including the penalty."""
        value = self.measure.objective(self, w)
        if self.linear is not None:
            value += self.linear_weight * float(self.linear @ w)
        return penalized(value, self.penalty, w)

    def _chunks(self):
        """Blocks of rows in float64, with their weights as a column."""
        n = len(self.returns)
        for i in range(0, n, BLOCK_ROWS):
            some = slice(i, i + BLOCK_ROWS)
            weight = 1 / n if self.p is None else self.p[some, None]
            yield self.returns[some].astype(float), weight
