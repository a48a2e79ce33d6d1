"""The documentation's site: every public name is in its reference, and it is built without a warning."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = re.compile(r"(<!-- (?:not run|picture): [^>]+ -->\n)?```python\n(.*?)```", re.DOTALL)
REFERENCE = sorted((ROOT / "docs" / "api").glob("*.rst"))  # a page for each wing
MODULES = (
    "sk_stormc",
    *(
        f"sk_stormc.{name}"
        for name in (
            "affinities", "callbacks", "checks", "compare", "datasets", "engine", "metrics", "penalties", "plotting",
            "problems", "schedules", "solvers", "theory",
        )
    ),
)  # fmt: skip


def documented():
    """What the reference has pages for, by its full name."""
    names = []
    for page in REFERENCE:
        module = None
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif module and (found := re.match(r"(?:   |\.\. py:data:: )(\w+)$", line)):
                names.append(f"{module}.{found[1]}")
    return {name: getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in names}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module):
    module, known = importlib.import_module(module), {id(thing) for thing in documented().values()}
    assert [name for name in module.__all__ if id(getattr(module, name)) not in known] == []


def test_the_reference_has_public_names_only():
    for name in documented():
        module, _, last = name.rpartition(".")
        assert last in importlib.import_module(module).__all__, name


def test_every_page_of_the_gallery_ends_in_a_picture():
    pages = sorted((ROOT / "examples").rglob("*.py"))
    assert len(pages) > 12
    for page in pages:
        assert page.name.startswith("plot_"), f"{page.name}: only plot_*.py is run"
        text = page.read_text(encoding="utf-8")
        assert re.match(r'"""\n.+\n=+\n\n', text), f"{page.name}: a title comes first"
        assert text.rstrip().endswith("plt.show()"), page.name


def test_every_picture_of_a_page_is_described():
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]
    blocks = [found for page in pages for found in PICTURE.findall(page.read_text(encoding="utf-8"))]
    drawn = [(words, code) for words, code in blocks if re.search(r"Display\.from_|plt\.|\.plot\(", code)]
    assert len(drawn) > 5
    assert [code for words, code in drawn if not words] == []


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    for name in ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme", "sphinx_design", "sphinx_gallery"):
        pytest.importorskip(name)
    # in a copy, since sphinx writes beside its sources
    made = shutil.ignore_patterns("_build", "generated", "backreferences", "auto_examples")
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=made)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    unrun = ["-D", "plot_gallery=0", "-D", "nb_execution_mode=off"]  # test_docs.py runs pages and examples
    found = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", *unrun, "docs", "html"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    for page in ("index", "guide/choose", "api/generated/sk_stormc.SNEEmbedding", "auto_examples/maps/plot_tsne_20000"):
        assert (tmp_path / "html" / f"{page}.html").exists()


def test_every_public_name_has_an_example():
    bare = {name for name, thing in documented().items() if callable(thing) and ">>>" not in (thing.__doc__ or "")}
    assert bare == set()
