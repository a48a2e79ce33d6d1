"""Mutants: one line of mathematics changed at a time, and whether a test notices it.

    python -m benchmarks.mutants [NAME ...] [-- ARGUMENTS OF PYTEST]

A name is a part of the path of a file or of the new text; without one, all mutants are
tried. Without arguments for pytest each mutant is tried on its own tests. A mutant that
no test notices is printed as missed, and the exit status is then 1. The file is changed
in place while its tests run, and restored afterwards: run this in a copy of the
repository that nobody else uses.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """A line of a file that occurs once there, and what it is replaced by."""

    file: str  # in the package
    old: str
    new: str
    tests: str  # that should notice it, separated by spaces


def mutants():
    """The mutants of mutants.toml."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return [Mutant(**entry) for entry in tomllib.loads(text)["mutant"]]


def first_failure(mutant, arguments=()):
    """The first test that fails with the mutant, or None. The file is restored."""
    path = ROOT / "sk_stormc" / mutant.file
    before = path.read_text(encoding="utf-8")
    if before.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} must have one {mutant.old!r}")
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options]
    try:
        path.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
        tests = arguments or mutant.tests.split()
        ran = subprocess.run(
            [*command, *tests], cwd=ROOT, capture_output=True, text=True, check=False
        )
    finally:
        path.write_text(before, encoding="utf-8")
    if ran.returncode == 0:
        return None
    failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    if ran.returncode != 1 or not failed:
        raise RuntimeError(ran.stdout[-2000:] + ran.stderr[-2000:])
    return failed[0].split()[1]


def main(argv):
    """Try the mutants that are named, and print a line for each."""
    end = argv.index("--") if "--" in argv else len(argv)
    names, arguments = argv[:end], argv[end + 1 :]
    missed = 0
    for mutant in mutants():
        if names and not any(name in mutant.file + mutant.new for name in names):
            continue
        failed = first_failure(mutant, arguments)
        missed += failed is None
        print(f"{mutant.file}: {mutant.new}\n    {failed or 'missed'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
