"""SNEEmbedding beside scikit-learn's TSNE and, where installed, openTSNE: quality, CPU seconds, memory.

Everything runs in this one process with the threads that it is given; for one thread each:

    OMP_NUM_THREADS=1 python benchmarks/sne_vs_tsne.py

Parts: digits (Gaussian, exact TSNE in d dimensions), student (t-SNE up to 20,000 points), scaling (up to 80,000),
reference (L-BFGS), transform. About half an hour, most of it TSNE; name parts to run only those.
"""

import argparse
import importlib.util
import resource
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.experiments.runner import format_table
from sk_stormc.experiments.sne import label_accuracy
from sk_stormc.problems import SNEProblem


def trustworthiness(X, Z, n_sampled=1000, k=5):
    """scikit-learn's, with the outer mean over at most n_sampled points."""
    n = len(X)
    chosen = np.random.default_rng(0).choice(n, min(n, n_sampled if n > 6000 else n), replace=False)
    search = NearestNeighbors(n_neighbors=k + 1).fit(Z)
    total = 0
    for rows in np.array_split(chosen, -(-len(chosen) // 250)):
        D = pairwise_distances(X[rows], X)
        D[np.arange(len(rows)), rows] = np.inf
        rank = np.empty(D.shape, int)
        np.put_along_axis(rank, np.argsort(D, axis=1), np.arange(1, n + 1)[None], axis=1)
        for i, row, near in zip(rows, rank, search.kneighbors(Z[rows], return_distance=False), strict=True):
            total += np.maximum(row[near[near != i][:k]] - k, 0).sum()
    return 1 - total * 2 / (len(chosen) * k * (2 * n - 3 * k - 1))


def timed(function):
    """What it returns, and its CPU seconds."""
    began = time.process_time()
    value = function()
    return value, time.process_time() - began


def row(name, X, y, Z, seconds, kl=np.nan):
    """A row of the tables."""
    quality = f"{trustworthiness(X, Z):.4f}", f"{label_accuracy(Z, y):.4f}"
    return name[0], name[1], f"{seconds:.2f}", *quality, "" if np.isnan(kl) else f"{kl:.4f}"


def show(title, rows, header=("data", "method", "CPU s", "T5", "10-NN", "KL")):
    """Print a table."""
    print(f"\n{title}\n\n{format_table(header, rows)}", flush=True)


def digits():
    """1: Gaussian kernel, d = 2, 5, 10, beside PCA and scikit-learn's exact t-SNE at that d."""
    X, y = load_digits(return_X_y=True)
    rows = []
    for d in (2, 5, 10):
        name = f"digits d={d}"
        Z, seconds = timed(lambda d=d: PCA(d, random_state=0).fit_transform(X))
        rows.append(row((name, "PCA"), X, y, Z, seconds))
        model, ours = timed(lambda d=d: SNEEmbedding(d, random_state=0).fit(X))
        rows.append(row((name, "SNEEmbedding()"), X, y, model.embedding_, ours, model.kl_divergence_))
        exact = TSNE(d, method="exact", random_state=0)
        Z, seconds = timed(lambda exact=exact: exact.fit_transform(X))
        rows.append(row((name, "TSNE(method='exact')"), X, y, Z, seconds))
        rows.append((name, "CPU ratio, TSNE / ours", f"{seconds / ours:.1f}", "", "", ""))
    show("Gaussian kernel, defaults", rows)


def student():
    """2: t-SNE, beside scikit-learn's and openTSNE's; KL on the same P (91 neighbours) for all."""
    for n, ds, seeds in ((1797, (2, 5), 3), (5000, (2, 5, 10), 3), (20_000, (2, 5), 3)):
        X, y = make_augmented_digits(n, random_state=0)
        P = perplexity_affinities(X, 30)
        rows, cpu = [], {}

        def divergence(Z, P=P):
            return SNEProblem(P, Z.shape[1], kernel="student-t").divergence(Z.ravel().astype(np.float32))

        for d in ds:
            found = []
            for seed in range(seeds):
                data = X if seed == 0 else make_augmented_digits(n, random_state=seed)[0]
                labels = y if seed == 0 else make_augmented_digits(n, random_state=seed)[1]
                model = SNEEmbedding(d, kernel="student-t", random_state=seed)
                Z, seconds = timed(lambda model=model, data=data: model.fit_transform(data))
                kl = divergence(Z) if seed == 0 else np.nan
                name = f"n={n} d={d}", f"SNEEmbedding, seed {seed}"
                found.append(row(name, data, labels, Z, seconds, kl))
                cpu.setdefault(d, []).append(seconds)
            rows += found
            medians = [np.median([float(r[c]) for r in found]) for c in (2, 3, 4)]
            rows.append((f"n={n} d={d}", "median", f"{medians[0]:.2f}", f"{medians[1]:.4f}", f"{medians[2]:.4f}", ""))
        ours = np.median(cpu[2])
        Z, seconds = timed(lambda X=X: TSNE(2, random_state=0).fit_transform(X))
        rows.append(row((f"n={n} d=2", "TSNE"), X, y, Z, seconds, divergence(Z)))
        rows.append((f"n={n} d=2", "CPU ratio, TSNE / ours", f"{seconds / ours:.1f}", "", "", ""))
        if importlib.util.find_spec("openTSNE"):
            import openTSNE

            Z, seconds = timed(lambda X=X: np.array(openTSNE.TSNE(random_state=0, n_jobs=1).fit(X)))
            rows.append(row((f"n={n} d=2", "openTSNE"), X, y, Z, seconds, divergence(Z)))
            rows.append((f"n={n} d=2", "CPU ratio, openTSNE / ours", f"{seconds / ours:.1f}", "", "", ""))
        for d in ds[1:]:
            rows.append((f"n={n} d={d}", "CPU ratio to d=2", f"{np.median(cpu[d]) / ours:.2f}", "", "", ""))
        show("Student-t kernel, defaults", rows)


def scaling():
    """3: CPU seconds over n with a precomputed graph of neighbours; quality at 50,000, peak memory."""
    rows, before = [], {}
    for n in (5000, 10_000, 20_000, 40_000, 50_000, 80_000):
        X, y = make_augmented_digits(n, random_state=0)
        graph, search = timed(lambda X=X: KNeighborsTransformer(n_neighbors=91).fit_transform(X))
        start = PCA(2, random_state=0).fit_transform(X)
        start /= start[:, 0].std()
        for kernel, size in (("student-t", 1e-4), ("gaussian", 3.0)):
            model = SNEEmbedding(kernel=kernel, metric="precomputed", init=start * size, max_iter=500, random_state=0)
            Z, seconds = timed(lambda model=model, graph=graph: model.fit_transform(graph))
            ratio = f"{seconds / before[kernel, n // 2]:.2f}" if (kernel, n // 2) in before else ""
            before[kernel, n] = seconds
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            quality = f"{trustworthiness(X, Z):.4f}"
            rows.append((f"n={n}", kernel, f"{search:.1f}", f"{seconds:.1f}", ratio, quality, f"{peak:.2f}"))
    header = ("data", "kernel", "search s", "CPU s", "over n/2", "T5", "peak GB so far")
    show("Cost in n, 500 iterations, the search apart", rows, header)


def reference():
    """4: Gaussian kernel, KL of storm-c above L-BFGS from the same start."""
    X, y = load_digits(return_X_y=True)
    rows = []
    for d in (2, 3, 5, 10):
        exact, seconds = timed(lambda d=d: SNEEmbedding(d, solver="lbfgs", random_state=0).fit(X))
        runs = [timed(lambda d=d, s=s: SNEEmbedding(d, random_state=s).fit(X)) for s in range(5)]
        above = [model.kl_divergence_ - exact.kl_divergence_ for model, _ in runs]
        rows.append((f"d={d}", "lbfgs", f"{seconds:.2f}", f"{exact.kl_divergence_:.4f}", f"{exact.ifo_[-1]}", ""))
        ours = np.median([s for _, s in runs])
        kl, ifo = np.median([m.kl_divergence_ for m, _ in runs]), runs[0][0].ifo_[-1]
        spread = f"{np.median(above):.4f} ({min(above):.4f} to {max(above):.4f})"
        rows.append((f"d={d}", "storm-c, 5 seeds", f"{ours:.2f}", f"{kl:.4f}", f"{ifo}", spread))
    header = ("", "solver", "CPU s", "KL", "IFO", "above lbfgs")
    show("Gaussian kernel, digits, beside the exact optimiser", rows, header)


def transform():
    """5: new points: 10-NN accuracy against the training labels, CPU seconds for 500."""
    X, y = load_digits(return_X_y=True)
    rows = []
    for kernel, d in (("gaussian", 2), ("gaussian", 5), ("student-t", 2)):
        scores, cpu = [], []
        for seed in range(5):
            a, b, y_a, y_b = train_test_split(X, y, test_size=500, random_state=seed, stratify=y)
            model = SNEEmbedding(d, kernel=kernel, random_state=seed)
            labels = KNeighborsClassifier(10).fit(model.fit_transform(a), y_a)
            Z, seconds = timed(lambda model=model, b=b: model.transform(b))
            scores.append(labels.score(Z, y_b))
            cpu.append(seconds)
        spread = f"{np.median(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"
        rows.append((kernel, f"d={d}", f"{np.median(cpu):.3f}", spread))
    show("500 new digits, 5 splits", rows, ("kernel", "", "CPU s", "10-NN accuracy"))


PARTS = {f.__name__: f for f in (digits, student, scaling, reference, transform)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    for part in parser.parse_args().parts:
        PARTS[part]()
