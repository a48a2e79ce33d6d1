"""Portfolios of minimum entropic risk and of minimum entropic value at risk (EVaR)."""

from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, xlogy

from sk_stormc.core.log_mean_exp import LogMeanExpProblem
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem, combine
from sk_stormc.portfolio.risk.tail import TailRiskProblem
from sk_stormc.streams.mapped import blocks
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import check_choice, is_real

__all__ = ["EVaRPortfolioProblem", "EntropicPortfolioProblem"]


class ReturnsInExponents(LogMeanExpProblem):
    """Exponents that are functions of the returns of a period."""

    def gather(self, draws):
        """Returns of the drawn periods. None means all periods."""
        return self.returns if draws is None else self.returns.take(draws, 0, mode="clip")

    def blocks(self):
        """All returns. Returns on disk are read in blocks."""
        return blocks(self.returns)


class EntropicPortfolioProblem(ReturnsInExponents, PortfolioProblem, risk_measure="entropic"):
    r"""Minimise the entropic risk of portfolios x.

    .. math::

        \Phi(x) = \frac{1}{\lambda} \log \Bigl( \frac{1}{m} \sum_j \exp(-\lambda \, r_j^T x) \Bigr) + R(x)

    Here r_j are the returns of period j. The objective already contains the mean return: its limit for a small lambda
    is minus the mean return. ``PortfolioProblem(returns, risk_measure="entropic")`` returns an instance of this class.

    Parameters
    ----------
    risk_aversion : float, default=1.0
        lambda > 0, finite, in the inverse unit of the returns.
    risk_measure : {"entropic"}, default="entropic"

    Raises
    ------
    ValueError
        As for `PortfolioProblem`.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[0.1, 0.0], [-0.1, 0.2]]), 2.0, risk_measure="entropic")
    >>> round(problem.objective(np.array([1000.0, 0.0])), 3)
    99.653
    """

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: Literal["entropic"] = "entropic",
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        check_choice("risk_measure", risk_measure, ("entropic",))
        if is_real(risk_aversion) and risk_aversion == np.inf:
            raise ValueError(
                "risk_aversion must be finite with risk_measure='entropic', where return and risk are one term and the "
                "limit is the largest loss, got inf. For the least risk take 'variance', 'semivariance' or 'cvar'"
            )
        options = {"sample_weight": sample_weight, "penalty": penalty, "metric": metric}
        super().__init__(returns, risk_aversion, risk_measure=risk_measure, **options)
        self.n_outer = 1
        self.scale = 1 / self.risk_aversion

    def unbounded_below(self):
        """True if an asset only gains or only loses, because holding or shorting more of it is then always better."""
        unbounded = super().unbounded_below()
        if unbounded is not None or self.penalty is not None:
            return unbounded
        least, most = (f([f(rows, axis=0) for _, rows in self.blocks()], axis=0) for f in (np.min, np.max))
        return True if ((least > 0) | (most < 0)).any() else None

    def exponents(self, x, rows):
        """-lambda <r_j, x>, in float64."""
        return -self.risk_aversion * (rows @ x).astype(float, copy=False)

    def exponent_gradient(self, x, rows, p):
        """-lambda sum_k p_k r_k."""
        return -self.risk_aversion * combine(p, rows)


LEAST = 1e-9  # lowest temperature t, relative to the range of the losses, at which EVaR is nearly their maximum


