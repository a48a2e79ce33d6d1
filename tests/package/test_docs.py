"""Every Python block of the README and of the documentation runs, and so do the
examples."""

import re
import runpy
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")
OPTIONAL = (
    "jax",
    "gymnasium",
    "pynndescent",
    "dask.array",
    "dask.dataframe",
    "dask.distributed",
    "skfolio",
    "anndata",
)
OPTIONAL += ("datamapplot", "plotly", "skrub")


def skip_without_imports_of(text):
    for name in OPTIONAL:
        if re.search(rf"^ *(import|from) {re.escape(name)}\b", text, re.MULTILINE):
            pytest.importorskip(name, exc_type=ImportError)


# they take seconds
LONG = ("guide/embedding", "guide/portfolio", "guide/streams", "guide/values")
LONG += (
    "guide/limits",
    "guide/ratios",
    "guide/off_policy",
    "guide/control",
)
LONG += (
    "guide/gpus",
    "guide/tables",
    "guide/walk_forward",
    "gallery",
    "lifting",
    "streams",
    "index",
    "guide/clusters",
    "guide/coming_from",
    "guide/data",
    "guide/quickstart",
    "guide/solving",
    "write_a_problem",
    "write_a_solver",
)
LONG = [f"docs/{name}.md" for name in LONG]


@pytest.mark.parametrize(  # blocks of the README run one by one, below
    "page",
    [
        pytest.param(
            PAGES[k], id=IDS[k], marks=pytest.mark.slow if IDS[k] in LONG else ()
        )
        for k in range(1, len(IDS))
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")  # whose classes can be pickled
    monkeypatch.setitem(sys.modules, "page", module)
    skip_without_imports_of(page.read_text(encoding="utf-8"))
    for skipped, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if not skipped:
            exec(compile(block, str(page), "exec"), vars(module))


HIDDEN = (
    "pandas",
    "polars",
    "gymnasium",
    "rich",
    "skfolio",
    "dask",
    "pynndescent",
    "skrub",
    "anndata",
)


class Hide:
    """Finds no optional package."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"{name} is hidden")


README = [block for _, block in BLOCK.findall(PAGES[0].read_text(encoding="utf-8"))]


@pytest.mark.parametrize("number", range(len(README)))
def test_block_of_the_readme(number, tmp_path, monkeypatch):
    """A block runs alone, and with the required packages only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [Hide(), *sys.meta_path])
    for name in list(sys.modules):
        if name.split(".")[0] in HIDDEN:
            monkeypatch.delitem(sys.modules, name)
    if "import jax" in README[number]:
        pytest.importorskip("jax", reason="needs JAX")
    exec(compile(README[number], "README.md", "exec"), {"__name__": "block"})


def test_links():
    for page in LINKING:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve()
            # from the examples, when the site is built
            generated = ROOT / "docs" / "auto_examples"
            if path.is_relative_to(generated):
                source = (ROOT / "examples" / path.relative_to(generated)).with_suffix(
                    ".py"
                )
                path = (
                    source.with_name("README.rst") if source.stem == "index" else source
                )
            assert path.exists(), f"{page.name}: {target}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    sorted((ROOT / "examples").glob("*/plot_*.py")),
    ids=lambda path: path.stem,
)
def test_example(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    skip_without_imports_of(example.read_text(encoding="utf-8"))
    runpy.run_path(str(example), run_name="__main__")
