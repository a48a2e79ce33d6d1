"""An embedding is aligned with another one of the same points."""

import numpy as np
import pytest
from scipy.spatial import procrustes
from scipy.stats import ortho_group

from sk_stormc.plotting import align_embedding


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("factor", [1.0, 0.01, 300.0])
def test_a_moved_embedding_returns_to_its_place(d, factor):
    rng = np.random.default_rng(d)
    Z = rng.normal(size=(40, d))
    Q = -np.eye(1) if d == 1 else ortho_group.rvs(d, random_state=3)
    turned = factor * Z @ Q + rng.normal(size=d)
    np.testing.assert_allclose(align_embedding(turned, Z), Z, atol=1e-10)
    unscaled = align_embedding(turned, Z, scale=False)
    np.testing.assert_allclose(
        unscaled - unscaled.mean(axis=0),
        factor * (Z - Z.mean(axis=0)),
        atol=1e-10 * factor,
    )
    np.testing.assert_allclose(unscaled.mean(axis=0), Z.mean(axis=0), atol=1e-10)


def test_distances_are_those_of_scipys_procrustes():
    rng = np.random.default_rng(0)
    Z, R = rng.normal(size=(2, 50, 3))
    remaining = (
        np.square(align_embedding(Z, R) - R).sum() / np.square(R - R.mean(axis=0)).sum()
    )
    assert remaining == pytest.approx(procrustes(R, Z)[2])


@pytest.mark.parametrize(
    "rows", [slice(30), np.arange(50) < 30, np.arange(30), list(range(30))]
)
def test_other_points_move_with_those_of_the_reference(rows):
    Z = np.random.default_rng(0).normal(size=(50, 2))
    turned = 2 * Z[:, ::-1] + [3, -1]
    np.testing.assert_allclose(
        align_embedding(turned, Z[:30], rows=rows), Z, atol=1e-10
    )


def test_points_at_one_place():
    R = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(align_embedding(np.ones((2, 2)), R), [[2, 3], [2, 3]])
    np.testing.assert_allclose(align_embedding(R, np.ones((2, 2))), 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"embedding": [[1.0, np.nan]]}, "embedding must be finite and of shape"),
        ({"reference": np.ones(3)}, "reference must be finite and of shape"),
        (
            {"reference": np.ones((2, 2))},
            r"must have the shape of the embedding, \(3, 2\), got \(2, 2\): rows",
        ),
        ({"rows": [0, 1]}, r"shape of the embedding at rows, \(2, 2\), got \(3, 2\)"),
        (
            {"rows": [0, 1, 7]},
            r"rows must be a slice, indices or a mask of 3 points, got \[0, 1, 7\]",
        ),
        ({"scale": "no"}, "scale must be True or False, got 'no'"),
    ],
)
def test_invalid_arguments_of_an_alignment(arguments, words):
    with pytest.raises(ValueError, match=words):
        align_embedding(
            **{"embedding": np.eye(3)[:, :2], "reference": np.eye(3)[:, 1:]} | arguments
        )
