"""The points at which `check_problem` compares derivatives, of several sizes."""

import copy
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.source import source_of
from sk_stormc.core.unit import InUnit, as_array

__all__ = ["Point", "evaluate_g", "f_is_defined", "find_points", "in_domain", "in_power", "in_two_units", "power_at"]

LENGTHS = 10.0 ** np.arange(-10, 11)  # distances from the start that are tried
COMPONENTS = 8  # single components that tell the size of gradients where the mean of all may vanish
# By how much a change may grow from one length to the next, which is ten times as long: a linear change grows tenfold.
FLAT, STEEP = 3, 30
VANISHING = 1e-6  # of the reach by components: where the reach is shorter, F consisted of rounding only
NEAREST = 1e-3  # least distance from the start, and least scale at a point, as a part of its size
APART = 3  # least ratio of the sizes of two points


@dataclass
class Point:
    """A point x with the scales of its variables, and with those of u, which are found when g is checked."""

    x: np.ndarray
    scale: np.ndarray
    u: np.ndarray | None = None
    spread: np.ndarray | None = None  # the scale of u
    beside: np.ndarray | None = None  # a value of u near g(x), where f_u of a variance vanishes


def evaluate_g(problem, x):
    """u = g(x), over all components."""
    return problem.inner(x, problem.inner_batch(None))


def power_at(problem, x, draws=None):
    """The power of two that is the unit of u at x on these draws (None: all); None where u has no unit."""
    u = problem.inner(x, problem.inner_batch(draws))
    return u.power if isinstance(u, InUnit) else None


def in_power(problem, power):
    """The problem with arrays for u, J and f_u, where u and J are in units of 2**power; None is the problem itself."""
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
        return problem.compositional_gradient(x, InUnit(u, power), _times(J, power), batch)

    def outer(x, u):
        return problem.outer(x, InUnit(u, power))

    for method in (inner, jacobian, vjp, outer_gradient, compositional_gradient, outer):
        setattr(plain, method.__name__, method)
    return plain


def _times(J, power):
    """The value that an array in units of 2**power stands for; an operator has its own way."""
    return InUnit(J, power) if isinstance(J, np.ndarray) else J


def in_two_units(problem, x):
    """(what, its value with u and J written in a unit twice as large, what that should be, terms it is the sum of)."""
    everything, outer = problem.inner_batch(None), problem.outer_batch(None)
    u, J = problem.inner(x, everything), problem.jacobian(x, everything)
    if not isinstance(u, InUnit):
        return
    other, J_other = (_doubled(value) for value in (u, J))
    F, f, f_u = problem.gradient(x), problem.outer(x, u), problem.outer_gradient(x, u, outer)[1]
    yield "compositional_gradient", problem.compositional_gradient(x, other, J_other, outer), F, ()
    yield "outer", problem.outer(x, other), f, (problem.objective(x), (f_u * u).plain())


def _doubled(value):
    return InUnit(value.array / 2, value.power + 1) if isinstance(value, InUnit) else value


def in_domain(problem, x):
    """Whether g(x) is finite and f is defined there."""
    u, floor = evaluate_g(problem, x), problem.inner_floor
    return bool(np.isfinite(u).all() and (floor is None or u.min() > floor))


def f_is_defined(problem, x, u):
    """Whether f and its gradient are finite at (x, u), over all components: an error of arithmetic says that not."""
    try:
        values = problem.outer(x, u), *problem.outer_gradient(x, u, problem.outer_batch(None))
    except (ArithmeticError, ValueError):  # such as those of math.sqrt
        return False
    return all(value is None or np.isfinite(value).all() for value in values)


