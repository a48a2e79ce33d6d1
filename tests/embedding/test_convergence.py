"""Whether maps converge, and how many iterations there are by default."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SNEEmbedding
from sk_stormc.embedding.steps import advice


@pytest.mark.parametrize(
    "n, meshed, expected",
    [
        (1000, False, 140), (1797, True, 140), (20_000, False, 120), (20_000, True, 140), (70_000, True, 110),
    ],
)
def test_iterations_by_default(n, meshed, expected):
    assert advice("student-t", n, 2, False, None, 0, meshed).max_iter == expected
    assert advice("gaussian", n, 5, False, None, 0, False).max_iter == 120


@pytest.mark.parametrize("n", [1500, 20_000, 10**6])
def test_the_full_rate_is_held_for_half_of_the_iterations(n):
    for horizon in (60, 1000):
        rate = advice("student-t", n, 2, False, horizon, 0, True).learning_rate
        half = horizon // 2
        assert rate(0) == rate(half) == 2 * 4 and rate(half + 2) < 2 * 4 and rate(horizon) == 0
    assert advice("student-t", n, 2, False, 100, 0, True, further=True).learning_rate(0) == 2 * 2
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


@pytest.mark.parametrize("n_parts, perplexity", [(8, 30), (40, 5)])
def test_separate_clusters_are_no_dots_and_do_not_warn(n_parts, perplexity):
    """Clusters without edges between them repel each other for ever: their maps drifted apart until they were dots."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % n_parts
    X = (20 * rng.standard_normal((n_parts, 50)))[y] + rng.standard_normal((1000, 50))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SNEEmbedding(perplexity=perplexity, random_state=0).fit(X)
    assert model.n_iter_ == 140
    Z = model.embedding_
    of_class = [np.linalg.norm(Z[y == k] - Z[y == k].mean(axis=0), axis=1) for k in range(n_parts)]
    radius = np.median(of_class) / np.median(np.linalg.norm(Z - Z.mean(axis=0), axis=1))
    assert radius > 0.3 / n_parts  # .02 for 8 clusters once


def test_copies_lie_together():
    """Of few neighbours, ties were cut by the order of rows, and eleven of the copies lay apart."""
    X = np.vstack([np.zeros((39, 3)), np.ones((1, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z = SNEEmbedding(perplexity=13, random_state=0).fit(X).embedding_[:39]
    assert np.linalg.norm(Z - np.median(Z, axis=0), axis=1).max() < 1e-2


def test_too_few_iterations_warn():
    X = load_digits().data[:1500]
    model = SNEEmbedding(perplexity=2, max_iter=40, random_state=0)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X)
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert model.n_iter_ == 40 and len(messages) == 1
    assert re.match(r"the map was still moving after 40 iterations: 3 more .*%\. Increase max_iter\.", *messages)


def test_a_map_that_is_done_ends():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SNEEmbedding(random_state=0).fit(load_digits().data[:700])
    assert model.n_iter_ == 140
