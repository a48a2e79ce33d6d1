"""Validation of returns, column by column, and returns in excess of a benchmark."""

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from sk_stormc.portfolio.labels import aligned, assets_of, by_label, rows_of_benchmark
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.frames import (
    as_text,
    column,
    columns_of,
    counts_rows,
    direction_of,
    index_of,
    is_series,
    is_table,
    rows_of,
)
from sk_stormc.utils.mapped_rows import MappedRows, blocks
from sk_stormc.utils.validation import (
    as_numbers,
    check_finite,
    check_numeric,
    check_weights,
    naming,
    row_weights,
    short,
)
from sk_stormc.utils.warnings import warn

__all__ = [
    "LazyReturns",
    "benchmark_of",
    "check_ascending",
    "check_period_order",
    "check_finite_returns",
    "check_returns",
    "column_of",
    "expected_means",
    "faded",
    "own_forecast",
    "warn_of_prices",
    "with_benchmark",
    "with_expected_returns",
]

UNORDERED = {
    "neither": "are in no order",
    "unknown": "are texts whose order is not known",
}


def check_returns(X, lazy=False, finite=True, least=1):
    """Float returns of at least some periods (float32 is kept), or MappedRows. An error
    names the columns with invalid values.

    With ``lazy``, those of a dask collection are `LazyReturns`; otherwise they are
    computed. Without ``finite``, those of MappedRows are not checked, which reads them.
    """
    if lazy and is_dask(X):
        return check_lazy_returns(X)
    if is_table(X):
        _check_columns(X)
    returns = MappedRows.of(X)
    if not isinstance(returns, MappedRows) or len(returns) < least:
        check_numeric("X", X)
        with naming("X"):
            returns = check_array(
                X,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=least,
                input_name="X",
            )
    if finite or not isinstance(returns, MappedRows):
        check_finite_returns(X, returns)
    return returns


def check_finite_returns(X, returns):
    """Raise a ValueError that names the columns with returns that are not finite, and
    says what to do."""
    remedy = (
        "(X[numpy.isfinite(X).all(axis=1)], or X.dropna() for NaN in a DataFrame) or "
        "such columns"
    )
    check_finite(
        "X", "finite returns", blocks(returns), X, f"Leave out such periods {remedy}"
    )


class LazyReturns(NamedTuple):
    """Returns of a dask collection, whose number of periods need not be known."""

    shape: tuple
    dtype: Any


def check_lazy_returns(X):
    """The returns of a dask collection. Its numbers are checked in the first pass."""
    if X.ndim != 2:
        raise ValueError(
            "X must have two dimensions, of periods and assets, got a dask "
            f"collection of shape {X.shape}"
        )
    frame = is_table(X)
    if frame:
        _check_columns(X._meta)
    elif X.dtype.kind not in "fiub":
        raise ValueError(f"X must be numbers, got {X.dtype} values")
    floats = not frame and X.dtype in (np.float32, np.float64)
    return LazyReturns((None, X.shape[1]), X.dtype if floats else np.dtype(float))


def check_ascending(X, counts, after=None):
    """Raise a ValueError if the index of X descends, or if the order ``counts`` and the
    index does not ascend.

    The index must also go on from the label ``after`` of the period before, if there is
    one. Return the last label, or ``after`` if X has no labels that can be ordered. An
    index that only counts rows is compared, but not returned.
    """
    index = index_of(X)
    direction = check_direction(index, counts)
    _refuse_dates_twice(index)
    if direction is None:
        return after
    if after is not None:
        joined = direction_of(index.insert(0, after))
        if joined != "ascending" and not (joined is None and counts_rows(index)):
            raise ValueError(
                "X must have its periods in ascending order over all chunks, but its "
                f"first row has the label {as_text(index[0])}, and the last row of the "
                f"chunk before has {as_text(after)}: give chunks from the oldest to "
                "the latest, with labels of one kind"
            )
    return after if counts_rows(index) else index[-1]


def _refuse_dates_twice(index):
    """Raise a ValueError if dates occur twice, as when the last ones were appended to a
    file again."""
    # integers may begin again in each part of a table
    if index is None or index.is_unique or direction_of(index) is None:
        return
    index = index.dropna() if index.nlevels == 1 else index
    if index.is_unique or index.inferred_type in ("integer", "floating"):
        return
    twice = index[index.duplicated()].unique()
    raise ValueError(
        f"X must have each date once, got {len(twice)} of them more than once, such as "
        f"{', '.join(map(as_text, twice[:3]))}. X[~X.index.duplicated()] keeps the "
        "first row of each, and reset_index(drop=True) keeps all rows, without dates"
    )


