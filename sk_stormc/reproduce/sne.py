"""The paper's SNE experiment: five methods and L-BFGS at equal IFO, and their embeddings.

scikit-learn's digits (1797 x 64) replace the paper's 2000 images of MNIST, which would have to be downloaded. All
methods start from principal components and compute the near field exactly. The embeddings have five dimensions instead
of the paper's ten, which takes half the time and gives equally small differences between the methods. The paper's own
step (one length for all points) and initialization (all coordinates i/n) are shown for comparison.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem
from sk_stormc.reproduce.files import add_points_argument, read_points
from sk_stormc.reproduce.runner import (
    Case,
    check_methods,
    draw_runs,
    format_table,
    group_runs,
    progress_line,
    run_methods,
)
from sk_stormc.utils.validation import check_int

__all__ = [
    "LABELS",
    "MAX_IFO",
    "METHODS",
    "affinities_of",
    "label_accuracy",
    "run_sne",
    "scheduled",
    "sne_case",
    "starts",
]

MAX_IFO = 400_000
DIMENSION, PERPLEXITY, SPREAD = 5, 30.0, 3.0
METHODS = {  # parameters; the learning rate decreases to 0 within the budget
    "scgd": {},
    "asc-pg": {"beta": 0.9},
    "vrsc-pg": {},
    "sarah-c": {},
    "storm-c": {},
    "lbfgs": {},
    "storm-c-paper": {},
}
LABELS = ["mean divergence  KL$(P_i\\,\\|\\,Q_i)$", "exact gradient  $|\\nabla\\Phi(x)|$"]  # labels of the figure
RECORDS = 20  # number of records of a run
RANK_ONE = "storm-c-paper, x_i = i/n"


def affinities_of(X):
    """The affinities with the perplexity of the experiment."""
    return perplexity_affinities(X, min(PERPLEXITY, (len(X) - 1) / 3))


def starts(X, d):
    """The initializations: principal components, the first with a standard deviation of 3; and x_i = i/n."""
    n = len(X)
    start = PCA(min(d, *X.shape), random_state=0).fit_transform(X)
    start = np.hstack([start, np.zeros((n, d - start.shape[1]))]) * (SPREAD / start[:, 0].std())
    return start, np.repeat(np.arange(1, n + 1)[:, None] / n, d, axis=1)


def sne_case(name, problem, x0):
    """A case whose gap is the exact mean divergence times the number of points."""
    x0 = x0.ravel()
    return Case(name, problem, x0, problem.objective(x0) - problem.n_blocks * problem.divergence(x0), problem.n_blocks)


def scheduled(problem, method, max_ifo, epoch_length=None):
    """The problem's learning rate, decreasing to 0 within a budget."""
    n, B = problem.n_inner, problem.advice.batch_size[0]
    sampled = n if B is None else B + problem.n_near
    iteration = n + 2 * sampled
    if method in ("sarah-c", "vrsc-pg"):  # a checkpoint after an epoch
        steps = epoch_length or (1 if B is None else -(-n // B))
        iteration = (steps * iteration + 3 * n) / (steps + 1)
    horizon = int((max_ifo - 3 * n) / iteration)
    if horizon < 10:
        raise ValueError(f"--ifo must pay for at least ten iterations, {10 * iteration + 3 * n:.0f}; got {max_ifo}")
    return replace(problem.advice.learning_rate, horizon=horizon)


def run_sne(X, methods=tuple(METHODS), *, n_components=DIMENSION, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Embed points with each method, from principal components, at equal IFO."""
    methods = check_methods(methods, METHODS)
    check_int("max_ifo", max_ifo, low=1)
    P, name, jobs = affinities_of(X), f"d = {n_components}", []
    components, line = starts(X, n_components)
    for method, params in methods.items():
        literal, exact = method == "storm-c-paper", method == "lbfgs"
        problem = SNEProblem(P, n_components, near_field=not literal, dtype=np.float64 if exact else np.float32)
        params = {"tol": 1e-8 if exact else 0, "record_every": max(1, max_ifo // RECORDS), **params}
        if not (literal or exact):
            params["learning_rate"] = scheduled(problem, method, max_ifo)
        jobs.append((sne_case(name, problem, components), {method: params}))
        if literal:
            jobs.append((sne_case(name, problem, line), {RANK_ONE: {"solver": method, **params}}))
    return run_methods(jobs, max_ifo=max_ifo, n_seeds=n_seeds, progress=progress)


def embedding_of(run):
    """The points at the end of a run."""
    return run.x.reshape(run.case.problem.n_blocks, -1)


def summarize(X, y, runs):
    """A table of the runs: medians over the seeds of KL, trustworthiness and label accuracy."""
    rows = []
    for methods in group_runs(runs).values():
        for method, seeds in methods.items():
            T5 = np.median([trustworthiness(X, embedding_of(run), n_neighbors=5) for run in seeds])
            accuracy = "-" if y is None else f"{np.median([label_accuracy(embedding_of(run), y) for run in seeds]):.3f}"
            numbers = [(r.ifo[-1], r.n_iter, r.gap[-1] / r.case.scale, r.seconds) for r in seeds]
            ifo, n_iter, kl, seconds = np.median(numbers, axis=0)
            rows.append((method, f"{ifo:.0f}", f"{n_iter:.0f}", f"{kl:.4f}", f"{T5:.4f}", accuracy, f"{seconds:.1f}"))
    return format_table(("method", "IFO", "iterations", "KL", "T5", "10-NN", "seconds"), rows, left=1)


def label_accuracy(embedding, y):
    """The fraction of points whose label is that of most of their 10 nearest neighbours in the embedding."""
    near = NearestNeighbors(n_neighbors=10).fit(embedding).kneighbors(return_distance=False)
    votes = (y[near][:, :, None] == np.arange(y.max() + 1)).sum(axis=1)
    return float(np.mean(votes.argmax(axis=1) == y))


def add_arguments(parser):
    """Add the experiment's own option."""
    add_points_argument(parser, "your own points, not digits")


def report(args):
    """Run the experiment, print its table and save its figures: curves, and embeddings coloured by label."""
    from sk_stormc.plotting import plot_embeddings  # imports matplotlib, which --help does not need

    if args.data is None:
        (X, y), about = load_digits(return_X_y=True), "scikit-learn's digits, 1797 x 64, in place of MNIST"
    else:
        X, labels = read_points(args.data)
        y = None if labels is None else np.unique(labels, return_inverse=True)[1]
        about = f"{args.data}: points of shape {X.shape}"
    with progress_line() as show:
        runs = run_sne(X, args.methods, max_ifo=args.ifo, n_seeds=args.seeds, progress=show)
        maps = run_sne(X, args.methods, n_components=2, max_ifo=args.ifo, n_seeds=1, progress=show)
    print(f"{about}; d = {DIMENSION}, perplexity {PERPLEXITY:.0f}, start at principal components.")
    print("KL: mean over the points, exact. T5: trustworthiness, 5 neighbours. 10-NN: label accuracy.\n")
    print(summarize(X, y, runs))
    if "storm-c-paper" in args.methods:
        print(
            "\nstorm-c-paper is Algorithm 1 to the letter: one normalised step for all points moves them by "
            "eta eps = 0.01 together,\nand from x_i = i/n in every coordinate the embedding stays on a line. The "
            "other methods limit each point's step."
        )
    draw_runs(runs, args.out, LABELS, relative=True)
    out = Path(args.out)
    scatter = out.with_name(f"{out.stem}_embedding{out.suffix}")
    panels = {f"{run.method}\nKL {run.gap[-1] / run.case.scale:.2f}": embedding_of(run) for run in maps}
    plot_embeddings(panels, y).savefig(scatter, dpi=150)
    print(f"\nPictures written to {args.out} and {scatter}")
