"""Checks of parameters and data: a ValueError names the parameter, the value and what
was expected."""

import math
import re
from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from sk_stormc.utils.frames import (
    as_text,
    column,
    columns_of,
    is_lazy,
    is_table,
    rows_of,
)
from sk_stormc.utils.warnings import warn

TEXT = ("str", "string")  # pandas' names
# numbers that are checked at once, so that a memory map stays in its file
CHECKED = 2**20


def short(value):
    """The repr of a value on one line, with only the first and last entries of large
    arrays."""
    with np.printoptions(threshold=6, edgeitems=2, precision=6):
        text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:116]} ..."


def plain(value):
    """A NumPy scalar as a Python number, string or bool, also within a tuple or list.
    Other values do not change.

    Computations with a parameter are then the same as with a Python number. A float64
    scalar would widen float32 arrays, and a comparison with an int64 does not return a
    bool.
    """
    if is_list(value):
        parts = [plain(part) for part in value]
        return (
            value
            if all(new is old for new, old in zip(parts, value, strict=True))
            else type(value)(parts)
        )
    return value.item() if isinstance(value, np.generic) else value


def _fail(name, value, expected):
    raise ValueError(f"{name} must be {expected}, got {short(value)}")


def _words(words):
    return "".join(f", or {word!r}" for word in words)


# Kinds of values that users may pass for a parameter. They are defined here only.


def is_integer(value):
    """Whether a value is an integer, of Python or NumPy. True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value):
    """Whether a value is a real number, of Python or NumPy. True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_word(value, *words):
    """Whether a value is one of the words. An array is not compared entry by entry."""
    return isinstance(value, str) and value in words


def is_list(value):
    """Whether a value holds several values for one parameter: a tuple or a list."""
    return isinstance(value, (tuple, list))


def _is_one_of(value, words):
    return is_word(value, *words) or any(value is word for word in words)


def check_number(name, value, low=-math.inf, high=math.inf, inclusive=True, words=()):
    """A finite real number between low and high (low itself only if inclusive), or one
    of the words."""
    if _is_one_of(value, words):
        return
    number = is_real(value) and math.isfinite(value)
    if not number or value < low or value > high or (value == low and not inclusive):
        bounds = [] if low == -math.inf else [f"{'>=' if inclusive else '>'} {low}"]
        bounds += [] if high == math.inf else [f"<= {high}"]
        _fail(
            name,
            value,
            " ".join(["a finite number", " and ".join(bounds)]).strip() + _words(words),
        )


def check_schedule(name, value, first=0, words=(), **bounds):
    """A number as for `check_number`, or a schedule, whose value at iteration ``first``
    is checked."""
    if not callable(value):
        return check_number(name, value, words=words, **bounds)
    try:
        number = float(value(first))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must give a number for iteration {first}, got {value!r}: {error}"
        ) from error
    check_number(f"{name} at iteration {first}", number, **bounds)


def check_int(name, value, low, words=()):
    """An integer >= low, or one of the words."""
    if _is_one_of(value, words):
        return
    if not is_integer(value) or value < low:
        _fail(name, value, f"an integer >= {low}{_words(words)}")


