"""Maps of up to a million points in 50 columns of a float32 file, in one call; and what
a second thread saves."""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks._sne_bench import Bench
from benchmarks._sne_panel import trustworthiness
from benchmarks._tables import table
from sk_stormc.datasets import make_augmented_digits

DURATION = "8 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn",)
SEED = 50
FEATURES, NOISE, CHUNK = 50, 0.05, 100_000
CASES = {  # part: points and perplexities
    "million": [(1_000_000, 5.0)],
    "smaller": [(200_000, 5.0), (200_000, 30.0)],
}
ROUNDS = 3  # of fits with one and with two threads
THREADS = (20_000, 70_000)  # points
PARTS = (*CASES, "threads")


def run_part(name, quick, images):
    """Measure one part."""
    bench = Bench(quick)
    if name == "threads":
        return [threads(bench, n) for n in (THREADS[:1] if quick else THREADS)]
    return [large(bench, n, perplexity) for n, perplexity in CASES[name]]


def large(bench, n, perplexity):
    """A map of a file, by a process that is told its name."""
    n = bench.size(n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "roll.npy"
        write_roll(path, n, SEED)
        found = bench.fit(
            "ours", np.zeros(1), path=str(path), perplexity=perplexity, kl=True
        )
        Z = found.pop("Z")
        print(f"{n} points, perplexity {perplexity}: {found}", flush=True)
        return {
            "n": n,
            "perplexity": perplexity,
            **found,
            "t5": trustworthiness(np.load(path, mmap_mode="r"), Z),
        }


def threads(bench, n):
    """The wall time of a fit with two threads over that with one, in turn."""
    # nothing was chosen on this seed
    X = make_augmented_digits(bench.size(n), random_state=SEED)[0].astype(np.float32)
    fits = [
        [bench.fit("ours", X, n_jobs=k) for k in (1, 2)]
        for _ in range(1 if bench.quick else ROUNDS)
    ]
    ratios = [two["wall"] / one["wall"] for one, two in fits]
    return {
        "n": len(X),
        "seconds": np.median([one["seconds"] for one, _ in fits]),
        "measured": np.median(ratios),
    }


def write_roll(path, n, seed):
    """A swiss roll, rotated into 50 columns, with a little noise, as float32."""
    rng = np.random.default_rng(seed)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n, FEATURES))
    along, across = 1.5 * np.pi * (1 + 2 * rng.random(n)), 21 * rng.random(n)
    turn = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0][:, :3]
    for first in range(0, n, CHUNK):
        some = slice(first, first + CHUNK)
        t = along[some]
        roll = np.stack([t * np.cos(t), across[some], t * np.sin(t)], axis=1)
        X[some] = roll @ turn.T + NOISE * rng.normal(size=(len(t), FEATURES))
    X.flush()


MAPS = {
    "n": "{n:,}",
    "perplexity": "{perplexity:g}",
    "search, CPU s": "{search:.0f}",
    "in all, CPU s": "{seconds:.0f}",
    "iterations": "{n_iter}",
    "recall of the search": "{recall:.4f}",
    "T5": "{t5:.4f}",
    "peak GB": "{peak:.1f}",
}
OF_THREADS = {
    "n": "{n:,}",
    "CPU s with one thread": "{seconds:.1f}",
    "time with two threads": "{measured:.0%}",
}


def tables(stored):
    """A table of large maps, and one of threads."""
    results = stored["results"]
    rows = [row for part in CASES for row in results.get(part, [])]
    return {
        "maps": table(rows, MAPS),
        "threads": table(results.get("threads", []), OF_THREADS),
    }
