"""Maps of odd data, each beside those of scikit-learn's TSNE and openTSNE: right, refused, warned, wrong in silence.

KL is on one P for each data set, with exact normalisers. The other packages get the neighbours of this P instead of
the data, so that they minimise the same KL, whatever data and metrics they support and whichever of equally far
neighbours they would choose. They start from principal components where the data have some. Each of them runs with
two seeds (scikit-learn's second start is noise), of which the worse counts, and then the better package.

A map is right if its KL is at most 2 % or 1e-3 above theirs, and if P has at least 99 % of the nearest neighbours. The
phrases of the warnings and errors that are true of some data are listed with these. An error, or a warning of a right
map, is a false alarm unless it has such a phrase. A map that is not right and did not warn is wrong in silence. The
seeds are those of the benchmark only.

Where the variable BENCHMARK_MAPS names a folder, the maps of the other packages are kept there.
"""

import importlib.util
import warnings
from types import SimpleNamespace

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from benchmarks._map_sets import CASES, distances
from benchmarks._sne_bench import PACKAGES as PEERS
from benchmarks._sne_bench import Bench, read
from benchmarks._sne_panel import divergence
from benchmarks._tables import table
from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_search
from sk_stormc.embedding.affinities import graph_affinities
from sk_stormc.embedding.given import given_affinities
from sk_stormc.embedding.initialization import make_start
from sk_stormc.embedding.neighbors.graph import neighbor_graph
from sk_stormc.utils.atomic import atomically

DURATION = "1 hour"
NEEDS_DATA = False
PACKAGES = tuple(PEERS.values())
SEEDS = (0, 1)
RIGHT, CLOSE, SMALL = 0.02, 0.005, 1e-3
FOUND = 0.99  # of the nearest neighbours
K = 10  # neighbours of recall
QUICK = 12  # a quick run has one of so many cases, and the other packages on the first of these
OUTCOMES = ("right", "rightly warned", "rightly refused", "warned", "false alarm", "wrong in silence", "alone")


def target(case, X):
    """What all maps of a case are to show: affinities, of which distances at which perplexity, and from which start."""
    if case.metric == "affinities":
        P = given_affinities(X, joint=True)
        return SimpleNamespace(P=P * P.shape[0], graph=None, start=None)
    X = X if sparse.issparse(X) else np.asarray(X)
    search, perplexity = perplexity_search(X, case.perplexity, metric=case.metric)
    graph = neighbor_graph(search)
    P, start = graph_affinities(graph, perplexity), None
    if case.metric != "precomputed":
        start = make_start("pca", X.astype(float), P, 2, "student-t", np.random.RandomState(0))
    return SimpleNamespace(P=P, graph=graph, perplexity=perplexity, start=start)


def scikit_learn(of, seed, quick):
    """scikit-learn's map; with the second seed its start is noise."""
    from sklearn.manifold import TSNE

    own = np.arange(of.P.shape[0])
    rows, columns = np.repeat(own, np.diff(of.graph.indptr)), of.graph.indices
    entries = np.append(of.graph.data, np.zeros(len(own))), (np.append(rows, own), np.append(columns, own))
    init = "random" if seed or of.start is None else of.start.astype(np.float32)
    how = {"perplexity": of.perplexity, "metric": "precomputed", "max_iter": 250 if quick else 1000}
    return TSNE(init=init, random_state=seed, **how).fit_transform(sparse.csr_array(entries, shape=of.P.shape))


def open_tsne(of, seed, quick):
    """openTSNE's map."""
    from openTSNE import TSNE, initialization
    from openTSNE.affinity import PrecomputedAffinities

    P = PrecomputedAffinities(sparse.csr_matrix(of.P + of.P.T))
    start = None if of.start is None else initialization.jitter(of.start, random_state=seed)
    model = TSNE(n_jobs=1, random_state=seed, initialization="spectral", n_iter=50 if quick else 500)
    return np.asarray(model.fit(affinities=P, initialization=start))


FITS = {"sklearn": scikit_learn, "openTSNE": open_tsne}


