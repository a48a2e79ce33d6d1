"""The conditional drawdown at risk (CDaR), the mean of the deepest fraction 1 - confidence of the drawdowns."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from sk_stormc.core.penalties import check_penalty
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.portfolio.exact.interior_point import Solution
from sk_stormc.portfolio.exact.linear_programs import linear_program, one_sided
from sk_stormc.portfolio.exact.program import Formulation
from sk_stormc.portfolio.mean_risk import Measure
from sk_stormc.portfolio.risk.cvar import worst
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import check_choice

__all__ = ["CDaR"]

NEAR = 1e-9  # distance from a bound, in units of the variables, below which a variable is at the bound


class DrawdownPortfolioProblem(PortfolioProblem):
    r"""Minimise the mean of the deepest drawdowns (CDaR) minus the mean return, over portfolios w.

    .. math::

        \Phi(w) = -\frac1n \sum_t r_t^T w + \lambda \min_s \Bigl( s
            + \frac{1}{n (1 - \beta)} \sum_t \max(D_t - s, \, 0) \Bigr) + R(w),
        \qquad D_t = \max(D_{t-1} - r_t^T w, \, 0)

    The drawdown D_t is the distance of the cumulative return below its running maximum, with D_0 = 0. CDaR is the CVaR
    of the drawdowns, and is convex in w. If the confidence beta is near 0, it is the mean drawdown, and if beta is at
    least 1 - 1 / n, it is the largest drawdown.

    A drawdown depends on all earlier periods in their order. The objective is therefore not a composition of averages,
    and it cannot be evaluated on batches. This class evaluates the objective, and `CompositionalPortfolio` minimises it
    as a linear program. Weights of periods count in both means, but the path of returns contains each period once.

    ``PortfolioProblem(returns, risk_measure="cdar")`` returns an instance of this class.

    Parameters
    ----------
    risk_measure : {"cdar"}, default="cdar"
        The only value that this class supports.
    confidence : float, default=0.95
        CDaR is the mean of the deepest fraction 1 - confidence of the drawdowns.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the confidence is not between 0 and 1.

    References
    ----------
    Chekhlov, Uryasev & Zabarankin, "Drawdown measure in portfolio optimization", 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[1.0], [-3.0], [1.0], [2.0]]), np.inf, risk_measure="cdar", confidence=0.5)
    >>> problem.value_at(np.array([1.0]))  # drawdowns of 0, 3, 2 and 0
    2.5
    """

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: Literal["cdar"] = "cdar",
        confidence: float = 0.95,
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        check_choice("risk_measure", risk_measure, ("cdar",))
        self._set_up(returns, risk_aversion, CDaR(confidence), sample_weight, penalty, metric)
        check_penalty(penalty, self.n_variables)

    def inner_batch(self, draws, weights=None):
        """Raise a ValueError: the objective cannot be evaluated on batches."""
        raise ValueError(
            "risk_measure='cdar' has no batches: a drawdown depends on all earlier periods in their order, and is "
            "not an average over periods. Use CompositionalPortfolio with solver='newton' or the default solver, which "
            "solve a linear program"
        )

    outer_batch = inner_batch

    def objective(self, x):
        """-mean <r_i, x> + lambda CDaR(x) + R(x)."""
        return self.task.value(x)


def drawdowns(returns):
    """Drawdowns: the distance of the cumulative return below its running maximum, which starts at 0."""
    total = np.cumsum(returns)
    return np.maximum(np.maximum.accumulate(total), 0.0) - total


@dataclass
class CDaR(Measure):
    """The mean of the deepest fraction 1 - confidence of the drawdowns."""

    confidence: float = 0.95
    name = "cdar"
    shift = None
    ordered = True
    problem = DrawdownPortfolioProblem

    def value(self, y, p=None):
        """The mean of the deepest drawdowns."""
        return self._worst(drawdowns(y), p)[0]

    def subgradient(self, y, p=None):
        """A drawdown falls with each return since its peak. The drawdowns have the weights of the deepest ones."""
        path, q = np.append(0.0, np.cumsum(y)), self._worst(drawdowns(y), p)[1]
        at_peak = path >= np.maximum.accumulate(path)
        change = np.append(0.0, -q)  # of the sum of the weights of the drawdowns that a return is part of
        np.add.at(change, np.maximum.accumulate(np.where(at_peak, np.arange(len(path)), 0))[1:], q)
        return -np.cumsum(change)[:-1]

    def _worst(self, losses, p):
        order, taken = worst(losses, 1 - self.confidence, p)
        q = np.empty(len(losses))
        q[order] = taken / taken.sum()
        return float(taken @ losses[order]) / float(taken.sum()), q

    def formulation(self, scaled, v):
        """The drawdowns of the path of returns."""
        path = Drawdowns(scaled.Q, scaled.p, scaled.risk_weight, 1 - self.confidence)
        return Formulation(-scaled.expected_return, hinges=[path])

    def solve(self, scaled, start, value_at, callback=None):
        """Solve the linear program."""
        solution = solve_linear_program(scaled.program(start, self.formulation)[0])
        if callback is not None and solution is not None:
            callback(solution.x)
        return solution


@dataclass
class Drawdowns:
    """A term of a `Program`: risk_weight times the mean of the deepest ``tail`` of the drawdowns of the path Q v.

    The term is the maximum of slope @ (-Q v) over the dual feasible slopes, which `allowed` leaves unchanged.
    """

    Q: np.ndarray
    p: np.ndarray  # weights of the periods, of sum 1
    risk_weight: float
    tail: float

    def allowed(self, slope):
        """The slope, scaled down if it is dual infeasible because of rounding, so that it gives a lower bound of the
        term.

        With multipliers m_t >= 0 of D_t >= D_{t-1} - y_t, the dual weight of D_t is m_t - m_{t+1}. It is at most
        risk_weight p_t / tail, and the sum of the dual weights is at most risk_weight.
        """
        slope = np.maximum(slope, 0.0)
        of_drawdown = np.maximum(slope - np.append(slope[1:], 0.0), 0.0)
        most = np.maximum(self.risk_weight * self.p / self.tail, 1e-300)
        return slope / max(1.0, of_drawdown.sum() / self.risk_weight, float((of_drawdown / most).max()))

    def bound(self, slope, n):
        """A linear lower bound of the term: its constant, and its coefficients of shape (n,)."""
        return 0.0, np.pad(-(self.allowed(slope) @ self.Q), (0, n - self.Q.shape[1]))


def solve_linear_program(program):
    """Minimise a `Program` whose smooth part is linear and whose hinges have no quadratic cost, with HiGHS.

    The variables are x, the drawdowns, their level s, the excesses over s, and one variable for each hinge.
    """
    path, *kinks = program.hinges
    n, (T, d) = len(program.low), path.Q.shape
    step = sparse.eye_array(T) - sparse.diags_array([np.ones(T - 1)], offsets=[-1], shape=(T, T))  # D_t - D_{t-1}
    of_A, rhs_of_A, index, sign = one_sided(program.A, program.lower, program.upper)
    one, kinked = sparse.eye_array(T), np.concatenate([np.zeros(0, int), *(kink.rows for kink in kinks)])
    blocks = [
        [sparse.csr_array(np.pad(-path.Q, ((0, 0), (0, n - d)))), -step, None, None, None],
        [None, one, sparse.csr_array(-np.ones((T, 1))), -one, None],
        [of_A, None, None, None, None],
        [sparse.eye_array(n, format="csr")[kinked], None, None, None, -sparse.eye_array(len(kinked))],
    ]
    rhs = [np.zeros(T), np.zeros(T), rhs_of_A, *(-kink.shift for kink in kinks)]
    _, slope, _ = program.smooth(np.zeros(n))
    of_excess = path.risk_weight * path.p / path.tail
    cost = np.concatenate([slope, np.zeros(T), [path.risk_weight], of_excess, *(kink.cost for kink in kinks)])
    lp = linear_program(cost, blocks, rhs, program.E, program.e, program.low, program.high)
    if lp.x is None:
        return None
    x, parts = lp.x[:n], np.split(-lp.ineqlin.marginals, np.cumsum([len(of) for of in rhs])[:-1])
    return Solution(
        program,
        x,
        slope=[parts[0], *(np.maximum(part, 0.0) for part in parts[3:])],
        dual_A=np.bincount(index, sign * parts[2], len(program.A)),
        active_rows=np.zeros(len(program.A), dtype=bool),
        active_bounds=(np.abs(x - program.low) <= NEAR) | (np.abs(x - program.high) <= NEAR),
        at_kink=[np.zeros(T, bool), *(np.abs(kink.at(x)) <= NEAR for kink in kinks)],
        dual_E=-lp.eqlin.marginals if len(program.E) else np.zeros(0),
        n_iter=int(lp.nit),
        done=True,
        at_vertex=True,
    )
