"""How good a map is, how the fits of the benchmark of maps are run, and what it keeps."""

import warnings

import numpy as np
import pytest
from sklearn import manifold
from sklearn.exceptions import ConvergenceWarning

from benchmarks import _sne_bench, _sne_fits, _sne_parts, _sne_tables, maps
from benchmarks._sne_bench import FOLDER, PACKAGES, Bench
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_pictures import draw_maps
from benchmarks._sne_quality import BLOCK, Judge, divergence, normalisers, trustworthiness
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


@pytest.mark.slow
def test_a_fit_in_a_process_of_its_own_is_as_good():
    X, y = KINDS["digits"](200, 0)
    with Bench(False, None) as bench:
        apart, here = (bench.fit("ours", X, 3, kernel="student-t", new=X[:4] + 0.5, fresh=fresh) for fresh in (1, 0))
    # not to the last bit: this process may have more threads
    assert Judge(X, y).kl(apart["Z"]) == pytest.approx(Judge(X, y).kl(here["Z"]), rel=0.02)
    assert apart["Z_new"].shape == here["Z_new"].shape == (4, 2)
    assert 0 < apart["peak"] < 1 and apart["seconds"] > 0


@pytest.mark.slow
def test_what_is_missing_has_a_reason(monkeypatch):
    monkeypatch.setattr(_sne_bench.importlib.util, "find_spec", lambda name: None if name == "openTSNE" else name)
    with Bench(True, None) as bench:
        rows = _sne_parts.times(bench, 1797)
    assert rows[2]["skipped"] == "openTSNE is not installed"
    text = _sne_tables.times(rows)
    assert "| openTSNE | (openTSNE is not installed) |" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_ratios_are_those_of_medians():
    rows = [
        {"data": "digits", "n": 5000, "method": "ours", "seconds": [1, 2, 9], "search": [0.5], "peak": [1]},
        {"data": "digits", "n": 5000, "method": "b", "seconds": [30, 10, 20], "peak": [2]},
    ]
    last = [cell.strip() for cell in _sne_tables.times(rows).splitlines()[-1].split("|")[1:-1]]
    assert last == ["5,000", "b", "20.0", "10.0", "", "", "2.00"]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder of kept maps, and the fits that were made."""
    fits = []

    def fit(self, method, X, seed=0, **params):
        fits.append((method, seed, params))
        return {"Z": X[:, :2] + len(fits), "seconds": 1.5, "peak": 0.1}

    monkeypatch.setenv(FOLDER, str(tmp_path / "kept"))
    monkeypatch.setattr(Bench, "fit", fit)
    monkeypatch.setattr(Bench, "missing", lambda self, method: None)  # none of the others runs here
    monkeypatch.setitem(PACKAGES, "openTSNE", "numpy")  # whose version is known everywhere
    return tmp_path / "kept", fits


def test_maps_of_other_packages_are_kept(kept, judge):
    folder, fits = kept
    with Bench(False, None) as bench:
        first = bench.kept_fit("sklearn", "some", judge.X, 3)
        again = bench.kept_fit("sklearn", "some", judge.X, 3)
        np.testing.assert_array_equal(first["Z"], again["Z"])
        assert again["seconds"] == 1.5 and len(fits) == 1
        others = ({"seed": 4}, {"name": "other"}, {"method": "openTSNE"}, {"n_components": 3}, {"X": judge.X[:300]})
        for other in others:
            bench.kept_fit(**{"method": "sklearn", "name": "some", "X": judge.X, "seed": 3, **other})
        assert len(fits) == 6
        bench.kept_fit("sklearn", "some", judge.X + 1, 3)  # other data of the same name
        assert len(fits) == 7
        for _ in range(2):
            bench.kept_fit("ours", "some", judge.X, 3)  # which changes
        assert len(fits) == 9
    assert len(list(folder.iterdir())) == 6


def test_measures_are_kept_too(kept):
    with Bench(False, None) as bench:
        assert bench.kept_measures("openTSNE", "some", 9, 0, lambda: {"kl": 1 / 3}) == {"kl": 0.333333}
        assert bench.kept_measures("openTSNE", "some", 9, 0, dict) == {"kl": 0.333333}
        assert bench.kept_measures("openTSNE", "some", 9, 1, dict) == {}
        assert bench.kept_measures("ours", "some", 9, 0, lambda: {"kl": 2.0}) == {"kl": 2.0}


def test_a_run_goes_on_where_it_was_broken_off(kept, monkeypatch, capsys):
    folder, fits = kept
    monkeypatch.setattr(maps, "panel", lambda X, y, P, Z: {"kl": float(len(Z))})
    monkeypatch.setattr(maps, "CASES", {"few": ("digits", 300, 2, True)})
    maps.fill(["few"])
    assert [fit[:2] for fit in fits] == [("sklearn", 40), ("openTSNE", 40), ("sklearn", 41), ("openTSNE", 41)]
    rows = maps.run_part("few", False, None)
    assert [fit[:2] for fit in fits[4:]] == [("ours", 40), ("ours", 41)]
    assert [row["kl"] for row in rows] == [[300, 300]] * 3


def test_without_a_folder_nothing_is_kept(judge, monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER, raising=False)
    with Bench(False, None) as bench:
        assert bench.place("sklearn", "some", 9, 0) is None
    with pytest.raises(SystemExit, match="must name a folder"):
        maps.fill(["digits_1797"])


def test_the_search_is_timed_apart(judge):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = _sne_fits.searched(judge.X, 0, max_iter=20)
    assert 0 < found["search"] < found["seconds"] and found["Z"].shape == (400, 2)


def test_pictures(tmp_path, judge):
    draw_maps(tmp_path / "images" / "maps.png", {"one": judge.X[:, :2], "two": judge.X[:, 1:3]}, judge.y)
    assert 1000 < (tmp_path / "images" / "maps.png").stat().st_size < 300_000
