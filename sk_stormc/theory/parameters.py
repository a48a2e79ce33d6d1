"""The theory of STORM-Compositional as functions: the parameters of Proposition 3.2,
and the conditions on them.

The notation is the paper's: a_. = alpha_. eps, B_. = beta_. / eps, S_. = gamma_. / eps,
T = D / eps^2. If a printed formula has an error, the variant "corrected" is the
default, and "paper" is the printed form.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.utils.parameters import (
    check_bool,
    check_choice,
    check_instance,
    check_number,
)
from sk_stormc.utils.types import FloatArray, Variant

VARIANTS = ("corrected", "paper")


@dataclass(frozen=True)
class ProblemConstants:
    """The constants of Assumptions A1 to A4, each of which is a finite number > 0.

    All but Delta are upper bounds. A constant that is actually 0 (L_g of a linear g,
    H_1 of a single f) may therefore be replaced by any positive number. None may be 0,
    since Proposition 3.2 divides by L_g and by the H's.

    Attributes
    ----------
    L_f : float
        A2: Lipschitz constant of every grad f_i.
    L_g : float
        A2: Lipschitz constant of every Jacobian dg_j, in the Frobenius norm.
    L_phi : float
        A2: Lipschitz constant of every dg_j^T grad f_i(g). One such constant is M_f L_g
        + M_g^2 L_f.
    M_f : float
        A3: bound of every |grad f_i|.
    M_g : float
        A3: bound of every |dg_j|, in the operator norm.
    H_1 : float
        A4: bound of the variance of grad f_i.
    H_2 : float
        A4: bound of the variance of dg_j, in the Frobenius norm.
    H_3 : float
        A4: bound of the variance of g_j.
    Delta : float
        A1: Phi(x_0) - Phi*, or an upper bound of it.

    Raises
    ------
    ValueError
        If a constant is not a finite number > 0.

    Examples
    --------
    >>> from sk_stormc.theory import ProblemConstants
    >>> ProblemConstants(
    ...     L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=0
    ... )
    Traceback (most recent call last):
        ...
    ValueError: Delta must be a finite number > 0, got 0
    """

    L_f: float
    L_g: float
    L_phi: float
    M_f: float
    M_g: float
    H_1: float
    H_2: float
    H_3: float
    Delta: float

    def __post_init__(self):
        for name, value in vars(self).items():
            check_number(name, value, low=0, inclusive=False)


@dataclass(frozen=True)
class StormParameters:
    """Parameters of Algorithm 1, as `storm_parameters` chooses them.

    Attributes
    ----------
    a_g, a_dg, a_phi : float
        The momenta, below 1.
    B_g, B_dg, B_f : int
        Batch sizes. All sizes and T are real numbers if they are not rounded.
    S_g, S_dg, S_f : int
        Sizes of the first batches.
    eta : float
        The learning rate.
    T : int
        Number of iterations.
    K_0 : float
        The constant from which a_phi, B_f and S_f are computed.

    Raises
    ------
    ValueError
        If a parameter is not a finite number > 0.

    Examples
    --------
    >>> from sk_stormc.theory import StormParameters
    >>> StormParameters(0.1, 0.1, 0.1, 2, 3, 4, 20, 30, 40, eta=0.5, T=10, K_0=1.0).ifo
    180
    """

    a_g: float
    a_dg: float
    a_phi: float
    B_g: int
    B_dg: int
    B_f: int
    S_g: int
    S_dg: int
    S_f: int
    eta: float
    T: int
    K_0: float

    def __post_init__(self):
        for name, value in vars(self).items():
            check_number(name, value, low=0, inclusive=False)

    @property
    def ifo(self) -> float:
        """IFO of the run, by Lemma 3.1: S_g + S_dg + S_f + T (B_g + B_dg + B_f)."""
        return (
            self.S_g + self.S_dg + self.S_f + self.T * (self.B_g + self.B_dg + self.B_f)
        )


def _K(k, p):
    """4 M_f^2 P + 4 L_f^2 c^p Q, and c: the increments of G and of g in the lemma on F,
    over eps^2."""
    c = 2 * k.M_g + math.sqrt(k.H_2)
    P = 1 / (24 * k.M_f**2) + 3 * k.L_g**2 / k.L_phi**2 + 1
    Q = 1 / (24 * k.M_g**2 * k.L_f**2) + 3 * k.M_g**2 / k.L_phi**2 + 1
    return 4 * k.M_f**2 * P + 4 * k.L_f**2 * c**p * Q, c


def storm_parameters(
    constants: ProblemConstants,
    epsilon: float,
    variant: Variant = "corrected",
    round_up: bool = True,
) -> StormParameters:
    """Compute the parameters of Proposition 3.2, with which E|grad Phi(x^)| <= epsilon.

    Parameters
    ----------
    constants : ProblemConstants
    epsilon : float
        The accuracy, 0 < epsilon < min(1, 72 L_Phi M_g L_f^2 sqrt(H_3), 72 L_Phi M_f^2
        sqrt(H_2) / L_g).
    variant : {"corrected", "paper"}, default="corrected"
        "paper" is the printed choice, which has c instead of c^2 in K_0, a_Phi and B_f.
        In the printed form, K_0 contains 1/B_f, and B_f contains the root of K_0. The
        result has the B_f that satisfies both equations. Its guarantee is not proved.
    round_up : bool, default=True
        Whether to round B, S and T up to integers. With the real numbers, the
        inequalities of `equipartition` are equalities.

    Returns
    -------
    StormParameters

    Raises
    ------
    ValueError
        If epsilon is outside its range, or so large that a momentum is not below 1.

    Examples
    --------
    >>> from sk_stormc.theory import ProblemConstants, storm_parameters
    >>> k = ProblemConstants(
    ...     L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1
    ... )
    >>> p = storm_parameters(k, 0.1)
    >>> p.a_g, p.B_g, p.T
    (0.05, 4320, 2134)
    """
    check_instance("constants", constants, ProblemConstants)
    check_choice("variant", variant, VARIANTS)
    check_number("epsilon", epsilon, low=0, inclusive=False)
    check_bool("round_up", round_up)
    k, eps = constants, epsilon
    L = k.L_phi
    root_2, root_3 = math.sqrt(k.H_2), math.sqrt(k.H_3)
    bound = min(
        1.0, 72 * L * k.M_g * k.L_f**2 * root_3, 72 * L * k.M_f**2 * root_2 / k.L_g
    )
    if eps >= bound:
        raise ValueError(
            f"epsilon must be < {bound:.6g} (Proposition 3.2), got {eps!r}"
        )

    D = 32 / 3 * L * k.Delta
    p = 2 if variant == "corrected" else 1
    K_0, c = _K(k, p)
    if variant == "corrected":
        B_f = 432 * math.sqrt(2 * c**p * k.H_1 * K_0) / eps
    else:
        # B_f = 432 sqrt(2 c H_1 K_0) / eps with K_0 = K / B_f
        B_f = (432**2 * 2 * c**p * k.H_1 * K_0) ** (1 / 3) * eps ** (-2 / 3)
        K_0 /= B_f
    momenta: dict[str, Any] = {
        "a_g": k.M_g / (L * root_3) * eps,
        "a_dg": k.L_g / (L * root_2) * eps,
        "a_phi": math.sqrt(K_0 / (2 * c**p * k.H_1)) * eps,
    }
    for name, a in momenta.items():
        if not a < 1:
            raise ValueError(
                f"{name} must be < 1, got {a:.6g}: epsilon={eps!r} is too large"
            )
    sizes: dict[str, Any] = {
        "B_g": 864 * k.M_g**3 * k.L_f**2 * root_3 / L / eps,
        "B_dg": 864 * k.M_f**2 * k.L_g * root_2 / L / eps,
        "B_f": B_f,
        "S_g": 81 * k.M_g * k.L_f**2 * k.H_3**1.5 / k.Delta / eps,
        "S_dg": 81 * k.M_f**2 * k.H_2**1.5 / (k.Delta * k.L_g) / eps,
        "S_f": k.M_g**2 * k.H_1 / (D * K_0) * B_f,
        "T": D / eps**2,
    }
    if round_up:
        sizes = {name: max(1, math.ceil(value)) for name, value in sizes.items()}
    return StormParameters(**momenta, **sizes, eta=1 / L, K_0=K_0)


def _check_given(constants, epsilon, parameters):
    check_instance("constants", constants, ProblemConstants)
    check_number("epsilon", epsilon, low=0, inclusive=False)
    check_instance("parameters", parameters, StormParameters)


def _scaled(epsilon, p):
    """alpha, beta, gamma, each of (g, dg, Phi or f), and D."""
    alpha = [a / epsilon for a in (p.a_g, p.a_dg, p.a_phi)]
    beta = [B * epsilon for B in (p.B_g, p.B_dg, p.B_f)]
    gamma = [S * epsilon for S in (p.S_g, p.S_dg, p.S_f)]
    return *alpha, *beta, *gamma, p.T * epsilon**2


def equipartition(
    constants: ProblemConstants, epsilon: float, parameters: StormParameters
) -> FloatArray:
    """Compute the left sides of (E1), (E2) and (E3), corrected, relative to their right
    sides.

    These inequalities are the equipartition of errors in the proof of Proposition 3.2.
    They bound the mean squared errors of g_t, of G_t and of F_t along the run. (E3)
    contains the K_0 of the corrected proposition, which is a bound for that
    proposition's a_g, a_dg, B_g and B_dg (the printed ones are the same). For other
    parameters see `theorem_condition`.

    Parameters
    ----------
    constants : ProblemConstants
    epsilon : float
    parameters : StormParameters

    Returns
    -------
    ndarray of shape (3,)
        Each number is <= 1 if its inequality holds. All are 1 for the corrected
        parameters before rounding.

    Raises
    ------
    ValueError
        If epsilon is not a finite number > 0.

    Examples
    --------
    >>> from sk_stormc.theory import ProblemConstants, equipartition, storm_parameters
    >>> k = ProblemConstants(
    ...     L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1
    ... )
    >>> equipartition(k, 0.1, storm_parameters(k, 0.1, round_up=False)).round(9)
    array([1., 1., 1.])
    >>> equipartition(k, 0.1, storm_parameters(k, 0.1, variant="paper")) <= 1
    array([ True,  True, False])
    """
    _check_given(constants, epsilon, parameters)
    k, L = constants, constants.L_phi
    a_g, a_dg, a_phi, b_g, b_dg, b_f, s_g, s_dg, s_f, D = _scaled(epsilon, parameters)
    K_0, c = _K(k, 2)
    E1 = (
        2 * k.M_g**2 / (a_g * b_g * L**2)
        + 2 * k.H_3 / (D * a_g * s_g)
        + 2 * a_g * k.H_3 / b_g
    )
    E2 = (
        2 * k.L_g**2 / (a_dg * b_dg * L**2)
        + 2 * k.H_2 / (D * a_dg * s_dg)
        + 2 * a_dg * k.H_2 / b_dg
    )
    E3 = (
        K_0 / (a_phi * b_f)
        + k.M_g**2 * k.H_1 / (D * a_phi * s_f)
        + 2 * a_phi * c**2 * k.H_1 / b_f
    )
    return 144 * np.array([k.M_g**2 * k.L_f**2 * E1, k.M_f**2 * E2, E3])


def theorem_condition(
    constants: ProblemConstants,
    epsilon: float,
    parameters: StormParameters,
    variant: Variant = "corrected",
) -> float:
    """Compute the left side of the condition of Theorem 1, which is a sum of twelve
    terms.

    If it is <= 1/16, eta = 1 / L_Phi and T >= (32/3) L_Phi Delta / eps^2, then E|grad
    Phi(x^)| <= epsilon. This holds for any parameters, not only for those of
    Proposition 3.2.

    Parameters
    ----------
    constants : ProblemConstants
    epsilon : float
    parameters : StormParameters
    variant : {"corrected", "paper"}, default="corrected"
        "paper" has 2 M_g + L_g / (L_Phi alpha_dg) instead of its square in the second,
        sixth and ninth terms.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If epsilon is not a finite number > 0, or the variant is unknown.

    Examples
    --------
    >>> from sk_stormc.theory import (
    ...     ProblemConstants,
    ...     storm_parameters,
    ...     theorem_condition,
    ... )
    >>> k = ProblemConstants(
    ...     L_f=1, L_g=1, L_phi=2, M_f=1, M_g=1, H_1=1, H_2=1, H_3=1, Delta=1
    ... )
    >>> theorem_condition(k, 0.1, storm_parameters(k, 0.1)) <= 1 / 16
    True
    >>> theorem_condition(k, 0.1, storm_parameters(k, 0.1, variant="paper")) <= 1 / 16
    False
    """
    check_choice("variant", variant, VARIANTS)
    _check_given(constants, epsilon, parameters)
    k, eps = constants, epsilon
    a_g, a_dg, a_phi, b_g, b_dg, b_f, s_g, s_dg, s_f, D = _scaled(eps, parameters)
    kappa = 2 * k.M_g + k.L_g / (k.L_phi * a_dg)  # bounds |G_t|
    kappa_p = kappa ** (2 if variant == "corrected" else 1)
    f, g, LL = k.M_f**2, k.L_f**2, k.L_phi**2  # of the increments of G and of g
    ab = a_phi * b_f
    terms = (
        36 * f * k.L_g**2 / ab * (4 / (a_dg * b_dg) + 2 * eps / b_dg + 1) / LL,
        36 * g * k.M_g**2 / ab * kappa_p * (4 / (a_g * b_g) + 2 * eps / b_g + 1) / LL,
        6 * f * k.L_g**2 / (a_dg * b_dg) / LL,
        6 * k.M_g**4 * g / (a_g * b_g) / LL,
        6 * f * k.H_2 / (D * a_dg * s_dg) * (24 / ab + 1),
        6 * g * k.H_3 / (D * a_g * s_g) * (24 / ab * kappa_p + k.M_g**2),
        3 * k.M_g**2 * k.H_1 / (D * a_phi * s_f),
        72 * f * a_dg * k.H_2 / (ab * b_dg) * (2 + a_dg * eps),
        72 * g * a_g * k.H_3 / (ab * b_g) * kappa_p * (2 + a_g * eps),
        6 * a_phi / b_f * kappa**2 * k.H_1,
        6 * f * a_dg * k.H_2 / b_dg,
        6 * k.M_g**2 * g * a_g * k.H_3 / b_g,
    )
    return math.fsum(terms)
