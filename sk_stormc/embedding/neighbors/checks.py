"""Validation of the data and of the metric of a search."""

import math
from contextlib import contextmanager

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, gen_batches

from sk_stormc.utils.machine import BLOCK_BYTES
from sk_stormc.utils.parameters import (
    check_choice,
    check_instance,
    is_word,
    naming,
    short,
)
from sk_stormc.utils.rows import check_finite, check_numeric
from sk_stormc.utils.warnings import warn

# Rounding error of given distances, relative to the mean of all of them or the largest
# of some. That of 1 - x.y in float32 is 2e-7, even after conversion to float64, and in
# a graph of close neighbours the largest distance may be .01.
DISTANCE_ROUNDING = 1e-3
FEATURELESS = ("precomputed", "affinities")  # metrics of data without features
ADDED_UP = (
    "euclidean",
    "l2",
    "sqeuclidean",
    "minkowski",
    "manhattan",
    "cityblock",
    "l1",
    "chebyshev",
    "cosine",
)
NEEDED = (  # metrics, the parameters of which one is required, and their descriptions
    (
        "seuclidean",
        ("V",),
        "variances of the columns, such as numpy.var(X, axis=0, ddof=1)",
    ),
    (
        "mahalanobis",
        ("VI", "V"),
        "inverse of the columns' covariance, or {'V': ...} with numpy.cov(X, "
        "rowvar=False)",
    ),
)
# names that scikit-learn lists but that are not supported: NaN is invalid, a callable
# is passed directly, and "p" ignores its p
NOT_OFFERED = {"nan_euclidean", "p", "pyfunc"}


def as_points(X, metric):
    """At least two samples as floats, dense or CSR. Raises ValueError unless they are
    finite numbers."""
    check_numeric("X", X)
    dtypes = [np.float64, np.float32]
    with naming("X"):
        points = check_array(
            X,
            accept_sparse="csr",
            dtype=dtypes,
            ensure_min_samples=2,
            ensure_all_finite=False,
            input_name="X",
        )
    check_missing(points, X, metric)
    return points


def check_missing(points, X, metric):
    """Raise a ValueError for missing or infinite values. ``points`` are X as floats."""
    remedy = "Leave out such samples"
    if not is_word(metric, *FEATURELESS):
        remedy = (
            "Fill in missing values, as sklearn.impute.SimpleImputer does, and "
            "sk_stormc.preprocessing.TableScaler for tables, or leave out such rows or "
            "columns"
        )
    check_finite("X", "finite numbers", [(0, points)], X, remedy)


def check_kind_of_metric(metric):
    """Raise a ValueError unless a metric is a name or a callable."""
    if not isinstance(metric, str) and not callable(metric):
        raise ValueError(f"metric must be a name or a callable, got {short(metric)}")


def check_metric_of_data(metric, metric_params, X):
    """Raise a ValueError if the metric is unknown, lacks a parameter, is not for sparse
    X, or returns no distance."""
    # imported here, because it takes long to import
    from sklearn.neighbors import VALID_METRICS, VALID_METRICS_SPARSE

    if metric_params is not None:
        check_instance("metric_params", metric_params, dict)
    params = metric_params or {}
    if callable(metric):
        if not sparse.issparse(X):
            value = metric(X[0], X[-1], **params)
            try:
                right = 0 <= float(value) < math.inf
            except (TypeError, ValueError):
                right = False
            if not right:
                raise ValueError(
                    "metric must give distances, finite and not negative, got "
                    f"{short(value)} of two rows of X"
                )
        return
    check_choice(
        "metric", metric, sorted(set().union(*VALID_METRICS.values()) - NOT_OFFERED)
    )
    if sparse.issparse(X) and metric not in VALID_METRICS_SPARSE["brute"]:
        size = X.shape[0] * X.shape[1] * X.dtype.itemsize
        raise ValueError(
            f"metric={metric!r} is for dense X, got sparse X of shape {X.shape}: pass "
            f"X.toarray(), which takes {size / 1e6:.3g} MB"
        )
    for name, keys, what in NEEDED:
        if metric == name and not params.keys() & set(keys):
            raise ValueError(
                f"metric={name!r} needs metric_params={{{keys[0]!r}: ...}} with the "
                f"{what}, got metric_params={short(metric_params)}"
            )
    if metric == "seuclidean" and not (V := np.ravel(params["V"]) > 0).all():
        column = np.argmin(V)
        raise ValueError(
            "metric_params['V'] must be above 0 in all columns, got "
            f"{np.ravel(params['V'])[column]:.6g} for column {column}: leave constant "
            "columns out, or set their V to 1"
        )


