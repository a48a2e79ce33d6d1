"""check_problem finds wrong derivatives at starts where much of them vanishes, and
accepts right ones."""

import numpy as np
import pytest
from helpers import ratio_of_moments, slow_but

from sk_stormc.problems import FiniteSumComposition, check_problem

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
    """Returns without a mean: F is its own rounding at x0 = 0, and u at all x."""
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


def squares(seed, slip):
    """u = mean a_j x^2, whose Jacobian is 0 at x0 = 0."""
    rng = np.random.default_rng(seed)
    A, B, C = (
        rng.uniform(0.5, 2, (N, D)),
        rng.normal(size=(N, D)),
        1e-3 * rng.normal(size=(N, D)),
    )
    return FiniteSumComposition(
        lambda x, j: A[j].mean(0) * x**2,
        lambda x, j: np.diag(2 * A[j].mean(0) * x),
        lambda x, u, i: slip(C[i].mean(0), 2 * (u - B[i].mean(0))),
        lambda x, u: np.sum(u**2 - 2 * B.mean(0) * u) + C.mean(0) @ x,
        N,
        N,
        D,
    )


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


KINDS = (centred_variance, variance, squares, optimum)
SLIPS = {
    "f_u's sign": ("f_u", lambda f_x, f_u: (f_x, -f_u)),
    "f_u is zero": ("f_u", lambda f_x, f_u: (f_x, 0 * f_u)),
    "one per cent of an entry of f_u": ("f_u[0]", changed(1, 0, 1.01)),
    "one per cent of the last entry of f_u": ("f_u", changed(1, -1, 0.99)),
    "f_x's sign": ("f_x", lambda f_x, f_u: (-f_x, f_u)),
    "one per cent of an entry of f_x": ("f_x[2]", changed(0, 2, 1.01)),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("kind", slow_but(KINDS, centred_variance, optimum))
def test_wrong_gradients_are_found(kind, slip):
    entry, change = SLIPS[slip]
    with pytest.raises(
        ValueError, match=r"outer_gradient: f_[xu] and central differences"
    ) as error:
        check_problem(kind(0, change), random_state=0, n_draws=50)
    assert f"for {entry}" in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_right_gradients_pass(kind):
    for seed in range(2):
        check_problem(kind(seed, as_it_is), random_state=seed, n_draws=100)


def test_wrong_gradients_are_found_at_a_given_minimum():
    """x=: that of a run, where F is nothing but what the run left."""
    problem = optimum(0, changed(1, 3, 1.01))
    for off in (0.0, 1e-13, 1e-7):
        with pytest.raises(
            ValueError, match=r"f_u and central differences .* for f_u\[3\] at x"
        ):
            check_problem(
                problem, problem.initial_point(None) + off, n_draws=50, random_state=0
            )


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

    problem = FiniteSumComposition(
        lambda x, j: A[j].mean(0) @ x**2,
        inner_jacobian,
        lambda x, u, i: u,
        lambda x, u: u @ u / 2,
        N,
        1,
        D,
    )
    with pytest.raises(
        ValueError, match=rf"jacobian: J and .* for J\[{entry[0]}, {entry[1]}\] at x = "
    ):
        check_problem(problem, random_state=0, n_draws=50)


# a variance from moments, which loses digits


@pytest.mark.parametrize(
    "scale, n, seed, x_0, random_state",
    [
        # in these three, a second point was chosen that is 1e-10 away
        (
            0.01,
            50,
            1,
            1.0,
            2,
        ),
        (0.01, 400, 0, 0.25, 0),
        (0.01, 100, 2, 1.0, 0),
        # here differences of outer lose more digits than its last ones
        (
            0.001,
            100,
            0,
            0.25,
            1,
        ),
    ],
)
def test_rounding_is_no_mistake(scale, n, seed, x_0, random_state):
    check_problem(
        ratio_of_moments(1.0, scale, n, seed, np.full(4, x_0)),
        random_state=random_state,
        n_draws=100,
    )


@pytest.mark.parametrize("scale", slow_but([0.01, 0.001], 0.001))
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_an_error_of_one_per_cent_is_found(scale, factor):
    for factors in ((factor, 1), (factor, factor)):
        for differences in (True, False):
            with pytest.raises(ValueError, match="f_u and central differences"):
                check_problem(
                    ratio_of_moments(
                        1.0, scale, differences=differences, outer_gradient=factors
                    ),
                    n_draws=30,
                )
        with pytest.raises(ValueError, match="J and central differences"):
            check_problem(
                ratio_of_moments(1.0, scale, differences=False, inner_jacobian=factors),
                n_draws=30,
            )
