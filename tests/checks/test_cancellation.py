"""A variance from moments loses digits: `check_problem` allows for that, and still finds an error of one per cent."""

import numpy as np
import pytest
from helpers import slow_but

from sk_stormc.problems import FiniteSumComposition, check_problem


def ratio(mean, scale, n=100, seed=0, x0=(0.25, 0.25, 0.25, 0.25), differences=True, **factors):
    """-u_1 / sqrt(u_2 - u_1^2), u the first two moments of the returns; factors are slips in the derivatives."""
    R = mean + scale * np.random.default_rng(seed).normal(size=(n, 4))
    of_f, of_g = (np.array(factors.get(name, (1.0, 1.0))) for name in ("outer_gradient", "inner_jacobian"))

    def inner(x, j):
        y = R[j] @ x
        return np.array([y.mean(), (y * y).mean()])

    def inner_jacobian(x, j):
        return of_g[:, None] * np.stack([R[j].mean(0), 2 * (R[j] @ x) @ R[j] / len(j)])

    def outer_gradient(x, u, i):
        s = np.sqrt(u[1] - u[0] ** 2)
        return of_f * np.array([-1 / s - u[0] ** 2 / s**3, u[0] / (2 * s**3)])

    def outer(x, u):
        return -u[0] / np.sqrt(u[1] - u[0] ** 2)

    return FiniteSumComposition(inner, None if differences else inner_jacobian, outer_gradient, outer, n, 1, x0=x0)


@pytest.mark.parametrize(
    "scale, n, seed, x_0, random_state",
    [
        (0.01, 50, 1, 1.0, 2),  # in these three, a second point was chosen that is 1e-10 away
        (0.01, 400, 0, 0.25, 0),
        (0.01, 100, 2, 1.0, 0),
        (0.001, 100, 0, 0.25, 1),  # here differences of outer lose more digits than its last ones
    ],
)
def test_rounding_is_no_mistake(scale, n, seed, x_0, random_state):
    check_problem(ratio(1.0, scale, n, seed, np.full(4, x_0)), random_state=random_state, n_draws=100)


@pytest.mark.parametrize("scale", slow_but([0.01, 0.001], 0.001))
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_an_error_of_one_per_cent_is_found(scale, factor):
    for factors in ((factor, 1), (1, factor), (factor, factor)):
        for differences in (True, False):
            with pytest.raises(ValueError, match="f_u and central differences"):
                check_problem(ratio(1.0, scale, differences=differences, outer_gradient=factors), n_draws=30)
        with pytest.raises(ValueError, match="J and central differences"):
            check_problem(ratio(1.0, scale, differences=False, inner_jacobian=factors), n_draws=30)
