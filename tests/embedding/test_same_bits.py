"""A map has the same bits for any number of threads, and so have new samples in it."""

import numpy as np
import pytest
from helpers import few_of
from sklearn.datasets import load_digits

from sk_stormc import SNEEmbedding
from sk_stormc.embedding import (
    affinities,
    convolution,
    mesh,
    preconditioner,
    sums_over_pairs,
)
from sk_stormc.embedding.neighbors import inverted_file
from sk_stormc.utils import threads as module

DIGITS = load_digits().data[:1100]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """So that a few points are divided among threads as many would be."""
    monkeypatch.setattr(module, "CACHE_NUMBERS", 0)
    for some in (affinities, mesh, sums_over_pairs):
        monkeypatch.setattr(some, "CACHE_NUMBERS", 5000)
    for some in (convolution, inverted_file, preconditioner, sums_over_pairs):
        monkeypatch.setattr(some, "TASK_NUMBERS", 5000)
    monkeypatch.setattr(inverted_file, "BLOCK_POINTS", 300)


@pytest.mark.parametrize(
    "params",
    few_of([
        {"neighbors": "approximate"},
        {"neighbors": "exact", "init": "spectral", "metric": "cosine"},
        {"kernel": "gaussian", "n_components": 3},
        {"perplexity": 2},  # pair by pair, where that costs less than a mesh
    ], 0, 1, 3),
    ids=str,
)  # fmt: skip
def test_same_bits_for_any_number_of_threads(params):
    X, found = DIGITS.astype(np.float32), []
    for n_jobs in (1, 3):
        model = SNEEmbedding(
            **{"perplexity": 10, "max_iter": 3, "random_state": 0, "n_jobs": n_jobs}
            | params
        )
        placed = model.fit(X).transform(X[:200] + 0.25, return_distance=True)
        values = model.embedding_, model.loss_curve_, model.kl_divergence_, *placed
        found.append(values)
    assert np.ptp(found[0][0]) > 0
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
