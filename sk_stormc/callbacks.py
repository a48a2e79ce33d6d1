"""Callbacks for fits: early stopping, a time limit, and checkpoint files from which a
fit can be resumed.

They follow scikit-learn's protocol. Set them with ``estimator.set_callbacks(...)``,
together with scikit-learn's own (`sklearn.callback.ProgressBar`,
`sklearn.callback.ScoringMonitor`). Clones of an estimator share its callbacks, so each
callback keeps a separate state for each fit. `minimize` takes them as
``callbacks=[...]``.
"""

import math
import os
import time
from pathlib import Path

from sklearn.metrics import check_scoring, get_scorer_names

from sk_stormc.engine import RunState
from sk_stormc.engine import checkpoint_file as _checkpoint_file
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.fitting.runs import KeepsFits, Progress
from sk_stormc.utils.parameters import check_int, check_number, is_list

__all__ = ["Checkpoint", "EarlyStopping", "TimeLimit"]


class _PerFit:
    """The state that a callback keeps for each running fit. The keys are the ids of the
    fitted estimators."""

    def __init__(self):
        self._fits = {}

    def setup(self, estimator, context):
        """Create the state for a fit."""
        self._fits[id(estimator)] = self._begin(estimator, context)

    def teardown(self, estimator, context):
        """Delete the state of the fit."""
        self._fits.pop(id(estimator), None)

    def on_fit_task_begin(self, estimator, context):
        """Do nothing; scikit-learn's protocol requires this method."""

    def start_run(self):
        """Create the state for a run of `minimize`."""
        self._fits["run"] = self._begin(None, None)

    def __getstate__(self):
        return self.__dict__ | {"_fits": {}}


