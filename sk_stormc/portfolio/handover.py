"""The second-order fits of `CompositionalPortfolio`, and when "storm-c" hands over to them."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import SolverResult, changed, outcome
from sk_stormc.portfolio.collinear import flat_direction
from sk_stormc.portfolio.feasible import refuse_limits
from sk_stormc.portfolio.limits import Limited, Limits
from sk_stormc.portfolio.newton import can_solve, solve_portfolio
from sk_stormc.portfolio.problem import deviation_of
from sk_stormc.portfolio.quadratic import solve_quadratic
from sk_stormc.portfolio.risk_measures import MEASURES, is_proportional
from sk_stormc.portfolio.sums import Sums
from sk_stormc.solvers import SOLVERS, StopReason
from sk_stormc.utils.warnings import warn

__all__ = [
    "PATIENCE",
    "by_moments",
    "by_newton",
    "finish_by_newton",
    "hands_over",
    "passes_before",
    "solved",
    "spread",
    "warn_of_newton",
]

PATIENCE = 60  # full-batch iterations of "storm-c" before a fit of few periods hands over
FEWEST = 10  # smallest number of passes of "storm-c" before a fit of many periods hands over
CAREFUL = 0.01  # fraction of the spread that the gap of a tail risk is compared with
TRACKING = 0.01  # fraction of a benchmark's standard deviation below which a tracking error counts as 0
ROUNDING = 1e-12  # rounding error of the objective, relative to its size
ROWS = 1024  # rows of a block whose products are summed
OVER = (StopReason.INTERRUPTED, StopReason.CALLBACK)


def hands_over(solver, problem, penalty):
    """Whether a fit continues with Newton's method if the solver has not converged.

    The solver must be "storm-c" with a positive tolerance, and the user has set no budget, learning rate or batch size.
    There are few assets, the returns are in memory, and the objective is not known to be unbounded below.
    """
    unbroken = is_free(solver) and solver.max_iter is None and solver.max_ifo is None and solver.tol
    return bool(unbroken) and can_solve(problem.returns, penalty) and not problem.unbounded_below()


def passes_before(n_assets):
    """Passes of "storm-c" over many periods before a fit continues with Newton's method.

    They take about as long as Newton's iterations. The cost of a pass is linear in the number of assets, and the cost
    of an iteration is quadratic.
    """
    return max(FEWEST, n_assets // 6)


def is_free(solver):
    """Whether a solver is the default one, with automatic steps and batches."""
    automatic = type(solver) is SOLVERS["storm-c"]
    return automatic and all(isinstance(value, str) for value in (solver.learning_rate, solver.batch_size))


def in_memory(problem, penalty, solver, objective=None):
    """Raise a ValueError if Newton's method does not support the data or the penalty, or the solver is another one."""
    returns, instead = problem.returns, "take solver='newton', or the default, which hands over to it"
    if problem.ordered:
        objective = "risk_measure='cdar', as a drawdown depends on all earlier periods and is not an average of samples"
    if objective is not None and solver != "newton" and not is_free(solver):
        raise ValueError(f"solver={solver!r} cannot be used with {objective}: {instead}")
    asked = "solver='newton'"
    if isinstance(penalty, Limited):
        asked = " and ".join(penalty.parameters())
        if solver != "newton" and not is_free(solver):
            refuse_limits(penalty, f"solver={solver!r}", instead)
    if not can_solve(returns, penalty):
        raise ValueError(
            f"{asked} takes at most 500 assets whose returns are an array in memory of at most 2**26 numbers, "
            f"got {type(returns).__name__} of shape {returns.shape}: use solver='storm-c'"
            + " without" * (asked != "solver='newton'")
        )


def spread(problem, penalty, w):
    """The scale of the duality gap: the objective of equal weights minus that of w, or the risk of w if that is more.

    A gap relative to this scale does not depend on the unit of the returns, on a shift of them, or on constant assets.
    """
    equal = np.full(len(w), 1 / len(w))
    if penalty is not None:
        equal = penalty.project(equal)
    y = np.asarray(problem.returns @ w, float)
    deviation = deviation_of(y, problem.weights)
    if isinstance(penalty, Limited) and penalty.active:  # the risk is 0 if the benchmark itself is the best portfolio
        deviation = max(deviation, TRACKING * float(np.std(problem.returns[:, -1])))
    risk = problem._price * deviation**2 if MEASURES[problem.risk_measure].power == 2 else deviation
    return max(problem.value_at(equal) - problem.value_at(w), risk)


def by_newton(problem, penalty, tol, solver="newton"):
    """Fit by Newton's method, for ``solver="newton"`` or another that hands over. Return the result and the gap."""
    in_memory(problem, penalty, solver)
    return solved(problem, penalty, tol)


def solved(problem, penalty, tol):
    """Run Newton's method. Return the result and the gap."""
    start = np.full(problem.returns.shape[1], 1 / problem.returns.shape[1])
    start = np.zeros_like(start) if penalty is None else penalty.project(start)
    found = solve_portfolio(problem, penalty, start)
    return _result(problem, penalty, tol, start, found, *_charged(problem, found.n_iter)), found.gap


