"""The report's pieces of theory: Lemma 3.1, Theorem 1 and Proposition 3.2, on problems with known constants."""

import numpy as np

from sk_stormc.datasets.gaussian_returns import make_gaussian_returns
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem
from sk_stormc.reproduce.valley import FallingValley
from sk_stormc.solvers import StopReason, STORMCompositional, minimize
from sk_stormc.theory import equipartition, storm_parameters, theorem_condition

__all__ = ["THEORY"]

COUNTED = 20  # runs whose oracle calls are counted


def count(size, show):
    """Lemma 3.1: runs of Algorithm 1 with random batch sizes, the IFO they used and the lemma's number."""
    problem = PortfolioProblem(make_gaussian_returns(500, 5, random_state=0))
    rng, found = np.random.default_rng(0), []
    for k in range(COUNTED):
        S, B, T = rng.integers(1, 100, 3).tolist(), rng.integers(1, 100, 3).tolist(), int(rng.integers(1, 60))
        result = minimize(
            problem,
            "storm-c-paper",
            random_state=k,
            init_batch_size=tuple(S),
            batch_size=tuple(B),
            max_iter=T,
            tol=0,
        )
        found.append((int(result.ifo[-1]), sum(S) + T * sum(B)))
        show((k + 1) / COUNTED)
    return {"counts": found}


def parameters(size, show):
    """Proposition 3.2, printed and corrected: what its parameters give in the conditions that they are to meet."""
    constants, eps, found = FallingValley().constants(), size["epsilon"], {}
    for variant in ("paper", "corrected"):
        p = storm_parameters(constants, eps, variant)
        parts = (p.S_g + p.S_dg + p.S_f, eps * (p.B_g + p.B_dg + p.B_f) / eps**3)
        found[variant] = {
            "condition": theorem_condition(constants, eps, p),
            "printed_condition": theorem_condition(constants, eps, p, "paper"),
            "equipartition": float(equipartition(constants, eps, p).max()),
            "ifo": p.ifo,
            "closing_formula": sum(parts),
        }
    return {"epsilon": eps, **found}


def accuracy(size, show):
    """Theorem 1: the mean of the exact |grad Phi| over the iterates, with the corrected Proposition 3.2."""
    problem, eps = FallingValley(), size["epsilon"]
    solver = STORMCompositional.from_theory(problem.constants(), epsilon=eps)
    means = []
    for seed in range(size["seeds"]):
        norms = []

        def on_record(record, norms=norms, seed=seed):
            norms.append(float(np.linalg.norm(problem.gradient(record.x))))
            show((seed + len(norms) / (solver.max_iter + 1)) / size["seeds"])

        result = minimize(problem, solver, random_state=seed, record_every=1, on_record=on_record)
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        means.append(float(np.mean(norms[1:])))
    return {"epsilon": eps, "means": means, "iterations": solver.max_iter, "start": norms[0]}


THEORY = {"Lemma 3.1": count, "Proposition 3.2": parameters, "Theorem 1": accuracy}
