"""The command line: ``sk-stormc``, or ``python -m sk_stormc``."""

import argparse
import io
import sys
import warnings
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path

from sk_stormc import __version__
from sk_stormc.cli import COMMANDS
from sk_stormc.cli.arguments import (
    PICTURES,
    add_force_argument,
    add_option,
    check_replaceable,
    keep_data,
    names,
    positive_integer,
    result_file,
)
from sk_stormc.reproduce import EXPERIMENTS
from sk_stormc.reproduce import report as everything
from sk_stormc.reproduce.experiment import MAX_IFO, methods_of
from sk_stormc.utils.atomic import descriptor


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; its sub-parsers are of the same class."""

    def error(self, message):
        self.exit(2, f"error: {message}\n")


def _make_parser():
    own_script = Path(sys.argv[0]).stem == "sk-stormc"
    parser = _Parser(
        prog="sk-stormc" if own_script else "python -m sk_stormc",
        description="Stochastic compositional optimisation.",
    )
    parser.add_argument(
        "--version", action="version", version=f"sk_stormc {__version__}"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reproduce = commands.add_parser(
        "reproduce",
        help="run an experiment of the paper: prints a table, writes a picture",
    )
    experiments = reproduce.add_subparsers(required=True, metavar="EXPERIMENT")
    for name, experiment in EXPERIMENTS.items():
        one = _add_command(experiments, name, experiment, _with_methods(experiment))
        add, methods = partial(add_option, one), experiment.METHODS
        budget, n_seeds = MAX_IFO[name], getattr(experiment, "SEEDS", 3)
        add("--ifo", "N", "budget of a run in IFO", positive_integer, budget)
        add("--seeds", "K", "number of seeds", positive_integer, n_seeds)
        some = f"some of {','.join(methods)} (default: all)"
        add("--methods", "A,B,...", some, names, list(methods))
        picture = f"{name}.png"
        add("--out", "PATH", "where the picture goes", result_file(*PICTURES), picture)
        add_force_argument(one)
        experiment.add_arguments(one)
    everything.add_arguments(
        _add_command(experiments, "all", everything, everything.report)
    )
    for name, command in COMMANDS.items():
        command.add_arguments(_add_command(commands, name, command, command.report))
    return parser


def _add_command(parsers, name, module, report):
    """Add the parser of a command, whose help is the docstring of its module."""
    text = module.__doc__ or ""  # python -OO leaves docstrings out
    first = text.strip().partition("\n")[0]
    parser = parsers.add_parser(name, help=first.rstrip("."), description=text)
    parser.set_defaults(report=report)
    return parser


def _with_methods(experiment):
    """The report of an experiment, with the parameters of the requested methods."""

    def report(args):
        args.methods = methods_of(args.methods, experiment.METHODS)
        experiment.report(args)

    return report


def _one_line(message, category, filename, lineno, line=None):
    """A warning as a line, without the line of code that caused it."""
    return f"warning: {' '.join(str(message).split())}\n"


def main(argv=None):
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # a console that cannot print Greek ends no command
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    args = _make_parser().parse_args(argv)
    before, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        if getattr(args, "check", False):
            args.out = None  # nothing is written
        out = getattr(args, "out", None)
        for option in ("data", "new", "expected_returns"):
            keep_data(getattr(args, option, None), out, f"--{option.replace('_', '-')}")
        if out is not None:
            check_replaceable(out, getattr(args, "force", False))
        # only the result goes into a pipe
        is_stdout = out is not None and descriptor(out) == 1
        with redirect_stdout(sys.stderr) if is_stdout else nullcontext():
            args.report(args)
    except MemoryError as error:
        data = getattr(args, "data", None)
        print(
            f"error: {data or args.report.__module__}: expected data that fit in "
            f"memory ({error or 'no memory is left'})",
            file=sys.stderr,
        )
        return 2
    except (ValueError, OSError, ImportError) as error:  # of optional packages
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        warnings.formatwarning = before
    return 0


if __name__ == "__main__":
    sys.exit(main())
