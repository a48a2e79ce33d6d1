"""Validation of returns, column by column, and returns in excess of a benchmark."""

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_array

from sk_stormc.core.penalties import Box, as_penalty
from sk_stormc.portfolio.exact.feasible_set import TradingCosts
from sk_stormc.portfolio.labels import aligned, as_text, rows_of_series
from sk_stormc.streams.mapped import MappedRows, blocks
from sk_stormc.utils.frames import (
    column,
    columns_of,
    counts_rows,
    direction_of,
    index_of,
    is_series,
    is_table,
    rows_of,
)
from sk_stormc.utils.validation import as_numbers, check_numeric, naming, row_weights, short
from sk_stormc.utils.warnings import warn

__all__ = ["check_ascending", "check_returns", "column_of", "faded", "warn_of_prices", "with_benchmark", "without"]

UNORDERED = {"neither": "are in no order", "unknown": "are texts whose order is not known"}
FEWEST, MOST = 15, 1000  # smallest and largest number of periods from which prices are recognised


def check_returns(X, **kwargs):
    """Float returns (float32 is kept), or MappedRows. An error names the columns with invalid values."""
    names = np.empty(0, object)
    if is_table(X):
        names = np.array([*columns_of(X), None], dtype=object)[:-1]  # None: tuples stay labels
        _check_columns(X, names)
    returns = MappedRows.of(X)
    if not isinstance(returns, MappedRows) or len(returns) < kwargs.get("ensure_min_samples", 1):
        check_numeric("X", X)
        with naming("X"):
            returns = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False, input_name="X", **kwargs)
    missing, nan, first = np.zeros(1, dtype=bool), False, None
    for start, block in blocks(returns):
        with np.errstate(all="ignore"):
            if np.isfinite(block.sum()):  # then all entries are finite; this takes a third of the time
                continue
        wrong = ~np.isfinite(block)
        if not wrong.any():
            continue
        missing, nan = missing | wrong.any(axis=0), nan or np.isnan(block).any()
        first = start + int(np.argmax(wrong.any(axis=1))) if first is None else first
    if first is not None:
        places, rows = np.flatnonzero(missing), rows_of(X)
        where = [names[j] if len(names) else int(j) for j in places[:10]]
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        raise ValueError(
            f"X must be finite returns, got {'NaN' if nan else 'infinity (inf)'} in column{'s' * (len(places) > 1)} "
            f"{where}{more}, first in row {first if rows is None else as_text(rows[first])}. Leave out such periods "
            "(X[numpy.isfinite(X).all(axis=1)], or X.dropna() for NaN in a DataFrame) or such columns"
        )
    return returns


def check_ascending(X, counts, after=None):
    """Raise a ValueError if the index of X descends, or if the order ``counts`` and the index does not ascend.

    The index must also go on from the label ``after`` of the period before, if there is one. Return the last label, or
    ``after`` if X has no labels that can be ordered. An index that only counts rows is compared, but not returned.
    """
    index = index_of(X)
    direction = direction_of(index)
    if direction == "descending" or (direction in UNORDERED and counts):
        raise ValueError(
            f"X must have its periods in ascending order, from the oldest to the latest, but the labels of its rows "
            f"{UNORDERED.get(direction, 'descend')}. X.sort_index() sorts dates and numbers. Convert texts by "
            "pandas.to_datetime before"
        )
    if direction is None:
        return after
    if after is not None:
        joined = direction_of(index.insert(0, after))
        if joined != "ascending" and not (joined is None and counts_rows(index)):
            raise ValueError(
                "X must have its periods in ascending order over all chunks, but its first row has the label "
                f"{as_text(index[0])}, and the last row of the chunk before has {as_text(after)}: give chunks from the "
                "oldest to the latest, with labels of one kind"
            )
    return after if counts_rows(index) else index[-1]


