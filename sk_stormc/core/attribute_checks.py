"""Validation of a problem's attributes before it is evaluated."""

import math

import numpy as np

from sk_stormc.core.advice import Advice
from sk_stormc.core.penalties import check_penalty
from sk_stormc.core.preconditioners import Preconditioner, check_preconditioner
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import Source
from sk_stormc.utils.parameters import is_integer, is_real, short


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

    def must_be(expected, name, good):
        value = getattr(problem, name, None)
        require(good, problem, name, f"must be {expected}, got {short(value)}")

    for name in ("n_inner", "n_outer", "n_variables", "n_blocks"):
        value = getattr(problem, name, None)
        must_be("a positive int", name, is_integer(value) and value > 0)
    d, k = problem.n_variables, problem.n_blocks
    require(d % k == 0, problem, "n_blocks", f"must divide n_variables={d}, got {k}")
    known = problem.jacobian_kind in ("sampled", "constant", "operator")
    must_be("sampled, constant or operator", "jacobian_kind", known)
    floor = problem.inner_floor
    finite = floor is None or (is_real(floor) and math.isfinite(floor))
    must_be("a finite number or None", "inner_floor", finite)
    expected = "None or a Source, such as FiniteSource(n_inner, n_outer)"
    must_be(expected, "source", isinstance(problem.source, Source | None))
    expected = "an Advice, such as Advice(batch_size=None)"
    must_be(expected, "advice", isinstance(problem.advice, Advice))
    own = type(problem).__name__
    check_penalty(problem.penalty, d, f"{own}.penalty:")
    given = problem.preconditioner
    if given is not None and not isinstance(given, Preconditioner):
        expected = "None, an array of numbers or a Preconditioner"
        must_be(expected, "preconditioner", isinstance(given, np.ndarray))
        check_preconditioner(f"{own}.preconditioner:", given, d)
