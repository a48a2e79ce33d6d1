"""Validation of a problem's attributes before it is evaluated, and of Jacobians, which
must be plain data."""

import copyreg
import io
import math
import pickle

import numpy as np

from sk_stormc.core.advice import Advice
from sk_stormc.core.metrics import Metric
from sk_stormc.core.penalties import check_penalty
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import Source
from sk_stormc.utils.validation import check_metric, is_integer, is_real, short

__all__ = ["check_attributes", "require", "require_plain"]


def require(good, problem, name, message):
    """Raise a ValueError that names the problem's class and the method or attribute,
    unless ``good``."""
    if not good:
        raise ValueError(f"{type(problem).__name__}.{name}: {message}")


def check_attributes(problem):
    """Check the attributes of a problem before it is evaluated."""
    if not isinstance(problem, CompositionalProblem):
        raise ValueError(
            f"problem must be a CompositionalProblem, got {short(problem)}"
        )
    for name in ("n_inner", "n_outer", "n_variables", "n_blocks"):
        value = getattr(problem, name, None)
        good = is_integer(value) and value > 0
        require(good, problem, name, f"must be a positive int, got {short(value)}")
    d = problem.n_variables
    k = problem.n_blocks
    kind = problem.jacobian_kind
    floor = problem.inner_floor
    require(d % k == 0, problem, "n_blocks", f"must divide n_variables={d}, got {k}")
    good = kind in ("sampled", "constant", "operator")
    require(
        good,
        problem,
        "jacobian_kind",
        f"must be sampled, constant or operator, got {short(kind)}",
    )
    good = floor is None or (is_real(floor) and math.isfinite(floor))
    require(
        good,
        problem,
        "inner_floor",
        f"must be a finite number or None, got {short(floor)}",
    )
    source, advice = problem.source, problem.advice
    good = source is None or isinstance(source, Source)
    example = "FiniteSource(n_inner, n_outer)"
    require(
        good,
        problem,
        "source",
        f"must be None or a Source, such as {example}, got {short(source)}",
    )
    good = isinstance(advice, Advice)
    require(
        good,
        problem,
        "advice",
        f"must be an Advice, such as Advice(batch_size=None), got {short(advice)}",
    )
    own = type(problem).__name__
    check_penalty(problem.penalty, d, f"{own}.penalty:")
    if problem.metric is not None and not isinstance(problem.metric, Metric):
        good = isinstance(problem.metric, np.ndarray)
        require(
            good,
            problem,
            "metric",
            "must be None, an array of numbers or a Metric, got "
            f"{short(problem.metric)}",
        )
        check_metric(f"{own}.metric:", problem.metric, d)


def _refuse(problem):
    raise pickle.PicklingError("it refers to the problem")


def require_plain(problem, J):
    """Raise a ValueError if a Jacobian cannot be pickled, or refers to the problem."""
    pickler = pickle.Pickler(file := io.BytesIO())
    pickler.dispatch_table = copyreg.dispatch_table | {type(problem): _refuse}
    try:
        pickler.dump(J)
        pickle.loads(file.getvalue())
    except Exception as error:  # the user's objects may raise anything
        raise ValueError(
            f"{type(problem).__name__}.jacobian: must return plain data, {error}"
        ) from error
