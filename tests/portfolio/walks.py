"""Portfolios that are quick to fit, and returns, for the tests of `walk_forward`."""

import warnings

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import walk_forward

NAMES = list("abcdef")


def make_returns(n=320, d=6, seed=0):
    """Daily returns with a market factor, as fractions."""
    rng = np.random.default_rng(seed)
    market = 0.008 * rng.standard_t(5, size=(n, 1))
    return (
        0.0005
        + market * rng.uniform(0.5, 1.5, d)
        + 0.01 * rng.standard_t(5, size=(n, d))
    )


def make_frame(n=320, d=6, seed=0):
    days = pd.bdate_range("2020-01-01", periods=n)
    return pd.DataFrame(make_returns(n, d, seed), index=days, columns=NAMES[:d])


class Recent(BaseEstimator):
    """Weights in proportion to the last returns of the window, which may be negative
    and have any sum."""

    def __init__(self, scale=20.0):
        self.scale = scale

    def fit(self, X, y=None):
        self.weights_ = self.scale * np.asarray(X, dtype=float)[-1]
        return self


class Forecaster(BaseEstimator):
    """Everything in the asset with the largest expected return, which is a parameter.
    It is asked for by ``seen``."""

    seen = []

    def __init__(self, expected_returns=None):
        self.expected_returns = expected_returns

    def fit(self, X, y=None):
        forecast = self.expected_returns
        if hasattr(forecast, "reindex"):
            forecast = forecast.reindex(X.columns)
        self.seen.append((np.shape(X), forecast))
        self.weights_ = np.eye(np.shape(X)[1])[np.argmax(forecast)]
        return self


class Trader(BaseEstimator):
    """Equal weights; ``seen`` has the present weights and the limit of the turnover
    that each fit was given."""

    seen = []

    def __init__(self, previous_weights=None, transaction_cost=0.0, max_turnover=None):
        self.previous_weights = previous_weights
        self.transaction_cost = transaction_cost
        self.max_turnover = max_turnover

    def fit(self, X, y=None):
        self.seen.append((self.previous_weights, self.max_turnover))
        self.weights_ = np.full(np.shape(X)[1], 1 / np.shape(X)[1])
        return self


class Failing(BaseEstimator):
    """Fails or warns where the last return of the first asset is in a range, and else
    holds the first asset."""

    def __init__(self, low=-np.inf, high=-np.inf, error=True):
        self.low, self.high, self.error = low, high, error

    def fit(self, X, y=None):
        X = np.asarray(X)
        if self.low <= X[-1, 0] <= self.high:
            if self.error:
                raise np.linalg.LinAlgError("singular")
            warnings.warn("nearly singular", ConvergenceWarning, stacklevel=1)
        self.weights_ = np.eye(X.shape[1])[0]
        return self


def quiet(*args, **kwargs):
    """`walk_forward` without warnings, which are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return walk_forward(*args, **kwargs)


class Short(BaseEstimator):
    """A short position of 1 in the first asset."""

    def fit(self, X, y=None):
        self.weights_ = -np.eye(np.shape(X)[1])[0]
        return self
