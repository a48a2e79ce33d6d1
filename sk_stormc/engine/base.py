"""The solvers' base class, with the only loop."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator

from sk_stormc.core.metrics import Metric
from sk_stormc.core.penalties import check_penalty
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.schedules import Slowed, at
from sk_stormc.core.source import source_of
from sk_stormc.engine.probe import curvature
from sk_stormc.engine.results import Record, RunState, SolverResult
from sk_stormc.engine.run import run, warn_if_unconverged
from sk_stormc.engine.steps import Direction, StepRule, direction, land, proximal_point
from sk_stormc.utils.types import ArrayLike, RandomState
from sk_stormc.utils.validation import check_batch_size, check_choice, check_int, check_number, check_schedule, plain

__all__ = ["CompositionalSolver"]

SMALL = 1024  # up to so many components "auto" batches hold all of them
PASSES = 100  # the budget where neither max_iter nor max_ifo is given


class CompositionalSolver(BaseEstimator, ABC):
    """Base class of the methods: `solve` is the only loop, a method is `init_state` and `step`.

    Parameters common to all methods: ``learning_rate``, ``batch_size``, ``max_iter``, ``max_ifo``, ``tol``.
    ``max_iter`` and ``max_ifo`` count from the start of a run, what was done before a resumption included;
    both None mean `safety_net`, 100 passes unless a method says otherwise, a pass being 2 n_inner + n_outer IFO.

    Attributes
    ----------
    confirms : bool
        Whether a stop that rests on estimates is confirmed by one full gradient, which is charged.
    """

    confirms = True

    # for methods that do not have the parameter; else __init__ stores the user's
    learning_rate = "auto"
    batch_size = "auto"
    max_iter = max_ifo = None
    tol = 1e-4

    # what a method is

    @abstractmethod
    def init_state(self, oracle, x):
        """The state at x_0; what it samples is charged.

        Parameters
        ----------
        oracle : Oracle
        x : ndarray of shape (n_variables,)

        Returns
        -------
        MethodState
        """

    @abstractmethod
    def step(self, oracle, s):
        """One iteration of the method's algorithm box, one update of ``s.x``.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState
            Its fields are bound anew; no array is written into.
        """

    def cost(self, oracle, s):
        """IFO of the coming `step`."""
        return oracle.cost(s.batch_size)

    def finish(self, oracle, s):
        """The point to return, from the last state."""
        return s.x

    def prepare(self, oracle, s):
        """What a run needs before anything else: ``s`` is None at the start, the state where a run is resumed."""

    def safety_net(self, oracle, s):
        """Budget of a run that was given none: iterations, and passes.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState

        Returns
        -------
        max_iter, max_passes : float
        """
        return math.inf, PASSES

    def validate(self):
        """Raise a ValueError that names the first parameter that is out of its range."""
        rising = callable(self.learning_rate)  # a schedule may begin at 0
        check_schedule("learning_rate", self.learning_rate, low=0, inclusive=rising, words=("auto",))
        check_batch_size("batch_size", self.batch_size)
        check_int("max_iter", self.max_iter, low=1, words=(None,))
        check_int("max_ifo", self.max_ifo, low=1, words=(None,))
        check_number("tol", self.tol, low=0)

    def needed_to_stream(self):
        """What to set so that the method can run on a stream, where all components are never at hand.

        Returns
        -------
        str
            Empty where it can as it is.
        """
        return ""

    def accept(self, problem):
        """Raise a ValueError where the method cannot run on the problem."""
        if not isinstance(problem, CompositionalProblem):
            raise ValueError(
                "problem must be a CompositionalProblem, such as PortfolioProblem(returns) or "
                f"FiniteSumComposition(...), got {type(problem).__name__}"
            )
        if not source_of(problem).finite and self.needed_to_stream():
            raise ValueError(
                f"{self!r} needs all components at once, which a stream does not have: set {self.needed_to_stream()}"
            )
        check_int(f"{type(problem).__name__}.n_variables", problem.n_variables, low=1)
        check_choice(
            f"{type(problem).__name__}.jacobian_kind", problem.jacobian_kind, ("sampled", "constant", "operator")
        )
        check_penalty(problem.penalty, problem.n_variables)
        metric = problem.metric
        has_prox = metric.has_prox if isinstance(metric, Metric) else np.ndim(metric) < 2
        if problem.penalty is not None and not has_prox:
            raise ValueError("a penalty needs a diagonal metric (or None): its proximal step has no closed form")

    # a run

    def solve(
        self,
        problem: CompositionalProblem,
        x0: ArrayLike | None = None,
        *,
        random_state: RandomState = None,
        state: RunState | None = None,
        record_every: int | None = None,
        on_record: Callable[[Record], object] | None = None,
        verbose: int = 0,
        first_residual: float | None = None,
    ) -> SolverResult:
        """Minimise a problem.

        Parameters
        ----------
        problem : CompositionalProblem
        x0 : array-like of shape (n_variables,), default=None
            Start; None means the problem's own. Projected on the domain of the problem's penalty.
        random_state : int, RandomState instance or None, default=None
        state : RunState, default=None
            Of an earlier result, to go on from; x0 and random_state are then not used, and the step sizes
            and batch sizes are those that the state was begun with.
        record_every : int, default=None
            IFO between two records. None means a pass, or the problem's own default.
        on_record : callable, default=None
            Called with a record (attributes iteration, ifo, fun, x); a true return value stops the run.
        verbose : {0, 1}, default=0
            1 prints a line for each record: iteration, passes, objective, what is compared with tol, seconds.
        first_residual : float, default=None
            What tol is relative to; None means |x~ - x| / eta at x0. Give that of an earlier run (``first_residual`` of
            its state) where x0 is near the optimum already.

        Returns
        -------
        SolverResult

        Raises
        ------
        ValueError
            For a parameter out of range, an x0 or a state that does not fit the problem.

        Warns
        -----
        ConvergenceWarning
            For values that are not finite, an objective that seems unbounded below, a returned point above the start
            or above a recorded one, and a default budget that ended before tol was met.
        """
        solver = copy.copy(self)  # with NumPy's scalars as numbers; what the user has set stays as it is
        for name, value in self.get_params(deep=False).items():
            setattr(solver, name, plain(value))
        solver.validate()
        check_int("record_every", record_every, low=1, words=(None,))
        check_choice("verbose", verbose, (0, 1, False, True))
        if on_record is not None and not callable(on_record):
            raise ValueError(f"on_record must be callable or None, got {on_record!r}")
        solver.accept(problem)
        record_every = plain(record_every)
        return run(solver, problem, x0, random_state, state, record_every, on_record, verbose, first_residual)

    def iterate(self, oracle, s, loop):
        """Make iterations until the loop's bookkeeping has a reason to end."""
        loop.take_stock()
        while loop.reason is None:
            self.step(oracle, s)
            s.t += 1
            loop.take_stock()

    def warn_if_unconverged(self, result):
        """Warn where the run's budget ended before tol was met.

        Parameters
        ----------
        result : SolverResult
        """
        warn_if_unconverged(self, result)

    # what the methods' init_state resolve "auto" with

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, else the problem's, else the solver's rule."""
        value = getattr(self, name)
        if isinstance(value, str) and value == "auto":
            value = problem.defaults.get(name, "auto")
        return rule if isinstance(value, str) and value == "auto" else plain(value)

    def sizes(self, name, oracle, rule, like=None):
        """A batch size as a triple for the oracle.

        Parameters
        ----------
        name : str
            Of the parameter.
        oracle : Oracle
        rule : int or None
            What "auto" is above 1024 components.
        like : tuple, default=None
            The sizes of the steps, for batches of another size: whether the Jacobian is exact follows the steps.

        Returns
        -------
        tuple
            (B_g, B_dg, B_f), None for all components. B_dg = 0 is a constant Jacobian, taken exactly and once.
        """
        problem = oracle.problem
        value = self.auto(name, problem, "auto")
        if isinstance(value, str):
            inner = None if problem.n_inner <= SMALL else rule
            value = (inner, inner, None if problem.n_outer <= SMALL else rule)
            value = (inner, None, value[2]) if problem.jacobian_kind == "constant" else value
        B_g, B_dg, B_f = value if isinstance(value, (tuple, list)) else oracle.source.sizes(value)
        oracle.source.accept(name, (B_g, B_dg, B_f))

        def all_or(size, n):
            return None if size is None or size >= n else int(size)

        if problem.jacobian_kind != "constant":
            B_dg = all_or(B_dg, problem.n_inner)
        elif like is not None and like[1] == 0:
            B_dg = 0
        elif B_dg is None:
            B_dg = 0 if like is None else None
        else:  # a number not below n is all of it at each iteration
            B_dg = min(int(B_dg), problem.n_inner)
        return all_or(B_g, problem.n_inner), B_dg, all_or(B_f, problem.n_outer)

    def step_rule(self, oracle, x, size, factor, schedule=lambda eta: eta, L=None, **limits):
        """How far steps go: the user's learning rate and limits, else the problem's, else the solver's.

        Parameters
        ----------
        oracle : Oracle
        x : ndarray of shape (n_variables,)
        size : tuple
            The steps' batch sizes.
        factor : float
            An automatic learning rate is ``schedule(factor / L)``, L the curvature that a charged probe finds or the
            problem's `expected_smoothness`, if that is larger; a schedule is then slowed by it.
        schedule : callable, default=identity
        L : float, default=None
            The curvature, where it is known.
        **limits
            ``normalization`` and ``precision``, where they are not the problem's.

        Returns
        -------
        StepRule
        """
        defaults, known = oracle.problem.defaults, 0.0
        eta = self.auto("learning_rate", oracle.problem, None)
        if eta is None:
            L = oracle.metric.curvature if L is None else L
            if L is None:
                with oracle.looking_ahead():
                    L = curvature(oracle, x, size)
                known = oracle.problem.expected_smoothness(size, oracle.metric.at(x, 0))
            # a linear objective has no scale: any step goes down, and the run ends at its budget
            eta = schedule(factor / max(L, known) if max(L, known) > 0 else 1.0)
            if known > L and callable(eta):  # so many iterations make one of those that a schedule counts
                eta = Slowed(eta, known)
        elif not callable(eta):
            eta = float(eta)
        own = {name: defaults.get(name) for name in ("normalization", "precision")}
        return StepRule(eta, **own | limits, inertia=defaults.get("inertia", 0.0))

    # what the methods' step goes with

    def move(self, oracle, s, F, x=None):
        """Steps 5 and 6 of Algorithm 1: the next point along F, by the state's rule; sets ``s.residual``.

        Learning rate, metric, penalty, inertia and the limits of a step meet here.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState
            With a ``rule``.
        F : ndarray of shape (n_variables,)
        x : ndarray of shape (n_variables,), default=None
            Where the step begins; None means ``s.x``.

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        problem, rule = oracle.problem, s.rule
        if rule is None:
            raise ValueError(f"the state of {type(self).__name__} must have a rule, from step_rule, for move")
        x = s.x if x is None else x
        eta, precision = at(rule.learning_rate, s.t), at(rule.precision, s.t)
        metric = oracle.metric.at(x, s.t)
        way = direction(problem, metric, x, F, eta)
        s.residual = way.length
        if not rule.inertia:
            return land(problem, metric, x, way, eta, rule.normalization, precision)
        a = 1 - rule.inertia
        q, p = a * way.q, a * way.p
        if s.velocity is not None:
            q, p = q + rule.inertia * s.velocity[0], p + rule.inertia * s.velocity[1]
        way = Direction(math.sqrt(max(float(q.dot(p)), 0.0)), q, p)
        s.velocity = way.q, way.p
        x = land(problem, metric, x, replace(way, target=None), eta, rule.normalization, precision)
        return x if problem.penalty is None else problem.penalty.project(x)

    def proximal_point(self, oracle, s, F):
        """x~ of step 5: where a step from ``s.x`` along F would end if it were not shortened."""
        eta = at(s.rule.learning_rate, s.t)
        return proximal_point(oracle.problem, oracle.metric.at(s.x, s.t), s.x, F, eta)
