"""A check of user-defined problems against the contract that the solvers rely on."""

import copyreg
import io
import math
import pickle
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from sk_stormc._validation import check_int
from sk_stormc.problems.base import CompositionalProblem

__all__ = ["check_problem"]

SIDES = ("inner", "outer")
FEW = 4  # size of the batches that are not single components
MANY, RANDOM = 100, 4  # vectors of up to MANY entries are compared by entry, and along RANDOM directions
FALSE_ALARM = 1e-6  # probability that some comparison of means fails by chance


def check_problem(problem, x=None, *, repeated=None, n_draws=1000, random_state=0):
    """Check that a problem keeps the contract of `CompositionalProblem`.

    Derivatives are compared with central differences, batches with the mean over all components, and what
    was computed once with what is computed again. Tolerances follow the size of what is compared, the dtype
    of ``initial_point`` and the differences' own error: they do not depend on units.

    Parameters
    ----------
    problem : CompositionalProblem
    x : array-like of shape (n_variables,), default=None
        Where to check. None means the problem's initial point, moved at random about as far as it takes to
        change the gradient or the Jacobian by half.
    repeated : CompositionalProblem, default=None
        For a problem with weights: the same one with rows repeated instead. The two must agree over all
        components, and the means over draws of ``problem`` are compared with ``repeated``.
    n_draws : int, default=1000
        Batches drawn, of one component and of four. Their mean must be within about six standard errors.
    random_state : int, RandomState instance or None, default=0

    Raises
    ------
    ValueError
        At the first breach of the contract, naming the method, the largest discrepancy and the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem, check_problem
    >>> returns = np.random.default_rng(0).normal(0.05, 1.0, size=(50, 3))
    >>> check_problem(PortfolioProblem(returns))
    >>> class Slip(PortfolioProblem):
    ...     def outer_gradient(self, x, u, batch):
    ...         f_x, f_u = super().outer_gradient(x, u, batch)
    ...         return f_x, -f_u
    >>> check_problem(Slip(returns))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: Slip.outer_gradient: f_u and central differences of outer in u differ by ... (tolerance ...)
    """
    check_int("n_draws", n_draws, low=30)
    rng = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    check_attributes(problem)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # values are looked at below
        check = _Check(problem, x, rng)
        check.shapes()
        check.plain_jacobian()
        check.place(move=x is None)
        check.repeatable()
        check.derivatives_of_g()
        check.derivatives_of_f()
        check.declared_jacobian()
        check.batches()
        if repeated is not None:
            check.same_as(repeated)
        check.draws(problem if repeated is None else repeated, n_draws)


def _require(good, problem, name, message):
    if not good:
        raise ValueError(f"{type(problem).__name__}.{name}: {message}")


def _refuse(problem):
    raise pickle.PicklingError("it refers to the problem")


def check_attributes(problem):
    """Check what a problem declares, before anything of it is evaluated."""
    if not isinstance(problem, CompositionalProblem):
        raise ValueError(f"problem must be a CompositionalProblem, got {problem!r}")
    for name in ("n_inner", "n_outer", "n_variables", "n_blocks"):
        value = getattr(problem, name, None)
        good = isinstance(value, Integral) and not isinstance(value, bool) and value > 0
        _require(good, problem, name, f"must be a positive int, got {value!r}")
    d, k, kind = problem.n_variables, problem.n_blocks, problem.jacobian_kind
    floor, metric, penalty = problem.inner_floor, problem.metric, problem.penalty
    _require(d % k == 0, problem, "n_blocks", f"must divide n_variables={d}, got {k}")
    good = kind in ("sampled", "constant", "operator")
    _require(good, problem, "jacobian_kind", f"must be sampled, constant or operator, got {kind!r}")
    good = floor is None or (isinstance(floor, Real) and math.isfinite(floor))
    _require(good, problem, "inner_floor", f"must be a finite number or None, got {floor!r}")
    good = penalty is None or all(callable(getattr(penalty, m, None)) for m in ("value", "prox", "project"))
    _require(good, problem, "penalty", f"must be None or have value, prox and project, got {penalty!r}")
    good = metric is None or (isinstance(metric, np.ndarray) and metric.shape in ((d,), (d, d)))
    _require(good, problem, "metric", f"must be None or a vector or matrix of {d} variables, got {metric!r}")
    if metric is not None:
        diagonal = metric if metric.ndim == 1 else metric.diagonal()
        good = np.isfinite(metric).all() and (diagonal > 0).all()
        _require(good, problem, "metric", f"must be finite and have a positive diagonal, got {metric!r}")