def peer_map(bench, method, case, of, seed):
    """The map of another package, which may have been kept."""
    path = bench.place(method, f"odd {case.name}", case.n, seed)
    sample = of.P.data[:: max(1, of.P.nnz // 200)]
    if path and path.exists():
        found = read(path)
        if np.shape(found["of"]) == sample.shape and np.allclose(found["of"], sample, rtol=1e-3, atol=1e-9):
            return found["Z"]
    Z = FITS[method](of, seed, bench.quick)
    if path:
        with atomically(path) as file:
            np.savez(file, Z=Z, of=sample)
    return Z


def worse_of_two(bench, method, case, of, D):
    """KL and recall of the worse map of another package, and the KL of the better; or why it has none."""
    found = []
    for seed in SEEDS:
        try:
            Z = peer_map(bench, method, case, of, seed)
            found.append((divergence(of.P, Z), recall(D, Z)))
        except Exception as error:  # whatever it raises for odd data
            return {"failed": f"{type(error).__name__}: {error}"}
    (better, _), (kl, of_worse) = sorted(found)
    return {"kl": kl, "recall": of_worse, "better": better}


def ours(case, X):
    """Our map, or None where it is refused, and the texts of the warnings or of the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            Z = SNEEmbedding(perplexity=case.perplexity, metric=case.metric, random_state=0).fit_transform(X)
        except ValueError as error:
            return None, [str(error)]
    return Z, [str(warning.message) for warning in caught]


def recall(D, Z):
    """Share of the ten nearest points in a map that are among the ten nearest in the data, or as near as these."""
    return as_near(D, NearestNeighbors(n_neighbors=min(K, len(Z) - 1)).fit(Z).kneighbors_graph())


def as_near(D, graph):
    """Share of the k points of each point that are among its k nearest in the data, or as near; NaN without data."""
    if D is None:
        return np.nan
    count, D = np.diff(graph.indptr), D + np.where(np.eye(len(D)), np.inf, 0)
    row = np.repeat(np.arange(len(D)), count)
    farthest = np.sort(D, axis=1)[np.arange(len(D)), count - 1] * (1 + 1e-6)
    return float(np.mean(D[row, graph.indices] <= farthest[row]))


def measure_case(case, bench, peers):
    """What became of one case."""
    X = case.points(bench.quick)
    Z, said = ours(case, X)
    row = {"group": case.group, "data": case.data, "n": X.shape[0], "perplexity": case.perplexity, "said": said}
    if Z is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            of, D = target(case, X), distances(X, case.metric)
            row |= {"kl": divergence(of.P, Z), "recall": recall(D, Z), "found": as_near(D, of.graph)}
            row["peers"] = {method: worse_of_two(bench, method, case, of, D) for method in peers}
    return row | outcome(case, row)


def outcome(case, row):
    """What became of a map, in a word of `OUTCOMES`, and by how much its KL is above that of the better package."""
    true = all(any(phrase in text for phrase in case.true) for text in row["said"])
    if "kl" not in row:
        return {"outcome": "rightly refused" if true else "false alarm"}
    others = [peer for peer in row["peers"].values() if "kl" in peer]
    if not others:
        return {"outcome": "alone"}
    best = min(others, key=lambda peer: peer["kl"])
    above = {"above": row["kl"] - best["kl"], "best": best["kl"], "best_recall": best["recall"]}
    right = within(above, RIGHT) and not row["found"] < FOUND
    if not row["said"]:
        return above | {"outcome": "right" if right else "wrong in silence"}
    return above | {"outcome": "warned" if not right else "rightly warned" if true else "false alarm"}


def within(row, part):
    """Whether KL is at most so much above that of the better package."""
    return row["above"] <= max(part * row["best"], SMALL)


def run(quick, data):
    """Measure all cases."""
    there = [method for method in PEERS if importlib.util.find_spec(method)]
    if not (quick or len(there) == len(PEERS)):
        raise ImportError("openTSNE is what maps are compared with: pip install 'sk_stormc[benchmarks]'")
    bench, results = Bench(quick), []
    for number, case in enumerate(CASES[::QUICK] if quick else CASES):
        results.append(measure_case(case, bench, [] if quick and number else there))
        print(case.name, {key: results[-1].get(key) for key in ("outcome", "kl", "best", "said")}, flush=True)
    return {"settings": {"seeds": SEEDS, "cases": len(results)}, "results": results}


def counts(name, rows):
    """How many of some cases are right, and so on."""
    compared = [row for row in rows if "best" in row]
    return {
        "name": name,
        "cases": len(rows),
        "close": sum(within(row, CLOSE) for row in compared),
        "lower": sum(row["above"] < -RIGHT * row["best"] for row in compared),
        **{word: sum(row["outcome"] == word for row in rows) for word in OUTCOMES},
    }


COLUMNS = {
    "data": "{name}", "cases": "{cases}", "right": "{right}", "right, with a true warning": "{rightly warned}",
    "refused with a true error": "{rightly refused}", "not right, warned": "{warned}", "false alarm": "{false alarm}",
    "wrong in silence": "{wrong in silence}", "KL at most .5 % above the better of the others": "{close}",
    "KL more than 2 % below": "{lower}",
}  # fmt: skip
OF_CASES = {
    "data": "{data}", "points": "{n:,}", "perplexity": "{perplexity:g}", "KL": lambda row: number(row, "kl"),
    "of the better of the others": lambda row: number(row, "best"), "recall at 10": lambda row: number(row, "recall"),
    "of theirs": lambda row: number(row, "best_recall"), "outcome": "{outcome}",
    "warning or error": lambda row: "; ".join(f"{text[:60]}..." for text in row["said"]),
}  # fmt: skip


def number(row, key):
    """A number with four digits after the point, or nothing."""
    return "" if row.get(key) is None else f"{row[key]:.4f}"


def tables(stored):
    """Counts by the kind of data, and the cases that are not simply right."""
    rows = stored["results"]
    groups = [*dict.fromkeys(row["group"] for row in rows), "all"]
    of_groups = [counts(group, [row for row in rows if group in (row["group"], "all")]) for group in groups]
    return {
        "counts": table(of_groups, COLUMNS),
        "cases": table([row for row in rows if row["outcome"] != "right"], OF_CASES),
    }
