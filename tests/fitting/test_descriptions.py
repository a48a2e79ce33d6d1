"""Estimators inherit descriptions of parameters and attributes, and declare names of solvers."""

import inspect
import re

import pytest

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding
from sk_stormc.fitting.estimator import CompositionalEstimator

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


def test_an_estimator_inherits_descriptions():
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

    assert list(section(Mine, "Parameters")) == ["tol", "verbose"]  # depth has no description
    attributes = section(Mine, "Attributes")
    assert list(attributes) == ["found_", *SHARED]
    assert attributes["ifo_"] == "ndarray\n    In another way."
    assert inspect.getdoc(Mine).startswith("A fit of my own.\n\nParameters\n")
    assert inspect.getdoc(Mine).endswith("Notes\n-----\nAt the end.")
    assert Silent.__dict__["__doc__"] is None


@pytest.mark.parametrize(("kind", "name"), [(CompositionalPortfolio, "newton"), (BellmanValueEstimator, "lstd")])
def test_an_estimator_takes_the_names_that_it_declares(kind, name):
    assert kind(solver=name).solves_itself() and not kind(solver="storm-c").solves_itself()
    assert not SNEEmbedding(solver=name).solves_itself()
    for solver, found in (("adam", "'adam'"), (CompositionalEstimator, "a class: give CompositionalEstimator")):
        with pytest.raises(ValueError, match=rf"solver must be .*'{name}'.*got {found}"):
            kind(solver=solver).fit([[1.0, 2.0], [0.0, 1.0], [1.0, 0.5]], [1.0, 0.0, 1.0])
