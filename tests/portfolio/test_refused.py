"""What portfolios refuse, before any work, with an error that names the parameter, what
was found and what was expected."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from definitions import make_returns

from sk_stormc import AutomaticSTORM, CompositionalPortfolio, STORMCompositional
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SCGD, SOLVERS

INF = np.inf
NAMES = ["oil", "gas", "bonds", "gold", "tech", "cash"]
SECTOR = ["energy", "energy", "rates", "metal", "shares", "rates"]
HELD = np.array([0.3, 0.1, 0.2, 0.1, 0.2, 0.1])
TABLE = pd.DataFrame(make_returns(120), columns=NAMES)
BAD = [np.nan, *[0.1] * 5]
HEDGED = {"constraint": (-1, 2), "budget": 1, "previous_weights": [2, -1, 0, 0, 0, 0]}
TIGHT = {"linear_constraints": (np.ones((1, 6)), 0.0, 1.0), "constraint": None}


def rows(*texts):
    return {"linear_constraints": list(texts)}


def given(**params):
    return params


LEAST, RATIO = given(risk_aversion=INF), given(objective="ratio")
REFUSED = [
    # texts of linear constraints
    ("linear_constraints.*'enrgy'", rows("enrgy <= 1")),
    ("linear_constraints.*'< 1'", rows("energy < 1")),
    ("linear_constraints.*no comparison", rows("energy")),
    ("linear_constraints.*no comparison", rows("")),
    ("linear_constraints.*without a name", rows("1 <= 2")),
    ("linear_constraints.*nothing beside", rows("energy <=")),
    ("linear_constraints.*'gas'", rows("oil * gas <= 1")),
    ("linear_constraints.*the end", rows("oil <= +")),
    ("linear_constraints.*'gas'", rows("oil 'gas' <= 1")),
    # limits that no portfolio meets
    (
        "'energy >= 0.8' and 'rates >= 0.4'.*missed by 0.2",
        rows("energy >= 0.8", "rates >= 0.4", "metal <= 1"),
    ),
    ("'rates <= -0.1'.*missed by 0.1", rows("rates <= -0.1")),
    ("'tech == 1' and 'max_turnover=0.5'", rows("tech == 1") | given(max_turnover=0.5)),
    ("'row 0 of linear_constraints'", given(linear_constraints=(np.ones(6), 2, 3))),
    ("must leave a portfolio.*'max_gross=0.5'.* by 0.5", given(max_gross=0.5)),
    (
        "'max_turnover=0.1' and 'max_gross=1'",
        HEDGED | given(max_gross=1, max_turnover=0.1),
    ),
    ("max_risk must be at least 0.0[0-9]*, the least risk", given(max_risk=1e-4)),
    # numbers that do not fit
    ("lower.*0.2.*0.1", given(linear_constraints=(np.eye(6), 0.2, 0.1))),
    (r"\(n_constraints, 6\).*\(5, 5\)", given(linear_constraints=(np.eye(5), 0, 1))),
    ("groups.*'oil'", rows("oil <= 1") | given(groups=["oil"] * 6)),
    ("groups.*'coal'", given(groups={"coal": "energy"})),
    ("groups.*'energy' in two", given(groups=[SECTOR, SECTOR])),
    ("benchmark.*'index'", given(benchmark="index")),
    (r"benchmark.*\(120,\).*\(6,\).*\(7,\)", given(benchmark=np.ones(7))),
    (r"transaction_cost must be .*\(6,\), got \(2", given(transaction_cost=[1, 2])),
    (r"previous_weights must be .*\(6,\), got \(2", given(previous_weights=[1, 2])),
    ("previous_weights must be finite", given(previous_weights=BAD)),
    (r"one number for each of the 6 .*\(2,\)", given(expected_returns=[0.1, 0.2])),
    ("one number for each of the 6 assets", given(expected_returns=0.1)),
    ("got nan for column 'oil'", given(expected_returns=BAD)),
    ("nothing for 'bonds', 'go", given(expected_returns={"oil": 0.1, "gas": 0.2})),
    ("expected_returns", given(expected_returns=["a"] * 6)),
    ("order must be 1 or from 2 to 10, got 1.5", given(order=1.5)),
    ("confidence must be", given(confidence=0)),
    ("confidence must be", given(confidence=1)),
    ("max_risk must be", given(max_risk=0)),
    ("transaction_cost must be numbers, got", given(transaction_cost=[True, *BAD[1:]])),
    ("previous_weights must be numbers", given(previous_weights=np.ones(6, bool))),
    ("expected_returns must be numbers", given(expected_returns=np.ones(6, bool))),
    ("min_held must be numbers, got True", given(min_held=True)),
    ("objective must be one of", given(objective="gain")),
    ("solver must be one of .*newton", given(solver="newtown")),
    # what has no place together
    (r"min_return needs risk_aversion=numpy.inf, .*got .*=1.0", given(min_return=0.1)),
    ("min_return must be None with max_r", LEAST | given(min_return=0.1, max_risk=1)),
    ("min_return must be None with objec", LEAST | RATIO | given(min_return=0.1)),
    ("max_risk must be None with objective='ratio'", RATIO | given(max_risk=0.1)),
    ("max_risk needs a risk apart", given(max_risk=0.1, risk_measure="entropic")),
    ("less its costs", RATIO | given(transaction_cost=0.2, previous_weights=None)),
    ("sets the size", RATIO | given(constraint=None)),
    ("sets the size", TIGHT | given(risk_measure="cvar")),
    *[
        ("risk_aversion=inf needs a constraint or a budget", LEAST | no_size)
        for no_size in (
            given(constraint=None),
            given(constraint=None, max_gross=1.0),
            given(constraint=None, min_return=-0.01),
            given(constraint=(0, INF)),
            given(constraint=(-0.5, 0.5)),
        )
    ],
    *[
        (f"{measure}' needs a constraint or", given(constraint=None) | no_size)
        for measure, no_size in (
            ("cvar", given(risk_measure="cvar")),
            ("evar", given(risk_measure="evar", l1=0.1)),
            ("cdar", given(risk_measure="cdar", budget=0.0)),
            ("downside", given(risk_measure="downside")),
        )
    ],
    # what a solver does not have
    *[
        (f"{solver}.*{next(iter(params))}.*newton", params | given(solver=solver))
        for solver, params in (
            ("storm-c", given(min_return=0.001) | LEAST),
            ("storm-c", given(max_gross=1.5)),
            ("storm-c", given(objective="ratio")),
            ("lbfgs", given(max_turnover=1.0)),
            ("lbfgs", given(max_risk=0.1)),
        )
    ],
    ("benchmark, .*newton", given(solver=STORMCompositional(), benchmark=HELD)),
    ("cost of trades", given(solver="lbfgs", transaction_cost=0.1)),
    ("constraint='long_only' is.*got the penalty", given(solver="lbfgs")),
    (
        "can fit risk_measure='variance'",
        given(solver="moments", risk_measure="entropic"),
    ),
    # integer limits
    ("max_assets=2.*entropic", given(max_assets=2, risk_measure="entropic")),
    ("max_assets=2.*evar", given(max_assets=2, risk_measure="evar")),
    ("min_held.*order=1 or", given(min_held=0.1, risk_measure="downside", order=3)),
    ("=2 needs solver='auto' or", given(max_assets=2, solver="newton")),
    ("=2 needs solver='auto' or", given(max_assets=2, solver="moments")),
    ("=2 needs solver='auto' or", given(max_assets=2, solver="storm-c")),
    ("max_assets", given(max_assets=0)),
    ("max_assets", given(max_assets=1.5)),
    ("min_held", given(min_held=-0.1)),
    ("min_held", given(min_held=[0.1])),
    ("time_limit", given(time_limit=0)),
]


@pytest.mark.parametrize(("words", "params"), REFUSED)
def test_refused_by_fit(words, params):
    plain = {"constraint": "long_only", "groups": SECTOR, "previous_weights": HELD}
    portfolio = CompositionalPortfolio(random_state=0, **plain | params)
    with pytest.raises(ValueError, match=words):
        portfolio.fit(TABLE)
    assert not hasattr(portfolio, "weights_")


ABSENT = AttributeError  # partial_fit itself
NO_STREAM = [
    (ABSENT, "for partial_fit set solver='moments'", given(solver="newton")),
    (ABSENT, "for partial_fit set objective='utility'", RATIO),
    (ABSENT, "max_risk needs all periods at once", given(max_risk=0.1)),
    (ABSENT, "min_return needs all periods", given(min_return=0.1)),
    (ABSENT, "min_held cannot be used with partial_fit", given(min_held=0.1)),
    *[
        (ABSENT, f"'{measure}' needs all periods at once: use fit", params)
        for measure in ("cvar", "cdar", "evar", "gini", "semideviation", "downside")
        for params in (given(risk_measure=measure),)
    ],
    (ABSENT, "use fit.* memmap", given(solver="scgd", risk_measure="cvar")),
    (ABSENT, "use fit.*'entropic'$", given(solver="newton", risk_measure="downside")),
    (ValueError, "expected_returns", given(solver="storm-c", expected_returns=HELD)),
    (ValueError, "half_life=9 on a stream keeps", given(solver=SCGD(), half_life=9)),
    (ValueError, "partial_fit of solver='scgd'", given(solver="scgd", max_turnover=2)),
    (ValueError, "benchmark cannot be used with partial_fit", given(benchmark=HELD)),
    (ValueError, "one number for each of the 6 assets", given(expected_returns=[0.1])),
]


@pytest.mark.parametrize(("error", "words", "params"), NO_STREAM)
def test_refused_by_partial_fit(error, words, params):
    portfolio = CompositionalPortfolio(**{"constraint": "long_only"} | params)
    with pytest.raises(error, match=words):
        portfolio.partial_fit(TABLE)
    assert error is ValueError or not hasattr(portfolio, "partial_fit")
    assert not hasattr(portfolio, "weights_")


@pytest.mark.parametrize(
    "measure", ["cvar", "evar", "semideviation", "downside", "cdar", "gini"]
)
def test_tail_risks_have_the_exact_method_only(measure):
    words = "risk_measure 'variance', 'semivariance' and 'entropic'"
    params = {"risk_measure": measure, "constraint": "long_only"}
    for solver in (*SOLVERS, "moments", AutomaticSTORM()):
        name = re.escape(f"solver={solver!r} has {words}; take 'auto' or 'newton' for ")
        with pytest.raises(ValueError, match=f"^{name}{measure!r}$"):
            # before any work: the returns are not even read
            CompositionalPortfolio(solver, **params).fit("no returns")
    with pytest.raises(ValueError, match=f"has {words}"):
        CompositionalPortfolio(**params).set_params(solver__batch_size=16).fit(TABLE)
    with pytest.raises(ValueError, match=f"^risk_measure must be .*'{measure}'"):
        PortfolioProblem(TABLE, risk_measure=measure)


def test_too_many_assets():
    wide = np.random.default_rng(0).normal(size=(3, 4097))
    for params in ({"solver": "newton"}, {"risk_measure": "cvar"}):
        with pytest.raises(ValueError, match="4096 assets.*4097"):
            CompositionalPortfolio(constraint="long_only", **params).fit(wide)
    with pytest.raises(ValueError, match="solver='moments' on a stream keeps moments"):
        CompositionalPortfolio("moments").partial_fit(np.ones((3, 2001)))


def test_integer_limits_need_returns_in_memory_and_scip(tmp_path, monkeypatch):
    file = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=(120, 6))
    file[:] = TABLE
    portfolio = CompositionalPortfolio(max_assets=2, constraint="long_only")
    with pytest.raises(ValueError, match="max_assets=2 needs returns in memory"):
        portfolio.fit(file)
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(ImportError, match=r"sk_stormc\[integer\]"):
        portfolio.fit(TABLE)
