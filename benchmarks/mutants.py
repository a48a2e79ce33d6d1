"""How many small changes of the core, the engine and the solvers the quick tests notice.

A change is one of `benchmarks/_mutations.py`: a comparison, an operator, a number, the branches of a condition, a
statement left out, and the like. Some hundreds are drawn by a seed, of each file in proportion to its length. First all
tests run once, and it is kept which of them call which function and how long each takes. Then each change is tried by
the tests that call its function, until one fails: those of its room and the shortest come first. They are forks of one
process, and see the changed file in place of the file; nothing is written into the sources. A change that makes the
tests take several times as long is timed out, which is noticed too.

All runs on a copy of the sources in ``build/mutants``, where results are kept as they come: a run that was ended goes
on. The environment variables MUTANTS (how many in each part) and MUTANT_PROCESSES (how many at once) may say otherwise
than the defaults.
"""

import ast
import builtins
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from importlib.machinery import SourceFileLoader
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from benchmarks._mutants_left import REASONS
from benchmarks._mutations import begin, mutations_of, spread
from benchmarks._tables import ROOT, markdown

DURATION = "2 hours"
NEEDS_DATA = False
PACKAGES = ()
PARTS = {"core": "sk_stormc/core", "engine": "sk_stormc/engine", "solvers": "sk_stormc/solvers"}
TESTS = (
    *PARTS.values(), "tests/core", "tests/engine", "tests/solvers", "tests/checks", "tests/streams",
    "tests/fitting/test_resume.py", "tests/house/test_silence.py",
)  # fmt: skip
HEAVY = ("pandas", "hypothesis.strategies", "matplotlib.pyplot", "scipy.stats", "sklearn.utils.estimator_checks")
NUMBER, SEED = 150, 0
SECONDS = 25  # of CPU time, that the tests of one change may take without it
SLOWER, START = 5, 30  # times as long and so many seconds more are timed out
# asserts of files that are named would be rewritten from the file itself, past the change
QUIETLY = ("-q", "-p", "no:cacheprovider", "--assert=plain")
OUTCOMES = ("killed", "timed out", "survived")


def run_part(part, quick, images):
    """The outcome of the changes of a room: counts by file, and those that no test noticed."""
    number = 3 if quick else int(os.environ.get("MUTANTS", NUMBER))
    tests = tuple(PARTS.values()) if quick else TESTS
    tree, folder = copied(tests)
    callers, seconds = gathered(tree, folder / "tests.json", tests)
    paths = sorted((tree / PARTS[part]).glob("*.py"))
    sources = {str(path.relative_to(tree)): path.read_text("utf-8") for path in paths}
    drawn = spread([m for file, text in sources.items() for m in mutations_of(file, text)], number, SEED)
    found = tried(drawn, sources, tree, folder / f"{part}.jsonl", callers, seconds)
    counts = Counter((mutation.file, outcome) for mutation, outcome in found)
    files = {m.file: [counts[m.file, outcome] for outcome in OUTCOMES] for m in drawn}
    left = [place(m, sources) | {"tests": len(chosen(m, callers, seconds))} for m, o in found if o == "survived"]
    return {"files": files, "survivors": left}


def place(mutation, sources):
    """A change as the results name it."""
    line = sources[mutation.file].splitlines()[mutation.line - 1].strip()
    return {"file": mutation.file, "line": line, "before": mutation.before, "after": mutation.after}


def copied(tests):
    """A copy of what the tests need, in a folder named after its content, and the folder."""
    wanted = [path for room in ("sk_stormc", "tests", "benchmarks") for path in sorted((ROOT / room).rglob("*.py"))]
    wanted += [ROOT / "pyproject.toml", *sorted((ROOT / "benchmarks" / "results").glob("*.json"))]
    content = hashlib.sha256(repr(tests).encode())
    for path in wanted:
        content.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    folder = ROOT / "build" / "mutants" / content.hexdigest()[:12]
    if not (folder / "tree").exists():
        for path in wanted:
            to = folder / "new" / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        (folder / "new").rename(folder / "tree")
    return folder / "tree", folder


class Noting(ast.NodeTransformer):
    """Has every function of a file note that it is called."""

    def __init__(self, file):
        self.file = file

    def visit_FunctionDef(self, node):
        """One more statement, behind the docstring."""
        self.generic_visit(node)
        note = ast.parse(f"_called.add({(self.file, begin(node))!r})").body[0]
        node.body.insert(0 if ast.get_docstring(node) is None else 1, note)
        return node

    def code(self, path):
        """The file's code, with its notes."""
        return compile(ast.fix_missing_locations(self.visit(ast.parse(Path(path).read_text("utf-8")))), path, "exec")


