"""What "auto" means for neighbour embedding: rates, limits, batches and horizons (docs/sne.md has the measurements)."""

from sk_stormc.schedules import Geometric, decay_to

__all__ = ["PAPER", "SMALL", "defaults", "regularization"]

SMALL = 1024  # up to so many points batches hold all pairs
INERTIA = 0.8

PAPER = {
    "learning_rate": 0.1,
    "precision": 0.1,
    "momentum": 0.01,
    "batch_size": (100, 100, 100),
    "init_batch_size": (100, 100, 100),
    "normalization": "global",
}


def defaults(kernel, n, d, early, n_iter, n_near, meshed):
    """The defaults of a problem.

    Parameters
    ----------
    kernel : {"gaussian", "student-t"}
    n, d : int
        Points and dimensions.
    early : bool
        Whether the attraction is exaggerated; the rate is constant then.
    n_iter : int or None
        Horizon.
    n_near : int
        Components that come with each sampled batch.
    meshed : bool
        Whether a mesh sums all pairs.

    Returns
    -------
    dict
        By parameter name; the rate is twice the step, since gamma is at most 1/2.
    """
    horizon = n_iter or (120 if n <= 10_000 else 75)
    batch = None if n <= SMALL or meshed else 100
    if kernel == "gaussian":
        rate, limit, momentum = 2 * 2.0, 0.5, 0.1
    else:
        rate, limit, momentum = 2 * 3.0, 5.0, 1.0
        batch = batch and min(1000, max(300, n // 20))
    sampled = n if batch is None else batch + n_near
    return {
        "learning_rate": rate if early else decay_to(0.0, rate, horizon, hold=0.5),
        "inertia": INERTIA,
        "normalization": "block",
        "precision": limit / rate,
        "momentum": momentum,
        "beta": 1.0,
        "batch_size": (batch, batch, None),
        "init_batch_size": (batch, batch, None),
        "anchor": None,
        "max_iter": horizon,
        "record_every": horizon * (n + 2 * sampled) // 20,
    }


def regularization(kernel, early, horizon, weight):
    """mu of the metric.

    Parameters
    ----------
    kernel : {"gaussian", "student-t"}
    early : bool
        Whether the attraction is exaggerated; mu is constant then.
    horizon : int
    weight : float
        Of P, for a point.

    Returns
    -------
    float or callable
    """
    start, end = (0.1, 3e-4) if kernel == "student-t" else (1.0, 0.1)
    return start * weight if early else Geometric(start * weight, end * weight, horizon / 2)
