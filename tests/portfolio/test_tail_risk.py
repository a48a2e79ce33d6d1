"""CVaR and EVaR: against a linear program, and against a program of this file's own."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import Callback, few_of, slow_but
from scipy import sparse
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sk_stormc
from sk_stormc import CompositionalPortfolio
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.portfolio.second_order.limits import Turnover
from sk_stormc.problems import PortfolioProblem, check_problem

INF = np.inf
BOTH = ("cvar", "evar")
LONG = {"constraint": "long_only"}
CASES = {
    "long only": (LONG, {"low": 0.0, "budget": 1.0}),
    "long only, sum 2.5": (LONG | {"budget": 2.5}, {"low": 0.0, "budget": 2.5}),
    "box": ({"constraint": (0.02, 0.4)}, {"low": 0.02, "high": 0.4}),
    "box and budget": ({"constraint": (-0.1, 0.3), "budget": 1.0}, {"low": -0.1, "high": 0.3, "budget": 1.0}),
    "budget": ({"budget": 1.0}, {"budget": 1.0}),
    "l1, box and budget": (
        {"constraint": (-0.5, 0.5), "budget": 1.0, "l1": 0.002},
        {"low": -0.5, "high": 0.5, "budget": 1.0, "l1": 0.002},
    ),
    "l1 and budget": ({"budget": 1.0, "l1": 0.002}, {"budget": 1.0, "l1": 0.002}),
}


def make_returns(n=300, d=8, seed=0, df=3):
    """Heavy-tailed daily returns as fractions, with a market in them."""
    rng = np.random.default_rng(seed)
    market, own = rng.standard_t(df, (n, 1)), rng.standard_t(df, (n, d))
    return 0.01 * (0.6 * market + own * rng.uniform(0.5, 1.5, d) + 0.08)


def fit(R, sample_weight=None, **params):
    return CompositionalPortfolio(**{"random_state": 0, **params}).fit(R, sample_weight=sample_weight)


def cvar(losses, confidence, p=None):
    """The mean of the worst losses, by sorting; a period may count in part."""
    order = np.argsort(-losses)
    p = np.full(len(losses), 1 / len(losses)) if p is None else np.asarray(p, float) / np.sum(p)
    taken = np.diff(np.minimum(np.cumsum(p[order]), 1 - confidence), prepend=0.0)
    return taken @ losses[order] / (1 - confidence)


def evar(losses, confidence, p=None):
    """The least over a fine grid of t."""
    p = np.full(len(losses), 1 / len(losses)) if p is None else np.asarray(p, float) / np.sum(p)
    t = losses.std() * np.geomspace(1e-6, 1e3, 4001)
    return np.min(t * (logsumexp(losses / t[:, None], b=p, axis=1) - np.log(1 - confidence)))


def objective(w, R, risk_measure, confidence, risk_aversion, l1=0.0, p=None):
    gain, price = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    risk = {"cvar": cvar, "evar": evar}[risk_measure](-R @ w, confidence, p)
    return -gain * np.average(R @ w, weights=p) + price * risk + l1 * np.abs(w).sum()


def least_cvar(R, confidence, risk_aversion, low=-INF, high=INF, budget=None, l1=0.0, p=None, held=None, cost=0.0):
    """Rockafellar and Uryasev's linear program: w = plus - minus, s, and what each loss has above s."""
    n, d = R.shape
    p = np.full(n, 1 / n) if p is None else np.asarray(p, float) / np.sum(p)
    gain, price = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    held = np.zeros(d) if held is None else held
    # w, |w|, |w - held|, s, excess
    c = np.concatenate([-gain * p @ R, np.full(d, l1), np.full(d, cost), [price], price * p / (1 - confidence)])
    eye, none, column = sparse.eye(d), sparse.csr_matrix((d, d)), sparse.csr_matrix((d, n + 1))
    A = [sparse.hstack([-R, sparse.csr_matrix((n, 2 * d)), -np.ones((n, 1)), -sparse.eye(n)])]
    A += [sparse.hstack([sign * eye, -eye, none, column]) for sign in (1, -1)]
    A += [sparse.hstack([sign * eye, none, -eye, column]) for sign in (1, -1)]
    b = np.concatenate([np.zeros(n + 2 * d), held, -held])
    sums = None if budget is None else np.concatenate([np.ones(d), np.zeros(2 * d + 1 + n)])[None]
    bounds = [(None if low == -INF else low, None if high == INF else high)] * d + [(0, None)] * 2 * d
    bounds += [(None, None)] + [(0, None)] * n
    run = linprog(c, sparse.vstack(A).tocsr(), b, sums, None if budget is None else [budget], bounds)
    assert run.status == 0
    return run.fun


