"""Validation of returns, column by column."""

from decimal import Decimal
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_array

from sk_stormc.streams.mapped import MappedRows, blocks
from sk_stormc.utils.frames import column, columns_of, is_table
from sk_stormc.utils.numeric import refuse_no_numbers
from sk_stormc.utils.validation import naming
from sk_stormc.utils.warnings import warn

__all__ = ["check_returns", "warn_of_prices"]

FEWEST, MOST = 60, 1000  # smallest and largest number of periods from which prices are recognised


def check_returns(X, **kwargs):
    """Convert returns to a float array. An error names the columns that are not numeric or not finite.

    Parameters
    ----------
    X : array-like of shape (n_periods, n_assets)
        A pandas or polars frame has named columns.
    **kwargs
        Further arguments of `sklearn.utils.check_array`.

    Returns
    -------
    ndarray or MappedRows of shape (n_periods, n_assets)
        float32 stays float32. Everything else becomes float64.

    Raises
    ------
    ValueError
        If a column has dates, text or anything else that is not a number, or if there are NaN or infinite entries.
    """
    names = np.empty(0, object)
    if is_table(X):
        names = np.array([*columns_of(X), None], dtype=object)[:-1]  # None: tuples stay labels
        _check_columns(X, names)
    returns = MappedRows.of(X)
    if not isinstance(returns, MappedRows) or len(returns) < kwargs.get("ensure_min_samples", 1):
        refuse_no_numbers("X", X)
        with naming("X"):
            returns = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False, input_name="X", **kwargs)
    finite, nan = np.ones(1, dtype=bool), False
    for _, block in blocks(returns):
        with np.errstate(all="ignore"):
            if np.isfinite(block.sum()):  # then all entries are finite; this takes a third of the time
                continue
        good = np.isfinite(block)
        finite = finite & good.all(axis=0)
        nan |= not good.all() and np.isnan(block).any()
    if not finite.all():
        wrong = np.flatnonzero(~finite)
        found = "NaN" if nan else "infinity (inf)"
        where = [names[j] if len(names) else int(j) for j in wrong[:10]]
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise ValueError(
            f"X must be finite returns, got {found} in column{'s' * (len(wrong) > 1)} {where}{more}"
        )
    return returns


def warn_of_prices(returns):
    """Warn if X looks like prices: all numbers are positive and, in most columns, close to those of the last period.

    Returns differ more from one period to the next than from their mean, even if 1 was added to them.
    """
    first = np.asarray(returns[:MOST], dtype=float)
    if len(first) < FEWEST or not (first > 0).all():
        return
    largest = first.max(axis=0)  # scaling avoids overflow of the squares
    first = first / largest  # not in place, because the array may be the caller's
    steps, spread = np.square(np.diff(first, axis=0)).mean(axis=0), first.var(axis=0)
    if np.median(np.divide(steps, spread, out=np.full_like(spread, 2.0), where=spread > 0)) < 0.5:
        warn(
            "X looks like prices, not returns: all numbers are positive, and most differ little from those of the "
            "period before. The returns of prices p are p[1:] / p[:-1] - 1 (in pandas p.pct_change().dropna()). If X "
            "does hold returns, such as interest rates, you can ignore this warning"
        )


def _check_columns(X, names):
    """Raise a ValueError for the first column of a frame that is not numeric. Dates are not converted to numbers."""
    for j, dtype in enumerate(X.dtypes):
        if _is_number(dtype):
            continue
        strange = [kind for kind in set(map(type, np.asarray(column(X, j), dtype=object))) if not _counts(kind)]
        if strange or getattr(dtype, "kind", "O") != "O":
            found = f" of {strange[0].__name__}" if strange and str(dtype) == "object" else ""
            raise ValueError(
                f"X must be returns, all numbers, but column {names[j]!r} holds {dtype}{found}. Drop it, or keep it as "
                "the index, before the fit"
            )


def _is_number(dtype):
    if hasattr(dtype, "is_numeric"):  # polars
        return dtype.is_numeric() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiub"


def _counts(kind):
    """Whether objects of this type are numbers or missing values."""
    return issubclass(kind, (Real, Decimal, np.number, np.bool_, type(None))) or kind.__name__ == "NAType"
