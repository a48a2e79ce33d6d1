"""check_problem against wrong derivatives at starts where much of them vanishes, and against what is right."""

import numpy as np
import pytest
from helpers import composition, regression

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.penalties import L1, Simplex
from sk_stormc.problems import (
    CompositionalProblem,
    FiniteSumComposition,
    PortfolioProblem,
    ProjectedBellmanProblem,
    SNEProblem,
    StreamingProblem,
    check_problem,
)

N, D = 60, 4


def as_it_is(f_x, f_u):
    return f_x, f_u


def changed(which, entry, factor):
    """A slip in one entry of f_x (0) or of f_u (1)."""

    def slip(*parts):
        parts = [part.copy() for part in parts]
        parts[which][entry] *= factor
        return tuple(parts)

    return slip


def centred_variance(seed, slip):
    """Means without a mean: F is its own rounding at x0 = 0, and u at all x."""
    return variance(seed, slip, centre=True)


def variance(seed, slip, centre=False):
    R = np.random.default_rng(seed).normal(0.05, 1, (N, D))
    R -= R.mean(0) if centre else 0

    def outer_gradient(x, u, i):
        d = R[i] @ x - u
        return slip((2 * d - 1) @ R[i] / len(i), -2 * d.mean(keepdims=True))

    return FiniteSumComposition(
        lambda x, j: R[j].mean(0, keepdims=True) @ x,
        lambda x, j: R[j].mean(0, keepdims=True),
        outer_gradient,
        lambda x, u: np.mean((R @ x - u) ** 2 - R @ x),
        N,
        N,
        D,
    )


def squares(seed, slip, shift=1.0):
    """u = mean a_j x^2, whose Jacobian is 0 at x0 = 0."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.uniform(0.5, 2, (N, D)), shift * rng.normal(size=(N, D)), 1e-3 * rng.normal(size=(N, D))
    return FiniteSumComposition(
        lambda x, j: A[j].mean(0) * x**2,
        lambda x, j: np.diag(2 * A[j].mean(0) * x),
        lambda x, u, i: slip(C[i].mean(0), 2 * (u - B[i].mean(0))),
        lambda x, u: np.sum(u**2 - 2 * B.mean(0) * u) + C.mean(0) @ x,
        N,
        N,
        D,
    )


def flat(seed, slip):
    """As `squares`, with f_u = 0 at u = g(0) too."""
    return squares(seed, slip, shift=0.0)


def optimum(seed, slip):
    """x0 is the minimum, so that F there is its own rounding; and g(x0) = 0."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(N, D)), rng.normal(size=N)
    x0 = np.linalg.lstsq(A, b, rcond=None)[0]
    return FiniteSumComposition(
        lambda x, j: x - x0,
        lambda x, j: np.eye(D),
        lambda x, u, i: slip(2 * (A[i] @ x - b[i]) @ A[i] / len(i), 2 * u),
        lambda x, u: np.mean((A @ x - b) ** 2) + u @ u,
        N,
        N,
        x0=x0,
    )


def logarithm(seed, slip):
    """KL-robust losses: u far from 0, f a logarithm."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(N, D))
    y = np.sign(A.sum(1) + rng.normal(size=N))

    def e(x, j):
        return np.exp(2 * np.logaddexp(0, -y[j] * (A[j] @ x)))

    return FiniteSumComposition(
        lambda x, j: e(x, j).mean(keepdims=True),
        lambda x, j: ((e(x, j) * -2 * y[j] / (1 + np.exp(y[j] * (A[j] @ x)))) @ A[j] / len(j))[None],
        lambda x, u, i: slip(0.02 * x + 1e-3, 0.5 / u),
        lambda x, u: 0.5 * np.log(u[0]) + 0.01 * x @ x + 1e-3 * x.sum(),
        N,
        1,
        D,
        inner_floor=1e-300,
    )


def many(seed, slip):
    """More entries than are looked at one by one."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(N, 120)), rng.normal(size=(N, 120))
    return FiniteSumComposition(
        lambda x, j: np.tanh(x) + A[j].mean(0) * x,
        lambda x, j: np.diag(1 - np.tanh(x) ** 2 + A[j].mean(0)),
        lambda x, u, i: slip(A[i].mean(0), u - B[i].mean(0)),
        lambda x, u: (u - 2 * B.mean(0)) @ u / 2 + A.mean(0) @ x,
        N,
        N,
        120,
    )


