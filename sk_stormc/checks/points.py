"""The points of several sizes at which `check_problem` compares derivatives."""

import copy
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.source import source_of
from sk_stormc.core.unit import InUnit, as_array

LENGTHS = 10.0 ** np.arange(-10, 11)  # distances from the start that are tried
# Smallest distance from the start, and smallest scale at a point, relative to its size.
# Rounding would hide a wrong derivative at a smaller one.
MIN_DISTANCE = 1e-3


@dataclass
class CheckedPoint:
    """A point x with the scales of its variables, and with the scales of u, which are
    computed when g is checked."""

    x: np.ndarray
    scale: np.ndarray
    u: np.ndarray | None = None
    spread: np.ndarray | None = None  # the scale of u
    # a value of u near g(x), because f_u of a variance vanishes at g(x)
    beside: np.ndarray | None = None


def evaluate_g(problem, x):
    """u = g(x), over all components."""
    return problem.inner(x, problem.inner_batch(None))


def power_at(problem, x, draws=None):
    """The exponent of the unit of u at x on these draws (None means all), or None if u
    has no unit."""
    u = problem.inner(x, problem.inner_batch(draws))
    return u.power if isinstance(u, InUnit) else None


def in_power(problem, power):
    """The problem with plain arrays u and J in units of 2**power, and plain f_u. For
    power None, the problem itself."""
    if power is None:
        return problem
    plain = copy.copy(problem)

    def inner(x, batch):
        return as_array(problem.inner(x, batch), power)

    def jacobian(x, batch):
        return as_array(problem.jacobian(x, batch), power)

    def vjp(J, v):
        return problem.vjp(_times(J, power), InUnit(v, -power))

    def outer_gradient(x, u, batch):
        f_x, f_u = problem.outer_gradient(x, InUnit(u, power), batch)
        return f_x, as_array(f_u, -power)

    def compositional_gradient(x, u, J, batch):
        return problem.compositional_gradient(
            x, InUnit(u, power), _times(J, power), batch
        )

    def outer(x, u):
        return problem.outer(x, InUnit(u, power))

    for method in (inner, jacobian, vjp, outer_gradient, compositional_gradient, outer):
        setattr(plain, method.__name__, method)
    return plain


def _times(J, power):
    """The value of an array in units of 2**power. A Jacobian of kind "operator" is
    returned unchanged."""
    return InUnit(J, power) if isinstance(J, np.ndarray) else J


def in_two_units(problem, x):
    """Yield (name, value with u and J in a unit twice as large, expected value, terms
    whose sum it is)."""
    everything, outer = problem.inner_batch(None), problem.outer_batch(None)
    u, J = problem.inner(x, everything), problem.jacobian(x, everything)
    if not isinstance(u, InUnit):
        return
    other, J_other = (_doubled(value) for value in (u, J))
    F = problem.gradient(x)
    f = problem.outer(x, u)
    f_u = problem.outer_gradient(x, u, outer)[1]
    yield (
        "compositional_gradient",
        problem.compositional_gradient(x, other, J_other, outer),
        F,
        (),
    )
    yield "outer", problem.outer(x, other), f, (problem.objective(x), (f_u * u).plain())


def _doubled(value):
    return (
        InUnit(value.array / 2, value.power + 1) if isinstance(value, InUnit) else value
    )


def in_domain(problem, x):
    """Whether g(x) is finite and f is defined there."""
    u, floor = evaluate_g(problem, x), problem.inner_floor
    return bool(np.isfinite(u).all() and (floor is None or u.min() > floor))


def f_is_defined(problem, x, u):
    """Whether f and its gradient over all components are finite at (x, u). It is False
    after an arithmetic error."""
    try:
        values = (
            problem.outer(x, u),
            *problem.outer_gradient(x, u, problem.outer_batch(None)),
        )
    except (ArithmeticError, ValueError):  # such as those of math.sqrt
        return False
    return all(value is None or np.isfinite(value).all() for value in values)


