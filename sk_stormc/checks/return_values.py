"""Checks of the return values of a problem's methods: shapes, types, finite numbers and
reproducibility."""

import copyreg
import io
import math
import pickle
from functools import partial

import numpy as np

from sk_stormc.checks.differences import worst
from sk_stormc.checks.points import (
    evaluate_g,
    find_points,
    in_domain,
    in_power,
    power_at,
)
from sk_stormc.core.attribute_checks import require
from sk_stormc.core.penalties import projected
from sk_stormc.core.preconditioners import as_preconditioner
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import source_of
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import short

SIDES = ("inner", "outer")
BATCH_SIZE = 4  # of the batches that are not single components


def restored(value, refused):
    """Pickle and restore a value. ``refused`` has the message of the error for each
    class that it must not hold."""
    pickler = pickle.Pickler(file := io.BytesIO())
    pickler.dispatch_table = copyreg.dispatch_table | {
        kind: partial(_refuse, message) for kind, message in refused.items()
    }
    pickler.dump(value)
    return pickle.loads(file.getvalue())


def _refuse(message, value):
    raise pickle.PicklingError(message)


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
        self.require(
            isinstance(own, np.ndarray)
            and own.shape == shape
            and np.isdtype(own.dtype, "real floating"),
            "initial_point",
            f"must be a floating array of shape {shape}, got {short(own)}",
        )
        self.require(np.isfinite(own).all(), "initial_point", "must be finite")
        self.dtype, self.eps = own.dtype, float(np.finfo(own.dtype).eps)
        if x is None:
            x = projected(problem.penalty, own)
        self.x = as_numbers("x", x, self.dtype)
        if self.x.shape != shape or not np.isfinite(self.x).all():
            raise ValueError(f"x must be finite and of shape {shape}, got {short(x)}")
        self.unscaled = problem
        self.evaluate_in_unit()
        preconditioner = as_preconditioner(problem.preconditioner, own.size).at(own, 0)
        dtype, root = preconditioner.apply(own).dtype, preconditioner.root()
        message = f"is {dtype}, but must keep the {own.dtype} of initial_point"
        self.require(dtype == own.dtype, "preconditioner", message)
        if np.ndim(root) == 2:
            root = np.linalg.norm(root, axis=1)
        # the scales of the variables, up to one factor
        self.unit = np.ones(own.size) * (1.0 if root is None else root)

    def evaluate_in_unit(self):
        """Evaluate with plain numbers, in the unit of u at x."""
        self.power = power_at(self.unscaled, self.x)
        self.problem = in_power(self.unscaled, self.power)

    def require(self, good, name, message):
        require(good, self.problem, name, message)

    def fail(self, name, what, where, got, expected, tolerance):
        """Raise a ValueError for two numbers that should be equal."""
        message = (
            f"{what} differ by {abs(got - expected):.3g} (tolerance {tolerance:.3g}): "
            f"got {got:.6g}, expected {expected:.6g} for {where}"
        )
        self.require(False, name, message)

    def compare(self, name, what, actual, expected, tolerance):
        """Fail if two arrays differ by more than the tolerance, a number or an
        array."""
        actual, expected = np.asarray(actual, float), np.asarray(expected, float)
        if (k := worst(actual, expected, tolerance)) is not None:
            where = f"entry {k[0] if len(k) == 1 else k}" if k else "the value"
            bound = np.broadcast_to(tolerance, actual.shape)[k]
            self.fail(name, what, where, actual[k], expected[k], bound)

    def rounding(self, *values, name=None):
        """A bound of the rounding errors of sums of such values, plus the noise of the
        method ``name``."""
        size = max(float(np.abs(value).max()) for value in values)
        return 1000 * self.eps * size + self.noise.get(name, 0.0)

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
        self.require(
            isinstance(slopes, tuple) and len(slopes) == 2,
            "outer_gradient",
            "must return the tuple (f_x, f_u), f_x None where f does not use x "
            f"directly, got {short(slopes)}",
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
            axes, shape = (3, BATCH_SIZE), np.shape(draws[0])
            message = f"must have the leading axes {axes}, got {shape}"
            self.require(shape[:2] == axes, name, message)
            message = "returns different draws for the same seed: use only rng"
            self.require(np.array_equal(*draws), name, message)
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
                    expected = f"must be an array of shape {shapes[name]}"
                    self.require(good, name, f"{expected}, got {short(value)}")
                    self.require(np.isfinite(value).all(), name, "is not finite")
                    good = np.result_type(value, self.x) == self.dtype
                    message = f"is {value.dtype}, but must keep the {self.dtype} of x"
                    self.require(good, name, message)
        f = self.problem.outer(self.x, self.g(self.x))
        good = np.ndim(f) == 0 and math.isfinite(f)
        self.require(good, "outer", f"must be a finite float, got {short(f)}")

    def plain_jacobian(self):
        """Check that J, which is part of a state, can be pickled and does not refer to
        the problem."""
        J = self.problem.jacobian(self.x, self.problem.inner_batch(None))
        try:
            restored(J, {type(self.problem): "it refers to the problem"})
        except Exception as error:  # the user's objects may raise anything
            raise ValueError(
                f"{type(self.problem).__name__}.jacobian: must return plain data, "
                f"{error}"
            ) from error

    def choose_points(self, move):
        """Choose the points at which derivatives are compared, and move x to the main
        one."""
        self.points, self.line = find_points(
            self.problem, self.x, self.unit, self.rng, move
        )
        self.x = self.points[0].x
        self.u = self.g(self.x)
        message = f"must be finite and > inner_floor, got {self.u.min()}"
        self.require(in_domain(self.problem, self.x), "inner", message)

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
            again = self.evaluate(x, u, *batches)
            for values, message in (
                (first.items(), "is written into after it was returned"),
                (again, "returns different values for the same x and batch"),
            ):
                for name, value in values:
                    self.require(pickle.dumps(value) == kept[name], name, message)
