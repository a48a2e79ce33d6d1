"""The returns that a user passes: one table, which is checked where it comes in."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from sk_stormc.portfolio.labels import (
    aligned,
    aligned_numbers,
    assets_of,
    by_label,
    rows_of_benchmark,
)
from sk_stormc.portfolio.rounds.rows import Rows, returns_lazily
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.blocks import (
    MappedRows,
    blocks,
    is_dask,
    of_partitions,
    without_rows,
)
from sk_stormc.utils.frames import (
    as_text,
    check_row_labels,
    column,
    columns_of,
    counts_rows,
    direction_of,
    index_of,
    is_series,
    is_table,
)
from sk_stormc.utils.parameters import naming, short
from sk_stormc.utils.rows import check_finite, check_numeric, row_weights
from sk_stormc.utils.warnings import warn

__all__ = ["Returns", "column_of", "looks_like_prices"]

UNORDERED = {
    "neither": "are in no order",
    "unknown": "are texts whose order is not known",
}


@dataclass(eq=False)
class Returns:
    """Returns of periods, with the labels of columns and rows and the weights of the
    periods, as they come in.

    Attributes
    ----------
    given : array-like
        The returns as the user passed them.
    values : ndarray, MappedRows or dask collection
        float32 or float64 numbers. Those of MappedRows and of dask collections are
        checked in the first pass over them.
    shape : tuple
        The number of periods, which is None for a dask collection, and that of assets.
    dtype : dtype
        That of results.
    columns : list
        The labels of the columns, without levels that are the same for all, or their
        numbers.
    named : bool
        Whether the columns have labels.
    index : index or None
        The labels of the rows, if they are in memory.
    sample_weight : ndarray of shape (n_periods,), dask collection or None
        The weights of the periods.
    name : str
        The name of the returns in messages.
    """

    given: Any
    values: Any
    shape: tuple
    dtype: Any
    columns: list
    named: bool
    index: Any = None
    sample_weight: Any = None
    name: str = "X"

    @classmethod
    def of(
        cls,
        X,
        sample_weight=None,
        *,
        least=1,
        counts=None,
        all_zero=False,
        name="X",
        missing=False,
        mapped=True,
    ):
        """The checked returns of at least some periods. An error names the columns with
        invalid values.

        The labels of the rows must not descend, and must ascend if the order
        ``counts``; None allows any order. All weights may be 0 only if ``all_zero``.
        ``missing`` allows NaN. With it or without ``mapped`` the returns of a file are
        loaded into memory.
        """
        if is_dask(X):
            return cls._of_dask(X, sample_weight, counts)
        if is_table(X):
            _check_columns(X, name)
        values = MappedRows.of(X) if mapped and not missing else X
        if not isinstance(values, MappedRows) or len(values) < least:
            check_numeric(name, X)
            with naming(name):
                values = check_array(
                    X,
                    dtype=[np.float64, np.float32],
                    ensure_all_finite=False,
                    ensure_min_samples=least,
                    input_name=name,
                )
            if isinstance(values, np.memmap):
                values = np.asarray(values)
        labels, index = assets_of(X), index_of(X)
        table = cls(
            X,
            values,
            values.shape,
            values.dtype,
            labels or list(range(values.shape[1])),
            labels is not None,
            index,
            name=name,
        )
        if table.in_memory and not missing:
            table.check_finite()
        if counts is not None:
            check_direction(table.index, counts, name)
            _refuse_dates_twice(table.index, name)
        if sample_weight is not None:
            check_row_labels({"X": X, "sample_weight": sample_weight})
            table.sample_weight = row_weights(
                sample_weight, len(values), all_zero, where="for period"
            )
        return table

    @classmethod
    def _of_dask(cls, X, sample_weight, counts):
        """The returns of a dask collection, which stay where they are."""
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
        dtype = X.dtype if floats else np.dtype(float)
        if counts and frame and not X.known_divisions:
            check_partitions(X)
        shape, columns = (None, X.shape[1]), assets_of(X) or list(range(X.shape[1]))
        return cls(X, X, shape, dtype, columns, frame, None, sample_weight)

    @property
    def in_memory(self):
        """Whether the returns are an array."""
        return isinstance(self.values, np.ndarray)

    @property
    def in_dask(self):
        """Whether the returns are a dask collection."""
        return self.shape[0] is None

    @property
    def named_columns(self):
        """What scikit-learn reads the names and the number of the columns from."""
        return without_rows(self.given) if self.in_dask else self.given

    # checks

    def check_finite(self):
        """Raise a ValueError that names the columns with returns that are not finite,
        and says what to do."""
        remedy = (
            f"({self.name}[numpy.isfinite({self.name}).all(axis=1)], or "
            f"{self.name}.dropna() for NaN in a DataFrame) or such columns"
        )
        check_finite(
            self.name,
            "finite returns",
            [(0, self.values)] if self.in_memory else blocks(self.values),
            self.given,
            f"Leave out such periods {remedy}",
        )

    def last_label(self, after):
        """The label of the last row, which continues from that of the period before.

        It is ``after``, the label of the period before, or None, if the rows have no
        labels that can be ordered. An index that only counts rows is compared, but not
        returned.
        """
        index = self.index
        if check_direction(index, counts=True) is None:
            return after
        if after is not None:
            joined = direction_of(index.insert(0, after))
            if joined != "ascending" and not (joined is None and counts_rows(index)):
                raise ValueError(
                    "X must have its periods in ascending order over all chunks, but "
                    f"its first row has the label {as_text(index[0])}, and the last "
                    f"row of the chunk before has {as_text(after)}: give chunks from "
                    "the oldest to the latest, with labels of one kind"
                )
        return after if counts_rows(index) else index[-1]

    def warn_of_prices(self, rows=None):
        """Warn if the returns look like prices. ``rows`` are the first ones of returns
        in blocks."""
        if looks_like_prices(self.values if rows is None else rows):
            warn(
                "X looks like prices, not returns: most columns have one sign, and "
                "differ little from one period to the next. The returns of prices p "
                "are p[1:] / p[:-1] - 1 (in pandas p.pct_change().dropna()). If X does "
                "hold returns, such as interest rates, you can ignore this warning"
            )

    # what a portfolio is fitted on

    def for_fit(self, in_blocks, benchmark, expected_returns, half_life):
        """The returns of a fit, in blocks or in memory, and the weights of the periods,
        or None. Warns if they look like prices."""
        given = benchmark, expected_returns, half_life
        if not in_blocks:
            self.warn_of_prices()
            return self.excess(*given)
        rows = self.in_blocks(*given)
        self.warn_of_prices(rows.head())
        return rows, None

    def returns_of(self, weights):
        """The portfolio's return in each period, a lazy array for a dask collection."""
        if self.in_dask:
            return returns_lazily(self.given, weights)
        if not self.in_memory:
            self.check_finite()
        return self.values @ weights

    def in_blocks(self, benchmark=None, expected_returns=None, half_life=None):
        """The returns of `excess` and the weights of the periods as `Rows`, in
        blocks."""
        rows = Rows(self, half_life, benchmark)
        if expected_returns is not None:
            means = self.expected_means(expected_returns)
            rows.shift_to(means, self._own_forecast(benchmark, expected_returns))
        return rows

    def excess(self, benchmark=None, expected_returns=None, half_life=None):
        """The returns, shifted to the expected means, with the benchmark's, if any, as
        a last column; and the weights of the periods, or None.

        A benchmark of given returns keeps its mean, unless there is a forecast of its
        name. Weights halve every ``half_life`` periods before the last.
        """
        returns, p = self.values, self.sample_weight
        if not self.in_memory:
            self.check_finite()
        if half_life is not None:
            fading = 0.5 ** (np.arange(self.shape[0])[::-1] / half_life)
            p = fading if p is None else p * fading
        given = {"expected_returns": expected_returns, "benchmark": benchmark}
        given = [name for name, value in given.items() if value is not None]
        if not given:
            return returns, p
        if type(returns) is not np.ndarray:
            raise ValueError(
                f"{given[0]} needs returns that are an array in memory, got "
                f"{type(returns).__name__}: take solver='auto', which fits a file too, "
                "or load them"
            )
        if expected_returns is None:
            return self._with_benchmark(returns, benchmark), p
        means = self.expected_means(expected_returns)

        def shifted(returns, means):
            return returns + (means - np.average(returns, axis=0, weights=p))

        table = self._with_benchmark(shifted(returns.astype(float), means), benchmark)
        own = self._own_forecast(benchmark, expected_returns)
        if own is not None:
            table[:, -1] = shifted(table[:, -1], own)
        return table, p

    def _with_benchmark(self, returns, benchmark):
        """The returns with the benchmark's, if any, as a last column."""
        if benchmark is None:
            return returns
        value, weighs = self.benchmark_values(benchmark, len(returns))
        value = returns @ value if weighs else value
        return np.column_stack([returns, value]).astype(returns.dtype)

    def benchmark_values(self, benchmark, n):
        """The benchmark's weights of shape (n_assets,) and True, or its returns of
        shape (n,) and False."""
        columns, d = self.columns, self.shape[1]
        place = column_of(benchmark, columns)
        if place is not None:
            return np.eye(d)[place], True
        rows = None if self.index is None else list(self.index)
        value, weighs = None, None
        if is_series(benchmark):
            value = rows_of_benchmark(benchmark, columns, self.named, rows, n)
            weighs = None if value is None else False
        if value is None:
            # weights of other assets are part of a benchmark
            value = aligned("benchmark", benchmark, columns, extra=False)
            weighs = None if value is benchmark else True
        value = as_numbers("benchmark", value)
        if value.shape not in ((n,), (d,)):
            raise ValueError(
                f"benchmark must be the label of a column of X, returns of shape ({n},)"
                f" or weights of shape ({d},), got {short(benchmark)} of shape "
                f"{value.shape}"
            )
        if n == d and weighs is None:
            raise ValueError(
                "benchmark can be read as returns or as weights if there are as many "
                f"periods as assets, here {n}: give it labels, or make returns a "
                "column of X"
            )
        weighs = len(value) == d if weighs is None else weighs
        kind, labels = ("column", columns) if weighs else ("row", rows)
        _check_all_finite("benchmark", value, kind, labels)
        return value, weighs

    def expected_means(self, expected):
        """The parameter ``expected_returns`` as an array of shape (n_assets,)."""
        n_assets = self.shape[1]
        means = aligned_numbers("expected_returns", expected, self.columns)
        if means.shape != (n_assets,):
            raise ValueError(
                f"expected_returns must have one number for each of the {n_assets} "
                "assets, as an array, a dict or a Series,"
                f" got {short(expected)} of shape {means.shape}"
            )
        _check_all_finite("expected_returns", means, "column", self.columns)
        return means

    def _own_forecast(self, benchmark, expected):
        """The expected mean of a benchmark whose returns are given as a Series, by its
        name, or None."""
        if not is_series(benchmark):
            return None
        if self.named and not set(self.columns).isdisjoint(benchmark.index):
            return None
        own = by_label(expected).get(getattr(benchmark, "name", None))
        return None if own is None else as_numbers("expected_returns", own)


