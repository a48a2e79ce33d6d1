"""Callbacks for fits, by scikit-learn's protocol: stop early, stop in time, keep a file to go on from.

Set them with ``estimator.set_callbacks(...)``, beside scikit-learn's own (`sklearn.callback.ProgressBar`,
`sklearn.callback.ScoringMonitor`). Clones of an estimator share its callbacks, so each of these keeps what it knows of
a fit for that fit alone.
"""

import math
import os
import time
from pathlib import Path

from sklearn.metrics import check_scoring, get_scorer_names

from sk_stormc import _state_file
from sk_stormc._validation import check_int, check_number
from sk_stormc.estimators._fitting import Progress

__all__ = ["Checkpoint", "EarlyStopping", "TimeLimit"]


class _PerFit:
    """What a callback knows of each fit that is going on, by the estimator that is fitted."""

    def __init__(self):
        self._fits = {}

    def setup(self, estimator, context):
        """Begin to know something of a fit."""
        self._fits[id(estimator)] = self._begin(estimator, context)

    def teardown(self, estimator, context):
        """Forget the fit."""
        self._fits.pop(id(estimator), None)

    def on_fit_task_begin(self, estimator, context):
        """Nothing is done here."""

    def __getstate__(self):
        return self.__dict__ | {"_fits": {}}


class EarlyStopping(_PerFit):
    """Stop a fit that gets no better.

    Parameters
    ----------
    monitor : "loss", str or callable, default="loss"
        What is looked at after each pass: "loss", the last of ``loss_curve_``, which is to fall; or a scorer, by name
        or as scikit-learn has it, of the fitted estimator on the training data, which is to rise.
    patience : int, default=5
        Passes without getting better, after which the fit stops.
    min_delta : float, default=1e-4
        What counts as better, as a part of the best value.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.callbacks import EarlyStopping
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(5000, 20, mean=0.1, random_state=0)
    >>> portfolio = CompositionalPortfolio("storm-c", max_iter=10_000, tol=0, random_state=0)
    >>> portfolio.set_callbacks(EarlyStopping(patience=3)).fit(returns).stop_reason_
    'callback'
    """

    def __init__(self, monitor="loss", patience=5, min_delta=1e-4):
        check_int("patience", patience, low=1)
        check_number("min_delta", min_delta, low=0)
        if not callable(monitor) and not isinstance(monitor, str):
            raise ValueError(f"monitor must be 'loss', or a scorer by name or as a callable, got {monitor!r}")
        if isinstance(monitor, str) and monitor != "loss" and monitor not in get_scorer_names():
            raise ValueError(f"monitor must be 'loss' or the name of a scorer of scikit-learn, got {monitor!r}")
        super().__init__()
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta

    def _begin(self, estimator, context):
        scorer = None if self.monitor == "loss" else check_scoring(estimator, self.monitor)
        return {"scorer": scorer, "best": math.inf, "waited": 0, "seen": 0}

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        """Look at a pass that has ended.

        Returns
        -------
        bool
            Whether the fit is to stop.
        """
        fit = self._fits[id(estimator)]
        curve = getattr(fitted_estimator, "loss_curve_", ())
        if len(curve) <= fit["seen"] or context.max_subtasks != 0:
            return False  # the end of the fit, or of a pass of another objective
        fit["seen"] = len(curve)
        value = curve[-1] if fit["scorer"] is None else -fit["scorer"](fitted_estimator, X, y, **(metadata or {}))
        if value < fit["best"] - self.min_delta * (abs(fit["best"]) if math.isfinite(fit["best"]) else 0.0):
            fit["best"], fit["waited"] = value, 0
            return False
        fit["waited"] += 1
        return fit["waited"] >= self.patience


class TimeLimit(_PerFit):
    """Stop a fit after a time; within a search, each of its fits.

    Parameters
    ----------
    seconds : float
        Looked at after each pass, so that a fit may take a pass longer.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.callbacks import TimeLimit
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(5000, 20, mean=0.1, random_state=0)
    >>> portfolio = CompositionalPortfolio(max_iter=10**9, tol=0, random_state=0)
    >>> portfolio.set_callbacks(TimeLimit(0.1)).fit(returns).stop_reason_
    'callback'
    """

    def __init__(self, seconds):
        check_number("seconds", seconds, low=0)
        super().__init__()
        self.seconds = seconds

    def _begin(self, estimator, context):
        return time.monotonic() + self.seconds

    def on_fit_task_end(self, estimator, context):
        """Look at the clock.

        Returns
        -------
        bool
            Whether the fit is to stop.
        """
        return time.monotonic() >= self._fits[id(estimator)]


class Checkpoint(_PerFit):
    """Write what a fit has reached to a file, from which `resume` goes on after the process has died.

    The file is written whole or not at all. It has arrays and JSON, and reading it executes nothing of it; schedules
    and other callables come from the estimator that resumes.

    Parameters
    ----------
    path : path-like
        Of the file, by convention with the suffix ".npz". Fits within a search add the numbers of their task to its
        name, such as "run-0-3.npz".
    every : int, default=1
        Passes between two files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.callbacks import Checkpoint
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(5000, 20, mean=0.1, random_state=0)
    >>> whole = CompositionalPortfolio(max_iter=60, tol=0, random_state=0).fit(returns)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = Checkpoint(Path(folder) / "run.npz")
    ...     _ = CompositionalPortfolio(max_iter=40, tol=0, random_state=0).set_callbacks(saved).fit(returns)
    ...     portfolio = CompositionalPortfolio(max_iter=60, tol=0, random_state=0).set_callbacks(saved)
    ...     portfolio = portfolio.resume(returns)  # in another process, say
    >>> bool((portfolio.weights_ == whole.weights_).all())
    True
    """

    def __init__(self, path, every=1):
        if not isinstance(path, (str, os.PathLike)):
            raise ValueError(f"path must be that of a file, got {path!r}")
        check_int("every", every, low=1)
        if not Path(path).absolute().parent.is_dir():
            raise ValueError(f"path must be in a folder that exists, got {os.fspath(path)!r}")
        super().__init__()
        self.path, self.every = path, every

    def _begin(self, estimator, context):
        if not hasattr(estimator, "resume"):
            raise ValueError(f"a Checkpoint needs an estimator of sk_stormc, got {type(estimator).__name__}")
        numbers = []
        while context.parent is not None:
            numbers, context = [str(context.task_id), *numbers], context.parent
        path = Path(self.path)
        return {"path": path.with_name("-".join([path.stem, *numbers]) + path.suffix), "passes": 0}

    def on_fit_task_end(self, estimator, context):
        """Write a file, if it is time for one."""
        fit = self._fits[id(estimator)]
        progress = estimator._fitting.so_far()
        if progress is None:  # the end of the fit
            return
        fit["passes"] += 1
        if fit["passes"] % self.every == 0:
            head = {"estimator": progress.estimator, "parameters": progress.parameters, "data": progress.data}
            _state_file.write(fit["path"], head, (progress.random_state, progress.runs))

    def load(self, estimator):
        """What the file has; `resume` calls it.

        Parameters
        ----------
        estimator : CompositionalEstimator

        Returns
        -------
        Progress or None
            None where there is no file.

        Raises
        ------
        ValueError
            For a file that no Checkpoint wrote.
        """
        if not Path(self.path).exists():
            return None
        modules = (type(estimator._make_solver()).__module__,)
        head, (random_state, runs) = _state_file.read(self.path, modules)
        return Progress(head["estimator"], head["parameters"], head["data"], random_state, runs)
