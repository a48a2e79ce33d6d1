"""A check of user-defined problems against the contract that the solvers rely on."""

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
from sk_stormc.core.penalties import penalized
from sk_stormc.core.problem import CompositionalProblem, takes_weights
from sk_stormc.core.source import FiniteSource, source_of
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.utils.parameters import check_instance, check_int, drawn_seed, short
from sk_stormc.utils.types import ArrayLike, RandomState

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
    rng = np.random.default_rng(drawn_seed(random_state))
    check_attributes(problem)
    # values are checked below
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        check = ProblemCheck(problem, x, rng)
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


class ProblemCheck(ReturnValues):
    """The checks that compare values of a problem's methods with one another, in the
    order of `check_problem`."""

    # derivatives

    def products(self, problem, J, V):
        """V @ J."""
        return np.array([problem.vjp(J, v) for v in V.astype(self.dtype)], dtype=float)

    def slopes(self, name, symbol, of, derivative, function, point, scale, **how):
        """Fail if a derivative and central differences of a function disagree."""
        wrong = wrong_slope(derivative, function, point, scale, self.rng, **how)
        if wrong is None:
            return
        (value, variable), *numbers = wrong
        where = f"{symbol}[{variable}]"
        if variable is None:
            where = "its slope along a random direction"
        elif symbol == "J":
            where = f"J[{value}, {variable}]"
        elif "combine" in how:
            is_unit = np.count_nonzero(how["combine"][value]) == 1
            v = f"v the unit vector {value}" if is_unit else "a random v"
            where = f"{where} with {v}"
        where = f"{where} at x = {short(self.x)}"
        self.fail(name, f"{symbol} and central differences of {of}", where, *numbers)

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
        what = "its value with u in two units"
        for name, actual, expected, terms in in_two_units(self.unscaled, self.x):
            bound = self.rounding(expected, *terms)
            self.compare(name, what, actual, expected, bound)

    def derivatives_of_g(self, point, on_a_batch):
        """Compare the Jacobian with differences of inner, and vjp with the Jacobian.
        Compute the scale of u."""
        problem, x, u = self.problem, self.x, self.u
        V = directions(self.rng, u.size).astype(self.dtype)
        samples = [None]
        # on a batch, an operator need not be the derivative of the batch's g
        if on_a_batch and problem.jacobian_kind != "operator":
            samples = [self.draw("inner", (1, BATCH_SIZE))[0], None]
        for draws in samples:
            own = in_power(self.unscaled, power_at(self.unscaled, x, draws))
            batch = problem.inner_batch(draws)
            J = own.jacobian(x, batch)
            products = self.products(problem, J, V)

            def g(z, own=own, batch=batch):
                return own.inner(z, batch)

            if isinstance(J, np.ndarray) and J.shape == (u.size, x.size):
                self.slopes("jacobian", "J", "inner", J, g, x, point.scale)
                bound = 1000 * self.eps * (np.abs(V) @ np.abs(J))
                self.compare("vjp", "vjp(J, v) and J.T @ v", products, V @ J, bound)
            else:
                given = products, g, x, point.scale
                self.slopes("jacobian", "vjp(J, v)", "inner", *given, combine=V)
        # the changes of u over the scale of x, within the domain of f
        short_way = self.eps**0.2
        ways = self.rng.standard_normal((2 * N_DIRECTIONS, x.size))
        change = differences(self.g, x, short_way * point.scale * ways)[0]
        spread = np.abs(change).max(0) / short_way
        spread[spread == 0] = spread.max() or np.abs(u).max() or 1.0
        point.spread = self.above_floor(u, spread)
        away = self.rng.uniform(0.5, 1.0, u.size)
        for _ in range(30):
            point.beside = (u + point.spread * away).astype(self.dtype)
            reach = DIFFERENCE_REACH * point.spread
            if self.defined_around(u, point.spread) and self.defined_around(
                point.beside, reach
            ):
                break
            point.spread = point.spread / 2
        self.V = V[-N_DIRECTIONS:]  # for the products that are compared often

    def above_floor(self, u, spread):
        """The scale of u, so short that u less the scale is in the domain of f."""
        floor = self.problem.inner_floor
        return spread if floor is None else np.minimum(spread, u - floor)

    def defined_around(self, u, spread):
        """Whether f is defined at u and around it. For example, sqrt(u_2 - u_1^2) is
        not defined far from g(x)."""
        signs = np.random.default_rng(0).choice([-0.9, 0.9], (N_DIRECTIONS, u.size))
        around = u + spread * np.vstack([np.zeros(u.size), signs, -signs])
        return all(
            f_is_defined(self.problem, self.x, value)
            for value in around.astype(self.dtype)
        )

    def scattered(self, point):
        """Yield a value of u as far from g(x) as those of single components, if g(x)
        hardly varies with x."""
        problem, x, u = self.problem, self.x, self.u
        draws = self.draw("inner", (2 * BATCH_SIZE, 1))
        parts = [problem.inner(x, problem.inner_batch(draw)) for draw in draws]
        away = np.mean(np.abs(np.array(parts) - u), axis=0, dtype=float)
        away = self.above_floor(u, away)
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
            f_x, f_u = self.gradient_of_f(problem, u, problem.outer_batch(None))
            name = "outer_gradient"

            def in_x(z, u=u):
                return problem.outer(z, u)

            def in_u(z):
                return problem.outer(x, z)

            self.slopes(name, "f_x", "outer in x", f_x[None], in_x, x, point.scale)
            self.slopes(name, "f_u", "outer in u", f_u[None], in_u, u, spread)

        def phi(z):
            return problem.objective(z) - penalized(0.0, R, z)

        f, F = float(problem.outer(x, self.u)), problem.gradient(x)
        terms = np.abs(f_u) @ np.abs(self.u), np.abs(f_x) @ np.abs(x)
        noise = self.rounding(f, *terms, problem.objective(x))
        what = "objective(x) - R(x) and outer(x, g(x))"
        self.compare("objective", what, phi(x), f, noise)
        given = F[None], phi, x, point.scale
        what = "gradient(x)", "objective without R"
        self.slopes("gradient", *what, *given, noise=0.01 * noise)

    # batches

    def gradient_of_f(self, problem, u, batch):
        """f_x, of zeros if it is None, and f_u on an outer batch."""
        f_x, f_u = problem.outer_gradient(self.x, u, batch)
        return np.zeros_like(self.x) if f_x is None else f_x, f_u

    def values(self, problem, inner, outer, *weights):
        """The values on the batches of these draws, as vectors. The vector of the
        Jacobian is V @ J."""
        inner = problem.inner_batch(inner, *weights)
        outer = problem.outer_batch(outer, *weights)
        J = problem.jacobian(self.x, inner)
        return {
            "inner": problem.inner(self.x, inner),
            "jacobian": self.products(problem, J, self.V).ravel(),
            "outer_gradient": np.concatenate(
                self.gradient_of_f(problem, self.beside, outer)
            ),
        }

    def kind_of_jacobian(self):
        """Check that a "constant" Jacobian is constant, and that Jacobians that step 9
        tracks can be combined."""
        problem, (x, other, _) = self.problem, self.line
        draws = self.draw("inner", (2, BATCH_SIZE))
        everything, one, two = map(problem.inner_batch, (None, *draws))

        def of(J):
            return self.products(problem, J, self.V)

        if problem.jacobian_kind == "constant":
            what = "J at two points of kind 'constant'"
            for batch in (everything, one, two):
                a, b = (of(problem.jacobian(z, batch)) for z in (x, other))
                self.compare("jacobian", what, a, b, self.rounding(a))
        if problem.jacobian_kind != "operator":
            J, J_2 = problem.jacobian(x, one), problem.jacobian(other, two)
            a, b, combined = of(J), of(J_2), of(0.25 * (J - J_2) + J_2)
            what = "vjp of a combination of Jacobians and the combination of their vjp"
            self.compare("vjp", what, combined, 0.25 * (a - b) + b, self.rounding(a, b))

    def batches(self):
        """Compare batches with the mean of their components, and the batch None with
        that of all indices."""
        problem = self.problem
        inner, outer = (self.draw(side, (1, BATCH_SIZE))[0] for side in SIDES)
        every = list(range(BATCH_SIZE))
        singles = [self.values(problem, inner[[k]], outer[[k]]) for k in every]
        if isinstance(problem, FiniteSumComposition) and problem.by_differences:
            # the rounding of inner is in J, divided by the step
            size = max(np.abs(values["inner"]).max() for values in singles)
            self.noise["jacobian"] = 1000 * self.eps ** (2 / 3) * size
        # pairs of what is compared: components, and their weights
        batches = {f"a batch of {BATCH_SIZE} and their mean": (every,)}
        if isinstance(source_of(problem), FiniteSource):  # which draws with replacement
            batches["a batch with a repeated component and the mean"] = ([0, 0, 1, 0],)
        if takes_weights(problem):
            weights = np.array([0.25, 1.75, 0.5, 1.5])
            batches["a batch with weights and their weighted mean"] = every, weights
        for what, (rows, *weights) in batches.items():
            values = self.values(problem, inner[rows], outer[rows], *weights)
            for name, value in values.items():
                parts = np.array([singles[k][name] for k in rows], float)
                mean = np.average(parts, 0, *weights)
                self.compare(name, what, value, mean, self.rounding(parts, name=name))
        full, indices = self.values(problem, None, None), (None, None)
        if problem.source is None:
            indices = np.arange(problem.n_inner), np.arange(problem.n_outer)
        for name, value in self.values(problem, *indices).items():
            what = "batch None and all indices"
            self.compare(name, what, full[name], value, self.rounding(value))

    def same_as(self, repeated):
        """Compare a problem with weights with the problem of repeated rows, over all
        components."""
        everywhere = {
            "inner": lambda p, x: p.inner(x, p.inner_batch(None)),
            "objective": lambda p, x: p.objective(x),
            "gradient": lambda p, x: p.gradient(x),
        }
        for name, of in everywhere.items():
            ours = np.array([of(self.problem, x) for x in self.line])
            theirs = np.array([of(repeated, x) for x in self.line])
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
            # few draws may have missed a rare component, so repeat with many before
            # failing
            if list(self.wrong_means(full, size, n_draws)):
                for failure in self.wrong_means(full, size, 10 * n_draws):
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
                side = "outer" if name == "outer_gradient" else "inner"
                what = (
                    f"the mean over {n_draws} batches of {size} from draw_{side} and "
                    "the full one"
                )
                where = "a random combination of entries"
                if np.count_nonzero(entries[k]) == 1:
                    where = f"entry {k[0]}"
                yield name, what, where, mean[k], expected[k], bound[k]
