"""The conditional drawdown at risk (CDaR), the mean of the deepest fraction 1 -
confidence of the drawdowns."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.convex_program import PROGRAM_TOLERANCE, Formulation
from sk_stormc.portfolio.mean_risk import Measure
from sk_stormc.portfolio.risk.cuts import Cuts, cuts_of_parts
from sk_stormc.portfolio.risk.cvar import mean_of_worst

__all__ = ["CDaR"]

PARTS = 100  # of the periods, with cuts of their own
# with more periods, cutting planes are faster; in quadratic programs also with more of
# them for each asset
PERIODS, PER_ASSET = 1024, 8


def peaks_of(returns):
    """For each period, the first one whose return is part of its drawdown."""
    path = np.append(0.0, np.cumsum(returns))
    at_peak = path >= np.maximum.accumulate(path)
    return np.maximum.accumulate(np.where(at_peak, np.arange(len(path)), 0))[1:]


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
    by_cuts = True

    def value(self, y, p=None):
        """The mean of the deepest drawdowns."""
        return mean_of_worst(drawdowns(y), 1 - self.confidence, p)[0]

    def subgradient(self, y, p=None):
        """A drawdown falls with each return since its peak. The drawdowns have the
        weights of the deepest ones."""
        q = mean_of_worst(drawdowns(y), 1 - self.confidence, p)[1]
        # of the sum of the weights of the drawdowns that a return is part of
        change = np.append(0.0, -q)
        np.add.at(change, peaks_of(y), q)
        return -np.cumsum(change)[:-1]

    def formulation(self, scaled, v):
        """A level s, the drawdowns D_t >= max(D_{t-1} - <q_t, v>, 0), and their parts
        above the level."""
        n, tail = len(scaled.Q), 1 - self.confidence
        depths = drawdowns(scaled.Q @ v)
        *_, level = mean_of_worst(depths, tail, scaled.p)
        levels = np.concatenate([[level], depths, np.maximum(depths - level, 0.0)])
        one, zero, s = np.eye(n), np.zeros((n, n)), np.ones((n, 1))
        rows = np.block(
            [
                [-scaled.Q, 0 * s, np.eye(n, k=-1) - one, zero],
                [np.zeros_like(scaled.Q), -s, one, -one],
            ]
        )
        of_levels = scaled.risk_weight * np.r_[1.0, np.zeros(n), scaled.p / tail]
        linear = np.append(-scaled.expected_return, of_levels)
        reach = 1 / scaled.p[scaled.p > 0].min()
        return Formulation(linear, level=levels, lowest=0.0, reach=reach, rows=rows)

    def solve(self, scaled, start, callback=None):
        """Minimise a linear program with rows for each period, or by cutting planes if
        there are many periods for each asset."""
        n, n_assets = scaled.Q.shape
        most = PER_ASSET * n_assets if scaled.feasible.l2 else PERIODS
        # periods of less weight spoil the multipliers of a linear program
        lightest = scaled.p[scaled.p > 0].min()
        if n <= min(most, PERIODS) and lightest > PROGRAM_TOLERANCE:
            return scaled.minimise_by_cuts(
                start, lambda v: self.formulation, 1 + 2 * n, callback
            )
        n_parts = min(n, PARTS)
        path = np.pad(np.cumsum(scaled.Q, axis=0), ((1, 0), (0, 0)))
        formulation_at = cuts_of_parts(
            lambda v: self._cuts(scaled, path, n_parts, v), n_parts
        )
        return scaled.minimise_by_cuts(start, formulation_at, 1 + n_parts, callback)

    def _cuts(self, scaled, path, n_parts, v):
        """Cuts for the deepest drawdowns at v, which are the falls of the path of
        cumulative returns from the peaks at v, and for the deepest one of each other
        part, which may be deeper at other weights."""
        n, returns = len(scaled.Q), scaled.Q @ v
        depths, peaks = drawdowns(returns), peaks_of(returns)
        _, q, level = mean_of_worst(depths, 1 - self.confidence, scaled.p)
        parts, slopes, shares = np.arange(n_parts), [], []
        ends = (parts + 1) * n // n_parts
        for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            days = begin + np.flatnonzero(q[begin:end])
            if not days.size:
                days = begin + depths[begin:end].argmax(keepdims=True)
                q[days] = scaled.p[days] / (1 - self.confidence)
            slopes.append(q[days] @ (path[peaks[days]] - path[days + 1]))
            shares.append(q[days].sum())
        return Cuts(level, parts, np.array(slopes), np.array(shares))