def check_bool(name, value):
    """True or False, of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        _fail(name, value, "True or False")


def check_verbose(name, value):
    """True or False, or an integer >= 0."""
    if not isinstance(value, (bool, np.bool_)):
        check_int(name, value, low=0)


def check_text(name, value):
    """A string."""
    if not isinstance(value, str):
        _fail(name, value, "a string")


def check_callable(name, value, words=()):
    """A function, or one of the words."""
    if not (callable(value) or _is_one_of(value, words)):
        _fail(name, value, f"callable{_words(words)}")


def check_instance(name, value, kind):
    """An object of a class."""
    if not isinstance(value, kind):
        _fail(name, value, f"a {kind.__name__}")


def check_choice(name, value, choices):
    """One of the choices."""
    if not _is_one_of(value, choices):
        _fail(name, value, "one of " + ", ".join(repr(c) for c in choices))


def check_parameters(owner):
    """Check the parameters of an object by the tables ``checks`` of its class and of
    the base classes.

    A table maps the name of each parameter to a function that is called with the name
    and the value. The last one has only names of parameters, or of an earlier one.
    """
    checks, own = {}, {}
    params = owner.get_params(deep=False)
    for kind in reversed(type(owner).__mro__):
        known, own = {*checks, *params}, vars(kind).get("checks", {})
        checks |= own
    for name in own:
        if name not in known:
            raise ValueError(
                f"{type(owner).__name__}.checks must have names of parameters, got "
                f"{name!r}, expected some of {short(sorted(params))}"
            )
    for name, value in params.items():
        if name in checks:
            checks[name](name, value)


def check_n_jobs(n_jobs):
    """None, or an integer other than 0."""
    if n_jobs is not None and not (is_integer(n_jobs) and n_jobs):
        _fail(
            "n_jobs", n_jobs, "None or an integer other than 0, -1 for all processors"
        )


def check_batch_size(name, value):
    """An integer >= 1, None for all, "auto", or a triple (B_g, B_dg, B_f) of integers
    and None."""
    if is_list(value):
        if len(value) != 3:
            _fail(name, value, "one number or a triple (B_g, B_dg, B_f)")
        for part in value:
            check_int(name, part, low=1, words=(None,))
    else:
        check_int(name, value, low=1, words=(None, "auto"))


def as_numbers(name, value, dtype=float):
    """A copy of value as an array of numbers. Dates, text and complex numbers raise an
    error."""
    check_unmasked(name, value)
    try:
        given = np.asarray(value)
        of_objects = given.dtype.kind == "O"
        texts = of_objects and any(isinstance(v, (str, bytes)) for v in given.flat)
        if given.dtype.kind in "fiubO" and not texts:  # NumPy would read texts
            return np.array(value, dtype=dtype)
    except (TypeError, ValueError):
        pass
    _fail(name, value, "numbers")


def as_flags(name, value, where=""):
    """An array of booleans, from booleans or from 0 and 1 of any type of numbers."""
    given = np.asarray(value)
    check_unmasked(name, value)
    if given.dtype == bool:
        return given
    if given.dtype.kind in "iuf":
        right = (given == 0) | (given == 1)
    else:
        right = [
            isinstance(flag, (Real, np.bool_)) and flag in (0, 1)
            for flag in given.ravel().tolist()
        ]
        right = np.array(right, dtype=bool).reshape(given.shape)
    if not right.all():
        at = np.argwhere(~right)[0]
        where = (
            f"step {at[0]} of {where}" if where else f"row {at[0] if len(at) else 0}"
        )
        raise ValueError(
            f"{name} must be booleans, or 0 and 1, got {short(given[tuple(at)])} in "
            f"{where}"
        )
    return given.astype(bool)


def check_unmasked(name, value):
    """Raise a ValueError for masked values, which NumPy and scikit-learn would use."""
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} must have all its values, got {np.ma.count_masked(value)} that "
            "are masked: fill them"
        )


def seeded(random_state):
    """The generator of a ``random_state``, as `sklearn.utils.check_random_state` gives
    it."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        given = short(random_state)
        raise ValueError(
            "random_state must be an integer from 0 to 2**32 - 1, a RandomState "
            f"instance or None, got {given}"
        ) from error


def drawn_seed(random_state):
    """A seed that is drawn from a ``random_state``."""
    return seeded(random_state).randint(np.iinfo(np.int32).max)


