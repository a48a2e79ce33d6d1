"""Linear constraints of a portfolio: a matrix with limits, or text such as "tech +
energy == 2 * bonds"."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
from scipy import sparse

from sk_stormc.portfolio.labels import aligned, default_of, refuse_no_match
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.frames import has_row_labels, is_series
from sk_stormc.utils.parameters import is_list, short

__all__ = ["Linear", "linear_of", "rows_of"]

_TOKEN = re.compile(
    r"""\s*(?:(?P<compare><=|>=|==|=) | (?P<sign>[+-]) | (?P<times>\*)
    | '(?P<single>[^']*)' | "(?P<double>[^"]*)"
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?=$|[-+*<>=])
    | (?P<name>[^-+*<>='"]+))\s*""",
    re.VERBOSE,
)
_RULE = (
    "expected sums of names, with numbers before them, compared by <=, >= or ==, such "
    "as 'equity <= 0.6', '0.1 <= tech + energy <= 0.5' or 'tech == 2 * energy'"
)


def rows_of(text, coefficients, n_assets):
    """The rows (row, lower, upper) of a constraint in text form: two or more sums,
    compared by <=, >= or ==.

    A term of a sum is a number, a name, or a number times a name. ``coefficients``
    contains those of each name. The name of a group denotes the sum of its assets.

    >>> import numpy as np
    >>> from sk_stormc.portfolio.linear_constraints import rows_of
    >>> rows_of(
    ...     "tech <= 2 * bonds + 0.1",
    ...     {"tech": np.array([1.0, 1, 0]), "bonds": np.array([0.0, 0, 1])},
    ...     3,
    ... )
    [(array([ 1.,  1., -2.]), -inf, 0.1)]
    """
    tokens = _tokens(text)
    places = [k for k, (kind, _) in enumerate(tokens) if kind == "compare"]
    if not places:
        raise _wrong(text, "no comparison")
    starts, ends = [-1, *places], [*places, len(tokens)]
    sides = [tokens[a + 1 : b] for a, b in zip(starts, ends, strict=True)]
    named = [any(kind == "name" for kind, _ in side) for side in sides]
    if (False, False) in pairwise(named):
        raise _wrong(text, "a comparison without a name")
    sums = [_sum(text, side, coefficients, n_assets) for side in sides]
    rows = []
    for k, place in enumerate(places):
        (left, constant), (right, other), sign = sums[k], sums[k + 1], tokens[place][1]
        limit = other - constant
        lower = -np.inf if sign == "<=" else limit
        rows.append((left - right, lower, np.inf if sign == ">=" else limit))
    return rows


def _tokens(text):
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise _wrong(text, repr(text[at:]))
        kind = match.lastgroup
        value = match.group(kind).strip()
        tokens.append(("name" if kind in ("single", "double") else kind, value))
        at = match.end()
    return tokens


def _sum(text, tokens, coefficients, n_assets):
    """The coefficients and the constant of one side of a comparison."""
    row, constant, terms = np.zeros(n_assets), 0.0, []
    if not tokens:
        raise _wrong(text, "nothing beside a comparison")
    for kind, value in tokens:  # a sign before each term, but the first
        if kind == "sign" or not terms:
            terms.append([])
        terms[-1].append((kind, value))
    for term in terms:
        sign = -1.0 if term[0] == ("sign", "-") else 1.0
        parts = term[term[0][0] == "sign" :]
        kinds = [kind for kind, _ in parts]
        factors = [float(value) for kind, value in parts if kind == "number"]
        names = [value for kind, value in parts if kind == "name"]
        product = kinds[1:2] in ([], ["times"]) and len(kinds) in (1, 3)
        if not product or len(names) > 1 or len(factors + names) != len(kinds[::2]):
            raise _wrong(text, f"{term[-1][1]!r} at the end of a term")
        factor = sign * math.prod(factors)
        if not names:
            constant += factor
        elif names[0] not in coefficients:
            known = [repr(name) for name in coefficients]
            shown = ", ".join(known[:12]) + " and others" * (len(known) > 12)
            raise ValueError(
                f"linear_constraints must be about assets and groups, got {names[0]!r} "
                f"in {text!r}: known are {shown}"
            )
        else:
            row = row + factor * coefficients[names[0]]
    return row, constant


def _wrong(text, problem):
    return ValueError(f"linear_constraints: {_RULE}, got {problem} in {text!r}")


EXPECTED = (
    "linear_constraints must be None, a text such as 'equity <= 0.6', a list of "
    "these, or (A, lower, upper)"
)


@dataclass
class Linear:
    """Linear constraints lower <= A @ w <= upper, with names for error messages; a
    limit may be infinite."""

    A: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    names: list

    @classmethod
    def none(cls, n_assets):
        """No constraints."""
        return cls(np.zeros((0, n_assets)), np.zeros(0), np.zeros(0), [])

    def plus(self, row, lower, name):
        """The constraints with a further one, row @ w >= lower."""
        return Linear(
            np.vstack([self.A, row]),
            np.append(self.lower, lower),
            np.append(self.upper, np.inf),
            [*self.names, name],
        )

    def only(self, kept):
        """The constraints of a mask."""
        names = [name for name, some in zip(self.names, kept, strict=True) if some]
        return Linear(self.A[kept], self.lower[kept], self.upper[kept], names)


def linear_of(value, groups, columns):
    """The constraints for the parameters ``linear_constraints`` and ``groups``, or
    None."""
    sums = _groups(groups, columns)
    if value is None or isinstance(value, Linear):  # which the command makes
        return value
    if isinstance(value, str):
        value = [value]
    several = isinstance(value, (list, tuple, np.ndarray)) and len(value)
    if several and all(isinstance(text, str) for text in value):
        return _of_texts(value, sums, columns)
    if not is_list(value) or len(value) != 3 or isinstance(value[0], str):
        raise ValueError(f"{EXPECTED}, got {short(value)}")
    A, lower, upper = value
    return _of_matrix(A, lower, upper, columns)


def _of_texts(texts, groups, labels):
    assets = dict(zip(map(str, labels), np.eye(len(labels)), strict=True))
    both = [name for name in groups if name in assets]
    if both:
        raise ValueError(
            f"groups must not have the name of an asset, got {both[0]!r}, which is both"
        )
    rows = []
    for text in map(str, texts):
        for row, lower, upper in rows_of(text, groups | assets, len(labels)):
            if row.any():
                rows.append((row, lower, upper, text))
            elif not lower <= 0 <= upper:
                raise ValueError(
                    "linear_constraints cannot be met: X has none of the assets that "
                    f"{text!r} is about"
                )
    if not rows:
        return None
    *parts, names = zip(*rows, strict=True)
    return Linear(*map(np.array, parts), list(names))


def _of_matrix(A, lower, upper, columns):
    names, n_assets = None, len(columns)
    if has_row_labels(A):
        names, rows = [str(name) for name in A.index], []
        for name, row in A.iterrows():
            what = f"row {name!r} of linear_constraints"
            rows.append(aligned(what, row, columns))
        A = np.array(rows)
    A = as_numbers("linear_constraints", A.toarray() if sparse.issparse(A) else A)
    A = A[None] if A.ndim == 1 else A
    if A.ndim != 2 or A.shape[1] != n_assets:
        raise ValueError(
            f"A of linear_constraints must be of shape (n_constraints, {n_assets}), "
            f"got {A.shape}"
        )
    if not np.isfinite(A).all():
        raise ValueError(
            f"A of linear_constraints must be finite, got {short(A[~np.isfinite(A)])}"
        )
    if names is None:
        names = [f"row {k} of linear_constraints" for k in range(len(A))]
    lower = _limit("lower", lower, len(A))
    upper = _limit("upper", upper, len(A))
    wrong = np.flatnonzero((lower > upper) | (lower == np.inf) | (upper == -np.inf))
    if wrong.size:
        k = wrong[0]
        raise ValueError(
            f"lower of linear_constraints must not exceed upper, got {lower[k]:g} and "
            f"{upper[k]:g} for {names[k]}"
        )
    return Linear(A, lower, upper, names)


def _limit(side, value, n):
    """One limit for each row. A number applies to all rows, and None means no limit."""
    if value is None:
        return np.full(n, -np.inf if side == "lower" else np.inf)
    limit = as_numbers(f"{side} of linear_constraints", value)
    if limit.shape not in ((), (n,)):
        raise ValueError(
            f"{side} of linear_constraints must be a number or of shape ({n},), got "
            f"{limit.shape}"
        )
    if np.isnan(limit).any():
        raise ValueError(
            f"{side} of linear_constraints must not be NaN, got {short(value)}"
        )
    return np.broadcast_to(limit, n).astype(float)


def _groups(groups, labels):
    """The indicator vector of each group: 1 for its assets in X. There may be none."""
    rows = {}
    for kind in _kinds(groups, labels):
        new = {}
        for j, name in kind:
            if name is None or (isinstance(name, Real) and np.isnan(name)):
                continue  # the asset belongs to no group of this kind
            if not isinstance(name, (str, Integral)):
                raise ValueError(
                    f"groups must have texts or integers for names, got {short(name)}"
                )
            members = new.setdefault(str(name), np.zeros(len(labels)))
            if j is not None:
                members[j] = 1.0
        twice = [name for name in new if name in rows]
        if twice:
            raise ValueError(
                "groups must have different names in different rows, got "
                f"{twice[0]!r} in two of them"
            )
        rows |= new
    return rows


def _kinds(groups, labels):
    """Pairs of an asset's index (None for assets that X does not have) and its group,
    for each kind of group."""
    if groups is None:
        return []
    if has_row_labels(groups):  # a table of assets by kinds of groups, or its transpose
        assets = {str(label) for label in labels}
        in_columns, in_rows = (
            sum(str(name) in assets for name in names)
            for names in (groups.columns, groups.index)
        )
        table = groups.T if in_columns > in_rows else groups
        return [row for name in table for row in _kinds(table[name], labels)]
    if is_series(groups):
        groups = dict(zip(groups.index, groups.to_numpy(), strict=True))
    if isinstance(groups, Mapping):
        assets, default = set(labels), default_of(groups)
        refuse_no_match("groups", list(groups), assets)
        names = [
            (j, groups[label] if label in groups else default and default())
            for j, label in enumerate(labels)
        ]
        names += [(None, groups[label]) for label in groups if label not in assets]
        several = [
            (j, n if isinstance(n, (list, tuple, np.ndarray)) else [n])
            for j, n in names
        ]
        return [
            [(j, n[k]) for j, n in several if k < len(n)]
            for k in range(max(len(n) for _, n in several))
        ]
    table = np.asarray(groups, dtype=object)
    table = table[None] if table.ndim == 1 else table
    if isinstance(groups, str) or table.ndim != 2 or table.shape[1] != len(labels):
        raise ValueError(
            f"groups must have a name for each of the {len(labels)} assets: a mapping "
            "or Series by asset, a frame, or "
            f"an array of shape (n_assets,) or (n_kinds, n_assets), got {short(groups)}"
        )
    return [list(enumerate(row)) for row in table]
