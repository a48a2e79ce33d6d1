"""The transformer `TableScaler`: numbers from tables with columns of several types."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from sk_stormc.utils.documentation import DocumentationLinkMixin
from sk_stormc.utils.frames import as_text, column, columns_of, is_lazy, is_table
from sk_stormc.utils.parameters import check_int, naming, plain, short
from sk_stormc.utils.types import ArrayLike, FloatArray
from sk_stormc.utils.warnings import warn


class TableScaler(TransformerMixin, DocumentationLinkMixin, BaseEstimator):
    """Convert a table with columns of several types to numbers, in which each column
    has the same weight.

    A map depends on distances between rows. So that no column dominates them, each
    contributes the same variance:

    - Numbers, booleans and durations become one column, with mean 0 and variance 1.
    - Dates do so too, as the time that has passed.
    - Texts and categories become an indicator for each of their values. The mean is
      subtracted from each indicator, and all indicators of a column are divided by the
      root of the sum of their variances.

    A missing value is replaced by the mean of its column, and has no influence on that
    column's mean and variance. If whether a value is missing is informative, add a
    column: ``X.assign(no_cabin=X["cabin"].isna())``.

    skrub's `Cleaner` determines the types: it converts texts that are all dates or all
    numbers, and takes texts such as "N/A" and "?" as missing. Columns of numbers that
    are codes should have the type "category".

    Requires skrub: ``pip install "sk_stormc[tables]"``.

    Parameters
    ----------
    max_categories : int, default=40
        Largest number of different values of a column of texts or categories. A column
        with more is left out, with a warning unless all its values differ, as those of
        names and identifiers do: such a column does not change which rows are
        neighbours.

    Attributes
    ----------
    kinds_ : dict
        "number", "date" or "category" for each column that is used. The keys are the
        names of the columns, or for data without names their numbers.
    left_out_ : dict
        The reason for each column that is left out, such as "one value".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the columns have names, all of which are strings.

    See Also
    --------
    skrub.TableVectorizer : Numbers from tables, without scaling.
    SNEEmbedding : The map.

    Examples
    --------
    >>> import pandas as pd
    >>> from sk_stormc.preprocessing import TableScaler
    >>> X = pd.DataFrame(
    ...     {
    ...         "height": [1.6, 1.8, None, 1.7],
    ...         "eyes": ["blue", "brown", "brown", "green"],
    ...     }
    ... )
    >>> scaler = TableScaler().set_output(transform="pandas")
    >>> scaler.fit_transform(X).round(2)
       height  eyes_blue  eyes_brown  eyes_green
    0   -1.22       0.95       -0.63       -0.32
    1    1.22      -0.32        0.63       -0.32
    2    0.00      -0.32        0.63       -0.32
    3    0.00      -0.32       -0.63        0.95
    """

    def __init__(self, *, max_categories: int = 40) -> None:
        self.max_categories = max_categories

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        of_input = tags.input_tags
        of_input.string = of_input.categorical = of_input.allow_nan = True
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the types, the categories and the scales of the columns.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        ImportError
            If skrub is not installed.
        ValueError
            If there are fewer than two rows, if two columns have the same name, if a
            number is infinite, or if no column has different values.

        Warns
        -----
        UserWarning
            If a column with repeated values is left out, because it has more than
            ``max_categories``.
        """
        check_int("max_categories", self.max_categories, low=1)
        labels, table = _frame_of(X)
        if len(table) < 2:
            raise ValueError(
                f"X must have at least two rows, got n_samples={len(table)}"
            )
        cleaner = _cleaner_class()(parse_numbers=True)
        clean = _cleaned(cleaner.fit_transform, table)
        encoders, left_out, repeated = {}, {}, []
        for j, label in enumerate(labels):
            known = clean[str(j)].dropna() if str(j) in clean else []
            if not len(known):
                left_out[label] = "no values"
                continue
            kind, values = _read(known, label)
            made = _Categories if kind == "category" else _Numbers
            encoder = made(values, kind)
            if encoder.n_values == 1:
                left_out[label] = "one value"
            elif kind == "category" and encoder.n_values > self.max_categories:
                left_out[label] = f"{encoder.n_values} different values"
                repeated += [label] * (encoder.n_values < len(known))
            else:
                encoders[j] = encoder
        if not encoders:
            raise ValueError(
                "X must have a column with different values, got none: "
                f"{short(left_out)}"
            )
        validate_data(self, X, skip_check_array=True)
        self._labels, self._cleaner = labels, cleaner
        self._encoders, self.left_out_ = encoders, left_out
        self.kinds_ = {labels[j]: encoder.kind for j, encoder in encoders.items()}
        if repeated:
            warn(
                f"columns of X with more than {self.max_categories} different texts "
                f"or categories are left out: {short(repeated)}. Leave them out "
                "yourself, encode them before, or increase max_categories",
                UserWarning,
            )
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Convert a table to numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The columns must be those of `fit`, in the same order.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            The columns are those of `get_feature_names_out`.

        Raises
        ------
        ValueError
            If the columns are not those of `fit`, or if a column of numbers or dates
            holds other values.

        Warns
        -----
        UserWarning
            If a column holds a text or category that it did not hold in `fit`, or a
            text that is no number or date in a column of these. Such values are taken
            as missing.
        """
        check_is_fitted(self)
        _, table = _frame_of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        clean, parts = _cleaned(self._cleaner.transform, table), []
        for j, encoder in self._encoders.items():
            label = self._labels[j]
            given = table[str(j)]
            there = clean[str(j)].notna().to_numpy()
            encoded = np.zeros((len(table), len(encoder.endings)))
            unknown = _unread(given[~there])
            if there.any():
                kind, values = _read(clean[str(j)][there], label)
                # skrub would convert numbers to dates
                kind = "number" if given.dtype.kind in "fiub" else kind
                if encoder.kind not in (kind, "category"):
                    first = short(plain(given[there].iloc[0]))
                    raise ValueError(
                        f"column {label!r} of X must hold {encoder.kind}s, as in fit, "
                        f"got {first}"
                    )
                encoded[there], new = encoder.encode(values)
                unknown = [*unknown, *new]
            if len(unknown):
                known = encoder.kind == "category"
                reason = "fit has not seen it" if known else f"it is no {encoder.kind}"
                warn(
                    f"column {label!r} of X holds {short(plain(unknown[0]))}, which "
                    f"is taken as missing, because {reason}",
                    UserWarning,
                )
            parts.append(encoded)
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns of the result.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X, if X had none in `fit`. None means x0, x1 and so
            on.

        Returns
        -------
        ndarray of str
            The name of each column of numbers or dates, and for the others the name and
            the value of each category.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array(
            [
                f"{names[j]}{ending}"
                for j, encoder in self._encoders.items()
                for ending in encoder.endings
            ],
            dtype=object,
        )


def _cleaner_class():
    """skrub's `Cleaner`, which is imported here, because skrub is optional."""
    try:
        from skrub import Cleaner
    except ImportError as error:
        raise ImportError(
            'TableScaler needs skrub: pip install "sk_stormc[tables]"'
        ) from error
    return Cleaner


