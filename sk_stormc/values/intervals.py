"""How sure one can be of values: what `BellmanValueEstimator` says of it."""

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
    """Standard deviations and intervals of values, of an estimator that has ``_spread`` or ``_groups``."""

    _states: Callable
    _value: Callable
    _features: Callable

    def value_interval(self, X0: Features, confidence: float = 0.9, *, mean: bool = False) -> FloatArray:
        """Intervals that contain the values of states with a given probability, over samples of episodes.

        A value plus or minus its standard deviation times Student's t, as `predict` has it with ``return_std=True``.
        They hold for each state alone, not for all of them at once.

        Parameters
        ----------
        X0 : array-like of shape (n_states, n_features)
            For example the states in which episodes start.
        confidence : float, default=0.9
            In (0, 1).
        mean : bool, default=False
            Whether the interval is that of the mean value of these states. The states are taken as they are, not as a
            sample.

        Returns
        -------
        ndarray of shape (n_states, 2), or (2,) if `mean`
            Lower and upper ends.

        Raises
        ------
        ValueError
            As for `predict` with ``return_std=True``, and for a confidence out of its range.

        Warns
        -----
        UserWarning
            For fewer than 20 episodes.

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
        """Standard deviations of values that have these features, and how many of them an interval reaches."""
        spread, columns = self._known_spread()
        deviation, others = spread.deviation(Z[:, columns]), np.ones(Z.shape[1], dtype=bool)
        others[columns] = False
        unknown = np.asarray(abs(Z[:, others]).sum(axis=1)).ravel() > 0
        return np.where(unknown, np.inf, deviation), spread.reach(confidence)

    def _known_spread(self):
        """How coefficients vary, and of which features they are."""
        groups, found = self.__dict__.get("_groups"), self.__dict__.get("_spread")
        if groups is not None:
            x = np.append(self.coef_, self.intercept_)[: groups.b.shape[1]]
            found = groups.spread(x, self._alphas(len(x)), self.half_life), groups.columns()
        if found is None:
            raise ValueError(
                "episode must be given to fit, or to partial_fit, for return_std=True and value_interval: the label of "
                f"each row's episode. There must be at most {LARGEST_METRIC} features, and {LARGEST} in a stream"
            )
        n = found[0].n_clusters
        if self.half_life is not None and n < 2:
            raise ValueError(
                f"half_life must be so long that at least 2 episodes count for uncertainty, got {self.half_life!r}, "
                f"with which they count as {n:.2g}"
            )
        if n < 2:
            raise ValueError(f"episode must have at least 2 different labels for uncertainty, got {n}")
        if n < FEW:
            warn(
                f"the uncertainty of values is estimated from {n:.3g} episodes, or groups of them. With fewer than "
                f"{FEW} it is itself uncertain: intervals contain the values less often than they should."
            )
        return found
