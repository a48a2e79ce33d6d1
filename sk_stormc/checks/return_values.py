"""Checks of the return values of a problem's methods: shapes, types, finite numbers and
reproducibility."""

import math
import pickle

import numpy as np

from sk_stormc.checks.differences import worst
from sk_stormc.checks.points import (
    evaluate_g,
    find_points,
    in_domain,
    in_power,
    power_at,
)
from sk_stormc.core.attribute_checks import require, require_plain
from sk_stormc.core.metrics import as_metric
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import source_of
from sk_stormc.utils.validation import as_numbers, short

__all__ = ["BATCH_SIZE", "SIDES", "ReturnValues"]

SIDES = ("inner", "outer")
BATCH_SIZE = 4  # of the batches that are not single components


class ReturnValues:
    """A problem, a point x, and the checks of return values. Each check relies on those
    before it.

    Parameters
    ----------
    problem : CompositionalProblem
    x : array-like of shape (n_variables,) or None
    rng : numpy.random.Generator
    """

    def __init__(self, problem, x, rng):
        self.problem, self.rng, self.noise = problem, rng, {}
        source = source_of(problem)
        self.draws_of = {"inner": source.draw_inner, "outer": source.draw_outer}
        own = problem.initial_point(np.random.default_rng(0))
        shape = (problem.n_variables,)
        good = (
            isinstance(own, np.ndarray)
            and own.shape == shape
            and np.isdtype(own.dtype, "real floating")
        )
        self.require(
            good,
            "initial_point",
            f"must be a floating array of shape {shape}, got {short(own)}",
        )
        self.require(np.isfinite(own).all(), "initial_point", "must be finite")
        self.dtype, self.eps = own.dtype, float(np.finfo(own.dtype).eps)
        if x is None:
            x = own if problem.penalty is None else problem.penalty.project(own)
        self.x = as_numbers("x", x, self.dtype)
        if self.x.shape != shape or not np.isfinite(self.x).all():
            raise ValueError(f"x must be finite and of shape {shape}, got {short(x)}")
        self.unscaled = problem
        self.evaluate_in_unit()
        problem = self.problem
        metric = as_metric(problem.metric, own.size).at(own, 0)
        dtype, root = metric.apply(own).dtype, metric.root()
        self.require(
            dtype == own.dtype,
            "metric",
            f"is {dtype}, but must keep the {own.dtype} of initial_point",
        )
        root = (
            1.0
            if root is None
            else np.linalg.norm(root, axis=1)
            if np.ndim(root) == 2
            else root
        )
        # the scales of the variables, up to one factor
        self.unit = root * np.ones(own.size)

    def evaluate_in_unit(self):
        """Evaluate with plain numbers, in the unit of u at x."""
        self.power = power_at(self.unscaled, self.x)
        self.problem = in_power(self.unscaled, self.power)

    def require(self, good, name, message):
        require(good, self.problem, name, message)

    def fail(self, name, what, where, got, expected, tolerance):
        """Raise a ValueError for two numbers that should be equal."""
        difference = abs(got - expected)
        self.require(
            False,
            name,
            f"{what} differ by {difference:.3g} (tolerance {tolerance:.3g}): got "
            f"{got:.6g}, expected {expected:.6g} "
            f"for {where}",
        )

    def compare(self, name, what, actual, expected, tolerance, entry="entry"):
        """Fail if two arrays differ by more than the tolerance, a number or an
        array."""
        actual, expected = np.asarray(actual, float), np.asarray(expected, float)
        if (k := worst(actual, expected, tolerance)) is not None:
            where = f"{entry} {k[0] if len(k) == 1 else k}" if k else "the value"
            self.fail(
                name,
                what,
                where,
                actual[k],
                expected[k],
                np.broadcast_to(tolerance, actual.shape)[k],
            )

    def rounding(self, *values, name=None):
        """A bound of the rounding errors of sums of such values, plus the noise of the
        method ``name``."""
        return 1000 * self.eps * max(
            float(np.abs(v).max()) for v in values
        ) + self.noise.get(name, 0.0)

    # the values

    def draw(self, side, shape):
        """Draw inner or outer components."""
        return self.draws_of[side](self.rng, shape)

    def gather(self, size):
        """An inner and an outer batch. Size None means all components."""
        inner, outer = (size and self.draw(side, (1, size))[0] for side in SIDES)
        return self.problem.inner_batch(inner), self.problem.outer_batch(outer)

    def g(self, x):
        """u = g(x)."""
        return evaluate_g(self.problem, x)

    def evaluate(self, x, u, inner, outer):
        """Yield the name and the value of each method on batches. If u is None, it is
        g(x, B)."""
        problem = self.problem
        yield "inner", (own := problem.inner(x, inner))
        yield "jacobian", (J := problem.jacobian(x, inner))
        yield "vjp", problem.vjp(J, np.ones_like(own))
        slopes = problem.outer_gradient(x, own if u is None else u, outer)
        what = "f_x None where f does not use x directly"
        good = isinstance(slopes, tuple) and len(slopes) == 2
        self.require(
            good,
            "outer_gradient",
            f"must return the tuple (f_x, f_u), {what}, got {short(slopes)}",
        )
        f_x, f_u = slopes
        yield "outer_gradient", f_u
        if f_x is not None:
            yield "outer_gradient (f_x)", f_x

    def shapes(self):
        """Check the draws, and the values for all components and for a single one."""
        for side, draw in self.draws_of.items():
            name = f"draw_{side}"
            draws = [draw(np.random.default_rng(1), (3, BATCH_SIZE)) for _ in range(2)]
            good = np.shape(draws[0])[:2] == (3, BATCH_SIZE)
            self.require(
                good,
                name,
                f"must have the leading axes (3, {BATCH_SIZE}), got "
                f"{np.shape(draws[0])}",
            )
            self.require(
                np.array_equal(*draws),
                name,
                "returns different draws for the same seed: use only rng",
            )
        shapes = {"vjp": self.x.shape, "outer_gradient (f_x)": self.x.shape}
        for size in (None, 1):
            # u of one component may be outside the domain of f
            u = size and self.g(self.x)
            for name, value in self.evaluate(self.x, u, *self.gather(size)):
                if name == "inner":
                    shapes[name] = shapes["outer_gradient"] = length = (np.size(value),)
                    if type(self.problem).vjp is CompositionalProblem.vjp:
                        shapes["jacobian"] = length + self.x.shape
                if name in shapes:
                    good = isinstance(value, np.ndarray) and value.shape == shapes[name]
                    self.require(
                        good,
                        name,
                        f"must be an array of shape {shapes[name]}, got {short(value)}",
                    )
                    self.require(np.isfinite(value).all(), name, "is not finite")
                    good = np.result_type(value, self.x) == self.dtype
                    self.require(
                        good,
                        name,
                        f"is {value.dtype}, but must keep the {self.dtype} of x",
                    )
        f = self.problem.outer(self.x, self.g(self.x))
        self.require(
            np.ndim(f) == 0 and math.isfinite(f),
            "outer",
            f"must be a finite float, got {short(f)}",
        )

    def plain_jacobian(self):
        """Check that J, which is part of a state, can be pickled and does not refer to
        the problem."""
        require_plain(
            self.problem, self.problem.jacobian(self.x, self.problem.inner_batch(None))
        )

    def choose_points(self, move):
        """Choose the points at which derivatives are compared, and move x to the main
        one."""
        self.points, self.line = find_points(
            self.problem, self.x, self.unit, self.rng, move
        )
        self.x = self.points[0].x
        self.u = self.g(self.x)
        good = in_domain(self.problem, self.x)
        self.require(
            good, "inner", f"must be finite and > inner_floor, got {self.u.min()}"
        )

    def repeatable(self):
        """Check that the same x and batch give the same bits, and that nothing given or
        returned is written into."""
        x, u, other = self.x, self.u, self.line[1]
        given = pickle.dumps((x, u))
        for size in (None, BATCH_SIZE):
            batches, first, kept = self.gather(size), {}, {}
            for name, value in self.evaluate(x, u, *batches):
                self.require(pickle.dumps((x, u)) == given, name, "writes into x or u")
                first[name], kept[name] = value, pickle.dumps(value)
            dict(self.evaluate(other, self.g(other), *batches))
            dict(self.evaluate(other, self.g(other), *self.gather(2)))
            for name, value in first.items():
                self.require(
                    pickle.dumps(value) == kept[name],
                    name,
                    "is written into after it was returned",
                )
            for name, value in self.evaluate(x, u, *batches):
                same = pickle.dumps(value) == kept[name]
                self.require(
                    same, name, "returns different values for the same x and batch"
                )
