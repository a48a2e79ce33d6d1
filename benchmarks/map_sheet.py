"""Maps of twelve kinds of data by four programs on one picture, including those where
SNEEmbedding is behind.

KL is on a P that is the same for all (perplexity 30), although UMAP minimises another
objective. All programs have their defaults, one seed and one thread. Two further parts
show what `init="spectral"` does for closed curves, and `max_iter=300` for five kinds of
data.
"""

import numpy as np

from benchmarks._map_sets import torus
from benchmarks._sne_bench import PACKAGES as PEERS
from benchmarks._sne_bench import Bench, add
from benchmarks._sne_kinds import KINDS, linked_circles, rings
from benchmarks._sne_panel import divergence, recall
from benchmarks._sne_tables import data as data_of
from benchmarks._sne_tables import divergence as kl
from benchmarks._sne_tables import median, seconds
from benchmarks._tables import table
from benchmarks.map_updates import DATA
from benchmarks.maps import draw_maps, save_small
from sk_stormc.affinities import perplexity_affinities

DURATION = "10 minutes"
NEEDS_DATA = False
PACKAGES = tuple(PEERS.values())
METHODS = (
    ("SNEEmbedding", "ours"),
    ("scikit-learn TSNE", "sklearn"),
    ("openTSNE", "openTSNE"),
    ("UMAP", "umap"),
)
SEED = 40
NEIGHBORS = 10  # of recall
MAX_ITER, SEEDS = ("auto", 300), 1


def square(n, rng):
    """Uniform points of a square."""
    return rng.random((n, 2))


