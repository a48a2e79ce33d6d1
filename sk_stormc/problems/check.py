"""A check of user-defined problems against the contract that the solvers rely on."""

import copyreg
import io
import math
import pickle
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from sk_stormc._validation import check_int
from sk_stormc.problems.base import CompositionalProblem

__all__ = ["check_problem"]

FEW = 4  # size of the batches that are not single components
MANY, RANDOM = 100, 4  # vectors are compared entry by entry where they are not MANY, and along RANDOM directions
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
        Batches drawn, of one component and of four, to see that their mean is unbiased: within about six
        standard errors. A bias below that passes.
    random_state : int, RandomState instance or None, default=0

    Raises
    ------
    ValueError
        At the first breach of the contract. The message names the method, the largest discrepancy and the
        tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem, check_problem
    >>> returns = np.random.default_rng(0).normal(0.05, 1.0, size=(50, 3))
    >>> check_problem(PortfolioProblem(returns))

    A problem with a slip:

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
    _check_attributes(problem)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # values are looked at below
        check = _Check(problem, x, rng)
        check.shapes()
        check.repeatable()
        check.plain_jacobian()
        check.place(move=x is None)
        check.derivatives_of_inner()
        check.derivatives_of_outer()
        check.objective_and_gradient()
        check.declared_jacobian()
        check.batches()
        if repeated is not None:
            check.same_as(repeated)
        check.draws(problem if repeated is None else repeated, n_draws)


def _fail(problem, name, message):
    raise ValueError(f"{type(problem).__name__}.{name}: {message}")


def _check_attributes(problem):
    if not isinstance(problem, CompositionalProblem):
        raise ValueError(f"problem must be a CompositionalProblem, got {problem!r}")
    for name in ("n_inner", "n_outer", "n_variables", "n_blocks"):
        value = getattr(problem, name, None)
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            _fail(problem, name, f"must be a positive int, got {value!r}")
    d, floor, penalty, metric = problem.n_variables, problem.inner_floor, problem.penalty, problem.metric
    if d % problem.n_blocks:
        _fail(problem, "n_blocks", f"must divide n_variables={d}, got {problem.n_blocks}")
    if problem.jacobian_kind not in ("sampled", "constant", "operator"):
        _fail(problem, "jacobian_kind", f"must be sampled, constant or operator, got {problem.jacobian_kind!r}")
    if floor is not None and not (np.ndim(floor) == 0 and np.isfinite(floor)):
        _fail(problem, "inner_floor", f"must be a finite number or None, got {floor!r}")
    missing = [name for name in ("value", "prox", "project") if not callable(getattr(penalty, name, None))]
    if penalty is not None and missing:
        _fail(problem, "penalty", f"must be None or have value, prox and project; no {', '.join(missing)}")
    if metric is not None:
        if not isinstance(metric, np.ndarray) or metric.shape not in ((d,), (d, d)):
            _fail(problem, "metric", f"must be None or an array of shape ({d},) or ({d}, {d}), got {metric!r}")
        if not (np.isfinite(metric).all() and (_diagonal(metric) > 0).all()):
            _fail(problem, "metric", "must be finite with a positive diagonal, about the inverse of a Hessian")


def _refuse(problem):
    raise pickle.PicklingError("it refers to the problem")


def _diagonal(metric):
    return np.diag(metric) if metric.ndim == 2 else metric


