"""What an import loads, the version and its changelog, and the contents of the
distributions."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import sk_stormc

ROOT = Path(__file__).resolve().parents[2]
NOT_DISTRIBUTED = {".ci", ".git", ".gitignore"}


def run(*command, cwd):
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, (
        f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


IMPORT_AND_HELP = """
import runpy, sys
import sk_stormc, sk_stormc.estimators, sk_stormc.problems
print(*sys.modules)
sys.argv[1:] = ["--help"]
try:
    runpy.run_module("sk_stormc", run_name="__main__")
finally:
    print(*sys.modules)
"""


def test_import_and_help_load_only_what_they_need():
    loaded, *usage, with_help = run(
        sys.executable, "-W", "ignore", "-c", IMPORT_AND_HELP, cwd=ROOT
    ).splitlines()
    assert "sk_stormc.embedding.estimator" in loaded.split()
    for dear in ("sklearn.neighbors", "sklearn.decomposition", "matplotlib", "jax"):
        assert dear not in loaded.split(), f"import sk_stormc loads {dear}"
    assert usage[0].startswith("usage: python -m sk_stormc") and "reproduce" in "".join(
        usage
    )
    assert "matplotlib" not in with_help.split()


def test_the_changelog_begins_with_this_version():
    newest = re.search(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert newest[1] == re.sub(r"\.dev\d+$", "", sk_stormc.__version__)


def test_the_citation_has_the_version():
    assert f"\nversion: {sk_stormc.__version__}\n" in (ROOT / "CITATION.cff").read_text(
        encoding="utf-8"
    )


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source distribution and the wheel that is built from it, of the files that
    git would commit."""
    pytest.importorskip("build")
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in files_of_the_project():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    # by an installation of an older version
    left_behind = source / "build" / "lib" / "sk_stormc" / "deleted.py"
    left_behind.parent.mkdir(parents=True)
    left_behind.touch()
    run(sys.executable, "-m", "build", "--outdir", str(built), str(source), cwd=built)
    return next(built.glob("*.tar.gz")), next(built.glob("*.whl"))


def files_of_the_project():
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not in a checkout, or no git")
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT
    ).splitlines()
    return [
        name
        for name in listed
        if name.split("/")[0] not in NOT_DISTRIBUTED and (ROOT / name).exists()
    ]


@pytest.mark.slow
def test_the_source_distribution_holds_the_project(distributions, tmp_path):
    """Every file is there, and tests pass where it is unpacked."""
    with tarfile.open(distributions[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
        # since 3.11.4
        archive.extraction_filter = (
            tarfile.data_filter if hasattr(tarfile, "data_filter") else None
        )
        archive.extractall(tmp_path)
    assert set(files_of_the_project()) <= held
    (place,) = tmp_path.iterdir()
    tests = [
        "package/test_imports.py",
        "core/test_composition.py",
        "package/test_docs.py::test_links",
    ]
    run(
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        *tests,
        cwd=place / "tests",
    )


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone(distributions):
    with zipfile.ZipFile(distributions[1]) as archive:
        held = archive.namelist()
    assert "sk_stormc/py.typed" in held
    assert any(name.endswith("licenses/LICENSE") for name in held)
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == {
        "sk_stormc"
    }
    sources = {name for name in files_of_the_project() if name.startswith("sk_stormc/")}
    assert {name for name in held if name.endswith(".py")} == {
        name for name in sources if name.endswith(".py")
    }


@pytest.mark.slow
def test_a_package_index_takes_them(distributions):
    pytest.importorskip("twine")
    report = run(
        sys.executable,
        "-m",
        "twine",
        "check",
        "--strict",
        *map(os.fspath, distributions),
        cwd=ROOT,
    )
    assert report.count("PASSED") == 2
