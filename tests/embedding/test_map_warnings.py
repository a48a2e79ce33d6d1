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


def islands(n_parts=40):
    """Clusters that drift apart, since they have no edges between them."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % n_parts
    return (20 * rng.standard_normal((n_parts, 50)))[y] + rng.standard_normal((600, 50))


@pytest.mark.parametrize(
    ("X", "params"),
    few_of(
        [
            (DIGITS[:500], {}),
            (islands(), {"perplexity": 5}),
            (np.random.default_rng(2).random((100, 100)), {"n_components": 50}),
            (DIGITS[:1000], {"n_components": 4, "perplexity": 2}),
            (DIGITS, {"perplexity": 150}),
        ],
        0, 1, 2,
    ),
)  # fmt: skip
def test_the_default_does_not_warn(X, params):
    assert messages(SNEEmbedding(**params, random_state=0), X) == []


@pytest.mark.parametrize("n", [2, 3])
def test_a_divergence_of_nothing_is_not_said_to_fall(n):
    found = messages(
        SNEEmbedding(random_state=0), np.random.default_rng(0).normal(size=(n, 5))
    )
    assert len(found) == 1 and found[0].startswith("perplexity=30.0 is too large")


@pytest.mark.parametrize(
    ("X", "params"),
    [
        (DIGITS[:400], {"max_iter": 20}),
        (DIGITS[:600], {"perplexity": 2, "max_iter": 40}),
    ],
)
def test_maps_that_gain_from_three_more_iterations_warn_once(X, params):
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
    longer = clone(model).set_params(max_iter=140)
    messages(longer, X)
    assert longer.kl_divergence_ < 0.95 * model.kl_divergence_


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"exaggeration": 100},
            "hardly left its start: .* Use a smaller exaggeration: 100 draws all "
            "points together",
        ),
        (
            {"solver": STORMCompositional(max_ifo=3000)},
            "hardly left its start: .* a larger learning_rate or a larger",
        ),
        (
            {"solver": STORMCompositional(learning_rate=1e-9)},
            "hardly left its start: .* a larger learning_rate or a",
        ),
        (
            {"solver": "storm-c", "tol": 1e9},
            r"hardly left its start: .* smaller tol: with 1e\+09 the fit ended",
        ),
    ],
)
def test_a_map_that_is_one_point_warns(params, words):
    with pytest.warns(ConvergenceWarning, match=words):
        model = SNEEmbedding(perplexity=5, max_iter=30, random_state=0, **params).fit(
            NORMAL
        )
    assert model.embedding_.std() < 0.01


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_map_that_ends_above_its_best_warns_once():
    solver = STORMCompositional(
        learning_rate=1e3,
        batch_size=(20, 20, None),
        normalization="block",
        precision=1.0,
    )
    found = messages(
        SNEEmbedding(
            kernel="gaussian", solver=solver, perplexity=5, max_iter=40, random_state=0
        ),
        DIGITS[:300],
    )
    (message,) = (some for some in found if "divergence" in some)
    assert (
        message.startswith("the map's divergence, ")
        and "is above one that was recorded" in message
    )


def test_memory(monkeypatch):
    """The warning comes before the search, and the estimate grows with the data."""
    model = SNEEmbedding(perplexity=5, max_iter=3, random_state=0)
    assert not [m for m in messages(model, DIGITS[:100]) if "memory" in m]
    monkeypatch.setattr(os, "sysconf", lambda name: 10)
    model.set_params(metric="no such metric")
    X, sizes = np.tile(DIGITS, (20, 1)), []
    for perplexity, d in ((5, 1), (5, 2), (50, 2), (500, 2)):
        words = (
            f"{len(X)} samples at perplexity {perplexity} needs about .* and this "
            "machine has 0.0 GB"
        )
        with (
            pytest.raises(ValueError, match="metric must be"),
            pytest.warns(UserWarning, match=words) as caught,
        ):
            model.set_params(perplexity=perplexity, n_components=d).fit(X)
        sizes.append(
            float(
                str(caught[0].message).partition("needs about ")[2].partition(" GB")[0]
            )
        )
    assert 0 < sizes[0] < sizes[1] < sizes[2] < sizes[3]


@pytest.mark.parametrize("dof", [0.3, 0.7])
def test_few_degrees_of_freedom_warn_where_steps_do_not_reach_the_width(dof):
    found = messages(SNEEmbedding(dof=dof), DIGITS[:400])
    assert [text[:31] for text in found] == ["the map is too narrow for dof=0"] * (
        dof < 0.5
    )
    # L-BFGS may say that no step lowers the objective, but not that maps are narrow
    told = messages(SNEEmbedding(dof=dof, solver="lbfgs"), DIGITS[:150])
    assert not any("too narrow" in text for text in told)
