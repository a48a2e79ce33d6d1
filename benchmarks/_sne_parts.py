"""What `maps` measures beside its panel: time, other dimensions and kernels, new
samples, what each mechanism does."""

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from benchmarks._sne_bench import add
from benchmarks._sne_fits import ABLATIONS
from benchmarks._sne_kinds import KINDS
from benchmarks._sne_panel import panel, trustworthiness
from sk_stormc.affinities import perplexity_affinities

METHODS = (
    ("SNEEmbedding", "ours"),
    ("scikit-learn TSNE", "sklearn"),
    ("openTSNE", "openTSNE"),
)
SEEDS = (40, 41, 42)  # of which nothing was chosen on
SHORT = 2000  # points, up to which a time is the median of three runs
MOST = 20_000  # points of scikit-learn's maps that are timed
STUDENT = {"kernel": "student-t"}
DIMENSIONS = [  # kind, points, dimensions, scikit-learn's method
    ("digits", 1797, 3, "barnes_hut"),
    ("digits", 1797, 5, "exact"),
    ("digits", 1797, 10, None),
    ("augmented digits", 5000, 3, "barnes_hut"),
    ("augmented digits", 5000, 5, None),
    ("augmented digits", 20_000, 3, None),
    ("augmented digits", 20_000, 5, None),
]
ABLATED = [("blobs", 1000), ("digits", 1797), ("swiss roll", 4000), ("texts", 5000)]
ABLATED += [("counts", 20_000), ("augmented digits", 20_000)]


def seeds_of(bench):
    """The seeds; one in a quick run."""
    return SEEDS[:1] if bench.quick else SEEDS


def times(bench, n):
    """Augmented digits by all methods in turn, three times where that is short; nothing
    is taken from kept maps."""
    X, _ = KINDS["augmented digits" if n > 1797 else "digits"](bench.size(n), SEEDS[0])
    rows = {}
    for _ in range(3 if n <= SHORT and not bench.quick else 1):
        for label, method in METHODS:
            if method == "sklearn" and n > MOST:
                continue
            row = bench.row(rows, label, method, data="digits", n=len(X))
            if row:
                found = bench.fit(
                    method, X, SEEDS[0], **({"kl": True} if method == "ours" else {})
                )
                add(row, found, "seconds", "search", "of_kl", "peak")
                print(f"{n} points, {label}: {found['seconds']:.1f} s", flush=True)
    return list(rows.values())


def dimensions(bench):
    """More than two dimensions, beside scikit-learn's TSNE, by its exact method on one
    seed only."""
    rows = {}
    for kind, n, d, theirs in DIMENSIONS[:1] if bench.quick else DIMENSIONS:
        for seed in seeds_of(bench) if n < MOST else SEEDS[:1]:
            X, y = KINDS[kind](bench.size(n), seed)
            P, methods = (
                perplexity_affinities(X, 30.0),
                [("SNEEmbedding", "ours", STUDENT)],
            )
            if theirs == "barnes_hut" or (theirs == "exact" and seed == SEEDS[0]):
                methods.append(("scikit-learn TSNE", "sklearn", {"algorithm": theirs}))
            for label, method, params in methods:
                row = bench.row(rows, label, method, data=kind, n=len(X), d=d)
                add(
                    row,
                    panel(
                        X,
                        y,
                        P,
                        bench.kept_fit(method, kind, X, seed, n_components=d, **params)[
                            "Z"
                        ],
                    ),
                )
            print(f"{kind}, {n} points, d = {d}, seed {seed}", flush=True)
    return list(rows.values())


