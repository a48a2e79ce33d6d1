"""The conditional value at risk (CVaR), the mean of the worst fraction 1 - confidence
of the losses."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from sk_stormc.portfolio.compositional import combine
from sk_stormc.portfolio.exact.convex_program import Hinges
from sk_stormc.portfolio.exact.program import Formulation
from sk_stormc.portfolio.level import TailRiskProblem
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, mean_of, shares
from sk_stormc.portfolio.moments import Moments
from sk_stormc.portfolio.quantiles import quantile
from sk_stormc.portfolio.sums import Sums, mean_row

__all__ = ["CVaR", "mean_of_worst"]


class CVaRPortfolioProblem(TailRiskProblem):
    r"""Minimise the mean of the worst losses minus the mean return, over portfolios w.

    .. math::

        \Phi(w, s) = -u + \lambda \Bigl( s + \frac{1}{n (1 - \beta)} \sum_i \max(-r_i^T
        w - s, \, 0) \Bigr) + R(w)

    Here r_i are the returns of period i, the mean return u is the inner value, and beta
    is the confidence. Minimised over s, the bracket is CVaR(w) (Rockafellar and
    Uryasev, 2000, Theorem 1). The variables are x = (w, s). The maximum is smoothed:
    with the width h, max(z, 0) becomes h log(1 + exp(z / h)), which is larger by at
    most h log 2.

    ``PortfolioProblem(returns, risk_measure="cvar")`` returns an instance of this
    class.

    Parameters
    ----------
    confidence : float, default=0.95
        CVaR is the mean of the worst fraction 1 - confidence of the losses.

    Raises
    ------
    ValueError
        As for `PortfolioProblem`, and if the confidence is not between 0 and 1.

    References
    ----------
    Rockafellar & Uryasev, "Optimization of conditional value-at-risk", 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     np.array([[-3.0], [-1.0], [2.0], [4.0]]),
    ...     risk_measure="cvar",
    ...     confidence=0.5,
    ... )
    >>> # a mean return of .5, and the mean of losses of 3 and 1
    >>> problem.value_at(np.array([1.0]))
    1.5
    """

    own_measure = "cvar"
    first_width = 0.4

    # f and its gradient

    def outer_gradient(self, x, u, batch):
        """f_x = lambda (-sum q_i r_i, 1 - sum q_i), with q_i = mean 1 / (1 + exp(-z_i /
        h)) / (1 - confidence)."""
        rows, weight = batch
        q = (
            self._risk_weight
            * self._tail(-rows.dot(x[:-1]).astype(float), float(x[-1]))
            * weight
        )
        f_x = np.append(-combine(q.astype(x.dtype), rows), self._risk_weight - q.sum())
        return f_x.astype(x.dtype, copy=False), np.full(
            1, -self._return_weight, x.dtype
        )

    def outer(self, x, u):
        """-u + lambda (s + mean h log(1 + exp(z_i / h)) / (1 - confidence)), z_i =
        -<r_i, w> - s."""
        total, s = 0.0, float(x[-1])
        for rows, weight in self._weighted_blocks():
            z = -(rows @ x[:-1]).astype(float) - s
            total += (weight * self._smoothed(z)).sum()
        return float(
            -self._return_weight * u[0]
            + self._risk_weight * (s + total / (1 - self.measure.confidence))
        )

    def _tail(self, losses, s):
        """The weight of each loss, from 0 to 1 / (1 - confidence): the smoothed
        indicator of the tail."""
        return expit((losses - s) / self.width) / (1 - self.measure.confidence)

    # the level and the dual weights

    def best_level(self, losses):
        """The s that minimises the smoothed objective, at which the q_i sum to 1."""
        low = losses.min() - 50 * self.width
        high = losses.max() + (1 - np.log1p(-self.measure.confidence)) * self.width
        excess = [self._excess_weight(losses, s) for s in (low, high)]
        if excess[0] <= 0:  # all losses are equal and the confidence is nearly 0
            return low
        if excess[1] >= 0:  # rounding
            return high
        tiny = 1e-13 * max(abs(low), abs(high))
        return brentq(
            lambda s: self._excess_weight(losses, s),
            low,
            high,
            xtol=tiny + 1e-12 * self.width,
        )

    def _excess_weight(self, losses, s):
        return mean_of(self._tail(losses, s), self.weights) - 1

    def reweighting(self, losses):
        """q_i at the best level."""
        q = self._tail(losses, self.best_level(losses)) * self._period_weights()
        return q / q.sum()


@dataclass(frozen=True, eq=False)
class CVaRMoments(Moments):
    """CVaR: min_s s + mean max(z_i, 0) / tail with z_i = -<r_i, w> - s, smoothed as in
    `CVaRPortfolioProblem`.

    The term of each row is a parabola in z_i: its Taylor expansion around the w and s
    at which the row was added, with the slope q_i and the second derivative k_i. The
    smoothing width decreases with the number of rows.
    """

    return_weight: float
    risk_weight: float
    tail: float
    n: float
    weight: float
    mean: np.ndarray
    near: Sums  # of the rows with the weights p_i k_i
    pull: float  # sum p_i (q_i - k_i z_i), the coefficient of the linear term in -s
    # sum p_i (q_i - k_i z_i) r_i, the coefficients of the linear term in -w
    of_rows: np.ndarray
    constant: float  # the constant terms of the parabolas
    shift, far = -1.0, 0.75

    @classmethod
    def none(cls, task):
        """Empty moments."""
        n = task.returns.shape[1]
        zero, tail = np.zeros(n), 1 - task.measure.confidence
        return cls(
            task.return_weight,
            task.risk_weight,
            tail,
            0.0,
            0.0,
            zero,
            Sums.none(n),
            0.0,
            zero,
            0.0,
        )

    def plus(self, rows, p, w):
        """Add rows as parabolas around w and its best level."""
        new, mean = mean_row(rows, p)
        p = np.ones(len(rows)) if p is None else p
        n, weight, losses = self.n + len(rows), self.weight + new, -(rows @ w)
        level = (
            self.level(w)
            if self.near.weight > 0
            else float(np.quantile(losses, 1 - self.tail))
        )
        # the smoothing width decreases with more rows
        deviation = float(losses.std()) or 1.0
        width = 0.5 * deviation * ((len(w) + np.log(n)) / n) ** 0.4
        z = (losses - level) / width
        q = expit(z)
        k = q * (1 - q) / width
        rest = p * (q - k * width * z)
        constant = p @ (
            width * (np.logaddexp(0.0, z) - q * z) + 0.5 * k * (width * z) ** 2
        )
        return replace(
            self,
            n=n,
            weight=weight,
            mean=self.mean + (new / weight) * (mean - self.mean),
            near=self.near.plus(Sums.of(rows, p * k)),
            pull=self.pull + rest.sum(),
            of_rows=self.of_rows + rest @ rows,
            constant=self.constant + constant,
        )

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        sums = {
            name: factor * getattr(self, name)
            for name in ("n", "weight", "pull", "of_rows", "constant")
        }
        return replace(self, near=self.near.times(factor), **sums)

    def level(self, w):
        """The best s for w."""
        return float(
            (self.pull - self.tail * self.weight) / self.near.weight
            - self.near.mean @ w
        )

    def matrix(self):
        """Half of the second derivative in w, with the level eliminated."""
        return self.near.scatter / (2 * self.tail * self.weight)

    def minimised(self, solve, w):
        """The minimiser that ``solve(expected_return, matrix)`` finds, an `Optimum`."""
        total = self.tail * self.weight
        risk = (self.of_rows - (self.pull - total) * self.near.mean) / total
        return solve(
            self.return_weight * self.mean + self.risk_weight * risk,
            self.risk_weight * self.matrix(),
        )

    def value(self, w):
        """The objective without penalty."""
        s, near, total = self.level(w), self.near, self.tail * self.weight
        square = w @ near.scatter @ w + near.weight * (near.mean @ w + s) ** 2
        excess = self.constant + 0.5 * square - self.of_rows @ w - self.pull * s
        return float(
            self.risk_weight * (s + excess / total)
            - self.return_weight * (self.mean @ w)
        )

    def counts(self, rows, w):
        """The weight of each row in the risk."""
        return (-(rows @ w) > self.level(w)).astype(float)


def mean_of_worst(losses, tail, p=None):
    """The mean of the worst fraction ``tail`` of the losses, their weights in it, and
    the least of them."""
    order, p, q = (
        np.argsort(losses)[::-1],
        shares(len(losses), p),
        np.empty(len(losses)),
    )
    q[order] = np.diff(np.minimum(np.cumsum(p[order]), tail), prepend=0.0)
    least = float(losses[q > 0].min())
    # more exact than q @ losses, as the sums of weights of many periods have errors
    mean = least + float(p @ np.maximum(losses - least, 0)) / tail
    return mean, q / q.sum(), least


@dataclass
class CVaR(Measure):
    """The mean of the worst fraction 1 - confidence of the losses."""

    confidence: float = 0.95
    name = "cvar"
    nonnegative = False
    shift = -1.0
    rounds = "rows"
    moments = CVaRMoments
    problem = CVaRPortfolioProblem

    def value(self, y, p=None):
        """The mean of the worst losses."""
        return mean_of_worst(-y, 1 - self.confidence, p)[0]

    def subgradient(self, y, p=None):
        """Minus the weights of the worst losses, whose sum is 1."""
        return -mean_of_worst(-y, 1 - self.confidence, p)[1]

    def in_blocks(self, total, mean, ends):
        """The quantile of the returns, the mean of those below it, and the slopes as in
        `subgradient`."""
        tail = 1 - self.confidence
        kink = quantile(total, tail, *ends)

        def sums(y, p):
            below = np.maximum(kink - y, 0)
            return np.array([p @ below, p[y < kink].sum(), p[y == kink].sum()])

        excess, below, at_kink = total(sums)
        share = np.clip((tail - below) / at_kink, 0, 1) if at_kink else 0.0
        taken = below + share * at_kink
        return RiskInBlocks(
            float(excess / tail - kink),
            lambda y, p: -p / taken * np.where(y == kink, share, y < kink),
            kink,
        )

    def formulation(self, scaled, v):
        """A hinge for each period, and the quantile of the losses as level."""
        n, tail = len(scaled.p), 1 - self.confidence
        rows = np.column_stack([-scaled.Q, -np.ones(n)])
        level = float(np.quantile(-(scaled.Q @ v), self.confidence))
        hinges = [
            Hinges(rows, np.zeros(n), scaled.risk_weight * scaled.p / tail, np.zeros(n))
        ]
        linear = np.append(-scaled.expected_return, scaled.risk_weight)
        # the mean is 0, so a quantile of mostly gains is below the mean of the losses
        reach = max(1.0, tail / self.confidence)
        return Formulation(
            linear, hinges=hinges, level=level, lowest=-np.inf, reach=reach
        )
