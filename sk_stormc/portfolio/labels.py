"""Alignment of labelled values, one for each asset, with the columns of the returns."""

from collections.abc import Mapping

import numpy as np

from sk_stormc.utils.frames import is_series, is_table

__all__ = ["aligned", "is_labelled", "series_of"]

SHOWN = 10  # labels that an error message lists


def is_labelled(value, columns):
    """Whether a value has labels, at least one of which is the label of a column."""
    found = _labels_and_values(value)
    return found is not None and any(label in set(columns) for label in found[0])


def aligned(name, value, columns, n_assets):
    """Align a labelled value with the columns.

    Parameters
    ----------
    name : str
        Name of the value in error messages.
    value : object
        A pandas Series, a mapping, or a frame of one row has labels, and is put in the order of the columns. Anything
        else is returned unchanged.
    columns : list or None
        Labels of the columns. None means 0, 1, and so on.
    n_assets : int

    Returns
    -------
    object
        An ndarray of shape (n_assets,) for a value with labels.

    Raises
    ------
    ValueError
        If the labels are not exactly those of the columns, or a label occurs twice.
    """
    found = _labels_and_values(value)
    if found is None:
        return value
    labels, values = found
    columns = list(range(n_assets)) if columns is None else columns
    twice = [label for among in (columns, labels) for label in dict.fromkeys(among) if among.count(label) > 1]
    if twice:
        raise ValueError(f"{name} has labels, so that no label or column of X may be there twice, got {_some(twice)}")
    missing = [column for column in columns if column not in set(labels)]
    unknown = [label for label in labels if label not in set(columns)]
    if missing or unknown:
        wrong = [f"has nothing for {_some(missing)}"] * bool(missing)
        wrong += [f"is labelled {_some(unknown)}, which X does not have"] * bool(unknown)
        raise ValueError(
            f"{name} must have the columns of X as its labels, but {' and '.join(wrong)}. "
            "An array without labels is taken by position"
        )
    place = {label: k for k, label in enumerate(labels)}
    return np.array([values[place[column]] for column in columns])


def _labels_and_values(value):
    if isinstance(value, Mapping):
        return list(value), list(value.values())
    if is_table(value) and len(value) == 1:
        return list(value.columns), list(np.asarray(value)[0])
    if is_series(value):
        return list(value.index), list(value.to_numpy())
    return None


def _some(labels):
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return ", ".join(map(repr, labels[:SHOWN])) + more


def series_of(portfolio):
    """The weights of a fitted portfolio as a pandas Series with the names of the columns."""
    if not hasattr(portfolio, "feature_names_in_"):
        raise ValueError(
            "named_weights needs returns whose columns have names (strings), such as a pandas DataFrame; those "
            "of the last fit had none. weights_ has the weights in the order of the columns"
        )
    try:
        from pandas import Series
    except ImportError as error:
        raise ImportError("named_weights returns a pandas Series: install pandas, or use weights_") from error
    return Series(portfolio.weights_, index=portfolio.feature_names_in_, name="weight")
