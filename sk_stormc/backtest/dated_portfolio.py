"""A portfolio that is fitted at one date after the other: its parameters for a date,
and its weights."""

import time
import warnings
from collections.abc import Mapping

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sk_stormc.backtest.accounts import Account
from sk_stormc.portfolio.constraints import held_now
from sk_stormc.portfolio.returns import column_of
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.frames import columns_of, has_row_labels, is_series
from sk_stormc.utils.parameters import is_real
from sk_stormc.utils.warnings import warn

__all__ = ["DatedPortfolio", "parameters_named", "weights_of"]


def parameters_named(estimator, name):
    """The parameters with a name, of an estimator and of those within it, such as a
    step of a pipeline."""
    params = estimator.get_params()
    return {key: params[key] for key in params if key.rpartition("__")[2] == name}


def weights_of(fitted, columns):
    """The weights of a fitted portfolio, search or pipeline, in the order of the
    columns that it was fitted on."""
    if hasattr(fitted, "best_estimator_"):
        return weights_of(fitted.best_estimator_, columns)
    if isinstance(fitted, Pipeline):
        names = [
            column if isinstance(column, str) else f"x{k}"
            for k, column in enumerate(columns)
        ]
        selected = names
        if len(fitted) > 1:
            selected = list(fitted[:-1].get_feature_names_out(names))
        made = [name for name in selected if name not in names]
        if made:
            raise ValueError(
                "a pipeline must select columns of the returns, but it has made "
                f"{made[0]!r}"
            )
        weights = dict(zip(selected, weights_of(fitted[-1], selected), strict=True))
        return np.array([weights.get(name, 0.0) for name in names])
    weights = as_numbers("weights_", fitted.weights_)
    if weights.shape != (len(columns),) or not np.isfinite(weights).all():
        raise ValueError(
            f"weights_ must be {len(columns)} finite numbers, got {weights} of shape "
            f"{weights.shape}"
        )
    return weights


