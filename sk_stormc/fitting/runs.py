"""One fit: its runs, what callbacks see of them, and what `resume` needs to go on."""

import copy
import math
import zlib
from dataclasses import dataclass, field
from functools import wraps
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from sk_stormc.engine.oracle import Oracle
from sk_stormc.engine.state_file import fill, has_missing
from sk_stormc.fitting.compat import open_context, with_callbacks
from sk_stormc.solvers import StopReason
from sk_stormc.streams.mapped import MappedRows
from sk_stormc.utils.validation import seeded

__all__ = ["Fit", "Progress", "with_fit"]

FREE = ("max_iter", "max_ifo", "tol", "verbose", "n_jobs", "random_state", "warm_start")  # a resumed fit may change
SAMPLE = 2**14  # numbers of the data by which they are recognised


@dataclass
class Progress:
    """What a fit has done, and by what it is recognised as the same."""

    estimator: str
    asked: object  # parameters by name, in words; or a function that makes these, as most fits never need them
    data: dict
    random_state: object = None  # as it was when the fit began; an int stays one
    runs: list = field(default_factory=list)  # the `RunState` of each

    @property
    def parameters(self):
        """By name, in words."""
        if callable(self.asked):
            self.asked = self.asked()
        return self.asked

    def __getstate__(self):
        return vars(self) | {"asked": self.parameters}

    def check(self, other):
        """Raise where another fit has another estimator, other parameters or other data, and name them."""
        if self.estimator != other.estimator:
            raise ValueError(f"the fit to resume must be one of {other.estimator}, got one of {self.estimator}")
        for name in sorted(self.parameters.keys() | other.parameters.keys()):
            before, now = (progress.parameters.get(name, "nothing") for progress in (self, other))
            if before != now:
                raise ValueError(f"{name} must stay {before} for resume, got {now}: other parameters need a new fit")
        for name in other.data | self.data:
            before, now = self.data.get(name), other.data.get(name)
            if before != now:
                raise ValueError(f"{name} must be the data of the fit to resume, {before}, got {now}")


