"""The default solver on eight problems of the literature."""

import warnings

import pytest
from helpers import slow_but
from sklearn.exceptions import ConvergenceWarning

from benchmarks.gallery_problems import (
    GALLERY,
    average_precision,
    digits,
    shortfall,
    start,
)
from sk_stormc import minimize


@pytest.mark.parametrize(
    "name", slow_but(GALLERY, *(GALLERY.keys() - {"badly scaled", "average precision"}))
)
def test_default_solver(name):
    """The decrease is within 1 % of that of L-BFGS. On the badly scaled problem the
    budget may end first."""
    problem = GALLERY[name]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = minimize(problem, random_state=0)
    missing = shortfall(problem, result.fun)
    warned = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert result.fun < start(problem)
    assert missing > -0.01, "the reference is not the minimum"
    if name == "badly scaled":
        assert missing <= 0.01 or warned
    else:
        assert missing <= 0.01
        assert result.stop_reason == "converged"
        assert not warned


@pytest.mark.slow
def test_an_infimum_that_is_not_attained():
    """Without the ridge |F| vanishes along any ray, and a run once "converged" far
    above the infimum, about -0.974."""
    A, positive = digits()
    assert (
        minimize(average_precision(A, positive, ridge=0.0), random_state=0).fun < -0.96
    )
