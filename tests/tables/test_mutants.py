"""The changes that `benchmarks mutants` makes, which of them it draws, and that a failing test is seen as one."""

import ast
import textwrap

import pytest

from benchmarks import mutants
from benchmarks._mutations import mutations_of, spread
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


@pytest.mark.parametrize("room", mutants.PARTS.values())
def test_every_change_of_the_package_is_python_and_another(room):
    for path in sorted((ROOT / room).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        plain = ast.dump(ast.parse(source))
        for mutation in spread(mutations_of(path.name, source), 40, 0):
            assert ast.dump(ast.parse(mutation.applied(source))) != plain, mutation


def test_a_change_is_in_its_place_behind_letters_of_several_bytes():
    source = 'x = "größer"; y = 1 + 2  # ü\n'
    (mutation,) = [m for m in mutations_of("a.py", source) if m.kind == "arithmetic"]
    assert mutation.applied(source) == 'x = "größer"; y = (1 - 2)  # ü\n'


def test_the_seed_draws_of_every_file_one_of_each_place():
    many = mutations_of("many.py", "\n".join(f"x{k} = {k} < y and 3 or 7" for k in range(90)))
    few = mutations_of("few.py", "\n".join(f"x{k} = {k} < y and 3 or 7" for k in range(10)))
    drawn = spread([*many, *few], 40, seed=3)
    assert drawn == spread([*many, *few], 40, seed=3) != spread([*many, *few], 40, seed=4)
    assert len(drawn) == 40 and sum(m.file == "few.py" for m in drawn) in (3, 4, 5)
    assert len({(m.file, m.start, m.end, m.kind) for m in spread(many, 10**6, 0)}) == len(spread(many, 10**6, 0))


def test_the_shortest_tests_of_a_function_come_first_as_many_as_there_is_time_for():
    file, mine = "sk_stormc/core/a.py", "tests/core/test_a.py"
    callers = {file: {"2": ["long", "short", mine], "30": ["other"]}}
    seconds = {"long": 50.0, "short": 0.1, mine: 20.0, "other": 1.0}
    (inside, *_) = mutations_of(file, SOURCE)
    (outside,) = [m for m in mutations_of(file, "LEAST = 0.25 < 1") if m.kind == "comparison"]
    assert mutants.chosen(inside, callers, seconds) == ["tests/core/test_a.py", "short"]
    assert mutants.chosen(outside, callers, seconds) == ["tests/core/test_a.py", "short", "other"]
    assert mutants.chosen(inside, {}, seconds) == []


@pytest.mark.slow
def test_outcomes(tmp_path, monkeypatch):
    """A tree of its own, with a change that its test notices, one that it does not, and one that never ends."""
    source = "def f(n):\n    k = 0\n    while k < n:\n        k += 1\n    return k >= 0 and k\n"
    for name, text in {
        "sk_stormc/__init__.py": "", "sk_stormc/core/__init__.py": "", "sk_stormc/core/a.py": source,
        "tests/test_a.py": "from sk_stormc.core.a import f\ndef test_f():\n    assert f(3) == 3\n",
        "tests/test_b.py": "from sk_stormc.core.a import f\ndef test_f():\n    assert f(3) == 4\n",
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    }.items():  # fmt: skip
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    monkeypatch.setattr(mutants, "START", 4)
    monkeypatch.setattr(mutants, "HEAVY", ())
    tree, file = tmp_path / "tree", "sk_stormc/core/a.py"
    callers, seconds = mutants.gathered(tree, tmp_path / "tests.json", ("tests",))
    assert list(seconds) == ["tests/test_a.py::test_f"]  # the other fails without a change
    assert callers[file]["1"] == ["tests/test_a.py::test_f"]
    mutations = [
        m for m in mutations_of(file, source)
        if (m.before, m.after) in {("k < n", "(k <= n)"), ("k >= 0", "(k > 0)"), ("k += 1", "pass")}
    ]  # fmt: skip
    found = mutants.tried(mutations, {file: source}, tree, tmp_path / "a.jsonl", callers, seconds)
    assert [outcome for _, outcome in found] == ["killed", "timed out", "survived"]
    assert (tree / file).read_text() == source
    # what is kept is not run again
    monkeypatch.setattr(mutants, "run_forked", lambda jobs, *_: pytest.fail("run again") if jobs else None)
    assert found == mutants.tried(mutations, {file: source}, tree, tmp_path / "a.jsonl", callers, seconds)
