"""The rule of ``anchor="auto"``: plain steps between anchors, where everything is exact, and their combination."""

import math
from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.engine import Estimate, at
from sk_stormc.engine.estimates import keep_in_domain
from sk_stormc.engine.oracle import KINDS
from sk_stormc.engine.probe import curvatures
from sk_stormc.engine.steps import Direction, direction, land
from sk_stormc.utils.kept import Kept

__all__ = ["Anchor", "AnchorRule", "balance", "extrapolate", "settle"]

MEMORY = 10  # anchors that are combined
STRETCH, LEAST = 0.5, 0.25  # IFO between anchors: at most, and before one may come early; of an anchor's
FALLEN, GROWN = 0.1, 10  # |F|, relative to the last anchor's, that ends a stretch
MISSED = 0.5  # drift of F, relative to the last anchor's |F|, by which a combination has failed to predict
UNEVEN = 10  # ratio of the root mean square curvature of a batch to the median; below 4 on ordinary returns
ROUNDING = 1e-10  # of Phi
FLAT, PARALLEL = 1e-3, 1e-4  # smallest difference of two of them, relative to |F| and to its own length


@dataclass
class Anchor(Kept):
    """A point where u, J and F were taken on all data, with the `Direction` of its step and Phi."""

    estimate: Estimate
    way: Direction
    value: float


@dataclass
class AnchorRule(Kept):
    """The rule's memory, and an iteration by it.

    A stretch of iterations ends in an anchor when it has cost half as much as one, or a quarter if |F| has fallen to a
    tenth of the last anchor's; and at once where |F| has grown tenfold. An anchor is good if its Phi is below that of
    all before. It then starts the next stretch, from its combination with the good ones before it. If it is not good,
    the run goes back to the best. Where a combination was to blame, those it was made of are forgotten, as they are
    where the estimate of F that began with it was off by more than half of the last anchor's |F| in the end. Where none
    was, the learning rate is halved, and at every second failure in a row batches are made four times as large instead,
    up to all components, where every iteration is an anchor.
    """

    anchors: list[Anchor]  # the good ones since the last that failed, the newest last
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
        x, F = s.now.x, s.now.F
        if not self.stay:
            x = land(problem, metric, x, self.way, eta, rule.normalization, at(rule.precision, s.t))
        s.now = estimate(oracle, s, x)
        self.way = direction(problem, metric, x, s.now.F, eta)
        s.since_anchor += 1
        s.at_anchor = s.refresh
        if s.refresh:
            self._judge(oracle, s, drift=distance(self.way, direction(problem, metric, x, F, eta)))
        else:
            length, spent = self.way.length, s.since_anchor * s.prices[0] / s.prices[1]
            self.stay = not length < GROWN * s.residual  # an F that has grown so much is not stepped along
            s.refresh = self.stay or spent >= (LEAST if length <= FALLEN * s.residual else STRETCH)

    def _judge(self, oracle, s, drift):
        length, anchor = self.way.length, Anchor(s.now, self.way, oracle.value(s.now.x, s.now.u))
        best = self.anchors[-1].value
        # where Phi cannot tell them apart |F| can, and a combination may lead to where it came from
        level = abs(anchor.value - best) <= ROUNDING * abs(best)
        good = length < (1 if self.combined else 2) * s.residual if level else anchor.value < best
        if good or not (self.combined or self.automatic):
            lost = self.combined and drift > MISSED * s.residual and not oracle.is_full(s.batch_size)
            self.anchors = [anchor] if lost else [*self.anchors[1 - MEMORY :], anchor]
            s.residual, self.failures = length, 0
        else:  # back to the best
            self.anchors = self.anchors[-1:]
            if not self.combined:
                self._shorten(oracle, s)
            s.now = self.anchors[-1].estimate
            eta, metric = at(s.rule.learning_rate, s.t), oracle.metric.at(s.now.x, s.t)
            self.way = direction(oracle.problem, metric, s.now.x, s.now.F, eta)
        self.stay, s.refresh = False, oracle.is_full(s.batch_size)

    def _shorten(self, oracle, s):
        """Halve the learning rate or, at every second failure in a row, enlarge the batches."""
        self.failures += 1
        if self.failures % 2 or not self.growing:
            s.rule = replace(s.rule, learning_rate=s.rule.learning_rate / 2)
        else:
            s.batch_size = enlarge(oracle, s.batch_size, 4)
            s.prices = None


def distance(way, other):
    """Length of the difference of two `Direction`."""
    return math.sqrt(max(float((way.q - other.q).dot(way.p - other.p)), 0.0))


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
