"""Objects of the package declare what they are: in these rooms nobody tries out which attributes one has."""

import ast
from pathlib import Path

import pytest

import sk_stormc

PACKAGE = Path(sk_stormc.__file__).parent
ROOMS = ("checks", "compare", "core", "engine", "reproduce", "solvers", "streams", "theory")


@pytest.mark.parametrize("room", ROOMS)
def test_nobody_asks_for_attributes(room):
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in (PACKAGE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr"
    ]
    assert not found, f"declare it in the contract, with a default in the base class: {found}"
