"""The portfolio estimator `CompositionalPortfolio`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sk_stormc.engine import CompositionalSolver
from sk_stormc.fitting.estimator import CompositionalEstimator, only_if
from sk_stormc.fitting.runs import Fit, with_fit
from sk_stormc.portfolio.constraints import (
    IntegerLimits,
    check_objective,
    feasible_set_of,
    warn_of_no_constraint,
)
from sk_stormc.portfolio.exact.ratio import ratio_at
from sk_stormc.portfolio.labels import series_of, with_index_of
from sk_stormc.portfolio.mean_risk import MeanRisk, check_confidence, check_order
from sk_stormc.portfolio.methods import method_of, takes_rounds
from sk_stormc.portfolio.metrics import has_failed
from sk_stormc.portfolio.returns import Returns
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.portfolio.rounds.fit import score_in_blocks
from sk_stormc.portfolio.streaming import streams_returns, update_weights
from sk_stormc.utils.parameters import check_bool, check_choice, check_number
from sk_stormc.utils.types import (
    ArrayLike,
    FloatArray,
    RandomState,
    RiskMeasure,
    SolverName,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CompositionalPortfolio"]


class CompositionalPortfolio(CompositionalEstimator):
    """Portfolio weights that balance expected return against risk.

    The weights w minimise -mean <r_i, w> + risk_aversion * risk(w) + l1 |w|_1 + l2
    |w|_2^2 + transaction costs. The mean and the risk are taken over the history of
    returns r_i. `expected_returns` replaces their means.

    Parameters
    ----------
    solver : str or CompositionalSolver, default="auto"
        "auto" selects the second-order method, "newton", for at most 4096 assets, and
        "storm-c" otherwise. Returns in a file, of a dask collection or of very many
        periods are fitted by rounds: passes over all returns, and exact fits of some
        rows in memory. `n_iter_` then counts rounds. In `partial_fit` it selects sums
        of products of returns, for at most 2000 assets. "newton" is exact: its
        ``dual_gap_`` is a certificate. It is the only method that supports ratios,
        `max_risk`, "cvar" and the risk measures listed after it. "moments" keeps sums
        of products of returns, which determine the variance exactly. Only "newton" and
        "moments" support linear constraints, limits on turnover, gross weight and mean
        return, and benchmarks.
        The others are iterative: "storm-c", which needs no tuning, "storm-c-paper",
        "sarah-c", "civr", "vrsc-pg", "scvr", "scgd", "acc-scgd", "asc-pg",
        "sketchy-storm", and "lbfgs". An instance works too, and
        ``set_params(solver__learning_rate=...)`` works for names and instances; for
        "auto" it sets parameters of "storm-c". Steps are scaled by the inverse
        variances of the assets, so a learning rate has no unit. Only "storm-c-paper"
        uses unscaled steps, as the paper does. "scip" is what "auto" selects with
        `max_assets` or `min_held`: SCIP chooses the assets, and the second-order method
        fits their weights. It needs pyscipopt (``pip install "sk_stormc[integer]"``).
    risk_measure : str, default="variance"
        One of "variance", "semivariance", "entropic", "cvar", "evar", "semideviation",
        "downside", "cdar" and "gini". "variance" is mean (<r_i, w> - u)^2, where u is
        the mean return. "semivariance" is the same for returns below u only. "entropic"
        replaces mean return and risk by (1/lambda) log mean exp(-lambda <r_i, w>),
        which contains both. "cvar" is the mean of the worst losses. "evar" is an upper
        bound of "cvar" from exponential moments. "semideviation" is (mean max(u - <r_i,
        w>, 0)^order)^(1/order), for order 2 the square root of the semivariance.
        "downside" is the same with 0, or the benchmark's return, in place of u. "cdar"
        is the mean of the deepest drawdowns of the path of returns, in the order of the
        periods. "gini" is Gini's mean difference, the mean of |<r_i, w> - <r_j, w>|
        over all pairs of periods, with the pairs i = j. "cvar" and the measures listed
        after it are proportional to the weights, so they need bounds, a budget or `l2`.
    risk_aversion : float, default=1.0
        Weight lambda > 0 of the risk, in the inverse unit of the returns. It has no
        unit for "cvar" and the measures listed after it. ``numpy.inf`` gives the
        portfolio of minimum risk, whatever its return. It needs bounds, a budget or a
        positive `min_return`, because the empty portfolio has no risk. Costs, `l1` and
        `l2` are added to the risk as they are, so that they depend on the unit of the
        returns. "entropic" needs a finite number.
    confidence : float, default=0.95
        Confidence level of "cvar", "evar" and "cdar", which measure the worst fraction
        1 - confidence of the periods.
    order : float, default=2.0
        Order of "semideviation" and "downside": 1, or from 2 to 10. A higher order
        gives large losses more weight.
    objective : {"utility", "ratio"}, default="utility"
        "utility" is the objective above. "ratio" maximises the mean return per unit of
        risk instead: the Sharpe ratio for "variance", mean over semideviation for
        "semivariance", and mean over risk for the others. With "downside" this is the
        Omega ratio minus one for order 1, and the Sortino ratio for order 2. The l1
        norm and the transaction costs are subtracted from the mean return.
        `risk_aversion` is not used.
    max_risk : float, default=None
        Upper bound of the risk. The objective is then the mean return after costs, and
        `risk_aversion` is not used. The bound applies to the standard deviation for
        "variance", to the semideviation for "semivariance", to the tracking error with
        a `benchmark`, and to the measure itself for the others, per period and in the
        unit of the returns.
    min_return : float, default=None
        Lower bound of the mean return before costs, or of the mean excess return with a
        `benchmark`, per period and in the unit of the returns. It needs
        ``risk_aversion=numpy.inf``, the least risk.
    expected_returns : array-like of shape (n_assets,), default=None
        Forecasts of the mean returns of the assets, per period and in the unit of X, to
        which their returns are shifted. `score` uses returns as they are. Labels are
        aligned as for ``constraint``. The mean of a `benchmark` that is a column or
        weights follows from these forecasts. A benchmark of given returns keeps its
        mean, unless it is a Series and there is an entry of its name.
    constraint : None, "long_only" or (low, high), default=None
        "long_only" requires weights >= 0 that sum to one. (low, high) are bounds of the
        weights, each a number or an array of shape (n_assets,). A pandas Series, a dict
        or a frame of one row is aligned with the columns by its labels. Labels that X
        does not have are ignored if others match. Each column needs a label, except for
        a ``collections.defaultdict``, which supplies its default for missing ones.
        Entries of an array are in the order of the columns.
    budget : float, default=None
        Sum of the weights, with bounds or without, or with "long_only", where it
        replaces the sum 1. None means no constraint on the sum.
    max_gross : float, default=None
        Upper bound of the sum of |w_j|. For example, 1.6 with ``budget=1`` allows short
        positions of .3 in total.
    l1 : float, default=0.0
        Weight of an l1 norm. It must be 0 with "long_only", where the norm is constant.
    l2 : float, default=0.0
        Weight of the sum of w_j^2, which spreads the weights. It must be 0 for ratios.
    previous_weights : array-like of shape (n_assets,), default=None
        The weights held at present. None means that nothing is held. Labels are aligned
        as for ``constraint``. The entry of a column that is the `benchmark` counts as
        0: selling what is held of it has no cost, and is no turnover.
    transaction_cost : float or array-like of shape (n_assets,), default=0.0
        Cost of buying or selling a unit of weight, in the unit of the returns of one
        period. The objective contains sum_j transaction_cost_j |w_j -
        previous_weights_j|, a cost in each period of holding. A cost that is paid once
        for each trade, such as ``trading_cost`` of `walk_forward`, is divided by the
        number of periods between two fits. Labels are aligned as for ``constraint``.
    max_turnover : float, default=None
        Upper bound of the sum of |w_j - previous_weights_j|. None means no bound.
    linear_constraints : str, list of str or (A, lower, upper), default=None
        Text such as "equity <= 0.6", "0.1 <= gold + oil <= 0.4" and "tech == 2 *
        bonds", about the weights of columns and the sums of groups. The tuple means
        lower <= A w <= upper, where A has the shape (n_constraints, n_assets) and is
        dense, sparse or a frame with the columns of X. Each limit is a number, an array
        of shape (n_constraints,), or None for no limit.
    groups : mapping, Series, DataFrame or array-like, default=None
        The groups that each asset belongs to: a mapping or a Series from columns of X
        to a name or a list of names, a frame with a row for each asset and a column for
        each kind of group (or the transpose), or an array of shape (n_assets,) or
        (n_kinds, n_assets). Labels may name more assets than X has, or fewer, which
        then belong to no group.
    benchmark : label or array-like, default=None
        The benchmark whose return is subtracted: mean and risk are those of the excess
        return. It is the label of a column of X (its number if X is an array), which
        then has the weight 0, or weights of shape (n_assets,), or returns of shape
        (n_periods,). A Series of returns is aligned with the index of X, and may have
        more periods than X. A Series labelled by the columns contains weights. If
        n_assets equals n_periods, weights must have labels.
    max_assets : int, default=None
        Maximum number of weights other than 0. None means no limit. The risk measures
        "entropic" and "evar", orders above 2, returns in files and `partial_fit`
        support neither this nor `min_held`.
    min_held : float or array-like of shape (n_assets,), default=None
        Smallest weight other than 0, in absolute value: a weight is 0, at least this,
        or at most minus this. Labels are aligned as for ``constraint``. None means no
        limit.
    half_life : float, default=None
        Number of periods after which the weight of a period halves. The weight is 0.5
        ** (age / half_life) times its ``sample_weight``, where age is the number of
        later periods. The effective sample size is about 2.9 half-lives. None gives all
        periods the same weight.
    time_limit : float, default=60.0
        Seconds after which a fit with `max_assets` or `min_held` returns the best
        portfolio so far and warns of its gap. A gap of `tol` (default 1e-4) relative to
        the spread of the objective ends it before.
    warm_start : bool, default=False
        Whether an iterative solver starts from ``weights_`` of the last fit. While the
        other parameters stay the same, tol is relative to the initialization of the
        first of these fits, so a fit that starts near the optimum stops early. "scip"
        starts from the assets of the last portfolio, if they are better than its own
        start. "newton" and "moments" do not use it.

    Attributes
    ----------
    weights_ : ndarray of shape (n_assets,)
        The weights of the assets. They are float32 for float32 returns.
    loss_curve_ : ndarray of shape (n_records,)
        The objective at each record, including the l1 norm and the transaction costs.
    dual_gap_ : float
        An upper bound of the optimality gap, the objective minus its minimum, computed
        on all periods. With "newton" it holds for weights of any size, and is infinite
        if nothing proves a bound, which alone is no warning. If bounds and budget do
        not limit the weights, ratios, rounds and iterative solvers compare with
        portfolios whose weights are at most three times the largest weight, and integer
        limits with ten times. It is infinite for a ratio or a `max_risk` that ended
        early, except with integer limits. After `partial_fit` with moments it is
        computed for the variance only, on the periods that ``weights_`` are based on,
        and is NaN for the other measures. Streams of iterative solvers do not set it.

    See Also
    --------
    sharpe_ratio : A scorer that can compare different values of risk_aversion, which
        `score` cannot.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional
    Optimization".

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(500, 4, mean=0.1, random_state=0)
    >>> portfolio = CompositionalPortfolio(constraint="long_only", random_state=0).fit(
    ...     returns
    ... )
    >>> print(round(portfolio.weights_.sum(), 10))
    1.0
    """

    own_solvers: tuple[str, ...] = ("auto", "newton", "moments", "scip")
    checks = {
        "warm_start": check_bool,
        "risk_measure": partial(check_choice, choices=MEASURES),
        "confidence": check_confidence,
        "order": check_order,
        "objective": partial(check_choice, choices=("utility", "ratio")),
        "max_risk": partial(check_number, low=0, words=(None,)),
        "min_return": partial(check_number, words=(None,)),
        "max_gross": partial(check_number, low=0, words=(None,)),
        "l2": partial(check_number, low=0),
        "time_limit": partial(check_number, low=0, inclusive=False),
        "half_life": partial(check_number, low=0, inclusive=False, words=(None,)),
    }
    weights_: FloatArray
    dual_gap_: float

    def __init__(
        self,
        solver: Literal["auto", "newton", "moments", "scip"]
        | SolverName
        | CompositionalSolver = "auto",
        *,
        risk_measure: RiskMeasure = "variance",
        risk_aversion: float = 1.0,
        confidence: float = 0.95,
        order: float = 2.0,
        objective: Literal["utility", "ratio"] = "utility",
        max_risk: float | None = None,
        min_return: float | None = None,
        expected_returns: Any = None,
        constraint: Any = None,
        budget: float | None = None,
        max_gross: float | None = None,
        l1: float = 0.0,
        l2: float = 0.0,
        previous_weights: ArrayLike | None = None,
        transaction_cost: float | ArrayLike = 0.0,
        max_turnover: float | None = None,
        linear_constraints: Any = None,
        groups: Any = None,
        benchmark: Any = None,
        max_assets: int | None = None,
        min_held: float | ArrayLike | None = None,
        half_life: float | None = None,
        time_limit: float = 60.0,
        max_iter: int | None = None,
        tol: float | None = None,
        warm_start: bool = False,
        verbose: int | bool = 0,
        random_state: RandomState = None,
    ) -> None:
        self.solver = solver
        self.risk_measure = risk_measure
        self.risk_aversion = risk_aversion
        self.confidence = confidence
        self.order = order
        self.objective = objective
        self.max_risk = max_risk
        self.min_return = min_return
        self.expected_returns = expected_returns
        self.constraint = constraint
        self.budget = budget
        self.max_gross = max_gross
        self.l1 = l1
        self.l2 = l2
        self.previous_weights = previous_weights
        self.transaction_cost = transaction_cost
        self.max_turnover = max_turnover
        self.linear_constraints = linear_constraints
        self.groups = groups
        self.benchmark = benchmark
        self.max_assets = max_assets
        self.min_held = min_held
        self.half_life = half_life
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array-like of shape (n_periods, n_assets)
            Returns in any unit, for at least two periods, from the oldest to the
            latest. A C-contiguous memmap of native float32 or float64 is never loaded
            into memory as a whole, except for "cdar", and neither is a dask array or
            data frame.
        y : Ignored
        sample_weight : array-like of shape (n_periods,), default=None
            Weights of the periods, in the order of X. They may be a dask collection if
            X is one. A weight of k is the same as k copies of the period. With "cdar"
            the weights count in the means, but the path of returns contains each period
            once.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of its range, returns are not finite, or sample
            weights are negative or all zero. Also if the dates or numbers in the index
            of X descend, or if they are unordered or cannot be read and the order
            matters: with `half_life`, and for "cdar". If limits contradict each other,
            or no portfolio with integer limits was found within `time_limit`. The
            attributes of an earlier fit are then unchanged.
        KeyboardInterrupt
            On Ctrl-C. The fitted attributes hold the best result so far, if at least
            one iteration was made.

        Warns
        -----
        ConvergenceWarning
            If the budget or `time_limit` was used up before tol was met, and in the
            cases that `minimize` lists.
        UserWarning
            If X looks like prices, or logarithms of prices. Also, once, if nothing but
            `risk_aversion` limits the weights.
        """
        return self._fit(X, y, sample_weight)

    @with_fit
    def _fit(self, X, y=None, sample_weight=None, before=None):
        """`fit`, or `resume` of the fit whose progress is ``before``."""
        solver, measure = self._make_solver(), self._measure()
        table = Returns.of(
            X,
            sample_weight,
            least=2,
            counts=measure.ordered or self.half_life is not None,
            mapped=not measure.ordered,
        )
        limits = IntegerLimits.of(self, table.columns)
        in_blocks = takes_rounds(solver, measure, table, limits)
        feasible = feasible_set_of(self, table.columns)
        given = self.benchmark, self.expected_returns, self.half_life
        task = self._task(*table.for_fit(in_blocks, *given), feasible)
        method = method_of(self, solver, task, limits)
        fit = Fit.of_data(
            self, method.solver, X, y, before, sample_weight=sample_weight
        )
        result = method.run(fit)
        # stores the names and the number of the assets
        validate_data(self, table.named_columns, skip_check_array=True)
        weights = result.x[: feasible.n_assets]
        self.weights_ = weights.astype(table.dtype, copy=False)
        self.dual_gap_ = result.gap
        self._labels = table.columns if table.named else None
        self._keep(method.solver, result, fit)
        fit.end()
        method.conclude(result)
        if feasible.proximal() is None and self.max_risk is None:
            warn_of_no_constraint()
        return self

    @only_if(streams_returns)
    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the weights with the next periods of a stream of returns.

        Periods are used in order, each once. The result does not depend on how they are
        divided into chunks.

        "auto" and "moments" keep sums of products of returns (moments), of at most 2000
        assets. These determine the variance exactly. For "semivariance" and "entropic"
        they give a second-order approximation of the objective around the weights held
        when a period arrived. At least the first 4096 periods are stored unchanged, and
        the weights are those of `fit`. "auto" updates the weights whenever the number
        of periods has grown by about 1/128, "moments" at the end of each chunk.

        Iterative solvers draw batches of their own. They start after about 600 periods.
        The first 512 of these determine the scale of the steps. Their ``loss_curve_``
        is the objective over the 512 periods before each record. With moments it is the
        objective over all periods so far.

        `max_iter` and `tol` are not used. After `fit` a stream starts from the fitted
        weights. Parameters are read when the stream starts, except
        `expected_returns`: with moments, each update of the weights uses its present
        value, and with iterative solvers it raises a ValueError. ``stop_reason_`` is
        "exhausted".

        Parameters
        ----------
        X : array-like of shape (n_periods, n_assets)
            One period or more.
        y : Ignored
        sample_weight : array-like of shape (n_periods,), default=None
            Weights of the periods, on the same scale for all chunks. They must be given
            with every chunk or with none. An iterative solver divides them by the mean
            weight so far. Periods of weight 0 are left out.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As for `fit`, if the index of X is unordered or does not continue that of
            the last chunk, and after a run that ended as "non_finite", or as "diverged"
            with a learning rate that you set.
        KeyboardInterrupt
            On Ctrl-C. As after any exception, the estimator is restored to its state
            before the chunk, and the chunk can be passed again.
        AttributeError
            For a solver that needs all periods ("newton", "lbfgs", checkpoints without
            a size), for "cvar" and the measures listed after it, and with `max_risk`,
            `min_return`, or integer limits.

        Warns
        -----
        UserWarning
            If the first period of a chunk has the date and the returns of the last one
            of the chunk before, and so counts twice.
        ConvergenceWarning
            At the first chunk, if there are too few periods to start. With moments: if
            the objective seems to have no minimum, or if the weights have changed so
            much that the objective over earlier periods is only a rough approximation.
            With iterative solvers: if the objective over the last 512 periods is higher
            than at the initialization. The steps are then shortened, and the run
            continues from its best point. If that fails three times, ``stop_reason_``
            is "diverged", and the next chunk begins a new run at the best weights. Also
            if the weights oscillate, so that the objective of the last records is
            higher than at the initialization on average. Smaller differences than the
            noise of the periods explains raise no warning.

        Examples
        --------
        >>> from sk_stormc import CompositionalPortfolio
        >>> from sk_stormc.datasets import make_gaussian_returns
        >>> portfolio = CompositionalPortfolio(constraint="long_only", random_state=0)
        >>> for month in range(60):
        ...     portfolio = portfolio.partial_fit(
        ...         make_gaussian_returns(21, 4, mean=0.1, random_state=month)
        ...     )
        >>> portfolio.stop_reason_, portfolio.n_evaluations_["outer"]
        ('exhausted', 1260)
        """
        return self._at_once(lambda new: update_weights(new, X, sample_weight))

    def predict(self, X: ArrayLike) -> FloatArray | pd.Series:
        """Return the portfolio's return in each period.

        Parameters
        ----------
        X : array-like of shape (n_periods, n_assets)

        Returns
        -------
        ndarray or pandas.Series of shape (n_periods,)
            A Series with the index of X for a pandas DataFrame, and a lazy array for a
            dask collection.
        """
        check_is_fitted(self)
        return with_index_of(X, self._new_returns(X).returns_of(self.weights_))

    def score(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the utility on the returns of X: minus the objective without l1 norm
        and transaction costs.

        Higher is better. With ``objective="ratio"`` the score is the ratio, and with
        ``max_risk`` it is the mean return. Otherwise it uses the estimator's own
        risk_measure and risk_aversion, so it can compare solvers and constraints, but
        not values of risk_aversion; use `sharpe_ratio` for those. With a benchmark it
        uses excess returns. It does not use `half_life`. The score of a fit that
        overflowed or diverged is -inf, because its weights are still close to the
        initialization, whose utility may be high by chance.

        Parameters
        ----------
        X : array-like of shape (n_periods, n_assets)
        y : Ignored
        sample_weight : array-like of shape (n_periods,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if has_failed(self):
            return -np.inf
        ordered = MEASURES[self.risk_measure].ordered
        table, weights = self._new_returns(X, sample_weight, ordered), self.weights_
        if self.benchmark is not None:
            weights = np.append(weights, weights.dtype.type(-1))
        if table.in_dask or not (table.in_memory or self.benchmark is None):
            rows = table.in_blocks(self.benchmark)
            return score_in_blocks(self, self._task(rows, None), weights)
        task = self._task(*table.excess(self.benchmark))
        if self.max_risk is not None:
            return float(task.mean @ weights)
        if self.objective == "ratio":
            return ratio_at(task, weights)
        return -task.value(weights)

    def named_weights(self) -> pd.Series:
        """Return ``weights_`` as a Series with the labels of the columns.

        Returns
        -------
        pandas.Series

        Raises
        ------
        ValueError
            If the columns of the returns have no labels.
        ImportError
            If pandas is not installed.
        """
        check_is_fitted(self)
        return series_of(self)

    def _new_returns(self, X, sample_weight=None, ordered=False):
        """The `Returns` of the assets of the fit."""
        table = Returns.of(X, sample_weight, counts=ordered or None, mapped=not ordered)
        validate_data(self, table.named_columns, reset=False, skip_check_array=True)
        return table

    def _measure(self):
        """The risk measure."""
        return MEASURES[self.risk_measure].of(self)

    def _task(self, returns, sample_weight, feasible=None):
        """The objective as data, over a `FeasibleSet`."""
        measure, aversion = self._measure(), self.risk_aversion
        task = MeanRisk.of(returns, measure, aversion, sample_weight, feasible)
        if feasible is None or self.min_return is None:
            return task
        limited = feasible.with_min_return(self.min_return, task.mean)
        return replace(task, penalty=limited)

    def _check_parameters(self):
        super()._check_parameters()
        check_objective(self)
