"""Weights of a portfolio of your own returns.

The weights are printed with the return that they would have earned, and saved to a file
if --out is given.
"""

from sk_stormc.cli.arguments import add_data_arguments, result_file, write_csv
from sk_stormc.cli.files import read_returns
from sk_stormc.portfolio.estimator import CompositionalPortfolio
from sk_stormc.portfolio.linear_constraints import linear_of
from sk_stormc.portfolio.risk import MEASURES


def add_arguments(parser):
    """Add the command's options."""
    add_data_arguments(parser, required=True, unit="guess")
    add = parser.add_argument
    add(
        "--risk-measure",
        choices=MEASURES,
        default="variance",
        help="what is meant by risk (default: %(default)s)",
    )
    add(
        "--risk-aversion",
        type=float,
        default=1.0,
        metavar="L",
        help="weight of the risk of returns in fractions; inf for the least risk "
        "(default: %(default)s)",
    )
    add(
        "--confidence",
        type=float,
        default=0.95,
        metavar="C",
        help="of cvar, evar and cdar (default: %(default)s)",
    )
    add(
        "--order",
        type=float,
        default=2.0,
        metavar="P",
        help="of semideviation and downside (default: %(default)s)",
    )
    add(
        "--max-risk",
        type=float,
        metavar="R",
        help="the most return within this risk (a deviation for variance), in place "
        "of --risk-aversion",
    )
    add(
        "--objective",
        choices=("utility", "ratio"),
        default="utility",
        help="ratio: the largest mean return per risk, in place of --risk-aversion "
        "(default: %(default)s)",
    )
    add(
        "--bounds",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        default=(0.0, 1.0),
        help="of each weight (default: no weight is negative); weights sum to one",
    )
    add(
        "--limit",
        action="append",
        metavar="TEXT",
        help="a constraint such as 'oil + gas <= 0.2'; may be repeated",
    )
    add(
        "--out",
        type=result_file(".csv"),
        metavar="FILE",
        help="a .csv file for the weights",
    )


def report(args):
    """Fit, print the weights and save them."""
    read = read_returns(args.data, args.drop_missing, args.unit)
    if (
        MEASURES[args.risk_measure].ordered
        and read.dates is not None
        and read.direction() != "ascending"
    ):
        raise ValueError(
            f"{args.data}: expected dates such as 2020-01-31 in ascending order, on "
            "which --risk-measure cdar depends"
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
        linear_constraints=linear_of(args.limit, None, read.names, len(read.names)),
        random_state=0,
    ).fit(read.values)
    earned = portfolio.predict(read.values)
    if args.max_risk is not None:
        aim = f"risk of at most {args.max_risk:g}"
    else:
        aim = (
            "largest ratio"
            if args.objective == "ratio"
            else f"risk aversion {args.risk_aversion:g}"
        )
    print(read.line())
    print(f"risk measure {args.risk_measure}, {aim}, {portfolio.stop_reason_}\n")
    width = max(map(len, read.names))
    for name, weight in zip(read.names, portfolio.weights_, strict=True):
        print(f"{name:{width}}  {weight:9.4f}")
    print(
        f"\nper period: mean {earned.mean():.4g}, deviation {earned.std():.4g}, worst "
        f"{earned.min():.4g}"
    )
    gap = max(portfolio.dual_gap_, 0.0)
    print(
        f"objective {-portfolio.score(read.values):.6g}, above its minimum by "
        f"{gap:.1g} at most"
    )
    if args.out is not None:
        write_csv(
            args.out,
            ["asset", "weight"],
            zip(read.names, portfolio.weights_.tolist(), strict=True),
        )
        print(f"Weights written to {args.out}")
