"""Components that come in order and once: an iterator of batches of rows, of unknown number."""

import copy
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.streams.rows import Position, stack
from sk_stormc.streams.source import WINDOW, StreamSource
from sk_stormc.utils.validation import check_bool, check_int

__all__ = ["WINDOW", "Position", "StreamingProblem", "stack"]

STEPS = ("learning_rate", "tracking", "normalization", "precision", "published")  # advice that is not of a finite sum


class StreamingProblem(CompositionalProblem):
    """A problem whose components are the rows of a stream, each seen once by g, once by its Jacobian and once by f.

    Within an iteration g, its Jacobian and f get different rows, as Algorithm 1 asks for: the rows that f has now, the
    Jacobian has one iteration later and g two iterations later. The batches of an iteration are independent, and yet
    every row serves all three (docs/streams.md compares this with separate batches, and with one batch for all).

    The end of the stream stops a run with ``stop_reason`` "exhausted"; with ``state=`` of its result a run goes on as
    soon as there are more rows (`feed`). How the rows were cut into batches makes no difference, as long as a component
    depends on its own row only. A weight that is relative to the other rows of a block depends on the block.

    Parameters
    ----------
    batches : iterable
        Of arrays with any number of rows, or of tuples of such arrays of the same length. Read as rows are needed.
    problem : callable
        The problem of some rows: ``PortfolioProblem``, ``functools.partial(PortfolioProblem, risk_aversion=2.0)``, or a
        function of yours that returns a `CompositionalProblem`. Called with the arrays of some consecutive rows.
    window : int, default=512
        Rows that say what the unknown whole looks like: the metric is that of the first ones, `objective` is Phi over
        the last ones that f has had.

    weighted : bool, default=False
        Whether the last array of a batch has weights of its rows, such as importance ratios: positive numbers, whose
        unit does not matter. A row counts as its weight over the mean weight of the rows so far. ``problem`` is then
        called without them for batches, which are gathered by its ``inner_batch(draws, weights)`` and
        ``outer_batch(draws, weights)``, and with ``sample_weight=`` for a window.

    Attributes
    ----------
    state : RunState or None
        Of the last run on this stream, also where an error that the iterator raised has ended it: that run goes on with
        ``state=`` of it, once the iterator gives rows again or after `feed`. No row is lost.

    Raises
    ------
    ValueError
        For batches that disagree in shape, or have no rows at all; for a problem that is not callable.

    Notes
    -----
    A constant Jacobian is tracked like any other: its mean over all components is not known. Methods that need all
    components raise a ValueError (L-BFGS, anchors, checkpoints without a size). After Ctrl-C the result has
    ``stop_reason`` "interrupted", and its state goes on with the bits of a run that was not interrupted. (A generator
    in which Ctrl-C, or an error, is raised is at its end: that is Python's rule. `feed` what it did not give.)

    Examples
    --------
    >>> from functools import partial
    >>> from sk_stormc import minimize
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem, StreamingProblem
    >>> months = (make_gaussian_returns(21, 5, mean=0.1, random_state=month) for month in range(500))
    >>> stream = StreamingProblem(months, partial(PortfolioProblem, metric="variance"))
    >>> result = minimize(stream, random_state=0)
    >>> result.stop_reason, result.n_iter
    ('exhausted', 325)
    """

    n_inner = math.inf

    def __init__(self, batches: Iterable, problem: Any, *, window: int = WINDOW, weighted: bool = False) -> None:
        check_int("window", window, low=2)
        check_bool("weighted", weighted)
        if not callable(problem):
            raise ValueError(f"problem must be callable, such as PortfolioProblem, got {problem!r}")
        if not isinstance(batches, Iterable):
            raise ValueError(f"batches must be an iterable of batches of rows, got {batches!r}")
        self.window, self.state = window, None
        self.source = self._open(batches, problem, window, weighted)
        first = self.source.first
        self.n_outer = 1 if self.source.one_outer else math.inf
        self.n_variables, self.n_blocks, self.penalty = first.n_variables, first.n_blocks, first.penalty
        self.inner_floor = first.inner_floor
        self.jacobian_kind = "sampled" if first.jacobian_kind == "constant" else first.jacobian_kind
        self.metric = first.metric
        self.advice = replace(first.advice.only(*STEPS), record_every=12 * window)

    def _open(self, batches, problem, window, weighted):
        return StreamSource(batches, problem, window, weighted)

    def feed(self, *rows):
        """Append rows to the stream, behind the batches it was made with.

        Parameters
        ----------
        *rows : arrays
            As one batch has them.
        """
        self.source.rows.feed(rows)

    def fork(self):
        """The same stream for a run that may be given up: what it feeds, reads and lets go, this one does not.

        Returns
        -------
        StreamingProblem
        """
        stream = copy.copy(self)
        stream.source = self.source.fork()
        return stream

    def starved(self):
        """Whether the rows that a run stopped for have not come yet.

        Returns
        -------
        bool
        """
        return not self.source.rows.has(self.source.rows.wanted)

    def initial_point(self, rng):
        """That of the problem of the first rows."""
        return self.source.first.initial_point(rng)

    def inner_batch(self, draws, weights=None):
        """The problem of some rows that these are among, and its batch of them."""
        problem, draws = self.source.locate(draws)
        return problem, problem.inner_batch(draws) if weights is None else problem.inner_batch(draws, weights)

    def outer_batch(self, draws, weights=None):
        """The problem of some rows that these are among, and its batch of them."""
        if self.n_outer == 1:
            return self.source.first, self.source.first.outer_batch(None)
        problem, draws = self.source.locate(draws)
        return problem, problem.outer_batch(draws) if weights is None else problem.outer_batch(draws, weights)

    # g, dg, f and its gradient are those of the problem that a batch came from

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

    # what is reported

    def outer(self, x, u):
        """f(x, u) over the window."""
        return self.source.recent().outer(x, u)

    def objective(self, x):
        """Phi(x) over the last ``window`` rows that f has had (at the start, the first ones)."""
        return self.source.recent().objective(x)

    def gradient(self, x):
        """The gradient of Phi without R over the same rows."""
        return self.source.recent().gradient(x)

    def description(self):
        """That of the problem of the first rows."""
        return f"a stream of {type(self.source.first).__name__}(n_variables={self.n_variables})"
