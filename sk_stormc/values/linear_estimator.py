"""Base class of the value estimators: values that are linear in features of states, and
their score."""

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.utils.blocks import map_lazily, without_rows
from sk_stormc.utils.validation import check_bool, check_number, row_weights
from sk_stormc.utils.warnings import warn
from sk_stormc.values.episodes import check_terminal, order_of, shares
from sk_stormc.values.least_squares import ridge
from sk_stormc.values.log_warnings import check_given
from sk_stormc.values.problems import LARGEST_HESSIAN
from sk_stormc.values.transitions import checked_states, successors, transform
from sk_stormc.values.uncertainty import FEW_EPISODES, MAX_GROUPED_FEATURES

__all__ = ["LinearEstimator"]

# number of columns of features, including the intercept, up to which "auto" selects
# "lstd"
EXACT = LARGEST_HESSIAN


def check_transformer(name, value):
    """Return a transformer, or None."""
    if value is not None and not (
        hasattr(value, "fit") and hasattr(value, "transform")
    ):
        raise ValueError(f"{name} must be a transformer or None, got {value!r}")


class LinearEstimator(CompositionalEstimator):
    """Base class of the estimators with parameters ``gamma``, ``features``,
    ``fit_intercept`` and ``alpha``."""

    own_solvers = ("auto", "lstd")
    checks = {
        "gamma": partial(check_number, low=0, high=1),
        "alpha": partial(check_number, low=0),
        "fit_intercept": check_bool,
        "features": check_transformer,
    }

    def _solver_for(self, n_columns):
        """The solver, with "auto" replaced: by "lstd" for at most `EXACT` columns of
        features, else by "storm-c"."""
        solver = self._make_solver()
        if solver == "auto" and n_columns > EXACT:
            return self._stepping_solver()
        return "lstd" if solver == "auto" else solver

    def _accept(self, solver, problem):
        """Prepare the solver for the problem. A budget in passes gives weighted rows
        fewer iterations than copies."""
        solver.accept(problem)
        if (
            problem.advice.batch_size is None
            and solver.max_iter is None
            and solver.max_ifo is None
        ):
            solver.set_params(max_iter=10_000)

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
            raise ValueError(
                f"features must give the {d} columns that were fitted, got {Z.shape[1]}"
            )
        return Z

    def _features(self, X, states):
        """Features with the intercept's column."""
        return transform(self.features_, X, states, None, self.fit_intercept)

    def _intervals(self, X0, confidence, mean):
        """`value_interval`, with ``_values`` and ``_deviations`` of the estimator."""
        check_number("confidence", confidence, low=0, high=1, inclusive=False)
        check_bool("mean", mean)
        states = self._states(X0, "X0")
        values, Z = self._values(X0, states), self._features(X0, states)
        if mean:
            values = values.mean(axis=0, keepdims=True)
            Z = np.asarray(Z.mean(axis=0)).reshape(1, -1)
        deviation, reach = self._deviations(Z, confidence)
        with np.errstate(invalid="ignore"):
            ends = np.stack(
                [values - reach * deviation, values + reach * deviation], axis=-1
            )
        return ends[0] if mean else ends

    def _deviations_of_rows(self, Z, confidence):
        """Standard deviations for rows of all features, and the quantile by which an
        interval multiplies them."""
        spread, columns = self._spread_of_coefficients()
        deviation = spread.deviation(Z[:, columns])
        others = np.ones(Z.shape[1], dtype=bool)
        others[columns] = False
        unknown = np.asarray(abs(Z[:, others]).sum(axis=1)).ravel() > 0
        return np.where(unknown, np.inf, deviation), spread.reach(confidence)

    def _spread_of_coefficients(self):
        """The `Spread` of the coefficients, and the columns of their features."""
        groups = vars(self).get("_groups")
        spread = vars(self).get("_spread")
        half_life = vars(self).get("half_life")
        if groups is not None:
            x = np.append(self.coef_, self.intercept_)[: groups.b.shape[1]]
            spread = groups.spread(x, self._alphas(len(x)), half_life), groups.columns()
        if spread is None:
            raise ValueError(
                "episode must be given to fit, or to partial_fit of state values, for "
                "return_std=True and "
                "value_interval: the label of each row's episode. At most "
                f"{LARGEST_HESSIAN} features are supported, "
                f"and {MAX_GROUPED_FEATURES} in a stream"
            )
        n = spread[0].n_clusters
        if half_life is not None and n < 2:
            raise ValueError(
                "half_life must be so long that at least 2 episodes count for "
                f"uncertainty, got {half_life!r}, with "
                f"which their effective number is {n:.2g}"
            )
        if n < 2:
            raise ValueError(
                "episode must have at least 2 different labels for uncertainty, got "
                f"{n}"
            )
        if n < FEW_EPISODES:
            warn(
                f"the uncertainty of values is estimated from {n:.3g} episodes, or "
                f"groups of them. With fewer than {FEW_EPISODES} it is itself "
                "uncertain: intervals contain the values less often than they should."
            )
        return spread

    def _successors(self, X, states, log_columns):
        """`successors` for the transitions of a score, and their `Order`. Without any,
        all must be terminal."""
        check_given(self, *log_columns[:4])
        n = len(states)
        order = order_of(
            log_columns.episode,
            log_columns.time,
            check_terminal(log_columns.terminal, n),
            n,
        )
        if (
            log_columns.next_X is None
            and log_columns.terminal is None
            and order is None
        ):
            log_columns = log_columns._replace(terminal=np.ones(n, dtype=bool))
        return *successors(self, X, states, log_columns, order), order

    def _score_of(self, error, terminal, order, sample_weight, ratios=1.0):
        """Minus the weighted mean square of the errors that are not NaN."""
        weights = row_weights(sample_weight, len(error))
        if order is not None:
            weights *= shares(order.step, ~np.isnan(error), terminal, weights)
        weights *= ratios
        kept = ~np.isnan(error) & (weights > 0)
        if not kept.any():
            raise ValueError(
                "X must have a transition with a successor or terminal, and of "
                "positive weight; got none"
            )
        return -float(np.average(error[kept] ** 2, weights=weights[kept]))


def map_predictions(estimator, X, return_std, shape=()):
    """``predict`` of a dask collection: a lazy array with rows of this shape, or two
    with ``return_std``."""
    check_columns(estimator, X)
    if not return_std:
        return map_lazily(estimator.predict, X, shape)
    both = map_lazily(
        lambda part: np.stack(estimator.predict(part, return_std=True), axis=-1),
        X,
        (*shape, 2),
    )
    return both[..., 0], both[..., 1]


def check_columns(estimator, X):
    """Raise a ValueError unless a dask collection has the columns of `fit`."""
    validate_data(estimator, without_rows(X), reset=False, skip_check_array=True)