@contextmanager
def naming(name):
    """A context that adds a name to error messages of other libraries that do not
    contain it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if re.search(rf"\b{name}\b", str(error)):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def check_metric(name, metric, n_variables):
    """A metric given as numbers: a positive vector, or a symmetric positive definite
    matrix."""
    values = np.asarray(metric)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, got {short(metric)}")
    d = n_variables
    if values.shape not in ((d,), (d, d)):
        raise ValueError(
            f"{name} must be a vector or matrix of {d} variables, got shape "
            f"{values.shape}"
        )
    values = (
        values if values.dtype in (np.float32, np.float64) else values.astype(float)
    )
    check_all_finite(name, values)
    diagonal = values if values.ndim == 1 else values.diagonal()
    if diagonal.min() <= 0:
        k = int(diagonal.argmin())
        where = "" if values.ndim == 1 else " on the diagonal"
        raise ValueError(f"{name} must be positive, got {diagonal[k]}{where} at {k}")
    if values.ndim == 2:
        _check_definite(name, values.astype(float), float(np.finfo(values.dtype).eps))
    return values


def _check_definite(name, matrix, eps):
    asymmetry, size = np.abs(matrix - matrix.T), np.abs(matrix).max()
    if asymmetry.max() > 1000 * eps * size:
        i, j = (int(k) for k in np.unravel_index(asymmetry.argmax(), matrix.shape))
        raise ValueError(
            f"{name} must be symmetric, got {matrix[i, j]:.6g} at ({i}, {j}) and "
            f"{matrix[j, i]:.6g} at ({j}, {i})"
        )
    try:
        np.linalg.cholesky(matrix)
    # an ill-conditioned matrix may fail because of rounding errors
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(matrix)
        if values[0] < -len(matrix) * eps * values[-1]:
            raise ValueError(
                f"{name} must be positive definite, got an eigenvalue of "
                f"{values[0]:.6g}"
            ) from None


def check_weights(sample_weight, n, where):
    """Weights of n rows: an array of finite numbers >= 0, not all zero. Errors use
    ``where`` to name a row."""
    weights = as_numbers("sample_weight", sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must be of shape ({n},), got {weights.shape}")
    check_not_negative(weights, where)
    if not weights.any():
        raise ValueError("sample_weight must have a positive entry, got only zeros")
    return weights


def check_not_negative(weights, where, start=0):
    """Raise a ValueError unless weights of rows, of which the first has the number
    ``start``, are finite and >= 0."""
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"sample_weight must be finite and >= 0, got {weights[k]} {where} "
            f"{start + k}"
        )


def row_weights(sample_weight, n, all_zero=False, where="in row"):
    """Weights of n rows. None means ones, and a number is used for all rows. All may be
    0 only if ``all_zero``. Errors use ``where`` to name a row."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_numbers("sample_weight", sample_weight)
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    nothing = all_zero and weights.shape == (n,) and not weights.any()
    return weights if nothing else check_weights(weights, n, where)


def check_in_memory(name, data):
    """Raise a ValueError for queries that have not run yet, and for masked values."""
    if not isinstance(data, np.ndarray) and is_lazy(data):
        raise ValueError(
            f"{name} must be in memory, got a {type(data).__name__}: call its method "
            "collect() first"
        )
    check_unmasked(name, data)


def check_numeric(name, data):
    """Raise a ValueError for dates, durations, masked values and columns of text or
    objects.

    NumPy and scikit-learn would silently convert dates to days or microseconds since
    1970.
    """
    check_in_memory(name, data)
    # dask's delayed objects have every attribute
    if not isinstance(getattr(data, "shape", ()), tuple):
        return
    if not isinstance(data, np.ndarray) and is_table(data):
        for j, (label, dtype) in enumerate(
            zip(columns_of(data), data.dtypes, strict=True)
        ):
            values = None
            if getattr(dtype, "kind", None) == "O" and str(dtype) not in TEXT:
                values = np.asarray(column(data, j), dtype=object)
                missing = [type(value).__name__ == "NAType" for value in values]
                if any(missing):  # NumPy does not convert them
                    row = (rows_of(data) or range(len(values)))[missing.index(True)]
                    raise ValueError(
                        f"{name} must have all its values, got <NA> in column "
                        f"{label!r}, first in row {as_text(row)}: "
                        "fill them in, or leave out such rows or columns"
                    )
            if not _holds_numbers(dtype, values):
                raise ValueError(
                    f"{name} must be numbers, but column {label!r} holds {dtype}: "
                    "leave it out, or encode it. sk_stormc.preprocessing.TableScaler "
                    "encodes tables with columns of several types"
                )
            if getattr(dtype, "ordered", None) is False:
                warn(
                    f"column {label!r} of {name} holds categories, which are read as "
                    "numbers. Encode them, as sklearn.preprocessing.OneHotEncoder and "
                    "sk_stormc.preprocessing.TableScaler do, or convert the column to "
                    "numbers if its order has a meaning",
                    UserWarning,
                )
        return
    if isinstance(data, (list, tuple)):
        try:
            data = np.asarray(data)
        except ValueError:  # rows of different lengths, which a later check reports
            return
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind in "mM" or (
        kind == "O" and isinstance(data, np.ndarray) and _holds_dates(data)
    ):
        first = np.asarray(data).ravel()[:1]
        raise ValueError(
            f"{name} must be numbers, got {data.dtype} values such as {short(first)}"
        )