def gaussian(bench):
    """The Gaussian kernel on the digits, beside the best of three runs of L-BFGS."""
    X, y = KINDS["digits"](bench.size(1797), 0)
    P, rows = perplexity_affinities(X, 30.0), []

    def measured(d, seed, **params):
        found = bench.fit("ours", X, seed, kernel="gaussian", n_components=d, **params)
        return {"seconds": found["seconds"], **panel(X, y, P, found["Z"], "gaussian")}

    for d in (2,) if bench.quick else (2, 3, 5, 10):
        about = {"data": "digits", "n": len(X), "d": d}
        default, best = (
            {**about, "method": "SNEEmbedding"},
            {**about, "method": "L-BFGS, best of three"},
        )
        for seed in seeds_of(bench):
            add(default, measured(d, seed))
        inits = ("pca", "random", "random")[: 1 if bench.quick else 3]
        runs = [
            measured(d, seed, solver="lbfgs", init=init)
            for seed, init in enumerate(inits)
        ]
        add(
            best,
            min(runs, key=lambda run: run["kl"])
            | {"seconds": sum(run["seconds"] for run in runs)},
        )
        rows += [default, best]
        print(f"gaussian, d = {d}", flush=True)
    return rows


def transform(bench):
    """New samples, beside copies of the nearest training point and openTSNE's
    transform."""
    methods = (
        ("SNEEmbedding", "ours", STUDENT),
        (
            "SNEEmbedding, Gaussian, d = 5",
            "ours",
            {"kernel": "gaussian", "n_components": 5},
        ),
        ("openTSNE", "openTSNE", {}),
    )
    rows = {}
    for kind, n, share in (("digits", 1797, 0.3), ("augmented digits", 5000, 0.2)):
        for seed in seeds_of(bench):
            X, y = KINDS[kind](bench.size(n), seed)
            a, b, *_ = split = train_test_split(
                X, y, test_size=share, random_state=seed
            )
            about = {"data": kind, "n": len(a), "new": len(b)}
            for label, method, params in methods:
                row = bench.row(rows, label, method, **about)
                if row:
                    found = bench.fit(method, a, seed, new=b, **params)
                    add(
                        row,
                        measures_of_new(*split, found["Z"], found["Z_new"])
                        | {"seconds": found["seconds_new"]},
                    )
                    if label == "SNEEmbedding":
                        Z = found["Z"]
            nearest = (
                NearestNeighbors(n_neighbors=1)
                .fit(a)
                .kneighbors(b, return_distance=False)[:, 0]
            )
            copied = bench.row(rows, "a copy of the nearest point", "ours", **about)
            add(copied, measures_of_new(*split, Z, Z[nearest]))
            print(f"transform, {kind}, seed {seed}", flush=True)
    return list(rows.values())


def measures_of_new(X, new, y, y_new, Z, Z_new):
    """Accuracy of the 10 nearest training points in the map, trustworthiness, and the
    largest radius."""
    centre = Z.mean(axis=0)
    radius, of_new = (
        np.sqrt(np.square(points - centre).sum(axis=1)).max() for points in (Z, Z_new)
    )
    return {
        "accuracy": KNeighborsClassifier(10).fit(Z, y).score(Z_new, y_new),
        "t5": trustworthiness(X, Z, (new, Z_new)),
        "radius": of_new / radius,
    }


def ablations(bench, cases):
    """Maps without one mechanism each. Where the map is the same to the bit, the
    mechanism does not act."""
    rows = []
    for kind, n in cases[:1] if bench.quick else cases:
        X, y = KINDS[kind](bench.size(n), SEEDS[0])
        P, as_built = perplexity_affinities(X, 30.0), None
        for without in ABLATIONS:
            found = bench.fit("ablated", X, SEEDS[0], without=without)
            if as_built is not None and np.array_equal(found["Z"], as_built):
                continue
            as_built = found["Z"] if as_built is None else as_built
            row = {"data": kind, "n": len(X), "without": without}
            add(row, {"seconds": found["seconds"], **panel(X, y, P, found["Z"])})
            rows.append(row)
            print(f"{kind}, {n} points, without {without}", flush=True)
    return rows


FURTHER = {
    **{
        f"times_{n}": lambda bench, n=n: times(bench, n)
        for n in (1797, 5000, 20_000, 70_000)
    },
    "ablations": lambda bench: ablations(bench, ABLATED),
    "ablations_70000": lambda bench: ablations(bench, [("augmented digits", 70_000)]),
    **{part.__name__: part for part in (dimensions, gaussian, transform)},
}
