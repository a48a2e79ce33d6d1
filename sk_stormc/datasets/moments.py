"""Returns with a given mean and covariance, by which forecasts become data."""

from __future__ import annotations

from typing import Any

import numpy as np

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.frames import columns_of, is_series, is_table, rows_of
from sk_stormc.utils.parameters import short
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.warnings import warn


def returns_from_moments(mean: ArrayLike, covariance: ArrayLike) -> Any:
    r"""Make returns with exactly this mean and covariance, for `CompositionalPortfolio`
    to fit.

    The n assets have 2 n periods, :math:`\mu \pm \sqrt{n \lambda_k} \, v_k`. Here
    :math:`\lambda_k` and :math:`v_k` are the eigenvalues and eigenvectors of the
    covariance. Shrunken covariances, those of factor models, and your own forecasts can
    therefore be used with all constraints, costs and ratios.

    The returns are meant for ``risk_measure="variance"``, which mean and covariance
    determine. They say nothing about tails: the other measures of these returns depend
    on the arbitrary choice of the periods.

    Parameters
    ----------
    mean : array-like of shape (n_assets,)
        Mean return of each asset per period. A Series or dict is aligned with the
        labels of the covariance.
    covariance : array-like of shape (n_assets, n_assets)
        Covariance of the returns per period. It may be singular.

    Returns
    -------
    ndarray of shape (2 * n_assets, n_assets), or DataFrame
        The returns, in the unit of the mean. Their covariance with divisor 2 n_assets,
        and not one less, is ``covariance``. If it is a data frame, so are the returns,
        with its columns.

    Raises
    ------
    ValueError
        If the shapes do not match, if the covariance is not symmetric, has an
        eigenvalue that is far below 0, or labels that differ from those of the mean.

    Warns
    -----
    UserWarning
        If eigenvalues are slightly below 0, as for covariances that were estimated from
        different periods. They are replaced by 0, which gives the nearest covariance.

    See Also
    --------
    CompositionalPortfolio : Its ``expected_returns`` replaces the mean only, and keeps
        the returns of the history.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.datasets import returns_from_moments
    >>> returns = returns_from_moments([0.02, 0.05], [[0.04, 0.01], [0.01, 0.09]])
    >>> returns.mean(axis=0).round(12), np.cov(returns, rowvar=False, ddof=0).round(12)
    (array([0.02, 0.05]), array([[0.04, 0.01],
           [0.01, 0.09]]))
    >>> portfolio = CompositionalPortfolio(risk_aversion=np.inf, budget=1).fit(returns)
    >>> portfolio.weights_.round(4)
    array([0.7273, 0.2727])
    """
    labels = _labels(covariance)
    mean = _aligned(mean, labels)
    mu, C = as_numbers("mean", mean), as_numbers("covariance", covariance)
    n = len(C) if C.ndim else 0
    if C.shape != (n, n) or not n:
        raise ValueError(
            f"covariance must be of shape (n_assets, n_assets), got {C.shape}"
        )
    if mu.shape != (n,):
        raise ValueError(
            f"mean must be of shape ({n},), as covariance has {n} assets, got "
            f"{mu.shape}"
        )
    for name, values in (("mean", mu), ("covariance", C)):
        wrong = values[~np.isfinite(values)]
        if wrong.size:
            raise ValueError(f"{name} must be finite, got {wrong[0]}")
    apart = np.abs(C - C.T)
    if apart.max() > 1e-8 * np.abs(C).max():
        i, j = divmod(int(apart.argmax()), n)
        raise ValueError(
            f"covariance must be symmetric, got {C[i, j]:.6g} for [{i}, {j}] and "
            f"{C[j, i]:.6g} for [{j}, {i}]"
        )
    # in units of the standard deviations, so that assets of any unit have the same
    # precision
    unit = np.sqrt(np.maximum(np.diagonal(C), 0))
    unit[unit == 0] = 1.0
    values, vectors = np.linalg.eigh((C + C.T) / 2 / np.outer(unit, unit))
    lowest = values[0] / max(values[-1], np.finfo(float).tiny)
    if lowest < -0.1:
        raise ValueError(
            "covariance must not have negative eigenvalues, got one that is "
            f"{-lowest:.2g} of the largest: is it a correlation of another sign, or "
            "are its entries in another order?"
        )
    if lowest < -1e-10:  # beyond the rounding errors of a singular covariance
        warn(
            f"covariance has eigenvalues below 0, of up to {-lowest:.2g} of the "
            "largest. They are replaced by 0, as no portfolio has a negative variance"
        )
    # the rows of a square root of n C
    steps = np.sqrt(n * np.maximum(values, 0))[:, None] * vectors.T * unit
    returns = np.vstack([mu + steps, mu - steps])
    frame: Any = covariance
    if not is_table(frame) or not hasattr(frame, "iloc"):
        return returns
    return type(frame)(returns, columns=frame.columns)


def _labels(covariance):
    """The labels of the assets, or None. Those of rows and columns must be the same."""
    labels = columns_of(covariance) if is_table(covariance) else None
    rows = rows_of(covariance)
    if labels is not None and rows not in (None, labels):
        raise ValueError(
            "covariance must have the same labels for rows and columns, got "
            f"{short(rows[:5])} and {short(labels[:5])}"
        )
    return labels


def _aligned(mean, labels):
    """The mean returns in the order of the labels, if they have labels."""
    if is_series(mean):
        mean = dict(zip(mean.index, mean.to_numpy(), strict=True))
    if not isinstance(mean, dict):
        return mean
    if labels is None:
        raise ValueError(
            "mean must have no labels if covariance has none, got a Series or a dict"
        )
    missing = [label for label in labels if label not in mean]
    if missing:
        raise ValueError(
            f"mean must have the assets of covariance, got nothing for {missing[:10]}"
        )
    return [mean[label] for label in labels]
