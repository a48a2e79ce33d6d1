"""A check of user-defined methods against the contract that `minimize` and the
estimators rely on."""

import warnings
from dataclasses import fields, is_dataclass

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.checks.independent_counts import IndependentCounts
from sk_stormc.checks.return_values import restored
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.schedules import constant, inverse
from sk_stormc.engine import CompositionalSolver, Estimate, Oracle, StopReason, at
from sk_stormc.engine.stopping import point_beside
from sk_stormc.utils.former_names import former_keyword
from sk_stormc.utils.parameters import check_instance, check_int


def check_solver(
    solver: CompositionalSolver,
    problem: CompositionalProblem | None = None,
    *,
    max_iter: int = 24,
    random_state: int = 0,
) -> None:
    """Check that a method fulfils the contract of `CompositionalSolver`, by short runs
    on a problem.

    A run must lower the objective, and stay finite and within the penalty's domain. All
    draws and evaluations must be counted, and the draws must be those that `cost`
    announces, also in a longer run of 20 ``max_iter`` iterations. A step must start at
    the point at which its F was estimated. Results must be bit-for-bit reproducible for
    a given seed, and must not depend on how often a run is recorded, stopped and
    resumed. Budgets must be respected, and a learning rate may be a schedule. Arrays in
    a state or a record must not be written into, and must have the float type of x. The
    method's own gradient, and a run that ends as "converged", are compared with the
    gradient on all data.

    Parameters
    ----------
    solver : CompositionalSolver
    problem : CompositionalProblem, default=None
        None means three portfolios of 1100 periods, with the variance (a constant
        Jacobian) in double and in single precision, and with the entropic risk (u > 0).
    max_iter : int, default=24
        Number of iterations of a run, at least 4.
    random_state : int, default=0

    Raises
    ------
    ValueError
        If the solver does not accept the problem, or violates the contract. The message
        names the method and describes the first violation.

    Examples
    --------
    >>> from sk_stormc import SCGD
    >>> from sk_stormc.checks import check_solver
    >>> check_solver(SCGD())
    >>> class Careless(SCGD):
    ...     def step(self, oracle, s):
    ...         super().step(oracle, s)
    ...         s.x = s.x - 0.01 * oracle.problem.gradient(s.x)
    >>> check_solver(Careless())
    Traceback (most recent call last):
        ...
    ValueError: Careless: n_evaluations['inner'] must be 28832 as evaluated, got 2432
    """
    check_int("max_iter", max_iter, low=4)
    check_int("random_state", random_state, low=0)
    if problem is not None:
        check_instance("problem", problem, CompositionalProblem)
    if not isinstance(solver, CompositionalSolver):
        raise ValueError(f"solver must be a CompositionalSolver, got {solver!r}")
    for one in _portfolios() if problem is None else [problem]:
        SolverCheck(solver, one, max_iter, random_state).run()


def _portfolios():
    # solvers need neither of these modules
    from sk_stormc.datasets.gaussian_returns import make_gaussian_returns
    from sk_stormc.portfolio.compositional import PortfolioProblem

    returns = make_gaussian_returns(1100, 5, mean=0.3, random_state=0)
    single = PortfolioProblem(returns.astype(np.float32))
    return [
        PortfolioProblem(returns),
        PortfolioProblem(returns, 0.5, risk_measure="entropic"),
        single,
    ]


def _arrays(value):
    """All arrays of a state, also those in lists, tuples and dicts of its fields."""
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, np.ndarray):
        return [value]
    if not isinstance(value, (list, tuple)):
        return []
    return [array for part in value for array in _arrays(part)]