def check_direction(index, counts):
    """The direction of an index. Raises a ValueError if it descends, or is unordered
    and the order ``counts``."""
    direction = direction_of(index)
    if direction == "descending" or (direction in UNORDERED and counts):
        raise ValueError(
            "X must have its periods in ascending order, from the oldest to the "
            "latest, but the labels of its rows "
            f"{UNORDERED.get(direction, 'descend')}. X.sort_index() sorts dates and "
            "numbers. Convert texts by pandas.to_datetime before"
        )
    return direction


def check_period_order(X, counts):
    """`check_ascending`; for a dask frame by the first and the last label of each
    partition, if the order counts."""
    if not is_dask(X):
        check_ascending(X, counts)
    elif counts and is_table(X) and not X.known_divisions:
        import dask

        parts = dask.compute(*map(dask.delayed(_ends), X.to_delayed()))
        parts = [part for part in parts if len(part)]
        unordered = [part for part in parts if len(part) > 2]
        check_direction(unordered[0] if unordered else parts[0].append(parts[1:]), True)


def _ends(part):
    """The labels of the first and the last row of a partition, or all labels if they
    are in another order."""
    index = part.index
    return index if direction_of(index) in UNORDERED else index[[0, -1][: len(index)]]


def looks_like_prices(returns):
    """Whether most columns have one sign, and change little from one period to the
    next.

    Returns differ more from one period to the next than from their mean, even if 1 was
    added to them. Prices and their logarithms mostly have one sign, with at most one
    exception in 50 entries. The test is less certain with fewer than 60 periods: the
    mean square of steps of independent returns is twice their variance, with a standard
    deviation of about 2 / sqrt(n).
    """
    X = np.asarray(returns[:1000], dtype=float)  # enough to recognise them
    n = len(X)
    if n < 15:  # returns could look like prices by chance
        return False
    largest = np.abs(X).max(axis=0)
    # the squares of very large numbers overflow
    X = X / np.where(largest > 0, largest, 1.0)
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
            "X looks like prices, not returns: most columns have one sign, and differ "
            "little from one period to the next. The returns of prices p are p[1:] / "
            "p[:-1] - 1 (in pandas p.pct_change().dropna()). If X does hold returns, "
            "such as interest rates, you can ignore this warning"
        )


def _check_columns(X):
    """Raise a ValueError for the first column of a frame that is not numeric. Dates are
    not converted to numbers."""
    for j, dtype in enumerate(X.dtypes):
        kind = getattr(dtype, "kind", "O")
        if hasattr(dtype, "is_numeric"):  # polars
            kind = "f" if dtype.is_numeric() or str(dtype) == "Boolean" else "O"
        if kind in "fiub":
            continue
        kinds = map(type, np.asarray(column(X, j), dtype=object))
        strange = next((kind for kind in kinds if not _counts(kind)), None)
        if strange is None and kind == "O":
            continue
        of = f" of {strange.__name__}" if strange and str(dtype) == "object" else ""
        raise ValueError(
            f"X must be returns, all numbers, but column {columns_of(X)[j]!r} holds "
            f"{dtype}{of}. Drop it, or keep it as the index, before the fit"
        )


def _counts(kind):
    """Whether objects of this type are numbers or missing values."""
    numbers = Real, Decimal, np.number, np.bool_, type(None)
    return issubclass(kind, numbers) or kind.__name__ == "NAType"


def faded(sample_weight, n_periods, half_life):
    """Weights of periods that halve every ``half_life`` periods before the last. None
    means equal weights."""
    if half_life is None:
        return sample_weight
    weights = 0.5 ** (np.arange(n_periods)[::-1] / half_life)
    return weights * row_weights(sample_weight, n_periods, all_zero=True)


def column_of(benchmark, columns, n_assets):
    """The number of the column that the benchmark names, or None if the benchmark is
    not a label."""
    labels = list(range(n_assets)) if columns is None else columns
    if isinstance(benchmark, tuple):  # a label of several levels, or values
        may_be_values = not any(isinstance(part, str) for part in benchmark)
    else:
        if np.ndim(benchmark) or isinstance(benchmark, (bool, np.bool_, Mapping)):
            return None
        may_be_values = benchmark is None
    if benchmark not in labels:
        if may_be_values:
            return None
        available = f"columns {labels[:10]}"
        if columns is None:
            available = f"an array of {n_assets} columns"
        raise ValueError(
            "benchmark must be the label of a column of X, returns of shape "
            "(n_periods,) or weights of shape "
            f"(n_assets,), got {benchmark!r} and {available}"
        )
    return labels.index(benchmark)


