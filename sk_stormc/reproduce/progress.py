"""A progress line for commands."""

import sys
from contextlib import contextmanager


@contextmanager
def progress_line():
    """A progress line on stderr for the duration of the block, rewritten in place on a terminal."""
    stream, width = sys.stderr, 0
    terminal = stream.isatty()

    def show(text, fraction):
        nonlocal width
        line = f"{100 * fraction:3.0f} %  {text}"
        stream.write(f"\r{line:<{width}}" if terminal else f"{line}\n")
        stream.flush()
        width = len(line)

    try:
        yield show
    finally:
        if terminal:
            stream.write(f"\r{'':<{width}}\r")
            stream.flush()
