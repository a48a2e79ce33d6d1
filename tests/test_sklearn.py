"""scikit-learn's own checks, for every estimator x solver."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_stormc import CompositionalPortfolio
from sk_stormc.solvers import SOLVERS

# some of the checks have fewer periods than assets
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.slow
@parametrize_with_checks([CompositionalPortfolio(solver=solver()) for solver in SOLVERS.values()])
def test_check_estimator_with_an_instance(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [CompositionalPortfolio(solver=name) for name in SOLVERS]
    + [CompositionalPortfolio(risk_measure="semivariance"), CompositionalPortfolio(risk_measure="entropic")]
    + [CompositionalPortfolio(constraint="long_only"), CompositionalPortfolio(constraint=(-0.5, 0.5), l1=0.01)]
)
def test_check_estimator(estimator, check):
    check(estimator)
