"""VRSC-PG: differences to the checkpoint."""

from sk_stormc.solvers.sarah import SARAHCompositional

__all__ = ["VRSCPG"]


class VRSCPG(SARAHCompositional):
    """VRSC-PG (Huo, Gu, Liu & Huang 2018): variance-reduced compositional proximal gradient.

    At a checkpoint x^ the estimates u^, J^, F^ are taken on large batches; at the iterates between,
    u = u^ + g(x, B) - g(x^, B), the same for J, and F = F^ + J^T grad f(u, B) - J^^T grad f(u^, B).

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
