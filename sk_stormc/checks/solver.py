"""A check of user-defined methods against the contract that `minimize` and the
estimators rely on."""

from __future__ import annotations

import copyreg
import io
import pickle
import warnings
from dataclasses import fields, is_dataclass

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.checks.independent_counts import IndependentCounts
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.schedules import constant, inverse
from sk_stormc.engine import CompositionalSolver, Estimate, Oracle, StopReason, at
from sk_stormc.utils.validation import check_instance, check_int

__all__ = ["check_solver"]


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
        _Check(solver, one, max_iter, random_state).run()


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
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in _arrays(part)]
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        return _arrays(list(value.values()))
    return []


def _refuse(value):
    raise pickle.PicklingError(f"it holds a {type(value).__name__}")


class _Check:
    """A solver, a problem, and the checks of runs of the solver on the problem."""

    def __init__(self, solver, problem, max_iter, seed):
        self.solver, self.problem, self.max_iter, self.seed = (
            solver,
            problem,
            max_iter,
            seed,
        )
        self.points = []  # of the last run: (record, copy of its x)
        self.oracle = None  # of the last run
        # of a checked run, by iteration: s.residual, and the smaller true one before or
        # after
        self.lengths = []

    def require(self, good, message):
        if not good:
            raise ValueError(f"{type(self.solver).__name__}: {message}")

    def solve(
        self,
        counts=None,
        stop=lambda record: False,
        seed=None,
        state=None,
        record_every=1,
        **params,
    ):
        """Make a run and check each of its steps. It has max_iter iterations unless a
        parameter changes that."""
        solver = clone(self.solver).set_params(
            **{"max_iter": self.max_iter, "max_ifo": None, "tol": 0} | params
        )
        given = solver.get_params()
        step = solver.step
        init = solver.init_state
        move = solver.move
        self.points = points = []

        def look(record):
            points.append((record, record.x.copy()))
            return stop(record)

        def checked_step(oracle, s):
            arrays = [(array, array.copy()) for array in _arrays(vars(s))]
            x_before = s.x
            before = oracle.ifo
            announced = solver.cost(oracle, s)
            paid = oracle.exact_charged
            step(oracle, s)
            drawn = oracle.ifo - before
            once = (
                oracle.n_components("inner") if oracle.exact_charged and not paid else 0
            )
            self.require(
                drawn == announced + once,
                f"step must draw the {announced} IFO that cost(oracle, s) announces, "
                f"got {drawn} with batches of "
                f"{getattr(s, 'batch_size', None)}; override cost where a step draws "
                "other batches, and take a "
                "Jacobian's batch from oracle.draw_jacobian",
            )
            good = all(
                np.array_equal(array, kept, equal_nan=True) for array, kept in arrays
            )
            self.require(
                good,
                "step writes into an array of the state; assign a new array to the "
                "field",
            )
            if counts is not None and s.residual is not None:
                self.lengths.append(
                    (s.residual, min(self.length(s, x) for x in (x_before, s.x)))
                )

        def checked_move(oracle, s, F, x=None, metric=None):
            used = [e for e in vars(s).values() if isinstance(e, Estimate) and e.F is F]
            self.require(
                all(np.array_equal(e.x, s.x if x is None else x) for e in used),
                "move starts at another point than that at which F was estimated; "
                "call advance with the point that s.x "
                "becomes, or give move the point of F as x=",
            )
            return move(oracle, s, F, x, metric)

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

        solver.step, solver.init_state, solver.move = (
            checked_step,
            checked_init,
            checked_move,
        )
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
        for name in (
            "n_iter",
            "stop_reason",
            "n_evaluations",
            "ifo",
            "loss_curve",
            "x",
        ):
            a, b = getattr(ours, name), getattr(theirs, name)
            self.require(
                np.array_equal(a, b),
                f"{what} must give the same {name}, got {a}, not {b}",
            )

    def run(self):
        counts = IndependentCounts(self.problem)
        uninterrupted = self.solve(counts)
        iterates = {record.iteration: x for record, x in self.points}
        self.records(uninterrupted)
        self.counts(uninterrupted, counts)
        self.values(uninterrupted)
        self.claims()
        recorded = list(iterates)
        good = recorded == list(range(uninterrupted.n_iter + 1))
        self.require(
            good,
            "iterate must call loop.after_iteration in every iteration, got records "
            f"of {recorded}",
        )
        self.same(self.solve(), uninterrupted, "another run with the same random_state")
        rare = self.solve(record_every=10**9)
        self.require(
            np.array_equal(rare.x, uninterrupted.x),
            "record_every must not change the iterates, but it does",
        )
        if counts.partial:
            # which may end in the same corner of a constraint
            self.solve(seed=self.seed + 1)
            other = any(
                (x != iterates.get(record.iteration, x)).any()
                for record, x in self.points
            )
            self.require(
                other,
                "another random_state must give different iterates: draw from the "
                "oracle",
            )

        k = max(1, uninterrupted.n_iter // 2)
        part = self.solve(max_iter=k)
        good = all(
            np.array_equal(x, iterates[record.iteration]) for record, x in self.points
        )
        self.require(good, "max_iter must not change the iterates before it")
        self.same(
            self.solve(state=self.pickled(part.state)),
            uninterrupted,
            "a run resumed after max_iter",
        )
        stopped = self.solve(stop=lambda record: record.iteration >= k)
        outcome = f"{stopped.stop_reason!r} at {stopped.n_iter}"
        good = (stopped.stop_reason, stopped.n_iter) == (StopReason.CALLBACK, k)
        self.require(
            good, f"on_record must stop the run at iteration {k}, got {outcome}"
        )
        self.same(
            self.solve(state=self.pickled(stopped.state)),
            uninterrupted,
            "a run resumed after a callback",
        )

        self.schedules(uninterrupted)
        # so long that a method with rare refreshes has some
        self.solve(max_iter=20 * self.max_iter, record_every=10**9)
        none = self.solve(max_ifo=1)
        self.require(
            none.n_iter == 0, f"max_ifo=1 must allow no iteration, got {none.n_iter}"
        )
        spent = int(next(ifo for t, ifo, _ in uninterrupted.state.records if t == k))
        for limit, fit in ((spent, k), (spent - 1, k - 1)):
            budget = self.solve(max_ifo=limit)
            outcome = (
                f"ifo {budget.ifo[-1]} after {budget.n_iter} iterations of {fit} that "
                "fit"
            )
            good = budget.ifo[-1] <= limit and budget.n_iter == fit
            self.require(
                good,
                f"max_ifo={limit} must be used and not exceeded, got {outcome}: see "
                "the method cost",
            )

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
            message = (
                f"learning_rate may be a schedule, but {error}; use self.move, or "
                "at(learning_rate, s.t)"
            )
            raise ValueError(f"{type(self.solver).__name__}: {message}") from error
        self.same(same, number, "a schedule that is constant")
        other = number.n_iter < 2 or not np.array_equal(falling.x, number.x)
        self.require(
            other,
            "a learning_rate that falls must change the iterates: see step_rule and "
            "move",
        )

    def length(self, s, x):
        """|x~ - x| / eta at x from the gradient on all data, which is not counted."""
        return CompositionalSolver.length(
            self.solver, self.oracle, s, x, self.problem.gradient(x)
        )

    def claims(self):
        """Check that a method does not report residuals that are far too small, or
        convergence too early."""
        own, true = np.sum(self.lengths, axis=0) if self.lengths else (0.0, 0.0)
        self.require(
            not own < 0.1 * true,
            "s.residual must be about |x~ - x| / learning_rate, got "
            f"{own / len(self.lengths or [1]):.3g} on average "
            "where the gradient on all data says "
            f"{true / len(self.lengths or [1]):.3g}; self.move sets it",
        )
        tol = 0.2
        result = self.solve(tol=tol)
        s, penalty = result.state.state, self.problem.penalty
        if result.success and not (
            s.rule is None and penalty is not None
        ):  # with a penalty, length needs a rule
            first, last = self.length(s, result.state.start), self.length(s, result.x)
            x = result.x
            beside = x + np.where(np.arange(x.size) % 2, -1e-3, 1e-3).astype(
                x.dtype
            ) * abs(x)
            beside = beside if penalty is None else penalty.project(beside)
            # from a start near the minimum, only rounding errors may be left
            self.require(
                last <= 2 * tol * first or last <= 1e-2 * self.length(s, beside),
                f"a run with tol={tol} must not end as 'converged' at "
                f"{last / first:.3g} of its first gradient on "
                "all data; let the loop end the run",
            )

    def pickled(self, state):
        """Pickle and restore a state, which must not contain the problem."""
        pickler = pickle.Pickler(file := io.BytesIO())
        pickler.dispatch_table = copyreg.dispatch_table | dict.fromkeys(
            (type(self.problem), Oracle), _refuse
        )
        try:
            pickler.dump(state)
            return pickle.loads(file.getvalue())
        except Exception as error:  # the user's objects may raise anything
            raise ValueError(
                f"{type(self.solver).__name__}: the state must be picklable, but "
                f"{error}"
            ) from error

    def records(self, result):
        """Check the records: the first is x_0, the last is the result, and each has the
        objective of its x."""
        n = len(result.ifo)
        self.require(
            len(result.loss_curve) == n and result.ifo[0] == 0,
            "ifo and loss_curve must start at x_0",
        )
        self.require(
            (np.diff(result.ifo) >= 0).all(), f"ifo must not decrease, got {result.ifo}"
        )
        good = 1 <= result.n_iter <= self.max_iter
        self.require(
            good,
            f"max_iter={self.max_iter} must allow as many iterations, got "
            f"{result.n_iter}",
        )
        for record, x in self.points:
            self.require(
                np.array_equal(record.x, x),
                f"x of iteration {record.iteration} is written into later",
            )
            good = record.fun == self.problem.reported(x)
            self.require(
                good,
                f"fun of iteration {record.iteration} must be the objective of its x",
            )
        last = result.loss_curve[-1], self.problem.reported(result.x)
        self.require(
            last == (result.fun,) * 2,
            f"fun must be the objective of x and the last record, got {last}",
        )

    def counts(self, result, counts):
        """Compare the IFO with the draws, and n_evaluations with the evaluations."""
        for kind, number in counts.evaluated.items():
            charged = result.n_evaluations[kind]
            self.require(
                charged == number,
                f"n_evaluations[{kind!r}] must be {number} as evaluated, got {charged}",
            )
        self.require(
            result.ifo[-1] == counts.ifo,
            f"ifo must be {counts.ifo} as drawn, got {result.ifo[-1]}",
        )

    def values(self, result):
        """Check that the result is finite, feasible, better than x_0, and of one float
        type."""
        x, dtype = result.x, self.points[0][1].dtype
        good = (
            np.isfinite(x).all()
            and np.isfinite(result.loss_curve).all()
            and result.stop_reason != "non_finite"
        )
        self.require(
            good, f"must stay finite, got {result.stop_reason} with fun {result.fun}"
        )
        if self.problem.penalty is not None:
            off = np.abs(self.problem.penalty.project(x) - x).max()
            good = off <= 100 * np.finfo(dtype).eps * np.abs(x).max()
            self.require(
                good, f"x must be in the penalty's domain, got one that is {off} away"
            )
        down = result.fun < result.loss_curve[0]
        values = f"{result.fun} from {result.loss_curve[0]}"
        self.require(
            down,
            f"must lower the objective in {self.max_iter} iterations, got {values}",
        )
        for array in [x, *_arrays(vars(result.state.state))]:
            good = array.dtype.kind != "f" or array.dtype == dtype
            self.require(
                good, f"the state must keep the {dtype} of x, got {array.dtype}"
            )
