"""Readers of points in the user's files, with their labels."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.cli.array_files import (
    ARRAYS,
    read_matrix,
    refuse_columns,
)
from sk_stormc.cli.data_files import (
    CELLS,
    FRAMES,
    SEPARATORS,
    Reading,
    existing,
    few,
    readable,
)
from sk_stormc.cli.table_files import (
    DEFAULTS,
    check_column,
    identifiers,
    numbers,
    read_table,
    refuse_missing,
    total_row,
    without,
)
from sk_stormc.utils.validation import short

LABELS = ("label", "labels")
OFFERED = ("cell_type", "class", "cluster", "species", "target")  # may be labels
ANY_TYPE = (
    "sk-stormc map --mixed reads tables with columns of any type and missing values"
)


@dataclass
class Points:
    """Points, as an array or a DataFrame, the labels by their names, the names of the
    columns, the labels of the rows or None, and what was read."""

    X: Any
    labels: dict
    names: list
    rows: np.ndarray | None
    reading: Reading

    @property
    def label(self):
        """The first labels, or None."""
        return next(iter(self.labels.values()), None)


def read_points(path, mixed=False, names=None, options=DEFAULTS):
    """Read points: an array X and optionally y, or a table of columns of numbers and
    optionally a "label".

    Parameters
    ----------
    path : path-like
    mixed : bool
        Whether columns of a table may have any type and missing values. X is then a
        DataFrame.
    names : list, default=None
        The columns to read. None means all, except the labels and identifiers.
    options : Namespace
        How a table is read.
    """
    tables = (*SEPARATORS, *FRAMES)
    path = existing(path, tables if mixed else (*ARRAYS, CELLS, *tables))
    if path.kind != CELLS and (options.obsm or options.layer):
        raise ValueError(f"{path}: --obsm and --layer need a {CELLS} file")
    if path.kind in ARRAYS:
        points = _points_of_arrays(path, names, options)
    else:
        points = _points_of_table(path, names, options, mixed)
    reading = points.reading
    if not mixed:
        missing = ~np.isfinite(points.X)
        if missing.any():
            refuse_missing(
                path,
                missing,
                points.names,
                "row",
                "leave such rows out, fill in their numbers, or leave such columns "
                f"out by --drop; {ANY_TYPE}",
            )
        if (word := total_row(points.X)) is not None:
            reading.notes.append(
                f"the last row has the {word} of the others, --drop-last 1 leaves it "
                "out"
            )
    if names is None and len(points.X) < 10:
        raise ValueError(
            f"{path}: expected at least 10 points, found shape {points.X.shape}"
        )
    labelled = "labels" if points.labels else "no labels"
    reading.what = f"{len(points.X)} points, {len(points.names)} columns, {labelled}"
    return points


def _points_of_arrays(path, names, options):
    """The points of a .npz or .npy file."""
    refuse_columns(path, options)
    _, X, labels = read_matrix(path, ("X",), "y")
    columns = [str(k + 1) for k in range(X.shape[1])]
    if names not in (None, columns):
        raise ValueError(
            f"{path}: expected the columns {short(names)}, found an array of "
            f"{len(columns)} columns"
        )
    reading = Reading(path, len(X), columns, used={"points": columns})
    if labels is not None:
        reading.used["labels"] = ["y"]
    return Points(X, {} if labels is None else {"y": labels}, columns, None, reading)


def _points_of_table(path, names, options, mixed):
    """The points of a table, with these columns, or all but identifiers for None."""
    is_table = path.kind != CELLS
    chosen = names_of(options.label)
    if is_table:
        texts = (*LABELS, *map(str.lower, chosen))
        frame, reading = read_table(path, options, texts)
        about = frame  # has the labels and the names of the rows
    else:
        frame, about, genes, reading = read_cells(path, options)
    every, rows = frame, None
    found = [name for name in about.columns if name.lower() in LABELS][:1]
    for option, columns in (("--index", [options.index]), ("--label", chosen)):
        for name in columns if names is None else ():
            # the colours may be those of a gene
            if name is not None and (is_table or name not in genes):
                check_column(path, about, name, option)
    labels = {
        name: _labels(about[name] if name in about.columns else genes[name])
        for name in chosen or found
        if name in about.columns or (not is_table and name in genes)
    }
    used = {"points": []} | ({"labels": list(labels)} if labels else {})
    if options.index in about.columns:
        rows = about[options.index].astype(str).to_numpy()
        used["names of the rows"] = [options.index]
    elif not is_table:
        rows = about.index.astype(str).to_numpy()
    if is_table:
        taken = [*labels, *[options.index] * (options.index is not None)]
        about = frame = frame.drop(columns=taken, errors="ignore")
    if names is None:
        if not labels:
            reading.notes += _offers(about, options)
        frame = without(path, frame, options.drop)
        reading.leave_out(list(options.drop), "--drop")
        differ = identifiers(frame) if is_table and not options.keep else []
        if 0 < len(differ) < frame.shape[1]:
            if rows is None and (named := [k for k in differ if frame[k].dtype == "O"]):
                # a result then says which of its rows is which
                rows = frame[named[0]].astype(str).to_numpy()
                used["names of the rows"] = named[:1]
                differ.remove(named[0])
                frame = frame.drop(columns=named[:1])
            frame = frame.drop(columns=differ)
            reading.leave_out(differ, "all values differ, --keep keeps them")
        names = list(frame.columns)
    else:
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            raise ValueError(
                f"{path}: expected the columns {short(names)}, found no column "
                f"{lacking[0]!r}"
            )
        others = [name for name in frame.columns if name not in names]
        reading.leave_out(others, "not in --data")
        frame = frame[names]
    X = frame if mixed else numbers(path, frame, lambda name: _remedy(every, name))
    reading.used = used | {"points": names}
    return Points(X, labels, names, rows, reading)


def names_of(label):
    """The names of --label, of which there may be several."""
    return [] if label is None else [label] if isinstance(label, str) else list(label)


def _remedy(frame, name):
    """What to do with a column of other values than numbers."""
    label = "" if frame[name].is_unique else f"--label {name} takes it as labels, "
    return f"; {label}--drop {name} leaves it out, and {ANY_TYPE}"


def _offers(frame, options):
    """Notes on columns that may be labels by their names, and are not taken as such."""
    return [
        f"column {name!r} is not taken as labels: --label {name} takes it as such"
        for name in frame.columns
        if name.lower() in OFFERED and name not in options.drop
    ]


def read_cells(path, options):
    """The matrix of an AnnData file that is mapped, its observations, its genes, and
    what was read.

    The matrix is that of --obsm or --layer, or else obsm["X_pca"], as scanpy has it, or
    X.
    """
    with readable(path, CELLS):
        from anndata import read_h5ad

        data = read_h5ad(path.path)
    genes = data.to_df()
    key = options.obsm or (None if options.layer else "X_pca")
    if key in data.obsm:
        values = np.asarray(data.obsm[key])
        frame = genes.iloc[:, :0].assign(
            **{f"{key}[{k}]": values[:, k] for k in range(values.shape[1])}
        )
        chosen = f"obsm {key!r}"
    elif options.obsm:
        raise ValueError(
            f"{path}: --obsm must be one of {short(list(data.obsm))}, got {key!r}"
        )
    elif options.layer not in (None, "X"):
        if options.layer not in data.layers:
            raise ValueError(
                f"{path}: --layer must be one of {short(list(data.layers))}, got "
                f"{options.layer!r}"
            )
        frame, chosen = data.to_df(layer=options.layer), f"layer {options.layer!r}"
    else:
        frame, chosen = genes, "X"
    others = [f"--obsm {name}" for name in data.obsm if f"obsm {name!r}" != chosen]
    others += [f"--layer {name}" for name in data.layers]
    reading = Reading(path, len(data), list(frame.columns), [f"matrix {chosen}"])
    if others:
        reading.notes.append(f"other matrices: {few(others)}")
    values = frame.to_numpy()
    if chosen == "X" and (values >= 0).all() and (values % 1 == 0).all():
        reading.notes.append(
            "X has whole numbers, as raw counts are: normalise them, take log1p and "
            "principal components first, as scanpy does"
        )
    return frame, data.obs, genes, reading


def _labels(texts):
    """Labels of points as numbers, if all are numbers, and none is a code such as
    01."""
    from pandas import to_numeric

    with suppress(ValueError, TypeError, AttributeError):
        if not texts.str.fullmatch(r"\s*[+-]?0\d.*", na=False).any():
            return to_numeric(texts).to_numpy()
    return np.asarray(texts)
