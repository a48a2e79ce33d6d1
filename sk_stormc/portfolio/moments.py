"""Moments of past rows: sums of products from which the objective over all of these rows is computed.

For the variance the objective is exact. For the other measures it is a second-order expansion around the weights that
were optimal when a row was added, so that it is quadratic in the weights like mean and variance.

Each class implements one measure. `plus` adds rows around given weights, `times` discounts the rows so far, `minimised`
finds the optimal weights by quadratic programs, and `value` is the objective. One fixed row is subtracted from all
returns.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, xlogy

from sk_stormc.portfolio.exact.quadratic import Sums, mean_of

__all__ = ["MOMENTS", "Tilted", "moments_of", "tilts"]


def tilts(rows, x):
    """exp(-<r_i, x>), divided by the largest of these values."""
    y = rows @ x
    return np.exp(y.min() - y)


@dataclass(frozen=True, eq=False)
class Tilted:
    """Second-order expansion of log sum p_i exp(-<r_i, x>) around x: value, and mean and covariance of tilted rows."""

    x: np.ndarray
    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, rows, p, x):
        """The expansion for some rows around x."""
        weights = tilts(rows, x) if p is None else p * tilts(rows, x)
        sums = Sums.of(rows, weights)
        return cls(x, float(np.log(sums.weight) - (rows @ x).min()), sums.mean, sums.covariance())

    def log_at(self, x):
        """The logarithm at another x, to second order."""
        way = x - self.x
        return float(self.log_weight - self.mean @ way + 0.5 * way @ self.covariance @ way)

    def around(self, x):
        """The same quadratic function, expanded around another x."""
        way = x - self.x
        return Tilted(x, self.log_at(x), self.mean - self.covariance @ way, self.covariance)

    def plus(self, other):
        """The expansion for the rows of both, which must be around the same x."""
        log_weight = float(np.logaddexp(self.log_weight, other.log_weight))
        parts = [
            Sums(np.exp(one.log_weight - log_weight), one.mean, np.exp(one.log_weight - log_weight) * one.covariance)
            for one in (self, other)
        ]
        both = parts[0].plus(parts[1])
        return Tilted(self.x, log_weight, both.mean, both.covariance())


WIDTH = 0.5  # smoothing width of CVaR for one row, in standard deviations of the return; it decreases with more rows
TURNS = 20  # maximum number of alternations between the temperature of EVaR and the weights
RANGE = 6.0  # range of the logarithm of the temperature in standard deviations of the return
WITHIN = 2.0  # factor by which the temperature may differ from the one around which rows were added
SAME, LONGEST = 1e-4, 1.0  # change of the log-temperature that ends the alternations, and its largest step


def moments_of(risk_measure, n_assets, risk_aversion, confidence):
    """Empty moments for given parameters of `CompositionalPortfolio`."""
    return_weight, risk_weight = (0.0, 1.0) if risk_aversion == np.inf else (1.0, float(risk_aversion))
    return MOMENTS[risk_measure](n_assets, return_weight, risk_weight, confidence)


class _Moments:
    """Base class of the moments."""

    measure: str | None = None  # a tail risk, whose problem is solved by Newton's method while all rows are kept
    exact = False  # whether the objective is exact

    @property
    def earned(self):
        """Minus the change of the objective when 1 is added to the portfolio's return in all periods."""
        return self.return_weight

    def minimised(self, solve, w):
        """The minimiser that ``solve(expected_return, matrix)`` finds, a `NewtonFit`."""
        return solve(self.return_weight * self.mean, self.risk_weight * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        return float(self.risk_weight * (w @ self.matrix() @ w) - self.return_weight * (self.mean @ w))

    def size(self, w):
        """The scale of squared changes of the weights, in the norm of `matrix`: the squared norm of the weights."""
        return float(w @ self.matrix() @ w)


@dataclass(frozen=True, eq=False)
class VarianceMoments(_Moments):
    """Mean and variance: -return_weight <mean, w> + risk_weight w^T covariance w."""

    return_weight: float
    risk_weight: float
    all: Sums
    exact = True

    @classmethod
    def none(cls, n_assets, return_weight, risk_weight, confidence):
        """Empty moments."""
        return cls(return_weight, risk_weight, Sums.none(n_assets))

    def plus(self, rows, p, w):
        """Add rows."""
        return replace(self, all=self.all.plus(Sums.of(rows, p)))

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        return replace(self, all=self.all.times(factor))

    def matrix(self):
        """The covariance matrix."""
        return self.all.covariance()

    @property
    def mean(self):
        """The mean return."""
        return self.all.mean


@dataclass(frozen=True, eq=False)
class SemivarianceMoments(_Moments):
    """Mean and semivariance: -return_weight <mean, w> + risk_weight mean min(<r_i - mean, w>, 0)^2.

    The second moments are those of the rows in which the portfolio's return is below its mean.
    """

    return_weight: float
    risk_weight: float
    weight: float
    mean: np.ndarray
    below: Sums

    @classmethod
    def none(cls, n_assets, return_weight, risk_weight, confidence):
        """Empty moments."""
        return cls(return_weight, risk_weight, 0.0, np.zeros(n_assets), Sums.none(n_assets))

    def plus(self, rows, p, w):
        """Add rows. The weights w determine which of them are below the mean."""
        new, mean = mean_of(rows, p)
        weight = self.weight + new
        mean = self.mean + (new / weight) * (mean - self.mean)
        if w.any():
            there = rows @ w < mean @ w
            below = Sums.of(rows[there], None if p is None else p[there])
        else:  # all returns are equal to the mean, so each row counts half
            below = Sums.of(rows, p).times(0.5)
        return replace(self, weight=weight, mean=mean, below=self.below.plus(below))

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        return replace(self, weight=factor * self.weight, below=self.below.times(factor))

    def matrix(self):
        """The sum of (r_i - mean) (r_i - mean)^T over the rows below the mean, divided by the weight of all rows."""
        off = self.below.mean - self.mean
        return (self.below.scatter + self.below.weight * np.outer(off, off)) / self.weight

    def counts(self, rows, w):
        """The weight of each row in the matrix."""
        return (rows @ w < self.mean @ w).astype(float)


@dataclass(frozen=True, eq=False)
class EntropicMoments(_Moments):
    """Entropic risk: (1/lambda) log mean exp(-lambda <r_i, w>)."""

    risk_weight: float
    n_assets: int
    weight: float = 0.0
    tilted: Tilted | None = None
    earned = 1.0

    @classmethod
    def none(cls, n_assets, return_weight, risk_weight, confidence):
        """Empty moments."""
        return cls(risk_weight, n_assets)

    def plus(self, rows, p, w):
        """Add rows around w."""
        return self._plus(rows, p, self.risk_weight * w)

    def _plus(self, rows, p, x):
        new = Tilted.of(rows, p, x)
        tilted = new if self.tilted is None else self.tilted.around(x).plus(new)
        return replace(self, weight=self.weight + (len(rows) if p is None else p.sum()), tilted=tilted)

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        tilted = self.tilted and replace(self.tilted, log_weight=self.tilted.log_weight + np.log(factor))
        return replace(self, weight=factor * self.weight, tilted=tilted)

    def matrix(self):
        """Half of the covariance of the tilted rows."""
        return self.tilted.covariance / 2

    def size(self, w):
        """The squared change at which the exponents change by about 1. Beyond it the expansion is inaccurate."""
        return 1 / (2 * self.risk_weight**2)

    def minimised(self, solve, w):
        """The minimiser that ``solve(expected_return, matrix)`` finds, a `NewtonFit`."""
        tilted = self.tilted
        return solve(tilted.mean + tilted.covariance @ tilted.x, self.risk_weight * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        return (self.tilted.log_at(self.risk_weight * w) - np.log(self.weight)) / self.risk_weight

    def counts(self, rows, w):
        """The weight of each row in the matrix."""
        return tilts(rows, self.risk_weight * w)


@dataclass(frozen=True, eq=False)
class CVaRMoments(_Moments):
    """CVaR: min_s s + mean max(z_i, 0) / tail with z_i = -<r_i, w> - s, smoothed as in `CVaRPortfolioProblem`.

    The term of each row is a parabola in z_i: its Taylor expansion around the w and s at which the row was added, with
    the slope q_i and the second derivative k_i. The smoothing width decreases with the number of rows.
    """

    return_weight: float
    risk_weight: float
    tail: float
    n: float
    weight: float
    mean: np.ndarray
    near: Sums  # of the rows with the weights p_i k_i
    pull: float  # sum p_i (q_i - k_i z_i), the coefficient of the linear term in -s
    of_rows: np.ndarray  # sum p_i (q_i - k_i z_i) r_i, the coefficients of the linear term in -w
    constant: float  # the constant terms of the parabolas
    measure = "cvar"

    @property
    def earned(self):
        """Minus the change of the objective when 1 is added to the portfolio's return in all periods."""
        return self.return_weight + self.risk_weight

    @classmethod
    def none(cls, n_assets, return_weight, risk_weight, confidence):
        """Empty moments."""
        zero = np.zeros(n_assets)
        return cls(return_weight, risk_weight, 1 - confidence, 0.0, 0.0, zero, Sums.none(n_assets), 0.0, zero, 0.0)

    def plus(self, rows, p, w):
        """Add rows as parabolas around w and its best level."""
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
        """Multiply the weights of all rows by a factor."""
        sums = {name: factor * getattr(self, name) for name in ("n", "weight", "pull", "of_rows", "constant")}
        return replace(self, near=self.near.times(factor), **sums)

    def level(self, w):
        """The best s for w."""
        return float((self.pull - self.tail * self.weight) / self.near.weight - self.near.mean @ w)

    def matrix(self):
        """Half of the second derivative in w, with the level eliminated."""
        return self.near.scatter / (2 * self.tail * self.weight)

    def minimised(self, solve, w):
        """The minimiser that ``solve(expected_return, matrix)`` finds, a `NewtonFit`."""
        total = self.tail * self.weight
        risk = (self.of_rows - (self.pull - total) * self.near.mean) / total
        return solve(self.return_weight * self.mean + self.risk_weight * risk, self.risk_weight * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        s, near, total = self.level(w), self.near, self.tail * self.weight
        square = w @ near.scatter @ w + near.weight * (near.mean @ w + s) ** 2
        excess = self.constant + 0.5 * square - self.of_rows @ w - self.pull * s
        return float(self.risk_weight * (s + excess / total) - self.return_weight * (self.mean @ w))

    def counts(self, rows, w):
        """The weight of each row in the risk."""
        return (-(rows @ w) > self.level(w)).astype(float)


@dataclass(frozen=True, eq=False)
class EVaRMoments(_Moments):
    """EVaR: min_t t log mean exp(-<r_i, w> / t) + t allowed, from the moments of entropic risk around w / t."""

    return_weight: float
    risk_weight: float
    allowed: float
    weight: float
    mean: np.ndarray
    tilted: Tilted | None = None
    t: float = 1.0
    measure = "evar"

    @property
    def earned(self):
        """Minus the change of the objective when 1 is added to the portfolio's return in all periods."""
        return self.return_weight + self.risk_weight

    @classmethod
    def none(cls, n_assets, return_weight, risk_weight, confidence):
        """Empty moments."""
        return cls(return_weight, risk_weight, float(-np.log1p(-confidence)), 0.0, np.zeros(n_assets))

    def plus(self, rows, p, w):
        """Add rows around w / t, where t is the best temperature of w."""
        new, mean = mean_of(rows, p)
        weight = self.weight + new
        t = self._temperature_of(rows, p, w) if self.tilted is None else self.temperature(w)
        other = Tilted.of(rows, p, w / t)
        tilted = other if self.tilted is None else self.tilted.around(w / t).plus(other)
        mean = self.mean + (new / weight) * (mean - self.mean)
        return replace(self, weight=weight, mean=mean, tilted=tilted, t=t)

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        tilted = self.tilted and replace(self.tilted, log_weight=self.tilted.log_weight + np.log(factor))
        return replace(self, weight=factor * self.weight, tilted=tilted)

    def _temperature_of(self, rows, p, w):
        """The best t for some rows, at which the divergence of the tilted weights is the allowed one."""
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
        """The coefficients c and m of the expansion t (c + allowed) - <m, w> + w^T covariance w / (2 t)."""
        one = self.tilted
        Vx = one.covariance @ one.x
        return one.log_weight - np.log(self.weight) + one.mean @ one.x + 0.5 * one.x @ Vx, one.mean + Vx

    def temperature(self, w):
        """The best t for w."""
        c, _ = self._linear()
        square, slope = float(w @ self.tilted.covariance @ w), 2 * float(c + self.allowed)
        t = np.sqrt(square / slope) if slope > 0 else np.inf
        return float(np.clip(t, self.t / WITHIN, self.t * WITHIN))  # the expansion is inaccurate further away

    def matrix(self):
        """The covariance of the tilted rows, divided by twice the temperature at which rows were last added."""
        return self.tilted.covariance / (2 * self.t)

    def minimised(self, solve, w):
        """The minimiser, alternating between the weights for a temperature and the temperature for the weights."""
        _, m = self._linear()
        at, before = np.log(self.temperature(w)), None
        for _ in range(TURNS):
            t = np.exp(at)
            fit = solve(
                self.return_weight * self.mean + self.risk_weight * m,
                self.risk_weight / (2 * t) * self.tilted.covariance,
            )
            off = np.log(self.temperature(fit.weights)) - at
            if abs(off) <= SAME:
                break
            # a secant step, which converges faster than alternation alone
            way = off if before is None or off == before[1] else -off * (at - before[0]) / (off - before[1])
            before = at, off
            at = at + (np.clip(way, -LONGEST, LONGEST) if way * off > 0 else off)
        return fit

    def value(self, w):
        """The objective without penalty."""
        c, m = self._linear()
        t = self.temperature(w)
        risk = t * (c + self.allowed) - m @ w + w @ self.tilted.covariance @ w / (2 * t)
        return float(self.risk_weight * risk - self.return_weight * (self.mean @ w))

    def counts(self, rows, w):
        """The weight of each row in the matrix."""
        return tilts(rows, w / self.t)


MOMENTS = {
    "variance": VarianceMoments.none,
    "semivariance": SemivarianceMoments.none,
    "entropic": EntropicMoments.none,
    "cvar": CVaRMoments.none,
    "evar": EVaRMoments.none,
}
