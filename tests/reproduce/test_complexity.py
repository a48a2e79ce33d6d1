"""Tests of `reproduce complexity`: the problem's constants, the measurement, the fit,
the command."""

import numpy as np
import pytest
from matplotlib import image

from sk_stormc.__main__ import main
from sk_stormc.problems import check_problem
from sk_stormc.reproduce.bent_valley import KINDS, BentValley
from sk_stormc.reproduce.complexity import (
    METHODS,
    ROWS,
    _run,
    fit_slope,
    run_complexity,
)

EPS = (0.4, 0.3, 0.2)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("y_1", [1.0, 12.0])
def test_the_problem_keeps_the_contract(y_1):
    x = BentValley().initial_point(None)
    x[0] = y_1
    check_problem(BentValley(), x)


PROBLEM = BentValley(sigma=0.3, tau=0.2)
ALL, EACH = (
    PROBLEM.inner_batch(None),
    [PROBLEM.inner_batch(np.array([j], dtype=np.uint8)) for j in range(KINDS)],
)


def derivatives(x, i, j):
    """Those of one component of f at u = x, of one of g, and of Phi by these two."""
    J, u = PROBLEM.jacobian(x, EACH[j]), PROBLEM.inner(x, ALL)
    of_f, at_u = (
        PROBLEM.outer_gradient(y, z, EACH[i])[1] for y, z in ((None, x), (x, u))
    )
    return of_f, J, PROBLEM.vjp(J, at_u)


def test_constants_bound_what_sampling_finds():
    rng, k, norm = np.random.default_rng(0), PROBLEM.constants(), np.linalg.norm
    found = []
    for _ in range(300):
        x = rng.uniform(-2, 2, 10) * rng.choice([0.3, 1, 5])
        z = x + rng.choice([1e-4, 0.3]) * rng.standard_normal(10)
        i, j = rng.integers(KINDS, size=2)
        here, there = derivatives(x, i, j), derivatives(z, i, j)
        rates = [norm(b - a) / norm(z - x) for a, b in zip(here, there, strict=True)]
        found.append([*rates, norm(here[0]), norm(here[1], 2)])
    bounds, largest = np.array([k.L_f, k.L_g, k.L_phi, k.M_f, k.M_g]), np.max(found, 0)
    assert (largest <= bounds).all() and (largest >= 0.1 * bounds).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_variances_are_the_same_at_all_points(seed):
    x, k = np.random.default_rng(seed).uniform(-2, 2, 10), PROBLEM.constants()
    u = PROBLEM.inner(x, ALL)
    for of_batch, variance in (
        (lambda batch: PROBLEM.outer_gradient(x, u, batch)[1], k.H_1),
        (lambda batch: PROBLEM.jacobian(x, batch), k.H_2),
        (lambda batch: PROBLEM.inner(x, batch), k.H_3),
    ):
        squares = [np.sum((of_batch(batch) - of_batch(ALL)) ** 2) for batch in EACH]
        assert np.mean(squares) == pytest.approx(variance, rel=1e-12)


def test_delta_is_the_distance_to_the_infimum():
    problem = BentValley()
    x = np.zeros(10)
    x[0] = 1e8
    x[1:] = 0.25 * np.sin(1e8 + np.arange(2.0, 11))  # y_k = 0
    assert 0 < problem.objective(x) < 2e-8
    assert problem.constants().Delta == problem.objective(problem.initial_point(None))


def test_the_fit_recovers_a_slope_and_its_interval_covers():
    rng, eps = np.random.default_rng(1), 0.4 * 10 ** (-np.arange(7) / 4)
    exact = fit_slope(eps, 5 * eps**-3.5)
    np.testing.assert_allclose([exact.value, exact.low, exact.high], 3.5, atol=1e-6)
    covered = []
    for _ in range(500):
        s = fit_slope(eps, eps**-3.0 * np.exp(0.1 * rng.standard_normal(7)))
        covered.append(s.low <= 3 <= s.high)
    assert abs(np.mean(covered) - 0.95) < 0.04  # four standard errors
    noisy = eps**-3.0 * np.exp(0.1 * rng.standard_normal((100, 7)))
    assert fit_slope(eps, eps**-3.0, noisy).high > 3.05  # what the bootstrap adds
    assert np.isnan(fit_slope(eps[:2], [1, 2]).low)
    assert np.isnan(fit_slope([], []).value)


def test_the_average_is_that_over_all_iterates():
    _, parameters = ROWS["storm-c-paper"]
    ifo, every = _run("storm-c-paper", 3, 3000, 1, **parameters(0.2))
    coarse_ifo, coarse = _run("storm-c-paper", 3, 3000, 45, **parameters(0.2))
    B = 5
    # Lemma 3.1
    assert [n - 3 * B for n in ifo] == [3 * B * (t + 1) for t in range(len(ifo))]
    same = every[np.searchsorted(ifo, coarse_ifo)]
    np.testing.assert_allclose(coarse[-30:], same[-30:], rtol=0.02)


def test_what_is_not_reached_is_left_out():
    both = run_complexity(["scgd"], EPS, n_seeds=2, max_ifo=1000)
    assert all(1 <= len(m.ifo) < 3 and m.ifo.max() <= 1000 for m in both)


@pytest.mark.slow
def test_the_table_and_the_picture(capsys, tmp_path):
    options = "--ifo 8000 --seeds 3 --repetition 2 --out c.png"
    assert main(["reproduce", "complexity", *options.split()]) == 0
    out, names = capsys.readouterr().out, [*ROWS, "Proposition 3.2"]
    rows = [line for line in out.splitlines() if line.startswith(tuple(names))]
    assert [line.split("  ")[0] for line in rows][: len(names)] == names
    assert "storm-c-paper's interval ends at" in out and "means over 3 seeds" in out
    picture = image.imread(tmp_path / "c.png")
    assert min(picture.shape[:2]) > 300 and picture.std() > 0.05


def test_errors(capsys):
    for options, words in (
        ("--repetition -1", "first_seed must be an integer >= 0"),
        ("--ifo 10 --seeds 2", "--ifo must pay for the largest eps, 0.4"),
        ("--methods adam", "some of storm-c-paper, sarah-c, scgd; got 'adam'"),
    ):
        assert main(["reproduce", "complexity", *options.split()]) == 2
        assert words in capsys.readouterr().err
    assert sorted(name for names in METHODS.values() for name in names) == sorted(ROWS)
