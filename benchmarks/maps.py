"""Maps of several kinds of data by SNEEmbedding, scikit-learn's TSNE and openTSNE, judged by several measures.

Each fit has a fresh process with one thread. KL is on a P of its own that is the same for all (perplexity 30, 91
neighbours), with exact normalisers. The seeds are those of the data and of the methods, and nothing in the library was
chosen on them.

Parts can be run one at a time: each is stored when it ends, beside those that were stored before. The maps of the other
packages take most of the time, and do not depend on this one. Where the variable BENCHMARK_MAPS names a folder, they
are kept there, one file each, so that a part that was broken off goes on where it was, and what changed here is
measured in a few minutes. Seconds are never taken from there: the parts "times_..." run all methods in turn.
"""

import sys

from benchmarks import _sne_tables
from benchmarks._sne_bench import Bench
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import panel
from benchmarks._sne_parts import FURTHER, METHODS
from benchmarks._sne_pictures import draw_maps
from sk_stormc.affinities import perplexity_affinities

DURATION = "3 hours"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "openTSNE")
FIRST_SEED = 40
CASES = [  # kind, points, seeds, whether scikit-learn takes part
    ("digits", 500, 5, True),
    ("digits", 1797, 5, True),
    ("augmented digits", 5000, 5, True),
    ("augmented digits", 20_000, 5, True),
    ("augmented digits", 70_000, 1, False),
    ("counts", 500, 5, True),
    ("counts", 1797, 3, True),
    ("counts", 5000, 1, True),
    ("counts", 20_000, 1, False),
    ("texts", 1797, 3, True),
    ("texts", 5000, 1, True),
    ("texts", 20_000, 1, False),
    ("swiss roll", 1000, 5, True),
    ("swiss roll", 4000, 1, True),
    ("far clusters", 4000, 1, True),
    ("uneven clusters", 500, 5, True),
    ("uneven clusters", 4000, 1, True),
    ("blobs", 1000, 5, True),
    ("hierarchy", 1200, 5, True),
    ("s curve", 1500, 5, True),
    ("uniform noise", 2000, 3, True),
    ("tree", 2000, 3, True),
    ("rings", 1000, 3, True),
]
CASES = {f"{case[0]} {case[1]}".replace(" ", "_"): case for case in CASES}
DRAWN = CASES.keys() - {"counts_500", "counts_20000", "texts_1797", "texts_20000"}
MOST_SEEDS = max(case[2] for case in CASES.values())
PARTS = dict.fromkeys([*CASES, *FURTHER])


def run_part(name, quick, images):
    """Measure one part.

    Parameters
    ----------
    name : str
        Of `PARTS`.
    quick : bool
    images : Path or None
        The folder of the pictures.

    Returns
    -------
    list of dict
        One for each method: lists over the seeds.
    """
    with Bench(quick, images) as bench:
        return FURTHER[name](bench) if name in FURTHER else judged(bench, name)


def judged(bench, name):
    """The panel of all methods, and a picture of the maps of the first seed where a page shows it."""
    kind, n, n_seeds, _ = CASES[name]
    rows = {}
    for seed in range(FIRST_SEED, FIRST_SEED + (1 if bench.quick else n_seeds)):
        X, y = KINDS[kind](bench.size(n), seed)
        P, maps = perplexity_affinities(X, 30.0), {}
        drawn = bool(bench.images) and name in DRAWN and seed == FIRST_SEED
        for label, method in methods_of(name):
            row = rows.setdefault(label, {"data": kind, "n": len(X), "method": label})
            reason = bench.missing(method)
            if reason:
                row["skipped"] = reason
                continue
            measured, Z = one(bench, kind, seed, method, X, y, P, drawn)
            for key, value in measured.items():
                row.setdefault(key, []).append(value)
            maps[f"{label}\nKL {measured['kl']:.3f}"] = Z
            bench.say(f"{name}, {label}, seed {seed}: {measured}")
        if drawn:
            draw_maps(bench.images / f"maps_{name}.png", maps, y)
    return list(rows.values())


def one(bench, kind, seed, method, X, y, P, drawn=False):
    """The measures of a map; and the map, where it is to be drawn."""
    fitted = []

    def map_of():
        if not fitted:
            fitted.append(bench.kept_fit(method, kind, X, seed)["Z"])
        return fitted[0]

    measured = bench.kept_measures(method, kind, len(X), seed, lambda: panel(X, y, P, map_of()))
    return measured, map_of() if drawn else None


def methods_of(name):
    """Labels and methods of a case."""
    return [pair for pair in METHODS if pair[1] != "sklearn" or CASES[name][3]]


def fill(names):
    """Make the maps of other packages that are not kept yet, those of the first seeds first."""
    with Bench(False, None) as bench:
        if bench.kept is None:
            sys.exit("BENCHMARK_MAPS must name a folder")
        for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
            for name in names:
                kind, n, n_seeds, _ = CASES[name]
                if seed >= FIRST_SEED + n_seeds:
                    continue
                X, y = KINDS[kind](n, seed)
                for label, method in methods_of(name)[1:]:
                    drawn = name in DRAWN and seed == FIRST_SEED
                    one(bench, kind, seed, method, X, y, perplexity_affinities(X, 30.0), drawn)
                    bench.say(f"{name}, {label}, seed {seed}")


def tables(stored):
    """The tables of all parts, of each kind of data, and of where SNEEmbedding is behind the better of the others."""
    return _sne_tables.tables(stored, CASES, FURTHER)


if __name__ == "__main__":
    fill(sys.argv[1:] or CASES)
