"""Run a benchmark: measure, store the JSON, and render its tables as text and in pages.

    OMP_NUM_THREADS=1 python -m benchmarks [NAME] [--quick | --render] [--parts A,B]
    [--seeds N] [--data DIR] [--results DIR]

Without a name, the benchmarks are listed. A benchmark that takes hours has parts: each
is stored when it ends, and those that are not run again stay as they were stored.
"""

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import _choices, _tables
from benchmarks._measure import DATA

BENCHMARKS = (
    "portfolio", "newer", "methods", "gallery", "autodiff", "autodiff_rows",
    "iteration_cost", "maps",
    "large_maps", "map_cases",
    "map_limits", "map_updates", "map_sheet", "mixed_tables", "bellman", "streams",
    "rows", "values",
    "value_cases", "policies", "desk",
    "desk_cases", "integer", "integer_cases", "pairs", "paper",
)  # fmt: skip


def module_of(name):
    """The module of a benchmark."""
    return importlib.import_module(f"benchmarks.{name}")


def listing():
    """One line for each benchmark: its name, how long it takes, what it measures."""
    modules = {name: module_of(name) for name in BENCHMARKS}
    return "\n".join(
        f"{name:16}{m.DURATION:13}{m.__doc__.splitlines()[0]}"
        for name, m in modules.items()
    )


def parse(argv):
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "name",
        nargs="?",
        choices=BENCHMARKS,
        metavar="NAME",
        help="without it, the names are listed",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--quick",
        action="store_true",
        help="a tiny version, which changes neither results nor pages",
    )
    what.add_argument(
        "--render",
        action="store_true",
        help="render the tables of the stored results, into pages and a text beside "
        "the results; run nothing",
    )
    parser.add_argument(
        "--parts",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="only these parts",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="how many random cases, of a benchmark that has them",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        metavar="DIR",
        help="of the published return sets",
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="where the JSON is, or is to be"
    )
    args = parser.parse_args(argv)
    if args.parts:
        known = list(getattr(module_of(args.name), "PARTS", ())) if args.name else []
        wrong = [part for part in args.parts if part not in known]
        if wrong:
            parser.error(
                f"--parts must be among {', '.join(known) or 'none here'}, got "
                f"{', '.join(wrong)}"
            )
    if args.seeds is not None and not (
        args.name and hasattr(module_of(args.name), "CASES_DRAWN")
    ):
        parser.error(f"--seeds does not go with {args.name or 'no name'}")
    return args


def main(argv=None):
    """Run the command line; returns the exit status."""
    args = parse(argv)
    if args.name is None:
        print(listing())
        return 0
    module = module_of(args.name)
    if args.quick:
        # --quick goes to a temporary folder unless it is told where, and leaves the
        # pages as they are
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.results or Path(temporary)
            measure(args, module, folder)
            for text in _tables.tables_of(
                module, _tables.load(args.name, folder)
            ).values():
                print(f"\n{text}")
        return 0
    folder = args.results or _tables.RESULTS
    if not args.render:
        if module.NEEDS_DATA and not args.data.is_dir():
            print(
                "the published return sets are not there (../shared/data, or --data "
                "DIR)",
                file=sys.stderr,
            )
            return 1
        measure(args, module, folder)
    elif not (folder / f"{args.name}.json").exists():
        print(
            f"{args.name} has not been measured yet: there is no {args.name}.json to "
            "render",
            file=sys.stderr,
        )
        return 1
    if (
        args.results and not args.render
    ):  # measured to another place: the pages show what is in benchmarks/results
        return 0
    tables = _tables.tables_of(module, _tables.load(args.name, folder))
    _tables.write_text(args.name, tables, folder)
    changed = _tables.put(tables, args.name)
    if (
        args.name in _choices.FROM and folder == _tables.RESULTS
    ):  # tables of several benchmarks
        changed += _tables.put(_choices.tables(), "choices")
    for page in changed:
        print(f"changed: {page.relative_to(_tables.ROOT)}")
    return 0


def measure(args, module, folder):
    """Run a benchmark, or its parts one by one, and store what it measured."""
    # pictures belong beside the pages, or to results that are stored elsewhere
    images = None if args.quick else args.results or _tables.ROOT / "docs" / "images"
    seeds = {} if args.seeds is None else {"seeds": args.seeds}
    for part in args.parts or getattr(module, "PARTS", [None]):
        began = time.perf_counter()
        measured = (
            module.run_part(part, args.quick, images, **seeds)
            if part
            else module.run(args.quick, args.data)
        )
        seconds = time.perf_counter() - began
        _tables.store(
            args.name, part, measured, seconds, folder, getattr(module, "PACKAGES", ())
        )
        print(f"{args.name}{f', {part}' if part else ''}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
