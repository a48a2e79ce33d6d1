"""Parts of the automatic rule: anchors and their combination, and the choice of batch
sizes."""

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.penalties import projected
from sk_stormc.core.unit import in_one_unit
from sk_stormc.engine import Estimate
from sk_stormc.engine.curvature import curvatures
from sk_stormc.engine.oracle import KINDS
from sk_stormc.engine.steps import Direction, keep_in_domain


@dataclass
class Anchor:
    """A point at which u, J and F were computed on all data, with the `Direction` of
    its step and Phi."""

    estimate: Estimate
    direction: Direction
    value: float


def distance(direction, other):
    """The norm of the difference of two `Direction`."""
    q, p = direction.q - other.q, direction.p - other.p
    return math.sqrt(max(float(q.dot(p)), 0.0))


def exact_jacobian(oracle, x, u, size):
    """The constant Jacobian, of shape (l, n_variables), or None if it is not constant,
    exact and an array."""
    if size[1] != 0:
        return None
    J = oracle.exact_jacobian(x)
    return J if getattr(J, "shape", None) == (u.size, x.size) else None


def balance(oracle, size):
    """Batch sizes (B_g, B_dg, B_f) with which no kind uses all of its many components
    while another kind is sampled.

    Using a few hundred components of f at every iteration would cost more than it
    gains, because the noise of g remains.
    """
    sampled = [b for b in size if b]
    if not sampled:
        return size
    B, sizes = max(sampled), zip(KINDS, size, strict=True)
    return tuple(
        B if b is None and oracle.n_components(kind) > 2 * B else b for kind, b in sizes
    )


def enlarge(oracle, size, factor):
    """Batch sizes (B_g, B_dg, B_f) multiplied by a factor. None means all
    components."""
    sizes = zip(KINDS, size, strict=True)
    return tuple(
        b and (None if factor * b >= oracle.n_components(kind) else factor * b)
        for kind, b in sizes
    )


def first_batches(oracle, x, size):
    """Batch sizes at the start, and the curvature. Batches are enlarged while their
    curvatures are too uneven.

    If the root mean square is far above the median, few components dominate the
    gradient and most batches miss them. A step that is short enough for the worst batch
    would then make no progress. No estimate costs more than a pass.
    """
    while True:
        L_batches = curvatures(oracle, x, size)
        L = math.sqrt(np.mean(np.square(L_batches)))
        # the ratio is below 4 on ordinary returns
        uneven = not math.isfinite(L) or 10 * np.median(L_batches) < L
        if oracle.is_full(size) or not uneven:
            return size, L
        size = enlarge(oracle, size, 16)
        drawn = len(L_batches) * (size[0] or 0)
        if drawn > oracle.n_components("inner"):
            size = oracle.all_like(size)


def combine(anchors, problem):
    """Anderson's combination of the last anchors, which minimises the norm of an affine
    model of the gradient."""
    last, direction = anchors[-1].estimate, anchors[-1].direction
    u, of_u = in_one_unit([anchor.estimate.u for anchor in anchors])
    has_J = last.J is not None
    J, of_J = in_one_unit([a.estimate.J if has_J else () for a in anchors])

    def pack(anchor, u, J):
        estimate, q, p = anchor.estimate, anchor.direction.q, anchor.direction.p
        parts = map(np.ravel, (q, p, estimate.x, u, estimate.F, J))
        return np.concatenate(list(parts), dtype=float)

    *earlier, newest = (pack(*parts) for parts in zip(anchors, u, J, strict=True))
    d, basis = last.x.size, []

    def dot(v, w):
        return float(v[:d] @ w[d : 2 * d])  # <q, p>

    # Gram-Schmidt on the differences, newest first, because normal equations would
    # square the condition number
    for old in reversed(earlier):
        v = newest - old
        size = math.sqrt(max(dot(v, v), 0.0))
        for b in basis:
            v = v - dot(v, b) * b
        length = math.sqrt(max(dot(v, v), 0.0))
        # otherwise it adds no information on the curvature
        if length > 1e-4 * size and length > 1e-3 * direction.length:
            basis.append(v / length)
    for b in basis:
        newest = newest - dot(newest, b) * b

    def like(part, value):
        return part.reshape(value.shape).astype(value.dtype)

    _, x, u, F, J = np.split(newest, np.cumsum([2 * d, d, last.u.size, d]))
    return Estimate(
        projected(problem.penalty, like(x, last.x)),
        keep_in_domain(problem, of_u(like(u, last.u)), last.u),
        of_J(like(J, last.J)) if has_J else None,
        like(F, last.F),
    )