def with_benchmark(returns, benchmark, columns, rows=None):
    """The returns with the benchmark's, if any, as a last column; columns and rows are
    the labels of X, or None."""
    if benchmark is None:
        return returns
    value, weighs = benchmark_of(benchmark, columns, rows, *returns.shape)
    value = returns @ value if weighs else value
    return np.column_stack([returns, value]).astype(returns.dtype)


def benchmark_of(benchmark, columns, rows, n, d):
    """The benchmark's weights of shape (d,) and True, or its returns of shape (n,) and
    False."""
    place = column_of(benchmark, columns, d)
    if place is not None:
        return np.eye(d)[place], True
    value, weighs = _read(benchmark, columns, rows, n, d)
    value = as_numbers("benchmark", value)
    if value.shape not in ((n,), (d,)):
        raise ValueError(
            f"benchmark must be the label of a column of X, returns of shape ({n},) or "
            f"weights of shape ({d},), got {short(benchmark)} of shape {value.shape}"
        )
    if n == d and weighs is None:
        raise ValueError(
            "benchmark can be read as returns or as weights if there are as many "
            "periods as assets, here "
            f"{n}: give it labels, or make returns a column of X"
        )
    weighs = len(value) == d if weighs is None else weighs
    kind, labels = ("column", columns) if weighs else ("row", rows)
    _check_all_finite("benchmark", value, kind, labels)
    return value, weighs


def _check_all_finite(name, values, kind, labels):
    """Raise a ValueError that names the first value that is not finite by its column or
    row."""
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        k = wrong[0]
        label = k if labels is None else as_text(labels[k])
        raise ValueError(
            f"{name} must be finite, got {values[k]} for {kind} {label} of X: leave it "
            "out, or fill it in"
        )


def _read(benchmark, columns, rows, n, d):
    """The values of a benchmark, and whether they are weights: None if labels do not
    determine it."""
    if is_series(benchmark):
        values = rows_of_benchmark(benchmark, columns, d, rows, n)
        if values is not None:
            return values, False
    # weights of other assets are part of a benchmark
    values = aligned("benchmark", benchmark, columns, d, extra=False)
    return values, None if values is benchmark else True


def with_expected_returns(returns, portfolio, X, sample_weight):
    """The returns, shifted to the means that the portfolio expects, with the
    benchmark's, if any, as a last column.

    A benchmark of given returns keeps its mean, unless there is an entry of its name. X
    has the labels.
    """
    expected, columns = portfolio.expected_returns, assets_of(X)

    def complete(returns):
        return with_benchmark(returns, portfolio.benchmark, columns, rows_of(X))

    given = {"expected_returns": expected, "benchmark": portfolio.benchmark}
    given = [name for name, value in given.items() if value is not None]
    if given and type(returns) is not np.ndarray:
        raise ValueError(
            f"{given[0]} needs returns that are an array in memory, got "
            f"{type(returns).__name__}: take solver='auto', which fits a file too, or "
            "load them"
        )
    if expected is None:
        return complete(returns)
    means, p = expected_means(expected, columns, returns.shape[1]), sample_weight
    if p is not None:
        p = check_weights(p, len(returns), "for period")

    def shifted(returns, means):
        return returns + (means - np.average(returns, axis=0, weights=p))

    table = complete(shifted(returns.astype(float), means))
    own = own_forecast(portfolio, columns)
    if own is not None:
        table[:, -1] = shifted(table[:, -1], own)
    return table


def own_forecast(portfolio, columns):
    """The expected mean of a benchmark whose returns are given as a Series, by its
    name, or None."""
    benchmark = portfolio.benchmark
    if not is_series(benchmark) or not set(columns or ()).isdisjoint(benchmark.index):
        return None
    own = by_label(portfolio.expected_returns).get(getattr(benchmark, "name", None))
    return None if own is None else as_numbers("expected_returns", own)


def expected_means(expected, columns, n_assets):
    """The parameter ``expected_returns`` as an array of shape (n_assets,)."""
    means = aligned("expected_returns", expected, columns, n_assets)
    means = as_numbers("expected_returns", means)
    if means.shape != (n_assets,):
        raise ValueError(
            f"expected_returns must have one number for each of the {n_assets} "
            "assets, as an array, a dict or a Series,"
            f" got {short(expected)} of shape {means.shape}"
        )
    _check_all_finite("expected_returns", means, "column", columns)
    return means