def parameters_of(metric, metric_params):
    """A copy of the parameters of the metric, with a covariance replaced by its
    inverse."""
    params = {
        name: np.copy(v) if isinstance(v, np.ndarray) else v
        for name, v in (metric_params or {}).items()
    }
    if metric == "mahalanobis" and "V" in params:
        V = params.pop("V")
        params.setdefault("VI", np.linalg.inv(V))
    return params


@contextmanager
def naming_the_metric(metric, metric_params):
    """A context that adds the metric to the error messages of scikit-learn's search."""
    try:
        yield
    except (TypeError, ValueError, SystemError) as error:
        params = (
            ""
            if metric_params is None
            else f" with metric_params={short(metric_params)}"
        )
        raise ValueError(
            f"metric={short(metric)}{params} does not work with these X: {error}"
        ) from error


def check_distances(distances, metric):
    """Raise a ValueError if distances to neighbours are negative or not finite."""
    right = np.isfinite(distances) & (distances >= 0)
    if not right.all():
        row, column = np.argwhere(~right)[0]
        raise ValueError(
            f"metric={short(metric)} must give finite distances, none negative, got "
            f"{distances[row, column]} for row {row} of X"
        )


def check_directions(X):
    """Raise a ValueError if the direction of a nonzero row is lost because its squares
    underflow."""
    square = (
        np.asarray(X.multiply(X).sum(axis=1)).ravel()
        if sparse.issparse(X)
        else np.einsum("ij,ij->i", X, X)
    )
    small = np.flatnonzero(square < 1e3 * np.finfo(X.dtype).tiny)
    for row in small:
        largest = abs(X[[row]]).max()
        if largest > 0:
            raise ValueError(
                f"the values of X must be larger: row {row} has none above "
                f"{largest:.3g}, and their squares, which metric='cosine' needs, "
                f"vanish in {X.dtype}; scale the row"
            )


def check_coordinates(X):
    """Raise a ValueError unless the columns of X are latitudes and longitudes in
    radians, as "haversine" needs them."""
    if X.shape[1] != 2:
        raise ValueError(
            "with metric='haversine' X must have two columns, latitude and longitude, "
            f"got {X.shape[1]}"
        )
    for j, name, most in (0, "latitude", math.pi / 2), (1, "longitude", 2 * math.pi):
        row = np.abs(X[:, j]).argmax()
        if abs(X[row, j]) > most * (1 + 1e-6):
            raise ValueError(
                "with metric='haversine' X must hold latitudes and longitudes, in this "
                f"order and in radians, but the {name} in row {row} is "
                f"{X[row, j]:.6g}, above {most:.4g}: use numpy.radians(X) for degrees"
            )


