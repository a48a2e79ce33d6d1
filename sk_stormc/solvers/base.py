"""The solvers' base class, with the only loop."""

import copy
import math
import warnings
from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sk_stormc._validation import as_numbers, check_batch_size, check_int, check_number, check_schedule
from sk_stormc.solvers.oracle import Oracle
from sk_stormc.solvers.run import Loop, MethodState, RunState, SolverResult, StopReason, falls_for_ever
from sk_stormc.solvers.steps import cost, curvature, is_exact

__all__ = ["CompositionalSolver"]

SMALL = 1024  # up to so many components "auto" batches hold all of them


class CompositionalSolver(BaseEstimator, ABC):
    """Base class of the methods: `solve` is the only loop, a method is `init_state` and `step`.

    Parameters common to all methods: ``learning_rate``, ``batch_size``, ``max_iter``, ``max_ifo``, ``tol``.
    ``max_iter`` and ``max_ifo`` count from the start of a run, what was done before a resumption included;
    both None mean 100 passes, a pass being 2 n_inner + n_outer IFO.
    """

    # set by the subclasses' __init__, which only store
    learning_rate: object
    batch_size: object
    max_iter: int | None
    max_ifo: int | None
    tol: float

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
            Its fields are rebound; no array is written into.
        """

    def cost(self, oracle, s):
        """IFO of the coming `step`."""
        return cost(oracle, s.batch_size, is_exact(oracle, s.batch_size))

    def finish(self, problem, s):
        """The point to return, from the last state."""
        return s.x

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
        if math.isinf(problem.n_inner) and self.needed_to_stream():
            raise ValueError(
                f"{self!r} needs all components at once, which a stream does not have: set {self.needed_to_stream()}"
            )
        penalty, metric = problem.penalty, problem.metric
        if penalty is not None and np.ndim(metric) == 2:
            raise ValueError("a penalty needs a diagonal metric (or None): its proximal step has no closed form")
        if penalty is not None and hasattr(penalty, "check"):
            penalty.check(problem.n_variables)

    def solve(self, problem, x0=None, *, random_state=None, state=None, record_every=None, on_record=None):
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

        Returns
        -------
        SolverResult

        Raises
        ------
        ValueError
            For a parameter out of range, an x0 or a state that does not fit the problem.
        """
        self.validate()
        check_int("record_every", record_every, low=1, words=(None,))
        self.accept(problem)
        seed = 0 if state is not None else check_random_state(random_state).randint(np.iinfo(np.int32).max)
        oracle = Oracle(problem, seed)
        # overflow is looked for by value and reported once, with what to change
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if state is None:
                x = self._start_point(problem, oracle, x0)
                run = RunState(type(self).__name__, MethodState(x), best_x=x)
                loop = Loop(self, oracle, run, record_every, on_record)
                loop.record(x)
            else:
                run = self._check_state(problem, state)
                oracle.restore(run.oracle)
                loop = Loop(self, oracle, run, record_every, on_record)
            if loop.reason is None:
                if type(run.state) is MethodState:  # nothing was done yet
                    self._begin(oracle, run, loop)
                self.iterate(oracle, run.state, loop)
            return self._result(problem, oracle, run, loop)

    def _begin(self, oracle, run, loop):
        before = oracle.snapshot() if oracle.streaming else None
        try:
            run.state = self.init_state(oracle, run.state.x)
        except EOFError:  # a stream has too few rows as yet
            if before is None:
                raise
            oracle.restore(before)
            loop.reason = StopReason.EXHAUSTED

    def iterate(self, oracle, s, loop):
        """Make iterations while the loop's bookkeeping allows it."""
        while loop.proceed():
            self.step(oracle, s)
            s.t += 1

    def _start_point(self, problem, oracle, x0):
        own = problem.initial_point(oracle.rng)
        x = own if x0 is None else as_numbers("x0", x0, own.dtype)
        if x.shape != (problem.n_variables,):
            raise ValueError(f"x0 must have shape ({problem.n_variables},), got {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"x0 must be finite, got {x[~np.isfinite(x)][0]} at {np.argmin(np.isfinite(x))}")
        return x if problem.penalty is None else problem.penalty.project(x)

    def _check_state(self, problem, state):
        if not isinstance(state, RunState) or state.method != type(self).__name__:
            found = getattr(state, "method", type(state).__name__)
            raise ValueError(f"state must come from a run of {type(self).__name__}, got one of {found}")
        if state.state.x.shape != (problem.n_variables,):
            raise ValueError(
                f"state is of {state.state.x.size} variables, the problem has {problem.n_variables}"
            )
        run = copy.copy(state)  # arrays are never written into, so a copy of what is rebound is enough
        run.state, run.records = copy.deepcopy(state.state), list(state.records)
        return run

    def _result(self, problem, oracle, run, loop):
        run.oracle = oracle.snapshot()
        records, t = list(run.records), run.state.t  # the last record belongs to this stop, not to the state
        if loop.reason == StopReason.NON_FINITE:
            x, fun = run.best_x, run.best_fun
            records = [r for r in records if math.isfinite(r[2])]
            self._warn(
                f"met a value that is not finite at iteration {t}; the best finite iterate (objective {fun:.6g}) is "
                "kept. Decrease learning_rate, use learning_rate='auto', or rescale the data."
            )
        else:
            x = self.finish(problem, run.state) if t else run.state.x
            known = x is run.state.x and records[-1][0] == t
            fun = records[-1][2] if known else problem.objective(x)
            in_vain = loop.reason in (StopReason.MAX_ITER, StopReason.MAX_IFO)
            if in_vain and falls_for_ever(problem, run, x, fun):
                self._warn(
                    f"stops at {fun:.6g} after {oracle.ifo} IFO, while the objective still falls: it seems unbounded "
                    "below. Add a constraint or a penalty, or more samples than variables."
                )
        if not records or records[-1] != (t, oracle.ifo, fun):
            records.append((t, oracle.ifo, fun))
        _, ifo, curve = zip(*records, strict=True)
        return SolverResult(
            x,
            fun,
            np.array(curve),
            np.array(ifo),
            dict(oracle.n_evaluations),
            t,
            loop.reason,
            oracle.n_guarded,
            run,
        )

    def _warn(self, message):
        warnings.warn(f"{type(self).__name__} {message}", ConvergenceWarning, stacklevel=4)

    # what the methods' init_state resolve "auto" with

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, else the problem's, else the solver's rule."""
        value = getattr(self, name)
        if isinstance(value, str) and value == "auto":
            value = problem.defaults.get(name, "auto")
        return rule if isinstance(value, str) and value == "auto" else value

    def sizes(self, name, oracle, rule):
        """A batch size as the triple (B_g, B_dg, B_f), None for all components."""
        problem = oracle.problem
        constant = problem.jacobian_kind == "constant"
        value = self.auto(name, problem, "auto")
        if isinstance(value, str):
            inner = None if problem.n_inner <= SMALL else rule
            value = (inner, None if constant else inner, None if problem.n_outer <= SMALL else rule)
        alone = (value, value, value if problem.samples_outer else None)
        B_g, B_dg, B_f = value if isinstance(value, (tuple, list)) else alone
        if oracle.streaming:
            operator = problem.jacobian_kind == "operator"
            drawn = {B_g, B_g if operator else B_dg, B_f if problem.n_outer > 1 else B_g}
            if None in drawn or len(drawn) > 1:  # kinds of unequal pace would part for ever, and rows pile up between
                raise ValueError(
                    f"{name} must be one number for g, its Jacobian and f on a stream, which has no end and gives "
                    f"them its rows in turn, got {getattr(self, name)!r}"
                )

        def all_or(size, n):
            return None if size is None or size >= n else size

        # of a constant Jacobian None is all once, a number not below n all of it at each iteration
        B_dg = min(B_dg, problem.n_inner) if constant and B_dg else all_or(B_dg, problem.n_inner)
        return all_or(B_g, problem.n_inner), B_dg, all_or(B_f, problem.n_outer)

    def limits(self, problem):
        """normalization and precision of `move` for a method without such parameters: the problem's, or none."""
        return problem.defaults.get("normalization"), problem.defaults.get("precision")

    def step_size(self, oracle, x, size, factor, schedule=lambda eta: eta, L=None):
        """The learning rate: the user's, the problem's, or ``schedule(factor / L)``, L probed if not given."""
        value = self.auto("learning_rate", oracle.problem, None)
        if value is not None:
            return value if callable(value) else float(value)
        if L is None:
            with oracle.looking_ahead():
                L = curvature(oracle, x, size)
        # a linear objective has no scale: any step goes down, and the run ends at its budget
        return schedule(factor / L if L > 0 else 1.0)
