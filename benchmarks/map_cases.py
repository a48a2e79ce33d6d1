"""Maps of odd data beside those of scikit-learn and openTSNE: right, refused, warned,
wrong in silence.

The KL divergences of a data set are of one P. The other packages get this P, so that
they minimise the same KL, and start from principal components, or from
`sklearn.manifold.spectral_embedding` where there are no features. Each of them runs
from two starts, which noise of 1 % tells apart. The worse map of each package counts,
and then the better package. A map is right if its KL is at most 2 % or .001 above
theirs, and if 99 % of the neighbours in P are among the nearest by
`sklearn.metrics.pairwise_distances`. A map that is not right and did not warn is wrong
in silence. Since t-SNE has several minima of about the same KL, and ours is one map
beside four of theirs, chance decides small differences. Where a map is wrong in
silence, the means over three draws of the data count (for a torus at perplexity 30,
ours are above theirs on one draw and below on the next). Data with a fault should warn,
or be refused; in the other groups an error, or a warning of a right map, is a false
alarm. The seeds of the data are those of the benchmark only.
"""

import importlib.util
import warnings
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.manifold import TSNE, spectral_embedding
from sklearn.metrics import pairwise_distances

from benchmarks._map_sets import CASES
from benchmarks._sne_panel import divergence
from benchmarks._tables import OUTCOMES, outcome_counts, table
from sk_stormc import SNEEmbedding
from sk_stormc.embedding.initialization import FEATURELESS, make_start

DURATION = "20 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "openTSNE")
SEEDS, DRAWS = (0, 1), 3
RIGHT, SMALL, FOUND = 0.02, 1e-3, 0.99
QUICK = 12  # a quick run has one of so many cases


def scikit_learn(P, start, seed, quick):
    """scikit-learn's map of some affinities."""
    model = TSNE(
        perplexity=1,
        init=start.astype(np.float32),
        random_state=seed,
        max_iter=250 if quick else 1000,
    )
    with patch("sklearn.manifold._t_sne._joint_probabilities_nn", lambda *_: P.copy()):
        return model.fit_transform(start)


def open_tsne(P, start, seed, quick):
    """openTSNE's map of some affinities."""
    import openTSNE
    from openTSNE.affinity import PrecomputedAffinities

    model = openTSNE.TSNE(n_jobs=1, random_state=seed, n_iter=50 if quick else 500)
    return np.asarray(
        model.fit(affinities=PrecomputedAffinities(P), initialization=start)
    )


FITS = {"sklearn": scikit_learn, "openTSNE": open_tsne}


def worse_map(method, case, X, P, quick):
    """KL of the worse of two maps of another package, infinite if it has none."""
    init = (
        spectral_embedding(P, n_components=2, random_state=0)
        if case.metric in FEATURELESS
        else "pca"
    )
    found = []
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        start = make_start(init, X, P, 2, "student-t", rng)
        try:
            Z = FITS[method](
                P, start + 1e-6 * rng.standard_normal(start.shape), seed, quick
            )
        except Exception as error:  # whatever it raises for odd data
            print(f"{method}: {type(error).__name__}: {error}")
            return np.inf
        found.append(divergence(len(Z) * P, Z))
    return max(found)


def nearest(case, X, graph):
    """Share of the neighbours in a graph that are among the nearest, or as near; NaN
    without all distances."""
    if (
        case.metric == "affinities"
        or case.metric == "precomputed"
        and sparse.issparse(X)
    ):
        return np.nan
    # scikit-learn's Euclidean distances cancel far from zero
    D = pairwise_distances(
        X, metric="minkowski" if case.metric == "euclidean" else case.metric
    )
    np.fill_diagonal(D, np.inf)
    count = np.diff(graph.indptr)
    row = np.repeat(np.arange(len(D)), count)
    farthest = np.sort(D, axis=1)[np.arange(len(D)), count - 1] * (1 + 1e-6)
    return float(np.mean(D[row, graph.indices] <= farthest[row]))


def measure_case(case, quick):
    """What became of one case."""
    row = measure(case, quick)
    if row["outcome"] == "silent":
        rows = [row, *(measure(case, quick, draw) for draw in range(1, DRAWS))]
        row |= {
            key: np.mean([one[key] for one in rows])
            for key in ("kl", "theirs", "found")
        } | {"draws": DRAWS}
        row |= {"outcome": "right" if is_right(row) else "silent"}
    return row


def is_right(row):
    """Whether KL is close to that of the others, and the neighbours are the nearest."""
    most = max((1 + RIGHT) * row["theirs"], row["theirs"] + SMALL)
    return row["kl"] <= most and not row["found"] < FOUND


def measure(case, quick, draw=0):
    """What became of one draw of the data."""
    X = case.points(quick, draw)
    row = {
        "group": case.group,
        "data": case.data,
        "n": X.shape[0],
        "metric": case.metric,
    }
    row |= {"perplexity": case.perplexity, "outcome": "refused", "warned": 0}
    model = SNEEmbedding(perplexity=case.perplexity, metric=case.metric, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            Z = model.fit_transform(X)
        except ValueError as error:
            return row | {"said": str(error)}
    row |= {
        "warned": int(bool(caught)),
        "said": " ".join(str(warning.message) for warning in caught),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near, X = model._near, X if sparse.issparse(X) else np.asarray(X, float)
        P = near.affinities()
        P = sparse.csr_matrix((P + P.T) / (P + P.T).sum())
        # as scikit-learn takes them
        P.indices, P.indptr = (P.indices.astype(np.int32), P.indptr.astype(np.int32))
        row |= {"kl": divergence(len(Z) * P, Z), "found": nearest(case, X, near._graph)}
        there = [method for method in FITS if importlib.util.find_spec(method)]
        row |= {method: worse_map(method, case, X, P, quick) for method in there}
    row["theirs"] = min(row[method] for method in there)
    return row | {
        "outcome": "right" if is_right(row) else "warned" if caught else "silent"
    }


def run(quick, data):
    """Measure all cases."""
    if not quick and importlib.util.find_spec("openTSNE") is None:
        raise ImportError(
            "the maps are compared with those of openTSNE: pip install "
            "'sk_stormc[benchmarks]'"
        )
    results = []
    for case in CASES[::QUICK] if quick else CASES:
        results.append(measure_case(case, quick))
        print(results[-1], flush=True)
    return {"settings": {"cases": len(results)}, "results": results}


# tables

OF_CASES = {
    "data": "{data}", "points": "{n:,}", "metric": "{metric}",
    "perplexity": "{perplexity:g}",
    "KL": lambda row: f"{row['kl']:.4f}" if "kl" in row else "",
    "KL of the others": lambda row: f"{row['theirs']:.4f}" if "kl" in row else "",
    "outcome": "{outcome}",
    "warning or error": lambda row: f"{row['said'][:80]} ..." if row["said"] else "",
}  # fmt: skip


def tables(stored):
    """Counts by group, and the cases that are not right without a warning."""
    rows = stored["results"]
    names = dict.fromkeys(row["group"] for row in rows)
    groups = [(name, [row for row in rows if row["group"] == name]) for name in names]
    return {
        "groups": table(
            [outcome_counts(*of) for of in [*groups, ("all", rows)]],
            {"data": "{name}", **OUTCOMES},
        ),
        "said": table(
            [row for row in rows if row["outcome"] != "right" or row["warned"]],
            OF_CASES,
        ),
    }
