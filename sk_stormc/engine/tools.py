"""Tools for the methods' `init_state` and `step`: batch sizes, learning rates and steps for a problem."""

import math
from typing import Any

import numpy as np

from sk_stormc.core.schedules import Slowed, at
from sk_stormc.core.source import source_of
from sk_stormc.engine.estimates import keep_in_domain
from sk_stormc.engine.steps import Inertia, Limit, StepRule, direction, proximal_point
from sk_stormc.utils.validation import is_list, is_word, plain

__all__ = ["Tools", "advised", "check_prox", "curvature", "curvatures"]

SMALL = 1024  # number of components up to which "auto" batches contain all of them
PROBES, POWER_ITERATIONS = 16, 6  # minibatches whose curvature is estimated, and iterations for each


def as_float(value):
    """A number as a float. A schedule is returned unchanged."""
    return value if callable(value) else float(value)


def check_prox(penalty, has_prox):
    """Raise a ValueError if a penalty's proximal step has no closed form in the metric."""
    if penalty is not None and not has_prox:
        raise ValueError("a penalty needs a diagonal metric (or None): its proximal step has no closed form")


class Tools:
    """The tools of a method. They resolve "auto" to the user's value, the problem's advice, or the method's default."""

    # defaults for methods without the parameter
    learning_rate: Any = "auto"
    batch_size: Any = "auto"
    normalization: Any = "auto"
    precision: Any = "auto"

    def auto(self, name, problem, rule):
        """A parameter's value: the user's, or else the problem's advice, or else the solver's ``rule``."""
        value = getattr(self, name)
        if is_word(value, "auto"):
            value = advised(problem, name)
        return rule if is_word(value, "auto") else plain(value)

    def sizes(self, name, oracle, rule, like=None):
        """Resolve a batch size to a triple for the oracle.

        Parameters
        ----------
        name : str
            Name of the parameter.
        oracle : Oracle
        rule : int, None or tuple
            The value of "auto" with more than 1024 components. A triple is the value in any case.
        like : tuple, default=None
            The batch sizes of the steps, if the sizes are for other batches. The Jacobian is exact if it is in the
            steps.

        Returns
        -------
        tuple
            (B_g, B_dg, B_f), with None for all components. B_dg = 0 means a constant Jacobian that is computed exactly,
            once.
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
        else:  # a number of at least n means all components at each iteration
            B_dg = min(int(B_dg), problem.n_inner)
        return all_or(B_g, problem.n_inner), B_dg, all_or(B_f, problem.n_outer)

    def step_rule(self, oracle, x, size, factor, schedule=lambda eta: eta, L=None):
        """The rule of steps from the user's learning rate and limits, or the problem's advice, or the solver's default.

        Parameters
        ----------
        oracle : Oracle
        x : ndarray of shape (n_variables,)
        size : tuple
            Batch sizes of the steps.
        factor : float
            An automatic learning rate is ``schedule(factor / L)``, where L is the curvature that a probe
            estimates, or the problem's advice on smoothness if that is larger. In the latter case a schedule is slowed
            down.
        schedule : callable, default=identity
            A function that makes a learning rate or a schedule from a number.
        L : float, default=None
            The curvature, if it is known.

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
            # for a linear objective any learning rate decreases it, and the run ends at its budget
            eta = schedule(factor / max(L, known) if max(L, known) > 0 else 1.0)
            if known > L and callable(eta):  # slow the schedule down, because shorter steps need more iterations
                eta = Slowed(eta, known)
        inertia = problem.advice.inertia
        return StepRule(as_float(eta), self.limit(problem), Inertia(inertia) if inertia else None)

    def limit(self, problem):
        """The limit of steps from the user's ``normalization`` and ``precision``, or the problem's advice, if any.

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
        """Steps 5 and 6 of Algorithm 1: the next point along F by the state's rule. It sets ``s.residual``.

        Parameters
        ----------
        oracle : Oracle
        s : MethodState
            A state with a ``rule``.
        F : ndarray of shape (n_variables,)
        x : ndarray of shape (n_variables,), default=None
            Starting point of the step. None means ``s.x``.
        metric : Metric, default=None
            The metric of this step and its proximal step. None means that of the problem. The residual, which is
            compared with tol, always uses the metric of the problem.

        Returns
        -------
        ndarray of shape (n_variables,)

        Raises
        ------
        ValueError
            If the state has no rule, or the problem's penalty has no proximal step in the metric.
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
        s.velocity = rule.average(problem, metric or usual, way, s.velocity, s.t)
        x = x - eta * s.velocity
        return x if problem.penalty is None else problem.penalty.project(x)

    def length(self, oracle, s, x, F):
        """The residual |x~ - x| / eta at x along F, in the norm of the metric's inverse, for the stopping rule."""
        eta = 1.0 if s.rule is None else at(s.rule.learning_rate, s.t)
        return direction(oracle.problem, oracle.metric.at(x, s.t), x, F, eta).length

    def proximal_point(self, oracle, s, F):
        """x~ of step 5 of Algorithm 1: the end of a step from ``s.x`` along F that is not shortened."""
        eta = at(s.rule.learning_rate, s.t)
        return proximal_point(oracle.problem, oracle.metric.at(s.x, s.t), s.x, F, eta)


