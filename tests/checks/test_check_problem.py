"""check_problem accepts what keeps the contract of a problem, and names the method that
breaks it."""

import re

import numpy as np
import pytest
from helpers import Stacked, composition, regression

from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import (
    FiniteSource,
    FiniteSumComposition,
    PortfolioProblem,
    StreamingProblem,
    check_problem,
)


def make_returns(n=200, d=5, unit=1.0, dtype=float, mean=0.05):
    return (unit * np.random.default_rng(0).normal(mean, 1.0, size=(n, d))).astype(
        dtype
    )


@pytest.mark.parametrize(
    ("measure", "unit", "dtype"),
    [
        ("variance", 1e-4, np.float64),
        ("semivariance", 1e4, np.float32),
        ("entropic", 1e-4, np.float64),
    ],
)
def test_portfolio_keeps_the_contract(measure, unit, dtype):
    R, lam = make_returns(unit=unit, dtype=dtype), 2.0 / unit
    weights = np.random.default_rng(1).integers(0, 4, size=len(R))
    options = {"risk_measure": measure, "penalty": Simplex()}
    check_problem(
        PortfolioProblem(R, lam, sample_weight=weights, **options),
        repeated=PortfolioProblem(np.repeat(R, weights, 0), lam, **options),
        n_draws=200,
    )


# mistakes


def broken(returns, sample_weight=None, **members):
    """A portfolio problem with other methods and attributes."""
    methods = {
        name: member
        for name, member in members.items()
        if callable(member) or name == "source"
    }
    problem = type("Broken", (PortfolioProblem,), methods)(
        returns, sample_weight=sample_weight
    )
    problem.__dict__.update(
        {name: member for name, member in members.items() if name not in methods}
    )
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
        if "_buffer" not in self.__dict__:
            self._buffer = np.empty_like(value)
        self._buffer[...] = value
        return self._buffer

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
    return PortfolioProblem.outer_batch(
        self, np.arange(1, self.n_outer) if draws is None else draws
    )


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
    "f_x missing": (
        outer_gradient(lambda f_x, f_u: (None, f_u)),
        "outer_gradient: f_x",
    ),
    "one entry of f_x": (outer_gradient(one_entry), "outer_gradient: f_x"),
    "f_u alone": (
        outer_gradient(lambda f_x, f_u: f_u),
        "outer_gradient: must return the tuple (f_x, f_u)",
    ),
    "f_u's shape": (
        outer_gradient(lambda f_x, f_u: (f_x, f_u[0])),
        "outer_gradient: must be an array",
    ),
    "J scaled": (scaled("jacobian", 1.001), "jacobian: J and central differences"),
    "J's shape": (
        {"jacobian": lambda self, x, batch: batch[0]},
        "jacobian: must be an array",
    ),
    "J of a batch": (
        scaled("jacobian", 1.001, lambda batch: batch.flags.owndata),
        "jacobian: J and central",
    ),
    "g not finite": (scaled("inner", np.inf), "inner: is not finite"),
    "g of another shape": (
        {"inner": lambda self, x, batch: batch},
        "inner: must be an array",
    ),
    "vjp": ({"vjp": lambda self, J, v: 2 * (v @ J)}, "vjp: vjp(J, v) and J.T @ v"),
    "outer": ({"outer": lambda self, x, u: np.nan}, "outer: must be a finite float"),
    "objective": (
        {"objective": lambda self, x: 1.01 * PortfolioProblem.objective(self, x)},
        "objective",
    ),
    "gradient": (
        {"gradient": lambda self, x: 1.01 * PortfolioProblem.gradient(self, x)},
        "gradient: ",
    ),
    "biased draw_inner": (drawn(draw_inner=a_part), "draw_inner"),
    "biased draw_outer": (drawn(draw_outer=a_part), "draw_outer"),
    "not from rng": (
        drawn(draw_inner=own_generator),
        "draw_inner: returns different draws",
    ),
    "draws' shape": (
        drawn(draw_outer=lambda self, rng, shape: rng.integers(9, size=shape[0])),
        "draw_outer",
    ),
    "inner reuses": (reusing("inner"), "inner: is written into"),
    "jacobian reuses": (reusing("jacobian"), "jacobian: is written into"),
    "inner writes into x": ({"inner": into_x}, "inner: writes into x or u"),
    "outer_gradient writes into u": (
        {"outer_gradient": into_u},
        "outer_gradient: writes into x or u",
    ),
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
    "endless n_inner": (
        {"n_inner": np.inf},
        "n_inner: must be a positive int, got inf",
    ),
    "n_outer": ({"n_outer": 200.0}, "n_outer: must be a positive int"),
    "n_blocks": ({"n_blocks": 2}, "n_blocks: must divide n_variables=5, got 2"),
    "jacobian_kind": ({"jacobian_kind": "dense"}, "jacobian_kind: must be"),
    "inner_floor": ({"inner_floor": 1e9}, "inner: must be finite and > inner_floor"),
    "inner_floor, not a number": (
        {"inner_floor": np.nan},
        "inner_floor: must be a finite number",
    ),
    "penalty": (
        {"penalty": "l1"},
        "penalty: must be None or have value, prox and project",
    ),
    "preconditioner's shape": (
        {"preconditioner": np.ones(4)},
        "preconditioner: must be a vector or matrix of 5 variables, got shape (4,)",
    ),
    "initial_point's shape": (
        {"initial_point": lambda self, rng: np.zeros(4)},
        "initial_point: must be",
    ),
    "initial_point's dtype": (
        {"initial_point": lambda self, rng: np.zeros(5, int)},
        "initial_point: ",
    ),
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
    with pytest.raises(
        ValueError,
        match="PortfolioProblem.jacobian: J at two points of kind 'constant'",
    ):
        check_problem(problem, n_draws=50)