class EarlyStopping(_PerFit):
    """Stop a fit that no longer improves.

    Parameters
    ----------
    monitor : "loss", str or callable, default="loss"
        The quantity that is monitored after each pass over the data. "loss" is the last
        value of ``loss_curve_``, which should fall. Any other value is a scorer, given
        by its name in scikit-learn or as a callable. It scores the fitted estimator on
        the training data, and its value should rise.
    patience : int, default=5
        Number of passes without an improvement after which the fit stops.
    min_delta : float, default=1e-4
        Smallest change that counts as an improvement, as a fraction of the best value
        so far.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.callbacks import EarlyStopping
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(5000, 20, mean=0.1, random_state=0)
    >>> portfolio = CompositionalPortfolio(
    ...     "storm-c", max_iter=10_000, tol=0, random_state=0
    ... )
    >>> portfolio.set_callbacks(EarlyStopping(patience=3)).fit(returns).stop_reason_
    'callback'
    """

    def __init__(
        self, monitor: str = "loss", patience: int = 5, min_delta: float = 1e-4
    ) -> None:
        check_int("patience", patience, low=1)
        check_number("min_delta", min_delta, low=0)
        if not callable(monitor) and not isinstance(monitor, str):
            raise ValueError(
                "monitor must be 'loss', or a scorer by name or as a callable, got "
                f"{monitor!r}"
            )
        if not callable(monitor) and monitor not in ("loss", *get_scorer_names()):
            raise ValueError(
                "monitor must be 'loss' or the name of a scorer of scikit-learn, got "
                f"{monitor!r}"
            )
        super().__init__()
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta

    def _begin(self, estimator, context):
        if estimator is None and self.monitor != "loss":
            raise ValueError(
                "monitor must be 'loss' in minimize, which scores no estimator, got "
                f"{self.monitor!r}"
            )
        scorer = (
            None if self.monitor == "loss" else check_scoring(estimator, self.monitor)
        )
        return {"scorer": scorer, "best": math.inf, "waited": 0, "seen": 0}

    def on_fit_task_end(
        self,
        estimator,
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        """Compare the monitored quantity after a pass with its best value so far.

        Returns
        -------
        bool
            True if the fit should stop.
        """
        fit = self._fits[id(estimator)]
        curve = getattr(fitted_estimator, "loss_curve_", ())
        if len(curve) <= fit["seen"] or context.max_subtasks != 0:
            # not the end of a pass: the end of the fit, or of an earlier stage with
            # another objective
            return False
        fit["seen"] = len(curve)
        value = (
            curve[-1]
            if fit["scorer"] is None
            else -fit["scorer"](fitted_estimator, X, y, **(metadata or {}))
        )
        return self._has_waited(fit, value)

    def on_record(self, record):
        """Compare the objective of a record of `minimize` with its best value so far.

        Returns
        -------
        bool
            True if the run should stop.
        """
        return self._has_waited(self._fits["run"], record.fun)

    def _has_waited(self, fit, value):
        best = fit["best"]
        enough = self.min_delta * abs(best) if math.isfinite(best) else 0.0
        if value < best - enough:
            fit |= {"best": value, "waited": 0}
        else:
            fit["waited"] += 1
        return fit["waited"] >= self.patience


class TimeLimit(_PerFit):
    """Stop a fit after a given time.

    In a hyperparameter search, the limit applies to each fit separately.

    Parameters
    ----------
    seconds : float
        Time limit. The clock is read after each pass, so a fit may take one pass
        longer.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.callbacks import TimeLimit
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(5000, 20, mean=0.1, random_state=0)
    >>> portfolio = CompositionalPortfolio(
    ...     "storm-c", max_iter=10**9, tol=0, random_state=0
    ... )
    >>> portfolio.set_callbacks(TimeLimit(0.1)).fit(returns).stop_reason_
    'callback'
    """

    def __init__(self, seconds: float) -> None:
        check_number("seconds", seconds, low=0)
        super().__init__()
        self.seconds = seconds

    def _begin(self, estimator, context):
        return time.monotonic() + self.seconds

    def on_fit_task_end(self, estimator, context):
        """Compare the elapsed time with the limit.

        Returns
        -------
        bool
            True if the fit should stop.
        """
        return time.monotonic() >= self._fits[id(estimator)]

    def on_record(self, record):
        """Compare the elapsed time of a run of `minimize` with the limit.

        Returns
        -------
        bool
            True if the run should stop.
        """
        return time.monotonic() >= self._fits["run"]


class Checkpoint(_PerFit, KeepsFits):
    """Write the state of a fit to a file, so that `resume` can continue the fit after
    the process has died.

    The file is written atomically. It contains arrays and JSON, and reading it executes
    no code. Functions, such as your own schedules, are stored by name, and are taken
    from the estimator that resumes the fit. They must be defined at the top level of a
    module. Only the version of the library that wrote the file can read it.

    Parameters
    ----------
    path : path-like
        The file to write, by convention with the suffix ".npz". Fits within a search
        append the numbers of their task to the name, as in "run-0-3.npz".
    every : int, default=1
        Number of passes over the data between two writes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.callbacks import Checkpoint
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(5000, 20, mean=0.1, random_state=0)
    >>> whole = CompositionalPortfolio(
    ...     "storm-c", max_iter=60, tol=0, random_state=0
    ... ).fit(returns)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = Checkpoint(Path(folder) / "run.npz")
    ...     _ = (
    ...         CompositionalPortfolio("storm-c", max_iter=40, tol=0, random_state=0)
    ...         .set_callbacks(saved)
    ...         .fit(returns)
    ...     )
    ...     portfolio = CompositionalPortfolio(
    ...         "storm-c", max_iter=60, tol=0, random_state=0
    ...     ).set_callbacks(saved)
    ...     portfolio = portfolio.resume(returns)  # in another process, say
    >>> bool((portfolio.weights_ == whole.weights_).all())
    True
    """

    def __init__(self, path: str | os.PathLike, every: float = 1) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ValueError(f"path must be the path of a file, got {path!r}")
        check_int("every", every, low=1)
        if not Path(path).absolute().parent.is_dir():
            raise ValueError(
                f"path must be in a folder that exists, got {os.fspath(path)!r}"
            )
        super().__init__()
        self.path, self.every = path, every

    def _begin(self, estimator, context):
        if estimator is None:
            return {"path": Path(self.path), "passes": 0}
        if not isinstance(estimator, CompositionalEstimator):
            raise ValueError(
                "a Checkpoint needs an estimator of sk_stormc, got "
                f"{type(estimator).__name__}"
            )
        numbers = ""
        while context.parent is not None:
            numbers, context = f"-{context.task_id}{numbers}", context.parent
        path = Path(self.path)
        path = path.with_name(f"{path.stem}{numbers}{path.suffix}")
        return {"path": path, "passes": 0}

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Write the file after every `every`-th pass."""
        # otherwise it is not the end of a pass
        if fitted_estimator is not None and context.max_subtasks == 0:
            self._write(id(estimator), lambda: fitted_estimator._progress)

    def on_record(self, record):
        """Write the state of a run of `minimize` after every `every`-th pass."""
        if record.iteration:
            self._write("run", record.snapshot)

    def _write(self, key, snapshot):
        fit = self._fits[key]
        fit["passes"] += 1
        if fit["passes"] % self.every == 0:
            _checkpoint_file.write(fit["path"], snapshot())

    def load_run(self, *functions):
        """Read the state of a run of `minimize`, for its argument ``state``.

        Parameters
        ----------
        *functions : callable
            The functions among the solver's parameters, such as your own schedules.

        Returns
        -------
        RunState or None
            None if there is no file.

        Raises
        ------
        ValueError
            If the file was written by another version or by a fit, or was truncated or
            changed.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from sk_stormc import minimize
        >>> from sk_stormc.callbacks import Checkpoint
        >>> from sk_stormc.datasets import make_gaussian_returns
        >>> from sk_stormc.problems import PortfolioProblem
        >>> problem = PortfolioProblem(make_gaussian_returns(2000, 5, random_state=0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = Checkpoint(Path(folder) / "run.npz")
        ...     part = minimize(
        ...         problem,
        ...         "scgd",
        ...         random_state=0,
        ...         max_iter=400,
        ...         tol=0,
        ...         callbacks=[saved],
        ...     )
        ...     rest = minimize(
        ...         problem,
        ...         "scgd",
        ...         max_iter=600,
        ...         tol=0,
        ...         state=saved.load_run(),
        ...         callbacks=[saved],
        ...     )
        >>> bool(
        ...     (
        ...         rest.x
        ...         == minimize(problem, "scgd", random_state=0, max_iter=600, tol=0).x
        ...     ).all()
        ... )
        True
        """
        if not Path(self.path).exists():
            return None
        return _checkpoint_file.read(self.path, RunState, functions)

    def load(self, estimator):
        """Read the file. `resume` calls this method.

        Parameters
        ----------
        estimator : CompositionalEstimator

        Returns
        -------
        Progress or None
            The saved state of the fit, or None if there is no file.

        Raises
        ------
        ValueError
            If the file was written by another version, or was truncated or changed
            after it was written.
        """
        if not Path(self.path).exists():
            return None
        parts = []
        for value in estimator.get_params(deep=True).values():
            parts += value if is_list(value) else [value]
        return _checkpoint_file.read(self.path, Progress, filter(callable, parts))
