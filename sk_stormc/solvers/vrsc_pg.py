"""VRSC-PG: differences to the checkpoint."""

from sk_stormc.solvers.sarah import SARAHCompositional

__all__ = ["VRSCPG"]


class VRSCPG(SARAHCompositional):
    """VRSC-PG (Huo, Gu, Liu & Huang 2018): variance-reduced compositional proximal gradient.

    At a checkpoint x^ the estimates u^, J^, F^ are taken on large batches; at the iterates between,
    u = u^ + g(x, B) - g(x^, B), the same for J, and F = F^ + J^T grad f(u, B) - J^^T grad f(u^, B).

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        eta. "auto" is 0.7 / L, L a charged probe of the curvature of minibatches.
    batch_size : int, None, tuple of three or "auto", default="auto"
        (B_g, B_dg, B_f); None means all components. "auto" is all for up to 1024 components, else 16.
    checkpoint_batch_size : int, None or tuple of three, default=None
        Batch sizes at a checkpoint.
    epoch_length : int or "auto", default="auto"
        Steps between checkpoints, K. "auto" is n_inner / B_g, as many as draw n_inner components (on a
        stream, as many as draw those of a checkpoint).
    max_iter, max_ifo : int or None, default=None
        Budgets; both None mean 100 passes.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta at a checkpoint has fallen to tol times its first value.

    References
    ----------
    Huo, Gu, Liu & Huang, "Accelerated Method for Stochastic Composition Optimization with Nonsmooth
    Regularization", AAAI 2018.

    Examples
    --------
    >>> from sk_stormc import VRSCPG, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, VRSCPG(), random_state=0).stop_reason
    'converged'
    """

    def reference(self, s):
        """The point that differences are taken to: the checkpoint."""
        return s.checkpoint
