"""Invalid arguments and data of `SNEEmbedding`, and names of other packages'
parameters."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.affinities import perplexity_affinities


def points(n, d=5):
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        # tests/package/argument_table.py has the simple ones
        ({"perplexity": [0.5, 3]}, "^perplexity must be"),
        ({"perplexity": [True, 2.0]}, "^perplexity must be"),
        (
            {"init": "laplacian"},
            "init must be one of 'auto', 'pca', 'spectral', 'random'",
        ),
        ({"init": np.zeros((3, 2))}, r"init must be an array of shape \(60, 2\)"),
        (
            {"init": np.where(np.arange(60) == 3, np.nan, np.ones((2, 60))).T},
            "init must be finite, got .* in row 3",
        ),
        ({"init": [["a", "b"]] * 60}, "init must be"),
        ({"solver": STORMCompositional(momentum=2)}, "momentum must be"),
        (
            {"dof": 1e10},
            "dof must be a finite number > 0 and <= 10000.0, got 10000000000.0",
        ),
        ({"dof": 2, "kernel": "gaussian"}, "^dof must be"),
        ({"metric": 3}, "^metric must be a name or a callable, got 3"),
        ({"metric": "precomputed"}, "must be square"),
        (
            {"metric": "precomputed", "init": "pca"},
            "init must be 'auto', 'spectral', 'random' or an array with",
        ),
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
        (
            np.ma.masked_array(points(60), np.arange(300).reshape(60, 5) < 3),
            "X must have all its values, got 3 that",
        ),
    ],
)
def test_invalid_data(X, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding().fit(X)


def spoilt(value=np.nan):
    """A table whose column "c" has a value in the rows 7 and 9 that is missing or
    infinite."""
    frame = pd.DataFrame(points(60), columns=list("abcde"))
    frame.loc[[7, 9], "c"] = value
    return frame


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (
            spoilt(),
            r"got NaN in column \['c'\], first in row 7\. Fill in "
            r".*SimpleImputer.*TableScaler",
        ),
        (spoilt(-np.inf), r"got infinity \(inf\) in column \['c'\], first in row 7\."),
        (spoilt().convert_dtypes(), r"got NaN in column \['c'\], first in row 7\."),
        (spoilt().astype(object), r"got NaN in column \['c'\], first in row 7\."),
        (
            spoilt().astype(object).where(lambda frame: frame.notna(), pd.NA),
            r"got <NA> in column 'c', first in row 7",
        ),
        (
            spoilt().set_index(pd.date_range("2024-02-01", periods=60)),
            r"in column \['c'\], first in row '2024-02-08",
        ),
        (
            pl.DataFrame(spoilt().to_dict("list")),
            r"got NaN in column \['c'\], first in row 7\.",
        ),
        (spoilt().to_numpy(), r"got NaN in column \[2\], first in row 7\."),
        (spoilt().to_numpy().tolist(), r"got NaN in column \[2\], first in row 7\."),
        (spoilt().to_numpy(np.float32), r"got NaN in column \[2\], first in row 7\."),
        (csr_array(spoilt().to_numpy()), r"got NaN in column \[2\], first in row 7\."),
        (
            spoilt().assign(a=np.nan),
            r"got NaN in columns \['a', 'c'\], first in row 0\.",
        ),
        (
            np.full((60, 12), np.nan),
            r"got NaN in columns \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\] and 2 more, first "
            r"in row 0",
        ),
    ],
)
def test_missing_values_name_column_row_and_remedy(X, words):
    for call in (SNEEmbedding().fit, lambda X: perplexity_affinities(X, 5)):
        with pytest.raises(
            ValueError,
            match="X must (be finite numbers|have all its values), .*" + words,
        ):
            call(X)
    model = SNEEmbedding(perplexity=5, max_iter=3).fit(
        points(60, getattr(X, "shape", (60, 5))[1])
    )
    with warnings.catch_warnings(), pytest.raises(ValueError, match=words):
        warnings.filterwarnings("ignore", "X has feature names")
        model.transform(X)


@pytest.mark.parametrize("metric", ["precomputed", "affinities"])
def test_missing_distances_and_affinities(metric):
    D = pairwise_distances(points(60))
    D[3, 5] = np.nan
    with pytest.raises(
        ValueError,
        match=r"X must be finite numbers, got NaN in column \[5\], first in row 3\. "
        r"Leave",
    ):
        SNEEmbedding(metric=metric).fit(D)
