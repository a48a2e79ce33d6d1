"""Draw a map of your own points.

Points with many columns are embedded in the plane by t-SNE, so that neighbours stay
close. A column "label", or the one that --label names, determines the colours.
"""

import shutil
import sys
import tempfile
import time
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from sk_stormc.cli.arguments import (
    PICTURES,
    SIGNATURE,
    add_check_argument,
    add_flag,
    add_force_argument,
    add_option,
    add_points_argument,
    check_replaceable,
    kind_of_result,
    positive_number,
    result_file,
    save_figure,
    write_csv,
)
from sk_stormc.cli.data_files import CELLS
from sk_stormc.cli.point_files import read_points
from sk_stormc.embedding.estimator import SNEEmbedding
from sk_stormc.embedding.tables import TableScaler
from sk_stormc.utils.atomic import atomically

HOVER = 20  # most columns of the data that an interactive page has
MOST_ISLANDS = 8  # of which a line is printed
LONG = 5000  # points from which a map takes seconds, and lines show its progress


def add_arguments(parser):
    """Add the command's options."""
    add_points_argument(parser, "your points, a row each", required=True)
    add = partial(add_option, parser)
    files = (
        "a picture (.png, .pdf, .svg), an interactive page (.html), or the positions: "
        "a .csv file, or a copy of an .h5ad file that has them too"
    )
    add("--out", "FILE", files, result_file(*PICTURES, ".html", ".csv", CELLS))
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
    add_check_argument(parser)
    add_force_argument(parser)


def report(args):
    """Compute the map, and save its figures, its page or its positions."""
    if args.out is None and not args.check:
        raise ValueError("--out must name a file, got none; --check only reads --data")
    data = read_points(args.data, args.mixed, None, args)
    scaler = None
    if args.mixed or args.standardize:
        scaler = TableScaler() if args.mixed else StandardScaler()
    X = data.X if scaler is None else scaler.fit_transform(data.X)
    if args.mixed:
        left_out, names = scaler.left_out_, data.names
        for name, reason in left_out.items():
            data.reading.leave_out([name], reason)
        data.reading.used["points"] = [name for name in names if name not in left_out]
    data.reading.show(args.check)
    if args.check:
        return
    tables, new = [data], None
    if args.new is not None:
        new = read_points(args.new, args.mixed, data.names, args)
        tables.append(new)
        print(f"{args.new}: {len(new.X)} new points", flush=True)
    kind = kind_of_result(args.out)
    draw = {".csv": _write, CELLS: _write_cells, ".html": _page}.get(kind, _pictures)
    if draw in (_page, _pictures):
        try:  # before the fit, which can take long
            anywhere = np.random.default_rng(0).normal(size=(len(data.X), 2))
            draw(
                anywhere,
                np.zeros((len(new.X), 2)) if new else None,
                tables,
                args,
                False,
            )
        except ValueError as error:
            raise ValueError(
                f"{args.data}: no colours for these labels, {error}; a .csv file "
                "takes any"
            ) from error
    embedding = SNEEmbedding(
        perplexity=args.perplexity,
        random_state=args.seed,
        n_jobs=args.jobs,
        verbose=int(len(data.X) >= LONG),
    )
    began = time.perf_counter()
    with redirect_stdout(sys.stderr):  # the lines of progress
        embedding.fit(X)
    placed = None
    if new is not None:
        X_new = new.X if scaler is None else scaler.transform(new.X)
        placed = embedding.transform(X_new)
    seconds = time.perf_counter() - began
    written = draw(embedding.embedding_, placed, tables, args)
    print(
        f"\ndivergence {embedding.kl_divergence_:.4g}, perplexity "
        f"{embedding.perplexity_:g}, {seconds:.1f} seconds"
    )
    _print_islands(embedding.embedding_, data)
    print(f"Map written to {', '.join(map(str, written or [args.out]))}")


