"""Pieces of work that are kept as files: an interrupted report goes on where it was."""

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sk_stormc.utils.atomic import atomically

__all__ = ["Piece", "Store"]

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Piece:
    """A part of the report that is computed as a whole.

    Attributes
    ----------
    name : str
        Such as "portfolio/published/condition number 4/scgd".
    seconds : float
        About how long it takes, for the progress bar.
    run : callable
        ``run(show)`` computes it: a dict of numbers, texts, lists and dicts. It calls ``show(fraction)`` as it goes.
    """

    name: str
    seconds: float
    run: Callable


class Store:
    """The finished pieces of one set of settings, a JSON file each, in a folder named after the settings.

    Parameters
    ----------
    root : path-like
        Folder of all settings' folders; made if it does not exist.
    settings : dict
        All that the pieces depend on, the version of the package included. Other settings have another folder, so that
        nothing is ever mixed, and nothing is lost.
    """

    def __init__(self, root, settings):
        self.root = Path(root)
        self.settings = json.loads(json.dumps(settings, default=repr))  # as they are read back
        text = json.dumps(self.settings, sort_keys=True)
        self.folder = self.root / hashlib.sha256(text.encode()).hexdigest()[:12]
        self.changes = [] if self.folder.is_dir() else self._changes()
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self.folder / SETTINGS, self.settings)

    def _changes(self):
        """Names of the settings that differ from those of the last results here; none where there are no results."""
        others = sorted(self.root.glob(f"*/{SETTINGS}"), key=lambda path: path.stat().st_mtime)
        before = _read(others[-1]) if others else None
        if before is None:
            return []
        old, new = dict(_flat(before)), dict(_flat(self.settings))
        return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))

    def path(self, name):
        """Where the piece of that name is kept."""
        return self.folder / (re.sub(r"[^\w.-]+", "_", name.replace("/", "--")) + ".json")

    def find(self, name):
        """What was kept of a piece, or None."""
        found = _read(self.path(name))
        return found if isinstance(found, dict) and found.get("name") == name else None

    def run(self, pieces, progress=None):
        """Compute the pieces that are not there yet, in order, and return all."""
        found = {piece.name: self.find(piece.name) for piece in pieces}
        total = sum(piece.seconds for piece in pieces)
        done = sum(piece.seconds for piece in pieces if found[piece.name] is not None)
        began, before = time.monotonic(), done
        for piece in pieces:
            if found[piece.name] is not None:
                continue

            def show(fraction, piece=piece, done=done):
                if progress is None:
                    return
                here = done + piece.seconds * min(max(fraction, 0.0), 1.0)
                passed, work = time.monotonic() - began, here - before
                # at first the estimates are believed, later the clock
                pace = (passed + 10.0) / (work + 10.0)
                progress(piece.name.replace("/", ", "), here / total, (total - here) * pace)

            show(0.0)
            start = time.process_time()
            kept = {"name": piece.name, "result": piece.run(show), "seconds": time.process_time() - start}
            _write(self.path(piece.name), kept)
            found[piece.name] = self.find(piece.name)
            done += piece.seconds
        return found


def _flat(tree, name=""):
    """(dotted name, value) of all leaves."""
    for key, value in tree.items():
        here = f"{name}.{key}" if name else key
        if isinstance(value, dict):
            yield from _flat(value, here)
        else:
            yield here, value


def _read(path):
    """What a JSON file holds; None where there is none, or a broken one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _write(path, content):
    """Write a JSON file, whole or not at all."""
    with atomically(path) as file:
        file.write(json.dumps(content).encode())
