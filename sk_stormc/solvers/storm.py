"""STORM-Compositional (Yuan & Hu, Algorithm 1) and its anchored form, which needs no tuning."""

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.metrics import Identity
from sk_stormc.core.schedules import inverse
from sk_stormc.engine import CompositionalSolver, Estimate, MethodState, advance, at, start
from sk_stormc.engine.estimates import advance_outer, guard
from sk_stormc.solvers.anchored import AnchorRule, balance, settle
from sk_stormc.theory import storm_parameters
from sk_stormc.utils.validation import check_batch_size, check_choice, check_int, check_schedule, plain

__all__ = ["PaperSTORMCompositional", "STORMCompositional", "exact_slope"]

FULL_ITERATIONS = 10_000  # the default budget where batches are full


@dataclass
class StormState(MethodState):
    """Algorithm 1's u, J and F at x, its constants as resolved for the problem, and what anchors need."""

    now: Estimate = None
    batch_size: tuple = None
    prices: tuple[int, int] | None = None  # IFO of an iteration with these batches, and of one that ends in an anchor
    momentum: tuple = None
    scheduled: bool = False  # some momentum is a schedule
    anchor: int | None = None
    anchoring: AnchorRule | None = None  # of anchor="auto"
    origin: tuple | None = None  # (x_0, u_0), where u follows a constant Jacobian
    since_anchor: int = 0  # iterations
    refresh: bool = False  # the coming iteration ends in an anchor
    x_hat: np.ndarray = None