def least_evar(R, confidence, risk_aversion, low=-INF, high=INF, budget=None, l1=0.0, p=None, held=None, cost=0.0):
    """SLSQP over w = held + bought - sold = plus - minus and log t, from several t."""
    n, d = R.shape
    p = np.full(n, 1 / n) if p is None else np.asarray(p, float) / np.sum(p)
    gain, price = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    unit, split = (R @ np.full(d, 1 / d)).std(), l1 or cost
    offset, charge = (np.zeros(d), l1) if l1 else (np.zeros(d) if held is None else held, cost)
    both = np.hstack([np.eye(d), -np.eye(d)]) if split else np.eye(d)
    k = both.shape[1]

    def value(z):
        w, t = offset + both @ z[:k] if split else z[:k], unit * np.exp(z[k])
        e = -R @ w / t
        log_mean = logsumexp(e, b=p)
        q = p * np.exp(e - log_mean)
        slope = both.T @ (-gain * p @ R - price * q @ R) + (charge if split else 0.0)
        level = log_mean - np.log(1 - confidence)
        found = -gain * p @ R @ w + price * t * level + (charge * z[:k].sum() if split else 0.0)
        return found / unit, np.append(slope, price * (t * level + q @ R @ w)) / unit

    rules = []
    if budget is not None:
        rules.append({"type": "eq", "fun": lambda z: (both @ z[:k]).sum() + (offset.sum() if split else 0.0) - budget})
    if split:
        bounds = [(0, None)] * k
        for bound, sign in ((low, 1), (high, -1)):
            if np.isfinite(bound):
                rules.append({"type": "ineq", "fun": lambda z, b=bound, s=sign: s * (offset + both @ z[:k] - b)})
    else:
        bounds = [(low, high)] * k
    start = np.clip(np.full(d, (budget or 1.0) / d), low, high) if not split else np.full(k, 1e-3)
    start = np.concatenate([np.maximum(1 / d - offset, 0), np.maximum(offset - 1 / d, 0)]) if split else start
    runs = [
        minimize(
            value, np.append(start, t), jac=True, method="SLSQP", bounds=[*bounds, (-12, 6)], constraints=rules,
            options={"ftol": 1e-14, "maxiter": 2000}
        )
        for t in (0.0, -2.0)
    ]  # fmt: skip
    return unit * min(run.fun for run in runs)


def remembered(program):
    """Its least values, each found once."""
    known = {}

    def least(R, *args, **kwargs):
        asked = R.shape, R.tobytes(), repr(args), repr(sorted(kwargs.items()))
        if asked not in known:
            known[asked] = program(R, *args, **kwargs)
        return known[asked]

    return least


LEAST = {"cvar": remembered(least_cvar), "evar": remembered(least_evar)}


def right_or_said_so(R, risk_measure, least, confidence=0.95, risk_aversion=1.0, tol=1e-4, **params):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        settings = {"confidence": confidence, "risk_aversion": risk_aversion}
        portfolio = fit(R, risk_measure=risk_measure, **settings, **params)
    gap = (portfolio.loss_curve_[-1] - least) / abs(least)
    # linprog is exact to 1e-7 or so, and the other reference keeps t above 6e-6 of the deviation
    assert gap >= (-1e-6 if risk_measure == "cvar" else -1e-4)
    assert portfolio.dual_gap_ >= -1e-9 * abs(least)
    assert said or gap <= tol
    return portfolio, gap, bool(said)


