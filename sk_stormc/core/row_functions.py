"""Sums over some rows of the functions of a DifferentiableComposition and of their
derivatives, which every process compiles once."""

import uuid
from functools import lru_cache

from sk_stormc.core.pytrees import import_jax

COMPILED = 64  # functions that a process keeps, some ten problems


class RowFunctions:
    """The functions of a problem without its rows, to be sent to workers.

    Copies have the same ``key``, by which a process recognises functions that it has
    compiled.
    """

    def __init__(self, problem):
        self.problem, self.dtype = problem.without_rows(), problem._x0.dtype
        self.key = uuid.uuid4().hex

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)


@lru_cache(maxsize=COMPILED)
def compiled(functions, name):
    """A function of `sums_over_rows`, which JAX compiles for each shape."""
    return import_jax().jit(sums_over_rows(functions.problem)[name])


def sums_over_rows(problem):
    """By name, functions of the leaves of some rows, and of their weights or None: the
    sums of single rows' values."""
    jax = import_jax()
    jnp, dtype = jax.numpy, problem._x0.dtype

    def flat(tree):
        return jnp.concatenate(
            [jnp.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(tree)]
        )

    def summed(h, rows, p):
        if not rows:
            return h(rows)
        values = jax.vmap(h)(rows)
        return values.sum(0) if p is None else p @ values

    def g(x, rows, p):
        return summed(lambda row: flat(problem._g(x, row)), rows, p)

    def f(x, u, rows, p):
        return summed(lambda row: flat(problem._f(x, u, row)), rows, p)

    def vjp(x, v, rows, p):
        return jax.vjp(lambda x: g(x, rows, p), x)[1](v)[0]

    def f_and_gradient(x, u, rows, p):
        value, back = jax.vjp(lambda x, u: f(x, u, rows, p), x, u)
        return jnp.concatenate([value, *back(jnp.ones_like(value))])

    def both(x, rows, p):
        # products one by one: JAX 0.10.2 compiles some means of several wrongly
        def mean(x):
            return g(x, rows, p)

        if problem._u_structure.size <= problem.n_variables:
            u, back = jax.vjp(mean, x)
            J = jax.lax.map(lambda v: back(v)[0], jnp.eye(u.size, dtype=dtype))
        else:
            u, forward = jax.linearize(mean, x)
            J = jax.lax.map(forward, jnp.eye(x.size, dtype=dtype)).T
        return jnp.concatenate([u, J.ravel()])

    def slope(x, rows, p):
        return both(x, rows, p)[problem._u_structure.size :]

    def values(x, rows, p):
        return jax.vmap(lambda row: flat(problem._g(x, row)))(rows)

    return {
        "values": values,  # of g, for each row
        "inner": g,
        "jacobian": slope,
        "both": both,
        "vjp": vjp,
        "outer": f,
        "gradient": f_and_gradient,
    }
