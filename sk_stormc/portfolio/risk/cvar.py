"""The conditional value at risk (CVaR), the mean of the worst fraction 1 - confidence
of the losses."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.convex_program import Formulation, Hinges
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, shares
from sk_stormc.portfolio.quantiles import quantile

__all__ = ["CVaR", "mean_of_worst"]


def mean_of_worst(losses, tail, p=None):
    """The mean of the worst fraction ``tail`` of the losses, their weights in it, and
    the least of them."""
    order, p, q = (
        np.argsort(losses)[::-1],
        shares(len(losses), p),
        np.empty(len(losses)),
    )
    q[order] = np.diff(np.minimum(np.cumsum(p[order]), tail), prepend=0.0)
    least = float(losses[q > 0].min())
    # more exact than q @ losses, as the sums of weights of many periods have errors
    mean = least + float(p @ np.maximum(losses - least, 0)) / tail
    return mean, q / q.sum(), least


@dataclass
class CVaR(Measure):
    """The mean of the worst fraction 1 - confidence of the losses."""

    confidence: float = 0.95
    name = "cvar"
    nonnegative = False
    shift = -1.0
    rounds = "rows"

    def value(self, y, p=None):
        """The mean of the worst losses."""
        return mean_of_worst(-y, 1 - self.confidence, p)[0]

    def subgradient(self, y, p=None):
        """Minus the weights of the worst losses, whose sum is 1."""
        return -mean_of_worst(-y, 1 - self.confidence, p)[1]

    def in_blocks(self, total, mean, ends):
        """The quantile of the returns, and the mean of those below it."""
        tail = 1 - self.confidence
        kink = quantile(total, tail, *ends)
        excess = total(lambda y, p: p @ np.maximum(kink - y, 0))
        return RiskInBlocks(float(excess / tail - kink), None, kink)

    def formulation(self, scaled, v):
        """A hinge for each period, and the quantile of the losses as level."""
        n, tail = len(scaled.p), 1 - self.confidence
        rows = np.column_stack([-scaled.Q, -np.ones(n)])
        level = float(np.quantile(-(scaled.Q @ v), self.confidence))
        hinges = [
            Hinges(rows, np.zeros(n), scaled.risk_weight * scaled.p / tail, np.zeros(n))
        ]
        linear = np.append(-scaled.expected_return, scaled.risk_weight)
        # the mean is 0, so a quantile of mostly gains is below the mean of the losses
        reach = max(1.0, tail / self.confidence)
        return Formulation(
            linear, hinges=hinges, level=level, lowest=-np.inf, reach=reach
        )