class STORMCompositional(CompositionalSolver):
    """STORM-Compositional: one loop, with momentum-corrected estimates of g, of its Jacobian and of F.

    ``anchor=None`` with ``normalization="global"`` is Algorithm 1 of the paper, exactly; "storm-c-paper" is that with
    published constants. ``anchor="auto"`` (the default) is for finite sums: momentum 0 and plain steps between anchors,
    where u, J and F are taken on all data; see Notes.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        eta, or a picklable function of the iteration number. "auto" is 0.7 / L with an anchor and 0.5 / L
        without, L a charged probe of the curvature of minibatches.
    precision : float, callable or "auto", default="auto"
        epsilon of step 6. "auto" is 0.1, the value of all the paper's experiments.
    momentum : float, callable, tuple of three or "auto", default="auto"
        a, or (a_g, a_dg, a_Phi), each in [0, 1]. "auto" is 0 with an anchor and 1 / (t + 1) without.
    batch_size : int, None, tuple of three or "auto", default="auto"
        B, or (B_g, B_dg, B_f); None means all components, as does an integer not smaller than their number.
        "auto" is all for up to 1024 components, else 16 with an anchor and 32 without; a constant Jacobian
        is taken exactly, once. With anchor="auto" no kind of more than 32 is taken whole where another is sampled.
    init_batch_size : int, None, tuple of three or "auto", default="auto"
        S, or (S_g, S_dg, S_f). "auto" is all with an anchor and B without.
    normalization : {"global", "block", "auto"} or None, default="auto"
        gamma_t of step 6: one for all x, one for each of the problem's blocks, or 1. "auto" is None.
    anchor : int, "auto" or None, default="auto"
        A full refresh of (u, J, F) every so many iterations; None for never.
    max_iter, max_ifo : int or None, default=None
        Budgets; both None mean 100 passes, with full batches and automatic anchors 10,000 iterations.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta has fallen to tol times its first value, at an anchor where there are
        anchors, else on its average over one pass. 0 means never.
    output : {"last", "random"}, default="last"
        "random" returns the theorem's x-hat, uniform among x_1, ..., x_T, drawn from its own generator.

    Notes
    -----
    The anchored rule (`sk_stormc.solvers.anchored`): an anchor is taken when the iterations since the last have cost
    half as much as one (a quarter, if |F| has fallen to a tenth), and each starts the next stretch from Anderson's
    combination of the last ten. One whose Phi is not below all before is discarded; if no combination was to blame, an
    automatic learning rate is halved or automatic batches are enlarged. With full batches every iteration is an anchor.
    The best anchor is returned, or x_T where a run ends below it between two anchors.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional Optimization", Algorithm 1.

    Examples
    --------
    >>> from sk_stormc import STORMCompositional, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> result = minimize(problem, STORMCompositional(tol=1e-6), random_state=0)
    >>> result.stop_reason
    'converged'
    """

    confirms = False  # the IFO of Algorithm 1 are those of Lemma 3.1, and anchors need no confirmation

    def __init__(
        self,
        learning_rate="auto",
        precision="auto",
        momentum="auto",
        batch_size="auto",
        init_batch_size="auto",
        normalization="auto",
        anchor="auto",
        max_iter=None,
        max_ifo=None,
        tol=1e-4,
        output="last",
    ):
        self.learning_rate = learning_rate
        self.precision = precision
        self.momentum = momentum
        self.batch_size = batch_size
        self.init_batch_size = init_batch_size
        self.normalization = normalization
        self.anchor = anchor
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol
        self.output = output

    @classmethod
    def from_theory(cls, constants, epsilon, variant="corrected"):
        """Algorithm 1 with the parameters of Proposition 3.2: E|grad Phi(x^)| <= epsilon after T iterations.

        The guarantee is for a problem without penalty or metric (`PaperSTORMCompositional` leaves a metric out). A
        batch size not smaller than the number of components is all of them, as ever: exact, and with fewer IFO than
        Lemma 3.1 counts.

        Parameters
        ----------
        constants : ProblemConstants
        epsilon : float
        variant : {"corrected", "paper"}, default="corrected"
            As for `storm_parameters`.

        Returns
        -------
        STORMCompositional

        Raises
        ------
        ValueError
            As for `storm_parameters`.

        Examples
        --------
        >>> from sk_stormc import STORMCompositional
        >>> from sk_stormc.theory import ProblemConstants
        >>> k = ProblemConstants(L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1)
        >>> solver = STORMCompositional.from_theory(k, epsilon=0.1)
        >>> solver.learning_rate, solver.max_iter, solver.output
        (0.5, 2134, 'random')
        """
        p = storm_parameters(constants, epsilon, variant)
        return cls(
            learning_rate=p.eta,
            precision=epsilon,
            momentum=(p.a_g, p.a_dg, p.a_phi),
            batch_size=(p.B_g, p.B_dg, p.B_f),
            init_batch_size=(p.S_g, p.S_dg, p.S_f),
            normalization="global",
            anchor=None,
            max_iter=p.T,
            tol=0,
            output="random",
        )

    def validate(self):
        """Raise a ValueError that names the first parameter that is out of its range."""
        super().validate()
        check_schedule("precision", self.precision, low=0, inclusive=False, words=("auto",))
        for a in self.momentum if isinstance(self.momentum, (tuple, list)) else (self.momentum,):
            check_schedule("momentum", a, first=1, low=0, high=1, words=("auto",))
        if isinstance(self.momentum, (tuple, list)) and len(self.momentum) != 3:
            raise ValueError(f"momentum must be one value or (a_g, a_dg, a_Phi), got {self.momentum!r}")
        check_batch_size("init_batch_size", self.init_batch_size)
        check_choice("normalization", self.normalization, ("global", "block", None, "auto"))
        check_int("anchor", self.anchor, low=1, words=(None, "auto"))
        check_choice("output", self.output, ("last", "random"))

    def needed_to_stream(self):
        """What to set so that the method can run on a stream."""
        return "" if self.anchor is None or isinstance(self.anchor, str) else "anchor=None"

    def init_state(self, oracle, x):
        """Steps 1 to 3: resolve the constants, take u, J and F at x_0."""
        problem = oracle.problem
        anchor = self.auto("anchor", problem, "auto")
        ruled = isinstance(anchor, str)
        size = self.sizes("batch_size", oracle, rule=16 if ruled else 32)
        first = oracle.all_like(size) if ruled else size
        if not isinstance(self.auto("init_batch_size", problem, "auto"), str):
            first = self.sizes("init_batch_size", oracle, rule=None, like=size)
        momentum = self.auto("momentum", problem, 0.0 if ruled else inverse())
        momentum = tuple(momentum) if isinstance(momentum, (tuple, list)) else (momentum,) * 3
        own_rate, own_size = (self.auto(name, problem, None) is None for name in ("learning_rate", "batch_size"))
        precision = self.auto("precision", problem, 0.1)
        L = None
        if ruled and own_size:
            size = balance(oracle, size)
        if ruled and own_rate and own_size:
            size, L = settle(oracle, x, size)
        rule = self.step_rule(
            oracle,
            x,
            size,
            self.factor(oracle, size) if ruled else 0.5,
            L=L,
            normalization=self.auto("normalization", problem, None),
            precision=precision if callable(precision) else float(precision),
        )
        s = StormState(
            x,
            now=start(oracle, x, first),
            rule=rule,
            batch_size=size,
            momentum=momentum,
            scheduled=any(callable(a) for a in momentum),
            anchor=None if ruled else anchor,
            refresh=anchor == 1,
        )
        exact = first[0] is None and problem.n_outer > 1  # a batch of g would leave its error in every later u
        if ruled and exact and exact_slope(oracle, x, s.now.u, size) is not None:
            s.origin = x, s.now.u
        self.reckon(oracle, s)
        if ruled:
            s.anchoring = AnchorRule.begin(oracle, s, oracle.is_full(first), own_rate, own_size)
        return s

    def factor(self, oracle, size):
        """Of the automatic learning rate with anchors."""
        return 0.7

    def reckon(self, oracle, s):
        """The prices of iterations with the state's batch sizes: where u follows J no component of g is drawn."""
        sizes = s.batch_size, oracle.all_like(s.batch_size)
        s.prices = tuple(oracle.cost(b) if s.origin is None else oracle.price("outer", b[2]) for b in sizes)

    def cost(self, oracle, s):
        """IFO of the coming `step`."""
        return s.prices[s.refresh]

    def safety_net(self, oracle, s):
        """10,000 iterations where batches are full, which cost little and need not many; else 100 passes."""
        if s.anchoring is not None and oracle.is_full(s.batch_size):
            return FULL_ITERATIONS, math.inf
        return super().safety_net(oracle, s)

    def step(self, oracle, s):
        """Steps 5 to 10, or an iteration of the anchored rule."""
        if s.anchoring is not None:
            s.anchoring.step(oracle, s, self._estimate)
            if s.prices is None:  # batches were enlarged
                self.reckon(oracle, s)
        else:
            x = self.move(oracle, s, s.now.F)
            s.now = self._estimate(oracle, s, x)
            if s.anchor is not None:
                s.at_anchor = s.since_anchor == 0
                s.since_anchor = 0 if s.refresh else s.since_anchor + 1
                s.refresh = s.since_anchor == s.anchor - 1
        s.x = s.now.x
        if self.output == "random" and oracle.rng.random() * (s.t + 1) < 1:  # x-hat, step 12
            s.x_hat = s.x

    def _estimate(self, oracle, s, x):
        if s.origin is not None:
            x_0, u_0 = s.origin
            u = guard(oracle, u_0 + oracle.exact_jacobian(x) @ (x - x_0), None)
            return advance_outer(oracle, s.now, x, u, None, None, 0, None if s.refresh else s.batch_size[2])
        if s.refresh:
            return start(oracle, x, oracle.all_like(s.batch_size))
        momentum = tuple(at(a, s.t + 1) for a in s.momentum) if s.scheduled else s.momentum
        return advance(oracle, s.now, x, momentum, s.batch_size)  # steps 7 to 10

    def finish(self, oracle, s):
        """x-hat of step 12, x_T or the one drawn from x_1, ..., x_T; with automatic anchors the best of them.

        A run that ends between two anchors may be below both: x_T is then returned by its Phi, known for the record.
        """
        if s.x_hat is not None:
            return s.x_hat
        if s.anchoring is not None:
            best = s.anchoring.best
            between = s.x is not best.estimate.x and oracle.objective(s.x) < best.value
            return s.x if between else best.estimate.x
        if oracle.streaming and oracle.metric.curvature is not None:
            return self.proximal_point(oracle, s, s.now.F)  # the coming iterate: F knows the last rows, x_T does not
        if oracle.streaming and oracle.metric.curvature is not None:
            return self.proximal_point(oracle, s, s.now.F)  # the coming iterate: F knows the last rows, x_T does not
        if oracle.problem.penalty is not None and s.rule.normalization is not None:
            # between feasible points x has no exact zeros; x~ has
            return self.proximal_point(oracle, s, s.now.F)
        return s.x


