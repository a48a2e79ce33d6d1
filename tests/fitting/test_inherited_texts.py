"""What the estimators share is described once: docstrings inherit parameters and attributes."""

import inspect
import re

import pytest

import sk_stormc
import sk_stormc.problems
import sk_stormc.solvers
from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, compare_solvers, penalties
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.portfolio.risk.mean_risk import ByRiskMeasure

SHARED = ["loss_curve_", "ifo_", "n_evaluations_", "n_iter_", "stop_reason_", "solver_"]
SHARED += ["n_features_in_", "feature_names_in_"]


def section(kind, title):
    """Names and texts of a section of a docstring, in its order."""
    text = re.search(rf"{title}\n-+\n(.*?)(?=\n\n\w[^\n]*\n---|\Z)", inspect.getdoc(kind), re.DOTALL)[1]
    found = {}
    for paragraph in re.split(r"\n(?=\S)", text):
        names, _, rest = paragraph.partition(" : ")
        found |= dict.fromkeys(names.split(", "), rest)
    return found


@pytest.mark.parametrize("kind", [CompositionalPortfolio, SNEEmbedding, BellmanValueEstimator])
def test_estimators_describe_all_parameters_and_the_attributes_of_a_run(kind):
    assert list(section(kind, "Parameters")) == list(inspect.signature(kind).parameters)
    attributes = section(kind, "Attributes")
    assert list(attributes)[-len(SHARED) :] == SHARED
    common = section(CompositionalEstimator, "Attributes")
    assert attributes["n_evaluations_"] == common["n_evaluations_"]


def test_an_estimator_of_the_users_inherits_what_it_does_not_say():
    class Mine(CompositionalEstimator):
        """A fit of my own.

        Attributes
        ----------
        found_ : float
            New.
        ifo_ : ndarray
            In another way.

        Notes
        -----
        At the end.
        """

        def __init__(self, depth=1, *, tol=None, verbose=0):
            self.depth, self.tol, self.verbose = depth, tol, verbose

    class Silent(Mine):
        pass

    assert list(section(Mine, "Parameters")) == ["tol", "verbose"]  # nobody has described depth
    attributes = section(Mine, "Attributes")
    assert list(attributes) == ["found_", *SHARED]
    assert attributes["ifo_"] == "ndarray\n    In another way."
    assert inspect.getdoc(Mine).startswith("A fit of my own.\n\nParameters\n")
    assert inspect.getdoc(Mine).endswith("Notes\n-----\nAt the end.")
    assert Silent.__dict__["__doc__"] is None


@pytest.mark.parametrize("kind", ByRiskMeasure.classes.values())
def test_problems_of_a_risk_measure_describe_all_parameters(kind):
    assert list(section(kind, "Parameters")) == list(inspect.signature(kind).parameters)


@pytest.mark.parametrize(("kind", "name"), [(CompositionalPortfolio, "newton"), (BellmanValueEstimator, "lstd")])
def test_an_estimator_takes_the_names_that_it_declares(kind, name):
    assert kind(solver=name).solves_itself() and not kind(solver="storm-c").solves_itself()
    assert not SNEEmbedding(solver=name).solves_itself()
    for solver, found in (("adam", "'adam'"), (CompositionalEstimator, "a class: give CompositionalEstimator")):
        with pytest.raises(ValueError, match=rf"solver must be .*'{name}'.*got {found}"):
            kind(solver=solver).fit([[1.0, 2.0], [0.0, 1.0], [1.0, 0.5]], [1.0, 0.0, 1.0])


def test_a_comparison_takes_the_names_of_the_estimator():
    returns = make_gaussian_returns(200, 3, mean=0.1, random_state=0)
    compared = compare_solvers(CompositionalPortfolio(), ["storm-c", "newton"], returns, n_seeds=1, random_state=0)
    assert "newton" in str(compared)
    with pytest.raises(ValueError, match="lstd"):
        compare_solvers(CompositionalPortfolio(), ["lstd"], returns, n_seeds=1)


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