def _frame_of(X):
    """The labels of the columns, and X as a DataFrame of pandas whose columns are named
    by their numbers."""
    from pandas import DataFrame, Series  # which skrub requires

    if is_lazy(X):
        raise ValueError(
            f"X must be in memory, got a {type(X).__name__}: call its method collect() "
            "first"
        )
    if is_table(X):
        X = X.compute() if hasattr(X, "compute") else X  # of dask
        labels = columns_of(X)
        if len(set(labels)) < len(labels):
            label = next(label for k, label in enumerate(labels) if label in labels[:k])
            raise ValueError(
                f"X must have a name of its own for each column, got {label!r} twice"
            )
        if isinstance(X, DataFrame):
            return labels, X.set_axis([str(j) for j in range(len(labels))], axis=1)
        columns = {}
        for j, dtype in enumerate(X.dtypes):
            is_category = str(dtype).startswith(("Categorical", "Enum"))
            columns[str(j)] = Series(
                column(X, j).to_numpy(), dtype="category" if is_category else None
            )
        return labels, DataFrame(columns)
    if np.ma.isMaskedArray(X):
        X = np.where(np.ma.getmaskarray(X), None, X.data.astype(object))
    with naming("X"):
        values = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
    table = DataFrame(values).infer_objects()
    return list(table), table.rename(columns=str)


