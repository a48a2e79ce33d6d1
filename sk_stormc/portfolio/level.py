"""Compositional problems of risks that are minimised over an additional variable, the
level."""

import copy
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from sk_stormc.core.penalties import Box, as_penalty, check_penalty, projected
from sk_stormc.portfolio.compositional import PortfolioProblem, combine, measures
from sk_stormc.portfolio.exact.feasible_set import linear_minimum
from sk_stormc.portfolio.mean_risk import mean_of, typical_size
from sk_stormc.utils.mapped_rows import blocks
from sk_stormc.utils.types import ArrayLike, RiskMeasure
from sk_stormc.utils.validation import check_choice, check_number

__all__ = ["LevelProblem", "TailRiskProblem"]


class LevelProblem(PortfolioProblem):
    """Minimise -mean <r_i, w> + lambda risk(w), where risk(w) = min_s risk(w, s).

    The variables are x = (w, s): the weights, and the level s as the last variable.
    Such a risk is positively homogeneous and has the dual representation risk(w) =
    max_q sum_i q_i <-r_i, w>. Each q gives a lower bound of the minimum (see `bounds`),
    and hence an upper bound of the optimality gap. By default a batch contains all
    periods.

    Parameters
    ----------
    risk_measure : str, default=None
        None means the measure of the class, which is the only allowed value.
    risk_aversion : float, default=1.0
        lambda, which has no unit here. ``numpy.inf`` drops the mean return: only the
        risk is minimised.
    penalty : object of `sk_stormc.penalties`, default=None
        Penalty of the weights w.
    metric : "variance", ndarray of shape (n_assets + 1,) or None, default=None
        Preconditioner of the steps, as for `PortfolioProblem`. The last entry is that
        of the level.
    """

    # both widths are in standard deviations of the portfolio's return
    first_width = 1.0  # of the first stage of a fit
    own_width = 0.01  # default of a problem that is not part of a fit
    own_measure: RiskMeasure
    n_levels = 1

    def _measure(self, risk_measure, parameter):
        """The measure of the class, with its parameter."""
        if risk_measure is not None:
            check_choice("risk_measure", risk_measure, (self.own_measure,))
        return measures()[self.own_measure](parameter)

    def _set_up(
        self,
        returns,
        risk_aversion,
        measure,
        sample_weight,
        penalty,
        metric,
        width=None,
    ):
        if width is not None:
            check_number("width", width, low=0, inclusive=False)
        super()._set_up(returns, risk_aversion, measure, sample_weight, penalty, metric)
        self.n_assets, self.of_weights = self.n_variables - 1, penalty
        check_penalty(penalty, self.n_assets)
        self.advice = replace(
            self.advice, batch_size=None, record_every=int(16 * 3 * self.n_inner)
        )
        if width is None:
            width = self.own_width * self.deviation(self._equal_weights())
        self._set_width(float(width))

    def _set_width(self, width):
        self.width = width
        self.penalty = with_level(self.of_weights, self.n_assets, self.lowest_level())

    def with_width(self, width):
        """The same problem with another width."""
        problem = copy.copy(self)
        problem._set_width(width)
        return problem

    def lowest_level(self):
        """A lower bound of the level s."""
        return -np.inf

    def initial_point(self, rng):
        """Equal weights, projected on the constraint, and their best level."""
        return self.start_at(self._equal_weights())

    def description(self):
        """Sizes, risk measure, risk aversion, width and the parameters of the risk
        measure."""
        more = "".join(
            f", {name}={value:g}" for name, value in vars(self.measure).items()
        )
        return f"{super().description()}{more}, width={self.width:g}"

    # the weights

    def weights_of(self, x):
        """w, without the level."""
        return x[:-1]

    def start_at(self, weights):
        """The point (w, s) with the best level s for w."""
        weights = np.asarray(weights, self.returns.dtype)
        x = np.append(weights, self.best_level(self._losses(weights)))
        return x.astype(self.returns.dtype)

    def value_at(self, weights):
        """The exact objective -mean <r_i, w> + lambda risk(w) + R(w), without
        smoothing."""
        return self.task.value(weights)

    def reported(self, x):
        """The exact objective of the weights in x."""
        return self.value_at(self.weights_of(x))

    def deviation(self, weights):
        """The standard deviation of the portfolio's return. If it is constant, its
        size, or 1 if that is 0."""
        return typical_size(self.task.returns_of(weights), self.weights)

    def empty(self):
        """The objective of the empty portfolio and its x, or infinity and None if it is
        not feasible."""
        w = np.zeros(self.n_assets, self.returns.dtype)
        if self.of_weights is not None and self.of_weights.project(w).any():
            return np.inf, None
        level = w.dtype.type(max(self.lowest_level(), 0.0))
        return self.value_at(w), np.append(w, level)

    def typical_risk(self):
        """lambda times the risk of equal weights about their mean: the scale of
        objectives near 0."""
        y = self.task.returns_of(self._equal_weights())
        return self._risk_weight * (
            self.measure.value(y, self.weights) + mean_of(y, self.weights)
        )

    def bounds(self, x):
        """The exact objective of the weights in x, and a lower bound of it over all
        portfolios, or NaN.

        With c = -mean r - lambda sum_i q_i r_i the bound is the minimum of <c, w> +
        R(w). Unbounded weights are limited to twice the largest weight of x around x.
        """
        w = x[:-1].astype(float)
        q = self.reweighting(self._losses(w)).astype(self.returns.dtype)
        tilted_mean = combine(q, self.returns).astype(float)
        c = -self._return_weight * self.task.mean - self._risk_weight * tilted_mean
        return self.value_at(w), linear_minimum(self.of_weights, c, w)

    def _smoothed(self, z):
        """The smoothed maximum of z and 0."""
        return self.width * np.logaddexp(0.0, z / self.width)

    def _losses(self, weights):
        return -self.task.returns_of(weights)

    def _period_weights(self):
        return 1 / self.n_inner if self.weights is None else self.weights

    def _weighted_blocks(self):
        """Blocks of the returns, with the weights of their periods."""
        p = np.broadcast_to(self._period_weights(), self.n_inner)
        for start, rows in blocks(self.returns):
            yield rows, p[start : start + len(rows)]

    def _equal_weights(self):
        """Equal weights of sum 1, projected on the constraint. If the projection is 0,
        they get alternating signs."""
        equal = np.full(self.n_assets, 1 / self.n_assets)
        for w in (equal, equal * np.where(np.arange(self.n_assets) % 2, -1, 1)):
            w = projected(self.of_weights, w)
            if w.any():
                break
        return w

    def _inverse_variance(self):
        """Inverse variances of the assets, and 1 for the level, which acts like an
        asset with the constant return -1.
        """
        return np.append(super()._inverse_variance(), self.returns.dtype.type(1))

    # the mean return as u, and f as a mean over periods

    def inner(self, x, batch):
        """u = <mean r, w>, of shape (1,)."""
        return batch.dot(x[:-1])

    def jacobian(self, x, batch):
        """(mean r, 0), of shape (1, n_assets + 1)."""
        return np.append(batch, np.zeros((1, 1), batch.dtype), axis=1)

    def outer_batch(self, draws, weights=None):
        """The rows and their weights."""
        if draws is None:
            return self.returns, self._period_weights()
        weights = 1.0 if weights is None else weights
        return self.returns.take(draws, 0, mode="clip"), weights / len(draws)

    # the level and the dual weights, from the losses of all periods in float64

    @abstractmethod
    def best_level(self, losses):
        """The s that minimises the smoothed risk."""

    @abstractmethod
    def reweighting(self, losses):
        """Dual weights q of shape (n_periods,).

        For any losses sum_i q_i losses_i is a lower bound of their risk. For the given
        losses the bound is close.
        """


