"""What the rooms below the wings ask of a problem is what its contract declares."""

import ast
from pathlib import Path

import pytest

import sk_stormc
from sk_stormc.problems import CompositionalProblem

PACKAGE = Path(sk_stormc.__file__).parent
ROOMS = ("engine", "solvers", "checks", "compare", "theory", "fitting")
NUMBERS = {"n_inner", "n_outer", "n_variables"}
FUNCTIONS = {"inner_batch", "outer_batch", "inner", "jacobian", "outer_gradient", "outer"}
CAPABILITIES = {
    *("source", "advice", "penalty", "metric", "n_blocks", "inner_floor", "jacobian_kind", "vjp", "initial_point"),
    *("in_run", "compositional_gradient", "inner_pair", "gradient_pair", "reported", "description"),
}
FOR_USERS = {"objective", "gradient"}


def declared(kind):
    return {name for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")}


def test_the_contract_has_nine_members_and_declared_capabilities():
    assert declared(CompositionalProblem) == NUMBERS | FUNCTIONS | CAPABILITIES | FOR_USERS
    assert CompositionalProblem.__abstractmethods__ == FUNCTIONS


def asked(tree):
    """Names that are read from `problem` or from an attribute of this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = node.value
            name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
            if name in ("problem", "_problem"):
                yield node.attr


@pytest.mark.parametrize("room", ROOMS)
def test_methods_ask_for_nothing_else(room):
    files = sorted((PACKAGE / room).glob("*.py"))
    found = {(path.name, name) for path in files for name in asked(ast.parse(path.read_text(encoding="utf-8")))}
    undeclared = {(path, name) for path, name in found if name not in declared(CompositionalProblem)}
    # one is asked of a FiniteSumComposition, after isinstance, and one is set on the problem of a stream
    assert undeclared <= {("problem.py", "by_differences"), ("loop.py", "state")}
