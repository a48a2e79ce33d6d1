"""What the methods' `init_state` and `step` are made of: batch sizes, learning rates and steps for a problem."""

from typing import Any

from sk_stormc.core.schedules import Slowed, at
from sk_stormc.engine.advised import advised
from sk_stormc.engine.probe import curvature
from sk_stormc.engine.steps import Inertia, Limit, StepRule, direction, proximal_point
from sk_stormc.utils.validation import is_list, is_word, plain

__all__ = ["Tools", "check_prox"]

SMALL = 1024  # up to so many components "auto" batches hold all of them


def as_float(value):
    """A number as a float; a schedule as it is."""
    return value if callable(value) else float(value)


def check_prox(penalty, has_prox):
    """Raise a ValueError where a penalty's proximal step has no closed form in the metric."""
    if penalty is not None and not has_prox:
        raise ValueError("a penalty needs a diagonal metric (or None): its proximal step has no closed form")


class Tools:
    """The tools of a method. They resolve what is "auto": the user's value, else the problem's, else the method's."""

    # for methods that do not have the parameter; else __init__ stores the user's
    learning_rate: Any = "auto"
    batch_size: Any = "auto"
    normalization: Any = "auto"
    precision: Any = "auto"

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, else the problem's, else the solver's rule."""
        value = getattr(self, name)
        if is_word(value, "auto"):
            value = advised(problem, name)
        return rule if is_word(value, "auto") else plain(value)

    def sizes(self, name, oracle, rule, like=None):
        """A batch size as a triple for the oracle.

        Parameters
        ----------
        name : str
            Of the parameter.
        oracle : Oracle
        rule : int, None or tuple
            What "auto" is above 1024 components; a triple is what it is in any case.
        like : tuple, default=None
            The sizes of the steps, for batches of another size: whether the Jacobian is exact follows the steps.

        Returns
        -------
        tuple
            (B_g, B_dg, B_f), None for all components. B_dg = 0 is a constant Jacobian, taken exactly and once.
        """
        problem = oracle.problem
        value = self.auto(name, problem, "auto")
        if isinstance(value, str):
            if isinstance(rule, tuple):
                return rule
            inner = None if problem.n_inner <= SMALL else rule
            value = (inner, inner, None if problem.n_outer <= SMALL else rule)
            value = (inner, None, value[2]) if problem.jacobian_kind == "constant" else value
        B_g, B_dg, B_f = value if is_list(value) else oracle.source.sizes(value)
        oracle.source.accept(name, (B_g, B_dg, B_f))

        def all_or(size, n):
            return None if size is None or size >= n else int(size)

        if problem.jacobian_kind != "constant":
            B_dg = all_or(B_dg, problem.n_inner)
        elif like is not None and like[1] == 0:
            B_dg = 0
        elif B_dg is None:
            B_dg = 0 if like is None else None
        else:  # a number not below n is all of it at each iteration
            B_dg = min(int(B_dg), problem.n_inner)
        return all_or(B_g, problem.n_inner), B_dg, all_or(B_f, problem.n_outer)

    def step_rule(self, oracle, x, size, factor, schedule=lambda eta: eta, L=None):
        """What steps are made of: the user's learning rate and limits, else the problem's, else the solver's.

        Parameters
        ----------
        oracle : Oracle
        x : ndarray of shape (n_variables,)
        size : tuple
            The steps' batch sizes.
        factor : float
            An automatic learning rate is ``schedule(factor / L)``, where L is the curvature that a probe
            measures, or the problem's advice on smoothness where that is larger. A schedule is then slowed by it.
        schedule : callable, default=identity
        L : float, default=None
            The curvature, where it is known.

        Returns
        -------
        StepRule
        """
        problem, known = oracle.problem, 0.0
        eta = self.auto("learning_rate", problem, None)
        if eta is None:
            L = oracle.metric.curvature if L is None else L
            if L is None:
                with oracle.looking_ahead():
                    L = curvature(oracle, x, size)
                known = problem.advice.smoothness(problem, size, oracle.metric.at(x, 0))
            # a linear objective has no scale: any step goes down, and the run ends at its budget
            eta = schedule(factor / max(L, known) if max(L, known) > 0 else 1.0)
            if known > L and callable(eta):  # so many iterations make one of those that a schedule counts
                eta = Slowed(eta, known)
        inertia = problem.advice.inertia
        return StepRule(as_float(eta), self.limit(problem), Inertia(inertia) if inertia else None)

    def limit(self, problem):
        """What shortens steps, if anything does: the user's ``normalization`` and ``precision``, else the problem's.

        Parameters
        ----------
        problem : CompositionalProblem

        Returns
        -------
        Limit or None
        """
        normalization, precision = self.auto("normalization", problem, None), self.auto("precision", problem, 0.1)
        return None if normalization is None else Limit(as_float(precision), by_block=normalization == "block")

    def move(self, oracle, s, F, x=None, metric=None):
        """Steps 5 and 6 of Algorithm 1: the next point along F, by the state's rule; sets ``s.residual``.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState
            With a ``rule``.
        F : ndarray of shape (n_variables,)
        x : ndarray of shape (n_variables,), default=None
            Where the step begins; None means ``s.x``.
        metric : Metric, default=None
            What this step is measured in, its proximal step included: a method's own, in place of the problem's. The
            residual, which tol is about, is taken in the problem's in any case: what is compared does not change.

        Returns
        -------
        ndarray of shape (n_variables,)

        Raises
        ------
        ValueError
            For a state without a rule, and for a metric in which the problem's penalty has no proximal step.
        """
        problem, rule = oracle.problem, s.rule
        if rule is None:
            raise ValueError(f"the state of {type(self).__name__} must have a rule, from step_rule, for move")
        x = s.x if x is None else x
        eta, usual = at(rule.learning_rate, s.t), oracle.metric.at(x, s.t)
        if metric is None:
            way = direction(problem, usual, x, F, eta)
            s.residual = way.length
        else:
            check_prox(problem.penalty, metric.has_prox)
            way = direction(problem, metric, x, F, eta)
            s.residual = direction(problem, usual, x, F, eta).length
        if rule.inertia is None:
            return rule.land(problem, metric or usual, x, way, eta, s.t)
        way = rule.inertia.join(way, s.velocity)
        s.velocity = way.q, way.p
        x = rule.land(problem, metric or usual, x, way, eta, s.t)
        return x if problem.penalty is None else problem.penalty.project(x)

    def length(self, oracle, s, x, F):
        """|x~ - x| / eta at x along F, in the norm of the metric's inverse: what the stopping rule compares."""
        eta = 1.0 if s.rule is None else at(s.rule.learning_rate, s.t)
        return direction(oracle.problem, oracle.metric.at(x, s.t), x, F, eta).length

    def proximal_point(self, oracle, s, F):
        """x~ of step 5: where a step from ``s.x`` along F would end if it were not shortened."""
        eta = at(s.rule.learning_rate, s.t)
        return proximal_point(oracle.problem, oracle.metric.at(s.x, s.t), s.x, F, eta)