class Gather:
    """Keeps which functions each test calls, and its seconds; of those that pass."""

    def __init__(self):
        self.functions, self.seconds, self.passed = {}, {}, set()
        builtins._called = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Look at the calls of one test."""
        builtins._called.clear()
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began
            self.functions[item.nodeid] = sorted(builtins._called)

    def pytest_runtest_logreport(self, report):
        """Tests that fail, or are left out, kill nothing."""
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


class Chosen:
    """Runs some tests in an order."""

    def __init__(self, names):
        self.order = {name: k for k, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items):
        """Those, in that order."""
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])


def gathered(tree, file, tests):
    """By file and first line of a function the tests that call it; the seconds of each test."""
    if not file.exists():
        run_forked([Gathering(tree, file, tests)], 1)
    stored = json.loads(file.read_text("utf-8"))
    return stored["callers"], stored["seconds"]


class Gathering:
    """The run that `gathered` looks at, as a job."""

    def __init__(self, tree, file, tests):
        self.tree, self.file, self.tests, self.limit = tree, file, tests, None

    def __call__(self):
        """In a fork."""
        gather, package = Gather(), self.tree / "sk_stormc"

        def noting(path):
            inside = package in Path(path).parents
            return Noting(str(Path(path).relative_to(self.tree))).code(path) if inside else None

        load_by(noting)
        pytest.main([*self.tests, *QUIETLY], plugins=[gather])
        callers = {}
        for test in sorted(gather.passed):
            for name, line in gather.functions[test]:
                callers.setdefault(name, {}).setdefault(line, []).append(test)
        seconds = {test: gather.seconds[test] for test in gather.passed}
        self.file.write_text(json.dumps({"callers": callers, "seconds": seconds}), encoding="utf-8")
        return 0


class Trial:
    """The tests of one change, as a job."""

    def __init__(self, mutation, text, tree, names, seconds):
        self.mutation, self.text, self.tree, self.names = mutation, text, tree, names
        self.limit = SLOWER * seconds + START

    def __call__(self):
        """In a fork: the tests' exit status."""
        changed = str(self.tree / self.mutation.file)
        load_by(lambda path: compile(self.text, path, "exec") if path == changed else None)
        files = sorted({name.split("::")[0] for name in self.names})
        return pytest.main([*files, "-x", *QUIETLY], plugins=[Chosen(self.names)])


def chosen(mutation, callers, seconds):
    """The tests of a change, those of its room and the shortest first, as many as there is time for."""
    by_function = callers.get(mutation.file, {})
    names = by_function.get(mutation.function, ())
    if not mutation.function:  # of the module, or of a class
        names = {name for tests in by_function.values() for name in tests}
    taken, spent, room = [], 0.0, f"/{Path(mutation.file).parts[1]}/"
    for name in sorted(names, key=lambda name: (room not in name, seconds[name], name)):
        spent += seconds[name]
        if spent > SECONDS:
            break
        taken.append(name)
    return taken


def tried(drawn, sources, tree, file, callers, seconds):
    """Changes and outcomes, those that are kept in the file and those that are still to be tried."""
    kept = {}
    if file.exists():
        kept = dict(json.loads(line) for line in file.read_text("utf-8").splitlines())
    jobs = []
    for mutation in drawn:
        names = chosen(mutation, callers, seconds)
        if str(mutation) not in kept and names:
            text = mutation.applied(sources[mutation.file])
            jobs.append(Trial(mutation, text, tree, names, sum(seconds[name] for name in names)))

    def keep(job, status):
        outcome = "survived" if status == 0 else "timed out" if status == -signal.SIGXCPU else "killed"
        kept[str(job.mutation)] = outcome
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([str(job.mutation), outcome]) + "\n")
        print(f"{len(kept):4d} {outcome:9} {job.mutation}"[:160], flush=True)

    run_forked(jobs, int(os.environ.get("MUTANT_PROCESSES", max(1, (os.cpu_count() or 1) // 2))), keep)
    return [(mutation, kept.get(str(mutation), "survived")) for mutation in drawn]  # what no test calls is left


def load_by(code_of):
    """Let modules be loaded from ``code_of(path)``, where that is not None."""
    plain = SourceFileLoader.get_code
    SourceFileLoader.get_code = lambda loader, name: code_of(loader.path) or plain(loader, name)


def run_forked(jobs, processes, keep=lambda job, status: None):
    """Call each job in a fork of its own, so many at once; ``keep(job, status)`` is told how each ended."""
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    fork, waiting, running = multiprocessing.get_context("fork"), list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < processes:
            job = waiting.pop()
            process = fork.Process(target=alone, args=(job,))
            process.start()
            running[process.sentinel] = process, job
        for sentinel in wait(list(running)):
            process, job = running.pop(sentinel)
            process.join()
            keep(job, process.exitcode)


def alone(job):
    """Call a job where the package is that of its tree, in silence and with a limit of CPU time."""
    os.nice(10)
    if job.limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(job.limit), int(job.limit) + 10))
    os.chdir(job.tree)
    os.environ["PYTHONPATH"] = str(job.tree)
    sys.path[:] = [str(job.tree), *(entry for entry in sys.path if entry and Path(entry).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("sk_stormc", "benchmarks", "tests")]:
        if name != __name__:
            del sys.modules[name]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os._exit(int(job()))


def tables(stored):
    """What was noticed, by file; what was not, with a reason."""
    parts = stored["results"].values()
    rows, total = [], Counter()
    for file, counts in sorted(pair for part in parts for pair in part["files"].items()):
        rows.append([f"`{file.removeprefix('sk_stormc/')}`", str(sum(counts)), *map(str, counts), share(counts)])
        total.update(dict(zip(OUTCOMES, counts, strict=True)))
    counts = [total[outcome] for outcome in OUTCOMES]
    rows.append(["all", str(sum(counts)), *map(str, counts), share(counts)])
    header = ["file", "changes", *OUTCOMES, "noticed"]
    left = [
        [f"`{m['file'].removeprefix('sk_stormc/')}`", code(m["line"]), f"{code(m['before'])} to {code(m['after'])}",
         REASONS.get((m["file"], m["before"], m["after"]), "")]
        for part in parts for m in part["survivors"]
    ]  # fmt: skip
    return {
        "files": markdown(header, rows),
        "survivors": markdown(["file", "line", "change", "why no test notices"], left),
    }


def share(counts):
    """The part that was noticed."""
    return f"{1 - counts[-1] / sum(counts):.0%}"


def code(text):
    """Code in a cell of a table."""
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text if len(text) < 70 else text[:66] + ' ...'}`"
