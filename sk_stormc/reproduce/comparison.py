"""Compare solvers on your own returns.

Each solver fits a portfolio with several seeds. Each run stops at convergence or at its budget. The table of results
and costs is printed, and saved with figures if --out is given.
"""

import argparse
import csv

from sk_stormc.compare import compare_solvers
from sk_stormc.compare.comparison import stop_reasons
from sk_stormc.portfolio.estimator import CompositionalPortfolio
from sk_stormc.reproduce.files import add_data_arguments, directory, keep_data, read_returns
from sk_stormc.reproduce.progress import progress_line

__all__ = ["SEEDS", "SOLVERS", "add_arguments", "report"]

SOLVERS = ("storm-c", "sarah-c", "vrsc-pg", "lbfgs")  # default solvers; L-BFGS only without a simplex
SEEDS = 5


def _above_zero(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number > 0, got {text!r}")
    return value


def add_arguments(parser):
    """Add the options of the command other than --solvers, --seeds and --ifo."""
    add_data_arguments(parser, required=True, unit="guess")
    parser.add_argument(
        "--risk-aversion", type=_above_zero, default=1.0, metavar="L", help="of the variance (default: %(default)s)"
    )
    parser.add_argument("--long-only", action="store_true", help="weights >= 0 that sum to one; not for lbfgs")
    parser.add_argument(
        "--out", type=directory, metavar="DIR", help="where compare.csv, compare_passes.png and compare_seconds.png go"
    )


def report(args):
    """Run the solvers, print the table and save files."""
    if args.out is not None:
        keep_data(args.data, args.out / "compare.csv")
    read = read_returns(args.data, args.drop_missing, args.unit)
    portfolio = CompositionalPortfolio(
        risk_aversion=args.risk_aversion, constraint="long_only" if args.long_only else None
    )
    solvers = args.solvers or SOLVERS[: 3 if args.long_only else 4]
    with progress_line() as show:
        results = compare_solvers(
            portfolio, list(solvers), read.values, n_seeds=args.seeds, max_ifo=args.ifo, random_state=0, progress=show
        )
    for label, runs in results.runs.items() if args.ifo is not None else ():
        if not runs[0].n_iter and runs[0].ifo[-1] > args.ifo:
            raise ValueError(f"--ifo must pay for the first batch of {label}, {runs[0].ifo[-1]}; got {args.ifo}")
    print(read.line())
    print(f"Mean-variance, risk_aversion = {args.risk_aversion:g}, {'long only' if args.long_only else 'no bounds'}.\n")
    print(results)
    if args.out is not None:
        _write(results, args.out)


def _write(results, directory):
    directory.mkdir(exist_ok=True)
    rows = [row | {"stop_reasons": stop_reasons(row)} for row in results.table]
    with open(directory / "compare.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    from sk_stormc.plotting._style import unmanaged_figure

    for x in ("passes", "seconds"):
        figure = unmanaged_figure(6.8, 4.6)
        results.plot(x=x, ax=figure.add_subplot())
        figure.savefig(directory / f"compare_{x}.png", dpi=150)
    print(f"\nTable and pictures written to {directory}")
