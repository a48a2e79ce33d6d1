"""Tests of sk_stormc.problems: the check of the contract, which must be able to fail, and the portfolio."""

import re
from decimal import Decimal

import numpy as np
import pytest
from helpers import slow_but

from sk_stormc.checks.problem import check_problem
from sk_stormc.penalties import L1, Simplex
from sk_stormc.problems import CompositionalProblem, FiniteSource, PortfolioProblem

MEASURES = ("variance", "semivariance", "entropic")


def make_returns(n=200, d=5, unit=1.0, dtype=float, seed=0, mean=0.05):
    return (unit * np.random.default_rng(seed).normal(mean, 1.0, size=(n, d))).astype(dtype)


def close(a, b, rel):
    """Within rel of the largest entry of b."""
    np.testing.assert_allclose(a, b, rtol=0, atol=rel * np.abs(b).max())


class Stacked(CompositionalProblem):
    """The portfolio as the paper has it: g_j(x) = (x, <r_j, x>), f_i(y) a function of y = g(x) alone."""

    def __init__(self, returns, risk_aversion=1.0):
        self.returns, self.risk_aversion = returns, risk_aversion
        self.n_inner, self.n_variables = returns.shape
        self.n_outer = self.n_inner

    def inner_batch(self, draws):
        return self.returns if draws is None else self.returns[draws]

    outer_batch = inner_batch

    def inner(self, x, batch):
        return np.append(x, batch.mean(0) @ x)

    def jacobian(self, x, batch):
        return np.vstack([np.eye(x.size), batch.mean(0)])

    def outer_gradient(self, x, u, batch):
        d = batch @ u[:-1] - u[-1]
        slope = 2 * self.risk_aversion * d
        return None, np.append((slope - 1) @ batch, -slope.sum()) / len(batch)

    def outer(self, x, u):
        y = self.returns @ u[:-1]
        return float(np.mean(self.risk_aversion * (y - u[-1]) ** 2 - y))


class Neighbours(CompositionalProblem):
    """Points against their neighbours, with a Jacobian that is no array: u_k = sum_i exp(-|x_k - x_i|^2)."""

    jacobian_kind = "operator"
    inner_floor = 1.0

    def __init__(self, n=12, scale=1.0):
        self.n_inner = self.n_blocks = n
        self.n_outer, self.n_variables, self.scale = 1, 2 * n, scale

    def initial_point(self, rng):
        return self.scale * rng.standard_normal(self.n_variables)

    def inner_batch(self, draws):
        return np.arange(self.n_inner) if draws is None else draws

    def outer_batch(self, draws):
        return None

    def _kernel(self, x, batch):
        z = x.reshape(-1, 2)
        way = z[:, None] - z[batch]
        return way, self.n_inner / len(batch) * np.exp(-(way**2).sum(-1))

    def inner(self, x, batch):
        return self._kernel(x, batch)[1].sum(1)

    def jacobian(self, x, batch):
        return batch, *self._kernel(x, batch)

    def vjp(self, J, v):
        batch, way, kernel = J
        pull = -2 * (v[:, None] * kernel)[..., None] * way
        result = pull.sum(1)
        np.subtract.at(result, batch, pull.sum(0))
        return result.ravel()

    def outer_gradient(self, x, u, batch):
        return 2 * x, 1 / (u - 1)

    def outer(self, x, u):
        return float(x @ x + np.log(u - 1).sum())


class Sparse(CompositionalProblem):
    """A linear model whose components each hold one column, so that most draws miss most entries."""

    def __init__(self, n=40):
        self.A = np.random.default_rng(0).normal(size=(n, n))
        self.n_inner = self.n_variables = n
        self.n_outer = n

    def inner_batch(self, draws):
        return np.arange(self.n_inner) if draws is None else draws

    outer_batch = inner_batch

    def jacobian(self, x, batch):
        J = np.zeros_like(self.A)
        np.add.at(J.T, batch, self.n_inner / len(batch) * self.A.T[batch])
        return J

    def inner(self, x, batch):
        return self.jacobian(x, batch) @ x - 1

    def outer_gradient(self, x, u, batch):
        f_u = np.zeros_like(u)
        np.add.at(f_u, batch, 2 * self.n_inner / len(batch) * u[batch])
        return None, f_u

    def outer(self, x, u):
        return float(u @ u)


# check_problem passes what is right


