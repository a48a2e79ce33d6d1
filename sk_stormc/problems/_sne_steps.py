"""What "auto" means for neighbour embedding: rates, limits, batches and horizons, found on digits (docs/sne.md)."""

import math

from sk_stormc.schedules import decay_to

__all__ = ["PAPER", "defaults"]

SMALL = 1024  # up to so many points batches hold all of them

PAPER = {
    "learning_rate": 0.1,
    "precision": 0.1,
    "momentum": 0.01,
    "batch_size": (100, 100, 100),
    "init_batch_size": (100, 100, 100),
    "normalization": "global",
}


def defaults(kernel, n, d, alpha, n_iter, n_near, n_edges, census):
    """The defaults of a problem.

    Parameters
    ----------
    kernel : {"gaussian", "student-t"}
    n, d : int
        Points and dimensions.
    alpha : float
        Exaggeration; above 1 the rate is constant.
    n_iter : int or None
        Horizon.
    n_near : int
        Components that come with each sampled batch.
    n_edges : float
        Edges of a point.
    census : int
        Columns that the reported objective takes.

    Returns
    -------
    dict
        By parameter name; the rate is twice the step, since gamma is at most 1/2.
    """
    if kernel == "gaussian":
        rate, early, batch = 2.0, 2.0, 200 if d > 3 and n >= 5000 else 100
        horizon = n_iter or 500
        limit = 0.5 * math.sqrt(2)  # of a point's step, in the metric 1 / (2 r) with r about 1
        momentum = 0.1
    else:
        # with few points, long steps tear neighbours apart; with many, the noise of the sampled pairs is larger
        rate, early, batch = 2 * min(25.0, max(10.0, n / 40), 20 * math.sqrt(20_000 / n)), 20.0, 100
        horizon = n_iter or (500 if n <= 2500 else 750 if n <= 10_000 else 400)
        limit = 5 * math.sqrt(4 * alpha / n)
        momentum = 1.0  # a tracked Z costs the blocks' sums a second time and gains nothing
    constant = alpha > 1
    rate = min(early, rate) if constant else rate
    batch = None if n <= SMALL else batch
    sampled = n if batch is None else batch + n_near
    # records are to take less than a twentieth of the time; an edge takes that of eight sampled pairs
    records = min(20, int(horizon * (sampled + 8 * n_edges) / (20 * census)))
    return {
        "learning_rate": rate if constant else decay_to(0.0, rate, horizon, hold=0.5),
        "normalization": "block",
        "precision": limit / rate,
        "momentum": momentum,
        "beta": 1.0,
        "batch_size": (batch, batch, None),
        "init_batch_size": (batch, batch, None),
        "anchor": None,
        "max_iter": horizon,
        "record_every": horizon * (n + 2 * sampled) // max(1, records),
    }
