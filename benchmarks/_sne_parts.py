"""What `maps` measures beside its panel: time, other dimensions and kernels, robustness, new samples, the search."""

import numpy as np
from scipy.spatial import procrustes
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from benchmarks._sne_fits import ABLATIONS, begin_from
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import panel
from benchmarks._sne_quality import Judge, trustworthiness
from sk_stormc.affinities import perplexity_affinities

METHODS = (("SNEEmbedding", "ours"), ("scikit-learn TSNE", "sklearn"), ("openTSNE", "openTSNE"))
SEEDS = (40, 41, 42)  # of which nothing was chosen on
SHORT = 2000  # points, up to which a time is the median of three runs
MOST = 20_000  # points of scikit-learn's maps that are timed
RUNS, FEW = 20, 5  # of each kind of small change, and of other packages
STUDENT = {"kernel": "student-t"}


def seeds_of(bench):
    """The seeds; one in a quick run."""
    return SEEDS[:1] if bench.quick else SEEDS


def add(row, found, *keys):
    """Put what was found into the lists of a row."""
    for key in keys or found:
        if key in found:
            row.setdefault(key, []).append(found[key])


def times(bench, n):
    """Augmented digits by all methods in turn, three times where that is short; nothing is taken from kept maps."""
    X, _ = KINDS["augmented digits" if n > 1797 else "digits"](bench.size(n), SEEDS[0])
    rows = {}
    for _ in range(3 if n <= SHORT and not bench.quick else 1):
        for label, method in METHODS:
            if method == "sklearn" and n > MOST:
                continue
            row = rows.setdefault(label, {"data": "digits", "n": len(X), "method": label})
            reason = bench.missing(method)
            if reason:
                row["skipped"] = reason
                continue
            found = bench.fit("searched" if method == "ours" else method, X, SEEDS[0])
            add(row, found, "seconds", "search", "of_kl", "peak")
            bench.say(f"{n} points, {label}: {found['seconds']:.1f} s")
    return list(rows.values())


def dimensions(bench):
    """More than two dimensions, beside scikit-learn's TSNE: that of Barnes and Hut in three, its exact one in five."""
    cases = [("digits", 1797, 3), ("digits", 1797, 5), ("digits", 1797, 10), ("augmented digits", 5000, 3)]
    cases += [("augmented digits", 5000, 5), ("augmented digits", 20_000, 3), ("augmented digits", 20_000, 5)]
    theirs = {("digits", 3): "barnes_hut", ("digits", 5): "exact", ("augmented digits", 3): "barnes_hut"}
    rows = {}
    for kind, n, d in cases[:1] if bench.quick else cases:
        for seed in seeds_of(bench) if n < MOST else SEEDS[:1]:
            judge = Judge(*KINDS[kind](bench.size(n), seed))
            methods = [("SNEEmbedding", "ours", STUDENT)]
            exact = theirs.get((kind, d)) == "exact"
            if (kind, d) in theirs and n < MOST and not (exact and seed > SEEDS[0]):
                methods.append(("scikit-learn TSNE", "sklearn", {"algorithm": theirs[kind, d]}))
            for label, method, params in methods:
                row = rows.setdefault((kind, n, d, label), {"data": kind, "n": len(judge.X), "d": d, "method": label})
                found = bench.kept_fit(method, kind, judge.X, seed, n_components=d, **params)
                add(row, judge.measures(found["Z"]))
            bench.say(f"{kind}, {n} points, d = {d}, seed {seed}")
    return list(rows.values())


def gaussian(bench):
    """The Gaussian kernel on the digits, beside the best of three runs of L-BFGS."""
    rows, kernel = [], {"kernel": "gaussian"}
    judge = Judge(*KINDS["digits"](bench.size(1797), 0))
    for d in (2,) if bench.quick else (2, 3, 5, 10):
        row = {"data": "digits", "n": len(judge.X), "d": d, "method": "SNEEmbedding"}
        for seed in seeds_of(bench):
            found = bench.fit("ours", judge.X, seed, n_components=d, **kernel)
            add(row, {"seconds": found["seconds"], **judge.measures(found["Z"], "gaussian")})
        runs = []
        for seed, init in enumerate(("pca", "random", "random")[: 1 if bench.quick else 3]):
            found = bench.fit("ours", judge.X, seed, solver="lbfgs", init=init, n_components=d, **kernel)
            runs.append({"seconds": found["seconds"], **judge.measures(found["Z"], "gaussian")})
        best = {key: [value] for key, value in min(runs, key=lambda run: run["kl"]).items()}
        best["seconds"] = [sum(run["seconds"] for run in runs)]
        rows += [row, {**row, "method": "L-BFGS, best of three", **best}]
        bench.say(f"gaussian, d = {d}")
    return rows


