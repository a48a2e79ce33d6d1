"""The projected objective on a stream of transitions: u, its Jacobian and C are means over all that have come."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from sk_stormc.core.metrics import Metric
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.streams.rows import Position
from sk_stormc.streams.source import StreamSource
from sk_stormc.values.markov import dense, scale_rows
from sk_stormc.values.problem import ProjectedBellmanProblem

__all__ = ["Moments", "TransitionStream"]

RIDGE = 1e-8  # of C with columns of size one: of directions that are smaller, the transitions say nothing
PROXIMAL = 1e-3  # of (1 - gamma)^2, the least curvature there can be in the norm of C where states are stationary
CURVATURE = 0.5  # said to methods, where it is at most 1: a step of "storm-c" is then that of the proximal point
UPHILL = 1e-8  # of the objective of no values: rounding
SHORT = 1e-7  # of the squared coefficients, in the Hessian too: of solutions that fit alike, steps lead to a short one
START = 8  # steps to where a stream starts, on the moments of its first transitions


@dataclass(frozen=True, eq=False)
class Moments(Metric):
    """Weighted sums over transitions, and the metric that they make: the inverse Hessian of the objective.

    The objective is |L^-1 (A w - b)|^2 + sum_j alpha_j w_j^2 with A = mean phi (phi - gamma phi')^T, b = mean r phi and
    L L^T = C = mean phi phi^T. The Hessian gets a small multiple of C, so that a step is that of a proximal point
    method: it contracts in the norm of C for these moments, however ill-conditioned A is. All columns are divided by
    their root mean squares first.

    Attributes
    ----------
    n : int
        Transitions.
    weight : float
        Sum of their weights.
    A, C : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,)
        Sums, not means.
    proximal : float
        Of C in the Hessian.
    alpha : ndarray of shape (n_features,)
    """

    stays = False
    curvature = CURVATURE

    n: int
    weight: float
    A: np.ndarray = field(repr=False)
    b: np.ndarray = field(repr=False)
    C: np.ndarray = field(repr=False)
    proximal: float
    alpha: np.ndarray = field(repr=False)

    @classmethod
    def none(cls, gamma, alpha):
        """The moments of no transition."""
        d = len(alpha)
        return cls(0, 0.0, np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), PROXIMAL * (1 - gamma) ** 2, alpha)

    def plus(self, Z, difference, y, weights):
        """Those of these transitions too; ``difference`` is phi - gamma phi'."""
        weighted = scale_rows(weights, Z).T
        return replace(
            self,
            n=self.n + len(y),
            weight=self.weight + float(weights.sum()),
            A=self.A + dense(weighted @ difference),
            b=self.b + weighted @ y,
            C=self.C + dense(weighted @ Z),
        )

    def __deepcopy__(self, memo):
        return self  # nothing is written into

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state):
        self.__dict__.update(state)

    @cached_property
    def size_of_columns(self):
        """Root mean squares; 1 for a feature that no transition has."""
        size = np.sqrt(self.C.diagonal() / self.weight)
        return np.where(size > 0, size, 1.0)

    @cached_property
    def factor(self):
        """L of the scaled C, lower triangular."""
        s = self.size_of_columns
        return cholesky(self.C / (self.weight * np.outer(s, s)) + RIDGE * np.eye(len(s)), lower=True)

    @cached_property
    def whitened(self):
        """L^-1 A of the scaled columns, and L^-1 A L^-T.

        A feature that no left state has is left alone, as in `BellmanValueEstimator.fit`: of the value of a successor
        that was never left nothing is known, and it must not be what explains the others.
        """
        s = self.size_of_columns
        A = np.where(self.C.diagonal() > 0, self.A, 0.0) / (self.weight * np.outer(s, s))
        left = solve_triangular(self.factor, A, lower=True)
        return left, solve_triangular(self.factor, left.T, lower=True).T

    @cached_property
    def hessian_factor(self):
        """Lower triangular factor of half the Hessian where C is the identity."""
        M = self.whitened[1]
        H = M.T @ M + self.proximal * np.eye(len(M))
        W = np.sqrt(SHORT + self.alpha / self.size_of_columns**2)
        W = solve_triangular(self.factor, np.diag(W), lower=True)
        H += W @ W.T
        return cholesky(H, lower=True)

    # the objective

    def residual(self, x):
        """L^-1 (A x - b)."""
        u = (self.A @ x - self.b) / (self.weight * self.size_of_columns)
        return solve_triangular(self.factor, u, lower=True)

    def pull(self, v):
        """(L^-1 A)^T v."""
        return (v @ self.whitened[0]) * self.size_of_columns

    def value(self, x):
        """The objective."""
        u = self.residual(x)
        return float(u @ u + self.alpha @ x**2)

    def gradient(self, x):
        """Its gradient."""
        return 2 * self.pull(self.residual(x)) + 2 * self.alpha * x

    # the metric

    def apply(self, F):
        """The inverse Hessian times F."""
        L, H, s = self.factor, self.hessian_factor, self.size_of_columns
        p = solve_triangular(L, F / s, lower=True)
        p = solve_triangular(H, solve_triangular(H, p, lower=True), lower=True, trans=1)
        return solve_triangular(L, p, lower=True, trans=1) / (2 * s)

    def size(self, x):
        """sqrt(x^T M^-1 x), with C times the proximal number for M^-1: a lower bound."""
        return np.sqrt(2 * self.proximal) * self.spread(x)

    def spread(self, x):
        """Root mean square of the values that have the coefficients x."""
        return float(np.linalg.norm(self.factor.T @ (x * self.size_of_columns)))

    def settled(self, x, n_steps=START):
        """Where so many steps from x lead on these moments."""
        for _ in range(n_steps):
            x = x - self.apply(self.gradient(x))
        return x

    def sampling_error(self, noise):
        """Root mean square of the error of values, of a minimiser from TD errors of this root mean square.

        sigma^2 / n times the trace of (M^T M)^-1, M = L^-1 A L^-T: the asymptotic variance of LSTD where the errors of
        transitions are uncorrelated. Directions that no transition has do not count: M is 0 there.
        """
        inverse = cho_solve((self.hessian_factor, True), self.whitened[1].T)
        return noise * float(np.linalg.norm(inverse)) / np.sqrt(self.n)


