"""The fits that the benchmarks of maps measure, and one in a process of its own:
`python -P _sne_fits.py FOLDER`.

The folder holds job.json and X.npy, and new.npy where new samples are to be placed. The
file stands alone, with nothing of `benchmarks`, so that the process loads what its fit
needs and no more.
"""

import json
import sys
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np


def timed(function, *args, **params):
    """What it returns, and its CPU seconds."""
    began = time.process_time()
    value = function(*args, **params)
    return value, time.process_time() - began


def embedding(X, seed, new=None, path=None, kl=False, **params):
    """SNEEmbedding of the data, or of a file that is mapped into memory; its search for
    neighbours apart."""
    from sk_stormc import SNEEmbedding
    from sk_stormc.embedding import neighborhoods

    search, of_search = neighborhoods.neighbor_graph, []

    def watched(*args):
        graph, seconds = timed(search, *args)
        of_search.append(seconds)
        return graph

    X, began = np.load(path, mmap_mode="r") if path else X, time.perf_counter()
    with patch.object(neighborhoods, "neighbor_graph", watched):
        model, seconds = timed(SNEEmbedding(random_state=seed, **params).fit, X)
    found = {
        "Z": model.embedding_,
        "seconds": seconds,
        "wall": time.perf_counter() - began,
        "search": of_search[0],
    }
    found |= {"recall": model.neighbor_recall_, "n_iter": model.n_iter_}
    if kl:
        found["kl"], found["of_kl"] = timed(getattr, model, "kl_divergence_")
    if new is not None:
        found["Z_new"], found["seconds_new"] = timed(model.transform, new)
    return found


def rescaled_at_once(problem, state):
    """As `descent._at_next_stage`, without a second early stage."""
    from sk_stormc.embedding import descent

    (stage, *later), x = state.stages, state.x
    if stage.early and problem.n_components <= 2:
        values = dict(descent._widths(problem, x))
        widest = max(values, default=1.0)
        if widest > 1 and 2 * values[widest] < values[1.0]:
            x = descent._scaled(x, descent.RESCALING * widest)
    known = {name: getattr(state, name) for name in ("records", "recorded", "seen")}
    return descent.State(
        x, tuple(later), n_before=state.n_iter, ifo_before=state.ifo, **known
    )


def fewer_affinities(near):
    """As `Neighborhoods.affinities`, to the nearest 2 perplexity + 1 neighbours."""
    from sk_stormc.embedding.affinities import graph_affinities
    from sk_stormc.embedding.neighbors.graph import first_of_rows

    return graph_affinities(
        first_of_rows(near._graph, int(2 * near.perplexity) + 1), near.perplexity
    )


ABLATIONS = {  # what is taken out: module, name and value
    "nothing": None,
    "neighbours after 2 perplexity + 1": (
        "neighborhoods",
        "Neighborhoods.affinities",
        fewer_affinities,
    ),
    "floor for components": ("problem", "COMPONENT_FLOOR", 0.0),
    "coarse level of the preconditioner": (
        "preconditioner",
        "Aggregates.solver",
        lambda self, c, mu: np.zeros_like,
    ),
    "sampling of the preconditioner's edges": (
        "preconditioner",
        "EDGES_PER_POINT",
        2**20,
    ),
    "early exaggeration": (
        "estimator",
        "EARLY_EXAGGERATION",
        {"gaussian": 1.0, "student-t": 1.0},
    ),
    "rescaling": ("descent", "_widths", lambda problem, x: ()),
    "second early stage before rescaling": (
        "descent",
        "_at_next_stage",
        rescaled_at_once,
    ),
}


def ablated(X, seed, without, **params):
    """SNEEmbedding without one of its mechanisms, by its name in `ABLATIONS`."""
    if ABLATIONS[without] is None:
        return embedding(X, seed, **params)
    module, name, value = ABLATIONS[without]
    with patch(f"sk_stormc.embedding.{module}.{name}", value):
        return embedding(X, seed, **params)


