"""Predictions of fitted action values: values, greedy actions, temporal-difference errors and a score."""

from __future__ import annotations

from types import MethodType

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sk_stormc.utils.types import Array, ArrayLike, Features, FloatArray
from sk_stormc.values.linear_estimator import LinearEstimator
from sk_stormc.values.lspi import best_actions, unknown_actions
from sk_stormc.values.policies import check_actions, chosen, numbers_of, policy_chances
from sk_stormc.values.transitions import Given, checked_data


class read_as_method:
    """A descriptor for a name that is both a parameter and a method.

    Assigning the attribute sets the parameter, in the instance's ``__dict__``. Reading it returns the method.
    """

    def __init__(self, method):
        self.method, self.__doc__ = method, method.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, estimator, owner=None):
        return self.method if estimator is None else MethodType(self.method, estimator)

    def __set__(self, estimator, value):
        vars(estimator)[self.name] = value


class FittedActionValues(LinearEstimator):
    """Base class of `ActionValueEstimator`: methods that need only the parameters and the fitted attributes."""

    def predict(self, X: Features) -> FloatArray:
        """Return the values of all actions.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)

        Returns
        -------
        ndarray of shape (n_states, n_actions)
            Columns are in the order of ``actions_``.
        """
        return self._values(X, self._states(X))

    @read_as_method
    def policy(self, X: Features) -> Array:
        """Return the greedy action, which has the largest value. Ties are resolved in favour of the first action.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)

        Returns
        -------
        ndarray of shape (n_states,)
            Labels from ``actions_``.
        """
        Z = self._fitted_columns(X, self._states(X))
        return self.actions_[best_actions(self._linear(Z), unknown_actions(Z, self._known))]

    def td_error(
        self, X: Features, y: ArrayLike, *, action: ArrayLike | None = None, next_X: Features | None = None,
        terminal: ArrayLike | None = None, time: ArrayLike | None = None, episode: ArrayLike | None = None
    ) -> FloatArray:
        """Return the temporal-difference errors y + gamma V(next_X) - Q(X, action).

        V(next_X) is the expected value of the policy's actions, or with "greedy" the value of the best action. It is 0
        after terminal transitions.

        Parameters
        ----------
        X, y, action, next_X, terminal, time, episode
            As for `fit`. Without next_X, time and episode every transition must be terminal.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows that are not terminal and have no successor, which is possible only with ``time``.

        Raises
        ------
        ValueError
            As for `fit`, and if successors are missing, or if an action is not in ``actions_``.
        """
        return self._errors(X, y, action, Given(next_X, terminal, time, episode))[0]

    def _errors(self, X, y, action, given):
        """The temporal-difference errors, the terminal flags and the `Order` of the rows."""
        check_is_fitted(self)
        states, y = checked_data(self, X, y, reset=False)
        action = numbers_of(check_actions(action, len(y)), self.actions_)
        source, follows, at, known, terminal, order = self._successors(X, states, given)
        left = self._values(X, states)[np.arange(len(y)), action]
        error = np.where(known, y - left, np.nan)
        ongoing = np.flatnonzero(known & ~terminal)
        if not len(ongoing):
            return error, terminal, order
        Z, policy = self._fitted_columns(source, follows, at[ongoing]), vars(self)["policy"]
        after = self._linear(Z)
        if isinstance(policy, str):
            chances = chosen(best_actions(after, unknown_actions(Z, self._known)), len(self.actions_))
        else:
            chances = policy_chances(policy, source, follows[at[ongoing]], at[ongoing], self.actions_)
        error[ongoing] += self.gamma * (chances * after).sum(axis=1)
        return error, terminal, order

    def score(
        self, X: Features, y: ArrayLike, *, action: ArrayLike | None = None, next_X: Features | None = None,
        terminal: ArrayLike | None = None, time: ArrayLike | None = None, episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None
    ) -> float:
        """Return minus the mean squared temporal-difference error: higher is better.

        The score can compare features on the same transitions, but not values of gamma. It does not measure how good a
        policy is. Use episodes of the policy or off-policy evaluation for that.

        Parameters
        ----------
        X, y, action, next_X, terminal, time, episode
            As for `td_error`. Rows that are not terminal and have no successor are left out, with terminal rows of the
            same step in proportion, as in `fit`.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the squared errors.

        Returns
        -------
        float
        """
        return self._score_of(*self._errors(X, y, action, Given(next_X, terminal, time, episode)), sample_weight)

    def _linear(self, Z):
        return Z @ self.coef_.T + self.intercept_

    def _values(self, X, states):
        return self._linear(self._fitted_columns(X, states))
