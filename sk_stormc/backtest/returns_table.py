"""The table of returns that a walk goes through: as estimators are fitted on it, and as
fractions."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sk_stormc.portfolio.returns import Returns
from sk_stormc.utils.frames import as_text
from sk_stormc.utils.types import FloatArray

__all__ = ["UNITS", "ReturnsTable"]

UNITS = ("fractions", "percent", "log")


@dataclass(frozen=True)
class ReturnsTable:
    """Returns with a row for each period. Rows and columns have the labels of a
    DataFrame, or their numbers.

    ``data`` is what estimators are fitted on, in the user's unit except for log
    returns, and ``fractions`` are the returns as fractions, with NaN where they are
    missing.
    """

    data: Any
    fractions: FloatArray
    unit: str
    rows: Any
    given: Returns
    labelled: bool

    @classmethod
    def of(cls, returns, unit, periods_per_year):
        """The table of an array, or of a data frame of pandas, polars, pyarrow or dask.
        Errors name the returns."""
        for convert in ("compute", "to_pandas"):  # of dask, and of polars and pyarrow
            returns = getattr(returns, convert, lambda given=returns: given)()
        given = Returns.of(returns, least=2, counts=True, name="returns", missing=True)
        labelled, values = given.index is not None, given.values.astype(float)
        rows = given.index if labelled else np.arange(len(values))
        data = returns if labelled else values
        table = cls(data, values, unit, rows, given, labelled)
        table._refuse(
            "must be finite", np.isinf(values), "leave it missing (NaN), or fill it in"
        )
        if unit is None:
            table._check_size(periods_per_year)
        if unit == "log":
            data, fractions = np.expm1(data), np.expm1(values)
            return replace(table, data=data, fractions=fractions, unit="fractions")
        return replace(table, fractions=table.in_fractions(values))

    @property
    def columns(self):
        """The labels of the columns, or their numbers."""
        return self.given.columns

    def in_fractions(self, values):
        """Values in the unit of ``data`` as fractions."""
        return values / 100 if self.unit == "percent" else values

    def window(self, start, stop, without=None):
        """The rows of ``data`` from ``start`` to ``stop``, of the columns of
        `complete`, and the places of these."""
        places = self.complete(start, stop, without)
        data = self.data.iloc[start:stop] if self.labelled else self.data[start:stop]
        if len(places) == len(self.columns):
            return data, places
        if self.labelled:
            return data.iloc[:, places], places
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise ImportError(
                "an array with missing returns needs pandas, which labels its columns"
            ) from error
        # the numbers of the columns stay their labels: without them, other assets would
        # take their parameters
        return DataFrame(data[:, places], columns=places), places

    def complete(self, start, stop, without=None):
        """The places of the columns without missing returns in some rows, and without
        one of them."""
        complete = ~np.isnan(self.fractions[start:stop]).any(axis=0)
        if without is not None:
            complete[without] = False
        return np.flatnonzero(complete)

    def incomplete(self, start, stop):
        """The labels of the columns with missing returns in some rows."""
        return self.labels(
            np.flatnonzero(np.isnan(self.fractions[start:stop]).any(axis=0))
        )

    def labels(self, places):
        """The labels of columns."""
        return [self.columns[k] for k in places]

    def by_label(self, found):
        """A dict by row with the labels of the rows, without empty values."""
        return {self.label(row): value for row, value in found.items() if value}

    def label(self, row):
        """The label of a row, or its number in an array."""
        return self.rows[row] if self.labelled else int(row)

    def row_text(self, row):
        """A row in a message."""
        return f"row {as_text(self.label(row))}"

    def by_row(self, values, rows, name=None):
        """Values for some rows as a Series, or for all columns too as a DataFrame, if
        the table is a DataFrame."""
        if not self.labelled:
            return values
        from pandas import DataFrame, Series

        index = self.rows[rows]
        if np.ndim(values) == 2:
            return DataFrame(values, index=index, columns=self.data.columns)
        return Series(values, index=index, name=name)

    def benchmark(self, value, first):
        """The returns of a benchmark as fractions, from the row ``first`` on."""
        values = np.asarray(self.data, dtype=float)
        tables = [
            replace(self.given, values=np.nan_to_num(values, nan=filled)).excess(value)
            for filled in (0.0, 1.0)
        ]
        returns, others = (table[first:, -1] for table, _ in tables)
        missing = returns != others  # what a missing return is filled with matters
        if missing.any():
            row = self.row_text(first + int(np.argmax(missing)))
            raise ValueError(
                "benchmark must have a return in each period that is held, got NaN "
                f"for {row}"
            )
        return self.in_fractions(returns)

    def _check_size(self, periods_per_year):
        """Raise a ValueError for values that can hardly be fractions."""
        count = (~np.isnan(self.fractions)).sum(axis=0)
        if not count.any():
            raise ValueError("returns must have values, but all of them are missing")
        with np.errstate(over="ignore"):
            squares = np.nansum(np.square(self.fractions), axis=0)
        squares = squares[count > 0] / count[count > 0]
        typical = math.sqrt(periods_per_year * float(np.median(squares)))
        if typical > 3.0:  # 300% a year
            raise ValueError(
                "returns must be fractions (0.01 is one percent), but "
                f"{typical / math.sqrt(periods_per_year):.3g} a period, their typical "
                f"size, is {typical:.0%} a year with "
                f"periods_per_year={periods_per_year:g}. Pass unit='percent' for "
                "percents. The returns of prices p are p[1:] / p[:-1] - 1. "
                "unit='fractions' takes any size"
            )
        self._refuse(
            "must be fractions (0.01 is one percent)",
            self.fractions < -1,
            "nothing can lose more than all of it. Pass unit='percent' for percents "
            "and unit='log' for logarithmic returns. unit='fractions' takes any size",
        )

    def _refuse(self, expected, wrong, advice):
        """Raise a ValueError that names the first wrong value, if there is one."""
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            raise ValueError(
                f"returns {expected}, got {self.fractions[row, place]:.4g} in column "
                f"{self.columns[place]!r} for {self.row_text(row)}: {advice}"
            )
