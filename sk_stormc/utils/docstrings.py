"""Inheritance of docstrings: subclasses inherit descriptions of parameters and
attributes, and sections of methods."""

import inspect
import re

TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def inherit_parameters(kind):
    """Add missing descriptions of the parameters of ``__init__`` to a class's
    docstring, from its base classes.

    The parameters are in the order of the signature. A missing section is added. A
    parameter that no class describes is omitted, and a class without a docstring does
    not change.
    """
    signature = [
        name for name in inspect.signature(kind.__init__).parameters if name != "self"
    ]
    _complete(kind, "Parameters", lambda names: signature)


def inherit_attributes(kind):
    """Add the attributes of the base classes to a class's docstring, after its new
    attributes.

    An attribute that the class describes keeps its description. A class without a
    docstring does not change.
    """
    inherited = {}
    for base in reversed(kind.__mro__[1:]):
        inherited |= _entries(_sections(base.__doc__ or "").get("Attributes", ""))
    _complete(
        kind,
        "Attributes",
        lambda names: [*(name for name in names if name not in inherited), *inherited],
    )


def inherit_sections(kind):
    """Add missing sections to the docstrings of a class's methods, from the methods
    that they override."""
    for name, method in vars(kind).items():
        if not inspect.isfunction(method) or not method.__doc__:
            continue
        sections = _sections(method.__doc__)
        for base in kind.__mro__[1:]:
            for title, text in _sections(
                getattr(vars(base).get(name), "__doc__", None) or ""
            ).items():
                sections.setdefault(title, text)
        if len(sections) > 1:
            method.__doc__ = _joined(sections)


ORDER = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "References",
)


def _complete(kind, title, names_from):
    """Write a section with the entries of the names, each from the class or its nearest
    base that describes it."""
    if not kind.__dict__.get("__doc__"):
        return
    sections, entries = _sections(kind.__doc__), {}
    for base in reversed(kind.__mro__):
        entries |= _entries(_sections(base.__doc__ or "").get(title, ""))
    described, paragraphs, wanted = set(), [], names_from(entries)
    for name in wanted:
        if name in entries and name not in described:
            names, rest = entries[name]
            alike = [other for other in names if entries[other] == entries[name]]
            names = [other for other in alike if other in wanted]
            described |= set(names)
            paragraphs.append(f"{', '.join(names)} : {rest}")
    if paragraphs:
        kind.__doc__ = _joined(sections | {title: "\n".join(paragraphs)})


def _sections(doc):
    """The sections of a docstring by title. The text before the first title has an
    empty title."""
    first, *others = TITLE.split(inspect.cleandoc(doc) + "\n")
    texts = {"": first} | dict(zip(others[::2], others[1::2], strict=True))
    return {title: text.strip("\n") for title, text in texts.items()}


def _joined(sections):
    """A docstring of sections, in numpydoc's order. Unknown sections are last."""
    others = [title for title in sections if title not in ("", *ORDER)]
    headed = [
        f"{title}\n{'-' * len(title)}\n{sections[title]}"
        for title in (*ORDER, *others)
        if title in sections
    ]
    return "\n\n".join([sections[""], *headed])


def _entries(text):
    """The entries of a section by name: ``(names, text)``, where the names share the
    text after the colon."""
    entries = {}
    for paragraph in re.split(r"\n(?=\S)", text) if text else ():
        names, _, rest = paragraph.partition(" : ")
        names = names.split(", ")
        entries |= dict.fromkeys(names, (names, rest.rstrip()))
    return entries
