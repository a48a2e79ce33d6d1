"""The measures of benchmarks/sne_vs_tsne.py, and how its fits are run."""

import numpy as np
import pytest
from sklearn import manifold

from benchmarks import _sne_bench, _sne_tables, sne_vs_tsne
from benchmarks._sne_bench import Bench
from benchmarks._sne_pictures import draw_maps, draw_million
from benchmarks._sne_quality import BLOCK, Judge, data, divergence, normalisers, rolls_and_knots, trustworthiness
from sk_stormc.problems import SNEProblem


@pytest.fixture(scope="module")
def judge():
    rng = np.random.default_rng(0)
    return Judge(rng.normal(size=(400, 6)), rng.integers(3, size=400))


@pytest.mark.parametrize("kernel", ["student-t", "gaussian"])
@pytest.mark.parametrize("d", [2, 5])
def test_divergence(judge, kernel, d):
    Z = judge.X[:, :d] + 0.1
    # in float64 the problem's own is exact as well, where it has no mesh
    own = SNEProblem(judge.P, d, kernel=kernel, dtype=np.float64).divergence(Z.ravel())
    assert divergence(judge.P, Z, kernel) == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize("kernel", ["student-t", "gaussian"])
def test_normalisers_in_several_blocks(judge, kernel, monkeypatch):
    Z = judge.X[:, :3]
    whole = normalisers(Z, kernel)
    assert len(Z) ** 2 < BLOCK
    for height in (1, 7, 399, 400):
        monkeypatch.setattr("benchmarks._sne_quality.LONGEST", height)
        np.testing.assert_allclose(normalisers(Z, kernel), whole, rtol=1e-12)
    D = np.square(Z[:, None] - Z).sum(axis=2)
    k = np.exp(-D) if kernel == "gaussian" else 1 / (1 + D)
    np.testing.assert_allclose(whole, k.sum(axis=1) - 1, rtol=1e-9)


def test_trustworthiness(judge, monkeypatch):
    Z = judge.X[:, :2]
    theirs = manifold.trustworthiness(judge.X, Z, n_neighbors=5)
    assert trustworthiness(judge.X, Z) == pytest.approx(theirs, rel=1e-12)
    monkeypatch.setattr("benchmarks._sne_quality.ALL", 100)
    monkeypatch.setattr("benchmarks._sne_quality.SAMPLED", 300)
    sampled = trustworthiness(judge.X, Z)
    assert sampled != theirs and sampled == pytest.approx(theirs, abs=0.01)
    assert trustworthiness(judge.X[:300], judge.X[:300], (judge.X[300:], judge.X[300:])) == 1
    assert trustworthiness(judge.X[:300], Z[:300], (judge.X[300:], Z[300:])) == pytest.approx(theirs, abs=0.03)
    assert trustworthiness(judge.X, np.zeros((400, 2))) < 0.7  # all at one place


def test_data():
    for name in ("digits", "augmented digits", "swiss roll", "ten far clusters", "six uneven clusters"):
        X, y = data(name, 400, 1)
        assert len(X) == len(y) == 400 and y.dtype.kind == "i"
    assert np.bincount(y).tolist() == [200, 100, 50, 30, 15, 5]
    X, y = rolls_and_knots(1000)
    assert X.shape == (1000, 3)
    assert np.bincount(y.astype(int)).tolist() == [250, 250, 250, 150, 100]


@pytest.mark.slow
def test_a_fit_in_a_process_of_its_own_is_as_good():
    X, y = data("digits", 200, 0)
    with Bench(False, None) as bench:
        apart, here = (bench.fit("ours", X, 3, kernel="student-t", new=X[:4] + 0.5, fresh=fresh) for fresh in (1, 0))
    # not to the last bit: this process may have more threads
    assert Judge(X, y).kl(apart["Z"]) == pytest.approx(Judge(X, y).kl(here["Z"]), rel=0.02)
    assert apart["Z_new"].shape == here["Z_new"].shape == (4, 2)
    assert 0 < apart["peak"] < 1 and apart["seconds"] > 0


def test_what_is_missing_has_a_reason(monkeypatch):
    monkeypatch.setattr(_sne_bench.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(_sne_bench, "OLD", "f" * 40)
    with Bench(True, None) as bench:
        rows = sne_vs_tsne.compare(bench, "digits", 1797, (sne_vs_tsne.OURS, sne_vs_tsne.OLD, sne_vs_tsne.OPEN))
    assert rows[1]["skipped"] in (f"commit {'f' * 40} is not there", "git is not installed")
    assert rows[2]["skipped"] == "openTSNE is not installed"
    text = _sne_tables.methods(rows)
    assert "| openTSNE | (openTSNE is not installed) |" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_ratios_are_those_of_medians():
    rows = [
        {"data": "a", "n": 5000, "method": "ours", "seconds": [1, 2, 9], "kl": [0.5, 1, 2], "t5": [1], "accuracy": [1]},
        {"data": "a", "n": 5000, "method": "b", "seconds": [30, 10, 20], "kl": [1.1, 1, 1.2], "t5": [1], "peak": [2]},
    ]
    last = [cell.strip() for cell in _sne_tables.methods(rows).splitlines()[-1].split("|")[1:-1]]
    assert last == ["a, n = 5,000", "b", "20.0", "10.00", "1.1000", "1.100", "1.0000", "", "2.00"]


def test_pictures(tmp_path):
    X, y = rolls_and_knots(2000)
    draw_maps(tmp_path / "images" / "maps.png", {"one": X[:, :2], "two": X[:, 1:]}, y.astype(int))
    draw_million(tmp_path / "many.png", X[:, :2], y)
    for path in (tmp_path / "images" / "maps.png", tmp_path / "many.png"):
        assert 1000 < path.stat().st_size < 300_000
