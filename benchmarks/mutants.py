"""How many small changes of the core, the engine and the solvers the quick tests notice.

A change is one of `benchmarks/_mutations.py`: a comparison, an operator, a number, the branches of a condition, a
statement left out, and the like. Some hundreds are drawn by a seed, of each file in proportion to its length. First all
tests run once, and it is kept which of them come to which statement and how long each takes. Then each change is tried
by the tests that come to its statement, until one fails: the shortest that come to few others are first. They are
forks of one process, which has imported everything and collected all tests. A change within a function is made in the
code of that function; where more changes than that, the fork imports everything again, and sees the changed file in
place of the file. Nothing is written into the sources. A change that makes the tests take several times as long is
timed out, which is noticed too.

All runs on a copy of the sources in ``build/mutants``, where outcomes are kept as they come: a run that was ended goes
on. A change that was noticed is not tried again while its function stays as it is, and one that was not is tried again
with every new version of the tests. What was drawn before counts as long as it can still be made. The environment
variables MUTANTS (how many in each room) and MUTANT_PROCESSES (how many at once) may say otherwise than the defaults.

The part "fresh" draws by another seed, MUTANTS_SEED, in places where nothing was ever tried. What it finds is not
tried again with later tests: these may have been written for it.
"""

import contextlib
import gc
import hashlib
import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from _pytest.main import pytest_runtestloop as run_items

from benchmarks._forks import load_by, run_forked
from benchmarks._gathered import QUIETLY, gathered
from benchmarks._mutants_left import REASONS
from benchmarks._mutations import mutations_of, spread
from benchmarks._swapped import Swap, functions_in
from benchmarks._tables import ROOT, markdown

DURATION = "2 hours"
NEEDS_DATA = False
PACKAGES = ()
ROOMS = {"core": "sk_stormc/core", "engine": "sk_stormc/engine", "solvers": "sk_stormc/solvers"}
PARTS = (*ROOMS, "fresh")
TESTS = (
    *ROOMS.values(), "tests/core", "tests/engine", "tests/solvers", "tests/checks", "tests/streams",
    "tests/values/test_stream_values.py", "tests/fitting/test_resume.py", "tests/house/test_errors.py",
    "tests/house/test_silence.py",
)  # fmt: skip
NUMBER, SEED = 150, 0
FRESH, FRESH_SEED = 100, 1
SLOWER, START = 5, 30  # times as long and so many seconds more are timed out
OUTCOMES = ("killed", "timed out", "survived")


def run_part(part, quick, images):
    """The outcome of the changes of a room: counts by file, and those that no test noticed; of "fresh", by room."""
    tree, folder = copied()
    if part == "fresh":
        return {"rooms": {room: fresh(room, quick, tree, folder) for room in ROOMS}}
    sources = sources_of(part, tree)
    drawn = spread(every_of(sources), 3 if quick else int(os.environ.get("MUTANTS", NUMBER)), SEED)
    known, tests = known_of(quick, tree, folder)
    found = tried(drawn, sources, tree, file_of(quick, folder), known, tests)
    counts = Counter((mutation.file, outcome) for mutation, outcome in found)
    files = {m.file: [counts[m.file, outcome] for outcome in OUTCOMES] for m, _ in found}
    left = [place(m, sources) | {"tests": len(known.chosen(m))} for m, o in found if o == "survived"]
    return {"files": files, "survivors": left}


def fresh(room, quick, tree, folder):
    """How many changes of a room came to each outcome, of some that were never tried before."""
    number, seed = 3 if quick else FRESH, int(os.environ.get("MUTANTS_SEED", FRESH_SEED))
    sources, before = sources_of(room, tree), kept(file_of(quick, folder))
    every = every_of(sources)
    places = {(m.file, m.start, m.kind) for m in every if m.key in before}
    drawn = spread([m for m in every if (m.file, m.start, m.kind) not in places], number, seed)
    known, tests = known_of(quick, tree, folder)
    found = tried(drawn, sources, tree, file_of(quick, folder, f"_{seed}"), known, tests, again=False)
    counts = Counter(outcome for _, outcome in found)
    return [counts[outcome] for outcome in OUTCOMES]


