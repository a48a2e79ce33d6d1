"""Docstrings name the parameters that there are."""

import inspect

import pytest

import sk_stormc
import sk_stormc.problems
import sk_stormc.solvers
from sk_stormc import penalties

PUBLIC = {
    name: getattr(module, name)
    for module in (sk_stormc, sk_stormc.problems, sk_stormc.solvers, penalties)
    for name in module.__all__
    if callable(getattr(module, name))
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    thing = PUBLIC[name]
    document = (docscrape.ClassDoc if inspect.isclass(thing) else docscrape.FunctionDoc)(thing)
    assert "".join(document["Summary"]).strip()
    own_init = inspect.isclass(thing) and thing.__init__ in (object.__init__, dict.__init__)
    signature = {} if own_init else inspect.signature(thing).parameters
    # a dataclass of results documents its attributes
    section = "Attributes" if hasattr(thing, "__dataclass_fields__") else "Parameters"
    documented = [word.strip().lstrip("*") for item in document[section] for word in item.name.split(",")]
    if inspect.isabstract(thing):
        return
    assert [word for word in signature if word not in ("args", *documented)] == []
    if section == "Parameters":
        assert documented == list(signature)  # and none that does not exist, in their order
