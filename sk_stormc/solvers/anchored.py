"""The rule of ``anchor="auto"``: plain steps between anchors, where everything is exact, and their combination."""

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.schedules import at
from sk_stormc.solvers.oracle import KINDS
from sk_stormc.solvers.steps import ALL, Estimate, cost, curvatures, is_exact, is_full, keep_in_domain, land, residual

__all__ = ["Anchor", "AnchorRule", "extrapolate", "settle"]

DEBUG = None
MEMORY = 10  # anchors that are combined
UNEVEN = 10  # ratio of the root mean square curvature of a batch to the median; below 4 on ordinary returns
ROUNDING = 1e-10  # of Phi
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
    case, and at once where |F| has grown a hundredfold. It is good if its Phi is below the last one's, or not above
    all of those kept while its |F| is at most twice the last one's (after a combination: smaller). Otherwise it is
    discarded and the run goes back. At the first failure without a combination the learning rate is halved, at a
    second in a row batches are made four times as large, and so on: where few components make up the gradient, no
    step is short enough for batches that miss them.
    """

    anchors: list  # the newest last
    pull: tuple  # `residual` at x
    automatic: bool  # the learning rate is the rule's own, which it may halve
    growing: bool  # so are the batches, which it may enlarge
    failures: int = 0  # anchors discarded since the last good one, combinations not counted
    combined: bool = False  # the iterations since the last anchor began at a combination
    stay: bool = False  # the coming iteration takes an anchor where it is

    def step(self, oracle, s, estimate):
        """One iteration: a step, then ``estimate(oracle, s, x)``, on all data where ``s.refresh`` says so."""
        problem, eta = oracle.problem, at(s.learning_rate, s.t)
        if s.at_anchor:
            s.steps = 0
            self.combined = len(self.anchors) > 1 and problem.jacobian_kind != "operator"
            if self.combined:
                s.now = extrapolate(self.anchors, problem)
                self.pull = residual(problem, s.now.x, s.now.F, eta)
        x = s.now.x
        if not self.stay:
            x = land(problem, x, self.pull, eta, s.normalization, at(s.precision, s.t))
        old = s.now
        s.now = estimate(oracle, s, x)
        self.was = residual(problem, x, old.F, eta)[0]
        self.err = residual(problem, x, old.F - s.now.F, eta)[0]
        self.pull = residual(problem, x, s.now.F, eta)
        s.steps += 1
        s.at_anchor = s.refresh
        if s.refresh:
            self._judge(oracle, s)
        else:
            length, spent = self.pull[0], s.steps * s.prices[0]
            fallen = length <= 0.1 * s.residual and spent >= 0.25 * s.prices[1]
            self.stay = not length < 100 * s.residual  # such an F is not followed
            s.refresh = fallen or self.stay or spent >= 3 * s.prices[1]

    def _judge(self, oracle, s):
        length, anchor = self.pull[0], Anchor(s.now, self.pull, oracle.value(s.now.x, s.now.u))
        # |F| alone may fall on the way up; and a combination may lead to where it came from
        lowest = min(old.value for old in self.anchors)
        down = anchor.value <= lowest + ROUNDING * abs(lowest)
        shorter = length < s.residual if self.combined else length <= 2 * s.residual
        good = (down and shorter) or anchor.value < lowest
        if DEBUG is not None:
            DEBUG.append((s.t, oracle.ifo, s.steps, self.combined, anchor.value, lowest, s.residual, self.was, length, self.err, good, s.batch_size, s.learning_rate))
        if good or not (self.combined or self.automatic):
            self.anchors = [*self.anchors[1 - MEMORY :], anchor]
            s.residual, self.failures = length, 0
        else:  # back to the anchor before
            self.anchors = self.anchors[-1:]
            if not self.combined:
                self.failures += 1
                if self.failures % 2 or not self.growing:
                    s.learning_rate /= 2
                else:
                    exact = is_exact(oracle, s.batch_size)
                    s.batch_size = enlarge(oracle, s.batch_size, 4)
                    s.prices = (cost(oracle, s.batch_size, exact), s.prices[1])
            s.now = self.anchors[-1].estimate
            self.pull = residual(oracle.problem, s.now.x, s.now.F, at(s.learning_rate, s.t))
        self.stay, s.refresh = False, is_full(oracle, s.batch_size)


def enlarge(oracle, size, factor):
    """Batch sizes (B_g, B_dg, B_f) times a factor, None where that is all."""
    sizes = zip(KINDS, size, strict=True)
    return tuple(None if b is None or factor * b >= oracle.n_components(kind) else factor * b for kind, b in sizes)


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
        if is_full(oracle, size) or not UNEVEN * np.median(tops) < L:
            return size, L
        size = enlarge(oracle, size, 16)
        if size[0] is not None and len(tops) * size[0] > oracle.n_components("inner"):
            size = ALL


def extrapolate(anchors, problem):
    """Anderson's combination of the last anchors: where their gradients, taken as affine, are smallest.

    Parameters
    ----------
    anchors : list
        Objects with ``estimate`` (Estimate) and ``pull`` (what `residual` returned for it), newest last.
    problem : CompositionalProblem
        For the domains of x and u.

    Returns
    -------
    Estimate
        The affine combination of the anchors. Its F and u are predictions, exact where Phi is quadratic.
    """
    last, (length, q, *_) = anchors[-1].estimate, anchors[-1].pull
    names = ("x", "u", "F") if last.J is None else ("x", "u", "F", "J")

    def pack(anchor):
        _, q, p, _ = anchor.pull
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
        x if problem.penalty is None else problem.penalty.project(x),
        keep_in_domain(problem, u.reshape(last.u.shape).astype(last.u.dtype), last.u),
        None if last.J is None else J.reshape(last.J.shape).astype(last.J.dtype),
        F.astype(last.F.dtype),
    )
