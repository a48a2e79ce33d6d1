"""Base class of the value estimators: values that are linear in features of states, and
their score."""

from functools import partial
from typing import Literal, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.utils.blocks import computed, is_dask, map_lazily, without_rows
from sk_stormc.utils.parameters import check_bool, check_number
from sk_stormc.utils.rows import row_weights
from sk_stormc.utils.types import Features, FloatArray
from sk_stormc.utils.warnings import warn
from sk_stormc.values.reading.episodes import shares
from sk_stormc.values.reading.log_warnings import check_given, warn_of_endless_values
from sk_stormc.values.reading.states import checked_data, checked_states
from sk_stormc.values.reading.transitions import (
    LogColumns,
    order_of_log,
    successors,
    transform,
    with_intercept,
)
from sk_stormc.values.sums.least_squares import ridge
from sk_stormc.values.sums.lstd import LSTD, forget
from sk_stormc.values.sums.problems import LARGEST_HESSIAN
from sk_stormc.values.sums.uncertainty import FEW_EPISODES, MAX_GROUPED_FEATURES

__all__ = ["LinearEstimator"]

# number of columns of features, including the intercept, up to which "auto" selects
# "lstd"
EXACT = LARGEST_HESSIAN


def check_transformer(name, value):
    """Raise a ValueError unless the value is a transformer or None."""
    if value is not None and not (
        hasattr(value, "fit") and hasattr(value, "transform")
    ):
        raise ValueError(f"{name} must be a transformer or None, got {value!r}")


