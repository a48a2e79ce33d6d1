"""What a fit warns of: maps that have not converged, have not left their start, or need
too much memory."""

import os
import warnings

import numpy as np
import pytest
from helpers import few_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SNEEmbedding, STORMCompositional

DIGITS = load_digits().data
NORMAL = np.random.default_rng(0).normal(size=(120, 5))


def messages(model, X):
    """The warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return [str(w.message) for w in caught]


def islands():
    """Clusters that drift apart, since they have no edges between them."""
    rng, y = np.random.default_rng(0), np.arange(300) % 20
    return 20 * rng.standard_normal((20, 50))[y] + rng.standard_normal((300, 50))


@pytest.mark.parametrize(
    ("X", "params"),
    few_of(
        [
            (DIGITS[:200], {}),
            (islands(), {"perplexity": 5}),
            (np.random.default_rng(2).random((60, 100)), {"n_components": 50}),
            (DIGITS[:1000], {"n_components": 4, "perplexity": 2}),
            (DIGITS, {"perplexity": 150}),
        ],
        *range(3),
    ),
)
def test_the_default_does_not_warn(X, params):
    assert (
        messages(SNEEmbedding(**{"perplexity": 15, "random_state": 0} | params), X)
        == []
    )


@pytest.mark.parametrize("n", [2, 3])
def test_a_divergence_of_nothing_is_not_said_to_fall(n):
    found = messages(
        SNEEmbedding(random_state=0), np.random.default_rng(0).normal(size=(n, 5))
    )
    assert len(found) == 1 and found[0].startswith("perplexity=30.0 is too large")


@pytest.mark.parametrize(
    "params", [{"max_iter": 20}, {"perplexity": 2, "max_iter": 30}]
)
def test_maps_that_gain_from_three_more_iterations_warn_once(params):
    X = DIGITS[:250]
    model = SNEEmbedding(**params, record_every=1000, random_state=0)
    (message,) = messages(model, X)
    words = (
        f"the map was still moving after {model.n_iter_} iterations: 3 more would "
        "lower its divergence, "
    )
    assert message.startswith(words) and message.endswith("%. Increase max_iter.")
    # how often is recorded makes no difference
    often = clone(model).set_params(record_every=1)
    assert messages(often, X) == [message]
    np.testing.assert_array_equal(often.embedding_, model.embedding_)
    longer = clone(model).set_params(max_iter=100)
    messages(longer, X)
    assert longer.kl_divergence_ < 0.95 * model.kl_divergence_


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"exaggeration": 100},
            "a smaller exaggeration: 100 draws all points together",
        ),
        (
            {"solver": STORMCompositional(max_ifo=3000)},
            "a larger learning_rate or a lar",
        ),
        (
            {"solver": STORMCompositional(learning_rate=1e-9)},
            "a larger learning_rate or",
        ),
        ({"solver": "storm-c", "tol": 1e9}, r"smaller tol: with 1e\+09 the fit ended"),
    ],
)
def test_a_map_that_is_one_point_warns(params, words):
    model = SNEEmbedding(perplexity=5, max_iter=30, random_state=0, **params)
    with pytest.warns(ConvergenceWarning, match="hardly left its start: .*" + words):
        model.fit(NORMAL)
    assert model.embedding_.std() < 0.01


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_map_that_ends_above_its_best_warns_once():
    solver = STORMCompositional(learning_rate=1e3, batch_size=(20, 20, None))
    solver.set_params(normalization="block", precision=1.0)
    model = SNEEmbedding(kernel="gaussian", solver=solver, perplexity=5, max_iter=40)
    found = messages(model.set_params(random_state=0), DIGITS[:300])
    (message,) = (some for some in found if "divergence" in some)
    assert message.startswith("the map's divergence, ")
    assert "is above one that was recorded" in message


def test_memory(monkeypatch):
    """The warning comes before the search, and the estimate grows with the data."""
    model = SNEEmbedding(perplexity=5, max_iter=3, random_state=0)
    assert not [m for m in messages(model, DIGITS[:100]) if "memory" in m]
    monkeypatch.setattr(os, "sysconf", lambda name: 10)
    model.set_params(metric="no such metric")
    X, sizes = np.tile(DIGITS, (20, 1)), []
    for perplexity, d in ((5, 1), (5, 2), (50, 2), (500, 2)):
        model.set_params(perplexity=perplexity, n_components=d)
        told = f"{len(X)} samples at perplexity {perplexity} needs about .* has 0.0 GB"
        invalid = pytest.raises(ValueError, match="metric must be")
        with invalid, pytest.warns(UserWarning, match=told) as caught:
            model.fit(X)
        text = str(caught[0].message)
        sizes.append(float(text.partition("needs about ")[2].partition(" GB")[0]))
    assert 0 < sizes[0] < sizes[1] < sizes[2] < sizes[3]


@pytest.mark.parametrize("dof", [0.3, 0.7])
def test_few_degrees_of_freedom_warn_where_steps_do_not_reach_the_width(dof):
    found = messages(SNEEmbedding(dof=dof, perplexity=20), DIGITS[:200])
    narrow = ["the map is too narrow for dof=0"]
    assert [text[:31] for text in found] == narrow * (dof < 0.5)
    # L-BFGS may say that no step lowers the objective, but not that maps are narrow
    exact = SNEEmbedding(dof=dof, perplexity=10, solver="lbfgs")
    assert not any("too narrow" in text for text in messages(exact, DIGITS[:60]))
