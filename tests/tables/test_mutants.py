"""The changes that `benchmarks mutants` makes, which of them it draws, and that a failing test is seen as one."""

import ast
import gc
import textwrap
import weakref

import numpy as np
import pytest

from benchmarks import _forks, _tables, mutants
from benchmarks._gathered import Gathered, gathered
from benchmarks._mutants_left import REASONS
from benchmarks._mutations import mutations_of, spread
from benchmarks._swapped import Swap, functions_in
from benchmarks._tables import ROOT

SOURCE = '''
def clipped(x, low=0, high=None):
    """Not a number below low."""
    if x < low:
        x = low
    if high is not None and not x <= high:
        raise ValueError(f"x must be at most {high + 1}, got {x * 2}")
    self.seen = x
    seen.append(x)
    return min(x, high) if high else x - seen[1:]
'''


def changes(source, kind):
    return {(m.before, m.after) for m in mutations_of("a.py", textwrap.dedent(source)) if m.kind == kind}


def test_changes_of_a_function():
    assert changes(SOURCE, "comparison") == {
        ("x < low", "(x <= low)"), ("x <= high", "(x < high)"), ("high is not None", "(high is None)")
    }  # fmt: skip
    assert changes(SOURCE, "arithmetic") == {("x - seen[1:]", "(x + seen[1:])")}
    assert changes(SOURCE, "constant") == {("0", "1"), ("1", "2"), ("1", "0")}
    assert changes(SOURCE, "logic") == {
        ("high is not None and not x <= high", "(high is not None or not x <= high)"), ("not x <= high", "(x <= high)")
    }  # fmt: skip
    assert changes(SOURCE, "branches") == {
        ("x < low", "(not x < low)"),
        ("high is not None and not x <= high", "(not (high is not None and (not x <= high)))"),
        ("min(x, high) if high else x - seen[1:]", "(x - seen[1:] if high else min(x, high))"),
    }
    assert changes(SOURCE, "extremes") == {("min(x, high)", "(max(x, high))")}
    assert changes(SOURCE, "statement") == {("self.seen = x", "pass"), ("seen.append(x)", "pass")}
    assert changes(SOURCE, "slice") == {("1", "(1 + 1)")}


