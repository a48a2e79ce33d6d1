"""Portfolios of minimum conditional drawdown at risk (CDaR)."""

from typing import Any, Literal

import numpy as np

from sk_stormc.core.penalties import check_penalty
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem, check_parameters
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import check_choice

__all__ = ["DrawdownPortfolioProblem", "drawdowns", "worst_mean"]


class DrawdownPortfolioProblem(PortfolioProblem, risk_measure="cdar"):
    r"""Minimise the mean of the deepest drawdowns (CDaR) minus the mean return, over portfolios w.

    .. math::

        \Phi(w) = -\frac1n \sum_t r_t^T w + \lambda \min_s \Bigl( s
            + \frac{1}{n (1 - \beta)} \sum_t \max(D_t - s, \, 0) \Bigr) + R(w),
        \qquad D_t = \max(D_{t-1} - r_t^T w, \, 0)

    The drawdown D_t is the distance of the cumulative return below its running maximum, with D_0 = 0. CDaR is the CVaR
    of the drawdowns, and is convex in w. If the confidence beta is near 0, it is the mean drawdown, and if beta is at
    least 1 - 1 / n, it is the largest drawdown.

    A drawdown depends on all earlier periods in their order. The objective is therefore not a composition of averages,
    and it cannot be evaluated on batches. This class evaluates the objective, and `CompositionalPortfolio` minimises it
    as a linear program. Weights of periods count in both means, but the path of returns contains each period once.

    ``PortfolioProblem(returns, risk_measure="cdar")`` returns an instance of this class.

    Parameters
    ----------
    risk_measure : {"cdar"}, default="cdar"
        The only value that this class supports.
    confidence : float, default=0.95
        CDaR is the mean of the deepest fraction 1 - confidence of the drawdowns.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the confidence is not between 0 and 1.

    References
    ----------
    Chekhlov, Uryasev & Zabarankin, "Drawdown measure in portfolio optimization", 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[1.0], [-3.0], [1.0], [2.0]]), np.inf, risk_measure="cdar", confidence=0.5)
    >>> problem.value_at(np.array([1.0]))  # drawdowns of 0, 3, 2 and 0
    2.5
    """

    ordered = True

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: Literal["cdar"] = "cdar",
        confidence: float = 0.95,
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        check_parameters(confidence=confidence)
        self.confidence = float(confidence)
        options = {"sample_weight": sample_weight, "penalty": penalty, "metric": metric}
        super().__init__(returns, risk_aversion, risk_measure=risk_measure, **options)
        check_penalty(penalty, self.n_variables)
        check_choice("risk_measure", risk_measure, (self.own_measure,))

    def inner_batch(self, draws, weights=None):
        """Raise a ValueError: the objective cannot be evaluated on batches."""
        raise ValueError(
            "risk_measure='cdar' has no batches: a drawdown depends on all earlier periods in their order, and is "
            "not an average over periods. Use CompositionalPortfolio with solver='newton' or the default solver, which "
            "solve a linear program"
        )

    outer_batch = inner_batch

    def objective(self, x):
        """-mean <r_i, x> + lambda CDaR(x) + R(x)."""
        y = (self.returns @ np.asarray(x, self.returns.dtype)).astype(float)
        risk = worst_mean(drawdowns(y), 1 - self.confidence, self.weights)
        value = -self._return_weight * float(self._mean @ x) + self._risk_weight * risk
        return value if self.penalty is None else value + self.penalty.value(x)

    def unbounded_below(self):
        """None for unknown, because the answer depends on the constraint."""
        return None


def drawdowns(returns):
    """Drawdowns: the distance of the cumulative return below its running maximum, which starts at 0."""
    total = np.cumsum(returns)
    return np.maximum(np.maximum.accumulate(total), 0.0) - total


def worst_mean(losses, tail, weights=None):
    """The CVaR of the losses: the mean of their worst fraction ``tail``, by number or by weight."""
    order = np.argsort(losses)[::-1]
    p = np.full(len(losses), 1 / len(losses)) if weights is None else weights[order]
    taken = np.diff(np.minimum(np.cumsum(p), tail), prepend=0.0)
    return float(taken @ losses[order]) / float(taken.sum())
