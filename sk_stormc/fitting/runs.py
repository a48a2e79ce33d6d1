"""A fit: its identification, its runs, the calls of callbacks, and its continuation by
`resume`."""

import copy
import hashlib
import math
from dataclasses import dataclass, field
from functools import wraps

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import _get_feature_names

from sk_stormc.engine.results import Record, RunState
from sk_stormc.fitting.compat import callbacks_of, open_context, with_callbacks
from sk_stormc.solvers import StopReason
from sk_stormc.utils.descriptions import UNKNOWN, check_unchanged, describe
from sk_stormc.utils.machine import BLOCK_BYTES
from sk_stormc.utils.mapped_rows import MappedRows
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import F
from sk_stormc.utils.validation import is_integer, seeded

__all__ = ["FREE", "Fit", "KeepsFits", "Progress", "with_fit"]

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
        self.estimator, self.progress, self.rng, self.before = (
            estimator,
            progress,
            rng,
            before,
        )
        self.X, self.y, self.metadata = X, y, metadata
        self._states = [] if before is None else list(before.runs)
        self._context = self._task = self._show = self.pass_ifo = None
        self._opened, self._losses, self._n_before = False, [], 0
        callbacks = callbacks_of(self.estimator)
        self.has_callbacks = bool(callbacks)
        for callback in callbacks:
            if isinstance(callback, KeepsFits):
                self._check_that_parameters_can_be_kept()

    def _check_that_parameters_can_be_kept(self):
        """Raise a ValueError for parameters that cannot be compared with those of a
        resumed fit."""
        for name, description in self.progress.parameters.items():
            if UNKNOWN in description:
                check_unchanged(name, description, description, "a Checkpoint", "")

    @classmethod
    def of_data(cls, estimator, solver, X, y=None, before=None, **metadata):
        """A new fit with all parameters set in the solver, or the fit that resumes the
        one before."""
        metadata = {
            name: value for name, value in metadata.items() if value is not None
        }
        seed = estimator.random_state if before is None else before.random_state
        rng = seeded(seed)
        data = {
            "X": X,
            "y": y if estimator.__sklearn_tags__().target_tags.required else None,
        } | metadata
        data["names of X"] = _get_feature_names(X)
        if isinstance(solver, str) or getattr(
            solver, "begins_again", False
        ):  # so that other data are no error
            data = {}
        progress = Progress(
            type(estimator).__name__,
            _described(estimator, solver),
            {name: fingerprint(value) for name, value in data.items()},
            seed if is_integer(seed) else copy.deepcopy(rng),
        )
        if before is not None:
            before.check(progress)
            rng = copy.deepcopy(rng)  # the saved progress must not change
        return cls(estimator, progress, rng, before, X, y, **metadata)

    @classmethod
    def if_observed(cls, estimator, solver, X, y, before, **metadata):
        """The fit, or None for an exact method that neither callbacks nor `resume` need
        to know of."""
        if isinstance(solver, str) and before is None and not callbacks_of(estimator):
            return None
        return cls.of_data(estimator, solver, X, y, before, **metadata)

    @classmethod
    def further(cls, estimator):
        """A fit that adds runs to the estimator's last fit. Callbacks get no data."""
        progress = copy.copy(estimator._progress)
        progress.runs, progress.plan = list(progress.runs), list(progress.plan)
        rng = seeded(copy.deepcopy(progress.random_state))
        for _ in progress.runs:  # repeat the draws of these runs
            rng.randint(np.iinfo(np.int32).max)
        return cls(estimator, progress, rng)

    def run(
        self,
        solver,
        problem,
        x0=None,
        *,
        attributes=None,
        show=None,
        n_before=0,
        **kwargs,
    ):
        """Run the solver, or continue the corresponding run of the resumed fit.
        Iterations begin after ``n_before``."""
        progress = self.progress
        self.pass_ifo = 2 * problem.n_inner + problem.n_outer
        number = len(progress.runs)
        state = self._states[number] if number < len(self._states) else None
        self._open()
        self._task, self._attributes, self._losses, self._show = (
            None,
            attributes,
            [],
            show,
        )
        self._n_before = n_before
        on_record = show if self._context is None else self._notify
        if state is None:
            result = solver.solve(
                problem, x0, random_state=self.rng, on_record=on_record, **kwargs
            )
        else:
            # skip the seed that the run had drawn
            self.rng.randint(np.iinfo(np.int32).max)
            self._losses = [fun for _, _, fun in state.records]
            result = solver.solve(problem, state=state, on_record=on_record, **kwargs)
            if (
                result.n_iter > state.t
            ):  # the run was not finished, so later runs must be repeated
                del self._states[number + 1 :]
        if result.state is not None:  # an exact method is repeated from its start
            progress.runs.append(result.state)
            self.estimator._progress = (
                progress  # `resume` can continue from here after any end of the fit
            )
        self._close_task()
        if (
            result.stop_reason == StopReason.INTERRUPTED
            and not result.n_iter
            and not number
        ):
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
        if not self._opened:
            self._opened = True
            # without it a scorer only accepts sample_weight
            routed = get_config()["enable_metadata_routing"]
            metadata = {
                name: value
                for name, value in self.metadata.items()
                if routed or name == "sample_weight"
            }
            self._arguments = {
                "estimator": self.estimator,
                "X": self.X,
                "y": self.y,
                "metadata": metadata or None,
            }
            self._context = open_context(self.estimator) if self.has_callbacks else None
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
        if (
            self._task.max_subtasks is not None
            and self._n_passes > self._task.max_subtasks
        ):
            self._task.max_subtasks = (
                None  # there are more passes than expected from the budget
            )
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
        }
        fitted["_progress"] = progress
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


