"""scikit-learn's own checks, for every estimator x solver."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_stormc import CompositionalPortfolio
from sk_stormc.solvers import SOLVERS

# some of the checks have fewer periods than assets
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks([CompositionalPortfolio()])
def test_check_estimator(estimator, check):
    check(estimator)


def expected_failures(estimator):
    weights = (
        "tail risks end where their gap is below tol, at weights that differ by more "
        "than the check's 1e-7"
    )
    return (
        {"check_sample_weight_equivalence_on_dense_data": weights}
        if estimator.risk_measure == "cvar"
        else {}
    )


@pytest.mark.slow
@parametrize_with_checks(
    [
        CompositionalPortfolio("storm-c"),
        CompositionalPortfolio("lbfgs", risk_measure="entropic"),
        CompositionalPortfolio(
            SOLVERS["sarah-c"](), risk_measure="semivariance", constraint="long_only"
        ),
        CompositionalPortfolio(SOLVERS["scgd"]()),
        CompositionalPortfolio("civr", constraint=(-0.5, 0.5), l1=0.01),
        CompositionalPortfolio("storm-c-paper"),
        CompositionalPortfolio(risk_measure="cvar", constraint="long_only"),
    ],
    expected_failed_checks=expected_failures,
)
def test_check_estimator_with_other_solvers(estimator, check):
    check(estimator)
