"""Portfolios of minimum conditional value at risk (CVaR)."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from sk_stormc.portfolio.problem import combine
from sk_stormc.portfolio.tail_risk import TailRiskProblem
from sk_stormc.streams.mapped import blocks

__all__ = ["CVaRPortfolioProblem"]


class CVaRPortfolioProblem(TailRiskProblem, risk_measure="cvar"):
    r"""Minimise the mean of the worst losses minus the mean return, over portfolios w.

    .. math::

        \Phi(w, s) = -u + \lambda \Bigl( s + \frac{1}{n (1 - \beta)} \sum_i \max(-r_i^T w - s, \, 0) \Bigr) + R(w)

    Here r_i are the returns of period i, the mean return u is the inner value, and beta is the confidence. Minimised
    over s, the bracket is CVaR(w) (Rockafellar and Uryasev, 2000, Theorem 1). The variables are x = (w, s). The
    maximum is smoothed: with the width h, max(z, 0) becomes h log(1 + exp(z / h)), which is larger by at most h log 2.

    ``PortfolioProblem(returns, risk_measure="cvar")`` returns an object of this class.

    Parameters
    ----------
    confidence : float, default=0.95
        CVaR is the mean of the worst fraction 1 - confidence of the losses.
    width : float, default=None
        The smoothing width h, in the unit of the returns. None means 0.01 times the standard deviation of the return
        of the equally weighted portfolio.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the confidence is not between 0 and 1.

    References
    ----------
    Rockafellar & Uryasev, "Optimization of conditional value-at-risk", 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[-3.0], [-1.0], [2.0], [4.0]]), risk_measure="cvar", confidence=0.5)
    >>> problem.value_at(np.array([1.0]))  # a mean return of .5, and the mean of losses of 3 and 1
    1.5
    """

    first_width = 0.4

    # f and its gradient

    def outer_gradient(self, x, u, batch):
        """With q_i = mean 1 / (1 + exp(-z_i / h)) / (1 - confidence): f_x = lambda (-sum q_i r_i, 1 - sum q_i)."""
        rows, weight = batch
        q = self._price * self._tail(-rows.dot(x[:-1]).astype(float), float(x[-1])) * weight
        f_x = np.append(-combine(q.astype(x.dtype), rows), self._price - q.sum())
        return f_x.astype(x.dtype, copy=False), np.full(1, -self._gain, x.dtype)

    def outer(self, x, u):
        """-u + lambda (s + mean h log(1 + exp(z_i / h)) / (1 - confidence)), z_i = -<r_i, w> - s."""
        total, s = 0.0, float(x[-1])
        for start, rows in blocks(self.returns):
            z = -(rows @ x[:-1]).astype(float) - s
            values = self.width * np.logaddexp(0.0, z / self.width)
            weight = 1 / self.n_inner if self.weights is None else self.weights[start : start + len(z)]
            total += (weight * values).sum()
        return float(-self._gain * u[0] + self._price * (s + total / (1 - self.confidence)))

    def _tail(self, losses, s):
        """The weight of each loss, from 0 to 1 / (1 - confidence): the smoothed indicator of the tail."""
        return expit((losses - s) / self.width) / (1 - self.confidence)

    # the risk

    def risk(self, losses):
        """CVaR without smoothing: the quantile s plus the scaled mean of the losses in excess of s."""
        order = np.argsort(losses)
        weights = np.full(len(losses), 1 / len(losses)) if self.weights is None else self.weights[order]
        worse = np.cumsum(weights[::-1])[::-1]  # the weight from each loss on
        k = min(np.searchsorted(-worse, -(1 - self.confidence) * (1 - 1e-12), side="right"), len(losses)) - 1
        s = losses[order[max(k, 0)]]
        return float(s + self._mean_of(np.maximum(losses - s, 0)) / (1 - self.confidence))

    def best_level(self, losses):
        """The s that minimises the smoothed objective: there the q_i sum to 1."""
        low, high = losses.min() - 50 * self.width, losses.max() + (1 - np.log1p(-self.confidence)) * self.width
        excess = [self._mean_of(self._tail(losses, s)) - 1 for s in (low, high)]
        if excess[0] <= 0:  # all losses are equal and the confidence is nearly 0
            return low
        if excess[1] >= 0:  # rounding
            return high
        tiny = 1e-13 * max(abs(low), abs(high))
        return brentq(lambda s: self._mean_of(self._tail(losses, s)) - 1, low, high, xtol=tiny + 1e-12 * self.width)

    def reweighting(self, losses):
        """q_i at the best level."""
        q = self._tail(losses, self.best_level(losses)) * (1 / self.n_inner if self.weights is None else self.weights)
        return q / q.sum()
