"""SNEEmbedding beside version 0.1.0, scikit-learn's TSNE and openTSNE: KL on a common P, CPU seconds, memory.

Each fit that is timed runs in a fresh process with one thread. KL is on the same P for all (perplexity 30, 91
neighbours), with exact normalisers. Numbers are medians over three seeds (one above 20,000 points), of the method and,
where they are drawn, of the data. Parts (`--parts digits,n20000`) can be run one at a time: each is stored when it
ends, beside those that were stored before.
"""

import numpy as np
from scipy.spatial import procrustes
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from benchmarks import _sne_tables
from benchmarks._sne_bench import Bench
from benchmarks._sne_fits import begin_from
from benchmarks._sne_pictures import draw_maps, draw_million
from benchmarks._sne_quality import Judge, data, rolls_and_knots, trustworthiness

DURATION = "2 hours"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "openTSNE", "pynndescent")
STUDENT, GAUSSIAN = {"kernel": "student-t"}, {"kernel": "gaussian"}
OURS, OLD = ("SNEEmbedding", "ours", STUDENT), ("version 0.1.0", "0.1.0", STUDENT)
SKLEARN, OPEN = ("scikit-learn TSNE", "sklearn", {}), ("openTSNE", "openTSNE", {})
PLACED_IN_FIVE = ("SNEEmbedding, Gaussian, d = 5", "ours", {**GAUSSIAN, "n_components": 5})
RUNS = 20  # of each kind, for robustness


def compare(bench, name, n, methods, *, first_seed=0, keep=None, **params):
    """Fit a data set by several methods: for each its label, and lists over the seeds.

    Parameters
    ----------
    bench : Bench
    name : str
        Of the data.
    n : int
        Points.
    methods : iterable of tuple
        (label, method, its parameters).
    first_seed : int, default=0
    keep : callable, default=None
        Called with label, seed, judge, map, and what was measured.
    **params
        Of all methods.

    Returns
    -------
    list of dict
    """
    rows = {}
    for seed in (first_seed + s for s in bench.seeds_of(n)):
        judge = Judge(*data(name, bench.size(n), seed))
        for label, method, its in methods:
            row = rows.setdefault(label, {"data": name, "n": len(judge.X), "method": label})
            reason = bench.missing(method, its)
            if reason:
                row["skipped"] = reason
                continue
            found = bench.fit(method, judge.X, seed, **params, **its)
            Z = found.pop("Z")
            measured = {**found, **judge.measures(Z, its.get("kernel", "student-t"))}
            for key, value in measured.items():
                row.setdefault(key, []).append(value)
            if keep:
                keep(label, seed, judge, Z, measured)
            bench.say(f"{name}, {row['n']} points, {label}, seed {seed}: {found['seconds']:.1f} s")
    return list(rows.values())


def digits(bench):
    """The 1797 digits in two dimensions."""
    return compare(bench, "digits", 1797, (OURS, OLD, SKLEARN, OPEN))


def n5000(bench):
    """5,000 augmented digits in two dimensions."""
    return compare(bench, "augmented digits", 5000, (OURS, OLD, SKLEARN, OPEN))


def n20000(bench):
    """20,000 augmented digits in two dimensions, and the picture of the maps."""
    maps, labels = {}, None

    def keep(label, seed, judge, Z, measured):
        nonlocal labels
        if seed == bench.seeds[0] and label != OLD[0]:
            labels = judge.y
            maps[f"{label}\nKL {measured['kl']:.3f}, {measured['seconds']:.0f} s"] = Z

    rows = compare(bench, "augmented digits", 20_000, (OURS, OLD, SKLEARN, OPEN), keep=keep)
    if bench.images:
        draw_maps(bench.images / "sne_20000.png", maps, labels)
    return rows


def dimensions(bench):
    """More than two dimensions, beside version 0.1.0."""
    sizes = (("digits", 1797), ("augmented digits", 5000), ("augmented digits", 20_000))
    cases = [(*size, d) for size in sizes for d in (3, 5, 10) if size[1] <= 5000 or d < 10]
    rows = []
    for name, n, d in cases[:1] if bench.quick else cases:
        rows += [{**row, "d": d} for row in compare(bench, name, n, (OURS, OLD), n_components=d)]
    return rows


