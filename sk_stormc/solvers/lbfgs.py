"""L-BFGS on the full objective, a reference for the other methods if the data fit in
memory."""

import contextlib
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import Bounds, minimize

from sk_stormc.core.penalties import as_penalty
from sk_stormc.engine import ALL, CompositionalSolver, MethodState, StopReason, start
from sk_stormc.utils.parameters import check_int

# the default budget, about the iterations that an objective of many variables needs
LBFGS_PASSES = 1000


class _OutOfBudget(Exception):
    """Raised through scipy if the budget does not allow the next evaluation."""


@dataclass
class LBFGSState(MethodState):
    """x_0 and the number of evaluations, which a resumed run repeats because it cannot
    restore scipy's memory."""

    x_start: np.ndarray | None = None
    n_calls: int = 0


class LBFGS(CompositionalSolver):
    """scipy's L-BFGS-B with the exact objective and gradient. Each evaluation counts as
    one pass.

    Bounds are passed on to scipy, and an l1 norm is handled by splitting the variables
    into positive and negative parts. L-BFGS-B does not support a budget or the simplex.
    One iteration is an iteration of scipy, with all evaluations of its line search. A
    problem's preconditioner scales the variables. A resumed run repeats the earlier
    iterations without counting them again.

    Parameters
    ----------
    memory : int, default=10
        Number of gradient differences that are kept (scipy's ``maxcor``).
    max_iter, max_ifo : int or None, default=None
        Limits on the iterations and on the oracle calls (IFO). If both are None, the
        limit is 1,000 passes.
    tol : float, default=1e-4
        Stop when the projected gradient, in the preconditioner's norm, has fallen to
        tol times its first value.

    References
    ----------
    Liu & Nocedal, "On the limited memory BFGS method for large scale optimization",
    1989.

    Examples
    --------
    >>> from sk_stormc import LBFGS, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, LBFGS(tol=1e-8)).stop_reason
    'converged'
    """

    learning_rate: Any = "auto"  # scipy's line search
    batch_size: Any = None
    checks = {"memory": partial(check_int, low=1)}

    def __init__(
        self,
        *,
        memory: int = 10,
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
    ) -> None:
        self.memory = memory
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def default_budget(self, oracle, s):
        """1,000 passes: a line search makes one or two of them an iteration, where
        other methods make many steps."""
        return math.inf, LBFGS_PASSES

    def needed_to_stream(self):
        """The parameters to set so that the method can run on a stream."""
        return "solver='storm-c'"

    def accept(self, problem):
        """Raise a ValueError if the method cannot run on the problem."""
        super().accept(problem)
        penalty = problem.penalty
        box = as_penalty(penalty).as_box()
        if box is not None and box.budget is None:
            return
        raise ValueError(
            "solver='lbfgs' takes bounds or an l1 norm. It takes no budget, no simplex "
            "(which a portfolio's constraint='long_only' is), no cost of trades, no l2 "
            f"and, with a tail risk, no l1 norm; got the penalty {penalty}. Use "
            "solver='storm-c', which takes them all, or bounds alone"
        )

    def init_state(self, oracle, x):
        """The state at x_0. Nothing is evaluated before scipy starts."""
        return LBFGSState(x, x_start=x)

    def cost(self, oracle, s):
        """IFO of one evaluation, which is a pass."""
        return sum(oracle.n_components(kind) for kind in oracle.n_evaluations)

    def length(self, oracle, s, x, F):
        """The norm of the projected gradient, in scipy's variables."""
        return self.variables.projected_length(
            self.variables.to_z(x), self.variables.gradient(F)
        )

    def iterate(self, oracle, s, loop):
        """Run scipy. The loop decides in scipy's callback whether to continue."""
        self.variables = _Variables(oracle.problem, oracle.preconditioner.root())
        loop.after_iteration()
        if loop.reason is not None:
            return
        run = _ScipyRun(self, oracle, s, loop)
        # the loop's own budgets and test replace those of scipy
        budgets = {"maxiter": 10**9, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0}
        with contextlib.suppress(_OutOfBudget):
            minimize(
                run.objective,
                run.z_start,
                jac=True,
                method="L-BFGS-B",
                bounds=run.variables.bounds,
                callback=run.callback,
                options={"maxcor": self.memory} | budgets,
            )
        # scipy finds no further decrease, usually because of rounding
        if loop.reason is None:
            s.residual = run.length
            # relative |F| below which rounding hides the decrease of Phi
            hidden = np.cbrt(np.finfo(s.x.dtype).eps)
            is_small = loop.rule.residual() <= max(self.tol, hidden)
            converged = is_small or loop.rule.is_stationary(s, by_values=True)
            loop.reason = StopReason.CONVERGED if converged else StopReason.NO_DECREASE
            if not math.isfinite(run.length):
                loop.reason = StopReason.NON_FINITE


