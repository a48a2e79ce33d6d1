"""The state of a run, its records and its result."""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from sk_stormc.engine.steps import StepRule
from sk_stormc.engine.stopping import Stopping


class StopReason:
    """Why a run ended: the values of ``stop_reason``.

    Examples
    --------
    >>> from sk_stormc.engine import StopReason
    >>> StopReason.CONVERGED
    'converged'
    """

    #: |x~ - x| / eta from full gradients fell to tol times its first value, or to
    #: rounding
    CONVERGED = "converged"
    MAX_ITER = "max_iter"  #: max_iter iterations were made
    MAX_IFO = "max_ifo"  #: the next iteration would have exceeded max_ifo
    #: a value was not finite, or |F| above 1/eps times the first; x is the best record
    NON_FINITE = "non_finite"
    #: on a stream, the objective rose above the start, with shorter steps too; x is
    #: the best
    DIVERGED = "diverged"
    #: no step lowers the objective, which is not known to be at its minimum
    NO_DECREASE = "no_decrease"
    EXHAUSTED = "exhausted"  #: the stream has no rows for another iteration
    CALLBACK = "callback"  #: on_record returned a true value
    TIME_LIMIT = "time_limit"  #: the seconds of a portfolio's time_limit ended
    #: Ctrl-C; the state is that after the last complete iteration
    INTERRUPTED = "interrupted"


MESSAGES = {  # messages of a SolverResult, whose status is the index here
    StopReason.CONVERGED: "Converged: the step's length fell to tol times its first "
    "value, or to rounding.",
    StopReason.MAX_ITER: "The budget of iterations ended before tol was met.",
    StopReason.MAX_IFO: "The budget of oracle calls ended before tol was met.",
    StopReason.NON_FINITE: "A value was not finite; x is the best point that was "
    "recorded.",
    StopReason.DIVERGED: "The run went above where it started, with shorter steps too.",
    StopReason.EXHAUSTED: "The stream has no rows for another iteration.",
    StopReason.CALLBACK: "A callback ended the run.",
    StopReason.TIME_LIMIT: "The time limit ended before tol was met.",
    StopReason.INTERRUPTED: "The run was interrupted.",
    StopReason.NO_DECREASE: "No step lowered the objective before tol was met.",
}


@dataclass
class MethodState:
    """The common part of the states of all methods, which assign new arrays and do not
    change arrays in place.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
        The iterate x_t.
    t : int
        Number of iterations so far.
    rule : StepRule or None
        Learning rate and limits of the steps, from `CompositionalSolver.step_rule`.
    velocity : ndarray of shape (n_variables,) or None
        The average of earlier directions, if the steps have inertia.
    residual : float or None
        The last value of |x~ - x| / eta from the method's own F. The stopping rule uses
        it as a hint, and decides by full gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.engine import MethodState
    >>> MethodState(np.zeros(2)).t
    0
    """

    x: np.ndarray
    t: int = field(default=0, kw_only=True)
    rule: StepRule | None = field(default=None, kw_only=True)
    velocity: np.ndarray | None = field(default=None, kw_only=True)
    residual: float | None = field(default=None, kw_only=True)


# standard errors of a mean, of which chance explains fewer, also if it is of t values
SIGNIFICANT = 4.5