def sphere(n, rng):
    """Uniform points of a sphere."""
    X = rng.normal(size=(n, 3))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def duplicates(n, rng):
    """Each of 500 points of three clusters, four times."""
    X = rng.normal(size=(n // 4, 10)) + 5 * rng.normal(size=(3, 10)).repeat(
        [n // 4 - 2 * (n // 12), n // 12, n // 12], axis=0
    )
    return np.repeat(X, 4, axis=0)


def zero_inflated(n, seed):
    """Logarithms of counts of eight kinds, three quarters of which are missing."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 8
    rates = np.exp(rng.normal(0, 1, (8, 200)) + 1)
    X = rng.poisson(rates[kind]) * (rng.random((n, 200)) < 0.25)
    return np.log1p(X.astype(float)), kind


def drawn(make):
    """Data and colours of a function of a generator: the first coordinate."""

    def of_seed(n, seed):
        X = make(n, np.random.default_rng(seed))
        return X, X[:, 0]

    return of_seed


def labelled(make, n_labels):
    """The same with the labels 0, 1, ..., 0, 1, ..."""
    return lambda n, seed: (
        make(n, np.random.default_rng(seed)),
        np.arange(n) % n_labels,
    )


SETS = {  # number of points, and data and colours of a seed
    "noise": (1500, KINDS["uniform noise"]),
    "square": (1500, drawn(square)),
    "sphere": (1500, drawn(sphere)),
    "torus": (1500, drawn(torus)),
    "linked rings": (2000, rings),
    "tree": (1500, KINDS["tree"]),
    "hierarchy": (1500, KINDS["hierarchy"]),
    "duplicates": (2000, drawn(duplicates)),
    "counts": (1797, KINDS["counts"]),
    "zero-inflated": (1500, zero_inflated),
    "digits": (1797, KINDS["digits"]),
    "MNIST-like": (2000, KINDS["augmented digits"]),
}


def sheet(bench, images):
    """Measure and draw the maps of all kinds of data by all methods."""
    rows, maps = {}, {}
    for name, (n, make) in list(SETS.items())[: 2 if bench.quick else None]:
        X, colours = make(bench.size(n), SEED)
        P, everyone = perplexity_affinities(X, 30.0), np.arange(len(X))
        for label, method in METHODS:
            row = bench.row(rows, label, method, data=name, n=len(X))
            if row:
                found = bench.fit(method, X, SEED)
                near = recall(X, found["Z"], everyone)[NEIGHBORS]
                measured = {"kl": divergence(P, found["Z"]), "recall": near}
                add(row, measured | {"seconds": found["seconds"]})
                maps[name, label] = found["Z"], colours, row
                print(f"{name}, {label}: {measured}", flush=True)
    if images:
        save_small(figure_of(maps), images / "maps_sheet.png")
    return list(rows.values())


def figure_of(maps):
    """All maps, a row for each kind of data and a column for each method, with KL,
    recall and CPU seconds below."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(name for name, _ in maps))
    labels = list(dict.fromkeys(label for _, label in maps))
    size = 2 * len(labels), 2.2 * len(names)
    figure, axes = plt.subplots(
        len(names), len(labels), figsize=size, layout="constrained", squeeze=False
    )
    for (name, label), (Z, colours, row) in maps.items():
        ax = axes[names.index(name), labels.index(label)]
        cmap = "tab20" if colours.dtype.kind == "i" else "viridis"
        ax.scatter(*Z.T, c=colours, cmap=cmap, s=2, linewidths=0)
        # a few stray points would leave the map no room
        low, high = np.percentile(Z, [0.2, 99.8], axis=0)
        centre, half = (low + high) / 2, 0.6 * (high - low).max()
        ax.set(xlim=(centre[0] - half, centre[0] + half))
        ax.set(ylim=(centre[1] - half, centre[1] + half))
        ax.set(xticks=[], yticks=[], aspect="equal")
        best = min(row["kl"] for *_, row in of_data(maps, name)) == row["kl"]
        ax.set_xlabel(
            f"KL {row['kl'][0]:.3f} | {row['recall'][0]:.0%} | "
            f"{row['seconds'][0]:.1f} s",
            fontsize=8,
            fontweight="bold" if best else "normal",
        )
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set_title(label, fontsize=9)
    for ax, name in zip(axes[:, 0], names, strict=True):
        ax.set_ylabel(name, fontsize=9)
    return figure


def of_data(maps, name):
    """The maps of one kind of data."""
    return [found for (of, _), found in maps.items() if of == name]


def closed_curves(bench, images):
    """Two linked rings from both initialisations, with the largest distance of points
    that are next to each other on a ring, relative to the ring's radius."""
    rng = np.random.default_rng(SEED)
    X, y, angle = linked_circles(bench.size(2000), rng)
    X += 0.03 * rng.standard_normal(X.shape)
    P, rows, maps = perplexity_affinities(X, 30.0), [], {}
    for init in ("pca", "spectral"):
        Z = bench.fit("ours", X, SEED, init=init)["Z"]
        gap = max(largest_gap(Z[y == k], angle[y == k]) for k in (0, 1))
        rows.append({"init": init, "kl": divergence(P, Z), "gap": gap})
        maps[f'init="{init}"\nKL {rows[-1]["kl"]:.3f}'] = Z
    if images:
        draw_maps(images / "maps_closed_curves.png", maps, y)
    return rows


def largest_gap(Z, angle):
    """The largest distance of neighbours on a ring, relative to its mean radius."""
    Z = Z[np.argsort(angle)] - Z.mean(axis=0)
    steps = np.linalg.norm(Z - np.roll(Z, 1, axis=0), axis=1)
    return steps.max() / np.linalg.norm(Z, axis=1).mean()


def iterations(bench, images):
    """Maps of five kinds of data after more iterations than the default."""
    rows = {}
    for kind, n in list(DATA.items())[: 1 if bench.quick else None]:
        for seed in range(SEED, SEED + (1 if bench.quick else SEEDS)):
            X, _ = KINDS[kind](bench.size(n), seed)
            P, everyone = perplexity_affinities(X, 30.0), np.arange(len(X))
            for max_iter in MAX_ITER:
                row = bench.row(rows, max_iter, "ours", data=kind, n=len(X))
                found = bench.fit("ours", X, seed, max_iter=max_iter)
                recalls = recall(X, found["Z"], everyone)
                add(row, {f"recall {k}": value for k, value in recalls.items()})
                add(row, {"kl": divergence(P, found["Z"])})
                add(row, found, "seconds")
                print(f"{kind}, seed {seed}, max_iter={max_iter}", flush=True)
    return list(rows.values())


PARTS = {part.__name__: part for part in (sheet, closed_curves, iterations)}


def run_part(name, quick, images):
    """Measure one part, and put its picture into a folder."""
    return PARTS[name](Bench(quick), images)


# tables


def sheet_table(rows):
    """KL, recall and seconds of all methods, a row for each kind of data."""
    by_place = {(row["data"], row["method"]): row for row in rows}
    columns = {"data": "{data}", "points": "{n:,}"}
    cells = {"KL": kl, "recall": median("recall", ".3f"), "CPU s": seconds}
    for key, cell in cells.items():
        for label, _ in METHODS:
            columns[f"{key}, {label}"] = lambda row, label=label, cell=cell: cell(
                by_place[row["data"], label]
            )
    return table([row for row in rows if row["method"] == METHODS[0][0]], columns)


def iterations_table(rows):
    """KL, recalls and seconds, the latter relative to those of the default."""
    default = {
        row["data"]: sum(row["seconds"]) for row in rows if row["method"] == "auto"
    }
    columns = {"data": data_of, "`max_iter`": "{method}", "KL": median("kl")}
    for k in (10, 100, 500):
        columns[f"recall at {k}"] = median(f"recall {k}")
    columns["time"] = lambda row: format(
        sum(row["seconds"]) / default[row["data"]], ".1f"
    )
    return table(rows, columns)


def tables(stored):
    """A table of each part that is stored."""
    results, found = stored["results"], {}
    if "sheet" in results:
        found["sheet"] = sheet_table(results["sheet"])
    if "closed_curves" in results:
        columns = {"`init`": '"{init}"', "KL": "{kl:.3f}", "largest gap": "{gap:.2f}"}
        found["closed_curves"] = table(results["closed_curves"], columns)
    if "iterations" in results:
        found["iterations"] = iterations_table(results["iterations"])
    return found
