"""Problems whose components arrive in order: an iterator of batches of rows, of unknown
number."""

import copy
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.streams.source import WINDOW, StreamSource
from sk_stormc.utils.parameters import check_bool, check_int

# advice that applies to streams too
STEPS = ("learning_rate", "tracking", "normalization", "precision", "published")


class StreamingProblem(CompositionalProblem):
    """A problem whose components are the rows of a stream, each used once by g, once by
    its Jacobian and once by f.

    Within an iteration g, its Jacobian and f get different rows, as Algorithm 1
    requires. The rows that f uses in one iteration are used by the Jacobian in the next
    iteration, and by g in the iteration after that. The batches of an iteration are
    therefore independent, although every row is used three times (docs/streams.md
    compares this with separate batches, and with one batch for all).

    At the end of the stream, a run stops with ``stop_reason`` "exhausted". It can be
    continued by the ``state`` of its result as soon as there are more rows (`feed`).
    The result does not depend on how the rows are divided into batches, as long as each
    component depends on its own row only. A weight that is relative to the other rows
    of a block depends on the block.

    Parameters
    ----------
    batches : iterable
        Arrays with any number of rows, or tuples of such arrays with the same number of
        rows. A batch is read when its rows are needed.
    problem : callable
        Function that makes the problem of some consecutive rows from their arrays:
        ``PortfolioProblem``, ``functools.partial(PortfolioProblem,
        risk_aversion=2.0)``, or your own function that returns a
        `CompositionalProblem`.
    window : int, default=512
        Number of rows that represent the stream. The preconditioner is that of the
        problem of the first rows, and `objective` is Phi over the last rows that f has
        used.
    weighted : bool, default=False
        Whether the last array of a batch has weights of its rows, such as importance
        ratios. Weights are positive numbers, and only their ratios matter: a row counts
        in proportion to its weight divided by the mean weight of the rows so far. For a
        window, ``problem`` is then called with ``sample_weight``. For batches it is
        called without weights, and its ``inner_batch(draws, weights)`` and
        ``outer_batch(draws, weights)`` receive them.

    Attributes
    ----------
    state : RunState or None
        State of the last run on this stream, even if an error of the iterator ended it.
        That run can be continued by ``state`` if the iterator yields rows again, or
        after `feed`. No row is lost.

    Raises
    ------
    ValueError
        If the shapes of batches disagree, if there are no rows, or if ``problem`` is
        not callable.

    Notes
    -----
    A constant Jacobian is tracked like any other, because its mean over all components
    is not known. Methods that need all components raise a ValueError (L-BFGS, anchors,
    and checkpoints without a size). After Ctrl-C the result has ``stop_reason``
    "interrupted". A run that continues from its state gives, bit for bit, the result of
    a run that was not interrupted. (In Python, a generator ends when Ctrl-C or an error
    is raised within it. Use `feed` for the rows that it did not yield.)

    Examples
    --------
    >>> from functools import partial
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem, StreamingProblem
    >>> months = (
    ...     make_gaussian_returns(21, 5, mean=0.1, random_state=month)
    ...     for month in range(500)
    ... )
    >>> stream = StreamingProblem(
    ...     months, partial(PortfolioProblem, preconditioner="variance")
    ... )
    >>> result = minimize(stream, random_state=0)
    >>> result.stop_reason, result.n_iter
    ('exhausted', 325)
    """

    n_inner = math.inf

    def __init__(
        self,
        batches: Iterable,
        problem: Any,
        *,
        window: int = WINDOW,
        weighted: bool = False,
    ) -> None:
        check_int("window", window, low=2)
        check_bool("weighted", weighted)
        if not callable(problem):
            raise ValueError(
                f"problem must be callable, such as PortfolioProblem, got {problem!r}"
            )
        if not isinstance(batches, Iterable):
            raise ValueError(
                f"batches must be an iterable of batches of rows, got {batches!r}"
            )
        self.window, self.state = window, None
        self.source = self._open(batches, problem, window, weighted)
        first = self.source.first
        self.n_outer = 1 if self.source.one_outer else math.inf
        self.n_variables, self.n_blocks = first.n_variables, first.n_blocks
        self.penalty, self.inner_floor = first.penalty, first.inner_floor
        self.jacobian_kind = (
            "sampled" if first.jacobian_kind == "constant" else first.jacobian_kind
        )
        self.preconditioner = first.preconditioner
        self.advice = replace(first.advice.only(*STEPS), record_every=12 * window)

    def _open(self, batches, problem, window, weighted):
        return StreamSource(batches, problem, window, weighted)

    def feed(self, *rows):
        """Append rows to the stream, after the batches that it was made with.

        Parameters
        ----------
        *rows : arrays
            The arrays of one batch.
        """
        self.source.rows.feed(rows)

    def fork(self):
        """Copy the stream for a run that may be abandoned. A run on the copy does not
        change the original.

        Returns
        -------
        StreamingProblem
        """
        stream = copy.copy(self)
        stream.source = self.source.fork()
        return stream

    def starved(self):
        """Whether the rows that a stopped run needs have not arrived yet.

        Returns
        -------
        bool
        """
        return not self.source.rows.has(self.source.rows.wanted)

    def initial_point(self, rng):
        """The starting point of the problem of the first rows."""
        return self.source.first.initial_point(rng)

    def inner_batch(self, draws, weights=None):
        """The problem of some rows that include the draws, and its batch of the
        draws."""
        problem, draws = self.source.locate(draws)
        weighted = () if weights is None else (weights,)
        return problem, problem.inner_batch(draws, *weighted)

    def outer_batch(self, draws, weights=None):
        """The problem of some rows that include the draws, and its batch of the
        draws."""
        if self.n_outer == 1:
            return self.source.first, self.source.first.outer_batch(None)
        problem, draws = self.source.locate(draws)
        weighted = () if weights is None else (weights,)
        return problem, problem.outer_batch(draws, *weighted)

    # g, dg, f and its gradient are those of the problem of a batch

    def inner(self, x, batch):
        """g(x, B)."""
        problem, batch = batch
        return problem.inner(x, batch)

    def jacobian(self, x, batch):
        """dg(x, B)."""
        problem, batch = batch
        J = problem.jacobian(x, batch)
        return (problem, J) if self.jacobian_kind == "operator" else J

    def vjp(self, J, v):
        """J.T @ v."""
        problem, J = J if self.jacobian_kind == "operator" else (self.source.first, J)
        return problem.vjp(J, v)

    def outer_gradient(self, x, u, batch):
        """Gradient of f in x and in u, the batch's mean."""
        problem, batch = batch
        return problem.outer_gradient(x, u, batch)

    def compositional_gradient(self, x, u, J, batch):
        """F = f_x + J.T f_u over an outer batch."""
        if self.jacobian_kind == "operator":
            return super().compositional_gradient(x, u, J, batch)
        problem, batch = batch
        return problem.compositional_gradient(x, u, J, batch)

    # reported values

    def outer(self, x, u):
        """f(x, u) over the window."""
        return self.source.recent().outer(x, u)

    def objective(self, x):
        """Phi(x) over the last ``window`` rows that f has used (at the start, over the
        first ones)."""
        return self.source.recent().objective(x)

    def gradient(self, x):
        """The gradient of Phi without R over the same rows."""
        return self.source.recent().gradient(x)

    def description(self):
        """The description of the problem of the first rows."""
        return (
            "a stream of "
            f"{type(self.source.first).__name__}(n_variables={self.n_variables})"
        )
