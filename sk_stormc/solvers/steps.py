"""The steps that the methods share, as functions: start, move, advance, probe.

The paper's letters: u = g_t (bold), J = G_t, F = F_t, eta the learning rate, a_g, a_dg, a_Phi the momenta.
"""

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.solvers.oracle import KINDS

__all__ = [
    "ALL",
    "Estimate",
    "advance",
    "advance_inner",
    "advance_outer",
    "cost",
    "curvature",
    "curvatures",
    "is_exact",
    "is_full",
    "land",
    "move",
    "residual",
    "start",
    "start_inner",
]

ALL = (None, None, None)  # (B_g, B_dg, B_f) of a full refresh
PROBES, POWER_ITERATIONS = 16, 6


@dataclass
class Estimate:
    """What is known at a point: x, the inner value u, its Jacobian J and the compositional gradient F.

    J is None where the oracle's exact constant Jacobian serves.
    """

    x: np.ndarray
    u: np.ndarray
    J: object
    F: np.ndarray


def keep_in_domain(problem, u, u_old):
    """u = max(u, 0.8 u_old, floor): a recursive estimate must not leave the domain of f."""
    if problem.inner_floor is None:
        return u
    return np.maximum(
        u, problem.inner_floor if u_old is None else np.maximum(0.8 * u_old, problem.inner_floor)
    )


def guard(oracle, u, u_old):
    """An estimate of u kept in the domain of f; what had left it is counted."""
    kept = keep_in_domain(oracle.problem, u, u_old)
    if kept is not u:
        oracle.n_guarded += int(np.count_nonzero(kept != u))
    return kept


def is_exact(oracle, size):
    """Whether J is the constant exact one: the kind is "constant" and B_dg is None."""
    return oracle.problem.jacobian_kind == "constant" and size[1] is None


def is_full(oracle, size):
    """Whether batches of these sizes leave nothing to estimate: `advance` is then exact."""
    free = oracle.problem.jacobian_kind == "operator"  # taken on the inner batch
    return size[0] is None and size[2] is None and (free or size[1] in (None, oracle.problem.n_inner))


def cost(oracle, size, exact_jacobian):
    """IFO of one `advance` or `start` with batches of these sizes (B_g, B_dg, B_f)."""
    inner, jacobian, outer = (oracle.price(kind, s) for kind, s in zip(KINDS, size, strict=True))
    if oracle.problem.jacobian_kind == "operator":
        jacobian = inner
    return inner + outer + (0 if exact_jacobian else jacobian)


def start(oracle, x, size, exact_jacobian):
    """Steps 2 and 3 of Algorithm 1: u, J, F at x from batches of sizes (S_g, S_dg, S_f)."""
    u, J = start_inner(oracle, x, size, exact_jacobian)
    return Estimate(x, u, J, oracle.gradient(x, u, J, oracle.draw("outer", size[2])))


def start_inner(oracle, x, size, exact_jacobian):
    """The u and J of `start`."""
    batch = oracle.draw("inner", size[0])
    u = guard(oracle, oracle.inner(x, batch), None)
    J = None
    if not exact_jacobian:
        operator = oracle.problem.jacobian_kind == "operator"
        J = oracle.jacobian(x, oracle.share(batch) if operator else oracle.draw("jacobian", size[1]))
    return u, J


def advance(oracle, old, x, momentum, size):
    """Steps 7 to 10 of Algorithm 1: u, J, F at x from those at ``old.x`` and batches of sizes (B_g, B_dg, B_f).

    With momentum 0 this is the step of SARAH-C (``old`` the previous iterate) and of VRSC-PG (``old`` the
    checkpoint). A batch of all components needs no correction: its estimate is exact. With momentum 1 nothing is
    left of the old estimate, and the old point is not evaluated. Where it is, it comes first, so that what a batch
    remembers of its last x serves both. An "operator" J that is taken anew is taken at the old point too: step 10 with
    Jacobians of two batches would add up their differences from step to step.
    """
    return advance_outer(oracle, old, x, *advance_inner(oracle, old, x, momentum, size), momentum[2], size[2])


def advance_inner(oracle, old, x, momentum, size):
    """The u and J of `advance`, steps 8 and 9, and the J at the old point that step 10 needs."""
    a_g, a_dg, a_phi = momentum
    problem, old_J = oracle.problem, old.J

    batch = oracle.draw("inner", size[0])
    correct = not (batch.full or a_g == 1)
    if correct:
        u = (1 - a_g) * (old.u - oracle.inner(old.x, batch))  # step 8
    if problem.jacobian_kind == "operator" and not (a_phi == 1 or size[2] in (None, problem.n_outer)):
        old_J = oracle.jacobian(old.x, batch)
    u = u + oracle.inner(x, batch) if correct else oracle.inner(x, batch)
    u = guard(oracle, u, old.u if correct else None)

    if problem.jacobian_kind == "operator":
        J = oracle.jacobian(x, oracle.share(batch))
    elif is_exact(oracle, size):
        J = None
    else:
        batch = oracle.draw("jacobian", size[1])
        if batch.full or a_dg == 1:
            J = oracle.jacobian(x, batch)
        else:
            J = (1 - a_dg) * (old.J - oracle.jacobian(old.x, batch))  # step 9
            J = J + oracle.jacobian(x, batch)
    return u, J, old_J


