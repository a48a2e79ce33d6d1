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
        ({"init": "laplacian"}, "init must be one of 'auto', 'pca', 'spectral', 'ran"),
        ({"init": np.zeros((3, 2))}, r"init must be an array of shape \(60, 2\)"),
        ({"init": np.diag([0, 0, 0, np.inf] * 15)[:, 2:4]}, "finite, got .* in row 3"),
        ({"init": [["a", "b"]] * 60}, "init must be"),
        ({"solver": STORMCompositional(momentum=2)}, "momentum must be"),
        (
            {"dof": 1e10},
            "dof must be a .* number > 0 and <= 10000.0, got 10000000000.0",
        ),
        ({"dof": 2, "kernel": "gaussian"}, "^dof must be"),
        ({"metric": 3}, "^metric must be a name or a callable, got 3"),
        ({"metric": "precomputed"}, "must be square"),
        ({"metric": "precomputed", "init": "pca"}, "init must be .* or an array with"),
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


def spoilt(value=np.nan):
    """A table whose column "c" has a value in the rows 7 and 9 that is missing or
    infinite."""
    frame = pd.DataFrame(points(60), columns=list("abcde"))
    frame.loc[[7, 9], "c"] = value
    return frame


MISSING = spoilt().astype(object).where(lambda frame: frame.notna(), pd.NA)
DAYS = pd.date_range("2024-02-01", periods=60)
C, TWO = (
    r"got NaN in column \['c'\], first in row 7\.",
    r"in column \[2\], first in row 7\.",
)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (points(1), "minimum of 2 is required"),
        (np.ma.masked_less(points(60), -2), r"must have all its values, got \d that"),
        (spoilt(), C + " Fill in .*SimpleImputer.*TableScaler"),
        (spoilt(-np.inf), r"got infinity \(inf\) in column \['c'\], first in row 7\."),
        (spoilt().convert_dtypes(), C),
        (spoilt().astype(object), C),
        (MISSING, "got <NA> in column 'c', first in row 7"),
        (spoilt().set_index(DAYS), r"in column \['c'\], first in row '2024-02-08"),
        (pl.DataFrame(spoilt().to_dict("list")), C),
        (spoilt().to_numpy().tolist(), TWO),
        (spoilt().to_numpy(np.float32), TWO),
        (csr_array(spoilt().to_numpy()), TWO),
        (
            spoilt().assign(a=np.nan),
            r"got NaN in columns \['a', 'c'\], first in row 0\.",
        ),
        (np.full((60, 12), np.nan), r"\[0, 1, .*, 9\] and 2 more, first in row 0"),
    ],
)
def test_missing_values_name_column_row_and_remedy(X, words):
    for call in (SNEEmbedding().fit, lambda X: perplexity_affinities(X, 5)):
        with pytest.raises(ValueError, match=words):
            call(X)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_missing_values_of_new_samples_distances_and_affinities():
    model = SNEEmbedding(perplexity=5, max_iter=3).fit(points(60))
    for X, words in (
        (spoilt(), C),
        (MISSING, "got <NA> in column 'c', first in row 7"),
    ):
        with pytest.raises(ValueError, match=words):
            model.transform(X)
    D = pairwise_distances(points(60))
    D[7, 2] = np.nan
    for metric in ("precomputed", "affinities"):
        with pytest.raises(ValueError, match=TWO + " Leave"):
            SNEEmbedding(metric=metric).fit(D)
