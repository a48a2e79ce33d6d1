"""A non-convex composition with known constants: the problem of the experiment
`complexity`."""

import math

import numpy as np
from scipy.linalg import hadamard

from sk_stormc.core.advice import Advice
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import FiniteSource
from sk_stormc.theory import ProblemConstants

SIZE = 10  # d = l
BEND = 0.25  # c
# number of kinds of components; the columns of the table are orthogonal to one another
# and to ones
KINDS = 32
WAVES = hadamard(KINDS)[:, 1 : 2 * SIZE + 1].astype(float)


def bounded(problem):
    """False: Phi >= 0."""
    return False


class Kinds(FiniteSource):
    """Draws of the kinds of components, which determine the components."""

    def draw_inner(self, rng, shape):
        """Numbers below KINDS."""
        return rng.integers(KINDS, size=shape, dtype=np.uint8)

    draw_outer = draw_inner


class BentValley(CompositionalProblem):
    """A bent valley in ten variables, along which Phi decreases for ever and ever more
    slowly, with persistent noise.

    f(y) = (1 + y_1^2)^(-1/2) + sum_{k>1} log(1 + y_k^2) / 2, which is not convex, and
    g(x) = (x_1, x_2 - c sin(x_1 + 2), ..., x_l - c sin(x_1 + l)) with c = 1/4. Hence
    Phi >= 0, and 0 is the infimum, which is not attained. Every component of g and of f
    contains its own waves, sigma (s cos x + s' sin x) and tau (s sin y - s' cos y) in
    each coordinate, where the signs s and s' have mean zero and are uncorrelated over
    32 kinds of components, 2^15 each.

    Along the valley |grad Phi| decreases as y_1^-2. With steps of length eps its sum
    over the path tends to a constant times 1/eps, so that its average is eps after T ~
    eps^-2 steps; plain gradient descent needs T ~ eps^-1.5. Across the valley the
    curvature turns the noise of the steps into a gradient, which limits the accuracy
    for given steps and batches.

    Parameters
    ----------
    sigma, tau : float, default=0.25
        Sizes of the waves of g and of f.
    """

    n_inner = n_outer = 2**20
    n_variables = SIZE
    source = Kinds(n_inner, n_outer)
    advice = Advice(unbounded_below=bounded)

    def __init__(self, sigma=0.25, tau=0.25):
        self.sigma, self.tau = sigma, tau
        self._phases = np.arange(2.0, SIZE + 1)

    def constants(self):
        """The constants of Assumptions A1 to A4."""
        # f's Hessian is diagonal, |h'|, |b'| <= 1/2, |h''|, |b''| <= 1, +-cos +-sin <=
        # sqrt(2); dg_j is a diagonal plus one column of entries c cos; the variances
        # are the same everywhere, since cos^2 + sin^2 = 1
        sigma, tau, column = self.sigma, self.tau, BEND * math.sqrt(SIZE - 1)
        wave = math.sqrt(2)
        M_f, L_f = math.sqrt(SIZE) * (0.5 + wave * tau), 1 + wave * tau
        M_g, L_g = 1 + wave * sigma + column, wave * sigma + column
        H = sigma**2 * SIZE
        Delta = self.objective(self.initial_point(None))
        return ProblemConstants(
            L_f, L_g, M_f * L_g + M_g**2 * L_f, M_f, M_g, tau**2 * SIZE, H, H, Delta
        )

    def initial_point(self, rng):
        """x_0, with y_1 = 1, where h is steepest, and the other coordinates half way
        up."""
        x = np.full(SIZE, 0.5)
        x[0] = 1.0
        x[1:] += BEND * np.sin(1.0 + self._phases)
        return x

    def inner_batch(self, draws, weights=None):
        """The means of s and of s' over a batch, which are 0 over all components."""
        if draws is None:
            return np.zeros(SIZE), np.zeros(SIZE)
        signs = np.bincount(draws, weights, minlength=KINDS).dot(WAVES) / draws.size
        return signs[:SIZE], signs[SIZE:]

    outer_batch = inner_batch

    def inner(self, x, batch):
        """g(x, B)."""
        s, s_ = batch
        y = x + self.sigma * (s * np.cos(x) + s_ * np.sin(x))
        y[1:] -= BEND * np.sin(x[0] + self._phases)
        return y

    def jacobian(self, x, batch):
        """dg(x, B), of shape (l, d)."""
        s, s_ = batch
        J = np.zeros((SIZE, SIZE))
        waves = s_ * np.cos(x) - s * np.sin(x)
        J.flat[:: SIZE + 1] = 1 + self.sigma * waves
        J[1:, 0] -= BEND * np.cos(x[0] + self._phases)
        return J

    def outer_gradient(self, x, u, batch):
        """grad f(u, B); f does not use x directly."""
        s, s_ = batch
        q = 1 + u * u
        grad = u / q
        grad[0] = -u[0] * q[0] ** -1.5
        return None, grad + self.tau * (s * np.cos(u) + s_ * np.sin(u))

    def outer(self, x, u):
        """f(u)."""
        q = 1 + u * u
        return float(q[0] ** -0.5 + 0.5 * np.log(q[1:]).sum())
