"""Returns from prices."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.frames import as_text, columns_of, direction_of, index_of, is_table
from sk_stormc.utils.parameters import check_choice, naming, short
from sk_stormc.utils.rows import check_numeric
from sk_stormc.utils.warnings import warn

__all__ = ["returns_from_prices"]

SPLIT = 1.8  # factor of a return from which it may be a split
NAMED = 3  # most assets or dates that a message names


def returns_from_prices(prices: Any, missing: str = "raise") -> Any:
    """Simple returns p[t] / p[t - 1] - 1 of prices.

    Use prices with dividends ("adjusted close"); the returns of others omit a part of
    the earnings. Simple returns are those that `CompositionalPortfolio` needs, since
    the return of a portfolio is the weighted sum of them.

    Parameters
    ----------
    prices : DataFrame, Series or array-like of shape (n_periods, n_assets)
        Positive prices, the oldest first. A series or a one-dimensional array has one
        asset.
    missing : {"raise", "drop", "ffill"}, default="raise"
        What is done with missing prices: an error, leave out the rows that have one, or
        take the last known price. With "ffill" rows before the first price of an asset
        are left out.

    Returns
    -------
    returns : DataFrame, Series or ndarray of shape (n_periods - 1, n_assets)
        Of the type of ``prices``, with its labels, and one row fewer or more.

    Raises
    ------
    ValueError
        If a price is missing, infinite or not positive, if the labels of the rows are
        dates that descend, are in no order or occur twice, or if there are fewer than
        two periods. The message names the asset and the date.

    Warns
    -----
    UserWarning
        If a price changes by a factor of more than 1.8 in a period, which may be a
        split; and with "drop" or "ffill", if assets begin later than others.

    See Also
    --------
    make_gaussian_returns : Generated returns.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.datasets import returns_from_prices
    >>> returns_from_prices(np.array([[10.0, 4.0], [11.0, 4.0], [11.0, 5.0]]))
    array([[0.1 , 0.  ],
           [0.  , 0.25]])
    """
    check_choice("missing", missing, ("raise", "drop", "ffill"))
    if is_dask(prices):
        raise ValueError("prices must be in memory, got a dask collection")
    values = _values_of(prices)
    names = columns_of(prices) if is_table(prices) else None
    index = index_of(prices) if is_table(prices) else getattr(prices, "index", None)
    index = None if callable(index) else index  # a list has a method of that name
    _check_dates(index)

    def place(row, j):
        """The asset and the date of a price."""
        asset = "" if names is None else f" of {names[j]!r}"
        where = f"row {row}" if index is None else str(index[row])
        where = where.removesuffix(" 00:00:00")
        return f"{asset or f' of column {j}'} at {where}"

    wrong = np.isinf(values) | (values <= 0)
    if wrong.any():
        row, j = np.argwhere(wrong)[0]
        raise ValueError(
            f"prices must be positive, got {values[row, j]:g}{place(row, j)}"
        )
    kept, filled = np.arange(len(values)), values
    known = ~np.isnan(values)
    if not known.all():
        _check_missing(known, missing, place, names)
        if missing == "ffill":
            last = np.where(known, np.arange(len(values))[:, None], -1)
            last = np.maximum.accumulate(last, axis=0)
            filled = np.take_along_axis(values, np.maximum(last, 0), axis=0)
            kept = np.flatnonzero((last >= 0).all(axis=1))
        else:
            kept = np.flatnonzero(known.all(axis=1))
        filled = filled[kept]
    if len(kept) < 2:
        raise ValueError(
            f"prices must have at least two periods with all prices, got {len(kept)}"
        )
    factors = filled[1:] / filled[:-1]
    jumps = np.argwhere((factors > SPLIT) | (factors < 1 / SPLIT))
    if len(jumps):
        found = [
            f"{factors[row, j]:.3g} times that before{place(kept[row + 1], j)}"
            for row, j in jumps[:NAMED]
        ]
        more = f"; and {len(jumps) - NAMED} more" * (len(jumps) > NAMED)
        warn(
            f"prices may have splits: {'; '.join(found)}{more}. If they are splits, "
            "use adjusted prices"
        )
    return _like(prices, factors - 1, kept[1:])


def _values_of(prices):
    """The prices as floats in two dimensions."""
    one = np.ndim(prices) == 1
    check_numeric("prices", prices)
    values = np.asarray(prices)[:, None] if one else prices
    with naming("prices"):
        return check_array(
            values,
            dtype=np.float64,
            ensure_all_finite=False,
            input_name="prices",
        )


def _check_dates(index):
    """Raise a ValueError for dates that occur twice or do not ascend."""
    if index is None or direction_of(index) is None:
        return
    if direction_of(index) != "ascending":
        raise ValueError(
            "prices must have their periods in ascending order, from the oldest to the "
            f"latest, got the first label {as_text(index[0])} and the last "
            f"{as_text(index[-1])}. prices.sort_index() sorts them"
        )
    if not index.is_unique:
        twice = index[index.duplicated()].unique()
        raise ValueError(
            "prices must have each date once, got twice: "
            f"{', '.join(map(as_text, twice[:NAMED]))}"
        )


def _check_missing(known, missing, place, names):
    """Raise a ValueError for missing prices, or warn of assets that begin later."""
    begins = known.argmax(axis=0)
    late = [j for j in range(known.shape[1]) if begins[j] > 0 or not known[:, j].any()]
    if missing == "raise":
        inside = ~known & (np.arange(len(known))[:, None] >= begins)
        row, j = np.argwhere(inside if inside.any() else ~known)[0]
        what = "is missing" if inside.any() else "is missing, before the asset begins,"
        raise ValueError(
            f"prices must have no missing values, but one {what}{place(row, j)} "
            f"({(~known).sum()} are missing in all). missing='drop' leaves out such "
            "rows, and 'ffill' takes the last price"
        )
    if late:
        labels = [j if names is None else names[j] for j in late]
        warn(
            f"assets begin later than others, which costs up to {begins.max()} rows: "
            f"{short(labels)}. Leave them out for a longer history"
        )


def _like(prices, values, rows):
    """Values in a container like that of the prices, whose labels are those of rows."""
    if hasattr(prices, "iloc"):
        labels = prices.index[rows]
        if values.ndim == 2 and np.ndim(prices) == 1:
            return type(prices)(values[:, 0], index=labels, name=prices.name)
        return type(prices)(values, index=labels, columns=prices.columns)
    if is_table(prices):  # polars, pyarrow
        columns = dict(zip(columns_of(prices), values.T, strict=True))
        make = getattr(type(prices), "from_pydict", type(prices))
        return make(columns)
    return values[:, 0] if np.ndim(prices) == 1 else values
