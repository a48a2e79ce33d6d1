"""The values of "auto" for neighbour embedding: rates, limits, batches and horizons. docs/sne.md has measurements."""

import math

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.schedules import Geometric, decay_to

__all__ = ["CENSUS", "CG_ITERATIONS", "LARGE", "LARGEST", "SMALL", "advice", "regularization"]

SAMPLED = 120  # iterations of "gaussian", and of "student-t" from 10,000 points on without a mesh
MESHED, FEWER, LONGEST = 165, 110, 150  # iterations on a mesh: below LARGE, up to LARGEST, and above
LARGE = 35_000  # points from which a map is large: it starts from the map of a subsample, and has fewer edges at first
LARGEST = 100_000  # points up to which a large map may be drawn out (not tried on more)
SMALL = 1024  # number of points up to which batches contain all pairs
CENSUS = 2048  # number of columns from which the normalisers of a recorded Phi are estimated without a mesh
CG_ITERATIONS = {"gaussian": 2, "student-t": 5}  # conjugate-gradient iterations of the metric

PUBLISHED = Published(eta=0.1, epsilon=0.1, a=0.01, B=(100, 100, 100), S=(100, 100, 100))


def bounded(problem):
    """Return False, because a divergence is not negative."""
    return False


def advice(kernel, n, d, constant, n_iter, n_near, meshed, on=False):
    """The advice of a problem."""
    horizon = n_iter or _horizon(kernel, n, meshed)
    if kernel == "gaussian":
        rate, inertia, limit, columns = 2 * 4.0, 0.7, 1.0, min(1000, max(300, n // 10))
    else:
        rate, inertia, columns = 2 * (2.0 if on else 4.0 if meshed else 3.0), 0.8, min(2000, max(600, n // 5))
        # short steps cannot reach the width of a large map, but in more dimensions it is less wide
        limit = 5.0 * max(1.0, math.sqrt(n / 10_000)) if d <= 2 else 7.0
    batch = None if n <= SMALL or meshed else columns
    sampled = n if batch is None else batch + n_near
    # records should take less than a twentieth of the time. With all pairs an iteration reuses their sums. Otherwise
    # they need up to 2048 columns.
    affordable = horizon if batch is None else 0.05 * horizon * (sampled + 2 * n_near * d) / min(n, CENSUS)
    records = min(20, max(4, int(affordable)))
    return Advice(
        batch_size=(batch, batch, None),
        tracking=False,  # tracking would double the cost of the sampled sums without a gain
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
    """The default number of iterations. Larger maps need more, because they take longer to expand."""
    if kernel == "gaussian" or (n > 10_000 and not meshed):
        return SAMPLED
    if n > 10_000:
        return MESHED if n < LARGE else FEWER if n <= LARGEST else LONGEST
    return 130 if n <= 2500 else 140


def regularization(kernel, held, horizon, weight, on=False):
    """The regularisation mu of the metric."""
    if held is not None:
        return held * weight
    end = 3e-4 if kernel == "student-t" else 0.1
    if on:
        return end * weight
    # start at 1, because with a smaller mu only the relative positions of separate clusters would change
    return Geometric(weight, end * weight, max(1, horizon / 2))
