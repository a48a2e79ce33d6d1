"""The projected objective on a stream of transitions, preconditioned by the inverse
Hessian (proximal Newton)."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from sk_stormc.core.preconditioners import Preconditioner
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.streams.rows import Position
from sk_stormc.streams.source import StreamSource
from sk_stormc.values.markov import minus_scaled
from sk_stormc.values.reading.episodes import fading, remaining, remembered
from sk_stormc.values.sums.lstd import TransitionMoments
from sk_stormc.values.sums.projected import ProjectedBellmanProblem


@dataclass(frozen=True, eq=False)
class ProximalNewton(Preconditioner):
    """The projected objective of some moments, and its inverse Hessian as a
    preconditioner.

    The objective is |L^-1 (A w - b)|^2 with the means A and b and L L^T = C. alpha is
    added to the diagonals of A and C. A small multiple of C is added to the Hessian.
    The result is a step of the proximal point method, which contracts in the norm of C,
    even if A is ill-conditioned. All columns are first divided by their root mean
    squares.
    """

    stays = False
    curvature = 0.5  # with it a step of "storm-c" is that of the proximal point

    moments: TransitionMoments
    proximal: float  # weight of C in the Hessian
    alpha: np.ndarray  # the ridge of each feature
    half_life: float | None = None  # half-life of the weights, in transitions

    @classmethod
    def none(cls, gamma, alpha, half_life=None):
        """The object for zero transitions."""
        # (1 - gamma)^2 is the smallest curvature of stationary states
        proximal = 1e-3 * (1 - gamma) ** 2
        return cls(TransitionMoments.none(len(alpha)), proximal, alpha, half_life)

    def plus(self, Z, difference, y, weights):
        """The object after more transitions. ``difference`` is phi - gamma phi'."""
        before = self.moments
        if self.half_life is not None:
            before = before * remaining(self.half_life, len(y))
            weights = weights * fading(self.half_life, np.arange(len(y)))
        return replace(
            self, moments=before + TransitionMoments.of(Z, difference, y, weights)
        )

    def __deepcopy__(self, memo):
        return self  # immutable

    def __getstate__(self):
        return {field.name: vars(self)[field.name] for field in fields(self)}

    @cached_property
    def means(self):
        """A, b and C, with the ridge."""
        A, b, C = self.moments.means()
        ridge = np.diag(self.alpha)
        return A + ridge, b, C + ridge

    @cached_property
    def size_of_columns(self):
        """Root mean squares of the features, or 1 for features that are 0 in all
        states."""
        size = np.sqrt(self.means[2].diagonal())
        return np.where(size > 0, size, 1.0)

    @cached_property
    def factor(self):
        """L of the scaled C, lower triangular."""
        s = self.size_of_columns
        # transitions do not determine directions in which C is below the ridge
        ridge = 1e-8 * np.eye(len(s))
        return cholesky(self.means[2] / np.outer(s, s) + ridge, lower=True)

    @cached_property
    def whitened(self):
        """L^-1 A of the scaled columns, and L^-1 A L^-T.

        The coefficient of a feature that is 0 in all states stays 0, as in
        `BellmanValueEstimator.fit`. The value of a successor with such a feature is
        unknown and must not affect the other coefficients.
        """
        s = self.size_of_columns
        A, _, C = self.means
        A = np.where(C.diagonal() > 0, A, 0.0) / np.outer(s, s)
        left = solve_triangular(self.factor, A, lower=True)
        return left, solve_triangular(self.factor, left.T, lower=True).T

    @cached_property
    def hessian_factor(self):
        """Lower triangular factor of half the Hessian in coordinates in which C is the
        identity."""
        M = self.whitened[1]
        H = M.T @ M + self.proximal * np.eye(len(M))
        W = solve_triangular(self.factor, np.eye(len(M)), lower=True)
        # squared coefficients, for solutions of small norm
        H += min(4e-2 * self.proximal, 1e-7) * (W @ W.T)
        return cholesky(H, lower=True)

    # the objective

    def residual(self, x):
        """L^-1 (A x - b)."""
        A, b, _ = self.means
        return solve_triangular(
            self.factor, (A @ x - b) / self.size_of_columns, lower=True
        )

    def pull(self, v):
        """(L^-1 A)^T v."""
        return (v @ self.whitened[0]) * self.size_of_columns

    def value(self, x):
        """The objective."""
        u = self.residual(x)
        return float(u @ u)

    def gradient(self, x):
        """The gradient of the objective."""
        return 2 * self.pull(self.residual(x))

    # the preconditioner

    def apply(self, F):
        """The inverse Hessian times F."""
        L, H, s = self.factor, self.hessian_factor, self.size_of_columns
        p = solve_triangular(L, F / s, lower=True)
        p = solve_triangular(H, solve_triangular(H, p, lower=True), lower=True, trans=1)
        return solve_triangular(L, p, lower=True, trans=1) / (2 * s)

    def size(self, x):
        """A lower bound of sqrt(x^T M^-1 x), with the proximal part of M^-1 only."""
        return np.sqrt(2 * self.proximal) * self.spread(x)

    def spread(self, x):
        """Root mean square of the values with the coefficients x."""
        return float(np.linalg.norm(self.factor.T @ (x * self.size_of_columns)))

    def fixed_point(self, x):
        """The point to which steps from x converge on these moments, up to a relative
        change of 1e-3."""
        for k in range(64):
            step = self.apply(self.gradient(x))
            x = x - step
            if k >= 7 and self.spread(step) <= 1e-3 * self.spread(x):
                break
        return x

    def sampling_error(self, noise):
        """Root mean square of the values' sampling error at the minimiser. ``noise`` is
        that of the TD errors.

        Its square is sigma^2 / n times the trace of (M^T M)^-1 with M = L^-1 A L^-T:
        the asymptotic variance of LSTD for uncorrelated errors. Directions that the
        transitions do not determine are excluded, because M is 0 in them.
        """
        inverse = cho_solve((self.hessian_factor, True), self.whitened[1].T)
        return (
            noise
            * float(np.linalg.norm(inverse))
            / np.sqrt(remembered(self.half_life, self.moments.n_rows))
        )