@pytest.mark.parametrize("room", mutants.ROOMS.values())
def test_every_change_of_the_package_is_python_and_another(room):
    for path in sorted((ROOT / room).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        plain = ast.dump(ast.parse(source))
        for mutation in spread(mutations_of(path.name, source), 4, 0):
            assert ast.dump(ast.parse(mutation.applied(source))) != plain, mutation


def test_a_change_is_in_its_place_behind_letters_of_several_bytes():
    source = 'x = "größer"; y = 1 + 2  # ü\n'
    (mutation,) = [m for m in mutations_of("a.py", source) if m.kind == "arithmetic"]
    assert mutation.applied(source) == 'x = "größer"; y = (1 - 2)  # ü\n'


def test_what_is_for_readers_or_never_so_is_not_changed():
    assert not mutations_of("a.py", "def f(a, b):\n    return zip(a, b, strict=True)")
    assert not mutations_of("a.py", "@frozen(True)\nclass A:\n    def __repr__(self):\n        return 1 + 2")


def test_a_change_is_the_same_while_its_function_is():
    def keys(source, before):
        return [m.key for m in mutations_of("a.py", source) if m.before == before]

    text = "def f(x):\n    return x + 1\n\ndef g(x):\n    return x + 1 + (x + 1)\n"
    (one,), several = keys("def f(x):\n    return x + 1\n", "x + 1"), keys(text, "x + 1")
    assert several[0] == one and len(set(several)) == 3
    told = text.replace("def g(x):\n", 'def g(x):\n    """Twice."""\n    # and more\n')
    assert keys("import os\n\n" + told, "x + 1") == several
    assert keys(text.replace("+ (x", "- (x"), "x + 1")[0] == one
    assert not set(keys(text.replace("+ (x", "- (x"), "x + 1")[1:]) & set(several)


def test_the_seed_draws_of_every_file_one_of_each_place():
    many = mutations_of("many.py", "\n".join(f"x{k} = {k} < y and 3 or 7" for k in range(90)))
    few = mutations_of("few.py", "\n".join(f"x{k} = {k} < y and 3 or 7" for k in range(10)))
    drawn = spread([*many, *few], 40, seed=3)
    assert drawn == spread([*many, *few], 40, seed=3) != spread([*many, *few], 40, seed=4)
    assert len(drawn) == 40 and sum(m.file == "few.py" for m in drawn) == 4
    longer = mutations_of("few.py", "\n".join(f"x{k} = {k} < y and 3 or 7" for k in range(11)))
    again = spread([*many, *longer], 40, seed=3)  # what is drawn of the others stays, but for one
    assert len({m for m in drawn if m.file == "many.py"} - set(again)) <= 1
    assert len({(m.file, m.start, m.end, m.kind) for m in spread(many, 10**6, 0)}) == len(spread(many, 10**6, 0))


def test_the_shortest_tests_that_come_to_a_statement_are_first_as_many_as_there_is_time_for():
    file = "sk_stormc/core/a.py"
    names, seconds = ["long", "short", "middle", "other"], [50.0, 0.1, 5.0, 1.0]
    known = Gathered(names, seconds, {file: {"4": [0, 1, 2], "30": [3]}}, [])
    inside = next(m for m in mutations_of(file, SOURCE) if m.before == "x < low")
    (outside,) = [m for m in mutations_of(file, "LEAST = 0.25 < 1") if m.kind == "comparison"]
    assert known.chosen(inside) == ["short", "middle"]
    assert known.chosen(outside) == ["short", "other", "middle"]
    assert Gathered(names, seconds, {}, []).chosen(inside) == []


def test_what_is_changed_in_a_function_that_is_there_and_what_needs_an_import():
    """A name of a module, the default of an argument and the body of a class are read when a file is imported."""
    text = textwrap.dedent("""
        LEAST = 1

        class A:
            field = 2

            def __repr__(self):
                return super().__repr__()

            @property
            def twice(self):
                return [2 * value for value in (self.field, LEAST)]

        def start(x=3):
            def inner():
                return x + 4

            return inner
    """)
    scope = {}
    exec(compile(text, "/folder/a.py", "exec"), scope)
    functions = functions_in("/folder")

    def swap(before, after):
        return Swap("/folder/a.py", text, text.replace(before, after))

    for before in ("LEAST = 1", "field = 2", "x=3"):
        assert not swap(before, before[:-1] + "7").possible
    assert not swap("super().__repr__()", "''").possible  # the closure of super is gone
    for before, after in {"[2 * value": "[5 * value", "x + 4": "x + 7"}.items():
        assert swap(before, after).possible
        swap(before, after).make(functions)
    assert scope["A"]().twice == [10, 5] and scope["start"]()() == 10


@pytest.mark.parametrize("room", ["core", "engine", "solvers"])
def test_nine_of_ten_changes_are_noticed_and_the_rest_has_a_reason(room):
    stored = _tables.load("mutants")["results"][room]
    counts = np.sum(list(stored["files"].values()), 0)
    assert counts.sum() >= 150 and counts[-1] == len(stored["survivors"]) <= counts.sum() / 10
    for left in stored["survivors"]:
        assert REASONS[left["file"], left["line"], left["before"], left["after"]]


@pytest.mark.slow
def test_outcomes(tmp_path, monkeypatch):
    """A tree of its own, with a change that its test notices, one that it does not, and one that never ends."""
    source = "STEP = 1\n\ndef f(n):\n    k = 0\n    while k < n:\n        k += STEP\n    return k >= 0 and k\n"
    for name, text in {
        "sk_stormc/__init__.py": "", "sk_stormc/core/__init__.py": "", "sk_stormc/core/a.py": source,
        "tests/test_a.py": "from sk_stormc.core.a import f\ndef test_f():\n    assert f(3) == 3\n",
        "tests/test_b.py": "from sk_stormc.core.a import f\ndef test_f():\n    assert f(3) == 4\n",
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    }.items():  # fmt: skip
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    monkeypatch.setattr(mutants, "START", 4)
    monkeypatch.setattr(_forks, "HEAVY", ())
    tree, file = tmp_path / "tree", "sk_stormc/core/a.py"
    known = gathered(tree, tmp_path / "tests.json", ("tests",), ("sk_stormc/core",))
    assert list(known.seconds) == ["tests/test_a.py::test_f"]  # the other fails without a change
    assert known.reached[file] == dict.fromkeys("4567", ["tests/test_a.py::test_f"]) and not known.imported
    wanted = {("1", "2"): "killed", ("k < n", "(k <= n)"): "killed", ("k += STEP", "pass"): "timed out",
              ("k >= 0", "(k > 0)"): "survived"}  # fmt: skip
    mutations = [m for m in mutations_of(file, source) if (m.before, m.after) in wanted]
    found = mutants.tried(mutations, {file: source}, tree, tmp_path / "a.jsonl", known, ("tests",))
    assert {(m.before, m.after): outcome for m, outcome in found} == wanted
    assert (tree / file).read_text() == source
    # what is kept is not run again, and counts if it is not drawn
    monkeypatch.setattr(mutants, "run_forked", lambda jobs, *_: pytest.fail("run again") if jobs else None)
    assert found == mutants.tried(mutations, {file: source}, tree, tmp_path / "a.jsonl", known, ("tests",))
    assert found == mutants.tried([], {file: source}, tree, tmp_path / "a.jsonl", known, ("tests",))
    # nor in a tree with other tests, where it is a draw that no test was written for
    (tmp_path / "tree").rename(tmp_path / "other")
    other = tmp_path / "other"
    assert found == mutants.tried([], {file: source}, other, tmp_path / "a.jsonl", known, ("tests",), again=False)


def test_functions_are_found_beside_a_proxy_of_something_that_is_gone():
    class Gone:
        pass

    thing = Gone()
    proxy = weakref.proxy(thing)
    del thing
    gc.collect()
    assert functions_in("/nowhere") == {} and type(proxy) is weakref.ProxyType
