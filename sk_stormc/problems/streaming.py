"""Components that come in order and once: an iterator of batches of rows, of unknown number."""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sk_stormc._validation import check_int
from sk_stormc.problems.base import CompositionalProblem

__all__ = ["WINDOW", "StreamingProblem", "stack"]

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

    Raises
    ------
    ValueError
        For batches that disagree in shape, or have no rows at all; for a problem that is not callable.

    Notes
    -----
    A constant Jacobian is tracked like any other: its mean over all components is not known. Methods that need all
    components raise a ValueError (L-BFGS, anchors, checkpoints without a size). An error that the iterator raises ends
    the run without a result, and rows that g, its Jacobian and f have all had are lost. Let it end instead, and `feed`
    the rows that come later.

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

    def __init__(self, batches, problem, *, window=WINDOW):
        check_int("window", window, low=2)
        if not callable(problem):
            raise ValueError(f"problem must be callable, such as PortfolioProblem, got {problem!r}")
        if not isinstance(batches, Iterable):
            raise ValueError(f"batches must be an iterable of batches of rows, got {batches!r}")
        self.window, self._make = window, problem
        self.state = None
        self._c = 0.0  # log of the unit of u: batches and their problems do not know it
        self._rows = _Rows(batches)
        self._rows.has(window)
        if not self._rows.stop:
            raise ValueError("batches must have a row, got none")
        # a copy: a view would keep all of the first batch
        self._first = first = self._checked(self._make(*(part.copy() for part in self._rows.between(0, window))))
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
        return [Position(batches_behind) for batches_behind in range(len(generators))]

    def draw_inner(self, position, shape):
        """The next rows."""
        return position.take(shape)

    def draw_outer(self, position, shape):
        """The next rows."""
        return position.take(shape)

    def lasts(self, positions, n_rows):
        """Whether there are so many more rows for the kind that is ahead."""
        at = [position.start(n_rows) for position, used in zip(positions, self._sampled, strict=True) if used]
        return self._rows.has(max(at) + n_rows)

    def hold(self, positions):
        """Keep the rows that a run needs which goes on from here, until this is called again; let go of those before."""
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
        problem, draws = self._locate(draws)
        if self.jacobian_kind == "operator":  # these rows alone: the Jacobian is kept longer
            problem = self._problem_of(self._rows.start + draws[0], self._rows.start + draws[-1] + 1)
            draws = draws - draws[0]
        return problem, problem.inner_batch(draws)

    def outer_batch(self, draws):
        """The problem of some rows that these are among, and its batch of them."""
        problem, draws = (self._first, None) if self.n_outer == 1 else self._locate(draws)
        return problem, problem.outer_batch(draws)

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

    def _recent(self):
        stop = max(self._rows.used, min(self.window, self._rows.stop))
        return self._problem_of(max(self._rows.start, stop - self.window), stop)

    def _locate(self, draws):
        if draws is None:
            raise ValueError("a stream has no batch of all components: batch sizes must be numbers")
        rows = self._rows
        self.require(draws)
        if rows.problem is None:
            rows.problem = self._problem_of(*rows.join())
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

    def _problem_of(self, start, stop):
        return self._checked(self._make(*self._rows.between(start, stop)))

    def _checked(self, problem):
        if not isinstance(problem, CompositionalProblem):
            raise ValueError(f"problem must return a CompositionalProblem, got {problem!r}")
        return problem


@dataclass
class Position:
    """How far one kind of batch is in the stream."""

    batches_behind: int  # rows ahead of g's, in the largest batches: the kinds never have the same rows at once
    at: int = 0
    largest: int = 0  # batch so far

    def take(self, shape):
        """Numbers of the next rows."""
        start, self.largest = self.start(shape[-1]), max(self.largest, shape[-1])
        self.at = start + math.prod(shape)
        return np.arange(start, self.at).reshape(shape)

    def start(self, batch_size):
        """Number of the first of them."""
        return self.at + self.batches_behind * max(0, batch_size - self.largest)


class _Rows:
    """The rows that are still needed, by their numbers in the stream. Shared by copies of a problem."""

    def __init__(self, batches):
        self._source, self._fed = iter(batches), ()
        self._parts = []  # batches that have come: joined when rows of them are asked for
        self.start = self.stop = 0  # of what is kept
        self.keep = 0  # rows before this one are let go
        self.used = 0  # rows that f has had
        self.wanted = 0  # rows that were asked for last and were not there
        self.problem = None  # of all that is kept
        self.error = None  # that the iterator raised
        self._come = None  # a batch that has come and was not looked at

    def fork(self):
        rows = object.__new__(_Rows)
        rows.__dict__.update(self.__dict__)  # of which nothing is written into
        return rows

    def __getstate__(self):
        self._parts, self.start, self.problem = self._kept(), max(self.start, self.keep), None
        return self.__dict__ | {"_source": iter(()), "error": None}  # what is to come is not part of a state

    def feed(self, batch):
        self._fed = (*self._fed, tuple(_rows_of(part) for part in batch))

    def has(self, stop):
        """Whether the row before number ``stop`` has come; reads batches until it has."""
        while self.stop < stop:
            if self._come is None:
                try:
                    # no call stands between the iterator and the assignment: a KeyboardInterrupt cannot lose a batch
                    for self._come in self._source:
                        break
                except Exception as error:
                    self.error = error
                    raise
            fed = self._come is None
            if fed and not self._fed:
                self.wanted = stop
                return False
            batch = self._fed[0] if fed else self._come
            if not fed:
                batch = tuple(_rows_of(part) for part in (batch if isinstance(batch, tuple) else (batch,)))
            self._take(batch, fed)
        return True

    def _take(self, batch, fed):
        """Append a batch, and forget where it came from in the same breath: nothing is lost or there twice."""
        left = self._fed[fed:]
        lengths, shapes = {part.shape[0] for part in batch}, [part.shape[1:] for part in batch]
        if len(lengths) > 1 or (self._parts and shapes != [part.shape[1:] for part in self._parts[0]]):
            before = [part.shape for part in (self._parts or [batch])[0]]
            found = [part.shape for part in batch]
            self._come, self._fed = None, left
            raise ValueError(f"batches must differ in their number of rows only, got shapes {found} after {before}")
        parts, end = [*self._parts, batch], self.stop + lengths.pop()
        self._parts, self.stop, self.problem, self._come, self._fed = parts, end, None, None, left

    def between(self, start, stop):
        """Rows as a tuple of arrays."""
        self.join()
        return tuple(part[start - self.start : stop - self.start] for part in self._parts[0])

    def join(self):
        """Make one array of what has come, without what was let go; where it starts and stops."""
        if len(self._parts) > 1:
            self._parts, self.start = self._kept(), max(self.start, self.keep)
        return self.start, self.stop

    def _kept(self):
        old = max(0, self.keep - self.start)
        return [tuple(stack(column)[old:] for column in zip(*self._parts, strict=True))]


def _rows_of(part):
    """A copy: the caller may read the next rows into the same array."""
    rows = part.tocsr(copy=True) if sparse.issparse(part) else np.array(part)
    if not rows.ndim:
        raise ValueError(f"batches must be arrays with rows, got {part!r}")
    return rows


def stack(parts):
    """Rows of several arrays or sparse matrices, one below the other."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
