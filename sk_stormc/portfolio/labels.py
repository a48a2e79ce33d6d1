"""Alignment of labelled values with the columns and the rows of the returns."""

import sys
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

import numpy as np

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.frames import as_text, columns_of, is_series, is_table
from sk_stormc.utils.parameters import short

__all__ = [
    "aligned",
    "aligned_numbers",
    "assets_of",
    "by_label",
    "default_of",
    "listed",
    "refuse_no_match",
    "rows_of_benchmark",
    "series_of",
    "with_index_of",
]


def assets_of(X):
    """The labels of the columns of a table, without levels that are the same for all;
    None for an array."""
    return _varying(columns_of(X))


def _varying(labels):
    """Labels such as ("Close", "AAPL") without the levels that are the same for all of
    them."""
    lengths = {isinstance(label, tuple) and len(label) for label in labels or ()}
    if len(lengths) != 1 or False in lengths:
        return labels
    levels = zip(*labels, strict=True)
    kept = [k for k, level in enumerate(levels) if len(set(level)) > 1]
    # none for a single column
    return list(map(itemgetter(*kept), labels)) if kept else labels


def by_label(value):
    """The values by their labels, or an empty dictionary if there are no labels."""
    labels, values = _labels_and_values(value)
    return {} if labels is None else dict(zip(labels, values, strict=True))


def aligned(name, value, columns, extra=True):
    """Align a Series, mapping or frame of one row with the columns, as an array; return
    anything else unchanged."""
    labels, values = _labels_and_values(value)
    if labels is None:
        return value
    labels = labels if set(labels) & set(columns) else _varying(labels)
    _refuse_twice(name, "label or column of X", columns, labels)
    by_label = dict(zip(labels, values, strict=True))
    assets, default = set(columns), default_of(value)
    missing = [column for column in columns if not (default or column in by_label)]
    unknown = [label for label in labels if label not in assets]
    if missing or (unknown and not extra):
        wrong = [f"has nothing for {listed(missing)}"] * bool(missing)
        wrong += [f"is labelled {listed(unknown)}, which X does not have"] * bool(
            unknown
        )
        raise ValueError(
            f"{name} must have the columns of X as its labels, but "
            f"{' and '.join(wrong)}. An array without labels is taken by position"
        )
    refuse_no_match(name, labels, assets)
    return np.array(
        [by_label[column] if column in by_label else default() for column in columns]
    )


def aligned_numbers(name, value, columns):
    """`aligned`, as an array of numbers that are not booleans."""
    values = aligned(name, value, columns)
    if any(
        isinstance(part, (bool, np.bool_)) for part in np.array(values, object).flat
    ):
        raise ValueError(f"{name} must be numbers, got {short(value)}")
    return as_numbers(name, values)


def refuse_no_match(name, labels, assets):
    """Raise a ValueError if there are labels and none of them is a column: they are
    then probably misspelt."""
    if labels and not any(label in assets for label in labels):
        raise ValueError(
            f"{name} must be labelled by columns of X, but is labelled "
            f"{listed(labels)}, which X does not have"
        )


def default_of(value):
    """The default factory of a `collections.defaultdict`, or None."""
    return (
        getattr(value, "default_factory", None) if isinstance(value, Mapping) else None
    )


def rows_of_benchmark(series, columns, named, rows, n_rows):
    """The returns of a benchmark that is a Series at the rows of X, or None if its
    labels are those of the columns."""
    labels = list(series.index)
    by_column = set(labels) == set(columns)
    by_row = len(labels) == n_rows if rows is None else set(rows) <= set(labels)
    if by_column and by_row:
        raise ValueError(
            "benchmark has labels that can be read as rows and as columns of X, here "
            f"{listed(labels)}: use names for the columns, or dates for the rows"
        )
    if by_column or (named and not set(columns).isdisjoint(labels)):
        return None
    if rows is None and not by_row:
        raise ValueError(
            f"benchmark is a Series of length {len(labels)}, which cannot be aligned "
            f"with X, whose {n_rows} rows have no "
            "labels: give X as a DataFrame with the same index"
        )
    if rows is None:
        return series.to_numpy()
    _refuse_twice("benchmark", "label", labels)
    place = {label: k for k, label in enumerate(labels)}
    if not by_row:
        missing = [label for label in dict.fromkeys(rows) if label not in place]
        raise ValueError(
            "benchmark is a Series, which is aligned with the index of X, but has "
            "nothing for the rows "
            f"{listed(missing)}. An array without labels is taken by position"
        )
    return series.to_numpy()[[place[label] for label in rows]]


def _refuse_twice(name, what, *several):
    twice = [
        label
        for labels in several
        for label, count in Counter(labels).items()
        if count > 1
    ]
    if twice:
        raise ValueError(
            f"{name} has labels, so that no {what} may be there twice, got "
            f"{listed(twice)}"
        )


def _labels_and_values(value):
    if isinstance(value, Mapping):
        return list(value), list(value.values())
    if is_table(value) and len(value) == 1:
        return list(value.columns), list(np.asarray(value)[0])
    if is_series(value):
        return list(value.index), list(value.to_numpy())
    return None, None


def listed(labels, most=10):
    """The first labels as text, and the number of the others."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(map(as_text, labels[:most])) + more


def series_of(portfolio):
    """The weights of a fitted portfolio as a pandas Series with the labels of the
    columns."""
    labels = getattr(portfolio, "feature_names_in_", vars(portfolio).get("_labels"))
    if labels is None or len(labels) != len(portfolio.weights_):
        raise ValueError(
            "named_weights needs returns whose columns have names, such as a pandas "
            "DataFrame; those of the last fit "
            "had none. weights_ has the weights in the order of the columns"
        )
    try:
        from pandas import Series
    except ImportError as error:
        raise ImportError(
            "named_weights returns a pandas Series: install pandas, or use weights_"
        ) from error
    return Series(portfolio.weights_, index=labels, name="weight")


def with_index_of(X, returns):
    """Returns of periods as a pandas Series with the index of X, if it is a pandas
    DataFrame, and otherwise as they are."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return returns
    return pandas.Series(returns, index=X.index, name="return")
