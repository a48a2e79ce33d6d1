"""The oracle: all that a solver sees of a problem, and the only place that samples and counts."""

import copy
from collections import deque
from contextlib import contextmanager

import numpy as np

from sk_stormc.core.metrics import as_metric
from sk_stormc.core.source import source_of
from sk_stormc.utils.validation import plain

__all__ = ["ALL", "KINDS", "Batch", "Oracle"]

MEMORY = 32  # points with an exact F that are remembered, more than a line search tries
AHEAD = 64  # batches drawn at a time: one call of the generator costs as much as gathering a small batch
KINDS = ("inner", "jacobian", "outer")
ALL = (None, None, None)  # (B_g, B_dg, B_f) of a full refresh


class Batch:
    """A gathered batch.

    Attributes
    ----------
    data : object
        What the problem gathered.
    size : int
        Number of its components.
    full : bool
        Whether it holds all of them, so that what is evaluated on it is exact.
    anew : bool
        Of a Jacobian: whether it is taken on the batch of g each time ("operator"), and not tracked by step 9.
    """

    __slots__ = ("anew", "data", "full", "size")

    def __init__(self, data, size, full=False, anew=False):
        self.data = data
        self.size = size
        self.full = full
        self.anew = anew


class Ahead(list):
    """Draws of up to AHEAD batches of one kind and size, the next one last; how one is gathered, and its IFO."""

    __slots__ = ("gather", "price")

    def __init__(self, oracle, kind, size, draws=()):
        super().__init__(draws)
        self.gather, self.price = oracle.gatherer(kind), oracle.price(kind, size)