def sources_of(room, tree):
    """The text of each file of a room."""
    return {str(path.relative_to(tree)): path.read_text("utf-8") for path in sorted((tree / ROOMS[room]).glob("*.py"))}


def every_of(sources):
    """All changes of some files."""
    return [mutation for file, text in sources.items() for mutation in mutations_of(file, text)]


def known_of(quick, tree, folder):
    """Which tests come to what, and the folders and files that they are in."""
    scope, tests = ("quick", tuple(ROOMS.values())) if quick else ("all", TESTS)
    return gathered(tree, folder / f"{scope}.json", tests, ROOMS.values()), tests


def file_of(quick, folder, of_a_draw=""):
    """Where outcomes are kept."""
    return folder.parent / f"{'quick' if quick else 'all'}{of_a_draw}.jsonl"


def place(mutation, sources):
    """A change as the results name it."""
    line = sources[mutation.file].splitlines()[mutation.line - 1].strip()
    return {"file": mutation.file, "line": line, "before": mutation.before, "after": mutation.after}


def copied():
    """A copy of the sources, in a folder named after the package and its tests, and the folder."""
    wanted = [path for room in ("sk_stormc", "tests", "benchmarks") for path in sorted((ROOT / room).rglob("*.py"))]
    content = hashlib.sha256()
    for path in wanted:
        name = str(path.relative_to(ROOT))
        if not name.startswith(("benchmarks/", "tests/tables/")):
            content.update(name.encode() + b"\0" + path.read_bytes())
    folder = ROOT / "build" / "mutants" / content.hexdigest()[:12]
    if not (folder / "tree").exists():
        for path in [*wanted, ROOT / "pyproject.toml"]:
            to = folder / "new" / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        (folder / "new").rename(folder / "tree")
    return folder / "tree", folder


class Chosen:
    """Runs some tests in an order."""

    def __init__(self, names):
        self.order = {name: k for k, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items):
        """Those, in that order."""
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])


class Trial:
    """The tests of one change, as a job."""

    def __init__(self, mutation, source, tree, known):
        self.mutation, self.tree, self.path = mutation, tree, str(tree / mutation.file)
        self.text = mutation.applied(source)
        self.names = known.chosen(mutation)
        self.limit = SLOWER * sum(known.seconds[name] for name in self.names) + START
        self.swap = Swap(self.path, source, self.text)
        self.swaps = self.swap.possible and (mutation.file, mutation.statement) not in known.imported

    def __call__(self):
        """In a fork that imports everything: the tests' exit status."""
        load_by(lambda path: compile(self.text, path, "exec") if path == self.path else None)
        files = sorted({name.split("::")[0] for name in self.names})
        return pytest.main([*files, "-x", *QUIETLY], plugins=[Chosen(self.names)])


class Collected:
    """Collects tests once, as a job, and tries changes on them, each in a fork.

    Parameters
    ----------
    trials : list of Trial
        Of changes that are made in functions which are already imported.
    tree : Path
    tests : sequence of str
    keep : callable
        Is told how each ended.
    """

    def __init__(self, trials, tree, tests, keep):
        self.trials, self.tree, self.tests, self.keep, self.limit = trials, tree, tests, keep, None

    def __call__(self):
        """In a fork."""
        return pytest.main([*self.tests, "-x", *QUIETLY], plugins=[self])

    def pytest_runtestloop(self, session):
        """In place of a run of all."""
        gc.unfreeze()  # what tests/conftest.py has frozen is not among the objects that the collector knows
        items, functions = {item.nodeid: item for item in session.items}, functions_in(self.tree)
        gc.collect()
        gc.freeze()  # or each fork would copy all that its collector looks at
        run_forked([Warm(trial, session, items, functions) for trial in self.trials], processes(), self.keep)
        return True


