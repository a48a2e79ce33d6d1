"""The oracle, through which a solver accesses a problem. It is the only place that
samples and counts."""

import copy
import pickle
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import penalized
from sk_stormc.core.preconditioners import as_preconditioner
from sk_stormc.core.problem import CompositionalProblem, checked_parts
from sk_stormc.core.source import source_of
from sk_stormc.core.unit import InUnit
from sk_stormc.utils.former_names import former_attribute
from sk_stormc.utils.parameters import plain

KINDS = ("inner", "jacobian", "outer")
ALL = (None, None, None)  # (B_g, B_dg, B_f) of a full refresh


@dataclass(slots=True, eq=False)
class Batch:
    """A gathered batch.

    Attributes
    ----------
    data : object
        The batch in the problem's own form.
    size : int
        Number of its components.
    full : bool
        Whether it contains all components, so that values on it are exact.
    anew : bool
        For a Jacobian, whether it is recomputed on each batch of g ("operator"), and
        not tracked by step 9.
    """

    data: object
    size: int
    full: bool = False
    anew: bool = False


class Oracle:
    """Draws batches, evaluates them and counts both.

    An incremental first-order oracle call (IFO) is one sampled index of g, of dg or of
    grad f. It is counted when it is drawn, as in Lemma 3.1. Component evaluations are
    counted separately, so a batch that is evaluated at x_t and x_{t+1} adds twice its
    size to `n_evaluations` and once to `ifo`.

    Parameters
    ----------
    problem : CompositionalProblem
    seed : int
        Seed of the independent generators: one for each kind of batch, and one for the
        solver's own use (`rng`).

    Attributes
    ----------
    preconditioner : sk_stormc.preconditioners.Preconditioner
        The preconditioner of steps: that of the problem, unless the solver sets its
        own.
    ifo : int
        IFO so far.
    n_evaluations : dict
        Number of component evaluations so far, by kind: "inner", "jacobian", "outer".
    source : sk_stormc.core.source.Source
        The source of the components.
    n_guarded : int
        Number of entries of estimates of u so far that left the domain of f and were
        moved back into it.
    n_below : int
        Number of entries of the last u on all components that left the domain of f.
    exact_charged : bool
        Whether the constant Jacobian has been computed exactly, which is counted once.
    rng : numpy.random.Generator
        Generator for random numbers that a solver draws itself. It is never used for
        batches.
    exact : deque of tuple
        Pairs (x, F) of points at which u, J and F were evaluated on all components. The
        stopping rule uses them, and empties the deque after each iteration.
    has_moved : bool
        Whether the step of this iteration has called `CompositionalSolver.move`.

    Notes
    -----
    Only the oracle distinguishes the three kinds of Jacobian. `draw_jacobian` draws the
    batch for a Jacobian, `jacobian` evaluates it and `gradient` uses it. A constant
    Jacobian that was computed exactly is stored in the oracle, and methods use None in
    its place.

    Examples
    --------
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.problems import PortfolioProblem
    >>> problem = PortfolioProblem(
    ...     make_gaussian_returns(500, 3, mean=0.1, random_state=0)
    ... )
    >>> import numpy as np
    >>> from sk_stormc.engine import Oracle
    >>> oracle = Oracle(problem, seed=0)
    >>> u = oracle.inner(np.zeros(3), oracle.draw("inner", 16))
    >>> oracle.ifo, oracle.n_evaluations["inner"]
    (16, 16)
    """

    metric = former_attribute("metric", "preconditioner")

    def __init__(self, problem, seed):
        self.problem = problem = problem.in_run()
        self.preconditioner = as_preconditioner(
            problem.preconditioner, problem.n_variables
        ).bound(self)
        *generators, self.rng = np.random.default_rng(seed).spawn(len(KINDS) + 1)
        self.source = source_of(problem)
        self._generators = dict(zip(KINDS, self.source.open(generators), strict=True))
        self._pending = {}  # draws of a kind and size
        self.ifo = 0
        self.n_evaluations = dict.fromkeys(KINDS, 0)
        self.n_guarded = self.n_below = 0
        self._exact = None
        self.exact_charged = self.has_moved = False
        # the length of u, once it is known, as the shape of the Jacobian is
        self._length, self._jacobian_is_checked = None, False
        self.exact = deque(maxlen=32)  # more points than a line search evaluates
        # the last u, J and (f_x, f_u) on all components, each with its point
        self._on_all = {}
        self._full, self._costs = {}, {}  # batches of all components, and IFO by sizes
        m, n = plain(problem.n_inner), plain(problem.n_outer)
        self._all = {"inner": m, "jacobian": m, "outer": n}

    # drawing and counting

    def n_components(self, kind):
        """Number of components of a kind: n_inner, or n_outer for "outer"."""
        return self._all[kind]

    def price(self, kind, size):
        """IFO of a batch of ``size`` draws. None means all, and 0 the constant Jacobian
        that is computed once."""
        if size in (None, self._all[kind]):
            return self._all[kind]
        return self.source.price(kind, size) if size else 0

    def cost(self, size):
        """IFO of batches of the sizes (B_g, B_dg, B_f)."""
        if size not in self._costs:  # needed before every iteration
            self._costs[size] = sum(map(self.price, KINDS, self._evaluated(size)))
        return self._costs[size]

    def _evaluated(self, size):
        """The sizes on which g, its Jacobian and f are evaluated."""
        B_g, B_dg, B_f = size
        return B_g, B_g if self.problem.jacobian_kind == "operator" else B_dg, B_f

    def is_full(self, size):
        """Whether batches of these sizes contain all components, so that values are
        exact."""
        B_g, B_dg, B_f = self._evaluated(size)
        is_exact = B_dg in (None, 0, self.problem.n_inner)
        return B_g is None and B_f is None and is_exact

    def all_like(self, size):
        """The sizes of a full refresh for steps with batches of these sizes. An exact
        Jacobian is not recomputed."""
        return None, 0 if size[1] == 0 else None, None

    def draw(self, kind, size):
        """Draw a batch, gather it and count it.

        Parameters
        ----------
        kind : {"inner", "jacobian", "outer"}
        size : int or None
            Number of components. None, or the number of all components, means all of
            them.

        Returns
        -------
        Batch
        """
        if size in (None, self._all[kind]):
            return self._draw_all(kind)
        draws = self._pending.get((kind, size))
        if not draws:
            # at once, because a call of the generator costs as much as gathering a
            # small batch
            blocks = max(1, min(64, 2**20 // size)) if self.source.finite else 1
            draws = list(self._draws(kind, (blocks, size)))[::-1]
            self._pending[kind, size] = draws
        batch = Batch(self._gather(kind, draws.pop()), self.source.price(kind, size))
        self.ifo += batch.size
        return batch

    def _draws(self, kind, shape):
        """Draws of a kind from its place in the source."""
        draw = self.source.draw_outer if kind == "outer" else self.source.draw_inner
        return draw(self._generators[kind], shape)

    def _gather(self, kind, draws):
        """The problem's batch of some draws, or of a pair of draws and weights. None
        means all components."""
        problem = self.problem
        gather = problem.outer_batch if kind == "outer" else problem.inner_batch
        paired = self.source.weighted and draws is not None
        return gather(*draws) if paired else gather(draws)

    def draw_jacobian(self, size, inner, same=False):
        """Draw the batch on which a Jacobian is evaluated, and count it.

        Parameters
        ----------
        size : int or None
            B_dg. None means all components, and 0 means the constant Jacobian, which is
            computed exactly, once.
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
            return replace(inner, anew=True)
        return Batch(None, 0, True) if size == 0 else self.draw("jacobian", size)

    def draw_sample(self, sizes):
        """Draw components of g and of f for batches of several iterations, and count
        them once: those of g also for their Jacobian.

        Parameters
        ----------
        sizes : tuple of two int
            Numbers of components of g and of f.

        Returns
        -------
        tuple
            The draws of g and of f, with None for all components.
        """
        inner, outer = sizes
        self.ifo += 2 * self.price("inner", inner) + self.price("outer", outer)
        return tuple(
            None if size == self._all[kind] else self._draws(kind, (1, size))[0]
            for kind, size in zip(("inner", "outer"), sizes, strict=True)
        )

    def sample(self, draws):
        """The batches of g, its Jacobian and f of draws of `draw_sample`."""
        inner, outer = (
            Batch(
                self._gather(kind, own),
                self.price(kind, None if own is None else len(own)),
                own is None,
            )
            for kind, own in zip(("inner", "outer"), draws, strict=True)
        )
        return inner, replace(inner, anew=True), outer

    def _draw_all(self, kind):
        """The batch of all components, which is gathered once."""
        side = "outer" if kind == "outer" else "inner"
        if side not in self._full:
            self._full[side] = Batch(self._gather(kind, None), self._all[kind], True)
        batch = self._full[side]
        self.ifo += batch.size
        return batch

    # evaluating

    def inner(self, x, batch):
        """g(x, B)."""
        self.n_evaluations["inner"] += batch.size
        u = self.problem.inner(x, batch.data)
        if self._length is None:
            self._check_first_u(u)
        if batch.full:
            self._on_all["u"] = x, u
        return u

    def jacobian(self, x, batch):
        """The Jacobian at x on a batch of `draw_jacobian`. None means the constant one
        that the oracle stores."""
        if not batch.size:
            return None
        self.n_evaluations["jacobian"] += batch.size
        J = self.problem.jacobian(x, batch.data)
        if not self._jacobian_is_checked:
            self._check_first_jacobian(x, J)
        if batch.full:
            self._on_all["J"] = x, J
        return J

    def _check_first_u(self, u):
        """Raise a ValueError that names ``inner`` if its value is no vector."""
        if len(np.shape(u)) != 1:
            raise ValueError(
                f"{type(self.problem).__name__}.inner must return a vector of shape "
                f"(l,), got shape {np.shape(u)}"
            )
        self._length = len(u)

    def _check_first_jacobian(self, x, J):
        """Raise a ValueError that names ``jacobian`` if its value is an array of
        another shape than (l, n_variables), and the problem has no `vjp` of its own."""
        expected = self._length, len(x)
        plain_array = isinstance(J, np.ndarray) and self._length is not None
        has_vjp = type(self.problem).vjp is not CompositionalProblem.vjp
        if plain_array and not has_vjp and J.shape != expected:
            raise ValueError(
                f"{type(self.problem).__name__}.jacobian must return an array of shape "
                f"{expected}, got shape {J.shape}"
            )
        self._jacobian_is_checked = self._length is not None

    def inner_pair(self, x_old, x, batch, slope, u_old=True, J_old=True):
        """g(x, B) and dg(x, B') at two points, ((u_old, J_old), (u, J)). u_old and
        J_old are None if not needed.

        The old point is evaluated first, so that a batch that caches values at its last
        x is used efficiently.
        """
        if u_old and J_old:
            self.n_evaluations["inner"] += 2 * batch.size
            self.n_evaluations["jacobian"] += 2 * slope.size
            return self.problem.inner_pair(x_old, x, batch.data, slope.data)
        before = (
            self.inner(x_old, batch) if u_old else None,
            self.jacobian(x_old, slope) if J_old else None,
        )
        return before, (self.inner(x, batch), self.jacobian(x, slope))

    def exact_jacobian(self, x):
        """The constant Jacobian over all components. It is counted at its first use
        only, also in resumed runs."""
        if self._exact is None:
            charged, evaluated = self.ifo, self.n_evaluations["jacobian"]
            self._exact = self.jacobian(x, self.draw("jacobian", None))
            if self.exact_charged:  # already counted before the run was resumed
                self.ifo, self.n_evaluations["jacobian"] = charged, evaluated
            self.exact_charged = True
        return self._exact

    def gradient(self, x, u, J, batch):
        """F = f_x + J.T f_u over an outer batch."""
        self.n_evaluations["outer"] += batch.size
        exact = batch.full and self._is_exact("u", x, u) and self._is_exact("J", x, J)
        J = self.exact_jacobian(x) if J is None else J
        F = self.problem.compositional_gradient(x, u, J, batch.data)
        if exact:
            self._remember(x, F)
        return F

    def gradient_pair(self, old, new, batch):
        """F at two points (x, u, J) over an outer batch that does not contain all
        components."""
        self.n_evaluations["outer"] += 2 * batch.size
        (x_old, u_old, J_old), (x, u, J) = old, new
        J_old = self.exact_jacobian(x_old) if J_old is None else J_old
        J = self.exact_jacobian(x) if J is None else J
        return self.problem.gradient_pair((x_old, u_old, J_old), (x, u, J), batch.data)

    def outer_gradient(self, x, u, batch):
        """(f_x, f_u) over an outer batch. f_x is None if f does not depend on x
        directly."""
        self.n_evaluations["outer"] += batch.size
        v = self.problem.outer_gradient(x, u, batch.data)
        v = checked_parts(self.problem, v, x, u)
        if batch.full and self._is_exact("u", x, u):
            self._on_all["v"] = x, v
        return v

    def chain(self, x, J, v):
        """F = f_x + J.T f_u from v = (f_x, f_u)."""
        f_x, f_u = v
        exact = self._is_exact("v", x, v) and self._is_exact("J", x, J)
        F = self.problem.vjp(self.exact_jacobian(x) if J is None else J, f_u)
        F = F if f_x is None else f_x + F
        if exact:
            self._remember(x, F)
        return F

    def follow(self, x, x_0, u_0):
        """u at x by a constant Jacobian, from u_0 at x_0 on all components. It is exact
        up to rounding."""
        u = u_0 + self.exact_jacobian(x) @ (x - x_0)
        self._on_all["u"] = x, u
        return u

    # F is exact at x if u, J and the gradient of f were all evaluated there on all
    # components; values are compared, not objects, so that a method may copy them

    def _is_exact(self, name, x, value):
        """Whether a value of "u", "J" or "v" = (f_x, f_u) is that at x on all
        components."""
        if value is None:  # the constant Jacobian
            return True
        x_known, known = self._on_all.get(name, (None, None))
        return known is not None and _are_equal(x, x_known) and _are_equal(value, known)

    def _remember(self, x, F):
        """Store a point at which F is exact."""
        self.exact.append((x, F))
        self._on_all = {}

    def count_guarded(self, u, n_guarded):
        """Count the entries of u that left the domain of f."""
        self.n_guarded += n_guarded
        if "u" in self._on_all and _are_equal(u, self._on_all["u"][1]):
            self.n_below = n_guarded

    def objective(self, x):
        """Phi(x) with R. It is not counted."""
        return self._looked_at(x, self.problem.objective)

    def reported(self, x):
        """The value of a record at x: Phi(x), or the objective that Phi smooths. It is
        not counted."""
        return self._looked_at(x, self.problem.reported)

    def _looked_at(self, x, function):
        """The value of a function on all data."""
        self.source.look_at(self._generators.values())
        try:
            return function(x)
        except (TypeError, ValueError, IndexError):
            # a sentence that names ``inner``, if its value is the reason
            if self._length is None:
                self._check_first_u(self.problem.inner(x, self._gather("inner", None)))
            raise

    def value(self, x, u):
        """Phi(x) after u and the gradient of f were evaluated on all data, so that it
        needs no further oracle calls."""
        return penalized(float(self.problem.outer(x, u)), self.problem.penalty, x)

    # the position of a run in its source

    def place(self, kind):
        """The place from which a kind is drawn: a generator, or a position in a
        stream."""
        return self._generators[kind]

    def hold(self):
        """Let the source keep the components that a run needs to continue from here."""
        self.source.hold(self._generators.values())

    def lasts(self, ifo):
        """Whether the source has enough components for a step of this IFO."""
        return self.source.lasts(self._generators.values(), ifo)

    @contextmanager
    def looking_ahead(self):
        """A context in which draws are counted, but do not use up the rows of a
        stream."""
        places, self._generators = self._generators, self.source.aside(self._generators)
        yield
        self._generators = places

    # resuming

    def snapshot(self, last=False):
        """The state that a resumed run needs, without the problem: generators, pending
        draws and counters.

        The ``last`` snapshot is made without copies, because the oracle is not used
        after it.
        """
        state = {
            "rng": self.rng,
            "_generators": self._generators,
            "ifo": self.ifo,
            "n_evaluations": self.n_evaluations,
            "n_guarded": self.n_guarded,
            "exact_charged": self.exact_charged,
        }
        if not last:
            state = copy.deepcopy(state)
        state["_pending"] = _copied(self._pending)
        return state

    def restore(self, snapshot):
        """Restore the state of a `snapshot`."""
        self.__dict__.update(copy.deepcopy(snapshot | {"_pending": {}}))
        self._pending = _copied(snapshot["_pending"])


def _copied(pending):
    """A copy of pending draws, which are themselves immutable."""
    return {size: list(draws) for size, draws in pending.items()}


def _are_equal(value, other):
    """Whether two values of u or J are equal: arrays by their entries, and other plain
    data by their pickles."""
    if value is other:
        return True
    if isinstance(value, (np.ndarray, InUnit)):
        return (
            type(value) is type(other)
            and value.shape == other.shape
            and bool((value == other).all())
        )
    return type(value) is type(other) and pickle.dumps(value) == pickle.dumps(other)
