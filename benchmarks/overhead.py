"""What a fit costs over its bare run: the checks of the data, records, callbacks, what `resume` needs.

The bare run makes the estimator's problem and calls the solver's `solve` on it with the same budget. It, the fit, and
the fit with scikit-learn's `ProgressBar` and with a `Checkpoint` for each pass take turns in one process. The table has
medians of the ratios of each turn.
"""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
from sklearn.callback import ProgressBar

from benchmarks._measure import timed
from benchmarks._tables import markdown
from sk_stormc import CompositionalPortfolio, STORMCompositional
from sk_stormc.callbacks import Checkpoint
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem

DURATION = "2 minutes"
NEEDS_DATA = False
SIZES = ((250, 25), (2500, 100), (20_000, 100))
PASSES, ROUNDS = 40, 15


def turns(n, d, passes, rounds, folder):
    """Seconds of the four ways, a row for each turn."""
    R = make_gaussian_returns(n, d, mean=0.1, random_state=0)
    solver = STORMCompositional(batch_size=32, learning_rate=0.01, max_ifo=passes * 3 * n, tol=0)
    fit = CompositionalPortfolio(solver, random_state=0)
    ways = [
        lambda: solver.solve(PortfolioProblem(R, metric="variance"), random_state=0),
        lambda: fit.set_callbacks().fit(R),
        lambda: fit.set_callbacks(ProgressBar()).fit(R),
        lambda: fit.set_callbacks(Checkpoint(Path(folder) / "run.npz")).fit(R),
    ]
    found = np.zeros((rounds, len(ways)))
    for row in found:
        for k in np.random.default_rng().permutation(len(ways)):
            row[k] = timed(ways[k])[0]
    return found


def run(quick, data):
    """Measure: by the number of periods and assets, milliseconds of the bare run and ratios to it."""
    passes, rounds, results = (5, 3, {}) if quick else (PASSES, ROUNDS, {})
    with (
        contextlib.redirect_stdout(io.StringIO()),
        tempfile.TemporaryDirectory() as folder,
    ):
        for n, d in SIZES[:1] if quick else SIZES:
            turns(n, d, 1, 1, folder)
            found = turns(n, d, passes, rounds, folder)
            ratios = np.median(found[:, 1:] / found[:, :1], axis=0)
            results[f"{n} x {d}"] = {"bare ms": 1e3 * np.median(found[:, 0]), "ratios": ratios}
    return {"settings": {"passes": passes, "rounds": rounds}, "results": results}


def tables(stored):
    """Ratios to the bare run."""
    header = ["periods x assets", "bare run, ms", "fit", "with a progress bar", "with a checkpoint each pass"]
    rows = [
        [size, f"{row['bare ms']:.0f}", *(f"{ratio:.3f}" for ratio in row["ratios"])]
        for size, row in stored["results"].items()
    ]
    return {"ratios": markdown(header, rows)}
