"""Readers of points in the user's files, with their labels."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.cli.array_files import read_matrix
from sk_stormc.cli.data_files import (
    ARRAYS,
    CELLS,
    DEFAULTS,
    TABLES,
    Reading,
    existing,
    few,
    readable,
)
from sk_stormc.cli.table_files import (
    are_dates,
    note_total_row,
    numbers,
    read_table,
    refuse_missing,
)
from sk_stormc.utils.parameters import short

LABELS = ("label", "labels")
OFFERED = ("cell_type", "class", "cluster", "species", "target")  # may be labels
ANY_TYPE = (
    "sk-stormc map --mixed reads tables with columns of any type and missing values"
)


@dataclass
class Points:
    """Points, as an array or a DataFrame, what was read, the labels by their names, and
    the names of the rows or None."""

    X: Any
    reading: Reading
    labels: dict
    rows: np.ndarray | None = None

    @property
    def names(self):
        """The names of the columns."""
        return list(getattr(self.X, "columns", self.reading.used["points"]))

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
    kinds = TABLES if mixed else (*ARRAYS, CELLS, *TABLES)
    path = existing(path, kinds, options)
    if path.kind in ARRAYS:
        points = _points_of_arrays(path, names)
    else:
        points = _points_of_table(path, names, options, mixed)
    reading, X = points.reading, points.X
    if mixed:
        note_total_row(reading, X.select_dtypes("number").to_numpy(float))
    else:
        missing = ~np.isfinite(X)
        if missing.any():
            remedy = (
                "leave such rows out, fill in their numbers, or leave such columns "
                f"out by --drop; {ANY_TYPE}"
            )
            refuse_missing(path, missing, points.names, "row", remedy)
        note_total_row(reading, X)
    if names is None and len(X) < 10:
        raise ValueError(f"{path}: expected at least 10 points, found shape {X.shape}")
    labelled = ", no labels" * (not points.labels)
    reading.what = f"{len(X)} points, {len(points.names)} columns{labelled}"
    return points


def _points_of_arrays(path, names):
    """The points of a .npz or .npy file."""
    _, X, labels = read_matrix(path, ("X",), "y")
    columns = [str(k + 1) for k in range(X.shape[1])]
    if names not in (None, columns):
        raise ValueError(
            f"{path}: expected the columns {short(names)}, found an array of "
            f"{len(columns)} columns"
        )
    reading = Reading(path, len(X), columns, used={"points": columns})
    if labels is None:
        return Points(X, reading, {})
    reading.used["labels"] = ["y"]
    return Points(X, reading, {"y": labels})


def _is_text(column):
    """Whether a column is of objects or, as in pandas 3, of strings."""
    from pandas.api.types import is_object_dtype, is_string_dtype

    return is_object_dtype(column) or is_string_dtype(column)


def _points_of_table(path, names, options, mixed):
    """The points of a table, with these columns, or all but identifiers for None."""
    chosen, index = options.label or [], options.index
    if path.kind == CELLS:
        frame, about, reading = read_cells(path, options, chosen)
        rows = about.index.astype(str).to_numpy()
    else:
        texts = (*LABELS, *map(str.lower, chosen))
        frame, reading = read_table(path, options, texts)
        about, rows = frame, None  # which has the labels and the names of the rows
    every = frame
    chosen = chosen or [name for name in about.columns if name.lower() in LABELS][:1]
    if names is not None:  # of further points, which may have no labels
        chosen = [name for name in chosen if name in about.columns]
        index = index if index in about.columns else None
    reading.used["points"] = []
    labels = reading.take("labels", chosen, "--label", about) if chosen else about[[]]
    if index is not None:
        column = reading.take("names of the rows", [index], "--index", about)[index]
        rows = column.astype(str).to_numpy()
    if path.kind != CELLS:
        about = frame = frame.drop(columns=[*chosen, index], errors="ignore")
    if names is not None:
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            raise ValueError(
                f"{path}: expected the columns {short(names)}, found no column "
                f"{lacking[0]!r}"
            )
        others = [name for name in frame.columns if name not in names]
        reading.leave_out(others, "not in --data")
        frame = frame[names]
    else:
        if not chosen:
            reading.notes += [
                f"column {name!r} is not taken as labels: --label {name} takes it as "
                "such"
                for name in about.columns
                if name.lower() in OFFERED and name not in options.drop
            ]
        frame = reading.drop(options.drop, frame)
        kinds = {every[k].dtype.kind for k in options.drop if not every[k].is_unique}
        if not mixed and kinds.difference("iufb"):
            reading.notes.append(f"{ANY_TYPE}, in place of --drop")
        differ = _identifiers(frame) if path.kind != CELLS and not options.keep else []
        if 0 < len(differ) < frame.shape[1]:
            named = [name for name in differ if _is_text(frame[name])][:1]
            if rows is None and named:
                # a result then says which of its rows is which
                rows = frame[named[0]].astype(str).to_numpy()
                reading.used["names of the rows"] = named
                differ.remove(named[0])
                frame = frame.drop(columns=named)
            reading.leave_out(differ, "all values differ, --keep keeps them")
            frame = frame.drop(columns=differ)

    def remedy(name):
        label = "" if every[name].is_unique else f"--label {name} takes it as labels, "
        return f"; {label}--drop {name} leaves it out, and {ANY_TYPE}"

    X = frame if mixed else numbers(path, frame, remedy)
    reading.used["points"] = list(frame.columns)
    labels = {name: _labels(column) for name, column in labels.items()}
    return Points(X, reading, labels, rows)


def _identifiers(frame):
    """The columns of whole numbers or of texts all of which differ, as row numbers and
    names do. Dates, and texts of numbers, are no identifiers."""
    from pandas import to_numeric

    def identifies(column):
        text = column.dtype.kind == "O" and not are_dates(column)
        if text:
            text = to_numeric(column, errors="coerce").isna().any()
        return (text or column.dtype.kind in "iu") and column.is_unique

    return [name for name, column in frame.items() if identifies(column)]


def read_cells(path, options, chosen):
    """The matrix of an AnnData file that is mapped, its observations, with those of the
    chosen columns that are genes, and what was read.

    The matrix is that of --obsm or --layer, or else obsm["X_pca"], as scanpy has it, or
    X.
    """
    with readable(path, CELLS):
        from anndata import read_h5ad

        data = read_h5ad(path.path)
    genes = data.to_df()
    key, layer = options.obsm, options.layer
    for name, option, known in (
        (key, "--obsm", list(data.obsm)),
        (layer, "--layer", ["X", *data.layers]),
    ):
        if name is not None and name not in known:
            raise ValueError(
                f"{path}: {option} must be one of {short(known)}, got {name!r}"
            )
    if key is None and layer is None and "X_pca" in data.obsm:
        key = "X_pca"
    if key is not None:
        values = np.asarray(data.obsm[key])
        columns = {f"{key}[{k}]": values[:, k] for k in range(values.shape[1])}
        frame, used = genes.iloc[:, :0].assign(**columns), f"obsm {key!r}"
    elif layer not in (None, "X"):
        frame, used = data.to_df(layer=layer), f"layer {layer!r}"
    else:
        frame, used = genes, "X"
    reading = Reading(path, len(data), list(frame.columns), [f"matrix {used}"])
    others = [f"--obsm {name}" for name in data.obsm if name != key]
    others += [f"--layer {name}" for name in data.layers]
    if others:
        reading.notes.append(f"other matrices: {few(others)}")
    values = frame.to_numpy()
    if used == "X" and (values >= 0).all() and (values % 1 == 0).all():
        reading.notes.append(
            "X has whole numbers, as raw counts are: normalise them, take log1p and "
            "principal components first, as scanpy does"
        )
    of_genes = [name for name in chosen if name in genes and name not in data.obs]
    return frame, data.obs.join(genes[of_genes]), reading


def _labels(texts):
    """Labels of points as numbers, if all are numbers, and none is a code such as
    01."""
    from pandas import to_numeric

    with suppress(ValueError, TypeError, AttributeError):
        if not texts.str.fullmatch(r"\s*[+-]?0\d.*", na=False).any():
            return to_numeric(texts).to_numpy()
    return np.asarray(texts)
