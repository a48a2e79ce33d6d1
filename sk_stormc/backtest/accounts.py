"""Accounts of the weights that a portfolio holds: how they drift, what is traded, and
what it costs."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.backtest.returns_table import ReturnsTable
from sk_stormc.utils.types import Array, FloatArray

__all__ = ["Account", "Schedule", "drifted"]


@dataclass(frozen=True)
class Schedule:
    """The rows from which new weights are held, and the rows of the fits before
    them."""

    table: ReturnsTable
    starts: Array
    window: int | None
    trading_cost: FloatArray
    missing: str

    @property
    def first(self):
        """The first row in which weights are held."""
        return int(self.starts[0])

    def fits(self):
        """The rows (begin, start, end) of each fit, which knows those before ``start``
        and is held before ``end``."""
        starts, n = self.starts.tolist(), len(self.table.rows)
        ends, window = [*starts[1:], n], self.window or n
        return [
            (max(start - window, 0), start, end)
            for start, end in zip(starts, ends, strict=True)
        ]


class Account:
    """The account of a portfolio that follows a schedule.

    ``choose(begin, start, held)`` gives its weights from the row ``start`` on, or None
    if it keeps those that it has. ``held`` are the weights that it has, or None before
    its first purchase.
    """

    def __init__(self, schedule, choose, held=None):
        table, n = schedule.table, len(schedule.starts)
        returns = np.nan_to_num(table.fractions[schedule.first :], nan=0.0)
        self.weights, self.kept = np.zeros_like(returns), np.zeros(n, dtype=bool)
        self.weights_before = before = np.zeros((n, len(table.columns)))
        self.weights_after = after = np.zeros_like(before)
        self.missing, self.lost_in = {}, None
        self.errors, self.warnings = {}, {}  # of the fits, by row
        for k, (begin, start, end) in enumerate(schedule.fits()):
            before[k] = chosen = 0.0 if held is None else held
            if self.lost_in is None:
                chosen = choose(begin, start, held)
            self.kept[k] = chosen is None
            after[k] = before[k] if chosen is None else chosen
            self._check_returns(schedule, start, end, after[k])
            period = slice(start - schedule.first, end - schedule.first)
            path, lost = drifted(after[k], returns[period])
            self.weights[period] = path[:-1]
            held = None if held is None and chosen is None else path[-1]
            self.lost_in = self.lost_in if lost is None else start + lost
        trades = np.abs(after - before)
        self.turnover, self.costs = trades.sum(axis=1), trades @ schedule.trading_cost
        self.gross_returns = np.einsum("ij,ij->i", self.weights, returns)
        self.returns = self.gross_returns.copy()
        self.returns[schedule.starts - schedule.first] -= self.costs

    def _check_returns(self, schedule, start, end, weights):
        """Record missing returns of assets that are held, or raise a ValueError for the
        first of them."""
        missing = np.isnan(schedule.table.fractions[start:end]) & (weights != 0)
        if not missing.any():
            return
        if schedule.missing == "raise":
            row, place = np.argwhere(missing)[0]
            raise ValueError(
                "returns must not be missing while an asset is held, got NaN in column "
                f"{schedule.table.columns[place]!r} for "
                f"{schedule.table.row_text(start + row)}: missing='zero' takes 0"
            )
        self.missing[start] = np.flatnonzero(missing.any(axis=0))


def drifted(weights, returns):
    """The weights at the beginning of each period and after the last one, if nothing is
    traded.

    Cash earns nothing. If the wealth falls to 0 or below in a period, nothing is held
    after it, and the period is returned too, otherwise None.
    """
    growth = np.vstack([np.ones(len(weights)), np.cumprod(1 + returns, axis=0)])
    wealth = 1 + (growth - 1) @ weights
    lost = np.flatnonzero(wealth <= 0)
    end = lost[0] if len(lost) else len(wealth)
    path = np.zeros_like(growth)
    path[:end] = growth[:end] * weights / wealth[:end, None]
    return path, int(end) - 1 if len(lost) else None
