"""A stream as the source of components: which rows each kind of batch gets, and which
rows are still needed."""

import copy
import itertools
import math

import numpy as np

from sk_stormc.core.problem import CompositionalProblem, takes_weights
from sk_stormc.core.source import Source, source_of
from sk_stormc.streams.rows import KeptRows, Position, WeightedPosition

WINDOW = 512  # default number of rows that represent the stream
WINDOWS_KEPT = 4  # as many as there are between two records
PARTS = 12  # of rows, whose differences have a standard error


class StreamSource(Source):
    """Rows in order. Each is used once by g, once by its Jacobian and once by f. A
    place is a `Position`.

    Parameters
    ----------
    batches : iterable
        Arrays with any number of rows, or tuples of such arrays.
    make : callable
        Function that makes the problem of some rows.
    window : int
        Number of rows that represent the stream.
    weighted : bool
        Whether the last array of a batch has weights.

    Attributes
    ----------
    first : CompositionalProblem
        The problem of the first rows.
    rows : KeptRows
    """

    finite = False
    instead = "fit, where the rows fit on a disk"

    def __init__(self, batches, make, window, weighted=False):
        self.window, self.weighted, self._make = window, weighted, make
        self.rows = KeptRows(batches)
        self.rows.has(window)
        if not self.rows.stop:
            raise ValueError("batches must have a row, got none")
        # a view would keep all of the first batch in memory
        self.first = first = self._weighted_problem(
            *(part.copy() for part in self.rows.between(0, window))
        )
        if weighted and not takes_weights(first):
            raise ValueError(
                "weighted=True needs a problem whose inner_batch and outer_batch have "
                f"a second argument weights, got {first!r}"
            )
        self.operator = first.jacobian_kind == "operator"
        self.one_outer = first.n_outer == 1 < first.n_inner
        # whether each kind of batch has its own rows
        self._sampled = (True, not self.operator, not self.one_outer)

    def fork(self):
        """A copy for a trial run: rows that the trial run reads, adds or drops do not
        change this source."""
        source = copy.copy(self)
        source.rows = self.rows.fork()
        return source

    def sizes(self, size):
        """The batch sizes in the problem of the first rows."""
        return self.first_source.sizes(size)

    def price(self, kind, size):
        """The cost of a batch in the problem of the first rows."""
        return self.first_source.price(kind, size)

    @property
    def first_source(self):
        """The source of the problem of the first rows."""
        return source_of(self.first)

    def accept(self, name, sizes):
        """Raise a ValueError if batch sizes differ, because the number of kept rows
        would then grow."""
        B_g, B_dg, B_f = sizes
        drawn = {B_g, B_g if self.operator else B_dg, B_g if self.one_outer else B_f}
        if None in drawn or len(drawn) > 1:
            raise ValueError(
                f"{name} must be one number for g, its Jacobian and f on a stream, "
                f"which has no end and whose rows they use in turn, got {sizes!r}"
            )

    # draws are numbers of rows; the positions in the stream are part of the run's state

    def open(self, generators):
        """Positions in the stream, in the order g, its Jacobian, f."""
        kind = WeightedPosition if self.weighted else Position
        return [kind(offset) for offset in range(len(generators))]

    def draw_inner(self, position, shape):
        """The next rows, with their weights relative to the mean weight so far if there
        are weights."""
        draws = position.take(shape)
        if not self.weighted:
            return draws
        mean = self._mean_weight(position)
        return [
            (numbers, self.rows.between(numbers[0], numbers[-1] + 1)[-1] / mean)
            for numbers in draws
        ]

    draw_outer = draw_inner

    def _mean_weight(self, position):
        """The mean weight of the rows up to a position, and at least of the first
        window."""
        self.require(np.array([position.at - 1]))
        stop = max(position.at, min(self.window, self.rows.stop))
        if stop > position.n:
            position.total += float(
                self.rows.between(position.n, stop)[-1].sum(dtype=float)
            )
            position.n = stop
        return position.total / position.n

    def lasts(self, positions, ifo):
        """Whether there are enough rows for the kind of batch with the largest
        position."""
        # in batches of one size; an f of one component adds 1
        n_rows = ifo // (2 if self.one_outer else 3)
        first = max(place.start(n_rows) for place in self._used(positions))
        return self.rows.has(first + n_rows)

    def hold(self, positions):
        """Drop the rows that a run continued from here does not need."""
        at = [place.at for place in self._used(positions)]
        kept = WINDOWS_KEPT * self.window
        self.rows.keep = max(self.rows.keep, min(*at, max(at) - kept))

    def _used(self, positions):
        """The positions of the kinds of batches that have their own rows."""
        return itertools.compress(positions, self._sampled)

    def aside(self, places):
        """Copies of the positions, so that these draws do not use up rows."""
        return copy.deepcopy(places)

    def look_at(self, positions):
        """Define the objective by the window that ends at the run's position."""
        self.rows.used = max(position.at for position in positions)

    def uphill(self, x, start):
        """Whether Phi is higher at x than at the start over the recent rows, and over
        each of a dozen parts of them."""
        recent = self.recent()
        if recent.objective(x) <= recent.objective(start):
            return False
        return bool((self._differences(x, start, *self._ends()) > 0).all())

    def place(self):
        """The number of the row after the last one that was used."""
        return self._ends()[1]

    def excess(self, x, start, place):
        """The mean difference of Phi over a dozen parts of the rows from a place on, of
        which as many are kept as there usually are between two records."""
        stop = self._ends()[1]
        first = max(place, stop - WINDOWS_KEPT * self.window)
        differences = self._differences(x, start, first, stop)
        with np.errstate(all="ignore"):
            error = differences.std(ddof=1) / math.sqrt(len(differences))
            return float(differences.mean() / error)

    def _differences(self, x, start, first, stop):
        """Phi at x minus that at the start, over a dozen parts of rows."""
        ends = np.unique(np.linspace(first, stop, PARTS + 1).astype(int)).tolist()
        parts = [self.problem_of(*part) for part in itertools.pairwise(ends)]
        return np.array([part.objective(x) - part.objective(start) for part in parts])

    # the problems of rows

    def recent(self):
        """The problem of the last ``window`` rows that f has used (at the start, of the
        first ones)."""
        return self.problem_of(*self._ends())

    def _ends(self):
        """The first row of the recent ones, and the row after the last."""
        stop = max(self.rows.used, min(self.window, self.rows.stop))
        return max(self.rows.start, stop - self.window), stop

    def problem_of(self, start, stop):
        """The problem of some rows, with their weights."""
        return self._weighted_problem(*self.rows.between(start, stop))

    def locate(self, draws):
        """The problem, without weights, of rows that include these, and their numbers
        in it."""
        if draws is None:
            raise ValueError(
                "a stream has no batch of all components: batch sizes must be numbers"
            )
        self.require(draws)
        if self.operator:  # only these rows, because the Jacobian is used later
            return self._unweighted_problem(draws[0], draws[-1] + 1), draws - draws[0]
        rows = self.rows
        if rows.problem is None:
            rows.problem = self._unweighted_problem(*rows.join())
        return rows.problem, draws - rows.start

    def require(self, draws):
        """Raise an error if these rows have not arrived, or were dropped."""
        rows, stop = self.rows, int(draws[-1]) + 1
        if not rows.has(stop):
            raise EOFError(f"row {stop - 1} of the stream has not arrived")
        if draws[0] < max(rows.start, rows.keep):
            raise ValueError(
                f"row {draws[0]} of the stream was dropped after its last use: "
                "continue a run by state= of its result, "
                "and give another run its own stream"
            )

    def _unweighted_problem(self, start, stop):
        parts = self.rows.between(start, stop)
        return _checked(self._make(*(parts[:-1] if self.weighted else parts)))

    def _weighted_problem(self, *parts):
        if not self.weighted:
            return _checked(self._make(*parts))
        return _checked(self._make(*parts[:-1], sample_weight=parts[-1]))


def _checked(problem):
    if not isinstance(problem, CompositionalProblem):
        raise ValueError(f"problem must return a CompositionalProblem, got {problem!r}")
    return problem