def gaussian(bench):
    """The Gaussian kernel on the digits, beside version 0.1.0 and the best of three runs of L-BFGS."""
    rows = []
    ours, old = (*OURS[:2], GAUSSIAN), (*OLD[:2], GAUSSIAN)
    judge = Judge(*data("digits", bench.size(1797), 0))
    for d in (2,) if bench.quick else (2, 3, 5, 10):
        rows += [{**row, "d": d} for row in compare(bench, "digits", 1797, (ours, old), n_components=d)]
        runs = []
        for seed, init in enumerate(("pca", "random", "random")[: 1 if bench.quick else 3]):
            found = bench.fit("ours", judge.X, seed, solver="lbfgs", init=init, n_components=d, **GAUSSIAN)
            runs.append({"seconds": found["seconds"], **judge.measures(found["Z"], "gaussian")})
        best = {key: [value] for key, value in min(runs, key=lambda run: run["kl"]).items()}
        best["seconds"] = [sum(run["seconds"] for run in runs)]
        rows.append({"data": "digits", "n": len(judge.X), "d": d, "method": "L-BFGS, best of three", **best})
    return rows


def n70000(bench):
    """70,000 augmented digits, beside openTSNE: everything, and what comes after the affinities."""
    of_graph = ("SNEEmbedding of a graph", "graph", STUDENT)
    ours, graph, other = compare(bench, "augmented digits", 70_000, (OURS, of_graph, OPEN))
    # a fit of a graph begins with the affinities, which openTSNE has apart
    ours["optimisation"] = np.subtract(graph["fit"], graph["affinities"]).tolist()
    if "fit" in other:
        other["optimisation"] = other["fit"]
    return [ours, other]


def scaling(bench):
    """The cost in n, given the graph of neighbours."""
    rows = []
    for n in (20_000, 40_000, 80_000, 160_000)[: 2 if bench.quick else None]:
        row = {"n": bench.size(n)}
        for seed in bench.seeds_of(n):
            X, _ = data("augmented digits", row["n"], seed)
            found = bench.fit("graph", X, seed, **STUDENT)
            found["t5"] = trustworthiness(X, found.pop("Z"))
            for key in ("search", "fit", "t5", "peak"):
                row.setdefault(key, []).append(found[key])
            bench.say(f"scaling, {row['n']} points, seed {seed}: {found['fit']:.1f} s")
        rows.append(row)
    return rows


def million(bench):
    """A million points in three dimensions, from a graph of 15 neighbours at perplexity 5; once."""
    X, y = rolls_and_knots(400 if bench.quick else 1_000_000)
    how = {"search": "kd_tree", "n_neighbors": 15, "perplexity": 5.0, "verbose": int(not bench.quick)}
    found = bench.fit("graph", X, 0, start="spectral", **how, **STUDENT)
    Z = found.pop("Z")
    bench.say(f"{len(X)} points: {found['fit']:.0f} s")
    if bench.images:
        draw_million(bench.images / "sne_million.png", Z, y)
    return [{"n": len(X), **found, "t5": trustworthiness(X, Z)}]


def shapes(bench):
    """A swiss roll, clusters far apart and clusters of uneven sizes, 4,000 points."""
    names = ("swiss roll", "ten far clusters", "six uneven clusters")
    names = names[:1] if bench.quick else names
    # seeds that no default was chosen on
    return [row for name in names for row in compare(bench, name, 4000, (OURS, OLD, SKLEARN), first_seed=10)]


def robustness(bench):
    """Twenty runs of each kind of small change: how far the map moves, the largest KL, the farthest point."""
    rows = []
    for name, n in (("digits", 1797), ("augmented digits", 5000)):
        judge = Judge(*data(name, bench.size(n), 0))
        start = begin_from("pca", judge.X, None, 2)
        plain = mapped(bench, judge.X, init=start)
        for kind, change in CHANGES.items():
            row = {"data": name, "n": len(judge.X), "kind": kind, "disparity": [], "kl": [], "farthest": []}
            for seed in range(2 if bench.quick else RUNS):
                Z, kept, its = change(bench, judge, start, seed)
                radius = np.sqrt(np.square(Z - Z.mean(axis=0)).sum(axis=1))
                row["disparity"].append(procrustes(plain[kept], Z)[2])
                row["kl"].append(its.kl(Z))
                row["farthest"].append(radius.max() / np.median(radius))
            rows.append(row)
            bench.say(f"{name}, {kind}: disparity {np.median(row['disparity']):.3f}")
    return rows


