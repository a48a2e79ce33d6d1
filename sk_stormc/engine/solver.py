"""The base class of the methods, with the methods that users call and those that
authors write."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sk_stormc.core.penalties import check_penalty, projected
from sk_stormc.core.preconditioners import Preconditioner
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.schedules import Slowed, at
from sk_stormc.core.source import source_of
from sk_stormc.engine.curvature import curvature
from sk_stormc.engine.loop import DEFAULT_PASSES, run
from sk_stormc.engine.results import Record, RunState, SolverResult
from sk_stormc.engine.steps import (
    Inertia,
    Limit,
    StepRule,
    check_sizes,
    proximal_point,
    step_direction,
)
from sk_stormc.utils.docstrings import inherit_parameters
from sk_stormc.utils.documentation import DocumentationLinkMixin
from sk_stormc.utils.former_names import former_keyword, rename_member
from sk_stormc.utils.parameters import (
    check_batch_size,
    check_callable,
    check_choice,
    check_int,
    check_number,
    check_parameters,
    check_schedule,
    check_verbose,
    is_list,
    is_word,
    plain,
)
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import ArrayLike, Auto, RandomState, Schedule, Size

# number of components up to which "auto" batches contain all of them
MAX_FULL_BATCH = 1024


def check_learning_rate(name, value):
    """Raise a ValueError unless the value is a number > 0, "auto", or a schedule, whose
    first value may be 0."""
    check_schedule(name, value, low=0, inclusive=callable(value), words=("auto",))


def require_prox(has_prox):
    """Raise a ValueError unless a penalty's proximal step has a closed form in the
    preconditioner."""
    if not has_prox:
        raise ValueError(
            "a penalty needs a diagonal preconditioner (or None): its proximal step "
            "has no closed form"
        )


def advised(problem, name):
    """The value that a problem's advice has for a parameter of a method, or "auto" if
    it has none."""
    advice, source = problem.advice, source_of(problem)
    if name == "batch_size" or (name == "init_batch_size" and not advice.tracking):
        return advice.batch_size
    if name in ("learning_rate", "normalization", "precision"):
        value = getattr(advice, name)
        return "auto" if value is None else value
    if name == "momentum" and (source.cumulative or not advice.tracking):
        return 1.0
    if name == "beta" and not advice.tracking:
        return 1.0
    return "auto"


def _check_step(solver, oracle, s, before, returned):
    """Raise a TypeError for a step that returns something, counts the iterations, or
    does not assign a point to s.x."""
    t, x = before
    if returned is not None:
        kind = type(returned).__name__
        what = f"must assign to the fields of s and return None, got {kind}"
    elif s.t != t:
        what = "must not change s.t: the loop counts the iterations"
    elif s.x is x and not t and oracle.has_moved:  # methods may discard a step
        what = "must assign a new array to s.x, the next point: it left that of x_0"
    elif np.shape(s.x) != x.shape:
        what = f"must assign to s.x of shape {x.shape}, got shape {np.shape(s.x)}"
    else:
        return
    raise TypeError(f"{type(solver).__name__}.step {what}")


class CompositionalSolver(DocumentationLinkMixin, BaseEstimator, ABC):
    """Base class of the methods. Users call `solve`.

    Authors write `init_state` and `step`. They may also write `cost`, `finish`,
    `run_preconditioner`, `default_budget`, `needed_to_stream`, `accept`, and `iterate`
    in place of `step`. All other methods are ours: authors call them, and do not
    override them.

    These parameters are common to the methods. A method declares those that it needs in
    its ``__init__``, which only stores them. It inherits their checks, and also their
    descriptions unless its docstring describes them.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        The learning rate eta, or a picklable function of the iteration number. "auto"
        is 0.7 / L, where L is the curvature of minibatches, an estimate whose oracle
        calls are counted.
    batch_size : int, None, tuple of three or "auto", default="auto"
        The batch size B, or (B_g, B_dg, B_f). None means all components, as does an
        integer not smaller than their number. "auto" means all components if there are
        at most 1024, and otherwise 16. A constant Jacobian is then computed exactly,
        once.
    max_iter, max_ifo : int or None, default=None
        Limits on the iterations and on the oracle calls (IFO), counted from the start
        of a run. If both are None, the limit is 100 passes of 2 n_inner + n_outer IFO,
        unless the method or the problem has another one.
        The initial batch and the curvature estimate are always made. If the limits then
        allow no iteration, a warning states their cost.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta has fallen to tol times its value at x_0, where both
        use the gradient on all data. This full gradient is computed, and counted, once
        the method's own estimates have fallen as far on average over a pass. 0 disables
        this test.

    Attributes
    ----------
    checks : dict
        Class attribute. For each parameter, a function of its name and value that
        raises a ValueError if the value is invalid. The checks of the base classes
        apply too.
    instead : str
        The alternative that warnings recommend. Empty if there is none.
    name : str
        The name of the class, by which records and messages call the method.

    Examples
    --------
    Gradient descent, which uses all components at each step:

    >>> from sk_stormc import minimize
    >>> from sk_stormc.engine import ALL, CompositionalSolver, MethodState, start
    >>> class GradientDescent(CompositionalSolver):
    ...     def __init__(self, learning_rate="auto", max_iter=None, tol=1e-4):
    ...         self.learning_rate = learning_rate
    ...         self.max_iter = max_iter
    ...         self.tol = tol
    ...
    ...     def init_state(self, oracle, x):
    ...         return MethodState(x, rule=self.step_rule(oracle, x, ALL, factor=0.7))
    ...
    ...     def step(self, oracle, s):
    ...         s.x = self.move(oracle, s, start(oracle, s.x, ALL).F)
    ...
    ...     def cost(self, oracle, s):
    ...         return oracle.cost(ALL)
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> returns = make_gaussian_returns(
    ...     500, 3, mean=0.1, condition_number=2, random_state=0
    ... )
    >>> problem = PortfolioProblem(returns)
    >>> minimize(problem, GradientDescent(), random_state=0).stop_reason
    'converged'
    """

    checks = {
        "learning_rate": check_learning_rate,
        "batch_size": check_batch_size,
        "max_iter": partial(check_int, low=1, words=(None,)),
        "max_ifo": partial(check_int, low=1, words=(None,)),
        "tol": partial(check_number, low=0),
    }
    instead = "solver='storm-c'"
    name: str
    resumable = True  # a run can continue from the state of an earlier one

    # defaults for methods without the parameter
    learning_rate: float | Schedule | Auto = "auto"
    batch_size: Size = "auto"
    normalization: Any = "auto"
    precision: float | Schedule | Auto | None = "auto"
    max_iter: int | None = None
    max_ifo: int | None = None
    tol: float = 1e-4

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        rename_member(cls, "run_metric", "run_preconditioner")
        cls.name = cls.__name__
        inherit_parameters(cls)

    # you write: these two

    @abstractmethod
    def init_state(self, oracle, x):
        """Compute the state at x_0. Its draws are counted.

        Parameters
        ----------
        oracle : Oracle
        x : ndarray of shape (n_variables,)

        Returns
        -------
        MethodState
        """

    def step(self, oracle, s):
        """Make one iteration of the method's algorithm box, which is one update of
        ``s.x``.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState
            The state, changed by assigning new values to its fields. Arrays must not be
            changed in place. The loop counts the iterations in ``s.t``.

        Returns
        -------
        None
        """
        raise TypeError(
            f"{type(self).__name__} must define step(oracle, s), or iterate(oracle, "
            "s, loop)"
        )

    # you write: these, if the defaults do not fit

    def cost(self, oracle, s):
        """IFO of the next `step`, by default that of three batches of the sizes
        ``s.batch_size``."""
        try:
            size = s.batch_size
        except AttributeError as error:
            raise TypeError(
                f"{type(self).__name__} must define cost(oracle, s), or its state must "
                "have batch_size, the sizes (B_g, B_dg, B_f) of the batches of a step"
            ) from error
        return oracle.cost(size)

    def finish(self, oracle, s):
        """The point that the run returns, from the last state."""
        return s.x

    def run_preconditioner(self, oracle, s):
        """The preconditioner of a run's steps. ``s`` is None at the start, and the
        state of a run that is resumed."""
        return oracle.preconditioner

    def default_budget(self, oracle, s):
        """(max_iter, max_passes) of a run for which neither max_iter nor max_ifo is
        set."""
        return math.inf, DEFAULT_PASSES

    def needed_to_stream(self):
        """The parameters to set so that the method can run on a stream. Empty if there
        are none."""
        return ""

    def accept(self, problem):
        """Raise a ValueError if the method cannot run on the problem."""
        if not isinstance(problem, CompositionalProblem):
            raise ValueError(
                "problem must be a CompositionalProblem, such as "
                "PortfolioProblem(returns) or "
                f"FiniteSumComposition(...), got {type(problem).__name__}"
            )
        if not source_of(problem).finite and self.needed_to_stream():
            raise ValueError(
                f"{self!r} needs all components at once, which a stream does not "
                f"have: set {self.needed_to_stream()}"
            )
        check_int(f"{type(problem).__name__}.n_variables", problem.n_variables, low=1)
        check_choice(
            f"{type(problem).__name__}.jacobian_kind",
            problem.jacobian_kind,
            ("sampled", "constant", "operator"),
        )
        if problem.penalty is not None:
            check_penalty(problem.penalty, problem.n_variables)
            own = problem.preconditioner
            is_object = isinstance(own, Preconditioner)
            require_prox(own.has_prox if is_object else np.ndim(own) < 2)

    def iterate(self, oracle, s, loop):
        """Iterate until the loop has a reason to stop."""
        loop.after_iteration()
        while loop.reason is None:
            before, oracle.has_moved = (s.t, s.x), False
            _check_step(self, oracle, s, before, self.step(oracle, s))
            s.t += 1
            loop.after_iteration()

    # ours: for init_state and step

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, the problem's advice, or the method's
        ``rule``."""
        value = getattr(self, name)
        if is_word(value, "auto"):
            value = advised(problem, name)
        return rule if is_word(value, "auto") else plain(value)

    def sizes(self, name, oracle, rule, like=None):
        """The batch sizes for a problem.

        Parameters
        ----------
        name : str
            Name of the parameter.
        oracle : Oracle
        rule : int, None or tuple
            The value of "auto" with more than 1024 components. A tuple is the value for
            any number of components.
        like : tuple, default=None
            The batch sizes of the steps, if the sizes are for other batches. The
            Jacobian is then exact if it is exact in the steps.

        Returns
        -------
        tuple
            (B_g, B_dg, B_f), with None for all components. B_dg = 0 means a constant
            Jacobian that is computed exactly, once.
        """
        problem, constant = oracle.problem, oracle.problem.jacobian_kind == "constant"
        m, n = problem.n_inner, problem.n_outer
        value = self.auto(name, problem, "auto")
        if isinstance(value, str):
            if isinstance(rule, tuple):
                return rule
            B = None if m <= MAX_FULL_BATCH else rule
            value = B, None if constant else B, None if n <= MAX_FULL_BATCH else rule
        B_g, B_dg, B_f = value if is_list(value) else oracle.source.sizes(value)
        oracle.source.accept(name, (B_g, B_dg, B_f))

        def below(size, n):
            return None if size is None or size >= n else int(size)

        if not constant:
            B_dg = below(B_dg, m)
        elif like is not None and like[1] == 0:
            B_dg = 0
        elif B_dg is None:
            B_dg = 0 if like is None else None
        else:  # a number of at least n means all components at each iteration
            B_dg = min(int(B_dg), m)
        return below(B_g, m), B_dg, below(B_f, n)

    def step_rule(self, oracle, x, size, factor, schedule=lambda eta: eta, L=None):
        """The rule of steps, from the user's learning rate and limits, the problem's
        advice, or the method's default.

        Parameters
        ----------
        oracle : Oracle
        x : ndarray of shape (n_variables,)
        size : tuple
            Batch sizes of the steps.
        factor : float
            An automatic learning rate is ``schedule(factor / L)``, where L is the
            estimated curvature, or the problem's advice on smoothness if that is
            larger. In the latter case a schedule is slowed down.
        schedule : callable, default=identity
            A function that converts a number to a learning rate or a schedule.
        L : float, default=None
            The curvature, if it was estimated before.

        Returns
        -------
        StepRule
        """
        check_sizes(size)
        problem, smoothness = oracle.problem, 0.0
        eta = self.auto("learning_rate", problem, None)
        if eta is None:
            L = oracle.preconditioner.curvature if L is None else L
            if L is None:
                with oracle.looking_ahead():
                    L = curvature(oracle, x, size)
                preconditioner = oracle.preconditioner.at(x, 0)
                smoothness = problem.advice.smoothness(problem, size, preconditioner)
            steepest = max(L, smoothness)
            # for a linear objective any learning rate decreases it, and the run ends at
            # its budget
            eta = schedule(factor / steepest if steepest > 0 else 1.0)
            # slow the schedule down, because shorter steps need more iterations
            if smoothness > L and callable(eta):
                eta = Slowed(eta, smoothness)
        inertia = problem.advice.inertia
        eta = eta if callable(eta) else float(eta)
        return StepRule(eta, self.limit(problem), Inertia(inertia) if inertia else None)

    def limit(self, problem):
        """The `Limit` of steps by ``normalization`` and ``precision``, or the problem's
        advice, or None."""
        normalization = self.auto("normalization", problem, None)
        precision = self.auto("precision", problem, 0.1)
        if normalization is None:
            return None
        precision = precision if callable(precision) else float(precision)
        return Limit(precision, by_block=normalization == "block")

    @former_keyword("metric", "preconditioner")
    def move(self, oracle, s, F, x=None, preconditioner=None):
        """Steps 5 and 6 of Algorithm 1: the next point along F by the state's rule. It
        sets ``s.residual``.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState
            A state with a ``rule``.
        F : ndarray of shape (n_variables,)
        x : ndarray of shape (n_variables,), default=None
            Starting point of the step. None means ``s.x``.
        preconditioner : Preconditioner, default=None
            The preconditioner of this step and its proximal step. None means the
            problem's preconditioner. The residual, which is compared with tol, always
            uses the preconditioner of the problem.

        Returns
        -------
        ndarray of shape (n_variables,)

        Raises
        ------
        ValueError
            If the state has no rule, or the problem's penalty has no proximal step in
            the preconditioner.
        """
        oracle.has_moved = True
        problem, rule = oracle.problem, s.rule
        if rule is None:
            raise ValueError(
                f"the state of {type(self).__name__} must have a rule, from "
                "step_rule, for move"
            )
        x = s.x if x is None else x
        eta, own = at(rule.learning_rate, s.t), preconditioner
        preconditioner = oracle.preconditioner.at(x, s.t)
        direction = step_direction(problem, preconditioner, x, F, eta)  # step 5
        s.residual = direction.length
        if own is not None:
            if problem.penalty is not None:
                require_prox(own.has_prox)
            preconditioner, direction = own, step_direction(problem, own, x, F, eta)
        if rule.inertia is None:
            # step 6
            return rule.next_point(problem, preconditioner, x, direction, eta, s.t)
        s.velocity = rule.average(problem, preconditioner, direction, s.velocity, s.t)
        return projected(problem.penalty, x - eta * s.velocity)

    def length(self, oracle, s, x, F):
        """The residual |x~ - x| / eta at x along F for the stopping rule, in the norm
        of the inverse preconditioner."""
        return self.direction(oracle, s, x, F).length

    def direction(self, oracle, s, x, F):
        """The `Direction` of a step from x along F at the learning rate of the
        state."""
        eta = 1.0 if s.rule is None else at(s.rule.learning_rate, s.t)
        return step_direction(
            oracle.problem, oracle.preconditioner.at(x, s.t), x, F, eta
        )

    def proximal_point(self, oracle, s, F):
        """x~ of step 5 of Algorithm 1: the end of the unshortened step from ``s.x``
        along F."""
        eta = at(s.rule.learning_rate, s.t)
        return proximal_point(
            oracle.problem, oracle.preconditioner.at(s.x, s.t), s.x, F, eta
        )

    # ours: for users

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
            Starting point, which is projected on the domain of the problem's penalty.
            None means the problem's own starting point.
        random_state : int, RandomState instance or None, default=None
            Seed for drawing batches. Results are bit-for-bit reproducible for a given
            seed.
        state : RunState, default=None
            The ``state`` of an earlier result, from which the run continues. Only
            max_iter, max_ifo, tol and verbose may differ from those of that run. x0 and
            random_state may be omitted.
        record_every : int, default=None
            Number of oracle calls (IFO) between two records. None means one pass, or
            the problem's own default.
        on_record : callable, default=None
            Function that is called with each record, which has the attributes
            iteration, ifo, fun and x. The run stops when it returns a true value or
            raises StopIteration.
        verbose : int, default=0
            If positive, print a line for each record: iteration, passes, objective, the
            quantity that is compared with tol, and seconds.
        first_residual : float, default=None
            The value to which tol is relative. None means |x~ - x| / eta at x0. If x0
            is already near the optimum, pass the ``first_residual`` of an earlier run's
            state.

        Returns
        -------
        SolverResult

        Raises
        ------
        ValueError
            If a parameter is out of its range, or x0 or the state does not fit the
            problem, or if a parameter, x0 or random_state differs from that of the run
            to continue.

        Warns
        -----
        ConvergenceWarning
            If values are not finite, if the objective seems to be unbounded below, if
            the returned point is worse than the start or than a recorded point, if the
            default budget ended before tol was met, if max_ifo allows no iteration, if
            x0 is so far away that the run met tol at a higher objective than that of
            the problem's own starting point, or if g(x) is below the problem's
            ``inner_floor``.
        """
        # a copy with NumPy scalars as numbers; the user's object does not change
        solver = copy.copy(self)
        for name, value in self.get_params(deep=False).items():
            setattr(solver, name, plain(value))
        check_parameters(solver)
        check_int("record_every", record_every, low=1, words=(None,))
        check_verbose("verbose", verbose)
        check_callable("on_record", on_record, words=(None,))
        solver.accept(problem)
        record_every = plain(record_every)
        with in_one_thread():
            return run(
                solver,
                problem,
                x0,
                random_state,
                state,
                record_every,
                on_record,
                verbose,
                first_residual,
            )

    def validate(self):
        """Raise a ValueError that names the first parameter that is out of its
        range."""
        check_parameters(self)
