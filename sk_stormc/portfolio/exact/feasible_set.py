"""Constraints and costs of the weights, as penalties and in the form that the exact methods require."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sk_stormc.core.box_projection import within
from sk_stormc.core.penalties import L1, Box, Penalty, as_penalty
from sk_stormc.portfolio.exact.interior_point import Program, interior_point
from sk_stormc.portfolio.exact.linear_programs import minimise_linear, presolve
from sk_stormc.utils.validation import as_numbers, short

__all__ = [
    "AROUND",
    "FeasibleSet",
    "LinearlyConstrained",
    "TradingCosts",
    "bounds_around",
    "linear_minimum",
    "without_costs",
]


class TradingCosts(Penalty):
    """Transaction costs sum_j cost_j |x_j - previous_j|, with the bounds, budget and l1 norm of a box."""

    def __init__(self, previous, cost, box=None):
        self.previous, self.cost = as_numbers("previous_weights", previous), as_numbers("transaction_cost", cost)
        if self.previous.ndim != 1 or not np.isfinite(self.previous).all():
            raise ValueError(f"previous_weights must be finite, one for each asset, got {short(previous)}")
        if self.cost.shape not in ((), self.previous.shape):
            raise ValueError(
                f"transaction_cost must be one number or of shape {self.previous.shape}, got {self.cost.shape}"
            )
        if not (np.isfinite(self.cost) & (self.cost >= 0)).all():
            raise ValueError(f"transaction_cost must be finite and >= 0, got {short(cost)}")
        self.box = Box(-np.inf, np.inf) if box is None else box

    def __repr__(self):
        return f"TradingCosts(previous={short(self.previous)}, cost={short(self.cost)}, box={self.box!r})"

    def check(self, n_variables):
        """Raise a ValueError if there is no feasible point with ``n_variables`` coordinates."""
        if len(self.previous) != n_variables:
            raise ValueError(f"previous_weights must be of shape ({n_variables},), got {self.previous.shape}")
        self.box.check(n_variables)

    def value(self, x):
        """The transaction costs and the l1 norm."""
        return float((self.cost * np.abs(x - self.previous)).sum()) + self.box.value(x)

    def prox(self, x, step):
        """The proximal point: soft thresholding about ``previous`` (and about 0 for the l1 norm), clipping, budget."""
        norm, cost = self.box.alpha * step, self.cost * step
        # alpha |z| + cost |z - previous| has two kinks, and slopes -most, middle and most around them
        first, last = np.minimum(self.previous, 0.0), np.maximum(self.previous, 0.0)
        if not self.box.alpha:
            first = last = self.previous
        middle, most = np.where(self.previous > 0, norm - cost, cost - norm), norm + cost

        def shrink(z):
            held = np.clip(z - middle, first, last)
            return np.where(z + most < first, z + most, np.where(z - most > last, z - most, held))

        bends = [
            bound + slope
            for bound in (first, last, self.box.low, self.box.high)
            for slope in (-most, middle, most)
        ]
        return within(self.box, x, step, shrink, bends)

    def project(self, x):
        """The nearest feasible point."""
        return self.box.project(x)


KEPT = 1e-9  # allowed violation of a linear constraint, relative to its size
BISECTIONS = 50
AROUND = 2.0  # radius around w that replaces missing bounds, relative to the largest weight


@dataclass
class FeasibleSet:
    """Bounds, budget, l1 norm, transaction costs and linear constraints of a penalty, for n coordinates.

    A benchmark is an additional last coordinate that is fixed at -1. Budget, norm and costs do not include it.
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
    max_turnover: float | None
    needs_presolve: bool  # whether the feasible set may have an empty interior

    @classmethod
    def of(cls, penalty, n):
        """The feasible set and the costs of a penalty. None means no constraints."""
        further = penalty if isinstance(penalty, LinearlyConstrained) else None
        penalty = penalty if further is None else further.penalty
        m = n if further is None else further.n_assets
        previous, cost = np.zeros(m), np.zeros(m)
        if isinstance(penalty, TradingCosts):
            previous, cost, penalty = penalty.previous, np.broadcast_to(penalty.cost, m), penalty.box
        box = as_penalty(penalty).as_box()
        low, high = (np.broadcast_to(bound, m).astype(float) for bound in (box.low, box.high))
        budget, l1 = box.budget, box.alpha
        if further is None:
            none = np.zeros((0, m)), np.zeros(0), np.zeros(0)
            return cls(n, low, high, budget, l1, previous, cost, np.ones(m), *none, None, False)
        A, lower, upper = further.linear.A, further.linear.lower, further.linear.upper
        most, previous = further.max_turnover, further.previous
        if most is not None:  # no weight can change by more than the maximum turnover
            low, high = np.maximum(low, previous - most), np.minimum(high, previous + most)
            high = np.maximum(low, high)  # rounding may give low > high
        fixed, zero = -np.ones(n - m), np.zeros(n - m)
        low, high = np.r_[low, fixed], np.r_[high, fixed]
        previous, cost, in_budget = np.r_[previous, fixed], np.r_[cost, zero], np.r_[np.ones(m), zero]
        A = np.pad(A, ((0, 0), (0, n - m)))
        return cls(n, low, high, budget, l1, previous, cost, in_budget, A, lower, upper, most, True)

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
            if np.isfinite(total) and abs(total - self.budget) <= 1e-12 * max(1.0, np.abs(bound[there]).sum()):
                return bound.copy()
        return None

    def size(self):
        """A typical weight that follows from bounds and budget, or None if they do not restrict the weights."""
        there = self.in_budget > 0
        low, high = self.low[there], self.high[there]
        finite = np.concatenate([bound[np.isfinite(bound)] for bound in (low, high)])
        largest = np.abs(finite).max(initial=0.0)
        if self.budget:
            bounded = largest and np.isfinite(low).all() and np.isfinite(high).all()
            return min(abs(self.budget), largest) if bounded else abs(self.budget)
        return largest or None

    def costs(self):
        """The terms cost_j |w_j - at_j|, as a list of (coordinates with a cost, cost, at)."""
        terms = [(self.l1 * self.in_budget, np.zeros(self.n))] * bool(self.l1) + [(self.cost, self.previous)]
        return [(np.flatnonzero(cost), cost, at) for cost, at in terms if cost.any()]

    def constraints(self, size, n_levels):
        """The parts low, high, A, lower, upper, E, e of a `Program` in (w / size, levels, |w - previous| / size).

        The variables |w - previous| / size exist only with a turnover constraint.
        """
        n, (low, high, A, lower, upper, E, e) = self.n, self.presolved[0]
        free = np.full(n_levels, np.inf)
        low, high = np.insert(low / size, n, -free), np.insert(high / size, n, free)
        A, E = (np.hstack([M[:, :n], np.zeros((len(M), n_levels)), M[:, n:]]) for M in (A, E))
        return low, high, A, lower / size, upper / size, E, e / size

    @cached_property
    def presolved(self):
        """The constraints on (w, |w - previous|), and an interior point if linear programs were solved for them."""
        n, lifted = self.n, bool(self.max_turnover)
        fixed = self.low == self.high
        low, high = np.where(fixed, -np.inf, self.low), np.where(fixed, np.inf, self.high)
        low, high = np.r_[low, np.zeros(n * lifted)], np.r_[high, np.full(n * lifted, self.max_turnover or 0.0)]
        norm = np.abs(self.A).max(axis=1, initial=0.0)
        A, lower, upper, norm = (part[norm > 0] for part in (self.A, self.lower, self.upper, norm))
        A, lower, upper = A / norm[:, None], lower / norm, upper / norm
        equal = lower == upper
        E = np.concatenate([np.eye(n)[fixed], self.in_budget[None][: self.budget is not None], A[equal]])
        e = np.r_[self.low[fixed], [self.budget] if self.budget is not None else [], upper[equal]]
        A, lower, upper = A[~equal], lower[~equal], upper[~equal]
        A, E = (np.pad(M, ((0, 0), (0, n * lifted))) for M in (A, E))
        if lifted:
            one, total = np.eye(n), np.r_[np.zeros(n), self.in_budget][None]
            A = np.concatenate([A, np.hstack([one, -one]), np.hstack([-one, -one]), total])
            lower = np.r_[lower, np.full(2 * n + 1, -np.inf)]
            upper = np.r_[upper, self.previous, -self.previous, self.max_turnover]
        constraints = low, high, A, lower, upper, E, e
        return presolve(*constraints, self.size() or 1.0) if self.needs_presolve else (constraints, None)

    def implied_bounds(self):
        """The tighter bounds implied by bounds and budget, infinite where neither restricts a weight."""
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
        """The point (w / size, |w - previous| / size) for v = w / size."""
        return np.r_[v, np.abs(v - self.previous / size)] if self.max_turnover else v

    def fixed_weights(self, solution, size, n_hinges):
        """The weights of a solution that are at a bound, at 0 or at their previous value; NaN for the others."""
        w, held = solution.x[: self.n] * size, np.full(self.n, np.nan)
        at = solution.active_bounds[: self.n]
        held[at] = np.where(np.abs(w - self.low) <= np.abs(self.high - w), self.low, self.high)[at]
        if self.max_turnover:  # a weight is not traded if both w - previous and previous - w are at |w - previous|
            above = solution.active_rows[-2 * self.n - 1 : -1].reshape(2, self.n).all(axis=0)
            held[above] = self.previous[above]
        costs = self.costs()
        for (there, _, kink), at in zip(costs, solution.at_kink[n_hinges - len(costs) :], strict=True):
            held[there[at]] = kink[there[at]]
        return held

    def restricted(self, there):
        """The same set in some coordinates. There must be no linear constraints and no turnover constraint."""
        parts = {name: getattr(self, name)[there] for name in ("low", "high", "previous", "cost", "in_budget")}
        return replace(self, n=int(there.sum()), A=self.A[:, there], **parts)

    def with_fixed(self, fixed):
        """The same set, with some weights fixed."""
        there = np.isfinite(fixed)
        return replace(self, low=np.where(there, fixed, self.low), high=np.where(there, fixed, self.high))


