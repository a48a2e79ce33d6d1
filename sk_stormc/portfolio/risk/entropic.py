"""The entropic risk, (1 / lambda) log mean exp(-lambda y), which contains the mean
return."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from sk_stormc.core.log_mean_exp import LogMeanExpProblem
from sk_stormc.portfolio.compositional import PortfolioProblem, combine
from sk_stormc.portfolio.convex_program import (
    Formulation,
    gram,
    tilted,
)
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, shares
from sk_stormc.portfolio.moments import Moments, Tilted, tilts
from sk_stormc.portfolio.risk.variance import free_box, riskless
from sk_stormc.portfolio.sums import mean_row
from sk_stormc.utils.blocks import blocks
from sk_stormc.utils.parameters import check_choice, is_real
from sk_stormc.utils.types import ArrayLike

__all__ = ["Entropic"]


class EntropicPortfolioProblem(LogMeanExpProblem, PortfolioProblem):
    r"""Minimise the entropic risk of portfolios x.

    .. math::

        \Phi(x) = \frac{1}{\lambda} \log \Bigl( \frac{1}{m} \sum_j \exp(-\lambda \,
        r_j^T x) \Bigr) + R(x)

    Here r_j are the returns of period j. The objective already contains the mean
    return: its limit for a small lambda is minus the mean return.
    ``PortfolioProblem(returns, risk_measure="entropic")`` returns an instance of this
    class.

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
    >>> problem = PortfolioProblem(
    ...     np.array([[0.1, 0.0], [-0.1, 0.2]]), 2.0, risk_measure="entropic"
    ... )
    >>> round(problem.objective(np.array([1000.0, 0.0])), 3)
    99.653
    """

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: Literal["entropic"] = "entropic",
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        preconditioner: Any = None,
    ) -> None:
        check_choice("risk_measure", risk_measure, ("entropic",))
        self._set_up(
            returns,
            risk_aversion,
            Entropic(risk_aversion),
            sample_weight,
            penalty,
            preconditioner,
        )
        self.scale = 1 / self.risk_aversion

    def gather(self, draws):
        """Returns of the drawn periods. None means all periods."""
        return (
            self.returns if draws is None else self.returns.take(draws, 0, mode="clip")
        )

    def blocks(self):
        """All returns. Returns on disk are read in blocks."""
        return blocks(self.returns)

    def exponents(self, x, rows):
        """-lambda <r_j, x>, in float64."""
        return -self.risk_aversion * (rows @ x).astype(float, copy=False)

    def exponent_gradient(self, x, rows, p):
        """-lambda sum_k p_k r_k."""
        return -self.risk_aversion * combine(p, rows)


@dataclass(frozen=True, eq=False)
class EntropicMoments(Moments):
    """Entropic risk: (1/lambda) log mean exp(-lambda <r_i, w>), by the mean row and an
    expansion of the logarithm of the sum of exponentials."""

    risk_weight: float
    mean: np.ndarray
    weight: float = 0.0
    tilted: Tilted | None = None
    earned = 1.0
    far = 0.02

    @classmethod
    def none(cls, task):
        """Empty moments."""
        return cls(task.risk_weight, np.zeros(task.returns.shape[1]))

    def plus(self, rows, p, w):
        """Add rows around w."""
        x = self.risk_weight * w
        new = Tilted.of(rows, p, x)
        tilted = new if self.tilted is None else self.tilted.around(x).plus(new)
        added, mean = mean_row(rows, p)
        weight = self.weight + added
        return replace(
            self,
            mean=self.mean + (added / weight) * (mean - self.mean),
            weight=weight,
            tilted=tilted,
        )

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        return replace(
            self,
            weight=factor * self.weight,
            tilted=self.tilted and self.tilted.times(factor),
        )

    def matrix(self):
        """Half of the covariance of the tilted rows."""
        return self.tilted.covariance / 2

    def size(self, w):
        """The squared change at which the exponents change by about 1. Beyond it the
        expansion is inaccurate."""
        return 1 / (2 * self.risk_weight**2)

    def minimised(self, solve, w):
        """The minimiser that ``solve(expected_return, matrix)`` finds, an `Optimum`."""
        tilted = self.tilted
        return solve(
            tilted.mean + tilted.covariance @ tilted.x, self.risk_weight * self.matrix()
        )

    def value(self, w):
        """The objective without penalty."""
        return (
            self.tilted.log_at(self.risk_weight * w) - np.log(self.weight)
        ) / self.risk_weight

    def counts(self, rows, w):
        """The weight of each row in the matrix."""
        return tilts(rows, self.risk_weight * w)


@dataclass
class Entropic(Measure):
    """The entropic risk, (1 / lambda) log mean exp(-lambda y), which contains the mean
    return."""

    risk_aversion: float = 1.0
    name = "entropic"
    nonnegative = False
    power = 0
    rounds = "sample"
    single_outer = True
    moments = EntropicMoments
    problem = EntropicPortfolioProblem

    def __post_init__(self):
        if not is_real(self.risk_aversion):
            return  # `MeanRisk.of` raises an error
        self.risk_aversion = float(self.risk_aversion)
        if self.risk_aversion == np.inf:
            raise ValueError(
                "risk_aversion must be finite with risk_measure='entropic', where "
                "return and risk are one term and the "
                "limit is the largest loss, got inf. For the least risk take "
                "'variance', 'semivariance' or 'cvar'"
            )

    def value(self, y, p=None):
        """(1 / lambda) log sum_i p_i exp(-lambda y_i)."""
        return float(
            1
            / self.risk_aversion
            * logsumexp(-self.risk_aversion * y, b=shares(len(y), p))
        )

    def subgradient(self, y, p=None):
        """The gradient: minus the weights p_i exp(-lambda y_i), divided by their
        sum."""
        return -tilted(shares(len(y), p), -self.risk_aversion * y)[0]

    def in_blocks(self, total, mean, ends):
        """The logarithm of the sum of exponentials, and the slopes as in
        `subgradient`."""
        rate, lowest = self.risk_aversion, ends[0]

        def tilts(y, p):
            # periods of weight 0 may be below the others
            return p * np.exp(rate * np.minimum(lowest - y, 0))

        mass = total(lambda y, p: tilts(y, p).sum())
        return RiskInBlocks(
            float(np.log(mass) / rate - lowest), lambda y, p: -tilts(y, p) / mass
        )

    def objective(self, task, w):
        """The risk, which contains the mean return."""
        return self.value((task.returns @ w).astype(float, copy=False), task.p)

    def unbounded_below(self, task):
        """True if an asset only gains or only loses, because holding or shorting more
        of it is then always better."""
        unbounded, box = riskless(task), free_box(task)
        if unbounded is not None or box is None or box.budget is not None:
            return unbounded
        least, most = (
            f([f(rows, axis=0) for _, rows in blocks(task.returns)], axis=0)
            for f in (np.min, np.max)
        )
        return True if ((least > 0) | (most < 0)).any() else None

    def formulation(self, scaled, v):
        """A smooth function of the weights."""
        rate = scaled.rate

        def curved(v):
            q, log_mean = tilted(scaled.p, -rate * (scaled.Q @ v))
            G = q @ scaled.Q
            H = rate * (gram(scaled.Q, q) - np.outer(G, G))
            value = scaled.risk_weight * log_mean / rate - scaled.expected_return @ v
            return (
                float(value),
                -scaled.risk_weight * G - scaled.expected_return,
                scaled.risk_weight * H,
            )

        return Formulation(curved=curved)

    def solve(self, scaled, start, callback=None):
        """If the method does not converge, a large exponent is reached by smaller ones.

        Otherwise few periods would determine the risk.
        """
        solution = super().solve(scaled, start, callback)
        if solution.done:
            return solution
        n_iter, x = solution.n_iter, None
        # each exponent is four times the last one
        for k in range(int(np.ceil(np.log2(max(scaled.rate, 1.0)) / 2)), -1, -1):
            smaller = replace(scaled, rate=scaled.rate / 4.0**k)
            solution = smaller.minimise(start, self.formulation, callback, x)
            x, n_iter = solution.x, n_iter + solution.n_iter
        return replace(solution, n_iter=n_iter)
