"""Changed code in functions that are already there, so that a changed file need not be imported again."""

import gc
import inspect
from types import CodeType, FunctionType

__all__ = ["Swap", "functions_in"]


class Swap:
    """The functions of a file that a change of its text changes.

    Parameters
    ----------
    path : str
        Of the file, as its functions have it.
    before, after : str
        Its texts.

    Attributes
    ----------
    pairs : list of tuple of code
        The code of each changed function, before and after; methods are functions, inner functions belong to the outer.
    possible : bool
        Whether nothing else changes: no constant of the module, no default and no field of a class.
    """

    def __init__(self, path, before, after):
        old, old_rest = split(compile(before, path, "exec"))
        new, new_rest = split(compile(after, path, "exec"))
        self.pairs = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
        closures = all(a.co_freevars == b.co_freevars for a, b in self.pairs)
        self.possible = bool(self.pairs) and len(old) == len(new) and old_rest == new_rest and closures

    def make(self, functions):
        """Give them the new code. ``functions`` is what `functions_in` found."""
        for old, new in self.pairs:
            for function in functions[key(old)]:
                function.__code__ = new


def key(code):
    """What code is of."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def split(code):
    """The functions in the code of a module, in their order; and all else of it, to be compared."""
    found, rest = [], []

    def look(code):
        plain = [repr(const) for const in code.co_consts if not isinstance(const, CodeType)]
        rest.append((code.co_code, code.co_names, plain))
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                if inner.co_flags & inspect.CO_OPTIMIZED:
                    found.append(inner)
                else:  # the body of a class
                    look(inner)

    look(code)
    return found, rest


def functions_in(folder):
    """All functions of the files of a folder that are imported, by what their code is of.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    dict of list
    """
    found = {}
    for thing in gc.get_objects():
        # its type and not isinstance, which asks a weak proxy for what may be gone
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(f"{folder}/"):
            found.setdefault(key(thing.__code__), []).append(thing)
    return found