class MomentsPreconditioner(Preconditioner):
    """The preconditioner from the moments of a run's last batch."""

    stays = False
    curvature = ProximalNewton.curvature

    def __init__(self, oracle=None):
        self.oracle = oracle

    def bound(self, oracle):
        """The preconditioner for one run."""
        return MomentsPreconditioner(oracle)

    def at(self, x, t):
        """The `ProximalNewton` preconditioner."""
        return self.oracle.source.newton_at(self.oracle.place("inner"))


@dataclass
class MomentsPosition(Position):
    """A position in a stream of transitions, and the `ProximalNewton` of all
    transitions up to it."""

    newton: ProximalNewton | None = None


class TransitionSource(StreamSource):
    """Transitions in order. A draw is the `ProximalNewton` of all transitions up to
    it."""

    cumulative = True

    def __init__(self, batches, make, window):
        super().__init__(batches, make, window)
        self.operator = self.one_outer = True
        self._sampled = True, False, False
        self._now = self._opening = (
            None  # at the position of the run, and after the first window
        )

    def open(self, generators):
        """The initial positions. Only that of g is used."""
        return [MomentsPosition(0) for _ in generators]

    def draw_inner(self, position, shape):
        """The moments of all transitions up to the next ones, once."""
        draws = position.take(shape)
        self.require(draws[0])
        stop = int(draws[-1, -1]) + 1
        newton = self.newton_at(position)
        if stop > newton.moments.n_rows:
            newton = self._plus(newton, newton.moments.n_rows, stop)
        position.newton = newton
        return [newton]

    def newton_at(self, position):
        """The `ProximalNewton` of a position, or of the first window if nothing was
        drawn."""
        if position.newton is not None:
            return position.newton
        if self._opening is None:
            start = ProximalNewton.none(
                self._make.gamma, self._make.alpha, self._make.half_life
            )
            self._opening = self._plus(start, 0, min(self.window, self.rows.stop))
        return self._opening

    @property
    def newton(self):
        """The `ProximalNewton` of all transitions so far."""
        return (
            self._now if self._now is not None else self.newton_at(MomentsPosition(0))
        )

    def _plus(self, newton, start, stop):
        Z, next_Z, y, weights = self.rows.between(start, stop)
        return newton.plus(Z, minus_scaled(Z, self._make.gamma, next_Z), y, weights)

    def look_at(self, positions):
        """Set the position of a run, at which the objective is evaluated."""
        super().look_at(positions)
        self._now = self.newton_at(next(iter(positions)))

    def excess(self, x, start, place):
        """NaN, because all transitions so far are compared at once."""
        return math.nan

    def uphill(self, x, start):
        """Whether the objective is twice that of the initialization, and above
        rounding."""
        value = self.newton.value
        rounding = 1e-8 * value(np.zeros_like(x))
        return not value(x) <= 2 * value(start) + rounding


