"""Draw a map of your own points.

Points with many columns are embedded in the plane by t-SNE, so that neighbours stay
close. A column "label", or the one that --label names, determines the colours.
"""

import sys
import time
from contextlib import redirect_stdout
from functools import partial

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc.cli.arguments import (
    PICTURES,
    SIGNATURE,
    add_flag,
    add_force_argument,
    add_option,
    add_points_argument,
    kind_of_result,
    positive_number,
    result_file,
    save_figure,
    write_csv,
)
from sk_stormc.cli.point_files import read_points
from sk_stormc.embedding.estimator import SNEEmbedding
from sk_stormc.embedding.tables import TableScaler
from sk_stormc.utils.atomic import atomically

HOVER = 20  # most columns of the data that an interactive page has
LONG = 5000  # points from which a map takes seconds, and lines show its progress


def add_arguments(parser):
    """Add the command's options."""
    add_points_argument(parser, "your points, a row each", required=True)
    add = partial(add_option, parser)
    files = (
        "a picture (.png, .pdf, .svg), an interactive page (.html), or a .csv file for "
        "the positions"
    )
    add("--out", "FILE", files, result_file(*PICTURES, ".html", ".csv"), required=True)
    add("--perplexity", "P", "number of neighbours", positive_number, 30.0)
    add("--seed", "K", "seed of the random numbers", int, 0)
    add(
        "--size",
        ("WIDTH", "HEIGHT"),
        "size of a picture in inches (default: 8 6.5)",
        positive_number,
        (8.0, 6.5),
        nargs=2,
    )
    scaling = parser.add_mutually_exclusive_group()
    add_flag(
        scaling,
        "--standardize",
        "divide columns by their deviations, for columns of several units",
    )
    add_flag(
        scaling,
        "--mixed",
        "columns of any type, with the same weight for each, and missing values, in a "
        "table",
    )
    new = "further points with the same columns, which are placed in the finished map"
    add("--new", "FILE", new)
    add("--jobs", "N", "number of threads, -1 for all", int, 1)
    add_force_argument(parser)


def report(args):
    """Compute the map, and save its figure, its page or its positions."""
    data = read_points(args.data, args.mixed, None, args)
    new = None
    if args.new is not None:
        new = read_points(args.new, args.mixed, data.names, args)
    if kind_of_result(args.out) != ".csv":
        try:  # before the fit, which can take long
            anywhere = np.random.default_rng(0).normal(size=(len(data.X), 2))
            placed = None if new is None else np.zeros((len(new.X), 2))
            _draw(anywhere, data, placed, new, args, save=False)
        except ValueError as error:
            raise ValueError(
                f"{args.data}: no colours for these labels, {error}; a .csv file "
                "takes any"
            ) from error
    print(
        f"{args.data}: {len(data.X)} points, {len(data.names)} columns, "
        f"{'no labels' if data.labels is None else 'labels'}",
        *data.notes,
        sep="\n",
        flush=True,
    )
    embedding = SNEEmbedding(
        perplexity=args.perplexity,
        random_state=args.seed,
        n_jobs=args.jobs,
        verbose=int(len(data.X) >= LONG),
    )
    scaler = TableScaler() if args.mixed else StandardScaler()
    steps = [scaler, embedding] if args.mixed or args.standardize else [embedding]
    model, began = make_pipeline(*steps), time.perf_counter()
    with redirect_stdout(sys.stderr):  # the lines of progress
        model.fit(data.X)
    placed = None if new is None else model.transform(new.X)
    seconds = time.perf_counter() - began
    if kind_of_result(args.out) == ".csv":  # before anything that could fail
        _write(embedding.embedding_, data, placed, new, args.out)
    else:
        _draw(embedding.embedding_, data, placed, new, args)
    if args.mixed and scaler.left_out_:
        reasons = [f"{name} ({reason})" for name, reason in scaler.left_out_.items()]
        print(f"left out: {', '.join(reasons)}")
    if new is not None:
        print(f"{args.new}: {len(new.X)} new points")
    print(
        f"divergence {embedding.kl_divergence_:.4g}, perplexity "
        f"{embedding.perplexity_:g}, {seconds:.1f} seconds"
    )
    print(f"Map written to {args.out}")


def _write(positions, data, placed, new, path):
    """Write a table of the positions, with a column of the labels, one that is 1 for
    new points, and one of the names of the rows."""
    tables = [data] if new is None else [data, new]
    Z = positions if new is None else np.vstack([positions, placed])
    columns = {"x": Z[:, 0].tolist(), "y": Z[:, 1].tolist()}
    if any(points.labels is not None for points in tables):
        columns["label"] = _column(tables, "labels")
    if new is not None:
        columns["new"] = [0] * len(positions) + [1] * len(placed)
    if any(points.rows is not None for points in tables):
        columns["row"] = _column(tables, "rows")
    write_csv(path, columns, zip(*columns.values(), strict=True))


def _column(tables, name):
    """The labels or the names of the rows of all points, or "" where there are none."""
    cells = []
    for points in tables:
        values = getattr(points, name)
        values = np.full(len(points.X), "") if values is None else values
        is_date = values.dtype.kind in "mM"
        cells += (values.astype(str) if is_date else values).tolist()
    return cells


def _draw(positions, data, placed, new, args, save=True):
    """Draw the map, and save it as a picture or as a page."""
    # imports matplotlib, which --help does not need
    from sk_stormc.plotting import EmbeddingDisplay
    from sk_stormc.plotting._style import unmanaged_figure
    from sk_stormc.plotting.interactive import html_page

    display = EmbeddingDisplay(
        positions, y=data.labels, new=placed, y_new=None if new is None else new.labels
    )
    if kind_of_result(args.out) == ".html":
        hover = _hover(data, new)
        if not save:
            display.to_plotly(hover)
            return
        with atomically(args.out) as file:
            page = html_page(display, hover)
            file.write(f"{page}<!-- {SIGNATURE} -->\n".encode())
        return
    figure = unmanaged_figure(*args.size)
    display.plot(figure.add_subplot())
    if save:
        save_figure(figure, args.out)


def _hover(data, new):
    """The name or the number of the row of each point, and its columns if there are
    few."""
    tables = [data] if new is None else [data, new]
    rows = [
        np.arange(len(points.X)) + 1 if points.rows is None else points.rows
        for points in tables
    ]
    columns = {"row": np.concatenate(rows)}
    for k, name in enumerate(data.names if len(data.names) <= HOVER else ()):
        values = [
            points.X[:, k]
            if isinstance(points.X, np.ndarray)
            else points.X.iloc[:, k].to_numpy(object)
            for points in tables
        ]
        columns[name] = np.concatenate(values)
    return columns
