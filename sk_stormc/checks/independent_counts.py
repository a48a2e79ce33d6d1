"""Counts of draws and evaluations that do not depend on the oracle, for
`check_solver`."""

import copy

from sk_stormc.core.source import source_of

# kinds of the batches in the last arguments of a method, and number of points
COUNTED = {
    "inner": (("inner",), 1),
    "jacobian": (("jacobian",), 1),
    "inner_pair": (("inner", "jacobian"), 2),
    "outer_gradient": (("outer",), 1),
    "compositional_gradient": (("outer",), 1),
    "gradient_pair": (("outer",), 2),
}


class IndependentCounts:
    """Counts the draws and evaluations of a run.

    Sampled batches are counted by a copy of the problem. Full batches are counted at
    the oracle, which stores them.

    Attributes
    ----------
    problem : CompositionalProblem
        The copy, for one run.
    ifo : int
        Components drawn.
    evaluated : dict
        Component evaluations by kind, except for those of `objective` and `reported`.
    partial : bool
        Whether some batch did not contain all components.
    """

    def __init__(self, problem):
        self.ifo, self.evaluated = 0, dict.fromkeys(("inner", "jacobian", "outer"), 0)
        self.partial = False
        self._sizes, self._batches, self._inside = {}, [], False
        problem = copy.copy(problem)
        for side, n in (("inner", problem.n_inner), ("outer", problem.n_outer)):
            setattr(problem, f"{side}_batch", self._gathering(problem, side, n))
        self.problem = counted = copy.copy(problem)
        for name in (*COUNTED, "objective", "reported"):  # the last for the records
            method, how = getattr(problem, name), COUNTED.get(name, ((), 0))
            setattr(counted, name, self._evaluating(method, *how))

    def count_full_batches(self, oracle):
        """Count also the full batches that an oracle returns, and the batches of g that
        its Jacobian uses too."""
        draw, draw_jacobian = oracle.draw, oracle.draw_jacobian
        sizes = self.problem.n_inner, self.problem.n_outer

        def draw_and_count(kind, size):
            n = sizes[kind == "outer"]
            self.ifo += n if size in (None, n) else 0
            return draw(kind, size)

        def draw_jacobian_and_count(size, inner, same=False):
            if same or self.problem.jacobian_kind == "operator":
                self.ifo += self._sizes["inner", id(inner.data)]
            return draw_jacobian(size, inner, same)

        oracle.draw, oracle.draw_jacobian = draw_and_count, draw_jacobian_and_count
        draw_sample, sample = oracle.draw_sample, oracle.sample
        price = source_of(self.problem).price

        def draw_sample_and_count(numbers):
            draws = draw_sample(numbers)
            inner, outer = (
                n if own is None else price(side, len(own))
                for side, own, n in zip(("inner", "outer"), draws, sizes, strict=True)
            )
            self.ifo += 2 * inner + outer
            return draws

        def sample_again(draws):  # which is counted when it is drawn
            ifo, batches = self.ifo, sample(draws)
            self.ifo = ifo
            return batches

        oracle.draw_sample, oracle.sample = draw_sample_and_count, sample_again

    def _gathering(self, problem, side, n):
        method, price = getattr(problem, f"{side}_batch"), source_of(problem).price

        def gather(draws, *weights):
            batch = method(draws, *weights)
            size = n if draws is None else price(side, len(draws))
            if draws is not None:
                self.ifo, self.partial = self.ifo + size, True
            self._batches.append(batch)  # a reference, so that its id is not used again
            self._sizes[side, id(batch)] = size
            return batch

        return gather

    def _evaluating(self, method, kinds, points):
        def evaluate(*args):
            if self._inside:  # a part of another evaluation
                return method(*args)
            self._inside = True
            try:
                return method(*args)
            finally:
                self._inside = False
                for kind, batch in zip(kinds[::-1], args[::-1], strict=False):
                    side = "outer" if kind == "outer" else "inner"
                    size = self._sizes.get((side, id(batch)), 0)
                    self.evaluated[kind] += points * size

        return evaluate
