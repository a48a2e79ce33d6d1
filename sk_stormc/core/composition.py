"""A compositional problem from the user's callables."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sk_stormc.core.attribute_checks import check_attributes
from sk_stormc.core.preconditioners import check_preconditioner
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.utils.arrays import as_numbers, check_all_finite
from sk_stormc.utils.parameters import check_callable, check_int, plain, short
from sk_stormc.utils.types import ArrayLike


class FiniteSumComposition(CompositionalProblem):
    r"""A compositional problem from your own functions.

    .. math::

        \min_x \; \frac{1}{n} \sum_i f_i(x, u) + R(x), \qquad u = \frac{1}{m} \sum_j
        g_j(x)

    All callables except ``outer`` take an integer array of indices of components, which
    may contain an index several times, and return the **mean** over these components.
    For all components the array is ``np.arange``. Callables may return lists, or arrays
    of another float type, which are converted to the type of x0. They must not modify x
    and u.

    Parameters
    ----------
    inner : callable
        ``inner(x, j)``: the mean of g_j(x), of shape (l,).
    inner_jacobian : callable or None
        ``inner_jacobian(x, j)``: the mean of the Jacobians of g_j, of shape (l,
        n_variables). If both it and ``inner_vjp`` are None, central differences are
        used (see Notes).
    outer_gradient : callable
        ``outer_gradient(x, u, i)``: the mean of the gradients of f_i in u, of shape
        (l,). If f depends on x directly, the tuple (f_x, f_u), where f_x is the
        gradient in x, of shape (n_variables,).
    outer : callable
        ``outer(x, u)``: the mean of all f_i(x, u), a number.
    n_inner, n_outer : int
        Numbers of components, m and n. Use 1 for a function that is not an average.
    n_variables : int, default=None
        Length of x. None means the length of x0.
    inner_vjp : callable, default=None
        An alternative to ``inner_jacobian`` for large l or n_variables: ``inner_vjp(x,
        j, v)`` is the mean of J_j(x).T @ v, of shape (n_variables,). The Jacobian is
        then of kind "operator": it is recomputed on each inner batch, and not tracked.
    x0 : array-like of shape (n_variables,), default=None
        Starting point. None means zeros. With a float32 array, runs are in float32.
    penalty : object of `sk_stormc.penalties`, default=None
        The penalty or constraint R.
    preconditioner : array-like, default=None
        Approximation of the inverse Hessian, of shape (n_variables,) or (n_variables,
        n_variables). None means unscaled steps.
    inner_floor : float, default=None
        Lower bound of the domain of f, which is then only defined for u > inner_floor.

    Attributes
    ----------
    by_differences : bool
        Whether the Jacobian is computed by finite differences.

    Raises
    ------
    ValueError
        If an argument is out of its range, or if a callable returns a wrong shape, a
        value that is not a mean, or (for ``inner`` and its derivative) numbers that are
        not finite. To test this, each callable is called at x0 with the index of the
        first component, once and twice. If f is not defined at that u, it is called
        with the mean of ``inner`` over all components. A ValueError is also raised if
        finite differences depend on their step.

    Notes
    -----
    Finite differences have the step eps^(1/3) max(1, abs(x_k)), where eps is the
    machine epsilon of x0's type, so x should be of the order of 1 or larger. The
    constructor compares them with those of twice the step, at x0 on eight components.
    An evaluation of the Jacobian then needs 2 n_variables calls of ``inner``. IFO and
    ``n_evaluations`` count it as one evaluation, because they count draws and
    Jacobians.

    `check_problem` compares the callables with each other, also at points other than
    x0.

    Examples
    --------
    The mean loss and its deviation above the mean, mean (l_i - u)_+^2 with u = mean
    l_j, of a line through points:

    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import FiniteSumComposition, check_problem
    >>> rng = np.random.default_rng(0)
    >>> A, b = rng.normal(size=(500, 3)), rng.normal(size=500)
    >>> def losses(x, j):
    ...     return (A[j] @ x - b[j]) ** 2
    >>> def slopes(x, j):
    ...     return 2 * (A[j] @ x - b[j])[:, None] * A[j]
    >>> def outer_gradient(x, u, i):
    ...     above = 2 * np.maximum(losses(x, i) - u, 0)
    ...     return ((1 + above)[:, None] * slopes(x, i)).mean(0), -above.mean(
    ...         keepdims=True
    ...     )
    >>> problem = FiniteSumComposition(
    ...     inner=lambda x, j: losses(x, j).mean(keepdims=True),
    ...     inner_jacobian=lambda x, j: slopes(x, j).mean(0, keepdims=True),
    ...     outer_gradient=outer_gradient,
    ...     outer=lambda x, u: np.mean(
    ...         losses(x, slice(None)) + np.maximum(losses(x, slice(None)) - u, 0) ** 2
    ...     ),
    ...     n_inner=500,
    ...     n_outer=500,
    ...     n_variables=3,
    ... )
    >>> check_problem(problem)
    >>> minimize(problem, random_state=0).stop_reason
    'converged'
    """

    def __init__(
        self,
        inner: Callable,
        inner_jacobian: Callable | None,
        outer_gradient: Callable,
        outer: Callable,
        n_inner: int,
        n_outer: int,
        n_variables: int | None = None,
        *,
        inner_vjp: Callable | None = None,
        x0: ArrayLike | None = None,
        penalty: Any = None,
        preconditioner: Any = None,
        inner_floor: float | None = None,
    ) -> None:
        self._functions = {
            "inner": inner,
            "inner_jacobian": inner_jacobian,
            "inner_vjp": inner_vjp,
            "outer_gradient": outer_gradient,
            "outer": outer,
        }
        for name, function in self._functions.items():
            optional = name in ("inner_jacobian", "inner_vjp")
            check_callable(name, function, words=(None,) * optional)
        if inner_jacobian is not None and inner_vjp is not None:
            raise ValueError(
                "inner_vjp must be None where inner_jacobian is given, got both"
            )
        check_int("n_inner", n_inner, low=1)
        check_int("n_outer", n_outer, low=1)
        self.n_inner, self.n_outer = int(n_inner), int(n_outer)
        self._x0 = _start(x0, n_variables)
        self.n_variables = self._x0.size
        self.jacobian_kind = "sampled" if inner_vjp is None else "operator"
        self.by_differences = inner_jacobian is None and inner_vjp is None
        self.penalty, self.inner_floor = penalty, plain(inner_floor)
        if preconditioner is not None:
            preconditioner = check_preconditioner(
                "preconditioner", preconditioner, self.n_variables
            )
            self.preconditioner = preconditioner.astype(self._x0.dtype)
        check_attributes(self)
        self._u_shape = None
        self._check_callables()
        if self.by_differences:
            self._check_differences()

    def initial_point(self, rng):
        """x0."""
        return self._x0.copy()

    def inner_batch(self, draws):
        """The indices. None stays None, for all components, so that saved states do not
        contain them."""
        return draws

    def outer_batch(self, draws):
        """The indices."""
        return draws

    def inner(self, x, batch):
        """u, of shape (l,)."""
        return self._call("inner", self._u_shape, x, batch)

    def jacobian(self, x, batch):
        """J, of shape (l, n_variables). With ``inner_vjp`` it is the pair (a copy of x,
        batch)."""
        if self.jacobian_kind == "operator":
            return x.copy(), batch
        if self.by_differences:
            return self._differences(x, batch)
        shape = (*self._u_shape, self.n_variables)
        return self._call("inner_jacobian", shape, x, batch)

    def vjp(self, J, v):
        """J.T @ v."""
        if self.jacobian_kind != "operator":
            return super().vjp(J, v)
        return self._call("inner_vjp", (self.n_variables,), *J, v)

    def outer_gradient(self, x, u, batch):
        """f_x, or None, and f_u."""
        indices = np.arange(self.n_outer) if batch is None else batch
        value = self._functions["outer_gradient"](x, u, indices)
        several = isinstance(value, list) and any(np.ndim(part) for part in value)
        if several or (isinstance(value, tuple) and len(value) != 2):
            expected = "one vector f_u, or the tuple (f_x, f_u)"
            raise ValueError(
                f"outer_gradient must return {expected}, got a {type(value).__name__} "
                f"of {len(value)}"
            )
        f_x, f_u = value if isinstance(value, tuple) else (None, value)
        if f_x is not None:
            f_x = self._array(
                "the first of the tuple (f_x, f_u) of outer_gradient", f_x, x.shape
            )
        return f_x, self._array("f_u of outer_gradient", f_u, self._u_shape)

    def outer(self, x, u):
        """f(x, u) over all components."""
        value = self._functions["outer"](x, u)
        self._array("outer", value, ())
        return float(value)  # not rounded to the type of x

    def _call(self, name, shape, x, batch, *v):
        """The checked value of a function of inner components."""
        indices = np.arange(self.n_inner) if batch is None else batch
        return self._array(name, self._functions[name](x, indices, *v), shape)

    def _array(self, name, value, shape):
        """The value of a callable as an array of x0's dtype, with its shape checked.
        None means any vector."""
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "fiub":
                raise TypeError
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must return real numbers, got {short(value)}"
            ) from None
        any_vector = shape is None and array.ndim == 1 and array.size
        if array.shape != shape and not any_vector:
            expected = "(l,), a vector for each inner value" if shape is None else shape
            raise ValueError(
                f"{name} must be of shape {expected}, got shape {array.shape}"
            )
        return array.astype(self._x0.dtype, copy=False)

    # checks in the constructor

    def _check_callables(self):
        """Call each at x0 with the first component, once and twice, and check shapes,
        finiteness and means.

        If f is not defined at the g of one component, it is checked at the mean, where
        a run evaluates it.
        """
        x = self._x0.copy()
        once, twice = np.zeros(1, dtype=np.intp), np.zeros(2, dtype=np.intp)
        with np.errstate(all="ignore"):
            u = self.inner(x, once)
            self._u_shape = u.shape
            linear = {"inner": lambda j: self.inner(x, j)}
            if self._functions["inner_jacobian"] is not None:
                linear["inner_jacobian"] = lambda j: self.jacobian(x, j)
            if self.jacobian_kind == "operator":
                linear["inner_vjp"] = lambda j: self.vjp((x, j), np.ones_like(u))
            for name, of in linear.items():
                value = of(once)
                if not np.isfinite(value).all():
                    raise ValueError(f"{name} must be finite at x0, got {short(value)}")
                _check_mean(name, value, of(twice))
            try:  # one component is usually enough, and avoids a pass over the data
                finite = self._check_outer(x, u)
            except Exception:
                finite = False
            if not finite:
                u = self.inner(x, None)
                try:
                    self._check_outer(x, u)
                except Exception as error:
                    error.add_note(
                        "outer_gradient and outer were called at x0, with u the mean "
                        f"of inner over all components, {short(u)}. If f is not "
                        "defined there, give an x0 where it is."
                    )
                    raise

    def _check_outer(self, x, u):
        """Call outer_gradient and outer at u, and return whether their values are
        finite."""
        values = []
        for times in (1, 2):
            f_x, f_u = self.outer_gradient(x, u, np.zeros(times, dtype=np.intp))
            values.append(f_u if f_x is None else np.concatenate([f_x, f_u]))
        _check_mean("outer_gradient", *values)
        return np.isfinite([*values[0], self.outer(x, u)]).all()

    def _steps(self, x):
        return np.finfo(x.dtype).eps ** (1 / 3) * np.maximum(1, np.abs(x))

    def _around(self, x, batch, factor):
        """inner at x + c h_k e_k and x - c h_k e_k for all k, of shape (2, n_variables,
        l), and their distances."""
        steps = (factor * self._steps(x)).astype(x.dtype)
        values = np.empty((2, x.size, *self._u_shape), x.dtype)
        ways = np.empty(x.size, x.dtype)
        for k, step in enumerate(steps):
            up, down = x.copy(), x.copy()
            up[k] += step
            down[k] -= step
            values[:, k] = self.inner(up, batch), self.inner(down, batch)
            ways[k] = up[k] - down[k]
        return values, ways[:, None]

    def _differences(self, x, batch):
        (up, down), way = self._around(x, batch, 1)
        return ((up - down) / way).T

    def _check_differences(self):
        """Compare slopes and second differences of some components with those of twice
        the step, which reveals kinks."""
        x, eps = self._x0, float(np.finfo(self._x0.dtype).eps)
        some = np.unique(np.linspace(0, self.n_inner - 1, 8).astype(np.intp))
        with np.errstate(all="ignore"):
            u = self.inner(x, some)
            (up, down), way = self._around(x, some, 1)
            (up_2, down_2), way_2 = self._around(x, some, 2)
            slope, bend = (up - down) / way, (up + down - 2 * u) / way
            slope_2, bend_2 = (up_2 - down_2) / way_2, (up_2 + down_2 - 2 * u) / way_2
            error = np.maximum(
                np.abs(slope_2 - slope), 2 * np.abs(bend_2 - 2 * bend)
            ).max(1)
            rounding = 100 * eps * np.abs(up_2).max(initial=np.abs(u).max()) / way.min()
            bound = eps**0.25 * (np.abs(slope).max() + np.abs(bend_2).max()) + rounding
        if not (error <= bound).all():
            k = int(np.argmax(~(error <= bound)))
            raise ValueError(
                "inner must be smooth at x0 where inner_jacobian is None, got "
                f"differences in variable {k} that differ by {error[k]:.2g} between "
                f"steps of {way[k, 0] / 2:.2g} and twice as much (tolerance "
                f"{bound:.2g}): a kink, noise, arithmetic of less precision than x, or "
                "x of a scale far below 1. Give inner_jacobian or inner_vjp"
            )


def _check_mean(name, once, twice):
    """Raise a ValueError if the value for the first component twice is about twice its
    value, which means a sum."""
    sums = (
        once.any()
        and np.isfinite(once).all()
        and np.allclose(twice, 2 * once, rtol=1e-3, atol=0)
    )
    if once.shape != twice.shape or sums:
        raise ValueError(
            f"{name} must return the mean over its indices, got {short(twice)} for the "
            f"first component twice, and {short(once)} for it once"
        )


def _start(x0, n_variables):
    """The checked x0. None means zeros."""
    check_int("n_variables", n_variables, low=1, words=(None,))
    if x0 is None:
        if n_variables is None:
            raise ValueError(
                "n_variables must be an integer >= 1 where x0 is None, got None"
            )
        return np.zeros(n_variables)
    x0 = as_numbers(
        "x0", x0, np.float32 if getattr(x0, "dtype", None) == np.float32 else float
    )
    if (
        x0.ndim != 1
        or not x0.size
        or (n_variables is not None and x0.size != n_variables)
    ):
        raise ValueError(
            f"x0 must be of shape ({n_variables or 'n_variables'},), got shape "
            f"{x0.shape}"
        )
    check_all_finite("x0", x0)
    return x0
