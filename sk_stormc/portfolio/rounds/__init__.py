"""Exact portfolios of many periods by rounds: passes over rows in blocks, and exact
fits of a table in memory."""

from sk_stormc.portfolio.rounds.fit import (
    Rounds,
    rounds_method,
    score_in_blocks,
    takes_rounds,
)
from sk_stormc.portfolio.rounds.rows import Rows, returns_lazily

__all__ = [
    "Rounds",
    "Rows",
    "returns_lazily",
    "rounds_method",
    "score_in_blocks",
    "takes_rounds",
]
