"""The anchored rule with a sketched preconditioner, and with an inner value that follows its constant Jacobian."""

import copy
import math
from dataclasses import dataclass

import numpy as np

from sk_stormc._validation import check_int
from sk_stormc.engine.steps import advance_outer, guard, is_exact, is_full
from sk_stormc.solvers.storm import STORMCompositional, StormState

__all__ = ["Preconditioner", "SketchySTORM"]


@dataclass
class Preconditioner:
    """diag(scale) - W W^T, positive definite: a metric that is a matrix, kept as d (r + 1) numbers."""

    scale: np.ndarray  # (d,)
    W: np.ndarray  # (d, r)
    ndim = 2

    def __matmul__(self, F):
        return self.scale * F - self.W @ (F @ self.W)

    def inverse_length(self, x):
        """Length of x in the norm of the inverse, by Woodbury's formula."""
        y, W = x / self.scale, self.W.astype(float)
        inner = np.eye(W.shape[1]) - W.T @ (W / self.scale[:, None])
        return math.sqrt(float(x @ y + (y @ W) @ np.linalg.solve(inner, y @ W)))


@dataclass
class SketchyState(StormState):
    """The anchored rule's state, the metric of its steps, and x_0 and u_0 where u follows J."""

    metric: object = None
    origin: tuple | None = None


class SketchySTORM(STORMCompositional):
    """STORM-C's anchored rule, preconditioned by a Nystrom sketch of the Hessian of one minibatch.

    The rule of ``STORMCompositional(anchor="auto")`` with two changes, neither of which is in the paper.

    - Steps are taken in the metric P^-1, P = U (Lambda + rho) U^T + 2 rho (I - U U^T): U Lambda U^T is the Nystrom
      approximation (H Omega)(Omega^T H Omega)^-1 (H Omega)^T of the Hessian H of one minibatch, Omega a random
      orthonormal basis of r directions, and rho the smallest eigenvalue in Lambda. H Omega is r differences of the
      minibatch's gradient, in the problem's own (diagonal) metric, taken once, at the minimum along its gradient.
    - Where the Jacobian is constant and taken exactly, and f has components to sample, u = u_0 + J (x - x_0) is exact
      too, and no component of g is drawn after the start. (Where it varies, the same term corrects u in SCSC,
      Chen, Sun & Yin 2021.)

    With a penalty, whose proximal step would have no closed form, or a metric that is a matrix already, only the
    second applies. The sketch's draws are charged once, its r + 4 evaluations of them each.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        eta, in the preconditioned metric: near the minimum of a quadratic, 1 is about a Newton step. "auto" is
        0.25 / L, or 0.7 / L where nothing is sketched or batches are full, L a charged probe of the curvature of
        minibatches in that metric.
    batch_size : int, None, tuple of three or "auto", default="auto"
        B, or (B_g, B_dg, B_f), as for `STORMCompositional`.
    rank : int, default=10
        r. Not more than the number of variables are used.
    sketch_batch_size : int, default=256
        Components in the minibatch of the sketch; all where batches are full.
    max_iter, max_ifo : int or None, default=None
        Budgets; both None mean 100 passes.
    tol : float, default=1e-4
        Stop when |x~ - x| / eta, in the metric, has fallen to tol times its first value at an anchor.

    References
    ----------
    Frangella, Rathore, Zhao & Udell, "PROMISE: Preconditioned Stochastic Optimization Methods by Incorporating
    Scalable Curvature Estimates", JMLR 25, 2024 (arXiv 2309.02014).
    Chen, Sun & Yin, "Solving Stochastic Compositional Optimization is Nearly as Easy as Solving Stochastic
    Optimization", IEEE Transactions on Signal Processing 69, 2021.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> from sk_stormc import SketchySTORM
    >>> problem = PortfolioProblem(make_gaussian_returns(2000, 10, random_state=0))
    >>> result = minimize(problem, SketchySTORM(tol=1e-6), random_state=0)
    >>> result.stop_reason
    'converged'
    """

    # the anchored rule's, not to be set
    anchor = "auto"
    precision = momentum = "auto"
    init_batch_size = normalization = None
    output = "last"

    def __init__(
        self,
        learning_rate="auto",
        batch_size="auto",
        rank=10,
        sketch_batch_size=256,
        max_iter=None,
        max_ifo=None,
        tol=1e-4,
    ):
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.rank = rank
        self.sketch_batch_size = sketch_batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def validate(self):
        """Raise a ValueError that names the first parameter that is out of its range."""
        super().validate()
        check_int("rank", self.rank, low=1)
        check_int("sketch_batch_size", self.sketch_batch_size, low=1)

    def accept(self, problem):
        """Raise a ValueError where the method cannot run on the problem."""
        super().accept(problem)
        if problem.jacobian_kind == "operator" or problem.defaults.get("normalization") is not None:
            raise ValueError(
                "solver='sketchy-storm' is for problems that plain steps between anchors solve, got "
                f"{type(problem).__name__}, whose Jacobian cannot be combined or whose steps must be limited; "
                "use 'storm-c'"
            )

    def needed_to_stream(self):
        """What to set so that the method can run on a stream."""
        return "solver='storm-c'"

    def solve(self, problem, x0=None, **kwargs):
        """As `STORMCompositional.solve`; the problem's own metric is left alone."""
        return super().solve(copy.copy(problem), x0, **kwargs)

    def init_state(self, oracle, x):
        """The sketch, then the anchored rule's start in its metric."""
        problem = oracle.problem
        size = self.sizes("batch_size", oracle, rule=16)
        if problem.penalty is None and np.ndim(problem.metric) < 2:
            problem.metric = self._sketch(oracle, x, size)
        s = super().init_state(oracle, x)
        # with an f of one component an iteration would be all but free, and a budget of IFO none
        linear = problem.n_outer > 1 and inner_slope(oracle, x, s.now.u, s.batch_size) is not None
        return SketchyState(**vars(s), metric=problem.metric, origin=(x, s.now.u) if linear else None)

    def iterate(self, oracle, s, loop):
        """Make iterations in the state's metric, which a resumed run has not sketched itself."""
        oracle.problem.metric = s.metric
        super().iterate(oracle, s, loop)

    def step_size(self, oracle, x, size, factor, *args, **kwargs):
        """The learning rate: in the sketched metric a stretch is limited by its noise, not by its length."""
        noisy = isinstance(oracle.problem.metric, Preconditioner) and not is_full(oracle, size)
        return super().step_size(oracle, x, size, 0.25 if noisy else factor, *args, **kwargs)

    def cost(self, oracle, s):
        """IFO of the coming `step`."""
        if s.origin is None:
            return super().cost(oracle, s)
        return oracle.price("outer", None if s.refresh else s.batch_size[2])

    def _estimate(self, oracle, s, x):
        if s.origin is None:
            return super()._estimate(oracle, s, x)
        x_0, u_0 = s.origin
        u = guard(oracle, u_0 + oracle.exact_jacobian(x) @ (x - x_0), None)
        return advance_outer(oracle, s.now, x, u, None, None, 0, None if s.refresh else s.batch_size[2])

    def _sketch(self, oracle, x, size):
        """The metric P^-1, from r Hessian-vector products of one minibatch; the problem's own where they fail."""
        metric, r = oracle.problem.metric, min(self.rank, x.size)
        root = np.ones_like(x) if metric is None else np.sqrt(metric)
        omega = np.linalg.qr(oracle.rng.standard_normal((x.size, r)))[0].astype(x.dtype)
        gradient = self._minibatch_gradient(oracle, x, size)
        x, h = cauchy_point(gradient, x, root)
        F, directions = gradient(x), root * omega.T  # of length 1 in the metric
        Y = np.array([root * (gradient(x + h * v) - F) / h for v in directions], dtype=float).T
        K = omega.T @ Y
        if not np.isfinite(K).all():
            return metric
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        least = math.sqrt(np.finfo(x.dtype).eps)  # below is rounding, or negative curvature
        seen = values > least * max(values[-1], 0.0)
        if not seen.any():
            return metric
        U, sigma, _ = np.linalg.svd(Y @ (vectors[:, seen] / np.sqrt(values[seen])), full_matrices=False)
        top = np.maximum(sigma**2, least * sigma[0] ** 2)
        top, rest = top + top[-1], 2 * top[-1]  # eigenvalues of P, on U and elsewhere
        W = root[:, None] * U * np.sqrt(1 / rest - 1 / top)
        return Preconditioner((root**2 / rest).astype(x.dtype), W.astype(x.dtype))

    def _minibatch_gradient(self, oracle, x, size):
        """Phi's gradient for one minibatch: the same draws of g and of dg, so that its Jacobian is symmetric."""
        everything = is_full(oracle, size)

        def draw(kind):
            S = None if everything else min(self.sketch_batch_size, oracle.n_components(kind))
            batch = oracle.draw(kind, S)
            oracle.forget(kind, S)  # drawn once
            return batch

        inner, outer = draw("inner"), draw("outer")
        u = guard(oracle, oracle.inner(x, inner), None)
        slope = inner_slope(oracle, x, u, size)
        if slope is not None:
            return lambda y: oracle.gradient(y, u + slope @ (y - x), None, outer)
        oracle.share(inner)

        def gradient(y):
            u = guard(oracle, oracle.inner(y, inner), None)
            return oracle.gradient(y, u, oracle.jacobian(y, inner), outer)

        return gradient


