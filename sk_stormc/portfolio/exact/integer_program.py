"""The program of a portfolio with integer limits, for SCIP: its weights, the rows of
each risk measure, and the run.

The variables are v = k w / size. For a utility k is 1. For a ratio it is a variable, as
in `ratio`: the risk is minimised for a given mean return after costs, and each
constraint on w is one on v and k.
"""

from dataclasses import replace

import numpy as np
from numpy.linalg import LinAlgError, inv

from sk_stormc.engine.results import StopReason
from sk_stormc.portfolio.convex_program import CONSTRAINT_TOLERANCE
from sk_stormc.portfolio.exact.feasible_set import FeasibleSet
from sk_stormc.portfolio.exact.program import Scaled
from sk_stormc.portfolio.exact.quadratic import root_of, size_of
from sk_stormc.portfolio.risk.cdar import drawdowns
from sk_stormc.portfolio.risk.cvar import mean_of_worst

__all__ = ["IntegerProgram", "scip"]

REASONS = {"timelimit": StopReason.TIME_LIMIT, "userinterrupt": StopReason.INTERRUPTED}


def scip():
    """The module pyscipopt, or an ImportError that names the extra."""
    try:
        import pyscipopt
    except ImportError as error:
        raise ImportError(
            'max_assets and min_held need SCIP: pip install "sk_stormc[integer]"'
        ) from error
    return pyscipopt


