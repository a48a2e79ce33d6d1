"""The interface of a compositional problem, which defines the objective but not the
method."""

import inspect
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from sk_stormc.core.advice import Advice
from sk_stormc.core.penalties import penalized
from sk_stormc.utils.former_names import (
    former_attribute,
    former_keyword,
    rename_member,
)
from sk_stormc.utils.parameters import short
from sk_stormc.utils.types import Array, ArrayLike, FloatArray


def checked_parts(problem, parts, x, u):
    """(f_x, f_u), as ``outer_gradient`` returned them, or a ValueError that names this
    function if it is no tuple, or if they have other shapes than x and u."""
    name = f"{type(problem).__name__}.outer_gradient"
    if not isinstance(parts, tuple) or len(parts) != 2:
        raise ValueError(
            f"{name} must return the tuple (f_x, f_u), with None for f_x if f does not "
            f"depend on x directly, got {short(parts)}"
        )
    for part, value, model in zip(("f_x", "f_u"), parts, (x, u), strict=True):
        if value is not None and np.shape(value) != np.shape(model):
            raise ValueError(
                f"{part} of {name} must be of shape {np.shape(model)}, got shape "
                f"{np.shape(value)}"
            )
    return parts


class _FormerMetric:
    """The former name of ``preconditioner``, in problems of users too."""

    metric = former_attribute("metric", "preconditioner")

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        rename_member(cls, "metric", "preconditioner")
        own = vars(cls).get("__init__")
        if own is not None and "preconditioner" in inspect.signature(own).parameters:
            cls.__init__ = former_keyword("metric", "preconditioner")(own)