def varied(X, seed, hold=0.5, last=0.0, n_neighbors=None):
    """SNEEmbedding with another schedule of the learning rate, or with affinities to
    other numbers of neighbours.

    The learning rate is constant over the fraction ``hold`` of the iterations, and
    falls to ``last`` times itself.
    """
    from sklearn.decomposition import PCA

    from sk_stormc import SNEEmbedding
    from sk_stormc.affinities import perplexity_affinities

    def learning_rate(stage, rate, t):
        if stage.held is not None:
            return rate
        return rate * max(last, min(1.0, (1 - t / stage.n_iter) / (1 - hold)))

    params = {}
    if n_neighbors is not None:
        params = {
            "metric": "affinities",
            "init": PCA(2, random_state=seed).fit_transform(X),
        }
        X = perplexity_affinities(X, 30.0, n_neighbors=n_neighbors)
    with patch("sk_stormc.embedding.descent.learning_rate", learning_rate):
        model, seconds = timed(SNEEmbedding(random_state=seed, **params).fit, X)
    return {"Z": model.embedding_, "seconds": seconds}


def scikit_learn(X, seed, n_components=2, algorithm="barnes_hut"):
    """scikit-learn's TSNE."""
    from sklearn.manifold import TSNE

    Z, seconds = timed(
        TSNE(n_components, random_state=seed, method=algorithm).fit_transform, X
    )
    return {"Z": Z, "seconds": seconds}


def open_tsne(X, seed, new=None, checkpoints=(), **params):
    """openTSNE, the affinities apart. With checkpoints, the maps and the seconds after
    so many iterations."""
    from openTSNE import TSNE, initialization
    from openTSNE.affinity import PerplexityBasedNN

    few = np.random.default_rng(0).normal(size=(1200, 5))
    # loads what it needs
    TSNE(n_jobs=1, random_state=0, n_iter=5, early_exaggeration_iter=5).fit(few)
    P, of_affinities = timed(
        PerplexityBasedNN, X, perplexity=30, n_jobs=1, random_state=seed
    )
    start, of_start = timed(initialization.pca, X, random_state=seed)
    maps, seconds, began = [], [], time.process_time()

    def watch(iteration, error, Z):
        if iteration in checkpoints:
            maps.append(np.array(Z))
            seconds.append(of_affinities + of_start + time.process_time() - began)

    if checkpoints:
        params |= {
            "callbacks": [watch],
            "callbacks_every_iters": checkpoints[0],
            "n_iter": checkpoints[-1],
        }
    model = TSNE(n_jobs=1, random_state=seed, **params)
    Z, of_fit = timed(model.fit, affinities=P, initialization=start)
    found = {"Z": np.asarray(Z), "seconds": of_affinities + of_start + of_fit}
    if checkpoints:
        return {"Z": np.stack(maps), "seconds": np.array(seconds)}
    if new is not None:
        placed, found["seconds_new"] = timed(Z.transform, new)
        found["Z_new"] = np.asarray(placed)
    return found


def umap(X, seed):
    """UMAP."""
    import umap

    few = np.random.default_rng(0).normal(size=(200, 5))
    umap.UMAP(random_state=0, n_jobs=1, n_epochs=5).fit(few)  # compiles what it needs
    Z, seconds = timed(umap.UMAP(random_state=seed, n_jobs=1).fit_transform, X)
    return {"Z": Z, "seconds": seconds}


METHODS = {
    "ours": embedding,
    "ablated": ablated,
    "varied": varied,
    "sklearn": scikit_learn,
    "openTSNE": open_tsne,
    "umap": umap,
}


def fit(method, X, seed, **params):
    """A fit by the name of its method, with the process' largest memory so far in
    GB."""
    found = METHODS[method](X, seed, **params)
    return {**found, "peak": peak()}


def peak():
    """The largest resident memory of this process so far, in GB (from /proc: this needs
    Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def main(folder):
    """Run the job of a folder."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    if job["package"]:
        import sk_stormc

        assert Path(sk_stormc.__file__).is_relative_to(job["package"]), (
            "another version of sk_stormc was imported"
        )
    params = job["params"]
    if (folder / "new.npy").exists():
        params["new"] = np.load(folder / "new.npy")
    np.savez(
        folder / "found.npz",
        **fit(job["method"], np.load(folder / "X.npy"), job["seed"], **params),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
