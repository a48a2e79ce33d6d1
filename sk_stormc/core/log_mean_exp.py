"""The log of a mean of exponentials: entropic risks, KL-robust losses, soft maxima."""

import copy
from abc import abstractmethod

import numpy as np
from scipy.special import logsumexp

from sk_stormc.core.weighted import WeightedComponents

__all__ = ["LogMeanExpProblem"]

# Larger exponents are clipped: their exponentials, times gradients, stay far inside the range of the dtype.
LARGEST = {np.dtype(np.float64): 600.0, np.dtype(np.float32): 70.0}


class LogMeanExpProblem(WeightedComponents):
    """Minimise Phi(x) = scale * log sum_j w_j exp(e_j(x)) + R(x).

    The inner value is u = exp(-c) sum_j w_j exp(e_j(x)), and f(u) = scale * (log u + c) is one component. The log c of
    the unit of u is 0 for a new problem and c for ``scaled(c)``. Phi and its gradient do not depend on it, but numbers
    have a range: u and its estimates are accurate where c is near log sum_j w_j exp(e_j(x)), which is `log_scale`. The
    engine keeps such a c in the state of a run and renews it as x moves. With it, errors are of the size of an exponent
    times the machine epsilon. Exponents further from c than 600 (float32: 70) are clipped, so that a single wild step
    does not overflow. `objective` and `gradient` choose c themselves and are exact at any x.

    A subclass defines `gather`, `exponents` and `exponent_gradient`, and sets ``n_inner`` and ``n_variables``.

    Attributes
    ----------
    scale : float, default=1.0
        A positive number.
    weights : None or ndarray of shape (n_inner,), default=None
        w, numbers >= 0 with sum 1; draws have these probabilities. None means 1 / n_inner each.
    shift : float
        c, set by `scaled`.

    Examples
    --------
    Regression that is robust against other distributions of its rows: the largest mean loss that a reweighting of the
    rows can reach, minus tau times its Kullback-Leibler divergence, is tau log mean exp(loss_j / tau).

    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import LogMeanExpProblem, check_problem
    >>> class RobustRegression(LogMeanExpProblem):
    ...     def __init__(self, A, b, tau):
    ...         self.A, self.b, self.scale = A, b, tau
    ...         self.n_inner, self.n_variables = A.shape
    ...     def gather(self, draws):
    ...         return (self.A, self.b) if draws is None else (self.A[draws], self.b[draws])
    ...     def exponents(self, x, rows):
    ...         A, b = rows
    ...         return (A @ x - b) ** 2 / self.scale
    ...     def exponent_gradient(self, x, rows, p):
    ...         A, b = rows
    ...         return 2 / self.scale * (p * (A @ x - b)) @ A
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(500, 3))
    >>> problem = RobustRegression(A, A @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=500), tau=2.0)
    >>> check_problem(problem)
    >>> minimize(problem, random_state=0).x.round(1)
    array([ 1. , -1. ,  0.5])
    """

    n_outer = 1
    jacobian_kind = "sampled"
    inner_floor = float(np.finfo(np.float64).tiny)
    scale = 1.0
    shift = np.float64(0.0)

    @abstractmethod
    def gather(self, draws):
        """The rows of some components.

        Parameters
        ----------
        draws : ndarray of shape (B,) or None
            Numbers of components; None means all of them, without a copy.

        Returns
        -------
        object
            Anything that `exponents` and `exponent_gradient` understand.
        """

    @abstractmethod
    def exponents(self, x, rows):
        """e_j(x) of these components.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        rows : object
            From `gather`.

        Returns
        -------
        ndarray of shape (B,)
        """

    @abstractmethod
    def exponent_gradient(self, x, rows, p):
        """sum_k p_k grad e_k(x) over these components.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        rows : object
            From `gather`.
        p : ndarray of shape (B,)
            In the dtype of x.

        Returns
        -------
        ndarray of shape (n_variables,)
        """

    def blocks(self):
        """All rows as pairs of the number of the first and the rows: override where they do not fit into memory.

        Returns
        -------
        iterable of (int, object)
        """
        yield 0, self.gather(None)

    # batches are pairs of rows and their weights

    def inner_batch(self, draws, weights=None):
        """The rows, and the weight of each."""
        if draws is None:
            return self.gather(None), 1.0 / self.n_inner if self.weights is None else self.weights
        return self.gather(draws), (1.0 if weights is None else weights) / len(draws)

    def draw_outer(self, rng, shape):
        """Zeros: f has one component."""
        return np.zeros(shape, dtype=np.intp)

    def outer_batch(self, draws, weights=None):
        """None: f needs no data."""
        return None

    # g, dg, f and its gradient

    def inner(self, x, batch):
        """u = sum_j w_j exp(e_j(x) - c), of shape (1,)."""
        rows, weight = batch
        return np.array([np.sum(self._exponentials(x, rows) * weight)], dtype=x.dtype)

    def jacobian(self, x, batch):
        """sum_j w_j exp(e_j(x) - c) grad e_j(x), of shape (1, n_variables)."""
        rows, weight = batch
        p = (self._exponentials(x, rows) * weight).astype(x.dtype, copy=False)
        return self.exponent_gradient(x, rows, p)[None]

    def outer_gradient(self, x, u, batch):
        """f_x = None and f_u = scale / u."""
        return None, self.scale / u

    def outer(self, x, u):
        """f(u) = scale * (log u + c)."""
        return float(self.scale * (np.log(float(u[0])) + self.shift))

    def _exponentials(self, x, rows):
        # in float64 whatever the dtype of x, for the sake of the difference: shift is a float64 scalar
        bound = LARGEST[x.dtype]
        return np.exp(np.maximum(np.minimum(self.exponents(x, rows) - self.shift, bound), -bound))

    # the unit of u

    def log_scale(self, x, batch):
        """log sum_j w_j exp(e_j(x)) - c, in float64, where nothing overflows."""
        rows, weight = batch
        return float(logsumexp(self.exponents(x, rows).astype(float), b=weight) - self.shift)

    def scaled(self, c):
        """The same problem with u in units of exp(c)."""
        problem = copy.copy(self)
        problem.shift = np.float64(self.shift + c)
        return problem

    # exact at any x

    def log_mean(self, x):
        """log sum_j w_j exp(e_j(x)), exact, in float64."""
        parts = []
        for start, rows in self.blocks():
            e = self.exponents(x, rows).astype(float)
            weight = 1.0 / self.n_inner if self.weights is None else self.weights[start : start + len(e)]
            if np.any(weight):  # a block without weight has no logarithm
                parts.append(logsumexp(e, b=weight))
        return float(logsumexp(parts))

    def objective(self, x):
        """Phi(x), exact, R included."""
        value = self.scale * self.log_mean(x)
        return value if self.penalty is None else value + self.penalty.value(x)

    def gradient(self, x):
        """The exact gradient of Phi without R."""
        return super(LogMeanExpProblem, self.scaled(self.log_scale(x, self.inner_batch(None)))).gradient(x)