KINDS = (centred_variance, variance, squares, flat, optimum, logarithm, many)
SLIPS = {
    "f_u's sign": ("f_u", lambda f_x, f_u: (f_x, -f_u)),
    "f_u is half": ("f_u", lambda f_x, f_u: (f_x, f_u / 2)),
    "f_u is zero": ("f_u", lambda f_x, f_u: (f_x, 0 * f_u)),
    "sign of an entry of f_u": ("f_u[0]", changed(1, 0, -1)),
    "one per cent of an entry of f_u": ("f_u[0]", changed(1, 0, 1.01)),
    "one per cent of the last entry of f_u": ("f_u", changed(1, -1, 0.99)),
    "f_x's sign": ("f_x", lambda f_x, f_u: (-f_x, f_u)),
    "one per cent of an entry of f_x": ("f_x[2]", changed(0, 2, 1.01)),
}


SOME = [pytest.param(kind, marks=[pytest.mark.slow] if kind is many else []) for kind in KINDS]


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("kind", SOME)
def test_wrong_gradients_are_found(kind, slip):
    entry, change = SLIPS[slip]
    for seed in range(2):
        problem = kind(seed, change)
        with pytest.raises(ValueError, match=r"outer_gradient: f_[xu] and central differences") as error:
            check_problem(problem, random_state=seed, n_draws=50)
        assert f"for {entry}" in str(error.value)


@pytest.mark.parametrize("kind", SOME)
def test_right_gradients_pass(kind):
    for seed in range(4):
        check_problem(kind(seed, as_it_is), random_state=seed, n_draws=100)


def test_wrong_gradients_are_found_at_a_given_minimum():
    """x=: that of a run, where F is nothing but what the run left."""
    for seed in range(10):
        problem = optimum(seed, changed(1, 3, 1.01))
        for off in (0.0, 1e-13, 1e-7):
            with pytest.raises(ValueError, match=r"f_u and central differences .* for f_u\[3\] at x"):
                check_problem(problem, problem.initial_point(None) + off, n_draws=50, random_state=seed)


@pytest.mark.parametrize("entry", [(0, 1), (3, 3)])
@pytest.mark.parametrize("factor", [-1, 1.01])
def test_a_wrong_entry_of_the_jacobian_is_named(entry, factor):
    """At x0 = 0, where all of the Jacobian but one entry vanishes."""
    rng = np.random.default_rng(0)
    A = rng.uniform(0.5, 2, (N, D, D))

    def inner_jacobian(x, j):
        J = 2 * A[j].mean(0) * x
        J[entry] *= factor
        return J

    for seed in range(10):
        problem = FiniteSumComposition(
            lambda x, j: A[j].mean(0) @ x**2,
            inner_jacobian,
            lambda x, u, i: u,
            lambda x, u: u @ u / 2,
            N,
            1,
            D,
        )
        with pytest.raises(ValueError, match=rf"jacobian: J and .* for J\[{entry[0]}, {entry[1]}\] at x = "):
            check_problem(problem, random_state=seed, n_draws=50)


def test_a_message_says_what_was_expected():
    """f_u = -2 mean d, printed with the other sign."""
    with pytest.raises(ValueError, match="outer_gradient: f_u") as error:
        check_problem(variance(0, lambda f_x, f_u: (f_x, -f_u)))
    got, expected = (float(str(error.value).split(word)[1].split()[0].rstrip(",")) for word in ("got ", "expected "))
    assert got == pytest.approx(-expected, rel=1e-5)
    assert abs(got) > 1e-3
    assert len(str(error.value)) < 350


def returns(seed, unit=1.0, dtype=float):
    return (unit * np.random.default_rng(seed).normal(0.05, 1.0, (200, 5))).astype(dtype)


def centred(seed):
    return returns(seed) - returns(seed).mean(0)


def neighbours(kernel, seed, **kwargs):
    X = np.random.default_rng(seed).normal(size=(24, 5))
    return SNEProblem(perplexity_affinities(X, 5), 2, kernel=kernel, **kwargs)


def projected(seed):
    rng = np.random.default_rng(seed)
    return ProjectedBellmanProblem(rng.normal(size=(50, 3)), rng.normal(size=(50, 3)), rng.normal(size=50), 0.9)


