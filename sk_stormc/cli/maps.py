"""Draw a map of your own points.

Points with many columns are embedded in the plane by t-SNE, so that neighbours stay close. A column "label" determines
the colours.
"""

import time

import numpy as np
from sklearn.preprocessing import StandardScaler

from sk_stormc.cli.arguments import PICTURES, add_points_argument, result_file, write_csv
from sk_stormc.cli.files import read_points
from sk_stormc.embedding.estimator import SNEEmbedding


def add_arguments(parser):
    """Add the command's options."""
    add_points_argument(parser, "your points, a row each", required=True)
    add = parser.add_argument
    add(
        "--out",
        type=result_file(*PICTURES, ".csv"),
        required=True,
        metavar="FILE",
        help="a picture (.png, .pdf, .svg), or a .csv file for the positions",
    )
    add("--perplexity", type=float, default=30.0, metavar="P", help="number of neighbours (default: %(default)s)")
    add("--standardize", action="store_true", help="divide columns by their deviations, for columns of several units")
    add("--jobs", type=int, default=1, metavar="N", help="number of threads, -1 for all (default: %(default)s)")


def report(args):
    """Compute the map, and save its figure or its positions."""
    X, labels = read_points(args.data)
    if args.out.suffix != ".csv":
        try:  # before the fit, which can take long
            _figure(np.random.default_rng(0).normal(size=(len(X), 2)), labels)
        except ValueError as error:
            raise ValueError(f"{args.data}: no colours for these labels, {error}; a .csv file takes any") from error
    if args.standardize:
        X = StandardScaler().fit_transform(X)
    began = time.perf_counter()
    embedding = SNEEmbedding(perplexity=args.perplexity, random_state=0, n_jobs=args.jobs).fit(X)
    seconds = time.perf_counter() - began
    print(f"{args.data}: {len(X)} points, {X.shape[1]} columns, {'no labels' if labels is None else 'labels'}")
    print(f"divergence {embedding.kl_divergence_:.4g}, perplexity {embedding.perplexity_:g}, {seconds:.1f} seconds")
    if args.out.suffix == ".csv":
        _write(embedding.embedding_, labels, args.out)
    else:
        _figure(embedding.embedding_, labels).savefig(args.out, dpi=150)
    print(f"Map written to {args.out}")


def _write(positions, labels, path):
    columns, names = [positions[:, 0], positions[:, 1]], ["x", "y"]
    if labels is not None:
        labels = labels.astype(str) if labels.dtype.kind in "mM" else labels
        columns, names = [*columns, labels], [*names, "label"]
    write_csv(path, names, zip(*map(np.ndarray.tolist, columns), strict=True))


def _figure(positions, labels):
    """The figure of a map."""
    from sk_stormc.plotting import EmbeddingDisplay  # imports matplotlib, which --help does not need
    from sk_stormc.plotting._style import unmanaged_figure

    figure = unmanaged_figure(8, 6.5)
    EmbeddingDisplay(positions, y=labels).plot(figure.add_subplot())
    return figure
