"""Risks by their definitions, returns, and fits whose warnings are errors, for the tests
of portfolios."""

import warnings

import numpy as np
from helpers import Callback
from scipy.special import logsumexp

from sk_stormc import CompositionalPortfolio

INF = np.inf

MEASURES = (
    "variance",
    "semivariance",
    "entropic",
    "cvar",
    "evar",
    "semideviation",
    "downside",
    "cdar",
)


def make_returns(n=150, d=6, seed=0):
    """Heavy-tailed correlated returns, as fractions."""
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_t(4, size=(n, d)) @ (
        np.eye(d) + 0.3 * rng.normal(size=(d, d))
    ) + rng.uniform(0, 2e-3, d)


def strict_fit(R, sample_weight=None, **params):
    """A fit of a long-only portfolio, or another one, whose warnings are errors."""
    params = {"constraint": "long_only", "random_state": 0} | params
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CompositionalPortfolio(**params).fit(R, sample_weight=sample_weight)


class Stop(Callback):
    """A callback that acts at a record, and writes into the weights that it sees."""

    max_subtasks = 0

    def __init__(self, act=lambda: True, at=3):
        self.act, self.at, self.seen = act, at, []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "pass":
            return False
        self.seen.append(
            (fitted_estimator.weights_.copy(), fitted_estimator.loss_curve_[-1])
        )
        fitted_estimator.weights_[:] = np.nan
        return self.act() if len(self.seen) == self.at else False


def shares(n, p=None):
    """Weights of n periods, of sum 1."""
    return np.full(n, 1 / n) if p is None else np.asarray(p, float) / np.sum(p)


def worst(losses, p, tail):
    """The mean of the worst losses, by sorting; a period may count in part."""
    order = np.argsort(-losses)
    return (
        np.diff(np.minimum(np.cumsum(p[order]), tail), prepend=0.0)
        @ losses[order]
        / tail
    )


def risk(y, measure, confidence=0.95, order=2, p=None):
    """The risk of returns y. Variance and semivariance are roots here: they are in the
    unit of the returns."""
    p = shares(len(y), p)
    if measure == "variance":
        return np.sqrt(p @ (y - p @ y) ** 2)
    if measure in ("semivariance", "semideviation", "downside"):
        order = 2 if measure == "semivariance" else order
        return (
            p @ np.maximum((0.0 if measure == "downside" else p @ y) - y, 0) ** order
        ) ** (1 / order)
    if measure == "cvar":
        return worst(-y, p, 1 - confidence)
    if measure == "gini":
        return p @ np.abs(y[:, None] - y) @ p
    if measure == "cdar":
        depth = [0.0]
        for one in y:
            depth.append(max(depth[-1] - one, 0.0))
        return worst(np.array(depth[1:]), p, 1 - confidence)
    middle, unit = -3.0, max(y.std(), 1e-300)
    for width in (11.0, 0.2, 4e-3):  # a finer grid around the best of the last
        t = unit * np.exp(middle + np.linspace(-width, width, 151))
        values = t * (logsumexp(-y / t[:, None], b=p, axis=1) - np.log(1 - confidence))
        middle = np.log(t[np.argmin(values)] / unit)
    return values.min()


def utility(
    w,
    R,
    measure,
    risk_aversion=1.0,
    l1=0.0,
    l2=0.0,
    held=0.0,
    cost=0.0,
    against=0.0,
    p=None,
    **more,
):
    """The objective of weights."""
    y, q = R @ w - against, shares(len(R), p)
    costs = l1 * np.abs(w).sum() + l2 * w @ w + np.sum(cost * np.abs(w - held))
    if measure == "entropic":
        return logsumexp(-risk_aversion * y, b=q) / risk_aversion + costs
    power = 2 if measure in ("variance", "semivariance") else 1
    gain, a = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    return -gain * q @ y + a * risk(y, measure, p=p, **more) ** power + costs