class EVaRPortfolioProblem(ReturnsInExponents, TailRiskProblem, risk_measure="evar"):
    r"""Minimise the entropic value at risk minus the mean return, over portfolios w.

    .. math::

        \mathrm{EVaR}(w) = \min_{t > 0} \; t \log \Bigl( \frac{1}{n} \sum_i \exp(-r_i^T w / t) \Bigr)
        - t \log(1 - \beta)

    Here r_i are the returns of period i, and beta is the confidence. EVaR is the tightest upper bound of CVaR from
    exponential moments of the loss (Chernoff's inequality). It is convex in the variables x = (w, t). It is also the
    largest mean loss over reweightings of the periods whose Kullback-Leibler divergence is at most -log(1 -
    confidence). With fewer than 1 / (1 - confidence) periods, a reweighting may put all weight on one period. EVaR is
    then the largest loss, and t tends to 0. For this reason the width is a lower bound of t. The inner value is the
    mean of the exponentials. `sk_stormc.problems.LogMeanExpProblem` describes how overflow is avoided.

    ``PortfolioProblem(returns, risk_measure="evar")`` returns an instance of this class.

    Parameters
    ----------
    width : float, default=None
        The lower bound of t, in the unit of the returns. None means the same default as for CVaR.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the confidence is not between 0 and 1.

    References
    ----------
    Ahmadi-Javid, "Entropic value-at-risk: a new coherent risk measure", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[-3.0], [-1.0], [2.0], [4.0]]), risk_measure="evar", confidence=0.9)
    >>> round(problem.value_at(np.array([1.0])), 6)  # a mean return of .5, and a largest loss of 3
    2.5
    """

    first_width = 0.05

    one_outer = True

    def lowest_level(self):
        """The lower bound of t, which is the width."""
        return self.width

    @property
    def allowed(self):
        """-log(1 - confidence), the largest allowed divergence of a reweighting."""
        return -np.log1p(-self.confidence)

    # the methods that `LogMeanExpProblem` requires: exponents e_j(x) = -<r_j, w> / t

    def exponents(self, x, rows):
        """-<r_j, w> / t, in float64."""
        return -(rows @ x[:-1]).astype(float, copy=False) / float(x[-1])

    def exponent_gradient(self, x, rows, p):
        """(-sum_k p_k r_k / t, sum_k p_k <r_k, w> / t^2)."""
        t, y = float(x[-1]), (rows @ x[:-1]).astype(float, copy=False)
        return np.append(-combine(p, rows) / t, p @ y / t**2).astype(x.dtype, copy=False)

    # f and its gradient

    def outer_gradient(self, x, u, batch):
        """f_x = (-mean r, lambda (log u - log(1 - confidence))) and f_u = lambda t / u."""
        level = self._risk_weight * (self.log_of(u) + self.allowed)
        f_x = np.append(-self._return_weight * self.mean, level).astype(x.dtype, copy=False)
        return f_x, self._risk_weight * x[-1] / u

    def outer(self, x, u):
        """f(x, u) = -<mean r, w> + lambda t (log u - log(1 - confidence))."""
        return self._value(x, self.log_of(u))

    def objective(self, x):
        """Phi(x), exact, including R."""
        value = self._value(x, self.log_mean(x))
        return value if self.penalty is None else value + self.penalty.value(x)

    def _value(self, x, log_mean):
        risk = self._risk_weight * float(x[-1]) * (log_mean + self.allowed)
        return float(risk - self._return_weight * (self._mean @ x[:-1]))

    # the risk

    def risk(self, losses):
        """EVaR: the minimum over all t > 0. As t goes to 0 it tends to the largest loss."""
        if not np.ptp(losses):
            return float(losses[0])
        t = self._temperature(losses, max(LEAST * float(np.ptp(losses)), np.finfo(float).tiny))
        return float(t * (logsumexp(losses / t, b=self._period_weights()) + self.allowed))

    def best_level(self, losses):
        """The t >= width that minimises the objective."""
        return self._temperature(losses, self.width)

    def reweighting(self, losses):
        """q_i proportional to exp(loss_i / t) at the best t. Its divergence is at most `allowed`."""
        return self._tilted(losses, self.best_level(losses))

    def _tilted(self, losses, t):
        q = np.exp((losses - losses.max()) / t) * self._period_weights()
        return q / q.sum()

    def _temperature(self, losses, least):
        """The t >= least at which the divergence of the tilted weights, which decreases in t, is `allowed`."""

        def excess(log_t):
            q = self._tilted(losses, np.exp(log_t))
            return float(xlogy(q, q / self._period_weights()).sum()) - self.allowed

        low = high = np.log(least)
        if excess(low) <= 0:
            return least
        while excess(high) > 0:
            low, high = high, high + 2.0
        return float(np.exp(brentq(excess, low, high, xtol=1e-12)))
