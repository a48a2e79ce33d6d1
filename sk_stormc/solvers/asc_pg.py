"""ASC-PG: SCGD with the inner function queried at an extrapolated point."""

from sk_stormc.solvers.scgd import SCGD

__all__ = ["ASCPG"]


class ASCPG(SCGD):
    """Accelerated stochastic compositional proximal gradient (Wang, Liu & Fang 2017).

    z = (1 - 1/beta) x_{k-1} + (1/beta) x_k, u <- (1 - beta) u + beta g(z, B_g), then the step of `SCGD`, at x_k.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        eta, the papers' alpha. "auto" is 0.7 / L (k + 1)^(-5/9).
    beta : float, callable or "auto", default="auto"
        Weight of the new value, in (0, 1]. "auto" is (k + 1)^(-4/9), or 1 as for `SCGD`.

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
