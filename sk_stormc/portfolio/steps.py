"""`CompositionalPortfolio.fit` by runs of a stochastic solver."""

from functools import partial

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.portfolio.gaps import dual_gap, is_cheap, slope_gap
from sk_stormc.portfolio.level import LevelProblem
from sk_stormc.portfolio.stages import run_in_stages, warn_of_a_gap
from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn

__all__ = ["conclude_steps", "run_steps"]

NOTABLE = 1e-3  # gap of a run that has converged, relative to the objective or the risk, that is worth a warning


def _start_of(portfolio, problem, fit):
    """The starting point of a warm start, and the residual to which its tol is relative."""
    if not (portfolio.warm_start and hasattr(portfolio, "weights_")):
        return None, None
    n_assets = problem.returns.shape[1]
    if len(portfolio.weights_) != n_assets:
        raise ValueError(
            f"warm_start=True needs returns of the {len(portfolio.weights_)} assets fitted before, got {n_assets}"
        )
    last = vars(portfolio).get("_progress")
    same = last is not None and last.runs and last.parameters == fit.progress.parameters
    return problem.start_at(portfolio.weights_), last.runs[-1].first_residual if same else None


def run_steps(portfolio, solver, problem, penalty, fit):
    """Run the solver. Return the result, its weights and a bound of its gap."""
    x0, first_residual = _start_of(portfolio, problem, fit)
    n_assets = problem.returns.shape[1]
    run = partial(
        fit.run,
        verbose=portfolio.verbose,
        attributes=lambda x: {"weights_": problem.weights_of(x), "n_features_in_": n_assets},
    )
    if isinstance(problem, LevelProblem):
        result, gap = run_in_stages(run, solver, problem, x0)
    else:
        result = run(solver, problem, x0, first_residual=first_residual)
        gap = slope_gap(problem, penalty, result.x)
    weights = problem.weights_of(result.x)
    return result, weights, dual_gap(problem, penalty, weights, gap) if gap > 0 else gap


def conclude_steps(portfolio, solver, problem, result):
    """Warn if the run has not converged, or if it has and its gap is notable all the same."""
    gap, tol, staged = portfolio.dual_gap_, solver.tol, isinstance(problem, LevelProblem)
    instead = problem.advice.instead
    if staged and result.stop_reason != StopReason.INTERRUPTED:
        warn_of_a_gap(result, gap, tol, instead)
    else:
        portfolio._conclude(solver, result, instead)
    size = problem.typical_risk() if staged else abs(result.fun)
    tight = is_cheap(problem, problem.of_weights if staged else problem.penalty)  # other bounds are loose
    if result.stop_reason == StopReason.CONVERGED and tight and gap > max(NOTABLE, 10 * tol) * size:
        warn(
            f"CompositionalPortfolio has converged to tol={tol:g}, but its objective {result.fun:.6g} may be above its "
            f"minimum by up to {gap:.2g}, since some assets may be nearly combinations of others. Add bounds or an l1 "
            f"norm{', or take ' * bool(instead)}{instead}.",
            ConvergenceWarning,
        )
