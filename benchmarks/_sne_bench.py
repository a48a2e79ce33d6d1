"""Where the fits of maps run: each in a fresh process with one thread; those of other
packages may be kept on disk."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import _sne_fits
from benchmarks._tables import ROOT
from sk_stormc.utils.atomic import atomically

FOLDER = "BENCHMARK_MAPS"  # the variable that names the folder of kept maps
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
# by method, which is what is imported
PACKAGES = {"sklearn": "scikit-learn", "openTSNE": "openTSNE", "umap": "umap-learn"}
LOOKED_AT = 20  # last rows of the data that a kept map must be of
TINY = {}  # fits of quick runs, in which all sizes of a kind of data are the same


class Bench:
    """Runs fits; in a quick run those of tiny data, in this process."""

    def __init__(self, quick):
        self.quick = quick
        kept = os.environ.get(FOLDER)
        self.kept = Path(kept) if kept and not quick else None
        if self.kept:
            self.kept.mkdir(parents=True, exist_ok=True)

    def size(self, n):
        """A number of points, or a tiny one in a quick run."""
        return max(200, n // 5000) if self.quick else n

    def row(self, rows, label, method, **about):
        """The record of a method among those of some data; None where it cannot be run,
        as the record then says."""
        row = rows.setdefault((*about.values(), label), {**about, "method": label})
        if method in PACKAGES and importlib.util.find_spec(method) is None:
            row["skipped"] = f"{PACKAGES[method]} is not installed"
            return None
        return row

    def fit(self, method, X, seed=0, **params):
        """One fit of `_sne_fits.METHODS`, in a process of its own; arrays among the
        parameters only as ``new``."""
        if self.quick:
            return _sne_fits.fit(method, X, seed, **params)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.save(folder / "X.npy", X)
            if "new" in params:
                np.save(folder / "new.npy", params.pop("new"))
            package = None if method in PACKAGES else str(ROOT)
            job = {"method": method, "seed": seed, "params": params, "package": package}
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            subprocess.run(
                [sys.executable, "-P", _sne_fits.__file__, folder],
                check=True,
                env={
                    **os.environ,
                    **dict.fromkeys(THREADS, "1"),
                    "PYTHONPATH": str(ROOT),
                },
            )
            return read(folder / "found.npz")

    def kept_fit(self, method, name, X, seed, **params):
        """A fit of data of this name and seed, taken from the folder of kept maps where
        it is by another package.

        Its seconds are then those of the run that was kept, which cannot be compared
        with others.
        """
        if self.quick:
            key = method, name, seed, *params.items()
            if key not in TINY:
                TINY[key] = self.fit(method, X, seed, **params)
            return TINY[key]
        path = self.place(method, name, len(X), seed, **params)
        if path and path.exists():
            found = read(path)
            if np.allclose(found.pop("rows"), X[-LOOKED_AT:], rtol=1e-3, atol=1e-6):
                return found
        found = self.fit(method, X, seed, **params)
        if path:
            with atomically(path) as file:
                np.savez(file, **found, rows=X[-LOOKED_AT:])
        return found

    def place(self, method, name, n, seed, **params):
        """Where the map of another package is kept; None where it is not."""
        if self.kept is None or method not in PACKAGES:
            return None
        parts = [
            name,
            n,
            f"seed {seed}",
            method,
            importlib.metadata.version(PACKAGES[method]),
        ]
        parts += [f"{key} {value}" for key, value in sorted(params.items())]
        return self.kept / (re.sub(r"[^\w.]+", "_", "-".join(map(str, parts))) + ".npz")


def add(row, found, *keys):
    """Put what was found into the lists of a record, one entry a run."""
    for key in keys or found:
        if key in found:
            row.setdefault(key, []).append(found[key])


def read(path):
    """Arrays and numbers of a file."""
    with np.load(path) as found:
        return {
            key: value if value.ndim else value.item() for key, value in found.items()
        }
