"""Runs of several solvers on one problem or within one estimator, for several seeds."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from sk_stormc.compare.measured_runs import MeasuredRuns
from sk_stormc.compare.table import ComparedRun, SolverComparison
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.engine import CompositionalSolver, StopReason
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.solvers import LBFGS, get_solver, minimize
from sk_stormc.utils.types import RandomState
from sk_stormc.utils.validation import check_bool, check_callable, check_int, check_number, is_word, seeded, short
from sk_stormc.utils.warnings import warn_of_an_optimum

__all__ = ["ComparedRun", "SolverComparison", "compare_solvers"]

GAPS = (1e-2, 1e-3, 1e-4)
EXACT = 1e-12  # tol of the run of L-BFGS that computes the optimum


def compare_solvers(
    problem_or_estimator: Any,
    solvers: Sequence[str | CompositionalSolver | tuple[str, str | CompositionalSolver]],
    X: Any = None,
    y: Any = None,
    *,
    n_seeds: int = 5,
    max_ifo: int | None = None,
    gaps: Sequence[float] = GAPS,
    optimum: float | None = None,
    gradient: bool = False,
    random_state: RandomState = None,
    progress: Any = None,
    **fit_params: Any,
) -> SolverComparison:
    """Run several solvers on one problem, or within one estimator, for several seeds.

    For each seed, all solvers are run one after the other. Their warnings are collected and shown with the table.

    Parameters
    ----------
    problem_or_estimator : CompositionalProblem or estimator
        The problem that is minimised, or an estimator of this package, whose clones are fitted with ``solver=...``.
    solvers : list of str, CompositionalSolver or (label, solver)
        Names, instances, or pairs of a label and one of these. Solvers that only the estimator has, such as "lstd" and
        "newton", are possible too.
    X, y : array-like, default=None
        Data for the estimator. They must be None for a problem.
    n_seeds : int, default=5
        Number of runs of each solver.
    max_ifo : int, default=None
        Maximum number of oracle calls (IFO) of each run. None means each solver's own limit.
    gaps : sequence of float, default=(1e-2, 1e-3, 1e-4)
        Gaps to the optimum, relative to the gap at the start. The table has the passes and the seconds to the first
        record with such a gap.
    optimum : float, default=None
        The smallest value of the objective. None means the best objective of all runs and of a run of L-BFGS with
        tol=1e-12, if L-BFGS can solve the problem. The budget of that run is the IFO of all other runs. If the problem
        is not convex, this is only the best known value. For embeddings, it is the best value of the runs.
    gradient : bool, default=False
        Whether to compute the norm of the exact gradient at all records. This takes as long as a pass for each record,
        and is not included in the seconds.
    random_state : int, RandomState instance or None, default=None
        Determines the seeds of the runs, which are the same for all solvers.
    progress : callable, default=None
        Function that is called with a description of the next step and the fraction of the work that is done.
    **fit_params
        Further arguments of ``fit``, such as ``next_X``, or of `minimize` for a problem, such as ``x0`` or ``tol``.

    Returns
    -------
    SolverComparison
        The runs, with ``table``, ``to_frame()`` and ``plot()``.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or if a solver cannot solve the problem. The message names the solver.

    Warns
    -----
    UserWarning
        If the objective of a run is below ``optimum``.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio, compare_solvers
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(1500, 8, mean=0.2, random_state=0)
    >>> portfolio = CompositionalPortfolio(tol=1e-6)
    >>> found = compare_solvers(portfolio, ["storm-c", "sarah-c", "lbfgs"], returns, n_seeds=2, random_state=0)
    >>> [row["solver"] for row in found.table if row["reached_0.0001"] == 2]
    ['storm-c', 'sarah-c', 'lbfgs']
    """
    check_int("n_seeds", n_seeds, low=1)
    check_int("max_ifo", max_ifo, low=1, words=(None,))
    check_number("optimum", optimum, words=(None,))
    check_bool("gradient", gradient)
    gaps = _check_gaps(gaps)
    check_callable("progress", progress, words=(None,))
    run_one = _runner(problem_or_estimator, X, y, fit_params, gradient)
    labelled = _labelled(solvers, problem_or_estimator, max_ifo)
    seeds = seeded(random_state).randint(np.iinfo(np.int32).max, size=n_seeds).tolist()
    done = 0
    runs: dict[str, list] = {label: [] for label in labelled}
    for seed in seeds:  # so that errors appear early, and a change of the machine's load affects all solvers
        for label, solver in labelled.items():
            if progress is not None:
                progress(f"{label}, seed {len(runs[label]) + 1} of {n_seeds}", done / (n_seeds * len(labelled)))
            runs[label].append(run_one(label, solver, seed))
            done += 1
    if progress is not None:
        progress("the optimum", 1.0)
    optimum = _optimum(optimum, runs, _has_many_minima(problem_or_estimator), run_one, seeds[0])
    return SolverComparison(runs, gaps, *optimum)


def _check_gaps(gaps):
    try:
        gaps = tuple(float(gap) for gap in gaps)
    except (TypeError, ValueError):
        raise ValueError(f"gaps must be a sequence of numbers between 0 and 1, got {short(gaps)}") from None
    for gap in gaps:
        check_number("gaps", gap, low=0, high=1, inclusive=False)
    return gaps


def _labelled(solvers, target, max_ifo):
    """New solvers by label."""
    if isinstance(solvers, (str, CompositionalSolver)) or not isinstance(solvers, (list, tuple)) or not solvers:
        raise ValueError(
            f"solvers must be a list of names, solvers or pairs (label, solver), got {short(solvers)}"
        )
    labelled, own = {}, target.own_solvers if isinstance(target, CompositionalEstimator) else ()
    for one in solvers:
        pair = isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str)
        label, solver = one if pair else (one if isinstance(one, str) else " ".join(repr(one).split()), one)
        if label in labelled:
            raise ValueError(f"solvers must have labels that differ, got {label!r} twice: give pairs (label, solver)")
        if not is_word(solver, *own):
            solver = get_solver(solver)
            if max_ifo is not None:
                if "max_ifo" not in solver.get_params(deep=False):
                    raise ValueError(f"max_ifo must be None for {label!r}, which has no such parameter, got {max_ifo}")
                solver.set_params(max_ifo=max_ifo)
            solver.validate()
        labelled[label] = solver
    return labelled


def _runner(target, X, y, fit_params, gradient):
    """The function of (label, solver, seed) that makes one run."""
    if isinstance(target, CompositionalEstimator):
        if X is None:
            raise ValueError(f"X must be given for {type(target).__name__}, got None")
        once = _fitted
    elif isinstance(target, CompositionalProblem):
        if X is not None or y is not None:
            raise ValueError(f"X and y must be None for a problem, got {short(X if X is not None else y)}")
        if not math.isfinite(target.n_inner + target.n_outer):
            raise ValueError("problem_or_estimator must not be a stream, whose runs have no common optimum")
        once = _minimized
    else:
        got = f"the class: give an instance, {target.__name__}(...)" if isinstance(target, type) else short(target)
        raise ValueError(f"problem_or_estimator must be a problem or an estimator of this package, got {got}")

    def run_one(label, solver, seed):
        measured = MeasuredRuns(keep_points=gradient)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                curves = once(target, solver, seed, X, y, fit_params, measured)
            except ValueError as error:
                raise ValueError(f"solver {label!r}: {error}") from error
        ifo, seconds = np.asarray(curves["ifo"]), measured.seconds_at(curves["ifo"])
        return ComparedRun(
            label=label,
            seed=seed,
            seconds=seconds,
            gradient_norm=measured.gradient_norms_at(ifo) if gradient else None,
            pass_ifo=measured.pass_ifo or int(ifo[-1]),
            warnings=tuple(str(w.message) for w in caught),
            **curves,
        )

    return run_one


def _minimized(problem, solver, seed, X, y, params, measured):
    result = minimize(problem, measured.instrument(solver), random_state=seed, **params)
    if result.stop_reason == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    names = ("loss_curve", "ifo", "record_iterations", "n_evaluations", "n_iter", "stop_reason")
    return {name: result[name] for name in names} | {"objective_label": "objective"}


def _fitted(estimator, solver, seed, X, y, params, measured):
    model = clone(estimator).set_params(solver=solver if isinstance(solver, str) else measured.instrument(solver))
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    with measured.timing():
        model.fit(X, y, **params)
    fitted = {name: vars(model)[f"{name}_"] for name in ("loss_curve", "ifo", "n_evaluations", "n_iter", "stop_reason")}
    iterations = model.recorded()["iterations"]
    fitted["record_iterations"] = measured.iterations_at(model.ifo_) if iterations is None else iterations
    return fitted | {"objective_label": model.objective_label}


def _has_many_minima(target):
    return target.many_minima if isinstance(target, CompositionalEstimator) else target.advice.many_minima


def _optimum(given, runs, many_minima, run_one, seed):
    """The optimum, from which gaps are measured, and a description of how it was determined."""
    everything = [run for seeds in runs.values() for run in seeds]
    best, label = min((float(np.nanmin(run.loss_curve)), run.label) for run in everything)
    if given is not None:
        warn_of_an_optimum(given, best, f"{label!r} has seen")
        return float(given), "what was given"
    if many_minima:  # L-BFGS would find one of them
        return best, f"the best of the runs, by {label!r}"
    budget = int(sum(run.ifo[-1] for run in everything))
    try:
        run = run_one("L-BFGS, for the optimum", LBFGS(tol=EXACT, max_ifo=budget), seed)
    except ValueError:
        return best, f"the best of the runs, by {label!r}; L-BFGS cannot take the problem"
    exact = float(np.nanmin(run.loss_curve))
    if exact < best:
        above = f"the best of the runs, by {label!r}, is {best - exact:.1e} above it"
        return exact, f"that of L-BFGS with tol={EXACT:g}; {above}"
    if exact == best:
        return best, f"that of L-BFGS with tol={EXACT:g} and the best of the runs, by {label!r}"
    return best, f"the best of the runs, by {label!r}; L-BFGS ended {exact - best:.1e} above it"
