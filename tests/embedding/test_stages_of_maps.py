"""A map that is finished, and goes on: with a larger max_iter."""

import pickle

import numpy as np
import pytest
from helpers import few_of
from sklearn.base import clone
from sklearn.datasets import load_digits

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.callbacks import Checkpoint, TimeLimit
from sk_stormc.embedding.stages import Lines, further_stages, new_stages, run_stages
from sk_stormc.engine.results import SolverResult
from sk_stormc.problems import SNEProblem

DIGITS = load_digits().data[:500]

pytestmark = pytest.mark.filterwarnings("ignore:the map was still:sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("kernel, d", few_of([("student-t", 2), ("gaussian", 3)], 0))
def test_resume_with_a_larger_max_iter_goes_on_with_the_map(kernel, d):
    short = SNEEmbedding(d, kernel=kernel, perplexity=15, max_iter=30, random_state=0).fit(DIGITS)
    long = clone(short).set_params(max_iter=100).fit(DIGITS)
    again = pickle.loads(pickle.dumps(short))
    gone_on = short.set_params(max_iter=100).resume(DIGITS)
    assert gone_on.n_iter_ == gone_on.record_iterations_[-1] == 100
    assert long.kl_divergence_ < again.kl_divergence_
    # most of what the longer fit gains
    assert gone_on.kl_divergence_ < long.kl_divergence_ + 0.25 * (again.kl_divergence_ - long.kl_divergence_)
    kept = len(again.loss_curve_)
    np.testing.assert_array_equal(gone_on.loss_curve_[:kept], again.loss_curve_)
    assert len(gone_on.loss_curve_) == len(gone_on.ifo_) == len(gone_on.record_iterations_) > kept
    assert (np.diff(gone_on.ifo_) > 0).all() and (np.diff(gone_on.record_iterations_) > 0).all()
    np.testing.assert_array_equal(again.set_params(max_iter=100).resume(DIGITS).embedding_, gone_on.embedding_)
    before = gone_on.embedding_
    np.testing.assert_array_equal(gone_on.resume(DIGITS).embedding_, before)  # there is nothing left to do


def test_a_fit_by_default_gets_more_iterations():
    model = SNEEmbedding(perplexity=15, random_state=0).fit(DIGITS)
    n_iter, divergence = model.n_iter_, model.kl_divergence_
    model.set_params(max_iter=n_iter + 40).resume(DIGITS)
    assert model.n_iter_ == n_iter + 40 and model.kl_divergence_ < divergence
    with pytest.raises(ValueError, match=f"^max_iter must be at least {n_iter + 40} for resume, got {n_iter}"):
        model.set_params(max_iter=n_iter).resume(DIGITS)
    assert model.n_iter_ == n_iter + 40


def test_a_file_knows_what_the_stages_were_to_be(tmp_path):
    saved = Checkpoint(tmp_path / "map.npz")
    model = SNEEmbedding(perplexity=15, max_iter=20, random_state=0)
    whole = clone(model).fit(DIGITS)
    clone(model).set_callbacks(saved, TimeLimit(0)).fit(DIGITS)  # it ends after its first pass
    found = clone(model).set_callbacks(saved).resume(DIGITS)
    np.testing.assert_array_equal(found.embedding_, whole.embedding_)
    clone(model).set_callbacks(saved, TimeLimit(0)).fit(DIGITS)
    longer = clone(model).set_params(max_iter=40).set_callbacks(saved).resume(DIGITS)
    np.testing.assert_array_equal(longer.embedding_, whole.set_params(max_iter=40).resume(DIGITS).embedding_)


class Runs:
    """A fit whose runs end at given values of the objective."""

    has_callbacks = False

    def __init__(self, *ends):
        self.ends, self.begun = list(ends), []

    def run(self, solver, problem, x, **kwargs):
        self.begun.append(x[0])
        fun = self.ends.pop(0)
        return SolverResult(
            x=np.full_like(x, fun),
            fun=fun,
            loss_curve=np.array([9.0, fun]),
            ifo=np.array([0, 10]),
            record_iterations=np.array([0, solver.max_iter]),
            n_evaluations={"inner": 10},
            n_iter=solver.max_iter,
            n_guarded=0,
            stop_reason="max_iter",
        )


def test_a_map_that_more_iterations_make_worse_stays():
    problem = SNEProblem(perplexity_affinities(DIGITS[:60], 5), 2, kernel="student-t", n_iter=10)
    solver = STORMCompositional(max_iter=30, tol=0.0)
    plan = further_stages(further_stages(new_stages(10, 1.0), 20), 30)
    assert [(stage.n_iter, stage.on) for stage in plan] == [(10, False), (10, True), (10, True)]
    fit = Runs(5.0, 6.0, 4.0)
    _, result = run_stages(plan, fit, problem, np.zeros(120), solver, dict, Lines(0))
    assert fit.begun == [0, 5, 5]  # the third begins where the first ended
    assert (result.fun, result.n_iter, result.ifo[-1]) == (4.0, 20, 20)
    np.testing.assert_array_equal(result.loss_curve, [9, 5, 4])
    plan[1].asked = True  # what a user asks for is done
    fit = Runs(5.0, 6.0, 4.0)
    _, result = run_stages(plan, fit, problem, np.zeros(120), solver, dict, Lines(0))
    assert result.n_iter == 30 and fit.begun == [0, 5, 6]
