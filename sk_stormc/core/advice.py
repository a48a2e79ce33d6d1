"""A problem's advice to the methods that solve it, in terms that do not depend on the
method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sk_stormc.utils.parameters import (
    check_batch_size,
    check_bool,
    check_callable,
    check_choice,
    check_int,
    check_number,
    check_schedule,
    plain,
)


class Published(NamedTuple):
    """The constants of Algorithm 1 that the paper gives for a problem, in its notation.

    Attributes
    ----------
    eta, epsilon, a : float
        Learning rate, precision and momentum.
    B, S : int or tuple
        Sizes of the batches of an iteration and of the first batches; a tuple (B_g,
        B_dg, B_f) if they differ.
    gamma : {"global", "block"}, default="global"
        Whether one gamma limits a step, as in the paper, or one for each block of x.

    Examples
    --------
    >>> from sk_stormc.problems import Published
    >>> Published(eta=0.01, epsilon=0.1, a=0.1, B=5, S=100).gamma
    'global'
    """

    eta: float
    epsilon: float
    a: float
    B: int | tuple
    S: int | tuple
    gamma: str = "global"


def unknown(problem: Any) -> None:
    """Return None, because the answer is not known."""
    return


def no_bound(problem: Any, size: tuple, preconditioner: Any) -> float:
    """Return 0, because no bound is known."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Recommended settings and known properties of a problem. Parameters that the user
    has set take precedence.

    The object is read-only and may be shared. To change the advice of a problem, assign
    a changed copy, such as ``dataclasses.replace(advice, inertia=0.5)``.

    Attributes
    ----------
    batch_size : int, (B_g, B_dg, B_f), None or "auto", default="auto"
        Number of components in a batch. None means all. With "auto", the method chooses
        the number.
    tracking : bool, default=True
        Whether estimates of u and of the gradient should be tracked from one batch to
        the next. If False, methods discard their estimates at each iteration.
    learning_rate : float, schedule or None, default=None
        Learning rate. If None, the method chooses it.
    normalization : {"global", "block"} or None, default=None
        How the length of steps is limited: for all of x ("global"), for each block
        ("block"), or not at all (None).
    precision : float, schedule or None, default=None
        The length to which steps are limited, in units of the learning rate.
    inertia : float, default=0.0
        Weight of earlier directions in a heavy-ball average of the steps, below 1.
    record_every : int or None, default=None
        Number of oracle calls (IFO) between two records, for objectives that are
        expensive. None means one pass.
    max_iter : int or None, default=None
        Number of iterations of a run for which the user sets no budget.
    smoothness : callable, default=one that returns 0
        ``smoothness(problem, size, preconditioner)`` with batch sizes (B_g, B_dg, B_f)
        and a `sk_stormc.preconditioners.Preconditioner` returns the expected smoothness
        max_v E|H_B v|^2 / <v, H v>, where H_B is the Hessian of a minibatch, if the
        problem can compute it without sampling. An automatic learning rate uses this
        value as L if it exceeds the curvature estimate from minibatches. This happens
        if the H_B are not symmetric, which is possible for compositions.
    unbounded_below : callable, default=one that returns None
        ``unbounded_below(problem)`` returns whether Phi has no minimum, or None if this
        is not known. It is called after a run that has not converged.
    published : Published or None, default=None
        The constants that the paper gives for the problem.
    many_minima : bool, default=False
        Whether the objective is known to have many local minima, so that a run does not
        find the lowest value.
    instead : str, default=""
        The alternative that the warning about a run that has not converged recommends.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> from sk_stormc.problems import Advice
    >>> Advice(batch_size=None, inertia=0.5).inertia
    0.5
    """

    batch_size: int | tuple | str | None = "auto"
    tracking: bool = True
    learning_rate: float | Callable | None = None
    normalization: str | None = None
    precision: float | Callable | None = None
    inertia: float = 0.0
    record_every: int | None = None
    max_iter: int | None = None
    smoothness: Callable = no_bound
    unbounded_below: Callable = unknown
    published: Published | None = None
    many_minima: bool = False
    instead: str = ""

    def only(self, *names: str) -> Advice:
        """Copy these attributes. All others have their default values.

        Parameters
        ----------
        *names : str

        Returns
        -------
        Advice
        """
        return Advice(**{name: vars(self)[name] for name in names})

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, plain(vars(self)[field.name]))
        check_batch_size("batch_size", self.batch_size)
        check_bool("tracking", self.tracking)
        check_bool("many_minima", self.many_minima)
        if self.learning_rate is not None:
            check_schedule(
                "learning_rate",
                self.learning_rate,
                low=0,
                inclusive=callable(self.learning_rate),
            )
        check_choice("normalization", self.normalization, ("global", "block", None))
        if self.precision is not None:
            check_schedule("precision", self.precision, low=0, inclusive=False)
        check_number("inertia", self.inertia, low=0, high=math.nextafter(1, 0))
        check_int("record_every", self.record_every, low=1, words=(None,))
        check_int("max_iter", self.max_iter, low=1, words=(None,))
        for name in ("smoothness", "unbounded_below"):
            check_callable(name, vars(self)[name])
        if not isinstance(self.published, Published | None):
            raise ValueError(
                f"published must be a Published or None, got {self.published!r}"
            )
