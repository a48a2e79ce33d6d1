"""Runs of several solvers on one problem or within one estimator, for several seeds."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from sk_stormc.compare.comparison import ComparedRun, SolverComparison
from sk_stormc.compare.recorder import RunRecorder
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.engine import CompositionalSolver, StopReason
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.solvers import LBFGS, get_solver, minimize
from sk_stormc.utils.parameters import (
    check_bool,
    check_callable,
    check_instance,
    check_int,
    check_number,
    is_list,
    is_word,
    seeded,
    short,
)
from sk_stormc.utils.types import RandomState
from sk_stormc.utils.warnings import warn_of_an_optimum


def compare_solvers(
    problem_or_estimator: Any,
    solvers: Sequence[
        str | CompositionalSolver | tuple[str, str | CompositionalSolver]
    ],
    X: Any = None,
    y: Any = None,
    *,
    n_seeds: int | Sequence[int] = 5,
    max_ifo: int | None = None,
    gaps: Sequence[float] = (1e-2, 1e-3, 1e-4),
    optimum: float | None = None,
    gradient: bool = False,
    expectation: CompositionalProblem | None = None,
    random_state: RandomState = None,
    progress: Any = None,
    **fit_params: Any,
) -> SolverComparison:
    """Run several solvers on one problem, or within one estimator, for several seeds.

    For each seed, all solvers are run one after the other. Their warnings are collected
    and shown with the table.

    Parameters
    ----------
    problem_or_estimator : CompositionalProblem, estimator or callable
        The problem that is minimised, or an estimator of this package, whose clones are
        fitted with ``solver=...``, or a function of a seed that returns a new problem
        for each run, such as a stream. Streams need ``expectation``.
    solvers : list of str, CompositionalSolver or (label, solver)
        Names, instances, or pairs of a label and one of these. Solvers that only the
        estimator has, such as "lstd" and "newton", are possible too.
    X, y : array-like, default=None
        Data for the estimator. They must be None for a problem.
    n_seeds : int or sequence of int, default=5
        Number of runs of each solver, or the seeds of these runs.
    max_ifo : int, default=None
        Maximum number of oracle calls (IFO) of each run. None means each solver's own
        limit. Methods that only the estimator has are not limited.
    gaps : sequence of float, default=(1e-2, 1e-3, 1e-4)
        Gaps to the optimum, relative to the gap at the start. The table has the passes
        and the seconds to the first record with such a gap.
    optimum : float, default=None
        The smallest value of the objective. None means the best objective of all runs
        and of a run of L-BFGS with tol=1e-12, if L-BFGS can solve the problem. The
        budget of that run is the IFO of all other runs. If the problem is not convex,
        this is only the best known value. For embeddings, it is the best value of the
        runs.
    gradient : bool, default=False
        Whether to compute the norm of the exact gradient at all records. This takes as
        long as a pass for each record, and is not included in the seconds.
    expectation : CompositionalProblem, default=None
        The problem whose objective and gradient are computed at the records, if it is
        another one than the problem that is minimised: the expectation of a stream, or
        the problem of other data. The time is not included in the seconds. It must be
        None for an estimator.
    random_state : int, RandomState instance or None, default=None
        Determines the seeds of the runs, which are the same for all solvers.
    progress : callable, default=None
        Function that is called with a description of the next step and the fraction of
        the work that is done.
    **fit_params
        Further arguments of ``fit``, such as ``next_X``, or of `minimize` for a
        problem, such as ``x0`` or ``tol``.

    Returns
    -------
    SolverComparison
        The runs, with ``table``, ``to_frame()`` and ``plot()``.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or if a solver cannot solve the problem. The
        message names the solver.

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
    >>> found = compare_solvers(
    ...     portfolio,
    ...     ["storm-c", "sarah-c", "lbfgs"],
    ...     returns,
    ...     n_seeds=2,
    ...     random_state=0,
    ... )
    >>> [row["solver"] for row in found.table if row["reached_0.0001"] == 2]
    ['storm-c', 'sarah-c', 'lbfgs']
    """
    check_int("max_ifo", max_ifo, low=1, words=(None,))
    check_number("optimum", optimum, words=(None,))
    check_bool("gradient", gradient)
    gaps = _check_gaps(gaps)
    check_callable("progress", progress, words=(None,))
    measured = _measured(problem_or_estimator, X, y, expectation)
    labelled = _labelled(solvers, problem_or_estimator, max_ifo)
    seeds = _seeds(n_seeds, random_state)
    run_one = partial(
        _run, problem_or_estimator, X, y, fit_params, gradient, expectation
    )
    runs: dict[str, list] = {label: [] for label in labelled}
    # seed by seed, so that errors appear early, and a change of the machine's load
    # affects all solvers
    steps = [(seed, label) for seed in seeds for label in labelled]
    for k, (seed, label) in enumerate(steps):
        if progress is not None:
            progress(
                f"{label}, seed {len(runs[label]) + 1} of {len(seeds)}", k / len(steps)
            )
        runs[label].append(run_one(label, labelled[label], seed))
    best, label = min(
        (float(np.nanmin(run.loss_curve)), run.label)
        for seeds in runs.values()
        for run in seeds
    )
    if optimum is not None:
        warn_of_an_optimum(optimum, best, f"{label!r} has seen")
        return SolverComparison(runs, gaps, float(optimum), "what was given")
    if progress is not None:
        progress("the optimum", 1.0)
    best_run = f"the best of the runs, by {label!r}"
    found = best, best_run
    if not _many_minima(measured):  # of which L-BFGS would find one
        run_lbfgs = partial(_run, measured, X, y, fit_params, False, None, "L-BFGS")
        found = _optimum(runs, best, best_run, run_lbfgs, seeds[0])
    return SolverComparison(runs, gaps, *found)


def _check_gaps(gaps):
    try:
        gaps = tuple(float(gap) for gap in gaps)
    except (TypeError, ValueError):
        raise ValueError(
            f"gaps must be a sequence of numbers between 0 and 1, got {short(gaps)}"
        ) from None
    for gap in gaps:
        check_number("gaps", gap, low=0, high=1, inclusive=False)
    return gaps


def _seeds(n_seeds, random_state):
    """The seeds of the runs: drawn, or those that are given."""
    n_seeds = n_seeds.tolist() if isinstance(n_seeds, np.ndarray) else n_seeds
    if not isinstance(n_seeds, (list, tuple, range)):
        check_int("n_seeds", n_seeds, low=1)
        rng = seeded(random_state)
        return rng.randint(np.iinfo(np.int32).max, size=n_seeds).tolist()
    if not n_seeds:
        raise ValueError(
            "n_seeds must be an integer >= 1 or a sequence of at least one seed, got "
            f"{n_seeds}"
        )
    for seed in n_seeds:
        check_int("n_seeds", seed, low=0)
    return list(n_seeds)


def _labelled(solvers, target, max_ifo):
    """New solvers by label."""
    if not is_list(solvers) or not solvers:
        raise ValueError(
            "solvers must be a list of names, solvers or pairs (label, solver), got "
            f"{short(solvers)}"
        )
    labelled = {}
    own = target.own_solvers if isinstance(target, CompositionalEstimator) else ()
    for one in solvers:
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
            label, solver = one
        else:
            label = one if isinstance(one, str) else " ".join(repr(one).split())
            solver = one
        if label in labelled:
            raise ValueError(
                f"solvers must have labels that differ, got {label!r} twice: give "
                "pairs (label, solver)"
            )
        if not is_word(solver, *own):
            solver = get_solver(solver)
            if max_ifo is not None:
                if "max_ifo" not in solver.get_params(deep=False):
                    raise ValueError(
                        f"max_ifo must be None for {label!r}, which has no such "
                        f"parameter, got {max_ifo}"
                    )
                solver.set_params(max_ifo=max_ifo)
            solver.validate()
        labelled[label] = solver
    return labelled


def _measured(target, X, y, expectation):
    """The problem whose objective is measured, or the estimator. Raise a ValueError for
    arguments that do not match."""
    name = type(target).__name__
    if isinstance(target, CompositionalEstimator):
        if X is None:
            raise ValueError(f"X must be given for {name}, got None")
        if expectation is not None:
            raise ValueError(
                f"expectation must be None for {name}, got {short(expectation)}"
            )
        return target
    is_problem = isinstance(target, CompositionalProblem)
    if isinstance(target, type) or not (is_problem or callable(target)):
        got = short(target)
        if isinstance(target, type):
            got = f"the class: give an instance, {target.__name__}(...)"
        raise ValueError(
            "problem_or_estimator must be a problem or an estimator of this package, "
            f"got {got}"
        )
    if X is not None or y is not None:
        raise ValueError(
            "X and y must be None for a problem, got "
            f"{short(X if X is not None else y)}"
        )
    if expectation is None and callable(target):
        raise ValueError(
            "expectation must be given for a function that returns problems, got None"
        )
    if expectation is not None:
        check_instance("expectation", expectation, CompositionalProblem)
    measured = target if expectation is None else expectation
    for problem in (measured, *[target] * (not callable(target))):
        if not math.isfinite(problem.n_inner + problem.n_outer):
            raise ValueError(
                "problem_or_estimator must not be a stream, whose runs have no common "
                "optimum: give a function of a seed that returns a stream, and its "
                "expectation"
            )
    return measured


def _run(target, X, y, params, gradient, expectation, label, solver, seed):
    """One run of a solver."""
    recorder = RunRecorder(keep_points=gradient or expectation is not None)
    solver = solver if isinstance(solver, str) else recorder.recording(solver)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if isinstance(target, CompositionalEstimator):
                fields = _fitted(target, solver, seed, X, y, params, recorder)
            else:
                fields = _minimized(target, solver, seed, params, expectation)
        except ValueError as error:
            raise ValueError(f"solver {label!r}: {error}") from error
    iterations, seconds, points = recorder.at(fields["ifo"])
    if fields["record_iterations"] is None:
        fields["record_iterations"] = iterations
    problem, norms = recorder.problem, None
    if expectation is not None:
        problem = expectation
        fields["loss_curve"] = np.array([problem.objective(x) for x in points])
    if gradient and points:
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.array([np.linalg.norm(problem.gradient(x)) for x in points])
    return ComparedRun(
        label=label,
        seed=seed,
        seconds=seconds,
        gradient_norm=norms,
        warnings=tuple(str(w.message) for w in caught),
        x=recorder.x,
        **fields,
    )


FIELDS = ("loss_curve", "ifo", "n_evaluations", "n_iter", "stop_reason")


def _minimized(target, solver, seed, params, expectation):
    """The fields of a run on a problem, or on the problem of the seed."""
    problem = target if isinstance(target, CompositionalProblem) else target(seed)
    result = minimize(problem, solver, random_state=seed, **params)
    if result.stop_reason == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    measured = problem if expectation is None else expectation
    fields = {name: result[name] for name in (*FIELDS, "record_iterations")}
    pass_ifo = 2 * measured.n_inner + measured.n_outer
    return fields | {"objective_label": "objective", "pass_ifo": pass_ifo}


def _fitted(estimator, solver, seed, X, y, params, recorder):
    """The fields of a fit."""
    model = clone(estimator).set_params(solver=solver)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    with recorder.timing_fit():
        model.fit(X, y, **params)
    recorded = model.recorded()
    fields = {name: vars(model)[f"{name}_"] for name in FIELDS}
    return fields | {
        "record_iterations": recorded["iterations"],
        "pass_ifo": recorded["pass_ifo"],
        "objective_label": recorded["objective_label"],
    }


def _many_minima(target):
    return (
        target.many_minima
        if isinstance(target, CompositionalEstimator)
        else target.advice.many_minima
    )


def _optimum(runs, best, best_run, run_lbfgs, seed):
    """The optimum, from which gaps are measured, and a description of how it was
    determined."""
    budget = int(sum(run.ifo[-1] for seeds in runs.values() for run in seeds))
    solver = LBFGS(tol=1e-12, max_ifo=budget)
    try:
        exact = float(np.nanmin(run_lbfgs(solver, seed).loss_curve))
    except ValueError:
        return best, f"{best_run}; L-BFGS cannot take the problem"
    if exact > best:
        return best, f"{best_run}; L-BFGS ended {exact - best:.1e} above it"
    others = f" and {best_run}"
    if exact < best:
        others = f"; {best_run}, is {best - exact:.1e} above it"
    return exact, f"that of L-BFGS with tol={solver.tol:g}{others}"
