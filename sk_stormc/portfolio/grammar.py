"""Parser of linear constraints in text form, such as "equity <= 0.6" and "tech + energy == 2 * bonds"."""

import re

import numpy as np

__all__ = ["rows_of"]

_TOKEN = re.compile(
    r"""\s*(?:(?P<compare><=|>=|==|=) | (?P<sign>[+-]) | (?P<times>\*)
    | '(?P<single>[^']*)' | "(?P<double>[^"]*)"
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?=$|[-+*<>=])
    | (?P<name>[^-+*<>='"]+))\s*""",
    re.VERBOSE,
)
_RULE = (
    "expected sums of names, with numbers before them, compared by <=, >= or ==, such as 'equity <= 0.6', "
    "'0.1 <= tech + energy <= 0.5' or 'tech == 2 * energy'"
)


def rows_of(text, known, n_assets):
    """The rows (row, lower, upper) of a constraint in text form: two or more sums, compared by <=, >= or ==.

    A term of a sum is a number, a name, or a number times a name. ``known`` has the coefficients of each name: a
    group's name stands for a sum of assets.

    >>> import numpy as np
    >>> from sk_stormc.portfolio.grammar import rows_of
    >>> rows_of("tech <= 2 * bonds + 0.1", {"tech": np.array([1.0, 1, 0]), "bonds": np.array([0.0, 0, 1])}, 3)
    [(array([ 1.,  1., -2.]), -inf, 0.1)]
    """
    tokens = _tokens(text)
    places = [k for k, (kind, _) in enumerate(tokens) if kind == "compare"]
    if not places:
        raise _wrong(text, "no comparison")
    starts, ends = [-1, *places], [*places, len(tokens)]
    sides = [tokens[a + 1 : b] for a, b in zip(starts, ends, strict=True)]
    if not all(any(kind == "name" for kind, _ in pair) for pair in map(list.__add__, sides[:-1], sides[1:])):
        raise _wrong(text, "a comparison without a name")
    sums = [_sum(text, side, known, n_assets) for side in sides]
    found = []
    for (left, constant), (right, other), place in zip(sums[:-1], sums[1:], places, strict=True):
        row, limit, sign = left - right, other - constant, tokens[place][1]
        found.append((row, -np.inf if sign == "<=" else limit, np.inf if sign == ">=" else limit))
    return found


def _tokens(text):
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise _wrong(text, repr(text[at:]))
        kind = match.lastgroup
        value = match.group(kind).strip()
        found.append(("name" if kind in ("single", "double") else kind, value))
        at = match.end()
    return found


def _sum(text, tokens, known, n_assets):
    """The coefficients and the constant of one side of a comparison."""
    row, constant, k = np.zeros(n_assets), 0.0, 0
    if not tokens:
        raise _wrong(text, "nothing beside a comparison")
    while k < len(tokens):
        factor, name = 1.0, None
        if tokens[k][0] == "sign":
            factor, k = -1.0 if tokens[k][1] == "-" else 1.0, k + 1
        elif k:
            raise _wrong(text, f"{tokens[k][1]!r} without a sign before it")
        parts = [tokens[k] if k < len(tokens) else ("end", "")]
        if k + 2 < len(tokens) and tokens[k + 1][0] == "times":
            parts.append(tokens[k + 2])
        for kind, value in parts:
            if kind == "number":
                factor *= float(value)
            elif kind == "name" and name is None:
                name = value
            else:
                raise _wrong(text, repr(value) if value else "the end after a sign")
        k += 2 * len(parts) - 1
        if name is None:
            constant += factor
        elif name not in known:
            shown = ", ".join(map(repr, list(known)[:12])) + (" and others" if len(known) > 12 else "")
            raise ValueError(
                f"linear_constraints must be about assets and groups, got {name!r} in {text!r}: known are {shown}"
            )
        else:
            row = row + factor * known[name]
    return row, constant


def _wrong(text, found):
    return ValueError(f"linear_constraints: {_RULE}, got {found} in {text!r}")
