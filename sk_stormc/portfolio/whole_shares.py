"""The whole numbers of shares that come closest to the weights of a portfolio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from sk_stormc.portfolio.labels import aligned
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.frames import is_series
from sk_stormc.utils.parameters import check_number

__all__ = ["WholeShares", "whole_shares"]


class WholeShares(NamedTuple):
    """Whole numbers of shares.

    Attributes
    ----------
    shares : ndarray of shape (n_assets,) of int64, or Series
        Negative numbers are sold short.
    cash : float
        What is left of the capital.

    See Also
    --------
    whole_shares : Find them.

    Examples
    --------
    >>> from sk_stormc import whole_shares
    >>> whole_shares([0.5, 0.5], [30.0, 40.0], 100.0).cash
    0.0
    """

    shares: Any
    cash: float


def whole_shares(weights: Any, prices: Any, capital: float) -> WholeShares:
    """Find the whole numbers of shares that come closest to the weights.

    They minimise the sum over assets j of ``abs(prices[j] * shares[j] - capital *
    weights[j])``, and cost at most the capital. Shares of negative weights are sold,
    and their proceeds count. The minimum is exact, by SciPy's
    :func:`~scipy.optimize.milp`.

    Parameters
    ----------
    weights : array-like of shape (n_assets,), mapping or Series
        As parts of the capital. What they lack to one stays cash.
    prices : array-like of shape (n_assets,), mapping or Series
        The price of a share. If weights and prices have labels, prices are aligned to
        the labels of the weights, and further prices are ignored.
    capital : float
        In the currency of the prices.

    Returns
    -------
    WholeShares
        ``shares``, a Series if weights or prices are one, and ``cash``.

    Raises
    ------
    ValueError
        If weights or prices are not finite, a price is not positive, the capital is not
        positive, or weights and prices do not belong together.

    See Also
    --------
    CompositionalPortfolio : The weights.

    Examples
    --------
    >>> from sk_stormc import whole_shares
    >>> found = whole_shares([0.6, 0.4], [190.0, 55.0], capital=1000.0)
    >>> found.shares, found.cash
    (array([3, 7]), 45.0)
    """
    check_number("capital", capital, low=0, inclusive=False)
    labelled = weights if is_series(weights) else prices if is_series(prices) else None
    labels = _labels(weights)
    if labelled is not None:
        index = labelled.index if labels is None or is_series(weights) else labels
    if labels is not None and _labels(prices) is not None:
        prices = aligned("prices", prices, labels, len(labels))
    weights, prices = _vector("weights", weights), _vector("prices", prices)
    if len(weights) != len(prices):
        raise ValueError(
            f"prices must have a price for each of {len(weights)} weights, got "
            f"{len(prices)}"
        )
    if (prices <= 0).any():
        raise ValueError(f"prices must be positive, got {prices[prices <= 0][0]:g}")
    amounts = capital * weights
    # an exact number of shares may be a little less by rounding
    fewest = np.floor(amounts / prices + 1e-9)
    shares = fewest + _changes(amounts, prices, fewest, capital)
    cash = capital - float(prices @ shares)
    shares = shares.astype(np.int64)
    if labelled is not None:
        shares = type(labelled)(shares, index=index, name="shares")
    return WholeShares(shares, max(cash, 0.0) if cash > -1e-9 * capital else cash)


def _changes(amounts, prices, fewest, capital):
    """What is added to the numbers of shares that are rounded down.

    One more share of an asset changes its deviation by its price minus twice the
    remainder. Fewer shares are only needed if those rounded down cost more than the
    capital, as with weights whose sum is above one; each adds its price to the
    deviation.
    """
    n, remainders = len(prices), amounts - prices * fewest
    held = np.maximum(fewest, 0.0)
    # in units of the lowest price, below which the solver's tolerance is far
    unit = prices.min()
    left = (capital - prices @ fewest) / unit
    left = 0.0 if abs(left) < 1e-9 * capital / unit else left
    cost = np.concatenate([prices - 2 * remainders, prices]) / unit
    found = milp(
        cost,
        integrality=np.ones(2 * n),
        bounds=Bounds(np.zeros(2 * n), np.concatenate([np.ones(n), held])),
        constraints=LinearConstraint(np.concatenate([prices, -prices]) / unit, ub=left),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        raise ValueError(
            f"whole shares of these weights were not found: {found.message}"
        )
    more, fewer = np.round(found.x).reshape(2, n)
    return more - fewer


def _labels(values):
    """The labels of a series or a mapping, or None."""
    if is_series(values):
        return list(values.index)
    return list(values) if isinstance(values, Mapping) else None


def _vector(name, values):
    """Finite numbers in one dimension."""
    values = list(values.values()) if isinstance(values, Mapping) else values
    values = as_numbers(name, values)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite numbers in one dimension, got shape {values.shape}"
            f"{' with missing or infinite ones' * (values.ndim == 1)}"
        )
    return values