MEASURES = ("variance", "semivariance", "entropic")
RIGHT = {
    **{f"{m}": lambda s, m=m: PortfolioProblem(returns(s), 2.0, risk_measure=m) for m in MEASURES},
    **{f"{m}, no mean": lambda s, m=m: PortfolioProblem(centred(s), risk_measure=m) for m in MEASURES},
    **{f"{m}, small": lambda s, m=m: PortfolioProblem(returns(s, 1e-4), 5e3, risk_measure=m) for m in MEASURES},
    **{f"{m}, l1": lambda s, m=m: PortfolioProblem(returns(s), risk_measure=m, penalty=L1(0.1)) for m in MEASURES},
    **{f"{m}, large": lambda s, m=m: PortfolioProblem(returns(s, 1e4), risk_measure=m) for m in MEASURES},
    **{
        f"{m}, float32": lambda s, m=m: PortfolioProblem(
            returns(s, dtype=np.float32), risk_measure=m, metric="variance", penalty=Simplex()
        )
        for m in MEASURES
    },
    "gaussian": lambda s: neighbours("gaussian", s, dtype=np.float64),
    "student-t": lambda s: neighbours("student-t", s, dtype=np.float64),
    "gaussian, float32": lambda s: neighbours("gaussian", s),
    "student-t, float32": lambda s: neighbours("student-t", s),
    "bellman": lambda s: make_bellman_problem(20, 6, random_state=s).problem(),
    "projected bellman": projected,
    **{way: lambda s, way=way: composition(*regression(40 + s), way) for way in ("jacobian", "vjp", "differences")},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RIGHT)
def test_no_false_alarm(kind):
    for seed in range(2 if kind.startswith(("gaussian", "student")) else 8):  # those take longest
        check_problem(RIGHT[kind](seed), random_state=seed, n_draws=60)


# what is no gradient at all


class Regression(CompositionalProblem):
    """f_x and f_u of one length, so that a list of both looks like an array."""

    n_inner, n_outer, n_variables = 5, 1, 2

    def inner_batch(self, draws):
        return draws

    outer_batch = inner_batch

    def inner(self, x, batch):
        return x.copy()

    def jacobian(self, x, batch):
        return np.eye(2)

    def outer_gradient(self, x, u, batch):
        return x.copy(), u.copy()

    def outer(self, x, u):
        return float(x @ x + u @ u) / 2


@pytest.mark.parametrize("change", [list, lambda pair: pair[1], lambda pair: (*pair, None), lambda pair: None])
def test_what_outer_gradient_must_return(change):
    class Wrong(Regression):
        def outer_gradient(self, x, u, batch):
            return change(super().outer_gradient(x, u, batch))

    check_problem(Regression())
    with pytest.raises(ValueError, match=r"Wrong.outer_gradient: must return the tuple \(f_x, f_u\)") as error:
        check_problem(Wrong())
    assert len(str(error.value)) < 250


def test_large_arrays_are_not_printed():
    class Wrong(Regression):
        def inner(self, x, batch):
            return np.zeros((300, 300))

    with pytest.raises(ValueError, match="Wrong.inner: must be an array of shape") as error:
        check_problem(Wrong())
    assert len(str(error.value)) < 250


# streams


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
    np.testing.assert_array_equal(source.draw_inner(source.open([None] * 3)[0], (1, 3)), [[0, 1, 2]])  # all there
    with pytest.raises(ValueError, match="Slip.outer_gradient: f_u and central differences"):
        check_problem(StreamingProblem(months(), Slip, window=100))


def test_endless_components_of_another_kind():
    class Endless(Regression):
        n_inner = np.inf

    with pytest.raises(ValueError, match="Endless.n_inner: must be a positive int, got inf"):
        check_problem(Endless())


class Unique(PortfolioProblem):
    """Batches of g, of f or of both that drop repeated indices, as the rows of a set would."""

    sides = ("inner", "outer")

    def inner_batch(self, draws, weights=None):
        return super().inner_batch(self.without_repeats(draws, "inner"), weights)

    def outer_batch(self, draws, weights=None):
        return super().outer_batch(self.without_repeats(draws, "outer"), weights)

    def without_repeats(self, draws, side):
        return np.unique(draws) if draws is not None and side in self.sides else draws


@pytest.mark.parametrize("sides", [("inner",), ("outer",), ("inner", "outer"), ()])
def test_a_batch_that_drops_repeated_indices_is_found(sides):
    problem = Unique(make_gaussian_returns(5000, 3, mean=0.2, random_state=0))
    problem.sides = sides
    if sides:
        with pytest.raises(ValueError, match="a batch with a repeated component and the mean differ"):
            check_problem(problem)
    else:
        check_problem(problem)
