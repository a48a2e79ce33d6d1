"""Where the fits of sne_vs_tsne run: each in a fresh process with one thread, version 0.1.0 from its own sources."""

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import _sne_fits
from benchmarks._tables import ROOT

OLD = "4b7881c"  # the commit of version 0.1.0
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SEEDS = (0, 1, 2)


class Bench:
    """Runs fits; a context, whose temporary folder has the sources of version 0.1.0 and the data of a fit.

    Parameters
    ----------
    quick : bool
        Tiny sizes, and all but version 0.1.0 in this process.
    images : Path or None
        Where pictures go; None keeps none.

    Attributes
    ----------
    seeds : tuple of int
    """

    def __init__(self, quick, images):
        self.quick, self.images = quick, images
        self.seeds = SEEDS[:1] if quick else SEEDS
        self._reasons = {}

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        return self

    def __exit__(self, *exception):
        self._temporary.cleanup()

    def size(self, n):
        """A number of points, or a tiny one in a quick run."""
        return max(200, n // 5000) if self.quick else n

    def seeds_of(self, n):
        """The seeds; one for more than 20,000 points."""
        return self.seeds if n <= 20_000 else self.seeds[:1]

    def say(self, text):
        """Progress, on a line of stderr."""
        print(text, file=sys.stderr, flush=True)

    def missing(self, method, params):
        """Why a method cannot be run, or None."""
        name = "pynndescent" if params.get("search") == "pynndescent" else method
        if name not in self._reasons:
            self._reasons[name] = self._why_not(name)
        return self._reasons[name]

    def _why_not(self, name):
        if name in ("openTSNE", "pynndescent"):
            if importlib.util.find_spec(name) is None:
                return f"{name} is not installed"
            # it compiles for longer than a quick run may take
            return "not in a quick run" if self.quick and name == "pynndescent" else None
        return self._unpack_old() if name == "0.1.0" else None

    def _unpack_old(self):
        """Put the sources of version 0.1.0 into the folder; the reason where that is not possible, or None."""
        if shutil.which("git") is None:
            return "git is not installed"
        found = subprocess.run(
            ["git", "archive", OLD, "sk_stormc"], cwd=ROOT, capture_output=True, env={**os.environ, "LC_ALL": "C"}
        )
        if found.returncode:
            return f"commit {OLD} is not there"
        with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
            archive.extractall(self.folder / "old", filter="data")
        return None

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
        if method != "0.1.0" and (self.quick or not fresh):
            return _sne_fits.fit(method, X, seed, **params)
        sources = self.folder / "old" if method == "0.1.0" else ROOT
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            np.save(folder / "X.npy", X)
            if "new" in params:
                np.save(folder / "new.npy", params.pop("new"))
            package = None if method in ("sklearn", "openTSNE") else str(sources)
            job = {"method": method, "seed": seed, "params": params, "package": package}
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            subprocess.run(
                [sys.executable, "-P", _sne_fits.__file__, folder],
                check=True,
                env={**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(sources)},
            )
            with np.load(folder / "found.npz") as found:
                return {key: value if value.ndim else value.item() for key, value in found.items()}
