"""Maps of tight groups have a second early stage, and are rescaled after it."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding import stages
from sk_stormc.embedding.stages import PART, ROOM, STEP, has_tight_groups, rescaled
from sk_stormc.problems import SNEProblem

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS, LABELS = DIGITS[:1100], LABELS[:1100]  # enough for a mesh
N = len(DIGITS)


@pytest.fixture(scope="module")
def P():
    return perplexity_affinities(DIGITS, 10)


@pytest.fixture(scope="module")
def crowded(P):
    """A small map whose labels lie apart."""
    rng = np.random.default_rng(0)
    middles = rng.standard_normal((10, 2))
    return (middles[LABELS] + 0.1 * rng.standard_normal((N, 2)) + 3).astype(np.float32)


def test_the_width_is_somewhat_below_the_best(P, crowded):
    problem = SNEProblem(P, 2, kernel="student-t")
    points = rescaled(problem, crowded.ravel()).reshape(N, 2)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-4)
    factor = points.std(axis=0) / crowded.std(axis=0)
    assert factor[0] == pytest.approx(factor[1], rel=1e-5) and factor[0] > 1
    at_best = points / PART
    values = [problem.reported((at_best * by).ravel()) for by in (1 / STEP, 1, STEP)]
    assert values[1] < min(values[0], values[2])


@pytest.mark.parametrize("left, tight", [(0.52, False), (0.48, True)])
def test_groups_are_tight_if_drawing_the_map_out_halves_its_divergence(P, crowded, monkeypatch, left, tight):
    first = np.ptp(crowded, axis=0).max()
    problem = SNEProblem(P, 2, kernel="student-t")

    def divergence(self, x):
        return 1.0 if np.ptp(x.reshape(N, 2), axis=0).max() < 1.1 * first else left

    monkeypatch.setattr(SNEProblem, "reported", divergence)
    monkeypatch.setattr(SNEProblem, "divergence_of", lambda self, fun: fun)
    assert has_tight_groups(problem, crowded.ravel()) == tight


def test_there_is_a_widest_map(P, crowded, monkeypatch):
    problem = SNEProblem(P, 2, kernel="student-t")
    monkeypatch.setattr(SNEProblem, "reported", lambda self, x: 1 / np.ptp(x.reshape(N, 2), axis=0).max())
    monkeypatch.setattr(SNEProblem, "divergence_of", lambda self, fun: fun)
    points = rescaled(problem, crowded.ravel()).reshape(N, 2) / PART
    assert ROOM * N**0.5 / STEP * 0.99 < np.ptp(points, axis=0).max() <= ROOM * N**0.5 * 1.01


def test_which_maps_stay_as_they_are(P, crowded, monkeypatch):
    monkeypatch.setattr(stages, "ENOUGH", 0.01)
    plain = SNEProblem(P, 2, kernel="student-t")
    x = crowded.ravel()
    assert has_tight_groups(plain, x)
    others = (
        SNEProblem(P, 2, kernel="gaussian"),
        SNEProblem(P, 3, kernel="student-t"),
        SNEProblem(P, 2, kernel="student-t", exaggeration=4),
    )
    for problem in others:
        assert not has_tight_groups(problem, np.resize(crowded, problem.n_variables))


def test_a_map_at_its_best_width_is_not_drawn_out(P, crowded):
    problem = SNEProblem(P, 2, kernel="student-t")
    wide = (100 * crowded).ravel()
    assert rescaled(problem, wide) is wide
    broken = np.full(2 * N, np.nan, np.float32)
    assert rescaled(problem, broken) is broken and not has_tight_groups(problem, broken)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_half_of_the_iterations_behind_the_early_stage_become_early(monkeypatch):
    seen = []

    def noted(problem, x):
        seen.append((problem.exaggeration, problem.advice.max_iter))
        return rescaled(problem, x)

    monkeypatch.setattr(stages, "rescaled", noted)
    for tight, plan in [(True, [(4, True), (8, True), (8, False)]), (False, [(4, True), (16, False)])]:
        monkeypatch.setattr(stages, "has_tight_groups", lambda problem, x, tight=tight: tight)
        model = SNEEmbedding(perplexity=8, max_iter=20, random_state=0).fit(DIGITS)
        assert [(stage.n_iter, stage.early) for stage in model._progress.plan] == plan
        assert model.n_iter_ == 20 and seen == [(1.0, 8)]
    model.optimize(3)
    SNEEmbedding(perplexity=8, max_iter=5, early_exaggeration=1, random_state=0).fit(DIGITS)
    assert len(seen) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("calls, first, last", [(10, 1, 3), (27, 5, 11), (48, 13, 19)])  # in each of the three stages
def test_a_map_that_is_drawn_out_has_the_same_bits_when_it_is_resumed(monkeypatch, calls, first, last):
    monkeypatch.setattr(stages, "ENOUGH", 0.0)
    maps = [SNEEmbedding(perplexity=8, max_iter=20, random_state=0, n_jobs=k).fit(DIGITS) for k in (None, 2)]
    assert [stage.n_iter for stage in maps[0]._progress.plan] == [4, 8, 8]
    np.testing.assert_array_equal(maps[0].embedding_, maps[1].embedding_)
    stopped = SNEEmbedding(perplexity=8, max_iter=20, random_state=0, solver="storm-c")
    stopped.set_params(solver__max_ifo=calls * N).fit(DIGITS)
    assert first <= stopped.n_iter_ <= last
    stopped.set_params(solver__max_ifo=None).resume(DIGITS)
    np.testing.assert_array_equal(stopped.embedding_, maps[0].embedding_)
    assert (np.diff(maps[0].record_iterations_) > 0).all()
