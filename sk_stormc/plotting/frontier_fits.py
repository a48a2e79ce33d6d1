"""The fits of a frontier, each from the weights of the previous one."""

import re
import warnings
from collections import Counter

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.utils.warnings import warn


def fitted_weights(portfolio, X, aversions):
    """The weights of a portfolio with warm starts for each of some ascending
    risk aversions."""
    weights, caught = [], []
    # from the largest aversion on, whose optimum is closest to equal weights;
    # bounds then become active one by one
    for value in aversions[::-1]:
        portfolio.set_params(risk_aversion=float(value))
        unsettled, others = _fit(portfolio, X)
        # a fresh start of SCIP would only use its time limit again
        if unsettled and portfolio.solver_ != "scip":
            # tol is relative to the start, and a start at the optimum cannot be
            # improved
            afresh = clone(portfolio).set_params(warm_start=False)
            unsettled, more = _fit(afresh, X)
            others = more + others
            if afresh.loss_curve_[-1] < portfolio.loss_curve_[-1]:
                portfolio = afresh.set_params(warm_start=True)
        weights.append(portfolio.weights_)
        caught.append(unsettled + others)
    _warn_of_fits(caught)
    return np.array(weights[::-1], dtype=float)


def _fit(portfolio, X):
    """Fit, and return the warnings: those of convergence, and the others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        portfolio.fit(X)
    parts = [], []
    for warned in caught:
        parts[not issubclass(warned.category, ConvergenceWarning)].append(warned)
    return parts


def _warn_of_fits(caught):
    """Issue each warning of the fits once, with the number of these fits. Numbers in
    its text may differ."""
    first, counts = {}, Counter()
    for warned in caught:
        texts = {}
        for w in warned:
            unsettled = issubclass(w.category, ConvergenceWarning)
            text = "" if unsettled else re.sub(r"[-+.\de]", "", str(w.message))
            texts.setdefault((w.category, unsettled, text), str(w.message))
        counts.update(texts.keys())
        first = texts | first
    for kind, message in first.items():
        category, unsettled, _ = kind
        said = (
            "have not converged. The first said" if unsettled else "gave this warning"
        )
        warn(
            f"{counts[kind]} of the {len(caught)} portfolios of the frontier {said}: "
            f"{message}",
            category,
        )
