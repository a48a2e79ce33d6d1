"""Diagnostics: warnings about the end of a run."""

import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.core.penalties import projected
from sk_stormc.engine.oracle import Oracle
from sk_stormc.engine.results import StopReason
from sk_stormc.engine.steps import keep_in_domain
from sk_stormc.utils.warnings import warn

BUDGETS = (StopReason.MAX_ITER, StopReason.MAX_IFO)


def warn_of_the_end(solver, oracle, result, comparable, unlimited):
    """Warn if a run ended badly, and recommend a change.

    ``comparable`` is whether all records have the same objective, and ``unlimited`` is
    whether the budget is the default.
    """
    reason = result.stop_reason
    if reason == StopReason.NON_FINITE:
        _warn(
            solver,
            f"met a value that is not finite at iteration {result.n_iter}; the best "
            f"finite iterate (objective {result.fun:.6g}) is kept. Decrease "
            "learning_rate, use learning_rate='auto', or rescale the data.",
        )
    elif reason == StopReason.DIVERGED:
        _warn(
            solver,
            "went up on this stream, with shorter steps too: it ends at iteration "
            f"{result.n_iter}, and the best point recorded is kept (objective "
            f"{result.fun:.6g}). {_for_streams(solver, oracle.source)}",
        )
    elif (
        reason == StopReason.MAX_IFO
        and not result.n_iter
        and solver.max_ifo is not None
    ):
        spent, step = int(result.ifo[-1]), solver.cost(oracle, result.state.state)
        _warn(
            solver,
            f"made no iteration and returns its starting point: the start took {spent} "
            f"IFO and an iteration takes {step}, where max_ifo={solver.max_ifo} is "
            f"allowed. Raise max_ifo to at least {spent + step}.",
        )
    elif reason in (*BUDGETS, StopReason.NO_DECREASE) and is_unbounded(
        oracle.problem, result.state, result.x, result.fun
    ):
        _warn(
            solver,
            f"stops at {result.fun:.6g} after {result.ifo[-1]} IFO, while the "
            "objective still falls: it seems unbounded below. Add a constraint or a "
            "penalty, or more samples than variables.",
        )
    elif reason == StopReason.NO_DECREASE and solver.tol:
        _warn(
            solver,
            f"stops at {result.fun:.6g}, from where no step lowers the objective, "
            f"although |x~ - x| is at {result.residual:.2g} of its first value, where "
            f"tol={solver.tol:g} was asked for. The objective may have kinks, errors "
            "that are larger than the remaining decrease, or gradients that are not "
            "its own: check_problem compares them. A larger budget changes nothing.",
        )
    else:
        above = False
        if result.n_iter and comparable:
            above = _warn_if_above(solver, result)
        elif result.n_iter:
            _warn_if_uphill(solver, oracle, result)
        if unlimited and not above:  # a larger budget would not help
            warn_if_unconverged(solver, result, oracle.problem.advice.instead)


def _warn_if_above(solver, result):
    """Warn if the returned point has a higher objective than the start, or a notably
    higher one than a record. Return whether it is higher than the start."""
    start, best = float(result.loss_curve[0]), float(np.min(result.loss_curve))
    rounding = 8 * np.finfo(result.x.dtype).eps * max(abs(start), abs(result.fun))
    is_above = result.fun > start + rounding
    if is_above:
        excess = f"above the start's, {start:.6g}"
    elif result.fun - best > max(solver.tol, 1e-4) * (start - best) + rounding:
        excess = f"above one that it had recorded, {best:.6g}"
    else:
        return False
    _warn(
        solver,
        f"returns its last point, whose objective {result.fun:.6g} is {excess}. Use "
        f"{_instead(solver)}a smaller learning_rate or larger batches.",
    )
    return is_above


def _warn_if_uphill(solver, oracle, result):
    """Warn if the objective over the recent rows, or its mean over the recent records,
    is significantly higher than at the start."""
    start = result.state.start
    if result.state.ends_above_start():
        where = "has been above the start's objective, on average over its last records"
    elif oracle.source.uphill(result.x, start):
        where = "is above the start's objective"
    else:
        return
    _warn(
        solver,
        f"{where}: over the last rows it is {result.fun:.6g}, and that of the start "
        f"{oracle.problem.objective(start):.6g}. {_for_streams(solver, oracle.source)}",
    )


def _for_streams(solver, source):
    """The recommendation for streams."""
    return (
        f"Use {_instead(solver)}a smaller learning_rate or larger batches, or "
        f"{source.instead}."
    )


def _instead(solver):
    return f"{solver.instead}, " if solver.instead else ""