def _print_islands(positions, data):
    """Print what the rows of each island of the map have in common."""
    from sk_stormc.plotting import EmbeddingDisplay

    rows = EmbeddingDisplay(positions).islands(data.X)
    if isinstance(data.X, np.ndarray):
        for row in rows:
            row["column"] = data.names[int(row["column"].removeprefix("column ")) - 1]
    for k in sorted({row["island"] for row in rows})[:MOST_ISLANDS]:
        own = [row for row in rows if row["island"] == k]
        texts = [f"{r['column']} {r['here']} (others {r['elsewhere']})" for r in own]
        print(f"island {k}, {own[0]['points']} points: {', '.join(texts)}")


def _write_cells(positions, placed, tables, args):
    """Write the cells of --data with the positions as obsm["X_tsne"]."""
    from anndata import read_h5ad

    cells = read_h5ad(args.data)
    cells.obsm["X_tsne"], cells.uns["written by"] = positions, SIGNATURE
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "cells.h5ad"
        cells.write_h5ad(whole)
        with atomically(args.out) as file, open(whole, "rb") as source:
            shutil.copyfileobj(source, file)


def _write(positions, placed, tables, args):
    """Write a table of the positions, with a column of the labels, one that is 1 for
    new points, and one of the names of the rows."""
    Z = positions if placed is None else np.vstack([positions, placed])
    columns = {"x": Z[:, 0].tolist(), "y": Z[:, 1].tolist()}
    for k, name in enumerate(tables[0].labels):
        labels = [points.labels.get(name) for points in tables]
        columns["label" if not k else name] = _column(tables, labels)
    if placed is not None:
        columns["new"] = [0] * len(positions) + [1] * len(placed)
    rows = [points.rows for points in tables]
    if any(names is not None for names in rows):
        columns["row"] = _column(tables, rows)
    write_csv(args.out, columns, zip(*columns.values(), strict=True))


def _column(tables, parts):
    """A column of all points, with "" for those of a table that has none."""
    cells = []
    for points, values in zip(tables, parts, strict=True):
        values = np.full(len(points.X), "") if values is None else values
        is_date = values.dtype.kind in "mM"
        cells += (values.astype(str) if is_date else values).tolist()
    return cells


def _displays(positions, placed, tables):
    """The displays of the map by the names of their labels."""
    # imports matplotlib, which --help does not need
    from sk_stormc.plotting import EmbeddingDisplay

    labels = tables[0].labels
    return {
        name: EmbeddingDisplay(
            positions,
            y=labels.get(name),
            new=placed,
            y_new=None if placed is None else tables[1].labels.get(name),
            y_label=name if len(labels) > 1 else "",
        )
        for name in labels or [""]
    }


def _page(positions, placed, tables, args, save=True):
    """Save a page. It has the name or the number of the row of each point, and its
    columns if there are few."""
    from sk_stormc.plotting.interactive import html_page, interactive_figure

    rows = [
        np.arange(len(points.X)) + 1 if points.rows is None else points.rows
        for points in tables
    ]
    hover, names = {"row": np.concatenate(rows)}, tables[0].names
    for k, name in enumerate(names if len(names) <= HOVER else ()):
        values = [
            points.X[:, k]
            if isinstance(points.X, np.ndarray)
            else points.X[name].to_numpy(object)
            for points in tables
        ]
        hover[name] = np.concatenate(values)
    displays = _displays(positions, placed, tables)
    if not save:
        for display in displays.values():
            interactive_figure(display, hover)
        return
    page = html_page(displays, hover)
    with atomically(args.out) as file:
        file.write(f"{page}<!-- {SIGNATURE} -->\n".encode())


def _pictures(positions, placed, tables, args, save=True):
    """Save a picture for each label, and return their paths."""
    from sk_stormc.plotting._style import unmanaged_figure

    displays, paths = _displays(positions, placed, tables), []
    for name, display in displays.items():
        figure = unmanaged_figure(*args.size)
        display.plot(figure.add_subplot())
        several = f"{args.out.stem}_{name}{args.out.suffix}"
        paths.append(args.out if len(displays) == 1 else args.out.with_name(several))
        if save:
            save_figure(figure, paths[-1])
        else:
            check_replaceable(paths[-1], args.force)
    return paths
