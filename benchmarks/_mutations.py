"""Small changes of a source file, each of which a test should notice."""

import ast
import copy
import hashlib
import random
from collections import Counter
from dataclasses import dataclass

__all__ = ["Mutation", "mutations_of", "spread"]

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "fmin": "fmax"}
EXTREMES |= {other: one for one, other in EXTREMES.items()}
WORDS = ("__repr__", "description", "line", "__all__")  # functions whose text is for reading


@dataclass(frozen=True)
class Mutation:
    """One change of one place.

    Attributes
    ----------
    file : str
        Its path in the repository.
    line : int
        Where the change is, from 1.
    statement : str
        The line of the innermost statement of a function around it; empty for the module itself, or a class.
    kind : str
    before, after : str
        The changed code.
    start, end : int
        Its place in the bytes of the file.
    key : str
        The same as long as the function around it stays as it is, but for docstrings and comments.
    """

    file: str
    line: int
    statement: str
    kind: str
    before: str
    after: str
    start: int
    end: int
    key: str = ""

    def applied(self, source):
        """The file's text with the change."""
        raw = source.encode()
        return (raw[: self.start] + self.after.encode() + raw[self.end :]).decode()

    def __str__(self):
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"


class Finder(ast.NodeVisitor):
    """Collects the mutations of a file."""

    def __init__(self, file, source):
        self.file, self.raw, self.found = file, source.encode(), []
        self.depth, self.statement = 0, ""  # of functions; the line of the present statement within them
        self.around, self.keys = "", Counter()
        self.offsets = [0]
        for line in self.raw.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.visit(ast.parse(source))

    def visit(self, node):
        """A node, which may be a statement."""
        before = self.statement, self.around
        if isinstance(node, ast.stmt):
            if self.depth:
                self.statement = str(node.lineno)
            elif not isinstance(node, ast.ClassDef):
                self.around = digest(node)
        super().visit(node)
        self.statement, self.around = before

    def _put(self, node, kind, after):
        start = self.offsets[node.lineno - 1] + node.col_offset
        end = self.offsets[node.end_lineno - 1] + node.end_col_offset
        before = self.raw[start:end].decode()
        if isinstance(after, ast.AST):
            after_node, after = after, ast.unparse(after)
            after = after if isinstance(after_node, ast.Constant) or not isinstance(node, ast.expr) else f"({after})"
        key = f"{self.file} {self.around} {kind}: {before} -> {after}"
        self.keys[key] += 1
        key = f"{key} {self.keys[key]}"
        self.found.append(Mutation(self.file, node.lineno, self.statement, kind, before, after, start, end, key))

    def _but(self, node, **changes):
        """The node with other fields."""
        return type(node)(**{name: getattr(node, name) for name in node._fields} | changes)

    # what is not looked at: messages, names for readers, types

    def visit_Raise(self, node):
        """Texts of errors are not changed, only left out with their condition."""

    def visit_JoinedStr(self, node):
        """Nor are others."""

    def visit_keyword(self, node):
        """The strict of a zip raises where two lengths differ, which they never do."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_AnnAssign(self, node):
        """Only its value."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node):
        """A function: its defaults belong to what is around it."""
        if node.name in WORDS:
            return
        for child in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(child)
        self.depth += 1
        for child in node.body:
            self.visit(child)
        self.depth -= 1

    def visit_ClassDef(self, node):
        """Its body; decorators are no code of ours."""
        for child in node.body:
            self.visit(child)

    # what is

    def visit_Compare(self, node):
        """The first comparison."""
        ops = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        self._put(node, "comparison", self._but(node, ops=ops))
        self.generic_visit(node)

    def visit_BinOp(self, node):
        """Sums of texts and lists are left: every change of them is an error."""
        texts = any(isinstance(side, ast.Constant | ast.List | ast.JoinedStr) and not _is_number(side)
                    for side in (node.left, node.right))
        if type(node.op) in ARITHMETIC and not texts:
            self._put(node, "arithmetic", self._but(node, op=ARITHMETIC[type(node.op)]()))
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        """Another operator, and left out."""
        if type(node.op) in ARITHMETIC:
            self._put(node, "arithmetic", self._but(node, op=ARITHMETIC[type(node.op)]()))
        self._put(node, "statement", "pass")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        """And for or."""
        self._put(node, "logic", self._but(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        """Not left out, and a minus."""
        if isinstance(node.op, ast.Not):
            self._put(node, "logic", node.operand)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._put(node, "arithmetic", node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node):
        """Twice, one more, zero; the other truth value."""
        if isinstance(node.value, bool):
            self._put(node, "constant", ast.Constant(not node.value))
        elif _is_number(node):
            for value in {2 * node.value, node.value + 1, 0 * node.value} - {node.value}:
                self._put(node, "constant", ast.Constant(value))

    def visit_IfExp(self, node):
        """The branches swapped."""
        self._put(node, "branches", self._but(node, body=node.orelse, orelse=node.body))
        self.generic_visit(node)

    def visit_If(self, node):
        """The branches swapped, which is the condition's opposite."""
        if not (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)):
            self._put(node.test, "branches", ast.UnaryOp(ast.Not(), node.test))
        self.generic_visit(node)

    def visit_Call(self, node):
        """The largest for the smallest."""
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        if name in EXTREMES:
            field = "id" if isinstance(node.func, ast.Name) else "attr"
            self._put(node, "extremes", self._but(node, func=self._but(node.func, **{field: EXTREMES[name]})))
        self.generic_visit(node)

    def visit_Slice(self, node):
        """Off by one."""
        for bound in filter(None, (node.lower, node.upper)):
            self._put(bound, "slice", ast.BinOp(bound, ast.Add(), ast.Constant(1)))
        self.generic_visit(node)

    def visit_Expr(self, node):
        """A call left out; a docstring is none."""
        if isinstance(node.value, ast.Call):
            self._put(node, "statement", "pass")
            self.generic_visit(node)

    def visit_Assign(self, node):
        """What is kept in an object is not; a name would only be missing."""
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in WORDS:
            return
        if not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
            self._put(node, "statement", "pass")
        self.generic_visit(node)

    def visit_Continue(self, node):
        """Left out."""
        self._put(node, "statement", "pass")

    visit_Break = visit_Continue


def digest(node):
    """A few letters that stand for code without its docstrings."""
    node = copy.deepcopy(node)
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part) is not None:
            del part.body[0]
    return hashlib.sha256(ast.dump(node).encode()).hexdigest()[:12]