def check_direction(index, counts, name="X"):
    """The direction of an index. Raises a ValueError if it descends, or is unordered
    and the order ``counts``."""
    direction = direction_of(index)
    if direction == "descending" or (direction in UNORDERED and counts):
        raise ValueError(
            f"{name} must have its periods in ascending order, from the oldest to the "
            "latest, but the labels of its rows "
            f"{UNORDERED.get(direction, 'descend')}. {name}.sort_index() sorts dates "
            "and numbers. Convert texts by pandas.to_datetime before"
        )
    return direction


def _refuse_dates_twice(index, name):
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
        f"{name} must have each date once, got {len(twice)} of them more than once, "
        f"such as {', '.join(map(as_text, twice[:3]))}. X[~X.index.duplicated()] keeps "
        "the first row of each, and X.reset_index(drop=True) all, without dates"
    )


def check_partitions(X):
    """`check_direction` of a dask frame, by the first and the last label of each
    partition."""
    parts = [part for part in of_partitions(_ends, X) if len(part)]
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
    # few returns could look like prices by chance; the others raise an error later
    if n < 15 or not np.isfinite(X).all():
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


def _check_columns(X, name="X"):
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
            f"{name} must be all numbers, but column {columns_of(X)[j]!r} holds "
            f"{dtype}{of}. Drop it, or keep it as the index, before the fit"
        )


def _counts(kind):
    """Whether objects of this type are numbers or missing values."""
    numbers = Real, Decimal, np.number, np.bool_, type(None)
    return issubclass(kind, numbers) or kind.__name__ == "NAType"


def column_of(benchmark, columns):
    """The number of the column that the benchmark names, or None if the benchmark is
    not a label."""
    if isinstance(benchmark, tuple):  # a label of several levels, or values
        may_be_values = not any(isinstance(part, str) for part in benchmark)
    else:
        if np.ndim(benchmark) or isinstance(benchmark, (bool, np.bool_, Mapping)):
            return None
        may_be_values = benchmark is None
    if benchmark not in columns:
        if may_be_values:
            return None
        raise ValueError(
            "benchmark must be the label of a column of X, returns of shape "
            "(n_periods,) or weights of shape "
            f"(n_assets,), got {benchmark!r} and columns {columns[:10]}"
        )
    return columns.index(benchmark)


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
