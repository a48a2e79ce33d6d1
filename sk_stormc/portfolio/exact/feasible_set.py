"""Constraints and costs of the weights, as penalties and in the form that the exact
methods require."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sk_stormc.core.box_projection import within
from sk_stormc.core.penalties import L1, Box, Penalty, as_penalty
from sk_stormc.portfolio.exact.convex_program import Program
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import minimise_linear, presolve
from sk_stormc.portfolio.exact.tolerances import (
    CONSTRAINT_TOLERANCE,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
)
from sk_stormc.utils.validation import as_numbers, short

__all__ = [
    "FARTHEST_WEIGHT",
    "SEARCH_RADIUS",
    "FeasibleSet",
    "LinearlyConstrained",
    "TradingCosts",
    "bounds_around",
    "linear_minimum",
    "minimise_around",
    "without_costs",
]


class TradingCosts(Penalty):
    """Costs sum_j cost_j |x_j - previous_j| + l2 sum_j x_j^2, with the bounds, budget
    and l1 norm of a box."""

    def __init__(self, previous, cost, box=None, l2=0.0):
        self.previous, self.cost = (
            as_numbers("previous_weights", previous),
            as_numbers("transaction_cost", cost),
        )
        if self.previous.ndim != 1 or not np.isfinite(self.previous).all():
            raise ValueError(
                "previous_weights must be finite, one for each asset, got "
                f"{short(previous)}"
            )
        if self.cost.shape not in ((), self.previous.shape):
            raise ValueError(
                "transaction_cost must be one number or of shape "
                f"{self.previous.shape}, got {self.cost.shape}"
            )
        if not (np.isfinite(self.cost) & (self.cost >= 0)).all():
            raise ValueError(
                f"transaction_cost must be finite and >= 0, got {short(cost)}"
            )
        self.box, self.l2 = Box(-np.inf, np.inf) if box is None else box, float(l2)

    def __repr__(self):
        squares = f", l2={self.l2}" * bool(self.l2)
        return (
            f"TradingCosts(previous={short(self.previous)}, cost={short(self.cost)}, "
            f"box={self.box!r}{squares})"
        )

    def check(self, n_variables):
        """Raise a ValueError if there is no feasible point with ``n_variables``
        coordinates."""
        if len(self.previous) != n_variables:
            raise ValueError(
                f"previous_weights must be of shape ({n_variables},), got "
                f"{self.previous.shape}"
            )
        self.box.check(n_variables)

    def value(self, x):
        """The transaction costs, the l1 norm and the squares."""
        squares = self.l2 * float(np.square(x, dtype=float).sum())
        return (
            float((self.cost * np.abs(x - self.previous)).sum())
            + self.box.value(x)
            + squares
        )

    def prox(self, x, step):
        """The proximal point: soft thresholding about ``previous`` (and about 0 for the
        l1 norm), clipping, budget."""
        if self.l2:  # the squares are completed
            part = 1 / (1 + 2 * self.l2 * step)
            x, step = part * x, part * step
        norm, cost = self.box.alpha * step, self.cost * step
        # alpha |z| + cost |z - previous| has two kinks, and slopes -most, middle and
        # most around them
        first, last = np.minimum(self.previous, 0.0), np.maximum(self.previous, 0.0)
        if not self.box.alpha:
            first = last = self.previous
        middle, most = (
            np.where(self.previous > 0, norm - cost, cost - norm),
            norm + cost,
        )

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

    def project(self, x):
        """The nearest feasible point."""
        return self.box.project(x)


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
        further = penalty if isinstance(penalty, LinearlyConstrained) else None
        penalty = penalty if further is None else further.penalty
        m = n if further is None else further.n_assets
        previous, cost, l2 = np.zeros(m), np.zeros(m), 0.0
        if isinstance(penalty, TradingCosts):
            previous, cost, l2 = (
                penalty.previous,
                np.broadcast_to(penalty.cost, m),
                penalty.l2,
            )
            penalty = penalty.box
        box = as_penalty(penalty).as_box()
        low, high = (
            np.broadcast_to(bound, m).astype(float) for bound in (box.low, box.high)
        )
        budget, l1 = box.budget, box.alpha
        if further is None:
            none = np.zeros((0, m)), np.zeros(0), np.zeros(0)
            return cls(
                n,
                low,
                high,
                budget,
                l1,
                previous,
                cost,
                np.ones(m),
                *none,
                [],
                False,
                l2,
            )
        A, lower, upper = further.linear.A, further.linear.lower, further.linear.upper
        previous = further.previous
        for (
            centre,
            most,
        ) in (
            further.norms().values()
        ):  # no weight can change by more than the maximum turnover
            low, high = np.maximum(low, centre - most), np.minimum(high, centre + most)
            high = np.maximum(low, high)  # rounding may give low > high
        fixed, zero = -np.ones(n - m), np.zeros(n - m)
        low, high = np.r_[low, fixed], np.r_[high, fixed]
        previous, cost, in_budget = (
            np.r_[previous, fixed],
            np.r_[cost, zero],
            np.r_[np.ones(m), zero],
        )
        A = np.pad(A, ((0, 0), (0, n - m)))
        # for a limit of 0 the bounds are enough
        norms = [
            (np.r_[centre, fixed], most)
            for centre, most in further.norms().values()
            if most
        ]
        return cls(
            n,
            low,
            high,
            budget,
            l1,
            previous,
            cost,
            in_budget,
            A,
            lower,
            upper,
            norms,
            True,
            l2,
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

    def constraints(self, size, n_levels):
        """The parts low, high, A, lower, upper, E, e of a `Program` in (w / size,
        levels, |w - centre| / size).

        The variables |w - centre| / size exist for each limit of a norm.
        """
        n, (low, high, A, lower, upper, E, e) = self.n, self.presolved[0]
        free = np.full(n_levels, np.inf)
        low, high = np.insert(low / size, n, -free), np.insert(high / size, n, free)
        A, E = (
            np.hstack([M[:, :n], np.zeros((len(M), n_levels)), M[:, n:]])
            for M in (A, E)
        )
        return low, high, A, lower / size, upper / size, E, e / size

    @cached_property
    def presolved(self):
        """The constraints on (w, |w - centre|), and an interior point if linear
        programs were solved for them."""
        n, m = self.n, len(self.norms)
        fixed = self.low == self.high
        low, high = (
            np.where(fixed, -np.inf, self.low),
            np.where(fixed, np.inf, self.high),
        )
        low, high = (
            np.r_[low, np.zeros(n * m)],
            np.r_[high, *(np.full(n, limit) for _, limit in self.norms)],
        )
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
            one, distance = (
                np.eye(n),
                np.pad(np.eye(n), ((0, 0), (n * k, n * (m - k - 1)))),
            )
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
            at = active.reshape(2, self.n).all(
                axis=0
            )  # both w - centre and centre - w are at |w - centre|
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
        near, held = (
            CONSTRAINT_TOLERANCE * (self.size() or np.abs(w).max()),
            np.full(self.n, np.nan),
        )
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


class LinearlyConstrained(Penalty):
    """A penalty on weights w with lower <= A w <= upper, limits of norms, a least mean
    return and a benchmark.

    The norms are sum_j |w_j - previous_j| <= max_turnover and sum_j |w_j| <= max_gross.
    """

    def __init__(
        self,
        penalty,
        linear,
        previous,
        has_benchmark,
        max_turnover=None,
        max_gross=None,
        min_return=None,
    ):
        self.penalty, self.linear, self.has_benchmark = penalty, linear, has_benchmark
        self.previous, self.max_turnover, self.max_gross = (
            np.asarray(previous, float),
            max_turnover,
            max_gross,
        )
        self.n_assets, self.min_return = linear.A.shape[1], min_return
        self.mean = self.richest = (
            # with `with_min_return`: mean returns, and the weights of the largest one
            None
        )
        self._projected = None  # the last point and its projection

    def __repr__(self):
        limits = {
            name: getattr(self, name)
            for name in ("max_turnover", "max_gross", "min_return")
        }
        limits = "".join(
            f", {name}={limit}" for name, limit in limits.items() if limit is not None
        )
        return (
            f"LinearlyConstrained({self.penalty!r}, {len(self.linear.A)} linear "
            f"constraints{limits})"
        )

    def norms(self):
        """The limits of sum_j |w_j - centre_j|, as pairs (centre, limit) by the name of
        the parameter."""
        norms = {"max_turnover": (self.previous, self.max_turnover)}
        norms["max_gross"] = np.zeros(self.n_assets), self.max_gross
        return {
            name: (centre, float(limit))
            for name, (centre, limit) in norms.items()
            if limit is not None
        }

    def changed(self, **parts):
        """A copy in which some attributes have other values."""
        new = copy(self)
        vars(new).pop("_feasible_set", None)
        vars(new).update(parts, _projected=None)
        return new

    def with_min_return(self, mean):
        """The penalty with the constraint mean @ x >= min_return. A ValueError contains
        the largest mean return."""
        n, feasible = self.n_assets, FeasibleSet.of(self, len(mean))
        centre = np.asarray(self.project(np.full(len(mean), 1 / n)), float)
        around = bounds_around(
            feasible, centre, FARTHEST_WEIGHT * max(1.0, np.abs(centre).max())
        )
        richest = self.last_feasible(
            minimise_linear(feasible, -mean, *around, 0.0)[0], centre
        )
        largest = float(mean @ richest)
        if not self.min_return <= largest + RELATIVE_ROUNDING * float(
            np.abs(mean) @ np.abs(richest)
        ):
            raise ValueError(
                f"min_return must be at most {largest:.6g}, the largest mean return "
                "of a portfolio that meets the "
                f"constraints, got {self.min_return!r}"
            )
        # the budget determines the return that all assets have in common
        common = 0.0 if feasible.budget is None else float(np.median(mean[:n]))
        least = (
            min(self.min_return, largest)
            + float(mean[n:].sum())
            - common * (feasible.budget or 0.0)
        )
        linear = replace(
            self.linear,
            A=np.vstack([self.linear.A, mean[:n] - common]),
            lower=np.append(self.linear.lower, least),
            upper=np.append(self.linear.upper, np.inf),
            names=[*self.linear.names, f"min_return={self.min_return}"],
        )
        return self.changed(
            linear=linear,
            mean=mean,
            richest=richest,
            min_return=min(self.min_return, largest),
        )

    def parameters(self):
        """Names of the estimator's parameters that require this penalty."""
        asked = {
            "linear_constraints": len(self.linear.A) > (self.mean is not None),
            **self.norms(),
        }
        asked |= {
            "min_return": self.min_return is not None,
            "benchmark": self.has_benchmark,
        }
        return [name for name, there in asked.items() if there]

    def check(self, n_variables):
        """Raise a ValueError if the penalty does not fit the number of variables."""
        as_penalty(self.penalty).check(n_variables - self.has_benchmark)

    def value(self, x):
        """The l1 norm, the transaction costs and the squares."""
        return 0.0 if self.penalty is None else self.penalty.value(x[: self.n_assets])

    def on_bounds(self, x):
        """The point with bounds, budget and mean return satisfied exactly.

        The interior-point method does so up to rounding. The mean return is raised by a
        mixture with `richest`.
        """
        w = x[: self.n_assets]
        w = w if self.penalty is None else self.penalty.project(w)
        x = np.append(w, -np.ones(1, w.dtype)) if self.has_benchmark else w
        if self.mean is None or not np.isfinite(x).all():
            return x
        earned, most = float(self.mean @ x), float(self.mean @ self.richest)
        missing = self.min_return - earned
        return (
            x
            if missing <= 0
            else x
            + min(1.0, missing / max(most - earned, missing)) * (self.richest - x)
        )

    def violation(self, x):
        """The largest violation of a linear constraint or a limit of a norm, relative
        to its size."""
        w, A = np.asarray(x[: self.n_assets], float), self.linear.A
        size = np.abs(A) @ np.abs(w) + np.abs(A).max(axis=1, initial=0.0) + 1e-300
        over = np.maximum(A @ w - self.linear.upper, self.linear.lower - A @ w) / size
        norms = [
            (np.abs(w - centre).sum() - limit) / (limit + np.abs(centre).sum() + 1e-300)
            for centre, limit in self.norms().values()
        ]
        return max(over.max(initial=0.0), 0.0, *norms)

    def is_met(self, x):
        """Whether the constraints besides bounds and budget hold up to rounding, and
        the mean return exactly."""
        return self.violation(x) <= PROGRAM_TOLERANCE and (
            self.mean is None or float(self.mean @ x) >= self.min_return
        )

    def last_feasible(self, x, inside):
        """The last point on the segment from a feasible point to x that satisfies all
        constraints."""
        x, part, step = self.on_bounds(x), 0.0, 0.5
        if not np.isfinite(x).all():
            return inside
        if self.violation(x) <= PROGRAM_TOLERANCE:
            return x
        for _ in range(50):  # bisection, until the step is rounding
            part, step = (
                part
                + step
                * (
                    self.violation(inside + (part + step) * (x - inside))
                    <= PROGRAM_TOLERANCE
                ),
                step / 2,
            )
        return inside + part * (x - inside)

    @cached_property
    def _feasible_set(self):
        return FeasibleSet.of(self, self.n_assets + self.has_benchmark)

    def project(self, x, kept=PROGRAM_TOLERANCE):
        """The nearest feasible point, by the interior-point method.

        A point that violates no constraint by more than ``kept`` is only projected on
        bounds and budget.
        """
        x = np.asarray(x, float)
        asked = kept, x.tobytes()
        if (
            self._projected is None or self._projected[0] != asked
        ):  # a fit projects equal weights three times
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

        solution = interior_point(
            Program(smooth, [], low, high, A, lower, upper, E, e),
            feasible.lifted(x, 1.0),
        )
        return self.on_bounds(solution.x[: len(x)])


