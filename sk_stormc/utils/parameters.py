"""Checks of parameters: a ValueError names the parameter, the value and what was
expected."""

import math
import re
from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state


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
