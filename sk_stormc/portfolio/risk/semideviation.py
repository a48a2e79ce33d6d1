"""The semideviation of order p, (mean max(mean y - y, 0)^p)^(1/p)."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.convex_program import Formulation, Hinges
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, mean_of, shares

__all__ = ["Semideviation"]


@dataclass
class Semideviation(Measure):
    """The root of the mean of powers of the returns below their mean."""

    order: float = 2.0
    name = "semideviation"
    about_mean = True  # whether losses are returns below the mean, or below 0

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
