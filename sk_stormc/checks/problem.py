"""A check of user-defined problems against the contract that the solvers rely on."""

from __future__ import annotations

import math

import numpy as np

from sk_stormc.checks.differences import (
    N_DIRECTIONS,
    differences,
    directions,
    worst,
    wrong_slope,
)
from sk_stormc.checks.points import f_is_defined, in_power, in_two_units, power_at
from sk_stormc.checks.return_values import BATCH_SIZE, SIDES, ReturnValues
from sk_stormc.core.attribute_checks import check_attributes
from sk_stormc.core.composition import FiniteSumComposition
from sk_stormc.core.problem import CompositionalProblem, takes_weights
from sk_stormc.core.source import FiniteSource, source_of
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.utils.types import ArrayLike, RandomState
from sk_stormc.utils.validation import check_instance, check_int, seeded, short

__all__ = ["check_problem"]

# Part of the scale of u in which f must be defined around a second value. Differences
# reach so far.
DIFFERENCE_REACH = 0.02


def check_problem(
    problem: CompositionalProblem,
    x: ArrayLike | None = None,
    *,
    repeated: CompositionalProblem | None = None,
    n_draws: int = 1000,
    random_state: RandomState = 0,
) -> None:
    """Check that a problem fulfils the contract of `CompositionalProblem`.

    Derivatives are compared with central differences, batches with the mean over all
    components, and results with those of a second evaluation. Tolerances are set from
    the size of the compared values, the dtype of ``initial_point`` and the error of the
    differences, so that the result does not depend on units. Derivatives are compared
    at up to four points of different sizes, because a large part of a derivative may
    vanish at one of them.

    Parameters
    ----------
    problem : CompositionalProblem
        The problem to be checked. For a `StreamingProblem`, the problem of its first
        rows is checked, which evaluates everything that the stream returns.
    x : array-like of shape (n_variables,), default=None
        Point at which to check. None means the problem's initial point, moved in a
        random direction until the gradient or the Jacobian has changed by about half.
    repeated : CompositionalProblem, default=None
        For a problem with weights, the same problem with repeated rows instead. The two
        must agree over all components, and the means over draws of ``problem`` are
        compared with ``repeated``.
    n_draws : int, default=1000
        Number of batches that are drawn, of one component and of four. Their mean must
        be within about six standard errors.
    random_state : int, RandomState instance or None, default=0
        Seed for the draws and for the points.

    Raises
    ------
    ValueError
        If the problem violates the contract. The message names the method and the entry
        of the first violation, with its actual and its expected value.

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
    ValueError: Slip.outer_gradient: f_u and central differences of outer in u ...
    """
    check_int("n_draws", n_draws, low=30)
    if repeated is not None:
        check_instance("repeated", repeated, CompositionalProblem)
    if isinstance(problem, StreamingProblem):
        problem = problem.source.first
    rng = np.random.default_rng(seeded(random_state).randint(np.iinfo(np.int32).max))
    check_attributes(problem)
    with np.errstate(
        over="ignore", invalid="ignore", divide="ignore"
    ):  # values are checked below
        check = _Check(problem, x, rng)
        check.shapes()
        check.plain_jacobian()
        check.choose_points(move=x is None)
        check.repeatable()
        check.derivatives()
        check.units()
        check.kind_of_jacobian()
        check.batches()
        if repeated is not None:
            repeated = in_power(repeated, check.power)
            check.same_as(repeated)
        check.draws(check.problem if repeated is None else repeated, n_draws)


