"""The script that checks a release: what it repeats, what it leaves out and what it calls moved."""

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "release"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not have the script")


@pytest.fixture
def release():
    loader = importlib.machinery.SourceFileLoader("release", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(module)
    return module


def test_parts_that_have_ended_are_not_run_again(release, tmp_path, monkeypatch):
    ran = []

    def run(command, folder):
        ran.append(command[command.index("--parts") + 1])
        if ran == ["a", "b"]:
            raise release.Failed("a power cut")

    monkeypatch.setattr(release, "run", run)
    with pytest.raises(release.Failed):
        release.remake("maps", {"a": 1, "b": 2, "c": 3}, tmp_path)
    release.remake("maps", {"a": 1, "b": 2, "c": 3}, tmp_path)
    assert ran == ["a", "b", "b", "c"]


def test_benchmarks_can_be_chosen_and_left_out(release, tmp_path, monkeypatch):
    stored = SCRIPT.parents[1] / "benchmarks" / "results" / "overhead.json"
    (tmp_path / "results").mkdir()
    changed = json.loads(stored.read_text(encoding="utf-8"))
    changed["results"]["250 x 25"]["ratios"][0] *= 100
    (tmp_path / "results" / "overhead.json").write_text(json.dumps(changed), encoding="utf-8")
    monkeypatch.setattr(release, "remake", lambda name, parts, results: None)
    said = release.tables(tmp_path, names=["overhead", "maps"], skip=["maps"])
    assert said[0].startswith("overhead: 1 of ")
    assert said[-1] == "maps: left out"
    with pytest.raises(release.Failed, match="no benchmarks nosuch"):
        release.tables(tmp_path, names=["nosuch"])


def test_numbers_within_a_band_have_not_moved(release):
    old = {"gap": 1.0, "seconds": 1.0, "runs": [1.0, 2.0], "name": "x"}
    assert release.moved(old, old | {"gap": 1.2, "seconds": 2.0}) == ([], [])
    assert release.moved(old, old | {"gap": 1.3, "runs": [1.0, 6.0, 0.0]}) == (
        ["/runs/1: 2, now 6", "/gap: 1, now 1.3"],
        ["/runs/2"],
    )


def test_the_script_says_what_it_takes():
    found = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True)
    assert "--names" in found.stdout
