"""`CompositionalPortfolio.partial_fit`: with moments or an iterative solver, and the
attributes after each chunk."""

from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from sk_stormc.core.penalties import projected
from sk_stormc.engine.results import SolverResult, outcome
from sk_stormc.fitting.estimator import streams
from sk_stormc.fitting.runs import Direct
from sk_stormc.portfolio.constraints import feasible_set_of, refuse_linear_constraints
from sk_stormc.portfolio.metrics import has_failed
from sk_stormc.portfolio.moment_stream import MomentStream
from sk_stormc.portfolio.returns import Returns
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.solvers import StopReason
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.streams.source import WINDOW
from sk_stormc.utils.blocks import blocks, refuse_dask
from sk_stormc.utils.frames import as_text
from sk_stormc.utils.parameters import is_word
from sk_stormc.utils.warnings import warn

__all__ = ["streams_returns", "update_weights"]

# of more assets each matrix of the moments would need more than 32 MB
MAX_ASSETS_OF_MOMENTS = 2000


def streams_returns(portfolio):
    """Whether the parameters support `partial_fit`, in addition to `streams`; otherwise
    raise an AttributeError."""
    why = _why_not(portfolio)
    if why is not None:
        raise AttributeError(why)
    return streams(portfolio)


def _why_not(portfolio):
    """What prevents `partial_fit`, and what to do, or None."""
    solver, risk = portfolio.solver, portfolio.risk_measure
    if is_word(portfolio.objective, "ratio"):
        return (
            "objective='ratio' needs all periods at once; for partial_fit set "
            "objective='utility'"
        )
    for limit in ("max_risk", "min_return"):
        if getattr(portfolio, limit) is not None:
            return (
                f"{limit} needs all periods at once; for partial_fit set {limit}=None"
            )
    limits = {"max_assets": portfolio.max_assets, "min_held": portfolio.min_held}
    limits = [name for name, limit in limits.items() if limit is not None]
    limits = limits or ["solver='scip'"] * is_word(solver, "scip")
    if limits:
        return (
            f"{' and '.join(limits)} cannot be used with partial_fit, which has no "
            "integer limits: use fit"
        )
    measure = MEASURES[risk] if is_word(risk, *MEASURES) else None
    if measure is not None and measure.moments is None:
        supported = ", ".join(repr(name) for name in MEASURES if MEASURES[name].moments)
        return (
            f"risk_measure={risk!r} needs all periods at once: use fit, which does not "
            f"load returns of a memmap into memory. partial_fit has {supported}"
        )
    if is_word(solver, "newton"):
        return (
            "solver='newton' needs all periods at once; for partial_fit set "
            "solver='moments'"
        )
    return None


def update_weights(portfolio, X, sample_weight):
    """Run `partial_fit` on a copy of the estimator, which is discarded if an exception
    is raised."""
    refuse_dask(X, sample_weight)
    table = Returns.of(X, sample_weight, counts=True, all_zero=True)
    if not table.in_memory:
        table.check_finite()
    stream = portfolio._stream
    last_label = None if stream is None else portfolio._last_label
    first, last = np.asarray(table.values[:1]), np.asarray(table.values[-1:])
    if last_label is not None and np.array_equal(first, portfolio._last_row):
        _warn_if_repeated(table.index, last_label)
    portfolio._last_label = table.last_label(last_label)
    portfolio._last_row = last.copy()
    returns, weights = table.values, table.sample_weight
    known = hasattr(portfolio, "n_features_in_")
    validate_data(portfolio, X, reset=not known, skip_check_array=True)
    portfolio._check_parameters()
    if portfolio.benchmark is not None:
        raise ValueError(
            "benchmark cannot be used with partial_fit: use fit, or give returns in "
            "excess of it"
        )
    n_assets, expected = returns.shape[1], portfolio.expected_returns
    if expected is not None:
        expected = table.expected_means(expected)
    penalty = feasible_set_of(portfolio, table.columns)
    task = portfolio._task(returns[:1], None, penalty)
    if stream is None:
        table.warn_of_prices()
        portfolio._weighted = weights is not None
    elif portfolio._weighted != (weights is not None):
        before = "it" if portfolio._weighted else "none"
        raise ValueError(
            "sample_weight must be given with every chunk of a stream or with none, "
            f"got {'none' if weights is None else 'it'} after a first chunk with "
            f"{before}"
        )
    if weights is not None and not weights.any() and not hasattr(portfolio, "weights_"):
        raise ValueError(
            "sample_weight must have a positive entry in the first chunk, got only "
            "zeros"
        )
    by_moments = _goes_by_moments(portfolio, n_assets)
    if stream is not None and isinstance(stream, MomentStream) != by_moments:
        _refuse_another(portfolio)
    if by_moments:
        _by_moments(portfolio, returns, weights, task, expected)
    else:
        what = f"partial_fit of solver={portfolio.solver!r}"
        if expected is not None:
            raise ValueError(
                f"{what} cannot be used with expected_returns, since the mean of all "
                "periods is not known before the last one: use solver='moments', or fit"
            )
        refuse_linear_constraints(penalty, what, "use solver='moments', or fit")
        _by_steps(portfolio, returns, weights, task)
    portfolio._labels = table.columns if table.named else None


