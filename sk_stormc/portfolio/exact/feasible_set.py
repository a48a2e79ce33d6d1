"""The feasible set of a portfolio: the constraints and the costs of the weights, made
once from the parameters."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sk_stormc.core.penalties import L1, Box, Penalty, Simplex, within
from sk_stormc.portfolio.convex_program import (
    CONSTRAINT_TOLERANCE,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
    Program,
)
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import minimise_linear, presolve
from sk_stormc.portfolio.linear_constraints import Linear

__all__ = [
    "FARTHEST_WEIGHT",
    "SEARCH_RADIUS",
    "FeasibleSet",
    "bounds_around",
    "minimise_around",
]

# weights that replace missing bounds in the search for the largest mean return, which
# would be infinite
FARTHEST_WEIGHT = 1e4
# radius around w that replaces missing bounds, relative to the largest weight; without
# it, no linear function of unbounded weights has a minimum
SEARCH_RADIUS = 2.0


@dataclass(eq=False, repr=False)
class FeasibleSet(Penalty):
    """The constraints of the weights w, and the convex costs l1 |w| + sum_j cost_j |w_j
    - previous_j| + l2 |w|^2.

    The constraints are bounds, a budget, lower <= A w <= upper, sum_j |w_j -
    previous_j| <= max_turnover, sum_j |w_j| <= max_gross and mean @ w >= min_return. A
    benchmark is an additional last coordinate that is fixed at -1. Budget, norms and
    costs do not include it.
    """

    box: Box  # bounds, budget and l1 norm of the assets' weights
    previous: np.ndarray
    cost: np.ndarray  # of shape (n_assets,)
    l2: float = 0.0
    linear: Linear | None = None
    max_turnover: float | None = None
    max_gross: float | None = None
    has_benchmark: bool = False
    min_return: float | None = None
    mean: np.ndarray | None = None  # of each coordinate, for `min_return`

    def __post_init__(self):
        n = self.n_assets = len(self.previous)
        self.budget, self.l1 = self.box.budget, self.box.alpha
        low, high = (np.broadcast_to(b, n) for b in (self.box.low, self.box.high))
        for centre, limit in self.limits.values():
            # no weight can change by more than the maximum turnover
            low = np.maximum(low, centre - limit)
            high = np.minimum(high, centre + limit)
            high = np.maximum(low, high)  # rounding may give low > high
        k = int(self.has_benchmark)
        fixed, zero = -np.ones(k), np.zeros(k)
        self.n = n + len(fixed)
        self.low, self.high = np.r_[low, fixed], np.r_[high, fixed]
        self.in_budget = np.r_[np.ones(n), zero]
        self.linear = linear = self.linear or Linear.none(n)
        self.lower, self.upper = linear.lower, linear.upper
        self.A = np.pad(linear.A, ((0, 0), (0, len(fixed))))
        # for a limit of 0 the bounds are enough
        self.norms = [
            (np.r_[centre, fixed], limit)
            for centre, limit in self.limits.values()
            if limit
        ]
        # whether the feasible set may have an empty interior
        self.needs_presolve = bool(len(self.A) or self.limits)
        self._projected = None  # the last point and its projection

    @classmethod
    def free(cls, n):
        """The set of all weights of n assets, without costs."""
        return cls(Box(-np.inf, np.inf), np.zeros(n), np.zeros(n))

    def __repr__(self):
        return f"FeasibleSet({self.box!r}, {' and '.join(self.parameters())})"

    @property
    def limits(self):
        """The limits of sum_j |w_j - centre_j|, as pairs (centre, limit) by the name of
        the parameter."""
        limits = {
            "max_turnover": (self.previous, self.max_turnover),
            "max_gross": (np.zeros(self.n_assets), self.max_gross),
        }
        return {name: pair for name, pair in limits.items() if pair[1] is not None}

    def parameters(self):
        """Names of the estimator's parameters without a proximal operator."""
        asked = {
            "linear_constraints": len(self.A) > (self.mean is not None),
            **dict.fromkeys(self.limits, True),
            "min_return": self.min_return is not None,
            "benchmark": self.has_benchmark,
        }
        return [name for name, there in asked.items() if there]

    # for iterative solvers

    def as_box(self):
        """Bounds, budget and l1 norm, or None if there is more."""
        more = self.cost.any() or self.l2 or self.parameters()
        return None if more else self.box

    def proximal(self):
        """The penalty of least work with this proximal operator; None for the set of
        all weights without costs."""
        box, low, high = self.as_box(), self.box.low, self.box.high
        if box is None:
            return self
        if np.isinf([low, high]).all() and box.budget is None:
            return L1(box.alpha) if box.alpha else None
        return self.simplex or box

    @cached_property
    def simplex(self):
        """The simplex of the weights >= 0 with the budget, or None for other bounds."""
        box = self.box
        bounds = (box.low == 0).all() and (box.high == np.inf).all() and not box.alpha
        return Simplex(box.budget) if bounds and (box.budget or 0) > 0 else None

    def value(self, x):
        """The costs."""
        w = x[: self.n_assets]
        squares = self.l2 * float((w.astype(float) ** 2).sum()) if self.l2 else 0.0
        trades = float((self.cost * np.abs(w - self.previous)).sum())
        return trades + self.box.value(w) + squares

    def prox(self, x, step):
        """The proximal point of the costs: soft thresholding about ``previous`` (and
        about 0 for the l1 norm), clipping, budget."""
        if self.l2:  # the squares are completed
            part = 1 / (1 + 2 * self.l2 * step)
            x, step = part * x, part * step
        norm, cost = self.l1 * step, self.cost * step
        # l1 |z| + cost |z - previous| has two kinks, and slopes -most, middle and most
        # around them
        first, last = np.minimum(self.previous, 0.0), np.maximum(self.previous, 0.0)
        if not self.l1:
            first = last = self.previous
        middle = np.where(self.previous > 0, norm - cost, cost - norm)
        most = norm + cost

        def shrink(z):
            held = np.clip(z - middle, first, last)
            return np.where(
                z + most < first, z + most, np.where(z - most > last, z - most, held)
            )

        bends = [
            bound + slope
            for bound in (first, last, self.box.low, self.box.high)
            for slope in (-most, middle, most)
        ]
        return within(self.box, x, step, shrink, bends)

    def check(self, n_variables):
        """Raise a ValueError if the set does not fit the number of variables."""
        self.box.check(n_variables - self.has_benchmark)

    # feasible points

    def project(self, x, kept=PROGRAM_TOLERANCE):
        """The nearest feasible point, by the interior-point method if there are linear
        constraints or norms.

        A point that violates none of them by more than ``kept`` is only projected on
        bounds and budget.
        """
        if not self.parameters():
            return self._within_box(x)
        x = np.asarray(x, float)
        asked = kept, x.tobytes()
        # a fit projects equal weights three times
        if self._projected is None or self._projected[0] != asked:
            self._projected = asked, self._nearest(x, kept)
        return self._projected[1].copy()

    def _within_box(self, x):
        return (self.simplex or self.box).project(x)

    def _nearest(self, x, kept):
        missed = self.violation(self.on_bounds(x))
        if missed <= kept:
            return self.on_bounds(x)
        only = self.only_point()
        if only is not None:
            return self.on_bounds(only)
        low, high, A, lower, upper, E, e = self.presolved[0]
        m, unit = len(low), min(missed, 1.0)  # distances are scaled by the violation
        H = np.diag(np.r_[np.ones(self.n), np.zeros(m - self.n)])
        target = np.pad(x, (0, m - len(x)))

        def smooth(z):
            d = H @ (z - target)
            return 0.5 * float(d @ d) / unit, d / unit, H / unit

        solution = interior_point(
            Program(smooth, [], low, high, A, lower, upper, E, e),
            self.lifted(np.pad(x, (0, self.n - len(x))), 1.0),
        )
        return self.on_bounds(solution.x[: self.n])

    def on_bounds(self, x):
        """The point with bounds, budget and least mean return satisfied exactly. Where
        they are, weights are unchanged.

        The interior-point method meets them up to rounding. The mean return is raised
        by a mixture with `richest`.
        """
        w, box = x[: self.n_assets], self.box
        size = max(abs(box.budget or 0.0), np.abs(w).sum())
        rounding = 4 * np.finfo(float).eps * size  # of a sum
        met = box.budget is None or abs(w.sum() - box.budget) <= rounding
        if not (met and (w >= box.low).all() and (w <= box.high).all()):
            w = self._within_box(w)
        x = np.append(w, -np.ones(1, w.dtype)) if self.has_benchmark else w
        if self.mean is None or not np.isfinite(x).all():
            return x
        earned, most = float(self.mean @ x), float(self.mean @ self.richest)
        missing = self.min_return - earned
        if missing <= 0:
            return x
        part = min(1.0, missing / max(most - earned, missing))
        return x + part * (self.richest - x)

    def violation(self, x):
        """The largest violation of a linear constraint or a limit of a norm, relative
        to its size."""
        return max(self._violations(x).max(initial=0.0), 0.0)

    def missed(self, x):
        """The constraint that a point violates most, in words, or None."""
        over = self._violations(x)
        if not over.max(initial=0.0) > PROGRAM_TOLERANCE:
            return None
        limits = [f"{name}={limit:g}" for name, (_, limit) in self.limits.items()]
        return f"{[*self.linear.names, *limits][over.argmax()]!r} by {over.max():.2g}"

    def _violations(self, x):
        w, A = np.asarray(x[: self.n_assets], float), self.linear.A
        size = np.abs(A) @ np.abs(w) + np.abs(A).max(axis=1, initial=0.0) + 1e-300
        over = np.maximum(A @ w - self.upper, self.lower - A @ w) / size
        norms = [
            (np.abs(w - centre).sum() - limit) / (limit + np.abs(centre).sum() + 1e-300)
            for centre, limit in self.limits.values()
        ]
        return np.r_[over, norms]

    def is_met(self, x):
        """Whether the constraints besides bounds and budget hold up to rounding, and
        the mean return exactly."""
        return self.violation(x) <= PROGRAM_TOLERANCE and (
            self.mean is None or float(self.mean @ x) >= self.min_return
        )

    @property
    def equal(self):
        """Equal weights, which need not be feasible."""
        return np.where(self.in_budget, 1 / self.n, self.low)

    @property
    def empty(self):
        """Weights of 0, which need not be feasible."""
        return np.where(self.in_budget, 0.0, self.low)

    def allows_empty(self):
        """Whether weights of 0 are feasible."""
        empty = self.on_bounds(self.empty)
        return not empty[: self.n_assets].any() and not self.violation(empty)

    def last_feasible(self, x, inside):
        """The last point on the segment from a feasible point to x that satisfies all
        constraints."""
        x, part, step = self.on_bounds(x), 0.0, 0.5
        if not np.isfinite(x).all():
            return inside
        if self.violation(x) <= PROGRAM_TOLERANCE:
            return x
        for _ in range(50):  # bisection, until the step is rounding
            further = inside + (part + step) * (x - inside)
            if self.violation(further) <= PROGRAM_TOLERANCE:
                part += step
            step /= 2
        return inside + part * (x - inside)

    def is_empty(self):
        """Whether no portfolio meets all constraints."""
        try:
            self.check(self.n)
        except ValueError:  # the budget is out of reach
            return True
        if not self.needs_presolve:
            return False
        centre = self.presolved[1][: self.n]
        return bool(self.violation(self.on_bounds(centre)) > 10 * CONSTRAINT_TOLERANCE)

    # other sets

    def with_bounds(self, low, high):
        """The same set with other bounds of the assets' weights."""
        return replace(self, box=Box(low, high, self.budget, self.l1))

    def bounded(self, w, radius):
        """The set with bounds at a radius around w where it has none."""
        low, high = (
            np.broadcast_to(bound, self.n_assets)
            for bound in (self.box.low, self.box.high)
        )
        w = w[: self.n_assets]
        return self.with_bounds(
            np.where(np.isfinite(low), low, w - radius),
            np.where(np.isfinite(high), high, w + radius),
        )

    def without_costs(self):
        """The same constraints without costs."""
        box = Box(self.box.low, self.box.high, self.budget)
        return replace(self, box=box, cost=np.zeros(self.n_assets), l2=0.0)

    def with_min_return(self, least, mean):
        """The set with the constraint mean @ x >= least. A ValueError contains the
        largest mean return."""
        n = self.n_assets
        limited = replace(self, min_return=least, mean=mean)
        richest = limited.richest
        largest = float(mean @ richest)
        if not least <= largest + RELATIVE_ROUNDING * float(
            np.abs(mean) @ np.abs(richest)
        ):
            raise ValueError(
                f"min_return must be at most {largest:.6g}, the largest mean return "
                f"of a portfolio that meets the constraints, got {least!r}"
            )
        # the budget determines the return that all assets have in common
        common = 0.0 if self.budget is None else float(np.median(mean[:n]))
        linear = self.linear.plus(
            mean[:n] - common,
            min(least, largest) + float(mean[n:].sum()) - common * (self.budget or 0.0),
            f"min_return={least}",
        )
        limited = replace(limited, linear=linear, min_return=min(least, largest))
        limited.richest = richest
        return limited

    @cached_property
    def richest(self):
        """The feasible weights of the largest mean return."""
        free = replace(self, min_return=None, mean=None)
        centre = np.asarray(free.project(self.equal), float)
        far = FARTHEST_WEIGHT * max(1.0, np.abs(centre).max())
        around = bounds_around(self, centre, far)
        return free.last_feasible(
            minimise_linear(self, -self.mean, *around, 0.0)[0], centre
        )

    # for the exact methods

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
        rest = self.n - self.n_assets
        terms = [(np.pad(self.cost, (0, rest)), np.pad(self.previous, (0, rest)))]
        if self.l1:
            terms.insert(0, (self.l1 * self.in_budget, np.zeros(self.n)))
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
        if not self.needs_presolve:
            return constraints, None
        # beside bounds far away, all rows would be tight up to the tolerance
        limits = np.abs(np.r_[lower, upper])
        sizes = self.size() or 1.0, limits[np.isfinite(limits)].max(initial=0.0)
        return presolve(*constraints, min(size for size in sizes if size))

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
        return result if self.is_met(result) else w

    def restricted(self, there):
        """The same set in some coordinates. There must be no linear constraints and no
        limits of norms."""
        some = there[: self.n_assets]
        low, high = (
            np.broadcast_to(b, self.n_assets)[some]
            for b in (self.box.low, self.box.high)
        )
        box = Box(low, high, self.budget, self.l1)
        previous, cost = self.previous[some], self.cost[some]
        return replace(self, box=box, previous=previous, cost=cost, linear=None)

    def with_fixed(self, fixed):
        """The same set, with some weights fixed."""
        fixed = fixed[: self.n_assets]
        low, high = (
            np.where(np.isfinite(fixed), fixed, bound)
            for bound in (self.box.low, self.box.high)
        )
        return self.with_bounds(low, high)


def bounds_around(feasible, w, radius):
    """Finite bounds that contain w: those implied by bounds and budget, and otherwise a
    radius around w."""
    low, high = feasible.implied_bounds()
    low = np.where(np.isfinite(low), low, w - radius)
    high = np.where(np.isfinite(high), high, w + radius)
    return np.minimum(low, w), np.maximum(high, w)


def minimise_around(feasible, c, w, weight=1.0):
    """The minimiser of c @ s + weight * costs(s), with squares linearised at w, and the
    minimum.

    Unbounded weights are restricted to twice the largest weight around w, or to 2
    around 0.
    """
    # l2 |s|^2 >= (2 s - w) @ squares
    squares = weight * feasible.l2 * feasible.in_budget * w
    radius = SEARCH_RADIUS * (np.abs(w).max() or 1.0)
    low, high = bounds_around(feasible, w, radius)
    s, value = minimise_linear(feasible, c + 2 * squares, low, high, weight)
    return s, value - float(w @ squares)