def find_points(problem, start, unit, rng, move):
    """Choose points at several distances from the start. The main point is the first.

    At the main point, F or J has changed by about half. If F nearly vanishes at the
    start, that distance is so short that rounding would hide a wrong derivative.
    Therefore there are further points: one where the change is half as large as F and J
    of single components, one as far from the start as the start is from 0, and one at
    the distance 1. They are used if F and J change about linearly on the way there.
    """
    size = np.linalg.norm(start) / np.linalg.norm(unit)
    direction = unit * rng.standard_normal(start.size)
    slopes = _Slopes(
        problem,
        rng.standard_normal(evaluate_g(problem, start).size).astype(start.dtype),
    )
    linear_reach = slopes.linear_reach(start, direction)
    typical = slopes.reach(start, direction, slopes.of_components(start, rng))
    # if F is a small difference of large terms, it may seem to vary by rounding, so no
    # point is closer than MIN_DISTANCE
    typical = (
        (size or 1.0)
        if typical is None
        else max(min(typical, linear_reach or typical), MIN_DISTANCE * size)
    )
    reach = slopes.reach(start, direction) or 0.0
    # if F vanishes, or is a rounding error, the reach is computed from single
    # components
    reach = reach if reach > 1e-6 * typical else 0.1 * typical
    reach = max(reach, MIN_DISTANCE * size)
    line = [
        (start + c * reach * direction).astype(start.dtype)
        for c in ((1, 0.5, 0) if move else (0, 0.5, 1))
    ]
    points = [CheckedPoint(line[0], reach * unit)]
    furthest, used = max(reach, typical, linear_reach), [reach]
    for t in sorted({typical, 1.0, size}):
        if t > furthest or any(other / 3 < t < 3 * other for other in used) or t == 0:
            continue
        direction = unit * rng.standard_normal(start.size)
        x = (start + t * direction).astype(start.dtype)
        if slopes.finite(x):
            points.append(
                CheckedPoint(
                    x,
                    max(MIN_DISTANCE * t, min(t, slopes.reach(x, direction) or t))
                    * unit,
                )
            )
            used.append(t)
    return points, line


class _Slopes:
    """F and J.T v as functions of x, for one random vector v."""

    def __init__(self, problem, v):
        self.problem, self.v = problem, v

    def at(self, x):
        """F and J.T v, of shape (2, n_variables)."""
        problem = self.problem
        J = problem.jacobian(x, problem.inner_batch(None))
        return np.array([problem.gradient(x), problem.vjp(J, self.v)], float)

    def finite(self, x):
        """Whether f is defined at x, and F and J.T v are finite."""
        problem = self.problem
        return (
            in_domain(problem, x)
            and f_is_defined(problem, x, evaluate_g(problem, x))
            and bool(np.isfinite(self.at(x)).all())
        )

    def of_components(self, x, rng):
        """Median lengths of F and J.T v over single components."""
        problem, u, parts = self.problem, evaluate_g(self.problem, x), []
        source = source_of(problem)
        draws = source.draw_inner(rng, (8, 1)), source.draw_outer(rng, (8, 1))
        for inner, outer in zip(*draws, strict=True):
            J = problem.jacobian(x, problem.inner_batch(inner))
            F = problem.compositional_gradient(x, u, J, problem.outer_batch(outer))
            parts.append([F, problem.vjp(J, self.v)])
        return np.median(np.linalg.norm(parts, axis=2), axis=0)

    def changes(self, start, direction):
        """Yield distances at which F and J.T v are finite, and the lengths of their
        changes."""
        here = self.at(start)
        for t in LENGTHS:
            x = (start + t * direction).astype(start.dtype)
            if not self.finite(x):
                return
            yield t, np.linalg.norm(self.at(x) - here, axis=1)

    def reach(self, start, direction, least=0.0):
        """The distance up to which F and J.T v change by at most half of their size, or
        of ``least`` if that is larger.

        None if this holds at all distances that are tried (as they vanish or do not
        change), or at none of them.
        """
        reach, sizes = 0.0, np.linalg.norm(self.at(start), axis=1)
        bounds = 0.5 * np.maximum(sizes, least)
        for t, change in self.changes(start, direction):
            if ((change > bounds) & (bounds > 0)).any():
                break
            reach = t
        return None if reach in (0.0, LENGTHS[-1]) else reach

    def linear_reach(self, start, direction):
        """The distance up to which F and J.T v change about linearly, and neither
        explode nor level off."""
        far, last = 0.0, np.zeros(2)
        sizes = np.linalg.norm(self.at(start), axis=1)
        rounding = np.sqrt(np.finfo(start.dtype).eps) * sizes
        for t, change in self.changes(start, direction):
            # a linear change grows tenfold from one length to the next
            linear = (3 * last < change) & (change < 30 * last)
            if ((last > rounding) & ~linear).any():
                break
            far, last = t, change
        return far
