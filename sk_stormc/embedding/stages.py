"""The stages of a map: early exaggeration, the main stage, and further stages from a
finished map; and their output."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np


def growing(P, start, most):
    """The largest exaggeration, at most ``most``, with which a narrow map grows in all
    its dimensions at half speed.

    A narrow map x has the gradient 4 (e L x - x / (n - 1)), where e is the exaggeration
    and L the Laplacian of the joint affinities. It grows along an eigenvector v of L at
    a rate proportional to 1 - e (n - 1) lambda_v, and with a larger e it contracts. If
    it grew along some directions only, a line would be left of a map in two dimensions.
    The eigenvectors are estimated by orthogonal iteration of the random walk on the
    graph, which stops at ``most``.
    """
    n, X = len(start), start.astype(float)
    degree = (P.sum(axis=1) + P.sum(axis=0))[:, None]
    for _ in range(20):  # steps of the orthogonal iteration
        X = np.linalg.qr(X - X.mean(axis=0))[0]
        Y = P @ X + P.T @ X
        slowest = (
            np.linalg.eigvalsh(X.T @ (degree * X - Y))[-1] * (n - 1) / degree.sum()
        )
        if 2 * most * slowest <= 1:
            return most
        X = X + Y / degree
    return 1 / (2 * slowest)


@dataclass(frozen=True)
class Stage:
    """Iterations with their own exaggeration and learning rate.

    Attributes
    ----------
    n_iter : int
        Number of iterations. The learning rate is 0 at the last one, unless it is held.
    exaggeration : float
    early : bool
        Whether another stage with another exaggeration follows.
    held : float or None
        A constant regularisation of the preconditioner, in units of the weight of a
        point, with a constant learning rate. None means that both follow their
        schedules.
    on : bool
        Whether the stage continues from a finished map. If its final objective is
        higher, the earlier map is kept.
    asked : bool
        Whether the stage was requested by `SNEEmbedding.optimize`. Its map is kept in
        any case.
    learning_rate : float or None
        None means the automatic learning rate.
    record_every : int or None
        Iterations between two records. None means about a twentieth of the iterations,
        and no records in an early stage.
    """

    n_iter: int
    exaggeration: float = 1.0
    early: bool = False
    held: float | None = None
    on: bool = False
    asked: bool = False
    learning_rate: float | None = None
    record_every: int | None = None


def new_stages(n_iter, early, exaggeration=1.0, record_every=None):
    """The stages of a new fit."""
    # NumPy's would widen float32 arrays
    n_iter, early, exaggeration = (int(n_iter), float(early), float(exaggeration))
    # a fifth of the iterations, but not many: exaggeration contracts data without
    # clusters, eventually to one point
    n_early = min(n_iter // 5, 30) if early > 1 else 0
    stages = [
        Stage(n_early, early, early=True, held=1.0, record_every=record_every),
        Stage(n_iter - n_early, exaggeration, record_every=record_every),
    ]
    return stages if n_early else stages[1:]


def further_stages(before, max_iter, exaggeration=1.0, record_every=None):
    """The stages of a resumed fit: its earlier stages, and an additional one if
    ``max_iter`` has increased."""
    had = sum(stage.n_iter for stage in before if not stage.asked)
    if max_iter is None or max_iter == had:
        return list(before)
    if max_iter < had:
        raise ValueError(
            f"max_iter must be at least {had} for resume, got {max_iter}: the fit had "
            "so many iterations, and its learning rate is 0 at the last of them"
        )
    n_iter = int(max_iter - had)
    further = Stage(n_iter, float(exaggeration), on=True, record_every=record_every)
    return [*before, further]


class Lines:
    """The output for ``verbose=1``: one line per part of the preparation, and one with
    the divergence of each record.

    Parameters
    ----------
    shown : bool
        Whether to print anything.
    """

    def __init__(self, shown):
        self.shown, self.began, self.last = bool(shown), time.perf_counter(), None
        if shown:
            print(f"{'iteration':>10}{'KL divergence':>16}{'seconds':>10}")

    def done(self, part):
        """Print that a part of the preparation is completed."""
        self._print(part, "")

    def record(self, iteration, divergence, early=False):
        """Print a record, unless the last line has the same iteration."""
        if iteration != self.last:
            self.last = iteration
            self._print(f"{'early ' if early else ''}{iteration}", f"{divergence:.6f}")

    def _print(self, first, second):
        if self.shown:
            print(
                f"{first:>10}{second:>16}{time.perf_counter() - self.began:10.2f}",
                flush=True,
            )
