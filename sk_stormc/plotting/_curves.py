"""The records of results and fitted estimators, as curves."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sk_stormc.engine.results import Recorded
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.solvers import SOLVERS
from sk_stormc.utils.parameters import is_list, short


@dataclass(frozen=True)
class Curve:
    """The values at the records of one run. None means that a value is unknown."""

    label: str
    ifo: np.ndarray
    objective: np.ndarray
    iterations: np.ndarray | None = None
    seconds: np.ndarray | None = None
    gradient: np.ndarray | None = None
    pass_ifo: int | None = None
    objective_label: str = "objective"


def curve_of_result(result):
    """The curve of a `SolverResult`, or of a run of `compare_solvers`, which has more
    values."""
    if not isinstance(result, Recorded):
        raise ValueError(
            "results must be a SolverResult, a list of them, or a dict of results or "
            f"lists of them, got {short(result)}"
        )
    return _curve(**result.recorded())


def curve_of_estimator(estimator):
    """The curve of a fitted estimator of this package."""
    if not isinstance(estimator, CompositionalEstimator) or not hasattr(
        estimator, "loss_curve_"
    ):
        raise ValueError(
            "estimator must be a fitted estimator with loss_curve_ and ifo_, a list or "
            f"a dict of them, got {short(estimator)}"
        )
    return _curve(**estimator.recorded())


def _curve(label, **fields):
    """A curve whose label is the name in `SOLVERS`, if it was that of a class."""
    names = {solver.__name__: name for name, solver in SOLVERS.items()}
    return Curve(names.get(label, label) or "run", **fields)


def _listed(given):
    return given if is_list(given) else [given]


def grouped(name, given, curve_of):
    """Curves by label."""
    # a result is a dict itself
    if isinstance(given, Mapping) and not isinstance(given, Recorded):
        groups = {
            str(label): [curve_of(one) for one in _listed(runs)]
            for label, runs in given.items()
        }
    else:
        groups = {}
        for one in _listed(given):
            curve = curve_of(one)
            groups.setdefault(curve.label, []).append(curve)
    if not groups or not all(groups.values()):
        raise ValueError(
            f"{name} must hold at least one run, and one for each label, got "
            f"{short(given)}"
        )
    return groups


def x_of(curve, x, pass_ifo):
    """The cost at the records. Raises ValueError if it is unknown."""
    if x == "passes":
        pass_ifo = pass_ifo or curve.pass_ifo
        if pass_ifo is None:
            raise ValueError(
                "x='passes' needs pass_ifo, the IFO of a pass (2 n_inner + n_outer of "
                f"the problem): {curve.label!r} does not tell it"
            )
        return np.asarray(curve.ifo, dtype=float) / pass_ifo
    values = getattr(curve, x)
    if values is None:
        instead = (
            "; compare_solvers records them" if x == "seconds" else ", use x='ifo'"
        )
        raise ValueError(
            f"x={x!r} cannot be drawn: {curve.label!r} has no {x} of its "
            f"records{instead}"
        )
    return np.asarray(values, dtype=float)


def y_of(curve, y, optimum):
    """The quantity ``y`` at the records. Raises ValueError if it is unknown."""
    values = curve.gradient if y == "gradient" else curve.objective
    if values is None:
        raise ValueError(
            f"y='gradient' cannot be drawn: {curve.label!r} has no exact gradients; "
            "compare_solvers(..., gradient=True) records them"
        )
    values = np.asarray(values, dtype=float)
    return np.maximum(values - optimum, 0.0) if y == "gap" else values
