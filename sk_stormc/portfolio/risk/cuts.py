"""Cuts: linear lower bounds of a risk, for Kelley's method.

Periods are divided into parts, and each part has cuts of its own. Cuts of the whole
mean, one an iteration, would have to be many times more (Birge & Louveaux, "A multicut
algorithm for two-stage stochastic linear programs", 1988).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from sk_stormc.portfolio.convex_program import Formulation

__all__ = ["Cuts", "cuts_of_parts"]


class Cuts(NamedTuple):
    """Lower bounds of the risk: for any level s, it is at least s plus the sum over
    some parts of max(slope @ v - share s, 0)."""

    level: float  # for which they are equal at the weights of the cuts
    part: np.ndarray  # number of each part
    slope: np.ndarray  # of shape (n_cuts, n_assets)
    share: np.ndarray


def of_cuts(scaled, v, cuts, n_parts):
    """The risk of the largest cuts of each part, in units of the first risk. Levels are
    s and the parts, at v those of the last cuts."""
    unit = float(np.abs(cuts[0].slope.sum(axis=0)).max()) or 1.0
    part, slope, share = (
        np.concatenate([getattr(cut, name) for cut in cuts])
        for name in ("part", "slope", "share")
    )
    rows = np.column_stack(
        [slope / unit, -share, -(part[:, None] == np.arange(n_parts)).astype(float)]
    )
    last = cuts[-1]
    level = np.zeros(1 + n_parts)
    level[0] = last.level / unit
    excess = last.slope @ v / unit - last.share * level[0]
    level[1 + last.part] = np.maximum(excess, 0.0)
    of_level = np.full(1 + n_parts, scaled.risk_weight * unit)
    linear = np.append(-scaled.expected_return, of_level)
    reach = len(scaled.Q) / unit
    return Formulation(linear, level=level, lowest=0.0, reach=reach, rows=rows)


def cuts_of_parts(cuts_at, n_parts):
    """The function of v whose value is the risk of the cuts ``cuts_at`` of all its
    arguments so far."""
    cuts = []

    def formulation_at(v):
        cuts.append(cuts_at(v))
        return partial(of_cuts, cuts=tuple(cuts), n_parts=n_parts)

    return formulation_at
