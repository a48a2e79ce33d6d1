"""A line on stderr that says what is running: rich's where it is installed, else a plain one."""

import sys
import time
from contextlib import contextmanager

__all__ = ["progress_line", "time_left"]

INTERVAL = 0.1  # seconds between two updates of the plain line


@contextmanager
def progress_line():
    """A line on stderr for as long as the block lasts.

    On a terminal the line is rewritten in place; elsewhere each new text gets a line of its own.
    """
    bar = _rich_bar() if sys.stderr.isatty() else None
    if bar is None:
        yield from _plain_line(sys.stderr)
        return
    with bar:
        task = bar.add_task("", total=1.0, left="")
        yield lambda text, fraction, left=None: bar.update(
            task, description=text, completed=fraction, left=time_left(left)
        )


def time_left(seconds):
    """Seconds that are left in words, "" where they are not known."""
    if seconds is None:
        return ""
    return f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"


def _rich_bar():
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _plain_line(stream):
    terminal, shown, at, width = stream.isatty(), None, 0.0, 0

    def show(text, fraction, left=None):
        nonlocal shown, at, width
        now = time.monotonic()
        if text == shown and not (terminal and now >= at + INTERVAL):
            return
        line = "  ".join(filter(None, [f"{100 * fraction:3.0f} %", time_left(left), text]))
        stream.write(f"\r{line:<{width}}" if terminal else f"{line}\n")
        stream.flush()
        shown, at, width = text, now, len(line)

    try:
        yield show
    finally:
        if terminal:
            stream.write(f"\r{'':<{width}}\r")
            stream.flush()