def _described(estimator, solver):
    """Descriptions of the parameters that a resumed fit must have in common with this
    one."""
    free = (*estimator._free_to_resume, "solver")
    parameters = {
        name: value
        for name, value in vars(estimator).items()
        if name[0] != "_" and name[-1] != "_"
    }
    parameters = {name: value for name, value in parameters.items() if name not in free}
    if isinstance(solver, str):
        return {"solver": solver} | {
            name: describe(value) for name, value in parameters.items()
        }
    of_solver = {
        f"solver__{name}": value
        for name, value in solver.get_params(deep=False).items()
        if name not in FREE
    }
    name = getattr(solver, "name", type(solver).__name__)
    return {"solver": name} | {
        name: describe(value) for name, value in (parameters | of_solver).items()
    }


def fingerprint(data):
    """Dtype, shape and a digest of all numbers, row by row, or None. Rows of a file are
    read in blocks."""
    if data is None:
        return None
    if sparse.issparse(data):
        rows = data.tocsr()
        parts, shape = (rows.data, rows.indices, rows.indptr), rows.shape
    else:
        data = np.asanyarray(data)  # keeps a memmap
        if not data.shape:  # such as one weight for all rows
            return repr(data.item())
        parts = _blocks(MappedRows.of(data) if isinstance(data, np.memmap) else data)
        shape = data.shape
    # faster than BLAKE2 on processors that support it
    digest, dtype = (hashlib.sha256(), None)
    for part in parts:
        if (
            part.dtype.hasobject or part.dtype.char in "gG"
        ):  # their bytes are addresses, or have padding
            part = _as_floats(part)
        dtype = dtype or part.dtype
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    return f"{dtype} of shape {tuple(shape)} with digest {digest.hexdigest()[:16]}"


def _blocks(rows):
    """Blocks of rows, the same for data in memory and in a file. There is one empty
    block if there are no rows."""
    size = max(1, BLOCK_BYTES // (8 * max(1, math.prod(rows.shape[1:]))))
    for start in range(0, max(1, rows.shape[0]), size):
        yield rows[start : start + size]


def _as_floats(part):
    """Objects as floats, or their text as bytes."""
    try:
        return part.astype(float)
    except (TypeError, ValueError):
        return np.frombuffer(repr(part.tolist()).encode(), np.uint8)
