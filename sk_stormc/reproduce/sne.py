"""The paper's SNE experiment: five methods and L-BFGS at equal IFO, and what the embeddings look like.

Digits of scikit-learn (1797 x 64) take the place of the paper's 2000 images of MNIST, which would have to be fetched.
All methods start at principal components and sample with the near field exact, in five dimensions in place of the
paper's ten: that takes half the time, and the methods differ as little. The paper's own step (one length for all
points) and start (all coordinates i/n) are shown too, for what they do.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

from sk_stormc.embedding.affinities import perplexity_affinities
from sk_stormc.embedding.problem import SNEProblem
from sk_stormc.reproduce.points_file import read_points
from sk_stormc.reproduce.progress import progress_line
from sk_stormc.reproduce.runner import check_methods, format_table
from sk_stormc.solvers import StopReason, minimize
from sk_stormc.utils.validation import check_int

__all__ = ["LABELS", "MAX_IFO", "METHODS", "Embedded", "embed", "label_accuracy", "run_sne", "scheduled", "starts"]

MAX_IFO = 400_000
DIMENSION, PERPLEXITY, SPREAD = 5, 30.0, 3.0
METHODS = {  # parameters; the rate falls to 0 within the budget
    "scgd": {},
    "asc-pg": {"beta": 0.9},
    "vrsc-pg": {},
    "sarah-c": {},
    "storm-c": {},
    "lbfgs": {},
    "storm-c-paper": {},
}
LABELS = ["mean divergence  KL$(P_i\\,\\|\\,Q_i)$", "exact gradient  $|\\nabla\\Phi(x)|$"]  # of the picture
RECORDS = 20  # of a run
RANK_ONE = "storm-c-paper, x_i = i/n"


@dataclass(frozen=True)
class Embedded:
    """One method's run.

    Attributes
    ----------
    method : str
    seed : int
    embedding : ndarray of shape (n_points, d)
    ifo, kl : ndarray of shape (n_records,)
        Cumulative IFO and the mean divergence KL(P_i || Q_i) at the records.
    gradient_norm : ndarray of shape (n_records,)
        |grad Phi| at the records, of the gradient on all data; empty if it was not asked for.
    n_iter : int
    seconds : float
    """

    method: str
    seed: int
    embedding: np.ndarray
    ifo: np.ndarray
    kl: np.ndarray
    gradient_norm: np.ndarray
    n_iter: int
    seconds: float


def run_sne(X, methods=tuple(METHODS), *, n_components=DIMENSION, max_ifo=MAX_IFO, n_seeds=3, progress=None):
    """Embed points by each method, from principal components, at equal IFO."""
    params = check_methods(methods, METHODS)
    check_int("max_ifo", max_ifo, low=1)
    check_int("n_seeds", n_seeds, low=1)
    n = len(X)
    perplexity = min(PERPLEXITY, (n - 1) / 3)
    P = perplexity_affinities(X, perplexity)
    start, rank_one = starts(X, n_components)
    todo = [(method, start, method) for method in params]
    if "storm-c-paper" in params:
        todo.append((RANK_ONE, rank_one, "storm-c-paper"))
    runs = []
    for k, (name, x0, method) in enumerate(todo):
        for seed in range(1 if method == "lbfgs" or name == RANK_ONE else n_seeds):

            def show(done, text=f"{name}, seed {seed + 1}", before=k + seed / n_seeds):
                if progress is not None:
                    progress(text, (before + done / n_seeds) / len(todo))

            show(0.0)
            runs.append(_run(P, n_components, name, x0, method, params[method], seed, max_ifo, show))
    return runs


def starts(X, d):
    """Where runs begin: principal components, the first with a standard deviation of 3; and the paper's x_i = i/n."""
    n = len(X)
    start = PCA(min(d, *X.shape), random_state=0).fit_transform(X)
    start = np.hstack([start, np.zeros((n, d - start.shape[1]))]) * (SPREAD / start[:, 0].std())
    return start, np.repeat(np.arange(1, n + 1)[:, None] / n, d, axis=1)


def scheduled(problem, method, max_ifo, epoch_length=None):
    """The problem's learning rate, falling to 0 within a budget."""
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


