"""How good a map is, how the fits of the benchmark of maps are run, and what it keeps."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import manifold
from sklearn.exceptions import ConvergenceWarning

from benchmarks import _sne_bench, _sne_fits, _sne_panel, _sne_parts, _sne_tables, maps
from benchmarks._sne_bench import FOLDER, PACKAGES, Bench
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import divergence, normalisers, trustworthiness
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    return SimpleNamespace(X=X, y=rng.integers(3, size=400), P=perplexity_affinities(X, 30.0))


@pytest.mark.parametrize("kernel", ["student-t", "gaussian"])
@pytest.mark.parametrize("d", [2, 5])
def test_divergence(data, kernel, d):
    Z = data.X[:, :d] + 0.1
    # in float64 the problem's own is exact as well, where it has no mesh
    own = SNEProblem(data.P, d, kernel=kernel, dtype=np.float64).divergence(Z.ravel())
    assert divergence(data.P, Z, kernel) == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize("kernel", ["student-t", "gaussian"])
def test_normalisers_in_several_blocks(data, kernel, monkeypatch):
    Z = data.X[:, :3]
    whole = normalisers(Z, kernel)
    for block in (400, 7 * 400, 400**2):
        monkeypatch.setattr(_sne_panel, "BLOCK", block)
        np.testing.assert_allclose(normalisers(Z, kernel), whole, rtol=1e-12)
    D = np.square(Z[:, None] - Z).sum(axis=2)
    k = np.exp(-D) if kernel == "gaussian" else 1 / (1 + D)
    np.testing.assert_allclose(whole, k.sum(axis=1) - 1, rtol=1e-9)


def test_trustworthiness(data, monkeypatch):
    Z = data.X[:, :2]
    theirs = manifold.trustworthiness(data.X, Z, n_neighbors=5)
    assert trustworthiness(data.X, Z) == pytest.approx(theirs, rel=1e-12)
    monkeypatch.setattr(_sne_panel, "ALL", 100)
    monkeypatch.setattr(_sne_panel, "FEW", 300)
    sampled = trustworthiness(data.X, Z)
    assert sampled != theirs and sampled == pytest.approx(theirs, abs=0.01)
    assert trustworthiness(data.X[:300], data.X[:300], (data.X[300:], data.X[300:])) == 1
    assert trustworthiness(data.X[:300], Z[:300], (data.X[300:], Z[300:])) == pytest.approx(theirs, abs=0.03)
    assert trustworthiness(data.X, np.zeros((400, 2))) < 0.7  # all at one place


@pytest.mark.slow
def test_a_fit_in_a_process_of_its_own_is_as_good():
    X, _ = KINDS["digits"](200, 0)
    P = perplexity_affinities(X, 30.0)
    apart, here = (Bench(quick).fit("ours", X, 3, kernel="student-t", new=X[:4] + 0.5) for quick in (False, True))
    # not to the last bit: this process may have more threads
    assert divergence(P, apart["Z"]) == pytest.approx(divergence(P, here["Z"]), rel=0.02)
    assert apart["Z_new"].shape == here["Z_new"].shape == (4, 2)
    assert 0 < apart["peak"] < 1 and apart["seconds"] > 0


@pytest.mark.slow
def test_what_is_missing_has_a_reason(monkeypatch):
    monkeypatch.setattr(_sne_bench.importlib.util, "find_spec", lambda name: None if name == "openTSNE" else name)
    rows = _sne_parts.times(Bench(True), 1797)
    assert rows[2]["skipped"] == "openTSNE is not installed"
    text = _sne_tables.times(rows)
    assert "| openTSNE | (openTSNE is not installed) |" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_ratios_are_those_of_medians():
    rows = [
        {"data": "digits", "n": 5000, "method": "SNEEmbedding", "seconds": [1, 2, 9], "search": [0.5], "peak": [1]},
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
    monkeypatch.setattr(_sne_bench.importlib.util, "find_spec", lambda name: name)  # none of the others runs here
    monkeypatch.setitem(PACKAGES, "openTSNE", "numpy")  # whose version is known everywhere
    return tmp_path / "kept", fits


def test_maps_of_other_packages_are_kept(kept, data):
    folder, fits = kept
    bench = Bench(False)
    first = bench.kept_fit("sklearn", "some", data.X, 3)
    again = bench.kept_fit("sklearn", "some", data.X, 3)
    np.testing.assert_array_equal(first["Z"], again["Z"])
    assert again["seconds"] == 1.5 and len(fits) == 1
    others = ({"seed": 4}, {"name": "other"}, {"method": "openTSNE"}, {"n_components": 3}, {"X": data.X[:300]})
    for other in others:
        bench.kept_fit(**{"method": "sklearn", "name": "some", "X": data.X, "seed": 3, **other})
    assert len(fits) == 6
    bench.kept_fit("sklearn", "some", data.X + 1, 3)  # other data of the same name
    assert len(fits) == 7
    for _ in range(2):
        bench.kept_fit("ours", "some", data.X, 3)  # which changes
    assert len(fits) == 9
    assert len(list(folder.iterdir())) == 6


def test_a_run_goes_on_where_it_was_broken_off(kept, monkeypatch):
    _, fits = kept
    monkeypatch.setattr(maps, "panel", lambda X, y, P, Z: {"kl": float(len(Z))})
    monkeypatch.setattr(maps, "CASES", {"few": ("digits", 300, 2, True)})
    rows = maps.run_part("few", False, None)
    assert [fit[0] for fit in fits] == ["ours", "sklearn", "openTSNE"] * 2
    assert [fit[1] for fit in fits] == [40] * 3 + [41] * 3
    assert [row["kl"] for row in rows] == [[300, 300]] * 3
    maps.run_part("few", False, None)
    assert [fit[:2] for fit in fits[6:]] == [("ours", 40), ("ours", 41)]


def test_without_a_folder_nothing_is_kept(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    assert Bench(False).place("sklearn", "some", 9, 0) is None


def test_the_search_is_timed_apart(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = _sne_fits.embedding(data.X, 0, max_iter=20)
    assert 0 < found["search"] < found["seconds"] and found["Z"].shape == (400, 2)


def test_pictures(tmp_path, data):
    maps.draw_maps(tmp_path / "images" / "maps.png", {"one": data.X[:, :2], "two": data.X[:, 1:3]}, data.y)
    assert 1000 < (tmp_path / "images" / "maps.png").stat().st_size < 300_000
