"""The divergence that is reported, taken in blocks."""

import numpy as np
import pytest
from scipy import sparse

from sk_stormc.embedding import pairs
from sk_stormc.utils.threads import threads


@pytest.mark.parametrize("tile", [40, 2**18])
def test_the_divergence_does_not_depend_on_how_it_is_divided(tile, monkeypatch):
    rng = np.random.default_rng(0)
    P = rng.random((60, 60)) * (rng.random((60, 60)) < 0.2)
    np.fill_diagonal(P, 0)
    P[:, 0] += np.arange(60) > 0  # no row is empty, and some pairs have an entry in one direction only
    P[0, 1] += 1
    P /= P.sum(axis=1, keepdims=True)
    points = rng.normal(size=(60, 2))
    S = (P + P.T) / 120
    D = np.square(points[:, None] - points).sum(axis=2)
    some = S > 0
    expected = np.sum(S[some] * (np.log(S[some]) + np.log1p(D[some]))) + 3.0
    monkeypatch.setattr(pairs, "PART", tile)
    P = sparse.csr_array(P)
    found = pairs.divergence_from(P, points, False, 3.0)
    assert found == pytest.approx(expected, rel=1e-12)
    with threads(2):
        assert pairs.divergence_from(P, points, False, 3.0) == found
