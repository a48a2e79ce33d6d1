"""The command line: ``sk-stormc``, or ``python -m sk_stormc``."""

import argparse
import sys
import tempfile
from pathlib import Path

from sk_stormc import __version__
from sk_stormc.reproduce import EXPERIMENTS, comparison, maps, weights
from sk_stormc.reproduce import report as everything
from sk_stormc.reproduce.experiment import methods_of
from sk_stormc.reproduce.files import PICTURES, keep_data, result_file

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; its sub-parsers are of the same class."""

    def error(self, message):
        self.exit(2, f"error: {message}\n")


def _positive(text):
    if not (text.replace("_", "").isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text!r}")
    return int(text)


def _names(text):
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _make_parser():
    own_script = Path(sys.argv[0]).stem == "sk-stormc"
    parser = _Parser(
        prog="sk-stormc" if own_script else "python -m sk_stormc", description="Stochastic compositional optimisation."
    )
    parser.add_argument("--version", action="version", version=f"sk_stormc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reproduce = commands.add_parser(
        "reproduce", help="run an experiment of the paper: prints a table, writes a picture"
    )
    experiments = reproduce.add_subparsers(required=True, metavar="EXPERIMENT")
    for name, experiment in EXPERIMENTS.items():
        lines = experiment.__doc__.strip().splitlines()
        one = experiments.add_parser(name, help=lines[0].rstrip("."), description=experiment.__doc__)
        one.add_argument(
            "--ifo",
            type=_positive,
            default=experiment.MAX_IFO,
            metavar="N",
            help="budget of a run in IFO (default: %(default)s)",
        )
        one.add_argument(
            "--seeds",
            type=_positive,
            default=getattr(experiment, "SEEDS", 3),
            metavar="K",
            help="number of seeds (default: %(default)s)",
        )
        one.add_argument(
            "--methods",
            type=_names,
            default=list(experiment.METHODS),
            metavar="A,B,...",
            help=f"some of {','.join(experiment.METHODS)} (default: all)",
        )
        one.add_argument(
            "--out",
            type=result_file(*PICTURES),
            metavar="PATH",
            help="where the picture goes (default: a new temporary directory)",
        )
        experiment.add_arguments(one)
        one.set_defaults(report=_with_picture(experiment, name))
    lines = everything.__doc__.strip().splitlines()
    one = experiments.add_parser("all", help=lines[0].rstrip("."), description=everything.__doc__)
    everything.add_arguments(one)
    one.set_defaults(report=everything.report)
    for name, command in (("map", maps), ("portfolio", weights)):
        lines = command.__doc__.strip().splitlines()
        one = commands.add_parser(name, help=lines[0].rstrip("."), description=command.__doc__)
        command.add_arguments(one)
        one.set_defaults(report=command.report)
    lines = comparison.__doc__.strip().splitlines()
    compare = commands.add_parser("compare", help=lines[0].rstrip("."), description=comparison.__doc__)
    default = f"default: {','.join(comparison.SOLVERS)}"
    compare.add_argument("--solvers", type=_names, metavar="A,B,...", help=f"names of solvers ({default})")
    compare.add_argument("--seeds", type=_positive, default=comparison.SEEDS, metavar="K", help="default: %(default)s")
    compare.add_argument("--ifo", type=_positive, metavar="N", help="budget of a run in IFO (default: solvers' own)")
    comparison.add_arguments(compare)
    compare.set_defaults(report=comparison.report)
    return parser


def _with_picture(experiment, name):
    """The report of an experiment, whose picture goes to a temporary directory if --out is not given."""

    def run(args):
        args.methods = methods_of(args.methods, experiment.METHODS)
        args.out = args.out or Path(tempfile.mkdtemp(prefix="sk_stormc-")) / f"{name}.png"
        experiment.report(args)

    return run


def main(argv=None):
    """Run the command line."""
    args = _make_parser().parse_args(argv)
    try:
        keep_data(getattr(args, "data", None), getattr(args, "out", None))
        args.report(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