def _run(P, d, name, x0, method, params, seed, max_ifo, show):
    literal, exact = method == "storm-c-paper", method == "lbfgs"
    problem = SNEProblem(P, d, near_field=not literal, dtype=np.float64 if exact else np.float32)
    params = {"tol": 1e-8 if exact else 0, **params}
    if not (literal or exact):
        params["learning_rate"] = scheduled(problem, method, max_ifo)
    return embed(problem, name, x0, method, params, seed, max_ifo, show, gradients=True)


def embed(problem, name, x0, method, params, seed, max_ifo, show, gradients=False):
    """Run a method on an SNE problem."""
    n, d = problem.n_blocks, problem.n_components
    norms, aside = [], 0.0

    def on_record(record):
        nonlocal aside
        show(min(1.0, record.ifo / max_ifo))
        if gradients:
            start = time.perf_counter()
            norms.append(float(np.linalg.norm(problem.gradient(record.x))))
            aside += time.perf_counter() - start

    began = time.perf_counter()
    result = minimize(
        problem,
        method,
        x0.ravel(),
        random_state=seed,
        max_ifo=max_ifo,
        record_every=max(1, max_ifo // RECORDS),
        on_record=on_record,
        **params,
    )
    if result.stop_reason == StopReason.INTERRUPTED:  # Ctrl-C is for the whole experiment
        raise KeyboardInterrupt
    seconds = time.perf_counter() - began - aside
    if gradients and len(norms) < len(result.ifo):  # the returned point
        norms.append(float(np.linalg.norm(problem.gradient(result.x))))
    constant = problem.divergence(result.x) - problem.objective(result.x) / n
    kl = result.loss_curve / n + constant
    return Embedded(name, seed, result.x.reshape(n, d), result.ifo, kl, np.array(norms), result.n_iter, seconds)


def summarize(X, y, runs):
    """A table of the runs: medians over the seeds of KL, trustworthiness and label accuracy."""
    rows = []
    for method, seeds in _by_method(runs).items():
        T5 = np.median([trustworthiness(X, run.embedding, n_neighbors=5) for run in seeds])
        accuracy = "-" if y is None else f"{np.median([label_accuracy(run.embedding, y) for run in seeds]):.3f}"
        ifo, n_iter, kl, seconds = np.median([(r.ifo[-1], r.n_iter, r.kl[-1], r.seconds) for r in seeds], axis=0)
        numbers = f"{ifo:.0f}", f"{n_iter:.0f}", f"{kl:.4f}", f"{T5:.4f}", accuracy, f"{seconds:.1f}"
        rows.append((method, str(len(seeds)), *numbers))
    return format_table(("method", "seeds", "IFO", "iterations", "KL", "T5", "10-NN", "seconds"), rows)


def _by_method(runs):
    groups = {}
    for run in runs:
        groups.setdefault(run.method, []).append(run)
    return groups


def label_accuracy(embedding, y):
    """Share of the points whose label is that of most of their 10 nearest in the embedding, themselves left out."""
    near = NearestNeighbors(n_neighbors=10).fit(embedding).kneighbors(return_distance=False)
    votes = (y[near][:, :, None] == np.arange(y.max() + 1)).sum(axis=1)
    return float(np.mean(votes.argmax(axis=1) == y))


def add_arguments(parser):
    """Add the experiment's own option."""
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="your own points, not digits: .npz (X, perhaps y), .npy, or .csv, .tsv, .txt (a column 'label')",
    )


def report(args):
    """Run the experiment, print its table and write its pictures: curves, and embeddings coloured by label."""
    from sk_stormc.plotting import plot_curves, plot_embeddings  # matplotlib: not for --help

    if args.data is None:
        (X, y), about = load_digits(return_X_y=True), "scikit-learn's digits, 1797 x 64, in place of MNIST"
    else:
        X, y = read_points(args.data)
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
    curves = {m: [(r.ifo, r.kl, r.gradient_norm) for r in seeds] for m, seeds in _by_method(runs).items()}
    figure = plot_curves({f"d = {DIMENSION}": curves}, LABELS)
    figure.savefig(args.out, dpi=150)
    out = Path(args.out)
    scatter = out.with_name(f"{out.stem}_embedding{out.suffix}")
    panels = {f"{run.method}\nKL {run.kl[-1]:.2f}": run.embedding for run in maps}
    plot_embeddings(panels, y).savefig(scatter, dpi=150)
    print(f"\nPictures written to {args.out} and {scatter}")
