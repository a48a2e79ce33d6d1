"""Streams of returns, and the bits of what is learned from them, for the tests of
streams."""

from functools import cache, partial

import numpy as np

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import SOLVERS, get_solver

RETURNS = make_gaussian_returns(1500, 4, mean=0.1, random_state=0)
# if a solver has these parameters
FOR_STREAMS = {"checkpoint_batch_size": 128, "epoch_length": 10}


def solver_for_streams(name):
    solver = get_solver(name)
    if name == "storm-c":
        # with automatic batches a portfolio's stream goes by moments
        return solver.set_params(batch_size=32)
    return solver.set_params(
        **{k: v for k, v in FOR_STREAMS.items() if k in solver.get_params()}
    )


STREAMING = [
    name for name in SOLVERS if not solver_for_streams(name).needed_to_stream()
]


def portfolio(solver="storm-c", **kwargs):
    solver = solver_for_streams(solver) if isinstance(solver, str) else solver
    return CompositionalPortfolio(solver, **{"random_state": 0} | kwargs)


def chunks(X, size):
    """Rows in chunks of one size, or of "mixed" sizes."""
    at, rng = 0, np.random.default_rng(3)
    while at < len(X):
        n = int(rng.choice([1, 2, 31, 32, 33, 150, 400])) if size == "mixed" else size
        yield X[at : at + n]
        at += n


def fed(estimator, X, size):
    for chunk in chunks(X, size):
        estimator.partial_fit(chunk)
    return estimator


def stream_of(X, size=None, **kwargs):
    return StreamingProblem(
        chunks(X, size or len(X)),
        partial(PortfolioProblem, preconditioner="variance", **kwargs),
    )


def bits(estimator):
    """The fitted attributes, as bytes."""
    names = ("weights_", "coef_", "intercept_", "loss_curve_", "ifo_", "n_iter_")
    arrays = [
        np.asarray(getattr(estimator, name))
        for name in names
        if hasattr(estimator, name)
    ]
    reason, counts = estimator.stop_reason_, sorted(estimator.n_evaluations_.items())
    return [(array.dtype, array.tobytes()) for array in arrays], reason, counts


def result_bits(result):
    parts = (result.x, result.loss_curve, result.ifo)
    return (
        [(p.dtype, p.tobytes()) for p in parts],
        result.n_iter,
        result.stop_reason,
        result.n_evaluations,
    )


@cache
def whole_bits():
    """What a portfolio learns from all returns at once."""
    return bits(portfolio().partial_fit(RETURNS))
