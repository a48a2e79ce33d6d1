"""Values of states from logged transitions: policy evaluation with scikit-learn's
interface."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self

from sklearn.base import RegressorMixin

from sk_stormc.engine import CompositionalSolver
from sk_stormc.fitting.estimator import only_if, streams
from sk_stormc.fitting.runs import with_fit
from sk_stormc.utils.blocks import refuse_dask
from sk_stormc.utils.parameters import check_choice, check_number
from sk_stormc.utils.types import (
    ArrayLike,
    Features,
    FloatArray,
    RandomState,
    SolverName,
)
from sk_stormc.values.linear_estimator import LinearEstimator
from sk_stormc.values.reading.transitions import LogColumns, check_ratios
from sk_stormc.values.state_fits import fit_states
from sk_stormc.values.streams.partial_fit import continue_stream


class BellmanValueEstimator(RegressorMixin, LinearEstimator):
    """State values V(s) of the policy that generated the data, linear in features.

    The value of a state s with features phi(s) is V(s) = <phi(s), coef_> + intercept_.
    A row of the data is a transition: X contains the state, y the reward and next_X the
    successor.

    Parameters
    ----------
    gamma : float, default=0.95
        Discount factor in [0, 1]. A factor of 1 requires that all episodes end; for
        streams it is supported only by "lstd".
    solver : str or CompositionalSolver, default="auto"
        "auto" selects "lstd" for at most 2000 features, and "storm-c" for more. The
        intercept counts as a feature, and a feature that is 0 in all rows does not
        count. "lstd" computes the exact minimiser of the chosen objective by least
        squares, in `fit` and in `partial_fit`. The others are for more features and for
        comparisons: "storm-c", "storm-c-paper", "sarah-c", "civr", "vrsc-pg", "scvr",
        "scgd", "acc-scgd", "asc-pg", "lbfgs", "sketchy-storm", or an instance.
    objective : {"auto", "bellman", "projected"}, default="auto"
        "bellman" is the mean squared Bellman residual. It estimates the expectation
        over successors by grouping the transitions of a state, and is biased if states
        do not repeat. "projected" is the mean squared projected Bellman error, whose
        minimiser is LSTD's solution. It is meant for states that never repeat. "auto"
        selects "bellman" if at least half of the transitions are from states that occur
        more than once, and if the features distinguish the states or the bias of
        "bellman" is at most its standard error. Both are estimated from the variance
        within states. ``objective_`` and ``objective_reason_`` store the choice and its
        reason.
    features : transformer, default=None
        Transformer that is fitted on X and applied to both X and next_X. None uses X
        itself. The transformer gets X as it is, with text, categories or missing
        values, or sparse, and must return finite numbers. Its parameters are
        ``features__...``. The Notes describe its use with a Pipeline.
    fit_intercept : bool, default=True
        Whether there is an intercept. Without one, a small Bellman residual does not
        imply accurate values.
    alpha : float, default=0.0
        Ridge penalty. The intercept is not penalised. With "projected" it is added to
        the diagonals of A and C, the matrices of LSTD (means over transitions). With
        "bellman" it is the weight of |coef_|^2, which is added to the mean squared
        Bellman error. A constant error of all values contributes only (1 - gamma)^2
        times its square to this error, so alpha has to be far smaller with "bellman".
    trace_decay : float, default=0.0
        The lambda of LSTD(lambda), in [0, 1], for "auto" and "lstd" with the
        "projected" objective. Eligibility traces then credit an error to the earlier
        states of its episode, with a factor of lambda at each step. A lambda of 1 gives
        regression on the discounted returns. Rows must be in order. A trace ends with
        its episode, and at a row whose next_X is not the X of the next row, up to
        rounding to float32 or to six decimals. With ``time``, it ends at a gap.
    half_life : float or None, default=None
        Number of later rows after which the weight of a transition halves, in `fit` and
        in `partial_fit`, for environments that change with time. The effective sample
        size is about 2.9 half-lives. Rows must be in chronological order, or have a
        ``time`` that does not start again in each episode. Each transition counts as a
        row, whatever its weight. None gives all transitions the same weight.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the transformed features. The coefficient of a feature that is 0
        in all rows of X is 0, because the data do not determine it.
    intercept_ : float
        The intercept. It is 0 with ``fit_intercept=False``.
    objective_ : {"bellman", "projected"}
        The objective that was minimised.
    objective_reason_ : str
        Why this objective was chosen.
    n_states_ : int
        Number of distinct states in X. It is set neither by `partial_fit` nor for rows
        in blocks.
    features_ : transformer or None
        The fitted transformer.
    loss_curve_ : ndarray of shape (n_records,)
        The objective at each record. "lstd" has two records: at coefficients of 0, and
        at the solution.
    ifo_ : ndarray of shape (n_records,)
        Number of oracle calls (IFO, Lemma 3.1) up to each record. ``ifo_[-1]`` is the
        total. "lstd" counts as one pass over the data.
    solver_ : CompositionalSolver or "lstd"
        The solver that was run, never "auto".
    rank_ : int
        Only for "lstd": the numerical rank of the system of equations. It can be less
        than the number of features, as for indicators with an intercept. The solution
        is then the minimum-norm solution, after features are divided by their largest
        absolute value.
    condition_number_ : float
        Only for "lstd": the condition number, the largest singular value over the
        smallest one within the rank. The singular values are those of the equations
        with features scaled to equal norms. For values of at least 1e10, a
        ConvergenceWarning advises a positive alpha.

    See Also
    --------
    sk_stormc.datasets.MarkovRewardProcess : The exact values of a given model.

    Notes
    -----
    The value after the end of an episode is 0 and is not learnt. For a terminal state,
    `predict` returns the linear function of its features, which is meaningless. For
    indicators it is ``intercept_``.

    A Pipeline transforms X but not next_X, so the two disagree. They agree if the
    transformer is passed as ``features``, or if ``time`` replaces next_X. The
    Pipeline's own ``transform_input=["next_X"]``, with metadata routing enabled, works
    in its `fit`. As of scikit-learn 1.9 it does not work in its `score`, and hence not
    in a GridSearchCV.

    Without next_X, the last row of an episode that was cut off has no successor, nor
    has a row before a gap. Such rows are dropped. Rows that end their episodes are
    known at every step, and would count too much beside them. `fit` and `score`
    therefore multiply the weights of the terminal rows of a step by the fraction of the
    other rows of this step whose successors are known: the weights of censored data.
    Values and their intervals are then right if it depends on the step, and not on the
    state, where episodes are cut off. If this is not so, pass next_X.

    `fit` sums dask arrays and data frames by their partitions, on the workers of a
    cluster if there is one, and memmaps by blocks of rows, if next_X is given. The
    objective of rows in blocks is "projected". Without next_X, an episode must lie
    within a partition. ``features`` is fitted on a sample of at most 131,072 rows, and
    intervals use groups of episodes if there are very many (more than 2^24 /
    n_features). Solvers other than "lstd", "bellman", ``trace_decay`` and callbacks
    need rows in memory. Memmaps are read into memory for these, for ``features``, and
    if states repeat.

    Up to a few thousand features "lstd" is faster than every iterative method. It is
    also accurate for nearly collinear features, such as many radial basis functions,
    for which the other solvers are not. Up to 2000 features they are preconditioned by
    the inverse Hessian, and "storm-c" uses full batches, so that its iterations are
    those of Newton's method. Set its ``batch_size`` for stochastic iterations.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional
    Optimization" (its part on reinforcement learning); Bradtke & Barto, "Linear
    least-squares algorithms for temporal difference learning", 1996; Yu, "Convergence
    of least squares temporal difference methods under general conditions", 2010 (ratios
    in traces).

    Examples
    --------
    A walk moves from state 0 to state 1 and then ends, with a reward of 1 for each
    step:

    >>> import numpy as np
    >>> from sk_stormc import BellmanValueEstimator
    >>> X, next_X = (
    ...     np.array([[1.0, 0.0], [0.0, 1.0]]),
    ...     np.array([[0.0, 1.0], [0.0, 0.0]]),
    ... )
    >>> value = BellmanValueEstimator(gamma=0.5, fit_intercept=False)
    >>> value.fit(X, [1.0, 1.0], next_X=next_X, terminal=[False, True]).predict(
    ...     X
    ... ).round(4)
    array([1.5, 1. ])
    """

    checks = {
        "objective": partial(check_choice, choices=("auto", "bellman", "projected")),
        "trace_decay": partial(check_number, low=0, high=1),
        "half_life": partial(check_number, low=0, inclusive=False, words=(None,)),
    }
    coef_: FloatArray
    intercept_: float

    def __init__(
        self,
        gamma: float = 0.95,
        solver: Literal["auto", "lstd"] | SolverName | CompositionalSolver = "auto",
        *,
        objective: Literal["auto", "bellman", "projected"] = "auto",
        features: Any = None,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        trace_decay: float = 0.0,
        half_life: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        verbose: int | bool = 0,
        random_state: RandomState = None,
    ) -> None:
        self.gamma = gamma
        self.solver = solver
        self.objective = objective
        self.features = features
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.trace_decay = trace_decay
        self.half_life = half_life
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # minus a mean squared error
        return tags

    def fit(
        self,
        X: Features,
        y: ArrayLike,
        *,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        importance_ratio: ArrayLike | None = None,
    ) -> Self:
        """Fit the values of states.

        Parameters
        ----------
        X : array-like of shape (n_transitions, n_features)
            The states before the transitions. A dask collection or a memmap is summed
            by blocks of rows.
        y : array-like of shape (n_transitions,)
            The rewards of the transitions.
        next_X : array-like of shape (n_transitions, n_features), default=None
            The successor states, with the columns of X. Rows of terminal transitions
            are ignored.
        terminal : array-like of shape (n_transitions,), default=None
            Whether the episode ends with the transition, as booleans or as 0 and 1:
            Gymnasium's ``terminated``, never ``truncated``. None means that no episode
            ends.
        time : array-like of shape (n_transitions,), default=None
            An alternative to next_X: the successor of a row is the row whose time is
            larger by one step. Whole numbers, whose step is 1, or dates, whose step is
            the smallest difference. Leave a gap between episodes, or pass ``episode``.
            Rows that are not terminal and have no successor are dropped; see the Notes.
        episode : array-like of shape (n_transitions,), default=None
            A label of each row's episode: numbers, strings or anything that can be
            compared. Traces and successors stay within an episode, and ``time`` may
            start again in each. Without next_X and time, the rows of an episode must be
            in order, and the next row is the successor. Rows of several episodes may
            alternate.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the transitions. A weight of k is the same as k copies of the
            transition, except that objective="auto" counts each row of positive weight
            as one visit.
        importance_ratio : array-like of shape (n_transitions,), default=None
            For off-policy evaluation: the probability of the action under the target
            policy, divided by that under the behaviour policy. It is multiplied by
            ``sample_weight``. With ``trace_decay`` the traces are also multiplied by
            it, from each step to the next (Yu 2010). None means ratios of 1.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of its range, values are not finite, shapes or columns
            disagree, ``terminal`` has other values than booleans, 0 and 1, times are
            neither whole numbers nor dates, or not distinct, successors are missing for
            all rows that are not terminal, or gamma is 1 and episodes do not end from
            every state. The attributes of an earlier fit are then unchanged.

        Warns
        -----
        UserWarning
            If none of next_X, terminal, time and episode is given, because each row is
            then an episode of one step. If episode is given, or time has gaps, and
            terminal is not given, because all episodes then count as cut off. If most
            successors are far outside the range of X in a column, or have another scale
            or other values than X. If X is one column of repeated integers, which look
            like numbers of states. If successors have features that no row of X has. If
            the values do not exist, because features grow faster from step to step than
            ``gamma`` discounts them. If importance ratios are far from 1 on average, or
            their effective sample size is only a few rows. If ``trace_decay`` is set
            and hardly any row is the successor of the row before it.
        """
        return self._fit(
            X, y, next_X=next_X, terminal=terminal, time=time, episode=episode,
            sample_weight=sample_weight,
            importance_ratio=importance_ratio,
        )  # fmt: skip

    @with_fit
    def _fit(self, X, y, *, before=None, **log_columns):
        """`fit`, or `resume` of the fit whose progress is ``before``."""
        columns = LogColumns(**log_columns)
        columns.check_labels(X, y)
        return fit_states(self, X, y, columns, before)

    @only_if(streams)
    def partial_fit(
        self,
        X: Features,
        y: ArrayLike,
        *,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        importance_ratio: ArrayLike | None = None,
    ) -> Self:
        """Update the values with the next transitions of a stream.

        `partial_fit` minimises the "projected" objective over all transitions so far.
        ``features`` is fitted on the first chunk. `gamma`, `half_life` and
        `fit_intercept` must not change during a stream. solver="auto" selects "lstd"
        for at most 2000 features, including the intercept, and "storm-c" for more.

        With "lstd" the solution after every call is that of `fit` with
        objective="projected" on all rows of the stream, for any division into chunks,
        up to rounding times ``condition_number_``. It stores sums in four matrices of
        n_features x n_features numbers (128 MB for 2000 features; at most 4000 are
        allowed). Each call solves a system of equations in n_features^3 operations, so
        chunks should have at least n_features rows. Rows of an earlier `fit` do not
        count, but its fitted ``features`` are kept. ``alpha`` may change between calls.

        The other solvers use each transition once, in order, and keep the estimates of
        g, its Jacobian and F between calls. Transitions are divided into batches (of
        n_features / 2 transitions, but at least 32, unless ``batch_size`` is set) that
        do not depend on the chunks. Transitions that do not fill a batch are kept for
        the next call. For a stream shorter than 512 transitions, or than 10 n_features,
        the result is the exact solution of its moments, from which the run starts.
        `max_iter` and `tol` are not used. After `fit` a stream starts from the fitted
        values. ``alpha`` must not change. Moments of the transitions are stored here
        too, so "storm-c" needs no less memory than "lstd". Its iterations are faster
        for chunks of few rows with many features.

        Parameters
        ----------
        X, y, next_X, terminal
            As for `fit`. Without next_X, terminal rows are not weighted as in `fit` if
            episodes are cut off.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the transitions, on the same scale for all chunks. Transitions of
            weight 0 are left out. None means weights of 1.
        importance_ratio : array-like of shape (n_transitions,), default=None
            As for `fit`.
        time : array-like of shape (n_transitions,), default=None
            As for `fit`, but whole numbers, and increasing. The last row is kept until
            its successor arrives in the next chunk.
        episode : array-like of shape (n_transitions,), default=None
            As for `fit`, in all calls of a stream or in none. Rows of several episodes
            may alternate. The last row of each episode is kept until its successor
            arrives in the next chunk. An episode without a row in the next chunk has
            ended.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As for `fit`; for objective="bellman", which groups all transitions of a
            state; after a run that ended as "non_finite" or "diverged"; for more than
            4000 features with "lstd"; and if the solver, `gamma`, `alpha` (except for
            "lstd"), `half_life`, `fit_intercept` or `trace_decay` changes during a
            stream.
        KeyboardInterrupt
            On Ctrl-C. As after any exception, the estimator is restored to its state
            before the chunk, and the chunk can be passed again.
        AttributeError
            For a solver that needs all transitions ("lbfgs", checkpoints without a
            size).

        Warns
        -----
        UserWarning
            As for `fit`, and if more than 1 % of the rows that are not terminal have no
            successor, although others are terminal.
        ConvergenceWarning
            If the values differ from the solution of the transitions so far by more
            than sampling noise explains.

        Examples
        --------
        >>> from sk_stormc import BellmanValueEstimator
        >>> from sk_stormc.datasets import make_bellman_problem
        >>> model = make_bellman_problem(
        ...     n_states=10, n_features=None, gamma=0.8, random_state=0
        ... )
        >>> value = BellmanValueEstimator(gamma=0.8)
        >>> for day in range(20):
        ...     log = model.transitions(1000, random_state=day)
        ...     value = value.partial_fit(
        ...         log.X, log.y, next_X=log.next_X, terminal=log.terminal
        ...     )
        >>> bool(abs(value.predict(log.X) - log.X @ model.exact_value()).max() < 0.2)
        True
        """
        self._check_parameters()
        if self.objective == "bellman":
            raise ValueError(
                "objective must be 'auto' or 'projected' for partial_fit, got 'bellman'"
            )
        log_columns = LogColumns(
            next_X, terminal, time, episode, sample_weight, importance_ratio
        )
        refuse_dask(X, y, *log_columns)
        log_columns.check_labels(X, y)
        return self._at_once(lambda new: continue_stream(new, X, y, log_columns))

    def td_error(
        self,
        X: Features,
        y: ArrayLike,
        *,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the temporal-difference errors y + gamma V(next_X) - V(X); V(next_X)
        is 0 for terminal transitions.

        Parameters
        ----------
        X, y, next_X, terminal, time
            As for `fit`. Without any of next_X, terminal, time and episode, every
            transition is treated as terminal, which is an error if `fit` was given one
            of them.
        episode : array-like of shape (n_transitions,), default=None
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows that are not terminal and have no successor, which is possible
            only with ``time``.

        Raises
        ------
        ValueError
            As for `fit`, and if successors are missing.
        """
        return self._errors(X, y, LogColumns(next_X, terminal, time, episode))[0]

    def score(
        self,
        X: Features,
        y: ArrayLike,
        *,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        importance_ratio: ArrayLike | None = None,
    ) -> float:
        """Return minus the mean squared temporal-difference error: higher is better.

        The score can compare features and solvers on the same transitions, but not
        values of gamma. If transitions are random, the error includes their variance.

        Parameters
        ----------
        X, y, next_X, terminal, time, episode
            As for `td_error`. Rows that are not terminal and have no successor are left
            out, with terminal rows of the same step in proportion, as in `fit`.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the squared errors.
        importance_ratio : array-like of shape (n_transitions,), default=None
            As for `fit`. The mean is then an estimate under the target policy.

        Returns
        -------
        float
        """
        columns = next_X, terminal, time, episode, sample_weight, importance_ratio
        errors = self._errors(X, y, LogColumns(*columns))
        ratios = check_ratios(importance_ratio, len(errors[0]))
        return self._score(errors, sample_weight, ratios)

    def _check_parameters(self):
        super()._check_parameters()
        if self.trace_decay and not self.solves_itself():
            raise ValueError(
                "trace_decay must be 0 unless solver is 'auto' or 'lstd', got "
                f"{self.trace_decay} with solver={self.solver!r}"
            )
        if self.trace_decay and self.objective == "bellman":
            raise ValueError(
                "trace_decay must be 0 with objective='bellman', got "
                f"{self.trace_decay}"
            )
