"""Tests of sk_stormc.problems: the contract's check, which must be able to fail, and the portfolio problem."""

from decimal import Decimal

import numpy as np
import pytest

from sk_stormc.penalties import L1, Simplex
from sk_stormc.problems import CompositionalProblem, PortfolioProblem
from sk_stormc.problems.check import check_problem

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

    def __init__(self, n=12):
        self.n_inner = self.n_blocks = n
        self.n_outer, self.n_variables = 1, 2 * n

    def initial_point(self, rng):
        return rng.standard_normal(self.n_variables)

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


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
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


@pytest.mark.parametrize("problem", [Stacked(make_returns()), Neighbours(), Sparse()], ids=lambda p: type(p).__name__)
def test_other_problems_keep_the_contract(problem):
    for seed in range(5):
        check_problem(problem, n_draws=300, random_state=seed)


def test_objective_with_l1_keeps_the_contract():
    check_problem(PortfolioProblem(make_returns(), penalty=L1(0.3)), n_draws=200)


# and fails for what is wrong, with the method's name


def broken(returns, **members):
    """A portfolio problem with other methods and attributes."""
    methods = {name: member for name, member in members.items() if callable(member)}
    problem = type("Broken", (PortfolioProblem,), methods)(returns)
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


def a_part(self, rng, shape):
    return rng.integers(self.n_inner // 4, size=shape)


def global_generator(self, rng, shape):
    return np.random.randint(self.n_inner, size=shape)  # noqa: NPY002


SLIPS = {
    "f_u's sign": (outer_gradient(lambda f_x, f_u: (f_x, -f_u)), "outer_gradient: f_u"),
    "f_u's factor": (outer_gradient(lambda f_x, f_u: (f_x, 1.001 * f_u)), "outer_gradient: f_u"),
    "f_x missing": (outer_gradient(lambda f_x, f_u: (None, f_u)), "outer_gradient: f_x"),
    "one entry of f_x": (outer_gradient(one_entry), "outer_gradient: f_x"),
    "f_u's shape": (outer_gradient(lambda f_x, f_u: (f_x, f_u[0])), "outer_gradient: must be an array"),
    "J scaled": (scaled("jacobian", 1.001), "jacobian: J and central differences"),
    "J's shape": ({"jacobian": lambda self, x, batch: batch[0]}, "jacobian: must be an array"),
    "J of a batch": (scaled("jacobian", 1.1, lambda batch: not batch.flags.owndata), "jacobian"),
    "g not finite": (scaled("inner", np.inf), "inner: is not finite"),
    "g of another shape": ({"inner": lambda self, x, batch: batch}, "inner: must be an array"),
    "vjp": ({"vjp": lambda self, J, v: 2 * (v @ J)}, "vjp: vjp(J, v) and J.T @ v"),
    "vjp's shape": ({"vjp": lambda self, J, v: J}, "vjp: must be an array"),
    "outer": ({"outer": lambda self, x, u: np.nan}, "outer: must be a finite float"),
    "outer's shape": ({"outer": lambda self, x, u: u}, "outer: must be a finite float"),
    "objective": ({"objective": lambda self, x: 1.01 * PortfolioProblem.objective(self, x)}, "objective"),
    "gradient": ({"gradient": lambda self, x: 1.01 * PortfolioProblem.gradient(self, x)}, "gradient: gradient(x)"),
    "biased draw_inner": ({"draw_inner": a_part}, "draw_inner"),
    "biased draw_outer": ({"draw_outer": a_part}, "draw_outer"),
    "not from rng": ({"draw_inner": global_generator}, "draw_inner: gives other draws"),
    "draws' shape": ({"draw_outer": lambda self, rng, shape: rng.integers(9, size=shape[0])}, "draw_outer: must"),
    "inner reuses": (reusing("inner"), "inner: is written into"),
    "jacobian reuses": (reusing("jacobian"), "jacobian: is written into"),
    "outer_gradient reuses": (reusing("outer_gradient"), "outer_gradient: is written into"),
    "inner writes into x": ({"inner": into_x}, "inner: writes into x or u"),
    "outer_gradient writes into u": ({"outer_gradient": into_u}, "outer_gradient: writes into x or u"),
    "stale cache": ({"inner": stale}, "inner: has other bits"),
    "J that cannot be pickled": (
        {
            "jacobian": lambda self, x, batch: lambda v: v @ batch,
            "vjp": lambda self, J, v: J(v),
            "jacobian_kind": "operator",
        },
        "jacobian: is no plain data",
    ),
    "J that refers to the problem": (
        {
            "jacobian": lambda self, x, batch: [batch, {"problem": self}],
            "vjp": lambda self, J, v: v @ J[0],
            "jacobian_kind": "operator",
        },
        "jacobian: is no plain data, it refers to the problem",
    ),
    "a sum for a mean": (
        {"inner_batch": lambda self, draws: self.mean[None] if draws is None else self.returns[draws].sum(0)[None]},
        "inner: a batch of 4 and their mean",
    ),
    "n_blocks": ({"n_blocks": 2}, "n_blocks: must divide n_variables=5, got 2"),
    "jacobian_kind": ({"jacobian_kind": "dense"}, "jacobian_kind: must be"),
    "inner_floor": ({"inner_floor": 1e9}, "inner: must be finite and > inner_floor"),
    "inner_floor, not a number": ({"inner_floor": np.nan}, "inner_floor: must be a finite number"),
    "initial_point's shape": ({"initial_point": lambda self, rng: np.zeros(4)}, "initial_point: must be a floating"),
    "initial_point's dtype": ({"initial_point": lambda self, rng: np.zeros(5, int)}, "initial_point: must be a fl"),
    "initial_point's value": ({"initial_point": lambda self, rng: np.full(5, np.nan)}, "initial_point: must be fi"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_check_fails(slip):
    members, message = SLIPS[slip]
    with pytest.raises(ValueError) as caught:
        check_problem(broken(make_returns(), **members))
    assert f"Broken.{message}" in str(caught.value) or message in str(caught.value).split(":")[1]
