"""The values of "auto" for neighbour embedding: rates, limits, batches and horizons. docs/sne.md has measurements."""

import math

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.schedules import Geometric, decay_to

__all__ = [
    "CENSUS",
    "CG_ITERATIONS",
    "COMPONENT_FLOOR",
    "EXACT",
    "METRIC_EDGES",
    "SMALL",
    "advice",
    "regularization",
]

# Numbers of points at which the defaults change. Up to SMALL, batches contain all pairs. Above, maps in up to two
# dimensions have a mesh.
SMALL = 1024
CENSUS = 2048  # columns from which the normalisers of a recorded Phi are estimated without a mesh
EXACT = 10_000  # points up to which the reported divergence sums over all pairs, without a mesh

LARGE = 35_000  # points from which maps have fewer iterations, since their neighbours are closer to each other

MESHED, FEWER, SAMPLED = 140, 110, 120  # iterations with all pairs or a mesh, of a large map, and with sampled pairs
CG_ITERATIONS = {"gaussian": 2, "student-t": 5}  # conjugate-gradient iterations of the preconditioner
METRIC_EDGES = 15  # edges of a point in the preconditioner
# last regularisation of the preconditioner, in units of the weight of a point: for "gaussian", for "student-t", and for
# the motion of a component of the graph as a whole
LAST = {"gaussian": 0.1, "student-t": 1e-3}
COMPONENT_FLOOR = 0.03

PUBLISHED = Published(eta=0.1, epsilon=0.1, a=0.01, B=(100, 100, 100), S=(100, 100, 100))


def bounded(problem):
    """Return False, because a divergence is not negative."""
    return False


def advice(kernel, n, d, constant, n_iter, n_near, meshed, further=False):
    """The advice of a problem."""
    by_columns = kernel == "gaussian" or n > EXACT and not meshed
    horizon = n_iter or (SAMPLED if by_columns else MESHED if n < LARGE else FEWER)
    if kernel == "gaussian":
        rate, inertia, limit, columns = 2 * 4.0, 0.7, 1.0, min(1000, max(300, n // 10))
    else:
        rate, inertia, columns = 2 * (2.0 if further else 4.0 if meshed else 3.0), 0.8, min(2000, max(600, n // 5))
        # short steps cannot reach the width of a large map, which is smaller in more dimensions
        limit = 5.0 * max(1.0, math.sqrt(n / 10_000)) if d <= 2 else 7.0
    batch = None if n <= SMALL or meshed else columns
    sampled = n if batch is None else batch + n_near
    # records should take less than a twentieth of the time. With all pairs, an iteration reuses the sums of a record.
    # Otherwise a record needs up to 2048 columns.
    affordable = horizon if batch is None else 0.05 * horizon * (sampled + 2 * n_near * d) / min(n, CENSUS)
    records = min(20, max(4, int(affordable)))
    return Advice(
        batch_size=(batch, batch, None),
        tracking=False,  # tracking would double the cost of the sampled sums without an improvement
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


def regularization(kernel, held, horizon, weight, further=False):
    """The regularisation mu of the preconditioner."""
    if held is not None:
        return held * weight
    if further:
        return LAST[kernel] * weight
    # 1 at first, because with a smaller mu only the relative positions of separate clusters would change
    return Geometric(weight, LAST[kernel] * weight, max(1, horizon / 2))