class _Check(ReturnValues):
    """The checks that compare values of a problem's methods with one another, in the
    order of `check_problem`."""

    # derivatives

    def products(self, problem, J, V):
        """V @ J."""
        return np.array([problem.vjp(J, v) for v in V.astype(self.dtype)], dtype=float)

    def slopes(self, name, symbol, of, derivative, function, point, scale, **how):
        """Fail if a derivative and central differences of a function disagree."""
        wrong = wrong_slope(derivative, function, point, scale, self.rng, **how)
        if wrong is not None:
            (value, variable), got, expected, tolerance = wrong
            if variable is None:
                where = "its slope along a random direction"
            elif symbol == "J":
                where = f"J[{value}, {variable}]"
            elif "combine" in how:
                row = how["combine"][value]
                v = (
                    f"v the unit vector {value}"
                    if np.count_nonzero(row) == 1
                    else "a random v"
                )
                where = f"{symbol}[{variable}] with {v}"
            else:
                where = f"{symbol}[{variable}]"
            where = f"{where} at x = {short(self.x)}"
            self.fail(
                name,
                f"{symbol} and central differences of {of}",
                where,
                got,
                expected,
                tolerance,
            )

    def derivatives(self):
        """Compare the derivatives of g and f at all points. The last is the main point,
        at which x then remains."""
        for point in reversed(self.points):
            self.x = point.x
            self.evaluate_in_unit()
            self.u = self.g(point.x)
            self.derivatives_of_g(point, on_a_batch=point is self.points[0])
            self.derivatives_of_f(point)
        self.beside = self.points[0].beside

    def units(self):
        """Check that scaled numbers (`InUnit`) have the same value in another unit."""
        for name, actual, expected, terms in in_two_units(self.unscaled, self.x):
            self.compare(
                name,
                "its value with u in two units",
                actual,
                expected,
                self.rounding(expected, *terms),
            )

    def derivatives_of_g(self, point, on_a_batch):
        """Compare the Jacobian with differences of inner, and vjp with the Jacobian.
        Compute the scale of u."""
        problem, x, u = self.problem, self.x, self.u
        V = directions(self.rng, u.size).astype(self.dtype)
        # on a batch, an operator need not be the derivative of the batch's g
        few = (
            [self.draw("inner", (1, BATCH_SIZE))[0]]
            if on_a_batch and problem.jacobian_kind != "operator"
            else []
        )
        for draws in (*few, None):
            own = in_power(self.unscaled, power_at(self.unscaled, x, draws))
            batch = problem.inner_batch(draws)
            J = own.jacobian(x, batch)
            products, of = (
                self.products(problem, J, V),
                (lambda z, p=own, b=batch: p.inner(z, b)),
            )
            if isinstance(J, np.ndarray) and J.shape == (u.size, x.size):
                self.slopes("jacobian", "J", "inner", J, of, x, point.scale)
                bound = 1000 * self.eps * (np.abs(V) @ np.abs(J))
                self.compare("vjp", "vjp(J, v) and J.T @ v", products, V @ J, bound)
            else:
                self.slopes(
                    "jacobian",
                    "vjp(J, v)",
                    "inner",
                    products,
                    of,
                    x,
                    point.scale,
                    combine=V,
                )
        # the changes of u over the scale of x, within the domain of f
        step = (
            self.eps**0.2
            * point.scale
            * self.rng.standard_normal((2 * N_DIRECTIONS, x.size))
        )
        change = differences(
            lambda z: problem.inner(z, problem.inner_batch(None)), x, step
        )[0]
        spread = np.abs(change).max(0) / self.eps**0.2
        spread[spread == 0] = spread.max() or np.abs(u).max() or 1.0
        point.spread = (
            spread
            if problem.inner_floor is None
            else np.minimum(spread, u - problem.inner_floor)
        )
        away = self.rng.uniform(0.5, 1.0, u.size)
        for _ in range(30):
            point.beside = (u + point.spread * away).astype(self.dtype)
            if self.defined_around(u, point.spread) and self.defined_around(
                point.beside, DIFFERENCE_REACH * point.spread
            ):
                break
            point.spread = point.spread / 2
        self.V = V[-N_DIRECTIONS:]  # for the products that are compared often

    def defined_around(self, u, spread):
        """Whether f is defined at u and around it. For example, sqrt(u_2 - u_1^2) is
        not defined far from g(x)."""
        signs = np.random.default_rng(0).choice([-0.9, 0.9], (N_DIRECTIONS, u.size))
        around = (u + spread * np.vstack([np.zeros(u.size), signs, -signs])).astype(
            self.dtype
        )
        return all(f_is_defined(self.problem, self.x, value) for value in around)

    def scattered(self, point):
        """Yield a value of u as far from g(x) as those of single components, if g(x)
        hardly varies with x."""
        problem, x, u = self.problem, self.x, self.u
        draws = self.draw("inner", (2 * BATCH_SIZE, 1))
        away = np.mean(
            [np.abs(problem.inner(x, problem.inner_batch(draw)) - u) for draw in draws],
            axis=0,
            dtype=float,
        )
        if problem.inner_floor is not None:
            away = np.minimum(away, u - problem.inner_floor)
        if not (np.isfinite(away).all() and (away > 100 * point.spread).any()):
            return
        away = np.maximum(away, point.spread)
        far = (u + away * self.rng.uniform(0.5, 1.0, u.size)).astype(self.dtype)
        if self.defined_around(far, DIFFERENCE_REACH * away):
            yield far, away

    def derivatives_of_f(self, point):
        """Compare f_x and f_u with differences of outer, and the gradient with
        differences of the objective."""
        problem, x, R = self.problem, self.x, self.problem.penalty
        for u, spread in (
            *self.scattered(point),
            (point.beside, point.spread),
            (self.u, point.spread),
        ):
            f_x, f_u = problem.outer_gradient(x, u, problem.outer_batch(None))
            f_x = np.zeros_like(x) if f_x is None else f_x
            in_x, in_u = (
                (lambda z, u=u: problem.outer(z, u)),
                (lambda z: problem.outer(x, z)),
            )
            self.slopes(
                "outer_gradient", "f_x", "outer in x", f_x[None], in_x, x, point.scale
            )
            self.slopes(
                "outer_gradient", "f_u", "outer in u", f_u[None], in_u, u, spread
            )

        def phi(z):
            return problem.objective(z) - (0.0 if R is None else R.value(z))

        f, F = float(problem.outer(x, self.u)), problem.gradient(x)
        noise = self.rounding(
            f,
            np.abs(f_u) @ np.abs(self.u),
            np.abs(f_x) @ np.abs(x),
            problem.objective(x),
        )
        self.compare(
            "objective", "objective(x) - R(x) and outer(x, g(x))", phi(x), f, noise
        )
        self.slopes(
            "gradient",
            "gradient(x)",
            "objective without R",
            F[None],
            phi,
            x,
            point.scale,
            noise=0.01 * noise,
        )

    # batches

    def values(self, problem, inner, outer, *weights):
        """The values on the batches of these draws, as vectors. The vector of the
        Jacobian is V @ J."""
        inner, outer = (
            problem.inner_batch(inner, *weights),
            problem.outer_batch(outer, *weights),
        )
        f_x, f_u = problem.outer_gradient(self.x, self.beside, outer)
        return {
            "inner": problem.inner(self.x, inner),
            "jacobian": self.products(
                problem, problem.jacobian(self.x, inner), self.V
            ).ravel(),
            "outer_gradient": np.concatenate(
                [np.zeros_like(self.x) if f_x is None else f_x, f_u]
            ),
        }

    def kind_of_jacobian(self):
        """Check that a "constant" Jacobian is constant, and that Jacobians that step 9
        tracks can be combined."""
        problem, (x, other), kind = (
            self.problem,
            self.line[:2],
            self.problem.jacobian_kind,
        )
        batches = [
            problem.inner_batch(draws)
            for draws in (None, *self.draw("inner", (2, BATCH_SIZE)))
        ]
        if kind == "constant":
            for batch in batches:
                a, b = (
                    self.products(problem, problem.jacobian(z, batch), self.V)
                    for z in (x, other)
                )
                self.compare(
                    "jacobian",
                    "J at two points of kind 'constant'",
                    a,
                    b,
                    self.rounding(a),
                )
        if kind != "operator":
            J, J_2 = (
                problem.jacobian(z, batch)
                for z, batch in zip((x, other), batches[1:], strict=True)
            )
            a, b = (self.products(problem, part, self.V) for part in (J, J_2))
            combined = self.products(problem, 0.25 * (J - J_2) + J_2, self.V)
            what = "vjp of a combination of Jacobians and the combination of their vjp"
            self.compare("vjp", what, combined, 0.25 * (a - b) + b, self.rounding(a, b))

    def batches(self):
        """Compare batches with the mean of their components, and the batch None with
        that of all indices."""
        problem, (inner, outer) = (
            self.problem,
            (self.draw(s, (1, BATCH_SIZE))[0] for s in SIDES),
        )
        singles = [
            self.values(problem, inner[k : k + 1], outer[k : k + 1])
            for k in range(BATCH_SIZE)
        ]
        if isinstance(problem, FiniteSumComposition) and problem.by_differences:
            # the rounding of inner is in J, divided by the step
            self.noise["jacobian"] = (
                1000
                * self.eps ** (2 / 3)
                * max(np.abs(v["inner"]).max() for v in singles)
            )
        for name, value in self.values(problem, inner, outer).items():
            parts = np.array([v[name] for v in singles], float)
            what = f"a batch of {BATCH_SIZE} and their mean"
            self.compare(
                name, what, value, parts.mean(0), self.rounding(parts, name=name)
            )
        if isinstance(source_of(problem), FiniteSource):  # which draws with replacement
            repeated = [0, 0, 1, 0]
            values = self.values(problem, inner[repeated], outer[repeated])
            for name, value in values.items():
                parts = np.array([singles[k][name] for k in repeated], float)
                what = "a batch with a repeated component"
                self.compare(
                    name,
                    f"{what} and the mean",
                    value,
                    parts.mean(0),
                    self.rounding(parts, name=name),
                )
        if takes_weights(problem):
            weights = np.array([0.25, 1.75, 0.5, 1.5])
            for name, value in self.values(problem, inner, outer, weights).items():
                parts = np.array([v[name] for v in singles], float)
                mean = weights @ parts / BATCH_SIZE
                what = "a batch with weights and their weighted mean"
                self.compare(name, what, value, mean, self.rounding(parts, name=name))
        plain = problem.source is None
        inner, outer = (
            np.arange(n) if plain else None for n in (problem.n_inner, problem.n_outer)
        )
        full = self.values(problem, None, None)
        for name, value in self.values(problem, inner, outer).items():
            self.compare(
                name,
                "batch None and all indices",
                full[name],
                value,
                self.rounding(value),
            )

    def same_as(self, repeated):
        """Compare a problem with weights with the problem of repeated rows, over all
        components."""
        everywhere = {
            "inner": lambda p, x: p.inner(x, p.inner_batch(None)),
            "objective": lambda p, x: p.objective(x),
            "gradient": lambda p, x: p.gradient(x),
        }
        for name, of in everywhere.items():
            ours, theirs = (
                np.array([of(p, x) for x in self.line])
                for p in (self.problem, repeated)
            )
            if ours.shape != theirs.shape:
                raise ValueError(
                    f"repeated.{name} must have shape {ours.shape[1:]}, got "
                    f"{theirs.shape[1:]}"
                )
            bound = max(1e-10, 1000 * self.eps) * np.abs(theirs).max()
            self.compare(name, "the problem and the repeated one", ours, theirs, bound)

    def draws(self, reference, n_draws):
        """Compare the means over drawn batches with the values of a reference problem
        over all components."""
        full = self.values(reference, None, None)
        for size in (1, BATCH_SIZE):
            wrong = list(self.wrong_means(full, size, n_draws))
            # few draws may have missed a rare component, so repeat with many before
            # failing
            if wrong:
                wrong = list(self.wrong_means(full, size, 10 * n_draws))
            for failure in wrong:
                self.fail(*failure)

    def wrong_means(self, full, size, n_draws):
        """Yield the means over drawn batches that differ from the full values, as
        arguments of `fail`."""
        pairs = zip(*(self.draw(side, (n_draws, size)) for side in SIDES), strict=True)
        values = [self.values(self.problem, *pair) for pair in pairs]
        for name, wanted in full.items():
            entries = directions(self.rng, wanted.size)
            sample = np.array([value[name] for value in values], float) @ entries.T
            mean, deviation = sample.mean(0), sample - sample.mean(0)
            # Bernstein's inequality, whose second term accounts for values that few
            # draws have
            # some comparison fails by chance with a probability of 1e-6
            z = math.sqrt(2 * math.log(2 * len(entries) * 2 * len(full) / 1e-6))
            bound = z * deviation.std(0) / math.sqrt(n_draws)
            bound += z**2 * np.abs(deviation).max(0) / (3 * n_draws) + self.rounding(
                sample, name=name
            )
            # an entry that is equal in all draws may lack a rare component, so only
            # random directions test it
            equal = np.ptp(sample[:, :-N_DIRECTIONS], axis=0) == 0
            bound[:-N_DIRECTIONS][equal] = np.inf
            expected = entries @ wanted
            if (k := worst(mean, expected, bound)) is not None:
                hook = "outer" if name == "outer_gradient" else "inner"
                what = (
                    f"the mean over {n_draws} batches of {size} from draw_{hook} and "
                    "the full one"
                )
                where = (
                    f"entry {k[0]}"
                    if np.count_nonzero(entries[k]) == 1
                    else "a random combination of entries"
                )
                yield name, what, where, mean[k], expected[k], bound[k]
