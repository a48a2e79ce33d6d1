"""Sums over pairs of points: no product of matrices has an entry that is not finite."""

import numpy as np
import pytest
from scipy import sparse

from sk_stormc import minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem
from sk_stormc.problems._pairs import BLOCK_POINTS, block_sums


@pytest.fixture
def finite_products(monkeypatch):
    """Whether np.matmul was called, and a failure where its operands are not finite.

    What a kernel makes of infinity times the zeros beside it depends on the processor: values may be right and a
    floating-point flag raised all the same.
    """
    calls, matmul = [], np.matmul

    def checked(a, b, **kwargs):
        assert np.isfinite(a).all() and np.isfinite(b).all()
        calls.append(a.shape)
        return matmul(a, b, **kwargs)

    monkeypatch.setattr(np, "matmul", checked)
    return calls


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("n", [BLOCK_POINTS // 2, 3 * BLOCK_POINTS, 5 * BLOCK_POINTS + 7])
def test_products_of_blocks_are_finite(finite_products, n, scale, dtype):
    rng = np.random.default_rng(n)
    x = (scale * rng.normal(size=(n, 2))).astype(dtype)
    with np.errstate(invalid="raise", over="raise", divide="raise"):
        total, forces, block = block_sums(x, np.arange(n), sparse.eye_array(n, format="csr"))
    assert finite_products
    # the points that fill the last block up add nothing: all pairs are there, and no others
    difference = (x[:, None] - x[None]).astype(float)
    w = 1 / (1 + (difference**2).sum(-1))
    rel = 1e-3 if dtype == np.float32 else 1e-9
    assert total == pytest.approx(w.sum() - n, abs=rel * w.sum())
    expected = np.einsum("ij,ijd->id", w**2, difference)
    np.testing.assert_allclose(forces, expected, atol=rel * np.abs(x).max())  # differences of sums of that size
    assert forces.dtype == dtype


@pytest.mark.parametrize("kernel", ["gaussian", "student-t"])
def test_products_of_a_run_are_finite(finite_products, kernel):
    X = np.random.default_rng(0).normal(size=(1100, 4))
    problem = SNEProblem(perplexity_affinities(X, 5), 2, kernel=kernel, n_iter=12)
    with np.errstate(invalid="raise"):
        minimize(problem, random_state=0, max_iter=12)
    assert finite_products
