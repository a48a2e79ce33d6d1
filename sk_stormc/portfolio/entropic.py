"""Portfolios of minimum entropic risk."""

from typing import Any

import numpy as np

from sk_stormc.core.log_mean_exp import LogMeanExpProblem
from sk_stormc.portfolio.problem import PortfolioProblem, combine
from sk_stormc.streams.mapped import blocks
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import check_choice, is_real

__all__ = ["EntropicPortfolioProblem"]


class EntropicPortfolioProblem(LogMeanExpProblem, PortfolioProblem, risk_measure="entropic"):
    r"""Minimise the entropic risk of portfolios x.

    .. math::

        \Phi(x) = \frac{1}{\lambda} \log \Bigl( \frac{1}{m} \sum_j \exp(-\lambda \, r_j^T x) \Bigr) + R(x)

    Here r_j are the returns of period j. The objective already contains the mean return, as its limit for a small
    lambda. ``PortfolioProblem(returns, risk_measure="entropic")`` returns an object of this class.

    Parameters
    ----------
    risk_aversion : float, default=1.0
        lambda > 0, finite, in the inverse unit of the returns.
    risk_measure : {"entropic"}, default="entropic"

    Raises
    ------
    ValueError
        As for `PortfolioProblem`.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(np.array([[0.1, 0.0], [-0.1, 0.2]]), 2.0, risk_measure="entropic")
    >>> round(problem.objective(np.array([1000.0, 0.0])), 3)
    99.653
    """

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: str = "entropic",
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        check_choice("risk_measure", risk_measure, ("entropic",))
        if is_real(risk_aversion) and risk_aversion == np.inf:
            raise ValueError(
                "risk_aversion must be finite with risk_measure='entropic', where return and risk are one term and the "
                "limit is the largest loss, got inf. For the least risk take 'variance', 'semivariance' or 'cvar'"
            )
        super().__init__(
            returns,
            risk_aversion,
            risk_measure=risk_measure,
            sample_weight=sample_weight,
            penalty=penalty,
            metric=metric,
        )
        self.n_outer = 1
        self.scale = 1 / self.risk_aversion

    def unbounded_below(self):
        """True if an asset only gains or only loses: then holding or shorting more of it is always better."""
        known = super().unbounded_below()
        if known is not None or self.penalty is not None:
            return known
        least, most = (f([f(rows, axis=0) for _, rows in self.blocks()], axis=0) for f in (np.min, np.max))
        return True if ((least > 0) | (most < 0)).any() else None

    def gather(self, draws):
        """Returns of the drawn periods. None means all periods."""
        return self.returns if draws is None else self.returns.take(draws, 0, mode="clip")

    def blocks(self):
        """All returns. Returns on disk come in blocks."""
        return blocks(self.returns)

    def exponents(self, x, rows):
        """-lambda <r_j, x>, in float64."""
        return -self.risk_aversion * (rows @ x).astype(float, copy=False)

    def exponent_gradient(self, x, rows, p):
        """-lambda sum_k p_k r_k."""
        return -self.risk_aversion * combine(p, rows)
