"""Means over rows of the functions of a DifferentiableComposition and of their
derivatives, compiled by JAX.

All rows are evaluated by one compiled call, in blocks within which derivatives are
taken, so that memory does not grow with the number of rows. Rows that stay in memory,
in a file or on workers are evaluated in their own blocks. A batch of a run is taken
from memory if the rows lie there, and is gathered in the compiled call if they lie on
an accelerator or on several devices.
"""

from functools import partial

import numpy as np

from sk_stormc.core.block_rows import BlockSum, equal_parts
from sk_stormc.core.pytrees import import_jax, is_floating, precision
from sk_stormc.core.row_functions import RowFunctions, sums_over_rows

# of the rows that are evaluated at once, by whether this is on a CPU
NUMBERS_AT_ONCE = {True: 2**21, False: 2**24}
SIDES = {  # the side over whose rows each function is a mean
    "inner": "inner",
    "jacobian": "inner",
    "both": "inner",
    "vjp": "inner",
    "outer": "outer",
    "gradient": "outer",
}


class Evaluations:
    """The compiled functions of a problem.

    The functions have names: u ("inner"), J ("jacobian"), u and J ("both"), J.T v
    ("vjp"), f ("outer"), and f with its gradients in x and u ("gradient"). Their values
    are flat arrays.
    """

    def __init__(self, problem, placement):
        self._rows, self._weights = problem._rows, problem._weights
        self.placement = placement
        self._dtype, self._d = problem._x0.dtype, problem.n_variables
        self._n_u = problem._u_structure.size
        self._kind, self._functions, self._samples = problem.jacobian_kind, {}, {}
        self._sums, self._shipped = sums_over_rows(problem), RowFunctions(problem)
        # the forms and numbers of rows for which a Jacobian was compared
        self.compared: set[tuple] = set()
        self._numbers = {
            "inner": self._numbers_of_a_row("inner", self._d),
            "outer": self._numbers_of_a_row("outer", self._d, self._n_u),
        }

    # all rows

    def over_all(self, name, *args):
        """A mean over all rows, by one call, or by calls where the blocks of rows
        lie."""
        side = SIDES[name]
        if side in self.placement.blocks:
            n = self._rows[side].n if self._weights[side] is None else 1
            return self.over_blocks(name, *args) / n
        return self._call(
            name,
            lambda pool, *args: self._on_devices(pool, name, *args),
            self.placement.pool,
            *args,
        )

    def over_blocks(self, name, *args, kind=BlockSum):
        """The sum of a function over all rows in blocks. ``kind`` is the function that
        is sent to each of them."""
        rows = self.placement.blocks[SIDES[name]]
        size = self.block(name)
        return rows.sum(kind(self._shipped, name, args, size, rows.layout()))

    def everything(self, x):
        """u, then J if it is sampled, f, f_x, f_u, and J.T f_u if J is an operator,
        over all rows."""
        return self._composed("everything", self._everything, x)

    def value(self, x):
        """f over all rows at x and at u(x), of shape (1,)."""
        return self._composed("value", self._value, x)

    def _composed(self, name, function, x):
        """A function of several means: one call if all rows are on devices."""
        if self.placement.blocks:
            return function(np.concatenate, self.over_all, x)
        joined = import_jax().numpy.concatenate
        return self._call(
            name,
            lambda pool, x: function(joined, partial(self._on_devices, pool), x),
            self.placement.pool,
            x,
        )

    def _everything(self, joined, mean, x):
        first = mean("both" if self._kind == "sampled" else "inner", x)
        second = mean("gradient", x, first[: self._n_u])
        parts = [first, second]
        if self._kind == "operator":
            parts.append(mean("vjp", x, second[1 + self._d :]))
        return joined(parts)

    def _value(self, joined, mean, x):
        return mean("outer", x, mean("inner", x))

    def _on_devices(self, pool, name, *args):
        """The mean over all rows of the pool, traced: a loop over blocks on each
        device."""
        jax, side = import_jax(), SIDES[name]
        where, weight_at = self.placement.where[side], self.placement.weight_at[side]
        if not where:
            return self._sums[name](*args, (), None)

        def summed(leaves, p, *args):
            m = len(leaves[0])
            n_blocks = -(-m // self.block(name))
            size = m // n_blocks

            def part(first, size):
                cut = partial(
                    jax.lax.dynamic_slice_in_dim, start_index=first, slice_size=size
                )
                weights = None if p is None else cut(p)
                return self._sums[name](
                    *args, self._converted(map(cut, leaves)), weights
                )

            if n_blocks == 1:
                return part(0, m)
            shape = jax.eval_shape(lambda: part(0, size)).shape
            total = jax.lax.fori_loop(
                0,
                n_blocks,
                lambda k, total: total + part(k * size, size),
                jax.numpy.zeros(shape, self._dtype),
            )
            rest = m % n_blocks
            return total + part(n_blocks * size, rest) if rest else total

        p = None if weight_at is None else pool[weight_at]
        total = self._over_devices(side, summed, [pool[k] for k in where], p, *args)
        return total / self._rows[side].n if p is None else total

    def _over_devices(self, side, function, leaves, p, *args):
        """The sum over devices of a function of the rows and weights that lie on each,
        traced."""
        if self.placement.mesh is None:
            return function(leaves, p, *args)
        jax, axes = import_jax(), self.placement.axes[side]

        def on_each(leaves, p, *args):
            value = function(leaves, p, *args)
            return jax.lax.psum(value, axes) if axes else value

        same = jax.sharding.PartitionSpec()
        divided = jax.sharding.PartitionSpec(axes or None)
        return jax.shard_map(
            on_each,
            mesh=self.placement.mesh,
            in_specs=(divided, divided, *[same] * len(args)),
            out_specs=same,
            check_vma=False,
        )(leaves, p, *args)

    # blocks

    def block(self, name):
        """Number of rows that are evaluated at once."""
        numbers = self._numbers[SIDES[name]]
        return max(1, NUMBERS_AT_ONCE[self.placement.on_cpu] // numbers)

    def _numbers_of_a_row(self, side, *sizes):
        """Numbers of a row, and those that are kept of it for its derivatives, by the
        difference of two and one."""
        jax = import_jax()
        args = [jax.ShapeDtypeStruct((size,), self._dtype) for size in sizes]

        def pulled_back(rows, *args):
            return jax.vjp(lambda *args: self._sums[side](*args, rows, None), *args)

        def numbers(n):
            rows = self._rows[side].some(n, self._dtype)
            kept = jax.eval_shape(pulled_back, rows, *args)
            return sum(leaf.size for leaf in jax.tree.leaves((rows, kept)))

        with precision(self._dtype):
            return self._n_u + numbers(2) - numbers(1)

    # batches

    def parts(self, name, batch):
        """A batch in parts of at most two sizes: pairs of a slice and of (side, draws
        or rows).

        The rows of the last batch are kept, because a sample of rows in a file is
        evaluated many times.
        """
        side = SIDES[name]
        rows = batch
        if self.placement.takes(side):
            last, rows = self._samples.get(side, (None, None))
            if last is not batch:
                rows = self.placement.take(side, batch)
                self._samples[side] = batch, rows
        cuts = equal_parts(len(batch), self.block(name))
        if isinstance(rows, tuple):
            return [(cut, (side, tuple(leaf[cut] for leaf in rows))) for cut in cuts]
        return [(cut, (side, rows[cut])) for cut in cuts]

    def over_batches(self, name, args, *batches):
        """A function of the rows of one or two batches, which are pairs (side, draws),
        or (side, rows) from `parts`."""
        placement, function = self.placement, partial(self._on_rows, name)
        sides, draws = zip(*batches, strict=True)
        if all(map(placement.takes, sides)):
            rows = map(placement.take, sides, draws)
            return self._call(("rows", name), function, args, *rows)

        def of_draws(pool, args, *draws):
            return function(args, *map(partial(self._gathered, pool), sides, draws))

        draws = [numbers.astype(np.int32) for numbers in draws]
        return self._call((name, sides), of_draws, placement.pool, args, *draws)

    def _gathered(self, pool, side, draws):
        """The rows of these draws, traced. Rows on other devices are zeros until they
        are added up."""
        jax, axes = import_jax(), self.placement.axes[side]

        def gathered(leaves, p, draws):
            local = draws
            if axes:
                local = draws - len(leaves[0]) * jax.lax.axis_index(axes)
                here = (local >= 0) & (local < len(leaves[0]))
                local = jax.numpy.where(here, local, 0)
            rows = [leaf.at[local].get(mode="promise_in_bounds") for leaf in leaves]
            if not axes:
                return rows
            return [
                jax.numpy.where(here.reshape(-1, *[1] * (row.ndim - 1)), row, 0)
                for row in rows
            ]

        leaves = [pool[k] for k in self.placement.where[side]]
        rows = self._over_devices(side, gathered, leaves, None, draws) if leaves else []
        return self._converted(
            row.astype(leaf.dtype) for row, leaf in zip(rows, leaves, strict=True)
        )

    def _on_rows(self, name, args, rows, *others):
        """The value of a function on batches, traced. Functions of pairs have the
        arguments of both points joined."""
        jax = import_jax()
        if name in SIDES:
            return self._mean(name, *args, rows)
        if name == "values":
            return self._sums["values"](*args, rows, None)
        if name == "weighted_vjp":
            x, v, p = args
            return self._sums["vjp"](x, v, rows, p)
        points = args[0].reshape(2, -1)  # vmap would take three times as long
        return jax.numpy.stack(
            [getattr(self, f"_{name}")(point, rows, *others) for point in points]
        )

    def _inner_pair(self, x, rows, slope_rows=None):
        u = self._mean("inner", x, rows)
        if slope_rows is None:
            return u
        return import_jax().numpy.concatenate(
            [u, self._mean("jacobian", x, slope_rows)]
        )

    def _gradient_pair(self, point, rows, inner_rows=None):
        x, u, J = import_jax().numpy.split(point, (self._d, self._d + self._n_u))
        gradient = self._mean("gradient", x, u, rows)
        f_x, f_u = gradient[1 : 1 + self._d], gradient[1 + self._d :]
        if inner_rows is None:
            return f_x + f_u @ J.reshape(self._n_u, self._d)
        return f_x + self._mean("vjp", J, f_u, inner_rows)

    def _mean(self, name, *args):
        rows = args[-1]
        return self._sums[name](*args, None) / (len(rows[0]) if rows else 1)

    # calls

    def _converted(self, leaves):
        """Rows with floats of the type of x0, traced."""
        return tuple(
            leaf.astype(self._dtype) if is_floating(leaf) else leaf for leaf in leaves
        )

    def _call(self, key, function, *args):
        """Call a function, which JAX compiles for each key and shape."""
        if key not in self._functions:
            self._functions[key] = import_jax().jit(function)
        with precision(self._dtype):
            return np.asarray(self._functions[key](*args))
