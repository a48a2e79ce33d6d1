"""The paper's SNE experiment: five methods and L-BFGS at equal IFO, and their
embeddings.

scikit-learn's digits (1797 x 64) replace the paper's 2000 images of MNIST, which would
have to be downloaded. All methods start from principal components and compute the near
field exactly. The embeddings have five dimensions instead of the paper's ten, which
takes half the time and gives equally small differences between the methods. The paper's
own step (one length for all points) and initialization (all coordinates i/n) are shown
for comparison.
"""

from dataclasses import replace

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.neighbors import KNeighborsClassifier

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.cli.arguments import (
    add_points_argument,
    check_replaceable,
    save_figure,
)
from sk_stormc.cli.point_files import read_points
from sk_stormc.compare.tables import as_text, table
from sk_stormc.problems import SNEProblem
from sk_stormc.reproduce.experiment import Case, Labels, draw, five_methods, run_command
from sk_stormc.solvers import STORMCompositional

DIMENSION, PERPLEXITY = 5, 30.0
METHODS = {  # the learning rate decreases to 0 within the budget
    **dict.fromkeys(
        ("scgd", "asc-pg", "vrsc-pg", "sarah-c", "storm-c", "lbfgs", "storm-c-paper"),
        {"tol": 0},
    ),
    "asc-pg": {"beta": 0.9, "tol": 0},
    "lbfgs": {"tol": 1e-8},
}
RANK_ONE = "storm-c-paper, x_i = i/n"

# Parameters of the published scripts. f is sampled like g.
PUBLISHED = five_methods(
    {"learning_rate": 1e-5, "batch_size": 1000, "beta": 0.9},
    {
        "learning_rate": 1e-5,
        "checkpoint_batch_size": 1000,
        "batch_size": 5,
        "epoch_length": 10,
    },
) | {"storm-c-paper": {}}
VARIANTS = {
    **dict.fromkeys(
        ("scgd", "asc-pg"), {"beta .5": {"beta": 0.5}, "beta .9": {"beta": 0.9}}
    ),
    **dict.fromkeys(
        ("vrsc-pg", "sarah-c"),
        {f"epochs of {n} steps": {"epoch_length": n} for n in (3, 10)},
    ),
    "storm-c-paper": {
        "momentum .1": {"momentum": 0.1},
        "momentum .5": {"momentum": 0.5},
    },
}
LABELS = Labels(
    "SNE",
    "KL",
    ".4f",
    ["mean divergence  KL$(P_i\\,\\|\\,Q_i)$", "exact gradient  $|\\nabla\\Phi(x)|$"],
)
ABOUT = """\
The paper's SNE of scikit-learn's digits (8 x 8), which take the place of 2000 images of MNIST, perplexity 30.
KL is the mean divergence over the points, exact. At the published constants runs begin at x_i = i/n in every
coordinate, without preconditioner and limit to steps but Algorithm 1's; else at principal components, with the
Laplacian preconditioner, a limit to each point's step, and a rate that falls to 0 with the budget, times a factor."""


def starts(X, d):
    """The initializations: principal components, the first with a standard deviation of
    3; and x_i = i/n."""
    n = len(X)
    start = PCA(min(d, *X.shape), random_state=0).fit_transform(X)
    start = np.hstack([start, np.zeros((n, d - start.shape[1]))]) * (
        3.0 / start[:, 0].std()
    )
    return start, np.repeat(np.arange(1, n + 1)[:, None] / n, d, axis=1)


def affinities_of(X):
    """The affinities with the perplexity of the experiment."""
    return perplexity_affinities(X, min(PERPLEXITY, (len(X) - 1) / 3))


