"""The stages of a tail risk, with runs and bounds that are told: when there is another, and what is said of them."""

import numpy as np
import pytest

from sk_stormc import STORMCompositional
from sk_stormc.engine.results import changed
from sk_stormc.penalties import Simplex
from sk_stormc.portfolio.steps import run_in_stages
from sk_stormc.problems import PortfolioProblem

TOL = 1e-4
R = np.random.default_rng(0).standard_t(3, (60, 3)) * 0.01 + 0.001


def staged(reasons, gaps, **budget):
    """The result, its gap in units of tol, and the widths of the stages.

    Stage k ends for reasons[k] and leaves a gap of gaps[k] times tol; after the last named, stages are as the last.
    """
    problem, widths = PortfolioProblem(R, risk_measure="cvar", penalty=Simplex()), []

    def told(values):
        return values[min(len(widths), len(values)) - 1]

    class Told(type(problem)):
        def bounds(self, x):
            return -1.0, -1.0 - told(gaps) * TOL

    def run(solver, problem, x):
        widths.append(problem.width)
        return changed(solver.set_params(max_iter=2, batch_size=8).solve(problem, x, random_state=0),
                       stop_reason=told(reasons))

    problem.__class__ = Told
    result, gap = run_in_stages(run, STORMCompositional(tol=TOL, **budget), problem, None)
    return result, gap / TOL, np.array(widths)


def test_a_stage_is_followed_by_another_until_the_gap_is_well_below_tol():
    result, gap, widths = staged(["converged"], [50, 2, 0.9, 0.31, 0.29, 0.1])
    assert len(widths) == 5 and gap == pytest.approx(0.29)
    assert (widths[1:] <= widths[:-1] / 2).all()
    assert result.stop_reason == "converged"


@pytest.mark.parametrize("limit", ["max_iter", "max_ifo"])
def test_where_stages_are_slow_a_gap_of_tol_is_enough(limit):
    result, gap, widths = staged([limit], [50, 2, 0.9, 0.31, 0.29])
    assert len(widths) == 3 and gap == pytest.approx(0.9)
    assert result.stop_reason == "converged"  # the bound says so, whatever ended the stage


@pytest.mark.parametrize("reason, said", [("converged", "max_iter"), ("max_iter", "max_iter"), ("max_ifo", "max_ifo")])
def test_stages_end_and_a_gap_that_stays_is_no_success(reason, said):
    result, gap, widths = staged([reason], [50])
    assert 5 < len(widths) < 20 and gap == pytest.approx(50)
    assert result.stop_reason == said


@pytest.mark.parametrize("reason", ["interrupted", "non_finite", "callback"])
def test_a_stage_that_was_broken_off_is_the_last(reason):
    result, gap, widths = staged(["converged", reason], [50, 0.1])
    assert len(widths) == 2 and result.stop_reason == reason


def test_bounds_of_earlier_stages_stay():
    result, gap, widths = staged(["converged"], [50, 2, 40, 0.2])
    assert len(widths) == 4
    result, gap, widths = staged(["converged", "converged", "interrupted"], [50, 2, 40])
    assert gap == pytest.approx(2)


def test_a_budget_is_that_of_all_stages_together():
    result, gap, widths = staged(["converged"], [50], max_iter=7)
    assert len(widths) == 4 and result.n_iter == 8  # stages of two
    for records in (result.ifo, result.record_iterations):
        assert (np.diff(records) > 0).all()
    assert result.record_iterations[-1] == result.n_iter