class TransitionStream(StreamingProblem):
    """Logged transitions in order, each read once: the mean squared projected Bellman
    error of all transitions so far.

    g is linear, so the running means that Algorithm 1 tracks with momentum 1 / (t + 1)
    are computed exactly: they are moments of the transitions. A batch therefore
    represents all transitions up to its last one, but at least the first ``window``.
    The memory consists of matrices with n_features columns. A transition takes about
    the time of a few products of such a matrix with a vector. ``batches`` are tuples
    (features, next_features, rewards, weights).
    """

    def __init__(self, batches, window, gamma, alpha, half_life=None):
        self._gamma, self._half_life = gamma, half_life
        super().__init__(
            batches, TransitionRows(gamma, alpha, half_life), window=window
        )
        self.jacobian_kind, self.n_outer = "operator", 1
        self.preconditioner = MomentsPreconditioner()
        self.advice = replace(self.advice, batch_size=max(32, self.n_variables // 2))

    def _open(self, batches, problem, window, weighted):
        return TransitionSource(batches, problem, window)

    def inner_batch(self, draws):
        """The moments."""
        return draws

    def outer_batch(self, draws):
        """None, because f has a single component."""
        return None

    def inner(self, x, batch):
        """u = L^-1 (A x - b)."""
        return batch.residual(x)

    def jacobian(self, x, batch):
        """The moments, which represent L^-1 A."""
        return batch

    def vjp(self, J, v):
        """(L^-1 A)^T v."""
        return J.pull(v)

    def outer_gradient(self, x, u, batch):
        """f_x = 0 and f_u = 2 u."""
        return np.zeros_like(x), 2 * u

    def outer(self, x, u):
        """|u|^2."""
        return float(u @ u)

    def objective(self, x):
        """The objective over all transitions so far."""
        return self.newton.value(x)

    def gradient(self, x):
        """The gradient of the objective over all transitions so far."""
        return self.newton.gradient(x)

    @property
    def newton(self):
        """The objective and the preconditioner of all transitions so far."""
        return self.source.newton

    def initial_point(self, rng):
        """The solution of the first transitions."""
        return self.source.newton_at(MomentsPosition(0)).fixed_point(
            np.zeros(self.n_variables)
        )

    def noise(self, x):
        """Root mean square of the TD errors over the last transitions."""
        rows = self.source.rows
        start, stop = max(rows.start, rows.used - self.window), max(rows.used, 1)
        Z, next_Z, y, weights = rows.between(start, stop)
        error = (Z - self._gamma * next_Z) @ x - y
        weights = weights * fading(self._half_life, np.arange(len(error)))
        return float(np.sqrt(weights @ error**2 / (weights.sum() or 1.0)))


@dataclass(frozen=True, eq=False)
class TransitionRows:
    """A factory that makes a `ProjectedBellmanProblem` from rows."""

    gamma: float
    alpha: np.ndarray
    half_life: float | None = None

    def __call__(self, Z, next_Z, y, weights):
        return ProjectedBellmanProblem(
            Z,
            next_Z,
            y,
            self.gamma,
            sample_weight=weights,
            alpha=self.alpha,
            preconditioner=None,
        )