class IntegerProgram:
    """Weights with integer limits, other constraints and costs as variables and rows of
    a SCIP model.

    ``low`` and ``high`` are finite bounds of the weights. ``start`` are feasible
    weights, or None. With ``most_k`` the factor k is a variable
    from 0 to this number.
    """

    def __init__(self, feasible, low, high, limits, size, start=None, most_k=None):
        self.scip = scip()
        self.feasible, self.low, self.high = feasible, low, high
        self.limits = limits
        self.size = size
        self.most_k = most_k
        self.model = self.scip.Model()
        self.values = []  # of each variable at the start, or at weights of 0
        self.ended = False
        self.error = None
        self.model.hideOutput()
        self.start = start
        self.at = np.zeros(feasible.n) if start is None else start / size
        self.k = 1.0 if most_k is None else self._variable(0.0, most_k, 1.0)
        self._add_weights()
        self._add_constraints()

    # variables and rows

    def _variable(self, low, high, value, kind="C"):
        """A new variable between bounds, with its value at the start."""
        made = self.model.addVar(
            vtype=kind,
            lb=None if np.isinf(low) else low,
            ub=None if np.isinf(high) else high,
        )
        self.values.append((made, float(value)))
        return made

    def _not_negative(self, values):
        """New variables that are not negative, with their values at the start."""
        return [self._variable(0.0, np.inf, value) for value in values]

    def sum(self, coefficients, variables):
        """The sum of products with nonzero coefficients."""
        return self.scip.quicksum(
            c * x for c, x in zip(coefficients, variables, strict=True) if c
        )

    def _add(self, row):
        """Add a row, which may contain no variable."""
        if isinstance(row, bool | np.bool_):
            row = self.scip.quicksum([]) >= (0.0 if row else 1.0)
        self.model.addCons(row)

    def _add_weights(self):
        """Add v, with a binary for each asset that may be held, and one for its sign if
        `min_held` separates signs."""
        feasible, limits, n, k = self.feasible, self.limits, self.feasible.n, self.k
        low, high = self.low / self.size, self.high / self.size
        least = np.pad(limits.min_held, (0, n - limits.min_held.size)) / self.size
        most_k = self.most_k or 1.0
        self.v, self.held, self.short = [], [], []
        for j, at in enumerate(self.at):
            if not feasible.in_budget[j]:  # the benchmark
                self.v.append(low[j] * k)
                continue
            a, b = low[j], high[j]
            x = self._variable(min(a, 0.0) * most_k, max(b, 0.0) * most_k, at)
            held, short = self._variable(0, 1, at != 0, "B"), None
            if least[j] > 0 and a < 0 < b:
                short = self._variable(0, 1, at < 0, "B")
                self._add(short <= held)
            of_held = self._times_k(held, at != 0)
            if short is None:
                if least[j] > 0:
                    a, b = (max(a, least[j]), b) if b > 0 else (a, min(b, -least[j]))
                self._add(x >= a * of_held)
                self._add(x <= b * of_held)
            else:
                of_short = self._times_k(short, at < 0)
                long = of_held - of_short
                self._add(x >= least[j] * long + a * of_short)
                self._add(x <= b * long - least[j] * of_short)
            if low[j] > 0:
                self._add(x >= low[j] * k)
            if high[j] < 0:
                self._add(x <= high[j] * k)
            self.v.append(x)
            self.held.append(held)
            self.short.append(short)
        if limits.max_assets is not None:
            self._add(self.scip.quicksum(self.held) <= limits.max_assets)

    def _times_k(self, binary, value):
        """The product of a binary and k, with the rows that define it."""
        if self.most_k is None:
            return binary
        product = self._variable(0.0, self.most_k, value)
        self._add(product <= self.most_k * binary)
        self._add(product <= self.k)
        self._add(product >= self.k - self.most_k * (1 - binary))
        return product

    def _add_constraints(self):
        """Add the budget, the linear constraints, the turnover and the distances that
        cost."""
        feasible, size, k = self.feasible, self.size, self.k
        if feasible.budget is not None:
            self._add(
                self.sum(feasible.in_budget, self.v) == feasible.budget / size * k
            )
        for row, lower, upper in zip(
            feasible.A, feasible.lower, feasible.upper, strict=True
        ):
            norm = float(np.abs(row).max()) or 1.0
            total = self.sum(row / norm, self.v)
            if lower == upper:
                self._add(total == lower / norm / size * k)
                continue
            if np.isfinite(lower):
                self._add(total >= lower / norm / size * k)
            if np.isfinite(upper):
                self._add(total <= upper / norm / size * k)
        there = np.flatnonzero(feasible.in_budget)
        for centre, limit in feasible.norms:
            self._add(
                self.scip.quicksum(self._distances(there, centre)) <= limit / size * k
            )
        self.costs = self.scip.quicksum(
            size * cost[j] * distance
            for some, cost, at in feasible.costs()
            for j, distance in zip(some, self._distances(some, at), strict=True)
        )
        if feasible.l2:
            self.costs += self._squares(
                np.full(len(there), feasible.l2 * size**2),
                [self.v[j] for j in there],
                self.at[there],
            )

    def _distances(self, some, at):
        """Variables |v - k at / size|."""
        at = at / self.size
        distances = self._not_negative(np.abs(self.at - at)[some])
        for j, distance in zip(some, distances, strict=True):
            off = self.v[j] - at[j] * self.k
            self._add(distance >= off)
            self._add(distance >= -off)
        return distances

    # the return and the risk

    def mean_return(self, mean):
        """The mean return before costs, times k. The budget determines the part that
        all assets have in common."""
        feasible, common = self.feasible, 0.0
        if feasible.budget is not None:
            common = float(np.median(mean[feasible.in_budget > 0]))
        total = self.sum(self.size * (mean - common * feasible.in_budget), self.v)
        return total + common * (feasible.budget or 0.0) * self.k

    def risk(self, task, deviation):
        """The risk at v divided by deviation ** power, where ``deviation`` is a typical
        one of portfolios."""
        measure, n = task.measure, self.feasible.n
        scaled = Scaled.of(task.with_aversion(np.inf), FeasibleSet.free(n))
        unit = (scaled.unit_of_value * scaled.risk_weight) ** (1 / measure.power)
        Q, zero = scaled.Q * (unit * self.size / deviation), np.zeros(n)
        pure = replace(scaled, Q=Q, risk_weight=1.0, expected_return=zero)
        if measure.ordered:
            return self._drawdowns(Q, pure.p, 1 - measure.confidence)
        formulation = measure.formulation(pure, self.at)
        shift = (measure.shift or 0.0) / deviation
        total = shift * self.mean_return(task.mean) if shift else 0.0
        if formulation.quadratic is not None:
            return total + self._quadratic(formulation.quadratic)
        total += self.sum(formulation.linear[: len(self.v)], self.v)
        for term in formulation.hinges:
            # without the coefficient of the level, if it is linear in it
            rows = term.rows[:, : len(self.v)]
            losses, values = [self.sum(row, self.v) for row in rows], rows @ self.at
            if term.level is None and formulation.level is not None:
                total += self._tail(losses, values, term.cost)
                continue
            excess = self._excesses(losses, values)
            values = np.maximum(values, 0.0)
            if term.level is None:
                total += self.sum(term.cost, excess)
                total += self._squares(term.curved, excess, values)
                continue
            # the root of a mean of squares: min over t of t / 2 + curved @ z^2 / t
            root = self._variable(0.0, np.inf, np.sqrt(term.curved @ values**2))
            self._add(self._sum_of_squares(term.curved, excess) <= root * root)
            total += 2 * np.sqrt(formulation.linear[-1]) * root
        return total

    def _quadratic(self, H):
        """v @ H @ v / 2 in perspective form: for H = rest + diag(D) the term D_j v_j^2
        is D_j q_j, v_j^2 <= q_j held_j.

        The bounds of SCIP's relaxations are far tighter with these terms.
        """
        n = len(self.held)
        of_assets = H[:n, :n]
        if len(H) > n and H[n, n] > 0:  # the benchmark's weight is fixed
            of_assets = of_assets - np.outer(H[:n, n], H[n, :n]) / H[n, n]
        D = np.pad(separable(of_assets), (0, len(H) - n))
        L = root_of((H - np.diag(D)) / 2)
        values = L @ self.at
        parts = [self._variable(-np.inf, np.inf, value) for value in values]
        for row, part in zip(L, parts, strict=True):
            self._add(part == self.sum(row, self.v))
        total = self._squares(np.ones(len(L)), parts, values)
        q = self._not_negative(self.at[:n] ** 2)
        for x, qj, held in zip(self.v[:n], q, self.held, strict=True):
            self._add(x * x <= qj * held)
        return total + self.sum(D[:n] / 2, q)

    def _excesses(self, terms, values):
        """Variables max(term, 0), for terms with values at the start."""
        excess = self._not_negative(np.maximum(values, 0.0))
        for term, above in zip(terms, excess, strict=True):
            self._add(above >= term)
        return excess

    def _sum_of_squares(self, weights, variables):
        return self.scip.quicksum(
            w * x * x for w, x in zip(weights, variables, strict=True) if w
        )

    def _squares(self, weights, variables, values):
        """A variable for the sum of weighted squares, which is not negative."""
        if not weights.any():
            return 0.0
        total = self._variable(0.0, np.inf, weights @ values**2)
        self._add(self._sum_of_squares(weights, variables) <= total)
        return total

    def _tail(self, losses, values, cost):
        """The minimum over the level s of s + cost @ max(losses - s, 0)."""
        *_, level = mean_of_worst(values, 1.0, cost)
        s = self._variable(-np.inf, np.inf, level)
        excess = self._excesses([loss - s for loss in losses], values - level)
        return s + self.sum(cost, excess)

    def _drawdowns(self, Q, p, tail):
        """The mean of the deepest drawdowns: D_t >= D_{t-1} - y_t, and the tail of
        these numbers."""
        values = drawdowns(Q @ self.at)
        depth = self._not_negative(values)
        for row, before, now in zip(Q, [0.0, *depth[:-1]], depth, strict=True):
            self._add(now >= before - self.sum(row, self.v))
        return self._tail(depth, values, p / tail)

    # the run

    def minimise(self, objective, gap, seconds, on_better):
        """Run SCIP until its gap is at most ``gap``. Return the lower bound of the
        objective, and why SCIP ended early.

        ``on_better`` is called with the weights of each better portfolio, and ends the
        run by a true value.
        """
        model, program = self.model, self
        model.setObjective(objective)
        model.setParams(
            {
                "limits/absgap": gap,
                "limits/time": max(seconds, 0.0),
                "numerics/feastol": CONSTRAINT_TOLERANCE,
            }
        )
        if self.start is not None:
            solution = model.createSol()
            for variable, value in self.values:
                model.setSolVal(solution, variable, value)
            model.addSol(solution)

        class Better(self.scip.Eventhdlr):
            """Report the portfolios that SCIP finds."""

            def eventinit(self):
                self.model.catchEvent(program.scip.SCIP_EVENTTYPE.BESTSOLFOUND, self)

            def eventexit(self):
                self.model.dropEvent(program.scip.SCIP_EVENTTYPE.BESTSOLFOUND, self)

            def eventexec(self, event):
                program._report(on_better)

        model.includeEventhdlr(
            Better(), "better", "reports the portfolios that SCIP finds"
        )
        model.optimize()
        if self.error is not None:
            raise self.error
        bound = model.getDualbound()
        reason = None if self.ended else REASONS.get(model.getStatus())
        return bound if abs(bound) < 1e15 else -np.inf, reason  # of 1e20 for infinity

    def _report(self, on_better):
        """Call a function with SCIP's best weights. An exception of it is raised again
        after SCIP has ended."""
        model = self.model
        try:
            self.ended = bool(on_better(self._weights(model.getBestSol())))
        except BaseException as error:
            self.ended, self.error = True, error
        if self.ended:
            model.interruptSolve()

    def _weights(self, solution):
        """The weights of a solution, where those that are not held are exactly 0."""
        model = self.model
        k = 1.0 if self.most_k is None else model.getSolVal(solution, self.k)
        w = self.feasible.low.copy()  # the benchmark is fixed
        for j, (x, held, short) in enumerate(
            zip(self.v, self.held, self.short, strict=False)
        ):
            if model.getSolVal(solution, held) < 0.5:
                w[j] = 0.0
                continue
            w[j] = model.getSolVal(solution, x) * self.size / k
            if short is not None:
                w[j] = (
                    -abs(w[j]) if model.getSolVal(solution, short) > 0.5 else abs(w[j])
                )
        return w


def separable(H):
    """A diagonal D >= 0 such that H - D is positive semidefinite; 0 if H is singular.

    D is proportional to the variances of the assets given all others.
    """
    size = size_of(H)
    try:
        given_others = 1 / np.sqrt(np.diag(inv(H / np.outer(size, size))))
    except LinAlgError:
        return np.zeros(len(H))
    if not np.isfinite(given_others).all():
        return np.zeros(len(H))
    scale = size * given_others
    least = max(float(np.linalg.eigvalsh(H / np.outer(scale, scale))[0]), 0.0)
    return 0.999 * least * scale**2  # the rest stays positive semidefinite