# --- right or said so -----------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [pytest.param(0.9, marks=pytest.mark.slow), 0.95])
@pytest.mark.parametrize("name", slow_but(CASES, "long only", "l1, box and budget", "box"))
@pytest.mark.parametrize("risk_measure", BOTH)
def test_every_constraint(risk_measure, name, confidence):
    params, program = CASES[name]
    R = make_returns()
    least = LEAST[risk_measure](R, confidence, 1.0, **program)
    portfolio, gap, said = right_or_said_so(R, risk_measure, least, confidence, **params)
    assert gap <= 1e-4 and not said
    w = portfolio.weights_
    assert w.shape == (8,)
    value = objective(w, R, risk_measure, confidence, 1.0, program.get("l1", 0.0))
    assert value == pytest.approx(portfolio.loss_curve_[-1], rel=1e-5)
    assert (w >= program.get("low", -INF)).all() and (w <= program.get("high", INF)).all()
    assert "budget" not in program or abs(w.sum() - program["budget"]) <= 1e-10


@pytest.mark.parametrize("unit", slow_but([1e-4, 1.0, 100.0, 1e4], 1e-4, 1e4))
@pytest.mark.parametrize("df", slow_but([3, 30], 3))
@pytest.mark.parametrize("risk_measure", BOTH)
def test_units_and_tails(risk_measure, df, unit):
    R = make_returns(df=df)
    least = LEAST[risk_measure](100 * R, 0.95, 2.0, low=0, budget=1.0) / 100
    portfolio, gap, said = right_or_said_so(unit * R, risk_measure, unit * least, risk_aversion=2.0, **LONG)
    assert gap <= 1e-4 and not said
    np.testing.assert_allclose(
        portfolio.weights_, fit(R, risk_measure=risk_measure, risk_aversion=2.0, **LONG).weights_, atol=2e-3
    )


