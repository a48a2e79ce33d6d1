"""Predictions of fitted action values: values, greedy actions, temporal-difference
errors and a score."""

from __future__ import annotations

from types import MethodType

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sk_stormc.utils.blocks import is_dask, map_lazily
from sk_stormc.utils.types import Array, ArrayLike, Features, FloatArray
from sk_stormc.utils.warnings import warn
from sk_stormc.values.action_blocks import pairs
from sk_stormc.values.linear_estimator import LinearEstimator, check_columns
from sk_stormc.values.lspi import best_actions, unknown_actions
from sk_stormc.values.policies import check_actions, chosen, numbers_of
from sk_stormc.values.states import checked_states
from sk_stormc.values.transitions import LogColumns


class deprecated_method:
    """A descriptor for a method whose name is also that of a parameter, until version
    0.6 removes the method.

    Assigning the attribute sets the parameter, in the instance's ``__dict__``. Reading
    it returns the method.
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
    """Base class of `ActionValueEstimator`: methods that need only the parameters and
    the fitted attributes."""

    has_actions = True

    def value_interval(
        self, X0: Features, confidence: float = 0.9, *, mean: bool = False
    ) -> FloatArray:
        """Return confidence intervals of the values of all actions, over samples of
        episodes.

        As `BellmanValueEstimator.value_interval`, from the standard errors of
        `predict`. The intervals hold for each state and action separately.

        Parameters
        ----------
        X0 : array-like of shape (n_states, n_features)
            The states.
        confidence : float, default=0.9
            Confidence level in (0, 1]. With 1, the interval is infinite.
        mean : bool, default=False
            Whether to return the intervals of the mean values over these states.

        Returns
        -------
        ndarray of shape (n_states, n_actions, 2), or (n_actions, 2) if `mean`
            Lower and upper ends.

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
        >>> from sk_stormc import ActionValueEstimator
        >>> # 100 episodes of one step; action 1 has a reward of 1 on average
        >>> rng = np.random.default_rng(0)
        >>> action = np.arange(100) % 2
        >>> q = ActionValueEstimator(fit_intercept=False).fit(
        ...     np.ones((100, 1)),
        ...     rng.normal(action, 0.1),
        ...     action=action,
        ...     episode=np.arange(100),
        ...     terminal=np.ones(100, dtype=bool),
        ... )
        >>> low, high = q.value_interval([[1.0]])[0, 1]
        >>> bool(0.9 < low < 1.0 < high < 1.1)
        True
        """
        return self._intervals(X0, confidence, mean)

    def predict_action(self, X: Features) -> Array:
        """Return the greedy action, which has the largest value. Ties are resolved in
        favour of the first action.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)

        Returns
        -------
        ndarray of shape (n_states,)
            Labels from ``actions_``. A lazy array of dask for a dask collection.
        """
        check_is_fitted(self)
        if is_dask(X):
            check_columns(self, X)
            return map_lazily(self.predict_action, X, dtype=self.actions_.dtype)
        Z = self._fitted_columns(X, checked_states(self, X))
        best = best_actions(self._values(Z), unknown_actions(Z, self._known))
        return self.actions_[best]

    @deprecated_method
    def policy(self, X: Features) -> Array:
        """Return `predict_action(X)`. Version 0.6 will remove this method, and
        ``policy`` will be the parameter.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)

        Returns
        -------
        ndarray of shape (n_states,)
            Labels from ``actions_``.
        """
        warn(
            "policy(X) is called predict_action(X) since version 0.5; version 0.6 "
            "will remove it",
            FutureWarning,
        )
        return self.predict_action(X)

    def td_error(
        self,
        X: Features,
        y: ArrayLike,
        *,
        action: ArrayLike | None = None,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the temporal-difference errors y + gamma V(next_X) - Q(X, action).

        V(next_X) is the expected value of the policy's actions, or with "greedy" the
        value of the best action. It is 0 after terminal transitions.

        Parameters
        ----------
        X, y, action, next_X, terminal, time, episode
            As for `fit`. Without next_X, time and episode every transition must be
            terminal.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows that are not terminal and have no successor, which is possible
            only with ``time``.

        Raises
        ------
        ValueError
            As for `fit`, and if successors are missing, or if an action is not in
            ``actions_``.
        """
        log_columns = LogColumns(next_X, terminal, time, episode)
        return self._errors(X, y, log_columns, action=action)[0]

    def _taken(self, values, action):
        if action is None and len(self.actions_) == 1:
            return values[:, 0]
        number = numbers_of(check_actions(action, len(values)), self.actions_)
        return values[np.arange(len(values)), number]

    def _expected(self, values, Z, following):
        policy = vars(self)["policy"]
        if isinstance(policy, str):
            best = best_actions(values, unknown_actions(Z, self._known))
            chances = chosen(best, len(self.actions_))
        else:
            chances = following.chances(policy, self.actions_)
        return (chances * values).sum(axis=1)

    def score(
        self,
        X: Features,
        y: ArrayLike,
        *,
        action: ArrayLike | None = None,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return minus the mean squared temporal-difference error: higher is better.

        The score can compare features on the same transitions, but not values of gamma.
        It does not measure how good a policy is. Use episodes of the policy or
        off-policy evaluation for that.

        Parameters
        ----------
        X, y, action, next_X, terminal, time, episode
            As for `td_error`. Rows that are not terminal and have no successor are left
            out, with terminal rows of the same step in proportion, as in `fit`.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the squared errors.

        Returns
        -------
        float
        """
        log_columns = LogColumns(next_X, terminal, time, episode, sample_weight)
        errors = self._errors(X, y, log_columns, action=action)
        return self._score(errors, sample_weight)

    def _rows(self, Z):
        m, n = len(self.actions_), Z.shape[0]
        rows = [pairs(Z, np.full(n, a), m) for a in range(m)]
        return sparse.vstack(rows, format="csr")
