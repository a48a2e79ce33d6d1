"""The site of the documentation: the reference has every public name, and the site
builds without a warning."""

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sk_stormc.utils import documentation

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = sorted((ROOT / "docs" / "api").glob("*.rst"))
MODULES = [
    "affinities",
    "callbacks",
    "checks",
    "compare",
    "datasets",
    "engine",
    "preconditioners",
    "penalties",
    "plotting",
]
MODULES += ["preprocessing", "problems", "schedules", "solvers", "theory"]


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
    return {
        name: getattr(
            importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]
        )
        for name in names
    }


def test_the_reference_has_exactly_the_public_names():
    objects = documented()
    for name in objects:
        module, _, last = name.rpartition(".")
        assert last in importlib.import_module(module).__all__, name
    ids = {id(thing) for thing in objects.values()}
    for module in ("sk_stormc", *(f"sk_stormc.{name}" for name in MODULES)):
        public = vars(importlib.import_module(module))
        assert not [
            name for name in public["__all__"] if id(public[name]) not in ids
        ], module


def test_links_of_llms_txt_are_pages_of_the_site():
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    pages = re.findall(r"\]\(([^)]+)\.html\)", text)
    assert len(pages) > 20
    for page in pages:
        files = [ROOT / "docs" / f"{page}{end}" for end in (".md", ".rst")]
        assert any(file.exists() for file in files), page
    guide = {path.stem for path in (ROOT / "docs" / "guide").glob("*.md")}
    linked = {page.partition("/")[2] for page in pages if page.startswith("guide/")}
    assert guide - linked == {"index", "choose", "security"}


def test_estimators_link_their_pages_where_there_is_an_address(monkeypatch):
    names = [name.rpartition(".") for name in documented()]
    classes = [
        (module, thing)
        for (module, _, _), thing in zip(names, documented().values(), strict=True)
        if isinstance(thing, type)
        and hasattr(thing, "_get_doc_link")
        and not inspect.isabstract(thing)
    ]
    assert len(classes) > 12
    for module, thing in classes:
        shown = object.__new__(thing)
        assert shown._get_doc_link() == ""
        monkeypatch.setattr(documentation, "DOCUMENTATION", "https://docs.example")
        page = f"https://docs.example/api/generated/{module}.{thing.__name__}.html"
        assert shown._get_doc_link() == page
        monkeypatch.undo()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    for name in (
        "sphinx",
        "myst_nb",
        "numpydoc",
        "plotly",
        "pydata_sphinx_theme",
        "skrub",
        "sphinx_design",
        "sphinx_gallery",
    ):
        pytest.importorskip(name)
    # in a copy, since sphinx writes beside its sources
    made = shutil.ignore_patterns(
        "_build", "generated", "backreferences", "auto_examples", "pages"
    )
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=made)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    # a page includes a file
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    # test_docs.py runs pages and examples
    unrun = ["-D", "plot_gallery=0", "-D", "nb_execution_mode=off"]
    found = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", *unrun, "docs", "html"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    for page in (
        "index",
        "guide/choose",
        "api/generated/sk_stormc.SNEEmbedding",
        "auto_examples/maps/plot_tsne_20000",
    ):
        assert (tmp_path / "html" / f"{page}.html").exists()


def test_every_public_name_has_an_example():
    bare = {
        name
        for name, thing in documented().items()
        if callable(thing) and ">>>" not in (thing.__doc__ or "")
    }
    assert bare == set()