def _warn_if_repeated(index, last_label):
    """Warn if the first row has the label of the last row of the chunk before, whose
    returns it has."""
    if index is not None and index[0] == last_label:
        warn(
            f"the first row of X has the label {as_text(last_label)} and the returns "
            "of the last row of the chunk before, and counts again: leave it out if it "
            "is the same period",
            UserWarning,
        )


def _refuse_another(portfolio):
    name = portfolio.recorded()["label"]
    raise ValueError(
        f"solver must stay {name} while its stream goes on, got {portfolio.solver!r}: "
        "begin again with fit or a clone"
    )


# iterative solvers


def _by_steps(portfolio, returns, weights, task):
    problem = partial(
        task.measure.problem,
        risk_aversion=portfolio.risk_aversion,
        risk_measure=portfolio.risk_measure,
        penalty=task.penalty.proximal(),
        preconditioner="variance",
    )
    open_stream = partial(
        StreamingProblem, problem=problem, window=WINDOW, weighted=portfolio._weighted
    )
    solver = portfolio._stepping_solver()
    automatic = isinstance(getattr(solver, "learning_rate", None), str)
    if vars(portfolio).get("stop_reason_") == StopReason.DIVERGED and automatic:
        # a new stream from the best weights, with a new learning rate
        portfolio._stream = None
    # the stream keeps copies of the rows
    for start, rows in blocks(returns, whole=False):
        parts = (rows,)
        if weights is not None:
            p = weights[start : start + len(rows)]
            parts = rows[p > 0], p[p > 0]
        if not len(parts[0]):
            continue
        best = getattr(portfolio, "weights_", None)
        result = portfolio._stream_on(parts, WINDOW, open_stream, x0=best)
        if best is None and portfolio._stream.stream is None:
            warn(
                "CompositionalPortfolio stays at its starting point until about "
                f"{WINDOW} rows have come, which give the scale of the steps. Use fit "
                "for shorter data.",
                ConvergenceWarning,
            )
        if result is not None:
            portfolio.weights_, portfolio.dual_gap_ = result.x, np.nan
        if has_failed(portfolio):
            break


# moments


def _automatic(solver):
    """Whether a stream of this solver is kept as moments, unless there are too many
    assets."""
    return is_word(solver, "auto", "moments")


def _goes_by_moments(portfolio, n_assets):
    """Whether this stream uses moments. Raises ValueError if it needs them and there
    are too many assets."""
    if _automatic(portfolio.solver) and n_assets <= MAX_ASSETS_OF_MOMENTS:
        return True
    needs = [f"half_life={portfolio.half_life!r}"] * (portfolio.half_life is not None)
    needs += ["solver='moments'"] * is_word(portfolio.solver, "moments")
    if needs:
        raise ValueError(
            f"{needs[0]} on a stream keeps moments of at most {MAX_ASSETS_OF_MOMENTS} "
            "assets, with solver='auto' or 'moments'; got "
            f"solver={portfolio.solver!r} and {n_assets} assets"
        )
    return False


