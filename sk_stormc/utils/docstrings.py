"""Docstrings that share paragraphs: a name is described once, and subclasses inherit the text."""

import inspect
import re

__all__ = ["inherit_attributes", "inherit_parameters", "inherit_sections"]

TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def inherit_parameters(kind):
    """Complete a class's docstring: parameters of ``__init__`` that it does not describe are described as in a base.

    The order is that of the signature. A docstring without a section of parameters is given one. A name that no class
    describes is left out, and a class without a docstring is left alone.
    """
    signature = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    _complete(kind, "Parameters", lambda known: signature)


def inherit_attributes(kind):
    """Complete a class's docstring: the attributes of its bases follow those that are new.

    One that the class describes itself keeps its own text. A class without a docstring is left alone.
    """
    inherited = {}
    for base in reversed(kind.__mro__[1:]):
        inherited |= _entries(_sections(base.__doc__ or "").get("Attributes", ""))
    _complete(kind, "Attributes", lambda known: [*(name for name in known if name not in inherited), *inherited])


def inherit_sections(kind):
    """Complete the docstrings of a class's methods: a section that one does not have is that of what it overrides."""
    for name, method in vars(kind).items():
        if not inspect.isfunction(method) or not method.__doc__:
            continue
        sections = _sections(method.__doc__)
        for base in kind.__mro__[1:]:
            for title, text in _sections(getattr(vars(base).get(name), "__doc__", None) or "").items():
                sections.setdefault(title, text)
        if len(sections) > 1:
            method.__doc__ = _joined(sections)


ORDER = ("", "Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes", "References")


def _complete(kind, title, names_from):
    """Write a section with the entries of the names, each as the class or the nearest of its bases describes it."""
    if not kind.__dict__.get("__doc__"):
        return
    sections, entries = _sections(kind.__doc__), {}
    for base in reversed(kind.__mro__):
        entries |= _entries(_sections(base.__doc__ or "").get(title, ""))
    told, paragraphs, wanted = set(), [], names_from(entries)
    for name in wanted:
        if name in entries and name not in told:
            names, rest = entries[name]
            names = [other for other in names if other in wanted and entries[other] == entries[name]]
            told |= set(names)
            paragraphs.append(f"{', '.join(names)} : {rest}")
    if paragraphs:
        kind.__doc__ = _joined(sections | {title: "\n".join(paragraphs)})


def _sections(doc):
    """The texts of a docstring by their titles; that of what stands before them is empty."""
    first, *others = TITLE.split(inspect.cleandoc(doc) + "\n")
    texts = {"": first} | dict(zip(others[::2], others[1::2], strict=True))
    return {title: text.strip("\n") for title, text in texts.items()}


def _joined(sections):
    """A docstring of sections, in numpydoc's order; those that it does not know are last."""
    titles = sorted(sections, key=lambda title: ORDER.index(title) if title in ORDER else len(ORDER))
    headed = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in titles if title]
    return "\n\n".join([sections[""], *headed])


def _entries(text):
    """What a section says by name: ``(names, text)``, the names that share a text and all of it after the colon."""
    entries = {}
    for paragraph in re.split(r"\n(?=\S)", text) if text else ():
        names, _, rest = paragraph.partition(" : ")
        names = names.split(", ")
        entries |= dict.fromkeys(names, (names, rest.rstrip()))
    return entries
