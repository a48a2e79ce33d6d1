"""Base class of the estimators: a solver by name or instance, and the fitted attributes
of a run."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from sk_stormc.engine.diagnostics import warn_if_unconverged
from sk_stormc.engine.results import Recorded
from sk_stormc.fitting.compat import CallbackSupportMixin, callbacks_of
from sk_stormc.fitting.runs import FREE, KeepsFits
from sk_stormc.solvers import SOLVERS, CompositionalSolver, StopReason, get_solver
from sk_stormc.streams.rows import stack
from sk_stormc.utils.docstrings import inherit_attributes, inherit_parameters
from sk_stormc.utils.documentation import DocumentationLinkMixin
from sk_stormc.utils.parameters import (
    check_choice,
    check_int,
    check_number,
    check_parameters,
    check_verbose,
    drawn_seed,
    is_integer,
    is_word,
    seeded,
)
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import Array, F, FloatArray


def _version():
    """The version of the package."""
    from sk_stormc import __version__  # which is defined after this module

    return __version__


def streams(estimator):
    """Return True if the estimator's solver can run on a stream, or raise an
    AttributeError that names what to set."""
    try:
        solver = get_solver(estimator.solver)
    except ValueError:
        return True  # "lstd", or an unknown name, for which partial_fit raises an error
    if solver.needed_to_stream():
        raise AttributeError(
            f"{solver!r} needs all samples at once; for partial_fit set "
            f"{solver.needed_to_stream()}"
        )
    return True


class only_if:
    """Decorator of a method that an estimator only has if ``check(estimator)`` does not
    raise an AttributeError.

    It is like scikit-learn's `available_if`, but the error explains why the method is
    missing.
    """

    def __init__(self, check):
        self.check = check

    def __call__(self, method: F) -> F:
        self.method = method
        return update_wrapper(self, method)  # type: ignore[return-value]  # the bound method, as __get__ makes it

    def __get__(self, estimator, owner=None):
        if estimator is None:
            return self.method
        self.check(estimator)
        return MethodType(self.method, estimator)


def milestone(n):
    """The largest number <= n of the sequence 1, 2, ..., 20, 21, 23, ..., which grows
    by 5 % from 20 on."""
    at = min(n, 20)
    while (following := max(at + 1, math.ceil(1.05 * at))) <= n:
        at = following
    return at


@dataclass(frozen=True)
class StreamRun:
    """The run of a solver on a stream between two calls of `partial_fit`."""

    seed: int
    x0: Array | None = None
    stream: Any = None  # None as long as there are too few rows to begin
    state: Any = None  # of the run
    waiting: tuple = ()  # the rows before the beginning

    @property
    def n_waiting(self):
        """The number of rows before the beginning."""
        return sum(part.shape[0] for part, *_ in self.waiting)

    def with_waiting(self, rows):
        """The run with further rows before the beginning, which are copied, because
        callers may reuse arrays."""
        return replace(
            self, waiting=(*self.waiting, tuple(part.copy() for part in rows))
        )

    def first_waiting(self, n):
        """The first n rows, as the only batch of a stream."""
        columns = map(stack, zip(*self.waiting, strict=True))
        return [tuple(part[:n] for part in columns)]


class CompositionalEstimator(
    CallbackSupportMixin, Recorded, DocumentationLinkMixin, BaseEstimator
):
    """Base class of the estimators with a parameter ``solver``.

    An estimator's docstring inherits these descriptions of parameters and attributes,
    unless it has its own. As in solvers, the class attribute ``checks`` is a table of
    functions that check parameters. ``own_solvers`` lists further names for ``solver``
    that denote the estimator's own methods, among them "auto". ``objective_label`` is
    the name of the loss for plots.

    Parameters
    ----------
    max_iter : int, default=None
        Maximum number of iterations, passed to the solver. None keeps the solver's own
        value.
    tol : float, default=None
        Tolerance, passed to the solver. None keeps the solver's own value.
    verbose : int, default=0
        If positive, print a line for each record. Exact solutions of values, and calls
        of `partial_fit`, have one line.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches. Results are bit-for-bit reproducible for a given seed.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_records,)
        The objective at the records.
    ifo_ : ndarray of shape (n_records,)
        Number of oracle calls (IFO, Lemma 3.1) up to each record. ``ifo_[-1]`` is the
        total.
    n_evaluations_ : dict
        Number of component evaluations by kind: "inner", "jacobian", "outer".
    n_iter_ : int
        Number of iterations.
    stop_reason_ : {"converged", "max_iter", "max_ifo", "non_finite", \
            "diverged", "exhausted", "no_decrease", "interrupted", "callback", \
            "time_limit"}
        Why the run ended. "callback" means that a callback ended it, and "time_limit"
        that the ``time_limit`` of a portfolio did.
    solver_ : CompositionalSolver or str
        The solver that was run, or the name of one of the estimator's own methods.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, only for data with string column names.
    """

    checks: dict[str, Callable] = {
        "max_iter": partial(check_int, low=1, words=(None,)),
        "tol": partial(check_number, low=0, words=(None,)),
        "verbose": check_verbose,
        "random_state": lambda name, value: seeded(value),
    }
    _free_to_resume: tuple[str, ...] = FREE
    solver: Any

    own_solvers: tuple[str, ...] = ()
    loss_curve_: FloatArray
    ifo_: Array
    n_iter_: int
    stop_reason_: str
    # what `partial_fit` continues from: a `StreamRun`, or sums over the rows so far
    _stream: Any = None
    _progress: Any = None  # of the last fit, from which `resume` continues
    _pass_ifo: Any = None
    objective_label = "objective"
    many_minima = False  # whether the objective has many local minima

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)
        inherit_attributes(cls)

    def __getstate__(self):
        return {**super().__getstate__(), "_sk_stormc_version": _version()}

    def __setstate__(self, state):
        """Restore a pickle of this minor version. Others have other attributes."""
        state = dict(state)
        written, now = state.pop("_sk_stormc_version", "0.4 or older"), _version()
        if written.split(".")[:2] != now.split(".")[:2]:
            raise ValueError(
                f"{type(self).__name__} must be pickled by sk_stormc "
                f"{'.'.join(now.split('.')[:2])}, got a pickle of version {written}. "
                "Fit again, or read it with that version"
            )
        super().__setstate__(state)

    def set_params(self, **params: Any) -> Self:
        """Set parameters. With ``solver__...``, the name of a solver is first replaced
        by an instance.

        "auto" is replaced by an instance of "storm-c". The estimator's other own
        methods, such as an exact one, have no parameters of their own.

        Parameters
        ----------
        **params : dict
            Parameters by name. ``solver`` is set before ``solver__...``, in any order
            of the arguments.

        Returns
        -------
        self : object
        """
        if "solver" in params:
            super().set_params(solver=params.pop("solver"))
        nested = [name for name in params if name.startswith("solver__")]
        solver: Any = self.solver
        if isinstance(solver, str) and nested:
            if self.own_solvers:
                self._check_solver()
            own: Any = self.solves_itself()
            if own and solver != "auto":
                raise ValueError(
                    f"{nested[0]} cannot be set with solver={solver!r}, which has "
                    "no parameters of its own: set solver to one of "
                    f"{', '.join(map(repr, SOLVERS))} first"
                )
            name: Any = "storm-c" if own else solver
            self.solver = get_solver(name)
        return super().set_params(**params)

    def resume(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Continue the last fit after a budget, Ctrl-C or a callback has ended it.

        Budgets count from the beginning of that fit, so a fit that was ended by its
        budget needs a larger one. The result is bit for bit that of an uninterrupted
        fit. The exception is a map with a larger ``max_iter``: its learning rate was 0
        at the last iteration, so it continues with a new schedule. An estimator that is
        not fitted continues from the file of its `sk_stormc.callbacks.Checkpoint`.

        Parameters
        ----------
        X, y : array-like
            The data of that fit.
        **fit_params
            The further arguments of that fit.

        Returns
        -------
        self : object

        Raises
        ------
        NotFittedError
            If there is neither a fit nor a checkpoint file.
        ValueError
            If the data or the parameters are not those of that fit. ``max_iter``,
            ``tol``, ``verbose``, ``n_jobs`` and ``random_state`` may differ; the last
            is not used. The fitted attributes are then unchanged. Exact methods of
            portfolios begin again, so they accept other data.
        """
        progress = self._progress
        kept = [one for one in callbacks_of(self) if isinstance(one, KeepsFits)]
        if progress is None and kept:
            progress = kept[-1].load(self)
        if progress is None:
            raise NotFittedError(
                f"{type(self).__name__} has no fit to resume: call fit first, or set a "
                "Checkpoint whose file exists with set_callbacks"
            )
        return self._fit(X, y, before=progress, **fit_params)

    def recorded(self) -> dict:
        """The records of the run, for plots.

        Returns
        -------
        dict
            The keys are described in `sk_stormc.engine.results.Recorded`.
        """
        solver = self.solver_
        return {
            "label": solver if isinstance(solver, str) else solver.name,
            "ifo": self.ifo_,
            "objective": self.loss_curve_,
            "iterations": vars(self).get("record_iterations_"),
            # None for streams, which have no passes
            "pass_ifo": self._pass_ifo,
            "objective_label": self.objective_label,
        }

    def solves_itself(self) -> bool:
        """Whether ``solver`` is the name of one of the estimator's own methods, for
        which no solver is run.

        Returns
        -------
        bool
        """
        return is_word(self.solver, *self.own_solvers)

    def _check_parameters(self):
        """Raise a ValueError for the first parameter that is out of its range."""
        check_parameters(self)
        if self.own_solvers:
            self._check_solver()

    def _make_solver(self):
        """The solver to run, with checked parameters. One of ``own_solvers`` is
        returned as its name."""
        self._check_parameters()
        if self.solves_itself():
            return self.solver
        return self._with_budget(get_solver(self.solver))

    def _with_budget(self, solver):
        """The solver with the estimator's own max_iter and tol."""
        for name in ("max_iter", "tol"):
            value = getattr(self, name)
            if value is not None:
                solver.set_params(**{name: value})
        solver.validate()
        return solver

    def _stepping_solver(self):
        """The solver of a stream or of runs, where "auto" is "storm-c"."""
        solver = self._make_solver()
        if isinstance(solver, str):
            return self._with_budget(get_solver("storm-c"))
        return solver

    def _check_solver(self):
        """Check ``solver`` like `get_solver`, but with the estimator's own names in the
        error."""
        names = [*SOLVERS, *self.own_solvers]
        if isinstance(self.solver, str):
            check_choice("solver", self.solver, names)
        elif isinstance(self.solver, type):
            raise ValueError(
                f"solver must be an instance or one of {names}, got a class: give "
                f"{self.solver.__name__}()"
            )
        elif not isinstance(self.solver, CompositionalSolver):
            raise ValueError(
                f"solver must be a solver or one of {names}, got {self.solver!r}"
            )

    def _at_once(self, learn):
        """Change a copy, and then take over its attributes at once, so that an
        exception or Ctrl-C changes nothing."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        before = copy.deepcopy(self.random_state)
        try:
            with in_one_thread():
                learn(new)
        except BaseException:
            if isinstance(before, np.random.RandomState):
                self.random_state.set_state(before.get_state())
            raise
        self.__dict__ = new.__dict__
        self._report_result()
        return self

    def _stream_on(self, rows, window, open_stream, x0):
        """Continue the run of a stream on more rows, or begin it if there are
        ``window`` rows. Return its result, or None if nothing was run.

        Budgets and tol are not used, because a run ends with its rows. This is called
        within `_at_once`.
        """
        solver = self._stepping_solver().set_params(max_iter=None, max_ifo=None, tol=0)
        run = StreamRun(self._seed(), x0) if self._stream is None else self._stream
        if run.stream is not None:
            return self._continue_stream(solver, run, rows)
        before, run = run.n_waiting, run.with_waiting(rows)
        n = run.n_waiting
        if n >= window:
            return self._run_stream(solver, run, open_stream(run.waiting))
        # the starting point may depend on the rows, as that of values does
        is_new, n_known, result = self._stream is None, milestone(n), None
        if is_new or (run.x0 is None and n_known > before):
            stream = open_stream(run.first_waiting(n_known))
            result = self._run_stream(solver, run, stream, only_start=True)
        self._stream = run
        return result

    def _continue_stream(self, solver, run, rows):
        """Continue a run on a fork of its stream, so that the stream itself does not
        change if an exception is raised."""
        if self.stop_reason_ in (StopReason.NON_FINITE, StopReason.DIVERGED):
            raise ValueError(
                f"partial_fit cannot go on after stop_reason_={self.stop_reason_!r}: "
                "begin again with fit or a clone, and a smaller learning_rate"
            )
        if type(solver) is not type(self.solver_):
            raise ValueError(
                f"solver must stay {self.solver_.name} while its stream goes on, got "
                f"{self.solver!r}: begin again with fit or a clone"
            )
        stream = run.stream.fork()
        stream.feed(*rows)
        if not stream.starved():
            return self._run_stream(solver, run, stream)
        self._stream = replace(run, stream=stream)
        return None

    def _run_stream(self, solver, run, stream, only_start=False):
        """Run the solver on a stream, or only determine its starting point. The results
        become fitted attributes."""
        solver.accept(stream)
        result = solver.solve(
            stream,
            run.x0,
            random_state=run.seed,
            state=run.state,
            on_record=lambda record: only_start,
        )
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        self._keep(solver, result)
        self._stream = StreamRun(run.seed, stream=stream, state=result.state)
        if only_start:
            self.stop_reason_ = StopReason.EXHAUSTED
        return result

    def _report_result(self):
        """Print the output of verbose=1 for a result that was computed at once, if
        there is one."""
        if self.verbose and "loss_curve_" in vars(self):
            solver = self.recorded()["label"]
            print(
                f"{type(self).__name__}: {solver}, n_iter={self.n_iter_}, "
                f"{self.objective_label} {self.loss_curve_[-1]:.8g} "
                f"({self.loss_curve_[0]:.8g} at the start), {self.stop_reason_}",
                flush=True,
            )

    def _seed(self):
        """The seed of a stream, which is drawn at its first call."""
        if is_integer(self.random_state):
            return self.random_state
        return drawn_seed(self.random_state)

    def _conclude(self, method, result, instead=""):
        """After the result is stored, warn if a budget ended the fit, or raise
        KeyboardInterrupt again."""
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        # without a limit the solver has warned
        if (method.max_iter, method.max_ifo) != (None, None):
            warn_if_unconverged(method, result, instead)

    def _keep(self, method, result, fit=None):
        """Store the result of a `Method` as fitted attributes, and the progress for
        `resume`. This ends a stream."""
        self._stream = None
        self._progress = fit and fit.progress
        self._pass_ifo = fit and fit.pass_ifo
        self.loss_curve_ = result.loss_curve
        self.ifo_ = result.ifo
        self.n_evaluations_ = result.n_evaluations
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.stop_reason
        is_solver = isinstance(method, CompositionalSolver)
        self.solver_ = method if is_solver else method.name