def _by_moments(portfolio, returns, weights, task, expected):
    stream, each = portfolio._stream, is_word(portfolio.solver, "moments")
    first = stream is None
    if first:
        stream = _opened(portfolio, task, each)
    elif stream.each != each:
        _refuse_another(portfolio)
    stream = replace(stream, expected=expected)
    before, end = stream.at, stream.n + len(returns)
    for start, rows in blocks(returns, whole=False):
        p = None if weights is None else weights[start : start + len(rows)]
        # with a half-life, periods of weight 0 still count as time
        if p is not None and portfolio.half_life is None:
            rows, p, end = rows[p > 0], p[p > 0], end - int((p == 0).sum())
        stream = stream.plus(rows, p, end)
    _keep(portfolio, stream, returns.dtype)
    if stream.at > before:
        _warn_if_far(portfolio, stream)
    elif first and stream.fit is None:
        warn(
            f"{type(portfolio).__name__} keeps its starting weights until there are "
            f"{stream.least} rows: with fewer, the objective may have no minimum.",
            ConvergenceWarning,
        )


def _opened(portfolio, task, each):
    """The stream before its first row. It starts from the weights of an earlier fit, if
    there was one."""
    n_assets, penalty = task.returns.shape[1], task.penalty
    start = np.asarray(getattr(portfolio, "weights_", np.zeros(n_assets)), float)
    start = projected(penalty, start)
    half_life = np.inf if portfolio.half_life is None else float(portfolio.half_life)
    return MomentStream.of(task, start, half_life, each)


def _keep(portfolio, stream, dtype):
    """Store the results of a stream as fitted attributes."""
    records = list(stream.records)
    if stream.fit is not None and (not records or stream.at > records[-1][0]):
        records.append((stream.at, stream.fit.value))
    w = stream.weights if stream.fit is None else stream.fit.weights
    n, at = stream.n, np.array([row for row, _ in records], int)
    result = SolverResult(
        x=w,
        fun=records[-1][1] if records else np.nan,
        loss_curve=np.array([value for _, value in records]),
        # each row once for g, its Jacobian and f
        ifo=np.append(3 * at[:-1], 3 * n)[: len(at)],
        record_iterations=np.arange(len(at)),
        n_evaluations={"inner": n, "jacobian": n, "outer": n},
        residual=np.nan,
        n_guarded=0,
        state=None,
        **outcome(len(at), StopReason.EXHAUSTED),
    )
    portfolio._keep(Direct("moments"), result)
    portfolio._stream = stream
    portfolio.weights_ = w.astype(dtype, copy=False)
    proved = stream.fit is not None and stream.moments.exact
    portfolio.dual_gap_ = stream.fit.gap if proved else np.nan


def _warn_if_far(portfolio, stream):
    """Warn if the weights do not minimise the approximated objective, or if the
    approximation is poor."""
    if stream.thin or stream.shift > stream.moments.far:
        why = "the weights have moved far since many rows came"
        if stream.thin:
            why = "few rows made up the risk"
        warn(
            f"{type(portfolio).__name__} knows the objective over the rows so far "
            f"roughly only, since {why}: earlier rows are approximated around the "
            "weights of their time. If the market has changed, set half_life=, or fit "
            "again.",
            ConvergenceWarning,
        )
    gap = stream.fit.gap
    if not gap <= 1e-4 * stream.gained:
        warn(
            f"the objective {stream.fit.value:.6g} of {type(portfolio).__name__} may "
            f"be above its minimum over the rows so far by up to {gap:.2g}: some "
            "combination of assets has hardly any risk. Add bounds or a budget.",
            ConvergenceWarning,
        )
