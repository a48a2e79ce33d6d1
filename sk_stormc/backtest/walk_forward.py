"""`walk_forward`: what a portfolio would have earned if it had always been fitted on
the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal, Protocol, TypedDict, Unpack, overload

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.backtest.accounts import Account, Schedule
from sk_stormc.backtest.dated_portfolio import (
    DatedPortfolio,
    parameters_named,
)
from sk_stormc.backtest.returns_table import UNITS, ReturnsTable
from sk_stormc.backtest.walk_results import (
    BENCHMARK,
    EQUAL,
    WalkForwardComparison,
    WalkForwardResult,
)
from sk_stormc.portfolio.labels import aligned_numbers, listed
from sk_stormc.portfolio.returns import column_of
from sk_stormc.utils.frames import as_text
from sk_stormc.utils.parameters import (
    check_choice,
    check_int,
    check_n_jobs,
    check_number,
    check_verbose,
    short,
)
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.warnings import warn

__all__ = ["walk_forward"]

UNSETTLED = ConvergenceWarning.__name__


class _Estimator(Protocol):
    """The type of a portfolio, which is not that of a dict or a list."""

    def fit(self, X: Any, /) -> Any: ...


class _Options(TypedDict, total=False):
    """The types of the optional arguments of `walk_forward`."""

    window: int | None
    first_window: int | None
    refit_every: int
    trading_cost: float | ArrayLike
    benchmark: Any
    unit: Literal["fractions", "percent", "log"] | None
    missing: Literal["raise", "zero"]
    periods_per_year: float
    n_jobs: int | None
    verbose: int | bool


@overload
def walk_forward(
    portfolio: _Estimator, returns: ArrayLike, **options: Unpack[_Options]
) -> WalkForwardResult: ...


@overload
def walk_forward(
    portfolio: Mapping[str, _Estimator] | Sequence[_Estimator],
    returns: ArrayLike,
    **options: Unpack[_Options],
) -> WalkForwardComparison: ...


def walk_forward(
    portfolio: Any,
    returns: ArrayLike,
    *,
    window: int | None = None,
    first_window: int | None = None,
    refit_every: int = 21,
    trading_cost: float | ArrayLike = 0.0,
    benchmark: Any = None,
    unit: Literal["fractions", "percent", "log"] | None = None,
    missing: Literal["raise", "zero"] = "raise",
    periods_per_year: float = 252,
    n_jobs: int | None = None,
    verbose: int | bool = 0,
) -> WalkForwardResult | WalkForwardComparison:
    """Return what a portfolio would have earned: fit it on past returns, hold it for
    some time, and fit it again.

    Every `refit_every` periods the portfolio is fitted on the `window` periods before,
    and its weights are bought. Until the next fit nothing is traded, so that the
    weights drift with the returns. The rest to a sum of 1 is held in cash, which earns
    nothing. If the weights sum to more than 1, cash is borrowed, which costs nothing.

    The cost of a trade is the sum of the absolute changes of the weights, times
    `trading_cost`. It is subtracted from the return of the first period after the
    trade. The first purchase is a trade too.

    Parameters
    ----------
    portfolio : estimator, dict of estimators or list of estimators
        An estimator with ``fit(X)`` and ``weights_``, such as `CompositionalPortfolio`,
        or a pipeline or a search whose last step or best estimator is one. Clones of it
        are fitted. Estimators of a list are named "portfolio 1", "portfolio 2" and so
        on.
    returns : array-like of shape (n_periods, n_assets)
        Returns, from the oldest to the latest, with NaN where they are missing. An
        asset with a missing return in a window has the weight 0 after it, and a warning
        says so.
    window : int, default=None
        Number of periods of a fit. None means all periods so far.
    first_window : int, default=None
        Number of periods of the first fit. None means `window`, or 252 if that is None
        too.
    refit_every : int, default=21
        Number of periods from one fit to the next.
    trading_cost : float or array-like of shape (n_assets,), default=0.0
        Cost of buying or selling, as a fraction of the traded amount: 0.001 is a tenth
        of a percent. Labels are aligned with the columns. The fits do not know this
        cost. ``transaction_cost`` of `CompositionalPortfolio` is a cost in each period
        of holding, so that ``transaction_cost=trading_cost / refit_every`` is the same
        cost for fractions.
    benchmark : label or array-like, default=None
        The benchmark that the portfolio is compared with, as for
        `CompositionalPortfolio`: the label of a column, returns of shape (n_periods,),
        or weights of shape (n_assets,). None means that of the first estimator which
        has one. A column that is the benchmark is no asset, so that its weight is 0.
    unit : {"fractions", "percent", "log"}, default=None
        Unit of the returns. None means fractions, such as 0.01 for one percent, and
        raises an error for returns that have the size of percents or are below -1.
        "fractions" means fractions of any size. Estimators are fitted on percents as
        they are, so that their parameters, and the benchmark, are in percent.
        Logarithmic returns are first converted to fractions, which parameters and the
        benchmark then refer to. The results are fractions always.
    missing : {"raise", "zero"}, default="raise"
        What to do if the return of an asset is missing while it is held: raise a
        ValueError, or take 0 and warn. For equal weights it is always 0.
    periods_per_year : float, default=252
        252 for daily returns, 52 for weekly and 12 for monthly ones. It is used for
        annual statistics, and to recognise percents by their size.
    n_jobs : int, default=None
        Number of processes, for different estimators. None means 1, and -1 all
        processors.
    verbose : int, default=0
        If positive, print a line for each fit.

    Returns
    -------
    WalkForwardResult or WalkForwardComparison
        The result of an estimator, or for a dict or list a dict of results.

    Raises
    ------
    ValueError
        If a parameter is out of its range, if returns are infinite, in descending order
        or hardly fractions, if all fits of an estimator fail, and for missing returns,
        if `missing` is "raise".

    Warns
    -----
    UserWarning
        If fits have failed, which keeps the weights, or have warned. If assets were
        left out of fits, or had missing returns while they were held. If everything was
        lost. If an estimator has one ``expected_returns`` for all dates.
    ConvergenceWarning
        If fits have not converged.

    See Also
    --------
    sk_stormc.plotting.WalkForwardDisplay : Draws wealth, drawdowns and weights.

    Notes
    -----
    A fit uses the returns before the first period in which its weights are held. The
    other parameters of an estimator are the same at all dates, except for these, which
    may also be those of a step of a pipeline or of a search:

    - ``expected_returns`` may be a DataFrame with a row for each date, whose row at or
      before the last date of the window is used, or a function of the returns in the
      window.
    - ``previous_weights`` are the present weights, if the estimator has transaction
      costs or a limit on the turnover. The first purchase starts from the estimator's
      own ``previous_weights``. If there are none, it is not limited by
      ``max_turnover``.
    - If ``benchmark`` is an array of returns, a fit uses those in its window.

    A portfolio whose wealth falls to 0 or below has lost everything, and holds nothing
    after that period.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio, walk_forward
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = 0.01 * make_gaussian_returns(400, 4, mean=0.05, random_state=0)
    >>> portfolio = CompositionalPortfolio(risk_measure="cvar", constraint="long_only")
    >>> result = walk_forward(portfolio, returns, window=250, trading_cost=0.001)
    >>> print(
    ...     result.returns.shape, result.weights_after.shape, result.costs[0].round(6)
    ... )
    (150,) (8, 4) 0.001
    >>> (result.gross_returns - result.returns)[:2].round(6)
    array([0.001, 0.   ])
    >>> list(result.summary()["portfolio"])[:4]
    ['annual return', 'annual deviation', 'Sharpe ratio', 'Sortino ratio']
    """
    check_int("window", window, low=2, words=(None,))
    check_int("first_window", first_window, low=2, words=(None,))
    check_int("refit_every", refit_every, low=1)
    check_choice("unit", unit, (None, *UNITS))
    check_choice("missing", missing, ("raise", "zero"))
    check_number("periods_per_year", periods_per_year, low=0, inclusive=False)
    check_n_jobs(n_jobs)
    check_verbose("verbose", verbose)
    estimators = _named(portfolio)
    table = ReturnsTable.of(returns, unit, periods_per_year)
    starts = np.arange(
        _first_row(len(table.rows), window, first_window), len(table.rows), refit_every
    )
    schedule = Schedule(table, starts, window, _by_asset(trading_cost, table), missing)
    if benchmark is None:
        own = [parameters_named(one, "benchmark") for one in estimators.values()]
        given = [value for values in own for value in values.values()]
        benchmark = next((value for value in given if value is not None), None)
    place = column_of(benchmark, table.columns)
    compared = None
    if benchmark is not None:
        compared = table.by_row(
            table.benchmark(benchmark, schedule.first), slice(schedule.first, None)
        )
    dated = [
        DatedPortfolio(name, estimator, schedule, place, verbose)
        for name, estimator in estimators.items()
    ]
    run = Parallel(n_jobs=n_jobs if len(dated) > 1 else 1)
    accounts = run(delayed(one.account)() for one in dated)
    left_out = {
        start: table.incomplete(begin, start) for begin, start, _ in schedule.fits()
    }
    shared = {
        "schedule": schedule,
        "left_out": table.by_label(left_out),
        "periods_per_year": float(periods_per_year),
        "benchmark_returns": compared,
    }
    equal = _result(
        EQUAL, _equal_weights(schedule, place), equal_weights=None, **shared
    )
    results = {
        name: _result(name, account, equal_weights=equal, **shared)
        for name, account in zip(estimators, accounts, strict=True)
    }
    for result in results.values():
        _warn_of(result)
    _warn_of_left_out(equal)
    if _are_several(portfolio):
        return WalkForwardComparison(results)
    return next(iter(results.values()))


def _are_several(portfolio):
    return isinstance(portfolio, (Mapping, list, tuple))


def _named(portfolio):
    """The estimators by their names."""
    named = portfolio
    if not _are_several(portfolio):
        named = {"portfolio": portfolio}
    elif not isinstance(portfolio, Mapping):
        named = {f"portfolio {k}": one for k, one in enumerate(portfolio, 1)}
    for one in named.values() or [portfolio]:
        methods = hasattr(one, "fit") and hasattr(one, "get_params")
        if isinstance(one, type) or not methods:
            raise ValueError(
                "portfolio must be an estimator with fit and get_params, or a dict "
                f"or list of them, got {short(one)}"
            )
    taken = {EQUAL, BENCHMARK} & set(named)
    if taken:
        raise ValueError(
            f"portfolio must have other names than {EQUAL!r} and {BENCHMARK!r}, got "
            f"{taken.pop()!r}"
        )
    return named


def _first_row(n_rows, window, first_window):
    """The number of rows of the first fit."""
    name = "first_window" if first_window is not None or window is None else "window"
    first = first_window or window or 252  # a year of days
    if first >= n_rows:
        raise ValueError(
            f"{name} must be smaller than the number of periods of the returns, "
            f"{n_rows}, so that there are later ones, got {first}"
        )
    return first


def _by_asset(cost, table):
    """The cost of trades of each asset."""
    n_assets = len(table.columns)
    given = cost
    cost = aligned_numbers("trading_cost", cost, table.columns)
    if cost.shape not in ((), (n_assets,)) or not ((cost >= 0) & (cost < 1)).all():
        raise ValueError(
            "trading_cost must be a number from 0 to 1, or one for each of the "
            f"{n_assets} assets, got {short(given)}"
        )
    return np.broadcast_to(cost, n_assets)


def _equal_weights(schedule, place):
    """The account of equal weights in all assets without missing returns, but the
    column of the benchmark."""
    table = schedule.table

    def choose(begin, start, held):
        places = table.complete(begin, start, place)
        weights = np.zeros(len(table.columns))
        weights[places] = 1 / max(len(places), 1)
        return weights

    return Account(replace(schedule, missing="zero"), choose)


def _result(name, account, schedule, **shared):
    """The result of an account, with labels."""
    table, n, errors = schedule.table, len(schedule.table.rows), account.errors
    held, trades = np.arange(schedule.first, n), schedule.starts
    if len(errors) == len(trades):
        start = next(iter(errors))
        raise ValueError(
            f"all {len(errors)} fits of {name!r} have failed. The first, for "
            f"{table.row_text(start)}, said: {_cut(errors[start])}"
        )
    in_error = np.repeat(account.kept, np.diff([*trades, n]))
    missing = {start: table.labels(places) for start, places in account.missing.items()}
    by_period = ("returns", "gross_returns", "weights")
    by_trade = ("weights_before", "weights_after", "turnover", "costs")
    return WalkForwardResult(
        name=name,
        in_error=table.by_row(in_error, held, name),
        errors=table.by_label(errors),
        warnings=table.by_label(account.warnings),
        missing=table.by_label(missing),
        lost_in=None if account.lost_in is None else table.label(account.lost_in),
        dates=table.rows[held],
        trade_dates=table.rows[trades],
        **{key: table.by_row(getattr(account, key), held, name) for key in by_period},
        **{key: table.by_row(getattr(account, key), trades, name) for key in by_trade},
        **shared,
    )


def _warn_of(result):
    """Warn of what went wrong in the walk of a portfolio."""
    n, name = len(result.trade_dates), result.name
    if result.errors:
        row, text = next(iter(result.errors.items()))
        warn(
            f"{name}: {len(result.errors)} of {n} fits have failed, and the weights "
            "before them were kept. The first, "
            f"for row {as_text(row)}, said: {_cut(text)}"
        )
    if result.warnings:
        row, texts = next(iter(result.warnings.items()))
        said = chain.from_iterable(result.warnings.values())
        unsettled = any(text.startswith(UNSETTLED) for text in said)
        warn(
            f"{name}: {len(result.warnings)} of {n} fits have warned. The first, for "
            f"row {as_text(row)}, said: {_cut(texts[0])}",
            ConvergenceWarning if unsettled else UserWarning,
        )
    if result.missing:
        row, labels = next(iter(result.missing.items()))
        warn(
            f"{name}: missing returns of assets that were held were taken as 0, after "
            f"{len(result.missing)} of {n} "
            f"trades, first after row {as_text(row)} in {listed(labels, 5)}"
        )
    if result.lost_in is not None:
        warn(
            f"{name}: everything was lost in row {as_text(result.lost_in)}, and "
            "nothing was held after it"
        )


def _warn_of_left_out(result):
    """Warn of assets that were left out because of missing returns."""
    if result.left_out:
        row, labels = next(iter(result.left_out.items()))
        warn(
            "assets with missing returns in a window have the weight 0 after it: this "
            f"holds for {len(result.left_out)} of {len(result.trade_dates)} fits, "
            f"first for row {as_text(row)} and {listed(labels, 5)}. left_out of the "
            "result has all of them"
        )


def _cut(text):
    """The beginning of a text on one line."""
    text = " ".join(text.split())
    return text if len(text) <= 500 else f"{text[:500]} ..."
