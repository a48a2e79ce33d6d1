"""Large maps are drawn out between their early stage and the main one."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding import stages, widening
from sk_stormc.embedding.steps import advice
from sk_stormc.embedding.widening import PART, ROOM, STEP, widened
from sk_stormc.problems import SNEProblem

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS, LABELS = DIGITS[:1100], LABELS[:1100]  # enough for a mesh
N = len(DIGITS)


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(widening, "FEWEST", N)


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
    points = widened(problem, crowded.ravel()).reshape(N, 2)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-4)
    factor = points.std(axis=0) / crowded.std(axis=0)
    assert factor[0] == pytest.approx(factor[1], rel=1e-5) and factor[0] > 1
    at_best = points / PART
    values = [problem.objective((at_best * by).ravel()) for by in (1 / STEP, 1, STEP)]
    assert values[1] < min(values[0], values[2])


def test_a_wider_stage_of_more_attraction_is_narrower(P, crowded):
    plain, exaggerated = (
        np.ptp(widened(SNEProblem(P, 2, kernel="student-t", exaggeration=alpha), crowded.ravel())) for alpha in (1, 4)
    )
    assert exaggerated < 0.8 * plain


def test_there_is_a_widest_map(P, crowded, monkeypatch):
    problem = SNEProblem(P, 2, kernel="student-t")
    monkeypatch.setattr(SNEProblem, "objective", lambda self, x: -np.ptp(x.reshape(N, 2), axis=0).max())
    points = widened(problem, crowded.ravel()).reshape(N, 2) / PART
    assert ROOM * N**0.5 / STEP * 0.99 < np.ptp(points, axis=0).max() <= ROOM * N**0.5 * 1.01


def test_which_maps_stay_as_they_are(P, crowded, monkeypatch):
    wide = 100 * crowded.ravel()
    assert widened(SNEProblem(P, 2, kernel="student-t"), wide) is wide
    few = SNEProblem(P, 2, kernel="gaussian"), SNEProblem(P, 3, kernel="student-t")
    for problem in few:
        x = np.resize(crowded, problem.n_variables)
        assert widened(problem, x) is x
    broken = np.full(2 * N, np.nan, np.float32)
    assert widened(SNEProblem(P, 2, kernel="student-t"), broken) is broken
    monkeypatch.setattr(widening, "FEWEST", N + 1)
    x = crowded.ravel()
    assert widened(SNEProblem(P, 2, kernel="student-t"), x) is x
    monkeypatch.setattr(widening, "FEWEST", 1)
    monkeypatch.setattr(widening, "MOST", N - 1)
    assert widened(SNEProblem(P, 2, kernel="student-t"), x) is x


def test_only_the_stage_behind_the_early_one_begins_so(monkeypatch):
    seen = []

    def noted(problem, x):
        seen.append((problem.exaggeration, problem.advice.max_iter))
        return widened(problem, x)

    monkeypatch.setattr(stages, "widened", noted)
    model = SNEEmbedding(perplexity=8, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(DIGITS).optimize(3)
        assert seen == [(1.0, 16)]
        SNEEmbedding(perplexity=8, max_iter=5, early_exaggeration=1, random_state=0).fit(DIGITS)
    assert len(seen) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_map_that_is_drawn_out_has_the_same_bits_when_it_is_resumed():
    maps = [SNEEmbedding(perplexity=8, max_iter=20, random_state=0, n_jobs=k).fit(DIGITS) for k in (None, 2)]
    np.testing.assert_array_equal(maps[0].embedding_, maps[1].embedding_)
    stopped = SNEEmbedding(perplexity=8, max_iter=20, random_state=0, solver="storm-c")
    stopped.set_params(solver__max_ifo=12 * 3 * N).fit(DIGITS)
    assert 4 < stopped.n_iter_ < 20
    stopped.set_params(solver__max_ifo=None).resume(DIGITS)
    np.testing.assert_array_equal(stopped.embedding_, maps[0].embedding_)
    assert (np.diff(maps[0].record_iterations_) > 0).all()


def test_steps_are_long_where_a_map_is_drawn_out():
    rates = [advice("student-t", n, 2, True, None, 0, True).learning_rate for n in (20_000, 30_000, 70_000, 300_000)]
    assert rates == [6.0, 4.0, 6.0, 6.0]
    assert advice("student-t", 70_000, 3, True, None, 0, False).learning_rate == 4.0
    assert advice("student-t", 70_000, 2, True, None, 0, True, on=True).learning_rate == 4.0
