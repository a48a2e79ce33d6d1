"""Pytrees of numbers for JAX: a starting point, and errors of functions that JAX cannot
trace."""

import importlib
import os
import traceback
from contextlib import contextmanager
from numbers import Number

import numpy as np

from sk_stormc.utils.arrays import as_numbers, check_all_finite
from sk_stormc.utils.parameters import short


def import_jax():
    """Import JAX, which is an optional dependency."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise ImportError(
            'DifferentiableComposition needs JAX: pip install "sk_stormc[autodiff]". '
            "FiniteSumComposition takes "
            "derivatives by hand"
        ) from error


def precision(dtype):
    """A context in which JAX uses 64-bit types exactly if dtype is float64, regardless
    of its configuration."""
    return import_jax().enable_x64(dtype == np.float64)


def _shapes(value):
    """The shapes of the leaves of a pytree, in words."""
    words = import_jax().tree.map(
        lambda leaf: f"shape {np.shape(leaf)}" if np.shape(leaf) else "a number", value
    )
    return str(words).replace("'", "")


@contextmanager
def tracing(name, **arguments):
    """A context in which JAX traces a user's function. Errors name the function, and
    the line or the arguments."""
    jax = import_jax()
    try:
        yield
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        libraries = (
            os.path.dirname(jax.__file__),
            os.path.dirname(np.__file__),
            __file__,
        )
        frames = [
            f
            for f in traceback.extract_tb(error.__traceback__)
            if not f.filename.startswith(libraries)
        ]
        line, file = frames[-1], os.path.basename(frames[-1].filename)
        raise ValueError(
            f"{name} must be written with jax.numpy, without NumPy's functions, "
            "float(), int() or `if` on the numbers that it is given (jnp.where "
            f"chooses), got in line {line.lineno} of {file}: {line.line}"
        ) from error
    except Exception as error:
        called = ", ".join(
            f"{argument} of {_shapes(value)}" for argument, value in arguments.items()
        )
        error.add_note(f"{name} was called with {called}")
        raise


def check_returned(name, value, single=False):
    """Raise a ValueError unless a function returned real numbers: a pytree of them, or
    a ``single`` one."""
    jax = import_jax()
    leaves = jax.tree.leaves(value)
    are_real = all(
        is_real((leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)).dtype)
        for leaf in leaves
    )
    size = sum(np.size(leaf) for leaf in leaves)
    if not (size and are_real) or (single and size != 1):
        expected = (
            "a number for each row"
            if single
            else "a number, an array or a pytree of them for each row"
        )
        raise ValueError(
            f"{name} must return {expected}, got "
            f"{_shapes(value) if leaves and are_real else short(value)}"
        )


def is_floating(dtype):
    """Whether a type is of floats, also one that NumPy does not have."""
    return bool(import_jax().numpy.issubdtype(dtype, np.floating))


def is_real(dtype):
    """Whether a type is of real numbers. Keys of `jax.random` have types too."""
    return is_floating(dtype) or getattr(dtype, "kind", None) in set("iub")


def with_numpy_floats(leaf):
    """An array of floats that NumPy does not have, such as bfloat16, as float32."""
    dtype = getattr(leaf, "dtype", None)
    if getattr(dtype, "kind", None) == "V" and is_floating(dtype):
        return np.asarray(leaf).astype(np.float32)
    return leaf


def _is_array_like(value):
    """Whether a list is an array of numbers, and not a pytree of its entries."""
    return isinstance(value, list) and all(
        isinstance(leaf, Number) for leaf in import_jax().tree.leaves(value)
    )


def flatten(name, tree):
    """The leaves of a pytree, their names, and the pytree with each leaf replaced by
    its position."""
    jax = import_jax()
    paths, structure = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=_is_array_like
    )
    if not paths:
        raise ValueError(f"{name} must hold at least one array, got {short(tree)}")
    names = [name + jax.tree_util.keystr(path) for path, _ in paths]
    return (
        [leaf for _, leaf in paths],
        names,
        jax.tree.unflatten(structure, range(len(paths))),
    )


def fill(template, leaves):
    """The pytree with each position replaced by its leaf."""
    return import_jax().tree.map(lambda k: leaves[k], template)


class Structure:
    """The structure of a pytree of numbers, into which a flat array is converted.

    Attributes
    ----------
    template : pytree
        The pytree with each leaf replaced by its position.
    shapes : list of tuple
        The shapes of the leaves.
    """

    def __init__(self, template, shapes):
        self.template, self.shapes = template, shapes
        self._ends = np.cumsum([int(np.prod(shape)) for shape in shapes]).tolist()

    @classmethod
    def of(cls, name, tree):
        """The structure of a checked pytree of numbers, and its flat array of float32
        or float64."""
        leaves, names, template = flatten(name, tree)
        single = all(getattr(leaf, "dtype", None) == np.float32 for leaf in leaves)
        arrays = []
        for part, leaf in zip(names, leaves, strict=True):
            leaf = with_numpy_floats(leaf)
            arrays.append(as_numbers(part, leaf, np.float32 if single else float))
            check_all_finite(part, arrays[-1])
        structure = cls(template, [array.shape for array in arrays])
        if not structure.size:
            raise ValueError(f"{name} must hold at least one number, got {short(tree)}")
        return structure, np.concatenate([array.ravel() for array in arrays])

    @property
    def size(self):
        """Number of entries of the flat array."""
        return self._ends[-1]

    def unravel(self, flat):
        """The pytree of a flat array, of NumPy or JAX, whose leading axes stay."""
        starts, before = [0, *self._ends[:-1]], flat.shape[:-1]
        parts = zip(starts, self._ends, self.shapes, strict=True)
        return fill(
            self.template,
            [flat[..., a:b].reshape(before + tuple(shape)) for a, b, shape in parts],
        )

    def flat_penalty(self, penalty):
        """A penalty with the weights of leaves, such as ``L1({"weight": 0.1, "bias":
        0.0})``, for the flat array."""
        alpha = getattr(penalty, "alpha", None)
        if not isinstance(alpha, (dict, tuple)):
            return penalty
        leaves, _, template = flatten("alpha", alpha)
        if template != self.template:
            raise ValueError(
                f"alpha must have the structure of x0, {self}, got {_shapes(alpha)}"
            )
        try:
            parts = [
                np.broadcast_to(leaf, shape).ravel()
                for leaf, shape in zip(leaves, self.shapes, strict=True)
            ]
        except ValueError:
            raise ValueError(
                f"alpha must have leaves of the shapes of x0's, {self}, got "
                f"{_shapes(alpha)}"
            ) from None
        return type(penalty)(np.concatenate(parts).astype(float))

    def __eq__(self, other):
        return (self.template, self.shapes) == (other.template, other.shapes)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self):
        return _shapes(fill(self.template, [np.empty(shape) for shape in self.shapes]))
