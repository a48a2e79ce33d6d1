"""The two ways of `CompositionalPortfolio.fit`: by an exact method, or by runs of a stochastic solver."""

import warnings
from contextlib import nullcontext
from functools import partial

from sklearn.base import clone
from sklearn.utils.validation import validate_data

from sk_stormc.engine.tools import SMALL
from sk_stormc.fitting.runs import Fit
from sk_stormc.portfolio.collinear import warn_of_a_flat_direction
from sk_stormc.portfolio.gaps import dual_gap, slope_gap
from sk_stormc.portfolio.handover import (
    PATIENCE,
    by_moments,
    by_newton,
    finish_by_newton,
    hands_over,
    passes_before,
    warn_of_newton,
)
from sk_stormc.portfolio.level import LevelProblem
from sk_stormc.portfolio.limits import Limits
from sk_stormc.portfolio.ratio import by_ratio
from sk_stormc.portfolio.stages import run_in_stages, warn_of_a_gap
from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn

__all__ = ["fit_at_once", "fit_by_run"]

TOL = 1e-4  # default of "newton" and "moments", the same as for the other solvers


def fit_at_once(portfolio, solver, problem, penalty, X, n_assets, dtype):
    """Fit by Newton's method, a linear program, moments or the largest ratio, and store the fitted attributes.

    Parameters
    ----------
    portfolio : CompositionalPortfolio
    solver : {"newton", "moments"} or CompositionalSolver
    problem, penalty, X, dtype : object
        As for `fit_by_run`.
    n_assets : int
        Number of columns of X. The problem has one more asset if there is a benchmark.
    """
    own = isinstance(solver, str)
    tol = (TOL if portfolio.tol is None else portfolio.tol) if own else solver.tol
    by = by_ratio if portfolio.objective == "ratio" else by_moments if solver == "moments" else by_newton
    result, gap = by(problem, penalty, tol, solver)
    validate_data(portfolio, X, skip_check_array=True)
    portfolio.weights_ = problem.weights_of(result.x)[:n_assets].astype(dtype, copy=False)
    portfolio.dual_gap_ = gap
    portfolio._keep(solver, result)
    warn_of_newton(result, gap, tol)


def fit_by_run(portfolio, solver, problem, penalty, X, y, sample_weight, dtype):
    """Run the solver, continue with Newton's method if it hands over, and store the fitted attributes.

    Parameters
    ----------
    portfolio : CompositionalPortfolio
    solver : CompositionalSolver
    problem : PortfolioProblem
        The problem of the returns in X and the weights of the periods.
    penalty : object of `sk_stormc.penalties`, Turnover or None
    X, y, sample_weight : object
        The arguments of `fit`.
    dtype : numpy.dtype
        The dtype of ``weights_``.
    """
    n_assets = problem.returns.shape[1]
    solver.accept(problem)
    x0 = None
    if portfolio.warm_start and hasattr(portfolio, "weights_"):
        if len(portfolio.weights_) != n_assets:
            raise ValueError(
                f"warm_start=True needs returns of the {len(portfolio.weights_)} assets fitted before, "
                f"got {n_assets}"
            )
        x0 = problem.start_at(portfolio.weights_)
    fit = Fit(portfolio, solver, X, y, sample_weight=sample_weight)
    first_residual, before = None, vars(portfolio).get("_tol_is_of")
    if x0 is not None and before is not None and before[0].parameters == fit.progress.parameters:
        first_residual = before[1]
    run = partial(
        fit.run,
        verbose=portfolio.verbose,
        attributes=lambda x: {"weights_": problem.weights_of(x), "n_features_in_": n_assets},
    )
    staged, ends_well = isinstance(problem, LevelProblem), False
    handing = hands_over(solver, problem, penalty)
    few = handing and (staged or problem.n_inner <= SMALL)  # so few periods that each batch contains all of them
    forced = handing and Limits.of(penalty, n_assets).forced() is not None  # only one portfolio is feasible
    running = clone(solver) if handing else solver
    if few or forced:
        running.set_params(max_iter=1 if forced else PATIENCE)
    elif handing:
        running.set_params(max_ifo=passes_before(n_assets) * (2 * problem.n_inner + problem.n_outer))
    with warnings.catch_warnings(record=True) if handing else nullcontext([]) as said:
        if staged:
            result, gap = run_in_stages(run, running, problem, x0)
        else:
            result = run(running, problem, x0, first_residual=first_residual)
            gap = slope_gap(problem, penalty, result.x)
    first_residual = result.state.first_residual
    if handing:
        result, gap, ends_well = finish_by_newton(result, gap, problem, penalty, solver.tol)
    elif gap > 0:
        gap = dual_gap(problem, penalty, problem.weights_of(result.x), gap)
    for warning in () if ends_well else said:
        warn(str(warning.message), warning.category)
    portfolio.dual_gap_ = gap
    validate_data(portfolio, X, skip_check_array=True)  # stores the names and the number of the assets
    portfolio.weights_ = problem.weights_of(result.x).astype(dtype, copy=False)
    portfolio._tol_is_of = fit.progress, first_residual
    portfolio._keep(solver, result, fit)
    fit.end()
    if ends_well:
        return
    if handing and not said and result.stop_reason == StopReason.MAX_ITER:
        warn_of_newton(result, gap, solver.tol)
        return
    if staged and result.stop_reason != StopReason.INTERRUPTED:
        warn_of_a_gap(result, portfolio.dual_gap_, solver.tol)
        return
    portfolio._conclude(solver, result)
    if problem.penalty is None and portfolio.risk_measure == "variance" and result.stop_reason == StopReason.CONVERGED:
        warn_of_a_flat_direction(problem, result.x, result.fun, solver.tol)
