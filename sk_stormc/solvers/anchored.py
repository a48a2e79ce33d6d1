"""The rule of ``anchor="auto"``: plain steps between anchors, where everything is exact, and their combination."""

import math
from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.engine import Estimate, at
from sk_stormc.engine.estimates import keep_in_domain
from sk_stormc.engine.oracle import KINDS
from sk_stormc.engine.probe import curvatures
from sk_stormc.engine.steps import Direction, direction, land

__all__ = ["Anchor", "AnchorRule", "extrapolate", "settle"]

MEMORY = 10  # anchors that are combined
UNEVEN = 10  # ratio of the root mean square curvature of a batch to the median; below 4 on ordinary returns
ROUNDING = 1e-10  # of Phi
FLAT, PARALLEL = 1e-3, 1e-4  # smallest difference of two of them, relative to |F| and to its own length


@dataclass
class Anchor:
    """A point where u, J and F were taken on all data, with the `Direction` of its step and Phi."""

    estimate: Estimate
    way: Direction
    value: float


@dataclass
class AnchorRule:
    """The rule's memory, and an iteration by it.

    An anchor is due after n/(4B) iterations if |F| has fallen to a tenth of the last anchor's, after 3n/B in any
    case, and at once where |F| has grown a hundredfold. It is good if its Phi is below the last one's, or not above
    all of those kept while its |F| is at most twice the last one's (after a combination: smaller). Otherwise it is
    discarded and the run goes back. At the first failure without a combination the learning rate is halved, at a
    second in a row batches are made four times as large, and so on: where few components make up the gradient, no
    step is short enough for batches that miss them.
    """

    anchors: list  # the newest last
    way: Direction  # of the step from x
    automatic: bool  # the learning rate is the rule's own, which it may halve
    growing: bool  # so are the batches, which it may enlarge
    failures: int = 0  # anchors discarded since the last good one, combinations not counted
    combined: bool = False  # the iterations since the last anchor began at a combination
    stay: bool = False  # the coming iteration takes an anchor where it is

    @classmethod
    def begin(cls, oracle, s, exact, automatic, growing):
        """The rule at x_0, whose Phi is known where the first batches were all components (``exact``)."""
        way = direction(oracle.problem, oracle.metric.at(s.x, 0), s.x, s.now.F, at(s.rule.learning_rate, 0))
        s.at_anchor, s.refresh, s.residual = True, oracle.is_full(s.batch_size), way.length
        value = oracle.value(s.x, s.now.u) if exact else math.inf
        return cls([Anchor(s.now, way, value)], way, automatic, growing)

    @property
    def best(self):
        """The anchor of the smallest Phi."""
        return min(self.anchors, key=lambda anchor: anchor.value)

    def step(self, oracle, s, estimate):
        """One iteration: a step, then ``estimate(oracle, s, x)``, on all data where ``s.refresh`` says so."""
        problem, rule, metric = oracle.problem, s.rule, oracle.metric.at(s.x, s.t)
        eta = at(rule.learning_rate, s.t)
        if s.at_anchor:
            s.since_anchor = 0
            self.combined = len(self.anchors) > 1 and problem.jacobian_kind != "operator" and oracle.metric.stays
            if self.combined:
                s.now = extrapolate(self.anchors, problem)
                self.way = direction(problem, metric, s.now.x, s.now.F, eta)
        x = s.now.x
        if not self.stay:
            x = land(problem, x, self.way, eta, rule.normalization, at(rule.precision, s.t))
        s.now = estimate(oracle, s, x)
        self.way = direction(problem, metric, x, s.now.F, eta)
        s.since_anchor += 1
        s.at_anchor = s.refresh
        if s.refresh:
            self._judge(oracle, s)
        else:
            length, n_over_b = self.way.length, problem.n_inner / (s.batch_size[0] or problem.n_inner)
            fallen = length <= 0.1 * s.residual and s.since_anchor >= 0.25 * n_over_b
            self.stay = not length < 100 * s.residual  # an F that has grown so much is not stepped along
            s.refresh = fallen or self.stay or s.since_anchor >= 3 * n_over_b

    def _judge(self, oracle, s):
        length, anchor = self.way.length, Anchor(s.now, self.way, oracle.value(s.now.x, s.now.u))
        # |F| alone may fall on the way up; and a combination may lead to where it came from
        highest = max(old.value for old in self.anchors)
        down = anchor.value <= highest + ROUNDING * abs(highest)
        shorter = length < s.residual if self.combined else length <= 2 * s.residual
        good = (down and shorter) or anchor.value < self.anchors[-1].value
        if good or not (self.combined or self.automatic):
            self.anchors = [*self.anchors[1 - MEMORY :], anchor]
            s.residual, self.failures = length, 0
        else:  # back to the anchor before
            self.anchors = self.anchors[-1:]
            if not self.combined:
                self.failures += 1
                if self.failures % 2 or not self.growing:
                    s.rule = replace(s.rule, learning_rate=s.rule.learning_rate / 2)
                else:
                    s.batch_size = enlarge(oracle, s.batch_size, 4)
                    s.prices = None
            s.now = self.anchors[-1].estimate
            eta, metric = at(s.rule.learning_rate, s.t), oracle.metric.at(s.now.x, s.t)
            self.way = direction(oracle.problem, metric, s.now.x, s.now.F, eta)
        self.stay, s.refresh = False, oracle.is_full(s.batch_size)


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
        if oracle.is_full(size) or not UNEVEN * np.median(tops) < L:
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
    names = ("x", "u", "F") if last.J is None else ("x", "u", "F", "J")

    def pack(anchor):
        parts = [anchor.way.q, anchor.way.p, *(getattr(anchor.estimate, name) for name in names)]
        return np.concatenate([np.ravel(part) for part in parts], dtype=float)

    d, here, basis = last.x.size, pack(anchors[-1]), []

    def dot(v, w):
        return float(v[:d] @ w[d : 2 * d])  # <q, p>

    # Gram-Schmidt on the differences, the newest first: the normal equations would square their condition
    for old in reversed(anchors[:-1]):
        v = here - pack(old)
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
        keep_in_domain(problem, u.reshape(last.u.shape).astype(last.u.dtype), last.u),
        None if last.J is None else J.reshape(last.J.shape).astype(last.J.dtype),
        F.astype(last.F.dtype),
        last.log_scale,
    )
