"""The automatic rule, which needs no tuning: plain steps between anchors, points at
which everything is exact."""

import math
from dataclasses import dataclass, replace

from sk_stormc.engine import advance, at, guard, start
from sk_stormc.engine.steps import Direction, advance_outer
from sk_stormc.solvers.anchors import (
    Anchor,
    balance,
    combine,
    distance,
    enlarge,
    exact_jacobian,
    first_batches,
)
from sk_stormc.solvers.storm import STORMCompositional, StormState
from sk_stormc.utils.types import Auto, Schedule, Size


@dataclass
class AnchoredState(StormState):
    """Algorithm 1's state, and the state of the rule."""

    anchored = True
    # the good anchors since the last failure, newest last
    anchors: list[Anchor] | None = None
    direction: Direction | None = None  # of the step from x
    # whether the rule may halve the learning rate, and enlarge the batches
    automatic_rate: bool = True
    automatic_size: bool = True
    since_anchor: int = 0  # iterations since the last anchor
    # anchors discarded since the last good one, without those after combinations
    failures: int = 0
    # whether the iterations since the last anchor began at a combination
    combined: bool = False
    anchor_next: bool = False  # whether the next iteration ends in an anchor
    # whether that anchor is at the current point, without a step
    anchor_here: bool = False
    # (x_0, u_0), if u is computed by a constant Jacobian
    inner_at_start: tuple | None = None

    @property
    def best(self):
        """The anchor of the smallest Phi."""
        return min(self.anchors, key=lambda anchor: anchor.value)


