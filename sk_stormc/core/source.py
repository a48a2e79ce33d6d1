"""Sources, from which a problem's components are drawn. The source of a stream is in
`sk_stormc.streams`."""

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from sk_stormc.utils.types import Array, ArrayLike, FloatArray


class Source:
    """How the components of a problem are drawn, which batches of them are possible,
    and what they cost.

    A run draws from a place: a random number generator for a finite sum, and a position
    for a stream. Each kind of batch (g, its Jacobian, f) has its own place, which
    belongs to the run and is saved with it. In this base class, components are never
    exhausted.

    Attributes
    ----------
    finite : bool
        Whether all components are available, so that there are full batches and
        gradients without noise.
    weighted : bool
        Whether a draw is a pair (draws, weights), from which the problem's
        ``inner_batch(draws, weights)`` and ``outer_batch(draws, weights)`` gather a
        batch.
    cumulative : bool
        Whether a draw represents all components so far, and not only new ones.
    instead : str
        The alternative that warnings about runs with this source recommend.

    Examples
    --------
    >>> from sk_stormc.problems import FiniteSource, Source
    >>> isinstance(FiniteSource(10, 5), Source), Source.finite
    (True, True)
    """

    finite = True
    weighted = False
    cumulative = False
    instead = ""

    def open(self, generators: list[np.random.Generator]) -> list[Any]:
        """The places from which g, its Jacobian and f are drawn in a run.

        Parameters
        ----------
        generators : list of numpy.random.Generator
            One for each of the three kinds.

        Returns
        -------
        list
            The generators.
        """
        return generators

    def draw_inner(self, place: Any, shape: tuple[int, ...]) -> Array:
        """Draws of inner components.

        Parameters
        ----------
        place : numpy.random.Generator
            Or another kind of place that `open` returns.
        shape : tuple of int
            The leading axes of the result, (n_batches, batch_size).

        Returns
        -------
        ndarray
            Each ``draws[k]`` is passed to the problem's `inner_batch`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no draw_inner")

    def draw_outer(self, place: Any, shape: tuple[int, ...]) -> Array:
        """Draws of outer components.

        Parameters
        ----------
        place : numpy.random.Generator
        shape : tuple of int

        Returns
        -------
        ndarray
        """
        raise NotImplementedError(f"{type(self).__name__} has no draw_outer")

    # possible batches and their cost

    def sizes(self, size: int | None) -> tuple:
        """The batch sizes (B_g, B_dg, B_f) for a single number, or for None.

        Parameters
        ----------
        size : int or None

        Returns
        -------
        tuple
        """
        return size, size, size

    def accept(self, name: str, sizes: tuple) -> None:
        """Raise a ValueError for batch sizes that the source does not support.

        Parameters
        ----------
        name : str
            Name of the parameter, for the message.
        sizes : tuple
            (B_g, B_dg, B_f), None for all components.
        """

    def price(self, kind: str, size: int) -> int:
        """The cost (IFO) of a batch: the number of its components, plus those that are
        always evaluated with them.

        Parameters
        ----------
        kind : {"inner", "jacobian", "outer"}
        size : int
            Number of draws.

        Returns
        -------
        int
        """
        return size

    # overridden by streams

    def lasts(self, places: Iterable, ifo: int) -> bool:
        """Whether there are components for another iteration with this number of IFO.

        Parameters
        ----------
        places : iterable
        ifo : int

        Returns
        -------
        bool
        """
        return True

    def hold(self, places: Iterable) -> None:
        """Keep the components that a run needs if it continues from these places.
        Earlier components may be dropped.

        Parameters
        ----------
        places : iterable
        """

    def look_at(self, places: Iterable) -> None:
        """Define the objective by the last components that a run used.

        Parameters
        ----------
        places : iterable
        """

    def aside(self, places: dict[str, Any]) -> dict[str, Any]:
        """Places for the draws of a curvature estimate, after which the run continues
        from the given places.

        Parameters
        ----------
        places : dict
            The place of each kind of batch.

        Returns
        -------
        dict
            The places themselves, because random numbers need not be drawn again.
        """
        return places

    def place(self) -> Any:
        """Where the run is, for `excess`."""
        return None

    def excess(self, x: FloatArray, start: FloatArray, place: Any) -> float:
        """How far the objective over components since a place is higher at x than at
        the start, in standard errors, or NaN.

        Parameters
        ----------
        x, start : ndarray of shape (n_variables,)
            Points that do not depend on these components.
        place : object
            An earlier result of `place`.

        Returns
        -------
        float
        """
        return math.nan

    def uphill(self, x: FloatArray, start: FloatArray) -> bool:
        """Whether the objective is higher at x than at the start by more than sampling
        noise explains.

        Parameters
        ----------
        x, start : ndarray of shape (n_variables,)

        Returns
        -------
        bool
        """
        return False


class FiniteSource(Source):
    """A known number of components, drawn with replacement: uniformly, or by weights.

    Parameters
    ----------
    n_inner, n_outer : int
        Numbers of components, m and n. If f has a single component, its draws are
        zeros.
    weights, outer_weights : ndarray of shape (n_inner,) and (n_outer,), default=None
        Numbers >= 0, to which the probabilities of the components are proportional.
        None means equal probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.problems import FiniteSource
    >>> source = FiniteSource(3, 1, weights=np.array([1.0, 0.0, 3.0]))
    >>> source.draw_inner(np.random.default_rng(0), (1, 8))
    array([[2, 2, 0, 0, 2, 2, 2, 2]])
    """

    def __init__(
        self,
        n_inner: int,
        n_outer: int,
        weights: ArrayLike | None = None,
        outer_weights: ArrayLike | None = None,
    ) -> None:
        self.n_inner, self.n_outer = n_inner, n_outer
        self.weights, self.outer_weights = weights, outer_weights

    def draw_inner(self, rng, shape):
        """Indices j of inner components."""
        if self.weights is None:
            return rng.integers(self.n_inner, size=shape)
        return by_weight(rng, shape, *self._inner_table)

    def draw_outer(self, rng, shape):
        """Indices i of outer components."""
        if self.outer_weights is None or self.n_outer == 1:
            return rng.integers(self.n_outer, size=shape)
        return by_weight(rng, shape, *self._outer_table)

    @cached_property
    def _inner_table(self):
        return table(self.weights)

    @cached_property
    def _outer_table(self):
        return (
            self._inner_table
            if self.outer_weights is self.weights
            else table(self.outer_weights)
        )


class LazySource(FiniteSource):
    """Components of which some lie in dask collections. A run may use all of these, or
    one sample, but not minibatches.

    Parameters
    ----------
    n_inner, n_outer, weights, outer_weights
        As for `FiniteSource`.
    lazy : collection of {"inner", "outer"}
        The components that lie there.
    """

    def __init__(self, n_inner, n_outer, weights, outer_weights, lazy):
        super().__init__(n_inner, n_outer, weights, outer_weights)
        self.lazy = lazy

    def accept(self, name, sizes):
        """Raise a ValueError for batches of components in dask collections."""
        numbers = {"inner": self.n_inner, "outer": self.n_outer}
        for size, side in zip(sizes, ("inner", "inner", "outer"), strict=True):
            if side in self.lazy and size is not None and size < numbers[side]:
                raise ValueError(
                    f"{name} must be None, for all components, with data in dask "
                    f"collections, got {size}: a batch would read all of their "
                    "partitions. Use solver='corrected-sample' or 'lbfgs'"
                )


def table(weights):
    """The table of `by_weight`: cumulative weights, and the last component of positive
    weight."""
    return np.cumsum(weights), np.flatnonzero(weights)[-1]


def by_weight(rng, shape, sums, last):
    """Indices by inversion of uniform numbers."""
    indices = np.searchsorted(sums, rng.random(shape) * sums[-1], side="right")
    return np.minimum(indices, last)


def source_of(problem):
    """A problem's source. None means uniform draws of its components."""
    return (
        FiniteSource(problem.n_inner, problem.n_outer)
        if problem.source is None
        else problem.source
    )
