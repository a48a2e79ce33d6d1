"""Maps that spread slowly: they go on by themselves, or say so; and how many iterations there are by default."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding.spreading import goes_on, loss_of_second_half
from sk_stormc.embedding.steps import advice
from sk_stormc.problems import SNEProblem
from sk_stormc.solvers import get_solver

ROLL = make_swiss_roll(500, random_state=0)[0]


@pytest.fixture(scope="module")
def gone_on():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the map was still spreading", ConvergenceWarning)
        return SNEEmbedding(perplexity=2, random_state=0).fit(ROLL)


@pytest.mark.parametrize(
    "n, meshed, expected",
    [
        (1000, False, 130), (1797, True, 130), (5000, True, 140), (20_000, False, 120), (20_000, True, 165),
        (70_000, True, 110),
    ],
)
def test_iterations_by_default(n, meshed, expected):
    assert advice("student-t", n, 2, False, None, 0, meshed).max_iter == expected
    assert advice("student-t", 10**6, 2, False, None, 0, True).max_iter == 150
    assert advice("gaussian", n, 5, False, None, 0, False).max_iter == 120


@pytest.mark.parametrize("n", [1500, 20_000, 10**6])
def test_the_full_rate_is_held_for_half_of_the_iterations(n):
    for horizon in (60, 1000):
        rate = advice("student-t", n, 2, False, horizon, 0, True).learning_rate
        half = horizon // 2
        assert rate(0) == rate(half) == 2 * 4 and rate(half + 2) < 2 * 4 and rate(horizon) == 0
    assert advice("student-t", n, 2, False, 100, 0, True, on=True).learning_rate(0) == 2 * 2
    assert advice("gaussian", n, 2, False, 1000, 0, False).learning_rate(500) == 2 * 4


def test_many_iterations_on_data_without_structure_do_not_raise_the_divergence():
    X = np.random.default_rng(0).normal(size=(1100, 20))
    few, many = (SNEEmbedding(perplexity=10, max_iter=k, random_state=0) for k in (60, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # which of them still spread depends on the last bits
        few.fit(X), many.fit(X)
    assert many.kl_divergence_ < 0.98 * few.kl_divergence_


@pytest.mark.parametrize("copies", [2, 10])
def test_maps_of_copies_come_to_rest(copies):
    """A step limit on averaged directions let their divergence rise by a quarter, once it had been low."""
    X = np.repeat(np.random.default_rng(0).normal(size=(1200 // copies, 20)), copies, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        losses = SNEEmbedding(max_iter=150, random_state=0).fit(X).loss_curve_
    assert losses[-1] < 1.02 * losses.min() and losses[-1] < 0.7 * losses[0]


@pytest.mark.slow
def test_a_map_of_a_small_perplexity_goes_on(gone_on):
    first = SNEEmbedding(perplexity=2, max_iter=130, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still (moving|spreading) after 130 iterations"):
        first.fit(ROLL)
    assert gone_on.n_iter_ in (260, 520, 1040) and gone_on.stop_reason_ == "max_iter"
    assert gone_on.kl_divergence_ < 0.95 * first.kl_divergence_
    np.testing.assert_array_equal(gone_on.loss_curve_[: len(first.loss_curve_) - 1], first.loss_curve_[:-1])
    assert (np.diff(gone_on.record_iterations_) > 0).all() and (np.diff(gone_on.ifo_) > 0).all()
    assert gone_on.record_iterations_[-1] == gone_on.n_iter_
    assert len(gone_on.loss_curve_) == len(gone_on.ifo_) == len(gone_on.record_iterations_)


@pytest.mark.slow
def test_a_map_that_goes_on_has_the_same_bits(gone_on):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the map was still spreading", ConvergenceWarning)
        again = SNEEmbedding(perplexity=2, random_state=0).fit(ROLL)
    np.testing.assert_array_equal(again.embedding_, gone_on.embedding_)
    assert again.n_iter_ == gone_on.n_iter_


def test_a_number_of_iterations_that_was_asked_for_is_kept_and_found_too_few():
    X = load_digits().data[:1500]
    model = SNEEmbedding(perplexity=2, max_iter=80, random_state=0)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X)
    said = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert model.n_iter_ == 80 and len(said) == 1
    words = r"the map was still spreading after 80 iterations: the last 32 lowered its .*%\. Increase max_iter\."
    assert re.fullmatch(words, *said)


def test_a_map_that_is_done_ends():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SNEEmbedding(random_state=0).fit(load_digits().data[:700])
    assert model.n_iter_ == 130


class Ended:
    """A run with a given curve."""

    stop_reason = "max_iter"

    def __init__(self, losses, n_iter, an_iteration):
        self.n_iter, self.record_iterations = n_iter, np.linspace(0, n_iter, len(losses))
        self.loss_curve, self.ifo = np.array(losses), (an_iteration * self.record_iterations).astype(int)


@pytest.mark.parametrize("kernel, d", [("student-t", 2), ("student-t", 3), ("gaussian", 2)])
def test_what_tells_a_slow_map_from_one_that_is_done(kernel, d):
    problem = SNEProblem(perplexity_affinities(ROLL, 5), d, kernel=kernel, n_iter=100)
    solver = get_solver("storm-c").set_params(tol=0.0)
    offset = float(problem.divergence_of(0.0)) * (500 if kernel == "gaussian" else 1)
    an_iteration = problem.iteration_ifo
    slow = Ended(np.linspace(2, 1, 21) - offset, 100, an_iteration)
    done = Ended(np.r_[np.linspace(2, 1, 11), np.ones(10)] - offset, 100, an_iteration)
    expected = 0.0 if kernel == "gaussian" else 0.5  # the sampled sums of that kernel say nothing
    assert loss_of_second_half(problem, slow) == pytest.approx(expected, abs=1e-6)
    assert loss_of_second_half(problem, done) == pytest.approx(0, abs=1e-6)
    assert goes_on(solver, problem, slow, 100) == (kernel == "student-t")
    assert not goes_on(solver, problem, done, 100)
    for other in ({"max_iter": 100}, {"max_ifo": 10**9}, {"tol": 1e-3}, {"learning_rate": 0.1}):
        assert not goes_on(get_solver("storm-c").set_params(**{"tol": 0.0} | other), problem, slow, 100)
    assert not goes_on(get_solver("scgd").set_params(tol=0.0), problem, slow, 100)
    assert not goes_on(solver, problem, Ended(slow.loss_curve, 800, an_iteration), 100)  # eight times as many were made
