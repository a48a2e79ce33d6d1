"""Schedules: functions of the iteration number, for the learning rate, the momentum,
beta and the precision.

They can be pickled, compared and printed, so that GridSearchCV can search over them.
Any other picklable callable can be used as a schedule too.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sk_stormc.utils.parameters import check_callable, check_number
from sk_stormc.utils.types import Schedule


@dataclass(frozen=True, repr=False)
class Power:
    """The class of the schedules that `constant`, `inverse` and `power` return: scale *
    (t + 1) ** exponent."""

    scale: float
    exponent: float

    def __post_init__(self):
        check_number("scale", self.scale)
        check_number("exponent", self.exponent)

    def __call__(self, t: int) -> float:
        return self.scale * (t + 1) ** self.exponent

    def __repr__(self):
        return f"power({self.exponent!r}, scale={self.scale!r})"


@dataclass(frozen=True, repr=False)
class Decay:
    """The class of the schedules that `decay_to` returns."""

    start: float
    end: float
    horizon: int
    hold: float = 0.0

    def __post_init__(self):
        check_number("start", self.start)
        check_number("end", self.end)
        check_number("horizon", self.horizon, low=1)
        check_number("hold", self.hold, low=0, high=1)
        if self.hold == 1:
            raise ValueError(
                "hold must be below 1, because 1 leaves no time for the decay, got "
                f"{self.hold!r}"
            )

    def __call__(self, t: int) -> float:
        left = min(1.0, max(0.0, (1 - t / self.horizon) / (1 - self.hold)))
        return self.end + (self.start - self.end) * left

    def __repr__(self):
        return (
            f"decay_to({self.end!r}, start={self.start!r}, horizon={self.horizon!r}, "
            f"hold={self.hold!r})"
        )


@dataclass(frozen=True)
class Geometric:
    """Geometric decay or growth from ``start`` to ``end``. The value then stays at
    ``end``.

    Parameters
    ----------
    start, end : float
        Greater than 0.
    horizon : int
        Number of iterations until ``end``.

    Raises
    ------
    ValueError
        If the horizon is below 1, or start or end is not a finite number > 0.

    Examples
    --------
    >>> from sk_stormc.schedules import Geometric
    >>> [Geometric(1.0, 0.01, horizon=4)(t) for t in (0, 2, 4, 5)]
    [1.0, 0.1, 0.01, 0.01]
    """

    start: float
    end: float
    horizon: int

    def __post_init__(self):
        check_number("start", self.start, low=0, inclusive=False)
        check_number("end", self.end, low=0, inclusive=False)
        check_number("horizon", self.horizon, low=1)

    def __call__(self, t: int) -> float:
        return self.start * (self.end / self.start) ** min(1.0, t / self.horizon)


@dataclass(frozen=True)
class Slowed:
    """A slowed-down version of another schedule.

    Parameters
    ----------
    schedule : callable
    times : float
        Factor > 0 of the slowdown: the value at iteration t is that of ``schedule`` at
        t / times.

    Raises
    ------
    ValueError
        If schedule is not callable, or times is not a finite number > 0.

    Examples
    --------
    >>> from sk_stormc.schedules import Slowed, power
    >>> Slowed(power(-0.5), 10.0)(30)
    0.5
    """

    schedule: Callable
    times: float

    def __post_init__(self):
        check_callable("schedule", self.schedule)
        check_number("times", self.times, low=0, inclusive=False)

    def __call__(self, t: int) -> float:
        return self.schedule(t / self.times)


def constant(value: float) -> Schedule:
    """A schedule with the same value at every iteration.

    Parameters
    ----------
    value : float

    Returns
    -------
    callable

    Examples
    --------
    >>> from sk_stormc.schedules import constant
    >>> constant(0.1)(7)
    0.1
    """
    check_number("value", value)
    return Power(value, 0.0)


def inverse(scale: float = 1.0) -> Schedule:
    """scale / (t + 1). With scale 1 it is the momentum of a running mean, which is the
    value of "auto" for streams.

    Parameters
    ----------
    scale : float, default=1.0

    Returns
    -------
    callable

    Examples
    --------
    >>> from sk_stormc.schedules import inverse
    >>> [inverse()(t) for t in (0, 1, 3)]
    [1.0, 0.5, 0.25]
    """
    return Power(scale, -1.0)


def power(exponent: float, scale: float = 1.0) -> Schedule:
    """scale * (t + 1) ** exponent.

    Parameters
    ----------
    exponent : float
    scale : float, default=1.0

    Returns
    -------
    callable

    Examples
    --------
    >>> from sk_stormc.schedules import power
    >>> round(power(-2 / 3)(7), 12)
    0.25
    """
    return Power(scale, exponent)


def decay_to(end: float, start: float, horizon: int, hold: float = 0.0) -> Schedule:
    """A value that changes linearly from start to end within ``horizon`` iterations.

    Parameters
    ----------
    end, start : float
    horizon : int
        Iteration at which the end is reached. It does not depend on max_iter, so that a
        longer run begins with the same iterates.
    hold : float, default=0.0
        Fraction of the horizon, in [0, 1), for which the value first stays at start.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        If the horizon is below 1, or hold is not in [0, 1).

    Examples
    --------
    >>> from sk_stormc import SCGD
    >>> from sk_stormc.schedules import decay_to
    >>> SCGD(learning_rate=decay_to(0.01, 0.1, horizon=1000))
    SCGD(learning_rate=decay_to(0.01, start=0.1, horizon=1000, hold=0.0))
    """
    return Decay(start, end, horizon, hold)


def at(value: float | Schedule, t: int) -> float:
    """The value of a schedule at iteration t. A number has the same value at all t.

    Examples
    --------
    >>> from sk_stormc.schedules import at, inverse
    >>> at(inverse(), 3), at(0.5, 3)
    (0.25, 0.5)
    """
    return float(value(t)) if callable(value) else value
