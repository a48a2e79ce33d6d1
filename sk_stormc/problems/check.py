"""A check of user-defined problems against the contract that the solvers rely on."""

import io
import math
import pickle
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from sk_stormc._validation import check_int
from sk_stormc.problems.base import CompositionalProblem

__all__ = ["check_problem"]

MANY = 100  # longer vectors are compared along random directions instead of entry by entry
RANDOM = 4  # random directions beside the entries
A_FEW = 4
FALSE_ALARM = 1e-6  # probability that one of the comparisons of means fails by chance


def check_problem(problem, x=None, *, repeated=None, n_draws=1000, random_state=0):
    """Check that a problem keeps the contract of `CompositionalProblem`.

    Derivatives are compared with central differences, batches with the mean over all components, and what
    was computed once with what is computed again. Tolerances follow the size of what is compared, the
    precision of ``initial_point`` and the differences' own error, so that the units do not matter.

    Parameters
    ----------
    problem : CompositionalProblem
    x : array-like of shape (n_variables,), default=None
        Where to check. None means the problem's initial point, moved at random by about as much as changes
        its gradient by half.
    repeated : CompositionalProblem, default=None
        For a problem with weights: the same one with its rows repeated instead. Full means must agree, and
        the means over draws of ``problem`` are compared with those of ``repeated``.
    n_draws : int, default=1000
        Batches drawn of each size (1 and 4) to see that draws are unbiased. The comparison is within about
        six standard errors of the mean.
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
    >>> check_problem(PortfolioProblem(returns, sample_weight=np.r_[2.0, np.ones(49)]))

    A gradient with a slip:

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
        check = _Check(problem, x, rng, n_draws)
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
        check.draws(problem if repeated is None else repeated)


def _check_attributes(problem):
    """What is declared, before anything is evaluated."""
    if not isinstance(problem, CompositionalProblem):
        raise ValueError(f"problem must be a CompositionalProblem, got {type(problem).__name__}")
    for name in ("n_inner", "n_outer", "n_variables", "n_blocks"):
        value = getattr(problem, name, None)
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            _fail(problem, name, f"must be a positive int, got {value!r}")
    d = problem.n_variables
    if d % problem.n_blocks:
        _fail(problem, "n_blocks", f"must divide n_variables={d}, got {problem.n_blocks}")
    if problem.jacobian_kind not in ("sampled", "constant", "operator"):
        kinds = "'sampled', 'constant' or 'operator'"
        _fail(problem, "jacobian_kind", f"must be {kinds}, got {problem.jacobian_kind!r}")
    floor = problem.inner_floor
    if floor is not None and not (np.ndim(floor) == 0 and np.isfinite(floor)):
        _fail(problem, "inner_floor", f"must be a finite number or None, got {floor!r}")
    missing = [name for name in ("value", "prox", "project") if not callable(getattr(problem.penalty, name, None))]
    if problem.penalty is not None and missing:
        _fail(problem, "penalty", f"must have methods value, prox and project; {', '.join(missing)} missing")
    metric = problem.metric
    if metric is not None:
        if np.shape(metric) not in ((d,), (d, d)):
            _fail(problem, "metric", f"must be of shape ({d},) or ({d}, {d}) or None, got {np.shape(metric)}")
        if not np.isfinite(metric).all() or np.min(np.diag(metric) if np.ndim(metric) == 2 else metric) <= 0:
            _fail(problem, "metric", "must be finite and positive, about the inverse of a Hessian")


class _Check:
    """A problem at a point x: the checks in the order in which they rely on each other."""

    def __init__(self, problem, x, rng, n_draws):
        self.problem, self.rng, self.n_draws = problem, rng, n_draws
        own = problem.initial_point(np.random.default_rng(0))
        d = problem.n_variables
        if not isinstance(own, np.ndarray) or own.shape != (d,) or not np.issubdtype(own.dtype, np.floating):
            found = f"{getattr(own, 'dtype', type(own).__name__)} {np.shape(own)}"
            self.fail("initial_point", f"must be a floating array of shape ({d},), got {found}")
        self.dtype, self.eps = own.dtype, float(np.finfo(own.dtype).eps)
        if x is None:
            x = own if problem.penalty is None else problem.penalty.project(own)
        self.x = np.array(x, dtype=self.dtype)
        if self.x.shape != (d,) or not np.isfinite(self.x).all():
            name = "initial_point" if x is own else "x"
            self.fail(name, f"must be finite and of shape ({d},), got shape {self.x.shape}: {self.x!r}")
        if problem.metric is not None:
            self._no_wider("metric", problem.metric)

    def fail(self, name, message):
        _fail(self.problem, name, message)

    def compare(self, name, what, a, b, tolerance):
        """Fail where a and b differ by more than the tolerance, a number or an array."""
        difference = np.abs(np.asarray(a, float) - np.asarray(b, float))
        excess = difference - tolerance
        if difference.size and not (excess <= 0).all():
            worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
            allowed = np.broadcast_to(tolerance, excess.shape)[worst]
            self.fail(name, f"{what} differ by {difference[worst]:.3g} (tolerance {allowed:.3g})")

    def rounding(self, *values):
        """A bound of the rounding of sums of such values."""
        return 1000 * self.eps * max(float(np.max(np.abs(v), initial=0)) for v in values) + 1e-300

    # shapes and dtypes

    def shapes(self):
        """Draws, and what the methods return for all components and for a batch."""
        problem = self.problem
        for side in ("inner", "outer"):
            draw = getattr(problem, f"draw_{side}")
            first, again = (draw(np.random.default_rng(1), (3, A_FEW)) for _ in range(2))
            if np.shape(first)[:2] != (3, A_FEW):
                self.fail(f"draw_{side}", f"must have leading axes (3, {A_FEW}), got {np.shape(first)}")
            if not np.array_equal(first, again):
                self.fail(f"draw_{side}", "generators of one seed give different draws: use rng for all of them")
        for inner, outer in ((None, None), (self.draw("inner", 1), self.draw("outer", 1))):
            batch, which = problem.inner_batch(inner), "all components" if inner is None else "a batch of 1"
            u = self._array("inner", problem.inner(self.x, batch), None, which)
            v = np.ones_like(u)
            J = problem.jacobian(self.x, batch)
            if type(problem).vjp is CompositionalProblem.vjp:
                self._array("jacobian", J, (u.size, self.x.size), which)
            self._array("vjp", problem.vjp(J, v), self.x.shape, which)
            pair = problem.outer_gradient(self.x, u, problem.outer_batch(outer))
            if not isinstance(pair, tuple) or len(pair) != 2:
                self.fail("outer_gradient", f"must return (f_x, f_u), f_x an array or None, got {type(pair).__name__}")
            if pair[0] is not None:
                self._array("outer_gradient", pair[0], self.x.shape, f"f_x, {which}")
            self._array("outer_gradient", pair[1], u.shape, f"f_u, {which}")
        value = problem.outer(self.x, problem.inner(self.x, problem.inner_batch(None)))
        if np.ndim(value) or not math.isfinite(float(value)):
            self.fail("outer", f"must be a finite float, got {value!r}")

    def _array(self, name, value, shape, which):
        good = isinstance(value, np.ndarray) and (value.ndim == 1 if shape is None else value.shape == shape)
        if not good:
            wanted = "(l,)" if shape is None else shape
            found = f"shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            self.fail(name, f"must return an array of shape {wanted}, got {found} ({which})")
        if not np.isfinite(value).all():
            self.fail(name, f"is not finite at x ({which})")
        self._no_wider(name, value)
        return value

    def _no_wider(self, name, value):
        if np.result_type(value, self.x) != self.dtype:
            self.fail(name, f"is {np.asarray(value).dtype} and would turn the {self.dtype} of initial_point into it")

    # pure functions

    def draw(self, side, size):
        """Draws of one batch."""
        return getattr(self.problem, f"draw_{side}")(self.rng, (1, size))[0]

    def gather(self, size):
        """An inner and an outer batch."""
        inner, outer = (None, None) if size is None else (self.draw("inner", size), self.draw("outer", size))
        return self.problem.inner_batch(inner), self.problem.outer_batch(outer)

    def evaluate(self, x, u, inner, outer):
        """All that is evaluated on batches."""
        problem = self.problem
        own, J = problem.inner(x, inner), problem.jacobian(x, inner)
        f_x, f_u = problem.outer_gradient(x, u, outer)
        values = {"inner": own, "jacobian": J, "vjp": problem.vjp(J, np.ones_like(own)), "outer_gradient": f_u}
        return values if f_x is None else values | {"f_x": f_x}

    def bits(self, values):
        """The bytes of what `evaluate` returned; of a Jacobian that is no array, those of its product."""
        J = values["jacobian"]
        product = J if isinstance(J, np.ndarray) else self.problem.vjp(J, np.ones_like(values["inner"]))
        return {name: (product if name == "jacobian" else value).tobytes() for name, value in values.items()}

    def repeatable(self):
        """Same x, same batch, same bits; and nothing that was returned or given is written into."""
        x, given = self.x, self.x.copy()
        other = x + self.dtype.type(math.sqrt(self.eps)) * (1 + np.abs(x))
        u, u_other = (self.problem.inner(z, self.problem.inner_batch(None)) for z in (x, other))
        given_u = u.copy()
        for size in (None, A_FEW):
            inner, outer = self.gather(size)
            first = self.evaluate(x, u, inner, outer)
            kept = self.bits(first)
            self.evaluate(other, u_other, inner, outer)
            self.evaluate(x, u, *self.gather(2))
            for name, now in self.bits(first).items():
                if now != kept[name]:
                    self.fail(name, "is written into after it was returned: return a new array every time")
            for name, now in self.bits(self.evaluate(x, u, inner, outer)).items():
                if now != kept[name]:
                    self.fail(name, "gives other bits for the same x and batch after an evaluation elsewhere")
        self.problem.outer(x, u)
        if not (np.array_equal(x, given) and np.array_equal(u, given_u)):
            self.fail("outer_gradient", "or inner, jacobian, outer: writes into its argument x or u")

    def plain_jacobian(self):
        """A state holds J, so it must be picklable, and pull no problem with its data along."""
        problem, J = self.problem, self.problem.jacobian(self.x, self.problem.inner_batch(None))
        try:
            copy = pickle.loads(_pickle(J, problem))
        except Exception as error:  # whatever the user's objects raise
            _fail(problem, "jacobian", f"must return plain data that can be pickled, got {error}")
        v = np.ones_like(self.problem.inner(self.x, self.problem.inner_batch(None)))
        if not np.array_equal(problem.vjp(copy, v), problem.vjp(J, v)):
            self.fail("jacobian", "gives another product with v once it was pickled")

    # derivatives

    def place(self, move):
        """Find the scale of x: how far it goes until the gradient has changed by half. Move x by as much."""
        problem, start, metric = self.problem, self.x, self.problem.metric
        unit = np.ones(start.size) if metric is None else np.sqrt(np.diag(metric) if np.ndim(metric) == 2 else metric)
        size = np.linalg.norm(start) / np.linalg.norm(unit)
        direction = unit * self.rng.standard_normal(start.size)
        F, reach, lengths = problem.gradient(start), 0.0, 10.0 ** np.arange(-10, 11)
        for t in lengths:
            x = (start + t * direction).astype(self.dtype)
            if not (self._in_domain(x) and np.linalg.norm(problem.gradient(x) - F) <= 0.5 * np.linalg.norm(F)):
                break
            reach = t
        if reach in (0.0, lengths[-1]):  # stationary or linear: no scale but that of x
            reach = size or 1.0
        reach = max(reach, 1e-3 * size)
        self.scale = reach * unit
        self.points = [(start + c * reach * direction).astype(self.dtype) for c in ((1, 0.5, 0) if move else (0, 0.5, 1))]
        self.x = x = self.points[0]
        self.u = problem.inner(x, problem.inner_batch(None))
        if not self._in_domain(x):
            floor = "finite" if problem.inner_floor is None else f"above inner_floor={problem.inner_floor}"
            self.fail("inner", f"must be {floor} at x, got {self.u.min()}")

    def _in_domain(self, x):
        u = self.problem.inner(x, self.problem.inner_batch(None))
        return np.isfinite(u).all() and (self.problem.inner_floor is None or u.min() > self.problem.inner_floor)

    def directions(self, size):
        """Unit vectors and random ones; only random ones where there are many."""
        if size > MANY:
            return self.rng.standard_normal((MANY, size))
        return np.vstack([np.eye(size), self.rng.standard_normal((RANDOM, size))])

    def products(self, problem, J, V):
        """V @ J."""
        return np.array([problem.vjp(J, v) for v in V.astype(self.dtype)], dtype=float)

    def differences(self, function, point, scale):
        """Central differences of fourth order along `directions`, as the changes they predict.

        Returns
        -------
        change : ndarray of shape (n_directions, n_values)
        way : ndarray of shape (n_directions, n_variables)
            A derivative D has change = way @ D.T.
        tolerance : ndarray of shape (n_directions, n_values)
            From the difference to the second-order formula, and from rounding.
        """
        h = self.eps**0.2
        change, way, error, size = [], [], [], []
        for step in h * scale * self.directions(point.size):
            ends = [(point + c * step).astype(self.dtype) for c in (1, -1, 2, -2)]
            values = np.array([np.ravel(function(z)) for z in ends], dtype=float)
            ends = np.array(ends, dtype=float)
            change.append((8 * (values[0] - values[1]) - (values[2] - values[3])) / 12)
            way.append((8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12)
            error.append((values[0] - values[1]) / 2 - (values[2] - values[3]) / 4)
            size.append(np.abs(values).max(0))
        change, tolerance = np.array(change), 3 * np.abs(error).max(0) + 10 * self.eps * np.max(size, axis=0)
        return change, np.array(way), tolerance + 10 * math.sqrt(self.eps) * np.abs(change)

    def derivatives_of_inner(self):
        """Jacobian against differences of inner, and vjp against the Jacobian."""
        problem, x, u = self.problem, self.x, self.u
        everything = problem.inner_batch(None)
        J, V = problem.jacobian(x, everything), self.directions(u.size)
        change, way, tolerance = self.differences(lambda z: problem.inner(z, everything), x, self.scale)
        products = self.products(problem, J, V)
        what = "and central differences of inner"
        if isinstance(J, np.ndarray) and J.shape == (u.size, x.size):
            self.compare("jacobian", f"J {what}", way @ J.T, change, tolerance)
            V = V.astype(self.dtype)
            self.compare("vjp", "vjp(J, v) and J.T @ v", products, V @ J, 100 * self.eps * (np.abs(V) @ np.abs(J)))
        else:
            self.compare("jacobian", f"vjp(J, v) {what}", way @ products.T, change @ V.T, tolerance @ np.abs(V.T))
        # the scale of u: its changes over the scale of x, within the domain of f
        spread = np.abs(change).max(0) / self.eps**0.2
        spread[spread == 0] = spread.max() or np.abs(u).max() or 1.0
        if problem.inner_floor is not None:
            spread = np.minimum(spread, u - problem.inner_floor)
        # f_u may vanish at u = g(x), as that of a variance does: look beside it too
        beside = u + spread * (0.5 + 0.5 * self.rng.random(u.size))
        self.spread, self.beside = spread, beside.astype(self.dtype)
        self.V = np.vstack([V[: min(u.size, RANDOM)], V[-RANDOM:]])  # for what is compared often

    def derivatives_of_outer(self):
        """f_x and f_u against differences of outer."""
        problem, x = self.problem, self.x
        for u in (self.u, self.beside):
            f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(None))
            f_x = np.zeros_like(x) if f_x is None else f_x
            for name, d, function, point, scale in (
                ("x", f_x, lambda z, u=u: problem.outer(z, u), x, self.scale),
                ("u", f_u, lambda z: problem.outer(x, z), u, self.spread),
            ):
                change, way, tolerance = self.differences(function, point, scale)
                what = f"f_{name} and central differences of outer in {name}"
                self.compare("outer_gradient", what, (way @ d)[:, None], change, tolerance)

    def objective_and_gradient(self):
        """objective against outer and inner, gradient against differences of objective without R."""
        problem, x, u = self.problem, self.x, self.u
        f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(None))
        penalty = (lambda z: 0.0) if problem.penalty is None else problem.penalty.value
        value, f = problem.objective(x), float(problem.outer(x, u))
        sensitivity = float(np.abs(f_u) @ np.abs(u) + (0 if f_x is None else np.abs(f_x) @ np.abs(x)))
        noise = self.rounding(value, f, sensitivity)
        self.compare("objective", "objective(x) and outer(x, inner(x)) + R(x)", value, f + penalty(x), noise)
        change, way, tolerance = self.differences(lambda z: problem.objective(z) - penalty(z), x, self.scale)
        F = problem.gradient(x)
        what = "gradient and central differences of objective without R"
        self.compare("gradient", what, (way @ F)[:, None], change, tolerance + 0.01 * noise)

    # batches

    def values(self, problem, inner, outer):
        """All that is evaluated on the batches of these draws, as vectors; the Jacobian as products with V."""
        inner, outer = problem.inner_batch(inner), problem.outer_batch(outer)
        f_x, f_u = problem.outer_gradient(self.x, self.beside, outer)
        return {
            "inner": problem.inner(self.x, inner),
            "jacobian": self.products(problem, problem.jacobian(self.x, inner), self.V).ravel(),
            "outer_gradient": np.concatenate([np.zeros_like(self.x) if f_x is None else f_x, f_u]),
        }

    def batches(self):
        """A batch is the mean of its components; plain indices from 0 on are all of them."""
        problem = self.problem
        inner, outer = self.draw("inner", A_FEW), self.draw("outer", A_FEW)
        ones = [self.values(problem, inner[k : k + 1], outer[k : k + 1]) for k in range(A_FEW)]
        for name, value in self.values(problem, inner, outer).items():
            parts = np.array([one[name] for one in ones], dtype=float)
            what = f"a batch of {A_FEW} and the mean of its {A_FEW} components"
            self.compare(name, what, value, parts.mean(0), self.rounding(parts))
        plain = [
            np.arange(n) if getattr(type(problem), hook) is getattr(CompositionalProblem, hook) else None
            for hook, n in (("draw_inner", problem.n_inner), ("draw_outer", problem.n_outer))
        ]
        full = self.values(problem, None, None)
        for name, value in self.values(problem, *plain).items():
            self.compare(name, "batch None and the batch of all indices", value, full[name], self.rounding(value))

    def declared_jacobian(self):
        """A "constant" Jacobian is one; Jacobians that are tracked can be combined."""
        problem, (x, other) = self.problem, self.points[:2]
        batch, batch_2 = (problem.inner_batch(self.draw("inner", A_FEW)) for _ in range(2))
        J = problem.jacobian(x, batch)
        products = self.products(problem, J, self.V)
        if problem.jacobian_kind == "constant":
            for b in (batch, problem.inner_batch(None)):
                first, second = (self.products(problem, problem.jacobian(z, b), self.V) for z in (x, other))
                what = 'of kind "constant", but at two points they'
                self.compare("jacobian", what, first, second, self.rounding(first))
        if problem.jacobian_kind != "operator":
            J_2 = problem.jacobian(other, batch_2)
            products_2 = self.products(problem, J_2, self.V)
            combined = self.products(problem, 0.25 * (J - J_2) + J_2, self.V)
            what = "vjp of a combination of Jacobians and the combination of their vjp"
            wanted = 0.25 * (products - products_2) + products_2
            self.compare("vjp", what, combined, wanted, self.rounding(products, products_2))

    def same_as(self, repeated):
        """A weighted problem against the one with repeated rows, over all components."""
        problem = self.problem
        if repeated.n_variables != problem.n_variables:
            raise ValueError(f"repeated must have {problem.n_variables} variables, got {repeated.n_variables}")
        for name in ("objective", "gradient", "inner"):
            ours, theirs = (
                [p.inner(x, p.inner_batch(None)) if name == "inner" else getattr(p, name)(x) for x in self.points]
                for p in (problem, repeated)
            )
            tolerance = max(1e-10, 1000 * self.eps) * np.abs(theirs).max()
            self.compare(name, "the problem and the repeated one", ours, theirs, tolerance)

    def draws(self, reference):
        """The mean over drawn batches is that of `reference`, a problem, over all components."""
        full = self.values(reference, None, None)
        for size in (1, A_FEW):
            draws = [getattr(self.problem, f"draw_{s}")(self.rng, (self.n_draws, size)) for s in ("inner", "outer")]
            values = [self.values(self.problem, *pair) for pair in zip(*draws, strict=True)]
            for name, wanted in full.items():
                entries = self.directions(len(wanted))
                sample = np.array([value[name] for value in values], dtype=float) @ entries.T
                mean, deviation = sample.mean(0), sample.std(0, ddof=1)
                # Bernstein's inequality: the term in 1 / n_draws is for entries that few draws contain
                z = math.sqrt(2 * math.log(6 * 2 * len(entries) / FALSE_ALARM))
                tolerance = z * deviation / math.sqrt(self.n_draws)
                tolerance += z**2 / (3 * self.n_draws) * np.abs(sample - mean).max(0)
                # an entry that no draw contains is judged within the random directions only
                tolerance[:-RANDOM][~sample[:, :-RANDOM].any(0)] = np.inf
                tolerance += self.rounding(sample)
                hook = "draw_outer, outer_batch" if name == "outer_gradient" else "draw_inner, inner_batch"
                what = f"the mean over {self.n_draws} batches of {size} ({hook}) and the full one"
                self.compare(name, what, mean, entries @ wanted, tolerance)


class _Pickler(pickle.Pickler):
    """A pickler that refuses one object, wherever it is referred to."""

    def __init__(self, file, refused):
        super().__init__(file)
        self.refused = refused

    def persistent_id(self, obj):
        """Called for every object."""
        if obj is self.refused:
            raise pickle.PicklingError("a reference to the problem, which would take its data along")


def _pickle(value, refused):
    file = io.BytesIO()
    _Pickler(file, refused).dump(value)
    return file.getvalue()


def _fail(problem, name, message):
    raise ValueError(f"{type(problem).__name__}.{name}: {message}")
