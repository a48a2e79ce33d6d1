"""Where the fits of maps run: each in a fresh process with one thread; those of other packages may be kept on disk."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

from benchmarks import _sne_fits, _sne_panel, _sne_quality
from benchmarks._tables import ROOT, plain
from sk_stormc.utils.atomic import atomically

FOLDER = "BENCHMARK_MAPS"  # the variable that names the folder of kept maps
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PACKAGES = {"sklearn": "scikit-learn", "openTSNE": "openTSNE"}  # by method, which is what is imported
LOOKED_AT = 20  # last rows of the data that a kept map must be of
# kept measures are those of this text
PANEL = zlib.crc32(b"".join(Path(module.__file__).read_bytes() for module in (_sne_panel, _sne_quality)))
TINY = {}  # measures of quick runs


class Bench:
    """Runs fits; a context, whose temporary folder has the data of a fit.

    Parameters
    ----------
    quick : bool
        Tiny sizes, in this process.
    images : Path or None
        Where pictures go; None keeps none.
    """

    def __init__(self, quick, images):
        self.quick, self.images = quick, images
        kept = os.environ.get(FOLDER)
        self.kept = Path(kept) if kept and not quick else None
        if self.kept:
            self.kept.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        return self

    def __exit__(self, *exception):
        self._temporary.cleanup()

    def size(self, n):
        """A number of points, or a tiny one in a quick run."""
        return max(200, n // 5000) if self.quick else n

    def say(self, text):
        """Progress, on a line of stderr."""
        print(text, file=sys.stderr, flush=True)

    def missing(self, method):
        """Why a method cannot be run, or None."""
        name = PACKAGES.get(method)
        return f"{name} is not installed" if name and importlib.util.find_spec(method) is None else None

    def fit(self, method, X, seed=0, *, fresh=True, **params):
        """Run one fit.

        Parameters
        ----------
        method : str
            Of `_sne_fits.METHODS`.
        X : ndarray
        seed : int
        fresh : bool, default=True
            In a process of its own, as memory and seconds want it.
        **params
            Of the method; arrays only as ``new``.

        Returns
        -------
        dict
            "Z", "seconds", "peak" and what else the method reports.
        """
        if self.quick or not fresh:
            return _sne_fits.fit(method, X, seed, **params)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
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
                env={**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(ROOT)},
            )
            return read(folder / "found.npz")

    def kept_fit(self, method, name, X, seed, **params):
        """A fit, taken from the folder of kept maps where it is by another package and has been kept.

        Parameters
        ----------
        method : str
        name : str
            Of the data, whose seed is that of the method.
        X : ndarray
        seed : int
        **params
            Numbers and words.

        Returns
        -------
        dict
            As `fit` does. Its seconds are those of the run that was kept, which cannot be compared with others.
        """
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

    def kept_measures(self, method, name, n, seed, measure):
        """Measures of a map, kept beside the maps of other packages.

        Parameters
        ----------
        method, name, seed
            As for `kept_fit`.
        n : int
            Points.
        measure : callable
            Makes the map and measures it. What it returned before is taken, as long as the panel is what it was.

        Returns
        -------
        dict
        """
        if self.quick:  # all sizes of a kind of data are the same there
            key = method, name, n, seed
            if key not in TINY:
                TINY[key] = measure()
            return TINY[key]
        path = self.place(method, name, n, seed, panel=PANEL)
        if path is None:
            return measure()
        path = path.with_suffix(".json")
        if not path.exists():
            measured = measure()
            with atomically(path) as file:
                file.write(json.dumps(plain(measured)).encode())
        return json.loads(path.read_text(encoding="utf-8"))

    def place(self, method, name, n, seed, **params):
        """Where the map of another package is kept; None where it is not."""
        if self.kept is None or method not in PACKAGES:
            return None
        parts = [name, n, f"seed {seed}", method, importlib.metadata.version(PACKAGES[method])]
        parts += [f"{key} {value}" for key, value in sorted(params.items())]
        return self.kept / (re.sub(r"[^\w.]+", "_", "-".join(map(str, parts))) + ".npz")


def read(path):
    """Arrays and numbers of a file."""
    with np.load(path) as found:
        return {key: value if value.ndim else value.item() for key, value in found.items()}
