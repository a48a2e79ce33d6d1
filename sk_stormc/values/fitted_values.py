"""Predictions of fitted state values: values, standard deviations, temporal-difference errors and a score."""

from __future__ import annotations

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sk_stormc.utils.types import ArrayLike, Features, FloatArray
from sk_stormc.utils.validation import check_bool, row_weights
from sk_stormc.values.intervals import Intervals
from sk_stormc.values.linear_estimator import LinearEstimator
from sk_stormc.values.transitions import check_ratios, checked_data, transform

__all__ = ["FittedValues"]


class FittedValues(Intervals, RegressorMixin, LinearEstimator):
    """Base class of `BellmanValueEstimator`: all that needs only the parameters and the fitted attributes."""

    def predict(self, X: Features, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """The values of states.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)
        return_std : bool, default=False
            Whether to also return standard deviations: the standard errors of the values over samples of episodes from
            the same policy. They do not include the bias of the features or of ``alpha``. They need ``episode`` in
            `fit` or in `partial_fit`. With ``half_life`` they take into account how few episodes still count, but not
            the change of the environment. They are infinite for a state with a feature that no row of X in `fit` has.

        Returns
        -------
        values : ndarray of shape (n_states,)
        std : ndarray of shape (n_states,)
            Only with ``return_std=True``.

        Raises
        ------
        ValueError
            With ``return_std=True``, if the episodes are unknown, if there is only one, or if with ``half_life`` their
            effective number is below 2.

        Warns
        -----
        UserWarning
            With ``return_std=True``, if there are fewer than 20 episodes.
        """
        check_bool("return_std", return_std)
        states = self._states(X)
        values = self._value(X, states)
        return (values, self._deviations(self._features(X, states))[0]) if return_std else values

    def td_error(
        self, X: Features, y: ArrayLike, *, next_X: Features | None = None, terminal: ArrayLike | None = None,
        time: ArrayLike | None = None, episode: ArrayLike | None = None
    ) -> FloatArray:
        """Temporal-difference errors y + gamma V(next_X) - V(X), with V(next_X) = 0 for terminal transitions.

        Parameters
        ----------
        X, y, next_X, terminal, time
            As for `fit`. Without any of next_X, terminal, time and episode, every transition counts as terminal, which
            is an error if `fit` was given one of them.
        episode : array-like of shape (n_transitions,), default=None
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows that are not terminal and have no successor, which is possible only with ``time``.

        Raises
        ------
        ValueError
            As for `fit`, and if successors are missing.
        """
        check_is_fitted(self)
        states, y = checked_data(self, X, y, reset=False)
        source, follows, rows, kept, terminal = self._successors(X, states, next_X, terminal, time, episode)
        error = np.where(kept, y - self._value(X, states), np.nan)
        going = np.flatnonzero(kept & ~terminal)
        if len(going):
            error[going] += self.gamma * self._value(source, follows, rows[going])
        return error

    def score(
        self, X: Features, y: ArrayLike, *, next_X: Features | None = None, terminal: ArrayLike | None = None,
        time: ArrayLike | None = None, episode: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
        importance_ratio: ArrayLike | None = None
    ) -> float:
        """Minus the mean squared temporal-difference error: higher is better.

        It can compare features and solvers on the same transitions, but not values of gamma. If transitions are random
        it includes their variance.

        Parameters
        ----------
        X, y, next_X, terminal, time, episode
            As for `td_error`. Rows that are not terminal and have no successor are left out.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the squared errors.
        importance_ratio : array-like of shape (n_transitions,), default=None
            As for `fit`. The mean is then an estimate under the target policy.

        Returns
        -------
        float
        """
        error = self.td_error(X, y, next_X=next_X, terminal=terminal, time=time, episode=episode)
        weights = row_weights(sample_weight, len(error)) * check_ratios(importance_ratio, len(error))
        return self._score_of(error, weights)

    def _features(self, X, states):
        return transform(self.features_, X, states, None, self.fit_intercept)

    def _value(self, X, states, rows=None):
        return self._fitted_columns(X, states, rows) @ self.coef_ + self.intercept_
