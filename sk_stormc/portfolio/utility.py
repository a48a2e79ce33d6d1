"""The problem of the largest utility, by Newton's method or from sums of products of the returns."""

import numpy as np

from sk_stormc.portfolio.gaps import dual_gap
from sk_stormc.portfolio.limits import Limited
from sk_stormc.portfolio.newton import feasible, nearly, solve_portfolio
from sk_stormc.portfolio.problem import deviation_of
from sk_stormc.portfolio.quadratic import solve_quadratic
from sk_stormc.portfolio.risk_measures import MEASURES
from sk_stormc.portfolio.sums import sums_of

__all__ = ["ByMoments", "Utility"]

TRACKING = 0.01  # fraction of a benchmark's standard deviation below which a tracking error counts as 0


class Utility:
    """The problem of the largest utility, for Newton's method."""

    def __init__(self, problem, penalty):
        n = problem.returns.shape[1]
        self.problem, self.penalty = problem, penalty
        empty = nearly(penalty, np.zeros(n))
        limited = isinstance(penalty, Limited)
        allowed = not empty[: n - (limited and penalty.active)].any() and not (limited and penalty.missed(empty))
        starts = [] if penalty is None else [penalty.project(np.full(n, 1 / n))]
        self.start = min([empty] * allowed + starts, key=problem.value_at)

    def value_at(self, weights):
        """The objective, exact."""
        return self.problem.value_at(weights)

    def feasible(self, weights):
        """The nearest feasible weights, or the last ones on the way from the start."""
        return feasible(self.penalty, weights, self.start)

    def minimise(self, watch):
        """Find the weights, and a bound of the gap. ``watch`` is called with the weights after each iteration."""
        return solve_portfolio(self.problem, self.penalty, self.start, watch)

    def gap_at(self, weights):
        """A bound of the gap of weights at which a fit was ended early."""
        return dual_gap(self.problem, self.penalty, weights, np.inf)

    def spread(self, w):
        """The scale of the gap: the objective of equal weights minus that of w, or the risk of w if that is more.

        A gap relative to it does not depend on the unit of the returns, on a shift of them, or on constant assets.
        """
        problem, equal = self.problem, np.full(len(w), 1 / len(w))
        if self.penalty is not None:
            equal = self.penalty.project(equal)
        deviation = deviation_of(np.asarray(problem.returns @ w, float), problem.weights)
        if isinstance(self.penalty, Limited) and self.penalty.active:  # the benchmark itself may be the best portfolio
            deviation = max(deviation, TRACKING * float(np.std(problem.returns[:, -1])))
        risk = problem._price * deviation**2 if MEASURES[problem.risk_measure].power == 2 else deviation
        return max(problem.value_at(equal) - problem.value_at(w), risk)


class ByMoments(Utility):
    """The problem of the largest utility for the variance, from sums of products of the returns, in one pass."""

    def __init__(self, problem, penalty):
        if problem.risk_measure != "variance":
            raise ValueError(
                "solver='moments' can fit risk_measure='variance' only, which moments determine, and learns the others "
                f"in partial_fit only, got {problem.risk_measure!r}: use solver='auto' or 'storm-c'"
            )
        super().__init__(problem, penalty)

    def minimise(self, watch):
        """Sum, and solve the quadratic program."""
        problem, sums = self.problem, sums_of(self.problem.returns, self.problem.weights)
        found = solve_quadratic(problem._gain * sums.mean, problem._price * sums.covariance(), self.penalty, self.start)
        watch(found.weights)
        return found
