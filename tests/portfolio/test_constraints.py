"""Trading constraints: texts, groups, matrices, a benchmark, limits on turnover, costs,
and limits that leave one portfolio."""

import numpy as np
import pandas as pd
import pytest
from definitions import make_returns
from scipy import sparse

from sk_stormc import CompositionalPortfolio

INF = np.inf
NAMES = ["oil", "gas", "US bonds", "gold", "tech", "cash"]
SECTOR = ["energy", "energy", "rates", "metal", "shares", "rates"]
HELD = np.array([0.3, 0.1, 0.2, 0.1, 0.2, 0.1])


def frame(n=120, seed=0):
    return pd.DataFrame(make_returns(n, seed=seed), columns=NAMES)


def fit(X, **params):
    return CompositionalPortfolio(
        **{"constraint": "long_only", "risk_aversion": 10.0, **params}
    ).fit(X)


# texts, groups and matrices


@pytest.mark.parametrize(
    ("constraint", "row", "lower", "upper"),
    [
        ("0.2 >= energy", [-1, -1, 0, 0, 0, 0], -0.2, INF),
        ("US bonds == 2 * gold", [0, 0, 1, -2, 0, 0], 0, 0),
        ("'US bonds' - .5*gold + 1e-1 >= .6 - tech", [0, 0, 1, -0.5, 1, 0], 0.5, INF),
        ("oil * 2 + gas <= 0.01 + metal", [2, 1, 0, -1, 0, 0], -INF, 0.01),
    ],
)
def test_texts(constraint, row, lower, upper):
    free, by_text, by_matrix = (
        fit(
            frame(), risk_aversion=300.0, groups=SECTOR, linear_constraints=limit
        ).weights_
        for limit in (None, constraint, (row, lower, upper))
    )
    np.testing.assert_allclose(by_text, by_matrix, atol=1e-9)
    assert np.abs(by_text - free).max() > 0.01


def test_a_chain_of_comparisons_is_two_constraints():
    chain = fit(frame(), linear_constraints="0.1 <= gold + tech <= 0.2")
    texts = ["gold + tech >= 0.1", "gold + tech <= 0.2"]
    pair = fit(frame(), linear_constraints=texts)
    np.testing.assert_allclose(chain.weights_, pair.weights_, atol=1e-9)
    assert 0.1 - 1e-9 <= chain.weights_[[3, 4]].sum() <= 0.2 + 1e-9


GROUPS = {
    "array of kinds": np.array([SECTOR, ["x"] * 6]),
    "mapping of lists": {
        name: ["x", sector] for name, sector in zip(NAMES, SECTOR, strict=True)
    },
    "Series": pd.Series(SECTOR[::-1], index=NAMES[::-1]),
    "frame by asset": pd.DataFrame(
        {"sector": SECTOR, "kind": [None, "x"] * 3}, index=NAMES
    ).iloc[::-1],
    "frame by kind": pd.DataFrame([SECTOR], columns=NAMES, index=["sector"]),
}


def test_groups_come_in_many_forms():
    by_asset = ["oil + gas <= 0.2", "US bonds + cash >= .5"]
    expected = fit(frame(), linear_constraints=by_asset).weights_
    assert expected[:2].sum() <= 0.2 + 1e-9 and expected[[2, 5]].sum() >= 0.5 - 1e-9
    limits = ["energy <= 0.2", "rates >= .5"]
    for groups in GROUPS.values():
        found = fit(frame(), linear_constraints=limits, groups=groups)
        np.testing.assert_array_equal(found.weights_, expected)


def test_matrices_come_in_many_forms():
    A = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]])
    table = pd.DataFrame(A[:, ::-1], columns=NAMES[::-1], index=["energy", "rates"])
    limits = [-INF, 0.5], [0.2, INF]
    plain = fit(frame(), linear_constraints=(A, *limits)).weights_
    # labels of other assets are ignored
    for given in (sparse.csr_array(A), table, table.assign(land=7.0)):
        found = fit(frame(), linear_constraints=[given, *limits]).weights_
        np.testing.assert_array_equal(found, plain)
    one = fit(frame(), linear_constraints=(A[0], None, 0.2)).weights_
    by_text = fit(frame(), linear_constraints="oil + gas <= 0.2").weights_
    np.testing.assert_array_equal(one, by_text)


# limits on turnover, and sets without an interior


@pytest.mark.parametrize("measure", ["semivariance", "cvar"])
def test_limits_without_an_interior(measure):
    """A cap that only one portfolio of a sector meets, a weight that is forced, and no
    trades at all."""
    R = make_returns(120, seed=4)
    params = {
        "constraint": (0.0, 0.25),
        "budget": 1.0,
        "groups": SECTOR,
        "risk_measure": measure,
    }
    full = fit(R, linear_constraints="energy >= 0.5", **params)
    np.testing.assert_allclose(full.weights_[:2], 0.25, atol=1e-9)
    for words in (["rates + energy == 1"], ["energy >= .5", "rates >= .5"]):
        forced = fit(R, linear_constraints=words, **params)
        np.testing.assert_allclose(
            forced.weights_, [0.25, 0.25, 0.25, 0, 0, 0.25], atol=1e-9
        )
    still = fit(R, risk_measure=measure, previous_weights=HELD, max_turnover=0.0)
    np.testing.assert_allclose(still.weights_, HELD, atol=1e-12)
    assert forced.stop_reason_ == still.stop_reason_ == full.stop_reason_ == "converged"
    # two inequalities are solved as the equation
    equal = fit(R, linear_constraints="energy == .3", **params)
    both = fit(R, linear_constraints=["energy <= .3", "energy >= .3"], **params)
    np.testing.assert_allclose(both.weights_, equal.weights_, atol=1e-9)
    assert abs(both.n_iter_ - equal.n_iter_) <= 3


def test_linear_constraints_may_set_the_size():
    R = make_returns(120, seed=6)
    expected = fit(R, risk_measure="cvar").weights_
    by_row = {"constraint": (0.0, INF), "linear_constraints": (np.ones(6), 1.0, 1.0)}
    found = fit(R, risk_measure="cvar", **by_row).weights_
    np.testing.assert_allclose(found, expected, atol=1e-6)


# costs of trades


def test_costs_that_forbid_trades_and_costs_of_nothing():
    X = frame()
    forbidden = fit(X, constraint=None, previous_weights=HELD, transaction_cost=1e3)
    np.testing.assert_array_equal(forbidden.weights_, HELD)
    free = fit(X, previous_weights=HELD).weights_
    np.testing.assert_array_equal(free, fit(X).weights_)
    dear = fit(X, constraint=None, l1=5e-4).weights_
    costly = fit(X, constraint=None, transaction_cost=5e-4).weights_
    np.testing.assert_allclose(costly, dear, atol=1e-9)
    again = fit(X, previous_weights=fit(X).named_weights(), transaction_cost=0.01)
    # the best portfolio is kept
    np.testing.assert_allclose(again.weights_, fit(X).weights_, atol=1e-7)