def by_moments(problem, penalty, tol, solver="moments"):
    """Fit by ``solver="moments"``, for the variance, in one pass. Return the result and the gap."""
    if problem.risk_measure != "variance":
        raise ValueError(
            "solver='moments' can fit risk_measure='variance' only, which moments determine, and learns the others in "
            f"partial_fit only, got {problem.risk_measure!r}: use solver='newton' or 'storm-c'"
        )
    n, sums = problem.n_inner, Sums.none(problem.n_variables)
    for i in range(0, n, ROWS):
        p = None if problem.weights is None else problem.weights[i : i + ROWS]
        sums = sums.plus(Sums.of(problem.returns[i : i + ROWS].astype(float), p))
    start = np.zeros(problem.n_variables)
    start = start if penalty is None else penalty.project(start)
    found = solve_quadratic(problem._gain * sums.mean, problem._price * sums.covariance(), penalty, start)
    evaluations = {"inner": n, "jacobian": n, "outer": n}
    return _result(problem, penalty, tol, start, found, 3 * n, evaluations), found.gap


def finish_by_newton(result, gap, problem, penalty, tol):
    """Continue from a result with Newton's method if it has not converged or its gap is not small.

    Returns
    -------
    result : SolverResult
    gap : float
    done : bool
        Whether no warning is needed.
    """
    w = problem.weights_of(result.x)
    size = spread(problem, penalty, w)
    # with weights without a bound the gap is known near w only, except for the variance without a penalty
    endless = bool(np.isneginf(Limits.of(penalty, len(w)).low).any())
    plain = penalty is None and problem.risk_measure == "variance"
    near_only = endless and not (plain and flat_direction(problem, result.x, result.fun, tol) is None)
    converged = result.stop_reason == StopReason.CONVERGED and not near_only
    # stricter, because the stages of a tail risk stop at a gap that is small relative to the risk
    strict = CAREFUL if is_proportional(problem.risk_measure) else 1.0
    if result.stop_reason in OVER or (converged and _small(gap, tol, strict * size, result.fun)):
        return result, gap, False
    starts = [np.asarray(w, float)] * bool(np.isfinite(w).all())
    starts += [np.zeros(len(w))] * (endless or not starts)
    starts = starts if penalty is None else [penalty.project(start) for start in starts]
    tried = [solve_portfolio(problem, penalty, start) for start in starts]
    found = min(tried, key=lambda one: (np.isnan(one.value), one.value))
    reason = _reason(found.gap, tol, spread(problem, penalty, found.weights), found.value)
    if reason != "converged" and result.stop_reason == "converged" and not found.value < result.fun:
        return result, gap, True  # Newton's method found nothing better
    made = sum(one.n_iter for one in tried)
    ifo, evaluations = _charged(problem, made)
    n_iter = result.n_iter + made
    result = changed(
        result,
        x=problem.start_at(found.weights),
        fun=found.value,
        n_iter=n_iter,
        loss_curve=np.append(result.loss_curve, found.value),
        ifo=np.append(result.ifo, result.ifo[-1] + ifo),
        record_iterations=np.append(result.record_iterations, n_iter),
        n_evaluations={kind: count + evaluations[kind] for kind, count in result.n_evaluations.items()},
        stop_reason=reason,
    )
    return result, found.gap, result.stop_reason == StopReason.CONVERGED


def warn_of_newton(result, gap, tol):
    """Warn if Newton's method has also ended with a gap above tol."""
    if result.stop_reason == StopReason.MAX_ITER:
        warn(
            f"CompositionalPortfolio has not converged: after {result.n_iter} iterations the objective "
            f"{result.fun:.6g} may be above its minimum by up to {gap:.2g}, where tol={tol:g} of its spread was asked "
            "for. Add bounds or a budget, or raise tol.",
            ConvergenceWarning,
        )


def _result(problem, penalty, tol, start, found, ifo, evaluations):
    """The `SolverResult` of a `NewtonFit`."""
    reason = _reason(found.gap, tol, spread(problem, penalty, found.weights), found.value)
    return SolverResult(
        x=problem.start_at(found.weights),
        fun=found.value,
        loss_curve=np.array([problem.value_at(start), found.value]),
        ifo=np.array([0, ifo]),
        record_iterations=np.array([0, found.n_iter]),
        n_evaluations=evaluations,
        residual=np.nan,
        n_guarded=0,
        state=None,
        **outcome(found.n_iter, reason),
    )


def _small(gap, tol, size, value):
    return abs(gap) <= max(tol, 1e-7) * size + ROUNDING * abs(value)


def _reason(gap, tol, size, value):
    return StopReason.CONVERGED if _small(gap, tol, size, value) else StopReason.MAX_ITER


def _charged(problem, n_iter):
    """IFO and evaluations of n_iter iterations. Each uses all components twice, for the gradient and the Hessian."""
    m, n = problem.n_inner, problem.n_outer
    return 2 * n_iter * (2 * m + n), {"inner": 2 * n_iter * m, "jacobian": 2 * n_iter * m, "outer": 2 * n_iter * n}