def warn_of_features(X, names, metric):
    """Warn if features look like distances, or if most of the named columns hardly
    change a distance, as in a table of centimetres and of a unix time."""
    if is_word(metric, "euclidean") and _are_distances(X):
        warn(
            f"X is square with {X.shape[0]} rows and columns, and has zeros on its "
            "diagonal, as distances of samples have, but it is read as features. Use "
            "metric='precomputed' for distances, or metric='affinities' for "
            "similarities",
            UserWarning,
        )
    if names is None or not is_word(metric, *ADDED_UP):
        return
    variance = X.var(axis=0, dtype=float)
    order = np.argsort(variance)
    order = order[variance[order] > 0]
    unseen = order[: len(order) // 2]
    if variance[unseen].sum() < 1e-4 * variance.sum():
        least, most = order[0], order[-1]
        warn(
            "the columns of X vary very differently: the standard deviation of "
            f"{names[most]!r} is {math.sqrt(variance[most]):.3g}, and {len(unseen)} "
            f"of {len(order)} columns, such as {names[least]!r} with "
            f"{math.sqrt(variance[least]):.3g}, hardly change a distance. If their "
            "units differ, scale them first, as sklearn.preprocessing.StandardScaler "
            "does",
            UserWarning,
        )


def _are_distances(X):
    """Whether X may hold distances or affinities of samples, or a graph of them:
    square, symmetric, not negative, and 0 on the diagonal."""
    small = DISTANCE_ROUNDING * float(X.mean(dtype=float))
    if X.shape[0] != X.shape[1] or small <= 0 or np.abs(X.diagonal()).max() > small:
        return False
    if sparse.issparse(X):
        return np.ptp(np.diff(X.indptr)) == 0 or abs(X - X.T).max() <= small
    return (
        X.min() >= -small
        and np.count_nonzero(X) > X.size / 2
        and _asymmetry(X)[0] <= small
    )


def fewest_neighbors(X, metric):
    """Check the data, and return the smallest number of neighbours that a sample
    has."""
    check_kind_of_metric(metric)
    check_squares(X)
    if metric == "cosine":
        check_directions(X)
    if metric == "haversine":
        check_coordinates(X)
    if metric != "precomputed":
        return X.shape[0] - 1
    if not sparse.issparse(X):
        _check_symmetry(X)
        return X.shape[0] - 1
    row = row_numbers(X)
    others = X.indices != row
    count = np.bincount(row[others], minlength=X.shape[0])
    if not count.min():
        raise ValueError(
            "the neighbour graph X must hold at least one neighbour of each sample "
            f"besides itself, got none in row {int(np.argmin(count))}"
        )
    if (X.data[others] == 1).all():
        warn(
            "all distances in the neighbour graph X are 1, as with "
            "mode='connectivity': all neighbours of a sample then have the same "
            "affinity. If this is not intended, use mode='distance'",
            UserWarning,
        )
    return int(count.min())


def not_negative(X):
    """The distances, dense or in a graph, with 0 for negative rounding errors. Raises
    ValueError for negative ones."""
    values = X.data if sparse.issparse(X) else X
    lowest = values.min(initial=0)
    if lowest == 0:
        return X
    largest = values.max(initial=0)
    if lowest < -DISTANCE_ROUNDING * largest:
        raise ValueError(
            "with metric='precomputed' X must hold distances, none negative, got "
            f"{lowest:.6g}, which is no rounding error beside the largest, "
            f"{largest:.6g}"
        )
    if not sparse.issparse(X):
        return np.maximum(X, 0)
    X = X.copy()  # the caller's graph must not change
    np.maximum(X.data, 0, out=X.data)
    return X


def largest_of_columns(X):
    """The largest absolute value of each column, in float64."""
    if sparse.issparse(X):
        # abs(X) would sort the rows of the caller's graph in place
        largest = np.zeros(X.shape[1])
        np.maximum.at(largest, X.indices, np.abs(X.data))
        return largest
    return np.maximum(X.max(axis=0), -X.min(axis=0)).astype(float)


def check_squares(X):
    """Raise a ValueError if squares of the data overflow or underflow in their
    dtype."""
    largest = largest_of_columns(X)
    top = largest.max()
    if not top > 0:
        return
    kind = np.finfo(np.result_type(X.dtype, np.float32))
    high = np.sqrt(float(kind.max)) / 2 / np.sqrt(np.square(largest / top).sum())
    low = np.sqrt(float(kind.tiny))
    if not low <= top <= high:
        size, verb = "larger", f"vanish in {kind.dtype} below {low:.1e}"
        if top > high:
            size, verb = "smaller", f"overflow {kind.dtype} above {high:.1e}"
        raise ValueError(
            f"the values of X must be {size}: column {largest.argmax()} has the "
            f"largest, {top:.3g}, and squared distances {verb}; scale the data"
        )


def _check_symmetry(X):
    """Raise a ValueError unless distances are symmetric and 0 on the diagonal, up to
    rounding."""
    mean, (largest, i, j) = float(X.mean(dtype=float)), _asymmetry(X)
    if largest > DISTANCE_ROUNDING * mean:
        raise ValueError(
            "with metric='precomputed' X must be symmetric; the largest asymmetry is "
            f"{largest:.3g}, with X[{i}, {j}] = {X[i, j]:.6g} and X[{j}, {i}] = "
            f"{X[j, i]:.6g}"
        )
    own = X.diagonal()
    if own.max() > DISTANCE_ROUNDING * mean:
        k = int(own.argmax())
        raise ValueError(
            "with metric='precomputed' X must hold distances, 0 from each sample to "
            f"itself; got X[{k}, {k}] = {own[k]:.6g}"
        )


def _asymmetry(X):
    """The largest |X[i, j] - X[j, i]|, with its i and j."""
    n, largest = X.shape[0], (0.0, 0, 0)
    for rows in gen_batches(n, max(1, BLOCK_BYTES // (8 * n))):
        difference = np.abs(X[rows] - X[:, rows].T)
        i, j = np.unravel_index(difference.argmax(), difference.shape)
        if difference[i, j] > largest[0]:
            largest = difference[i, j], i + rows.start, j
    return largest


def row_numbers(X):
    """The row of each stored entry of a CSR matrix."""
    rows = np.arange(X.shape[0], dtype=X.indices.dtype)
    return np.repeat(rows, np.diff(X.indptr))
