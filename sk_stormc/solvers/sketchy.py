"""The anchored rule with a sketched preconditioner."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from sk_stormc.core.preconditioners import Diagonal, Identity, LowRank
from sk_stormc.engine import guard
from sk_stormc.solvers.anchors import exact_jacobian
from sk_stormc.solvers.automatic import AnchoredState, AutomaticSTORM
from sk_stormc.utils.parameters import check_int
from sk_stormc.utils.types import Auto, Schedule, Size


@dataclass
class SketchyState(AnchoredState):
    """The state of the anchored rule, and the preconditioner of its steps."""

    preconditioner: object = None


class SketchySTORM(AutomaticSTORM):
    r"""STORM-C's anchored rule, preconditioned by a Nystrom sketch of the Hessian of
    one minibatch.

    The rule is that of `AutomaticSTORM`. Its steps use the inverse of P as
    preconditioner, which is not in the paper:

    .. math::

        P = U (\Lambda + \rho I) U^T + 2 \rho (I - U U^T), \qquad
        U \Lambda U^T = (H \Omega) (\Omega^T H \Omega)^{-1} (H \Omega)^T

    H is the Hessian of one minibatch, the columns of Omega are r random orthonormal
    directions, and rho is the smallest eigenvalue in Lambda. H Omega is computed from r
    finite differences of the minibatch's gradient, in the problem's own (diagonal)
    preconditioner. It is computed once, at the minimum along the gradient.

    The method makes no sketch if the problem has a penalty, whose proximal step would
    have no closed form, or a preconditioner that is already a matrix. The draws of the
    sketch are counted once in the IFO. Their r + 4 evaluations are counted
    individually.

    Parameters
    ----------
    learning_rate : float, callable or "auto", default="auto"
        The learning rate eta of preconditioned steps. Near the minimum of a quadratic,
        a step with the rate 1 is about a Newton step. "auto" is 0.25 / L, or 0.7 / L
        without a sketch or with full batches, where L is the preconditioned curvature
        of minibatches, an estimate whose oracle calls are counted.
    rank : int, default=10
        Rank r of the sketch. It is limited to the number of variables.
    sketch_batch_size : int, default=256
        Number of components in the minibatch of the sketch. With full batches all
        components are used.

    References
    ----------
    Frangella, Rathore, Zhao & Udell, "PROMISE: Preconditioned Stochastic Optimization
    Methods by Incorporating Scalable Curvature Estimates", JMLR 25, 2024 (arXiv
    2309.02014).

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

    instead = "solver='storm-c'"
    checks = {
        "rank": partial(check_int, low=1),
        "sketch_batch_size": partial(check_int, low=1),
    }

    def __init__(
        self,
        *,
        learning_rate: float | Schedule | Auto = "auto",
        batch_size: Size = "auto",
        rank: int = 10,
        sketch_batch_size: Size = 256,
        max_iter: int | None = None,
        max_ifo: int | None = None,
        tol: float = 1e-4,
    ) -> None:
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.rank = rank
        self.sketch_batch_size = sketch_batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def accept(self, problem):
        """Raise a ValueError if the method cannot run on the problem."""
        super().accept(problem)
        limited = problem.advice.normalization is not None
        if problem.jacobian_kind == "operator" or limited:
            raise ValueError(
                "solver='sketchy-storm' is for problems that plain steps between "
                f"anchors solve, got {type(problem).__name__}, whose Jacobian cannot "
                "be combined or whose steps must be limited; use 'storm-c'"
            )

    def needed_to_stream(self):
        """The parameters to set so that the method can run on a stream."""
        return "solver='storm-c'"

    def run_preconditioner(self, oracle, s):
        """The preconditioner of the state, because a resumed run does not make a new
        sketch."""
        # a run may have ended before the sketch
        sketched = isinstance(s, SketchyState) and s.preconditioner is not None
        return s.preconditioner if sketched else oracle.preconditioner

    def init_state(self, oracle, x):
        """Make the sketch, and start the anchored rule in its preconditioner."""
        sketch, diagonal = None, isinstance(oracle.preconditioner, (Identity, Diagonal))
        if oracle.problem.penalty is None and diagonal:
            sketch = self._sketch(oracle, x, self.sizes("batch_size", oracle, rule=16))
            oracle.preconditioner = oracle.preconditioner if sketch is None else sketch
        return SketchyState(
            **vars(super().init_state(oracle, x)), preconditioner=sketch
        )

    def factor(self, oracle, size):
        """The factor of the automatic learning rate. With a sketch it is limited by the
        noise of batches."""
        sketched = isinstance(oracle.preconditioner, LowRank)
        return (
            0.25
            if sketched and not oracle.is_full(size)
            else super().factor(oracle, size)
        )

    def _sketch(self, oracle, x, size):
        """The preconditioner P^-1, from r Hessian-vector products of one minibatch, or
        None if they fail."""
        r, root = min(self.rank, x.size), oracle.preconditioner.root() * np.ones_like(x)
        omega = np.linalg.qr(oracle.rng.standard_normal((x.size, r)))[0].astype(x.dtype)
        gradient = self._minibatch_gradient(oracle, x, size)
        x, h = cauchy_point(gradient, x, root)
        # directions of length 1 in its norm
        F, directions = gradient(x), root * omega.T
        rows = [root * (gradient(x + h * v) - F) / h for v in directions]
        Y = np.array(rows, dtype=float).T
        K = omega.T @ Y
        if not np.isfinite(K).all():
            return None
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        # smaller eigenvalues are rounding errors or negative curvature
        least = math.sqrt(np.finfo(x.dtype).eps)
        positive = values > least * max(values[-1], 0.0)
        if not positive.any():
            return None
        factor = vectors[:, positive] / np.sqrt(values[positive])
        U, sigma, _ = np.linalg.svd(Y @ factor, full_matrices=False)
        top = np.maximum(sigma**2, least * sigma[0] ** 2)
        top, rest = top + top[-1], 2 * top[-1]  # eigenvalues of P, on U and elsewhere
        W = root[:, None] * U * np.sqrt(1 / rest - 1 / top)
        return LowRank((root**2 / rest).astype(x.dtype), W.astype(x.dtype))

    def _minibatch_gradient(self, oracle, x, size):
        """The gradient of Phi for one minibatch. g and dg use the same draws, so that
        the Hessian is symmetric."""
        is_full = oracle.is_full(size)

        def draw(kind):
            n = min(self.sketch_batch_size, oracle.n_components(kind))
            return oracle.draw(kind, None if is_full else n)

        inner, outer = draw("inner"), draw("outer")
        u = guard(oracle, oracle.inner(x, inner), None)
        J = exact_jacobian(oracle, x, u, size)
        if J is not None:
            return lambda y: oracle.gradient(y, u + J @ (y - x), None, outer)
        slope = oracle.draw_jacobian(None, inner, same=True)

        def gradient(y):
            u = guard(oracle, oracle.inner(y, inner), None)
            return oracle.gradient(y, u, oracle.jacobian(y, slope), outer)

        return gradient


def cauchy_point(gradient, x, root):
    """The minimum along the gradient for the curvature at x, and a step length for
    differences of the gradient.

    The sketch is made at this point because the run will move there. At x_0 = 0 the
    semivariance has no Hessian.
    """
    rounding, F = np.finfo(x.dtype).eps, gradient(x)
    length = float(np.linalg.norm(root * F))
    v = -(root**2) * F / (length or 1.0)  # length 1 in the preconditioner's norm
    size = float(np.linalg.norm(v)) or 1.0
    least = math.sqrt(rounding) * float(np.linalg.norm(x)) / size
    h = least + math.sqrt(rounding) / size
    # the first difference only determines a step length that changes F notably
    for _ in range(2):
        w = (gradient(x + h * v) - F) / h
        change = float(np.linalg.norm(root * w))
        if not 0 < change < math.inf:
            return x, h
        h = max(rounding ** (1 / 3) * length / change, least)
    curvature = float(v @ w)
    return (x + (length / curvature) * v if curvature > 0 else x), h