@pytest.mark.parametrize("unit", slow_but([1e-4, 1.0, 1e4], 1e-4))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_portfolio_keeps_the_contract(measure, weighted, dtype, unit):
    R, lam = make_returns(unit=unit, dtype=dtype), 2.0 / unit
    weights = np.random.default_rng(1).integers(0, 4, size=len(R)) if weighted else None
    problem = PortfolioProblem(R, lam, risk_measure=measure, sample_weight=weights, penalty=Simplex())
    repeated = PortfolioProblem(np.repeat(R, weights, 0), lam, risk_measure=measure) if weighted else None
    if repeated is not None:
        repeated.penalty = problem.penalty
    assert check_problem(problem, repeated=repeated, n_draws=200) is None
    assert check_problem(problem, np.full(5, 0.2), repeated=repeated, n_draws=200, random_state=1) is None


@pytest.mark.parametrize("measure", MEASURES)
def test_portfolio_with_mixed_units_and_a_metric_keeps_the_contract(measure):
    R = make_returns() * 10.0 ** np.array([-4, -2, 0, 2, 4])
    check_problem(PortfolioProblem(R, 0.5, risk_measure=measure, metric="variance"), n_draws=200)


@pytest.mark.parametrize(
    ("kind", "n_draws"),
    [
        (lambda: Stacked(make_returns()), 300),
        (Neighbours, 300),
        (lambda: Neighbours(scale=4.0), 300),  # u nearly at its floor
        (Sparse, 300),
        (lambda: Sparse(90), 30),  # most entries are in none of the draws
        (lambda: Sparse(130), 30),  # compared along random directions
    ],
)
def test_other_problems_keep_the_contract(kind, n_draws):
    check_problem(kind(), n_draws=n_draws)


def test_objective_with_l1_keeps_the_contract():
    check_problem(PortfolioProblem(make_returns(), penalty=L1(0.3)), n_draws=200)


# and fails for what is wrong, with the method's name


def broken(returns, sample_weight=None, **members):
    """A portfolio problem with other methods and attributes."""
    methods = {name: member for name, member in members.items() if callable(member) or name == "source"}
    problem = type("Broken", (PortfolioProblem,), methods)(returns, sample_weight=sample_weight)
    problem.__dict__.update({name: member for name, member in members.items() if name not in methods})
    return problem


def scaled(name, factor, when=lambda batch: True):
    """A method whose result is scaled where the batch is such."""

    def method(self, x, batch):
        value = getattr(PortfolioProblem, name)(self, x, batch)
        return value * factor if when(batch) else value

    return {name: method}


def reusing(name):
    """A method that returns the same array every time."""

    def method(self, *args):
        value = getattr(PortfolioProblem, name)(self, *args)
        last = value[1] if isinstance(value, tuple) else value
        if "_buffer" not in self.__dict__:
            self._buffer = np.empty_like(last)
        self._buffer[...] = last
        return (value[0], self._buffer) if isinstance(value, tuple) else self._buffer

    return {name: method}


def outer_gradient(change):
    """outer_gradient with (f_x, f_u) changed."""

    def method(self, x, u, batch):
        return change(*PortfolioProblem.outer_gradient(self, x, u, batch))

    return {"outer_gradient": method}


def one_entry(f_x, f_u):
    f_x = f_x.copy()
    f_x[3] *= 1.001
    return f_x, f_u


def into_x(self, x, batch):
    x *= 1.001
    return PortfolioProblem.inner(self, x, batch)


def into_u(self, x, u, batch):
    value = PortfolioProblem.outer_gradient(self, x, u, batch)
    u += 0.001
    return value


def stale(self, x, batch):
    """g at the x of the call before."""
    last, self._last = getattr(self, "_last", x), x
    return PortfolioProblem.inner(self, last, batch)


def a_sum(self, draws):
    return (self.mean if draws is None else self.returns[draws].sum(0))[None]


def all_but_one(self, draws):
    return PortfolioProblem.outer_batch(self, np.arange(1, self.n_outer) if draws is None else draws)


def drawn(**methods):
    """A problem whose source has other methods."""
    return {"source": type("Drawn", (FiniteSource,), methods)(200, 200)}


