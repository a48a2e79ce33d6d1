"""Standard deviations and confidence intervals of the values of `BellmanValueEstimator`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sk_stormc.utils.types import Features, FloatArray
from sk_stormc.utils.validation import check_bool, check_number
from sk_stormc.utils.warnings import warn
from sk_stormc.values.linear_value import LARGEST_METRIC
from sk_stormc.values.uncertainty import FEW, LARGEST

__all__ = ["Intervals"]


class Intervals:
    """Mixin for standard deviations and confidence intervals, of an estimator with ``_spread`` or ``_groups``."""

    _states: Callable
    _value: Callable
    _features: Callable

    def value_interval(self, X0: Features, confidence: float = 0.9, *, mean: bool = False) -> FloatArray:
        """Confidence intervals of the values of states, over samples of episodes.

        An interval is the value plus or minus a quantile of Student's t times the standard deviation of `predict` with
        ``return_std=True``. The intervals hold for each state separately, not for all of them simultaneously.

        Parameters
        ----------
        X0 : array-like of shape (n_states, n_features)
            The states, for example those in which episodes start.
        confidence : float, default=0.9
            Confidence level in (0, 1]. With 1, the interval is infinite.
        mean : bool, default=False
            Whether to return the interval of the mean value of these states. The states count as fixed, not as a random
            sample.

        Returns
        -------
        ndarray of shape (n_states, 2), or (2,) if `mean`
            Lower and upper ends.

        Raises
        ------
        ValueError
            As for `predict` with ``return_std=True``, and if the confidence is out of its range.

        Warns
        -----
        UserWarning
            If there are fewer than 20 episodes.

        Examples
        --------
        >>> import numpy as np
        >>> from sk_stormc import BellmanValueEstimator
        >>> rng = np.random.default_rng(0)  # 50 episodes of 10 steps, whose rewards are 1 on average
        >>> X, y, episode = rng.random((500, 1)), rng.normal(1.0, 1.0, 500), np.arange(500) // 10
        >>> value = BellmanValueEstimator(gamma=0.5, solver="lstd").fit(X, y, episode=episode)
        >>> low, high = value.value_interval([[0.5]], confidence=0.99)[0]
        >>> bool(low < 2.0 < high)
        True
        """
        check_number("confidence", confidence, low=0, high=1, inclusive=False)
        check_bool("mean", mean)
        states = self._states(X0, "X0")
        values, Z = self._value(X0, states), self._features(X0, states)
        if mean:
            values, Z = values.mean(), np.asarray(Z.mean(axis=0)).reshape(1, -1)
        deviation, reach = self._deviations(Z, confidence)
        with np.errstate(invalid="ignore"):
            ends = values + reach * np.stack([-deviation, deviation], axis=-1).T
        return ends.T[0] if mean else ends.T

    def _deviations(self, Z, confidence=0.5):
        """Standard deviations of the values for features Z, and the quantile by which an interval multiplies them."""
        spread, columns = self._known_spread()
        deviation, others = spread.deviation(Z[:, columns]), np.ones(Z.shape[1], dtype=bool)
        others[columns] = False
        unknown = np.asarray(abs(Z[:, others]).sum(axis=1)).ravel() > 0
        return np.where(unknown, np.inf, deviation), spread.reach(confidence)

    def _known_spread(self):
        """The covariance of the coefficients (a spread object), and the columns of their features."""
        groups, found = self.__dict__.get("_groups"), self.__dict__.get("_spread")
        if groups is not None:
            x = np.append(self.coef_, self.intercept_)[: groups.b.shape[1]]
            found = groups.spread(x, self._alphas(len(x)), self.half_life), groups.columns()
        if found is None:
            raise ValueError(
                "episode must be given to fit, or to partial_fit, for return_std=True and value_interval: the label of "
                f"each row's episode. At most {LARGEST_METRIC} features are supported, and {LARGEST} in a stream"
            )
        n = found[0].n_clusters
        if self.half_life is not None and n < 2:
            raise ValueError(
                f"half_life must be so long that at least 2 episodes count for uncertainty, got {self.half_life!r}, "
                f"with which their effective number is {n:.2g}"
            )
        if n < 2:
            raise ValueError(f"episode must have at least 2 different labels for uncertainty, got {n}")
        if n < FEW:
            warn(
                f"the uncertainty of values is estimated from {n:.3g} episodes, or groups of them. With fewer than "
                f"{FEW} it is itself uncertain: intervals contain the values less often than they should."
            )
        return found
