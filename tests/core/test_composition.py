"""Problems from callables: equal to a subclass, derivatives in three ways, and mistakes
named at construction."""

import math

import numpy as np
import pytest
from helpers import few_of, ratio_of_moments

from sk_stormc import minimize
from sk_stormc.problems import FiniteSumComposition, check_problem

N, D, L = 60, 3, 2
rng = np.random.default_rng(0)
A, C = rng.normal(size=(N, L, D)), rng.normal(size=(N, L))


# g_j(x) = tanh(A_j x), f_i(x, u) = |u - c_i|^2 + |x|^2: at module level, so that they
# can be pickled
def inner(x, j):
    return np.tanh(A[j] @ x).mean(0)


def inner_jacobian(x, j):
    return ((1 - np.tanh(A[j] @ x) ** 2)[..., None] * A[j]).mean(0)


def inner_vjp(x, j, v):
    return np.einsum("jl,jld->d", (1 - np.tanh(A[j] @ x) ** 2) * v, A[j]) / len(j)


def outer_gradient(x, u, i):
    return 2 * x, 2 * (u - C[i].mean(0))


def outer(x, u):
    return ((u - C) ** 2).sum(1).mean() + x @ x


GOOD = {
    "inner": inner,
    "inner_jacobian": inner_jacobian,
    "outer_gradient": outer_gradient,
    "outer": outer,
    "n_inner": N,
    "n_outer": N,
    "n_variables": D,
}
X0 = np.array([0.5, -1.0, 2.0])
WAYS = {
    "jacobian": {},
    "vjp": {"inner_jacobian": None, "inner_vjp": inner_vjp},
    "differences": {"inner_jacobian": None},
}


def compose(**changes):
    return FiniteSumComposition(**GOOD | changes)


