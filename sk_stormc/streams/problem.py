"""Components that come in order and once: an iterator of batches of rows, of unknown number."""

import copy
import math
from collections.abc import Iterable

import numpy as np

from sk_stormc.core.problem import CompositionalProblem, takes_weights
from sk_stormc.streams.rows import Position, Rows, WeightedPosition, stack
from sk_stormc.utils.validation import check_bool, check_int

__all__ = ["WINDOW", "Position", "StreamingProblem", "stack"]

PIECES = 12  # of the window, all of which must say that the objective went up: one alone may be chance
WINDOW = 512  # rows by which a stream is known, unless said otherwise

STEPS = ("learning_rate", "momentum", "beta", "normalization", "precision")  # defaults that are not of a finite sum


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
    instead = "fit, where the rows fit on a disk"  # of a stream that cannot be followed, for a warning

    def __init__(self, batches, problem, *, window=WINDOW, weighted=False):
        check_int("window", window, low=2)
        check_bool("weighted", weighted)
        if not callable(problem):
            raise ValueError(f"problem must be callable, such as PortfolioProblem, got {problem!r}")
        if not isinstance(batches, Iterable):
            raise ValueError(f"batches must be an iterable of batches of rows, got {batches!r}")
        self.window, self._make, self._weighted = window, problem, weighted
        self.state = None
        self._c = 0.0  # log of the unit of u: batches and their problems do not know it
        self._rows = Rows(batches)
        self._rows.has(window)
        if not self._rows.stop:
            raise ValueError("batches must have a row, got none")
        # a copy: a view would keep all of the first batch
        self._first = first = self._whole(*(part.copy() for part in self._rows.between(0, window)))
        if weighted and not takes_weights(first):
            raise ValueError(
                "weighted=True needs a problem whose inner_batch and outer_batch have a second argument weights, got "
                f"{first!r}"
            )
        self.n_outer = 1 if first.n_outer == 1 < first.n_inner else math.inf
        self.n_variables, self.n_blocks, self.penalty = first.n_variables, first.n_blocks, first.penalty
        self.inner_floor, self.paper = first.inner_floor, first.paper
        self.jacobian_kind = "sampled" if first.jacobian_kind == "constant" else first.jacobian_kind
        self._sampled = (True, self.jacobian_kind != "operator", math.isinf(self.n_outer))  # with rows of its own
        self.metric = first.metric
        kept = {name: value for name, value in first.defaults.items() if name in STEPS}
        self.defaults = kept | {"anchor": None, "record_every": 12 * window}

    def batch_sizes(self, size):
        """Those of the problem of the first rows."""
        return self._first.batch_sizes(size)

    def price(self, kind, size):
        """That of the problem of the first rows."""
        return self._first.price(kind, size)

    def accept_batch_sizes(self, name, sizes):
        """Raise where g, its Jacobian and f would go through the stream at unequal pace: rows would pile up between."""
        B_g, B_dg, B_f = sizes
        drawn = {B_g, B_g if self.jacobian_kind == "operator" else B_dg, B_f if self.n_outer > 1 else B_g}
        if None in drawn or len(drawn) > 1:
            raise ValueError(
                f"{name} must be one number for g, its Jacobian and f on a stream, which has no end and gives "
                f"them its rows in turn, got {sizes!r}"
            )

    def feed(self, *rows):
        """Append rows to the stream, behind the batches it was made with.

        Parameters
        ----------
        *rows : arrays
            As one batch has them.
        """
        self._rows.feed(rows)

    def fork(self):
        """The same stream for a run that may be given up: what it feeds, reads and lets go, this one does not.

        Returns
        -------
        StreamingProblem
        """
        stream = copy.copy(self)
        stream._rows = self._rows.fork()
        return stream

    def starved(self):
        """Whether the rows that a run stopped for have not come yet.

        Returns
        -------
        bool
        """
        return not self._rows.has(self._rows.wanted)

    def initial_point(self, rng):
        """That of the problem of the first rows."""
        return self._first.initial_point(rng)

    # draws are numbers of rows; where a kind of batch is in the stream belongs to the run

    def sources(self, generators):
        """Positions in the stream, in the order g, its Jacobian, f."""
        kind = WeightedPosition if self._weighted else Position
        return [kind(batches_behind) for batches_behind in range(len(generators))]

    def draw_inner(self, position, shape):
        """The next rows; with weights, and the mean weight so far."""
        return self._draw(position, shape)

    def draw_outer(self, position, shape):
        """The same for f."""
        return self._draw(position, shape)

    def _draw(self, position, shape):
        draws = position.take(shape)
        if not self._weighted:
            return draws
        mean = self._mean_weight(position)
        return [(rows, self._rows.between(rows[0], rows[-1] + 1)[-1] / mean) for rows in draws]

    def _mean_weight(self, position):
        """Of the rows up to a position, and of the first window at the least."""
        self.require(np.array([position.at - 1]))
        stop = max(position.at, min(self.window, self._rows.stop))
        if stop > position.n:
            position.total += float(self._rows.between(position.n, stop)[-1].sum(dtype=float))
            position.n = stop
        return position.total / position.n

    def lasts(self, positions, n_rows):
        """Whether there are so many more rows for the kind that is ahead."""
        at = [position.start(n_rows) for position, used in zip(positions, self._sampled, strict=True) if used]
        return self._rows.has(max(at) + n_rows)

    def hold(self, positions):
        """Let go of the rows that a run does not need which goes on from here."""
        at = [position.at for position, used in zip(positions, self._sampled, strict=True) if used]
        self._rows.keep = max(self._rows.keep, min(min(at), max(at) - self.window))

    def look_at(self, positions):
        """Let the objective be that of the window which ends where a run is."""
        self._rows.used = max(position.at for position in positions)

    def broke(self, error):
        """Whether this is the error that the iterator raised last."""
        return error is self._rows.error

    def inner_batch(self, draws):
        """The problem of some rows that these are among, and its batch of them."""
        draws, weights = draws if self._weighted else (draws, None)
        problem, at = self._locate(draws)
        if self.jacobian_kind == "operator":  # these rows alone: the Jacobian is kept longer
            problem = self._checked(self._make(*self._unweighted(draws[0], draws[-1] + 1)))
            at = at - at[0]
        return problem, problem.inner_batch(at) if weights is None else problem.inner_batch(at, weights)

    def outer_batch(self, draws):
        """The problem of some rows that these are among, and its batch of them."""
        if self.n_outer == 1:
            return self._first, self._first.outer_batch(None)
        draws, weights = draws if self._weighted else (draws, None)
        problem, at = self._locate(draws)
        return problem, problem.outer_batch(at) if weights is None else problem.outer_batch(at, weights)

    # g, dg, f and its gradient are those of the problem that a batch came from

    def inner(self, x, batch):
        """g(x, B)."""
        problem, batch = batch
        return self._in_unit(problem).inner(x, batch)

    def jacobian(self, x, batch):
        """dg(x, B)."""
        problem, batch = batch
        J = self._in_unit(problem).jacobian(x, batch)
        return (problem, J) if self.jacobian_kind == "operator" else J

    def vjp(self, J, v):
        """J.T @ v."""
        problem, J = J if self.jacobian_kind == "operator" else (self._first, J)
        return problem.vjp(J, v)

    def outer_gradient(self, x, u, batch):
        """Gradient of f in x and in u, the batch's mean."""
        problem, batch = batch
        return self._in_unit(problem).outer_gradient(x, u, batch)

    def compositional_gradient(self, x, u, J, batch):
        """F = f_x + J.T f_u over an outer batch."""
        if self.jacobian_kind == "operator":
            return super().compositional_gradient(x, u, J, batch)
        problem, batch = batch
        return self._in_unit(problem).compositional_gradient(x, u, J, batch)

    def log_scale(self, x, batch):
        """Log of the unit that g(x) should be expressed in, or None."""
        problem, batch = batch
        return self._in_unit(problem).log_scale(x, batch)

    def scaled(self, c):
        """The same stream with u in units of exp(c); both share the rows."""
        stream = copy.copy(self)
        stream._c = self._c + c
        return stream

    def _in_unit(self, problem):
        return problem.scaled(self._c) if self._c else problem

    # what is reported

    def outer(self, x, u):
        """f(x, u) over the window."""
        return self._in_unit(self._recent()).outer(x, u)

    def objective(self, x):
        """Phi(x) over the last ``window`` rows that f has had (at the start, the first ones)."""
        return self._recent().objective(x)

    def gradient(self, x):
        """The gradient of Phi without R over the same rows."""
        return self._recent().gradient(x)

    def description(self):
        """That of the problem of the first rows."""
        return f"a stream of {type(self._first).__name__}(n_variables={self.n_variables})"

    def uphill(self, x, start):
        """Whether Phi over those rows is higher at x than at the start, beyond what is chance: on each part of them.

        Parameters
        ----------
        x, start : ndarray of shape (n_variables,)

        Returns
        -------
        bool
        """
        if self.objective(x) <= self.objective(start):
            return False
        first, last = self._ends()
        ends = np.unique(np.linspace(first, last, PIECES + 1).astype(int)).tolist()
        parts = (self._problem_of(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True))
        return all(not part.objective(x) <= part.objective(start) for part in parts)

    def _recent(self):
        return self._problem_of(*self._ends())

    def _ends(self):
        stop = max(self._rows.used, min(self.window, self._rows.stop))
        return max(self._rows.start, stop - self.window), stop

    def _locate(self, draws):
        if draws is None:
            raise ValueError("a stream has no batch of all components: batch sizes must be numbers")
        rows = self._rows
        self.require(draws)
        if rows.problem is None:
            rows.join()
            rows.problem = self._checked(self._make(*self._unweighted(rows.start, rows.stop)))
        return rows.problem, draws - rows.start

    def require(self, draws):
        """Raise where these rows have not come, or have been let go."""
        rows, stop = self._rows, int(draws[-1]) + 1
        if not rows.has(stop):
            raise EOFError(f"row {stop - 1} of the stream has not come")
        if draws[0] < max(rows.start, rows.keep):
            raise ValueError(
                f"row {draws[0]} of the stream was let go, as all have had it: a run goes on with state= of its "
                "result, another needs a stream of its own"
            )

    def _unweighted(self, start, stop):
        parts = self._rows.between(start, stop)
        return parts[:-1] if self._weighted else parts

    def _problem_of(self, start, stop):
        return self._whole(*self._rows.between(start, stop))

    def _whole(self, *parts):
        """The problem of some rows, with their weights."""
        if not self._weighted:
            return self._checked(self._make(*parts))
        return self._checked(self._make(*parts[:-1], sample_weight=parts[-1]))

    def _checked(self, problem):
        if not isinstance(problem, CompositionalProblem):
            raise ValueError(f"problem must return a CompositionalProblem, got {problem!r}")
        return problem
