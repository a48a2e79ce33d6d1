"""The methods (one file for each), the registry of their names, and `minimize`.

A method accesses a problem only through the oracle, which draws batches and counts
calls. The engine contains the building blocks of methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.engine import (
    CompositionalSolver,
    Record,
    RunState,
    SolverResult,
    StopReason,
)
from sk_stormc.engine.diagnostics import warn_if_flat
from sk_stormc.solvers.asc_pg import ASCPG, accelerated_scgd
from sk_stormc.solvers.automatic import AutomaticSTORM
from sk_stormc.solvers.civr import CIVR
from sk_stormc.solvers.corrected_sample import CorrectedSample
from sk_stormc.solvers.lbfgs import LBFGS
from sk_stormc.solvers.sarah import SARAHCompositional
from sk_stormc.solvers.scgd import SCGD
from sk_stormc.solvers.scvr import SCVR
from sk_stormc.solvers.sketchy import SketchySTORM
from sk_stormc.solvers.storm import PaperSTORMCompositional, STORMCompositional
from sk_stormc.solvers.vrsc_pg import VRSCPG
from sk_stormc.utils.parameters import check_callable
from sk_stormc.utils.types import RandomState, SolverName

__all__ = [
    "ASCPG",
    "CIVR",
    "LBFGS",
    "SCGD",
    "SCVR",
    "SOLVERS",
    "VRSCPG",
    "AutomaticSTORM",
    "CompositionalSolver",
    "CorrectedSample",
    "SARAHCompositional",
    "STORMCompositional",
    "SketchySTORM",
    "SolverResult",
    "StopReason",
    "get_solver",
    "minimize",
]

SOLVERS: dict[str, Callable[[], CompositionalSolver]] = {
    "storm-c": AutomaticSTORM,
    "storm-c-paper": PaperSTORMCompositional,
    "sarah-c": SARAHCompositional,
    "civr": CIVR,
    "vrsc-pg": VRSCPG,
    "scvr": SCVR,
    "scgd": SCGD,
    "acc-scgd": accelerated_scgd,
    "asc-pg": ASCPG,
    "lbfgs": LBFGS,
    "corrected-sample": CorrectedSample,
    "sketchy-storm": SketchySTORM,
}


def get_solver(solver: SolverName | CompositionalSolver) -> CompositionalSolver:
    """Get a new solver, by its name or as a clone of an instance.

    Parameters
    ----------
    solver : str or CompositionalSolver

    Returns
    -------
    CompositionalSolver

    Raises
    ------
    ValueError
        If the name is unknown (the message lists the valid names), or the object is not
        a solver.

    Examples
    --------
    >>> from sk_stormc.solvers import get_solver
    >>> get_solver("storm-c")
    AutomaticSTORM()
    """
    if isinstance(solver, CompositionalSolver):
        return clone(solver)
    if not isinstance(solver, str) or solver not in SOLVERS:
        got = repr(solver)
        if isinstance(solver, type) and issubclass(solver, CompositionalSolver):
            got = f"the class: give an instance, {solver.__name__}()"
        raise ValueError(
            f"solver must be a CompositionalSolver or one of {sorted(SOLVERS)}, got "
            f"{got}"
        )
    return SOLVERS[solver]()


REPLACEMENTS = {  # replacements of the arguments of scipy's minimize
    "method": "solver='storm-c', or another of sk_stormc.solvers.SOLVERS",
    "callback": "on_record=, a function of a record (iteration, ifo, fun, x), which "
    "stops the run by returning True",
    "options": "each option by itself: max_iter=, max_ifo=, tol=, verbose=",
    "maxiter": "max_iter=",
    "jac": "nothing: a problem has its own gradients",
    "hess": "nothing: no method here takes a Hessian",
    "hessp": "nothing: no method here takes a Hessian",
    "bounds": "penalty=Box(low, high) in the problem",
    "constraints": "penalty=Simplex() or Box(low, high, budget=...) in the problem",
    "args": "functools.partial, or a closure, in the problem's functions",
}


def _refuse_scipy_arguments(problem, solver, params):
    """Raise a TypeError for arguments of `scipy.optimize.minimize`, and name the
    replacement."""
    if callable(problem) and not isinstance(problem, type):
        raise TypeError(
            "problem must be a CompositionalProblem, got the function "
            f"{getattr(problem, '__name__', problem)!r}: make "
            "one with FiniteSumComposition(inner, inner_jacobian, ...); for a plain "
            "function there is scipy.optimize"
        )
    if solver is None or isinstance(solver, (np.ndarray, list, tuple)):
        raise TypeError(
            f"solver must be a name or a solver, got {solver!r}; a start is given as "
            "x0="
        )
    for name in params:
        if name in REPLACEMENTS:
            raise TypeError(f"minimize has no {name}=: give {REPLACEMENTS[name]}")


def minimize(
    problem: CompositionalProblem,
    solver: SolverName | CompositionalSolver = "storm-c",
    x0: Any = None,
    *,
    random_state: RandomState = None,
    state: RunState | None = None,
    record_every: int | None = None,
    on_record: Callable[[Record], object] | None = None,
    callbacks: Any = (),
    verbose: int = 0,
    **solver_params: Any,
) -> SolverResult:
    """Minimise a compositional problem.

    Parameters
    ----------
    problem : CompositionalProblem
    solver : str or CompositionalSolver, default="storm-c"
        A name ("storm-c", "storm-c-paper", "sarah-c", "civr", "vrsc-pg", "scvr",
        "scgd", "acc-scgd", "asc-pg", "lbfgs", "corrected-sample", "sketchy-storm") or
        an instance, which is cloned.
    x0 : array-like of shape (n_variables,) or pytree, default=None
        Starting point. None means the problem's own starting point. For a
        `DifferentiableComposition` it may have the structure of the problem's x0, and
        ``result.x`` has it then too.
    random_state : int, RandomState instance or None, default=None
        Seed for drawing batches. Results are bit-for-bit reproducible for a given seed.
    state : RunState, default=None
        The ``state`` of an earlier result, from which the run continues. Budgets count
        from the start of that run, and may change, as may ``tol`` and ``verbose``.
        Other parameters, x0 and random_state must be those of that run.
    record_every : int, default=None
        Number of oracle calls (IFO) between two records of ``loss_curve``. None means
        one pass over the data.
    on_record : callable, default=None
        Function that is called with each record, which has the attributes iteration,
        ifo, fun and x. The run stops when it returns a true value or raises
        StopIteration.
    callbacks : object or list of object, default=()
        Objects of `sk_stormc.callbacks`, functions of a record, or other objects with a
        method ``on_record(record)``, which may stop the run as ``on_record`` does, and
        optionally ``start_run()``.
    verbose : int, default=0
        If positive, print a line for each record: iteration, passes, objective, the
        quantity that is compared with tol, and seconds.
    **solver_params
        Parameters of the solver, e.g. ``max_ifo=60_000``, ``tol=0``, ``batch_size=16``.

    Returns
    -------
    SolverResult

    Raises
    ------
    ValueError
        If the solver or a parameter is unknown, a value is out of its range, or one
        differs from that of the run to continue.
    TypeError
        If an argument of `scipy.optimize.minimize` is given. The message names the
        replacement.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 5, random_state=0))
    >>> result = minimize(problem, "sarah-c", random_state=0, max_ifo=60_000)
    >>> bool(result.fun < result.loss_curve[0])
    True
    """
    _refuse_scipy_arguments(problem, solver, solver_params)
    solver = get_solver(solver).set_params(**solver_params)
    result = solver.solve(
        problem,
        x0,
        random_state=random_state,
        state=state,
        record_every=record_every,
        on_record=_with_callbacks(on_record, callbacks),
        verbose=verbose,
    )
    warn_if_flat(solver, problem, result)
    if x0 is not None and problem.ravel(x0) is not x0:
        result.x = problem.unravel(result.x)
    return result


def _with_callbacks(on_record, callbacks):
    """``on_record`` and the callbacks as one function of a record."""
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    functions = [getattr(callback, "on_record", callback) for callback in given]
    for callback, function in zip(given, functions, strict=True):
        if isinstance(callback, type) or not callable(function):
            raise ValueError(
                "callbacks must be functions of a record or have a method "
                f"on_record(record), got {callback!r}"
            )
    if not functions:
        return on_record
    check_callable("on_record", on_record, words=(None,))
    for callback in given:
        getattr(callback, "start_run", bool)()
    functions += [] if on_record is None else [on_record]
    # all are called
    return lambda record: sum([bool(function(record)) for function in functions])