def case(name, methods, problem, x0, max_ifo):
    """A case whose gap is the exact mean divergence times the number of points."""
    n, x0 = problem.n_blocks, x0.ravel()
    offset = problem.objective(x0) - n * problem.divergence(x0)
    return Case(
        name,
        methods,
        problem,
        x0,
        optimum=offset,
        scale=n,
        record_every=max(1, max_ifo // 20),
    )


def cases(methods, X, d, max_ifo):
    """The embedding of points from principal components, and for Algorithm 1 also from
    x_i = i/n."""
    name, P, (components, line) = f"d = {d}", affinities_of(X), starts(X, d)
    for method, params in methods.items():
        literal, exact = method == "storm-c-paper", method == "lbfgs"
        problem = SNEProblem(
            P, d, near_field=not literal, dtype=np.float64 if exact else np.float32
        )
        if not (literal or exact):
            params = {**params, "learning_rate": scheduled(problem, method, max_ifo)}
        yield case(name, {method: params}, problem, components, max_ifo)
        if literal:
            yield case(
                name, {RANK_ONE: {"solver": method, **params}}, problem, line, max_ifo
            )


def published_case(name, X, d, max_ifo):
    """Plain steps from x_i = i/n: all pairs are sampled, and only Algorithm 1 clips its
    steps."""
    problem = SNEProblem(affinities_of(X), d, near_field=False)
    problem.preconditioner = None
    problem.advice = problem.advice.only(
        "max_iter", "record_every", "unbounded_below", "published", "many_minima"
    )
    methods = {method: {**params, "tol": 0} for method, params in PUBLISHED.items()}
    return case(name, methods, problem, starts(X, d)[1], max_ifo)


def tuned_case(name, X, d, max_ifo):
    """The problem with its preconditioner, from principal components, and a function
    for the parameters of methods."""
    problem = SNEProblem(affinities_of(X), d, dtype=np.float32)

    def params_of(method, factor, variant):
        """The problem's learning rate, adapted to the budget, times a factor."""
        rate = scheduled(problem, method, max_ifo, variant.get("epoch_length"))
        # when tuned, Algorithm 1 uses the problem's preconditioner and step clipping,
        # as the other methods do
        solver = STORMCompositional() if method == "storm-c-paper" else method
        return {
            "solver": solver,
            "learning_rate": replace(rate, start=factor * rate.start),
            "tol": 0,
            **variant,
        }

    return case(name, {}, problem, starts(X, d)[0], max_ifo), params_of


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
        raise ValueError(
            "--ifo must pay for at least ten iterations, "
            f"{10 * iteration + 3 * n:.0f}; got {max_ifo}"
        )
    return replace(problem.advice.learning_rate, horizon=horizon)


def embedding_of(run, n_points):
    """The points at the end of a run."""
    return run.x.reshape(n_points, -1)


def summarize(X, y, comparison):
    """A table of the runs: medians over the seeds of KL, trustworthiness and label
    accuracy."""

    def median(row, measure):
        return np.median(
            [
                measure(embedding_of(run, len(X)))
                for run in comparison.runs[row["solver"]]
            ]
        )

    columns = {
        "method": "{solver}",
        "IFO": "{ifo_median:.0f}",
        "iterations": "{n_iter_median:.0f}",
        "KL": "{gap_median:.4f}",
        "T5": lambda row: (
            f"{median(row, lambda embedding: trustworthiness(X, embedding, n_neighbors=5)):.4f}"
        ),
        "10-NN": lambda row: (
            "-"
            if y is None
            else f"{median(row, lambda embedding: label_accuracy(embedding, y)):.3f}"
        ),
        "seconds": "{seconds_median:.1f}",
    }
    return as_text(*table(comparison.table, columns), left=1)


def label_accuracy(embedding, y):
    """The fraction of points whose label is that of most of their 10 nearest neighbours
    in the embedding."""
    return KNeighborsClassifier(10).fit(embedding, y).score(None, y)


def add_arguments(parser):
    """Add the experiment's own option."""
    add_points_argument(parser, "your own points, not digits")


def report(args):
    """Run the experiment, print its table and save its figures: curves, and embeddings
    coloured by label."""
    # imports matplotlib, which --help does not need
    from sk_stormc.plotting import plot_embeddings

    scatter = args.out.with_name(f"{args.out.stem}_embedding{args.out.suffix}")
    check_replaceable(scatter, args.force)
    if args.data is None:
        (X, y), about = (
            load_digits(return_X_y=True),
            "scikit-learn's digits, 1797 x 64, in place of MNIST",
        )
    else:
        points = read_points(args.data, options=args)
        X, labels = points.X, points.label
        y = None if labels is None else np.unique(labels, return_inverse=True)[1]
        about = "\n".join(points.reading.lines())
    comparison, plane = (
        run_command(cases(args.methods, X, d, args.ifo), args.ifo, n_seeds)[f"d = {d}"]
        for d, n_seeds in ((DIMENSION, args.seeds), (2, 1))
    )
    print(
        f"{about}; d = {DIMENSION}, perplexity {PERPLEXITY:.0f}, start at principal "
        "components."
    )
    print(
        "KL: mean over the points, exact. T5: trustworthiness, 5 neighbours. 10-NN: "
        "label accuracy.\n"
    )
    print(summarize(X, y, comparison))
    if "storm-c-paper" in args.methods:
        print(
            "\nstorm-c-paper is Algorithm 1 to the letter: one normalised step for all "
            "points moves them by eta eps = 0.01 together,\nand from x_i = i/n in "
            "every coordinate the embedding stays on a line. The other methods limit "
            "each point's step."
        )
    draw({f"d = {DIMENSION}": comparison}, args.out, LABELS.axes, relative=True)
    panels = {
        f"{row['solver']}\nKL {row['gap_median']:.2f}": embedding_of(
            plane.runs[row["solver"]][0], len(X)
        )
        for row in plane.table
    }
    save_figure(plot_embeddings(panels, y), scatter)
    print(f"\nPictures written to {args.out} and {scatter}")
