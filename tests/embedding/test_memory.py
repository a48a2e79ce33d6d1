"""A map says how much memory it will need before it takes it."""

import tracemalloc

import numpy as np
import pytest
from helpers import slow_but
from sklearn.datasets import load_digits

from sk_stormc import SNEEmbedding
from sk_stormc.embedding import memory
from sk_stormc.embedding.memory import needed_memory

DIGITS = load_digits().data.astype(np.float32)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("perplexity", slow_but([5, 30], 5))
def test_the_estimate_is_about_what_is_taken(perplexity):
    tracemalloc.start()
    try:
        SNEEmbedding(perplexity=perplexity, max_iter=10, neighbors="approximate", random_state=0).fit(DIGITS)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken / 3 < needed_memory(DIGITS, perplexity, True) < 3 * taken


def test_it_grows_with_what_there_is():
    few = needed_memory(DIGITS, 5, True)
    assert few < needed_memory(np.tile(DIGITS, (2, 1)), 5, True)
    assert few < needed_memory(DIGITS, 10, True)
    assert few > needed_memory(DIGITS, 5, False)


def test_more_than_there_is_gets_a_warning_before_the_search(monkeypatch):
    monkeypatch.setattr(memory, "PLENTY", 0)
    model = SNEEmbedding(perplexity=5, max_iter=5, random_state=0).fit(DIGITS[:100])  # there is enough
    monkeypatch.setattr(memory.os, "sysconf", lambda name: 10)
    with pytest.warns(UserWarning, match="100 samples at perplexity 5 needs about .* and this machine has 0.0 GB"):
        model.fit(DIGITS[:100])