class CompositionalProblem(_FormerMetric, ABC):
    r"""Base class of compositional problems: an average of functions of an average, and
    a penalty.

    .. math::

        \Phi(x) = \frac{1}{n} \sum_i f_i(x, u) + R(x), \qquad u = g(x) = \frac{1}{m}
        \sum_j g_j(x)

    A problem gathers batches and evaluates them. The oracle draws the batches and
    counts evaluations, and the solvers iterate. The compositional gradient is F = f_x +
    J.T @ f_u, where J is the Jacobian of g and f_x and f_u are the gradients of f. If
    g(x) can leave the range of floats, it and its Jacobian are of the class
    `sk_stormc.problems.InUnit`.

    Every problem must define nine members: n_inner, n_outer, n_variables,
    `inner_batch`, `outer_batch`, `inner`, `jacobian`, `outer_gradient` and `outer`. All
    other members have defaults here. No method uses a member that is not declared here.
    `objective` and `gradient` are for users.

    Attributes
    ----------
    n_inner, n_outer, n_variables : int
        The numbers of components m and n, and the length of the flat array x.
    n_blocks : int, default=1
        Number of blocks of x, whose steps step 6 of Algorithm 1 can limit separately.
        The blocks are the rows of x reshaped to (n_blocks, n_variables // n_blocks).
    jacobian_kind : {"sampled", "constant", "operator"}
        "sampled" is an array, which step 9 of Algorithm 1 tracks. "constant" is an
        array that does not depend on x. It is computed exactly, once, if the solver's
        B_dg is None. "operator" is any plain data. It is only used through `vjp`, and
        is recomputed on each inner batch.
    preconditioner : None, ndarray or `sk_stormc.preconditioners.Preconditioner`
        Approximation of the inverse Hessian. Steps are along ``preconditioner @ F``. An
        array has the shape (n_variables,) or (n_variables, n_variables).
    inner_floor : None or float
        Lower bound of the domain of f, which is then only defined for u > inner_floor.
    penalty : None or an object of `sk_stormc.penalties`
        The penalty or constraint R.
    source : None or `sk_stormc.problems.Source`
        How components are drawn, which batches are possible, and what they cost. None
        means that n_inner and n_outer components are drawn uniformly, with replacement.
    advice : `sk_stormc.problems.Advice`
        Recommended settings for any method that solves the problem, such as batches of
        all components or steps of limited length.

    Examples
    --------
    The distance of a mean from 2, where the mean is over components g_j(x) = a_j x:

    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import CompositionalProblem
    >>> class Distance(CompositionalProblem):
    ...     n_outer = n_variables = 1
    ...     jacobian_kind = "constant"
    ...
    ...     def __init__(self, a):
    ...         self.a, self.n_inner = a, len(a)
    ...
    ...     def inner_batch(self, draws, weights=None):
    ...         return self.a if draws is None else self.a[draws]
    ...
    ...     def inner(self, x, batch):
    ...         return batch.mean() * x
    ...
    ...     def jacobian(self, x, batch):
    ...         return np.array([[batch.mean()]])
    ...
    ...     def outer_batch(self, draws, weights=None):
    ...         return None
    ...
    ...     def outer(self, x, u, batch=None):
    ...         return float((u[0] - 2) ** 2)
    ...
    ...     def outer_gradient(self, x, u, batch):
    ...         return None, 2 * (u - 2)
    >>> minimize(Distance(np.array([1.0, 3.0])), "lbfgs").x.round(6)
    array([1.])
    """

    n_inner: float  # math.inf for a stream
    n_outer: float
    n_variables: int
    n_blocks = 1
    jacobian_kind = "sampled"
    preconditioner: Any = None
    inner_floor: float | None = None
    penalty: Any = None
    source: Any = None
    advice = Advice()

    def initial_point(self, rng: np.random.Generator) -> FloatArray:
        """The starting point x_0, whose dtype is that of the run. The default is zeros.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return np.zeros(self.n_variables)

    def ravel(self, x: Any) -> ArrayLike:
        """A starting point that a user gives, as a flat x. A problem with structured
        variables overrides it.

        Parameters
        ----------
        x : array-like of shape (n_variables,) or object

        Returns
        -------
        array-like of shape (n_variables,)
        """
        return x

    def unravel(self, x: FloatArray) -> Any:
        """The inverse of `ravel`.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        object
        """
        return x

    def in_run(self):
        """The problem for one run: itself, or a shallow copy with a cache of values at
        the last point.

        A cache belongs to a run, so that runs on the same problem do not disturb each
        other, and calls of a problem outside of a run do not depend on earlier calls.

        Returns
        -------
        CompositionalProblem
        """
        return self

    @abstractmethod
    def inner_batch(
        self, draws: Array | None, weights: FloatArray | None = None
    ) -> Any:
        """Gather a batch of inner components, to be evaluated at x_t and at x_{t+1}.

        Parameters
        ----------
        draws : ndarray or None
            Draws from the source's `draw_inner`. None means all components, without a
            copy.
        weights : ndarray of shape (len(draws),) or None, default=None
            Weights of the draws: the batch's mean is ``sum_k weights[k] g_k /
            len(draws)``, where g_k is the component of ``draws[k]``. They are about one
            on average. Only a weighted source, such as a weighted stream, passes them.
            A problem for other sources may omit the argument.

        Returns
        -------
        object
            Any object that `inner` and `jacobian` accept.
        """

    @abstractmethod
    def outer_batch(
        self, draws: Array | None, weights: FloatArray | None = None
    ) -> Any:
        """Gather a batch of outer components.

        Parameters
        ----------
        draws : ndarray or None
        weights : ndarray of shape (len(draws),) or None, default=None
            As for `inner_batch`.

        Returns
        -------
        object
            Any object that `outer_gradient` accepts.
        """

    @abstractmethod
    def inner(self, x: FloatArray, batch: Any) -> FloatArray:
        """g(x, B), the batch's mean.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        batch : object
            The result of `inner_batch`.

        Returns
        -------
        ndarray of shape (l,)
        """

    @abstractmethod
    def jacobian(self, x: FloatArray, batch: Any) -> Any:
        """dg(x, B), the batch's mean. It is plain data, without a reference to the
        problem.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        batch : object
            The result of `inner_batch`.

        Returns
        -------
        ndarray of shape (l, n_variables)
            Or another object that `vjp` accepts.
        """

    def vjp(self, J: Any, v: FloatArray) -> FloatArray:
        """J.T @ v.

        Parameters
        ----------
        J : ndarray of shape (l, n_variables)
        v : ndarray of shape (l,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return v.dot(J)

    @abstractmethod
    def outer_gradient(
        self, x: FloatArray, u: FloatArray, batch: Any
    ) -> tuple[FloatArray | None, FloatArray]:
        """The batch's mean of the gradients of f in its direct argument and in the
        inner value.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        u : ndarray of shape (l,)
        batch : object
            The result of `outer_batch`.

        Returns
        -------
        f_x : ndarray of shape (n_variables,) or None
            None if f does not depend on x directly.
        f_u : ndarray of shape (l,)
        """

    def compositional_gradient(self, x, u, J, batch):
        """F = f_x + J.T f_u over an outer batch. Override it if both parts share
        computations.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        u : ndarray of shape (l,)
        J : ndarray of shape (l, n_variables)
            Or another object that `vjp` accepts.
        batch : object
            The result of `outer_batch`.

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        f_x, f_u = checked_parts(self, self.outer_gradient(x, u, batch), x, u)
        F = self.vjp(J, f_u)
        return F if f_x is None else f_x + F

    def inner_pair(self, x_old, x, batch, slope_batch):
        """g and its Jacobian at two points on the same batches. Override it if both
        points share computations.

        Parameters
        ----------
        x_old, x : ndarray of shape (n_variables,)
        batch, slope_batch : object
            Results of `inner_batch`, for g and for its Jacobian.

        Returns
        -------
        tuple
            ((u_old, J_old), (u, J)).
        """
        before = self.inner(x_old, batch), self.jacobian(x_old, slope_batch)
        return before, (self.inner(x, batch), self.jacobian(x, slope_batch))

    def gradient_pair(self, old, new, batch):
        """F at two points on the same outer batch. Override it if both points share
        computations.

        Parameters
        ----------
        old, new : tuple
            The arguments x, u and J of `compositional_gradient`.
        batch : object
            The result of `outer_batch`.

        Returns
        -------
        tuple of ndarray of shape (n_variables,)
        """
        return self.compositional_gradient(*old, batch), self.compositional_gradient(
            *new, batch
        )

    @abstractmethod
    def outer(self, x: FloatArray, u: FloatArray) -> float:
        """f(x, u) over all components, exact, without R.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        u : ndarray of shape (l,)

        Returns
        -------
        float
        """

    def outer_mean(self, x: FloatArray, u: FloatArray, batch: Any) -> float:
        """The mean of f(x, u) over an outer batch, without R, which "corrected-sample"
        needs.

        The default is `outer`, for problems with a single outer component.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
        u : ndarray of shape (l,)
        batch : object
            The result of `outer_batch`.

        Returns
        -------
        float
        """
        return self.outer(x, u)

    def objective(self, x: FloatArray) -> float:
        """Phi(x), exact, with the penalty R.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        value = float(self.outer(x, self.inner(x, self.inner_batch(None))))
        return penalized(value, self.penalty, x)

    def reported(self, x: FloatArray) -> float:
        """The value at x in records and results: Phi(x), or the objective that Phi
        smooths.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        float
        """
        return self.objective(x)

    def gradient(self, x: FloatArray) -> FloatArray:
        """The exact gradient of Phi without R, which is F on all components.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        everything = self.inner_batch(None)
        u, J = self.inner(x, everything), self.jacobian(x, everything)
        return self.compositional_gradient(x, u, J, self.outer_batch(None))

    def description(self):
        """A text that distinguishes the problem from others, so that a run is not
        resumed on another problem.

        Returns
        -------
        str
        """
        sizes = (
            f"n_inner={self.n_inner}, n_outer={self.n_outer}, "
            f"n_variables={self.n_variables}"
        )
        return f"{type(self).__name__}({sizes})"


def takes_weights(problem):
    """Whether a problem supports weighted batches: `inner_batch` and `outer_batch` have
    an argument ``weights``."""
    gathering = problem.inner_batch, problem.outer_batch
    return all(
        "weights" in inspect.signature(gather).parameters for gather in gathering
    )