def advance_outer(oracle, old, x, u, J, old_J, a_phi, size):
    """Step 10 at x with u and J, from ``old`` with the Jacobian old_J and an outer batch of this size."""
    batch = oracle.draw("outer", size)
    if batch.full or a_phi == 1:
        F = oracle.gradient(x, u, J, batch)
    else:
        F = (1 - a_phi) * (old.F - oracle.gradient(old.x, old.u, old_J, batch))
        F = F + oracle.gradient(x, u, J, batch)
    return Estimate(x, u, J, F)


def precondition(metric, F):
    """metric @ F."""
    return F if metric is None else metric * F if metric.ndim == 1 else metric @ F


def proximal_point(problem, x, F, eta):
    """x~ = prox_{eta R}(x - eta metric F), step 5 of Algorithm 1."""
    x_tilde = x - eta * precondition(problem.metric, F)
    if problem.penalty is None or not np.isfinite(x_tilde).all():  # the loop sees to those
        return x_tilde
    return problem.penalty.prox(x_tilde, eta if problem.metric is None else eta * problem.metric)


def residual(problem, x, F, eta):
    """|x~ - x| / eta, in the norm of the metric's inverse: |F| where there is no penalty.

    Returns
    -------
    length : float
    q, p : ndarray of shape (n_variables,)
        q = (x - x~) / eta and p = metric^-1 q, so that length^2 = <q, p>.
    x_tilde : ndarray of shape (n_variables,) or None
        x~; None where it is x - eta q.
    """
    x_tilde = None
    if problem.penalty is None:
        q, p = precondition(problem.metric, F), F
    else:
        x_tilde = proximal_point(problem, x, F, eta or 1.0)
        q = (x - x_tilde) / (eta or 1.0)
        x_tilde = x_tilde if eta else None  # at the end of a schedule that falls to 0 nothing moves
        p = q if problem.metric is None else q / problem.metric
    square = float(q.dot(p))
    return (math.sqrt(square) if square >= 0 else math.nan), q, p, x_tilde


def land(problem, x, pull, eta, normalization, precision):
    """Step 6 of Algorithm 1: x_t + gamma_t (x~ - x_t) with gamma_t = min(eta eps / |x~ - x|, 1/2).

    One gamma with "global", that of each block of x with "block", 1 with None. ``pull`` is what `residual` returned.
    """
    length, q, p, x_tilde = pull
    if normalization is None:
        return x - eta * q if x_tilde is None else x_tilde  # x~ itself: its zeros are exact
    if normalization == "global":
        return x - (eta * (min(0.5, precision / length) if length else 0.5)) * q
    blocks = (problem.n_blocks, -1)
    lengths = np.sqrt(np.einsum("ij,ij->i", q.reshape(blocks), p.reshape(blocks)))
    gamma = np.minimum(0.5, precision / np.maximum(lengths, np.finfo(lengths.dtype).tiny))
    return x - eta * (gamma[:, None] * q.reshape(blocks)).ravel()


def move(problem, x, F, eta, normalization=None, precision=None):
    """Steps 5 and 6 of Algorithm 1.

    Returns
    -------
    x_new : ndarray of shape (n_variables,)
    length : float
        |x~ - x| / eta in the metric, before gamma.
    """
    pull = residual(problem, x, F, eta)
    return land(problem, x, pull, eta, normalization, precision), pull[0]


def curvature(oracle, x, size):
    """L, behind every automatic learning rate: the root mean square of `curvatures`; 0 for a linear objective."""
    return math.sqrt(np.mean(np.square(curvatures(oracle, x, size))))


def curvatures(oracle, x, size):
    """The charged probe: top eigenvalues of metric @ Hessian of 16 minibatches.

    By power iterations on differences of the minibatch gradient, the vector carried from batch to batch; g and f on
    independent batches. One probe where all batches are full, since they are all the same.

    Returns
    -------
    list of float
    """
    problem = oracle.problem
    exact = is_exact(oracle, size)
    operator = problem.jacobian_kind == "operator"
    v = oracle.rng.standard_normal(x.size).astype(x.dtype)
    v, start_v = precondition(problem.metric, v), v
    v = v / math.sqrt(float(start_v @ v))  # of length 1 in the norm of the metric's inverse
    rounding = math.sqrt(np.finfo(x.dtype).eps)
    h = rounding * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(v))
    tops = []
    for _ in range(1 if is_full(oracle, size) else PROBES):
        inner, outer = oracle.draw("inner", size[0]), oracle.draw("outer", size[2])
        slope = None if exact else oracle.share(inner) if operator else oracle.draw("jacobian", size[1])

        def gradient(x, inner=inner, outer=outer, slope=slope):
            u = keep_in_domain(problem, oracle.inner(x, inner), None)
            return oracle.gradient(x, u, None if slope is None else oracle.jacobian(x, slope), outer)

        F = gradient(x)
        length = math.sqrt(float(F @ precondition(problem.metric, F)))
        top = 0.0
        for k in range(POWER_ITERATIONS + 1):
            w = (gradient(x + h * v) - F) / h
            v_new = precondition(problem.metric, w)
            top = math.sqrt(max(float(w @ v_new), 0.0))
            if not (math.isfinite(top) and top > 0):
                break
            if k or not length:
                v = v_new / top
            # changes F by a thousandth, whatever the units, but moves x by more than its rounding; k = 0 only finds it
            step = max(1e-3 * length / top, rounding * float(np.linalg.norm(x) / np.linalg.norm(v)))
            if step > 1e-7 * h:  # else F is 0 but for rounding
                h = step
        tops.append(top)
    return tops
