"""The rule of ``anchor="auto"``: plain steps between anchors, where everything is exact, and their combination."""

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.solvers.schedules import at
from sk_stormc.solvers.steps import Estimate, is_full, residual, shorten

__all__ = ["Anchor", "AnchorRule", "extrapolate"]

MEMORY = 10  # anchors that are combined
FLAT, PARALLEL = 1e-3, 1e-4  # smallest difference of two of them, relative to |F| and to its own length


@dataclass
class Anchor:
    """A point where u, J and F were taken on all data, with its `residual` and Phi."""

    estimate: Estimate
    pull: tuple
    value: float


@dataclass
class AnchorRule:
    """The rule's memory, and an iteration by it.

    An anchor is due after n/(4B) iterations if |F| has fallen to a tenth of the last anchor's, after 3n/B in any
    case, and at once where |F| has grown a hundredfold. One whose |F| is more than twice the last one's, or whose
    Phi is above all of those it was combined from, is discarded and the run goes back.
    """

    anchors: list  # the newest last
    pull: tuple  # (length, q, p) of `residual` at x
    automatic: bool  # the learning rate is the rule's own, which it may halve
    combined: bool = False  # the iterations since the last anchor began at a combination
    stay: bool = False  # the coming iteration takes an anchor where it is

    def step(self, oracle, s, estimate):
        """One iteration: a step, then ``estimate(oracle, s, x)``, on all data where ``s.refresh`` says so."""
        problem, eta = oracle.problem, at(s.learning_rate, s.t)
        if s.at_anchor:
            s.steps = 0
            self.combined = len(self.anchors) > 1 and problem.jacobian_kind != "operator"
            if self.combined:
                s.now = extrapolate(self.anchors, problem.penalty)
                self.pull = residual(problem, s.now.x, s.now.F, eta)
        x = s.now.x
        if not self.stay:
            length, q, p = self.pull
            x = x - eta * shorten(problem, q, p, length, s.normalization, at(s.precision, s.t))
        s.now = estimate(oracle, s, x)
        self.pull = residual(problem, x, s.now.F, eta)
        s.steps += 1
        s.at_anchor = s.refresh
        if s.refresh:
            self._judge(oracle, s)
        else:
            length, n_over_b = self.pull[0], problem.n_inner / (s.batch_size[0] or problem.n_inner)
            fallen = length <= 0.1 * s.residual and s.steps >= 0.25 * n_over_b
            self.stay = not length < 100 * s.residual  # such an F is not followed
            s.refresh = fallen or self.stay or s.steps >= 3 * n_over_b

    def _judge(self, oracle, s):
        length, anchor = self.pull[0], Anchor(s.now, self.pull, oracle.value(s.now.x, s.now.u))
        good = length <= 2 * s.residual
        if self.combined:  # |F| alone may fall on the way up
            good = good and anchor.value <= max(old.value for old in self.anchors)
        if good or not (self.combined or self.automatic):
            self.anchors = [*self.anchors[1 - MEMORY :], anchor]
            s.residual = length
        else:  # back to the anchor before
            self.anchors = self.anchors[-1:]
            if not self.combined:
                s.learning_rate /= 2
            s.now = self.anchors[-1].estimate
            self.pull = residual(oracle.problem, s.now.x, s.now.F, at(s.learning_rate, s.t))
        self.stay, s.refresh = False, is_full(oracle, s.batch_size)


def extrapolate(anchors, penalty):
    """Anderson's combination of the last anchors: where their gradients, taken as affine, are smallest.

    Parameters
    ----------
    anchors : list
        Objects with ``estimate`` (Estimate) and ``pull`` (what `residual` returned for it), newest last.
    penalty : object or None

    Returns
    -------
    Estimate
        The affine combination of the anchors. Its F and u are predictions, exact where Phi is quadratic.
    """
    last, (length, q, _) = anchors[-1].estimate, anchors[-1].pull
    names = ("x", "u", "F") if last.J is None else ("x", "u", "F", "J")

    def pack(anchor):
        _, q, p = anchor.pull
        parts = [q, p, *(getattr(anchor.estimate, name) for name in names)]
        return np.concatenate([np.ravel(part) for part in parts], dtype=float)

    d, here, basis = q.size, pack(anchors[-1]), []

    def dot(v, w):
        return float(v[:d] @ w[d : 2 * d])  # <q, p>

    # Gram-Schmidt on the differences, the newest first: the normal equations would square their condition
    for old in reversed(anchors[:-1]):
        v = here - pack(old)
        size = math.sqrt(max(dot(v, v), 0.0))
        for b in basis:
            v = v - dot(v, b) * b
        left = math.sqrt(max(dot(v, v), 0.0))
        if left > PARALLEL * size and left > FLAT * length:  # else it says nothing new of the curvature
            basis.append(v / left)
    for b in basis:
        here = here - dot(here, b) * b

    x = here[2 * d : 3 * d].astype(last.x.dtype)
    u, F, J = np.split(here[3 * d :], [last.u.size, last.u.size + d])
    return Estimate(
        x if penalty is None else penalty.project(x),
        u.reshape(last.u.shape).astype(last.u.dtype),
        None if last.J is None else J.reshape(last.J.shape).astype(last.J.dtype),
        F.astype(last.F.dtype),
    )
