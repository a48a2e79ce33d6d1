"""The house: imports run one way, a wing knows no other wing, and each room says what it is for."""

import ast
from pathlib import Path

import pytest

import sk_stormc

PACKAGE = Path(sk_stormc.__file__).parent
# from the bottom up: a room imports from the rows below its own, and from itself
ROWS = (
    ("utils",),
    ("core",),
    ("engine",),
    ("theory", "streams"),
    ("solvers",),
    ("fitting",),
    ("portfolio", "embedding", "values"),
    ("affinities", "estimators", "metrics", "penalties", "schedules"),  # public names only
    ("datasets",),
    ("callbacks", "checks", "plotting"),
    ("compare",),
    ("problems",),  # public names only
    ("__init__",),
    ("reproduce",),
    ("__main__",),
)
LEVEL = {room: level for level, row in enumerate(ROWS) for room in row}
NAMES_ONLY = ("affinities", "estimators", "metrics", "penalties", "problems", "schedules")


def room_of(path):
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path):
    """The modules of the package that a file imports, with those within functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "sk_stormc")
        elif isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "sk_stormc":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(PACKAGE.rglob("*.py"))


def test_imports_run_downwards():
    for path in FILES:
        here = room_of(path)
        for name in imports(path):
            parts = name.split(".")
            there = parts[1] if parts[1] in LEVEL else "__init__"
            if there == "__init__" and parts[1] == "__version__":
                continue
            assert there == here or LEVEL[there] < LEVEL[here], f"{path.relative_to(PACKAGE)} imports {name}"


def test_every_file_is_in_a_room_of_the_list():
    assert {room_of(path) for path in FILES} == set(LEVEL)


@pytest.mark.parametrize("room", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_each_room_says_its_idea(room):
    """A line, and a paragraph where the room has more than names."""
    text = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
    first, *more = ast.get_docstring(ast.parse(text)).split("\n\n")
    assert len(first) > 40
    assert room in NAMES_ONLY or len(" ".join(more)) > 60


@pytest.mark.parametrize("room", NAMES_ONLY)
def test_public_rooms_have_names_only(room):
    path = PACKAGE / f"{room}.py"
    path = path if path.exists() else PACKAGE / room / "__init__.py"
    assert path.name != "__init__.py" or [file.name for file in path.parent.glob("*.py")] == ["__init__.py"]
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        kinds = (ast.Expr, ast.ImportFrom, ast.Assign)
        assert isinstance(node, kinds), f"{path}: line {node.lineno} is more than an import"


@pytest.mark.parametrize("place", ["docs", "examples", "benchmarks"])
def test_who_is_outside_imports_no_module_with_an_underscore(place):
    for path in (PACKAGE.parent / place).rglob("*.py"):
        for name in imports(path):
            assert not any(part.startswith("_") and part != "__version__" for part in name.split(".")), (
                f"{path}: {name}"
            )


def test_files_of_tests_have_names_of_their_own():
    """Two of one name in two rooms, which are no packages, cannot be collected together."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
