"""Limits of maps: the time to the same divergence by openTSNE, and what might keep more
of the farther neighbours.

The data, the measures and the fresh processes are those of `maps`.
"""

from benchmarks._sne_bench import Bench, add
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import divergence, panel
from benchmarks._sne_tables import data as data_of
from benchmarks._sne_tables import divergence as kl
from benchmarks._sne_tables import median, seconds
from benchmarks._tables import table
from sk_stormc.affinities import perplexity_affinities

DURATION = "5 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "openTSNE")
SEED = 40
# iterations of openTSNE after its early stage; the first is its default
CHECKPOINTS = (500, 1000, 2000, 3000)
VARIED = {
    "as it is": {},
    "rate held over 3/4 of the iterations": {"hold": 0.75},
    "rate falls to a tenth": {"last": 0.1},
    "neighbours: 2 perplexity + 1": {"n_neighbors": 61},
    "neighbours: 5 perplexity + 1": {"n_neighbors": 151},
}


def run_part(name, quick, images):
    """Measure one part: a record for each row of its table."""
    return PARTS[name](Bench(quick))


def same_divergence(bench):
    """The divergence of openTSNE after more and more iterations, beside that of
    SNEEmbedding."""
    X, _ = KINDS["augmented digits"](bench.size(5000), SEED)
    P, rows = perplexity_affinities(X, 30.0), {}
    about = {"data": "augmented digits", "n": len(X)}
    found = bench.fit("ours", X, SEED)
    row = bench.row(
        rows, "SNEEmbedding", "ours", **about, iterations=int(found["n_iter"])
    )
    add(row, {"seconds": found["seconds"], "kl": divergence(P, found["Z"])})
    checkpoints = (250, 500) if bench.quick else CHECKPOINTS
    of_peer = [
        bench.row(rows, "openTSNE", "openTSNE", **about, iterations=k)
        for k in checkpoints
    ]
    if None not in of_peer:
        found = bench.fit("openTSNE", X, SEED, checkpoints=checkpoints)
        maps = found["Z"][-len(checkpoints) :]  # the first may be of the early stage
        for row, Z, took in zip(
            of_peer, maps, found["seconds"][-len(checkpoints) :], strict=True
        ):
            add(row, {"seconds": took, "kl": divergence(P, Z)})
    return list(rows.values())


def farther_neighbors(bench):
    """Maps by other learning rates and numbers of neighbours, for the recall of 100 and
    500 neighbours."""
    rows = {}
    for kind, n in [("digits", 1797), ("augmented digits", 5000), ("counts", 5000)][
        : 1 if bench.quick else None
    ]:
        X, y = KINDS[kind](bench.size(n), SEED)
        P = perplexity_affinities(X, 30.0)
        for label, params in VARIED.items():
            row = bench.row(rows, label, "ours", data=kind, n=len(X))
            found = bench.fit("varied", X, SEED, **params)
            add(row, {"seconds": found["seconds"], **panel(X, y, P, found["Z"])})
            print(f"{kind}, {label}", flush=True)
    return list(rows.values())


PARTS = {part.__name__: part for part in (same_divergence, farther_neighbors)}


def tables(stored):
    """A table of each part that is stored."""
    results, found = stored["results"], {}
    if "same_divergence" in results:
        rows = results["same_divergence"]
        ours = rows[0]["seconds"][0]
        columns = {
            "method": "{method}",
            "iterations": "{iterations:,}",
            "CPU s": seconds,
            "ratio to SNEEmbedding": lambda row: (
                "" if "skipped" in row else format(row["seconds"][0] / ours, ".0f")
            ),
            "KL": kl,
        }
        found["same_divergence"] = table(rows, columns)
    if "farther_neighbors" in results:
        recalls = {f"recall at {k}": median(f"recall {k}") for k in (10, 100, 500)}
        columns = {"data": data_of, "variant": "{method}", "KL": kl, **recalls}
        found["farther_neighbors"] = table(results["farther_neighbors"], columns)
    return found
