"""Every parameter of a portfolio meets every other: each allowed pair of values of the
factors occurs in a case whose optimum is stored."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import allowed_pairs, covering_array, pairs_of
from sklearn.exceptions import ConvergenceWarning

from benchmarks._portfolio_cases import ERRORS, FACTORS, FORBIDDEN, arguments, case_of
from sk_stormc import CompositionalPortfolio

CASES = json.loads((Path(__file__).parent / "portfolio.json").read_text("utf-8"))
MISSED = 1e-7


def words_of(stored):
    return {name: stored[name] for name in FACTORS}


def fit(case, folder):
    params, X, sample_weight = arguments(case, folder)
    return CompositionalPortfolio(random_state=0, **params).fit(
        X, sample_weight=sample_weight
    )


def test_a_covering_array_has_every_allowed_pair():
    factors = {"a": [0, 1, 2], "b": ["x", "y"], "c": [None, True], "d": [0, 1, 2, 3]}
    forbidden = [{"a": 0, "b": "x"}, {"b": "y", "c": None, "d": 3}]
    cases = covering_array(factors, forbidden)
    found = {pair for case in cases for pair in pairs_of(case)}
    assert found == set(allowed_pairs(factors, forbidden))
    assert not any(rule.items() <= case.items() for rule in forbidden for case in cases)
    assert 12 <= len(cases) <= 16  # of 48
    with pytest.raises(ValueError, match="no case has"):
        covering_array(
            {"a": [0, 1], "b": [0, 1], "c": [0]},
            [{"a": 0, "c": 0}],
        )


def test_the_stored_cases_have_every_allowed_pair():
    found = {pair for stored in CASES for pair in pairs_of(words_of(stored))}
    assert found >= set(allowed_pairs(FACTORS, FORBIDDEN)), (
        "make the cases anew: python -m benchmarks._portfolio_optima"
    )


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(stored, id=f"{k} {stored['measure']} {stored['goal']}")
        for k, stored in enumerate(CASES)
    ],
)
def test_stored_optimum(stored, tmp_path):
    case = case_of(words_of(stored), stored["seed"])
    if stored["status"] == "infeasible":
        with pytest.raises(ValueError):
            fit(case, tmp_path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            portfolio = fit(case, tmp_path)
        except ValueError as error:
            no_optimum = "no maximum" in str(error) or "no minimum" in str(error)
            empty = "empty portfolio" in str(error)
            assert (stored["status"] == "unbounded" and no_optimum) or (
                stored.get("empty") and empty
            ), error
            return
        except ConvergenceWarning as warning:
            assert stored["status"] == "unbounded", warning
            return
    assert stored["status"] == "optimal"
    w, best = portfolio.weights_.astype(float), stored["value"]
    value, scale, error = case.value(w), case.scale(w), stored["error"]
    stated = portfolio.loss_curve_[-1]
    # EVaR is itself a minimum, which has digits of its own
    assert stated == pytest.approx(value, abs=1e-8 * scale)
    assert max(case.misses(w).values()) <= MISSED, case.misses(w)
    assert portfolio.stop_reason_ == "converged"
    tol = case.params.get("tol", 1e-4)
    assert value <= best + error + max(tol, 1e-7) * scale
    assert stated - portfolio.dual_gap_ <= best + error + 1e-9 * scale
    assert np.isfinite(portfolio.dual_gap_)
    if not {"half_life", "expected_returns"} & set(
        case.params
    ):  # the score has neither
        _, X, sample_weight = arguments(case, tmp_path)
        found = portfolio.score(X, sample_weight=sample_weight)
        of_mean = {"ratio": case.mean(w) / case.risk(w), "limit": case.mean(w)}
        expected = of_mean.get(case.goal, case.charge(w) - value)
        assert found == pytest.approx(expected, abs=1e-8 * scale)


@pytest.mark.parametrize(
    ("rule", "text"),
    [pytest.param(rule, text, id=" ".join(rule.values())) for rule, text in ERRORS],
)
def test_what_has_no_place_together_is_refused(rule, text, tmp_path):
    case = case_of({name: values[0] for name, values in FACTORS.items()} | rule, 0)
    with pytest.raises(ValueError, match=text):
        fit(case, tmp_path)
