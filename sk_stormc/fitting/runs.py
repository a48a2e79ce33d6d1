"""A fit: its runs, the calls of callbacks, and the continuation by `resume`."""

import copy
import math
from functools import wraps
from numbers import Real

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import _get_feature_names

from sk_stormc.engine.oracle import KINDS, Oracle
from sk_stormc.engine.results import MethodState
from sk_stormc.engine.state_tree import fill
from sk_stormc.fitting.compat import open_context, with_callbacks
from sk_stormc.fitting.identity import Progress, callbacks_of, fingerprint, parameters_of
from sk_stormc.solvers import StopReason
from sk_stormc.utils.kept import Kept, contents, in_short
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import F
from sk_stormc.utils.validation import is_integer, seeded

__all__ = ["Fit", "with_fit"]


class Fit:
    """The successive runs of one fit.

    Parameters
    ----------
    estimator : CompositionalEstimator
    solver : CompositionalSolver
        The solver with all its parameters set.
    X, y : array-like
    **metadata : array-like
        Further arguments of `fit` for the samples.

    Attributes
    ----------
    rng : RandomState
        The random numbers of the fit. A resumed fit draws the same numbers again.
    has_callbacks : bool
    """

    def __init__(self, estimator, solver, X, y=None, **metadata):
        self.estimator, self.X, self.y = estimator, X, y
        self.metadata = {name: value for name, value in metadata.items() if value is not None}
        self.before = estimator.__dict__.get("_resumed")
        seed = estimator.random_state if self.before is None else self.before.random_state
        self.rng = seeded(seed)
        data = {"X": X, "y": y if estimator.__sklearn_tags__().target_tags.required else None} | self.metadata
        data["names of X"] = _get_feature_names(X)
        before = {} if self.before is None else self.before.data
        self.progress = Progress(
            type(estimator).__name__,
            parameters_of(estimator, solver),
            {name: fingerprint(value, like=before.get(name)) for name, value in data.items()},
            seed if is_integer(seed) else copy.deepcopy(self.rng),
        )
        if self.before is not None:
            self.before.check(self.progress)
            self.rng = copy.deepcopy(self.rng)  # the saved progress must not change
            self._states = list(self.before.runs)
        else:
            self._states = []
        self._begin()

    @classmethod
    def further(cls, estimator):
        """A fit that adds runs to the estimator's last fit. Callbacks get no data."""
        fit = cls.__new__(cls)
        fit.estimator, fit.X, fit.y, fit.metadata, fit.before, fit._states = estimator, None, None, {}, None, []
        fit.progress = copy.copy(estimator._progress)
        fit.progress.runs, fit.progress.plan = list(fit.progress.runs), list(fit.progress.plan)
        fit.rng = seeded(copy.deepcopy(fit.progress.random_state))
        for _ in fit.progress.runs:  # repeat the draws of these runs
            fit.rng.randint(np.iinfo(np.int32).max)
        fit._begin()
        return fit

    def _begin(self):
        self._context = self._task = self._record = None
        self._opened = False
        self.has_callbacks = bool(callbacks_of(self.estimator))
        self.estimator._fitting = self  # until fit ends: a Checkpoint asks for `so_far`

    def run(self, solver, problem, x0=None, *, attributes=None, show=None, **kwargs):
        """Run the solver, or continue the corresponding run of the resumed fit."""
        number = len(self.progress.runs)
        state = self._states[number] if number < len(self._states) else None
        self._open()
        self._task, self._attributes, self._losses, self._show = None, attributes, [], show
        on_record = show if self._context is None else self._tell
        if state is None:
            result = solver.solve(problem, x0, random_state=self.rng, on_record=on_record, **kwargs)
        else:
            self.rng.randint(np.iinfo(np.int32).max)  # skip the seed that the run had drawn
            if self.before.file is not None:
                state = completed(state, solver, problem, self.before.file)
            self._losses = [fun for _, _, fun in state.records]
            result = solver.solve(problem, state=state, on_record=on_record, **kwargs)
            if result.n_iter > state.state.t:  # the run was not finished, so later runs must be repeated
                del self._states[number + 1 :]
        if result.state is not None:  # an exact method is repeated from its start
            self.progress.runs.append(result.state)
        self._close_task()
        if result.stop_reason == StopReason.INTERRUPTED and not result.n_iter and not number:
            raise KeyboardInterrupt
        return result

    def so_far(self):
        """The progress at the current record, or None if callbacks are not at a record."""
        if self._record is None:
            return None
        now, state = copy.copy(self.progress), self._record.snapshot()
        now.runs = [*self.progress.runs, *([] if state is None else [state])]
        return now

    def end(self):
        """Tell the callbacks that the fit has ended and that the estimator has its fitted attributes."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._seen, reconstruction_attributes={})

    # callbacks

    def _open(self):
        if not self._opened:
            self._opened = True
            routed = get_config()["enable_metadata_routing"]  # without it a scorer only accepts sample_weight
            metadata = {name: value for name, value in self.metadata.items() if routed or name == "sample_weight"}
            self._seen = {"estimator": self.estimator, "X": self.X, "y": self.y, "metadata": metadata or None}
            self._context = open_context(self.estimator) if self.has_callbacks else None
            if self._context is not None:
                self._context.call_on_fit_task_begin(**self._seen)

    def _tell(self, record):
        """Call the callbacks at a record, as the end of a task. Return whether one of them asks to stop."""
        self._losses.append(record.fun)
        if self._show:
            self._show(record)
        if self._task is None:
            if not record.iteration:
                return False
            left = record.n_left()
            expected = math.ceil(left) + 1 if math.isfinite(left) else None
            self._task = self._context.subcontext(task_name="passes", max_subtasks=expected)
            self._task.call_on_fit_task_begin(**self._seen)
            self._told = 0
        self._told += 1
        if self._task.max_subtasks is not None and self._told > self._task.max_subtasks:
            self._task.max_subtasks = None  # there are more passes than expected from the budget
        self._record = record
        task = self._task.subcontext(task_name="pass").call_on_fit_task_begin(**self._seen)
        return task.call_on_fit_task_end(**self._seen, reconstruction_attributes=lambda: self._fitted(record))

    def _fitted(self, record):
        seen = {"loss_curve_": np.array(self._losses), "n_iter_": record.iteration}
        return seen | (self._attributes(record.x) if self._attributes else {})

    def _close_task(self):
        self._record = None
        if self._task is not None:
            self._task.call_on_fit_task_end(**self._seen)
            self._task = None


def with_fit(method: F) -> F:
    """Decorate `fit` so that callbacks are torn down and the progress for `resume` is kept, however it ends."""

    @with_callbacks
    @wraps(method)
    def fit(self, *args, **kwargs):
        try:
            with in_one_thread():
                return method(self, *args, **kwargs)
        except BaseException:  # `resume` can continue after the runs that have ended
            if "_fitting" in vars(self) and self._fitting.progress.runs:
                self._progress = self._fitting.progress
            raise
        finally:
            vars(self).pop("_fitting", None)

    return fit


def completed(state, solver, problem, file):
    """Complete a state from a file with the callables of a fresh state of the solver."""
    oracle = Oracle(problem, 0)
    fresh = MethodState(problem.initial_point(oracle.rng))
    if type(state.state) is not MethodState:  # the run has made more than its start
        with np.errstate(all="ignore"):
            oracle.metric = solver.run_metric(oracle, None)
            fresh = solver.init_state(oracle, fresh.x)
    pairs = {"state": fresh, "best_x": fresh.x, "start": fresh.x, "oracle": oracle.snapshot()}
    for name, like in pairs.items():
        _check_kind(
            f"{file} must have a run of {solver!r} on {problem.description()}, got", name, vars(state)[name], like
        )
    for key, draws in state.oracle["_ahead"].items():
        named = isinstance(key, tuple) and len(key) == 2 and key[0] in KINDS and isinstance(draws, list)
        if not (named and all(isinstance(draw, (np.ndarray, tuple)) for draw in draws)):
            raise ValueError(f"{file} must have draws by kind and size, got {in_short(key)}")
    state = copy.copy(state)
    state.state = fill(state.state, fresh)
    return state


def _check_kind(message, name, found, like):
    """Raise a ValueError if an object, or one of its parts, does not have the type and structure of ``like``."""
    if isinstance(like, np.ndarray):
        same = isinstance(found, np.ndarray) and (found.dtype, found.ndim) == (like.dtype, like.ndim)
    elif isinstance(like, Real):
        same = isinstance(found, Real)
    else:
        same = type(found) is type(like)
    if same and isinstance(like, (dict, tuple)):
        same = len(found) == len(like) and (isinstance(like, tuple) or found.keys() == like.keys())
    if not same or (name in ("x", "best_x", "start") and found.shape != like.shape):
        raise ValueError(f"{message} {name}={in_short(found)}")
    if isinstance(like, tuple):
        parts = {f"{name}[{k}]": pair for k, pair in enumerate(zip(found, like, strict=True))}
    elif isinstance(like, dict):
        parts = {key: (found[key], like[key]) for key in like if key != "_ahead"}
    elif isinstance(like, Kept):
        parts = {key: (part, contents(like)[key]) for key, part in contents(found).items()}
    else:
        return
    for key, (part, other) in parts.items():
        # fields of states may be None or a value, numbers are checked elsewhere, and rates may be slowed down
        compared = part is not None and isinstance(other, (np.ndarray, tuple, Kept)) and not callable(other)
        if compared or isinstance(like, dict):
            _check_kind(message, key, part, other)