def test_check_finds_a_wider_dtype():
    R = make_returns(dtype=np.float32)
    wide = broken(
        R,
        inner=lambda self, x, batch: PortfolioProblem.inner(self, x, batch).astype(
            float
        ),
    )
    with pytest.raises(
        ValueError, match="Broken.inner: is float64, but must keep the float32"
    ):
        check_problem(wide)
    problem = PortfolioProblem(R)
    problem.preconditioner = np.ones(5)
    with pytest.raises(
        ValueError,
        match="PortfolioProblem.preconditioner: is float64, but must keep the float32",
    ):
        check_problem(problem)


def test_check_sees_the_smallest_unit():
    """In float32, an asset of a ten-millionth of the others' unit, by the preconditioner."""
    R = make_returns(dtype=np.float32) * np.array([1e-7, 1, 1, 1, 1], np.float32)

    def off(f_x, f_u):
        f_x = f_x.copy()
        f_x[0] *= 1.5
        return f_x, f_u

    check_problem(PortfolioProblem(R, preconditioner="variance"), n_draws=50)
    slip = broken(R, **outer_gradient(off))
    slip.preconditioner = PortfolioProblem(R, preconditioner="variance").preconditioner
    with pytest.raises(
        ValueError, match="Broken.outer_gradient: f_x and central differences"
    ):
        check_problem(slip, n_draws=50)


def test_check_finds_a_wrong_operator():
    problem = composition(*regression(60), "vjp")
    check_problem(problem, n_draws=100)
    problem.vjp = lambda J, v: 1.01 * FiniteSumComposition.vjp(problem, J, v)
    with pytest.raises(
        ValueError, match=r"jacobian: vjp\(J, v\) and central differences of inner"
    ):
        check_problem(problem)


@pytest.mark.slow
def test_check_compares_with_repeated_rows():
    R, weights = make_returns(), np.random.default_rng(0).integers(1, 4, 200)
    problem, repeated = (
        PortfolioProblem(R, sample_weight=weights),
        PortfolioProblem(np.repeat(R, weights, 0)),
    )
    check_problem(problem, repeated=repeated)
    with pytest.raises(
        ValueError,
        match=r"PortfolioProblem.inner: the problem and the repeated one differ",
    ):
        check_problem(PortfolioProblem(R), repeated=repeated)
    with pytest.raises(
        ValueError, match="PortfolioProblem.objective: the problem and the repeated"
    ):
        check_problem(problem, repeated=PortfolioProblem(np.repeat(R, weights, 0), 2.0))
    with pytest.raises(ValueError, match="repeated.inner must have shape"):
        check_problem(problem, repeated=Stacked(np.repeat(R, weights, 0)))
    unweighted = broken(R, sample_weight=weights, source=None)
    with pytest.raises(ValueError, match="batch None and all indices differ"):
        check_problem(unweighted, repeated=repeated, n_draws=20_000)


def test_the_problem_of_a_streams_first_rows_is_checked():
    def months():
        return (make_gaussian_returns(21, 5, random_state=month) for month in range(40))

    class Slip(PortfolioProblem):
        def outer_gradient(self, x, u, batch):
            f_x, f_u = super().outer_gradient(x, u, batch)
            return f_x, 1.01 * f_u

    stream = StreamingProblem(months(), PortfolioProblem, window=100)
    check_problem(stream)
    source = stream.source
    # all there
    np.testing.assert_array_equal(
        source.draw_inner(source.open([None] * 3)[0], (1, 3)), [[0, 1, 2]]
    )
    with pytest.raises(
        ValueError, match="Slip.outer_gradient: f_u and central differences"
    ):
        check_problem(StreamingProblem(months(), Slip, window=100))


class Unique(PortfolioProblem):
    """Batches of g, of f or of both that drop repeated indices, as the rows of a set
    would."""

    sides = ("inner", "outer")

    def inner_batch(self, draws, weights=None):
        return super().inner_batch(self.without_repeats(draws, "inner"), weights)

    def outer_batch(self, draws, weights=None):
        return super().outer_batch(self.without_repeats(draws, "outer"), weights)

    def without_repeats(self, draws, side):
        return np.unique(draws) if draws is not None and side in self.sides else draws


@pytest.mark.parametrize("sides", [("inner",), ("outer",), ()])
def test_a_batch_that_drops_repeated_indices_is_found(sides):
    problem = Unique(make_gaussian_returns(5000, 3, mean=0.2, random_state=0))
    problem.sides = sides
    if sides:
        with pytest.raises(
            ValueError, match="a batch with a repeated component and the mean differ"
        ):
            check_problem(problem)
    else:
        check_problem(problem)