def robustness(bench):
    """Runs of each kind of small change: how far the map moves, the largest KL, the farthest point."""
    rows = []
    for kind, n in (("digits", 1797), ("augmented digits", 5000)):
        judge = Judge(*KINDS[kind](bench.size(n), SEEDS[0]))
        start = begin_from("pca", judge.X, None, 2)
        plain = mapped(bench, judge.X, init=start)
        for change, made in CHANGES.items():
            runs = (made(bench, judge, start, seed) for seed in range(2 if bench.quick else RUNS))
            rows.append(moved(bench, kind, change, plain, runs))
        for label, method in METHODS:
            if method != "ours" and not bench.missing(method):
                plain_theirs = bench.fit(method, judge.X, fresh=False)["Z"]
                runs = (bootstrap(bench, judge, None, seed, method) for seed in range(1 if bench.quick else FEW))
                rows.append(moved(bench, kind, f"bootstrap, {label}", plain_theirs, runs))
    return rows


def moved(bench, kind, change, plain, runs):
    """A row: how far the maps of some runs are from the plain one."""
    row = {"data": kind, "n": len(plain), "kind": change, "disparity": [], "kl": [], "farthest": []}
    for Z, rows_of_plain, its in runs:
        radius = np.sqrt(np.square(Z - Z.mean(axis=0)).sum(axis=1))
        row["disparity"].append(procrustes(plain[rows_of_plain], Z)[2])
        row["kl"].append(its.kl(Z))
        row["farthest"].append(radius.max() / np.median(radius))
    bench.say(f"{kind}, {change}: disparity {np.median(row['disparity']):.3f}")
    return row


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


def bootstrap(bench, judge, start, seed, method="ours"):
    """Rows drawn with replacement, their KL on a P of their own. Other packages have their own start."""
    n = len(judge.X)
    drawn = np.random.default_rng(seed).integers(n, size=n)
    X = judge.X[drawn]
    Z = mapped(bench, X, init=start[drawn]) if method == "ours" else bench.fit(method, X, fresh=False)["Z"]
    return Z, drawn, Judge(X, judge.y[drawn])


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
    in_five = {"kernel": "gaussian", "n_components": 5}
    methods = (
        ("SNEEmbedding", "ours", STUDENT),
        ("SNEEmbedding, Gaussian, d = 5", "ours", in_five),
        ("openTSNE", "openTSNE", {}),
    )
    rows = {}
    for kind, n, share in (("digits", 1797, 0.3), ("augmented digits", 5000, 0.2)):
        for seed in seeds_of(bench):
            X, y = KINDS[kind](bench.size(n), seed)
            a, b, y_a, y_b = train_test_split(X, y, test_size=share, random_state=seed)
            placed = {}
            for label, method, params in methods:
                row = rows.setdefault((kind, label), {"data": kind, "n": len(a), "new": len(b), "method": label})
                reason = bench.missing(method)
                if reason:
                    row["skipped"] = reason
                else:
                    placed[label] = bench.fit(method, a, seed, new=b, **params)
            nearest = NearestNeighbors(n_neighbors=1).fit(a).kneighbors(b, return_distance=False)[:, 0]
            copied = placed["SNEEmbedding"]["Z"]
            placed["a copy of the nearest point"] = {"Z": copied, "Z_new": copied[nearest]}
            for label, found in placed.items():
                row = rows.setdefault((kind, label), {"data": kind, "n": len(a), "new": len(b), "method": label})
                add(row, measures_of_new(a, y_a, b, y_b, found))
            bench.say(f"transform, {kind}, seed {seed}")
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
    """Maps from exact and from approximate neighbours."""
    judge = Judge(*KINDS["augmented digits"](bench.size(20_000), SEEDS[0]))
    rows = []
    for which in ("exact", "approximate"):
        row = {"data": "augmented digits", "n": len(judge.X), "method": f'neighbors="{which}"'}
        rows.append(row)
        found = bench.fit("searched", judge.X, SEEDS[0], neighbors=which)
        add(row, {**found, **judge.measures(found["Z"])}, "search", "seconds", "recall", "kl", "t5", "accuracy")
        bench.say(f"{which}: {found['search']:.1f} s")
    return rows


def ablations(bench, cases):
    """Maps without one mechanism each. Where the map is the same to the bit, the mechanism does not act."""
    rows = []
    for kind, n in cases[:1] if bench.quick else cases:
        X, y = KINDS[kind](bench.size(n), SEEDS[0])
        P, as_built = perplexity_affinities(X, 30.0), None
        for without in ABLATIONS:
            found = bench.fit("ablated", X, SEEDS[0], without=without)
            row = {"data": kind, "n": len(X), "without": without, "seconds": [found["seconds"]]}
            if as_built is None:
                as_built = found["Z"]
            elif np.array_equal(as_built, found["Z"]):
                continue
            add(row, panel(X, y, P, found["Z"]))
            rows.append(row)
            bench.say(f"{kind}, {n} points, without {without}")
    return rows


ABLATED = [("blobs", 1000), ("digits", 1797), ("swiss roll", 4000), ("texts", 5000)]
ABLATED += [("counts", 20_000), ("augmented digits", 20_000)]

FURTHER = {
    **{f"times_{n}": lambda bench, n=n: times(bench, n) for n in (1797, 5000, 20_000, 70_000)},
    "ablations": lambda bench: ablations(bench, ABLATED),
    "ablations_70000": lambda bench: ablations(bench, [("augmented digits", 70_000)]),
    **{part.__name__: part for part in (dimensions, gaussian, robustness, transform, search)},
}
