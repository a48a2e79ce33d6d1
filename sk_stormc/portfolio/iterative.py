"""`CompositionalPortfolio.fit` with an iterative solver."""

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.portfolio.exact.objectives import dual_gap, is_cheap, slope_gap
from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn

__all__ = ["conclude_iterative", "run_iterative"]


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
    last, residual = portfolio._progress, None
    if last is not None and last.runs and last.parameters == fit.progress.parameters:
        residual = last.runs[-1].first_residual
    return portfolio.weights_, residual


def run_iterative(portfolio, solver, problem, fit, task):
    """Run the solver. Return the result, its weights and an upper bound of its gap."""
    x0, first_residual = _warm_start(portfolio, problem, fit)
    n_assets = problem.returns.shape[1]
    result = fit.run(
        solver,
        problem,
        x0,
        first_residual=first_residual,
        verbose=portfolio.verbose,
        attributes=lambda x: {"weights_": x, "n_features_in_": n_assets},
    )
    gap = slope_gap(problem, task.penalty, result.x)
    return result, result.x, dual_gap(task, result.x, gap) if gap > 0 else gap


def conclude_iterative(portfolio, solver, problem, result):
    """Warn if the run has not converged, or if it has converged with a notable gap."""
    gap = portfolio.dual_gap_
    tol = solver.tol
    instead = problem.advice.instead
    portfolio._conclude(solver, result, instead)
    notable = gap > max(1e-3, 10 * tol) * abs(result.fun)
    tight = is_cheap(problem.task)  # other bounds are loose
    if result.stop_reason == StopReason.CONVERGED and tight and notable:
        warn(
            f"CompositionalPortfolio has converged to tol={tol:g}, but its objective "
            f"{result.fun:.6g} may be above its minimum by up to {gap:.2g}, since some "
            "assets may be nearly combinations of others. Add bounds or an l1 "
            f"norm{', or take ' * bool(instead)}{instead}.",
            ConvergenceWarning,
        )