def find_points(problem, start, unit, rng, move):
    """Points at several distances from the start, the main one first.

    The main point is as far from the start as it takes to change F or J by half. Where F nearly vanishes at the start,
    that distance is so short that a wrong derivative would be lost in the rounding. So there are further points: one
    where the change is half as large as F and J of single components, one as far away as the start is from 0, and one
    at the distance 1. They are used if F and J change about linearly on the way there.
    """
    size = np.linalg.norm(start) / np.linalg.norm(unit)
    way = unit * rng.standard_normal(start.size)
    look = _Slopes(problem, rng.standard_normal(evaluate_g(problem, start).size).astype(start.dtype))
    tame = look.tame(start, way)
    typical = look.reach(start, way, look.of_components(start, rng))
    # F that is a small difference of large terms may seem to vary within its own rounding: no point is closer than that
    typical = (size or 1.0) if typical is None else max(min(typical, tame or typical), NEAREST * size)
    reach = look.reach(start, way) or 0.0
    # where F vanishes, or consists of rounding only, the reach is found from single components
    reach = max(reach if reach > VANISHING * typical else 0.1 * typical, NEAREST * size)
    line = [(start + c * reach * way).astype(start.dtype) for c in ((1, 0.5, 0) if move else (0, 0.5, 1))]
    points = [Point(line[0], reach * unit)]
    furthest, used = max(reach, typical, tame), [reach]
    for t in sorted({typical, 1.0, size}):
        if t > furthest or any(t < APART * other and other < APART * t for other in used) or t == 0:
            continue
        way = unit * rng.standard_normal(start.size)
        x = (start + t * way).astype(start.dtype)
        if look.finite(x):
            points.append(Point(x, max(NEAREST * t, min(t, look.reach(x, way) or t)) * unit))
            used.append(t)
    return points, line


class _Slopes:
    """F and J.T v as functions of x, v one random vector."""

    def __init__(self, problem, v):
        self.problem, self.v = problem, v

    def at(self, x):
        problem = self.problem
        J = problem.jacobian(x, problem.inner_batch(None))
        return [np.asarray(problem.gradient(x), float), np.asarray(problem.vjp(J, self.v), float)]

    def finite(self, x):
        """Whether f is defined at x, and all that is evaluated there is finite."""
        problem = self.problem
        if not in_domain(problem, x):
            return False
        defined = f_is_defined(problem, x, evaluate_g(problem, x))
        return bool(defined and all(np.isfinite(part).all() for part in self.at(x)))

    def of_components(self, x, rng):
        """Median lengths of F and J.T v over single components."""
        problem, u, lengths = self.problem, evaluate_g(self.problem, x), []
        draws = (getattr(source_of(problem), f"draw_{side}")(rng, (COMPONENTS, 1)) for side in ("inner", "outer"))
        for inner, outer in zip(*draws, strict=True):
            J = problem.jacobian(x, problem.inner_batch(inner))
            F = problem.compositional_gradient(x, u, J, problem.outer_batch(outer))
            lengths.append([np.linalg.norm(F), np.linalg.norm(problem.vjp(J, self.v))])
        return np.median(lengths, axis=0)

    def reach(self, start, way, least=(0.0, 0.0)):
        """How far along the way F and J change by less than half of themselves, or of ``least`` where that is more.

        None where that is any distance (they vanish or do not change) or none that is looked at.
        """
        here, reach = self.at(start), 0.0
        bounds = [0.5 * max(np.linalg.norm(b), floor) for b, floor in zip(here, least, strict=True)]
        for t in LENGTHS:
            x = (start + t * way).astype(start.dtype)
            changes = [np.linalg.norm(a - b) for a, b in zip(self.at(x), here, strict=True)]
            near = all(change <= bound or not bound for change, bound in zip(changes, bounds, strict=True))
            if not (near and in_domain(self.problem, x)):
                break
            reach = t
        return None if reach in (0.0, LENGTHS[-1]) else reach

    def tame(self, start, way):
        """How far along the way F and J change about linearly, and neither explode nor level off."""
        here, last, far = self.at(start), None, 0.0
        rounding = [np.sqrt(np.finfo(start.dtype).eps) * np.linalg.norm(b) for b in here]
        for t in LENGTHS:
            x = (start + t * way).astype(start.dtype)
            if not self.finite(x):
                break
            changes = [np.linalg.norm(a - b) for a, b in zip(self.at(x), here, strict=True)]
            if last is not None and any(
                old > small and not FLAT * old < new < STEEP * old
                for new, old, small in zip(changes, last, rounding, strict=True)
            ):
                break
            far, last = t, changes
        return far