def advised(problem, name):
    """The value that a problem's advice has for a parameter of a method, or "auto" if it has none."""
    advice, source = problem.advice, source_of(problem)
    if name == "batch_size" or (name == "init_batch_size" and not advice.tracking):
        return advice.batch_size
    if name in ("learning_rate", "normalization", "precision"):
        value = getattr(advice, name)
        return "auto" if value is None else value
    if name == "momentum" and (source.cumulative or not advice.tracking):
        return 1.0
    if name == "beta" and not advice.tracking:
        return 1.0
    return "auto"


# the curvature for automatic learning rates, whose oracle calls are counted


def curvature(oracle, x, size):
    """The curvature L: the root mean square of `curvatures`. It is 0 for a linear objective."""
    return math.sqrt(np.mean(np.square(curvatures(oracle, x, size))))


def curvatures(oracle, x, size):
    """Largest eigenvalues of metric @ Hessian of 16 minibatches.

    They are computed by power iterations on finite differences of the minibatch gradient. The vector is carried over
    from batch to batch. g and f use independent batches. If all batches are full there is one probe, because all
    batches are equal.
    """
    problem, metric = oracle.problem, oracle.metric.at(x, 0)
    v = oracle.rng.standard_normal(x.size).astype(x.dtype)
    v, start_v = metric.apply(v), v
    v = v / math.sqrt(float(start_v @ v))  # of length 1 in the norm of the metric's inverse
    rounding = math.sqrt(np.finfo(x.dtype).eps)
    h = rounding * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(v))
    tops = []
    for _ in range(1 if oracle.is_full(size) else PROBES):
        inner, outer = oracle.draw("inner", size[0]), oracle.draw("outer", size[2])
        slope = oracle.draw_jacobian(size[1], inner)

        def gradient(x, inner=inner, outer=outer, slope=slope):
            u = keep_in_domain(problem, oracle.inner(x, inner), None)
            return oracle.gradient(x, u, oracle.jacobian(x, slope), outer)

        F = gradient(x)
        length = math.sqrt(float(F @ metric.apply(F)))
        top = 0.0
        for k in range(POWER_ITERATIONS + 1):
            w = (gradient(x + h * v) - F) / h
            v_new = metric.apply(w)
            top = math.sqrt(max(float(w @ v_new), 0.0))
            if not (math.isfinite(top) and top > 0):
                break
            if k or not length:
                v = v_new / top
            # the step h changes F by a thousandth in any unit, and x by more than rounding; k = 0 only determines h
            whole = float(np.linalg.norm(x) / np.linalg.norm(v)) or math.inf  # a step of the size of x
            # upper limit: a gradient that is constant nearby may change farther away
            step = max(min(1e-3 * length / top, whole), rounding * whole if whole < math.inf else 0.0)
            if step > 1e-7 * h:  # otherwise F is a rounding error
                h = step
        tops.append(top)
    return tops