class _Check:
    """A problem, the point x, and the checks in the order in which they rely on each other."""

    def __init__(self, problem, x, rng):
        self.problem, self.rng = problem, rng
        own, shape = problem.initial_point(np.random.default_rng(0)), (problem.n_variables,)
        if not (isinstance(own, np.ndarray) and own.shape == shape and np.isdtype(own.dtype, "real floating")):
            self.fail("initial_point", f"must be a floating array of shape {shape}, got {own!r}")
        self.dtype, self.eps = own.dtype, float(np.finfo(own.dtype).eps)
        if not np.isfinite(own).all():
            self.fail("initial_point", "must be finite")
        if x is None:
            x = own if problem.penalty is None else problem.penalty.project(own)
        self.x = np.array(x, dtype=self.dtype)
        if self.x.shape != shape or not np.isfinite(self.x).all():
            raise ValueError(f"x must be finite and of shape {shape}, got {x!r}")
        if problem.metric is not None:
            self.keeps_dtype("metric", problem.metric)

    def fail(self, name, message):
        _fail(self.problem, name, message)

    def compare(self, name, what, a, b, tolerance):
        """Fail where a and b differ by more than the tolerance, a number or an array."""
        difference = np.abs(np.asarray(a, float) - np.asarray(b, float))
        excess = np.where(np.isnan(difference), np.inf, difference - tolerance)
        if excess.max() > 0:
            k = np.unravel_index(np.argmax(excess), excess.shape)
            allowed = np.broadcast_to(tolerance, excess.shape)[k]
            self.fail(name, f"{what} differ by {difference[k]:.3g} (tolerance {allowed:.3g})")

    def rounding(self, *values):
        """A bound of the rounding of sums of such values."""
        return 1000 * self.eps * max(float(np.abs(v).max()) for v in values)

    # what is returned

    def draw(self, side, shape):
        """Draws of the side "inner" or "outer"."""
        return getattr(self.problem, f"draw_{side}")(self.rng, shape)

    def gather(self, size):
        """An inner and an outer batch."""
        inner, outer = (None if size is None else self.draw(side, (1, size))[0] for side in ("inner", "outer"))
        return self.problem.inner_batch(inner), self.problem.outer_batch(outer)

    def evaluate(self, x, u, inner, outer):
        """All that is evaluated on batches, by method, one after the other; u None means g(x, B)."""
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
            if np.shape(draws[0])[:2] != (3, FEW):
                self.fail(name, f"must have the leading axes (3, {FEW}), got {np.shape(draws[0])}")
            if not np.array_equal(*draws):
                self.fail(name, "two generators of one seed give different draws: draw from rng only")
        shapes = {"vjp": self.x.shape, "outer_gradient (f_x)": self.x.shape}
        for size in (None, 1):
            for name, value in self.evaluate(self.x, None, *self.gather(size)):
                if name == "inner":
                    shapes[name] = shapes["outer_gradient"] = u = (np.size(value),)
                    if type(self.problem).vjp is CompositionalProblem.vjp:
                        shapes["jacobian"] = u + self.x.shape
                if name in shapes and not (isinstance(value, np.ndarray) and value.shape == shapes[name]):
                    self.fail(name, f"must be an array of shape {shapes[name]}, got {value!r}")
                if name in shapes and not np.isfinite(value).all():
                    self.fail(name, "is not finite")
                if name in shapes:
                    self.keeps_dtype(name, value)
        f = self.problem.outer(self.x, self.g(self.x))
        if np.ndim(f) or not math.isfinite(f):
            self.fail("outer", f"must be a finite float, got {f!r}")

    def keeps_dtype(self, name, value):
        if np.result_type(value, self.x) != self.dtype:
            self.fail(name, f"is {value.dtype}, which would turn the {self.dtype} of initial_point into it")

    def bits(self, values):
        """The bytes of what `evaluate` returned; of a Jacobian that is no array, those of a product."""
        J = values["jacobian"]
        product = J if isinstance(J, np.ndarray) else self.problem.vjp(J, np.ones_like(values["inner"]))
        return {name: (product if name == "jacobian" else v).tobytes() for name, v in values.items()}

    def repeatable(self):
        """Same x, same batch, same bits; and nothing that was returned or given is written into."""
        x, given = self.x, self.x.copy()
        other = x + self.dtype.type(math.sqrt(self.eps)) * (1 + np.abs(x))
        u = self.g(x)
        given_u = u.copy()
        for size in (None, FEW):
            batches = self.gather(size)
            first = dict(self.evaluate(x, u, *batches))
            kept = self.bits(first)
            dict(self.evaluate(other, self.g(other), *batches))
            dict(self.evaluate(x, u, *self.gather(2)))
            for name, now in self.bits(first).items():
                if now != kept[name]:
                    self.fail(name, "is written into after it was returned: return a new array every time")
            for name, now in self.bits(dict(self.evaluate(x, u, *batches))).items():
                if now != kept[name]:
                    self.fail(name, "gives other bits for the same x and batch after an evaluation elsewhere")
        self.problem.outer(x, u)
        if not (np.array_equal(x, given) and np.array_equal(u, given_u)):
            self.fail("outer_gradient", "it, or inner, jacobian or outer, writes into its argument x or u")

    def plain_jacobian(self):
        """A state holds J, so it must be picklable, and drag no problem with its data along."""
        J = self.problem.jacobian(self.x, self.problem.inner_batch(None))
        pickler = pickle.Pickler(file := io.BytesIO())
        pickler.dispatch_table = copyreg.dispatch_table | {type(self.problem): _refuse}
        try:
            pickler.dump(J)
            copy = pickle.loads(file.getvalue())
        except Exception as error:  # whatever the user's objects raise
            raise ValueError(f"{type(self.problem).__name__}.jacobian: is no plain data, {error}") from error
        v = np.ones_like(self.g(self.x))
        if not np.array_equal(self.problem.vjp(copy, v), self.problem.vjp(J, v)):
            self.fail("jacobian", "has another product with v after pickling")

    # derivatives

    def g(self, x):
        """u = g(x)."""
        return self.problem.inner(x, self.problem.inner_batch(None))

    def in_domain(self, x):
        u, floor = self.g(x), self.problem.inner_floor
        return np.isfinite(u).all() and (floor is None or u.min() > floor)

    def place(self, move):
        """Find the scale of x: how far it goes until F or J has changed by half. Move x by as much."""
        problem, start, metric = self.problem, self.x, self.problem.metric
        unit = np.ones(start.size) if metric is None else np.sqrt(_diagonal(metric).astype(float))
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
        self.points = [(start + c * reach * direction).astype(self.dtype) for c in (1, 0.5, 0)]
        self.points = self.points if move else self.points[::-1]
        self.x = self.points[0]
        self.u = self.g(self.x)
        if not self.in_domain(self.x):
            self.fail("inner", f"must be finite and > inner_floor={problem.inner_floor} at x, got {self.u.min()}")

    def directions(self, size):
        """Unit vectors and random ones; only random ones where there are many."""
        if size > MANY:
            return self.rng.standard_normal((MANY, size))
        return np.vstack([np.eye(size), self.rng.standard_normal((RANDOM, size))])

    def products(self, problem, J, V):
        """V @ J."""
        return np.array([problem.vjp(J, v) for v in V.astype(self.dtype)], dtype=float)

    def differences(self, function, point, scale):
        """Changes of a function along `directions`, by central differences of fourth order.

        Returns them, the ways that a derivative D maps to them (way @ D.T), and a tolerance, from the
        difference to the formula of second order and from rounding.
        """
        parts = []
        for step in self.eps**0.2 * scale * self.directions(point.size):
            ends = np.array([point + c * step for c in (1, -1, 2, -2)]).astype(self.dtype)
            values = np.array([np.ravel(function(z)) for z in ends], dtype=float)
            (near, far), (way, way_2) = ((v[0] - v[1], v[2] - v[3]) for v in (values, ends.astype(float)))
            parts.append([(8 * near - far) / 12, (8 * way - way_2) / 12, near / 2 - far / 4, np.abs(values)])
        change, way, error, size = (np.array(part) for part in zip(*parts, strict=True))
        tolerance = 3 * np.abs(error).max(0) + 10 * self.eps * size.max((0, 1))
        return change, way, tolerance + 10 * math.sqrt(self.eps) * np.abs(change)

    def derivatives_of_inner(self):
        """Jacobian against differences of inner, and vjp against the Jacobian."""
        problem, x, u, everything = self.problem, self.x, self.u, self.problem.inner_batch(None)
        J, V = problem.jacobian(x, everything), self.directions(u.size).astype(self.dtype)
        change, way, tolerance = self.differences(self.g, x, self.scale)
        products, what = self.products(problem, J, V), "and central differences of inner"
        if isinstance(J, np.ndarray) and J.shape == (u.size, x.size):
            self.compare("jacobian", f"J {what}", way @ J.T, change, tolerance)
            bound = 1000 * self.eps * (np.abs(V) @ np.abs(J))
            self.compare("vjp", "vjp(J, v) and J.T @ v", products, V @ J, bound)
        else:
            bound = tolerance @ np.abs(V.T)
            self.compare("jacobian", f"vjp(J, v) {what}", way @ products.T, change @ V.T, bound)
        # the scale of u: its changes over the scale of x, within the domain of f
        spread = np.abs(change).max(0) / self.eps**0.2
        spread[spread == 0] = spread.max() or np.abs(u).max() or 1.0
        self.spread = spread if problem.inner_floor is None else np.minimum(spread, u - problem.inner_floor)
        # f_u may vanish at u = g(x), as that of a variance does: look beside it too
        self.beside = (u + self.spread * self.rng.uniform(0.5, 1.0, u.size)).astype(self.dtype)
        self.V = V[-RANDOM:]  # for the products that are compared often

    def derivatives_of_outer(self):
        """f_x and f_u against differences of outer."""
        problem, x = self.problem, self.x
        for u in (self.u, self.beside):
            f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(None))
            in_x = self.differences(lambda z, u=u: problem.outer(z, u), x, self.scale)
            in_u = self.differences(lambda z: problem.outer(x, z), u, self.spread)
            f_x = np.zeros_like(x) if f_x is None else f_x
            for name, derivative, (change, way, tolerance) in (("x", f_x, in_x), ("u", f_u, in_u)):
                what = f"f_{name} and central differences of outer in {name}"
                self.compare("outer_gradient", what, way @ derivative[:, None], change, tolerance)

    def objective_and_gradient(self):
        """objective against outer and inner, gradient against differences of objective without R."""
        problem, x, u = self.problem, self.x, self.u
        penalty = (lambda z: 0.0) if problem.penalty is None else problem.penalty.value
        f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(None))
        f, value = float(problem.outer(x, u)), problem.objective(x)
        sensitivity = np.abs(f_u) @ np.abs(u) + (0.0 if f_x is None else np.abs(f_x) @ np.abs(x))
        noise = self.rounding(value, f, sensitivity)
        self.compare("objective", "objective(x) and outer(x, g(x)) + R(x)", value, f + penalty(x), noise)
        change, way, tolerance = self.differences(lambda z: problem.objective(z) - penalty(z), x, self.scale)
        what, F = "gradient(x) and central differences of objective without R", problem.gradient(x)
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
                self.compare("jacobian", 'is declared "constant", but J at two points', a, b, self.rounding(a))
        if kind != "operator":
            J, J_2 = (problem.jacobian(z, batch) for z, batch in zip((x, other), batches[1:], strict=True))
            a, b = (self.products(problem, part, self.V) for part in (J, J_2))
            combined = self.products(problem, 0.25 * (J - J_2) + J_2, self.V)
            what = "vjp of a combination of Jacobians and the combination of their vjp"
            self.compare("vjp", what, combined, 0.25 * (a - b) + b, self.rounding(a, b))

    def batches(self):
        """A batch is the mean of its components; where draws are indices, all of them are the batch None."""
        problem, (inner, outer) = self.problem, (self.draw(side, (1, FEW))[0] for side in ("inner", "outer"))
        singles = [self.values(problem, inner[k : k + 1], outer[k : k + 1]) for k in range(FEW)]
        for name, value in self.values(problem, inner, outer).items():
            parts, what = np.array([one[name] for one in singles], float), f"a batch of {FEW} and its mean"
            self.compare(name, what, value, parts.mean(0), self.rounding(parts))
        default = [
            np.arange(n) if getattr(type(problem), hook) is getattr(CompositionalProblem, hook) else None
            for hook, n in (("draw_inner", problem.n_inner), ("draw_outer", problem.n_outer))
        ]
        every, full = self.values(problem, *default), self.values(problem, None, None)
        for name, value in every.items():
            self.compare(name, "batch None and all indices", full[name], value, self.rounding(value))

    def same_as(self, repeated):
        """Weights against repeated rows, over all components."""
        for name in ("objective", "gradient", "g"):
            ours, theirs = (
                [p.inner(x, p.inner_batch(None)) if name == "g" else getattr(p, name)(x) for x in self.points]
                for p in (self.problem, repeated)
            )
            bound = max(1e-10, 1000 * self.eps) * np.abs(theirs).max()
            self.compare("inner" if name == "g" else name, "problem and repeated", ours, theirs, bound)

    def draws(self, reference, n_draws):
        """The means over drawn batches are those of the reference, a problem, over all components."""
        full = self.values(reference, None, None)
        for size in (1, FEW):
            pairs = zip(*(self.draw(side, (n_draws, size)) for side in ("inner", "outer")), strict=True)
            values = [self.values(self.problem, *pair) for pair in pairs]
            for name, wanted in full.items():
                entries = self.directions(wanted.size)
                sample = np.array([value[name] for value in values], float) @ entries.T
                mean, deviation = sample.mean(0), sample - sample.mean(0)
                # Bernstein's inequality: the second term is for what few draws contain
                z = math.sqrt(2 * math.log(2 * len(entries) * 2 * len(full) / FALSE_ALARM))
                bound = z * deviation.std(0) / math.sqrt(n_draws) + z**2 * np.abs(deviation).max(0) / (3 * n_draws)
                # an entry that no draw contains is judged within the random directions only
                bound[: len(bound) - RANDOM][~sample[:, :-RANDOM].any(0)] = np.inf
                hook = "outer" if name == "outer_gradient" else "inner"
                what = f"the mean over {n_draws} batches of {size} (draw_{hook}, {hook}_batch) and the full one"
                self.compare(name, what, mean, entries @ wanted, bound + self.rounding(sample))