class AutomaticSTORM(STORMCompositional):
    """STORM-Compositional without tuning: plain steps between anchors, points at which
    u, J and F use all data.

    This is the default solver, with the name "storm-c". On a stream, and for problems
    whose advice has ``tracking=False`` (neighbour embedding), it is Algorithm 1 as in
    `STORMCompositional`.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        The learning rate eta, or a picklable function of the iteration number. "auto"
        is 0.7 / L (0.5 / L without anchors), where L is the curvature of minibatches,
        an estimate whose oracle calls are counted. The rate is halved if steps turn out
        to be too long.
    batch_size : int, None, tuple of three or "auto", default="auto"
        The batch size B, or (B_g, B_dg, B_f). None means all components, as does an
        integer not smaller than their number. "auto" means all components if there are
        at most 1024, and otherwise 16 (32 without anchors). A constant Jacobian is then
        computed exactly, once. If one kind of component is sampled, every kind with
        more than 32 components is sampled.
    max_iter, max_ifo : int or None, default=None
        Limits on the iterations and on the oracle calls. If both are None, the limit is
        100 passes, or 10,000 iterations with full batches and anchors.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta at an anchor has fallen to tol times its value at x_0.
        Without anchors, a gradient on all data is computed, and counted, once the
        estimates have fallen as far on average over a pass. 0 disables this test.

    Notes
    -----
    Between anchors the steps are those of Algorithm 1 with momentum 0, and with gamma 1
    unless the problem limits steps. A stretch of iterations ends in an anchor when its
    IFO reach a quarter of an anchor's IFO, or at once if |F| has grown tenfold. An
    anchor is good if its Phi is below that of all earlier anchors. The next stretch
    then starts from Anderson's combination of it with up to nine earlier good anchors.
    If an anchor is not good, the run returns to the best one. If the stretch began with
    a combination, the anchors of the combination are discarded. They are also discarded
    if the estimate of F at the end of the stretch has an error of more than half of |F|
    at the last anchor. If the stretch began without a combination, the learning rate is
    halved. At every second failure in a row, the batches are instead made four times as
    large. Once they contain all components, every iteration is an anchor. The rule only
    changes parameters that are "auto".

    The run returns the best anchor, or x_T if it ends between two anchors at a lower
    Phi.

    Examples
    --------
    >>> from sk_stormc import AutomaticSTORM, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> result = minimize(problem, AutomaticSTORM(tol=1e-6), random_state=0)
    >>> result.stop_reason
    'converged'
    """

    instead = ""
    # parameters of Algorithm 1, which the rule sets
    precision = momentum = init_batch_size = normalization = "auto"
    anchor = None
    output = "last"

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        batch_size: Size = "auto",
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
    ) -> None:
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def set_params(self, **params):
        """Set parameters.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a name is unknown. For a parameter of Algorithm 1 the message names the
            solver that has it.
        """
        others = STORMCompositional().get_params().keys() - self.get_params().keys()
        if theirs := sorted(others & params.keys()):
            values = ", ".join(f"{name}={params[name]!r}" for name in theirs)
            raise ValueError(
                f"{type(self).__name__} sets {', '.join(theirs)} itself: use "
                f"solver=STORMCompositional({values}), Algorithm 1, to set it yourself"
            )
        return super().set_params(**params)

    def init_state(self, oracle, x):
        """An anchor at x_0 with suitable batches and learning rate. Without anchors,
        steps 1 to 3 of Algorithm 1."""
        problem = oracle.problem
        # no anchors, or nothing that they would correct
        if not (oracle.source.finite and problem.advice.tracking):
            return super().init_state(oracle, x)
        automatic_rate = self.auto("learning_rate", problem, None) is None
        automatic_size = self.auto("batch_size", problem, None) is None
        size, L = self.sizes("batch_size", oracle, rule=16), None
        if automatic_size:
            size = balance(oracle, size)
        if automatic_rate and automatic_size:
            size, L = first_batches(oracle, x, size)
        rule = self.step_rule(oracle, x, size, self.factor(oracle, size), L=L)
        now = start(oracle, x, oracle.all_like(size))
        s = AnchoredState(x, rule=rule, now=now, batch_size=size)
        s.automatic_rate, s.automatic_size = automatic_rate, automatic_size
        s.direction = self.direction(oracle, s, x, now.F)
        s.residual = s.direction.length
        J = exact_jacobian(oracle, x, now.u, size) if problem.n_outer > 1 else None
        s.inner_at_start = None if J is None else (x, now.u)
        s.anchors = [Anchor(now, s.direction, oracle.value(x, now.u))]
        s.anchor_next = oracle.is_full(size)
        return s

    def factor(self, oracle, size):
        """The factor of the automatic learning rate."""
        return 0.7

    def step(self, oracle, s):
        """An iteration, which may end in an anchor. Without anchors, steps 5 to 10 of
        Algorithm 1."""
        if not s.anchored:
            return super().step(oracle, s)
        if s.since_anchor == 0:
            self._combine_anchors(oracle, s)
        x, F = s.now.x, s.now.F
        if not s.anchor_here:
            x = self._next_point(oracle, s)
        s.now = self._estimate(oracle, s, x)
        s.direction = self.direction(oracle, s, x, s.now.F)
        if s.anchor_next:
            predicted = self.direction(oracle, s, x, F)
            self._keep_or_discard(oracle, s, error=distance(s.direction, predicted))
        else:
            self._count(oracle, s)
        s.x = s.now.x

    def _combine_anchors(self, oracle, s):
        """Begin a stretch at the combination of the good anchors, if there is one."""
        s.combined = (
            len(s.anchors) > 1
            and oracle.problem.jacobian_kind != "operator"
            and oracle.preconditioner.stays
        )
        if s.combined:
            s.now = combine(s.anchors, oracle.problem)
            s.direction = self.direction(oracle, s, s.now.x, s.now.F)

    def _next_point(self, oracle, s):
        """The end of the step along ``s.direction``."""
        eta = at(s.rule.learning_rate, s.t)
        preconditioner = oracle.preconditioner.at(s.x, s.t)
        return s.rule.next_point(
            oracle.problem, preconditioner, s.now.x, s.direction, eta, s.t
        )

    def _count(self, oracle, s):
        """Count an iteration of a stretch, and determine whether the next one ends it
        in an anchor."""
        s.since_anchor += 1
        spent = s.since_anchor * self._cost(oracle, s, False)
        # make no step along such a large F
        s.anchor_here = not s.direction.length < 10 * s.residual
        s.anchor_next = s.anchor_here or spent >= self._cost(oracle, s, True) / 4

    def _estimate(self, oracle, s, x):
        """u, J and F at x: exact if an anchor is due, and otherwise by steps 7 to 10
        with momentum 0."""
        size = oracle.all_like(s.batch_size) if s.anchor_next else s.batch_size
        if s.inner_at_start is not None:
            x_0, u_0 = s.inner_at_start
            u = guard(oracle, oracle.follow(x, x_0, u_0), None)
            return advance_outer(oracle, s.now, None, (x, u, None), 0, size)
        if s.anchor_next:
            return start(oracle, x, size)
        return advance(oracle, s.now, x, (0, 0, 0), size)

    def _keep_or_discard(self, oracle, s, error):
        """Keep a good anchor. Otherwise return to the best one. ``error`` is the error
        of the estimate of F."""
        length = s.direction.length
        anchor = Anchor(s.now, s.direction, oracle.value(s.now.x, s.now.u))
        best = s.anchors[-1].value
        # if two values of Phi are equal up to rounding, compare |F|; a combination may
        # lead back to its anchor
        equal = abs(anchor.value - best) <= 1e-10 * abs(best)
        if equal:
            good = length < (1 if s.combined else 2) * s.residual
        else:
            good = anchor.value < best
        if good or not (s.combined or s.automatic_rate):
            is_full = oracle.is_full(s.batch_size)
            misled = s.combined and error > s.residual / 2 and not is_full
            s.anchors = [anchor] if misled else [*s.anchors[-9:], anchor]
            s.residual, s.failures = length, 0
        else:
            s.anchors = s.anchors[-1:]
            if not s.combined:
                self._shorten_steps(oracle, s)
            s.now = s.anchors[-1].estimate
            s.direction = self.direction(oracle, s, s.now.x, s.now.F)
        s.since_anchor, s.anchor_here = 0, False
        s.anchor_next = oracle.is_full(s.batch_size)

    def _shorten_steps(self, oracle, s):
        """Halve the learning rate. At every second failure in a row, enlarge the
        batches instead."""
        s.failures += 1
        if s.failures % 2 or not s.automatic_size:
            s.rule = replace(s.rule, learning_rate=s.rule.learning_rate / 2)
        else:
            s.batch_size = enlarge(oracle, s.batch_size, 4)

    def _cost(self, oracle, s, anchor):
        """IFO of an iteration. If u is computed by a constant Jacobian, no component of
        g is drawn."""
        size = oracle.all_like(s.batch_size) if anchor else s.batch_size
        if s.inner_at_start is None:
            return oracle.cost(size)
        return oracle.price("outer", size[2])

    def cost(self, oracle, s):
        """IFO of the next `step`."""
        if not s.anchored:
            return super().cost(oracle, s)
        return self._cost(oracle, s, s.anchor_next)

    def default_budget(self, oracle, s):
        """10,000 iterations with full batches, which are cheap, and otherwise 100
        passes."""
        if s.anchored and oracle.is_full(s.batch_size):
            return 10_000, math.inf
        return super().default_budget(oracle, s)

    def finish(self, oracle, s):
        """The best anchor, or x_T if its Phi is lower. Without anchors, x_T."""
        if not s.anchored:
            return super().finish(oracle, s)
        best = s.best
        is_lower = s.x is not best.estimate.x and oracle.objective(s.x) < best.value
        return s.x if is_lower else best.estimate.x
