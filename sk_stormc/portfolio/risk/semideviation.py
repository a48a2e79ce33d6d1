"""The semideviation of order p, (mean max(mean y - y, 0)^p)^(1/p)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from sk_stormc.portfolio.compositional import combine
from sk_stormc.portfolio.exact.convex_program import Hinges
from sk_stormc.portfolio.exact.program import Formulation
from sk_stormc.portfolio.level import LevelProblem
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, mean_of, shares
from sk_stormc.utils.types import ArrayLike, RiskMeasure

__all__ = ["Semideviation", "SemideviationPortfolioProblem"]


class SemideviationPortfolioProblem(LevelProblem):
    r"""Minimise the semideviation of order p minus the mean return, over portfolios w.

    .. math::

        \Phi(w, s) = -u + \frac{\lambda}{p} \Bigl( (p - 1) \, s
            + \frac{1}{n s^{p - 1}} \sum_i \max(u - r_i^T w, \, 0)^p \Bigr) + R(w)

    Here r_i are the returns of period i, and the mean return u is the inner value.
    Minimised over s, the second term is lambda times the semideviation, the p-th root
    of the mean of max(u - <r_i, w>, 0)^p. The variables are x = (w, s). The maximum is
    smoothed: with the width h, max(z, 0) becomes h log(1 + exp(z / h)), and s is kept
    above h. With p = 1 the risk is half of the mean absolute deviation. The objective
    then contains no root, and s is not used.

    ``PortfolioProblem(returns, risk_measure="semideviation")`` returns an instance of
    this class.

    Parameters
    ----------
    order : float, default=2.0
        The order p: 1, or from 2 to 10.
    width : float, default=None
        The smoothing width h, in the unit of the returns. None means 0.01 times the
        standard deviation of the return of the equally weighted portfolio.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the order is out of its range.

    References
    ----------
    Shapiro, Dentcheva & Ruszczynski, "Lectures on stochastic programming", 2009,
    section 6.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     np.array([[-3.0], [1.0], [1.0], [1.0]]), risk_measure="semideviation"
    ... )
    >>> # a mean return of 0, and the root of a quarter of 3^2
    >>> problem.value_at(np.array([1.0]))
    1.5
    """

    own_measure: RiskMeasure = "semideviation"
    first_width = 0.1

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: RiskMeasure | None = None,
        order: float = 2.0,
        width: float | None = None,
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        measure = self._measure(risk_measure, order)
        self._set_up(
            returns, risk_aversion, measure, sample_weight, penalty, metric, width
        )

    def lowest_level(self):
        """The lower bound of s, which is the width."""
        return self.width

    # f and its gradient

    def outer_gradient(self, x, u, batch):
        """f_w = -lambda mean t_i r_i and f_u = -1 + lambda mean t_i, with b_i = a_i / s
        and t_i = b_i^(p - 1) a_i'.

        Here a_i is the smoothed maximum and a_i' its slope. The slope in s is lambda (p
        - 1) / p (1 - mean b_i^p).
        """
        rows, weight = batch
        about_mean, p, s = self.measure.about_mean, self.measure.order, float(x[-1])
        z = -rows.dot(x[:-1]).astype(float) + about_mean * float(u[0])
        b = self._smoothed(z) / s
        t = self._risk_weight * weight * b ** (p - 1) * expit(z / self.width)
        of_s = self._risk_weight * (p - 1) / p * (1 - np.sum(weight * b**p))
        f_x = np.append(-combine(t.astype(x.dtype), rows), of_s)
        return f_x.astype(x.dtype, copy=False), np.full(
            1, about_mean * t.sum() - self._return_weight, x.dtype
        )

    def outer(self, x, u):
        """-u + lambda ((p - 1) s + mean a_i^p / s^(p - 1)) / p."""
        total, s, p = 0.0, float(x[-1]), self.measure.order
        for rows, weight in self._weighted_blocks():
            z = -(rows @ x[:-1]).astype(float) + self.measure.about_mean * float(u[0])
            total += (weight * (self._smoothed(z) / s) ** p).sum()
        return float(
            -self._return_weight * u[0] + self._risk_weight * s * (p - 1 + total) / p
        )

    # the level and the dual weights

    def best_level(self, losses):
        """(mean a_i^p)^(1/p), or the width."""
        return max(
            self.measure.norm(self._smoothed(self._centred(losses)), self.weights),
            self.width,
        )

    def reweighting(self, losses):
        """The dual weights p_i t_i, with mean t_i^(p / (p - 1)) <= 1. They are centred
        for the semideviation."""
        z = self._centred(losses)
        t = (self._smoothed(z) / self.best_level(losses)) ** (
            self.measure.order - 1
        ) * expit(z / self.width)
        if self.measure.order > 1:
            power = self.measure.order / (self.measure.order - 1)
            t = t / max(1.0, mean_of(t**power, self.weights) ** (1 / power))
        return (
            t - self.measure.about_mean * mean_of(t, self.weights)
        ) * self._period_weights()

    def _centred(self, losses):
        return self.measure.centred(losses, self.weights)


@dataclass
class Semideviation(Measure):
    """The root of the mean of powers of the returns below their mean."""

    order: float = 2.0
    name = "semideviation"
    about_mean = True  # whether losses are returns below the mean, or below 0
    problem = SemideviationPortfolioProblem

    @property
    def rounds(self):
        """A mean of absolute values has kinks, and a root of higher powers is
        smooth."""
        return "rows" if self.order == 1 else "sample"

    def value(self, y, p=None):
        """(mean max(loss - centre, 0)^order)^(1/order)."""
        return self.norm(np.maximum(self.centred(-y, p), 0), p)

    def subgradient(self, y, p=None):
        """Minus the dual weights p_i t_i, with t_i = (loss_i / risk)^(order - 1). They
        are centred like the losses."""
        above = np.maximum(self.centred(-y, p), 0)
        t = (above / (self.norm(above, p) or 1.0)) ** (self.order - 1) * (above > 0)
        return -self.centred(t, p) * shares(len(y), p)

    def in_blocks(self, total, mean, ends):
        """The mean of powers, and the slopes as in `subgradient`."""
        about_mean = self.about_mean
        order = self.order
        centre = mean if self.about_mean else 0.0

        def powers(y, p):
            above = np.maximum(centre - y, 0)
            return np.array(
                [p @ above**order, p @ (above ** (order - 1) * (above > 0))]
            )

        power, of_slope = total(powers)
        risk = power ** (1 / order)
        scale = (risk or 1.0) ** (1 - order)

        def slope(y, p):
            above = np.maximum(centre - y, 0)
            return (
                p * scale * (about_mean * of_slope - above ** (order - 1) * (above > 0))
            )

        return RiskInBlocks(float(risk), slope, centre if order == 1 else None)

    def centred(self, losses, p=None):
        """The losses minus their mean, or the losses themselves."""
        return losses - mean_of(losses, p) if self.about_mean else losses

    def norm(self, above, p=None):
        """The root of the mean of powers of numbers >= 0."""
        size = float(above.max())
        return (
            size * mean_of((above / size) ** self.order, p) ** (1 / self.order)
            if size
            else 0.0
        )

    def formulation(self, scaled, v):
        """A hinge for each period. For an order above 1 the level is the risk, which is
        the root of a mean of powers.

        The root is the minimum of ((p - 1) t + mean z_i^p / t^(p - 1)) / p over t.
        """
        Q = scaled.Q
        order = self.order
        costs = scaled.risk_weight * scaled.p
        zero = np.zeros(len(scaled.p))
        if order == 1:
            return Formulation(
                -scaled.expected_return, hinges=[Hinges(-Q, zero, costs, zero)]
            )
        linear = np.append(
            -scaled.expected_return, scaled.risk_weight * (order - 1) / order
        )
        above = np.maximum(-(Q @ v), 0)
        level = self.norm(above + max(float(np.abs(Q @ v).mean()), 0.1), scaled.p)
        hinges = [Hinges(-Q, zero, zero, costs / order, order, Q.shape[1])]
        # the optimal portfolio may have no losses, but the level is divided by
        return Formulation(linear, hinges=hinges, level=level, lowest=1e-11, reach=1.0)