class LinearEstimator(CompositionalEstimator):
    """Base class of the estimators with parameters ``gamma``, ``features``,
    ``fit_intercept`` and ``alpha``."""

    own_solvers = ("auto", "lstd")
    # parameters of values of states
    half_life: float | None = None
    objective: str = "auto"
    trace_decay: float = 0.0
    has_actions = False
    # names of the arguments about successors, and whether an episode ends; the spread
    # of the coefficients of a fit, and their columns
    _given = _spread = None
    checks = {
        "gamma": partial(check_number, low=0, high=1),
        "alpha": partial(check_number, low=0),
        "fit_intercept": check_bool,
        "features": check_transformer,
    }

    def _solver_for(self, solver, n_columns):
        """The method, with "auto" replaced: by `LSTD` for at most `EXACT` columns of
        features, else by "storm-c"."""
        if solver == "auto" and n_columns > EXACT:
            return self._stepping_solver()
        return LSTD if isinstance(solver, str) else solver

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

    def _store(self, X, fitted, exact, fit=None, run=()):
        """Store the results of a fit: ``fitted`` attributes, with those of an exact
        solution, or of the ``run`` of a solver on a problem."""
        validate_data(self, X, skip_check_array=True)
        forget(self)
        vars(self).update(fitted, **exact, _progress=fit and fit.progress, _stream=None)
        if not run:
            self._report_result()
            if fit is not None:
                fit.end()
            return self
        solver, problem, result = run
        self._keep(solver, result, fit)
        fit.end()
        self._conclude(solver, result)
        if problem.is_endless(result.x):
            warn_of_endless_values()
        return self

    def _alphas(self, n_columns):
        return ridge(self.alpha, n_columns, self.fit_intercept)

    def _fitted_columns(self, X, states, rows=None):
        """Features without the intercept's column, for ``coef_``."""
        Z, d = transform(self.features_, X, states, False, rows), self.coef_.shape[-1]
        if Z.shape[1] != d:
            raise ValueError(
                f"features must give the {d} columns that were fitted, got {Z.shape[1]}"
            )
        return Z

    def _values(self, Z):
        """Values for features without the intercept's column."""
        return Z @ self.coef_.T + self.intercept_

    @overload
    def predict(
        self, X: Features, return_std: Literal[False] = False
    ) -> FloatArray: ...

    @overload
    def predict(
        self, X: Features, return_std: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def predict(
        self, X: Features, return_std: bool
    ) -> FloatArray | tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: Features, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the values of states, or of all actions in these states.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)
        return_std : bool, default=False
            Whether to also return the standard errors of the values over samples of
            episodes, with the policy as it is. They do not include the bias of the
            features or of ``alpha``, nor the choice of the policy by "greedy". They
            need ``episode`` in `fit`, or in the `partial_fit` of values of states. With
            ``half_life`` they account for the smaller effective number of episodes, but
            not for the change of the environment. They are infinite for a state with a
            feature that no row of X in `fit` has, or for values of actions, that no row
            with the action has.

        Returns
        -------
        values : ndarray of shape (n_states,) or (n_states, n_actions)
            For values of actions, the columns are in the order of ``actions_``. Lazy
            arrays of dask for a dask collection.
        std : ndarray of the shape of ``values``
            Only with ``return_std=True``.

        Raises
        ------
        ValueError
            With ``return_std=True``, if the episodes are unknown, if there is only one,
            or if with ``half_life`` their effective number is below 2.

        Warns
        -----
        UserWarning
            With ``return_std=True``, if there are fewer than 20 episodes.
        """
        check_bool("return_std", return_std)
        check_is_fitted(self)
        if is_dask(X):
            return map_predictions(self, X, return_std)
        Z = self._fitted_columns(X, checked_states(self, X))
        return (
            (self._values(Z), self._deviations(Z)[0]) if return_std else self._values(Z)
        )

    def value_interval(
        self, X0: Features, confidence: float = 0.9, *, mean: bool = False
    ) -> FloatArray:
        """Return confidence intervals of the values of states, or of all actions in
        these states, over samples of episodes.

        An interval is the value plus or minus a quantile of Student's t times the
        standard deviation of `predict` with ``return_std=True``. The intervals hold for
        each state and action separately, not for all of them simultaneously.

        Parameters
        ----------
        X0 : array-like of shape (n_states, n_features)
            The states, for example those in which episodes start.
        confidence : float, default=0.9
            Confidence level in (0, 1]. With 1, the interval is infinite.
        mean : bool, default=False
            Whether to return the interval of the mean value of these states. The states
            are treated as fixed, not as a random sample.

        Returns
        -------
        ndarray of shape (n_states, 2), or (2,) if `mean`
            Lower and upper ends. For values of actions, of shape (n_states, n_actions,
            2), or (n_actions, 2) if `mean`.

        Raises
        ------
        ValueError
            As for `predict` with ``return_std=True``, and if the confidence is out of
            its range.

        Warns
        -----
        UserWarning
            If there are fewer than 20 episodes.

        Examples
        --------
        >>> import numpy as np
        >>> from sk_stormc import BellmanValueEstimator
        >>> # 50 episodes of 10 steps, whose rewards are 1 on average
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.random((500, 1)), rng.normal(1.0, 1.0, 500)
        >>> episode = np.arange(500) // 10
        >>> value = BellmanValueEstimator(gamma=0.5).fit(
        ...     X, y, episode=episode, terminal=np.zeros(500, dtype=bool)
        ... )
        >>> low, high = value.value_interval([[0.5]], confidence=0.99)[0]
        >>> bool(low < 2.0 < high)
        True
        """
        check_number("confidence", confidence, low=0, high=1, inclusive=False)
        check_bool("mean", mean)
        check_is_fitted(self)
        Z = self._fitted_columns(X0, checked_states(self, X0, "X0"))
        values = self._values(Z)
        if mean:
            values = values.mean(axis=0, keepdims=True)
            Z = np.asarray(Z.mean(axis=0)).reshape(1, -1)
        deviation, reach = self._deviations(Z, confidence)
        with np.errstate(invalid="ignore"):
            ends = np.stack(
                [values - reach * deviation, values + reach * deviation], axis=-1
            )
        return ends[0] if mean else ends

    def _deviations(self, Z, confidence=0.5):
        """Standard deviations of the values for features Z, and the quantile by which
        an interval multiplies them."""
        rows = self._rows(with_intercept(Z, self.fit_intercept))
        spread, columns = self._spread_of_coefficients(rows.shape[1])
        others = np.ones(rows.shape[1], dtype=bool)
        others[columns] = False
        unknown = np.asarray(abs(rows[:, others]).sum(axis=1)).ravel() > 0
        deviation = np.where(unknown, np.inf, spread.deviation(rows[:, columns]))
        deviation = deviation.reshape(*np.shape(self.intercept_), -1).T
        return deviation, spread.reach(confidence)

    def _rows(self, Z):
        """The factors of all coefficients in the values for features Z, which include
        the intercept's column."""
        return Z

    def _spread_of_coefficients(self, n_columns):
        """The `Spread` of the coefficients, and the columns of their features."""
        stream, spread, half_life = self._stream, self._spread, self.half_life
        if stream is not None and stream.groups is not None:
            x = np.append(self.coef_, self.intercept_)[:n_columns]
            groups = stream.groups
            spread = groups.spread(x, self._alphas(len(x)), half_life), groups.columns()
        if spread is None:
            self._refuse_uncertainty()
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

    def _refuse_uncertainty(self):
        """Raise the ValueError for standard errors that are not known."""
        streaming = self._stream is not None
        if "episode" not in self._given[0] or (streaming and self.has_actions):
            raise ValueError(
                "episode must be given to fit, or to partial_fit of state values, for "
                "return_std=True and value_interval: the label of each row's episode"
            )
        most = MAX_GROUPED_FEATURES if streaming else LARGEST_HESSIAN
        of_intercepts = self.fit_intercept * np.size(self.intercept_)
        raise ValueError(
            f"X must have at most {most} features for return_std=True and "
            "value_interval, the intercept and all actions included, got "
            f"{np.size(self.coef_) + of_intercepts}: use features= with fewer columns"
        )

    def _errors(self, X, y, log_columns, **action):
        """The temporal-difference errors, NaN where the successor is unknown, the
        terminal flags and the `Order` of the rows."""
        check_is_fitted(self)
        X, y, *more = computed(X, y, *action.values(), *log_columns)
        action = dict(zip(action, more, strict=False))
        log_columns = LogColumns(*more[len(action) :])
        log_columns.check_labels(X, y, **action)
        states, y = checked_data(self, X, y, reset=False)
        check_given(self, log_columns)
        order = order_of_log(log_columns, len(y))
        if order is None and not log_columns.successor_names():
            log_columns = log_columns._replace(terminal=np.ones(len(y), dtype=bool))
        following = successors(self, X, states, log_columns, order)
        values = self._values(self._fitted_columns(X, states))
        error = np.where(following.known, y - self._taken(values, **action), np.nan)
        ongoing = following.ongoing()
        if len(ongoing):
            after = following.of(ongoing)
            Z = self._fitted_columns(after.source, after.states, after.at)
            error[ongoing] += self.gamma * self._expected(self._values(Z), Z, after)
        return error, following.terminal, order

    def _taken(self, values):
        """The values of the actions that were taken."""
        return values

    def _expected(self, values, Z, following):
        """The expected values of the policy's actions in successors with features
        Z."""
        return values

    def _score(self, errors, sample_weight, ratios=1.0):
        """Minus the weighted mean square of the errors that are not NaN."""
        error, terminal, order = errors
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


def map_predictions(estimator, X, return_std):
    """``predict`` of a dask collection: a lazy array, or two with ``return_std``."""
    check_columns(estimator, X)
    shape = np.shape(estimator.intercept_)
    if not return_std:
        return map_lazily(estimator.predict, X, shape)
    both = map_lazily(
        lambda part: np.stack(estimator.predict(part, return_std=True), axis=-1),
        X,
        (*shape, 2),
    )
    return both[..., 0], both[..., 1]


def notify_of(fit, exact, x, values):
    """Call the callbacks of a fit, if any, at both records of an exact solution."""
    if fit is None:
        return
    for k, record in enumerate(
        zip(exact["ifo_"], exact["loss_curve_"], (0 * x, x), strict=True)
    ):
        fit.notify(k, *record, values)


def check_columns(estimator, X):
    """Raise a ValueError unless a dask collection has the columns of `fit`."""
    validate_data(estimator, without_rows(X), reset=False, skip_check_array=True)
