"""Compare solvers on your own returns.

Each solver fits a portfolio with several seeds. Each run stops at convergence or at its
budget. The table of results and costs is printed, and saved with figures if --out is
given.
"""

from functools import partial

from sk_stormc.cli.arguments import (
    add_data_arguments,
    add_flag,
    add_force_argument,
    add_option,
    check_replaceable,
    directory,
    keep_data,
    names,
    positive_integer,
    positive_number,
    progress_line,
    save_figure,
    write_csv,
)
from sk_stormc.cli.return_files import read_returns
from sk_stormc.compare import compare_solvers
from sk_stormc.compare.comparison import stop_reasons
from sk_stormc.portfolio.estimator import CompositionalPortfolio

# default solvers; L-BFGS only without a simplex
SOLVERS = ("storm-c", "sarah-c", "vrsc-pg", "lbfgs")


def add_arguments(parser):
    """Add the command's options."""
    add = partial(add_option, parser)
    chosen = f"names of solvers (default: {','.join(SOLVERS)})"
    add("--solvers", "A,B,...", chosen, names)
    add("--seeds", "K", "number of seeds", positive_integer, 5)
    add(
        "--ifo", "N", "budget of a run in IFO (default: solvers' own)", positive_integer
    )
    add_data_arguments(parser, required=True, unit="guess")
    add("--risk-aversion", "L", "of the variance", positive_number, 1.0)
    long_only = "weights >= 0 that sum to one; not for lbfgs"
    add_flag(parser, "--long-only", long_only)
    files = "where compare.csv, compare_passes.png and compare_seconds.png go"
    add("--out", "DIR", files, directory)
    add_force_argument(parser)


def report(args):
    """Run the solvers, print the table and save files."""
    if args.out is not None:
        for name in ("compare.csv", "compare_passes.png", "compare_seconds.png"):
            keep_data(args.data, args.out / name)
            check_replaceable(args.out / name, args.force)
    read = read_returns(args.data, args.drop_missing, args.unit, args)
    read.reading.show()
    portfolio = CompositionalPortfolio(
        risk_aversion=args.risk_aversion,
        constraint="long_only" if args.long_only else None,
    )
    solvers = args.solvers or SOLVERS[: 3 if args.long_only else 4]
    with progress_line() as show:
        results = compare_solvers(
            portfolio,
            list(solvers),
            read.values,
            n_seeds=args.seeds,
            max_ifo=args.ifo,
            random_state=0,
            progress=show,
        )
    if args.ifo is not None:
        check_budget(results, args.ifo)
    if args.out is not None:
        _write(results, args.out)
    print(
        f"\nMean-variance, risk_aversion = {args.risk_aversion:g}, "
        f"{'long only' if args.long_only else 'no bounds'}.\n"
    )
    print(results)
    if args.out is not None:
        print(f"\nTable and pictures written to {args.out}")


def check_budget(comparison, max_ifo):
    """Raise a ValueError if the budget does not pay for the first batch of a solver."""
    for label, (first, *_) in comparison.runs.items():
        if not first.n_iter and first.ifo[-1] > max_ifo:
            raise ValueError(
                f"--ifo must pay for the first batch of {label}, {first.ifo[-1]}; got "
                f"{max_ifo}"
            )


def _write(results, directory):
    directory.mkdir(exist_ok=True)
    rows = [row | {"stop_reasons": stop_reasons(row)} for row in results.table]
    write_csv(directory / "compare.csv", rows[0], map(dict.values, rows))
    from sk_stormc.plotting._style import unmanaged_figure

    for x in ("passes", "seconds"):
        figure = unmanaged_figure(6.8, 4.6)
        results.plot(x=x, ax=figure.add_subplot())
        save_figure(figure, directory / f"compare_{x}.png")
