"""Predictions of fitted state values: values, intervals, temporal-difference errors and
a score."""

from __future__ import annotations

from sklearn.base import RegressorMixin

from sk_stormc.utils.types import ArrayLike, Features, FloatArray
from sk_stormc.values.linear_estimator import LinearEstimator
from sk_stormc.values.transitions import LogColumns, check_ratios


class FittedValues(RegressorMixin, LinearEstimator):
    """Base class of `BellmanValueEstimator`: methods that need only the parameters and
    the fitted attributes."""

    def value_interval(
        self, X0: Features, confidence: float = 0.9, *, mean: bool = False
    ) -> FloatArray:
        """Return confidence intervals of the values of states, over samples of
        episodes.

        An interval is the value plus or minus a quantile of Student's t times the
        standard deviation of `predict` with ``return_std=True``. The intervals hold for
        each state separately, not for all of them simultaneously.

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
        return self._intervals(X0, confidence, mean)

    def td_error(
        self,
        X: Features,
        y: ArrayLike,
        *,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the temporal-difference errors y + gamma V(next_X) - V(X); V(next_X)
        is 0 for terminal transitions.

        Parameters
        ----------
        X, y, next_X, terminal, time
            As for `fit`. Without any of next_X, terminal, time and episode, every
            transition is treated as terminal, which is an error if `fit` was given one
            of them.
        episode : array-like of shape (n_transitions,), default=None
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows that are not terminal and have no successor, which is possible
            only with ``time``.

        Raises
        ------
        ValueError
            As for `fit`, and if successors are missing.
        """
        return self._errors(X, y, LogColumns(next_X, terminal, time, episode))[0]

    def score(
        self,
        X: Features,
        y: ArrayLike,
        *,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        importance_ratio: ArrayLike | None = None,
    ) -> float:
        """Return minus the mean squared temporal-difference error: higher is better.

        The score can compare features and solvers on the same transitions, but not
        values of gamma. If transitions are random, the error includes their variance.

        Parameters
        ----------
        X, y, next_X, terminal, time, episode
            As for `td_error`. Rows that are not terminal and have no successor are left
            out, with terminal rows of the same step in proportion, as in `fit`.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the squared errors.
        importance_ratio : array-like of shape (n_transitions,), default=None
            As for `fit`. The mean is then an estimate under the target policy.

        Returns
        -------
        float
        """
        columns = next_X, terminal, time, episode, sample_weight, importance_ratio
        errors = self._errors(X, y, LogColumns(*columns))
        ratios = check_ratios(importance_ratio, len(errors[0]))
        return self._score(errors, sample_weight, ratios)
