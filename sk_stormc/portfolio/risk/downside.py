"""The downside risk of order p, (mean max(-y, 0)^p)^(1/p)."""

from dataclasses import dataclass

from sk_stormc.portfolio.risk.semideviation import (
    Semideviation,
    SemideviationPortfolioProblem,
)

__all__ = ["Downside"]


class DownsidePortfolioProblem(SemideviationPortfolioProblem):
    r"""Minimise the downside risk of order p minus the mean return, over portfolios w.

    .. math::

        \Phi(w) = -u + \lambda \Bigl( \frac1n \sum_i \max(-r_i^T w, \, 0)^p \Bigr)^{1/p}
        + R(w)

    This is the `SemideviationPortfolioProblem` with returns below 0 in place of returns
    below the mean. It has the same variable s. The ratio of the mean return to this
    risk is the Omega ratio minus one for p = 1, and the Sortino ratio for p = 2.

    ``PortfolioProblem(returns, risk_measure="downside")`` returns an instance of this
    class.

    References
    ----------
    Keating & Shadwick, "A universal performance measure", 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     np.array([[-2.0], [4.0]]), np.inf, risk_measure="downside", order=1
    ... )
    >>> problem.value_at(np.array([1.0]))  # half of 2
    1.0
    """

    own_measure = "downside"


@dataclass
class Downside(Semideviation):
    """The root of the mean of powers of the returns below 0: the semideviation without
    centring."""

    name = "downside"
    shift = None
    about_mean = False
    problem = DownsidePortfolioProblem
