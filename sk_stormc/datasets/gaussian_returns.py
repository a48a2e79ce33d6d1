"""Synthetic returns for the portfolio problems."""

from __future__ import annotations

import numpy as np

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import check_int, check_number, seeded
from sk_stormc.utils.types import ArrayLike, FloatArray, RandomState


def make_gaussian_returns(
    n_periods: int = 2000,
    n_assets: int = 200,
    *,
    mean: ArrayLike = 4.0,
    condition_number: float = 20.0,
    random_state: RandomState = None,
) -> FloatArray:
    """Draw independent Gaussian returns whose covariance has one eigenvalue that
    differs from 1.

    Each row is drawn from the normal distribution with mean ``mean`` and covariance
    :math:`I + (\\kappa - 1) q q^\\top`, where :math:`\\kappa` is `condition_number` and
    :math:`q` a unit vector drawn uniformly at random. The eigenvalue along :math:`q` is
    :math:`\\kappa`, all the others are 1.

    Parameters
    ----------
    n_periods : int, default=2000
        Number of rows, at least 1.
    n_assets : int, default=200
        Number of columns, at least 1.
    mean : float or array-like of shape (n_assets,), default=4.0
        Expected return, one for all assets or one for each asset.
    condition_number : float, default=20.0
        The eigenvalue :math:`\\kappa` > 0. It is the condition number of the covariance
        if it is at least 1 and `n_assets` is at least 2. Below 1 the condition number
        is its inverse.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible output across calls.

    Returns
    -------
    returns : ndarray of shape (n_periods, n_assets)
        The returns, float64, in the unit of `mean`.

    Raises
    ------
    ValueError
        If a parameter is out of its range or `mean` has another shape.

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(n_periods=500, n_assets=3, random_state=0)
    >>> returns.shape
    (500, 3)
    """
    check_int("n_periods", n_periods, low=1)
    check_int("n_assets", n_assets, low=1)
    check_number("condition_number", condition_number, low=0, inclusive=False)
    mean = as_numbers("mean", mean)
    if mean.shape not in ((), (n_assets,)):
        raise ValueError(
            f"mean must be a scalar or of shape ({n_assets},), got shape {mean.shape}"
        )
    if not np.isfinite(mean).all():
        raise ValueError(f"mean must be finite, got {mean}")

    rng = seeded(random_state)
    direction = rng.standard_normal(n_assets)
    direction /= np.linalg.norm(direction)
    returns = rng.standard_normal((n_periods, n_assets))
    # Stretching the component along the direction avoids the n_assets x n_assets
    # covariance matrix.
    returns += np.outer(
        returns @ direction, (np.sqrt(condition_number) - 1) * direction
    )
    returns += mean
    return returns