class LinearlyConstrained(Penalty):
    """A penalty on weights w with lower <= A w <= upper, sum_j |w_j - previous_j| <= max_turnover and a benchmark."""

    def __init__(self, penalty, linear, previous, max_turnover, has_benchmark):
        self.penalty, self.linear, self.has_benchmark = penalty, linear, has_benchmark
        self.previous, self.max_turnover = np.asarray(previous, float), max_turnover
        self.n_assets = linear.A.shape[1]
        self._projected = None  # the last point and its projection

    def __repr__(self):
        constraints = f"{len(self.linear.A)} linear constraints, max_turnover={self.max_turnover}"
        return f"LinearlyConstrained({self.penalty!r}, {constraints})"

    def parameters(self):
        """Names of the estimator's parameters that require this penalty."""
        asked = {"linear_constraints": len(self.linear.A), "max_turnover": self.max_turnover is not None}
        return [name for name, there in (asked | {"benchmark": self.has_benchmark}).items() if there]

    def check(self, n_variables):
        """Raise a ValueError if the penalty does not fit the number of variables."""
        as_penalty(self.penalty).check(n_variables - self.has_benchmark)

    def value(self, x):
        """The l1 norm and the transaction costs."""
        return 0.0 if self.penalty is None else self.penalty.value(x[: self.n_assets])

    def on_bounds(self, x):
        """The point with bounds and budget satisfied exactly. The interior-point method does so up to rounding."""
        w = x[: self.n_assets]
        w = w if self.penalty is None else self.penalty.project(w)
        return np.append(w, -np.ones(1, w.dtype)) if self.has_benchmark else w

    def violation(self, x):
        """The largest violation of a linear constraint or the turnover constraint, relative to its size."""
        w, A = np.asarray(x[: self.n_assets], float), self.linear.A
        size = np.abs(A) @ np.abs(w) + np.abs(A).max(axis=1, initial=0.0) + 1e-300
        over = np.maximum(A @ w - self.linear.upper, self.linear.lower - A @ w) / size
        trades = -1.0 if self.max_turnover is None else np.abs(w - self.previous).sum() - self.max_turnover
        return max(over.max(initial=0.0), trades / (1.0 + np.abs(self.previous).sum()), 0.0)

    def last_feasible(self, x, inside):
        """The last point on the segment from a feasible point to x that satisfies all constraints."""
        x, part, step = self.on_bounds(x), 0.0, 0.5
        if not np.isfinite(x).all():
            return inside
        if self.violation(x) <= KEPT:
            return x
        for _ in range(BISECTIONS):
            part, step = part + step * (self.violation(inside + (part + step) * (x - inside)) <= KEPT), step / 2
        return inside + part * (x - inside)

    @cached_property
    def _feasible_set(self):
        return FeasibleSet.of(self, self.n_assets + self.has_benchmark)

    def project(self, x, kept=KEPT):
        """The nearest feasible point, by the interior-point method.

        A point that violates no constraint by more than ``kept`` is only projected on bounds and budget.
        """
        x = np.asarray(x, float)
        asked = kept, x.tobytes()
        if self._projected is None or self._projected[0] != asked:  # a fit projects equal weights three times
            self._projected = asked, self._nearest(x, kept)
        return self._projected[1].copy()

    def _nearest(self, x, kept):
        missed = self.violation(self.on_bounds(x))
        if missed <= kept:
            return self.on_bounds(x)
        feasible = self._feasible_set
        only = feasible.only_point()
        if only is not None:
            return self.on_bounds(only)
        low, high, A, lower, upper, E, e = feasible.presolved[0]
        m, unit = len(low), min(missed, 1.0)  # distances are scaled by the violation
        H = np.diag(np.r_[np.ones(len(x)), np.zeros(m - len(x))])
        target = np.r_[x, np.zeros(m - len(x))]

        def smooth(z):
            d = H @ (z - target)
            return 0.5 * float(d @ d) / unit, d / unit, H / unit

        solution = interior_point(Program(smooth, [], low, high, A, lower, upper, E, e), feasible.lifted(x, 1.0))
        return self.on_bounds(solution.x[: len(x)])