class Following(Metric):
    """The metric of the moments that the last batch of a run has."""

    stays = False
    curvature = CURVATURE

    def __init__(self, oracle=None):
        self.oracle = oracle

    def bound(self, oracle):
        """For one run."""
        return Following(oracle)

    def at(self, x, t):
        """The `Moments`."""
        return self.oracle.source.moments_at(self.oracle.place("inner"))


@dataclass
class MomentsSoFar(Position):
    """A position in a stream of transitions, and the moments of all up to there."""

    moments: Moments | None = None


class TransitionSource(StreamSource):
    """Transitions in order; a draw is the moments of all up to there."""

    cumulative = True

    def __init__(self, batches, make, window):
        super().__init__(batches, make, window)
        self.operator = self.one_outer = True
        self._sampled = True, False, False
        self._now = self._opening = None  # moments: where a run is, and of the first window

    def open(self, generators):
        """Positions; only that of g is used."""
        return [MomentsSoFar(0) for _ in generators]

    def draw_inner(self, position, shape):
        """The moments of all transitions up to the next ones, once."""
        draws = position.take(shape)
        self.require(draws[0])
        stop = int(draws[-1, -1]) + 1
        found = self.moments_at(position)
        if stop > found.n:
            found = self._plus(found, found.n, stop)
        position.moments = found
        return [found]

    def moments_at(self, position):
        """Those of a position; of the first window, where nothing was drawn."""
        if position.moments is not None:
            return position.moments
        if self._opening is None:
            start = Moments.none(self._make.gamma, self._make.alpha)
            self._opening = self._plus(start, 0, min(self.window, self.rows.stop))
        return self._opening

    @property
    def moments(self):
        """Those of all transitions so far."""
        return self._now if self._now is not None else self.moments_at(MomentsSoFar(0))

    def _plus(self, moments, start, stop):
        Z, next_Z, y, weights = self.rows.between(start, stop)
        return moments.plus(Z, Z - self._make.gamma * next_Z, y, weights)

    def look_at(self, positions):
        """Take the objective from where a run is."""
        super().look_at(positions)
        self._now = self.moments_at(next(iter(positions)))

    def uphill(self, x, start):
        """Whether the objective is twice that of the start, and above rounding."""
        value, nothing = self.moments.value, np.zeros_like(x)
        return not value(x) <= 2 * value(start) + UPHILL * value(nothing)


