"""The files of users, and what was read from them."""

import io
import os
import sys
from argparse import Namespace
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sk_stormc.utils.atomic import descriptor, is_stream
from sk_stormc.utils.machine import machine_memory
from sk_stormc.utils.parameters import short

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
SHEETS = (".xlsx", ".xls")
FRAMES = (".parquet", ".feather", *SHEETS)
TABLES = (*SEPARATORS, *FRAMES)
ARRAYS = (".npz", ".npy")
CELLS = ".h5ad"
SEVERAL = "several files"
PACKAGES = {
    ".parquet": "pyarrow",
    ".feather": "pyarrow",
    ".xlsx": "openpyxl",
    ".xls": "xlrd",
    CELLS: "anndata",
}
SHOWN = 8  # most names of a list

# options of commands that say how a file is read
DEFAULTS = Namespace(
    sep=None,
    decimal=None,
    index=None,
    label=None,
    drop=(),
    keep=False,
    sheet=None,
    skip_rows=0,
    drop_last=0,
    obsm=None,
    layer=None,
    prices=False,
    long=None,
    benchmark=None,
)
# the kinds of files about which an option says something
MEANT_FOR = (
    dict.fromkeys(("index", "keep", "drop_last", "decimal", "long"), TABLES)
    | dict.fromkeys(("obsm", "layer"), (CELLS,))
    | dict.fromkeys(("prices", "benchmark"), (*TABLES, *ARRAYS))
    | {"sep": (*SEPARATORS,), "skip_rows": (*SEPARATORS, *SHEETS), "sheet": SHEETS}
    | {"label": (*TABLES, CELLS), "drop": (*TABLES, CELLS, SEVERAL)}
)


@dataclass(frozen=True)
class DataFile:
    """A file of the user: its name, as messages have it, its kind, its path, and the
    bytes of a stream, which can be read only once."""

    name: str
    kind: str
    path: Path
    content: bytes | None = None

    def __str__(self):
        return self.name

    def source(self):
        """What a reader of another package opens."""
        return self.path if self.content is None else io.BytesIO(self.content)

    def check_fits(self, factor):
        """Raise a MemoryError if so many bytes for each one of the content, which for a
        compressed text is known modulo 4 GB, cannot be kept in memory."""
        if self.content is not None:
            size = len(self.content)
        elif self.compression is None:
            size = self.path.stat().st_size
        else:
            with open(self.path, "rb") as file:
                file.seek(-4, os.SEEK_END)
                size = int.from_bytes(file.read(4), "little")
        needed, there = factor * size, machine_memory()
        if needed > there:
            raise MemoryError(
                f"it needs {needed / 2**30:.1f} GB of {there / 2**30:.1f} GB"
            )

    @property
    def compression(self):
        """The compression of a text."""
        return "gzip" if self.path.suffix.lower() == ".gz" else None


