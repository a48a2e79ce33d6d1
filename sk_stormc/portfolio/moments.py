"""What is kept of rows that have gone by: sums from which the objective over all of them is known.

For the variance it is known exactly. For the other measures it is known to second order around the weights that were
best when the rows came: rows become sums around these weights, and the objective becomes one of mean and variance.

Each class has one measure. `plus` adds rows around given weights, `times` lets what was added fade, `minimised` finds
the best weights by quadratic programs, and `value` is the objective. Returns are those in excess of one fixed row.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, xlogy

from sk_stormc.portfolio.sums import Sums, mean_of
from sk_stormc.portfolio.tilted import Tilted, tilts

__all__ = ["MOMENTS", "moments_of"]

WIDTH = 0.5  # of the smoothing of CVaR, in deviations of the portfolio's return, for one row; less for more rows
TURNS = 20  # of the temperature of EVaR and the weights
RANGE, WITHIN = 6.0, 2.0  # of logarithms of temperatures in deviations, and how far a known one may be off
SAME, LONGEST = 1e-4, 1.0  # change of the logarithm of a temperature that ends them, and the largest


def moments_of(risk_measure, n_assets, risk_aversion, confidence):
    """The moments of no row, for parameters of `CompositionalPortfolio`."""
    gain, price = (0.0, 1.0) if risk_aversion == np.inf else (1.0, float(risk_aversion))
    return MOMENTS[risk_measure](n_assets, gain, price, confidence)


class _Moments:
    """What the classes below share."""

    measure: str | None = None  # the one whose problem is solved itself while all rows are there, by Newton's method

    def size(self, w):
        """What the square of a change of the weights in `matrix` is compared with: that of the weights."""
        return float(w @ self.matrix() @ w)


@dataclass(frozen=True, eq=False)
class VarianceMoments(_Moments):
    """-gain <mean, w> + price w^T covariance w."""

    gain: float
    price: float
    all: Sums
    exact = True

    @property
    def earned(self):
        """What a return that all assets have in all periods is multiplied with."""
        return self.gain

    @classmethod
    def none(cls, n_assets, gain, price, confidence):
        """Of no row."""
        return cls(gain, price, Sums.none(n_assets))

    def plus(self, rows, p, w):
        """With these rows too."""
        return replace(self, all=self.all.plus(Sums.of(rows, p)))

    def times(self, factor):
        """With all weights multiplied."""
        return replace(self, all=self.all.times(factor))

    def matrix(self):
        """What stands for the covariance."""
        return self.all.covariance()

    def minimised(self, solve, w):
        """The minimiser that ``solve(drift, matrix)`` finds, a `NewtonFit`."""
        return solve(self.gain * self.all.mean, self.price * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        return float(self.price * (w @ self.matrix() @ w) - self.gain * (self.all.mean @ w))


@dataclass(frozen=True, eq=False)
class SemivarianceMoments(_Moments):
    """-gain <mean, w> + price mean min(<r_i - mean, w>, 0)^2: of the rows below the mean there are moments."""

    gain: float
    price: float
    weight: float
    mean: np.ndarray
    below: Sums
    exact = False

    @property
    def earned(self):
        """What a return that all assets have in all periods is multiplied with."""
        return self.gain

    @classmethod
    def none(cls, n_assets, gain, price, confidence):
        """Of no row."""
        return cls(gain, price, 0.0, np.zeros(n_assets), Sums.none(n_assets))

    def plus(self, rows, p, w):
        """With these rows too: below or above the mean, as w has them."""
        new, mean = mean_of(rows, p)
        weight = self.weight + new
        mean = self.mean + (new / weight) * (mean - self.mean)
        if w.any():
            there = rows @ w < mean @ w
            below = Sums.of(rows[there], None if p is None else p[there])
        else:  # every row is on the border
            below = Sums.of(rows, p).times(0.5)
        return replace(self, weight=weight, mean=mean, below=self.below.plus(below))

    def times(self, factor):
        """With all weights multiplied."""
        return replace(self, weight=factor * self.weight, below=self.below.times(factor))

    def matrix(self):
        """The sum of (r_i - mean) (r_i - mean)^T over the rows below, over the weight of all."""
        off = self.below.mean - self.mean
        return (self.below.scatter + self.below.weight * np.outer(off, off)) / self.weight

    def minimised(self, solve, w):
        """The minimiser that ``solve(drift, matrix)`` finds, a `NewtonFit`."""
        return solve(self.gain * self.mean, self.price * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        return float(self.price * (w @ self.matrix() @ w) - self.gain * (self.mean @ w))

    def counts(self, rows, w):
        """How much each row says of the matrix."""
        return (rows @ w < self.mean @ w).astype(float)


@dataclass(frozen=True, eq=False)
class EntropicMoments(_Moments):
    """(1/lambda) log mean exp(-lambda <r_i, w>)."""

    price: float
    n_assets: int
    weight: float = 0.0
    tilted: Tilted | None = None
    exact = False
    earned = 1.0

    @classmethod
    def none(cls, n_assets, gain, price, confidence):
        """Of no row."""
        return cls(price, n_assets)

    def plus(self, rows, p, w):
        """With these rows too, around w."""
        return self._plus(rows, p, self.price * w)

    def _plus(self, rows, p, x):
        new = Tilted.of(rows, p, x)
        tilted = new if self.tilted is None else self.tilted.around(x).plus(new)
        return replace(self, weight=self.weight + (len(rows) if p is None else p.sum()), tilted=tilted)

    def times(self, factor):
        """With all weights multiplied."""
        tilted = self.tilted and replace(self.tilted, log_weight=self.tilted.log_weight + np.log(factor))
        return replace(self, weight=factor * self.weight, tilted=tilted)

    def matrix(self):
        """Half of lambda times the covariance of the tilted rows, per unit of lambda."""
        return self.tilted.covariance / 2

    def size(self, w):
        """What makes the exponents change by 1: a logarithm of a sum is known to second order for less only."""
        return 1 / (2 * self.price**2)

    def minimised(self, solve, w):
        """The minimiser that ``solve(drift, matrix)`` finds, a `NewtonFit`."""
        tilted = self.tilted
        return solve(tilted.mean + tilted.covariance @ tilted.x, self.price * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        return (self.tilted.log_at(self.price * w) - np.log(self.weight)) / self.price

    def counts(self, rows, w):
        """How much each row says of the matrix."""
        return tilts(rows, self.price * w)


@dataclass(frozen=True, eq=False)
class CVaRMoments(_Moments):
    """min_s s + mean max(z_i, 0) / tail with z_i = -<r_i, w> - s, smoothed as in `CVaRPortfolioProblem`.

    Each row is a parabola in z_i around the w and s that it came to, of the slope q_i and the second derivative k_i
    there. The width of the smoothing falls with the number of rows.

    Attributes
    ----------
    near : Sums
        Of the rows with weights p_i k_i.
    pull : float
        sum p_i (q_i - k_i z_i).
    of_rows : ndarray of shape (n_assets,)
        sum p_i (q_i - k_i z_i) r_i.
    constant : float
        sum of what is left.
    """

    gain: float
    price: float
    tail: float
    n: float
    weight: float
    mean: np.ndarray
    near: Sums
    pull: float
    of_rows: np.ndarray
    constant: float
    exact = False
    measure = "cvar"

    @property
    def earned(self):
        """What a return that all assets have in all periods is multiplied with."""
        return self.gain + self.price

    @classmethod
    def none(cls, n_assets, gain, price, confidence):
        """Of no row."""
        zero = np.zeros(n_assets)
        return cls(gain, price, 1 - confidence, 0.0, 0.0, zero, Sums.none(n_assets), 0.0, zero, 0.0)

    def plus(self, rows, p, w):
        """With these rows too, as parabolas around w and its best level."""
        new, mean = mean_of(rows, p)
        p = np.ones(len(rows)) if p is None else p
        n, weight, losses = self.n + len(rows), self.weight + new, -(rows @ w)
        level = self.level(w) if self.near.weight > 0 else float(np.quantile(losses, 1 - self.tail))
        width = WIDTH * (float(losses.std()) or 1.0) * ((len(w) + np.log(n)) / n) ** 0.4
        z = (losses - level) / width
        q = expit(z)
        k = q * (1 - q) / width
        rest = p * (q - k * width * z)
        constant = p @ (width * (np.logaddexp(0.0, z) - q * z) + 0.5 * k * (width * z) ** 2)
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
        """With all weights multiplied."""
        sums = {name: factor * getattr(self, name) for name in ("n", "weight", "pull", "of_rows", "constant")}
        return replace(self, near=self.near.times(factor), **sums)

    def level(self, w):
        """The best s for w."""
        return float((self.pull - self.tail * self.weight) / self.near.weight - self.near.mean @ w)

    def matrix(self):
        """Half of the second derivative, where the level follows."""
        return self.near.scatter / (2 * self.tail * self.weight)

    def minimised(self, solve, w):
        """The minimiser that ``solve(drift, matrix)`` finds, a `NewtonFit`."""
        total = self.tail * self.weight
        risk = (self.of_rows - (self.pull - total) * self.near.mean) / total
        return solve(self.gain * self.mean + self.price * risk, self.price * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        s, near, total = self.level(w), self.near, self.tail * self.weight
        square = w @ near.scatter @ w + near.weight * (near.mean @ w + s) ** 2
        excess = self.constant + 0.5 * square - self.of_rows @ w - self.pull * s
        return float(self.price * (s + excess / total) - self.gain * (self.mean @ w))

    def counts(self, rows, w):
        """How much each row says of the risk."""
        return (-(rows @ w) > self.level(w)).astype(float)


@dataclass(frozen=True, eq=False)
class EVaRMoments(_Moments):
    """min_t t log mean exp(-<r_i, w> / t) + t allowed: what entropic risk has, around w / t."""

    gain: float
    price: float
    allowed: float
    weight: float
    mean: np.ndarray
    tilted: Tilted | None = None
    t: float = 1.0
    exact = False
    measure = "evar"

    @property
    def earned(self):
        """What a return that all assets have in all periods is multiplied with."""
        return self.gain + self.price

    @classmethod
    def none(cls, n_assets, gain, price, confidence):
        """Of no row."""
        return cls(gain, price, float(-np.log1p(-confidence)), 0.0, np.zeros(n_assets))

    def plus(self, rows, p, w):
        """With these rows too, around w over its best temperature."""
        new, mean = mean_of(rows, p)
        weight = self.weight + new
        t = self._temperature_of(rows, p, w) if self.tilted is None else self.temperature(w)
        other = Tilted.of(rows, p, w / t)
        tilted = other if self.tilted is None else self.tilted.around(w / t).plus(other)
        mean = self.mean + (new / weight) * (mean - self.mean)
        return replace(self, weight=weight, mean=mean, tilted=tilted, t=t)

    def times(self, factor):
        """With all weights multiplied."""
        tilted = self.tilted and replace(self.tilted, log_weight=self.tilted.log_weight + np.log(factor))
        return replace(self, weight=factor * self.weight, tilted=tilted)

    def _temperature_of(self, rows, p, w):
        """The best t for rows that are all there: the divergence of the tilted weights is what is allowed."""
        p = np.full(len(rows), 1 / len(rows)) if p is None else p / p.sum()
        deviation = float((rows @ w).std()) or 1.0

        def excess(log_t):
            q = p * tilts(rows, w / (deviation * np.exp(log_t)))
            q /= q.sum()
            return float(xlogy(q, q / p).sum()) - self.allowed

        ends = -RANGE, RANGE
        if excess(ends[0]) <= 0:
            return deviation * np.exp(ends[0])
        return deviation * np.exp(brentq(excess, *ends, xtol=1e-6))

    def _linear(self):
        """c, m of t (c + allowed) - <m, w> + w^T covariance w / (2 t)."""
        one = self.tilted
        Vx = one.covariance @ one.x
        return one.log_weight - np.log(self.weight) + one.mean @ one.x + 0.5 * one.x @ Vx, one.mean + Vx

    def temperature(self, w):
        """The best t for w."""
        c, _ = self._linear()
        square, slope = float(w @ self.tilted.covariance @ w), 2 * float(c + self.allowed)
        t = np.sqrt(square / slope) if slope > 0 else np.inf
        return float(np.clip(t, self.t / WITHIN, self.t * WITHIN))  # where the parabola may be believed

    def matrix(self):
        """The covariance of the tilted rows, over twice the temperature at which rows came last."""
        return self.tilted.covariance / (2 * self.t)

    def minimised(self, solve, w):
        """The minimiser by turns: the weights for a temperature, the temperature for the weights."""
        _, m = self._linear()
        at, before = np.log(self.temperature(w)), None
        for _ in range(TURNS):
            t = np.exp(at)
            fit = solve(self.gain * self.mean + self.price * m, self.price / (2 * t) * self.tilted.covariance)
            off = np.log(self.temperature(fit.weights)) - at
            if abs(off) <= SAME:
                break
            # the line through the last two points, which leads to the temperature faster than turns alone
            way = off if before is None or off == before[1] else -off * (at - before[0]) / (off - before[1])
            before = at, off
            at = at + (np.clip(way, -LONGEST, LONGEST) if way * off > 0 else off)
        return fit

    def value(self, w):
        """The objective without penalty."""
        c, m = self._linear()
        t = self.temperature(w)
        risk = t * (c + self.allowed) - m @ w + w @ self.tilted.covariance @ w / (2 * t)
        return float(self.price * risk - self.gain * (self.mean @ w))

    def counts(self, rows, w):
        """How much each row says of the matrix."""
        return tilts(rows, w / self.t)


MOMENTS = {
    "variance": VarianceMoments.none,
    "semivariance": SemivarianceMoments.none,
    "entropic": EntropicMoments.none,
    "cvar": CVaRMoments.none,
    "evar": EVaRMoments.none,
}
