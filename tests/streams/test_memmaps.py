"""Memmaps: rows are read from their file, with the results of arrays and in little
memory."""

import os
import subprocess
import sys
import tempfile
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from stream_helpers import RETURNS, bits, fed, portfolio

import sk_stormc
from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.solvers import SCGD
from sk_stormc.utils.blocks import MappedRows


def mapped(folder, X, mode="r", name="x.npy"):
    np.save(folder / name, X)
    return np.load(folder / name, mmap_mode=mode)


def plain(folder, X):
    """A memmap of a file whose rows begin at byte 24."""
    (folder / "x.bin").write_bytes(bytes(24) + X.tobytes())
    return np.memmap(folder / "x.bin", X.dtype, "r", offset=24, shape=X.shape)


def named_by_number(folder, X):
    with tempfile.TemporaryFile() as file:  # the mapping outlives it
        file.write(X.tobytes())
        file.flush()
        found = np.memmap(file, X.dtype, "r", shape=X.shape)
    assert found.filename is None
    return found


def deleted(folder, X):
    found = mapped(folder, X)
    os.unlink(folder / "x.npy")
    return found


def slice_of_rows(folder, X):
    return mapped(folder, np.concatenate([X[:7] + 1, X, X[:9] + 1]))[7:][: len(X)]


def slice_of_columns(folder, X):
    return mapped(folder, np.hstack([X + 1, X]))[:, X.shape[1] :]


WAYS = {
    "np.load r+": (partial(mapped, mode="r+"), True),
    "behind an offset": (plain, True),
    "rows": (slice_of_rows, True),
    "columns": (slice_of_columns, False),
    "every second": (lambda path, X: mapped(path, np.repeat(X, 2, axis=0))[::2], False),
    "copy on write": (partial(mapped, mode="c"), False),
    "big-endian": (lambda path, X: mapped(path, X.astype(">f4")), False),
    "deleted": (deleted, False),
    "without a name": (named_by_number, False),
}


@pytest.mark.parametrize("way", WAYS)
def test_memmaps_are_the_arrays(way, tmp_path):
    make, stays = WAYS[way]
    M = make(tmp_path, RETURNS.astype(np.float32))
    X = np.array(M)
    assert np.array_equal(X, RETURNS.astype(np.float32))
    assert isinstance(MappedRows.of(M), MappedRows) == stays
    for kwargs in ({}, {"risk_measure": "entropic", "constraint": "long_only"}):
        a, b = portfolio(**kwargs).fit(M), portfolio(**kwargs).fit(X)
        assert bits(a) == bits(b)
        np.testing.assert_allclose(a.predict(M), b.predict(X), rtol=1e-5, atol=1e-7)
        assert a.score(M) == pytest.approx(b.score(X), rel=1e-6)
    assert bits(fed(portfolio(), M, 800)) == bits(fed(portfolio(), X, 800))


def test_a_truncated_file(tmp_path):
    whole, path = mapped(tmp_path, RETURNS), tmp_path / "x.npy"
    os.truncate(path, os.path.getsize(path) - 50 * 32 - 3)  # within a number
    assert MappedRows.of(whole) is whole
    rows = MappedRows.of(whole[:1000])
    assert isinstance(rows, MappedRows)
    assert np.array_equal(rows.take([3, 999]), RETURNS[[3, 999]])


def test_what_is_not_finite_in_a_memmap(tmp_path):
    X, fitted = RETURNS.copy(), portfolio().fit(RETURNS)
    X[1400, 2] = np.nan
    missing = mapped(tmp_path, X, name="missing.npy")
    X[1400, 2], X[3, 0] = np.inf, -np.inf
    infinite = mapped(tmp_path, X, name="infinite.npy")
    for call in (
        portfolio().fit,
        portfolio().partial_fit,
        fitted.predict,
        fitted.score,
    ):
        with pytest.raises(ValueError, match=r"NaN in column \[2\]"):
            call(missing)
        with pytest.raises(ValueError, match=r"infinity \(inf\) in columns \[0, 2\]"):
            call(infinite)
    with pytest.raises(ValueError, match="minimum of 2"):
        portfolio().fit(mapped(tmp_path, RETURNS)[:1])
    with pytest.raises(ValueError, match="3 features"):
        fitted.predict(mapped(tmp_path, RETURNS[:, :3].copy()))


def test_blocks_of_a_memmap(tmp_path, monkeypatch):
    monkeypatch.setattr("sk_stormc.utils.blocks.BLOCK_BYTES", 2**18)
    X = make_gaussian_returns(25_000, 2, mean=0.1, random_state=0)  # in two blocks
    M = mapped(tmp_path, X)
    a, b = (CompositionalPortfolio("moments").partial_fit(data) for data in (M, X))
    np.testing.assert_allclose(a.weights_, b.weights_, rtol=1e-9)
    assert a.score(M) == pytest.approx(a.score(X), rel=1e-9)
    weights = np.maximum(np.arange(len(X)) - 8e3, 0.0)  # zero in the first third
    for risk in ("variance", "semivariance", "entropic"):
        fitted = portfolio(risk_measure=risk).fit(X[:1000])
        expected = pytest.approx(fitted.score(X, None, weights), rel=1e-9)
        assert fitted.score(M, None, weights) == expected
    estimator = portfolio(SCGD(learning_rate=1e300))
    # in a block before the last
    with pytest.warns(ConvergenceWarning, match="not finite"):
        estimator.partial_fit(M)
    assert estimator.stop_reason_ == "non_finite"


MEASURE = """
    import sys, numpy as np
    from pathlib import Path
    from sk_stormc import CompositionalPortfolio

    def peak():
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

    X = np.load(sys.argv[1], mmap_mode="r")
    CompositionalPortfolio(max_iter=2, random_state=0).fit(np.asarray(X[:2000]))
    before = peak()
    portfolio = CompositionalPortfolio(max_iter=5, random_state=0)
    if sys.argv[2] == "fit":
        portfolio.fit(X).predict(X[-1000:])
    else:
        for i in range(0, len(X), 10_000):
            portfolio.partial_fit(X[i : i + 10_000])
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the peak of memory from /proc"
)
def test_memory_of_a_100_mb_file(tmp_path):
    n, d = 250_000, 100
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (n, d))
    rows = np.random.default_rng(0).standard_normal((10_000, d), np.float32)
    for i in range(0, n, 10_000):
        X[i : i + 10_000] = rows + 0.01 * i / n
    X.flush()
    del X
    environment = os.environ | {"PYTHONPATH": str(Path(sk_stormc.__file__).parents[1])}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for way in ("fit", "slices"):
        code = textwrap.dedent(MEASURE), str(tmp_path / "x.npy"), way
        command = [sys.executable, "-W", "ignore", "-c", *code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) < 60, f"{way} grew by {done.stdout} MB"
