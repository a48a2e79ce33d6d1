"""The conditional drawdown at risk (CDaR), the mean of the deepest fraction 1 -
confidence of the drawdowns."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from sk_stormc.core.penalties import check_penalty
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.portfolio.exact.cutting_planes import minimise_by_cuts, of_cuts
from sk_stormc.portfolio.mean_risk import Measure
from sk_stormc.portfolio.risk.cvar import worst
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import check_choice

__all__ = ["CDaR"]


class DrawdownPortfolioProblem(PortfolioProblem):
    r"""Minimise the mean of the deepest drawdowns (CDaR) minus the mean return, over
    portfolios w.

    .. math::

        \Phi(w) = -\frac1n \sum_t r_t^T w + \lambda \min_s \Bigl( s
            + \frac{1}{n (1 - \beta)} \sum_t \max(D_t - s, \, 0) \Bigr) + R(w),
        \qquad D_t = \max(D_{t-1} - r_t^T w, \, 0)

    The drawdown D_t is the distance of the cumulative return below its running maximum,
    with D_0 = 0. CDaR is the CVaR of the drawdowns, and is convex in w. If the
    confidence beta is near 0, it is the mean drawdown, and if beta is at least 1 - 1 /
    n, it is the largest drawdown.

    A drawdown depends on all earlier periods in their order. The objective is therefore
    not a composition of averages, and it cannot be evaluated on batches. This class
    evaluates the objective, and `CompositionalPortfolio` minimises it as a linear
    program. Weights of periods count in both means, but the path of returns contains
    each period once.

    ``PortfolioProblem(returns, risk_measure="cdar")`` returns an instance of this
    class.

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
    >>> problem = PortfolioProblem(
    ...     np.array([[1.0], [-3.0], [1.0], [2.0]]),
    ...     np.inf,
    ...     risk_measure="cdar",
    ...     confidence=0.5,
    ... )
    >>> problem.value_at(np.array([1.0]))  # drawdowns of 0, 3, 2 and 0
    2.5
    """

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
        check_choice("risk_measure", risk_measure, ("cdar",))
        self._set_up(
            returns, risk_aversion, CDaR(confidence), sample_weight, penalty, metric
        )
        check_penalty(penalty, self.n_variables)

    def inner_batch(self, draws, weights=None):
        """Raise a ValueError: the objective cannot be evaluated on batches."""
        raise ValueError(
            "risk_measure='cdar' has no batches: a drawdown depends on all earlier "
            "periods in their order, and is "
            "not an average over periods. Use CompositionalPortfolio with "
            "solver='newton' or the default solver, which "
            "solve a linear program"
        )

    outer_batch = inner_batch

    def objective(self, x):
        """-mean <r_i, x> + lambda CDaR(x) + R(x)."""
        return self.task.value(x)


def drawdowns(returns):
    """Drawdowns: the distance of the cumulative return below its running maximum, which
    starts at 0."""
    total = np.cumsum(returns)
    return np.maximum(np.maximum.accumulate(total), 0.0) - total


@dataclass
class CDaR(Measure):
    """The mean of the deepest fraction 1 - confidence of the drawdowns."""

    confidence: float = 0.95
    name = "cdar"
    shift = None
    ordered = True
    problem = DrawdownPortfolioProblem

    def value(self, y, p=None):
        """The mean of the deepest drawdowns."""
        return self._worst(drawdowns(y), p)[0]

    def subgradient(self, y, p=None):
        """A drawdown falls with each return since its peak. The drawdowns have the
        weights of the deepest ones."""
        path, q = np.append(0.0, np.cumsum(y)), self._worst(drawdowns(y), p)[1]
        at_peak = path >= np.maximum.accumulate(path)
        change = np.append(
            0.0, -q
        )  # of the sum of the weights of the drawdowns that a return is part of
        np.add.at(
            change,
            np.maximum.accumulate(np.where(at_peak, np.arange(len(path)), 0))[1:],
            q,
        )
        return -np.cumsum(change)[:-1]

    def _worst(self, losses, p):
        order, taken = worst(losses, 1 - self.confidence, p)
        q = np.empty(len(losses))
        q[order] = taken / taken.sum()
        return float(taken @ losses[order]) / float(taken.sum()), q

    def formulation(self, scaled, v):
        """The mean of the drawdowns that are the deepest ones at v: for other weights a
        lower bound of CDaR."""
        return of_cuts(scaled, v, [self._cut(scaled, v)])

    def solve(self, scaled, start, callback=None):
        """Minimise by cutting planes."""
        return minimise_by_cuts(scaled, partial(self._cut, scaled), start, callback)

    def _cut(self, scaled, v):
        """The linear function of the weights that equals CDaR at v, and is not above it
        elsewhere."""
        return self.subgradient(scaled.Q @ v, scaled.p) @ scaled.Q
