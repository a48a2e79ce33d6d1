"""Weights of a portfolio of your own returns.

The weights are printed with the return that they would have earned, and saved to a file
if --out is given. With --walk-forward, the portfolio is fitted on the past of each
month instead, and the command prints and draws what it would have earned.
"""

import os
import sys
from contextlib import redirect_stdout
from functools import partial

import numpy as np

from sk_stormc.backtest.walk_forward import walk_forward
from sk_stormc.cli.arguments import (
    PICTURES,
    add_check_argument,
    add_data_arguments,
    add_force_argument,
    add_option,
    kind_of_result,
    positive_integer,
    positive_number,
    result_file,
    save_figure,
    write_csv,
)
from sk_stormc.cli.return_files import (
    read_forecasts,
    read_parquet_files,
    read_returns,
)
from sk_stormc.compare.tables import as_text
from sk_stormc.portfolio.estimator import CompositionalPortfolio
from sk_stormc.portfolio.linear_constraints import linear_of
from sk_stormc.portfolio.performance import drawdowns_of
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.portfolio.whole_shares import whole_shares


def add_arguments(parser):
    """Add the command's options."""
    add_data_arguments(parser, required=True, unit="guess")
    add = partial(add_option, parser)
    benchmark = "the column of the benchmark, which is no asset"
    add("--benchmark", "COLUMN", benchmark)
    shares = "whole shares for this capital, at the last prices of --prices"
    add("--capital", "X", shares, positive_number)
    add(
        "--risk-measure",
        None,
        "what is meant by risk",
        default="variance",
        choices=MEASURES,
    )
    add(
        "--risk-aversion",
        "L",
        "weight of the risk of returns in fractions; inf for the least risk",
        float,
        1.0,
    )
    add("--confidence", "C", "of cvar, evar and cdar", float, 0.95)
    add("--order", "P", "of semideviation and downside", float, 2.0)
    add(
        "--max-risk",
        "R",
        "the most return within this risk (a deviation for variance), in place of "
        "--risk-aversion",
        float,
    )
    add(
        "--objective",
        None,
        "ratio: the largest mean return per risk, in place of --risk-aversion",
        default="utility",
        choices=("utility", "ratio"),
    )
    add(
        "--bounds",
        ("LOW", "HIGH"),
        "of each weight (default: no weight is negative); weights sum to one",
        float,
        (0.0, 1.0),
        nargs=2,
    )
    add(
        "--limit",
        "TEXT",
        "a constraint such as 'oil + gas <= 0.2'; may be repeated",
        action="append",
    )
    add("--max-assets", "K", "most weights other than 0", positive_integer)
    add("--min-held", "W", "smallest weight other than 0", positive_number)
    add(
        "--expected-returns",
        "FILE",
        "forecasts of the mean returns, in the unit of --data: a row for each asset "
        "with its name and a number, or a column for each asset, with dates for "
        "--walk-forward",
    )
    add(
        "--walk-forward",
        "WINDOW",
        "what the portfolio would have earned if it had been fitted again and again, "
        "on the last WINDOW periods",
        positive_integer,
    )
    refits = "periods from one fit of --walk-forward to the next"
    add("--refit-every", "N", refits, positive_integer, 21)
    periods = "of what is printed for a year: 252 for days, 12 for months"
    add("--periods-per-year", "N", periods, positive_number, 252)
    add(
        "--out",
        "FILE",
        "a .csv file for the weights, or for the returns of --walk-forward; or a "
        "picture (.png, .pdf, .svg) of --walk-forward",
        result_file(".csv", *PICTURES),
    )
    add_check_argument(parser)
    add_force_argument(parser)


def report(args):
    """Read the returns, and print the weights, or what they would have earned."""
    is_table = args.out is None or kind_of_result(args.out) == ".csv"
    if not is_table and args.walk_forward is None:
        raise ValueError(
            f"--out must be a .csv file without --walk-forward, got {args.out}"
        )
    several = os.path.isdir(args.data) or (
        bool(set("*?") & set(args.data)) and not os.path.exists(args.data)
    )
    if several and args.walk_forward is not None:
        raise ValueError(f"--walk-forward needs returns of one file, got {args.data!r}")
    if args.capital is not None and (not args.prices or args.walk_forward):
        raise ValueError(
            f"--capital needs --prices, and no --walk-forward, got {args.capital:g}"
        )
    read = (read_parquet_files if several else read_returns)(
        args.data, args.drop_missing, args.unit, args
    )
    read.reading.show(args.check)
    if args.check:
        return
    in_order = MEASURES[args.risk_measure].ordered or args.walk_forward is not None
    if in_order and read.dates is not None and read.direction() != "ascending":
        option = "--walk-forward" if args.walk_forward else "--risk-measure cdar"
        raise ValueError(
            f"{args.data}: expected dates such as 2020-01-31 in ascending order, on "
            f"which {option} depends"
        )
    portfolio = CompositionalPortfolio(
        risk_measure=args.risk_measure,
        risk_aversion=args.risk_aversion,
        confidence=args.confidence,
        order=args.order,
        objective=args.objective,
        max_risk=args.max_risk,
        constraint=tuple(args.bounds),
        budget=1.0,
        linear_constraints=linear_of(args.limit, None, read.names),
        max_assets=args.max_assets,
        min_held=args.min_held,
        expected_returns=_forecasts(args, read),
        benchmark=None if args.walk_forward else read.benchmark,
        verbose=int(several or bool(args.max_assets or args.min_held)),
        random_state=0,
    )
    if args.walk_forward is None:
        with redirect_stdout(sys.stderr):  # the lines of progress
            portfolio.fit(read.values)
        _print_weights(args, read, portfolio)
    else:
        _walk(args, read, portfolio)


