"""Docstrings that share paragraphs: a parameter is described where it belongs, and its heirs inherit the text."""

import inspect
import re

__all__ = ["inherit_parameters", "inherit_sections"]

HEADING = "Parameters\n----------\n"
SECTION = re.compile(r"^\w[\w ]*\n-{3,}\n", re.MULTILINE)


def inherit_parameters(kind):
    """Complete a class's docstring: parameters of ``__init__`` that it does not describe are described as in a base.

    The order is that of the signature. A docstring without a section of parameters is given one. A name that no class
    describes is left out, and a class without a docstring is left alone.

    Parameters
    ----------
    kind : type
        Its ``__doc__`` is changed.
    """
    if not kind.__dict__.get("__doc__"):
        return
    before, _, after = _parts(kind.__doc__)
    known = {}
    for base in reversed(kind.__mro__):
        known |= _parts(base.__doc__ or "")[1]
    told, paragraphs = set(), []
    signature = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    for name in signature:
        if name in known and name not in told:
            names, rest = known[name]
            names = [other for other in names if other in signature and known[other] == known[name]]
            told |= set(names)
            paragraphs.append(f"{', '.join(names)} : {rest}")
    if paragraphs:
        kind.__doc__ = before + HEADING + "\n".join(paragraphs) + "\n" + ("\n" + after if after else "")


def inherit_sections(kind):
    """Complete the docstrings of a class's methods: one without sections is given those of the method it overrides.

    Parameters
    ----------
    kind : type
        The ``__doc__`` of its functions is changed.
    """
    for name, method in vars(kind).items():
        if not inspect.isfunction(method) or not method.__doc__ or SECTION.search(inspect.cleandoc(method.__doc__)):
            continue
        for base in kind.__mro__[1:]:
            over = inspect.cleandoc(getattr(vars(base).get(name), "__doc__", None) or "")
            if sections := SECTION.search(over):
                method.__doc__ = f"{inspect.cleandoc(method.__doc__)}\n\n{over[sections.start() :]}"
                break


def _parts(doc):
    """A docstring as what stands before its parameters, these by name, and what stands after.

    A parameter is ``(names, text)``, the names that share the paragraph and all of it after the colon.
    """
    doc = inspect.cleandoc(doc) + "\n"
    begin = doc.find(HEADING)
    if begin < 0:
        first = SECTION.search(doc)
        begin = end = first.start() if first else len(doc)
        return doc[:begin] if first else doc + "\n", {}, doc[end:]
    rest = doc[begin + len(HEADING) :]
    following = SECTION.search(rest)
    end = following.start() if following else len(rest)
    found = {}
    for paragraph in re.split(r"\n(?=\S)", rest[:end].strip("\n")):
        names, _, text = paragraph.partition(" : ")
        names = names.split(", ")
        found |= dict.fromkeys(names, (names, text.rstrip()))
    return doc[:begin], found, rest[end:]