class Oracle:
    """Draws batches, evaluates them and counts both.

    An incremental first-order oracle call (IFO) is one sampled index of g, of dg or of grad f, counted where
    it is drawn: Lemma 3.1's count. A component evaluation is counted where it is made, so a batch evaluated
    at x_t and x_{t+1} adds twice its size to `n_evaluations` and once to `ifo`.

    Parameters
    ----------
    problem : CompositionalProblem
    seed : int
        Of the independent generators, one for each kind of batch and one for the solver's own use (`rng`).

    Attributes
    ----------
    metric : sk_stormc.metrics.Metric
        What steps are measured in: the problem's, unless the solver sets its own.
    ifo : int
        IFO so far.
    n_evaluations : dict
        Number of component evaluations so far, by kind: "inner", "jacobian", "outer".
    source : sk_stormc.core.source.Source
        Where the components come from.
    n_guarded : int
        Number of entries of estimates of u that have left the domain of f so far, and were put back into it.
    exact_charged : bool
        Whether the constant Jacobian has been computed exactly, which is counted once.
    rng : numpy.random.Generator
        For random numbers that a solver draws itself. It is never used for batches.
    exact : deque of tuple
        Pairs (x, F) where u, J and F were evaluated on all components. The stopping rule uses them, and empties the
        deque after each iteration.

    Notes
    -----
    Only the oracle tells the three kinds of Jacobian apart. `draw_jacobian` draws the batch for a Jacobian, `jacobian`
    evaluates it and `gradient` uses it. A constant Jacobian that was computed exactly is stored in the oracle, and
    methods hold None in its place.

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(make_gaussian_returns(500, 3, mean=0.1, random_state=0))
    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle
    >>> oracle = Oracle(problem, seed=0)
    >>> u = oracle.inner(np.zeros(3), oracle.draw("inner", 16))
    >>> oracle.ifo, oracle.n_evaluations["inner"]
    (16, 16)
    """

    def __init__(self, problem, seed):
        self.problem = problem = problem.in_run()
        self.metric = as_metric(problem.metric, problem.n_variables).bound(self)
        generators = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(KINDS) + 1)]
        self.rng = generators.pop()
        self.source = source_of(problem)
        self._generators = dict(zip(KINDS, self.source.open(generators), strict=True))
        self._ahead = {}  # (kind, size) -> Ahead
        self.ifo = 0
        self.n_evaluations = dict.fromkeys(KINDS, 0)
        self.n_guarded = 0
        self._exact = None
        self.exact_charged = False
        self.exact = deque(maxlen=MEMORY)
        self._told = {}  # the point, u, J and f's gradient that were last evaluated on all components
        self._full, self._costs = {}, {}
        m, n = plain(problem.n_inner), plain(problem.n_outer)
        self._all = {"inner": m, "jacobian": m, "outer": n}

    # drawing and counting

    def n_components(self, kind):
        """Number of components of a kind: n_inner, or n_outer for "outer"."""
        return self._all[kind]

    def price(self, kind, size):
        """IFO of a batch of so many draws; None is all, and 0 the constant Jacobian that is taken once."""
        if size in (None, self._all[kind]):
            return self._all[kind]
        return self.source.price(kind, size) if size else 0

    def cost(self, size):
        """IFO of batches of the sizes (B_g, B_dg, B_f)."""
        if size not in self._costs:  # it is asked for before every iteration
            slope = size[0] if self.problem.jacobian_kind == "operator" else size[1]
            sizes = zip(KINDS, (size[0], slope, size[2]), strict=True)
            self._costs[size] = sum(self.price(kind, s) for kind, s in sizes)
        return self._costs[size]

    def gatherer(self, kind):
        """What gathers the batch of a draw: the problem's method, which is given weights where the source has them."""
        gather = self.problem.outer_batch if kind == "outer" else self.problem.inner_batch
        return (lambda draw: gather(*draw)) if self.source.weighted else gather

    def is_full(self, size):
        """Whether batches of these sizes leave nothing to estimate."""
        slope = size[0] if self.problem.jacobian_kind == "operator" else size[1]
        return size[0] is None and size[2] is None and slope in (None, 0, self.problem.n_inner)

    def all_like(self, size):
        """The sizes of a full refresh for steps with batches of these sizes: an exact Jacobian stays what it is."""
        return None, 0 if size[1] == 0 else None, None

    def draw(self, kind, size):
        """Draw a batch, gather it and count it.

        Parameters
        ----------
        kind : {"inner", "jacobian", "outer"}
        size : int or None
            Number of components. None, or the number of all components, means all of them.

        Returns
        -------
        Batch
        """
        ahead = self._ahead.get((kind, size))
        if not ahead:
            if size is None or size == self._all[kind]:
                return self._draw_all(kind)
            if ahead is None:
                ahead = self._ahead[kind, size] = Ahead(self, kind, size)
            draw = self.source.draw_outer if kind == "outer" else self.source.draw_inner
            blocks = max(1, min(AHEAD, 2**20 // size)) if self.source.finite else 1
            ahead[:] = list(draw(self._generators[kind], (blocks, size)))[::-1]
        self.ifo += ahead.price
        return Batch(ahead.gather(ahead.pop()), ahead.price)

    def draw_jacobian(self, size, inner, same=False):
        """Draw the batch on which a Jacobian is evaluated, and count it.

        Parameters
        ----------
        size : int or None
            B_dg. None means all components, and 0 means the constant Jacobian, which is computed exactly, once.
        inner : Batch
            The batch of g, on which a Jacobian of kind "operator" is evaluated.
        same : bool, default=False
            Whether to evaluate a Jacobian of any kind on the batch of g.

        Returns
        -------
        Batch
        """
        if same or self.problem.jacobian_kind == "operator":
            self.ifo += inner.size
            return Batch(inner.data, inner.size, inner.full, anew=True)
        return Batch(None, 0, True) if size == 0 else self.draw("jacobian", size)

    def _draw_all(self, kind):
        side = "outer" if kind == "outer" else "inner"
        if side not in self._full:
            everything = self.problem.outer_batch(None) if kind == "outer" else self.problem.inner_batch(None)
            self._full[side] = Batch(everything, self.n_components(kind), True)
        batch = self._full[side]
        self.ifo += batch.size
        return batch

    def forget(self, kind, size):
        """Drop the batches of this size drawn ahead: of one that is drawn once, a state would carry 63 more."""
        self._ahead.pop((kind, size), None)

    # evaluating

    def inner(self, x, batch):
        """g(x, B)."""
        self.n_evaluations["inner"] += batch.size
        u = self.problem.inner(x, batch.data)
        if batch.full:
            self._told = {"x": x, "u": u}
        return u

    def jacobian(self, x, batch):
        """The Jacobian at x on a batch of `draw_jacobian`; None stands for the constant one that is kept here."""
        if not batch.size:
            return None
        self.n_evaluations["jacobian"] += batch.size
        J = self.problem.jacobian(x, batch.data)
        if batch.full and self._told:
            self._told["J"] = J
        return J

    def exact_jacobian(self, x):
        """The constant Jacobian over all components: charged at its first use, then free, after a resumption too."""
        if self._exact is None:
            charged, evaluated = self.ifo, self.n_evaluations["jacobian"]
            self._exact = self.jacobian(x, self.draw("jacobian", None))
            if self.exact_charged:  # a resumed run has paid before
                self.ifo, self.n_evaluations["jacobian"] = charged, evaluated
            self.exact_charged = True
        return self._exact

    def gradient(self, x, u, J, batch):
        """F = f_x + J.T f_u over an outer batch."""
        self.n_evaluations["outer"] += batch.size
        exact = batch.full and self._is_exact(x, u) and self._is_slope(J)
        J = self.exact_jacobian(x) if J is None else J
        F = self.problem.compositional_gradient(x, u, J, batch.data)
        if exact:
            self._remember(x, F)
        return F

    def outer_gradient(self, x, u, batch):
        """(f_x, f_u) over an outer batch; f_x is None where f does not use x directly."""
        self.n_evaluations["outer"] += batch.size
        v = self.problem.outer_gradient(x, u, batch.data)
        if batch.full and self._is_exact(x, u):
            self._told["v"] = v
        return v

    def chain(self, x, J, v):
        """F = f_x + J.T f_u from v = (f_x, f_u)."""
        f_x, f_u = v
        exact = self._told and self._told.get("v") is v and self._told["x"] is x and self._is_slope(J)
        F = self.problem.vjp(self.exact_jacobian(x) if J is None else J, f_u)
        F = F if f_x is None else f_x + F
        if exact:
            self._remember(x, F)
        return F

    # where F is exact: where it was made of nothing but what was evaluated there on all components

    def follow(self, x, x_0, u_0):
        """u at x by a constant Jacobian, from u_0 at x_0 on all components: exact but for rounding."""
        u = u_0 + self.exact_jacobian(x) @ (x - x_0)
        self._told = {"x": x, "u": u}
        return u

    def _is_exact(self, x, u):
        return bool(self._told) and self._told["x"] is x and self._told["u"] is u

    def _is_slope(self, J):
        return J is None or J is self._told.get("J")

    def _remember(self, x, F):
        self.exact.append((x, F))
        self._told = {}

    def objective(self, x):
        """Phi(x), R included: not charged."""
        self.source.look_at(self._generators.values())
        return self.problem.objective(x)

    def reported(self, x):
        """What a record has for x: Phi(x), or what it is a smoothed form of; not charged."""
        self.source.look_at(self._generators.values())
        return self.problem.reported(x)

    def value(self, x, u):
        """Phi(x) where u and the f-gradient were taken on all data: those calls returned it too."""
        penalty = self.problem.penalty
        return float(self.problem.outer(x, u)) + (0.0 if penalty is None else penalty.value(x))

    # where a run is in its source

    def place(self, kind):
        """What draws of a kind come from: a generator, or a position in a stream."""
        return self._generators[kind]

    def hold(self):
        """Let the source keep what a run that goes on from here needs."""
        self.source.hold(self._generators.values())

    def lasts(self, ifo):
        """Whether the source has components for a step of so many IFO."""
        return self.source.lasts(self._generators.values(), ifo)

    @contextmanager
    def looking_ahead(self):
        """Draws within are charged, but a stream is then where it was: its rows are not spent on a probe."""
        places, self._generators = self._generators, self.source.aside(self._generators)
        yield
        self._generators = places

    # resuming

    def snapshot(self, last=False):
        """Generators, draws ahead and counters: all that a resumed run needs, without the problem.

        Nothing is copied for the ``last`` one, after which the oracle is not used any more.
        """
        kept = ("rng", "_generators", "ifo", "n_evaluations", "n_guarded", "exact_charged")
        taken = {name: getattr(self, name) for name in kept}
        if not last:
            taken = copy.deepcopy(taken)
        taken["_ahead"] = {key: list(draws) for key, draws in self._ahead.items()}  # no draw is written into
        return taken

    def restore(self, snapshot):
        """Take the state of a `snapshot`."""
        self.__dict__.update(copy.deepcopy({name: value for name, value in snapshot.items() if name != "_ahead"}))
        self._ahead = {key: Ahead(self, *key, draws) for key, draws in snapshot["_ahead"].items()}