class SolverCheck:
    """A solver, a problem, and the checks of runs of the solver on the problem."""

    def __init__(self, solver, problem, max_iter, seed):
        self.solver, self.problem = solver, problem
        self.max_iter, self.seed = max_iter, seed
        self.points = []  # of the last run: (record, copy of its x)
        self.oracle = None  # of the last run
        # of a checked run, by iteration: s.residual, and the smaller true one before or
        # after
        self.lengths = []

    def require(self, good, message):
        if not good:
            raise ValueError(f"{type(self.solver).__name__}: {message}")

    def solve(
        self, counts=None, stop=np.inf, seed=None, state=None, record_every=1, **params
    ):
        """Make a run and check each of its steps. It has max_iter iterations unless a
        parameter changes that."""
        params = {"max_iter": self.max_iter, "max_ifo": None, "tol": 0} | params
        solver = clone(self.solver).set_params(**params)
        given = solver.get_params()
        step, init, move = solver.step, solver.init_state, solver.move
        self.points = points = []

        def look(record):
            points.append((record, record.x.copy()))
            return record.iteration >= stop

        def checked_step(oracle, s):
            arrays = [(array, array.copy()) for array in _arrays(vars(s))]
            x_before, before = s.x, oracle.ifo
            announced = solver.cost(oracle, s)
            paid = oracle.exact_charged
            step(oracle, s)
            drawn = oracle.ifo - before
            first_exact = oracle.exact_charged and not paid
            once = oracle.n_components("inner") if first_exact else 0
            self.require(
                drawn == announced + once,
                f"step must draw the {announced} IFO that cost(oracle, s) announces, "
                f"got {drawn} with batches of {getattr(s, 'batch_size', None)}; "
                "override cost where a step draws other batches, and take a "
                "Jacobian's batch from oracle.draw_jacobian",
            )
            self.require(
                all(np.array_equal(*pair, equal_nan=True) for pair in arrays),
                "step writes into an array of the state; assign a new array to the "
                "field",
            )
            if counts is not None and s.residual is not None:
                least = min(self.length(s, x) for x in (x_before, s.x))
                self.lengths.append((s.residual, least))

        @former_keyword("metric", "preconditioner")
        def checked_move(oracle, s, F, x=None, preconditioner=None):
            used = [e for e in vars(s).values() if isinstance(e, Estimate) and e.F is F]
            self.require(
                all(np.array_equal(e.x, s.x if x is None else x) for e in used),
                "move starts at another point than that at which F was estimated; "
                "call advance with the point that s.x "
                "becomes, or give move the point of F as x=",
            )
            return move(oracle, s, F, x, preconditioner)

        def checked_init(oracle, x):
            if counts is not None:
                counts.count_full_batches(oracle)
            self.oracle, kept = oracle, x.copy()
            s = init(oracle, x)
            self.require(
                np.array_equal(x, kept),
                "init_state writes into x, which is the start of the run; copy it",
            )
            return s

        solver.step, solver.init_state = checked_step, checked_init
        solver.move = checked_move
        with warnings.catch_warnings():
            # a short run need not converge
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = solver.solve(
                self.problem if counts is None else counts.problem,
                random_state=self.seed if seed is None else seed,
                state=state,
                record_every=record_every,
                on_record=look,
            )
        kept = all(value is given[name] for name, value in solver.get_params().items())
        self.require(kept, "solve changes the solver's parameters; use the state")
        return result

    def same(self, ours, theirs, what):
        """Check that all results of two runs are equal to the bit."""
        names = "n_iter", "stop_reason", "n_evaluations", "ifo", "loss_curve", "x"
        for name in names:
            a, b = ours[name], theirs[name]
            message = f"{what} must give the same {name}, got {a}, not {b}"
            self.require(np.array_equal(a, b), message)

    def run(self):
        counts = IndependentCounts(self.problem)
        uninterrupted = self.solve(counts)
        iterates = {record.iteration: x for record, x in self.points}
        self.records(uninterrupted)
        self.counts(uninterrupted, counts)
        self.values(uninterrupted)
        self.claims()
        recorded = list(iterates)
        self.require(
            recorded == list(range(uninterrupted.n_iter + 1)),
            "iterate must call loop.after_iteration in every iteration, got records "
            f"of {recorded}",
        )
        self.same(self.solve(), uninterrupted, "another run with the same random_state")
        rare = self.solve(record_every=10**9)
        message = "record_every must not change the iterates, but it does"
        self.require(np.array_equal(rare.x, uninterrupted.x), message)
        if counts.partial:
            # the last one may be in the same corner of a constraint
            self.solve(seed=self.seed + 1)
            self.require(
                any(
                    (x != iterates.get(record.iteration, x)).any()
                    for record, x in self.points
                ),
                "another random_state must give different iterates: draw from the "
                "oracle",
            )

        k = max(1, uninterrupted.n_iter // 2)
        part = self.solve(max_iter=k)
        good = all(
            np.array_equal(x, iterates[record.iteration]) for record, x in self.points
        )
        self.require(good, "max_iter must not change the iterates before it")
        self.resumed(part, uninterrupted, "max_iter")
        stopped = self.solve(stop=k)
        self.require(
            (stopped.stop_reason, stopped.n_iter) == (StopReason.CALLBACK, k),
            f"on_record must stop the run at iteration {k}, got "
            f"{stopped.stop_reason!r} at {stopped.n_iter}",
        )
        self.resumed(stopped, uninterrupted, "a callback")

        self.schedules(uninterrupted)
        # so long that a method with rare refreshes has some
        self.solve(max_iter=20 * self.max_iter, record_every=10**9)
        spent = int(next(ifo for t, ifo, _ in uninterrupted.state.records if t == k))
        for limit, fit in ((1, 0), (spent, k), (spent - 1, k - 1)):
            budget = self.solve(max_ifo=limit)
            n_iter, ifo = budget.n_iter, budget.ifo[-1]
            self.require(
                n_iter == fit and (limit == 1 or ifo <= limit),
                f"max_ifo={limit} must be used and not exceeded, got ifo {ifo} after "
                f"{n_iter} iterations of {fit} that fit: see the method cost",
            )

    def resumed(self, part, whole, what):
        """Check that a run that continues another one ends as the uninterrupted one."""
        kinds = type(self.problem), Oracle  # which a state must not hold
        refused = {kind: f"it holds a {kind.__name__}" for kind in kinds}
        try:
            state = restored(part.state, refused)
        except Exception as error:  # the user's objects may raise anything
            raise ValueError(
                f"{type(self.solver).__name__}: the state must be picklable, but "
                f"{error}"
            ) from error
        self.same(self.solve(state=state), whole, f"a run resumed after {what}")

    def schedules(self, uninterrupted):
        """Check that the learning rate may be a schedule, if the solver has this
        parameter."""
        if "learning_rate" not in self.solver.get_params():
            return
        rule = uninterrupted.state.state.rule
        eta = 1e-3 if rule is None else at(rule.learning_rate, 0)
        number = self.solve(learning_rate=eta)
        try:
            same = self.solve(learning_rate=constant(eta))
            falling = self.solve(learning_rate=inverse(eta))
        except TypeError as error:
            raise ValueError(
                f"{type(self.solver).__name__}: learning_rate may be a schedule, but "
                f"{error}; use self.move, or at(learning_rate, s.t)"
            ) from error
        self.same(same, number, "a schedule that is constant")
        self.require(
            number.n_iter < 2 or not np.array_equal(falling.x, number.x),
            "a learning_rate that falls must change the iterates: see step_rule and "
            "move",
        )

    def length(self, s, x):
        """|x~ - x| / eta at x from the gradient on all data, which is not counted."""
        F = self.problem.gradient(x)
        return CompositionalSolver.length(self.solver, self.oracle, s, x, F)

    def claims(self):
        """Check that a method does not report residuals that are far too small, or
        convergence too early."""
        own, true = np.mean(self.lengths or [(0.0, 0.0)], axis=0)
        self.require(
            not own < 0.1 * true,
            f"s.residual must be about |x~ - x| / learning_rate, got {own:.3g} on "
            f"average where the gradient on all data says {true:.3g}; self.move sets "
            "it",
        )
        tol = 0.2
        result = self.solve(tol=tol)
        s, penalty = result.state.state, self.problem.penalty
        # with a penalty, length needs a rule
        if result.success and (s.rule is not None or penalty is None):
            x = result.x
            first, last = self.length(s, result.state.start), self.length(s, x)
            beside = point_beside(self.problem, x)
            # from a start near the minimum, only rounding errors may be left
            self.require(
                last <= 2 * tol * first or last <= 1e-2 * self.length(s, beside),
                f"a run with tol={tol} must not end as 'converged' at "
                f"{last / first:.3g} of its first gradient on "
                "all data; let the loop end the run",
            )

    def records(self, result):
        """Check the records: the first is x_0, the last is the result, and each has the
        objective of its x."""
        n = len(result.ifo)
        self.require(
            len(result.loss_curve) == n and result.ifo[0] == 0,
            "ifo and loss_curve must start at x_0",
        )
        message = f"ifo must not decrease, got {result.ifo}"
        self.require((np.diff(result.ifo) >= 0).all(), message)
        self.require(
            1 <= result.n_iter <= self.max_iter,
            f"max_iter={self.max_iter} must allow as many iterations, got "
            f"{result.n_iter}",
        )
        for record, x in self.points:
            message = f"x of iteration {record.iteration} is written into later"
            self.require(np.array_equal(record.x, x), message)
            message = (
                f"fun of iteration {record.iteration} must be the objective of its x"
            )
            self.require(record.fun == self.problem.reported(x), message)
        last = result.loss_curve[-1], self.problem.reported(result.x)
        self.require(
            last == (result.fun,) * 2,
            f"fun must be the objective of x and the last record, got {last}",
        )

    def counts(self, result, counts):
        """Compare the IFO with the draws, and n_evaluations with the evaluations."""
        for kind, number in counts.evaluated.items():
            charged = result.n_evaluations[kind]
            message = f"must be {number} as evaluated, got {charged}"
            self.require(charged == number, f"n_evaluations[{kind!r}] {message}")
        charged = result.ifo[-1]
        message = f"ifo must be {counts.ifo} as drawn, got {charged}"
        self.require(charged == counts.ifo, message)

    def values(self, result):
        """Check that the result is finite, feasible, better than x_0, and of one float
        type."""
        x, dtype = result.x, self.points[0][1].dtype
        finite = np.isfinite([*x, *result.loss_curve]).all()
        self.require(
            finite and result.stop_reason != StopReason.NON_FINITE,
            f"must stay finite, got {result.stop_reason} with fun {result.fun}",
        )
        if self.problem.penalty is not None:
            off = np.abs(self.problem.penalty.project(x) - x).max()
            good = off <= 100 * np.finfo(dtype).eps * np.abs(x).max()
            message = f"x must be in the penalty's domain, got one that is {off} away"
            self.require(good, message)
        self.require(
            result.fun < result.loss_curve[0],
            f"must lower the objective in {self.max_iter} iterations, got "
            f"{result.fun} from {result.loss_curve[0]}",
        )
        for array in [x, *_arrays(vars(result.state.state))]:
            good = array.dtype.kind != "f" or array.dtype == dtype
            message = f"the state must keep the {dtype} of x, got {array.dtype}"
            self.require(good, message)