@pytest.mark.parametrize("solver", ["storm-c-paper", "lbfgs"])
def test_three_ways_to_the_same_minimum(solver):
    settings = {"random_state": 0, "max_iter": 40, "tol": 0}
    exact, vjp, differences = (
        minimize(compose(x0=X0, **way), solver, **settings) for way in WAYS.values()
    )
    assert exact.fun < exact.loss_curve[0]
    # all batches are full here, so that the kinds take the same steps
    np.testing.assert_allclose(vjp.x, exact.x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(differences.x, exact.x, rtol=1e-5, atol=1e-7)


def test_x0_and_indices_are_copies():
    x0, seen = X0.copy(), []

    def watched(x, j):
        seen.append(j)
        return inner(x, j)

    problem = compose(x0=x0, inner=watched)
    x0[:] = 0
    np.testing.assert_array_equal(problem.initial_point(None), X0)
    problem.initial_point(None)[:] = 0
    np.testing.assert_array_equal(problem.initial_point(None), X0)
    assert max(len(j) for j in seen) <= 2  # the constructor makes no pass over the data
    u = problem.inner(X0, problem.inner_batch(None))
    seen[-1] += 1
    np.testing.assert_array_equal(problem.inner(X0, problem.inner_batch(None)), u)


def test_differences_are_as_accurate_as_their_order_and_count_as_one_jacobian():
    exact, near = compose(x0=X0), compose(x0=X0, **WAYS["differences"])
    assert np.abs(near.jacobian(X0, None) - exact.jacobian(X0, None)).max() < 1e-9
    results = [
        minimize(problem, random_state=0, max_iter=5, tol=0)
        for problem in (exact, near)
    ]
    np.testing.assert_array_equal(results[0].ifo, results[1].ifo)
    assert results[0].n_evaluations == results[1].n_evaluations


# mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"inner_vjp": inner_vjp},
            "inner_vjp must be None where inner_jacobian is given, got both",
        ),
        ({"n_variables": None}, "n_variables must be an integer >= 1 where x0 is None"),
        # numpy's own: the user's formula fails
        (
            {"n_variables": 4},
            "size 4 is different from 3",
        ),
        ({"x0": np.ones(4)}, r"x0 must be of shape \(3,\), got shape \(4,\)"),
        (
            {"preconditioner": np.ones(2)},
            r"preconditioner must be a vector or matrix of 3 variables, got shape \(2,\)",
        ),
        (
            {"inner": lambda x, j: np.tanh(A[j] @ x)},
            r"inner must be of shape \(l,\).*got shape \(1, 2\)",
        ),
        (
            {"inner": lambda x, j: (A[j] @ x + 1).sum(0)},
            "inner must return the mean over its indices",
        ),
        ({"inner": lambda x, j: np.full(2, np.nan)}, "inner must be finite at x0"),
        ({"inner": lambda x, j: [1j, 2]}, "inner must return real numbers"),
        (
            {"inner_jacobian": lambda x, j: A[j].sum(0)},
            "inner_jacobian must return the mean",
        ),
        (
            {"inner_jacobian": None, "inner_vjp": lambda x, j, v: v},
            r"inner_vjp must be .*\(3,\), got shape \(2,\)",
        ),
        (
            {"outer_gradient": lambda x, u, i: (u, x)},
            r"first of the tuple .* shape \(3,\), got shape \(2,\)",
        ),
        (
            {"outer_gradient": lambda x, u, i: len(i) * (u + 1)},
            "outer_gradient must return the mean",
        ),
        ({"outer": lambda x, u: u}, r"outer must be of shape \(\), got shape \(2,\)"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ValueError, match=message) as error:
        compose(**changes)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "rough",
    [
        # a kink at x0 = 0, where central differences of any step agree
        lambda x, j: np.abs(x[:1]),
        lambda x, j: np.floor(1e6 * x[:1]),
        lambda x, j: (
            1
            + x[:1]
            + 1e-8 * np.random.default_rng(int(abs(x[0]) * 1e12)).normal(size=1)
        ),
        lambda x, j: np.float32(1) + np.sin(x[:1] + 1).astype(np.float32),
        lambda x, j: np.exp(1e5 * x[:1]),
        lambda x, j: np.log(x[:1] + 1e-9),
    ],
    ids=["kink", "steps", "noise", "single precision", "scale", "domain"],
)
def test_rough_functions_are_refused(rough):
    with pytest.raises(
        ValueError, match="inner must be smooth at x0 .* variable 0 .*tolerance"
    ):
        FiniteSumComposition(
            rough, None, lambda x, u, i: u, lambda x, u: u[0] ** 2 / 2, 1, 1, 2
        )


# f that is defined at the mean of g, and not at each of its components


@pytest.mark.parametrize(
    "mean, scale", few_of([(5e-4, 0.01), (3.0, 1.0), (0.1, 1.0), (1.0, 0.01)], 0, 1)
)
def test_ratio_of_moments(mean, scale):
    """Far from the mean the root is that of a negative number, so the check must not
    leave the domain either."""
    check_problem(ratio_of_moments(mean, scale, differences=False), random_state=1)


def test_ratio_of_moments_is_minimised():
    R = 0.1 + np.random.default_rng(0).normal(size=(400, 4))
    best = math.sqrt(R.mean(0) @ np.linalg.solve(np.cov(R.T, bias=True), R.mean(0)))
    problem = ratio_of_moments(0.1, 1.0, 400, differences=False)
    assert minimize(problem, "lbfgs", tol=1e-7).fun == pytest.approx(-best, rel=1e-7)


def test_mistakes_in_a_ratio_of_moments():
    with pytest.raises(ValueError, match="central differences"):
        check_problem(ratio_of_moments(3.0, 1.0, outer_gradient=1.01))
    with pytest.raises(ValueError, match="outer_gradient must return the mean"):
        ratio_of_moments(0.1, 1.0, summed=True)
    with pytest.raises(ZeroDivisionError) as error:
        ratio_of_moments(0.1, 1.0, x0=np.zeros(4))
    assert (
        "x0, with u the mean of inner over all components, array([0., 0.])"
        in error.value.__notes__[0]
    )
