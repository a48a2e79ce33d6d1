"""A fit: its identification, its runs, the calls of callbacks, and its continuation by
`resume`."""

import copy
import math
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import _get_feature_names

from sk_stormc.engine.results import Record, RunState, SolverResult
from sk_stormc.fitting.compat import callbacks_of, open_context, with_callbacks
from sk_stormc.solvers import StopReason
from sk_stormc.utils.descriptions import (
    check_unchanged,
    describe,
    fingerprint,
)
from sk_stormc.utils.parameters import drawn_seed, is_integer, seeded
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import F

# parameters that may change in a resumed fit
FREE = (
    "max_iter",
    "max_ifo",
    "tol",
    "time_limit",
    "verbose",
    "n_jobs",
    "random_state",
    "warm_start",
)


class Method(Protocol):
    """What runs a fit: a solver, or an estimator's own method.

    Attributes
    ----------
    name : str
        The name in records, and in the identification of a fit.
    max_iter, max_ifo : int or None
        The budgets.
    resumable : bool
        Whether `resume` continues from the state of a run. Otherwise it repeats the
        fit, and accepts other data.
    """

    name: str
    max_iter: Any
    max_ifo: Any
    resumable: bool

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters that a resumed fit must have in common, besides `FREE`."""

    def solve(self, problem: Any, x0: Any = None, **kwargs: Any) -> SolverResult:
        """Run the method, or continue the run of a ``state``."""


@dataclass(frozen=True)
class Direct:
    """A `Method` whose solution the estimator computes itself, without a run."""

    name: str
    max_iter = max_ifo = None
    resumable = False

    def get_params(self, deep=True):
        """The parameters: none."""
        return {}


class KeepsFits:
    """Base class of callbacks that save the progress of a fit. `resume` uses the last
    one that was set."""

    def load(self, estimator):
        """The `Progress` of the estimator's fit, or None if there is none."""
        raise NotImplementedError


@dataclass
class Progress:
    """The progress of a fit, and its identification, which is stored when the fit
    begins because data may change later.

    Attributes
    ----------
    estimator : str
        Name of the class.
    parameters : dict
        Texts by `describe` of the parameters that a resumed fit must have in common.
    data : dict
        Fingerprints of the data. Empty for an exact method.
    random_state : int, RandomState or None
        The seed at the beginning of the fit.
    runs : list of RunState
    plan : list
        The planned runs, for estimators that make several.
    """

    estimator: str
    parameters: dict[str, str]
    data: dict[str, str | None]
    random_state: int | np.random.RandomState | None = None
    runs: list[RunState] = field(default_factory=list)
    plan: list = field(default_factory=list)

    def check(self, other):
        """Raise a ValueError if another fit has another estimator, parameters or data.
        The error names them."""
        if self.estimator != other.estimator:
            raise ValueError(
                f"the fit to resume must be one of {other.estimator}, got one of "
                f"{self.estimator}"
            )
        for name in sorted(self.parameters.keys() | other.parameters.keys()):
            before, value = (
                progress.parameters.get(name, "nothing") for progress in (self, other)
            )
            check_unchanged(
                name, before, value, "resume", "other parameters need a new fit"
            )
        for name in other.data | self.data:
            before, value = self.data.get(name), other.data.get(name)
            if name.startswith("names of") and None in (before, value):
                continue  # an array has no names
            if before != value:
                raise ValueError(
                    f"{name} must be the data of the fit to resume, {before}, got "
                    f"{value}"
                )


