"""Warnings about the end of a run."""

import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import StopReason
from sk_stormc.utils.warnings import warn

__all__ = ["falls_for_ever", "warn_of_the_end", "warn_if_unconverged"]

NOTABLE = 1e-4  # smallest excess over the best recorded value for a warning, relative to the total decrease
BUDGETS = (StopReason.MAX_ITER, StopReason.MAX_IFO)


def warn_of_the_end(solver, oracle, result, watch, unlimited):
    """Warn if a run ended badly, and say what to change.

    Parameters
    ----------
    solver : CompositionalSolver
    oracle : Oracle
    result : SolverResult
    watch : Watch
        The watch of the run.
    unlimited : bool
        Whether the budget is the default, and not one that the user has set.
    """
    reason = result.stop_reason
    if reason == StopReason.NON_FINITE:
        _warn(
            solver,
            f"met a value that is not finite at iteration {result.n_iter}; the best finite iterate (objective "
            f"{result.fun:.6g}) is kept. Decrease learning_rate, use learning_rate='auto', or rescale the data.",
        )
    elif reason == StopReason.DIVERGED:
        _warn(
            solver,
            f"went up on this stream, with shorter steps too: it ends at iteration {result.n_iter}, and the best point "
            f"recorded is kept (objective {result.fun:.6g}). {_for_streams(solver, oracle.source)}",
        )
    elif reason in BUDGETS and falls_for_ever(oracle.problem, result.state, result.x, result.fun):
        _warn(
            solver,
            f"stops at {result.fun:.6g} after {result.ifo[-1]} IFO, while the objective still falls: it seems "
            "unbounded below. Add a constraint or a penalty, or more samples than variables.",
        )
    else:
        if result.n_iter and watch.comparable:
            _warn_if_above(solver, result)
        elif result.n_iter:
            _warn_if_uphill(solver, oracle, result)
        if unlimited:
            warn_if_unconverged(solver, result)


def _warn_if_above(solver, result):
    """Warn if the returned point has a higher objective than the start, or a notably higher one than a record."""
    start, best = float(result.loss_curve[0]), float(np.min(result.loss_curve))
    rounding = 8 * np.finfo(result.x.dtype).eps * max(abs(start), abs(result.fun))
    if result.fun > start + rounding:
        found = f"above the start's, {start:.6g}"
    elif result.fun - best > max(solver.tol, NOTABLE) * (start - best) + rounding:
        found = f"above one that it had recorded, {best:.6g}"
    else:
        return
    _warn(
        solver,
        f"returns its last point, whose objective {result.fun:.6g} is {found}. Use {_instead(solver)}a smaller "
        "learning_rate or larger batches.",
    )


def _warn_if_uphill(solver, oracle, result):
    """Warn if the objective over the recent rows is significantly higher than at the start."""
    start = result.state.start
    if oracle.source.uphill(result.x, start):
        _warn(
            solver,
            f"is at an objective of {result.fun:.6g} over the last rows, where the start's is "
            f"{oracle.problem.objective(start):.6g}. {_for_streams(solver, oracle.source)}",
        )


def _for_streams(solver, source):
    """The recommendation for streams."""
    return f"Use {_instead(solver)}a smaller learning_rate or larger batches, or {source.instead}."


def _instead(solver):
    return f"{solver.instead}, " if solver.instead else ""


def warn_if_unconverged(solver, result):
    """Warn if the run's budget ended before tol was met.

    Parameters
    ----------
    solver : CompositionalSolver
    result : SolverResult
    """
    if solver.tol == 0 or result.stop_reason not in BUDGETS:
        return
    far = f"at {result.residual:.2g} of" if math.isfinite(result.residual) else "not yet comparable with"
    name = result.stop_reason if getattr(solver, result.stop_reason) is not None else "max_iter or max_ifo"
    _warn(
        solver,
        f"has not converged: its budget ended after {result.n_iter} iterations and {result.ifo[-1]} IFO with "
        f"|x~ - x| / learning_rate {far} its first value, where tol={solver.tol:g} was asked for. Raise {name} or tol.",
    )


def _warn(solver, message):
    warn(f"{type(solver).__name__} {message}", ConvergenceWarning)


def falls_for_ever(problem, run, x, fun):
    """Whether Phi is unbounded below: the problem knows it, or Phi decreases linearly along the direction of the run.

    The displacement since the milestone before the last is multiplied by 1e8 and 1e10. At such distances an objective
    with a minimum increases again, even if the steps of the run were far too short.
    """
    known = problem.advice.unbounded_below(problem)
    if known is not None:
        return known
    way = x - (x if run.milestones[0] is None else run.milestones[0])
    if abs(way).max() <= 16 * np.finfo(x.dtype).eps * abs(x).max():
        return False  # the displacement is a rounding error

    def fall(s):
        point = x + s * way
        return fun - problem.objective(point if problem.penalty is None else problem.penalty.project(point))

    return fall(1e8) > 0 and fall(1e10) > 10 * fall(1e8)