def all_finite(array):
    """Whether all numbers of an array are finite."""
    with np.errstate(all="ignore"):
        # they are if their sum is, which takes a third of the time
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def check_all_finite(name, array, start=0):
    """Raise a ValueError that names the place of the first number that is not finite.
    ``start`` is the number of the first row."""
    rows = array if array.ndim else array[None]
    size = max(1, CHECKED // max(1, rows[:1].size))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        if not all_finite(part):
            k = np.argwhere(~np.isfinite(part))[0]
            value = part[tuple(k)]
            k[0] += start + first
            where = tuple(k.tolist()) if k.size > 1 else k[0]
            place = f" at {where}" if array.ndim else ""
            raise ValueError(f"{name} must be finite, got {value}{place}")


def check_finite(name, expected, blocks, data, remedy):
    """Raise a ValueError for missing or infinite numbers, with their columns, the first
    row and a remedy.

    ``blocks`` yields the number of the first row and the numbers of each block of rows,
    and ``data`` are the data as the user passed them.
    """
    where, first, nan = np.zeros(1, dtype=bool), None, False
    for start, block in blocks:
        if all_finite(block.data if sparse.issparse(block) else block):
            continue
        columns, row, has_nan = _not_finite(block)
        if row is not None:
            where, nan = where | columns, nan or has_nan
            first = start + row if first is None else first
    if first is None:
        return
    columns, rows = columns_of(data) if is_table(data) else None, rows_of(data)
    places = np.flatnonzero(where)
    names = [int(j) if columns is None else columns[j] for j in places[:10]]
    more = f" and {len(places) - 10} more" if len(places) > 10 else ""
    raise ValueError(
        f"{name} must be {expected}, got {'NaN' if nan else 'infinity (inf)'} in "
        f"column{'s' * (len(places) > 1)} {names}{more}, first in row "
        f"{first if rows is None else as_text(rows[first])}. {remedy}"
    )


def _not_finite(block):
    """Which columns of a block are not finite, the first such row or None, and whether
    there is NaN."""
    if sparse.issparse(block):
        block = block.tocoo()
        wrong = ~np.isfinite(block.data)
        columns = np.bincount(block.col[wrong], minlength=block.shape[1]) > 0
        return (
            columns,
            min(block.row[wrong], default=None),
            bool(np.isnan(block.data).any()),
        )
    wrong = ~np.isfinite(block)
    of_rows = wrong.any(axis=1)
    return (
        wrong.any(axis=0),
        int(of_rows.argmax()) if of_rows.any() else None,
        bool(np.isnan(block).any()),
    )


def _holds_numbers(dtype, values):
    """Whether a column holds numbers or booleans. ``values`` are those of a column of
    objects, which may be numbers."""
    if hasattr(dtype, "is_numeric"):  # of polars
        return dtype.is_numeric() or str(dtype) == "Boolean"
    if values is None:
        return str(dtype) not in TEXT and getattr(dtype, "kind", "f") not in "mM"
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return False
    return not _holds_dates(values)


def _holds_dates(values):
    return any(isinstance(v, (np.datetime64, np.timedelta64)) for v in values.flat)