def bounds_around(feasible, w, radius):
    """Finite bounds that contain w: those implied by bounds and budget, and otherwise a
    radius around w."""
    low, high = feasible.implied_bounds()
    low, high = (
        np.where(np.isfinite(low), low, w - radius),
        np.where(np.isfinite(high), high, w + radius),
    )
    return np.minimum(low, w), np.maximum(high, w)


def linear_minimum(penalty, c, w):
    """The minimum of c @ s + R(s). Unbounded weights are restricted to twice the
    largest weight around w.

    NaN for a penalty that is not defined in this package.
    """
    if (
        not isinstance(penalty, (TradingCosts, LinearlyConstrained))
        and as_penalty(penalty).as_box() is None
    ):
        return np.nan
    return minimise_around(FeasibleSet.of(penalty, len(w)), c, w)[1]


def minimise_around(feasible, c, w, weight=1.0):
    """The minimiser of c @ s + weight * costs(s), with squares linearised at w, and the
    minimum.

    Unbounded weights are restricted to twice the largest weight around w.
    """
    squares = (
        weight * feasible.l2 * feasible.in_budget * w
    )  # l2 |s|^2 >= (2 s - w) @ squares
    low, high = bounds_around(feasible, w, SEARCH_RADIUS * np.abs(w).max())
    s, value = minimise_linear(feasible, c + 2 * squares, low, high, weight)
    return s, value - float(w @ squares)


def without_costs(penalty):
    """The same constraints without costs and l1 norm, or None."""
    if isinstance(penalty, LinearlyConstrained):
        return penalty.changed(penalty=without_costs(penalty.penalty))
    box = penalty.box if isinstance(penalty, TradingCosts) else penalty
    if isinstance(box, Box):
        return Box(box.low, box.high, box.budget)
    return None if isinstance(box, L1) else box
