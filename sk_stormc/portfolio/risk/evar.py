"""The entropic value at risk (EVaR), min over t > 0 of t log mean exp(-y / t) - t log(1
- confidence)."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, xlogy

from sk_stormc.portfolio.convex_program import (
    Formulation,
    gram,
    tilted,
)
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, shares
from sk_stormc.portfolio.quantiles import histogram

__all__ = ["EVaR"]


def _coldest(spread):
    """A temperature at which EVaR is nearly the largest of losses with this spread."""
    return max(1e-12 * float(spread), np.finfo(float).tiny)


def reweighted(losses, p, t):
    """Weights proportional to p_i exp(loss_i / t)."""
    q = np.exp((losses - losses.max()) / t) * p
    return q / q.sum()


@dataclass
class EVaR(Measure):
    """The entropic value at risk: the largest mean loss over reweightings of a limited
    divergence."""

    confidence: float = 0.95
    name = "evar"
    nonnegative = False
    shift = -1.0
    rounds = "sample"
    single_outer = True

    @property
    def allowed(self):
        """-log(1 - confidence), the largest allowed divergence of a reweighting."""
        return -np.log1p(-self.confidence)

    def value(self, y, p=None):
        """The minimum over all t > 0. As t goes to 0 it tends to the largest loss."""
        losses, p = -y, shares(len(y), p)
        if not np.ptp(losses):
            return float(losses[0])
        t = self.temperature(losses, p, _coldest(np.ptp(losses)))
        return float(t * (logsumexp(losses / t, b=p) + self.allowed))

    def subgradient(self, y, p=None):
        """Minus the worst allowed reweighting."""
        losses, p = -y, shares(len(y), p)
        if not np.ptp(losses):
            return -p
        t = self.temperature(losses, p, _coldest(np.ptp(losses)))
        return -reweighted(losses, p, t)

    def in_blocks(self, total, mean, ends):
        """The minimum over all t > 0 by sums of exponentials, and the slopes as in
        `subgradient`."""
        low, spread = ends[0], ends[1] - ends[0]
        if not spread:
            return RiskInBlocks(-float(low), lambda y, p: -p)

        def exponents(y, t):  # periods of weight 0 may be below the others
            return np.minimum(low - y, 0) / t

        def sums(log_t):
            def of_block(y, p):
                e = exponents(y, np.exp(log_t))
                q = p * np.exp(e)
                return np.array([q.sum(), q @ e, q @ e**2])

            return total(of_block)

        log_t, mass = self._temperature_in_blocks(total, sums, ends)
        t = np.exp(log_t)
        value = t * (np.log(mass) + self.allowed) - low
        return RiskInBlocks(
            float(value), lambda y, p: -p / mass * np.exp(exponents(y, t))
        )

    def _temperature_in_blocks(self, total, sums, ends):
        """The logarithm of the best t, and the sum of the exponentials, by Newton's
        method.

        It starts from the best t of a histogram. The divergence of the reweighting is
        at most (spread / t)^2 / 8 (Hoeffding's lemma), which limits t.
        """
        spread = ends[1] - ends[0]
        least = _coldest(spread)
        low, high = np.log(least), np.log(spread / np.sqrt(8 * self.allowed))
        _, masses, _, of_returns = histogram(total, *ends)
        some = masses > 0
        losses, p = -of_returns[some] / masses[some], masses[some] / masses.sum()
        log_t, step = np.log(self.temperature(losses, p, least)), np.inf
        log_t = float(np.clip(log_t, low, high))
        while True:
            mass, middle, square = sums(log_t)
            middle = middle / mass
            excess = middle - np.log(mass) - self.allowed
            if excess > 0:
                low = log_t
            else:
                high = log_t
            slope = square / mass - middle**2
            step = excess / slope if slope > 0 else np.inf
            # EVaR, the minimum over t, has about the square of 1e-8 as error
            if min(abs(step), high - low) <= 1e-8:
                return log_t, float(mass)
            after = log_t + step
            log_t = after if low < after < high else (low + high) / 2

    def temperature(self, losses, p, least):
        """The t >= least at which the divergence of the reweighting, which decreases in
        t, is the allowed one."""

        def excess(log_t):
            q = reweighted(losses, p, np.exp(log_t))
            return float(xlogy(q, q / p).sum()) - self.allowed

        low = high = np.log(least)
        if excess(low) <= 0:
            return least
        while excess(high) > 0:
            low, high = high, high + 2.0
        return float(np.exp(brentq(excess, low, high, xtol=1e-12)))

    def formulation(self, scaled, v):
        """A smooth function of the weights and of the temperature t, which is the
        level."""
        Q = scaled.Q
        p = scaled.p
        m = scaled.expected_return
        risk_weight = scaled.risk_weight
        n, allowed = Q.shape[1], self.allowed

        def curved(x):
            v, t = x[:-1], x[-1]
            if t <= 0:
                return np.inf, np.zeros(n + 1), np.zeros((n + 1, n + 1))
            e = -(Q @ v) / t
            q, log_mean = tilted(p, e)
            G, middle = q @ Q, q @ e
            value = -m @ v + risk_weight * t * (log_mean + allowed)
            g = np.append(
                -m - risk_weight * G, risk_weight * (log_mean + allowed - middle)
            )
            H = np.empty((n + 1, n + 1))
            H[:n, :n] = gram(Q, q) - np.outer(G, G)
            H[:n, n] = H[n, :n] = (q * (e - middle)) @ Q
            H[n, n] = q @ (e - middle) ** 2
            return float(value), g, risk_weight / t * H

        deviation = float(np.sqrt(p @ (Q @ v) ** 2)) or 1.0
        # of the temperature, by which exponents are divided, in standard deviations
        lowest, reach = 1e-7, 2 / self.allowed
        return Formulation(curved=curved, level=deviation, lowest=lowest, reach=reach)

    def largest_loss(self, scaled, v):
        """EVaR at temperature 0: the largest loss, which is the level."""
        losses = -(scaled.Q @ v)
        rows = np.column_stack([-scaled.Q, -np.ones(len(losses))])
        level = float(losses.max() + 0.1 * np.ptp(losses))
        linear = np.append(-scaled.expected_return, scaled.risk_weight)
        return Formulation(linear, level=level, lowest=-np.inf, reach=1.0, rows=rows)

    def solve(self, scaled, start, callback=None):
        """Minimise the largest loss first, if its minimiser can be that of EVaR. Its
        multipliers show whether it is."""
        if not self._needs_temperature(scaled.p, len(start)):
            solution = scaled.minimise(start, self.largest_loss, callback)
            if self._allows(solution.dual_A[: len(scaled.p)], scaled.p):
                return solution
        return super().solve(scaled, start, callback)

    def _needs_temperature(self, p, n_assets):
        """Whether the minimiser of the largest loss cannot be that of EVaR.

        A vertex of the dual has weight on at most n_assets + 1 periods. Its divergence
        is then above the allowed one.
        """
        most = min(n_assets + 1, len(p))
        return float(np.log(np.partition(p, -most)[-most:].sum())) < -self.allowed

    def _allows(self, q, p):
        """Whether q is a reweighting in the dual representation of EVaR, which bounds
        its divergence."""
        total = q.sum()
        if not total > 0:
            return False
        q = np.maximum(q / total, 0)
        return float(xlogy(q, q / np.maximum(p, 1e-300)).sum()) <= self.allowed
