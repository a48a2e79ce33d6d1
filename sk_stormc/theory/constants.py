"""Estimates of the theory's constants of a problem from samples."""

import math

import numpy as np

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import source_of
from sk_stormc.core.unit import as_array
from sk_stormc.theory.parameters import ProblemConstants
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import (
    check_instance,
    check_int,
    check_number,
    drawn_seed,
)
from sk_stormc.utils.types import ArrayLike, RandomState

# smallest value of a constant, in units of the others; the theorems need positive ones
MIN_CONSTANT = 1e-3


def estimate_constants(
    problem: CompositionalProblem,
    x0: ArrayLike,
    radius: float,
    n_samples: int = 200,
    random_state: RandomState = None,
) -> ProblemConstants:
    """Estimate the constants of a problem, by sampling components at points of a ball
    around x0.

    The estimates are not upper bounds. They are the largest sampled values, and thus
    lower bounds of the suprema over the ball. (The H's are means over sampled
    components, and are lower bounds up to sampling error.) Delta is a lower bound of
    Phi(x0) - Phi*. Multiply the estimates by a margin before you rely on them.

    If f uses x directly, its argument is y = (x, u) and the inner function is (x,
    g(x)), so that M_g is at least 1.

    A constant Jacobian has L_g = 0, and a single component has variance 0. Proposition
    3.2 divides by these constants. As they are bounds, they may be increased. L_g is
    set to at least 1e-3 M_g^2 L_f / M_f, L_f to 1e-3 M_f L_g / M_g^2, H_1 to 1e-3
    M_f^2, H_2 to 1e-3 M_g^2, and H_3 to 1e-3 M_g^2 radius^2.

    Parameters
    ----------
    problem : CompositionalProblem
        A problem without a penalty, whose Jacobian is an array.
    x0 : array-like of shape (n_variables,)
    radius : float
        Radius of the ball.
    n_samples : int, default=200
        Number of points, and of draws for a variance.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    ProblemConstants

    Raises
    ------
    ValueError
        If the problem has a penalty or a Jacobian of kind "operator", if a parameter is
        out of its range, or if one of the constants would not be positive, because no
        point lower than x0 is found or Phi is linear.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> from sk_stormc.theory import estimate_constants
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 3, random_state=0))
    >>> k = estimate_constants(problem, np.zeros(3), radius=1.0, random_state=0)
    >>> bool(k.L_f <= 2 * (1 + (problem.returns**2).sum(axis=1).max()))
    True
    """
    check_instance("problem", problem, CompositionalProblem)
    if problem.penalty is not None:
        raise ValueError(
            "problem must have no penalty, which the theory does not cover, got "
            f"{problem.penalty!r}"
        )
    if problem.jacobian_kind == "operator":
        raise ValueError(
            "problem must have a Jacobian that is an array, got "
            "jacobian_kind='operator'"
        )
    check_number("radius", radius, low=0, inclusive=False)
    check_int("n_samples", n_samples, low=2)
    x0 = as_numbers("x0", x0)
    if x0.shape != (problem.n_variables,):
        raise ValueError(f"x0 must have shape ({problem.n_variables},), got {x0.shape}")
    rng = np.random.default_rng(drawn_seed(random_state))
    norm, d, source = np.linalg.norm, problem.n_variables, source_of(problem)

    def ball():
        z = rng.standard_normal((n_samples, d))
        return x0 + radius * rng.random((n_samples, 1)) ** (1 / d) * z / norm(
            z, axis=1, keepdims=True
        )

    def batches():
        inner = source.draw_inner(rng, (n_samples, 1))
        outer = source.draw_outer(rng, (n_samples, 1))
        return [
            (problem.inner_batch(j), problem.outer_batch(i))
            for j, i in zip(inner, outer, strict=True)
        ]

    def outer(x, u, batch):
        """The gradient of f in y, and its part in u."""
        f_x, f_u = problem.outer_gradient(x, u, batch)
        f_u = as_array(f_u)
        return (f_u if f_x is None else np.concatenate([f_x, f_u])), f_u, f_x

    full_inner, full_outer = problem.inner_batch(None), problem.outer_batch(None)
    points = ball()
    points[0] = x0
    # near the points, for difference quotients, and in the ball
    ends = points + 1e-3 * (ball() - points)
    seen = []  # of (L_f, L_g, L_phi, M_f, M_g)
    for x, end, (j, i) in zip(points, ends, batches(), strict=True):
        at = []
        for z in (x, end):
            u = as_array(problem.inner(z, full_inner))
            J = np.asarray(as_array(problem.jacobian(z, j)))
            grad, f_u, f_x = outer(z, u, i)
            y = u if f_x is None else np.concatenate([z, u])
            F = problem.vjp(J, f_u)
            at.append((y, J, grad, F if f_x is None else f_x + F))
        (y, J, grad, F), (y_end, J_end, grad_end, F_end) = at
        step, step_y = norm(end - x), norm(y_end - y)
        # of (x, g_j(x)) where f uses x
        slope = math.hypot(norm(J, 2), 0.0 if f_x is None else 1.0)
        # else step_y is rounding
        L_f = norm(grad_end - grad) / step_y if step_y > 1e-8 * norm(y) else 0.0
        seen.append(
            (L_f, norm(J_end - J) / step, norm(F_end - F) / step, norm(grad), slope)
        )
    L_f, L_g, L_phi, M_f, M_g = np.max(np.array(seen, dtype=float), axis=0).tolist()

    variances = []  # (H_1, H_2, H_3) at a point
    for x in points[:10]:
        u = as_array(problem.inner(x, full_inner))
        J = as_array(problem.jacobian(x, full_inner))
        grad = outer(x, u, full_outer)[0]
        squares = [
            (
                norm(outer(x, u, i)[0] - grad) ** 2,
                norm(as_array(problem.jacobian(x, j)) - J) ** 2,
                norm(as_array(problem.inner(x, j)) - u) ** 2,
            )
            for j, i in batches()
        ]
        variances.append(np.mean(squares, axis=0))
    H_1, H_2, H_3 = np.max(variances, axis=0).tolist()

    grad = problem.gradient(x0)
    # in many dimensions random points are hardly lower
    downhill = x0 - radius * grad / (norm(grad) or 1.0)
    Delta = problem.objective(x0) - min(
        problem.objective(x) for x in (*points, downhill)
    )
    if M_f > 0 and M_g > 0:
        L_g, L_f = (
            max(L_g, MIN_CONSTANT * M_g**2 * L_f / M_f),
            max(L_f, MIN_CONSTANT * M_f * L_g / M_g**2),
        )
    H_1, H_2 = max(H_1, MIN_CONSTANT * M_f**2), max(H_2, MIN_CONSTANT * M_g**2)
    H_3 = max(H_3, MIN_CONSTANT * M_g**2 * radius**2)
    return ProblemConstants(L_f, L_g, L_phi, M_f, M_g, H_1, H_2, H_3, Delta)