def cauchy_point(gradient, x, root):
    """The minimum along the gradient, as its curvature at x has it, and a length for differences of the gradient.

    Curvature is to be sketched where the run will go: the semivariance, at x_0 = 0, has none that is linear.
    """
    rounding, F = np.finfo(x.dtype).eps, gradient(x)
    length = float(np.linalg.norm(root * F))
    v = -(root**2) * F / (length or 1.0)  # of length 1 in the metric
    size = float(np.linalg.norm(v)) or 1.0
    least = math.sqrt(rounding) * float(np.linalg.norm(x)) / size
    h = least + math.sqrt(rounding) / size
    for _ in range(2):  # the first difference only finds the length that changes F by enough to be seen
        w = (gradient(x + h * v) - F) / h
        change = float(np.linalg.norm(root * w))
        if not 0 < change < math.inf:
            return x, h
        h = max(rounding ** (1 / 3) * length / change, least)
    bend = float(v @ w)
    return (x + (length / bend) * v if bend > 0 else x), h


def inner_slope(oracle, x, u, size):
    """The Jacobian that u follows, of shape (l, n_variables); None where it is not constant, exact and an array."""
    if not is_exact(oracle, size):
        return None
    J = oracle.exact_jacobian(x)
    return J if getattr(J, "shape", None) == (u.size, x.size) else None
