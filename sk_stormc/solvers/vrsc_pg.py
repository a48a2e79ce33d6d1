"""VRSC-PG: variance reduction by differences to a checkpoint."""

from sk_stormc.solvers.sarah import SARAHCompositional


class VRSCPG(SARAHCompositional):
    r"""VRSC-PG (Huo, Gu, Liu & Huang 2018): variance-reduced compositional proximal
    gradient.

    At a checkpoint the estimates, here with a hat, use large batches. At the iterates
    between checkpoints, small batches estimate the change since the checkpoint:

    .. math::

        u &= \hat u + g(x, B) - g(\hat x, B) \\
        J &= \hat J + \partial g(x, B) - \partial g(\hat x, B) \\
        F &= \hat F + J^T \nabla f(u, B) - \hat J^T \nabla f(\hat u, B)

    References
    ----------
    Huo, Gu, Liu & Huang, "Accelerated Method for Stochastic Composition Optimization
    with Nonsmooth Regularization", AAAI 2018.

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
        """The estimates to which differences are added: those at the checkpoint."""
        return s.checkpoint