class OnWeights:
    """A penalty on the weights of (w, s), and a lower bound of s."""

    def __init__(self, penalty, n_assets, lowest):
        self.penalty, self.n_assets, self.lowest = penalty, n_assets, lowest

    def __repr__(self):
        return (
            f"OnWeights({self.penalty!r}, n_assets={self.n_assets}, "
            f"lowest={self.lowest:g})"
        )

    def __str__(self):
        return f"{self.penalty} on the weights of a tail risk"

    def check(self, n_variables):
        """Raise a ValueError if the penalty does not fit the number of variables."""
        as_penalty(self.penalty).check(n_variables - 1)

    def value(self, x):
        """R(w)."""
        return self.penalty.value(x[: self.n_assets])

    def prox(self, x, step):
        """The proximal point of w, and s, clipped at its lower bound."""
        step = step if np.ndim(step) == 0 else step[: self.n_assets]
        return self._join(self.penalty.prox(x[: self.n_assets], step), x)

    def project(self, x):
        """The nearest feasible w, and s, clipped at its lower bound."""
        return self._join(self.penalty.project(x[: self.n_assets]), x)

    def _join(self, w, x):
        return np.append(w, np.maximum(x[self.n_assets :], self.lowest)).astype(
            w.dtype, copy=False
        )


def with_level(penalty, n_assets, lowest):
    """The penalty on (w, s) for a penalty on w. Bounds stay a `Box`, because more
    solvers support it."""
    if penalty is None and lowest == -np.inf:
        return None
    penalty = Box(-np.inf, np.inf) if penalty is None else penalty
    if type(penalty) is Box and penalty.budget is None and not penalty.alpha:
        low = np.broadcast_to(penalty.low, n_assets)
        high = np.broadcast_to(penalty.high, n_assets)
        return Box(np.append(low, lowest), np.append(high, np.inf))
    return OnWeights(penalty, n_assets, lowest)


class TailRiskProblem(LevelProblem):
    """Minimise -mean <r_i, w> + lambda risk(w), where the risk depends on the worst
    losses.

    Parameters
    ----------
    confidence : float, default=0.95
        The risk measures the worst fraction 1 - confidence of the losses.
    width : float, default=None
        The smoothing width h, in the unit of the returns. None means 0.01 times the
        standard deviation of the return of the equally weighted portfolio.
    """

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: RiskMeasure | None = None,
        confidence: float = 0.95,
        width: float | None = None,
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        measure = self._measure(risk_measure, confidence)
        self._set_up(
            returns, risk_aversion, measure, sample_weight, penalty, metric, width
        )
