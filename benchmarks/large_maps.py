"""Maps of up to a million points in 50 columns of a float32 file, in one call; and what threads can take of a fit."""

import numpy as np

from benchmarks._sne_bench import Bench
from benchmarks._sne_quality import trustworthiness
from benchmarks._tables import markdown
from sk_stormc.datasets import make_augmented_digits

DURATION = "30 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn",)
SEED = 50
FEATURES, NOISE, CHUNK = 50, 0.05, 100_000
CASES = {  # part: points and perplexities
    "million": [(1_000_000, 5.0)],
    "smaller": [(200_000, 5.0), (200_000, 30.0)],
}
ROUNDS = 3  # of fits with one and with two threads
THREADS = {"threads": [20_000, 70_000]}  # points
PARTS = dict.fromkeys([*CASES, *THREADS])


def run_part(name, quick, images):
    """Measure one part.

    Parameters
    ----------
    name : str
        Of `PARTS`.
    quick : bool
    images : Path or None
        Not used.

    Returns
    -------
    list of dict
    """
    with Bench(quick, images) as bench:
        if name in THREADS:
            sizes = THREADS[name][:1] if quick else THREADS[name]
            return [threads(bench, digits(bench.size(n))) for n in sizes]
        return [large(bench, n, perplexity) for n, perplexity in CASES[name]]


def large(bench, n, perplexity):
    """A map of a file, by a process that is told its name."""
    n, path = bench.size(n), bench.folder / "roll.npy"
    write_roll(path, n, SEED)
    found = bench.fit("searched", np.zeros(1), 0, path=str(path), perplexity=perplexity)
    Z = found.pop("Z")
    bench.say(f"{n} points, perplexity {perplexity}: {found}")
    return {"n": n, "perplexity": perplexity, **found, "t5": trustworthiness(np.load(path, mmap_mode="r"), Z)}


def threads(bench, X):
    """What threads can take of a fit, and its wall time with two threads over that with one, in turn."""
    ratios = []
    for _ in range(1 if bench.quick else ROUNDS):
        one, two = (bench.fit("on_the_clock", X, 0, n_jobs=k)["wall"] for k in (1, 2))
        ratios.append(two / one)
    return {"n": len(X), **bench.fit("shares", X, 0), "measured": float(np.median(ratios))}


def digits(n):
    """Augmented digits of a seed that nothing was chosen on."""
    return make_augmented_digits(n, random_state=SEED)[0].astype(np.float32)


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


def tables(stored):
    """A table of large maps, and one of threads."""
    results = stored["results"]
    rows = [row for part in CASES for row in results.get(part, [])]
    return {"maps": of_maps(rows), "threads": of_threads(results.get("threads", []))}


def of_maps(rows):
    """A line for each fit."""
    lines = [
        [
            f"{row['n']:,}",
            f"{row['perplexity']:g}",
            f"{row['search']:.0f}",
            f"{row['seconds']:.0f}",
            f"{row['n_iter']}",
            f"{row['recall']:.4f}",
            f"{row['t5']:.4f}",
            f"{row['peak']:.1f}",
        ]
        for row in rows
    ]
    header = ["n", "perplexity", "search, CPU s", "everything", "iterations", "recall of the search", "T5", "peak GB"]
    return markdown(header, lines)


def of_threads(rows):
    """What is left of the time of one thread: what was measured, and at best, by the part that threads can take."""
    at_best = [f"{k} threads, at best" for k in (2, 4, 8)]
    header = ["n", "CPU s", "what one thread does alone", "2 threads, measured", *at_best]
    lines = [
        [
            f"{row['n']:,}",
            f"{row['seconds']:.1f}",
            f"{row['alone']:.0%}",
            f"{row['measured']:.0%}" if "measured" in row else "",
            *(f"{row[f'left_{k}']:.0%}" for k in (2, 4, 8)),
        ]
        for row in rows
    ]
    return markdown(header, lines)
