"""Which ends of a run are worth a warning: those above the start, or above a recorded point by a notable part."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SCGD
from sk_stormc.engine.ends import falls_for_ever, warn_of_the_end
from sk_stormc.engine.watch import Watch
from sk_stormc.penalties import Box
from sk_stormc.problems import Advice
from sk_stormc.solvers import StopReason


def told(fun, curve, tol=1e-6, dtype=float):
    """What is said of a run with these recorded values, which a callback ended at ``fun``."""
    result = SimpleNamespace(
        x=np.zeros(2, dtype), fun=fun, loss_curve=np.array(curve), n_iter=5, stop_reason=StopReason.CALLBACK
    )
    warn_of_the_end(SCGD(tol=tol), SimpleNamespace(problem=None), result, Watch(), unlimited=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, -1.0, 1e6, -1e-6])
def test_an_end_above_the_start_is_told_unless_it_is_rounding(size, dtype, recwarn):
    unit = float(np.finfo(dtype).eps) * abs(size)
    told(size + 4 * unit, [size, size], dtype=dtype)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="above the start's"):
        told(size + 16 * unit, [size, size], dtype=dtype)


@pytest.mark.parametrize(("tol", "part"), [(1e-6, 1e-4), (0.1, 0.1)])
def test_an_end_above_a_recorded_point_is_told_where_it_is_a_notable_part_of_the_way(tol, part, recwarn):
    start, best = 5.0, 3.0
    told(best + 0.9 * part * (start - best), [start, best], tol)
    assert not recwarn
    with pytest.warns(ConvergenceWarning, match="above one that it had recorded, 3"):
        told(best + 1.1 * part * (start - best), [start, best, 4.0], tol)


def falls(objective, way=1.0, penalty=None):
    """Whether the objective is said to fall for ever by a run that came from 3 to 3 + way."""
    problem = SimpleNamespace(advice=Advice(), penalty=penalty, objective=objective)
    x = np.array([3.0 + way])
    return falls_for_ever(problem, SimpleNamespace(milestones=(np.array([3.0]), x)), x, objective(x))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_whether_an_objective_falls_for_ever_does_not_depend_on_its_unit(unit):
    assert falls(lambda x: -unit * x[0])
    assert not falls(lambda x: -unit * np.tanh(x[0]))
    assert not falls(lambda x: unit * (1e-9 * x[0] ** 2 - x[0]))  # turns up a thousand million steps away
    assert not falls(lambda x: -unit * x[0], way=5e-15)  # rounding
    assert not falls(lambda x: -unit * x[0], penalty=Box(0, 1000))


def test_a_run_too_short_to_have_been_anywhere_says_nothing_of_what_is_far():
    problem = SimpleNamespace(advice=Advice(), penalty=None, objective=lambda x: -x[0])
    assert not falls_for_ever(problem, SimpleNamespace(milestones=(None, None)), np.ones(1), -1.0)
