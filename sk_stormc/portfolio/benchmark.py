"""Returns in excess of a benchmark: the benchmark is appended as a last asset whose weight is -1."""

import numpy as np

from sk_stormc.core.penalties import Box, as_penalty
from sk_stormc.portfolio.labels import aligned, rows_of_series
from sk_stormc.portfolio.turnover import Turnover
from sk_stormc.utils.frames import is_series
from sk_stormc.utils.validation import as_numbers, short

__all__ = ["column_of", "with_benchmark", "without"]


def column_of(benchmark, columns):
    """Index of the column that the benchmark names, or None if the benchmark is not a name."""
    if not isinstance(benchmark, str):
        return None
    if benchmark not in (columns or []):
        found = "an array without names" if columns is None else f"columns {columns[:10]}"
        raise ValueError(
            "benchmark must be the name of a column of X, returns of shape (n_periods,) or weights of shape "
            f"(n_assets,), got {benchmark!r} and {found}"
        )
    return columns.index(benchmark)


def with_benchmark(returns, benchmark, columns, rows=None):
    """The returns with the benchmark's as a last column; columns and rows are the labels of X, or None."""
    if type(returns) is not np.ndarray:
        raise ValueError(f"benchmark needs returns that are an array in memory, got {type(returns).__name__}")
    n, d = returns.shape
    place = column_of(benchmark, columns)
    if place is not None:
        return np.column_stack([returns, returns[:, place]])
    value, weighs = _read(benchmark, columns, rows, n, d)
    value = as_numbers("benchmark", value)
    if value.shape not in ((n,), (d,)) or not np.isfinite(value).all():
        raise ValueError(
            "benchmark must be the name of a column of X, finite returns of shape "
            f"({n},) or finite weights of shape ({d},), got {short(benchmark)} of shape {value.shape}"
        )
    if n == d and weighs is None:
        raise ValueError(
            "benchmark can be read as returns or as weights if there are as many periods as assets, here "
            f"{n}: give it labels, or make returns a column of X"
        )
    weighs = len(value) == d if weighs is None else weighs
    return np.column_stack([returns, returns @ value if weighs else value]).astype(returns.dtype)


def _read(benchmark, columns, rows, n, d):
    """The values of a benchmark, and whether they are weights: None if there are no labels that tell."""
    if is_series(benchmark):
        found = rows_of_series("benchmark", benchmark, columns, d, rows, n)
        if found is not None:
            return found, False
    found = aligned("benchmark", benchmark, columns, d, extra=False)  # weights of other assets are part of a benchmark
    return found, None if found is benchmark else True


def without(penalty, place, n_assets):
    """The penalty with the weight of the benchmark's column fixed at 0."""
    if isinstance(penalty, Turnover):
        previous = np.where(np.arange(n_assets) == place, 0.0, penalty.previous)
        return Turnover(previous, penalty.cost, without(penalty.box, place, n_assets))
    box = as_penalty(penalty).as_box()
    low, high = (np.array(np.broadcast_to(bound, n_assets), float) for bound in (box.low, box.high))
    low[place] = high[place] = 0.0
    box = Box(low, high, budget=box.budget, alpha=box.alpha)
    box.check(n_assets)
    return box
