"""Rounds of a corrected sample: a gradient on all data, and the minimum on a sample
whose gradient it corrects."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.core.advice import Advice
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.engine import (
    ALL,
    CompositionalSolver,
    Estimate,
    MethodState,
    StopReason,
    start,
)
from sk_stormc.utils.parameters import check_int, is_word
from sk_stormc.utils.types import Auto
from sk_stormc.utils.warnings import ignored

# a sample with "auto": one of how many components, and its limits
COMPONENTS_PER_DRAW, SMALLEST_SAMPLE, LARGEST_SAMPLE = 10, 1000, 100_000
# tol of a round's run on the sample, relative to the gradient at the anchor
TOL_ON_SAMPLE = 1e-3
ERROR_OF_PHI = 1e-10  # relative, by rounding
DECREASE = 4  # of the residual in a round, below which the sample is doubled


@dataclass
class CorrectedSampleState(MethodState):
    """The anchor at x, its Phi, and the sizes and the draws of the samples of g and
    f."""

    anchor: Estimate | None = None
    value: float = np.inf
    batch_size: tuple | None = None
    draws: tuple | None = None  # None if the next round draws a sample
    first: float = np.inf  # the residual at x_0
    ended: bool = False  # whether no further round can lower Phi


class NoDecrease(Exception):
    """No further round can lower Phi."""


class CorrectedSample(CompositionalSolver):
    r"""Minimise the objective of a sample, corrected by the gradient on all data, in
    few rounds.

    A run draws a sample of the components, whose objective is :math:`\Phi_S` and whose
    gradient is :math:`F_S`. A round has an anchor :math:`x_0` at which u, J and the
    gradient F are computed on all data, and

    .. math::

        x = \arg\min_x \; \Phi_S(x) + \langle F(x_0) - F_S(x_0), \, x \rangle + R(x)

    The linear term makes the gradient at the anchor that of all data, so that each
    round reduces the error by a factor that grows with the sample. If Phi at x is not
    below that at the anchor, x is discarded. A new sample, twice as large, is drawn
    then, and also if the step's length at x is above a quarter of that at the anchor. A
    sample of all components is L-BFGS, or the other solver of the samples. A round
    reads all data once, and the sample stays in memory. It is suited for data that are
    far away, in a file or on other machines, and for many more components than
    variables.

    Parameters
    ----------
    sample_size : int or "auto", default="auto"
        Number of components of g and of f in the first sample. "auto" is a tenth of
        them, but at least 1,000 and at most 100,000.
    solver : str or CompositionalSolver, default="lbfgs"
        The solver of the samples. "storm-c" takes every penalty, and "lbfgs" bounds and
        l1 norms.
    max_iter, max_ifo : int or None, default=None
        Limits on the rounds and on the oracle calls (IFO). The components of a sample
        are counted when it is drawn, and each of their evaluations in
        ``n_evaluations``. If both are None, the limit is 100 passes.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta, from the gradient on all data with eta = 1, has fallen
        to tol times its value at x_0.

    Notes
    -----
    A sample of f needs values of f on it, by the problem's `outer_mean`.
    `DifferentiableComposition` has this method, and problems with ``n_outer = 1``, such
    as `LogMeanExpProblem`, need none. For others only g is sampled, and every
    evaluation uses all components of f.

    References
    ----------
    Shamir, Srebro & Zhang, "Communication-efficient distributed optimization using an
    approximate Newton-type method", 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import EntropicPortfolioProblem
    >>> problem = EntropicPortfolioProblem(
    ...     make_gaussian_returns(20_000, 5, mean=0.1, random_state=0)
    ... )
    >>> result = minimize(problem, "corrected-sample", tol=1e-6, random_state=0)
    >>> result.stop_reason, result.n_iter <= 6
    ('converged', True)
    """

    checks = {"sample_size": partial(check_int, low=1, words=("auto",))}
    learning_rate: Any = "auto"  # that of the solver of the samples

    def __init__(
        self,
        *,
        sample_size: int | Auto = "auto",
        solver: Any = "lbfgs",
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
    ) -> None:
        self.sample_size = sample_size
        self.solver = solver
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def accept(self, problem):
        """Raise a ValueError if the method, or its solver of the samples, cannot run on
        the problem."""
        super().accept(problem)
        try:
            self._inner_solver().accept(problem)
        except ValueError as error:
            raise ValueError(
                "'corrected-sample' minimises its samples by another method, here "
                f"solver={self.solver!r}. Give CorrectedSample(solver='storm-c'), "
                f"which takes every penalty: {error}"
            ) from None

    def needed_to_stream(self):
        """The parameters to set so that the method can run on a stream."""
        return "solver='storm-c'"

    def init_state(self, oracle, x):
        """The anchor at x_0."""
        anchor = start(oracle, x, ALL)
        sizes = [oracle.n_components(kind) for kind in ("inner", "outer")]
        sample = [self.sample_size] * 2
        if is_word(self.sample_size, "auto"):
            drawn = [n // COMPONENTS_PER_DRAW for n in sizes]
            sample = np.clip(drawn, SMALLEST_SAMPLE, LARGEST_SAMPLE).tolist()
        if type(oracle.problem).outer_mean is CompositionalProblem.outer_mean:
            sample[1] = sizes[1]
        residual = self.length(oracle, None, x, anchor.F)
        return CorrectedSampleState(
            x,
            anchor=anchor,
            value=oracle.value(x, anchor.u),
            batch_size=tuple(map(min, sample, sizes)),
            residual=residual,
            first=residual,
        )

    def step(self, oracle, s):
        """A round: the minimum on a corrected sample, and an anchor there."""
        if s.ended:
            raise NoDecrease
        if s.draws is None:
            s.draws = oracle.draw_sample(s.batch_size)
        sample = CorrectedProblem(oracle, s.anchor, s.draws)
        seed = int(oracle.rng.integers(2**31))
        solver = self._inner_solver().set_params(tol=TOL_ON_SAMPLE)
        # the next anchor shows whether the point is better
        with ignored(ConvergenceWarning):
            x = solver.solve(sample, s.x, random_state=seed).x
        anchor = start(oracle, x, ALL)
        value, length = oracle.value(x, anchor.u), self.length(oracle, s, x, anchor.F)
        equal = abs(value - s.value) <= ERROR_OF_PHI * abs(s.value)
        lower = length < s.residual if equal else value < s.value
        if not (lower and length <= s.residual / DECREASE):
            whole = tuple(oracle.n_components(kind) for kind in ("inner", "outer"))
            at_rounding = equal and s.residual <= hidden_by_rounding(s)
            s.ended = not lower and (at_rounding or s.batch_size == whole)
            s.draws = None
            s.batch_size = tuple(
                min(2 * size, n) for size, n in zip(s.batch_size, whole, strict=True)
            )
        if lower:
            s.x, s.anchor, s.value, s.residual = x, anchor, value, length

    def cost(self, oracle, s):
        """IFO of a round: all data, and a sample if it is drawn: of g, on which its
        Jacobian is evaluated too, and of f."""
        ifo = sum(oracle.n_components(kind) for kind in oracle.n_evaluations)
        if s.draws is None:
            inner, outer = s.batch_size
            ifo += 2 * oracle.price("inner", inner) + oracle.price("outer", outer)
        return ifo

    def length(self, oracle, s, x, F):
        """The residual, with eta = 1."""
        return super().length(oracle, MethodState(x), x, F)

    def iterate(self, oracle, s, loop):
        """Rounds until the loop has a reason to stop, or until one on all data, or one
        whose residual is at the level of rounding, has not lowered Phi."""
        try:
            super().iterate(oracle, s, loop)
        except NoDecrease:
            small = s.residual <= hidden_by_rounding(s)
            converged = small or loop.rule.is_stationary(s, by_values=True)
            loop.reason = StopReason.CONVERGED if converged else StopReason.NO_DECREASE

    def _inner_solver(self):
        from sk_stormc.solvers import get_solver  # which imports this module

        return get_solver(self.solver)


def hidden_by_rounding(s):
    """The residual below which rounding hides the decrease of Phi, as for L-BFGS."""
    return np.cbrt(np.finfo(s.x.dtype).eps) * s.first


class CorrectedProblem(CompositionalProblem):
    """The objective of a sample and the linear term of a round. Its evaluations are
    those of the oracle."""

    advice = Advice(batch_size=None)

    def __init__(self, oracle, anchor, draws):
        problem = oracle.problem
        self._oracle, self._problem = oracle, problem
        self._batches = oracle.sample(draws)
        self.n_inner, self.n_outer = (
            oracle.n_components(kind) if own is None else len(own)
            for kind, own in zip(("inner", "outer"), draws, strict=True)
        )
        self.n_variables, self.n_blocks = problem.n_variables, problem.n_blocks
        is_operator = problem.jacobian_kind == "operator"
        self.jacobian_kind = "operator" if is_operator else "sampled"
        self.preconditioner, self.penalty = problem.preconditioner, problem.penalty
        self.inner_floor = problem.inner_floor
        self._x0, self._last, self._linear = anchor.x, (None, None), 0.0
        self._linear = anchor.F - self.gradient(anchor.x)

    def initial_point(self, rng):
        """The anchor."""
        return self._x0.copy()

    def inner_batch(self, draws, weights=None):
        """The sample. It is always evaluated as a whole."""
        return self._batches[0]

    def outer_batch(self, draws, weights=None):
        """The sample."""
        return self._batches[2]

    def inner(self, x, batch):
        """u on the sample, which is remembered for the last x."""
        if self._last[0] is None or not np.array_equal(self._last[0], x):
            self._last = x.copy(), self._oracle.inner(x, batch)
        return self._last[1]

    def jacobian(self, x, batch):
        """J on the sample."""
        return self._oracle.jacobian(x, self._batches[1])

    def vjp(self, J, v):
        """J.T @ v."""
        return self._problem.vjp(J, v)

    def outer_gradient(self, x, u, batch):
        """f_x and f_u on the sample, with the linear term in f_x."""
        f_x, f_u = self._oracle.outer_gradient(x, u, batch)
        return self._linear + (np.zeros_like(x) if f_x is None else f_x), f_u

    def outer(self, x, u):
        """f on the sample, with the linear term."""
        f = self._problem.outer_mean(x, u, self._batches[2].data)
        return f + float(np.sum(self._linear * x))