def warn_if_unconverged(solver, result, instead=""):
    """Warn if the run's budget ended before tol was met."""
    if (
        solver.tol == 0
        or result.stop_reason not in BUDGETS
        or not (result.n_iter or solver.max_ifo is None)
    ):
        return
    far = (
        f"at {result.residual:.2g} of"
        if math.isfinite(result.residual)
        else "not yet comparable with"
    )
    name = (
        result.stop_reason
        if getattr(solver, result.stop_reason) is not None
        else "max_iter or max_ifo"
    )
    _warn(
        solver,
        f"has not converged: its budget ended after {result.n_iter} iterations and "
        f"{result.ifo[-1]} IFO with |x~ - x| / learning_rate {far} its first value, "
        f"where tol={solver.tol:g} was asked for. Raise {name} or "
        f"tol{', or take ' * bool(instead)}{instead}.",
    )


def warn_if_clipped(solver, oracle):
    """Warn if the last u on all components was below the problem's ``inner_floor``, and
    was clipped to it.

    In a map, this can happen to the normaliser of a distant point, and does not affect
    the other points.
    """
    problem = oracle.problem
    if oracle.n_below and not problem.advice.many_minima:
        _warn(
            solver,
            f"clips u to {type(problem).__name__}.inner_floor={problem.inner_floor}, "
            f"where {oracle.n_below} entries of g(x), over all components, are below "
            "it. F is then not the gradient, so that the run may stall or end "
            "elsewhere. Lower inner_floor to the end of the domain of f, or start "
            "where g(x) is above it.",
        )


def warn_if_flat(solver, problem, result):
    """Warn if the gradient is exactly zero at x_0, which is returned."""
    run = result.state
    stays = result.stop_reason == StopReason.CONVERGED and np.array_equal(
        result.x, run.start
    )
    if stays and problem.penalty is None and not problem.gradient(run.start).any():
        _warn(
            solver,
            "returns its starting point, where the gradient is exactly 0. It may be a "
            "minimum or another stationary point, or the functions may have no slope "
            "there, as counts, comparisons, jnp.sign and ReLUs of negative numbers "
            "have none. Start elsewhere to see which.",
        )


def warn_if_far(solver, oracle, result, default):
    """Warn if a run from a given x0 has "converged" although gradients are still large
    for the problem, and return it.

    The objective is then above that at ``default``, the starting point of the problem,
    and so is the residual. If ``default`` is a minimum, the residual is compared with
    its standard error there. ``tol`` is relative to the residual at x0, which is large
    if x0 is far away.
    """
    first = result.state.first_residual
    if (
        result.stop_reason != StopReason.CONVERGED
        or not first
        or not result.fun > (fun := oracle.reported(default))
    ):
        return False
    problem = oracle.problem
    uncounted = Oracle(oracle.problem, 0)
    s = result.state.state
    components = []
    u = keep_in_domain(
        problem, uncounted.inner(default, uncounted.draw("inner", None)), None
    )
    for _ in range(16):  # single components, for the size of their gradients
        J = uncounted.jacobian(
            default, uncounted.draw_jacobian(1, uncounted.draw("inner", 1))
        )
        F = uncounted.gradient(default, u, J, uncounted.draw("outer", 1))
        components.append(solver.length(oracle, s, default, F))
    error = math.sqrt(
        np.mean(np.square(components)) / max(problem.n_inner, problem.n_outer)
    )
    if (
        result.residual * first
        > max(solver.length(oracle, s, default, problem.gradient(default)), error)
        > 0
    ):
        _warn(
            solver,
            f"stops at {result.fun:.6g}, above the objective {fun:.6g} of the "
            f"problem's own starting point: tol={solver.tol:g} is relative to |x~ - x| "
            "/ learning_rate at x0, which is far away. Leave out x0, or lower tol.",
        )
        return True
    return False


def _warn(solver, message):
    warn(f"{type(solver).__name__} {message}", ConvergenceWarning)


def is_unbounded(problem, run, x, fun):
    """Whether Phi is unbounded below, as the problem's advice states or as Phi
    decreases linearly along the run.

    The displacement since the milestone before the last is multiplied by 1e8 and 1e10.
    At such distances an objective with a minimum increases again, even if the steps of
    the run were far too short.
    """
    unbounded = problem.advice.unbounded_below(problem)
    if unbounded is not None:
        return unbounded
    displacement = x - (x if run.milestones[0] is None else run.milestones[0])
    if abs(displacement).max() <= 16 * np.finfo(x.dtype).eps * abs(x).max():
        return False  # it is a rounding error

    near, far = (
        fun - problem.objective(projected(problem.penalty, x + factor * displacement))
        for factor in (1e8, 1e10)
    )
    return near > 0 and far > 10 * near
