"""Penalties and constraints R(x): their value, their proximal operator, the projection on their domain.

Every step of every solver is x~ = prox_{eta R}(x - eta D F) (PAPER.md section 6), with D the diagonal
metric, so ``step`` is a number or one number a coordinate. In the second case the operator is the one in the
norm sum_j z_j^2 / step_j, and each coordinate is moved in proportion to its own step.
"""

import numpy as np

__all__ = ["Box", "L1", "Simplex"]


def _soft(x, threshold):
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


class L1:
    """The l1 norm, R(x) = alpha |x|_1.

    Parameters
    ----------
    alpha : float
        Weight of the norm, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.penalties import L1
    >>> L1(1.0).prox(np.array([3.0, -0.2, -2.0]), 0.5)
    array([ 2.5, -0. , -1.5])
    """

    def __init__(self, alpha):
        if not (np.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha (the weight of the l1 norm) must be finite and >= 0, got {alpha!r}")
        self.alpha = float(alpha)

    def value(self, x):
        """R(x).

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        return self.alpha * float(np.abs(x).sum(dtype=np.float64))

    def prox(self, x, step):
        """Soft thresholding at ``alpha * step``.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        step : float or ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return _soft(x, self.alpha * step)

    def project(self, x):
        """x itself: every point is feasible.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return x


class Box:
    """Bounds low <= x <= high, with an optional budget sum_j x_j = budget and l1 norm.

    Parameters
    ----------
    low, high : float or array-like of shape (n_variables,)
        Bounds; infinite ones are allowed where there is no budget or the budget is reachable.
    budget : float, default=None
        The sum the coordinates must have.
    alpha : float, default=0.0
        Weight of an l1 norm beside the bounds.

    Raises
    ------
    ValueError
        Where low > high, a bound is NaN, or no point between the bounds has the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.penalties import Box
    >>> Box(0.0, 0.6, budget=1.0).prox(np.array([2.0, 0.5, 0.0]), 1.0)
    array([0.6, 0.4, 0. ])
    """

    def __init__(self, low, high, budget=None, alpha=0.0):
        self.low, self.high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
        if np.isnan(self.low).any() or np.isnan(self.high).any():
            raise ValueError(f"low and high must not be NaN, got low={low!r}, high={high!r}")
        wrong = np.flatnonzero(np.atleast_1d(self.low > self.high))
        if wrong.size:
            j = wrong[0]
            raise ValueError(
                f"low must not exceed high, got low={np.atleast_1d(self.low)[j]} > "
                f"high={np.atleast_1d(self.high)[j]} for coordinate {j}"
            )
        if budget is not None and not np.isfinite(budget):
            raise ValueError(f"budget must be a finite number or None, got {budget!r}")
        self.budget = None if budget is None else float(budget)
        self._l1 = L1(alpha)
        self.alpha = self._l1.alpha

    def value(self, x):
        """alpha |x|_1; the bounds are kept by `prox`, not by an infinite value.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        return self._l1.value(x)

    def check(self, n_variables):
        """Raise where no feasible point with ``n_variables`` coordinates exists.

        Parameters
        ----------
        n_variables : int

        Raises
        ------
        ValueError
            If the bounds have another length, or the budget cannot be reached.
        """
        if self.low.ndim and self.low.shape != (n_variables,):
            raise ValueError(
                f"low and high must be scalars or of shape ({n_variables},), got {self.low.shape}"
            )
        if self.budget is not None:
            least, most = (float(np.broadcast_to(b, n_variables).sum()) for b in (self.low, self.high))
            if not least <= self.budget <= most:
                raise ValueError(
                    f"budget={self.budget} is unreachable: between the bounds the {n_variables} coordinates "
                    f"sum to a value from {least} to {most}"
                )

    def prox(self, x, step):
        """Soft thresholding, clipping and, with a budget, the one multiplier that meets it.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        step : float or ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return self._solve(x, step, self.alpha)

    def project(self, x):
        """The nearest feasible point.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return self._solve(x, 1.0, 0.0)

    def _solve(self, x, step, alpha):
        def at(nu):
            z = x - step * nu
            return np.clip(_soft(z, alpha * step) if alpha else z, self.low, self.high)

        if self.budget is None:
            return at(0.0).astype(x.dtype, copy=False)
        # sum(at(nu)) falls in nu and is linear between the values where a coordinate meets a bound or a kink:
        # bisection over those, then one interpolation, is exact
        kinks = [
            x - z for bound in (self.low, self.high) for z in (bound - alpha * step, bound + alpha * step)
        ]
        kinks += [x - alpha * step, x + alpha * step] if alpha else []
        kinks = np.concatenate([(k / step).ravel() for k in kinks])
        kinks = np.sort(kinks[np.isfinite(kinks)])
        first, last = 0, len(kinks) - 1
        while last - first > 1:
            middle = (first + last) // 2
            if at(kinks[middle]).sum(dtype=np.float64) >= self.budget:
                first = middle
            else:
                last = middle
        a, b = (kinks[first], kinks[last]) if len(kinks) else (0.0, 0.0)
        over, under = at(a).sum(dtype=np.float64), at(b).sum(dtype=np.float64)
        if over < self.budget or under > self.budget or over == under:
            # beyond the outermost kinks only the coordinates without a bound there move
            a, over, bound = (b, under, self.low) if under > self.budget else (a, over, self.high)
            slope = np.broadcast_to(np.where(np.isfinite(bound), 0.0, step), x.shape).sum(dtype=np.float64)
            nu = a + (over - self.budget) / slope if slope else a
        else:
            nu = a + (b - a) * (over - self.budget) / (over - under)
        return at(nu).astype(x.dtype, copy=False)


class Simplex:
    """The probability simplex: x >= 0, sum_j x_j = total.

    Parameters
    ----------
    total : float, default=1.0
        The sum, > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.penalties import Simplex
    >>> Simplex().prox(np.array([0.9, 0.5, -1.0]), 1.0)
    array([0.7, 0.3, 0. ])
    """

    def __init__(self, total=1.0):
        if not (np.isfinite(total) and total > 0):
            raise ValueError(f"total must be finite and > 0, got {total!r}")
        self.total = float(total)

    def value(self, x):
        """0: the constraint is kept by `prox`, not by an infinite value.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        return 0.0

    def prox(self, x, step):
        """The weighted projection max(x - nu step, 0), nu such that the sum is met (exact, by sorting).

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        step : float or ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        step = np.broadcast_to(np.asarray(step, float), x.shape)
        order = np.argsort(-x / step)
        nu = (np.cumsum(x[order], dtype=float) - self.total) / np.cumsum(step[order])
        nu = nu[np.flatnonzero(x[order] > nu * step[order])[-1]]
        return np.maximum(x - nu * step, 0).astype(x.dtype, copy=False)

    def project(self, x):
        """The nearest feasible point.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return self.prox(x, 1.0)