def _cleaned(method, table):
    """The result of a method of a `Cleaner`, without pandas' warnings to skrub."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return method(table)


def _read(values, label):
    """The kind of a column, and its values that are not missing: as an array of floats,
    or of objects for categories.

    Dates and durations are converted to microseconds.
    """
    if hasattr(values.dtype, "freq"):  # periods
        values = values.dt.to_timestamp()
    dtype, kind = values.dtype, "date" if values.dtype.kind == "M" else "number"
    if dtype.kind == "M" and values.dt.tz is not None:
        values = values.dt.tz_convert(None)
    if dtype.kind in "mM":
        numbers = values.to_numpy(f"{dtype.kind}8[us]").astype(np.int64).astype(float)
    elif dtype.kind in "fiub" or (
        not hasattr(dtype, "categories") and _are_numbers(values)
    ):
        numbers = values.to_numpy(float)
    elif dtype.kind != "c" and all(isinstance(value, Hashable) for value in values):
        return "category", values.to_numpy(object)
    else:
        first = short(plain(values.iloc[0]))
        raise ValueError(
            f"column {label!r} of X must hold numbers, dates, texts or categories, got "
            f"{first}"
        )
    finite = np.isfinite(numbers)
    if not finite.all():
        k = np.argmin(finite)
        row = as_text(values.index.tolist()[k])
        raise ValueError(
            f"column {label!r} of X must be finite, got {numbers[k]} in row {row}"
        )
    return kind, numbers


def _are_numbers(values):
    """Whether all objects of a column are numbers or booleans."""
    return values.dtype.kind == "O" and all(
        isinstance(value, (Real, Decimal, np.bool_)) for value in values
    )


def _unread(values):
    """The texts among values that skrub has taken as missing, without those that stand
    for missing values."""
    texts = values[[isinstance(value, str) for value in values]]
    if not len(texts):
        return []
    cleaner = _cleaner_class()(drop_null_fraction=None)
    read = _cleaned(cleaner.fit_transform, texts.to_frame())
    return texts[read.iloc[:, 0].notna()].unique()


class _Numbers:
    """The encoder of a column of numbers or dates, from its values that are not
    missing."""

    endings = ("",)

    def __init__(self, values, kind):
        self.kind, self.n_values = kind, 1 + bool(np.ptp(values) > 0)
        # the squares of large numbers overflow
        self.unit = max(np.abs(values).max(), np.finfo(float).tiny)
        values = values / self.unit
        self.mean, self.deviation = values.mean(), values.std()

    def encode(self, values):
        """One column, and values that are not known: none."""
        return ((values / self.unit - self.mean) / self.deviation)[:, None], []


class _Categories:
    """The encoder of a column of texts or categories, from its values that are not
    missing."""

    def __init__(self, values, kind):
        from pandas import Index, Series

        counts = Series(values).value_counts()
        self.levels = Index(sorted(counts.index, key=str), dtype=object)
        self.kind, self.n_values = kind, len(counts)
        self.endings = [f"_{level}" for level in self.levels]
        self.shares = counts[self.levels].to_numpy() / len(values)
        self.deviation = np.sqrt(self.shares @ (1 - self.shares))

    def encode(self, values):
        """Indicators of the levels, centred and scaled, and values that are no level,
        for which all are 0."""
        places = self.levels.get_indexer(values)
        encoded = (places[:, None] == np.arange(self.n_values)) - self.shares
        encoded[places < 0] = 0
        return encoded / self.deviation, values[places < 0]