def a_part(self, rng, shape):
    return rng.integers(self.n_inner // 4, size=shape)


def own_generator(self, rng, shape):
    self._rng = getattr(self, "_rng", np.random.default_rng(0))
    return self._rng.integers(self.n_inner, size=shape)


SLIPS = {
    "f_u's sign": (outer_gradient(lambda f_x, f_u: (f_x, -f_u)), "outer_gradient: f_u"),
    "f_u's factor": (outer_gradient(lambda f_x, f_u: (f_x, 1.001 * f_u)), "outer_gradient: f_u"),
    "f_x missing": (outer_gradient(lambda f_x, f_u: (None, f_u)), "outer_gradient: f_x"),
    "one entry of f_x": (outer_gradient(one_entry), "outer_gradient: f_x"),
    "f_u's shape": (outer_gradient(lambda f_x, f_u: (f_x, f_u[0])), "outer_gradient: must be an array"),
    "J scaled": (scaled("jacobian", 1.001), "jacobian: J and central differences"),
    "J's shape": ({"jacobian": lambda self, x, batch: batch[0]}, "jacobian: must be an array"),
    "J of a batch": (scaled("jacobian", 1.001, lambda batch: batch.flags.owndata), "jacobian: J and central"),
    "g not finite": (scaled("inner", np.inf), "inner: is not finite"),
    "g of another shape": ({"inner": lambda self, x, batch: batch}, "inner: must be an array"),
    "vjp": ({"vjp": lambda self, J, v: 2 * (v @ J)}, "vjp: vjp(J, v) and J.T @ v"),
    "vjp's shape": ({"vjp": lambda self, J, v: J}, "vjp: must be an array"),
    "outer": ({"outer": lambda self, x, u: np.nan}, "outer: must be a finite float"),
    "outer's shape": ({"outer": lambda self, x, u: u}, "outer: must be a finite float"),
    "objective": ({"objective": lambda self, x: 1.01 * PortfolioProblem.objective(self, x)}, "objective"),
    "gradient": ({"gradient": lambda self, x: 1.01 * PortfolioProblem.gradient(self, x)}, "gradient: "),
    "biased draw_inner": (drawn(draw_inner=a_part), "draw_inner"),
    "biased draw_outer": (drawn(draw_outer=a_part), "draw_outer"),
    "not from rng": (drawn(draw_inner=own_generator), "draw_inner: returns different draws"),
    "draws' shape": (drawn(draw_outer=lambda self, rng, shape: rng.integers(9, size=shape[0])), "draw_outer"),
    "inner reuses": (reusing("inner"), "inner: is written into"),
    "jacobian reuses": (reusing("jacobian"), "jacobian: is written into"),
    "outer_gradient reuses": (reusing("outer_gradient"), "outer_gradient: is written into"),
    "inner writes into x": ({"inner": into_x}, "inner: writes into x or u"),
    "outer_gradient writes into u": ({"outer_gradient": into_u}, "outer_gradient: writes into x or u"),
    "stale cache": ({"inner": stale}, "inner: returns different values"),
    "J that cannot be pickled": (
        {
            "jacobian": lambda self, x, batch: lambda v: v @ batch,
            "vjp": lambda self, J, v: J(v),
            "jacobian_kind": "operator",
        },
        "jacobian: must return plain data",
    ),
    "J that refers to the problem": (
        {
            "jacobian": lambda self, x, batch: [batch, {"problem": self}],
            "vjp": lambda self, J, v: v @ J[0],
            "jacobian_kind": "operator",
        },
        "jacobian: must return plain data, it refers to the problem",
    ),
    "a sum for a mean": ({"inner_batch": a_sum}, "inner: a batch of 4 and their mean"),
    "all components, but one": ({"outer_batch": all_but_one}, "outer_gradient: "),
    "n_inner": ({"n_inner": 0}, "n_inner: must be a positive int, got 0"),
    "n_outer": ({"n_outer": 200.0}, "n_outer: must be a positive int"),
    "n_variables": ({"n_variables": True}, "n_variables: must be a positive int"),
    "n_blocks": ({"n_blocks": 2}, "n_blocks: must divide n_variables=5, got 2"),
    "jacobian_kind": ({"jacobian_kind": "dense"}, "jacobian_kind: must be"),
    "inner_floor": ({"inner_floor": 1e9}, "inner: must be finite and > inner_floor"),
    "inner_floor, not a number": ({"inner_floor": np.nan}, "inner_floor: must be a finite number"),
    "penalty": ({"penalty": "l1"}, "penalty: must be None or have value, prox and project"),
    "metric's shape": ({"metric": np.ones(4)}, "metric: must be a vector or matrix of 5 variables, got shape (4,)"),
    "metric's sign": ({"metric": np.array([1, 1, 0, 1, 1.0])}, "metric: must be positive, got 0.0 at 2"),
    "initial_point's shape": ({"initial_point": lambda self, rng: np.zeros(4)}, "initial_point: must be"),
    "initial_point's dtype": ({"initial_point": lambda self, rng: np.zeros(5, int)}, "initial_point: "),
    "initial_point, nan": ({"initial_point": lambda self, rng: np.full(5, np.nan)}, "initial_point: must be"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_check_names_the_slip(slip):
    members, message = SLIPS[slip]
    with pytest.raises(ValueError, match="^Broken") as caught:
        check_problem(broken(make_returns(mean=1.0), **members))
    text = str(caught.value)
    assert text.startswith(f"Broken.{message}") or f"from {message}" in text
    if "differ by" in text:
        found, tolerance, got, expected = re.search(
            r"differ by (\S+) \(tolerance (\S+)\): got (\S+), expected (\S+) for ", text
        ).groups()
        assert float(found) > float(tolerance) >= 0
        assert abs(float(got) - float(expected)) == pytest.approx(float(found), rel=0.1)


def test_check_finds_a_jacobian_that_is_not_constant():
    problem = PortfolioProblem(make_returns(), risk_measure="entropic")
    check_problem(problem, n_draws=50)
    problem.jacobian_kind = "constant"
    with pytest.raises(ValueError, match="PortfolioProblem.jacobian: J at two points of kind 'constant'"):
        check_problem(problem, n_draws=50)


def test_check_finds_a_wider_dtype():
    R = make_returns(dtype=np.float32)
    wide = broken(R, inner=lambda self, x, batch: PortfolioProblem.inner(self, x, batch).astype(float))
    with pytest.raises(ValueError, match="Broken.inner: is float64, but must keep the float32"):
        check_problem(wide)
    problem = PortfolioProblem(R)
    problem.metric = np.ones(5)
    with pytest.raises(ValueError, match="PortfolioProblem.metric: is float64, but must keep the float32"):
        check_problem(problem)


def test_check_finds_a_component_forgotten():
    """Too little for the means over draws to show, but not where draws are all indices."""

    class Forgetful(Stacked):
        def inner_batch(self, draws):
            return self.returns[1:] if draws is None else self.returns[draws]

    with pytest.raises(ValueError, match="Forgetful.inner: batch None and all indices differ"):
        check_problem(Forgetful(make_returns()))


def test_check_sees_the_smallest_unit():
    """In float32, an asset of a ten-millionth of the others' unit, by the metric."""
    R = make_returns(dtype=np.float32) * np.array([1e-7, 1, 1, 1, 1], np.float32)

    def off(f_x, f_u):
        f_x = f_x.copy()
        f_x[0] *= 1.5
        return f_x, f_u

    check_problem(PortfolioProblem(R, metric="variance"), n_draws=50)
    slip = broken(R, **outer_gradient(off))
    slip.metric = PortfolioProblem(R, metric="variance").metric
    with pytest.raises(ValueError, match="Broken.outer_gradient: f_x and central differences"):
        check_problem(slip, n_draws=50)


def test_check_finds_jacobians_that_cannot_be_combined():
    """The exponent of a Jacobian is unique, but no state could track it."""

    class Logarithmic(Stacked):
        def jacobian(self, x, batch):
            return np.log(batch.mean(0) + 10)

        def vjp(self, J, v):
            return v[:-1] + v[-1] * (np.exp(J) - 10)

    with pytest.raises(ValueError, match="Logarithmic.vjp: vjp of a combination of Jacobians"):
        check_problem(Logarithmic(make_returns()))


def test_check_finds_a_wrong_operator():
    class Wrong(Neighbours):
        def vjp(self, J, v):
            batch, way, kernel = J
            return (-2 * (v[:, None] * kernel)[..., None] * way).sum(1).ravel()  # the other half forgotten

    with pytest.raises(ValueError, match=r"Wrong.jacobian: vjp\(J, v\) and central differences of inner"):
        check_problem(Wrong())


@pytest.mark.slow
def test_check_compares_with_repeated_rows():
    R, weights = make_returns(), np.random.default_rng(0).integers(1, 4, 200)
    problem, repeated = PortfolioProblem(R, sample_weight=weights), PortfolioProblem(np.repeat(R, weights, 0))
    check_problem(problem, repeated=repeated)
    with pytest.raises(ValueError, match=r"PortfolioProblem.inner: the problem and the repeated one differ"):
        check_problem(PortfolioProblem(R), repeated=repeated)
    with pytest.raises(ValueError, match="PortfolioProblem.objective: the problem and the repeated"):
        check_problem(problem, repeated=PortfolioProblem(np.repeat(R, weights, 0), 2.0))
    with pytest.raises(ValueError, match="repeated.inner must have shape"):
        check_problem(problem, repeated=Stacked(np.repeat(R, weights, 0)))
    unweighted = broken(R, sample_weight=weights, source=None)
    with pytest.raises(ValueError, match="batch None and all indices differ"):
        check_problem(unweighted, repeated=repeated, n_draws=20_000)


def test_check_looks_at_its_own_arguments():
    problem = PortfolioProblem(make_returns())
    with pytest.raises(ValueError, match="problem must be a CompositionalProblem"):
        check_problem("portfolio")
    for x in (np.zeros(4), np.full(5, np.inf)):
        with pytest.raises(ValueError, match=r"x must be finite and of shape \(5,\)"):
            check_problem(problem, x)
    with pytest.raises(ValueError, match="n_draws must be an integer >= 30"):
        check_problem(problem, n_draws=1)


# the portfolio problem


@pytest.mark.parametrize("lam", [0.3, 5.0])
def test_variance_in_closed_form(lam):
    R = make_returns(mean=0.5)
    S, m = np.cov(R.T, bias=True), R.mean(0)
    problem, stacked = PortfolioProblem(R, lam), Stacked(R, lam)
    for x in np.random.default_rng(3).normal(size=(5, 5)):
        np.testing.assert_allclose(problem.gradient(x), -m + 2 * lam * S @ x, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(problem.objective(x), -m @ x + lam * x @ S @ x, rtol=1e-12)
        np.testing.assert_allclose(stacked.gradient(x), problem.gradient(x), rtol=1e-11, atol=1e-12)
    best = np.linalg.solve(2 * lam * S, m)
    assert np.abs(problem.gradient(best)).max() < 1e-12


def test_paper_form_on_batches():
    """At any u and any batches g = (x, u) gives the direct form's F."""
    R = make_returns()
    problem, stacked = PortfolioProblem(R, 2.0), Stacked(R, 2.0)
    x, u = np.random.default_rng(0).normal(size=5), np.array([0.7])
    i, j = np.arange(7), np.arange(20, 31)
    f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(i))
    direct = f_x + problem.vjp(problem.jacobian(x, problem.inner_batch(j)), f_u)
    none, f_y = stacked.outer_gradient(x, np.append(x, u), stacked.outer_batch(i))
    assert none is None
    paper = stacked.vjp(stacked.jacobian(x, stacked.inner_batch(j)), f_y)
    np.testing.assert_allclose(paper, direct, rtol=1e-13)


def naive(R, x, lam, measure, weights):
    """Phi, one period at a time."""
    total = sum(weights)
    y = [float(r @ x) for r in R]
    m = sum(w * v for w, v in zip(weights, y, strict=True)) / total
    if measure == "entropic":
        return np.log(sum(w * np.exp(-lam * v) for w, v in zip(weights, y, strict=True)) / total) / lam
    deviations = [v - m if measure == "variance" else min(v - m, 0.0) for v in y]
    return -m + lam * sum(w * v**2 for w, v in zip(weights, deviations, strict=True)) / total


def test_components_of_the_measures():
    R = make_returns()
    for measure, n_outer, kind in zip(MEASURES, (200, 200, 1), ("constant",) * 2 + ("sampled",), strict=True):
        problem = PortfolioProblem(R, risk_measure=measure)
        assert (problem.n_inner, problem.n_outer, problem.n_variables) == (200, n_outer, 5)
        assert problem.jacobian_kind == kind and (problem.inner_floor is None) == (kind == "constant")
        draws = problem.source.draw_outer(np.random.default_rng(0), (50, 20))
        assert draws.shape == (50, 20) and draws.min() == 0 and draws.max() == n_outer - 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_objective_against_a_naive_one(measure, weighted):
    R, x = make_returns(n=60), np.random.default_rng(1).normal(size=5)
    weights = np.random.default_rng(2).uniform(0, 3, 60) if weighted else np.ones(60)
    problem = PortfolioProblem(R, 0.7, risk_measure=measure, sample_weight=weights if weighted else None)
    assert problem.objective(x) == pytest.approx(naive(R, x, 0.7, measure, weights), rel=1e-12)
    penalised = PortfolioProblem(R, 0.7, risk_measure=measure, sample_weight=weights, penalty=L1(0.2))
    expected = naive(R, x, 0.7, measure, weights) + 0.2 * np.abs(x).sum()
    assert penalised.objective(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_weights_are_repetitions(measure):
    R, weights = make_returns(), np.random.default_rng(1).integers(0, 4, size=200)
    problem = PortfolioProblem(R, risk_measure=measure, sample_weight=weights)
    repeated = PortfolioProblem(np.repeat(R, weights, 0), risk_measure=measure)
    scaled_weights = PortfolioProblem(R, risk_measure=measure, sample_weight=1e-3 * weights)
    dropped = PortfolioProblem(R[weights > 0], risk_measure=measure, sample_weight=weights[weights > 0])
    x = np.random.default_rng(0).normal(size=5)
    for other, rel in ((repeated, 5e-13), (scaled_weights, 5e-13), (dropped, 0)):
        close(problem.objective(x), other.objective(x), rel)
        close(problem.gradient(x), other.gradient(x), rel)
        close(problem.mean, other.mean, rel)
    assert problem.n_inner == dropped.n_inner == np.count_nonzero(weights)
    draws = problem.source.draw_inner(np.random.default_rng(0), (3, 100_000))
    counts = np.bincount(draws.ravel(), minlength=problem.n_inner) / draws.size
    kept = weights[weights > 0] / weights.sum()
    assert draws.shape == (3, 100_000)
    assert (np.abs(counts - kept) < 6 * np.sqrt(kept / draws.size)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sign", [-1, 1])
def test_entropic_cannot_overflow(sign, dtype):
    """|lambda <r, x>| about 1e5, against arithmetic without overflow."""
    R = make_returns(n=50, d=3, mean=1.0, dtype=dtype)
    problem = PortfolioProblem(R, 10.0, risk_measure="entropic")
    x = np.full(3, sign * 3e3, dtype=dtype)
    y = R @ x
    assert np.abs(10 * y).max() > 1e5
    terms = [(Decimal(-10) * Decimal(float(v))).exp() for v in y]
    expected = float((sum(terms) / len(terms)).ln()) / 10
    assert problem.objective(x) == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(problem.gradient(x)).all()
    for v in (problem.inner(x, problem.inner_batch(None)), problem.jacobian(x, problem.inner_batch(None))):
        assert np.isfinite(v).all() and v.dtype == dtype
    assert (problem.inner(x, problem.inner_batch(None)) > problem.inner_floor).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_means_are_accumulated_in_float64(weighted):
    R32 = make_returns(n=100_000, d=3, mean=100.0, dtype=np.float32)
    weights = np.random.default_rng(0).uniform(size=len(R32)) if weighted else None
    narrow = PortfolioProblem(R32, sample_weight=weights)
    wide = PortfolioProblem(R32.astype(float), sample_weight=weights)
    assert narrow.mean.dtype == np.float32
    close(narrow.mean, wide.mean, 3e-7)
    x = np.full(3, 1 / 3, np.float32)
    assert narrow.objective(x) == pytest.approx(wide.objective(x), rel=1e-6)
    assert narrow.gradient(x).dtype == np.float32
    close(narrow.gradient(x), wide.gradient(x), 3e-7)


@pytest.mark.parametrize("measure", MEASURES)
def test_float32_agrees_with_float64(measure):
    R = make_returns(dtype=np.float32)
    x = np.random.default_rng(0).normal(size=5).astype(np.float32)
    narrow, wide = (PortfolioProblem(r, 0.5, risk_measure=measure) for r in (R, R.astype(float)))
    assert narrow.initial_point(None).dtype == narrow.gradient(x).dtype == np.float32
    close(narrow.gradient(x), wide.gradient(x), 2e-6)
    assert narrow.objective(x) == pytest.approx(wide.objective(x), rel=2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_metric_is_the_inverse_variance(weighted, dtype):
    R = make_returns(n=6000, dtype=dtype) * np.array([1e-3, 1, 50, 1, 1], dtype)
    R[:, 3], R[:, 4] = 0.1, 100.0  # two assets without risk
    weights = np.random.default_rng(0).integers(1, 4, len(R)) if weighted else None
    metric = PortfolioProblem(R, sample_weight=weights, metric="variance").metric
    variance = np.repeat(R, weights if weighted else 1, 0)[:, :3].astype(float).var(0)
    assert metric.dtype == dtype and metric.shape == (5,)
    np.testing.assert_allclose(metric[:3], 1 / variance, rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(metric[3:], np.median(metric[:3]), rtol=1e-5)  # the scale of the others
    nothing = PortfolioProblem(np.zeros((10, 2), dtype), metric="variance").metric
    np.testing.assert_array_equal(nothing, np.ones(2))
    own = np.arange(1.0, 6.0)
    np.testing.assert_array_equal(PortfolioProblem(R, metric=own).metric, own)
    assert PortfolioProblem(R).metric is None


def test_metric_of_a_large_constant_in_float32():
    R = make_returns(n=6000, dtype=np.float32)
    R[:, 4] = 1e5
    metric = PortfolioProblem(R, metric="variance").metric
    np.testing.assert_allclose(metric[4], np.median(metric[:4]), rtol=1e-3)  # the scale of the others


@pytest.mark.parametrize(
    ("returns", "parameters", "message"),
    [
        (np.zeros(3), {}, r"returns must be of shape \(n_periods, n_assets\), got \(3,\)"),
        (np.zeros((0, 3)), {}, "returns must be of shape"),
        ([[0.0, np.nan]], {}, "returns must be finite, got nan"),
        ([[0.0, -np.inf]], {}, "returns must be finite, got -inf"),
        (np.eye(2), {"risk_aversion": 0.0}, "risk_aversion must be a finite number > 0, got 0.0"),
        (np.eye(2), {"risk_aversion": np.nan}, "risk_aversion must be"),
        (np.eye(2), {"risk_aversion": "high"}, "risk_aversion must be"),
        (np.eye(2), {"risk_measure": "omega"}, "risk_measure must be one of 'variance'.*got 'omega'"),
        (np.eye(2), {"sample_weight": [1.0]}, "sample_weight must be (of shape|finite and >= 0)"),
        (np.eye(2), {"sample_weight": [1.0, -1.0]}, "sample_weight must be (of shape|finite and >= 0)"),
        (np.eye(2), {"sample_weight": [1.0, np.nan]}, "sample_weight must be (of shape|finite and >= 0)"),
        (np.eye(2), {"sample_weight": [0.0, 0.0]}, "sample_weight must have a positive entry"),
    ],
)
def test_constructor_errors(returns, parameters, message):
    with pytest.raises(ValueError, match=message):
        PortfolioProblem(returns, **parameters)


@pytest.mark.parametrize("metric", ["variances", np.ones(2), [1.0, np.nan, 1.0], [1.0, -1.0, 1.0]])
def test_constructor_refuses_a_wrong_metric(metric):
    with pytest.raises(ValueError, match="metric"):
        PortfolioProblem(np.eye(3), metric=metric)


def test_returns_are_taken_in_any_form_and_never_written_to():
    R = make_returns()
    columns = PortfolioProblem(np.asfortranarray(R)).gradient(np.ones(5))
    np.testing.assert_array_equal(columns, PortfolioProblem(R.tolist()).gradient(np.ones(5)))
    assert PortfolioProblem(np.eye(2, dtype=int)).returns.dtype == np.float64
    R.flags.writeable = False
    check_problem(PortfolioProblem(R, metric="variance"), n_draws=50)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [20, 400])  # float32 sums over more than 256 rows are taken piece by piece
def test_drawn_portfolio_batches_are_means_of_their_rows(dtype, size):
    R = make_returns(500, 4)
    problem = PortfolioProblem(R.astype(dtype), 2.0)
    draws, x, u = np.random.default_rng(0).integers(500, size=size), np.ones(4, dtype), np.array([0.5], dtype)
    for risk_aversion in (2.0, 3.0):  # set anew, it counts
        problem.risk_aversion = risk_aversion
        f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(draws))
        d = R[draws].sum(1) - 0.5
        np.testing.assert_allclose(f_x, ((2 * risk_aversion * d - 1) @ R[draws]) / size, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(f_u, [-2 * risk_aversion * d.mean()], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(problem.inner_batch(draws), R[draws].mean(0)[None], rtol=1e-4, atol=1e-6)
        assert f_x.dtype == f_u.dtype == dtype