class Fit:
    """The runs of one fit, one behind the other.

    Parameters
    ----------
    estimator : CompositionalEstimator
    solver : CompositionalSolver
        With all its parameters set.
    X, y : array-like
    **metadata : array-like
        Of the samples, as `fit` was given them.

    Attributes
    ----------
    rng : RandomState
        What the fit draws from; a resumed one draws what was drawn before.
    has_callbacks : bool
    """

    def __init__(self, estimator, solver, X, y=None, **metadata):
        self.estimator, self.X, self.y = estimator, X, y
        self.metadata = {name: value for name, value in metadata.items() if value is not None}
        self.before = estimator.__dict__.get("_resumed")
        seed = estimator.random_state if self.before is None else self.before.random_state
        self.rng = seeded(seed)
        data = {"X": X, "y": y if estimator.__sklearn_tags__().target_tags.required else None} | self.metadata
        self.progress = Progress(
            type(estimator).__name__,
            estimator._lasting_parameters(solver),
            {name: fingerprint(value) for name, value in data.items()},
            seed if isinstance(seed, Integral) else copy.deepcopy(self.rng),
        )
        if self.before is not None:
            self.before.check(self.progress)
            self.rng = copy.deepcopy(self.rng)  # what is kept stays as it was
            self._states = list(self.before.runs)
        else:
            self._states = []
        self._context = self._task = self._record = None
        self.has_callbacks = bool(getattr(estimator, "_skl_callbacks", None))
        estimator._fitting = self  # until fit ends: a Checkpoint asks for `so_far`

    def run(self, solver, problem, x0=None, *, attributes=None, show=None, **kwargs):
        """Solve; or go on from the run that the resumed fit had here.

        Parameters
        ----------
        solver : CompositionalSolver
        problem : CompositionalProblem
        x0 : ndarray of shape (n_variables,), default=None
        attributes : callable, default=None
            Makes the fitted attributes of a point x: what callbacks see of a record, beside ``loss_curve_`` and
            ``n_iter_``.
        show : callable, default=None
            Called with each record, before the callbacks.
        **kwargs
            Of `CompositionalSolver.solve`.

        Returns
        -------
        SolverResult

        Raises
        ------
        KeyboardInterrupt
            Where Ctrl-C came before the first iteration of a fit.
        """
        number = len(self.progress.runs)
        state = self._states[number] if number < len(self._states) else None
        self._open()
        self._task, self._attributes, self._losses, self._show = None, attributes, [], show
        on_record = show if self._context is None else self._tell
        if state is None:
            result = solver.solve(problem, x0, random_state=self.rng, on_record=on_record, **kwargs)
        else:
            self.rng.randint(np.iinfo(np.int32).max)  # the seed that the run had
            state = completed(state, solver, problem)
            self._losses = [fun for _, _, fun in state.records]
            result = solver.solve(problem, state=state, on_record=on_record, **kwargs)
            if result.n_iter > state.state.t:  # what came behind it came too early
                del self._states[number + 1 :]
        self.progress.runs.append(result.state)
        self._close_task()
        if result.stop_reason == StopReason.INTERRUPTED and not result.n_iter and not number:
            raise KeyboardInterrupt
        return result

    def so_far(self):
        """The progress at the record that callbacks are shown; None where they are shown none."""
        if self._record is None:
            return None
        now = copy.copy(self.progress)
        now.runs = [*self.progress.runs, self._record.snapshot()]
        return now

    def end(self):
        """Tell the callbacks that the fit has ended: the estimator has its fitted attributes."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._seen, reconstruction_attributes={})

    # callbacks

    def _open(self):
        if self._context is None and not self.progress.runs:
            routed = get_config()["enable_metadata_routing"]  # without it a scorer knows no more than weights
            metadata = {name: value for name, value in self.metadata.items() if routed or name == "sample_weight"}
            self._seen = {"estimator": self.estimator, "X": self.X, "y": self.y, "metadata": metadata or None}
            self._context = open_context(self.estimator)
            if self._context is not None:
                self._context.call_on_fit_task_begin(**self._seen)

    def _tell(self, record):
        """Show the callbacks a record as the end of a task, and ask whether to stop."""
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
            self._task.max_subtasks = None  # there are more than the budget made us expect
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


def with_fit(method):
    """Decorate `fit`: however it ends, callbacks are torn down, and what `resume` needs is kept."""

    @with_callbacks
    @wraps(method)
    def fit(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except BaseException:  # between two runs, say: `resume` goes on with those that have ended
            if "_fitting" in vars(self) and self._fitting.progress.runs:
                self._progress = self._fitting.progress
            raise
        finally:
            vars(self).pop("_fitting", None)

    return fit


def completed(state, solver, problem):
    """A state with its callables: a file has none, and a fresh state of the solver has the same."""
    if has_missing(state.state):
        with np.errstate(all="ignore"):
            oracle = Oracle(problem, 0)
            solver.prepare(oracle, None)
            fresh = solver.init_state(oracle, problem.initial_point(oracle.rng))
        state = copy.copy(state)
        state.state = fill(state.state, fresh)
    return state


def in_words(value):
    """A parameter as a short text that is the same in another process."""
    if isinstance(value, BaseEstimator):
        params = {name: in_words(v) for name, v in value.get_params(deep=False).items()}
        return f"{type(value).__name__}({', '.join(f'{name}={words}' for name, words in params.items())})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(in_words(part) for part in value)})"
    if isinstance(value, np.generic):
        return repr(value.item())
    if hasattr(value, "shape"):
        return fingerprint(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {in_words(part)}' for key, part in value.items())}}}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def fingerprint(data):
    """Shape, dtype and a checksum of some rows, spread evenly: a tenth of a millisecond, however large the data."""
    if data is None:
        return None
    data = data if hasattr(data, "shape") else np.asarray(data)
    if not data.shape:  # one weight for all rows, say
        return repr(data.item())
    n, shape = _num_samples(data), data.shape
    every = max(1, math.ceil(n / max(16, SAMPLE // max(1, math.prod(shape[1:])))))
    sample, data = np.arange(0, n, every), MappedRows.of(data)  # which reads from its file
    data = data.tocsr() if sparse.issparse(data) else data
    rows = data.take(sample) if isinstance(data, MappedRows) else _safe_indexing(data, sample)
    if sparse.issparse(rows):
        rows = np.concatenate([rows.indptr, rows.indices, rows.data])
    rows = np.asarray(rows)
    content = repr(rows.tolist()).encode() if rows.dtype.hasobject else np.ascontiguousarray(rows).tobytes()
    return f"{rows.dtype} of shape {tuple(shape)} with checksum {zlib.crc32(content):08x}"