class PaperSTORMCompositional(STORMCompositional):
    """The solver of the name "storm-c-paper": Algorithm 1 with the constants published for the problem.

    "auto" means the problem's ``paper`` constants; the steps are the paper's, without a metric.
    Parameters are those of `STORMCompositional`.
    """

    def __init__(
        self,
        learning_rate="auto",
        precision="auto",
        momentum="auto",
        batch_size="auto",
        init_batch_size="auto",
        normalization="auto",
        anchor=None,
        max_iter=None,
        max_ifo=None,
        tol=1e-4,
        output="last",
    ):
        super().__init__(
            learning_rate,
            precision,
            momentum,
            batch_size,
            init_batch_size,
            normalization,
            anchor,
            max_iter,
            max_ifo,
            tol,
            output,
        )

    def needed_to_stream(self):
        """What to set so that the method can run on a stream."""
        return "" if self.anchor is None else "anchor=None"

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, else the published one, else the solver's rule."""
        value = getattr(self, name)
        return plain(problem.paper.get(name, rule) if isinstance(value, str) and value == "auto" else value)

    def prepare(self, oracle, s):
        """Leave the problem's metric out."""
        oracle.metric = Identity()


def exact_slope(oracle, x, u, size):
    """The Jacobian that u can follow, of shape (l, n_variables); None where it is not constant, exact and an array."""
    if size[1] != 0:
        return None
    J = oracle.exact_jacobian(x)
    return J if getattr(J, "shape", None) == (u.size, x.size) else None
