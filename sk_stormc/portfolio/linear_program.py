"""Minimisation of drawdowns (CDaR) by a linear program, in place of the interior-point method."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from sk_stormc.portfolio.interior_point import Solution

__all__ = ["Drawdowns", "solve_linear_program"]

NEAR = 1e-9  # distance from a bound, in units of the variables, below which a variable counts as at it


@dataclass
class Drawdowns:
    """A term of a `Program`: price times the mean of the deepest fraction ``tail`` of the drawdowns of the path Q v.

    The term is the maximum of slope @ (-Q v) over the dual feasible slopes, which `allowed` leaves unchanged.

    Attributes
    ----------
    Q : ndarray of shape (n_periods, n_assets)
    p : ndarray of shape (n_periods,)
        Weights of the periods, of sum 1.
    price, tail : float
    """

    Q: np.ndarray
    p: np.ndarray
    price: float
    tail: float

    def allowed(self, slope):
        """The slope, scaled down if rounding has made it dual infeasible. It then gives a lower bound of the term.

        With multipliers m_t >= 0 of D_t >= D_{t-1} - y_t, the dual weight of D_t is m_t - m_{t+1}. It is at most
        price p_t / tail, and the sum of the dual weights is at most the price.
        """
        slope = np.maximum(slope, 0.0)
        of_drawdown = np.maximum(slope - np.append(slope[1:], 0.0), 0.0)
        most = np.maximum(self.price * self.p / self.tail, 1e-300)
        return slope / max(1.0, of_drawdown.sum() / self.price, float((of_drawdown / most).max()))

    def bound(self, slope, n):
        """A linear lower bound of the term: its constant, and its coefficients of shape (n,)."""
        return 0.0, np.pad(-(self.allowed(slope) @ self.Q), (0, n - self.Q.shape[1]))


def solve_linear_program(program):
    """Minimise a `Program` whose smooth part is linear and whose hinges have no quadratic cost, by HiGHS.

    The variables are x, the drawdowns, their level s, the excesses over s, and one variable for each hinge.
    """
    path, *kinks = program.hinges
    n, (T, d) = len(program.low), path.Q.shape
    none, one = sparse.csr_array, sparse.eye_array
    step = one(T) - sparse.diags_array([np.ones(T - 1)], offsets=[-1], shape=(T, T))  # D_t - D_{t-1}
    level = np.ones((T, 1))
    wide = np.zeros((T, n - d))
    up, down = np.flatnonzero(np.isfinite(program.upper)), np.flatnonzero(np.isfinite(program.lower))
    blocks = [
        [none(np.hstack([-path.Q, wide])), -step, None, None, *[None] * len(kinks)],
        [None, one(T), none(-level), -one(T), *[None] * len(kinks)],
        [none(program.A[up]), *[None] * (3 + len(kinks))],
        [none(-program.A[down]), *[None] * (3 + len(kinks))],
    ]
    limit = [np.zeros(T), np.zeros(T), program.upper[up], -program.lower[down]]
    for k, kink in enumerate(kinks):
        m = len(kink.rows)
        rows = none((np.ones(m), (np.arange(m), kink.rows)), shape=(m, n))
        blocks.append([rows, None, None, None, *[-one(m) if j == k else None for j in range(len(kinks))]])
        limit.append(-kink.shift)
    _, slope, _ = program.smooth(np.zeros(n))
    cost = np.concatenate(
        [slope, np.zeros(T), [path.price], path.price * path.p / path.tail, *(kink.cost for kink in kinks)]
    )
    low = np.concatenate([program.low, np.zeros(2 * T + 1), *(np.zeros(len(kink.rows)) for kink in kinks)])
    high = np.append(program.high, np.full(len(low) - n, np.inf))
    equations = {}
    if len(program.E):
        rest = sparse.csr_array((len(program.E), len(low) - n))
        equations = {"A_eq": sparse.hstack([none(program.E), rest]), "b_eq": program.e}
    rows = sparse.block_array([row for row, of in zip(blocks, limit, strict=True) if len(of)], format="csr")
    found = linprog(cost, rows, np.concatenate(limit), **equations, bounds=np.column_stack([low, high]), method="highs")
    if found.x is None:
        return None
    x, parts = found.x[:n], np.split(-found.ineqlin.marginals, np.cumsum([len(of) for of in limit])[:-1])
    of_A = np.zeros(len(program.A))
    of_A[up] += parts[2]
    of_A[down] -= parts[3]
    at_bound = (np.abs(x - program.low) <= NEAR) | (np.abs(x - program.high) <= NEAR)
    kinked = [np.abs(kink.at(x)) <= NEAR for kink in kinks]
    of_E = -found.eqlin.marginals if len(program.E) else np.zeros(0)
    slopes = [parts[0], *(np.maximum(part, 0.0) for part in parts[4:])]
    none_at = np.zeros(len(program.A), dtype=bool)
    return Solution(x, slopes, of_A, none_at, at_bound, [np.zeros(T, bool), *kinked], of_E, int(found.nit), True)
