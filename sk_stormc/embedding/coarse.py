"""The start of a large map: a map of some of its points, and the others among them."""

import warnings

import numpy as np

from sk_stormc.embedding.starts import FEATURELESS
from sk_stormc.solvers import StopReason
from sk_stormc.utils.validation import is_word

__all__ = ["coarse_start", "is_coarse"]

SHARE = 14  # a map of one in so many points
FEWEST = 2500  # points of it: smaller maps find their middle distances by themselves
SWEEPS = 20  # of places from neighbours to neighbours
KEPT = ("n_components", "perplexity", "metric", "metric_params", "n_jobs", "neighbors", "dof")
DRAWN = np.iinfo(np.int32).max


def is_coarse(model, n_samples):
    """Whether a map of so many samples begins from a map of some of them.

    Parameters
    ----------
    model : SNEEmbedding
    n_samples : int

    Returns
    -------
    bool
    """
    plain = model.n_components <= 2 and model._kernel() == "student-t" and model.metric not in FEATURELESS
    return is_word(model.init, "auto") and plain and n_samples >= SHARE * FEWEST


def coarse_start(model, X, P, rng, needed=True):
    """A map of some samples, drawn at random, with each of the others at the mean of its neighbours there.

    In a large map most neighbours of a point are near copies of it, and its iterations move the islands that they make
    too little to find their places. In a map of fewer points the same number of neighbours reaches farther.

    Parameters
    ----------
    model : SNEEmbedding
        The map of some samples has its parameters, the default solver and the default stages.
    X : ndarray or CSR array of shape (n_samples, n_features)
    P : CSR array of shape (n_samples, n_samples)
        Affinities of all samples.
    rng : RandomState
    needed : bool, default=True
        Whether the start is looked at; it is not where a fit goes on.

    Returns
    -------
    ndarray of shape (n_samples, n_components)

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, as no iteration of the map itself has been made.
    """
    seed, n = rng.randint(DRAWN), X.shape[0]
    start = np.zeros((n, model.n_components))
    if not needed:
        return start
    drawn = np.random.default_rng(seed)
    chosen = np.sort(drawn.choice(n, n // SHARE, replace=False))
    fewer = type(model)(random_state=seed, **{name: getattr(model, name) for name in KEPT})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they would be about a map that nobody asked for
        fewer.fit(X[chosen])
    if fewer.stop_reason_ == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    start[chosen] = fewer.embedding_
    left = _spread(start, chosen, P)
    start[left] = start[drawn.choice(chosen, len(left))]  # no path leads from them to a sample that was chosen
    return _means(start, P, np.setdiff1d(np.arange(n), chosen))  # few of a point's neighbours may be in the small map


def _means(start, P, rows):
    """Some points move to the mean of all their neighbours."""
    of_rows = P[rows]
    start[rows] = (of_rows @ start) / of_rows.sum(axis=1)[:, None]
    return start


def _spread(start, placed, P):
    """Put points at the mean of their neighbours that have a place, as long as there are such; the rest is returned."""
    known = np.zeros(len(start), dtype=bool)
    known[placed] = True
    for _ in range(SWEEPS):
        left = np.flatnonzero(~known)
        rows = P[left]
        total = rows @ known.astype(P.dtype)
        found = total > 0
        start[left[found]] = (rows @ start)[found] / total[found, None]  # places that are not known are 0
        known[left[found]] = True
        if found.all() or not found.any():
            break
    return np.flatnonzero(~known)
