"""What the estimators share: a solver by name or instance, and what a run leaves behind."""

from __future__ import annotations

import math
from functools import update_wrapper
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sk_stormc.engine.ends import warn_if_unconverged
from sk_stormc.engine.results import Recorded
from sk_stormc.fitting.compat import CallbackSupportMixin, callbacks_of
from sk_stormc.fitting.identity import FREE, KeepsFits
from sk_stormc.solvers import SOLVERS, StopReason, get_solver
from sk_stormc.streams.problem import stack
from sk_stormc.utils.docstrings import inherit_attributes, inherit_parameters
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import Array, FloatArray
from sk_stormc.utils.validation import check_choice, check_int, check_number, is_integer, is_word, seeded
from sk_stormc.utils.warnings import warn

__all__ = ["CompositionalEstimator", "only_if", "streams"]


def streams(estimator):
    """Whether the estimator's solver can run on a stream, for `only_if`; an AttributeError says what to set."""
    try:
        solver = get_solver(estimator.solver)
    except ValueError:
        return True  # "lstd" can; partial_fit itself refuses other names, and lists the known ones
    if solver.needed_to_stream():
        raise AttributeError(f"{solver!r} needs all samples at once; for partial_fit set {solver.needed_to_stream()}")
    return True


class only_if:
    """Decorator of a method that an estimator only has if ``check(estimator)`` does not raise an AttributeError.

    As scikit-learn's `available_if`, which however only says that there is no such method, and not why.
    """

    def __init__(self, check):
        self.check = check

    def __call__(self, method):
        self.method = method
        return update_wrapper(self, method)

    def __get__(self, estimator, owner=None):
        if estimator is None:
            return self.method
        self.check(estimator)
        return MethodType(self.method, estimator)


def milestone(n):
    """The last of the numbers 1, 2, ..., 20, 21, 23, ..., each 5 % above the one before, that is not above n."""
    at = min(n, 20)
    while (following := max(at + 1, math.ceil(1.05 * at))) <= n:
        at = following
    return at


