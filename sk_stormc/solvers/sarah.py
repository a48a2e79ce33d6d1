"""SARAH-Compositional: recursive differences to the previous iterate, between
checkpoints."""

from dataclasses import dataclass
from functools import partial

from sk_stormc.engine import CompositionalSolver, Estimate, MethodState, advance, start
from sk_stormc.utils.parameters import check_batch_size, check_int
from sk_stormc.utils.types import Auto, Schedule, Size


@dataclass
class EpochState(MethodState):
    """The estimates u, J, F at x and at the checkpoint, and the method's constants."""

    now: Estimate | None = None
    checkpoint: Estimate | None = None
    since_checkpoint: int = 0  # iterations
    batch_size: tuple | None = None
    checkpoint_batch_size: tuple | None = None
    epoch_length: int | None = None


class SARAHCompositional(CompositionalSolver):
    r"""SARAH-Compositional (Yuan, Lian & Liu 2019): an epoch is a checkpoint and
    epoch_length recursive steps.

    A checkpoint uses a large batch S. At every other iterate x', a small batch B
    updates the estimates from the previous iterate x:

    .. math::

        \text{checkpoint:} \quad & u = g(x, S), \quad J = \partial g(x, S),
            \quad F = J^T \nabla f(u, S) \\
        \text{else:} \quad & u' = u + g(x', B) - g(x, B),
            \quad J' = J + \partial g(x', B) - \partial g(x, B), \\
        & F' = F + J'^T \nabla f(u', B) - J^T \nabla f(u, B)

    Every iterate, including the checkpoint, is followed by a step x <- prox_{eta R}(x -
    eta F).

    Parameters
    ----------
    checkpoint_batch_size : int, None or tuple of three, default=None
        Batch sizes at a checkpoint. None means all components.
    epoch_length : int or "auto", default="auto"
        Number K of steps between checkpoints. "auto" is n_inner / B_g, so that an epoch
        draws n_inner components. On a stream, an epoch draws as many components as a
        checkpoint.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta at a checkpoint has fallen to tol times its first
        value.

    References
    ----------
    Yuan, Lian & Liu, "Stochastic Recursive Variance Reduction for Efficient Smooth
    Non-Convex Compositional Optimization", 2019.

    Examples
    --------
    >>> from sk_stormc import SARAHCompositional, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, SARAHCompositional(), random_state=0).stop_reason
    'converged'
    """

    checks = {
        "checkpoint_batch_size": check_batch_size,
        "epoch_length": partial(check_int, low=1, words=("auto",)),
    }
    factor = 0.7  # factor of the automatic learning rate

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        batch_size: Size = "auto",
        checkpoint_batch_size: Size = None,
        epoch_length: int | Auto = "auto",
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
    ) -> None:
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.checkpoint_batch_size = checkpoint_batch_size
        self.epoch_length = epoch_length
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def needed_to_stream(self):
        """The parameters to set so that the method can run on a stream."""
        return (
            "checkpoint_batch_size to a number"
            if self.checkpoint_batch_size is None
            else ""
        )

    def init_state(self, oracle, x):
        """The first checkpoint."""
        size = self.sizes("batch_size", oracle, rule=16)
        large = self.sizes("checkpoint_batch_size", oracle, rule=None, like=size)
        n = oracle.problem.n_inner if oracle.source.finite else large[0]
        now = self.refresh(oracle, x, large)
        return EpochState(
            x,
            now=now,
            checkpoint=now,
            rule=self.step_rule(oracle, x, size, self.factor),
            batch_size=size,
            checkpoint_batch_size=large,
            epoch_length=self.auto(
                "epoch_length", oracle.problem, -(-n // (size[0] or n))
            ),
        )

    def cost(self, oracle, s):
        """IFO of the next `step`."""
        due = s.since_checkpoint == s.epoch_length
        return oracle.cost(s.checkpoint_batch_size if due else s.batch_size)

    def step(self, oracle, s):
        """Make a step, and update the estimates at the new point."""
        x = self.move(oracle, s, s.now.F)
        if s.since_checkpoint == s.epoch_length:
            s.now = s.checkpoint = self.refresh(oracle, x, s.checkpoint_batch_size)
            s.since_checkpoint = 0
        else:
            s.now = self.estimate(oracle, self.reference(s), x, s.batch_size)
            s.since_checkpoint += 1
        s.x = x

    def reference(self, s):
        """The estimates to which differences are added: those at the previous
        iterate."""
        return s.now

    def refresh(self, oracle, x, size):
        """The estimates at a checkpoint."""
        return start(oracle, x, size)

    def estimate(self, oracle, old, x, size):
        """The estimates at x, by differences to ``old``."""
        return advance(oracle, old, x, (0, 0, 0), size)
