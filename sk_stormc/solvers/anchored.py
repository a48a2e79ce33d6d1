"""What the automatic rule asks of its anchors and its batches: their combination, and sizes to begin with."""

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.unit import in_one_unit
from sk_stormc.engine import Estimate
from sk_stormc.engine.estimates import keep_in_domain
from sk_stormc.engine.oracle import KINDS
from sk_stormc.engine.probe import curvatures
from sk_stormc.engine.steps import Direction
from sk_stormc.utils.kept import Kept

__all__ = ["Anchor", "balance", "distance", "enlarge", "exact_slope", "extrapolate", "settle"]

UNEVEN = 10  # ratio of the root mean square curvature of a batch to the median; below 4 on ordinary returns
FLAT, PARALLEL = 1e-3, 1e-4  # smallest difference of two of them, relative to |F| and to its own length


@dataclass
class Anchor(Kept):
    """A point where u, J and F were taken on all data, with the `Direction` of its step and Phi."""

    estimate: Estimate
    way: Direction
    value: float


def distance(way, other):
    """Length of the difference of two `Direction`."""
    return math.sqrt(max(float((way.q - other.q).dot(way.p - other.p)), 0.0))


def exact_slope(oracle, x, u, size):
    """The Jacobian that u can follow, of shape (l, n_variables); None where it is not constant, exact and an array."""
    if size[1] != 0:
        return None
    J = oracle.exact_jacobian(x)
    return J if getattr(J, "shape", None) == (u.size, x.size) else None


def balance(oracle, size):
    """Batch sizes (B_g, B_dg, B_f) of which none is all of many components where another is sampled.

    A few hundred components of f at every iteration would cost more than their noise is worth beside that of g.
    """
    sampled = [b for b in size if b]
    if not sampled:
        return size
    B, sizes = max(sampled), zip(KINDS, size, strict=True)
    return tuple(B if b is None and oracle.n_components(kind) > 2 * B else b for kind, b in sizes)


def enlarge(oracle, size, factor):
    """Batch sizes (B_g, B_dg, B_f) times a factor, None where that is all."""
    sizes = zip(KINDS, size, strict=True)
    return tuple(b and (None if factor * b >= oracle.n_components(kind) else factor * b) for kind, b in sizes)


def settle(oracle, x, size):
    """Batch sizes and curvature to begin with: batches are enlarged while their curvatures are not comparable.

    Where their root mean square is far above their median, few components make up the gradient and most batches miss
    them: a step short enough for the worst batch would lead nowhere. No probe takes more than a pass.

    Returns
    -------
    size : tuple
    L : float
    """
    while True:
        tops = curvatures(oracle, x, size)
        L = math.sqrt(np.mean(np.square(tops)))
        if oracle.is_full(size) or (math.isfinite(L) and not UNEVEN * np.median(tops) < L):
            return size, L
        size = enlarge(oracle, size, 16)
        if size[0] is not None and len(tops) * size[0] > oracle.n_components("inner"):
            size = oracle.all_like(size)


def extrapolate(anchors, problem):
    """Anderson's combination of the last anchors: where their gradients, taken as affine, are smallest.

    Parameters
    ----------
    anchors : list
        Of `Anchor`, newest last.
    problem : CompositionalProblem
        For the domains of x and u.

    Returns
    -------
    Estimate
        The affine combination of the anchors. Its F and u are predictions, exact where Phi is quadratic.
    """
    last, way = anchors[-1].estimate, anchors[-1].way
    u, of_u = in_one_unit([anchor.estimate.u for anchor in anchors])
    J, of_J = ([()] * len(anchors), None) if last.J is None else in_one_unit([a.estimate.J for a in anchors])

    def pack(anchor, u, J):
        parts = [anchor.way.q, anchor.way.p, anchor.estimate.x, u, anchor.estimate.F, J]
        return np.concatenate([np.ravel(part) for part in parts], dtype=float)

    *before, here = (pack(*parts) for parts in zip(anchors, u, J, strict=True))
    d, basis = last.x.size, []

    def dot(v, w):
        return float(v[:d] @ w[d : 2 * d])  # <q, p>

    # Gram-Schmidt on the differences, the newest first: the normal equations would square their condition
    for old in reversed(before):
        v = here - old
        size = math.sqrt(max(dot(v, v), 0.0))
        for b in basis:
            v = v - dot(v, b) * b
        left = math.sqrt(max(dot(v, v), 0.0))
        if left > PARALLEL * size and left > FLAT * way.length:  # else it says nothing new of the curvature
            basis.append(v / left)
    for b in basis:
        here = here - dot(here, b) * b

    x = here[2 * d : 3 * d].astype(last.x.dtype)
    u, F, J = np.split(here[3 * d :], [last.u.size, last.u.size + d])
    return Estimate(
        x if problem.penalty is None else problem.penalty.project(x),
        keep_in_domain(problem, of_u(u.reshape(last.u.shape).astype(last.u.dtype)), last.u),
        None if last.J is None else of_J(J.reshape(last.J.shape).astype(last.J.dtype)),
        F.astype(last.F.dtype),
    )
