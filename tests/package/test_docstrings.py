"""Docstrings name the parameters that there are."""

import importlib
import inspect

import pytest

import sk_stormc

MODULES = [
    sk_stormc,
    *(
        importlib.import_module(f"sk_stormc.{name}")
        for name in (
            *("affinities", "callbacks", "checks", "compare", "datasets", "metrics", "penalties"),
            *("plotting", "problems", "solvers", "theory"),
        )
    ),
]
PUBLIC = {
    name: getattr(module, name) for module in MODULES for name in module.__all__ if callable(getattr(module, name))
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    thing = PUBLIC[name]
    document = (docscrape.ClassDoc if inspect.isclass(thing) else docscrape.FunctionDoc)(thing)
    assert "".join(document["Summary"]).strip()
    own_init = inspect.isclass(thing) and thing.__init__ in (object.__init__, dict.__init__)
    signature = {} if own_init else inspect.signature(thing).parameters
    sections = {
        section: [word.strip().lstrip("*") for item in document[section] for word in item.name.split(",")]
        for section in ("Parameters", "Attributes")
    }
    if inspect.isabstract(thing):
        return
    documented = sections["Parameters"]
    if documented and not hasattr(thing, "__dataclass_fields__"):
        assert documented == [word for word in signature if word in documented or word != "args"]
    else:  # classes of results document their attributes
        assert set(signature) - {"args"} <= {*documented, *sections["Attributes"]}