def looks_like_prices(returns):
    """Whether most columns have one sign, and change little from one period to the next.

    Returns differ more from one period to the next than from their mean, even if 1 was added to them. Prices and their
    logarithms mostly have one sign, with at most one exception in 50 entries. The test is less certain with fewer than
    60 periods: the mean square of steps of independent returns is twice their variance, with a standard deviation of
    about 2 / sqrt(n).
    """
    X = np.asarray(returns[:MOST], dtype=float)
    n = len(X)
    if n < FEWEST:
        return False
    largest = np.abs(X).max(axis=0)
    X = X / np.where(largest > 0, largest, 1.0)  # the squares of very large numbers overflow
    middle = np.median(X, axis=0)
    wrong = X * middle <= 0
    X = np.where(wrong, middle, X)
    steps, spread = np.square(np.diff(X, axis=0)).mean(axis=0), X.var(axis=0)
    slow = steps < 0.5 * max(1.0, np.sqrt(60 / n)) * spread
    return bool((slow & (wrong.sum(axis=0) <= max(1, n // 50))).mean() > 0.5)


def warn_of_prices(returns):
    """Warn if X looks like prices."""
    if looks_like_prices(returns):
        warn(
            "X looks like prices, not returns: most columns have one sign, and differ little from one period to the "
            "next. The returns of prices p are p[1:] / p[:-1] - 1 (in pandas p.pct_change().dropna()). If X does hold "
            "returns, such as interest rates, you can ignore this warning"
        )


def _check_columns(X, names):
    """Raise a ValueError for the first column of a frame that is not numeric. Dates are not converted to numbers."""
    for j, dtype in enumerate(X.dtypes):
        if _is_number(dtype):
            continue
        strange = [kind for kind in set(map(type, np.asarray(column(X, j), dtype=object))) if not _counts(kind)]
        if strange or getattr(dtype, "kind", "O") != "O":
            types = f" of {strange[0].__name__}" if strange and str(dtype) == "object" else ""
            raise ValueError(
                f"X must be returns, all numbers, but column {names[j]!r} holds {dtype}{types}. Drop it, or keep it as "
                "the index, before the fit"
            )


def _is_number(dtype):
    if hasattr(dtype, "is_numeric"):  # polars
        return dtype.is_numeric() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiub"


def _counts(kind):
    """Whether objects of this type are numbers or missing values."""
    return issubclass(kind, (Real, Decimal, np.number, np.bool_, type(None))) or kind.__name__ == "NAType"


def faded(sample_weight, n_periods, half_life):
    """Weights of periods that halve every ``half_life`` periods before the last. None means equal weights."""
    if half_life is None:
        return sample_weight
    weights = 0.5 ** (np.arange(n_periods)[::-1] / half_life)
    return weights if sample_weight is None else weights * row_weights(sample_weight, n_periods, all_zero=True)


def column_of(benchmark, columns, n_assets):
    """The number of the column that the benchmark names, or None if the benchmark is not a label."""
    labels = list(range(n_assets)) if columns is None else columns
    if isinstance(benchmark, tuple):  # weights or returns, unless columns have several levels
        return labels.index(benchmark) if benchmark in labels else None
    if benchmark is None or isinstance(benchmark, (bool, np.bool_, Mapping)) or np.ndim(benchmark):
        return None
    if benchmark not in labels:
        available = f"an array of {n_assets} columns" if columns is None else f"columns {columns[:10]}"
        raise ValueError(
            "benchmark must be the label of a column of X, returns of shape (n_periods,) or weights of shape "
            f"(n_assets,), got {benchmark!r} and {available}"
        )
    return labels.index(benchmark)


def with_benchmark(returns, benchmark, columns, rows=None):
    """The returns with the benchmark's, if any, as a last column; columns and rows are the labels of X, or None."""
    if benchmark is None:
        return returns
    if type(returns) is not np.ndarray:
        raise ValueError(f"benchmark needs returns that are an array in memory, got {type(returns).__name__}")
    n, d = returns.shape
    place = column_of(benchmark, columns, d)
    if place is not None:
        return np.column_stack([returns, returns[:, place]])
    value, weighs = _read(benchmark, columns, rows, n, d)
    value = as_numbers("benchmark", value)
    if value.shape not in ((n,), (d,)):
        raise ValueError(
            "benchmark must be the label of a column of X, returns of shape "
            f"({n},) or weights of shape ({d},), got {short(benchmark)} of shape {value.shape}"
        )
    if n == d and weighs is None:
        raise ValueError(
            "benchmark can be read as returns or as weights if there are as many periods as assets, here "
            f"{n}: give it labels, or make returns a column of X"
        )
    weighs = len(value) == d if weighs is None else weighs
    wrong = ~np.isfinite(value)
    if wrong.any():
        k, labels = int(np.argmax(wrong)), columns if weighs else rows
        place = f"{'column' if weighs else 'row'} {k if labels is None else as_text(labels[k])}"
        raise ValueError(f"benchmark must be finite, got {value[k]} for {place} of X: leave it out, or fill it in")
    return np.column_stack([returns, returns @ value if weighs else value]).astype(returns.dtype)


def _read(benchmark, columns, rows, n, d):
    """The values of a benchmark, and whether they are weights: None if labels do not determine it."""
    if is_series(benchmark):
        values = rows_of_series("benchmark", benchmark, columns, d, rows, n)
        if values is not None:
            return values, False
    values = aligned("benchmark", benchmark, columns, d, extra=False)  # weights of other assets are part of a benchmark
    return values, None if values is benchmark else True


def without(penalty, place, n_assets):
    """The penalty with the weight of the benchmark's column fixed at 0."""
    if isinstance(penalty, TradingCosts):
        previous = np.where(np.arange(n_assets) == place, 0.0, penalty.previous)
        return TradingCosts(previous, penalty.cost, without(penalty.box, place, n_assets))
    box = as_penalty(penalty).as_box()
    low, high = (np.array(np.broadcast_to(bound, n_assets), float) for bound in (box.low, box.high))
    low[place] = high[place] = 0.0
    box = Box(low, high, budget=box.budget, alpha=box.alpha)
    box.check(n_assets)
    return box
