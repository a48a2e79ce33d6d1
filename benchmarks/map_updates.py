"""Maps fitted again with new rows: how far the old points move, and the divergence
beside that of a map fitted anew.

The new rows are a share of all, at random, or one of the classes, of the median size.
The old points are aligned with those of the old map by `align_embedding`. A distance
that they have moved is a share of the old map's radius, the root of the mean squared
distance from its centre. Numbers are means over the seeds of the median distance, and
of the divergence relative to that of the map fitted anew.
"""

import numpy as np

from benchmarks._measure import timed
from benchmarks._sne_kinds import KINDS
from benchmarks._tables import table
from sk_stormc import SNEEmbedding
from sk_stormc.plotting import align_embedding

DURATION = "5 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn",)
FIRST_SEED, SEEDS = 80, 2  # neither the library nor these ways were chosen on them
# kinds, and numbers of points
DATA = {
    "digits": 1500,
    "counts": 1500,
    "texts": 1500,
    "swiss roll": 1500,
    "hierarchy": 1200,
}
SHARES = {"2 %": 0.02, "10 %": 0.1, "25 %": 0.25, "50 %": 0.5}  # of new rows
CASES = (*SHARES, "a class")
ANEW = "fitted anew"
WAYS = {  # parameters, for the positions Z in the old map
    ANEW: lambda Z: {},
    "`init=Z, early_exaggeration=1`": lambda Z: {"init": Z, "early_exaggeration": 1},
    **{
        f"`init=Z / {factor}, early_exaggeration=1`": lambda Z, factor=factor: {
            "init": Z / factor,
            "early_exaggeration": 1,
        }
        for factor in (10, 30)
    },
}


def divided(kind, n, seed, case):
    """Rows in random order, the old ones first, and the number of the old ones."""
    X, y = KINDS[kind](n, seed)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], y[order]
    if case in SHARES:
        return X, round((1 - SHARES[case]) * len(X))
    sizes = np.bincount(y)
    is_new = y == np.argsort(sizes)[len(sizes) // 2]
    return X[np.argsort(is_new, kind="stable")], int((~is_new).sum())


def updated(X, n_old, seed):
    """The median distance and the divergence of the maps of all ways."""
    _, old, _ = timed(SNEEmbedding(random_state=seed).fit, X[:n_old])
    R, start, found = old.embedding_, old.transform(X), {}
    radius = np.sqrt(np.square(R - R.mean(axis=0)).sum(axis=1).mean())
    for way, params in WAYS.items():
        _, new, _ = timed(SNEEmbedding(random_state=seed, **params(start)).fit, X)
        Z = align_embedding(new.embedding_, R, rows=slice(n_old))[:n_old]
        found[way] = (
            np.median(np.linalg.norm(Z - R, axis=1)) / radius,
            new.kl_divergence_,
        )
    return {way: (moved, kl / found[ANEW][1] - 1) for way, (moved, kl) in found.items()}


def run(quick, data):
    """Update the maps of all data."""
    rows = []
    for kind, n in {"counts": 200}.items() if quick else DATA.items():
        for case in CASES:
            seeds = range(FIRST_SEED, FIRST_SEED + (1 if quick else SEEDS))
            found = [updated(*divided(kind, n, seed, case), seed) for seed in seeds]
            for way in WAYS:
                moved, kl = np.mean([of_seed[way] for of_seed in found], axis=0)
                rows.append(
                    {"data": kind, "new": case, "way": way, "moved": moved, "kl": kl}
                )
                print(rows[-1], flush=True)
    return {"results": rows}


def tables(stored):
    """Tables with a row for each kind of new rows and each way: of all data, and their
    means, with a column for each way."""
    by_place = {(row["new"], row["way"], row["data"]): row for row in stored["results"]}
    kinds = list(dict.fromkeys(row["data"] for row in stored["results"]))
    rows = [{"new": new, "way": way} for new in CASES for way in WAYS]
    columns = {"new rows": "{new}", "map": "{way}"}
    for kind in kinds:
        columns[kind] = lambda row, kind=kind: _cell(
            by_place[row["new"], row["way"], kind]
        )
    means = {"new rows": "{new}"}
    for way in WAYS:
        means[way] = lambda row, way=way: _mean(
            [by_place[row["new"], way, kind] for kind in kinds]
        )
    return {
        "updates": table(rows, columns),
        "means": table([{"new": new} for new in CASES], means),
    }


def _mean(rows):
    """The cell of the means of some rows."""
    both = {key: np.mean([row[key] for row in rows]) for key in ("moved", "kl")}
    return _cell(rows[0] | both)


def _cell(row):
    return f"{row['moved']:.2f}" + (
        "" if row["way"] == ANEW else f" ({row['kl']:+.1%})"
    )
