"""Portfolios of minimum semideviation and of minimum downside risk, of any order."""

from typing import Any

import numpy as np
from scipy.special import expit

from sk_stormc.portfolio.risk.mean_risk import check_parameters, combine
from sk_stormc.portfolio.risk.tail import LevelProblem
from sk_stormc.utils.types import ArrayLike, RiskMeasure

__all__ = ["DownsidePortfolioProblem", "SemideviationPortfolioProblem"]


class SemideviationPortfolioProblem(LevelProblem, risk_measure="semideviation"):
    r"""Minimise the semideviation of order p minus the mean return, over portfolios w.

    .. math::

        \Phi(w, s) = -u + \frac{\lambda}{p} \Bigl( (p - 1) \, s
            + \frac{1}{n s^{p - 1}} \sum_i \max(u - r_i^T w, \, 0)^p \Bigr) + R(w)

    Here r_i are the returns of period i, and the mean return u is the inner value. Minimised over s, the second term is
    lambda times the semideviation, the p-th root of the mean of max(u - <r_i, w>, 0)^p. The variables are x = (w, s).
    The maximum is smoothed: with the width h, max(z, 0) becomes h log(1 + exp(z / h)), and s is kept above h. With p =
    1 the risk is half of the mean absolute deviation. The objective then contains no root, and s is not used.

    ``PortfolioProblem(returns, risk_measure="semideviation")`` returns an instance of this class.

    Parameters
    ----------
    order : float, default=2.0
        The order p: 1, or from 2 to 10.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the order is out of its range.

    References
    ----------
    Shapiro, Dentcheva & Ruszczynski, "Lectures on stochastic programming", 2009, section 6.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[-3.0], [1.0], [1.0], [1.0]]), risk_measure="semideviation")
    >>> problem.value_at(np.array([1.0]))  # a mean return of 0, and the root of a quarter of 3^2
    1.5
    """

    first_width = 0.1
    about_mean = True  # whether losses are returns below the mean, or below 0

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
        check_parameters(order=order)
        self.order = float(order)
        options = {"sample_weight": sample_weight, "penalty": penalty, "metric": metric}
        super().__init__(returns, risk_aversion, risk_measure=risk_measure, width=width, **options)

    def lowest_level(self):
        """The lower bound of s, which is the width."""
        return self.width

    # f and its gradient

    def outer_gradient(self, x, u, batch):
        """f_w = -lambda mean t_i r_i and f_u = -1 + lambda mean t_i, with b_i = a_i / s and t_i = b_i^(p - 1) a_i'.

        Here a_i is the smoothed maximum and a_i' its slope. The slope in s is lambda (p - 1) / p (1 - mean b_i^p).
        """
        rows, weight = batch
        z, s, p = -rows.dot(x[:-1]).astype(float) + self.about_mean * float(u[0]), float(x[-1]), self.order
        b = self._smoothed(z) / s
        t = self._risk_weight * weight * b ** (p - 1) * expit(z / self.width)
        of_s = self._risk_weight * (p - 1) / p * (1 - np.sum(weight * b**p))
        f_x = np.append(-combine(t.astype(x.dtype), rows), of_s)
        return f_x.astype(x.dtype, copy=False), np.full(1, self.about_mean * t.sum() - self._return_weight, x.dtype)

    def outer(self, x, u):
        """-u + lambda ((p - 1) s + mean a_i^p / s^(p - 1)) / p."""
        total, s, p = 0.0, float(x[-1]), self.order
        for rows, weight in self._weighted_blocks():
            z = -(rows @ x[:-1]).astype(float) + self.about_mean * float(u[0])
            total += (weight * (self._smoothed(z) / s) ** p).sum()
        return float(-self._return_weight * u[0] + self._risk_weight * s * (p - 1 + total) / p)

    # the risk

    def risk(self, losses):
        """(mean max(loss - centre, 0)^p)^(1/p)."""
        return self._norm(np.maximum(self._centred(losses), 0))

    def best_level(self, losses):
        """(mean a_i^p)^(1/p), or the width."""
        return max(self._norm(self._smoothed(self._centred(losses))), self.width)

    def _norm(self, above):
        size = float(above.max())
        return size * self._mean_of((above / size) ** self.order) ** (1 / self.order) if size else 0.0

    def reweighting(self, losses):
        """The dual weights p_i t_i, with mean t_i^(p / (p - 1)) <= 1. They are centred for the semideviation."""
        z = self._centred(losses)
        t = (self._smoothed(z) / self.best_level(losses)) ** (self.order - 1) * expit(z / self.width)
        if self.order > 1:
            power = self.order / (self.order - 1)
            t = t / max(1.0, self._mean_of(t**power) ** (1 / power))
        return (t - self.about_mean * self._mean_of(t)) * self._period_weights()

    def _centred(self, losses):
        return losses - self._mean_of(losses) if self.about_mean else losses


class DownsidePortfolioProblem(SemideviationPortfolioProblem, risk_measure="downside"):
    r"""Minimise the downside risk of order p minus the mean return, over portfolios w.

    .. math::

        \Phi(w) = -u + \lambda \Bigl( \frac1n \sum_i \max(-r_i^T w, \, 0)^p \Bigr)^{1/p} + R(w)

    This is the `SemideviationPortfolioProblem` with returns below 0 in place of returns below the mean. It has the same
    variable s. The ratio of the mean return to this risk is the Omega ratio minus one for p = 1, and the Sortino ratio
    for p = 2.

    ``PortfolioProblem(returns, risk_measure="downside")`` returns an instance of this class.

    References
    ----------
    Keating & Shadwick, "A universal performance measure", 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[-2.0], [4.0]]), np.inf, risk_measure="downside", order=1)
    >>> problem.value_at(np.array([1.0]))  # half of 2
    1.0
    """

    about_mean = False
