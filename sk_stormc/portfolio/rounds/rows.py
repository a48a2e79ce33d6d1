"""The returns of all periods in blocks, with the weights of the periods and the returns
of a benchmark."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from sk_stormc.utils.arrays import all_finite
from sk_stormc.utils.blocks import (
    as_array,
    blocks_of,
    check_finite_rows,
    is_dask,
    map_lazily,
)
from sk_stormc.utils.frames import columns_of, row_labels
from sk_stormc.utils.rows import check_not_negative, check_weights

__all__ = ["Rows", "returns_lazily", "uniform"]


@dataclass
class ReturnsReader:
    """Makes float64 returns and weights of periods, of sum 1, of the tables of a
    block."""

    n_rows: int
    weighted: bool  # whether the second table has the weights of the periods
    half_life: float | None
    # weights of the benchmark, whose return is then the last column
    benchmark: np.ndarray | None
    has_returns: bool  # whether the last table has the benchmark's returns
    total: float = 1.0  # of the weights
    # added to the returns of each period, for forecasts of their means
    shift: np.ndarray | None = None
    own_shift: float = 0.0  # added to the benchmark's returns

    def __call__(self, start, X, *more):
        """The returns, and the weights."""
        more, rows = list(more), np.asarray(X, float)
        if self.shift is not None:
            rows = rows + self.shift
        p = self.weights(start, len(rows), more.pop(0) if self.weighted else None)
        if self.benchmark is not None:
            rows = np.column_stack([rows, rows @ self.benchmark])
        elif self.has_returns:
            rows = np.column_stack([rows, np.asarray(more[0], float) + self.own_shift])
        return rows, p / self.total

    def weights(self, start, n, of_rows=None):
        """The weights of the n periods from ``start`` on, not divided by their sum."""
        p = np.ones(n) if of_rows is None else np.array(of_rows, float)
        if self.half_life is not None:
            p *= 0.5 ** ((self.n_rows - 1 - start - np.arange(n)) / self.half_life)
        return p


class Rows:
    """Returns of periods in blocks of rows.

    Parameters
    ----------
    table : Returns
    half_life : float, default=None
    benchmark : object, default=None
        As for `CompositionalPortfolio`.
    """

    def __init__(self, table, half_life=None, benchmark=None):
        returns, sample_weight = table.values, table.sample_weight
        for name, beside in (
            ("sample_weight", sample_weight),
            ("benchmark", benchmark),
        ):
            if is_dask(beside) and beside.ndim != 1:
                raise ValueError(
                    f"{name} of dask must be one number for each period, got shape "
                    f"{beside.shape}"
                )
        d = returns.shape[1]
        if table.in_dask:
            names = [*table.columns, "benchmark"]
            self._check = partial(check_finite_rows, "X", columns=names)
        else:  # names the row of the file

            def check(rows):
                table.check_finite()

            self._check = check
        self._checked = type(returns) is np.ndarray  # which is checked in memory
        value, weighs = benchmark, benchmark is None
        if benchmark is not None and not is_dask(benchmark):
            n = blocks_of(returns).n_rows
            value, weighs = table.benchmark_values(benchmark, n)
        self._blocks = blocks_of(
            returns,
            sample_weight,
            None if weighs else value,
            names=("X", "sample_weight", "benchmark"),
            # those in memory are aligned with the rows of a table in memory
            labels={"benchmark": row_labels(benchmark)},
        )
        n = self._blocks.n_rows
        if n < 2:
            raise ValueError(f"X must have at least 2 periods, got {n}")
        if sample_weight is not None and not is_dask(sample_weight):
            check_weights(sample_weight, n, "for period")
        self.shape = n, d + (value is not None)
        self.in_dask = table.in_dask
        self._reader = ReturnsReader(
            n,
            sample_weight is not None,
            half_life,
            value if weighs else None,
            not weighs,
        )
        self._reader.total = self._total(sample_weight)

    def __len__(self):
        return self.shape[0]

    def _total(self, sample_weight):
        reader, n = self._reader, len(self)
        if sample_weight is not None:

            def total(start, p):
                check_not_negative(p, "for period", start)
                return reader.weights(start, len(p), p).sum()

            return float(blocks_of(sample_weight).sum(total))
        if reader.half_life is None:
            return float(n)
        ratio = 0.5 ** (1 / reader.half_life)
        return float(n) if ratio == 1 else (1 - ratio**n) / (1 - ratio)

    def sum(self, function, *kept):
        """Add up ``function(start, rows, p, *kept)`` over the blocks."""
        n_kept, reader, blocks = len(kept), self._reader, self._blocks
        for other in kept:
            blocks = blocks.beside(other)

        def of_block(start, *tables):
            split = len(tables) - n_kept
            return function(start, *reader(start, *tables[:split]), *tables[split:])

        return blocks.sum(of_block)

    def first_sum(self, function):
        """`sum`, with an error for returns that are not finite."""
        if self._checked:
            return self.sum(function)
        self._checked, check = True, self._check

        def of_block(start, rows, p):
            if not all_finite(rows):
                check(rows)
            return function(start, rows, p)

        return self.sum(of_block)

    @cached_property
    def mean(self):
        """The mean return of each column."""
        return self.first_sum(lambda start, rows, p: p @ rows)

    def shift_to(self, means, own=None):
        """Shift the returns of the assets, and those of the benchmark if ``own`` is not
        None, to these means."""
        reader, mean = self._reader, self.mean
        reader.shift = means - mean[: len(means)]
        reader.own_shift = 0.0 if own is None else own - mean[-1]
        del self.mean

    def head(self, n=1000):
        """The first n returns, without the benchmark's, as an array."""
        return self._blocks.take(np.arange(min(n, len(self))))[0]

    def returns_of(self, w):
        """The portfolio's return in each period and the period's weight, as blocks of
        shape (n_rows, 2)."""
        reader = self._reader

        def of_block(start, *tables):
            rows, p = reader(start, *tables)
            return np.column_stack([rows @ w, p])

        return self._blocks.map(of_block)


def returns_lazily(X, weights):
    """The portfolio's return in each period of a dask collection, as a dask array."""
    columns = columns_of(X)

    def of_partition(part):
        rows = as_array(part)
        check_finite_rows("X", rows, columns)
        return rows @ weights

    return map_lazily(of_partition, X, dtype=weights.dtype)


def uniform(start, n):
    """Numbers in [0, 1) that depend on the numbers start, start + 1, ... of rows alone
    (SplitMix64)."""
    z = np.arange(start + 1, start + n + 1, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
