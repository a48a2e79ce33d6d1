"""Docstrings name the parameters that there are, and their defaults."""

import importlib
import inspect

import numpy
import pytest

import sk_stormc

NAMES = [
    "affinities",
    "callbacks",
    "checks",
    "compare",
    "datasets",
    "preconditioners",
    "penalties",
    "plotting",
    "problems",
]
NAMES += ["solvers", "theory"]
MODULES = [sk_stormc, *(importlib.import_module(f"sk_stormc.{name}") for name in NAMES)]
PUBLIC = {
    name: getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if callable(getattr(module, name))
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    thing = PUBLIC[name]
    document = (
        docscrape.ClassDoc if inspect.isclass(thing) else docscrape.FunctionDoc
    )(thing)
    assert "".join(document["Summary"]).strip()
    if inspect.isabstract(thing):
        return
    own_init = inspect.isclass(thing) and thing.__init__ in (
        object.__init__,
        dict.__init__,
    )
    signature = {} if own_init else inspect.signature(thing).parameters
    types = {
        section: {
            word.strip().lstrip("*"): item.type
            for item in document[section]
            for word in item.name.split(",")
        }
        for section in ("Parameters", "Attributes")
    }
    documented = types["Parameters"]
    if not documented or hasattr(
        thing, "__dataclass_fields__"
    ):  # classes of results document their attributes
        public = {word for word in signature if not word.startswith("_")}
        assert public - {"args"} <= documented.keys() | types["Attributes"].keys()
        return
    assert list(documented) == list(signature)
    for word, text in documented.items():
        if "default=" in text:
            assert (
                eval(text.rpartition("default=")[2], {"numpy": numpy})
                == signature[word].default
            ), word
