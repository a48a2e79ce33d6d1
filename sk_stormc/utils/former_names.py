"""Former names of parameters and attributes, which work with a FutureWarning for one
more version."""

import functools

from sk_stormc.utils.warnings import warn


def warn_of_former(old, new):
    """Warn that a name has become another one."""
    warn(f"{old} is now {new}: the old name ends with version 0.7", FutureWarning)


def former_keyword(old, new):
    """A decorator of functions that also take the argument ``new`` by its former
    name."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if old in kwargs:
                warn_of_former(f"{old}=", f"{new}=")
                kwargs = {new if key == old else key: kwargs[key] for key in kwargs}
            return function(*args, **kwargs)

        return call

    return decorate


def former_attribute(old, new):
    """A property that reads and sets an attribute by its former name."""

    def read(owner):
        warn_of_former(f"{type(owner).__name__}.{old}", new)
        return getattr(owner, new)

    def assign(owner, value):
        warn_of_former(f"{type(owner).__name__}.{old}", new)
        setattr(owner, new, value)

    return property(read, assign, doc=f"The former name of `{new}`.")


def rename_member(cls, old, new):
    """Rename what a class defines by a former name."""
    if old in vars(cls):
        warn_of_former(f"{cls.__name__}.{old}", new)
        setattr(cls, new, vars(cls)[old])
        delattr(cls, old)
