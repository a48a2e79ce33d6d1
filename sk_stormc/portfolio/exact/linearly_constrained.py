"""Linear constraints, limits of norms, a least mean return and a benchmark as a
penalty, which is projected on by the interior-point method."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sk_stormc.core.penalties import Penalty, as_penalty, penalized, projected
from sk_stormc.portfolio.exact.convex_program import Program
from sk_stormc.portfolio.exact.feasible_set import (
    FARTHEST_WEIGHT,
    FeasibleSet,
    bounds_around,
    without_costs,
)
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import minimise_linear
from sk_stormc.portfolio.exact.tolerances import PROGRAM_TOLERANCE, RELATIVE_ROUNDING
from sk_stormc.portfolio.linear_constraints import Linear

__all__ = ["LinearlyConstrained"]


@dataclass(eq=False, repr=False)
class LinearlyConstrained(Penalty):
    """A penalty on weights w with lower <= A w <= upper, limits of norms, a least mean
    return and a benchmark.

    The norms are sum_j |w_j - previous_j| <= max_turnover and sum_j |w_j| <= max_gross.
    """

    penalty: Any
    linear: Linear
    previous: np.ndarray
    has_benchmark: bool
    max_turnover: float | None = None
    max_gross: float | None = None
    min_return: float | None = None
    # with `with_min_return`: mean returns, and the weights of the largest one
    mean: np.ndarray | None = None
    richest: np.ndarray | None = None

    def __post_init__(self):
        self.previous = np.asarray(self.previous, float)
        self.n_assets = self.linear.A.shape[1]
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

    def feasible_set(self, n):
        """The `FeasibleSet` for n coordinates: that of the penalty on the weights, with
        a benchmark's coordinate."""
        inner = FeasibleSet.of(self.penalty, self.n_assets)
        low, high, norms = inner.low, inner.high, self.norms().values()
        for centre, limit in norms:
            # no weight can change by more than the maximum turnover
            low = np.maximum(low, centre - limit)
            high = np.minimum(high, centre + limit)
            high = np.maximum(low, high)  # rounding may give low > high
        fixed, zero = -np.ones(n - self.n_assets), np.zeros(n - self.n_assets)
        return replace(
            inner,
            n=n,
            low=np.r_[low, fixed],
            high=np.r_[high, fixed],
            previous=np.r_[self.previous, fixed],
            cost=np.r_[inner.cost, zero],
            in_budget=np.r_[inner.in_budget, zero],
            A=np.pad(self.linear.A, ((0, 0), (0, len(fixed)))),
            lower=self.linear.lower,
            upper=self.linear.upper,
            # for a limit of 0 the bounds are enough
            norms=[(np.r_[centre, fixed], limit) for centre, limit in norms if limit],
            needs_presolve=True,
        )

    def without_costs(self):
        """The same constraints without costs and l1 norm."""
        return replace(self, penalty=without_costs(self.penalty))

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
        return replace(
            self,
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
        return penalized(0.0, self.penalty, x[: self.n_assets])

    def on_bounds(self, x):
        """The point with bounds, budget and mean return satisfied exactly.

        The interior-point method does so up to rounding. The mean return is raised by a
        mixture with `richest`.
        """
        w = projected(self.penalty, x[: self.n_assets])
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
            further = inside + (part + step) * (x - inside)
            if self.violation(further) <= PROGRAM_TOLERANCE:
                part += step
            step /= 2
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