class CompositionalEstimator(CallbackSupportMixin, Recorded, BaseEstimator):
    """Base of the estimators, which have a solver, and what a run of it leaves behind.

    The descriptions of parameters and attributes here become part of an estimator's docstring, unless it has its own.
    A class says in ``own_solvers`` which further names its ``solver`` takes, of what it solves without a run of a
    method, and in ``objective_label`` what its loss curve is.

    Parameters
    ----------
    max_iter, tol : default=None
        Passed to the solver. None keeps the solver's own value.
    verbose : {0, 1}, default=0
        1 prints a line for each record.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches. Results are bit-for-bit reproducible for a given seed.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_records,)
        The objective at the records.
    ifo_ : ndarray of shape (n_records,)
        Number of oracle calls (Lemma 3.1) up to each record. ``ifo_[-1]`` is the total.
    n_evaluations_ : dict
        Number of component evaluations by kind: "inner", "jacobian", "outer".
    n_iter_ : int
        Number of iterations.
    stop_reason_ : {"converged", "max_iter", "max_ifo", "non_finite", "diverged", "exhausted", "interrupted"}
        Why the run ended. A callback that ends it gives "callback".
    solver_ : CompositionalSolver
        The solver that was run.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, only for data with string column names.
    """

    _free_to_resume: tuple[str, ...] = FREE
    solver: Any

    own_solvers: tuple[str, ...] = ()
    loss_curve_: FloatArray
    ifo_: Array
    n_iter_: int
    stop_reason_: str
    objective_label = "objective"
    many_minima = False  # whether the objective has local minima, of which L-BFGS finds one

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)
        inherit_attributes(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters. With ``solver__...``, the name of a solver is first replaced by an instance.

        Parameters
        ----------
        **params : dict
            Parameters by name. ``solver`` is set before ``solver__...``, whatever their order.

        Returns
        -------
        self : object
        """
        if "solver" in params:
            super().set_params(solver=params.pop("solver"))
        if isinstance(self.solver, str) and any(name.startswith("solver__") for name in params):
            self.solver = get_solver(self.solver)
        return super().set_params(**params)

    def resume(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Continue the last fit, after a budget, Ctrl-C or a callback ended it.

        Budgets count from the beginning of that fit, so that a fit which its budget ended needs a larger one. The
        result is bit for bit that of an uninterrupted fit. The exception is a map with a larger ``max_iter``: its
        learning rate was 0 at the last iteration, so that it continues as from a new start. An estimator that is not
        fitted continues from the file of its `sk_stormc.callbacks.Checkpoint`.

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
            If there is neither a fit nor the file of one.
        ValueError
            If the data or the parameters are not those of that fit. ``max_iter``, ``tol``, ``verbose``, ``n_jobs`` and
            ``random_state`` may differ; the last is not used. All fitted attributes are kept.
        """
        progress = self.__dict__.get("_progress")
        if progress is None:
            kept = [callback for callback in callbacks_of(self) if isinstance(callback, KeepsFits)]
            progress = kept[-1].load(self) if kept else None
        if progress is None:
            raise NotFittedError(
                f"{type(self).__name__} has no fit to resume: call fit first, or set a Checkpoint whose file exists "
                "with set_callbacks"
            )
        self._resumed = progress
        try:
            return self.fit(X, y, **fit_params)
        finally:
            del self._resumed

    def recorded(self) -> dict:
        """What is known at the records of the run, for a picture of them.

        Returns
        -------
        dict
            As that of `sk_stormc.engine.results.Recorded`.
        """
        solver = self.solver_
        return {
            "label": solver if isinstance(solver, str) else type(solver).__name__,
            "ifo": self.ifo_,
            "objective": self.loss_curve_,
            "iterations": vars(self).get("record_iterations_"),
            "objective_label": self.objective_label,
        }

    def solves_itself(self) -> bool:
        """Whether ``solver`` is a name that only the estimator has, for which no method is run.

        Returns
        -------
        bool
        """
        return is_word(self.solver, *self.own_solvers)

    def _make_solver(self):
        """The solver to run, with all its parameters checked; one of ``own_solvers`` stands for itself."""
        check_int("max_iter", self.max_iter, low=1, words=(None,))
        check_number("tol", self.tol, low=0, words=(None,))
        check_choice("verbose", self.verbose, (0, 1, False, True))
        if self.solves_itself():
            return self.solver
        if self.own_solvers:
            self._check_solver()
        solver = get_solver(self.solver)
        own = {"max_iter": self.max_iter, "tol": self.tol}
        solver.set_params(**{name: value for name, value in own.items() if value is not None})
        solver.validate()
        return solver

    def _check_solver(self):
        """As `get_solver`, with the names of the estimator's own."""
        names = [*SOLVERS, *self.own_solvers]
        if isinstance(self.solver, str):
            check_choice("solver", self.solver, names)
        elif isinstance(self.solver, type):
            raise ValueError(
                f"solver must be an instance or one of {names}, got a class: give {self.solver.__name__}()"
            )

    def _at_once(self, learn):
        """Change a copy, and become what it has become in one assignment: an exception or Ctrl-C leaves no half.

        Parameters
        ----------
        learn : callable
            Called with a copy of the estimator, whose arrays are not written into.

        Returns
        -------
        self : object
        """
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        seeds = self.random_state if isinstance(self.random_state, np.random.RandomState) else None
        before = seeds and seeds.get_state()
        try:
            with in_one_thread():
                learn(new)
        except BaseException:
            if seeds:
                seeds.set_state(before)
            raise
        self.__dict__ = new.__dict__
        return self

    def _stream_on(self, rows, window, open_stream, x0, settles=False):
        """Let the run of a stream go on over more rows. Budgets and tol are for `fit`: a stream has an end of its own.

        Called within `_at_once`. The run has a fork of the stream, so that this one stays as it was if it is given up.

        Parameters
        ----------
        rows : tuple of arrays
        window : int
            The stream's. Until so many rows have come they only wait.
        open_stream : callable
            The `StreamingProblem` of a list of such rows.
        x0 : ndarray or None
            Where the stream starts; None is its own start.
        settles : bool, default=False
            Whether its own start says what the rows say that wait. It is then renewed while they become more.

        Returns
        -------
        SolverResult or None
            None where there are too few rows for an iteration; while rows wait, a result without an iteration.
        """
        solver = self._make_solver().set_params(max_iter=None, max_ifo=None, tol=0)
        first_call = self.__dict__.get("_stream") is None
        stream, state, waiting, x0, seed = (None, None, [], x0, self._seed()) if first_call else self._stream
        short = False
        if stream is None:
            before = sum(part.shape[0] for part, *_ in waiting)
            waiting = [*waiting, tuple(part.copy() for part in rows)]  # the caller may read on into the same array
            n = before + rows[0].shape[0]
            short = n < window
            renewed = settles and x0 is None and milestone(n) > before
            if short and not first_call and not renewed:
                self._stream = None, None, waiting, x0, seed
                return None
            known = waiting
            if short and settles:
                known = [tuple(stack(parts)[: milestone(n)] for parts in zip(*waiting, strict=True))]
            elif short and x0 is None:
                self._warn_that_rows_wait(window)
            stream = open_stream(known)
        elif self.stop_reason_ in (StopReason.NON_FINITE, StopReason.DIVERGED):
            raise ValueError(
                f"partial_fit cannot go on after stop_reason_={self.stop_reason_!r}: begin again with fit or a clone, "
                "and a smaller learning_rate"
            )
        elif type(solver) is not type(self.solver_):
            raise ValueError(
                f"solver must stay {type(self.solver_).__name__} while its stream goes on, got {self.solver!r}: begin "
                "again with fit or a clone"
            )
        else:
            stream = stream.fork()
            stream.feed(*rows)
            if stream.starved():
                self._stream = stream, state, [], None, seed
                return None
        solver.accept(stream)
        result = solver.solve(stream, x0, random_state=seed, state=state, on_record=lambda record: short)
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        self._keep(solver, result)
        self._stream = (None, None, waiting, x0, seed) if short else (stream, result.state, [], None, seed)
        if short:
            self.stop_reason_ = StopReason.EXHAUSTED
        return result

    def _warn_that_rows_wait(self, window):
        warn(
            f"{type(self).__name__} stays where it starts until about {window} rows have come, which give the scale of "
            "the steps: a shorter stream is for fit.",
            ConvergenceWarning,
        )

    def _seed(self):
        """The stream's, drawn at its first call."""
        fixed = is_integer(self.random_state)
        return self.random_state if fixed else seeded(self.random_state).randint(np.iinfo(np.int32).max)

    def _conclude(self, solver, result):
        """Say what a fit that is stored has not reached: a budget that ended it, or Ctrl-C, which is raised again."""
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        if solver.max_iter is not None or solver.max_ifo is not None:  # else the solver has said it
            warn_if_unconverged(solver, result)

    def _keep(self, solver, result, fit=None):
        """Store a result as fitted attributes, and what `resume` needs; a stream ends with it."""
        self._stream = None
        self._progress = None if fit is None else fit.progress
        self.loss_curve_ = result.loss_curve
        self.ifo_ = result.ifo
        self.n_evaluations_ = result.n_evaluations
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.stop_reason
        self.solver_ = solver
