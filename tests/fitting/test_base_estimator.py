"""What estimators have in common: attributes of a run, names of solvers, and the output
of verbose."""

import numpy as np
import pytest

from sk_stormc import (
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    minimize,
)
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.problems import PortfolioProblem

SHARED = ["loss_curve_", "ifo_", "n_evaluations_", "n_iter_", "stop_reason_", "solver_"]
SHARED += ["n_features_in_", "feature_names_in_"]


@pytest.mark.parametrize(
    "kind", [CompositionalPortfolio, SNEEmbedding, BellmanValueEstimator]
)
def test_estimators_describe_the_attributes_of_a_run(kind):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    described = [
        name
        for item in docscrape.ClassDoc(kind)["Attributes"]
        for name in item.name.split(", ")
    ]
    assert described[-len(SHARED) :] == SHARED


@pytest.mark.parametrize(
    ("kind", "name"),
    [(CompositionalPortfolio, "newton"), (BellmanValueEstimator, "lstd")],
)
def test_an_estimator_takes_the_names_that_it_declares(kind, name):
    for solver, found in (
        ("adam", "'adam'"),
        (CompositionalEstimator, "a class: give CompositionalEstimator"),
    ):
        with pytest.raises(
            ValueError, match=rf"solver must be .*'{name}'.*got {found}"
        ):
            kind(solver=solver).fit(
                [[1.0, 2.0], [0.0, 1.0], [1.0, 0.5]], [1.0, 0.0, 1.0]
            )


def test_verbose_prints_a_line_for_a_result_that_comes_at_once(capsys):
    log = make_bellman_problem(
        n_states=10, n_features=None, random_state=0
    ).transitions(200, random_state=0)
    value = BellmanValueEstimator(verbose=2).fit(log.X, log.y, next_X=log.next_X)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(
        "BellmanValueEstimator: lstd, n_iter=1, objective "
    ) and line.endswith(", converged")
    assert (
        f"{value.loss_curve_[-1]:.8g} ({value.loss_curve_[0]:.8g} at the start)" in line
    )
    returns = make_gaussian_returns(600, 5, random_state=0)
    for solver, name in (("auto", "moments"), ("scgd", "SCGD")):
        CompositionalPortfolio(solver, verbose=2, random_state=0).partial_fit(returns)
        assert f": {name}, n_iter=" in capsys.readouterr().out
    CompositionalPortfolio(random_state=0).partial_fit(returns)
    assert capsys.readouterr().out == ""
    minimize(PortfolioProblem(returns), max_iter=2, random_state=0, verbose=2)
    assert capsys.readouterr().out.count("\n") > 2


def test_none_is_the_automatic_number_of_iterations():
    points = make_gaussian_returns(60, 3, random_state=0)
    by_word, by_none = (
        SNEEmbedding(max_iter=n, random_state=0).fit(points) for n in ("auto", None)
    )
    np.testing.assert_array_equal(by_word.embedding_, by_none.embedding_)
