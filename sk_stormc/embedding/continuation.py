"""Methods of `SNEEmbedding` that run the stages of a map, and further ones from a
fitted map."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.utils.validation import check_is_fitted

from sk_stormc.embedding.descent import Descent, Divergence
from sk_stormc.embedding.neighbors.graph import first_of_rows
from sk_stormc.embedding.problem import SNEProblem
from sk_stormc.embedding.solver_runs import run_stages
from sk_stormc.embedding.stages import Lines, Stage
from sk_stormc.engine.results import SolverResult
from sk_stormc.fitting.runs import Fit, with_fit
from sk_stormc.solvers import LBFGS, StopReason
from sk_stormc.utils.descriptions import check_unchanged, describe
from sk_stormc.utils.threads import in_threads, threads
from sk_stormc.utils.types import FloatArray
from sk_stormc.utils.validation import check_int, check_number, short

# parameters that `optimize` may not change
SAME = ("n_components", "perplexity", "kernel", "dof", "metric")
# extended from stage to stage
CURVES = ("loss_curve", "ifo", "record_iterations", "n_evaluations", "n_iter")


def as_map(x, order, dtype):
    """The centred embedding in the order of the samples, from the variables of a
    problem in another order."""
    points = x.reshape(len(order), -1)
    embedding = np.empty(points.shape, dtype)
    embedding[order] = points - points.mean(axis=0, dtype=float)
    return embedding


class Continuation:
    """Mixin of `SNEEmbedding`."""

    embedding_: FloatArray
    n_iter_: int
    verbose: int | bool
    _near: Any
    _progress: Any
    _method: Callable
    _kernel: Callable
    _keep: Callable
    n_components: int
    n_jobs: int | None
    dof: float

    @with_fit
    @in_threads
    def optimize(
        self,
        n_iter: int = 100,
        *,
        exaggeration: float = 1.0,
        learning_rate: float | None = None,
        record_every: int | str = "auto",
    ) -> Self:
        """Continue the optimisation of the fitted map by one more stage, after those of
        `fit` and of earlier calls.

        ``embedding_`` and ``kl_divergence_`` are replaced, and ``loss_curve_``,
        ``record_iterations_``, ``ifo_``, ``n_evaluations_`` and ``n_iter_`` are
        extended. Callbacks are called at the records, and `resume` continues a stage
        that ended early.

        Parameters
        ----------
        n_iter : int, default=100
            Number of iterations of the stage. The learning rate decreases to 0 over the
            second half of them, and in a long stage over a larger part.
        exaggeration : float, default=1.0
            Factor of the attraction, at least 1.
        learning_rate : float, default=None
            The learning rate of the stage. None means the learning rate of the solver.
        record_every : int or "auto", default="auto"
            Approximate number of iterations between two records. 1 records every
            iteration, and "auto" creates about twenty records.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If an argument is out of its range, or if n_components, perplexity, kernel,
            dof or metric has changed since `fit`. The map is then unchanged.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sk_stormc import SNEEmbedding
        >>> embedding = SNEEmbedding(max_iter=70, random_state=0).fit(
        ...     load_digits().data[:500]
        ... )
        >>> embedding.optimize(30, exaggeration=4).optimize(50).n_iter_
        150
        """
        check_is_fitted(self)
        check_int("n_iter", n_iter, low=1)
        check_number("exaggeration", exaggeration, low=1)
        check_number(
            "learning_rate", learning_rate, low=0, inclusive=False, words=(None,)
        )
        check_int("record_every", record_every, low=1, words=("auto",))
        stage = Stage(
            int(n_iter),
            float(exaggeration),
            on=True,
            asked=True,
            learning_rate=learning_rate and float(learning_rate),
            record_every=None if isinstance(record_every, str) else record_every,
        )
        method = self._method(len(self.embedding_))
        if learning_rate is not None and isinstance(method, LBFGS):
            raise ValueError(
                f"learning_rate must be None for {method!r}, which has none; got "
                f"{short(learning_rate)}"
            )
        for name in SAME:
            check_unchanged(
                name,
                self._progress.parameters[name],
                describe(getattr(self, name)),
                "optimize",
                "another map needs a new fit",
            )
        fit = Fit.further(self)
        fit.progress.plan.append(stage)
        before = SolverResult(
            {name: vars(self)[f"{name}_"] for name in CURVES}, n_guarded=0
        )
        P, lines = self._near.affinities(), Lines(self.verbose)
        result, _ = self._run_stages(
            fit, method, [stage], P, self._near.joint, self.embedding_, lines, before
        )
        self._finish(result, method, fit)
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def _run_stages(
        self, fit, method, stages, P, joint, start, lines, before=None, **attributes
    ):
        """Run stages from a map, after the iterations of the result ``before``, if
        there are any.

        Return the result of all iterations, with divergences as losses, and the
        objective of the last stage. The estimator, and callbacks during the run, get
        the map and the further attributes.
        """
        # if neighbours are close in memory, sums over the edges of many points take 3/5
        # of the time; a few neighbours of each point determine the order
        order = reverse_cuthill_mckee(first_of_rows(P, 10))
        P, dtype, kernel = P[order][:, order], start.dtype, self._kernel()

        def fitted(x):
            return {"embedding_": as_map(x, order, dtype)} | attributes

        if isinstance(method, Descent):
            objective = Divergence(P, self.n_components, self.dof, joint)
            result = method.run(
                fit, objective, stages, start[order], fitted, lines, before
            )
        else:
            # L-BFGS is the exact reference, for which float32 is too coarse
            precision = np.float64 if isinstance(method, LBFGS) else np.float32
            problem = SNEProblem(
                P,
                self.n_components,
                kernel=kernel,
                dof=self.dof,
                joint=joint,
                dtype=precision,
            )
            x = start[order].ravel()
            objective, result = run_stages(
                stages, fit, problem, x, method, fitted, lines, before
            )
        vars(self).update(fitted(result.x))
        self.kernel_ = kernel
        self._of_map = {
            "kernel": kernel,
            "dof": self.dof,
            "dtype": result.x.dtype.name,
        }
        return result, objective

    def _finish(self, result, method, fit):
        """Store the fitted attributes of a result of `_run_stages`."""
        vars(self).pop("kl_divergence_", None)  # cached for an earlier map
        self._keep(method, result, fit)
        self.record_iterations_ = result.record_iterations
        fit.end()

    @cached_property
    def kl_divergence_(self) -> float:
        """The divergence of the map from the affinities of 3 perplexity + 1 neighbours,
        computed when first read."""
        if "_of_map" not in vars(self):
            raise AttributeError(
                f"this {type(self).__name__} is not fitted, so it has no kl_divergence_"
            )
        points, near = self.embedding_, self._near
        with threads(self.n_jobs):
            problem = SNEProblem(
                near.affinities(), points.shape[1], joint=near.joint, **self._of_map
            )
            return problem.divergence(points.ravel().astype(problem.dtype))