class TransitionStream(StreamingProblem):
    """Logged transitions in order, each read once: the mean squared projected Bellman error of all that have come.

    g is linear, so that the running means which Algorithm 1 tracks with momentum 1 / (t + 1) are known without an
    error: they are moments of the transitions. A batch therefore stands for all transitions up to its last one, and for
    the first ``window`` of them at the least; its rows are what it adds. Memory and time are those of matrices of
    n_features columns, the time of a transition about that of a few products of such a matrix with a vector.

    Parameters
    ----------
    batches : iterable
        Of tuples (features, next_features, rewards, weights).
    window : int
    gamma : float
    alpha : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.values.moments import TransitionStream
    >>> Z, next_Z = np.array([[1.0], [2.0]]), np.array([[2.0], [0.0]])
    >>> batches = [(Z, next_Z, np.array([1.0, 0.0]), np.ones(2))] * 100
    >>> stream = TransitionStream(batches, window=50, gamma=0.5, alpha=np.zeros(1))
    >>> minimize(stream, random_state=0).x.round(6)
    array([0.25])
    """

    def __init__(self, batches, window, gamma, alpha):
        self._gamma, self._alpha = gamma, alpha
        super().__init__(batches, TransitionRows(gamma, alpha), window=window)
        self.jacobian_kind, self.n_outer = "operator", 1
        self.metric = Following()
        self.advice = replace(self.advice, batch_size=max(32, self.n_variables // 2))

    def _open(self, batches, problem, window, weighted):
        return TransitionSource(batches, problem, window)

    def inner_batch(self, draws):
        """The moments."""
        return draws

    def outer_batch(self, draws):
        """Nothing: f has one component."""
        return None

    def inner(self, x, batch):
        """u = L^-1 (A x - b)."""
        return batch.residual(x)

    def jacobian(self, x, batch):
        """The moments, which stand for L^-1 A."""
        return batch

    def vjp(self, J, v):
        """(L^-1 A)^T v."""
        return J.pull(v)

    def outer_gradient(self, x, u, batch):
        """f_x = 2 alpha x and f_u = 2 u."""
        return 2 * self._alpha * x, 2 * u

    def outer(self, x, u):
        """|u|^2 + sum_j alpha_j x_j^2."""
        return float(u @ u + self._alpha @ x**2)

    def objective(self, x):
        """The objective over all transitions so far."""
        return self.moments.value(x)

    def gradient(self, x):
        """Its gradient."""
        return self.moments.gradient(x)

    @property
    def moments(self):
        """Those of all transitions so far."""
        return self.source.moments

    def initial_point(self, rng):
        """What the first transitions say."""
        return self.source.moments_at(MomentsSoFar(0)).settled(np.zeros(self.n_variables))

    def noise(self, x):
        """Root mean square of the TD errors over the last transitions."""
        rows = self.source.rows
        start, stop = max(rows.start, rows.used - self.window), max(rows.used, 1)
        Z, next_Z, y, weights = rows.between(start, stop)
        error = (Z - self._gamma * next_Z) @ x - y
        return float(np.sqrt(np.average(error**2, weights=weights)))


@dataclass(frozen=True, eq=False)
class TransitionRows:
    """What makes a `ProjectedBellmanProblem` of some rows."""

    gamma: float
    alpha: np.ndarray

    def __call__(self, Z, next_Z, y, weights):
        return ProjectedBellmanProblem(
            Z, next_Z, y, self.gamma, sample_weight=weights, alpha=self.alpha, metric=None
        )
