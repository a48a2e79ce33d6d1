"""Arrays with a common exponent (scaled numbers), for values beyond the range of
floats."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# units are powers of 2**UNIT_STEP, so that values of similar size mostly have the same
# unit
UNIT_STEP = 32
# arrays beyond 2**MAX_POWER or 2**-MAX_POWER get another unit, so that squares stay in
# the range of float32
MAX_POWER = 60
LOG_2 = math.log(2.0)


def _parts(value):
    """The array and the power of a value. Plain numbers have the power 0."""
    return (value.array, value.power) if type(value) is InUnit else (value, 0)


def _fitting(array, power):
    """A value in a unit that fits its size."""
    flat = array.ravel().astype(float, copy=False)
    if 4.0**-MAX_POWER < float(flat.dot(flat)) < 4.0**MAX_POWER:
        return InUnit(array, power)
    top = float(abs(flat).max()) if flat.size else 0.0
    if not 0 < top < math.inf:
        return InUnit(array, power)
    shift = UNIT_STEP * round(math.frexp(top)[1] / UNIT_STEP)
    return InUnit(np.ldexp(array, -shift), power + shift)


def _largest(values):
    """The largest power of the values that are not all 0."""
    return max((value.power for value in values if value.array.any()), default=0)


def _shifted(value, power):
    """The array of a value in units of 2**power."""
    shift = value.power - power
    # beyond these bounds any float becomes 0 or infinite
    return (
        np.ldexp(value.array, min(max(shift, -10_000), 10_000))
        if shift
        else value.array
    )


def _in_larger(a, b):
    """The arrays of two values in the larger of their units, and its power."""
    (x, p), (y, q) = _parts(a), _parts(b)
    if p == q:
        return x, y, p
    if type(b) is float and not b:
        return x, b, p
    values = _fitting(np.asarray(x), p), _fitting(np.asarray(y), q)
    power = _largest(values)
    x, y = (_shifted(value, power) for value in values)
    # a Python number has no float type of its own
    return (
        float(x) if type(a) in (int, float) else x,
        float(y) if type(b) in (int, float) else y,
        power,
    )


def _sum(ufunc, a, b):
    x, y, power = _in_larger(a, b)
    return InUnit(ufunc(x, y), power)


def _comparison(ufunc, a, b):
    x, y, _ = _in_larger(a, b)
    return ufunc(x, y)


def _product(ufunc, a, b):
    (x, p), (y, q) = _parts(a), _parts(b)
    return _fitting(ufunc(x, y), p + q if ufunc is np.multiply else p - q)


def _contracted(a, b):
    (x, p), (y, q) = _parts(a), _parts(b)
    product = _fitting(x.dot(y), p + q)
    return product.plain() if type(a) is type(b) else product


RULES: dict[np.ufunc, Callable] = dict.fromkeys(
    (np.add, np.subtract, np.maximum, np.minimum), _sum
)
RULES |= dict.fromkeys(
    (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal),
    _comparison,
)
RULES |= {
    np.multiply: _product,
    np.divide: _product,
    np.matmul: lambda _, a, b: _contracted(a, b),
    np.negative: lambda _, a: -a,
    np.absolute: lambda _, a: abs(a),
    np.isfinite: lambda _, a: np.isfinite(a.array),
    np.log: lambda _, a: np.log(a.array) + a.power * LOG_2,
}


def _operator(ufunc):
    """The methods of the operator of a function, and of the operator with its arguments
    exchanged."""
    rule = RULES[ufunc]

    def method(self, other):
        return rule(ufunc, self, other)

    def exchanged(self, other):
        return rule(ufunc, other, self)

    return method, exchanged


@dataclass(slots=True, eq=False, repr=False)
class InUnit:
    """An array with a common exponent, which represents ``array * 2**power``.

    Exponentials overflow if their exponents are above 709 (in float32, 88). A problem
    whose u and Jacobian consist of exponentials returns values of this class. They
    support the operations of methods on u and J: ``+``, ``-``, ``*``, ``/``, ``@``,
    ``abs``, ``numpy.maximum`` and ``numpy.minimum``, comparisons, indexing and `dot`.
    The unit is a power of two, so these operations round as floats with an unlimited
    range of exponents would. A sum has the larger unit of the two, and a product far
    from 1 gets a unit that fits. ``numpy.log`` returns plain numbers, and so do `dot`
    and ``@`` of two such values, such as f_u and J, whose units cancel. All other
    operations raise a TypeError.

    All entries share one unit. Entries below about 2**-1000 of the largest (in float32,
    2**-100) become 0. Values of this class are not changed in place.

    Parameters
    ----------
    array : ndarray
        Floats of moderate size.
    power : int, default=0
        The exponent of the unit 2**power.

    Raises
    ------
    TypeError
        If an operation is not defined for this class.
    OverflowError
        If the argument of ``float(value)`` is beyond the range of floats.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import InUnit
    >>> u = InUnit.exp(np.array([2000.0, 1999.0]))
    >>> u / u[0]
    InUnit(array([1.        , 0.36787944]), 0)
    >>> np.log(0.5 * u + u).round(3)
    array([2000.405, 1999.405])
    """

    array: np.ndarray
    power: int = 0

    def __repr__(self):
        return f"InUnit({self.array!r}, {self.power})"

    @classmethod
    def exp(cls, exponents, factor=1.0):
        """factor * exp(e) for exponents of any size. Values far below the largest
        become 0.

        Parameters
        ----------
        exponents : ndarray of float64
        factor : float or ndarray, default=1.0
            Factors of moderate size.

        Returns
        -------
        InUnit
        """
        top = float(exponents.max())
        if not math.isfinite(top):
            return cls(factor * np.exp(exponents))
        power = UNIT_STEP * round(top / (UNIT_STEP * LOG_2))
        # for a huge exponent the rest is a rounding error, which must stay bounded
        rest = min(max(top - power * LOG_2, -UNIT_STEP), UNIT_STEP)
        return cls((factor * math.exp(rest)) * np.exp(exponents - top), power)

    def plain(self):
        """The values as a plain array. They are infinite or 0 beyond the range of
        floats.

        Returns
        -------
        ndarray
        """
        return _shifted(self, 0)

    # attributes and methods of arrays

    shape = property(lambda self: self.array.shape)
    size = property(lambda self: self.array.size)
    ndim = property(lambda self: self.array.ndim)
    dtype = property(lambda self: self.array.dtype)

    def __len__(self):
        return len(self.array)

    def __getitem__(self, key):
        return InUnit(self.array[key], self.power)

    def astype(self, dtype, copy=True):
        """The value in another float dtype."""
        return InUnit(self.array.astype(dtype, copy=copy), self.power)

    def reshape(self, *shape):
        """The value in another shape."""
        return InUnit(self.array.reshape(*shape), self.power)

    def copy(self):
        """A copy."""
        return InUnit(self.array.copy(), self.power)

    def sum(self, axis=None):
        """The sum of the entries."""
        return InUnit(self.array.sum(axis=axis), self.power)

    def max(self):
        """The largest entry."""
        return InUnit(self.array.max(), self.power)

    def min(self):
        """The smallest entry."""
        return InUnit(self.array.min(), self.power)

    def dot(self, other):
        """The same as ``@``. The result is a plain number or array if ``other`` is an
        `InUnit` too."""
        return _contracted(self, other)

    # numbers

    def __float__(self):
        number = float(self.plain())
        if (not number or math.isinf(number)) and number != self.array:
            raise OverflowError(
                f"{self!r} is beyond the range of floats; numpy.log of it is not"
            )
        return number

    def __bool__(self):
        return bool(self.array)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "an InUnit is not converted to an array; use numpy.log, or plain(): "
            f"{self!r}"
        )

    # arithmetic

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        rule = RULES.get(ufunc)
        if method == "__call__" and not kwargs and rule is not None:
            return rule(ufunc, *inputs)
        name = f"{ufunc.__name__}.{method}".removesuffix(".__call__")
        options = f" with {', '.join(kwargs)}" if kwargs else ""
        raise TypeError(
            f"numpy.{name}{options} is not defined for values that carry their own "
            f"unit, got {self!r}"
        )

    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide)
    __lt__, __gt__ = _operator(np.less)
    __le__, __ge__ = _operator(np.less_equal)
    __eq__, _ = _operator(np.equal)
    __ne__, _ = _operator(np.not_equal)
    __matmul__ = dot
    del _

    def __neg__(self):
        return InUnit(-self.array, self.power)

    def __abs__(self):
        return InUnit(abs(self.array), self.power)

    __hash__ = None  # type: ignore[assignment]


def in_one_unit(values):
    """Convert several values to arrays in one common unit, for linear combinations of
    them."""
    if not any(isinstance(value, InUnit) for value in values):
        return values, lambda array: array
    values = [_fitting(*_parts(value)) for value in values]
    power = _largest(values)
    return [_shifted(value, power) for value in values], lambda array: _fitting(
        array, power
    )


def as_array(value, power=0):
    """A value as an array in units of 2**power. Plain arrays stay unchanged."""
    return _shifted(value, power) if isinstance(value, InUnit) else value
