"""SCVR: SVRG for compositions, with minibatch Jacobians and their values at the
checkpoint as control variates."""

from sk_stormc.engine import Estimate, guard
from sk_stormc.solvers.vrsc_pg import VRSCPG


class SCVR(VRSCPG):
    r"""Compositional SVRG (Lian, Wang & Liu 2017, Compositional-SVRG-1).

    At a checkpoint the estimates, here with a hat, use large batches. At the iterates
    between checkpoints, small batches estimate the change since the checkpoint:

    .. math::

        u &= \hat u + g(x, B) - g(\hat x, B) \\
        F &= \hat F + \partial g(x, B')^T \nabla f(u, B'')
            - \partial g(\hat x, B')^T \nabla f(\hat u, B'')

    Only u is corrected separately. F uses minibatch Jacobians without correction, at
    both points.

    Notes
    -----
    The paper's second algorithm, Compositional-SVRG-2, estimates the Jacobian in the
    same way as u. Without a proximal step it is `VRSCPG`, so it is not implemented
    separately. If the Jacobian is constant and exact, or if its batches and those of f
    are full, this method is `VRSCPG` too. As in the other methods with epochs, the last
    iterate of an epoch is the next checkpoint (the paper's analysis draws one at
    random), and a penalty has a proximal step. The paper uses B_g = A and B_dg = B_f =
    1, and all components at a checkpoint.

    References
    ----------
    Lian, Wang & Liu, "Finite-sum Composition Optimization via Variance Reduced Gradient
    Descent", AISTATS 2017 (arXiv 1610.04674): linear convergence for strongly convex
    objectives.

    Examples
    --------
    >>> from sk_stormc import SCVR, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, SCVR(), random_state=0).stop_reason
    'converged'
    """

    def estimate(self, oracle, old, x, size):
        """u and F at x, by differences to the checkpoint ``old``."""
        batch = oracle.draw("inner", size[0])
        slope = oracle.draw_jacobian(size[1], batch)
        outer = oracle.draw("outer", size[2])
        full = outer.full and slope.full  # then F is exact given u

        # the checkpoint first, so that a batch that caches values at its last x is used
        # efficiently
        u = None if batch.full else old.u - oracle.inner(old.x, batch)
        if not full:
            F = old.F - oracle.gradient(
                old.x, old.u, oracle.jacobian(old.x, slope), outer
            )
        value = oracle.inner(x, batch)
        u = guard(oracle, value, None) if u is None else guard(oracle, u + value, old.u)
        J = oracle.jacobian(x, slope)
        new = oracle.gradient(x, u, J, outer)
        return Estimate(x, u, J, new if full else F + new)
