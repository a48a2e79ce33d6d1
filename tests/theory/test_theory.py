"""The paper's inequalities at random constants, the run that its parameters make, and
estimated constants."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sk_stormc import STORMCompositional, minimize
from sk_stormc.penalties import Simplex
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem
from sk_stormc.solvers.storm import PaperSTORMCompositional
from sk_stormc.theory import (
    ProblemConstants,
    equipartition,
    estimate_constants,
    storm_parameters,
    theorem_condition,
)

NAMES = ("L_f", "L_g", "L_phi", "M_f", "M_g", "H_1", "H_2", "H_3", "Delta")
ONES = ProblemConstants(**dict.fromkeys(NAMES, 1.0))
UNIT = replace(ONES, L_phi=2.0)
SMALL = ProblemConstants(
    L_f=1, L_g=0.1, L_phi=1, M_f=0.2, M_g=0.1, H_1=10, H_2=1, H_3=1, Delta=0.1
)


@st.composite
def cases(draw):
    """Constants, log-uniform over four orders of magnitude, and an admissible
    epsilon."""
    values = [10 ** draw(st.floats(-2, 2)) for _ in NAMES]
    k = ProblemConstants(*values)
    if draw(st.booleans()):
        k = replace(k, L_phi=k.M_f * k.L_g + k.M_g**2 * k.L_f)  # the paper's choice
    L = k.L_phi
    c = 2 * k.M_g + math.sqrt(k.H_2)
    K_0 = storm_parameters(k, 1e-9).K_0
    limit = min(
        1,
        72 * L * k.M_g * k.L_f**2 * math.sqrt(k.H_3),
        72 * L * k.M_f**2 * math.sqrt(k.H_2) / k.L_g,
        L * math.sqrt(k.H_3) / k.M_g,
        L * math.sqrt(k.H_2) / k.L_g,
        c * math.sqrt(2 * k.H_1 / K_0),
    )
    return k, limit * draw(st.floats(0.01, 0.999))


def by_lemmas(k, eps, p):
    """Bound of (1/T) sum E|F_t - grad Phi(x_t)|^2 / eps^2, put together from the lemmas
    of the appendix."""
    T, step = p.T, (eps / k.L_phi) ** 2

    def storm(L, H, a, B, S):
        """Mean squared error (Lemma A.1 (ii)) and increment of a STORM estimate."""
        error = 2 / a * (L**2 / B * step + a**2 * H / B + H / S / T)
        increment = (12 / (a * B) + 6 / B + 3) * L**2 * step
        return error, increment + 12 * a * H / B + 12 / a * H / S / T + 6 * a**2 * H / B

    e_g, d_g = storm(k.M_g, k.H_3, p.a_g, p.B_g, p.S_g)
    e_dg, d_dg = storm(k.L_g, k.H_2, p.a_dg, p.B_dg, p.S_dg)
    kappa = 2 * k.M_g + k.L_g * p.eta * eps / p.a_dg
    drift = 4 / p.B_f * (k.M_f**2 * d_dg + k.L_f**2 * kappa**2 * d_g)
    noise = 2 / p.B_f * p.a_phi**2 * kappa**2 * k.H_1
    e_F = (drift + noise + k.M_g**2 * k.H_1 / p.S_f / T) / p.a_phi
    return (3 * e_F + 3 * k.M_f**2 * e_dg + 3 * k.M_g**2 * k.L_f**2 * e_g) / eps**2


@settings(max_examples=60, deadline=None)
@given(cases())
def test_corrected_parameters_satisfy_everything(case):
    k, eps = case
    exact, p = storm_parameters(k, eps, round_up=False), storm_parameters(k, eps)
    np.testing.assert_allclose(equipartition(k, eps, exact), 1, rtol=1e-9)
    assert (equipartition(k, eps, p) <= 1 + 1e-9).all()
    assert theorem_condition(k, eps, exact) <= 1 / 16 * (1 + 1e-9)
    assert theorem_condition(k, eps, p) <= 1 / 16 * (1 + 1e-9)
    for q in (exact, p):
        assert theorem_condition(k, eps, q) == pytest.approx(
            by_lemmas(k, eps, q), rel=1e-9
        )
        # Lemma 3.1
        assert q.ifo == q.S_g + q.S_dg + q.S_f + q.T * (q.B_g + q.B_dg + q.B_f)
    for name in ("B_g", "B_dg", "B_f", "S_g", "S_dg", "S_f", "T"):
        assert getattr(p, name) == max(
            1, math.ceil(getattr(exact, name))
        ) and isinstance(getattr(p, name), int)
    assert all(0 < a < 1 for a in (p.a_g, p.a_dg, p.a_phi)) and p.eta == 1 / k.L_phi


def test_printed_parameters_fail():
    eps = 0.1
    p = storm_parameters(UNIT, eps, variant="paper", round_up=False)
    c = 3.0
    # self-consistent
    assert pytest.approx(432 * math.sqrt(2 * c * p.K_0) / eps) == p.B_f
    P = Q = 1 / 24 + 3 / 4 + 1
    assert pytest.approx((4 * P + 4 * c * Q) / p.B_f) == p.K_0
    assert p.a_phi == pytest.approx(math.sqrt(p.K_0 / (2 * c)) * eps)
    assert pytest.approx(p.B_f / (32 / 3 * 2 * p.K_0)) == p.S_f
    E1, E2, E3 = equipartition(UNIT, eps, p)
    assert pytest.approx((1, 1)) == (E1, E2)
    assert E3 > 100
    assert theorem_condition(UNIT, eps, p) > 1 / 16
    corrected = storm_parameters(UNIT, eps)
    assert theorem_condition(UNIT, eps, corrected, variant="paper") < theorem_condition(
        UNIT, eps, corrected
    )


@pytest.mark.parametrize(
    ("constants", "epsilon", "message"),
    [
        (UNIT, 1.0, r"epsilon must be < 1 \(Proposition 3.2\), got 1.0"),
        (
            replace(UNIT, L_f=0.01),
            0.5,
            r"epsilon must be < 0.0144 \(Proposition 3.2\), got 0.5",
        ),
        (
            replace(UNIT, M_f=0.01),
            0.5,
            r"epsilon must be < 0.0144 \(Proposition 3.2\), got 0.5",
        ),
        (
            replace(UNIT, H_3=0.0625),
            0.5,
            "a_g must be < 1, got 1: epsilon=0.5 is too large",
        ),
        (
            replace(UNIT, H_2=1e-4),
            0.5,
            "a_dg must be < 1, got 25: epsilon=0.5 is too large",
        ),
        (
            replace(UNIT, H_1=0.01),
            0.5,
            "a_phi must be < 1, got .*: epsilon=0.5 is too large",
        ),
    ],
)
def test_epsilon_is_checked(constants, epsilon, message):
    for make in (storm_parameters, STORMCompositional.from_theory):
        with pytest.raises(ValueError, match=message):
            make(constants, epsilon)


def test_numbers_are_positive():
    p = storm_parameters(UNIT, 0.1)
    with pytest.raises(ValueError, match="eta must be a finite number > 0, got 0.0"):
        replace(p, eta=0.0)
    for condition in (equipartition, theorem_condition):
        with pytest.raises(
            ValueError, match="epsilon must be a finite number > 0, got 0.0"
        ):
            condition(UNIT, 0.0, p)


# from_theory


def test_from_theory_makes_the_predicted_run():
    eps = 0.5
    p = storm_parameters(SMALL, eps)
    assert p.T == 5
    rng = np.random.default_rng(0)
    problem = PortfolioProblem(rng.normal(0.1, 1, size=(p.B_f + 1, 2)))
    solver = STORMCompositional.from_theory(SMALL, eps)
    result = minimize(problem, solver, random_state=0)
    assert result.n_iter == p.T
    assert result.ifo[-1] == p.ifo
    assert (solver.learning_rate, solver.precision, solver.max_iter, solver.tol) == (
        1.0,
        eps,
        p.T,
        0,
    )
    assert (solver.normalization, solver.anchor, solver.output) == (
        "global",
        None,
        "random",
    )
    assert solver.momentum == (p.a_g, p.a_dg, p.a_phi)
    assert solver.batch_size == (p.B_g, p.B_dg, p.B_f) and solver.init_batch_size == (
        p.S_g,
        p.S_dg,
        p.S_f,
    )
    assert (
        PaperSTORMCompositional.from_theory(SMALL, eps).get_params()
        == solver.get_params()
    )
    printed = STORMCompositional.from_theory(SMALL, eps, variant="paper")
    assert printed.batch_size[2] == storm_parameters(SMALL, eps, variant="paper").B_f


# estimate_constants


def test_estimated_constants():
    R = np.random.default_rng(3).normal(0.5, 1, size=(60, 2))
    radius, mean = 1.5, R.mean(0)
    problem = PortfolioProblem(R)
    k = estimate_constants(problem, np.zeros(2), radius, n_samples=500, random_state=0)
    lengths, deviations = np.linalg.norm(R, axis=1), np.linalg.norm(R - mean, axis=1)
    angles = np.linspace(0, 2 * np.pi, 721)
    circle = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    # with y = (x, u), d = <r_i - mean r, x>: f_x = (2 d - 1) r_i, f_u = -2 d
    d = circle @ (R - mean).T
    grad = np.concatenate([(2 * d - 1)[:, :, None] * R, -2 * d[:, :, None]], axis=2)
    apart = np.linalg.norm(R[:, None] - R, axis=2)
    known = {
        "L_f": 2 * (lengths**2 + 1).max(),
        "L_phi": 2 * (apart * deviations).max(),
        "M_f": np.linalg.norm(grad, axis=2).max(),
        "M_g": math.sqrt(1 + lengths.max() ** 2),
        "H_1": ((grad - grad.mean(1, keepdims=True)) ** 2).sum(2).mean(1).max(),
        "H_2": (deviations**2).mean(),
        "H_3": np.linalg.eigvalsh(np.cov(R.T, bias=True))[-1] * radius**2,
        "Delta": -min(
            problem.objective(s * x) for x in circle[::6] for s in np.linspace(0, 1, 51)
        ),
    }
    for name, value in known.items():
        # the H's are means over a sample
        margin = 1.15 if name.startswith("H") else 1.01
        assert 0.5 * value <= getattr(k, name) <= margin * value, name
    assert k.M_g == pytest.approx(known["M_g"])  # that row is drawn
    # the Jacobian is constant
    assert k.L_g == pytest.approx(1e-3 * k.M_g**2 * k.L_f / k.M_f)
    assert k == estimate_constants(
        problem, np.zeros(2), radius, n_samples=500, random_state=0
    )
    p = storm_parameters(k, 0.01)
    assert theorem_condition(k, 0.01, p) <= 1 / 16


def test_constants_that_vanish_have_a_floor():
    problem = FiniteSumComposition(
        lambda x, j: x**2,
        lambda x, j: 2 * x[:, None],
        lambda x, u, i: np.full(1, 3.0),
        lambda x, u: 3 * u[0],
        1,
        1,
        1,
    )
    k = estimate_constants(problem, np.ones(1), 0.6, random_state=0)
    assert (k.M_f, k.L_g) == pytest.approx((3.0, 2.0)) and k.M_g == pytest.approx(
        3.2, rel=0.02
    )
    floors = [k.M_f * k.L_g / k.M_g**2, k.M_f**2, k.M_g**2, k.M_g**2 * 0.6**2]
    np.testing.assert_allclose([k.L_f, k.H_1, k.H_2, k.H_3], 1e-3 * np.array(floors))


def test_constants_away_from_zero():
    problem = FiniteSumComposition(
        lambda x, j: x,
        lambda x, j: np.eye(1),
        lambda x, u, i: 3 * u,
        lambda x, u: 1.5 * u[0] ** 2,
        1,
        1,
        1,
    )
    k = estimate_constants(problem, np.ones(1), 0.5, random_state=0)
    assert (k.L_f, k.L_phi, k.M_g) == pytest.approx((3.0, 3.0, 1.0))


def test_the_gradient_shows_what_there_is_to_gain_in_many_dimensions():
    R = 0.01 + 1e-4 * np.random.default_rng(0).normal(size=(50, 40))
    k = estimate_constants(PortfolioProblem(R), np.zeros(40), 1.5, random_state=0)
    assert k.Delta == pytest.approx(1.5 * np.linalg.norm(R.mean(axis=0)), rel=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x0": np.zeros(3)}, r"x0 must have shape \(2,\), got \(3,\)"),
        (
            {"problem": PortfolioProblem(np.eye(2), penalty=Simplex())},
            "problem must have no penalty",
        ),
        (
            {"problem": PortfolioProblem(np.zeros((3, 2)))},
            "must be a finite number > 0, got 0.0",
        ),
    ],
)
def test_estimates_are_checked(changes, message):
    arguments = {
        "problem": PortfolioProblem(np.eye(2)),
        "x0": np.zeros(2),
        "radius": 1.0,
        **changes,
    }
    with pytest.raises(ValueError, match=message):
        estimate_constants(**arguments)
    problem = PortfolioProblem(np.eye(2))
    problem.jacobian_kind = "operator"
    with pytest.raises(ValueError, match="jacobian_kind='operator'"):
        estimate_constants(problem, np.zeros(2), 1.0)
