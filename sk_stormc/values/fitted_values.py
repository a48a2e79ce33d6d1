"""What fitted values of states say: the values, how sure they are, and how far they are from the rewards that came."""

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
    """Base of the estimator whose ``coef_`` and ``intercept_`` make the value of a state, when fitted."""

    def predict(self, X: Features, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """The values of states.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)
        return_std : bool, default=False
            Whether to give standard deviations too: how far values would vary with other episodes from the same policy.
            They contain neither what the features cannot express nor what ``alpha`` shrinks. They need ``episode`` in
            `fit`, or in `partial_fit`. With ``half_life`` they are those of values from the few episodes that still
            count, without what has changed since. They are infinite for a state with a feature that no left state has.

        Returns
        -------
        values : ndarray of shape (n_states,)
        std : ndarray of shape (n_states,)
            Only if `return_std`.

        Raises
        ------
        ValueError
            If deviations are asked for where episodes are not known, or only one, or where with ``half_life`` they
            count as fewer than 2.

        Warns
        -----
        UserWarning
            If deviations are asked for from fewer than 20 episodes.
        """
        check_bool("return_std", return_std)
        states = self._states(X)
        values = self._value(X, states)
        return (values, self._deviations(self._features(X, states))[0]) if return_std else values

    def td_error(
        self, X: Features, y: ArrayLike, *, next_X: Features | None = None, terminal: ArrayLike | None = None,
        time: ArrayLike | None = None, episode: ArrayLike | None = None
    ) -> FloatArray:
        """Temporal-difference errors y + gamma V(next_X) - V(X), with V(next_X) = 0 where terminal.

        Parameters
        ----------
        X, y, next_X, terminal, time
            As for `fit`. Without all of the last three every transition is terminal, which is an error if `fit` was
            given any of them or ``episode``.
        episode : array-like of shape (n_transitions,), default=None
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows without a successor that are not terminal, which only ``time`` can leave.

        Raises
        ------
        ValueError
            As for `fit`, and where successors are missing.
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

        It compares features and solvers on the same transitions, not values of gamma. Where transitions are random it
        contains their variance.

        Parameters
        ----------
        X, y, next_X, terminal, time, episode
            As for `td_error`. Rows without a successor that are not terminal are left out.
        sample_weight : array-like of shape (n_transitions,), default=None
        importance_ratio : array-like of shape (n_transitions,), default=None
            As for `fit`: the mean is then that under the other policy.

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
