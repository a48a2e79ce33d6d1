"""The most return within a risk: a search for the risk aversion whose portfolio has just this risk."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import brentq

from sk_stormc.portfolio.newton import solve_portfolio
from sk_stormc.portfolio.problem import with_aversion
from sk_stormc.portfolio.risk_measures import MEASURES
from sk_stormc.portfolio.utility import Utility

__all__ = ["WithinRisk"]

ROUNDS = 60  # of the search
NEAR = 1e-7  # relative distance of the risk from its limit that ends the search
UNBOUNDED = 1e-3  # gap, relative to a typical objective, above which there is no minimum for a risk aversion
GROWTH = 10.0  # of the risk aversion while the limit is not yet enclosed


def _same(watch, weights, _):
    """Call ``watch`` with these weights, whatever those of the iteration are, which may exceed the limit."""
    watch(weights)


class WithinRisk(Utility):
    """The problem of the largest mean return after costs with risk(w) <= max_risk.

    The risk falls as the risk aversion lambda grows. Where it jumps, as with linear programs, a mixture of the
    portfolios on both sides has just this risk. Each lambda gives a lower bound of the objective (Lagrange).
    """

    def __init__(self, problem, penalty, max_risk):
        if problem.risk_measure == "entropic":
            raise ValueError("max_risk needs a risk apart from the mean return, got risk_measure='entropic'")
        super().__init__(problem, penalty)
        self.max_risk, self.limit = max_risk, max_risk ** MEASURES[problem.risk_measure].power
        self.of_risk = with_aversion(problem, np.inf)
        least = solve_portfolio(with_aversion(problem, np.inf, penalty), penalty, self.start)
        self.start = np.asarray(least.weights, float)
        smallest = self.risk_at(self.start)
        if smallest > self.limit:
            power = MEASURES[problem.risk_measure].power
            raise ValueError(
                f"max_risk must be at least {max(smallest, 0.0) ** (1 / power):.6g}, the least risk of a portfolio "
                f"that meets the constraints, got {max_risk!r}"
            )

    def risk_at(self, weights):
        """The risk; variance and semivariance as they are."""
        return self.of_risk.value_at(weights)

    def value_at(self, weights):
        """Minus the mean return after costs."""
        costs = 0.0 if self.penalty is None else self.penalty.value(weights)
        return costs - float(self.problem._mean @ weights)

    def gap_at(self, weights):
        """Infinity: nothing is known of weights at which a fit was ended early."""
        return np.inf

    def minimise(self, watch):
        """Search for the risk aversion. ``watch`` is called with the best weights so far after each iteration."""
        calm, bold, bound, unit = self.start, None, -np.inf, 0.0
        lam, low, high = self._first(), 0.0, np.inf
        for _ in range(ROUNDS):
            see = partial(_same, watch, calm)
            problem = with_aversion(self.problem, lam, self.penalty)
            found = solve_portfolio(problem, self.penalty, self.start, see)
            w, unit = np.asarray(found.weights, float), found.unit
            bound = max(bound, found.value - found.gap - lam * self.limit)
            if not found.gap <= UNBOUNDED * unit:  # without bounds return and risk may grow alike
                low = lam
            elif self.risk_at(w) > self.limit:
                bold, low = w, lam
            else:
                calm, high = min(calm, w, key=self.value_at), lam
            best = calm if bold is None else self._mixed(calm, bold)
            if self.value_at(best) - bound <= NEAR * (abs(bound) + unit) or (low and high / low < 1 + 1e-9):
                break
            if not low and lam * self.limit <= 1e-9 * abs(self.value_at(calm)):
                break  # the limit does not bind
            lam = high / GROWTH if not low else low * GROWTH if np.isinf(high) else np.sqrt(low * high)
            if bold is not None and np.isfinite(high):  # at the slope of the chord both portfolios are as good
                rise = self.risk_at(bold) - self.risk_at(calm)
                lam = np.clip((self.value_at(calm) - self.value_at(bold)) / rise, low, high)
        return replace(found, weights=best, value=self.value_at(best), gap=self.value_at(best) - bound)

    def _first(self):
        """The risk aversion at which the best asset alone would have this risk, without constraints."""
        problem = self.problem
        deviation = np.sqrt(1 / problem._inverse_variance()[: problem.returns.shape[1]].astype(float))
        best = max(float((np.abs(problem._mean) / deviation).max()), 1e-300)
        return best / (2 * self.max_risk) if MEASURES[problem.risk_measure].power == 2 else best

    def _mixed(self, calm, bold):
        """The mixture of a portfolio within the limit and one beyond it whose risk is the limit."""

        def over(part):
            return self.risk_at(calm + part * (bold - calm)) - self.limit

        part = brentq(over, 0.0, 1.0, xtol=1e-12) if over(0.0) < 0 < over(1.0) else 0.0
        while over(part) > 0:
            part *= 1 - 1e-9
        return calm + part * (bold - calm)
