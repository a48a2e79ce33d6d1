"""Invalid arguments and data of `SNEEmbedding`, and names of other packages' parameters."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SNEEmbedding, STORMCompositional


def points(n, d=5):
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"perplexity": 0.5}, "^perplexity must be"),
        ({"perplexity": [0.5, 3]}, "^perplexity must be"),
        ({"perplexity": [True, 2.0]}, "^perplexity must be"),
        ({"n_components": 0}, "^n_components must be"),
        ({"kernel": "cauchy"}, "^kernel must be"),
        ({"init": "laplacian"}, "init must be one of 'auto', 'pca', 'spectral', 'random'"),
        ({"init": np.zeros((3, 2))}, r"init must be an array of shape \(60, 2\)"),
        ({"init": np.where(np.arange(60) == 3, np.nan, np.ones((2, 60))).T}, "init must be finite, got .* in row 3"),
        ({"init": [["a", "b"]] * 60}, "init must be"),
        ({"early_exaggeration": 0.5}, "^early_exaggeration must be"),
        ({"exaggeration": 0.5}, "^exaggeration must be"),
        ({"max_iter": 0}, "^max_iter must be"),
        ({"record_every": 0}, "^record_every must be"),
        ({"tol": -1}, "^tol must be"),
        ({"solver": "adam"}, "solver must be"),
        ({"solver": STORMCompositional(momentum=2)}, "momentum must be"),
        ({"dof": 0}, "^dof must be"),
        ({"dof": 1e10}, "dof must be a finite number > 0 and <= 10000.0, got 10000000000.0"),
        ({"dof": 2, "kernel": "gaussian"}, "^dof must be"),
        ({"transform_perplexity": 0.5}, "^transform_perplexity must be"),
        ({"verbose": "loud"}, "^verbose must be an integer >= 0"),
        ({"metric": 3}, "^metric must be a name or a callable, got 3"),
        ({"metric": "precomputed"}, "must be square"),
        ({"metric": "precomputed", "init": "pca"}, "init must be 'auto', 'spectral', 'random' or an array with"),
    ],
)
def test_invalid_arguments(params, words):
    model = SNEEmbedding(perplexity=5, max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = model.fit(points(40)).embedding_
    with pytest.raises(ValueError, match=words):
        model.set_params(**params).fit(points(60))
    assert model.embedding_ is before and model.perplexity_ == 5


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (points(1), "minimum of 2 is required"),
        (np.full((60, 3), np.nan), "NaN"),
        (np.ma.masked_array(points(60), np.arange(300).reshape(60, 5) < 3), "X must have all its values, got 3 that"),
    ],
)
def test_invalid_data(X, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding().fit(X)
