"""Transaction costs as a penalty."""

import numpy as np

from sk_stormc.core.box_projection import within
from sk_stormc.core.penalties import Box, Penalty
from sk_stormc.utils.validation import as_numbers, short

__all__ = ["TradingCosts"]


class TradingCosts(Penalty):
    """Costs sum_j cost_j |x_j - previous_j| + l2 sum_j x_j^2, with the bounds, budget
    and l1 norm of a box."""

    def __init__(self, previous, cost, box=None, l2=0.0):
        self.previous = as_numbers("previous_weights", previous)
        self.cost = as_numbers("transaction_cost", cost)
        if self.previous.ndim != 1 or not np.isfinite(self.previous).all():
            raise ValueError(
                "previous_weights must be finite, one for each asset, got "
                f"{short(previous)}"
            )
        if self.cost.shape not in ((), self.previous.shape):
            raise ValueError(
                "transaction_cost must be one number or of shape "
                f"{self.previous.shape}, got {self.cost.shape}"
            )
        if not (np.isfinite(self.cost) & (self.cost >= 0)).all():
            raise ValueError(
                f"transaction_cost must be finite and >= 0, got {short(cost)}"
            )
        self.box, self.l2 = Box(-np.inf, np.inf) if box is None else box, float(l2)

    def __repr__(self):
        squares = f", l2={self.l2}" * bool(self.l2)
        return (
            f"TradingCosts(previous={short(self.previous)}, cost={short(self.cost)}, "
            f"box={self.box!r}{squares})"
        )

    def check(self, n_variables):
        """Raise a ValueError if there is no feasible point with ``n_variables``
        coordinates."""
        if len(self.previous) != n_variables:
            raise ValueError(
                f"previous_weights must be of shape ({n_variables},), got "
                f"{self.previous.shape}"
            )
        self.box.check(n_variables)

    def value(self, x):
        """The transaction costs, the l1 norm and the squares."""
        squares = self.l2 * float(np.square(x, dtype=float).sum())
        return (
            float((self.cost * np.abs(x - self.previous)).sum())
            + self.box.value(x)
            + squares
        )

    def prox(self, x, step):
        """The proximal point: soft thresholding about ``previous`` (and about 0 for the
        l1 norm), clipping, budget."""
        if self.l2:  # the squares are completed
            part = 1 / (1 + 2 * self.l2 * step)
            x, step = part * x, part * step
        norm, cost = self.box.alpha * step, self.cost * step
        # alpha |z| + cost |z - previous| has two kinks, and slopes -most, middle and
        # most around them
        first, last = np.minimum(self.previous, 0.0), np.maximum(self.previous, 0.0)
        if not self.box.alpha:
            first = last = self.previous
        middle = np.where(self.previous > 0, norm - cost, cost - norm)
        most = norm + cost

        def shrink(z):
            held = np.clip(z - middle, first, last)
            return np.where(
                z + most < first, z + most, np.where(z - most > last, z - most, held)
            )

        bends = [
            bound + slope
            for bound in (first, last, self.box.low, self.box.high)
            for slope in (-most, middle, most)
        ]
        return within(self.box, x, step, shrink, bends)

    def project(self, x):
        """The nearest feasible point."""
        return self.box.project(x)
