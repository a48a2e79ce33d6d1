"""The logarithm of a mean of exponentials: entropic risks, KL-robust losses, soft
maxima."""

from abc import abstractmethod

import numpy as np
from scipy.special import logsumexp

from sk_stormc.core.penalties import penalized
from sk_stormc.core.unit import InUnit
from sk_stormc.core.weighted import WeightedComponents


class LogMeanExpProblem(WeightedComponents):
    r"""Minimise the logarithm of a mean of exponentials.

    .. math::

        \Phi(x) = \mathrm{scale} \cdot \log \sum_j w_j \exp(e_j(x)) + R(x)

    The inner value u is the sum, and f(u) = scale * log u has a single component.
    Exponents may be of any size: u, its Jacobian and f_u are scaled numbers
    (`sk_stormc.problems.InUnit`), so that errors are of the size of an exponent times
    the machine epsilon, and a long step does not overflow.

    A subclass defines `gather`, `exponents` and `exponent_gradient`, and sets
    ``n_inner`` and ``n_variables``.

    Attributes
    ----------
    scale : float, default=1.0
        A positive number.
    weights : None or ndarray of shape (n_inner,), default=None
        The weights w_j >= 0 with sum 1, which are also the probabilities of draws. None
        means 1 / n_inner each.

    Examples
    --------
    Distributionally robust regression: the largest mean loss over reweightings of the
    rows, minus tau times the Kullback-Leibler divergence of the reweighting, is tau log
    mean exp(loss_j / tau).

    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import LogMeanExpProblem, check_problem
    >>> class RobustRegression(LogMeanExpProblem):
    ...     def __init__(self, A, b, tau):
    ...         self.A, self.b, self.scale = A, b, tau
    ...         self.n_inner, self.n_variables = A.shape
    ...
    ...     def gather(self, draws):
    ...         return (
    ...             (self.A, self.b)
    ...             if draws is None
    ...             else (self.A[draws], self.b[draws])
    ...         )
    ...
    ...     def exponents(self, x, rows):
    ...         A, b = rows
    ...         return (A @ x - b) ** 2 / self.scale
    ...
    ...     def exponent_gradient(self, x, rows, p):
    ...         A, b = rows
    ...         return 2 / self.scale * (p * (A @ x - b)) @ A
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(500, 3))
    >>> problem = RobustRegression(
    ...     A, A @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=500), tau=2.0
    ... )
    >>> check_problem(problem)
    >>> minimize(problem, random_state=0).x.round(1)
    array([ 1. , -1. ,  0.5])
    """

    n_outer = 1
    jacobian_kind = "sampled"
    inner_floor = 0.0
    scale = 1.0

    @abstractmethod
    def gather(self, draws):
        """The rows of some components.

        Parameters
        ----------
        draws : ndarray of shape (B,) or None
            Indices of components. None means all components, without a copy.

        Returns
        -------
        object
            Any object that `exponents` and `exponent_gradient` accept.
        """

    @abstractmethod
    def exponents(self, x, rows):
        """The exponents e_j(x) of these components.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        rows : object
            The result of `gather`.

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
            The result of `gather`.
        p : ndarray of shape (B,)
            In the dtype of x.

        Returns
        -------
        ndarray of shape (n_variables,)
        """

    def blocks(self):
        """All rows, as pairs (index of the first row, rows). Override it if they do not
        fit into memory.

        Returns
        -------
        iterable of (int, object)
        """
        yield 0, self.gather(None)

    # batches are pairs of rows and their weights

    def inner_batch(self, draws, weights=None):
        """The rows, and the weight of each. ``weights`` are factors of the draws with a
        mean of about one."""
        if draws is None:
            return self.gather(
                None
            ), 1.0 / self.n_inner if self.weights is None else self.weights
        return self.gather(draws), (1.0 if weights is None else weights) / len(draws)

    def outer_batch(self, draws, weights=None):
        """None, because f needs no data."""
        return None

    # g, dg, f and its gradient

    def inner(self, x, batch):
        """u = sum_j w_j exp(e_j(x)), of shape (1,)."""
        rows, weight = batch
        p = exponentials(self.exponents(x, rows), weight)
        return InUnit(np.array([np.sum(p.array)], dtype=x.dtype), p.power)

    def jacobian(self, x, batch):
        """sum_j w_j exp(e_j(x)) grad e_j(x), of shape (1, n_variables)."""
        rows, weight = batch
        p = exponentials(self.exponents(x, rows), weight)
        return InUnit(
            self.exponent_gradient(x, rows, p.array.astype(x.dtype, copy=False))[None],
            p.power,
        )

    def outer_gradient(self, x, u, batch):
        """f_x = None and f_u = scale / u."""
        return None, self.scale / u

    def outer(self, x, u):
        """f(u) = scale * log u."""
        return self.scale * self.log_of(u)

    def log_of(self, u):
        """log u in float64 for any dtype of u, for the accuracy of large logarithms."""
        return float(np.log(u.astype(float))[0])

    # exact at any x

    def log_mean(self, x):
        """log sum_j w_j exp(e_j(x)), exact, in float64."""
        parts = []
        for start, rows in self.blocks():
            e = self.exponents(x, rows).astype(float)
            weight = (
                1.0 / self.n_inner
                if self.weights is None
                else self.weights[start : start + len(e)]
            )
            if np.any(weight):  # logsumexp of a block of weight 0 would be -inf
                parts.append(logsumexp(e, b=weight))
        return float(logsumexp(parts))

    def objective(self, x):
        """Phi(x), exact, with the penalty R."""
        return penalized(self.scale * self.log_mean(x), self.penalty, x)


def exponentials(e, weight):
    """weight * exp(e), for a number or an array of weights."""
    e = e.astype(float, copy=False)
    if type(weight) is not float:
        # components of weight 0 must not determine the unit
        e = np.where(weight, e, -np.inf)
    return InUnit.exp(e, weight)