@dataclass(repr=False)
class RunState:
    """The state of a run, which can be pickled and resumed: states of the method and
    the oracle, and the records.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> part = minimize(problem, max_iter=2, tol=0, random_state=0)
    >>> whole = minimize(problem, state=part.state, max_iter=4, tol=0)
    >>> bool((whole.x == minimize(problem, max_iter=4, tol=0, random_state=0).x).all())
    True
    """

    method: str
    problem: str = ""  # description of the problem
    state: MethodState | None = None
    oracle: dict | None = None
    # (iteration, ifo, fun)
    records: list[tuple[int, int, float]] = field(default_factory=list)
    best_x: np.ndarray | None = None
    best_fun: float = math.inf
    # x_t at the last two powers of two
    milestones: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    next_record: float = 0
    last_processed: int = -1  # the last iteration that the loop has processed
    first_length: float = 0.0  # the first residual > 0, the scale for overflow
    stopping: Stopping = field(default_factory=Stopping)  # state of the stopping rule
    overflowed: bool = False  # the run cannot continue
    start: np.ndarray | None = None  # x_0
    # on a stream: Phi at x_0 minus that at best_x, over the same rows
    best_gain: float = 0.0
    # on a stream: x at the last record and its place, and how far Phi at records since
    # the last restart was above that at x_0 over later rows, in standard errors
    recorded: tuple[np.ndarray, Any] | None = None
    excesses: list[float] = field(default_factory=list)
    n_restarts: int = 0  # how often a run on a stream has restarted with shorter steps
    t_before_restart: int = 0  # iterations before the last restart
    # of the solver, without its budgets, by `describe`
    parameters: dict[str, str] = field(default_factory=dict)
    random_state: int | None = None  # the seed, if the user gave an integer

    @property
    def t(self):
        """Number of iterations."""
        return self.t_before_restart + self.state.t

    def ends_above_start(self):
        """On a stream, whether the objective at the last iterates was above that at x_0
        on average, by more than chance explains.

        The mean is over the later half of the records, each divided by its standard
        error, so that an iterate that oscillates is seen too.
        """
        later = self.excesses[len(self.excesses) // 2 :]
        return sum(later) > SIGNIFICANT * math.sqrt(len(later)) > 0

    @property
    def first_residual(self):
        """|x~ - x| / eta at x_0 from a full gradient, to which tol is relative. None if
        it was not computed."""
        return self.stopping.first

    def copy(self):
        """A copy of the run, without its oracle, that does not change when the run
        continues."""
        # a shallow copy is enough for arrays, because they are not changed in place
        run = copy.copy(self)
        run.state, run.stopping = copy.deepcopy(self.state), copy.copy(self.stopping)
        run.records, run.excesses = list(self.records), list(self.excesses)
        return run

    def __repr__(self):
        return (
            f"<state of {self.method} on {self.problem} after {self.state.t} "
            "iterations>"
        )


class Recorded:
    """Base class of objects with records of a run that can be plotted: results,
    compared runs and estimators."""

    def recorded(self):
        """The records, for plots.

        Returns
        -------
        dict
            "label" (the class of the solver, or the user's name for the run), "ifo" and
            "objective"; optionally "iterations", "seconds", "gradient", "pass_ifo" (the
            IFO of one pass) and "objective_label".
        """
        raise NotImplementedError


class SolverResult(OptimizeResult, Recorded):
    """The result of a run, a `scipy.optimize.OptimizeResult` with further attributes.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
        The returned point.
    fun : float
        Phi(x), with the penalty R.
    loss_curve : ndarray of shape (n_records,)
        Phi at the records. The first is at x_0 and the last at the returned x.
    ifo : ndarray of shape (n_records,)
        Number of oracle calls (IFO) up to each record. The first is 0 and the last the
        total.
    n_evaluations : dict
        Number of component evaluations by kind: "inner", "jacobian", "outer".
    n_iter, nit : int
        Number of iterations, including those before the run was resumed.
    stop_reason : str
        Why the run ended, a value of `StopReason`.
    success : bool
        Whether the run converged, and not only in comparison with a start far away, of
        which a run warns.
    status : int
        The stop reason as a number; 0 is "converged".
    message : str
        The stop reason in words.
    residual : float
        The quantity that is compared with tol: the last value of |x~ - x| / eta,
        relative to its first value. NaN if it was never computed. For a run that has
        converged, it is the value at x relative to that at x_0, both from full
        gradients.
    n_guarded : int
        Number of entries of estimates of u that left the domain of f and were moved
        back into it.
    state : RunState
        The state of the run, from which another run can continue (argument ``state``).
        It can be pickled and does not contain the data.
    record_iterations : ndarray of shape (n_records,)
        Iteration of each record.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> result = minimize(problem, random_state=0)
    >>> result.success, result.stop_reason, bool(result.fun < result.loss_curve[0])
    (True, 'converged', True)
    """

    x: np.ndarray
    fun: float
    loss_curve: np.ndarray
    ifo: np.ndarray
    n_iter: int
    stop_reason: str
    success: bool
    state: RunState

    def recorded(self):
        """The records, for plots."""
        return {
            "label": self.state.method,
            "ifo": self.ifo,
            "objective": self.loss_curve,
            "iterations": self.record_iterations,
        }


def outcome(n_iter, reason):
    """The entries of a `SolverResult` about the number of iterations and the stop
    reason."""
    return {
        "n_iter": n_iter,
        "nit": n_iter,
        "stop_reason": reason,
        "success": reason == StopReason.CONVERGED,
        "status": list(MESSAGES).index(reason),
        "message": MESSAGES[reason],
    }


def result_of(records, x, reason, *, n_evaluations, state=None, **entries):
    """The `SolverResult` of a run whose last record (iteration, ifo, fun) is at x."""
    iterations, ifo, curve = zip(*records, strict=True)
    result = {
        "x": x,
        "fun": curve[-1],
        "loss_curve": np.array(curve),
        "ifo": np.array(ifo),
        "n_evaluations": n_evaluations,
        **outcome(iterations[-1], reason),
        "residual": math.nan,
        "n_guarded": 0,
        "state": state,
        "record_iterations": np.array(iterations),
    }
    return SolverResult(result | entries)


def changed(result, **entries):
    """A `SolverResult` with some entries changed, and with the entries that depend on
    them."""
    entries = result | entries
    return SolverResult(entries | outcome(entries["n_iter"], entries["stop_reason"]))


def joined(first, last):
    """Join two runs. The second begins at the point at which the first ended, so its
    first record is left out."""
    n_evaluations = {
        kind: count + first.n_evaluations[kind]
        for kind, count in last.n_evaluations.items()
    }
    return changed(
        last,
        n_evaluations=n_evaluations,
        n_iter=first.n_iter + last.n_iter,
        n_guarded=first.n_guarded + last.n_guarded,
        loss_curve=np.append(first.loss_curve, last.loss_curve[1:]),
        ifo=np.append(first.ifo, last.ifo[1:] + first.ifo[-1]),
        record_iterations=np.append(
            first.record_iterations, last.record_iterations[1:] + first.n_iter
        ),
    )


@dataclass(frozen=True)
class Record:
    """A record of a run, with which ``on_record`` is called.

    Attributes
    ----------
    iteration, ifo : int
        Number of iterations and of oracle calls so far.
    fun : float
        Phi(x).
    x : ndarray of shape (n_variables,)
        A copy of the iterate.
    snapshot : callable
        ``snapshot()`` returns the `RunState` at the record, from which another run can
        continue.
    n_left : callable
        ``n_left()`` estimates how many records the budgets leave. It is infinite
        without a budget, and at the start.
    early : bool
        Whether the iterations minimise another objective than fun, as the early
        exaggeration of a map does.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> seen = []
    >>> result = minimize(
    ...     problem, random_state=0, on_record=lambda record: seen.append(record.ifo)
    ... )
    >>> set(seen) <= set(result.ifo.tolist())
    True
    """

    iteration: int
    ifo: int
    fun: float
    x: np.ndarray
    snapshot: Callable | None = field(default=None, repr=False, compare=False)
    n_left: Callable | None = field(default=None, repr=False, compare=False)
    early: bool = field(default=False, repr=False, compare=False)


class Report:
    """The output of verbose=1, a line for each record."""

    def __init__(self, pass_ifo):
        self.pass_ifo, self.start_time = pass_ifo, time.perf_counter()
        print(
            f"{'iteration':>10}{'passes':>10}{'objective':>16}{'residual':>12}{'seconds':>10}"
        )

    def line(self, t, ifo, fun, residual):
        """Print a record. A stream has no passes."""
        passes = (
            f"{ifo / self.pass_ifo:10.2f}"
            if math.isfinite(self.pass_ifo)
            else f"{'-':>10}"
        )
        residual = f"{residual:12.2e}" if math.isfinite(residual) else f"{'-':>12}"
        seconds = time.perf_counter() - self.start_time
        print(f"{t:10d}{passes}{fun:16.8g}{residual}{seconds:10.2f}", flush=True)