@pytest.mark.parametrize("n", [20, 100, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("confidence", few_of([0.5, 0.99, 0.999], 0, 2))
@pytest.mark.parametrize("risk_measure", BOTH)
def test_confidences_up_to_the_largest_loss(risk_measure, confidence, n):
    # with fewer periods than 1 / (1 - confidence) both risks are the largest loss
    R = make_returns(n, 5)
    least = LEAST[risk_measure](R, confidence, 1.0, low=0, budget=1.0)
    right_or_said_so(R, risk_measure, least, confidence, **LONG)


@pytest.mark.parametrize("risk_aversion", slow_but([0.01, 0.3, 10.0, INF], 0.01, INF))
@pytest.mark.parametrize("risk_measure", BOTH)
def test_risk_aversions(risk_measure, risk_aversion):
    R = make_returns()
    least = LEAST[risk_measure](R, 0.95, risk_aversion, low=-0.1, high=0.4, budget=1.0)
    box = {"constraint": (-0.1, 0.4), "budget": 1.0}
    portfolio, gap, said = right_or_said_so(R, risk_measure, least, risk_aversion=risk_aversion, **box)
    assert gap <= 1e-4 and not said
    value = objective(portfolio.weights_, R, risk_measure, 0.95, risk_aversion)
    assert -portfolio.score(R) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("risk_measure", few_of(BOTH, 1))
def test_costs_of_trades(risk_measure):
    R, held = make_returns(), np.array([0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    least = LEAST[risk_measure](R, 0.95, 1.0, low=0.0, high=1.0, budget=1.0, held=held, cost=0.002)
    costs = {"constraint": (0.0, 1.0), "budget": 1.0, "previous_weights": held, "transaction_cost": 0.002}
    portfolio, gap, said = right_or_said_so(R, risk_measure, least, **costs)
    assert gap <= 1e-4 and not said
    free = fit(R, risk_measure=risk_measure, **LONG).weights_
    assert np.abs(portfolio.weights_ - held).sum() < np.abs(free - held).sum()
    cost = 0.002 * np.abs(portfolio.weights_ - held).sum()
    assert portfolio.loss_curve_[-1] + portfolio.score(R) == pytest.approx(cost)


@pytest.mark.parametrize("risk_measure", BOTH)
def test_weighted_periods(risk_measure):
    R, p = make_returns(), np.random.default_rng(1).integers(0, 4, 300)
    least = LEAST[risk_measure](R, 0.95, 1.0, low=0, budget=1.0, p=p)
    portfolio = fit(R, risk_measure=risk_measure, sample_weight=p, **LONG)
    assert abs(portfolio.loss_curve_[-1] - least) <= 1e-4 * abs(least)
    repeated = fit(np.repeat(R, p, axis=0), risk_measure=risk_measure, **LONG)
    np.testing.assert_allclose(portfolio.weights_, repeated.weights_, atol=1e-3)
    value = objective(portfolio.weights_, R, risk_measure, 0.95, 1.0, p=p)
    assert portfolio.score(R, sample_weight=p) == pytest.approx(-value, rel=1e-5)


@pytest.mark.parametrize("risk_measure", BOTH)
def test_the_empty_portfolio_where_it_is_best(risk_measure):
    portfolio = fit(make_returns(), risk_measure=risk_measure, constraint=(-0.1, 0.2), risk_aversion=5.0)
    assert portfolio.stop_reason_ == "converged"
    assert not portfolio.weights_.any() and portfolio.loss_curve_[-1] == 0.0


@pytest.mark.parametrize("risk_measure", BOTH)
def test_a_riskless_asset_and_assets_that_do_not_vary(risk_measure):
    R = make_returns(300, 4)
    cash = fit(np.c_[R, np.full(300, 0.0002)], risk_measure=risk_measure, **LONG)
    assert cash.weights_[4] == pytest.approx(1.0)
    constant = fit(np.full((50, 3), 0.01), risk_measure=risk_measure, **LONG)
    assert constant.loss_curve_[-1] == pytest.approx(-0.02)
    one = fit(R[:, :1], risk_measure=risk_measure, **LONG)
    assert one.weights_[0] == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("solver", ["lbfgs", "sarah-c", "sketchy-storm", "scgd"])
@pytest.mark.parametrize("risk_measure", BOTH)
def test_other_solvers_are_right_or_say_so(risk_measure, solver):
    R = make_returns()
    least = LEAST[risk_measure](R, 0.95, 1.0, low=0.02, high=0.4)
    budget = {} if solver == "lbfgs" else {"max_iter": 300}
    right_or_said_so(R, risk_measure, least, solver=solver, constraint=(0.02, 0.4), **budget)


@pytest.mark.parametrize("risk_measure", BOTH)
def test_a_budget_that_ends_early_is_said(risk_measure):
    R = make_returns()
    for budget in ({"max_iter": 5}, {"solver": sk_stormc.AutomaticSTORM(max_ifo=5000)}):
        with pytest.warns(ConvergenceWarning, match="may be above its minimum by up to"):
            portfolio = fit(R, risk_measure=risk_measure, **LONG, **budget)
        assert portfolio.n_iter_ <= 5 if "max_iter" in budget else portfolio.ifo_[-1] <= 5000
        assert portfolio.stop_reason_ in ("max_iter", "max_ifo")
        least = LEAST[risk_measure](R, 0.95, 1.0, low=0, budget=1.0)
        assert portfolio.loss_curve_[-1] - portfolio.dual_gap_ <= least * (1 + 1e-9)  # the bound is one


def test_batches_of_some_periods():
    R = make_returns(3000)
    least = least_evar(R, 0.9, 1.0, low=0, budget=1.0)
    sampled = {"solver__batch_size": 256, "solver__max_ifo": 300_000}
    portfolio = CompositionalPortfolio(risk_measure="evar", confidence=0.9, random_state=0, **LONG)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        portfolio.set_params(**sampled).fit(R)
    assert said or portfolio.loss_curve_[-1] <= least + 1e-4 * abs(least)


# --- the fit and its attributes -------------------------------------------------------------------------


@pytest.mark.parametrize("risk_measure", BOTH)
def test_what_a_fit_leaves(risk_measure):
    R = make_returns()
    portfolio = fit(R, risk_measure=risk_measure, **LONG)
    assert portfolio.weights_.shape == (8,) and portfolio.n_features_in_ == 8
    assert portfolio.stop_reason_ == "converged"
    assert len(portfolio.loss_curve_) == len(portfolio.ifo_) and (np.diff(portfolio.ifo_) >= 0).all()
    equal = np.full(8, 1 / 8)
    assert portfolio.loss_curve_[0] == pytest.approx(objective(equal, R, risk_measure, 0.95, 1.0), rel=1e-5)
    assert portfolio.loss_curve_[-1] == portfolio.loss_curve_.min()
    assert sum(portfolio.n_evaluations_.values()) > 0 and portfolio.ifo_[-1] > 0
    np.testing.assert_allclose(portfolio.predict(R), R @ portfolio.weights_)
    again = pickle.loads(pickle.dumps(clone(portfolio))).fit(R)
    np.testing.assert_array_equal(again.weights_, portfolio.weights_)
    np.testing.assert_array_equal(again.loss_curve_, portfolio.loss_curve_)
    assert 0 <= portfolio.dual_gap_ <= 1e-4 * portfolio.loss_curve_[-1]


@pytest.mark.parametrize("risk_measure", slow_but(BOTH, "evar"))
def test_float32_warm_starts_and_labels(risk_measure):
    R = make_returns()
    single = fit(R.astype(np.float32), risk_measure=risk_measure, **LONG)
    double = fit(R, risk_measure=risk_measure, **LONG)
    assert single.weights_.dtype == np.float32
    np.testing.assert_allclose(single.loss_curve_[-1], double.loss_curve_[-1], rtol=1e-4)
    warm = fit(R, risk_measure=risk_measure, warm_start=True, **LONG)
    before = warm.n_iter_
    assert warm.fit(R).stop_reason_ == "converged" and warm.n_iter_ <= 2 * before
    table = pd.DataFrame(R, columns=list("abcdefgh"))
    caps = pd.Series(np.linspace(0.1, 0.45, 8), index=list("abcdefgh"))
    for frame in (table, table[list("hgfedcba")]):
        named = fit(frame, risk_measure=risk_measure, constraint=(0, caps), budget=1.0).named_weights()
        assert (named <= caps[named.index] + 1e-12).all()


@pytest.mark.parametrize("risk_measure", few_of(BOTH, 1))
def test_a_fit_that_is_resumed_has_the_bits_of_one_that_was_not_ended(risk_measure):
    R = make_returns(150)
    asked = {"risk_measure": risk_measure, "confidence": 0.99, "constraint": (0.0, 0.4), "budget": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = fit(R, solver="storm-c", max_iter=5000, **asked)
        assert whole.n_iter_ > 40
        for budget in (7, whole.n_iter_ - 1):
            broken = pickle.loads(pickle.dumps(fit(R, solver="storm-c", max_iter=budget, **asked)))
            assert broken.n_iter_ <= budget
            broken.set_params(max_iter=5000).resume(R)
            np.testing.assert_array_equal(broken.weights_, whole.weights_)
            np.testing.assert_array_equal(broken.loss_curve_, whole.loss_curve_)
            np.testing.assert_array_equal(broken.ifo_, whole.ifo_)
            assert broken.dual_gap_ == whole.dual_gap_ and broken.stop_reason_ == whole.stop_reason_


@pytest.mark.parametrize("risk_measure", BOTH)
def test_callbacks_see_weights_and_exact_values(risk_measure):
    R, seen = make_returns(), []

    class Watch(Callback):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            if context.task_name == "pass":
                seen.append((fitted_estimator.weights_, fitted_estimator.loss_curve_[-1]))
            return len(seen) >= 2

    portfolio = CompositionalPortfolio(risk_measure=risk_measure, max_iter=1000, random_state=0, **LONG)
    portfolio.set_callbacks(Watch()).fit(R)
    assert portfolio.stop_reason_ == ("callback" if len(seen) == 2 else "converged") and seen
    for weights, loss in seen:
        assert weights.shape == (8,)
        assert loss == pytest.approx(objective(weights, R, risk_measure, 0.95, 1.0), rel=1e-5)
    assert portfolio.weights_.shape == (8,)


def test_the_stream_and_what_has_no_size_are_refused():
    R = make_returns()
    for risk_measure in BOTH:
        with pytest.raises(AttributeError) as refused:
            CompositionalPortfolio("scgd", risk_measure=risk_measure, **LONG).partial_fit(R)
        assert "batches of a stream have too few periods of the tail" in str(refused.value)
        for params in ({}, {"l1": 0.1}, {"constraint": (0, INF)}, {"budget": 0.0}):
            with pytest.raises(ValueError, match=f"risk_measure='{risk_measure}' needs a constraint or a budget"):
                fit(R, risk_measure=risk_measure, **params)
        for confidence in (0, 1, 1.5, "high", None, np.nan, True):
            with pytest.raises(ValueError, match="confidence must be"):
                fit(R, risk_measure=risk_measure, confidence=confidence, **LONG)
        assert fit(R, risk_measure=risk_measure, confidence=np.float32(0.9), **LONG).stop_reason_ == "converged"


def test_a_memmap(tmp_path):
    R = make_returns(150)
    np.save(tmp_path / "returns.npy", R)
    mapped = np.load(tmp_path / "returns.npy", mmap_mode="r")
    for risk_measure in BOTH:
        found = fit(mapped, risk_measure=risk_measure, **LONG)
        expected = fit(R, risk_measure=risk_measure, **LONG).loss_curve_[-1]
        assert found.loss_curve_[-1] == pytest.approx(expected, rel=1e-4)


# --- the problems ---------------------------------------------------------------------------------------

PENALTIES = [
    None, Simplex(), Box(-0.1, 0.4), Box(0, 0.5, budget=1.0, alpha=0.01), L1(0.1), Turnover([0.1] * 4, 0.1)
]  # fmt: skip


@pytest.mark.parametrize(("risk_aversion", "weighted"), [(1.0, True), pytest.param(INF, False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("penalty", few_of(PENALTIES, 0, 3, 5), ids=repr)
@pytest.mark.parametrize("risk_measure", BOTH)
def test_the_contract_of_a_problem(risk_measure, penalty, risk_aversion, weighted):
    R, rng = 100 * make_returns(80, 4), np.random.default_rng(0)
    problem = PortfolioProblem(
        R, risk_aversion, risk_measure=risk_measure, confidence=0.9, penalty=penalty, metric="variance",
        sample_weight=rng.integers(0, 3, 80) if weighted else None,
    )  # fmt: skip
    check_problem(problem)
    x = problem.initial_point(rng)
    assert problem.weights_of(x).shape == (4,)
    exact = problem.value_at(problem.weights_of(x))
    above = problem.objective(x) - exact
    assert -1e-9 <= above <= 2 * problem.width / (1 - 0.9)
    narrow = problem.with_width(problem.width / 100)
    assert -1e-9 <= narrow.objective(narrow.start_at(x[:4])) - exact <= max(above, 1e-9)
    value, bound = problem.bounds(x)
    assert value == exact and bound <= value


@pytest.mark.parametrize("confidence", slow_but([0.01, 0.5, 0.9, 0.99, 0.999], 0.01, 0.99))
@pytest.mark.parametrize("n", [1, 2, 37, 500])
def test_the_risks_are_those_of_their_definitions(n, confidence):
    R, rng = 100 * make_returns(n, 3), np.random.default_rng(n)
    w = rng.normal(size=3)
    for p in (None, rng.uniform(0.1, 2, n)):
        for risk_measure, risk in (("cvar", cvar), ("evar", evar)):
            problem = PortfolioProblem(R, INF, risk_measure=risk_measure, confidence=confidence, sample_weight=p)
            expected = risk(-R @ w, confidence, p) if n > 1 else -(R @ w)[0]
            assert problem.value_at(w) == pytest.approx(expected, rel=2e-5)
    assert PortfolioProblem(np.ones((5, 1)), INF, risk_measure="evar").value_at(np.ones(1)) == pytest.approx(-1.0)


@pytest.mark.parametrize("risk_measure", BOTH)
def test_a_reweighting_gives_the_risk(risk_measure):
    R, w = 100 * make_returns(200, 3), np.array([0.2, 0.5, 0.3])
    problem = PortfolioProblem(R, risk_measure=risk_measure, width=1e-4)
    q = problem.reweighting(-R @ w)
    assert q.shape == (200,) and (q >= 0).all() and q.sum() == pytest.approx(1.0)
    assert q @ (-R @ w) == pytest.approx(problem.risk(-R @ w), rel=1e-3)
    if risk_measure == "cvar":
        assert q.max() <= (1 + 1e-6) / (200 * 0.05)
    else:
        assert q @ np.log(200 * np.maximum(q, 1e-300)) <= -np.log(0.05) * (1 + 1e-9)