@dataclass
class Reading:
    """What was read from a file: its columns by their use, and those that are left out
    by the reason.

    ``form`` says how the file was read, ``what`` what it holds, ``facts`` the unit and
    the dates, and ``notes`` what the user may want to change. ``head`` has the first
    rows. ``percents`` are the columns with percent signs.
    """

    file: Any
    rows: Any = 0
    columns: list = field(default_factory=list)
    form: list = field(default_factory=list)
    what: str = ""
    used: dict = field(default_factory=dict)
    left_out: dict = field(default_factory=dict)
    facts: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    head: Any = None
    percents: list = field(default_factory=list)

    def take(self, use, names, option, frame):
        """The columns of a frame that an option names, whose use is noted."""
        self.check(names, option, frame)
        self.used[use] = list(names)
        return frame[self.used[use]]

    def leave_out(self, names, reason):
        """Note the reason for which columns are not used."""
        if len(names):
            self.left_out.setdefault(reason, []).extend(names)

    def drop(self, names, frame):
        """A frame without the columns that --drop names."""
        self.check(names, "--drop", frame)
        self.leave_out(names, "--drop")
        return frame.drop(columns=list(names))

    def check(self, names, option, frame):
        """Raise a ValueError if an option names a column that a frame does not have."""
        for name in names:
            if name not in frame.columns:
                raise ValueError(
                    f"{self.file}: {option} must name a column, got {name!r}, expected "
                    f"one of {short(list(frame.columns))}"
                )

    def lines(self):
        """What was read, in at most six lines."""
        shape = f"{self.rows} rows x {len(self.columns)} columns"
        lines = [", ".join([f"{self.file}: {shape}", *self.form])]
        # the first use is that of ``what``
        main, *others = ((use, few(names)) for use, names in self.used.items())
        used = [main[1], *(f"{use}: {names}" for use, names in others)]
        lines.append(f"{self.what}: {'; '.join(used)}")
        reasons = [
            f"{few(names)} ({reason})" for reason, names in self.left_out.items()
        ]
        lines += [f"left out: {'; '.join(reasons)}"] * bool(reasons)
        lines += [", ".join(self.facts)] * bool(self.facts)
        lines += [f"note: {'; '.join(self.notes)}"] * bool(self.notes)
        return lines

    def show(self, check=False):
        """Print what was read, and the first rows with ``check``."""
        lines = self.lines()
        if check and self.head is not None:
            lines += ["", self.head.to_string(max_cols=SHOWN, index=False)]
        print(*lines, sep="\n", flush=True)


def few(names):
    """The first names of a list, and their number if there are more."""
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown + f", ... ({len(names)} in all)" * (len(names) > SHOWN)


def kind_of(path):
    """The suffix of a file in lower case, without the .gz of a compressed text."""
    *_, last = suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    if last == ".gz" and suffixes[-2:][0] in SEPARATORS:
        return suffixes[-2]
    return last


def check_options(name, kind, options):
    """Raise a ValueError for an option that says nothing about this kind of file."""
    for option, kinds in MEANT_FOR.items():
        if getattr(options, option) and kind not in kinds:
            raise ValueError(
                f"{name}: --{option.replace('_', '-')} says nothing about {kind}, but "
                f"about {', '.join(kinds)}"
            )


def existing(name, kinds, options=DEFAULTS):
    """A file, which must exist and be of one of these kinds, about which the options
    say something.

    A stream, such as a named pipe or - for stdin, has a .csv table if it has no suffix.
    """
    path, name = Path("/dev/stdin" if str(name) == "-" else name), str(name)
    stream = is_stream(path)
    kind = kind_of(path) or ".csv" * stream
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a directory: expected a file")
    if kind not in kinds:
        raise ValueError(
            f"{name}: expected a file named {', '.join(kinds[:-1])} or {kinds[-1]}, "
            f"or {', '.join(f'{kind}.gz' for kind in SEPARATORS)}"
        )
    check_options(name, kind, options)
    if descriptor(path) == 0:
        return DataFile(name, kind, path, sys.stdin.buffer.read())
    if not path.exists():
        raise FileNotFoundError(
            f"No such file: {name}. A path begins where the command is run, or with /"
        )
    if stream:
        return DataFile(name, kind, path, path.read_bytes())
    return DataFile(name, kind, path)


@contextmanager
def readable(path, kind):
    """Whatever the packages that read a file raise becomes a ValueError with the path,
    which names the package if it is missing."""
    try:
        yield
    except MemoryError as error:
        raise ValueError(
            f"{path}: expected a table that fits in memory ({error or 'none is left'})"
        ) from error
    except Exception as error:
        reason = f"pandas cannot read it ({' '.join(str(error).split())})"
        if isinstance(error, ImportError) and kind in PACKAGES:
            reason = (
                f'{kind} files need {PACKAGES[kind]}: pip install "sk_stormc[files]"'
            )
        raise ValueError(f"{path}: {reason}") from error