def mapped(bench, X, seed=0, **params):
    """The map of some data, in this process."""
    return bench.fit("ours", X, seed, fresh=False, **params, **STUDENT)["Z"]


# Each returns a map, the rows of the plain map that belong to it, and its judge.


def moved_start(bench, judge, start, seed):
    """A start that is moved by 1e-5 of its size."""
    noise = 1e-5 * start.std() * np.random.default_rng(seed).standard_normal(start.shape)
    return mapped(bench, judge.X, init=start + noise), slice(None), judge


def permuted(bench, judge, start, seed):
    """The rows in another order."""
    order = np.random.default_rng(seed).permutation(len(start))
    Z = np.empty(start.shape)
    Z[order] = mapped(bench, judge.X[order], init=start[order])
    return Z, slice(None), judge


def bootstrap(bench, judge, start, seed):
    """Rows drawn with replacement, their KL on a P of their own."""
    drawn = np.random.default_rng(seed).integers(len(start), size=len(start))
    X = judge.X[drawn]
    return mapped(bench, X, init=start[drawn]), drawn, Judge(X, judge.y[drawn])


def other_seed(bench, judge, start, seed):
    """The estimator's own start, in float32, with another seed."""
    return mapped(bench, judge.X.astype(np.float32), seed + 1), slice(None), judge


CHANGES = {
    "start moved by 1e-5": moved_start,
    "rows permuted": permuted,
    "bootstrap": bootstrap,
    "another seed, float32": other_seed,
}


def transform(bench):
    """New samples, beside copies of the nearest training point and openTSNE's transform."""
    rows = {}
    for name, n, share in (("digits", 1797, 0.3), ("augmented digits", 5000, 0.2)):
        for seed in bench.seeds:
            X, y = data(name, bench.size(n), seed)
            a, b, y_a, y_b = train_test_split(X, y, test_size=share, random_state=seed)
            placed = {}
            for label, method, params in (OURS, PLACED_IN_FIVE, OPEN):
                row = rows.setdefault((name, label), {"data": name, "n": len(a), "new": len(b), "method": label})
                reason = bench.missing(method, params)
                if reason:
                    row["skipped"] = reason
                else:
                    placed[label] = bench.fit(method, a, seed, new=b, **params)
            nearest = NearestNeighbors(n_neighbors=1).fit(a).kneighbors(b, return_distance=False)[:, 0]
            copied = placed[OURS[0]]["Z"]
            placed["a copy of the nearest point"] = {"Z": copied, "Z_new": copied[nearest]}
            for label, found in placed.items():
                row = rows.setdefault((name, label), {"data": name, "n": len(a), "new": len(b), "method": label})
                for key, value in measures_of_new(a, y_a, b, y_b, found).items():
                    row.setdefault(key, []).append(value)
            bench.say(f"transform, {name}, seed {seed}")
    return list(rows.values())


def measures_of_new(X, y, new, y_new, found):
    """Accuracy of the 10 nearest training points in the map, trustworthiness, and the largest radius."""
    Z, Z_new = found["Z"], found["Z_new"]
    centre = Z.mean(axis=0)
    radius, of_new = (np.sqrt(np.square(points - centre).sum(axis=1)).max() for points in (Z, Z_new))
    return {
        "accuracy": KNeighborsClassifier(10).fit(Z, y).score(Z_new, y_new),
        "t5": trustworthiness(X, Z, (new, Z_new)),
        "radius": of_new / radius,
        "seconds": found.get("seconds_new"),
    }


def search(bench):
    """The exact search for neighbours beside PyNNDescentTransformer's."""
    kinds = (("exact", "exact"), ("PyNNDescentTransformer", "pynndescent"))
    methods = [(label, "graph", {**STUDENT, "search": kind}) for label, kind in kinds]
    return compare(bench, "augmented digits", 20_000, methods)


PARTS = {
    part.__name__: part
    for part in (
        digits, n5000, n20000, dimensions, gaussian, n70000, scaling, million, shapes, robustness, transform, search
    )
}  # fmt: skip


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
    """
    with Bench(quick, images) as bench:
        return PARTS[name](bench)


tables = _sne_tables.tables