def _forecasts(args, read):
    """The ``expected_returns`` of --expected-returns, or None."""
    if args.expected_returns is None:
        return None
    forecasts = read_forecasts(args.expected_returns, read, args)
    if args.walk_forward is None and np.ndim(forecasts) == 2:
        raise ValueError(
            f"{args.expected_returns}: expected one number for each asset without "
            f"--walk-forward, found {len(forecasts)} dates"
        )
    return forecasts


def _print_weights(args, read, portfolio):
    """Print the weights with what they would have earned, and save them."""
    earned = np.asarray(portfolio.predict(read.values))
    table = {"asset": read.names, "weight": portfolio.weights_.tolist()}
    cash = []
    if args.capital is not None:
        found = whole_shares(portfolio.weights_, read.last_prices, args.capital)
        table |= {"price": read.last_prices.tolist(), "shares": found.shares.tolist()}
        table["amount"] = (read.last_prices * found.shares).tolist()
        cash = [f"cash {found.cash:.2f} of {args.capital:,.2f}"]
    if args.out is not None:  # before anything that could fail
        write_csv(args.out, table, zip(*table.values(), strict=True))
    aim = f"risk aversion {args.risk_aversion:g}"
    if args.max_risk is not None:
        aim = f"risk of at most {args.max_risk:g}"
    elif args.objective == "ratio":
        aim = "largest ratio"
    print(f"\nrisk measure {args.risk_measure}, {aim}, {portfolio.stop_reason_}\n")
    forms = {"asset": "", "weight": ".4f", "price": ".2f", "shares": "d"}
    cells = [
        [format(cell, forms.get(name, ".2f")) for cell in column]
        for name, column in table.items()
    ]
    print(as_text(list(table), list(zip(*cells, strict=True)), left=1), *cash, sep="\n")
    print(
        f"\nper period: mean {earned.mean():.4g}, deviation {earned.std():.4g}, worst "
        f"{earned.min():.4g}"
    )
    print(_of_a_year(args, read, portfolio.weights_, earned))
    gap = max(portfolio.dual_gap_, 0.0)
    objective = portfolio.loss_curve_[-1]
    print(f"objective {objective:.6g}, above its minimum by {gap:.1g} at most")
    if args.out is not None:
        print(f"Weights written to {args.out}")


def _of_a_year(args, read, weights, earned):
    """What weights that are restored in every period would have earned, as a line."""
    n, mean, deviation = args.periods_per_year, earned.mean(), earned.std()
    facts = [f"mean {n * mean:.2%}", f"deviation {np.sqrt(n) * deviation:.2%}"]
    if deviation > 0:
        facts.append(f"Sharpe {np.sqrt(n) * mean / deviation:.2f}")
    if isinstance(read.values, np.ndarray) and (earned > -1).all():
        grown = weights * (1 + read.values) / (1 + earned)[:, None]
        turnover = n * np.abs(grown - weights).sum(axis=1).mean() / 2
        facts.append(f"drawdown {drawdowns_of(earned).max():.2%}")
        facts.append(f"turnover {turnover:.2%}")
    return f"a year of {n:g} periods, in sample: {', '.join(facts)}"


def _walk(args, read, portfolio):
    """Print what the portfolio would have earned, and save its picture or its
    returns."""
    with redirect_stdout(sys.stderr):  # a line for each fit
        result = walk_forward(
            portfolio.set_params(verbose=0),
            read.frame(),
            window=args.walk_forward,
            benchmark=read.benchmark,
            refit_every=args.refit_every,
            unit="fractions",
            periods_per_year=args.periods_per_year,
            verbose=1,
        )
    n = len(result.dates)
    periods = list(map(str, result.dates)) if read.dates is None else read.dates[-n:]
    _write_walk(args, result, periods)
    print(
        f"\n{len(result.trade_dates)} fits on {args.walk_forward} periods, each held "
        f"for {args.refit_every}, from {periods[0]} to {periods[-1]}\n"
    )
    print(as_text(*result.cells(), left=1))
    if args.out is not None:
        what = "Returns" if kind_of_result(args.out) == ".csv" else "Picture"
        print(f"{what} written to {args.out}")


def _write_walk(args, result, periods):
    """Save the picture or the returns of a walk."""
    if args.out is None:
        return
    if kind_of_result(args.out) == ".csv":
        columns = result.returns, result.equal_weights.returns
        rows = zip(periods, *map(list, columns), strict=True)
        write_csv(args.out, ["period", "portfolio", "1/N"], rows)
    else:
        from sk_stormc.plotting import WalkForwardDisplay

        save_figure(WalkForwardDisplay.from_results(result).figure_, args.out)
