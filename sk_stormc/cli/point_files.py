"""Readers of points in the user's files, with their labels."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sk_stormc.cli.array_files import (
    ARRAYS,
    read_matrix,
    refuse_columns,
)
from sk_stormc.cli.table_files import (
    CELLS,
    DEFAULTS,
    FRAMES,
    SEPARATORS,
    check_column,
    existing,
    identifiers,
    numbers,
    read_table,
    readable,
    refuse_missing,
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
    """Points, as an array or a DataFrame, their labels or None, the names of their
    columns, the labels of their rows or None, and notes on what was read."""

    X: Any
    labels: np.ndarray | None
    names: list
    rows: np.ndarray | None = None
    notes: list = field(default_factory=list)


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
    if path.kind in ARRAYS:
        refuse_columns(path, options)
        _, X, labels = read_matrix(path, ("X",), "y")
        points = Points(X, labels, [str(k + 1) for k in range(X.shape[1])])
        if names not in (None, points.names):
            raise ValueError(
                f"{path}: expected the columns {short(names)}, found an array of "
                f"{len(points.names)} columns"
            )
    else:
        points = _points_of_table(path, names, options, mixed)
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
    if names is None and len(points.X) < 10:
        raise ValueError(
            f"{path}: expected at least 10 points, found shape {points.X.shape}"
        )
    return points


def _points_of_table(path, names, options, mixed):
    """The points of a table, with these columns, or all but identifiers for None."""
    is_table = path.kind != CELLS
    if is_table:
        texts = (*LABELS, (options.label or "label").lower())
        frame, notes = read_table(path, options, texts)
        about = frame  # has the labels and the names of the rows
    else:
        frame, about, notes = _cells(path)
    every, labels, rows, notes = frame, None, None, list(notes)
    label = options.label or next(
        (name for name in about.columns if name.lower() in LABELS), None
    )
    if names is None:
        for option, name in (("--index", options.index), ("--label", options.label)):
            if name is not None:
                check_column(path, about, name, option)
    if label in about.columns:
        labels = _labels(about[label])
    if options.index in about.columns:
        rows = about[options.index].astype(str).to_numpy()
    elif not is_table:
        rows = about.index.astype(str).to_numpy()
    if is_table:
        about = frame = frame.drop(columns=[label, options.index], errors="ignore")
    if names is None:
        if labels is None:
            notes += _offers(about, options)
        frame = without(path, frame, options.drop)
        left_out = identifiers(frame) if is_table and not options.keep else []
        if 0 < len(left_out) < frame.shape[1]:
            frame = frame.drop(columns=left_out)
            notes.append(
                f"left out: {', '.join(left_out)}, as identifiers, since all values "
                "differ; --keep keeps them"
            )
        names = list(frame.columns)
    else:
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            raise ValueError(
                f"{path}: expected the columns {short(names)}, found no column "
                f"{lacking[0]!r}"
            )
        frame = frame[names]
    X = frame if mixed else numbers(path, frame, lambda name: _remedy(every, name))
    return Points(X, labels, names, rows, notes)


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


def _cells(path):
    """X of an AnnData file, its observations, and no notes."""
    with readable(path, CELLS):
        from anndata import read_h5ad

        data = read_h5ad(path.path)
        return data.to_df(), data.obs, ()


def _labels(texts):
    """Labels of points as numbers, if all are numbers, and none is a code such as
    01."""
    from pandas import to_numeric

    with suppress(ValueError, TypeError, AttributeError):
        if not texts.str.fullmatch(r"\s*[+-]?0\d.*", na=False).any():
            return to_numeric(texts).to_numpy()
    return np.asarray(texts)
