"""What "auto" means for neighbour embedding: rates, limits, batches and horizons (docs/sne.md has the measurements)."""

import math

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.schedules import Geometric, decay_to

__all__ = ["CENSUS", "CG_ITERATIONS", "SMALL", "advice", "regularization"]

MOST = 120  # iterations
MESHED = 130, 150  # at 20,000 points, and at most: they are cheap on a mesh
SMALL = 1024  # up to so many points batches hold all pairs
CENSUS = 2048  # columns that the normalisers in a recorded Phi are taken from, where there is no mesh
CG_ITERATIONS = {"gaussian": 2, "student-t": 5}  # of the metric's linear system

PUBLISHED = Published(eta=0.1, epsilon=0.1, a=0.01, B=(100, 100, 100), S=(100, 100, 100))


def bounded(problem):
    """False: a divergence is not negative."""
    return False


def advice(kernel, n, d, constant, n_iter, n_near, meshed, on=False):
    """The advice of a problem.

    Parameters
    ----------
    kernel : {"gaussian", "student-t"}
    n, d : int
        Points and dimensions.
    constant : bool
        Whether the learning rate is, as it is in an early stage.
    n_iter : int or None
        Horizon.
    n_near : int
        Components that come with each sampled batch.
    meshed : bool
        Whether a mesh sums all pairs.
    on : bool, default=False
        Whether the stage goes on from a finished map, whose metric takes no steps longer than twice its own.

    Returns
    -------
    Advice
        The rate is twice the step, since gamma is at most 1/2.
    """
    horizon = n_iter or _horizon(kernel, n, meshed)
    sampled = n if n <= SMALL or meshed else min(1000, max(300, n // (10 if kernel == "gaussian" else 5)))
    batch = None if sampled == n else sampled
    if kernel == "gaussian":
        rate, inertia, limit = 2 * 4.0, 0.7, 0.5
    else:
        # long steps misplace some of many points, but short ones do not reach the width of a very large map
        rate, inertia = 2 * (2.0 if on or 20_000 < n <= 200_000 else 3.0), 0.8
        limit = 5.0 * math.sqrt(n / 20_000) if n > 200_000 else 5.0
    sampled += n_near if batch else 0
    # records are to take less than a twentieth of the time: of all pairs they have what an iteration needs, else they
    # take up to 2048 columns
    affordable = horizon if batch is None else 0.05 * horizon * (sampled + 2 * n_near * d) / min(n, CENSUS)
    records = min(20, max(4, int(affordable)))
    return Advice(
        batch_size=(batch, batch, None),
        tracking=False,  # it would cost the sampled sums a second time and gain nothing
        learning_rate=rate if constant else decay_to(0.0, rate, horizon, hold=0.5),
        normalization="block",
        precision=limit / rate,
        inertia=inertia,
        record_every=horizon * (n + 2 * sampled) // records,
        max_iter=horizon,
        unbounded_below=bounded,
        published=PUBLISHED,
        many_minima=True,
    )


def _horizon(kernel, n, meshed):
    """Iterations: as many as the divergence gains from, fewer for few points. Larger maps take longer to spread."""
    if n > 10_000:
        longer = (n / 20_000) ** 0.25
        least, most = MESHED
        return min(most, int(least * max(longer, 1))) if meshed else min(MOST, int(60 * longer))
    if kernel == "gaussian":
        return MOST
    few, many = (100, 120) if meshed else (70, 125)
    return few if n <= 2500 else many


def regularization(kernel, held, horizon, weight, on=False):
    """mu of the metric.

    Parameters
    ----------
    kernel : {"gaussian", "student-t"}
    held : float or None
        Where it is to be constant; else it falls over half the horizon.
    horizon : int
    weight : float
        Of P, for a point.
    on : bool, default=False
        Whether it stays where it ended: the stage goes on from a finished map.

    Returns
    -------
    float or callable
    """
    if held is not None:
        return held * weight
    end = 3e-4 if kernel == "student-t" else 0.1
    if on:
        return end * weight
    # from 1: clusters that are apart would else be all that moves
    return Geometric(weight, end * weight, max(1, horizon / 2))
