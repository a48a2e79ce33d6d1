"""STORM-Compositional: Algorithm 1 of Yuan & Hu."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from sk_stormc.core.preconditioners import Identity
from sk_stormc.core.schedules import inverse
from sk_stormc.engine import (
    CompositionalSolver,
    Estimate,
    MethodState,
    advance,
    at,
    start,
)
from sk_stormc.theory import ProblemConstants, storm_parameters
from sk_stormc.utils.parameters import (
    check_batch_size,
    check_choice,
    check_int,
    check_schedule,
    is_list,
    is_word,
    plain,
)
from sk_stormc.utils.types import Auto, Schedule, Size, Variant

SYMBOLS = {  # the paper's notation
    "learning_rate": "eta",
    "precision": "epsilon",
    "momentum": "a",
    "batch_size": "B",
    "init_batch_size": "S",
    "normalization": "gamma",
}

RUNNING_MEAN = inverse()  # the momentum 1 / (t + 1)


def check_momentum(name, value):
    """Raise a ValueError unless the value is a number or a schedule in [0, 1], "auto",
    or three of them."""
    for a in value if is_list(value) else (value,):
        check_schedule(name, a, first=1, low=0, high=1, words=("auto",))
    if is_list(value) and len(value) != 3:
        raise ValueError(
            f"{name} must be one value or (a_g, a_dg, a_Phi), got {value!r}"
        )


@dataclass
class StormState(MethodState):
    """The estimates u, J and F at x, and Algorithm 1's constants, resolved for the
    problem."""

    anchored = False  # True for the state of the automatic rule
    now: Estimate | None = None
    batch_size: tuple | None = None  # (B_g, B_dg, B_f)
    momentum: tuple | None = None  # (a_g, a_dg, a_Phi), numbers or schedules
    x_hat: np.ndarray | None = None


class STORMCompositional(CompositionalSolver):
    r"""STORM-Compositional, Algorithm 1: one loop, with momentum-corrected estimates of
    g, of its Jacobian and of F.

    After a step from x to x', one batch of each kind updates the estimates u of g, J of
    the Jacobian and F of the compositional gradient:

    .. math::

        \tilde x &= \mathrm{prox}_{\eta R}(x - \eta F),
            \qquad x' = x + \gamma (\tilde x - x) \\
        u' &= (1 - a_g) \bigl( u - g(x, B_g) \bigr) + g(x', B_g) \\
        J' &= (1 - a_{dg}) \bigl( J - \partial g(x, B_{dg}) \bigr)
            + \partial g(x', B_{dg}) \\
        F' &= (1 - a_\Phi) \bigl( F - J^T \nabla f(u, B_f) \bigr)
            + J'^T \nabla f(u', B_f)

    With ``normalization="global"`` these are exactly the paper's steps. "storm-c-paper"
    also has the published constants. The defaults are chosen for streams.
    `AutomaticSTORM`, the solver with the name "storm-c", needs fewer passes over a data
    set.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        The learning rate eta, or a picklable function of the iteration number. "auto"
        is 0.5 / L, where L is the curvature of minibatches, an estimate whose oracle
        calls are counted.
    precision : float, callable or "auto", default="auto"
        The epsilon of step 6. "auto" is 0.1, the value in all of the paper's
        experiments.
    momentum : float, callable, tuple of three or "auto", default="auto"
        The momentum a, or (a_g, a_dg, a_Phi), each in [0, 1]. "auto" is 1 / (t + 1),
        which makes a running mean.
    batch_size : int, None, tuple of three or "auto", default="auto"
        The batch size B, or (B_g, B_dg, B_f). None means all components, as does an
        integer not smaller than their number. "auto" means all components if there are
        at most 1024, and otherwise 32. A constant Jacobian is then computed exactly,
        once.
    init_batch_size : int, None, tuple of three or "auto", default="auto"
        The size S of the first batches, or (S_g, S_dg, S_f). "auto" is B.
    normalization : {"global", "block", "auto"} or None, default="auto"
        How gamma_t of step 6 limits the step: one value for all of x, one for each of
        the problem's blocks, or no limit (None). "auto" is None.
    anchor : int or None, default=None
        Number of iterations after which (u, J, F) are computed on all data instead of
        by steps 7 to 10. None, as in the paper, means never.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta has fallen to tol times its value at x_0, where both
        use the gradient on all data. At an anchor this gradient is available. Otherwise
        it is computed, and counted, once the estimates have fallen as far on average
        over a pass. 0 disables this test, and the IFO are then those of Lemma 3.1.
    output : {"last", "random"}, default="last"
        "last" returns x_T. "random" returns the theorem's x-hat, which is drawn
        uniformly from x_1, ..., x_T with a separate generator.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional
    Optimization", Algorithm 1.

    Examples
    --------
    >>> from sk_stormc import STORMCompositional, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(
    ...     problem, STORMCompositional(max_ifo=60_000), random_state=0
    ... ).stop_reason
    'max_ifo'
    """

    checks = {
        "precision": partial(check_schedule, low=0, inclusive=False, words=("auto",)),
        "momentum": check_momentum,
        "init_batch_size": check_batch_size,
        "normalization": partial(
            check_choice, choices=("global", "block", None, "auto")
        ),
        "anchor": partial(check_int, low=1, words=(None,)),
        "output": partial(check_choice, choices=("last", "random")),
    }

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        precision: float | Schedule | Auto | None = "auto",
        momentum: float | Schedule | Auto | tuple = "auto",
        batch_size: Size = "auto",
        init_batch_size: Size = "auto",
        normalization: Any = "auto",
        anchor: int | None = None,
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
        output: Literal["last", "random"] = "last",
    ) -> None:
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
    def from_theory(
        cls, constants: ProblemConstants, epsilon: float, variant: Variant = "corrected"
    ) -> Self:
        """Set the parameters by Proposition 3.2, so that E|grad Phi(x^)| <= epsilon
        after T iterations.

        The guarantee holds for a problem without penalty or preconditioner
        (`PaperSTORMCompositional` does not use a preconditioner). A batch size not
        smaller than the number of components means all of them. The batch is then
        exact, and needs fewer IFO than Lemma 3.1 counts.

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
        >>> k = ProblemConstants(
        ...     L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1
        ... )
        >>> solver = STORMCompositional.from_theory(k, epsilon=0.1)
        >>> solver.learning_rate, solver.max_iter, solver.output
        (0.5, 2134, 'random')
        """
        p = storm_parameters(constants, epsilon, variant)
        a = (p.a_g, p.a_dg, p.a_phi)
        B = (p.B_g, p.B_dg, p.B_f)
        S = (p.S_g, p.S_dg, p.S_f)
        return cls(
            learning_rate=p.eta,
            precision=epsilon,
            momentum=a,
            batch_size=B,
            init_batch_size=S,
            normalization="global",
            max_iter=p.T,
            tol=0,
            output="random",
        )

    def needed_to_stream(self):
        """The parameters to set so that the method can run on a stream."""
        return "" if self.anchor is None else "anchor=None"

    def init_state(self, oracle, x):
        """Steps 1 to 3."""
        size = self.sizes("batch_size", oracle, rule=32)
        first = self.sizes("init_batch_size", oracle, rule=size, like=size)
        a = self.auto("momentum", oracle.problem, RUNNING_MEAN)
        return StormState(
            x,
            rule=self.step_rule(oracle, x, size, 0.5),
            now=start(oracle, x, first),  # steps 2 and 3
            batch_size=size,
            momentum=tuple(a) if is_list(a) else (a, a, a),
        )

    def step(self, oracle, s):
        """Steps 5 to 12."""
        x = self.move(oracle, s, s.now.F)  # steps 5 and 6
        if self._anchor_is_next(s):
            s.now = start(oracle, x, oracle.all_like(s.batch_size))
        else:
            a = tuple(at(a, s.t + 1) for a in s.momentum)
            s.now = advance(oracle, s.now, x, a, s.batch_size)  # steps 7 to 10
        s.x = x
        if self.output == "random" and oracle.rng.random() * (s.t + 1) < 1:  # step 12
            s.x_hat = x

    def _anchor_is_next(self, s):
        """Whether the next iteration ends in an anchor."""
        return self.anchor is not None and (s.t + 1) % self.anchor == 0

    def cost(self, oracle, s):
        """IFO of the next `step`."""
        size = s.batch_size
        return oracle.cost(oracle.all_like(size) if self._anchor_is_next(s) else size)

    def finish(self, oracle, s):
        """Step 12: x_T, or the x-hat drawn from x_1, ..., x_T."""
        if s.x_hat is not None:
            return s.x_hat
        problem = oracle.problem
        # on a stream, F depends on rows that x_T does not depend on
        has_new_rows = (
            not oracle.source.finite and oracle.preconditioner.curvature is not None
        )
        # x~ has exact zeros, and x_T does not
        has_zeros = problem.penalty is not None and s.rule.limit is not None
        if has_new_rows or has_zeros:
            return self.proximal_point(oracle, s, s.now.F)
        return s.x


class PaperSTORMCompositional(STORMCompositional):
    """Algorithm 1 with the constants published for the problem, the solver with the
    name "storm-c-paper".

    "auto" means the constants that the paper gives for the problem. The steps are the
    paper's, without a preconditioner.
    """

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, the published one, or the method's
        ``rule``."""
        value, published = getattr(self, name), problem.advice.published
        if is_word(value, "auto"):
            value = getattr(published, SYMBOLS.get(name, ""), rule)
        return plain(value)

    def run_preconditioner(self, oracle, s):
        """The identity. The problem's preconditioner is not used."""
        return Identity()
