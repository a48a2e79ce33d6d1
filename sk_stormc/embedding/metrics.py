"""Checks of the metric of the data: its name, its parameters and its distances."""

import math
from contextlib import contextmanager

import numpy as np
from scipy import sparse

from sk_stormc.utils.validation import check_choice, check_instance, short

__all__ = ["check_directions", "check_distances", "check_metric_of_data", "naming_the_metric", "parameters_of"]

NEEDED = (  # metrics, the parameters of which they need one, and what these are
    ("seuclidean", ("V",), "variances of the columns, such as numpy.var(X, axis=0, ddof=1)"),
    ("mahalanobis", ("VI", "V"), "inverse of the columns' covariance, or {'V': ...} with numpy.cov(X, rowvar=False)"),
)
# names that scikit-learn lists: data with NaN are refused, a callable is passed as such, and "p" ignores its p
NOT_OFFERED = {"nan_euclidean", "p", "pyfunc"}


def check_metric_of_data(metric, metric_params, X):
    """Raise a ValueError if the metric is unknown, lacks a parameter, is not for sparse X, or returns no distance."""
    from sklearn.neighbors import VALID_METRICS, VALID_METRICS_SPARSE  # here, because it takes long to load

    if metric_params is not None:
        check_instance("metric_params", metric_params, dict)
    params = metric_params or {}
    if callable(metric):
        if not sparse.issparse(X):
            found = metric(X[0], X[-1], **params)
            try:
                distance = float(found)
            except (TypeError, ValueError):
                distance = math.nan
            if not 0 <= distance < math.inf:
                raise ValueError(
                    f"metric must give distances, finite and not negative, got {short(found)} of two rows of X"
                )
        return
    check_choice("metric", metric, sorted(set().union(*VALID_METRICS.values()) - NOT_OFFERED))
    if sparse.issparse(X) and metric not in VALID_METRICS_SPARSE["brute"]:
        size = X.shape[0] * X.shape[1] * X.dtype.itemsize
        raise ValueError(
            f"metric={metric!r} is for dense X, got sparse X of shape {X.shape}: pass X.toarray(), which takes "
            f"{size / 1e6:.3g} MB"
        )
    for name, keys, what in NEEDED:
        if metric == name and not params.keys() & set(keys):
            raise ValueError(
                f"metric={name!r} needs metric_params={{{keys[0]!r}: ...}} with the {what}, got metric_params="
                f"{short(metric_params)}"
            )
    if metric == "seuclidean" and not (np.asarray(params["V"]) > 0).all():
        V = np.asarray(params["V"])
        raise ValueError(
            f"metric_params['V'] must be above 0 in all columns, got {V.ravel()[np.argmin(V > 0)]:.6g} for column "
            f"{np.argmin(V > 0)}: leave constant columns out, or set their V to 1"
        )


def parameters_of(metric, metric_params):
    """A copy of the parameters of the metric, with the inverse of a covariance in place of it."""
    params = {name: np.copy(v) if isinstance(v, np.ndarray) else v for name, v in (metric_params or {}).items()}
    if metric == "mahalanobis" and "V" in params:
        V = params.pop("V")
        params.setdefault("VI", np.linalg.inv(V))
    return params


@contextmanager
def naming_the_metric(metric, metric_params):
    """A context that adds the metric to the errors of scikit-learn's search."""
    try:
        yield
    except (TypeError, ValueError, SystemError) as error:
        params = "" if metric_params is None else f" with metric_params={short(metric_params)}"
        raise ValueError(f"metric={short(metric)}{params} does not work with these X: {error}") from error


def check_distances(distances, metric):
    """Raise a ValueError if distances to neighbours are negative or not finite."""
    wrong = ~(np.isfinite(distances) & (distances >= 0)).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        found = distances[row][~(np.isfinite(distances[row]) & (distances[row] >= 0))][0]
        raise ValueError(
            f"metric={short(metric)} must give finite distances, none negative, got {found} for row {row} of X"
        )


def check_directions(X):
    """Raise a ValueError if a nonzero row is so small that its squares underflow, so that its direction is lost."""
    square = np.asarray(X.multiply(X).sum(axis=1)).ravel() if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    small = np.flatnonzero(square < 1e3 * np.finfo(X.dtype).tiny)
    for row in small:
        largest = abs(X[[row]]).max()
        if largest > 0:
            raise ValueError(
                f"the values of X must be larger: row {row} has none above {largest:.3g}, and their squares, which "
                f"metric='cosine' needs, vanish in {X.dtype}; scale the row"
            )
