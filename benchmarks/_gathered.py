"""Which tests come to which statements of the package, and how long each takes."""

import ast
import builtins
import json
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks._forks import load_by, run_forked

__all__ = ["QUIETLY", "Gathered", "gathered"]

# asserts of files that are named would be rewritten from the file itself, past the change
QUIETLY = ("-q", "-p", "no:cacheprovider", "--assert=plain")
SECONDS = 8  # of CPU time, that the tests of one change may take without it


class Noting(ast.NodeTransformer):
    """Has every statement of a file's functions note that a test came to it."""

    def __init__(self, file):
        self.file, self.depth = file, 0

    def visit_FunctionDef(self, node):
        """A function; what is outside of all is not noted."""
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def generic_visit(self, node):
        """Notes before the statements of each block, behind a docstring."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and (self.depth or isinstance(node, ast.FunctionDef)):
                at = int(name == "body" and isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant))
                noted = [part for statement in block[at:] for part in (self._note(statement), statement)]
                setattr(node, name, block[:at] + noted)
        return node

    def _note(self, statement):
        return ast.parse(f"_reached.add({(self.file, str(statement.lineno))!r})").body[0]

    def code(self, path):
        """The file's code, with its notes."""
        return compile(ast.fix_missing_locations(self.visit(ast.parse(Path(path).read_text("utf-8")))), path, "exec")


class Gather:
    """Keeps which statements each test came to, and its seconds; of those that pass."""

    def __init__(self):
        self.statements, self.seconds, self.passed, self.imported = {}, {}, set(), set()
        builtins._reached = set()

    def pytest_collection_finish(self):
        """What the import of a file runs, no test can see changed in a process where it is imported."""
        self.imported = set(builtins._reached)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Look at one test."""
        builtins._reached.clear()
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began
            self.statements[item.nodeid] = sorted(builtins._reached)

    def pytest_runtest_logreport(self, report):
        """Tests that fail, or are left out, kill nothing."""
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


class Gathering:
    """The run of all tests that `gathered` looks at, as a job."""

    def __init__(self, tree, file, tests, rooms):
        self.tree, self.file, self.tests, self.rooms, self.limit = tree, file, tests, rooms, None

    def __call__(self):
        """In a fork."""
        gather, rooms = Gather(), [self.tree / room for room in self.rooms]

        def noting(path):
            inside = any(room in Path(path).parents for room in rooms)
            return Noting(str(Path(path).relative_to(self.tree))).code(path) if inside else None

        load_by(noting)
        pytest.main([*self.tests, *QUIETLY], plugins=[gather])
        tests = sorted(gather.passed)
        reached = {}
        for k, test in enumerate(tests):
            for file, line in gather.statements[test]:
                reached.setdefault(file, {}).setdefault(line, []).append(k)
        stored = {"tests": tests, "seconds": [gather.seconds[test] for test in tests], "reached": reached}
        self.file.write_text(json.dumps(stored | {"imported": sorted(gather.imported)}), encoding="utf-8")
        return 0


class Gathered:
    """What a run of all tests has shown: which come to a statement, and how long they take.

    Parameters
    ----------
    tests : list of str
    seconds : list of float
        Of each.
    reached : dict of dict
        By file and line the tests that come to a statement, by their place in the list.
    imported : list
        File and line of the statements that were run before any test was.
    """

    def __init__(self, tests, seconds, reached, imported):
        self.seconds = dict(zip(tests, seconds, strict=True))
        self.reached = {
            file: {line: [tests[k] for k in places] for line, places in lines.items()}
            for file, lines in reached.items()
        }
        self.imported = {tuple(place) for place in imported}
        counts = Counter(k for lines in reached.values() for places in lines.values() for k in places)
        self.dear = {test: counts[k] * seconds[k] for k, test in enumerate(tests)}

    def chosen(self, mutation):
        """The tests of a change, the shortest of few statements first, as many as there is time for."""
        lines = self.reached.get(mutation.file, {})
        names = lines.get(mutation.statement, ())
        if not mutation.statement:  # of the module, or of a class
            names = {name for tests in lines.values() for name in tests}
        taken, spent = [], 0.0
        for name in sorted(names, key=lambda name: (self.dear[name], name)):
            spent += self.seconds[name]
            if spent > SECONDS:
                break
            taken.append(name)
        return taken


def gathered(tree, file, tests, rooms):
    """`Gathered` of some tests in a tree, for the statements of some rooms of its package.

    Parameters
    ----------
    tree : Path
    file : Path
        Where it is kept; the tests are run if it is not there.
    tests : sequence of str
    rooms : sequence of str

    Returns
    -------
    Gathered
    """
    if not file.exists():
        run_forked([Gathering(tree, file, tests, rooms)], 1)
    return Gathered(**json.loads(file.read_text("utf-8")))