class _ScipyRun:
    """The two functions that scipy calls, with their shared state."""

    def __init__(self, solver, oracle, s, loop):
        self.solver, self.oracle, self.s, self.loop = solver, oracle, s, loop
        self.variables = solver.variables
        self.z_start = self.variables.to_z(s.x_start)
        # norm of the projected gradient, at the last point and at the first
        self.length = self.first_length = math.nan
        self.first_step = math.inf
        self.calls = self.iterations = 0
        # counts of the run that is resumed
        self.calls_before, self.iterations_before = (s.n_calls, s.t)

    def objective(self, z):
        oracle, self.calls = self.oracle, self.calls + 1
        is_counted = self.calls <= self.calls_before  # by the run that is resumed
        if not is_counted:
            self.loop.reserve(self.solver.cost(oracle, self.s))
            if self.loop.reason is not None:
                raise _OutOfBudget
        counters = oracle.ifo, dict(oracle.n_evaluations)
        x = self.to_x(z)
        slope = self.variables.gradient(start(oracle, x, ALL).F)
        if is_counted:
            oracle.ifo, oracle.n_evaluations = counters
        self.s.n_calls = max(self.calls, self.calls_before)
        self.length = self.variables.projected_length(z, slope)
        if self.calls == 1:
            self.first_length = self.length
        elif self._is_unbounded(z):
            self.loop.reason = StopReason.MAX_IFO
            raise _OutOfBudget
        return oracle.objective(x) + self.variables.excess(z, x), slope

    def callback(self, intermediate_result):
        self.iterations += 1
        z = intermediate_result.x
        if self.iterations == 1:
            self.first_step = np.linalg.norm(z - self.z_start)
        if self.iterations > self.iterations_before:
            self.s.x, self.s.t = self.to_x(z), self.iterations
            self.s.residual = self.length
            self.loop.after_iteration()
            if self.loop.reason is not None:
                raise StopIteration

    def to_x(self, z):
        return self.variables.to_x(z).astype(self.s.x_start.dtype)

    def _is_unbounded(self, z):
        """Whether the objective is probably unbounded below: it decreases more and more
        steeply far from the start.

        L-BFGS would otherwise follow it until numbers overflow. An objective with a
        minimum and a condition number below 1e4 does not meet both conditions.
        """
        far = np.linalg.norm(z - self.z_start) > 1e4 * self.first_step
        return far and self.length > 30 * self.first_length


class _Variables:
    """scipy's variables z: x scaled by the preconditioner, in positive and negative
    parts for an l1 norm."""

    def __init__(self, problem, root):
        root = 1.0 if root is None else root
        d = problem.n_variables
        self.scale = root if np.ndim(root) == 2 else np.broadcast_to(root, d)
        self.box = as_penalty(problem.penalty).as_box()
        # a number, or one for each variable; 0 without an l1 norm
        self.alpha = self.box.alpha
        self.is_split = bool(np.any(self.alpha))
        self.bounds = None
        if problem.penalty is not None:
            low, high = self.box.low / self.scale, self.box.high / self.scale
            if self.is_split:
                low, high = _parts_of(low, -high), _parts_of(high, -low)
            self.bounds = Bounds(low, high)

    def to_x(self, z):
        if self.is_split:
            z = np.subtract(*np.split(z, 2))
        x = self.scale * z if self.scale.ndim == 1 else self.scale @ z
        # scaling may violate the bounds by rounding
        return np.clip(x, self.box.low, self.box.high)

    def to_z(self, x):
        x = x.astype(float)
        if self.scale.ndim == 2:
            z = solve_triangular(self.scale, x, lower=True)
        else:
            z = x / self.scale
        return _parts_of(z, -z) if self.is_split else z

    def gradient(self, F):
        F = F.astype(float)
        slope = self.scale * F if self.scale.ndim == 1 else self.scale.T @ F
        if self.is_split:
            weights = self.alpha * self.scale
            slope = np.concatenate([weights + slope, weights - slope])
        return slope

    def excess(self, z, x):
        """The l1 norm of the parts minus that of x, which is positive while both parts
        of a coordinate are."""
        if not self.is_split:
            return 0.0
        if np.ndim(self.alpha):
            return float(
                np.tile(self.alpha * self.scale, 2) @ z
                - self.alpha @ np.abs(x.astype(float))
            )
        return self.alpha * float(
            np.tile(self.scale, 2) @ z - np.abs(x).sum(dtype=float)
        )

    def projected_length(self, z, slope):
        if self.bounds is not None:
            at_low = (z <= self.bounds.lb) & (slope > 0)
            at_high = (z >= self.bounds.ub) & (slope < 0)
            slope = np.where(at_low | at_high, 0.0, slope)
        return float(np.linalg.norm(slope))


def _parts_of(positive, negative):
    """The parts > 0 of two vectors, one after the other."""
    return np.maximum(np.concatenate([positive, negative]), 0)