class Fit:
    """The successive runs of one fit.

    Parameters
    ----------
    estimator : CompositionalEstimator
    progress : Progress
        The identification of the fit, and the runs that it has made.
    rng : RandomState
        The random numbers of the fit. A resumed fit draws the same numbers again.
    before : Progress or None, default=None
        The fit to resume.
    X, y : array-like
        The data, for callbacks.
    **metadata : array-like
        Further arguments of `fit` for the samples.

    Attributes
    ----------
    has_callbacks : bool
    pass_ifo : int
        IFO of a pass over the data of the last run.
    """

    def __init__(
        self, estimator, progress, rng, before=None, X=None, y=None, **metadata
    ):
        self.estimator, self.progress = estimator, progress
        self.rng, self.before = rng, before
        self.X, self.y, self.metadata = X, y, metadata
        self._states = [] if before is None else list(before.runs)
        self._context = self._task = self._show = self.pass_ifo = None
        self._opened, self._losses, self._n_before = False, [], 0
        callbacks = callbacks_of(self.estimator)
        self.has_callbacks = bool(callbacks)
        if any(isinstance(callback, KeepsFits) for callback in callbacks):
            # raise an error for parameters that cannot be compared
            for name, text in progress.parameters.items():
                check_unchanged(name, text, text, "a Checkpoint", "")

    @classmethod
    def of_data(cls, estimator, method, X, y=None, before=None, **metadata):
        """A new fit with all parameters set in the `Method`, or the fit that resumes
        the one before."""
        metadata = {
            name: value for name, value in metadata.items() if value is not None
        }
        seed = estimator.random_state if before is None else before.random_state
        rng = seeded(seed)
        needs_y = estimator.__sklearn_tags__().target_tags.required
        data = {"X": X, "y": y if needs_y else None} | metadata
        data["names of X"] = _get_feature_names(X)
        if not method.resumable:  # other data are no error then
            data = {}
        progress = Progress(
            type(estimator).__name__,
            _described(estimator, method),
            {name: fingerprint(value) for name, value in data.items()},
            seed if is_integer(seed) else copy.deepcopy(rng),
        )
        if before is not None:
            before.check(progress)
            rng = copy.deepcopy(rng)  # the saved progress must not change
        return cls(estimator, progress, rng, before, X, y, **metadata)

    @classmethod
    def if_observed(cls, estimator, method, X, y, before, **metadata):
        """The fit, or None for an exact method that neither callbacks nor `resume` need
        to know of."""
        if not (method.resumable or before or callbacks_of(estimator)):
            return None
        return cls.of_data(estimator, method, X, y, before, **metadata)

    @classmethod
    def further(cls, estimator):
        """A fit that adds runs to the estimator's last fit. Callbacks get no data."""
        progress = copy.copy(estimator._progress)
        progress.runs, progress.plan = list(progress.runs), list(progress.plan)
        rng = seeded(copy.deepcopy(progress.random_state))
        for _ in progress.runs:  # repeat the draws of these runs
            drawn_seed(rng)
        return cls(estimator, progress, rng)

    def run(
        self,
        method,
        problem,
        x0=None,
        *,
        attributes=None,
        show=None,
        n_before=0,
        **kwargs,
    ):
        """Run the `Method`, or continue the corresponding run of the resumed fit.
        Iterations begin after ``n_before``."""
        progress = self.progress
        self.pass_ifo = 2 * problem.n_inner + problem.n_outer
        number = len(progress.runs)
        state = self._states[number] if number < len(self._states) else None
        self._open()
        self._task, self._attributes, self._losses = None, attributes, []
        self._show, self._n_before = show, n_before
        on_record = show if self._context is None else self._notify
        if state is None:
            result = method.solve(
                problem, x0, random_state=self.rng, on_record=on_record, **kwargs
            )
        else:
            # skip the seed that the run had drawn
            drawn_seed(self.rng)
            self._losses = [fun for _, _, fun in state.records]
            result = method.solve(problem, state=state, on_record=on_record, **kwargs)
            # the run was not finished, so later runs must be repeated
            if result.n_iter > state.t:
                del self._states[number + 1 :]
        if result.state is not None:  # an exact method is repeated from its start
            progress.runs.append(result.state)
            # `resume` can continue from here after any end of the fit
            self.estimator._progress = progress
        self._close_task()
        interrupted = result.stop_reason == StopReason.INTERRUPTED
        if interrupted and not result.n_iter and not number:
            raise KeyboardInterrupt
        return result

    def notify(self, iteration, ifo, fun, x, attributes):
        """Call the callbacks at a record of a method that is no solver. Return whether
        one of them stops the fit."""
        self._open()
        self._attributes = attributes
        record = Record(iteration, ifo, float(fun), x, lambda: None, lambda: math.inf)
        return self._context is not None and bool(self._notify(record))

    def end(self):
        """Notify the callbacks that the fit has ended and that the estimator has its
        fitted attributes."""
        self._close_task()
        if self._context is not None:
            self._context.call_on_fit_task_end(
                **self._arguments, reconstruction_attributes={}
            )

    # callbacks

    def _open(self):
        """Begin the root task of the callbacks with the first run."""
        if self._opened:
            return
        self._opened, metadata = True, self.metadata
        # otherwise a scorer only accepts sample_weight
        if not get_config()["enable_metadata_routing"]:
            names = metadata.keys() & {"sample_weight"}
            metadata = {name: metadata[name] for name in names}
        self._arguments = {
            "estimator": self.estimator,
            "X": self.X,
            "y": self.y,
            "metadata": metadata or None,
        }
        self._context = open_context(self.estimator)
        if self._context is not None:
            self._context.call_on_fit_task_begin(**self._arguments)

    def _notify(self, record):
        """Call the callbacks at a record, as the end of a task. Return whether one of
        them stops the fit."""
        self._losses = [] if record.early else [*self._losses, record.fun]
        if self._show:
            self._show(record)
        if self._task is None:
            if not record.iteration:
                return False
            left = record.n_left()
            expected = math.ceil(left) + 1 if math.isfinite(left) else None
            self._task = self._context.subcontext(
                task_name="passes", max_subtasks=expected
            )
            self._task.call_on_fit_task_begin(**self._arguments)
            self._n_passes = 0
        self._n_passes += 1
        expected = self._task.max_subtasks
        if expected is not None and self._n_passes > expected:
            self._task.max_subtasks = None
        task = self._task.subcontext(task_name="pass").call_on_fit_task_begin(
            **self._arguments
        )
        return task.call_on_fit_task_end(
            **self._arguments, reconstruction_attributes=lambda: self._fitted(record)
        )

    def _fitted(self, record):
        """The fitted attributes at a record, which callbacks see, with the progress
        from which `resume` continues."""
        progress, state = copy.copy(self.progress), record.snapshot()
        progress.runs = [*self.progress.runs, *([] if state is None else [state])]
        fitted = {
            "loss_curve_": np.array(self._losses),
            "n_iter_": self._n_before + record.iteration,
            "_progress": progress,
        }
        return fitted | (self._attributes(record.x) if self._attributes else {})

    def _close_task(self):
        """End the task of a run."""
        if self._task is not None:
            self._task.call_on_fit_task_end(**self._arguments)
            self._task = None


def with_fit(method: F) -> F:
    """Decorate the method that fits, so that BLAS has one thread, and callbacks are
    torn down after any end of it."""

    @with_callbacks
    @wraps(method)
    def fit(self, *args, **kwargs):
        with in_one_thread():
            return method(self, *args, **kwargs)

    return fit


# the identification of a fit


def _described(estimator, method):
    """Descriptions of the parameters that a resumed fit must have in common with this
    one."""
    free = (*estimator._free_to_resume, "solver")
    parameters = {
        name: value
        for name, value in vars(estimator).items()
        if name[0] != "_" and name[-1] != "_" and name not in free
    }
    for name, value in method.get_params(deep=False).items():
        if name not in FREE:
            parameters[f"solver__{name}"] = value
    texts = {name: describe(value) for name, value in parameters.items()}
    return {"solver": method.name} | texts