def bounds_around(feasible, w, radius):
    """Finite bounds that contain w: those implied by bounds and budget, and otherwise a radius around w."""
    low, high = feasible.implied_bounds()
    low, high = np.where(np.isfinite(low), low, w - radius), np.where(np.isfinite(high), high, w + radius)
    return np.minimum(low, w), np.maximum(high, w)


def linear_minimum(penalty, c, w):
    """The minimum of c @ s + R(s). Unbounded weights are restricted to twice the largest weight around w.

    NaN for a penalty that is not defined in this package.
    """
    if not isinstance(penalty, (TradingCosts, LinearlyConstrained)) and as_penalty(penalty).as_box() is None:
        return np.nan
    feasible = FeasibleSet.of(penalty, len(w))
    return minimise_linear(feasible, c, *bounds_around(feasible, w, AROUND * np.abs(w).max()))[1]


def without_costs(penalty):
    """The same constraints without costs and l1 norm, or None."""
    if isinstance(penalty, LinearlyConstrained):
        inner = without_costs(penalty.penalty)
        return LinearlyConstrained(inner, penalty.linear, penalty.previous, penalty.max_turnover, penalty.has_benchmark)
    box = penalty.box if isinstance(penalty, TradingCosts) else penalty
    if isinstance(box, Box):
        return Box(box.low, box.high, box.budget)
    return None if isinstance(box, L1) else box
