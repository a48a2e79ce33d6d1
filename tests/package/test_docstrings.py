"""Docstrings name the parameters that there are, and their defaults."""

import inspect

import numpy
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
    if inspect.isabstract(thing):
        return
    own_init = inspect.isclass(thing) and thing.__init__ in (object.__init__, dict.__init__)
    signature = {} if own_init else inspect.signature(thing).parameters
    # a dataclass of results documents its attributes
    section = "Attributes" if hasattr(thing, "__dataclass_fields__") else "Parameters"
    types = {word.strip().lstrip("*"): item.type for item in document[section] for word in item.name.split(",")}
    assert [word for word in signature if word not in ("args", *types)] == []
    if section == "Parameters":
        assert list(types) == list(signature)  # and none that does not exist, in their order
        for word, text in types.items():
            if "default=" in text:
                assert eval(text.rpartition("default=")[2], {"numpy": numpy}) == signature[word].default, word