class _Check:
    """A problem, the point x, and the checks in the order in which they rely on each other."""

    def __init__(self, problem, x, rng):
        self.problem, self.rng, self.noise = problem, rng, {}
        own, shape = problem.initial_point(np.random.default_rng(0)), (problem.n_variables,)
        good = isinstance(own, np.ndarray) and own.shape == shape and np.isdtype(own.dtype, "real floating")
        self.require(good, "initial_point", f"must be a floating array of shape {shape}, got {own!r}")
        self.require(np.isfinite(own).all(), "initial_point", "must be finite")
        self.dtype, self.eps = own.dtype, float(np.finfo(own.dtype).eps)
        if x is None:
            x = own if problem.penalty is None else problem.penalty.project(own)
        self.x = np.array(x, dtype=self.dtype)
        if self.x.shape != shape or not np.isfinite(self.x).all():
            raise ValueError(f"x must be finite and of shape {shape}, got {x!r}")
        metric = np.ones_like(own) if problem.metric is None else problem.metric
        good = np.result_type(metric, own) == own.dtype
        self.require(good, "metric", f"is {metric.dtype}, but must keep the {own.dtype} of initial_point")
        diagonal = metric if metric.ndim == 1 else metric.diagonal()
        self.unit = np.sqrt(diagonal.astype(float))  # the scales of the variables, up to one factor

    def require(self, good, name, message):
        _require(good, self.problem, name, message)

    def compare(self, name, what, a, b, tolerance):
        """Fail where a and b differ by more than the tolerance, a number or an array."""
        difference = np.abs(np.asarray(a, float) - np.asarray(b, float))
        excess = np.where(np.isnan(difference), np.inf, difference - tolerance)
        k = np.unravel_index(np.argmax(excess), excess.shape)
        allowed = np.broadcast_to(tolerance, excess.shape)[k]
        self.require(excess[k] <= 0, name, f"{what} differ by {difference[k]:.3g} (tolerance {allowed:.3g})")

    def rounding(self, *values, name=None):
        """A bound of the rounding of sums of such values, and of what else is known of the method of that name."""
        return 1000 * self.eps * max(float(np.abs(v).max()) for v in values) + self.noise.get(name, 0.0)

    # what is returned

    def draw(self, side, shape):
        """Draws, of inner or outer components."""
        return getattr(self.problem, f"draw_{side}")(self.rng, shape)

    def gather(self, size):
        """An inner and an outer batch; size None means all."""
        inner, outer = (size and self.draw(side, (1, size))[0] for side in SIDES)
        return self.problem.inner_batch(inner), self.problem.outer_batch(outer)

    def g(self, x):
        """u = g(x)."""
        return self.problem.inner(x, self.problem.inner_batch(None))

    def in_domain(self, x):
        u, floor = self.g(x), self.problem.inner_floor
        return np.isfinite(u).all() and (floor is None or u.min() > floor)

    def evaluate(self, x, u, inner, outer):
        """All that is evaluated on batches, with the method's name; u None means g(x, B)."""
        problem = self.problem
        yield "inner", (own := problem.inner(x, inner))
        yield "jacobian", (J := problem.jacobian(x, inner))
        yield "vjp", problem.vjp(J, np.ones_like(own))
        f_x, f_u = problem.outer_gradient(x, own if u is None else u, outer)
        yield "outer_gradient", f_u
        if f_x is not None:
            yield "outer_gradient (f_x)", f_x

    def shapes(self):
        """Draws, and what the methods return for all components and for one."""
        for name in ("draw_inner", "draw_outer"):
            draws = [getattr(self.problem, name)(np.random.default_rng(1), (3, FEW)) for _ in range(2)]
            good = np.shape(draws[0])[:2] == (3, FEW)
            self.require(good, name, f"must have the leading axes (3, {FEW}), got {np.shape(draws[0])}")
            self.require(np.array_equal(*draws), name, "gives other draws for the same seed: use rng only")
        shapes = {"vjp": self.x.shape, "outer_gradient (f_x)": self.x.shape}
        for size in (None, 1):
            for name, value in self.evaluate(self.x, None, *self.gather(size)):
                if name == "inner":
                    shapes[name] = shapes["outer_gradient"] = u = (np.size(value),)
                    if type(self.problem).vjp is CompositionalProblem.vjp:
                        shapes["jacobian"] = u + self.x.shape
                if name in shapes:
                    good = isinstance(value, np.ndarray) and value.shape == shapes[name]
                    self.require(good, name, f"must be an array of shape {shapes[name]}, got {value!r}")
                    self.require(np.isfinite(value).all(), name, "is not finite")
                    good = np.result_type(value, self.x) == self.dtype
                    self.require(good, name, f"is {value.dtype}, but must keep the {self.dtype} of x")
        f = self.problem.outer(self.x, self.g(self.x))
        self.require(np.ndim(f) == 0 and math.isfinite(f), "outer", f"must be a finite float, got {f!r}")

    def plain_jacobian(self):
        """A state holds J, so it must be picklable, and drag no problem with its data along."""
        J = self.problem.jacobian(self.x, self.problem.inner_batch(None))
        pickler = pickle.Pickler(file := io.BytesIO())
        pickler.dispatch_table = copyreg.dispatch_table | {type(self.problem): _refuse}
        try:
            pickler.dump(J)
            pickle.loads(file.getvalue())
        except Exception as error:  # whatever the user's objects raise
            raise ValueError(f"{type(self.problem).__name__}.jacobian: is no plain data, {error}") from error

    def place(self, move):
        """Find the scale of x: how far it goes until F or J has changed by half. Move x by as much."""
        problem, start, unit = self.problem, self.x, self.unit
        size = np.linalg.norm(start) / np.linalg.norm(unit)
        direction = unit * self.rng.standard_normal(start.size)
        v = self.rng.standard_normal((1, self.g(start).size))

        def slopes(x):
            J = problem.jacobian(x, problem.inner_batch(None))
            return problem.gradient(x), self.products(problem, J, v)

        here, reach, lengths = slopes(start), 0.0, 10.0 ** np.arange(-10, 11)
        for t in lengths:
            x = (start + t * direction).astype(self.dtype)
            pairs = [(a, b) for a, b in zip(slopes(x), here, strict=True) if b.any()]
            near = all(np.linalg.norm(a - b) <= 0.5 * np.linalg.norm(b) for a, b in pairs)
            if not (near and self.in_domain(x)):
                break
            reach = t
        if reach in (0.0, lengths[-1]):  # stationary or linear: no scale but that of x
            reach = size or 1.0
        reach = max(reach, 1e-3 * size)
        self.scale = reach * unit
        way = reach * direction
        self.points = [(start + c * way).astype(self.dtype) for c in ((1, 0.5, 0) if move else (0, 0.5, 1))]
        self.x, self.u = self.points[0], self.g(self.points[0])
        self.require(self.in_domain(self.x), "inner", f"must be finite and > inner_floor, got {self.u.min()}")

    def repeatable(self):
        """Same x, same batch, same bits; and nothing that was returned or given is written into."""
        x, u, other = self.x, self.u, self.points[1]
        given = pickle.dumps((x, u))
        for size in (None, FEW):
            batches, first, kept = self.gather(size), {}, {}
            for name, value in self.evaluate(x, u, *batches):
                self.require(pickle.dumps((x, u)) == given, name, "writes into x or u")
                first[name], kept[name] = value, pickle.dumps(value)
            dict(self.evaluate(other, self.g(other), *batches))
            dict(self.evaluate(other, self.g(other), *self.gather(2)))
            for name, value in first.items():
                self.require(pickle.dumps(value) == kept[name], name, "is written into after it was returned")
            for name, value in self.evaluate(x, u, *batches):
                self.require(pickle.dumps(value) == kept[name], name, "has other bits for same x and batch")

    # derivatives

    def directions(self, size):
        """Unit vectors and random ones; only random ones where there are many."""
        random = self.rng.standard_normal((MANY if size > MANY else RANDOM, size))
        return random if size > MANY else np.vstack([np.eye(size), random])

    def products(self, problem, J, V):
        """V @ J."""
        return np.array([problem.vjp(J, v) for v in V.astype(self.dtype)], dtype=float)

    def differences(self, function, point, scale):
        """Changes along `directions` by differences of fourth order, the ways there, and a tolerance."""
        # a derivative D predicts way @ D.T; the tolerance is from the formula of second order and rounding
        parts = []
        for step in self.eps**0.2 * scale * self.directions(point.size):
            ends = np.array([point + c * step for c in (1, -1, 2, -2)]).astype(self.dtype)
            values = np.array([np.ravel(function(z)) for z in ends], dtype=float)
            (near, far), (way, way_2) = ((v[0] - v[1], v[2] - v[3]) for v in (values, ends.astype(float)))
            parts.append([(8 * near - far) / 12, (8 * way - way_2) / 12, near / 2 - far / 4, np.abs(values)])
        change, way, error, size = (np.array(part) for part in zip(*parts, strict=True))
        tolerance = 3 * np.abs(error).max(0) + 10 * self.eps * size.max((0, 1))
        return change, way, tolerance + 10 * math.sqrt(self.eps) * np.abs(change)

    def derivatives_of_g(self):
        """Jacobian against differences of inner, and vjp against the Jacobian."""
        problem, x, u = self.problem, self.x, self.u
        V, what = self.directions(u.size).astype(self.dtype), "and central differences of inner"
        # an operator's batch may be another estimate than the derivative of the batch's g
        few = [] if problem.jacobian_kind == "operator" else [self.gather(FEW)[0]]
        for batch in (*few, problem.inner_batch(None)):
            J = problem.jacobian(x, batch)
            products = self.products(problem, J, V)
            change, way, tolerance = self.differences(lambda z, b=batch: problem.inner(z, b), x, self.scale)
            if isinstance(J, np.ndarray) and J.shape == (u.size, x.size):
                self.compare("jacobian", f"J {what}", way @ J.T, change, tolerance)
                bound = 1000 * self.eps * (np.abs(V) @ np.abs(J))
                self.compare("vjp", "vjp(J, v) and J.T @ v", products, V @ J, bound)
            bound = tolerance @ np.abs(V.T)
            self.compare("jacobian", f"vjp(J, v) {what}", way @ products.T, change @ V.T, bound)
        # the scale of u: its changes over the scale of x, within the domain of f
        spread = np.abs(change).max(0) / self.eps**0.2
        spread[spread == 0] = spread.max() or np.abs(u).max() or 1.0
        self.spread = spread if problem.inner_floor is None else np.minimum(spread, u - problem.inner_floor)
        # f_u may vanish at u = g(x), as that of a variance does: look beside it too
        self.beside = (u + self.spread * self.rng.uniform(0.5, 1.0, u.size)).astype(self.dtype)
        self.V = V[-RANDOM:]  # for the products that are compared often

    def derivatives_of_f(self):
        """f_x and f_u against differences of outer, then the gradient against those of the objective."""
        problem, x, R = self.problem, self.x, self.problem.penalty
        for u in (self.beside, self.u):
            f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(None))
            f_x = np.zeros_like(x) if f_x is None else f_x
            in_x = self.differences(lambda z, u=u: problem.outer(z, u), x, self.scale)
            in_u = self.differences(lambda z: problem.outer(x, z), u, self.spread)
            for name, derivative, (change, way, tolerance) in (("x", f_x, in_x), ("u", f_u, in_u)):
                what = f"f_{name} and central differences of outer in {name}"
                self.compare("outer_gradient", what, way @ derivative[:, None], change, tolerance)

        def phi(z):
            return problem.objective(z) - (0.0 if R is None else R.value(z))

        f, F = float(problem.outer(x, self.u)), problem.gradient(x)
        noise = self.rounding(f, np.abs(f_u) @ np.abs(self.u), np.abs(f_x) @ np.abs(x), problem.objective(x))
        self.compare("objective", "objective(x) - R(x) and outer(x, g(x))", phi(x), f, noise)
        change, way, tolerance = self.differences(phi, x, self.scale)
        what = "gradient(x) and central differences of objective without R"
        self.compare("gradient", what, way @ F[:, None], change, tolerance + 0.01 * noise)

    # batches

    def values(self, problem, inner, outer):
        """What is evaluated on the batches of these draws, as vectors; of the Jacobian, V @ J."""
        inner, outer = problem.inner_batch(inner), problem.outer_batch(outer)
        f_x, f_u = problem.outer_gradient(self.x, self.beside, outer)
        return {
            "inner": problem.inner(self.x, inner),
            "jacobian": self.products(problem, problem.jacobian(self.x, inner), self.V).ravel(),
            "outer_gradient": np.concatenate([np.zeros_like(self.x) if f_x is None else f_x, f_u]),
        }

    def declared_jacobian(self):
        """A "constant" Jacobian is one, and Jacobians that step 9 tracks can be combined."""
        problem, (x, other), kind = self.problem, self.points[:2], self.problem.jacobian_kind
        batches = [problem.inner_batch(draws) for draws in (None, *self.draw("inner", (2, FEW)))]
        if kind == "constant":
            for batch in batches:
                a, b = (self.products(problem, problem.jacobian(z, batch), self.V) for z in (x, other))
                self.compare("jacobian", "J at two points of kind 'constant'", a, b, self.rounding(a))
        if kind != "operator":
            J, J_2 = (problem.jacobian(z, batch) for z, batch in zip((x, other), batches[1:], strict=True))
            a, b = (self.products(problem, part, self.V) for part in (J, J_2))
            combined = self.products(problem, 0.25 * (J - J_2) + J_2, self.V)
            what = "vjp of a combination of Jacobians and the combination of their vjp"
            self.compare("vjp", what, combined, 0.25 * (a - b) + b, self.rounding(a, b))

    def batches(self):
        """A batch is the mean of its components; where draws are indices, all of them are the batch None."""
        problem, (inner, outer) = self.problem, (self.draw(s, (1, FEW))[0] for s in SIDES)
        singles = [self.values(problem, inner[k : k + 1], outer[k : k + 1]) for k in range(FEW)]
        if getattr(problem, "by_differences", False):  # the rounding of inner is in J, divided by the step
            self.noise["jacobian"] = 1000 * self.eps ** (2 / 3) * max(np.abs(v["inner"]).max() for v in singles)
        for name, value in self.values(problem, inner, outer).items():
            parts, what = np.array([v[name] for v in singles], float), f"a batch of {FEW} and their mean"
            self.compare(name, what, value, parts.mean(0), self.rounding(parts, name=name))
        own, default = type(problem), CompositionalProblem
        inner = np.arange(problem.n_inner) if own.draw_inner is default.draw_inner else None
        outer = np.arange(problem.n_outer) if own.draw_outer is default.draw_outer else None
        full = self.values(problem, None, None)
        for name, value in self.values(problem, inner, outer).items():
            self.compare(name, "batch None and all indices", full[name], value, self.rounding(value))

    def same_as(self, repeated):
        """Weights against repeated rows, over all components."""
        everywhere = {
            "inner": lambda p, x: p.inner(x, p.inner_batch(None)),
            "objective": lambda p, x: p.objective(x),
            "gradient": lambda p, x: p.gradient(x),
        }
        for name, of in everywhere.items():
            ours, theirs = (np.array([of(p, x) for x in self.points]) for p in (self.problem, repeated))
            if ours.shape != theirs.shape:
                raise ValueError(f"repeated.{name} must have shape {ours.shape[1:]}, got {theirs.shape[1:]}")
            bound = max(1e-10, 1000 * self.eps) * np.abs(theirs).max()
            self.compare(name, "the problem and the repeated one", ours, theirs, bound)

    def draws(self, reference, n_draws):
        """The means over drawn batches are those of the reference, a problem, over all components."""
        full = self.values(reference, None, None)
        for size in (1, FEW):
            pairs = zip(*(self.draw(side, (n_draws, size)) for side in SIDES), strict=True)
            values = [self.values(self.problem, *pair) for pair in pairs]
            for name, wanted in full.items():
                entries = self.directions(wanted.size)
                sample = np.array([value[name] for value in values], float) @ entries.T
                mean, deviation = sample.mean(0), sample - sample.mean(0)
                # Bernstein's inequality: its second term is for what few draws contain
                z = math.sqrt(2 * math.log(2 * len(entries) * 2 * len(full) / FALSE_ALARM))
                bound = z * deviation.std(0) / math.sqrt(n_draws)
                bound += z**2 * np.abs(deviation).max(0) / (3 * n_draws)
                # an entry that is the same in all draws may lack a rare one: judged within the random directions only
                bound[: len(bound) - RANDOM][np.ptp(sample[:, :-RANDOM], axis=0) == 0] = np.inf
                hook = "outer" if name == "outer_gradient" else "inner"
                what = f"the mean over {n_draws} batches of {size} from draw_{hook} and the full one"
                self.compare(name, what, mean, entries @ wanted, bound + self.rounding(sample, name=name))
