"""Base class of the value estimators: values that are linear in features of states, and their score."""

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.utils.validation import check_bool, check_number, row_weights
from sk_stormc.values.episodes import check_terminal, order_of, shares
from sk_stormc.values.least_squares import ridge
from sk_stormc.values.log_warnings import check_given
from sk_stormc.values.problems import LARGEST_METRIC
from sk_stormc.values.transitions import checked_states, successors, transform

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
        """The checked states, as `rows_of`, for a fitted estimator."""
        check_is_fitted(self)
        return checked_states(self, X, name)

    def _fitted_columns(self, X, states, rows=None):
        """Features without the intercept's column, for ``coef_``."""
        Z, d = transform(self.features_, X, states, rows, False), self.coef_.shape[-1]
        if Z.shape[1] != d:
            raise ValueError(f"features must give the {d} columns that were fitted, got {Z.shape[1]}")
        return Z

    def _successors(self, X, states, given):
        """`successors` for the transitions of a score, and their `Order`. Without any, all must be terminal."""
        check_given(self, *given[:4])
        n = len(states)
        order = order_of(given.episode, given.time, check_terminal(given.terminal, n), n)
        if given.next_X is None and given.terminal is None and order is None:
            given = given._replace(terminal=np.ones(n, dtype=bool))
        return *successors(self, X, states, given, order), order

    def _score_of(self, error, terminal, order, sample_weight, ratios=1.0):
        """Minus the weighted mean square of the errors that are not NaN."""
        weights = row_weights(sample_weight, len(error))
        if order is not None:
            weights *= shares(order.step, ~np.isnan(error), terminal, weights)
        weights *= ratios
        kept = ~np.isnan(error) & (weights > 0)
        if not kept.any():
            raise ValueError("X must have a transition with a successor or terminal, and of positive weight; got none")
        return -float(np.average(error[kept] ** 2, weights=weights[kept]))