class Warm:
    """A trial in a process where everything is imported and collected."""

    def __init__(self, trial, session, items, functions):
        self.trial, self.session, self.items, self.functions = trial, session, items, functions
        self.tree, self.limit = None, trial.limit

    def __call__(self):
        """In a fork of it."""
        self.trial.swap.make(self.functions)
        self.session.items[:] = [self.items[name] for name in self.trial.names]
        with contextlib.suppress(self.session.Failed):
            run_items(self.session)
        return bool(self.session.testsfailed)


def tried(drawn, sources, tree, file, known, tests, again=True):
    """Changes and outcomes: those that are drawn, and those that are kept in the file and still can be made.

    What was not noticed in another tree is tried again, unless ``again`` is false.
    """
    here, console = tree.parent.name, os.fdopen(os.dup(1), "w")

    def keep(job, status):
        outcome = "survived" if status == 0 else "timed out" if status == -signal.SIGXCPU else "killed"
        mutation = getattr(job, "trial", job).mutation
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([mutation.key, outcome, here]) + "\n")
        print(f"{outcome:9} {mutation}"[:160], file=console, flush=True)

    before, wanted = kept(file), {mutation.key for mutation in drawn}
    every = [mutation for mutation in every_of(sources) if mutation.key in wanted | set(before)]
    trials = []
    for mutation in every:
        outcome, where = before.get(mutation.key, ("survived", None))
        if where is None or (again and outcome == "survived" and where != here):
            trials.append(Trial(mutation, sources[mutation.file], tree, known))
    trials = [trial for trial in trials if trial.names]
    warm = [trial for trial in trials if trial.swaps]
    if warm:
        run_forked([Collected(warm, tree, tests, keep)], 1)
    run_forked([trial for trial in trials if not trial.swaps], processes(), keep)
    console.close()
    outcomes = kept(file)
    return [(m, outcomes.get(m.key, ("survived", ""))[0]) for m in every]  # what no test reaches is left


def kept(file):
    """The outcomes in a file, by change, and the trees that they are of."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {key: (outcome, tree) for key, outcome, tree in map(json.loads, lines)}


def processes():
    """How many changes are tried at once."""
    return int(os.environ.get("MUTANT_PROCESSES", max(1, (os.cpu_count() or 1) // 2)))


def tables(stored):
    """What was noticed, by file; what was not, with a reason."""
    results = stored["results"]
    parts = [results[room] for room in ROOMS if room in results]
    rows, total = [], Counter()
    for file, counts in sorted(pair for part in parts for pair in part["files"].items()):
        rows.append([f"`{file.removeprefix('sk_stormc/')}`", str(sum(counts)), *map(str, counts), share(counts)])
        for name in (Path(file).parts[1], "all rooms"):
            total.update({(name, outcome): count for outcome, count in zip(OUTCOMES, counts, strict=True)})
    for name in sorted({name for name, _ in total}, key=lambda name: (name == "all rooms", name)):
        counts = [total[name, outcome] for outcome in OUTCOMES]
        rows.append([name, str(sum(counts)), *map(str, counts), share(counts)])
    header = ["file", "changes", *OUTCOMES, "noticed"]
    left = [
        [f"`{m['file'].removeprefix('sk_stormc/')}`", code(m["line"]), f"{code(m['before'])} to {code(m['after'])}",
         REASONS.get((m["file"], m["line"], m["before"], m["after"]), "")]
        for part in parts for m in part["survivors"]
    ]  # fmt: skip
    new = results["fresh"]["rooms"].items() if "fresh" in results else ()
    new = [[room, str(sum(counts)), *map(str, counts), share(counts)] for room, counts in new]
    return {
        "files": markdown(header, rows),
        "survivors": markdown(["file", "line", "change", "why no test notices"], left),
        "fresh": markdown(["room", "changes", *OUTCOMES, "noticed"], new),
    }


def share(counts):
    """The part that was noticed."""
    return f"{1 - counts[-1] / sum(counts):.0%}"


def code(text):
    """Code in a cell of a table."""
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text if len(text) < 70 else text[:66] + ' ...'}`"
