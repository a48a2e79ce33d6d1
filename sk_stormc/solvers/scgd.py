"""SCGD: a moving average of the inner value."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from sk_stormc.core.schedules import Power
from sk_stormc.core.unit import InUnit
from sk_stormc.engine import CompositionalSolver, MethodState, at, guard
from sk_stormc.utils.parameters import check_number, check_schedule
from sk_stormc.utils.types import Auto, Schedule, Size


def check_exponents(name, value):
    """Raise a ValueError unless the value is two numbers <= 0."""
    try:
        p, q = value
        check_number(name, p, high=0)
        check_number(name, q, high=0)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be two numbers <= 0, of learning_rate and of beta, got "
            f"{value!r}"
        ) from None


@dataclass
class AverageState(MethodState):
    """The moving average u of the inner value, and the method's constants."""

    u: np.ndarray | InUnit | None = None
    x_old: np.ndarray | None = None
    beta: object = None
    batch_size: tuple | None = None


class SCGD(CompositionalSolver):
    r"""Stochastic compositional gradient descent (Wang, Fang & Liu 2017), with two time
    scales.

    .. math::

        u &\leftarrow (1 - \beta) u + \beta \, g(x, B_g) \\
        x &\leftarrow \mathrm{prox}_{\eta R} \bigl(
            x - \eta \, \partial g(x, B_{dg})^T \nabla f(u, B_f) \bigr)

    The first batch initialises u.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        The learning rate eta, which is the paper's alpha. "auto" is 0.7 / L (k + 1)^p,
        where L is the curvature of minibatches, an estimate whose oracle calls are
        counted.
    beta : float, callable or "auto", default="auto"
        Weight of the new value, in (0, 1]. "auto" is (k + 1)^q, or 1 if g uses all
        components and the preconditioner is a matrix, such as the inverse Hessian.
    exponents : tuple of two floats, default=(-3 / 4, -1 / 2)
        Exponents p and q, both <= 0. The default is the paper's choice for a nonconvex
        Phi. For a strongly convex Phi, the paper uses (-1, -2 / 3).

    References
    ----------
    Wang, Fang & Liu, "Stochastic compositional gradient descent: algorithms for
    minimizing compositions of expected-value functions", Mathematical Programming 161,
    2017.

    Examples
    --------
    >>> from sk_stormc import SCGD, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, SCGD(max_ifo=60_000), random_state=0).stop_reason
    'max_ifo'
    """

    checks = {
        "beta": partial(
            check_schedule, low=0, high=1, inclusive=False, words=("auto",)
        ),
        "exponents": check_exponents,
    }

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        beta: float | Schedule | Auto = "auto",
        batch_size: Size = "auto",
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
        exponents: tuple[float, float] = (-3 / 4, -1 / 2),
    ) -> None:
        self.learning_rate = learning_rate
        self.beta = beta
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol
        self.exponents = exponents

    def init_state(self, oracle, x):
        """The constants of the method. Only the curvature estimate draws batches."""
        size = self.sizes("batch_size", oracle, rule=16)
        p, q = self.exponents
        # an average of exact values only lags behind x, and for the steps of a
        # Newton-like preconditioner the lag is too large
        exact = size[0] is None and oracle.preconditioner.mixes
        return AverageState(
            x,
            x_old=x,
            rule=self.step_rule(oracle, x, size, 0.7, lambda eta: Power(eta, p)),
            beta=self.auto("beta", oracle.problem, 1.0 if exact else Power(1.0, q)),
            batch_size=size,
        )

    def step(self, oracle, s):
        """One iteration of the algorithm box."""
        beta = at(s.beta, s.t)
        batch = oracle.draw("inner", s.batch_size[0])
        value = oracle.inner(self.query(s, beta), batch)
        s.u = guard(
            oracle, value if s.u is None else (1 - beta) * s.u + beta * value, None
        )
        J = oracle.jacobian(s.x, oracle.draw_jacobian(s.batch_size[1], batch))
        F = oracle.gradient(s.x, s.u, J, oracle.draw("outer", s.batch_size[2]))
        s.x_old, s.x = s.x, self.move(oracle, s, F)

    def query(self, s, beta):
        """The point at which g is evaluated: the iterate."""
        return s.x
