"""Counting apart from the oracle, for `check_solver`."""

import copy

__all__ = ["Ledger"]


class Ledger:
    """What a run draws and evaluates: on a copy of the problem, and for full batches, that are kept, at the oracle.

    Attributes
    ----------
    problem : CompositionalProblem
        The copy, for one run.
    ifo : int
        Components drawn.
    evaluated : dict
        Component evaluations by kind, whoever asked for them; those of `objective` are free.
    partial : bool
        Whether some batch did not hold all components.
    """

    def __init__(self, problem):
        self.problem = copy.copy(problem)
        self.ifo, self.evaluated = 0, dict.fromkeys(("inner", "jacobian", "outer"), 0)
        self.partial = False
        self._sizes, self._kept, self._inside = {}, [], False
        for side, n, near in (("inner", problem.n_inner, problem.n_near), ("outer", problem.n_outer, 0)):
            setattr(self.problem, f"{side}_batch", self._gathering(side, n, near))
        kinds = {"inner": "inner", "jacobian": "jacobian", "outer_gradient": "outer", "compositional_gradient": "outer"}
        for name, kind in (kinds | {"objective": None}).items():  # Phi for the records is free
            setattr(self.problem, name, self._evaluating(name, kind))

    def watch(self, oracle):
        """Add up the full batches that an oracle gives, and those taken for g and its Jacobian too."""
        draw, share, sizes = oracle.draw, oracle.share, (self.problem.n_inner, self.problem.n_outer)

        def drawn(kind, size):
            n = sizes[kind == "outer"]
            self.ifo += n if size in (None, n) else 0
            return draw(kind, size)

        def shared(batch):
            self.ifo += self._sizes["inner", id(batch.data)]
            return share(batch)

        oracle.draw, oracle.share = drawn, shared

    def _gathering(self, side, n, near):
        method = getattr(self.problem, f"{side}_batch")

        def gather(draws):
            batch = method(draws)
            size = n if draws is None else len(draws) + near
            if draws is not None:
                self.ifo, self.partial = self.ifo + size, True
            self._kept.append(batch)  # so that no other gets its id
            self._sizes[side, id(batch)] = size
            return batch

        return gather

    def _evaluating(self, name, kind):
        method = getattr(self.problem, name)

        def evaluate(*args):
            if self._inside:  # what an evaluation is made of
                return method(*args)
            self._inside = True
            try:
                return method(*args)
            finally:
                self._inside = False
                if kind is not None:
                    side = "outer" if kind == "outer" else "inner"
                    self.evaluated[kind] += self._sizes.get((side, id(args[-1])), 0)

        return evaluate
