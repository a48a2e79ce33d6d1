"""The records of results and fitted estimators, as curves."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sk_stormc.engine.results import Recorded
from sk_stormc.fitting.estimator import CompositionalEstimator
from sk_stormc.solvers import SOLVERS
from sk_stormc.utils.validation import short

__all__ = ["Curve", "grouped", "x_of", "y_of"]


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

    @classmethod
    def of_result(cls, result):
        """The curve of a `SolverResult`, or of a run of `compare_solvers`, which has
        more values."""
        if not isinstance(result, Recorded):
            raise ValueError(
                "results must be a SolverResult, a list of them, or a dict of results "
                "or lists of them, got "
                f"{short(result)}"
            )
        return cls._of(result.recorded())

    @classmethod
    def of_estimator(cls, estimator):
        """The curve of a fitted estimator of this package."""
        if not isinstance(
            estimator, CompositionalEstimator
        ) or "loss_curve_" not in vars(estimator):
            raise ValueError(
                "estimator must be a fitted estimator with loss_curve_ and ifo_, a "
                "list or a dict of them, got "
                f"{short(estimator)}"
            )
        return cls._of(estimator.recorded())

    @classmethod
    def _of(cls, fields):
        fields = fields | {
            name: np.asarray(fields[name], dtype=float) for name in ("ifo", "objective")
        }
        return cls(**fields | {"label": _solver_name(fields["label"])})


def _solver_name(name):
    """The name in `SOLVERS` of a class, or the argument itself."""
    return (
        next((key for key, solver in SOLVERS.items() if solver.__name__ == name), name)
        or "run"
    )


def grouped(name, given, curve_of):
    """Curves by label."""
    if isinstance(given, Mapping) and not isinstance(
        given, Recorded
    ):  # a result is a dict itself
        groups = {
            str(label): [
                curve_of(one)
                for one in (runs if isinstance(runs, (list, tuple)) else [runs])
            ]
            for label, runs in given.items()
        }
    else:
        groups = {}
        for one in given if isinstance(given, (list, tuple)) else [given]:
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
                "x='passes' needs pass_ifo, the IFO of a pass (2 n_inner + n_outer "
                f"of the problem): {curve.label!r} "
                "does not tell it"
            )
        return curve.ifo / pass_ifo
    values = {
        "ifo": curve.ifo,
        "seconds": curve.seconds,
        "iterations": curve.iterations,
    }[x]
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
    if y == "gap":
        return np.maximum(curve.objective - optimum, 0.0)
    if y == "gradient" and curve.gradient is None:
        raise ValueError(
            f"y='gradient' cannot be drawn: {curve.label!r} has no exact gradients; "
            "compare_solvers(..., gradient=True) records them"
        )
    return (
        curve.objective if y == "objective" else np.asarray(curve.gradient, dtype=float)
    )
