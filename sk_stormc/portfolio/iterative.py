"""`CompositionalPortfolio.fit` with an iterative solver: one run, or stages with
decreasing smoothing."""

import warnings
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import changed, joined
from sk_stormc.portfolio.exact.objectives import dual_gap, is_cheap, slope_gap
from sk_stormc.portfolio.level import LevelProblem
from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn

__all__ = ["conclude_iterative", "run_iterative"]

STAGE_ITERATIONS = 1000  # without a limit the first, smoothest stage would never end
OUT_OF_BUDGET = (StopReason.MAX_ITER, StopReason.MAX_IFO)
FINAL = (StopReason.INTERRUPTED, StopReason.NON_FINITE, StopReason.CALLBACK)


def run_in_stages(run, solver, problem, x0):
    """Minimise a tail risk in stages. Each starts from the result of the last one, with
    a quarter of its width."""
    done, lowest, width = None, -np.inf, np.inf
    x = problem.initial_point(None) if x0 is None else x0
    unit = problem.typical_risk()
    best_value, best_x = problem.empty()
    for k in range(12):
        w = problem.weights_of(x)
        width = min(problem.first_width * problem.deviation(w) * 4.0**-k, width / 2)
        problem = problem.with_width(width)
        with warnings.catch_warnings():
            # a stage need not converge; `warn_of_a_gap` warns for the whole fit
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = run(_solver_of_stage(solver, done), problem, problem.start_at(w))
        done = result if done is None else joined(done, result)
        x = result.x
        value, bound = problem.bounds(x)
        if value < best_value or best_x is None:
            best_value, best_x = value, x
        lowest = max(lowest, bound)
        gap = best_value - lowest
        size = abs(best_value) if problem.weights_of(best_x).any() else unit
        # after a slow stage one with less smoothing would gain little
        slow = result.stop_reason in OUT_OF_BUDGET
        small = gap <= (1.0 if slow else 0.3) * solver.tol * size
        if small or done.stop_reason in FINAL or _budget_is_spent(solver, done):
            break
    finest = 1e-5 * size  # smaller gaps are rounding, whatever tol is
    gap = np.inf if gap < -finest else gap  # rounding errors of weights that diverge
    reason = done.stop_reason
    if reason not in FINAL and gap <= max(solver.tol * size, finest):
        reason = StopReason.CONVERGED
    elif reason not in (*FINAL, *OUT_OF_BUDGET):
        reason = StopReason.MAX_ITER
    earlier = done.ifo < done.ifo[-1]  # the last record becomes the best point
    result = changed(
        done,
        stop_reason=reason,
        x=best_x,
        fun=best_value,
        loss_curve=np.append(done.loss_curve[earlier], best_value),
        ifo=np.append(done.ifo[earlier], done.ifo[-1]),
        record_iterations=np.append(done.record_iterations[earlier], done.n_iter),
    )
    return result, gap


def warn_of_a_gap(result, gap, tol, instead):
    """Warn if the run has not converged: the gap is above tol."""
    if result.stop_reason in (StopReason.CONVERGED, StopReason.CALLBACK):
        return
    part = ""
    if result.fun:
        part = f", which is a relative gap of {gap / abs(result.fun):.2g}"
    warn(
        f"CompositionalPortfolio has not converged: after {result.n_iter} iterations "
        f"the objective {result.fun:.6g} may be above its minimum by up to "
        f"{gap:.2g}{part}, where tol={tol:g} was asked for. Raise max_iter or "
        f"tol{', or take ' * bool(instead)}{instead}.",
        ConvergenceWarning,
    )


def _solver_of_stage(solver, done):
    """The solver with the remaining budgets. Without budgets a full-batch stage has
    1000 iterations."""
    stage, max_iter, max_ifo = clone(solver), solver.max_iter, solver.max_ifo
    if max_iter is None and max_ifo is None:
        full_batch = solver.batch_size is None or isinstance(solver.batch_size, str)
        return stage.set_params(max_iter=STAGE_ITERATIONS) if full_batch else stage
    n_iter, ifo = (0, 0) if done is None else (done.n_iter, int(done.ifo[-1]))
    if max_iter is not None:
        stage.set_params(max_iter=min(STAGE_ITERATIONS, max(1, max_iter - n_iter)))
    if max_ifo is not None:
        stage.set_params(max_ifo=max(1, max_ifo - ifo))
    return stage


def _budget_is_spent(solver, done):
    """Whether the budget of the whole fit is used up."""
    spent = solver.max_ifo is not None and done.stop_reason == StopReason.MAX_IFO
    return spent or (solver.max_iter is not None and done.n_iter >= solver.max_iter)


def _warm_start(portfolio, problem, fit):
    """The initialization of a warm start, and the residual to which its tol is
    relative."""
    if not (portfolio.warm_start and hasattr(portfolio, "weights_")):
        return None, None
    n_assets = problem.returns.shape[1]
    if len(portfolio.weights_) != n_assets:
        raise ValueError(
            f"warm_start=True needs returns of the {len(portfolio.weights_)} assets "
            f"fitted before, got {n_assets}"
        )
    last, residual = vars(portfolio).get("_progress"), None
    if last is not None and last.runs and last.parameters == fit.progress.parameters:
        residual = last.runs[-1].first_residual
    return problem.start_at(portfolio.weights_), residual


def run_iterative(portfolio, solver, problem, fit):
    """Run the solver. Return the result, its weights and an upper bound of its gap."""
    x0, first_residual = _warm_start(portfolio, problem, fit)
    n_assets = problem.returns.shape[1]
    run = partial(
        fit.run,
        verbose=portfolio.verbose,
        attributes=lambda x: {
            "weights_": problem.weights_of(x),
            "n_features_in_": n_assets,
        },
    )
    if isinstance(problem, LevelProblem):
        result, gap = run_in_stages(run, solver, problem, x0)
    else:
        result = run(solver, problem, x0, first_residual=first_residual)
        gap = slope_gap(problem, result.x)
    weights = problem.weights_of(result.x)
    return result, weights, dual_gap(problem.task, weights, gap) if gap > 0 else gap


def conclude_iterative(portfolio, solver, problem, result):
    """Warn if the run has not converged, or if it has converged with a notable gap."""
    gap = portfolio.dual_gap_
    tol = solver.tol
    staged = isinstance(problem, LevelProblem)
    instead = problem.advice.instead
    if staged and result.stop_reason != StopReason.INTERRUPTED:
        warn_of_a_gap(result, gap, tol, instead)
    else:
        portfolio._conclude(solver, result, instead)
    size = problem.typical_risk() if staged else abs(result.fun)
    notable = gap > max(1e-3, 10 * tol) * size
    tight = is_cheap(problem.task)  # other bounds are loose
    if result.stop_reason == StopReason.CONVERGED and tight and notable:
        warn(
            f"CompositionalPortfolio has converged to tol={tol:g}, but its objective "
            f"{result.fun:.6g} may be above its minimum by up to {gap:.2g}, since some "
            "assets may be nearly combinations of others. Add bounds or an l1 "
            f"norm{', or take ' * bool(instead)}{instead}.",
            ConvergenceWarning,
        )
