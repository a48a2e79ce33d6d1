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
    scaler = TableScaler() if args.mixed else StandardScaler()
    X = scaler.fit_transform(data.X) if args.mixed or args.standardize else data.X
    if args.mixed:
        _note_left_out(data, scaler.left_out_)
    data.reading.show(args.check)
    if args.check:
        return
    new = None
    if args.new is not None:
        new = read_points(args.new, args.mixed, data.names, args)
        print(f"{args.new}: {len(new.X)} new points", flush=True)
    if kind_of_result(args.out) in (*PICTURES, ".html"):
        try:  # before the fit, which can take long
            anywhere = np.random.default_rng(0).normal(size=(len(data.X), 2))
            placed = None if new is None else np.zeros((len(new.X), 2))
            _draw(anywhere, data, placed, new, args, save=False)
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
        scaled = args.mixed or args.standardize
        placed = embedding.transform(scaler.transform(new.X) if scaled else new.X)
    seconds = time.perf_counter() - began
    written = _save(embedding.embedding_, data, placed, new, args)
    print(
        f"\ndivergence {embedding.kl_divergence_:.4g}, perplexity "
        f"{embedding.perplexity_:g}, {seconds:.1f} seconds"
    )
    _print_islands(embedding.embedding_, data)
    print(f"Map written to {', '.join(map(str, written))}")


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


def _note_left_out(data, left_out):
    """Note the columns of a table that TableScaler does not use."""
    for name, reason in left_out.items():
        data.reading.leave_out([name], reason)
    used = data.reading.used
    used["points"] = [name for name in used["points"] if name not in left_out]


def _save(positions, data, placed, new, args):
    """Save the map, and return the paths of its files."""
    kind = kind_of_result(args.out)
    if kind == ".csv":
        _write(positions, data, placed, new, args.out)
    elif kind == CELLS:
        _write_cells(positions, args)
    else:
        return _draw(positions, data, placed, new, args)
    return [args.out]


def _write_cells(positions, args):
    """Write the cells of --data with the positions as obsm["X_tsne"]."""
    from anndata import read_h5ad

    cells = read_h5ad(args.data)
    cells.obsm["X_tsne"], cells.uns["written by"] = positions, SIGNATURE
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "cells.h5ad"
        cells.write_h5ad(whole)
        with atomically(args.out) as file, open(whole, "rb") as source:
            shutil.copyfileobj(source, file)


def _write(positions, data, placed, new, path):
    """Write a table of the positions, with a column of the labels, one that is 1 for
    new points, and one of the names of the rows."""
    tables = [data] if new is None else [data, new]
    Z = positions if new is None else np.vstack([positions, placed])
    columns = {"x": Z[:, 0].tolist(), "y": Z[:, 1].tolist()}
    for k, name in enumerate(data.labels):
        columns["label" if not k else name] = _column(tables, name)
    if new is not None:
        columns["new"] = [0] * len(positions) + [1] * len(placed)
    if any(points.rows is not None for points in tables):
        columns["row"] = _column(tables)
    write_csv(path, columns, zip(*columns.values(), strict=True))


def _column(tables, label=None):
    """The labels, or the names of the rows, of all points, or "" where there are
    none."""
    cells = []
    for points in tables:
        values = points.labels.get(label) if label else points.rows
        values = np.full(len(points.X), "") if values is None else values
        is_date = values.dtype.kind in "mM"
        cells += (values.astype(str) if is_date else values).tolist()
    return cells


def _draw(positions, data, placed, new, args, save=True):
    """Draw the map for each label, and save pictures or a page. Return their paths."""
    # imports matplotlib, which --help does not need
    from sk_stormc.plotting import EmbeddingDisplay
    from sk_stormc.plotting._style import unmanaged_figure
    from sk_stormc.plotting.interactive import html_page, interactive_figure

    displays = {
        name: EmbeddingDisplay(
            positions,
            y=data.labels.get(name),
            new=placed,
            y_new=None if new is None else new.labels.get(name),
            y_label=name if len(data.labels) > 1 else "",
        )
        for name in data.labels or [""]
    }
    if kind_of_result(args.out) == ".html":
        hover = _hover(data, new)
        if not save:
            for display in displays.values():
                interactive_figure(display, hover)
            return []
        page = html_page(displays, hover)
        with atomically(args.out) as file:
            file.write(f"{page}<!-- {SIGNATURE} -->\n".encode())
        return [args.out]
    paths = []
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
