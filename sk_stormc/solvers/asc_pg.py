"""ASC-PG: SCGD with the inner function queried at an extrapolated point."""

from sk_stormc.solvers.scgd import SCGD

__all__ = ["ASCPG"]


class ASCPG(SCGD):
    """Accelerated stochastic compositional proximal gradient (Wang, Liu & Fang 2017).

    z = (1 - 1/beta) x_{k-1} + (1/beta) x_k, u <- (1 - beta) u + beta g(z, B_g), then the step of `SCGD`, at x_k.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        eta (the paper's alpha). "auto" is 0.7 / L (k + 1)^(-5/9), L a charged probe of the curvature of
        minibatches, k the iteration.
    beta : float, callable or "auto", default="auto"
        Weight of the new value, in (0, 1]. "auto" is (k + 1)^(-4/9), or 1 where g is taken on all components
        and the metric is a matrix, such as the inverse Hessian.
    batch_size : int, None, tuple of three or "auto", default="auto"
        (B_g, B_dg, B_f); None means all components. "auto" is all for up to 1024 components, else 16.
    max_iter, max_ifo : int or None, default=None
        Budgets; both None mean 100 passes.
    tol : float, default=1e-4
        Stop when the average of |x~ - x| / eta over a pass has fallen to tol times its first value.

    References
    ----------
    Wang, Liu & Fang, "Accelerating Stochastic Composition Optimization", JMLR 18, 2017.

    Examples
    --------
    >>> from sk_stormc import ASCPG, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, ASCPG(max_ifo=60_000), random_state=0).stop_reason
    'max_ifo'
    """

    exponents = (-5 / 9, -4 / 9)

    def query(self, s, beta):
        """Where g is evaluated: the extrapolation of the last two iterates."""
        return (1 - 1 / beta) * s.x_old + (1 / beta) * s.x
