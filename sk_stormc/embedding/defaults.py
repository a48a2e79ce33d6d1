"""Defaults of neighbour embedding: rates, limits, batches and numbers of iterations.
docs/sne.md has measurements."""

import math

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.schedules import Geometric, decay_to
from sk_stormc.engine.solver import MAX_FULL_BATCH

# Without a mesh, and with more points, the normalisers of a recorded Phi are estimated
# from so many columns: all of them would take longer than the iterations.
REPORTED_COLUMNS = 2048
# points up to which the reported divergence sums over all pairs, without a mesh
MAX_EXACT_POINTS = 10_000

# of "student-t"; without momentum, divergences after as many iterations are up to 2 %
# higher
MOMENTUM = 0.8
MAX_RECORDS = 20  # of a stage: more would take a notable part of its time

# conjugate-gradient iterations of the preconditioner; with one for "student-t",
# divergences are up to 2 % higher
CG_ITERATIONS = {"gaussian": 2, "student-t": 5}
# learning rates of "student-t" with a mesh, with all or sampled pairs, and from a
# finished map; four times as large, they are worse for some data
RATES = {"mesh": 8.0, "pairs": 6.0, "further": 4.0}
# last regularisation of the preconditioner, in units of the weight of a point; with .1
# for "student-t", divergences are up to 7 % higher
LAST_REGULARIZATION = {"gaussian": 0.1, "student-t": 1e-3}
# the same for the motion of a component of the graph as a whole, which would drift away
# with a smaller one
COMPONENT_FLOOR = 0.03
# regularisation of the few iterations that show whether a map has converged
PROBE_REGULARIZATION = 0.1

PUBLISHED = Published(
    eta=0.1, epsilon=0.1, a=0.01, B=(100, 100, 100), S=(100, 100, 100)
)


def draws_nothing(kernel, n, d):
    """Whether the default of a map sums over all pairs, or over a mesh, instead of
    sampled pairs."""
    return kernel == "student-t" and (d <= 2 or n <= MAX_FULL_BATCH)


def horizon(kernel, n, d):
    """The number of iterations.

    Points of a large map are closer to each other in the data, and need fewer.
    """
    if kernel == "gaussian" or n > MAX_EXACT_POINTS and d > 2:
        return 120
    return 140 if n < 35_000 else 110


def full_rate(meshed, further):
    """The learning rate of "student-t", before it falls."""
    return RATES["further" if further else "mesh" if meshed else "pairs"]


def step_limit(n, d):
    """The longest step of a point: short steps cannot reach the width of a large map,
    which more dimensions reduce."""
    return 5.0 * max(1.0, math.sqrt(n / 10_000)) if d <= 2 else 7.0


def regularization(kernel, held, n_iter, weight, further=False):
    """The regularisation mu of the preconditioner, a number or a schedule. ``weight``
    is the weight of a point.

    ``held`` is a constant in units of the weight, or None. ``further`` is whether the
    map was finished before.
    """
    if held is not None:
        return held * weight
    if further:
        return LAST_REGULARIZATION[kernel] * weight
    # 1 at first, because with a smaller mu only the relative positions of separate
    # clusters would change
    return Geometric(weight, LAST_REGULARIZATION[kernel] * weight, max(1, n_iter / 2))


def bounded(problem):
    """Return False, because a divergence is not negative."""
    return False


def advice(kernel, n, d, constant, n_iter, n_near, meshed, further=False):
    """The advice of a problem."""
    n_iter = n_iter or horizon(kernel, n, d)
    if kernel == "gaussian":
        rate, inertia, limit, columns = 2 * 4.0, 0.7, 1.0, min(1000, max(300, n // 10))
    else:
        rate, inertia = full_rate(meshed, further), MOMENTUM
        limit, columns = step_limit(n, d), min(2000, max(600, n // 5))
    batch = None if n <= MAX_FULL_BATCH or meshed else columns
    sampled = n if batch is None else batch + n_near
    # records should take less than a twentieth of the time. With all pairs, an
    # iteration reuses the sums of a record. Otherwise a record needs
    # REPORTED_COLUMNS.
    affordable = n_iter
    if batch is not None:
        affordable *= 0.05 * (sampled + 2 * n_near * d) / min(n, REPORTED_COLUMNS)
    records = min(MAX_RECORDS, max(4, int(affordable)))
    return Advice(
        batch_size=(batch, batch, None),
        # tracking would double the cost of the sampled sums without an improvement
        tracking=False,
        learning_rate=rate if constant else decay_to(0.0, rate, n_iter, hold=0.5),
        normalization="block",
        precision=limit / rate,
        inertia=inertia,
        record_every=n_iter * (n + 2 * sampled) // records,
        max_iter=n_iter,
        unbounded_below=bounded,
        published=PUBLISHED,
        many_minima=True,
    )