def _is_number(node):
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def mutations_of(file, source):
    """All mutations of a file.

    Parameters
    ----------
    file : str
        Its name.
    source : str
        Its text.

    Returns
    -------
    list of Mutation

    Examples
    --------
    >>> for mutation in mutations_of("a.py", "def least(a, b):\\n    return a if a < b else b"):
    ...     print(mutation.applied("def least(a, b):\\n    return a if a < b else b").splitlines()[1])
        return (b if a < b else a)
        return a if (a <= b) else b
    """
    return Finder(file, source).found


def spread(mutations, number, seed):
    """So many mutations, drawn by a seed, of each file in proportion to how many it has.

    A file that changes leaves what is drawn of the others as it was, but for one more or less.

    Parameters
    ----------
    mutations : list of Mutation
    number : int
    seed : int

    Returns
    -------
    list of Mutation
    """
    files = {}
    for mutation in mutations:
        places = files.setdefault(mutation.file, {})
        places.setdefault((mutation.start, mutation.end, mutation.kind), []).append(mutation)
    part = min(1.0, number / max(1, sum(map(len, files.values()))))
    drawn, share = [], 0.0
    for file, places in sorted(files.items()):
        rng = random.Random(f"{seed} {file}")
        # one of each place: a number has three, which say about the same
        some = [rng.choice(there) for there in places.values()]
        rng.shuffle(some)
        share += part * len(some)
        drawn += some[: round(share) - len(drawn)]
    return drawn
