"""ASC-PG: SCGD with the inner function evaluated at an extrapolated point."""

from sk_stormc.solvers.scgd import SCGD
from sk_stormc.utils.types import Auto, Schedule, Size


class ASCPG(SCGD):
    r"""Accelerated stochastic compositional proximal gradient (Wang, Liu & Fang 2017).

    .. math::

        z &= (1 - 1 / \beta) \, x_{k-1} + (1 / \beta) \, x_k \\
        u &\leftarrow (1 - \beta) u + \beta \, g(z, B_g)

    This is followed by the step of `SCGD` at x_k.

    Parameters
    ----------
    exponents : tuple of two floats, default=(-5 / 9, -4 / 9)
        Exponents p and q, both <= 0. The default is the paper's choice for a nonconvex
        Phi. For a strongly convex Phi, the paper uses (-1, -4 / 5). The exponents of
        accelerated SCGD are (-5 / 7, -4 / 7).

    Notes
    -----
    Accelerated SCGD (Wang, Fang & Liu 2017), with the name "acc-scgd", is the same
    iteration with other exponents, and with a projection in place of the proximal step.
    Here its z and y are updated at the beginning of an iteration with the iteration's
    beta, because the last batch of g that the paper draws would not be used in any
    step.

    References
    ----------
    Wang, Liu & Fang, "Accelerating Stochastic Composition Optimization", JMLR 18, 2017.
    Wang, Fang & Liu, "Stochastic compositional gradient descent: algorithms for
    minimizing compositions of expected-value functions", Mathematical Programming 161,
    2017 (arXiv 1411.3803).

    Examples
    --------
    >>> from sk_stormc import ASCPG, minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> minimize(problem, ASCPG(max_ifo=60_000), random_state=0).stop_reason
    'max_ifo'
    """

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        beta: float | Schedule | Auto = "auto",
        batch_size: Size = "auto",
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
        exponents: tuple[float, float] = (-5 / 9, -4 / 9),
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            beta=beta,
            batch_size=batch_size,
            max_iter=max_iter,
            max_ifo=max_ifo,
            tol=tol,
            exponents=exponents,
        )

    def query(self, s, beta):
        """The point at which g is evaluated: an extrapolation of the last two
        iterates."""
        return (1 - 1 / beta) * s.x_old + (1 / beta) * s.x


def accelerated_scgd(**parameters):
    """`ASCPG` with the exponents of accelerated SCGD, for the name "acc-scgd"."""
    return ASCPG(**{"exponents": (-5 / 7, -4 / 7)} | parameters)
