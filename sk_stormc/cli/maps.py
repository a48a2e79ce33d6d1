"""Draw a map of your own points.

Points with many columns are embedded in the plane by t-SNE, so that neighbours stay
close. A column "label" determines the colours.
"""

import time

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc.cli.arguments import (
    PICTURES,
    add_points_argument,
    result_file,
    write_csv,
)
from sk_stormc.cli.files import read_points
from sk_stormc.embedding.estimator import SNEEmbedding
from sk_stormc.embedding.tables import TableScaler

HOVER = 20  # most columns of the data that an interactive page has


def add_arguments(parser):
    """Add the command's options."""
    add_points_argument(parser, "your points, a row each", required=True)
    add = parser.add_argument
    add(
        "--out",
        type=result_file(*PICTURES, ".html", ".csv"),
        required=True,
        metavar="FILE",
        help="a picture (.png, .pdf, .svg), an interactive page (.html), or a .csv "
        "file for the positions",
    )
    add(
        "--perplexity",
        type=float,
        default=30.0,
        metavar="P",
        help="number of neighbours (default: %(default)s)",
    )
    scaling = parser.add_mutually_exclusive_group()
    scaling.add_argument(
        "--standardize",
        action="store_true",
        help="divide columns by their deviations, for columns of several units",
    )
    scaling.add_argument(
        "--mixed",
        action="store_true",
        help="columns of any type, with the same weight for each, and missing values, "
        "in a .csv, .tsv or .txt file",
    )
    add(
        "--new",
        metavar="FILE",
        help="further points with the same columns, which are placed in the finished "
        "map",
    )
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of threads, -1 for all (default: %(default)s)",
    )


def report(args):
    """Compute the map, and save its figure, its page or its positions."""
    data = read_points(args.data, args.mixed)
    new = None if args.new is None else read_points(args.new, args.mixed, data.names)
    if args.out.suffix != ".csv":
        try:  # before the fit, which can take long
            anywhere = np.random.default_rng(0).normal(size=(len(data.X), 2))
            _draw(
                anywhere,
                data,
                None if new is None else np.zeros((len(new.X), 2)),
                new,
                args.out,
                save=False,
            )
        except ValueError as error:
            raise ValueError(
                f"{args.data}: no colours for these labels, {error}; a .csv file "
                "takes any"
            ) from error
    embedding = SNEEmbedding(
        perplexity=args.perplexity, random_state=0, n_jobs=args.jobs
    )
    scaler = (
        [TableScaler()]
        if args.mixed
        else [StandardScaler()]
        if args.standardize
        else []
    )
    model, began = make_pipeline(*scaler, embedding), time.perf_counter()
    model.fit(data.X)
    placed = None if new is None else model.transform(new.X)
    seconds = time.perf_counter() - began
    n, d = data.X.shape
    print(
        f"{args.data}: {n} points, {d} columns, "
        f"{'no labels' if data.labels is None else 'labels'}"
    )
    if args.mixed and scaler[0].left_out_:
        print(
            "left out: "
            + ", ".join(
                f"{name} ({reason})" for name, reason in scaler[0].left_out_.items()
            )
        )
    if new is not None:
        print(f"{args.new}: {len(new.X)} new points")
    print(
        f"divergence {embedding.kl_divergence_:.4g}, perplexity "
        f"{embedding.perplexity_:g}, {seconds:.1f} seconds"
    )
    if args.out.suffix == ".csv":
        _write(embedding.embedding_, data, placed, new, args.out)
    else:
        _draw(embedding.embedding_, data, placed, new, args.out)
    print(f"Map written to {args.out}")


def _write(positions, data, placed, new, path):
    """Write a table of the positions, with a column of the labels, and one that is 1
    for new points."""
    names, rows = ["x", "y"], []
    with_labels = data.labels is not None or (
        new is not None and new.labels is not None
    )
    names += ["label"] * with_labels + ["new"] * (new is not None)
    for is_new, (Z, points) in enumerate([(positions, data), (placed, new)]):
        if points is None:
            continue
        columns = [Z[:, 0].tolist(), Z[:, 1].tolist()]
        if with_labels:
            labels = np.full(len(Z), "") if points.labels is None else points.labels
            columns.append(
                (labels.astype(str) if labels.dtype.kind in "mM" else labels).tolist()
            )
        if new is not None:
            columns.append([is_new] * len(Z))
        rows += zip(*columns, strict=True)
    write_csv(path, names, rows)


def _draw(positions, data, placed, new, path, save=True):
    """Draw the map, and save it as a picture or as a page."""
    from sk_stormc.plotting import (
        EmbeddingDisplay,
    )  # imports matplotlib, which --help does not need
    from sk_stormc.plotting._style import unmanaged_figure

    display = EmbeddingDisplay(
        positions, y=data.labels, new=placed, y_new=None if new is None else new.labels
    )
    if path.suffix == ".html":
        hover = _hover(data, new)
        display.to_html(path, hover) if save else display.to_plotly(hover)
        return
    figure = unmanaged_figure(8, 6.5)
    display.plot(figure.add_subplot())
    if save:
        figure.savefig(path, dpi=150)


def _hover(data, new):
    """The number of the row of each point, and its columns if there are few."""
    tables = [points for points in (data, new) if points is not None]
    columns = {
        "row": np.concatenate([np.arange(len(points.X)) + 1 for points in tables])
    }
    for k, name in enumerate(data.names if len(data.names) <= HOVER else ()):
        values = [
            p.X[:, k]
            if isinstance(p.X, np.ndarray)
            else p.X.iloc[:, k].to_numpy(object)
            for p in tables
        ]
        columns[name] = np.concatenate(values)
    return columns