class DatedPortfolio:
    """A clone of a portfolio, which is fitted for each date, with a record of
    exceptions and warnings.

    ``errors`` and ``warnings`` have the texts of the exceptions, and lists of the texts
    of the warnings, by the row from which the weights were to be held. ``benchmark`` is
    the place of the column that is no asset, or None.
    """

    def __init__(self, name, portfolio, schedule, benchmark, verbose):
        self.name = name
        self.schedule = schedule
        self.table = schedule.table
        self.verbose = verbose
        columns = self.table.columns
        forecasts = parameters_named(portfolio, "expected_returns")
        self.forecasts = {
            key: self._dated_forecast(key, value) for key, value in forecasts.items()
        }
        benchmarks = parameters_named(portfolio, "benchmark")
        own = [column_of(value, columns) for value in benchmarks.values()]
        # an estimator needs the column of its own benchmark
        self.without = None if benchmark in own else benchmark
        self.benchmarks = {
            key: np.asarray(value)
            for key, value in benchmarks.items()
            if self._is_by_row(value)
        }
        self.previous = parameters_named(portfolio, "previous_weights")
        self.max_turnover = parameters_named(portfolio, "max_turnover")
        self.model = clone(portfolio).set_params(**dict.fromkeys(forecasts))
        given = [value for value in self.previous.values() if value is not None]
        self.held_at_first = None
        if given:
            self.held_at_first = held_now(given[0], columns)
        self.places, self.n_fits = None, 0
        self.errors, self.warnings = {}, {}

    def account(self):
        """The account of the portfolio in its schedule."""
        account = Account(self.schedule, self.choose, self.held_at_first)
        account.errors, account.warnings = self.errors, self.warnings
        return account

    def choose(self, begin, start, held):
        """The weights from the row ``start`` on, fitted on those from ``begin`` to it.
        None if the fit has failed.

        ``held`` are the present weights, or None if nothing has been bought yet.
        """
        began, weights = time.perf_counter(), None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                weights = self._fit(begin, start, held)
            except Exception as error:
                self.errors[start] = f"{type(error).__name__}: {error}"
        if caught:
            self.warnings[start] = [
                f"{warning.category.__name__}: {warning.message}" for warning in caught
            ]
        self.n_fits += 1
        if self.verbose:
            seconds, failed = time.perf_counter() - began, self.errors.get(start, "")
            print(
                f"{self.name}: fit {self.n_fits} of {len(self.schedule.starts)}, for "
                f"{self.table.row_text(start)}, {seconds:.2f} s"
                f"{failed and ', '}{failed}",
                flush=True,
            )
        return weights

    def _fit(self, begin, start, held):
        data, places = self.table.window(begin, start, self.without)
        if not len(places):
            raise ValueError("no asset has all its returns in the window")
        if self.places is not None and not np.array_equal(places, self.places):
            # a warm start needs the weights of the same assets
            self.model = clone(self.model)
        self.places = places
        self.model.set_params(**self._parameters(begin, start, held, data, places)).fit(
            data
        )
        weights = np.zeros(len(self.table.columns))
        weights[places] = weights_of(self.model, columns_of(data) or list(places))
        return weights

    def _parameters(self, begin, start, held, data, places):
        """The parameters whose values depend on the date."""
        parameters = {
            key: forecast(start, data, places)
            for key, forecast in self.forecasts.items()
        }
        for key, returns in self.benchmarks.items():
            parameters[key] = returns[begin:start]
        if held is None:  # a limit of the turnover does not limit the first purchase
            return parameters | dict.fromkeys(self.max_turnover)
        columns, previous = columns_of(data), held[places]
        if columns is not None:
            previous = dict(zip(columns, previous, strict=True))
        for key, given in self.previous.items():
            if given is not None or self._trades_count(key):
                parameters[key] = previous
        return parameters | self.max_turnover

    def _trades_count(self, key):
        """Whether the estimator that has these ``previous_weights`` has costs of trades
        or limits them."""
        params, owner = self.model.get_params(), key.removesuffix("previous_weights")
        for name in ("transaction_cost", "transaction_costs"):
            cost = params.get(f"{owner}{name}")
            if cost is not None and not (is_real(cost) and cost == 0):
                return True
        return self.max_turnover.get(f"{owner}max_turnover") is not None

    def _is_by_row(self, benchmark):
        """Whether a benchmark has a return for each row, without labels that would
        align it with a window."""
        n, d = self.table.fractions.shape
        labelled = isinstance(benchmark, (str, Mapping)) or (
            is_series(benchmark) and self.table.labelled
        )
        return not labelled and n != d and np.shape(benchmark) == (n,)

    def _dated_forecast(self, key, given):
        """A function that gives ``expected_returns`` of a fit from its row, its data
        and the places of its columns."""
        rows = self.table.rows
        if given is None or isinstance(given, str):
            return lambda start, data, places: given
        if callable(given):
            return lambda start, data, places: given(data)
        if has_row_labels(given) and len(given) > 1:
            try:
                ascending = given.index.is_monotonic_increasing
                given.index.searchsorted(rows[0])
            except TypeError as error:
                raise ValueError(
                    f"{key} must have an index of the kind that the returns have: "
                    f"{error}"
                ) from error
            if not ascending:
                raise ValueError(
                    f"{key} must have its rows in ascending order: use "
                    f"{key}.sort_index()"
                )

            def latest(start, data, places):
                row = given.index.searchsorted(rows[start - 1], side="right") - 1
                if row < 0:
                    raise ValueError(
                        f"{key} has no row at or before "
                        f"{self.table.row_text(start - 1)}"
                    )
                return given.iloc[row]

            return latest
        if np.ndim(given) == 2 and len(given) == len(rows):
            return lambda start, data, places: np.asarray(given)[start - 1, places]
        warn(
            f"{key} is one forecast for all dates, so that the portfolio knows at each "
            "date what may have been learnt later. Give a DataFrame with a row for "
            "each date, or a function of the returns of a window"
        )
        return lambda start, data, places: given
