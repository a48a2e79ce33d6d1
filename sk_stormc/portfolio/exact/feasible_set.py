"""Constraints and costs of the weights in the form that the exact methods require."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sk_stormc.core.penalties import L1, Box, as_penalty
from sk_stormc.portfolio.exact.linear_programs import minimise_linear, presolve
from sk_stormc.portfolio.exact.tolerances import (
    CONSTRAINT_TOLERANCE,
    RELATIVE_ROUNDING,
)
from sk_stormc.portfolio.exact.trading_costs import TradingCosts

__all__ = [
    "FARTHEST_WEIGHT",
    "SEARCH_RADIUS",
    "FeasibleSet",
    "bounds_around",
    "linear_minimum",
    "minimise_around",
    "without_costs",
]

# weights that replace missing bounds in the search for the largest mean return, which
# would be infinite
FARTHEST_WEIGHT = 1e4
# radius around w that replaces missing bounds, relative to the largest weight; without
# it, no linear function of unbounded weights has a minimum
SEARCH_RADIUS = 2.0


@dataclass
class FeasibleSet:
    """Bounds, budget, l1 norm, transaction costs and linear constraints of a penalty,
    for n coordinates.

    A benchmark is an additional last coordinate that is fixed at -1. Budget, norm and
    costs do not include it.
    """

    n: int
    low: np.ndarray
    high: np.ndarray
    budget: float | None
    l1: float
    previous: np.ndarray
    cost: np.ndarray
    in_budget: np.ndarray  # 1 for weights, 0 for the benchmark's coordinate
    A: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    norms: list  # pairs (centre, limit): sum_j |w_j - centre_j| <= limit
    needs_presolve: bool  # whether the feasible set may have an empty interior
    l2: float = 0.0

    @classmethod
    def of(cls, penalty, n):
        """The feasible set and the costs of a penalty. None means no constraints."""
        if hasattr(penalty, "feasible_set"):
            return penalty.feasible_set(n)
        previous, cost, l2 = np.zeros(n), np.zeros(n), 0.0
        if isinstance(penalty, TradingCosts):
            previous, cost = penalty.previous, np.broadcast_to(penalty.cost, n)
            penalty, l2 = penalty.box, penalty.l2
        box = as_penalty(penalty).as_box()
        low, high = (
            np.broadcast_to(bound, n).astype(float) for bound in (box.low, box.high)
        )
        return cls(
            n,
            low,
            high,
            box.budget,
            box.alpha,
            previous,
            cost,
            in_budget=np.ones(n),
            A=np.zeros((0, n)),
            lower=np.zeros(0),
            upper=np.zeros(0),
            norms=[],
            needs_presolve=False,
            l2=l2,
        )

    def only_point(self):
        """The feasible weights if there is a single feasible point, otherwise None."""
        if (self.low == self.high).all():
            return self.low.copy()
        if self.needs_presolve:
            *_, E, e = self.presolved[0]
            if len(E) == E.shape[1]:
                return np.linalg.solve(E, e)[: self.n]
        if self.budget is None:
            return None
        if self.in_budget.sum() == 1:
            return np.where(self.in_budget, self.budget, self.low)
        there = self.in_budget > 0
        for bound in (self.low, self.high):
            total = bound[there].sum()
            if np.isfinite(total) and abs(
                total - self.budget
            ) <= RELATIVE_ROUNDING * max(1.0, np.abs(bound[there]).sum()):
                return bound.copy()
        return None

    def size(self):
        """A typical weight that follows from bounds and budget, or None if they do not
        restrict the weights."""
        there = self.in_budget > 0
        low, high = self.low[there], self.high[there]
        finite = np.concatenate([bound[np.isfinite(bound)] for bound in (low, high)])
        largest = np.abs(finite).max(initial=0.0)
        if self.budget:
            bounded = largest and np.isfinite(low).all() and np.isfinite(high).all()
            return min(abs(self.budget), largest) if bounded else abs(self.budget)
        return largest or None

    def costs(self):
        """The terms cost_j |w_j - at_j|, as a list of (coordinates with a cost, cost,
        at)."""
        terms = [(self.l1 * self.in_budget, np.zeros(self.n))] * bool(self.l1) + [
            (self.cost, self.previous)
        ]
        return [(np.flatnonzero(cost), cost, at) for cost, at in terms if cost.any()]

    def constraints(self, size):
        """The parts low, high, A, lower, upper, E, e of a `Program` in (w / size,
        |w - centre| / size).

        The variables |w - centre| / size exist for each limit of a norm.
        """
        low, high, A, lower, upper, E, e = self.presolved[0]
        return low / size, high / size, A, lower / size, upper / size, E, e / size

    @cached_property
    def presolved(self):
        """The constraints on (w, |w - centre|), and an interior point if linear
        programs were solved for them."""
        n, m = self.n, len(self.norms)
        fixed = self.low == self.high
        low = np.where(fixed, -np.inf, self.low)
        high = np.where(fixed, np.inf, self.high)
        low = np.r_[low, np.zeros(n * m)]
        high = np.r_[high, *(np.full(n, limit) for _, limit in self.norms)]
        norm = np.abs(self.A).max(axis=1, initial=0.0)
        A, lower, upper, norm = (
            part[norm > 0] for part in (self.A, self.lower, self.upper, norm)
        )
        A, lower, upper = A / norm[:, None], lower / norm, upper / norm
        equal = lower == upper
        E = np.concatenate(
            [
                np.eye(n)[fixed],
                self.in_budget[None][: self.budget is not None],
                A[equal],
            ]
        )
        e = np.r_[
            self.low[fixed],
            [self.budget] if self.budget is not None else [],
            upper[equal],
        ]
        A, lower, upper = A[~equal], lower[~equal], upper[~equal]
        A, E = (np.pad(M, ((0, 0), (0, n * m))) for M in (A, E))
        for k, (centre, limit) in enumerate(self.norms):
            one = np.eye(n)
            distance = np.pad(np.eye(n), ((0, 0), (n * k, n * (m - k - 1))))
            total = np.r_[np.zeros(n), self.in_budget @ distance][None]
            A = np.concatenate(
                [A, np.hstack([one, -distance]), np.hstack([-one, -distance]), total]
            )
            lower = np.r_[lower, np.full(2 * n + 1, -np.inf)]
            upper = np.r_[upper, centre, -centre, limit]
        constraints = low, high, A, lower, upper, E, e
        return (
            presolve(*constraints, self.size() or 1.0)
            if self.needs_presolve
            else (constraints, None)
        )

    def implied_bounds(self):
        """The tighter bounds implied by bounds and budget, infinite where neither
        restricts a weight."""
        if self.budget is None:
            return self.low, self.high
        there, (low, high) = self.in_budget > 0, (self.low.copy(), self.high.copy())
        least, most, total = low[there], high[there], self.budget
        if np.isfinite(most).all():
            low[there] = np.maximum(least, total - most.sum() + most)
        if np.isfinite(least).all():
            high[there] = np.minimum(most, total - least.sum() + least)
        return low, high

    def lifted(self, v, size):
        """The point (w / size, |w - centre| / size) for v = w / size."""
        return np.r_[v, *(np.abs(v - centre / size) for centre, _ in self.norms)]

    def fixed_weights(self, solution, size, n_hinges):
        """The weights of a solution that are at a bound, at 0 or at their previous
        value; NaN for the others."""
        w, held = solution.x[: self.n] * size, np.full(self.n, np.nan)
        at = solution.active_bounds[: self.n]
        held[at] = np.where(
            np.abs(w - self.low) <= np.abs(self.high - w), self.low, self.high
        )[at]
        rows, count = solution.active_rows, 2 * self.n + 1  # of each norm
        rows = rows[len(rows) - count * len(self.norms) :].reshape(-1, count)[:, :-1]
        for (centre, _), active in zip(self.norms, rows, strict=True):
            # both w - centre and centre - w are at |w - centre|
            at = active.reshape(2, self.n).all(axis=0)
            held[at] = centre[at]
        costs = self.costs()
        for (there, _, kink), at in zip(
            costs, solution.at_kink[n_hinges - len(costs) :], strict=True
        ):
            held[there[at]] = kink[there[at]]
        return held

    def at_limits(self, w):
        """The weights with those that are at a bound, at 0 or at their previous value
        up to rounding exactly there.

        The others take up the differences, so that the budget is met.
        """
        values = [self.low, self.high]
        for some, _, at in self.costs():
            values.append(np.full(self.n, np.nan))
            values[-1][some] = at[some]
        values += [centre for centre, _ in self.norms]
        near = CONSTRAINT_TOLERANCE * (self.size() or np.abs(w).max())
        held = np.full(self.n, np.nan)
        for value in values:
            held = np.where(np.isnan(held) & (np.abs(w - value) <= near), value, held)
        free = np.isnan(held)
        result = np.where(free, w, held)
        if self.budget is not None and (free & (self.in_budget > 0)).any():
            spread = self.in_budget * free
            result = (
                result + spread * (self.budget - self.in_budget @ result) / spread.sum()
            )
        return result

    def restricted(self, there):
        """The same set in some coordinates. There must be no linear constraints and no
        limits of norms."""
        parts = {
            name: getattr(self, name)[there]
            for name in ("low", "high", "previous", "cost", "in_budget")
        }
        return replace(self, n=int(there.sum()), A=self.A[:, there], **parts)

    def with_fixed(self, fixed):
        """The same set, with some weights fixed."""
        there = np.isfinite(fixed)
        return replace(
            self,
            low=np.where(there, fixed, self.low),
            high=np.where(there, fixed, self.high),
        )


def bounds_around(feasible, w, radius):
    """Finite bounds that contain w: those implied by bounds and budget, and otherwise a
    radius around w."""
    low, high = feasible.implied_bounds()
    low = np.where(np.isfinite(low), low, w - radius)
    high = np.where(np.isfinite(high), high, w + radius)
    return np.minimum(low, w), np.maximum(high, w)


def linear_minimum(penalty, c, w):
    """The minimum of c @ s + R(s). Unbounded weights are restricted to twice the
    largest weight around w.

    NaN for a penalty that is not defined in this package.
    """
    known = isinstance(penalty, TradingCosts) or hasattr(penalty, "feasible_set")
    if not known and as_penalty(penalty).as_box() is None:
        return np.nan
    return minimise_around(FeasibleSet.of(penalty, len(w)), c, w)[1]


def minimise_around(feasible, c, w, weight=1.0):
    """The minimiser of c @ s + weight * costs(s), with squares linearised at w, and the
    minimum.

    Unbounded weights are restricted to twice the largest weight around w.
    """
    # l2 |s|^2 >= (2 s - w) @ squares
    squares = weight * feasible.l2 * feasible.in_budget * w
    low, high = bounds_around(feasible, w, SEARCH_RADIUS * np.abs(w).max())
    s, value = minimise_linear(feasible, c + 2 * squares, low, high, weight)
    return s, value - float(w @ squares)


def without_costs(penalty):
    """The same constraints without costs and l1 norm, or None."""
    if hasattr(penalty, "without_costs"):
        return penalty.without_costs()
    box = penalty.box if isinstance(penalty, TradingCosts) else penalty
    if isinstance(box, Box):
        return Box(box.low, box.high, box.budget)
    return None if isinstance(box, L1) else box
