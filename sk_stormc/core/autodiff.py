"""A compositional problem from two functions of single rows, which JAX differentiates
and compiles."""

import inspect
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sk_stormc.core.attribute_checks import check_attributes
from sk_stormc.core.device_rows import Placement, TreeRows
from sk_stormc.core.evaluations import Evaluations
from sk_stormc.core.penalties import penalized
from sk_stormc.core.preconditioners import check_preconditioner
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.pytrees import (
    Structure,
    check_returned,
    flatten,
    import_jax,
    precision,
    tracing,
)
from sk_stormc.core.source import LazySource
from sk_stormc.core.weighted import with_sum_one
from sk_stormc.utils.parameters import (
    check_callable,
    check_choice,
    check_int,
    plain,
    short,
)
from sk_stormc.utils.rows import check_weights
from sk_stormc.utils.types import ArrayLike, FloatArray

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
TRACKED = 2**14  # maximum number of entries of a Jacobian that is an array with "auto"


class DifferentiableComposition(CompositionalProblem):
    r"""A compositional problem from two functions, with derivatives by JAX.

    .. math::

        \min_x \; \frac{1}{n} \sum_i f(x, u; b_i) + R(x), \qquad u = \frac{1}{m} \sum_j
        g(x; a_j)

    The functions are written with `jax.numpy`, for a single row a_j or b_i of the data.
    JAX maps them over batches, differentiates and compiles them. JAX is an optional
    dependency: ``pip install "sk_stormc[autodiff]"``.

    A pytree is an array, or a tuple, dict or named tuple of pytrees. A list of numbers
    counts as an array.

    Parameters
    ----------
    inner : callable
        ``inner(x, row)``: g for one row of inner_data, a number, an array or a pytree
        of them.
    outer : callable
        ``outer(x, u, row)``: f for one row of outer_data, a number. u has the structure
        of the value of ``inner``. Without data, the calls are ``inner(x)`` and
        ``outer(x, u)`` if further parameters have defaults, which are kept, and
        otherwise ``inner(x, None)`` and ``outer(x, u, None)``.
    inner_data, outer_data : array-like, dask collection or pytree, default=None
        Arrays with the same length of the first axis, which is the number of
        components. A `jax.Array` stays on its devices, and may be sharded over several
        by its rows. Partitions of dask collections are evaluated on their workers, by
        methods that read all rows in order: "corrected-sample" and "lbfgs". Other
        arrays are copied to the default device once, also if they occur several times,
        and must not change. Numbers are converted to the float type of x0, and integers
        and booleans keep their types. None means one component, whose row is None.
    x0 : array-like or pytree of these
        Starting point. ``inner`` and ``outer`` are called with an x of its structure.
        Runs use float32 if all its numbers are float32, and otherwise float64,
        regardless of the configuration of JAX.
    jacobian : {"auto", "sampled", "operator", "constant"}, default="auto"
        The kind of the Jacobian of g, of shape (l, n_variables), where l is the number
        of inner values. "sampled" is an array, computed by forward or backward
        differentiation, whichever needs fewer sweeps. Step 9 of Algorithm 1 tracks it.
        "operator" needs one backward sweep on each inner batch, for any l. "constant"
        is an array that does not depend on x, because ``inner`` is linear in x, and is
        computed once. "auto" is "sampled" if l is 1 or l times n_variables is at most
        16,384, and otherwise "operator".
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows of inner_data and of outer_data. Rows are drawn with these
        probabilities.
    penalty : object of `sk_stormc.penalties`, default=None
        The penalty or constraint R. It acts on the flat x.
    preconditioner : array-like, default=None
        Approximation of the inverse Hessian, of shape (n_variables,) or (n_variables,
        n_variables). None means unscaled steps.
    inner_floor : float, default=None
        Lower bound of the domain of f, which is then only defined for u > inner_floor.
    device_bytes : int, default=2**32
        Number of bytes up to which arrays that are not of JAX are copied to the device.
        Larger ones stay in memory or, as memory maps, in their files, and are evaluated
        block by block.

    Raises
    ------
    ImportError
        If JAX is not installed.
    RuntimeError
        If JAX has compiled a Jacobian wrongly. Each is compared with a product of its
        transpose, once for each number of rows.
    ValueError
        If an argument is out of its range, if a function is not written with
        `jax.numpy` or returns a value of another form, or if its values or gradients at
        x0 are not finite.

    See Also
    --------
    FiniteSumComposition : The same problem with your own derivatives, without JAX.
    DifferentiableLogMeanExp : The logarithm of a mean of exponentials, which does not
        overflow.

    Notes
    -----
    Functions are compiled for each size of the method's batches, and once for all
    components, whose values and gradient are one compiled call. It evaluates them in
    blocks so that memory does not grow with their number. The first fit therefore takes
    about a second longer. Batches are taken from memory on a CPU, and are gathered in
    the compiled call on an accelerator or on several devices.

    A problem can be pickled if its functions can be pickled, which is done by name.

    Examples
    --------
    The mean loss and its deviation above the mean, mean (l_i - u)_+^2 with u = mean
    l_j, of a line through points:

    >>> import numpy as np
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import DifferentiableComposition
    >>> rng = np.random.default_rng(0)
    >>> A, b = rng.normal(size=(500, 3)), rng.normal(size=500)
    >>> import jax.numpy as jnp  # doctest: +SKIP
    >>> def loss(x, row):
    ...     a, b = row
    ...     return (a @ x["weight"] + x["bias"] - b) ** 2
    >>> def outer(x, u, row):
    ...     return loss(x, row) + jnp.maximum(loss(x, row) - u, 0) ** 2
    >>> x0 = {"weight": np.zeros(3), "bias": 0.0}
    >>> problem = DifferentiableComposition(
    ...     loss, outer, (A, b), (A, b), x0=x0
    ... )  # doctest: +SKIP
    >>> result = minimize(problem, random_state=0)  # doctest: +SKIP
    >>> result.stop_reason, problem.unravel(result.x)["bias"].shape  # doctest: +SKIP
    ('converged', ())
    """

    # of the functions and of the data, in messages
    _names = {"inner": "inner", "outer": "outer"}
    _data_names = {"inner": "inner_data", "outer": "outer_data"}
    # (x, the values at x over all rows): of the last point in a run, and of x0 if rows
    # are read in blocks
    _last, _remembers = None, False

    def __init__(
        self,
        inner: Callable,
        outer: Callable,
        inner_data: Any = None,
        outer_data: Any = None,
        *,
        x0: Any,
        jacobian: Literal["auto", "sampled", "operator", "constant"] = "auto",
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        preconditioner: Any = None,
        inner_floor: float | None = None,
        device_bytes: int = 2**32,
    ) -> None:
        import_jax()
        check_callable("inner", inner)
        check_callable("outer", outer)
        check_choice("jacobian", jacobian, ("auto", "sampled", "operator", "constant"))
        self._functions = {"inner": inner, "outer": outer}
        self._structure, self._x0 = Structure.of("x0", x0)
        dtype, self.n_variables = self._x0.dtype, self._x0.size
        check_int("device_bytes", device_bytes, low=0)
        self._device_bytes = device_bytes
        checked: dict[Any, Any] = {}
        self._rows = {
            side: TreeRows(self._data_names[side], data, dtype, checked)
            for side, data in (("inner", inner_data), ("outer", outer_data))
        }
        self.n_inner, self.n_outer = self._rows["inner"].n, self._rows["outer"].n
        self.penalty = self._structure.flat_penalty(penalty)
        self.inner_floor = plain(inner_floor)
        if preconditioner is not None:
            self.preconditioner = check_preconditioner(
                "preconditioner", preconditioner, self.n_variables
            ).astype(dtype)
        self._weights = dict.fromkeys(self._rows)
        if sample_weight is not None:
            self._take_weights(sample_weight)
        lazy = [side for side, rows in self._rows.items() if rows.blocks is not None]
        if lazy or sample_weight is not None:
            weights, outer_weights = self._weights.values()
            self.source = LazySource(
                self.n_inner, self.n_outer, weights, outer_weights, lazy
            )
        self._check_functions()
        if jacobian == "auto":
            n_u = self._u_structure.size
            is_small = n_u == 1 or n_u * self.n_variables <= TRACKED
            jacobian = "sampled" if is_small else "operator"
        self.jacobian_kind = jacobian
        check_attributes(self)
        self._check_values()

    def unravel(self, x: ArrayLike) -> Any:
        """Give a flat x, such as ``result.x``, the structure of x0.

        Parameters
        ----------
        x : array-like of shape (..., n_variables)
            One x, or several, such as a trajectory of shape (n_records, n_variables).

        Returns
        -------
        ndarray or pytree of ndarray
            Leaves have the leading axes of x.
        """
        flat = np.array(x)
        if flat.shape[-1:] != (self.n_variables,):
            raise ValueError(
                f"x must be of shape (..., {self.n_variables}), got shape {flat.shape}"
            )
        return self._structure.unravel(flat)

    def ravel(self, x: Any) -> FloatArray:
        """Make an x of the structure of x0 flat.

        Parameters
        ----------
        x : pytree, or array-like of shape (n_variables,)

        Returns
        -------
        ndarray of shape (n_variables,)

        Raises
        ------
        ValueError
            If x has another structure than x0.
        """
        structure, flat = Structure.of("x0", x)
        if structure.shapes == [(self.n_variables,)]:
            return x
        if structure != self._structure:
            raise ValueError(
                f"x0 must have the structure of the problem's x0, {self._structure}, "
                f"got {structure}"
            )
        return flat

    def in_run(self):
        """A copy that remembers the values at the last point at which it was evaluated
        on all rows."""
        run = object.__new__(type(self))
        vars(run).update(vars(self), _evaluations=self._evaluations, _remembers=True)
        return run

    def initial_point(self, rng):
        """x0, flat."""
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
        if batch is None and self._remembers:
            return self._everything(x)["u"]
        return self._mean("inner", batch, x)

    def jacobian(self, x, batch):
        """J, of shape (l, n_variables). For the kind "operator", it is the pair (a copy
        of x, batch)."""
        if self.jacobian_kind == "operator":
            return x.copy(), batch
        known = self._known(x) if batch is None else {}
        if "J" in known:
            return known["J"]
        J = self._mean("jacobian", batch, x).reshape(-1, self.n_variables)
        self._compare("jacobian", J, x, batch)
        return J

    def vjp(self, J, v):
        """J.T @ v."""
        if self.jacobian_kind != "operator":
            return super().vjp(J, v)
        x, batch = J
        known = self._known(x) if batch is None else {}
        if known and np.array_equal(v, known["f_u"]):
            return known["F_u"]
        return self._mean("vjp", batch, x, v)

    def outer_gradient(self, x, u, batch):
        """f_x and f_u."""
        if batch is None and (known := self._known(x, u)):
            return known["f_x"], known["f_u"]
        gradient = self._mean("gradient", batch, x, u)[1:]
        return gradient[: self.n_variables], gradient[self.n_variables :]

    def outer(self, x, u):
        """f(x, u) over all components."""
        return self.outer_mean(x, u, None)

    def outer_mean(self, x, u, batch):
        """f(x, u) over a batch."""
        if batch is None and (known := self._known(x, u)):
            return float(known["f"][0])
        return float(self._mean("outer", batch, x, u)[0])

    def objective(self, x):
        """Phi(x), exact, with the penalty R."""
        known = self._known(x)
        value = float(known["f"][0] if known else self._evaluations.value(x)[0])
        return penalized(value, self.penalty, x)

    def gradient(self, x):
        """The exact gradient of Phi without R, by one call."""
        return self._gradient(self._everything(x), x)

    def inner_pair(self, x_old, x, batch, slope_batch):
        """u and J at two points, by one call."""
        if not (self._fits("inner", batch) and self._fits("jacobian", slope_batch)):
            return super().inner_pair(x_old, x, batch, slope_batch)
        points = (np.concatenate((x_old, x)),)
        if self.jacobian_kind == "operator":
            values = self._evaluations.over_batches(
                "inner_pair", points, ("inner", batch)
            )
            return tuple(
                (u, (z.copy(), slope_batch))
                for u, z in zip(values, (x_old, x), strict=True)
            )
        n_u = self._u_structure.size
        values = self._evaluations.over_batches(
            "inner_pair", points, ("inner", batch), ("inner", slope_batch)
        )
        pairs = tuple((value[:n_u], value[n_u:].reshape(n_u, -1)) for value in values)
        self._compare("inner_pair", pairs[1][1], x, slope_batch)
        return pairs

    def gradient_pair(self, old, new, batch):
        """F at two points, by one call."""
        parts, batches = [*old, *new], [("outer", batch)]
        fits = self._fits("gradient", batch)
        if self.jacobian_kind == "operator":
            (parts[2], draws), (parts[5], other) = parts[2], parts[5]
            fits = fits and draws is other and self._fits("vjp", draws)
            batches.append(("inner", draws))
        if not fits:
            return super().gradient_pair(old, new, batch)
        points = (np.concatenate([part.ravel() for part in parts]),)
        return tuple(self._evaluations.over_batches("gradient_pair", points, *batches))

    # evaluations by compiled functions

    @cached_property
    def _evaluations(self):
        placement = Placement(
            self._rows, self._weights, self._x0.dtype, self._device_bytes
        )
        return Evaluations(self, placement)

    def _fits(self, name, batch):
        return batch is not None and len(batch) <= self._evaluations.block(name)

    def _mean(self, name, batch, *args):
        """The mean over a batch, by parts if it is large."""
        evaluations = self._evaluations
        if batch is None:
            return evaluations.over_all(name, *args)
        parts = evaluations.parts(name, batch)
        return sum(
            (cut.stop - cut.start)
            / len(batch)
            * evaluations.over_batches(name, args, part)
            for cut, part in parts
        )

    def _everything(self, x):
        """The values at x over all rows, by name. In a run those of the last point are
        remembered."""
        if known := self._known(x):
            return known
        d, n_u = self.n_variables, self._u_structure.size
        n_J = n_u * d if self.jacobian_kind == "sampled" else 0
        ends = np.cumsum([n_u, n_J, 1, d, n_u])
        values = np.split(self._evaluations.everything(x), ends)
        names = ("u", "J", "f", "f_x", "f_u", "F_u")
        every = dict(zip(names, values, strict=True))
        J = every.pop("J")
        if n_J:
            every["J"] = J.reshape(n_u, d)
            self._compare("everything", every["J"], x, None)
        if self._remembers:
            self._last = x.copy(), every
        return every

    def _compare(self, form, J, x, batch):
        """Compare a Jacobian with a product of its transpose, once for each form and
        number of rows for which JAX compiles it, because compilers make errors."""
        key = form, None if batch is None else len(batch)
        compared = self._evaluations.compared
        if len(J) == 1 or key in compared:  # a row is a product of the transpose
            return
        v = np.random.default_rng(0).standard_normal(len(J)).astype(J.dtype)
        error = abs(v @ J - self._mean("vjp", batch, x, v)).max()
        tol = np.cbrt(np.finfo(J.dtype).eps)
        if error > tol * (abs(v) @ abs(J)).max():
            # J is far smaller than its rows if these cancel out
            n = self.n_inner if batch is None else len(batch)
            some = np.linspace(0, n - 1, 16).astype(int)
            some = some if batch is None else batch[some]
            sizes = [abs(self._mean("vjp", some[[k]], x, v)).max() for k in range(16)]
            if error > tol * max(sizes):
                raise RuntimeError(
                    f"JAX {import_jax().__version__} has compiled the Jacobian of "
                    f"{self._names['inner']} wrongly for a mean of {n} rows: a product "
                    f"with it is off by {error:.2g}. Use another version of JAX, or "
                    "jacobian='operator', which compiles no Jacobian"
                )
        if np.isfinite(error):
            compared.add(key)

    def _gradient(self, every, x):
        """F from the values at x over all rows."""
        if self.jacobian_kind == "operator":
            return every["f_x"] + every["F_u"]
        J = every["J"] if "J" in every else self.jacobian(x, None)
        return every["f_x"] + every["f_u"] @ J

    def _known(self, x, u=None):
        """The remembered values, if they are those at x, and at u if it is not None."""
        if self._last is None or not np.array_equal(self._last[0], x):
            return {}
        every = self._last[1]
        return every if u is None or np.array_equal(u, every["u"]) else {}

    def __getstate__(self):
        state = dict(vars(self))
        state.pop("_evaluations", None)
        state.pop("_last", None)
        return state

    def without_rows(self):
        """A copy with the functions of single rows alone, which is sent to workers."""
        bare = object.__new__(type(self))
        names = "_functions", "_structure", "_x0", "_u_structure", "n_variables"
        vars(bare).update({name: vars(self)[name] for name in names})
        bare._rows = {side: rows.without_leaves() for side, rows in self._rows.items()}
        return bare

    def _g(self, x, leaves):
        """g of one row, a pytree."""
        return self._of_row("inner", leaves, x=self._structure.unravel(x))

    def _f(self, x, u, leaves):
        """f of one row."""
        u = self._u_structure.unravel(u)
        return self._of_row("outer", leaves, x=self._structure.unravel(x), u=u)

    def _of_row(self, side, leaves, **arguments):
        """The checked value of the user's function for one row."""
        function, name = self._functions[side], self._names[side]
        row = self._rows[side].tree(leaves)
        if row is not None or _requires_more(function, len(arguments)):
            arguments["row"] = row
        _check_takes(name, function, arguments)
        with tracing(name, **arguments):
            value = function(*arguments.values())
        check_returned(name, value, single=side == "outer")
        return value

    # checks in the constructor

    def _take_weights(self, sample_weight):
        """Weights with sum 1 of the rows of both data."""
        sides = [side for side, rows in self._rows.items() if rows.leaves]
        if not sides:
            raise ValueError(
                "sample_weight must be None where inner_data and outer_data are None"
            )
        for side in sides:
            weights = check_weights(sample_weight, self._rows[side].n, "in row")
            self._rows[side].add_labels([("sample_weight", sample_weight)])
            self._weights[side] = with_sum_one(weights).astype(self._x0.dtype)

    def _check_functions(self):
        """Trace both functions on one row, and determine the structure of u."""
        jax, dtype = import_jax(), self._x0.dtype
        with precision(dtype):
            rows = {side: rows.one(dtype) for side, rows in self._rows.items()}
            leaves, _, template = flatten(
                "u", jax.eval_shape(self._g, self._x0, rows["inner"])
            )
            self._u_structure = Structure(template, [leaf.shape for leaf in leaves])
            jax.eval_shape(
                self._f,
                self._x0,
                np.zeros(self._u_structure.size, dtype),
                rows["outer"],
            )

    def _check_values(self):
        """Evaluate both functions and the gradient at x0 on all data, by one call."""
        every = self._everything(self._x0)
        if self._evaluations.placement.blocks:
            self._last = self._x0, every
        u, value, F = every["u"], float(every["f"][0]), self._gradient(every, self._x0)
        if not np.isfinite(u).all():
            raise ValueError(
                f"{self._names['inner']} must be finite at x0, got the mean "
                f"{short(u)}. For the logarithm of a mean of exponentials, as in "
                "KL-robust losses, DifferentiableLogMeanExp does not overflow"
            )
        if not math.isfinite(value):
            raise ValueError(
                f"outer must be finite at x0, got {value} with u the mean of inner, "
                f"{short(u)}"
            )
        if not np.isfinite(F).all():
            raise ValueError(
                f"inner and outer must have finite gradients at x0, got {short(F)}: "
                "square roots and norms have none "
                "at 0, nor has jnp.where if the branch that is not chosen has none"
            )


def _requires_more(function, number):
    """Whether a function has more parameters without defaults than a number. Functions
    of unknown signatures have."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return True
    positional = inspect.Parameter.POSITIONAL_ONLY, POSITIONAL
    required = [p for p in parameters if p.kind in positional and p.default is p.empty]
    return len(required) > number


def _check_takes(name, function, arguments):
    """Raise a ValueError unless a function can be called with some arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ValueError(
            f"{name} must be callable as {name}({', '.join(arguments)}), got a "
            f"function of {signature}: {error}"
        ) from None
