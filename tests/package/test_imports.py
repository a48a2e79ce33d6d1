"""The layers of the package: imports run one way, and lower layers ask a problem only
for what it declares."""

import ast
from functools import cache
from pathlib import Path

import pytest

import sk_stormc
from sk_stormc.problems import CompositionalProblem

PACKAGE = Path(sk_stormc.__file__).parent
# from the bottom up: a package imports from the layers below its own, and from itself
LAYERS = (
    ("utils",),
    ("core",),
    ("engine",),
    ("theory", "streams"),
    ("solvers",),
    ("fitting",),
    ("portfolio", "embedding", "values"),
    # public names only
    (
        "affinities",
        "estimators",
        "penalties",
        "preconditioners",
        "preprocessing",
        "schedules",
    ),
    ("datasets", "metrics"),
    ("callbacks", "checks", "plotting"),
    ("compare",),
    ("backtest",),
    ("problems",),  # public names only
    ("__init__",),
    ("cli",),
    ("reproduce",),
    ("__main__",),
)
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
# the same within an application: other modules of the package are above these folders
FOLDERS = {"values": ("markov", "reading", "sums", "streams", None, "off_policy")}
NAMES_ONLY = (
    "affinities",
    "estimators",
    "preconditioners",
    "penalties",
    "preprocessing",
    "problems",
    "schedules",
)
WITHOUT_HASATTR = (
    "checks",
    "cli",
    "compare",
    "core",
    "engine",
    "reproduce",
    "solvers",
    "streams",
    "theory",
)
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """The modules of the package that a file imports, also within functions."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (
                alias.name
                for alias in node.names
                if alias.name.partition(".")[0] == "sk_stormc"
            )
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module.partition(".")[0] == "sk_stormc"
        ):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_run_downwards():
    assert {package_of(path) for path in FILES} == set(LEVEL)
    for path in FILES:
        importing = package_of(path)
        for name in imports(path):
            first = name.split(".")[1]
            imported = first if first in LEVEL else "__init__"
            allowed = (
                imported == importing
                or LEVEL[imported] < LEVEL[importing]
                or first == "__version__"
            )
            assert allowed, f"{path.relative_to(PACKAGE)} imports {name}"


def test_risk_measures_do_not_import_the_exact_methods():
    """Not through other modules of the package either."""
    queue = sorted((PACKAGE / "portfolio" / "risk").glob("*.py"))
    seen = set(queue)
    for path in queue:
        for name in imports(path):
            assert not name.startswith("sk_stormc.portfolio.exact"), path
            file = PACKAGE.parent.joinpath(*name.split(".")[:-1]).with_suffix(".py")
            if file.exists() and file not in seen:
                seen.add(file)
                queue.append(file)
    assert PACKAGE / "portfolio" / "mean_risk.py" in seen


@pytest.mark.parametrize("name", FOLDERS)
def test_imports_of_folders_run_downwards(name):
    folders = FOLDERS[name]

    def level(part):
        return folders.index(part if part in folders else None)

    for path in (PACKAGE / name).rglob("*.py"):
        own = path.relative_to(PACKAGE / name).parts[0].removesuffix(".py")
        for module in imports(path):
            parts = module.split(".")
            if parts[1] == name:
                assert level(parts[2]) <= level(own), f"{path} imports {module}"


@pytest.mark.parametrize("name", NAMES_ONLY)
def test_modules_of_public_names_only_import(name):
    path = PACKAGE / f"{name}.py"
    path = path if path.exists() else PACKAGE / name / "__init__.py"
    assert path.name != "__init__.py" or len(list(path.parent.glob("*.py"))) == 1
    assert all(
        isinstance(node, (ast.Expr, ast.ImportFrom, ast.Assign))
        for node in parsed(path).body
    )


def test_test_files_have_different_names():
    """Two files of one name in folders that are no packages cannot be collected
    together."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


# the contract of a problem


def declared(kind):
    return {
        name
        for name in (*vars(kind), *kind.__annotations__)
        if not name.startswith("_")
    }


def attributes_of_problems(tree):
    """Names that are read from `problem` or from an attribute of this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = (
                owner.id
                if isinstance(owner, ast.Name)
                else owner.attr
                if isinstance(owner, ast.Attribute)
                else ""
            )
            if name in ("problem", "_problem"):
                yield node.attr


@pytest.mark.parametrize(
    "package", ["engine", "solvers", "checks", "compare", "theory", "fitting"]
)
def test_only_declared_members_of_problems_are_used(package):
    used = {
        (p.name, name)
        for p in (PACKAGE / package).glob("*.py")
        for name in attributes_of_problems(parsed(p))
    }
    undeclared = {
        (path, name)
        for path, name in used
        if name not in declared(CompositionalProblem)
    }
    # one is asked of a FiniteSumComposition, after isinstance, and one is set on the
    # problem of a stream
    assert undeclared <= {
        ("problem.py", "by_differences"),
        ("stream_policy.py", "state"),
    }


@pytest.mark.parametrize("package", WITHOUT_HASATTR)
def test_capabilities_are_declared_and_not_tried_out(package):
    for path in (PACKAGE / package).rglob("*.py"):
        names = {
            node.id for node in ast.walk(parsed(path)) if isinstance(node, ast.Name)
        }
        assert "hasattr" not in names, (
            f"{path.name}: declare the capability in the base class, with a default"
        )
