"""When a fit of few assets goes on by the second-order method, and what is known of how far the minimum is."""

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

PATIENCE = 60  # iterations on all periods of "storm-c" before a fit of few assets goes on by Newton's method
FEWEST = 10  # passes of it over more periods than are few
CAREFUL = 0.01  # part of the spread that the gap of a tail risk is compared with
TRACKING = 0.01  # of a benchmark's deviation: less need not be told from 0
ROUNDING = 1e-12  # of the objective's size: no smaller gap can be told from 0
ROWS = 1024  # whose products are summed at a time
OVER = (StopReason.INTERRUPTED, StopReason.CALLBACK)


def hands_over(solver, problem, penalty):
    """Whether a fit is one that goes on by Newton's method where the solver has not come to an end.

    The solver is "storm-c", with no budget, learning rate or batch size of the user's and a tolerance above 0; the
    assets are few, the returns in memory, and the objective is not known to have no minimum.
    """
    unbroken = is_free(solver) and solver.max_iter is None and solver.max_ifo is None and solver.tol
    return bool(unbroken) and can_solve(problem.returns, penalty) and not problem.unbounded_below()


def passes_before(n_assets):
    """Passes of "storm-c" over many periods before a fit goes on by Newton's method.

    They take about as long as the iterations of that: a pass grows with the number of assets, these with its square.
    """
    return max(FEWEST, n_assets // 6)


def is_free(solver):
    """Whether a solver is the default one, with automatic steps and batches."""
    automatic = type(solver) is SOLVERS["storm-c"]
    return automatic and all(isinstance(value, str) for value in (solver.learning_rate, solver.batch_size))


def in_memory(problem, penalty, solver, objective=None):
    """Raise a ValueError where Newton's method cannot take the data or the penalty, or another method is asked for."""
    returns, instead = problem.returns, "take solver='newton', or the default, which hands over to it"
    if problem.ordered:
        objective = "risk_measure='cdar', as a drawdown depends on all periods before it and is no average of samples"
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
    """What gaps are measured by: how far equal weights are above w, or the risk of w about its mean if that is more.

    It depends on neither the unit of the returns nor a shift of them, nor on assets that do not vary.
    """
    equal = np.full(len(w), 1 / len(w))
    if penalty is not None:
        equal = penalty.project(equal)
    y = np.asarray(problem.returns @ w, float)
    deviation = deviation_of(y, problem.weights)
    if isinstance(penalty, Limited) and penalty.active:  # where the benchmark itself is best there is no risk
        deviation = max(deviation, TRACKING * float(np.std(problem.returns[:, -1])))
    risk = problem._price * deviation**2 if MEASURES[problem.risk_measure].power == 2 else deviation
    return max(problem.value_at(equal) - problem.value_at(w), risk)


def by_newton(problem, penalty, tol, solver="newton"):
    """The fit of ``solver="newton"``, or of another that hands over: the result of a run, and the gap."""
    in_memory(problem, penalty, solver)
    return solved(problem, penalty, tol)


def solved(problem, penalty, tol):
    """The result of a run of Newton's method, and the gap."""
    start = np.full(problem.returns.shape[1], 1 / problem.returns.shape[1])
    start = np.zeros_like(start) if penalty is None else penalty.project(start)
    found = solve_portfolio(problem, penalty, start)
    return _result(problem, penalty, tol, start, found, *_charged(problem, found.n_iter)), found.gap


def by_moments(problem, penalty, tol, solver="moments"):
    """The fit of ``solver="moments"``, for the variance: all periods are read once."""
    if problem.risk_measure != "variance":
        raise ValueError(
            "solver='moments' fits risk_measure='variance', of which moments say all, and learns the others in "
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
    """A result that goes on by Newton's method where it has not converged or its gap is not small.

    Returns
    -------
    result : SolverResult
    gap : float
    done : bool
        Whether the gap is small now, which leaves nothing to warn of.
    """
    w = problem.weights_of(result.x)
    size = spread(problem, penalty, w)
    # where weights may go on without end the gap is known near w only; of the variance alone all is known
    endless = bool(np.isneginf(Limits.of(penalty, len(w)).low).any())
    plain = penalty is None and problem.risk_measure == "variance"
    near_only = endless and not (plain and flat_direction(problem, result.x, result.fun, tol) is None)
    converged = result.stop_reason == StopReason.CONVERGED and not near_only
    # the stages of a tail risk end at a gap that is small beside the risk, which may be all that can be gained
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
        return result, gap, True  # nothing better was found than where the method had come to its end
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
    """Warn where Newton's method, too, has ended with a gap above tol."""
    if result.stop_reason == StopReason.MAX_ITER:
        warn(
            f"CompositionalPortfolio has not converged: after {result.n_iter} iterations the objective "
            f"{result.fun:.6g} may be above its minimum by up to {gap:.2g}, where tol={tol:g} of its spread was asked "
            "for. Add bounds or a budget, or raise tol.",
            ConvergenceWarning,
        )


def _result(problem, penalty, tol, start, found, ifo, evaluations):
    """That of a run from a `NewtonFit`."""
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
    """IFO and evaluations of iterations that take all components twice, for the gradient and for the Hessian."""
    m, n = problem.n_inner, problem.n_outer
    return 2 * n_iter * (2 * m + n), {"inner": 2 * n_iter * m, "jacobian": 2 * n_iter * m, "outer": 2 * n_iter * n}
