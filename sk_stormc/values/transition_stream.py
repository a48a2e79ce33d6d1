"""The projected objective on a stream of transitions: u, its Jacobian and C are means over all transitions so far."""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.metrics import Metric
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.streams.rows import Position
from sk_stormc.streams.source import StreamSource
from sk_stormc.values.forgetting import fading
from sk_stormc.values.markov import minus_scaled
from sk_stormc.values.projected import ProjectedBellmanProblem
from sk_stormc.values.proximal_newton import CURVATURE, ProximalNewton

__all__ = ["TransitionStream"]

UPHILL = 1e-8  # rounding error of the objective, relative to that of zero coefficients


class Following(Metric):
    """The metric of the moments of a run's last batch."""

    stays = False
    curvature = CURVATURE

    def __init__(self, oracle=None):
        self.oracle = oracle

    def bound(self, oracle):
        """The metric for one run."""
        return Following(oracle)

    def at(self, x, t):
        """The `ProximalNewton` metric."""
        return self.oracle.source.newton_at(self.oracle.place("inner"))


@dataclass
class SoFar(Position):
    """A position in a stream of transitions, and the `ProximalNewton` of all transitions up to it."""

    newton: ProximalNewton | None = None


class TransitionSource(StreamSource):
    """Transitions in order. A draw is the `ProximalNewton` of all transitions up to it."""

    cumulative = True

    def __init__(self, batches, make, window):
        super().__init__(batches, make, window)
        self.operator = self.one_outer = True
        self._sampled = True, False, False
        self._now = self._opening = None  # at the position of the run, and after the first window

    def open(self, generators):
        """The initial positions. Only that of g is used."""
        return [SoFar(0) for _ in generators]

    def draw_inner(self, position, shape):
        """The moments of all transitions up to the next ones, once."""
        draws = position.take(shape)
        self.require(draws[0])
        stop = int(draws[-1, -1]) + 1
        found = self.newton_at(position)
        if stop > found.moments.n_rows:
            found = self._plus(found, found.moments.n_rows, stop)
        position.newton = found
        return [found]

    def newton_at(self, position):
        """The `ProximalNewton` of a position, or of the first window if nothing was drawn."""
        if position.newton is not None:
            return position.newton
        if self._opening is None:
            start = ProximalNewton.none(self._make.gamma, self._make.alpha, self._make.half_life)
            self._opening = self._plus(start, 0, min(self.window, self.rows.stop))
        return self._opening

    @property
    def newton(self):
        """The `ProximalNewton` of all transitions so far."""
        return self._now if self._now is not None else self.newton_at(SoFar(0))

    def _plus(self, newton, start, stop):
        Z, next_Z, y, weights = self.rows.between(start, stop)
        return newton.plus(Z, minus_scaled(Z, self._make.gamma, next_Z), y, weights)

    def look_at(self, positions):
        """Set the position of a run, at which the objective is evaluated."""
        super().look_at(positions)
        self._now = self.newton_at(next(iter(positions)))

    def uphill(self, x, start):
        """Whether the objective is twice that of the start, and above rounding."""
        value, nothing = self.newton.value, np.zeros_like(x)
        return not value(x) <= 2 * value(start) + UPHILL * value(nothing)


class TransitionStream(StreamingProblem):
    """Logged transitions in order, each read once: the mean squared projected Bellman error of all transitions so far.

    g is linear, so the running means that Algorithm 1 tracks with momentum 1 / (t + 1) are known exactly: they are
    moments of the transitions. A batch therefore represents all transitions up to its last one, but at least the first
    ``window``. The memory is that of matrices of n_features columns. A transition takes about the time of a few
    products of such a matrix with a vector.

    Parameters
    ----------
    batches : iterable of tuple
        Tuples (features, next_features, rewards, weights).
    window : int
        Number of transitions in the first batch, at least.
    gamma : float
        Discount factor.
    alpha : ndarray of shape (n_features,)
        The ridge.
    half_life : float or None, default=None
        Half-life of the weights, in transitions. None means equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.values.transition_stream import TransitionStream
    >>> Z, next_Z = np.array([[1.0], [2.0]]), np.array([[2.0], [0.0]])
    >>> batches = [(Z, next_Z, np.array([1.0, 0.0]), np.ones(2))] * 100
    >>> stream = TransitionStream(batches, window=50, gamma=0.5, alpha=np.zeros(1))
    >>> minimize(stream, random_state=0).x.round(6)
    array([0.25])
    """

    def __init__(self, batches, window, gamma, alpha, half_life=None):
        self._gamma, self._alpha, self._half_life = gamma, alpha, half_life
        super().__init__(batches, TransitionRows(gamma, alpha, half_life), window=window)
        self.jacobian_kind, self.n_outer = "operator", 1
        self.metric = Following()
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
        """The objective and the metric of all transitions so far."""
        return self.source.newton

    def initial_point(self, rng):
        """The solution of the first transitions."""
        return self.source.newton_at(SoFar(0)).settled(np.zeros(self.n_variables))

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
            Z, next_Z, y, self.gamma, sample_weight=weights, alpha=self.alpha, metric=None
        )
