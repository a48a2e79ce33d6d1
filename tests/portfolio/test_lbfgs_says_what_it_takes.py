"""L-BFGS refuses penalties that it cannot keep, by names that the user knows."""

import re

import pytest

from sk_stormc import CompositionalPortfolio, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import PortfolioProblem

RETURNS = make_gaussian_returns(60, 4, mean=0.3, random_state=0)


@pytest.mark.parametrize("penalty", [Simplex(), Box(0, 0.4, budget=1.0), L1(0.1)], ids=str)
@pytest.mark.parametrize("risk", ["cvar", "evar"])
def test_a_tail_risk_names_the_penalty(risk, penalty):
    problem = PortfolioProblem(RETURNS, risk_measure=risk, penalty=penalty)
    said = re.escape(f"got the penalty {penalty} on the weights of a tail risk")
    with pytest.raises(ValueError, match=said) as error:
        minimize(problem, "lbfgs")
    assert "OnWeights" not in str(error.value) and "Use solver='storm-c'" in str(error.value)


def test_a_portfolio_names_the_constraint():
    model = CompositionalPortfolio(risk_measure="cvar", constraint="long_only", solver="lbfgs")
    with pytest.raises(ValueError, match="constraint='long_only' is.*got the penalty") as error:
        model.fit(RETURNS)
    assert "OnWeights" not in str(error.value)
