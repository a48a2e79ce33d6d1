"""The oracle: all that a solver sees of a problem, and the only place that samples and counts."""

import copy
import math
from contextlib import contextmanager

import numpy as np

__all__ = ["Oracle"]

AHEAD = 64  # batches drawn at a time: one call of the generator costs as much as gathering a small batch
KINDS = ("inner", "jacobian", "outer")


class Batch:
    """A gathered batch: its data, its number of components, and whether it holds all of them."""

    __slots__ = ("data", "full", "size")

    def __init__(self, data, size, full):
        self.data, self.size, self.full = data, size, full


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
    ifo : int
        IFO so far.
    n_evaluations : dict
        Component evaluations so far, by kind: "inner", "jacobian", "outer".
    streaming : bool
        Whether the components are those of a stream, that may end.
    n_guarded : int
        Entries of estimates of u that had left the domain of f and were put back, so far.
    rng : numpy.random.Generator
        For what a solver draws itself; never used for batches.
    """

    def __init__(self, problem, seed):
        self.problem = problem
        generators = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(KINDS) + 1)]
        self.rng = generators.pop()
        self._generators = dict(zip(KINDS, problem.sources(generators), strict=True))
        self.streaming = math.isinf(problem.n_inner)
        self._ahead = {}  # (kind, size) -> draws of up to AHEAD batches, the next one last
        self.ifo = 0
        self.n_evaluations = dict.fromkeys(KINDS, 0)
        self.n_guarded = 0
        self._exact = None
        self._exact_charged = False
        self._full = {}
        self._all = {"inner": problem.n_inner, "jacobian": problem.n_inner, "outer": problem.n_outer}

    def n_components(self, kind):
        """Number of components of a kind: n_inner, or n_outer for "outer"."""
        return self._all[kind]

    def price(self, kind, size):
        """IFO of a batch: its components, and those of the near field that come with a drawn one of g or of dg."""
        if size in (None, self._all[kind]):
            return self._all[kind]
        return size if kind == "outer" else size + self.problem.n_near

    def draw(self, kind, size):
        """Draw and gather a batch, and count it.

        Parameters
        ----------
        kind : {"inner", "jacobian", "outer"}
        size : int or None
            None or their number means all components.

        Returns
        -------
        Batch
        """
        if size is None or size == self._all[kind]:
            return self._draw_all(kind)
        ahead = self._ahead.get((kind, size))
        if not ahead:
            draw = self.problem.draw_outer if kind == "outer" else self.problem.draw_inner
            blocks = 1 if self.streaming else max(1, min(AHEAD, 2**20 // size))
            ahead = self._ahead[kind, size] = list(draw(self._generators[kind], (blocks, size)))[::-1]
        gather = self.problem.outer_batch if kind == "outer" else self.problem.inner_batch
        price = self.price(kind, size)
        self.ifo += price
        return Batch(gather(ahead.pop()), price, False)

    def _draw_all(self, kind):
        side = "outer" if kind == "outer" else "inner"
        if side not in self._full:
            gather = self.problem.outer_batch if side == "outer" else self.problem.inner_batch
            self._full[side] = Batch(gather(None), self.n_components(kind), True)
        batch = self._full[side]
        self.ifo += batch.size
        return batch

    def forget(self, kind, size):
        """Drop the batches of this size drawn ahead: of one that is drawn once, a state would carry 63 more."""
        self._ahead.pop((kind, size), None)

    def share(self, batch):
        """An inner batch taken as a Jacobian batch too, and charged as one ("operator" Jacobians)."""
        self.ifo += batch.size
        return batch

    def inner(self, x, batch):
        """g(x, B)."""
        self.n_evaluations["inner"] += batch.size
        return self.problem.inner(x, batch.data)

    def jacobian(self, x, batch):
        """dg(x, B)."""
        self.n_evaluations["jacobian"] += batch.size
        return self.problem.jacobian(x, batch.data)

    def exact_jacobian(self, x):
        """The constant Jacobian over all components: charged at its first use, then free."""
        if self._exact is None:
            charged, evaluated = self.ifo, self.n_evaluations["jacobian"]
            self._exact = self.jacobian(x, self.draw("jacobian", None))
            if self._exact_charged:  # a resumed run has paid before
                self.ifo, self.n_evaluations["jacobian"] = charged, evaluated
            self._exact_charged = True
        return self._exact

    def gradient(self, x, u, J, batch):
        """F = f_x + J.T f_u over an outer batch; J None stands for the exact constant Jacobian."""
        self.n_evaluations["outer"] += batch.size
        J = self.exact_jacobian(x) if J is None else J
        return self.problem.compositional_gradient(x, u, J, batch.data)

    def lasts(self, ifo):
        """Whether there are components for a step of so many IFO: a stream may be at its end."""
        if not self.streaming:
            return True
        kinds = 3 if math.isinf(self.problem.n_outer) else 2  # in batches of one size; an f of one component adds 1
        return self.problem.lasts(self._generators.values(), ifo // kinds)

    @contextmanager
    def looking_ahead(self):
        """Draws within are charged, but a stream is then where it was: its rows are not spent on a probe."""
        places = copy.deepcopy(self._generators) if self.streaming else self._generators
        yield
        self._generators = places

    def outer_gradient(self, x, u, batch):
        """(f_x, f_u) over an outer batch; f_x is None where f does not use x directly."""
        self.n_evaluations["outer"] += batch.size
        return self.problem.outer_gradient(x, u, batch.data)

    def pull(self, x, J, v):
        """f_x + J.T f_u from v = (f_x, f_u); J None stands for the exact constant Jacobian."""
        f_x, f_u = v
        F = self.problem.vjp(self.exact_jacobian(x) if J is None else J, f_u)
        return F if f_x is None else f_x + F

    def objective(self, x):
        """Phi(x), R included: for the record, not charged."""
        return self.problem.objective(x)

    def value(self, x, u):
        """Phi(x) where u and the f-gradient were taken on all data: those calls returned it too."""
        problem = self.problem
        return float(problem.outer(x, u)) + (0.0 if problem.penalty is None else problem.penalty.value(x))

    def snapshot(self):
        """Generators, draws ahead and counters: all that a resumed run needs, without the problem."""
        kept = ("rng", "_generators", "_ahead", "ifo", "n_evaluations", "n_guarded", "_exact_charged")
        return copy.deepcopy({name: getattr(self, name) for name in kept})

    def restore(self, snapshot):
        """Take the state of a `snapshot`."""
        self.__dict__.update(copy.deepcopy(snapshot))
