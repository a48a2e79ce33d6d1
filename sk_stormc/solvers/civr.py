"""CIVR: separate recursive estimates of g, its Jacobian and f's gradient, and
normalised steps."""

from dataclasses import dataclass, replace
from functools import partial

from sk_stormc.engine import Estimate, Limit, guard
from sk_stormc.engine.steps import advance_inner
from sk_stormc.solvers.sarah import EpochState, SARAHCompositional
from sk_stormc.utils.parameters import check_schedule
from sk_stormc.utils.types import Auto, Schedule, Size


@dataclass
class NestedEstimate(Estimate):
    """Estimates of u, J and v = (f_x, f_u), which are tracked separately. F = f_x + J^T
    f_u follows from them."""

    v: tuple | None = None


@dataclass
class NestedState(EpochState):
    """The state of an epoch, and whether epsilon is |F| at the last checkpoint."""

    follows_checkpoint: bool = False


class CIVR(SARAHCompositional):
    r"""Composite incremental variance reduction (Zhang & Xiao 2019), with nested SPIDER
    and its normalised step.

    A checkpoint uses a large batch S. At every other iterate x', a small batch B
    updates the estimates from the previous iterate x:

    .. math::

        \text{checkpoint:} \quad & u = g(x, S), \quad J = \partial g(x, S),
            \quad v = \nabla f(u, S) \\
        \text{else:} \quad & u' = u + g(x', B) - g(x, B),
            \quad J' = J + \partial g(x', B) - \partial g(x, B), \\
        & v' = v + \nabla f(u', B) - \nabla f(u, B) \\
        \text{step:} \quad & F = J^T v,
            \quad \tilde x = \mathrm{prox}_{\eta R}(x - \eta F),
            \quad x \leftarrow x + \gamma (\tilde x - x),
            \quad \gamma = \min(\eta \epsilon / |\tilde x - x|, \, 1/2)

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        The learning rate eta. "auto" is 1.4 / L, or 0.7 / L with ``precision=None``,
        where L is the curvature of minibatches, an estimate whose oracle calls are
        counted. Because gamma is at most 1/2, half of the rate is used if steps are not
        shortened.
    precision : float, callable, None or "auto", default="auto"
        The precision epsilon: steps are at most eta epsilon long. "auto" is |F| at the
        last checkpoint (|x~ - x| / eta with a penalty or a preconditioner). None means
        plain steps with gamma = 1: CIVR without the normalisation.

    Notes
    -----
    In the first paper f is not sampled (``batch_size=(B, B, None)``) and steps are
    plain. The second paper adds further levels and the normalised step, where epsilon
    is the required accuracy. A fixed epsilon depends on the units of x, and needs at
    least |x_0 - x*| / (eta epsilon) iterations. Once |F| <= 2 epsilon, every step is
    halved, and the method converges like plain steps. With the automatic epsilon, a
    step is only limited when |F| has grown to twice its value at the checkpoint.
    Otherwise gamma is 1/2 at every step, so the method converges linearly if SARAH-C
    does. Steps of bounded length then do not hide a learning rate that is far too
    large.

    A Jacobian of kind "operator" is not tracked but recomputed on each inner batch, so
    F has the noise of this batch. The F of SARAH-C and of SCVR does not have this
    noise.

    `SARAHCompositional` tracks the product F, while this method tracks its factors. If
    all of f is used and steps are plain, the two methods are the same.

    References
    ----------
    Zhang & Xiao, "A Stochastic Composite Gradient Method with Incremental Variance
    Reduction", NeurIPS 2019 (arXiv 1906.10186). Zhang & Xiao, "Multi-Level Composite
    Stochastic Optimization via Nested Variance Reduction", 2019 (arXiv 1908.11468).

    Examples
    --------
    >>> from sk_stormc import CIVR, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, CIVR(), random_state=0).stop_reason
    'converged'
    """

    checks = {
        "precision": partial(
            check_schedule, low=0, inclusive=False, words=("auto", None)
        )
    }

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        precision: float | Schedule | Auto | None = "auto",
        batch_size: Size = "auto",
        checkpoint_batch_size: Size = None,
        epoch_length: int | Auto = "auto",
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            batch_size=batch_size,
            checkpoint_batch_size=checkpoint_batch_size,
            epoch_length=epoch_length,
            max_iter=max_iter,
            max_ifo=max_ifo,
            tol=tol,
        )
        self.precision = precision

    @property
    def factor(self):
        """The factor of the automatic learning rate: twice SARAH-C's if gamma is at
        most 1/2."""
        return 0.7 if self.precision is None else 1.4

    def init_state(self, oracle, x):
        """The first checkpoint, and epsilon."""
        follows = isinstance(self.auto("precision", oracle.problem, "auto"), str)
        return NestedState(
            **vars(super().init_state(oracle, x)), follows_checkpoint=follows
        )

    def limit(self, problem):
        """The limit of steps, or None if ``precision`` is None. The automatic epsilon
        is set later."""
        precision = self.auto("precision", problem, 1.0)
        normalization = self.auto("normalization", problem, "global")
        if precision is None:
            return None
        return Limit(precision, by_block=normalization == "block")

    def step(self, oracle, s):
        """The step of SARAH-C. The automatic epsilon is updated at a checkpoint."""
        if s.follows_checkpoint and s.since_checkpoint == 0:
            length = self.length(oracle, s, s.x, s.now.F)
            s.rule = replace(s.rule, limit=replace(s.rule.limit, precision=length))
        super().step(oracle, s)

    def refresh(self, oracle, x, size):
        """u, J and v at a checkpoint."""
        inner = oracle.draw("inner", size[0])
        u = guard(oracle, oracle.inner(x, inner), None)
        J = oracle.jacobian(x, oracle.draw_jacobian(size[1], inner))
        v = oracle.outer_gradient(x, u, oracle.draw("outer", size[2]))
        return NestedEstimate(x, u, J, oracle.chain(x, J, v), v)

    def estimate(self, oracle, old, x, size):
        """u, J and v at x, by differences to the previous iterate ``old``."""
        u, J, _ = advance_inner(oracle, old, x, (0, 0, 1), size)  # 1: F is not tracked
        batch = oracle.draw("outer", size[2])
        before = None if batch.full else oracle.outer_gradient(old.x, old.u, batch)
        v = oracle.outer_gradient(x, u, batch)
        if before is not None:
            v = tuple(
                None if part is None else part - a + b
                for part, a, b in zip(old.v, before, v, strict=True)
            )
        return NestedEstimate(x, u, J, oracle.chain(x, J, v), v)

    def finish(self, oracle, s):
        """x_T, or with a penalty and shortened steps x~, which has exact zeros."""
        if oracle.problem.penalty is None or s.rule.limit is None:
            return s.x
        return self.proximal_point(oracle, s, s.now.F)
