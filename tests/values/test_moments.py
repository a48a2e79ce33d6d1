"""Sums over transitions: they add up, and a factor is one on the weights."""

import numpy as np
import pytest
from scipy import sparse

from sk_stormc.problems import ProjectedBellmanProblem
from sk_stormc.values.lstd import Moments
from sk_stormc.values.objectives import with_ridge


def rows(n=90, d=4, seed=0):
    rng = np.random.default_rng(seed)
    Z, next_Z = rng.normal(size=(2, n, d))
    return Z, Z - 0.9 * next_Z * (rng.random((n, 1)) > 0.1), rng.normal(size=n), rng.random(n)


def same(one, other, rtol=1e-13):
    parts = ((*moments.means(), moments.largest, moments.weight) for moments in (one, other))
    for a, b in zip(*parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


def test_those_of_episodes_add_up():
    parts, total = rows(), Moments.none(4)
    for start, stop in ((0, 3), (3, 40), (40, 41), (41, 90)):
        total += Moments.of(*(part[start:stop] for part in parts))
    same(total, Moments.of(*parts))
    assert total.n_rows == 90
    Z, difference, y, weights = parts
    same(Moments.of(sparse.csr_array(Z), sparse.csr_array(difference), y, weights), total)
    A, b, C = total.means()
    np.testing.assert_allclose(A, (weights[:, None] * Z).T @ difference / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(C, (weights[:, None] * Z).T @ Z / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(b, Z.T @ (weights * y) / weights.sum(), rtol=1e-12)


def test_a_factor_is_one_on_the_weights():
    Z, difference, y, weights = parts = rows()
    old, new = (Moments.of(*(part[at] for part in parts)) for at in (slice(50), slice(50, None)))
    expected = Moments.of(Z, difference, y, np.append(0.25 * weights[:50], weights[50:]))
    same(old * 0.25 + new, expected)


def test_the_solution_is_that_of_the_problem():
    Z, difference, y, weights = rows()
    next_Z, alpha = (Z - difference) / 0.9, np.array([0.1, 0.0, 0.2, 0.0])
    problem = ProjectedBellmanProblem(Z, next_Z, y, 0.9, sample_weight=weights)
    found = Moments.of(Z, difference, y, weights).solution(np.zeros(4))
    x = found.x
    np.testing.assert_allclose(x, problem.minimizer(), rtol=1e-10)
    assert found.rank == 4 and found.fun == pytest.approx(problem.objective(x))
    assert found.start == pytest.approx(problem.objective(np.zeros(4)))
    A, b, _ = Moments.of(Z, difference, y, weights).means()
    x = Moments.of(Z, difference, y, weights).solution(alpha).x
    np.testing.assert_allclose(x, np.linalg.solve(A + np.diag(alpha), b), rtol=1e-10)
    *parts, weights = with_ridge(Z, next_Z, y, weights, alpha)
    problem = ProjectedBellmanProblem(*parts, 0.9, sample_weight=weights)
    np.testing.assert_allclose(x, problem.minimizer(), rtol=1e-10)


def test_a_feature_that_no_state_has_is_0():
    Z, difference, y, weights = rows()
    Z[:, 2] = 0.0
    x = Moments.of(Z, difference, y, weights).solution(np.zeros(4)).x
    assert x[2] == 0 and x[[0, 1, 3]].all()
