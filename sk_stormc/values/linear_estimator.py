"""Base class of the value estimators: values that are linear in features of states, and their score."""

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.utils.validation import check_bool, check_number, check_numeric, naming
from sk_stormc.values.episodes import check_terminal, in_order
from sk_stormc.values.least_squares import ridge
from sk_stormc.values.log_warnings import check_given
from sk_stormc.values.problems import LARGEST_METRIC
from sk_stormc.values.transitions import successors, transform

__all__ = ["LinearEstimator"]

ITERATIONS = 10_000  # default budget of iterative solvers if full batches are advised
EXACT = LARGEST_METRIC  # number of columns of features, including the intercept, up to which "auto" selects "lstd"


def check_transformer(name, value):
    """Return a transformer, or None."""
    if value is not None and not (hasattr(value, "fit") and hasattr(value, "transform")):
        raise ValueError(f"{name} must be a transformer or None, got {value!r}")


class LinearEstimator(CompositionalEstimator):
    """Base class of the estimators with parameters ``gamma``, ``features``, ``fit_intercept`` and ``alpha``."""

    own_solvers = ("auto", "lstd")
    checks = {
        "gamma": partial(check_number, low=0, high=1),
        "alpha": partial(check_number, low=0),
        "fit_intercept": check_bool,
        "features": check_transformer,
    }

    def _solver_for(self, n_columns):
        """The solver, with "auto" replaced: by "lstd" for at most `EXACT` columns of features, else by "storm-c"."""
        solver = self._make_solver()
        if solver == "auto" and n_columns > EXACT:
            return self._stepping_solver()
        return "lstd" if solver == "auto" else solver

    def _accept(self, solver, problem):
        """Prepare the solver for the problem. A budget in passes gives weighted rows fewer iterations than copies."""
        solver.accept(problem)
        if problem.advice.batch_size is None and solver.max_iter is None and solver.max_ifo is None:
            solver.set_params(max_iter=ITERATIONS)

    def _alphas(self, n_columns):
        return ridge(self.alpha, n_columns, self.fit_intercept)

    def _states(self, X, name="X"):
        """The checked states as a float64 array, for a fitted estimator."""
        check_is_fitted(self)
        check_numeric(name, X)
        with naming(name):
            return validate_data(self, X, reset=False, dtype=np.float64)

    def _fitted_columns(self, X, states, rows=None):
        """Features without the intercept's column, for ``coef_``."""
        Z, d = transform(self.features_, X, states, rows, False), self.coef_.shape[-1]
        if Z.shape[1] != d:
            raise ValueError(f"features must give the {d} columns that were fitted, got {Z.shape[1]}")
        return Z

    def _successors(self, X, states, next_X, terminal, time, episode):
        """`successors` for the transitions of a score. Without next_X and an order, all of them must be terminal."""
        check_given(self, next_X, terminal, time, episode)
        n = len(states)
        clock = in_order(episode, time, terminal, n)[1]
        time = clock if next_X is None else time
        if next_X is not None or time is not None:
            return successors(self, X, states, next_X, terminal, time)
        terminal = np.ones(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
        if not terminal.all():
            missing = np.count_nonzero(~terminal)
            raise ValueError(
                f"next_X must be given for transitions that are not terminal, or time; got neither for {missing}"
            )
        return X, states, np.arange(n), terminal, terminal

    def _score_of(self, error, weights):
        """Minus the weighted mean square of the errors that are not NaN."""
        kept = ~np.isnan(error) & (weights > 0)
        if not kept.any():
            raise ValueError("X must have a transition with a successor or terminal, and of positive weight; got none")
        return -float(np.average(error[kept] ** 2, weights=weights[kept]))
