"""Initialisation of a large map by the map of a subsample. The other points start at the means of their neighbours."""

import warnings

import numpy as np

from sk_stormc.embedding.starts import FEATURELESS
from sk_stormc.embedding.steps import LARGE
from sk_stormc.solvers import StopReason
from sk_stormc.utils.validation import is_word

__all__ = ["coarse_start", "is_coarse"]

SHARE, FEWEST = 20, 2500  # the subsample has one in SHARE samples, but at least so many
ITERATIONS = 80  # of its map, which has to be right in its layout only
SWEEPS = 20  # maximum number of times that positions spread from neighbours to neighbours
KEPT = ("n_components", "perplexity", "metric", "metric_params", "n_jobs", "neighbors", "dof")
DRAWN = np.iinfo(np.int32).max


def is_coarse(model, n_samples):
    """Whether a map of so many samples starts from the map of a subsample."""
    plain = model.n_components <= 2 and model._kernel() == "student-t" and model.metric not in FEATURELESS
    return is_word(model.init, "auto") and plain and n_samples >= LARGE


def coarse_start(model, X, P, rng, needed=True):
    """The map of a random subsample, with each of the other samples at the mean of its neighbours.

    In a large map, most neighbours of a point are very close to it and form small islands with it. The iterations move
    these islands too little to arrange them well. In a map of fewer points, the same number of neighbours spans larger
    distances, so that the global layout is better.
    """
    seed, n = rng.randint(DRAWN), X.shape[0]
    start = np.zeros((n, model.n_components))
    if not needed:
        return start
    drawn = np.random.default_rng(seed)
    chosen = np.sort(drawn.choice(n, max(FEWEST, n // SHARE), replace=False))
    fewer = type(model)(max_iter=ITERATIONS, random_state=seed, **{name: getattr(model, name) for name in KEPT})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user did not ask for this map
        fewer.fit(X[chosen])
    if fewer.stop_reason_ == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    start[chosen] = fewer.embedding_
    left = _spread(start, chosen, P)
    start[left] = start[drawn.choice(chosen, len(left))]  # not connected to the subsample
    # once more with all neighbours, because few of them may be in the subsample
    return _means(start, P, np.setdiff1d(np.arange(n), chosen))


def _means(start, P, rows):
    """Move some points to the mean of all their neighbours."""
    of_rows = P[rows]
    start[rows] = (of_rows @ start) / of_rows.sum(axis=1)[:, None]
    return start


def _spread(start, placed, P):
    """Place points at the mean of their placed neighbours, repeatedly. Return the points that could not be placed."""
    known = np.zeros(len(start), dtype=bool)
    known[placed] = True
    for _ in range(SWEEPS):
        left = np.flatnonzero(~known)
        rows = P[left]
        total = rows @ known.astype(P.dtype)
        found = total > 0
        start[left[found]] = (rows @ start)[found] / total[found, None]  # points without a place are 0 in start
        known[left[found]] = True
        if found.all() or not found.any():
            break
    return np.flatnonzero(~known)
