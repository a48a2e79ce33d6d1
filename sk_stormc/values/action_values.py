"""Values of actions from logged transitions: LSTDQ for a given policy, LSPI for the
optimal policy."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sk_stormc.engine import CompositionalSolver
from sk_stormc.fitting.estimator import only_if
from sk_stormc.fitting.runs import Fit, with_fit
from sk_stormc.solvers import StopReason
from sk_stormc.utils.blocks import is_dask, map_lazily, refuse_dask
from sk_stormc.utils.types import (
    Array,
    ArrayLike,
    Features,
    FloatArray,
    RandomState,
    SolverName,
)
from sk_stormc.utils.warnings import warn
from sk_stormc.values.linear_estimator import (
    LinearEstimator,
    check_columns,
    notify_of,
)
from sk_stormc.values.reading.actions import (
    check_actions,
    check_policy,
    chosen,
    numbers_of,
    warn_of_unknown,
)
from sk_stormc.values.reading.log_warnings import warn_of_no_information
from sk_stormc.values.reading.states import checked_states
from sk_stormc.values.reading.transitions import LogColumns
from sk_stormc.values.streams.partial_fit import continue_stream, streams_actions
from sk_stormc.values.sums.action_blocks import pairs
from sk_stormc.values.sums.least_squares import of_columns
from sk_stormc.values.sums.log_blocks import LogBlocks, LogInMemory, reads_blocks
from sk_stormc.values.sums.lspi import (
    ActionSums,
    best_actions,
    iterate_policies,
    unknown_actions,
    warn_if_not_converged,
)
from sk_stormc.values.sums.lstd import LSTD, attributes_of, check_products
from sk_stormc.values.sums.problems import LARGEST_HESSIAN

ONE_ACTION = "no action given: all rows count as one action, 0"


class ActionValueEstimator(LinearEstimator):
    """Action values Q(s, a), linear in features, of a given policy or of the optimal
    policy.

    Q(s, a) = <phi(s), coef_[a]> + intercept_[a] is the expected sum of discounted
    rewards after action a in state s, if the policy is followed afterwards. A row of
    the data is a transition: X contains the state, ``action`` the action, y the reward
    and next_X the successor. The behaviour policy that generated the log may be any
    policy that tries all actions. Neither its probabilities nor importance ratios are
    needed.

    Parameters
    ----------
    policy : "greedy", callable or array-like, default="greedy"
        The policy to evaluate. "greedy" approximates the optimal policy by
        least-squares policy iteration (LSPI): it alternates between evaluating a policy
        and replacing it with the policy that is greedy for its values, until the policy
        does not change. If policies form a cycle, which approximate values can cause,
        LSPI restarts from the policy that always takes the first action. In a second
        cycle it continues with a mixture of the cycle's policies. A callable receives
        rows of next_X and returns an action for each, or probabilities of shape
        (n_rows, n_actions) in the order of ``actions_``. An array is for states that
        are numbers (X has one column) or indicators (one-hot): actions of shape
        (n_states,), or probabilities of shape (n_states, n_actions). `get_params`
        returns the parameter; until version 0.6 the attribute ``policy`` is a
        deprecated method.
    gamma : float, default=0.95
        Discount factor in [0, 1]. A factor of 1 requires that all episodes end.
    solver : str or CompositionalSolver, default="auto"
        "auto" and "lstd" solve the equations of LSTDQ. For more than 500 features of
        all actions together, including intercepts, they do so by blocks of actions; see
        the Notes. With a given policy all other solvers of `BellmanValueEstimator` are
        supported.
    features : transformer, default=None
        As for `BellmanValueEstimator`. Each action has its own coefficients for all
        features.
    fit_intercept : bool, default=True
        Whether each action has an intercept.
    alpha : float, default=0.0
        Ridge of LSTDQ: the solution is that of (A + alpha I) w = b. Intercepts are not
        penalised.
    max_iter : int, default=None
        With "greedy" the maximum number of policies that are evaluated; None means 50.
        Otherwise it is passed to the solver.
    tol : float, default=None
        Passed to the solver. None means the default of the solver. Neither "greedy" nor
        "lstd" uses it.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
        The actions, sorted.
    coef_ : ndarray of shape (n_actions, n_features)
        Coefficients of the transformed features. A coefficient is 0 if its feature is 0
        in all rows with the action.
    intercept_ : ndarray of shape (n_actions,)
        The intercepts. They are 0 with ``fit_intercept=False``.
    policy_changes_ : ndarray of shape (n_iter_,)
        Only for "greedy": for each policy, the fraction of successors for which the
        greedy action for its values differs from the action of the policy. The first
        policy is uniform. The last entry is 0 if the policy has converged.
    features_ : transformer or None
        The fitted transformer.
    n_iter_ : int
        Number of policies that were evaluated, or of iterations of the solver.
    loss_curve_ : ndarray of shape (n_records,)
        The mean squared projected Bellman error at each record. The first record of
        "lstd" is at coefficients of 0. With "greedy" there is an additional record for
        each policy.
    stop_reason_ : str
        Why the run ended: "converged", "max_iter", "callback", or as for
        `BellmanValueEstimator`.
    ifo_, solver_, rank_, condition_number_ : object
        As for `BellmanValueEstimator`. "lstd" counts as one pass over the data for each
        policy. ``rank_`` and ``condition_number_`` are those of the last system of
        equations.

    See Also
    --------
    BellmanValueEstimator : Values of states under the behaviour policy.
    sk_stormc.datasets.collect_transitions : Logs transitions with their actions.

    Notes
    -----
    A log has no information about actions that were never tried. With "greedy" an
    action is therefore not chosen in a state with a feature that is 0 in all rows with
    this action, unless this holds for all actions. For indicators of states, these are
    the actions that were never taken in the state. With features that all states share,
    such as radial basis functions, such actions are not detected, and their values are
    extrapolated.

    With more than 500 features of all actions together, `fit` stores the matrices of
    single actions only. If a transition goes on, GMRES solves the equations up to a
    relative residual of 1e-9 (1e-12 in most logs) with the inverses of these matrices
    as preconditioner: 1000 actions take seconds. ``rank_`` and ``condition_number_``
    are then those of the matrices of single actions, and coefficients of directions in
    which the rows of an action do not vary are 0.

    With gamma = 1 an action that only delays the end has the same value as one that
    leads to it, and `predict_action` may choose it forever. A gamma below 1 prefers the
    shorter way.

    References
    ----------
    Lagoudakis & Parr, "Least-squares policy iteration", 2003.

    Examples
    --------
    There are three cells in a row. Action 1 moves to the right, action 0 to the left.
    Leaving at the right end gives a reward of 1.

    >>> import numpy as np
    >>> from sk_stormc import ActionValueEstimator
    >>> cell, action = np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)
    >>> to = cell + 2 * action - 1
    >>> q = ActionValueEstimator(gamma=0.5, fit_intercept=False)
    >>> q = q.fit(
    ...     np.eye(3)[cell],
    ...     to == 3,
    ...     action=action,
    ...     next_X=np.eye(3)[np.clip(to, 0, 2)],
    ...     terminal=to == 3,
    ... )
    >>> q.predict(np.eye(3)).round(4)
    array([[0.125, 0.25 ],
           [0.125, 0.5  ],
           [0.25 , 1.   ]])
    >>> q.predict_action(np.eye(3))
    array([1, 1, 1])
    """

    checks = {"policy": lambda name, value: check_policy(value)}
    has_actions = True
    coef_: FloatArray
    actions_: Array

    def __init__(
        self,
        policy: Any = "greedy",
        gamma: float = 0.95,
        solver: Literal["auto", "lstd"] | SolverName | CompositionalSolver = "auto",
        *,
        features: Any = None,
        fit_intercept: bool = True,
        alpha: float = 0.0,
        max_iter: int | None = None,
        tol: float | None = None,
        verbose: int | bool = 0,
        random_state: RandomState = None,
    ) -> None:
        self.policy = policy
        self.gamma = gamma
        self.solver = solver
        self.features = features
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(
        self,
        X: Features,
        y: ArrayLike,
        *,
        action: ArrayLike | None = None,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the values of actions and, with "greedy", the policy.

        Parameters
        ----------
        X : array-like of shape (n_transitions, n_features)
            The states before the transitions. A dask collection or a memmap is summed
            by blocks of rows, as in `BellmanValueEstimator`, once for each policy.
        y : array-like of shape (n_transitions,)
            The rewards of the transitions.
        action : array-like of shape (n_transitions,), default=None
            The actions: integers or strings. None means that all rows have the same
            action, 0. Its values are those of states.
        next_X, terminal, time, episode, sample_weight : array-like, default=None
            As for `BellmanValueEstimator.fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As for `BellmanValueEstimator.fit`, and if actions are not labels, a solver
            other than "auto" and "lstd" is used with "greedy", or a policy does not
            match the states and actions. For many actions, if the transitions determine
            their values too little.

        Warns
        -----
        UserWarning
            As for `BellmanValueEstimator`, and if ``action`` is None, if a given policy
            takes actions that are not in the log, or if the log has no information
            about which action is better.
        ConvergenceWarning
            If the policy still changes after ``max_iter`` policies.
        """
        return self._fit(
            X, y, action=action, next_X=next_X, terminal=terminal, time=time,
            episode=episode,
            sample_weight=sample_weight,
        )  # fmt: skip

    @with_fit
    def _fit(self, X, y, *, action=None, before=None, **log_columns):
        """`fit`, or `resume` of the fit whose progress is ``before``."""
        log_columns = LogColumns(**log_columns)
        log_columns.check_labels(X, y, action=action)
        solver = self._make_solver()  # raises if a parameter is wrong
        policy, greedy = self.policy, isinstance(self.policy, str)
        in_blocks = reads_blocks(X, log_columns, self)
        log = (LogBlocks if in_blocks else LogInMemory)(self, X, y, log_columns, action)
        if log.in_memory:
            check_products(log.chunk.Z, log.chunk.next_Z, log.chunk.y)
        sums = ActionSums(log, self)
        if action is None:
            warn(ONE_ACTION)
        elif greedy and len(sums.actions) == 1:
            warn(
                f"action is {sums.actions[0]} in all rows that count: there is no "
                "other action to choose."
            )
        ends, d = sums.n_ongoing < sums.n_rows, log.n_columns - self.fit_intercept
        known = log.spread_out(sums.occurs) > 0

        def values(w):
            return of_columns(log.spread_out(w), self.fit_intercept) | {
                "features_": log.features,
                "actions_": sums.actions,
                "_known": known[:, :d],
                "_given": (log.given[0], ends),
            }

        def notify(w, losses):
            n = len(losses) - 1
            return fit is not None and fit.notify(
                n, n * (2 * sums.n_rows + 1), losses[-1], w, values
            )

        size = sums.occurs.size
        solver = LSTD if self.solves_itself() else solver
        fit = Fit.if_observed(
            self, solver, X, y, before, action=action, **log_columns._asdict()
        )
        exact, run = {}, ()
        if greedy:
            best = iterate_policies(sums, self.max_iter, notify)
            policy, w, changes = best.policy, best.w, best.changes
            reason = (
                StopReason.CALLBACK
                if best.stopped and changes[-1]
                else warn_if_not_converged(changes)
            )
            high, low = sums.rewards * (1, -1)
            warn_of_no_information(high, low, ends, sums.n_ongoing > 0)
            exact = attributes_of(best.solution, sums.n_rows, reason, best.losses)
            exact["policy_changes_"] = np.array(changes)
        elif solver is LSTD:
            warn_of_unknown(sums.evaluate(policy)[0])
            w, solution = sums.solution(policy)
            exact = attributes_of(solution, sums.n_rows)
            notify_of(fit, exact, w, values)
        else:
            problem, spread_out = sums.problem(policy)
            self._accept(solver, problem)
            result = fit.run(
                solver,
                problem,
                verbose=self.verbose,
                attributes=lambda x: values(spread_out(x)),
            )
            w, run = spread_out(result.x), (solver, problem, result)

        spread = None
        if log_columns.episode is not None and size <= LARGEST_HESSIAN:
            spread = sums.spread(policy, w), np.flatnonzero(known)
        return self._store(log.table, values(w) | {"_spread": spread}, exact, fit, run)

    @only_if(streams_actions)
    def partial_fit(
        self,
        X: Features,
        y: ArrayLike,
        *,
        action: ArrayLike | None = None,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        actions: ArrayLike | None = None,
    ) -> Self:
        """Update the values with the next transitions of a stream, for a given policy
        and "auto" or "lstd".

        After every call the solution is that of `fit` on all rows of the stream, up to
        rounding, for any division into chunks. Four matrices of sums are stored. They
        have n_features * n_actions rows and columns, which must be at most 4000. Chunks
        with about the same number of rows are the most efficient. ``alpha`` may change
        between calls. `gamma`, `policy` and `fit_intercept` must not. Rows of an
        earlier `fit` do not count, but its fitted ``features`` and its actions are
        kept.

        policy="greedy" does not support `partial_fit`, because each policy needs its
        own sums over all transitions.

        Parameters
        ----------
        X, y, action, next_X, terminal
            As for `fit`. Without next_X, terminal rows are not weighted as in `fit` if
            episodes are cut off.
        time, episode : array-like of shape (n_transitions,), default=None
            As for `BellmanValueEstimator.partial_fit`: rows whose successors have not
            come yet are kept.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the transitions, on the same scale for all chunks. Rows of weight
            0 do not count.
        actions : array-like of shape (n_actions,), default=None
            In the first call, all actions that can occur. None means those of the first
            chunk.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As for `fit`, for an action that was not given in the first call, and if a
            parameter changes that must stay constant. The estimator is then unchanged.
        AttributeError
            For policy="greedy", and for solvers other than "auto" and "lstd".

        Examples
        --------
        >>> import numpy as np
        >>> from sk_stormc import ActionValueEstimator
        >>> q = ActionValueEstimator(policy=[1, 1], gamma=0.5, fit_intercept=False)
        >>> for s, a in [
        ...     (0, 0),
        ...     (0, 1),
        ...     (1, 0),
        ...     (1, 1),
        ... ]:  # action 1 goes on to the next state, and then to the end
        ...     after, ends = min(s + a, 1), s + a == 2
        ...     q = q.partial_fit(
        ...         np.eye(2)[[s]],
        ...         [float(ends)],
        ...         action=[a],
        ...         next_X=np.eye(2)[[after]],
        ...         terminal=[ends],
        ...         actions=[0, 1],
        ...     )
        >>> q.predict(np.eye(2))
        array([[0.25, 0.5 ],
               [0.5 , 1.  ]])
        """
        self._check_parameters()
        log_columns = LogColumns(next_X, terminal, time, episode, sample_weight)
        refuse_dask(X, y, action, *log_columns)
        log_columns.check_labels(X, y, action=action)
        if action is None and not hasattr(self, "actions_"):
            warn(ONE_ACTION)
        elif action is None and len(self.actions_) > 1:
            check_actions(None, 0)  # raises
        return self._at_once(
            lambda new: continue_stream(new, X, y, log_columns, action, actions)
        )

    def predict_action(self, X: Features) -> Array:
        """Return the greedy action, which has the largest value. Ties are resolved in
        favour of the first action.

        Parameters
        ----------
        X : array-like of shape (n_states, n_features)

        Returns
        -------
        ndarray of shape (n_states,)
            Labels from ``actions_``. A lazy array of dask for a dask collection.
        """
        check_is_fitted(self)
        if is_dask(X):
            check_columns(self, X)
            return map_lazily(self.predict_action, X, dtype=self.actions_.dtype)
        Z = self._fitted_columns(X, checked_states(self, X))
        best = best_actions(self._values(Z), unknown_actions(Z, self._known))
        return self.actions_[best]

    def td_error(
        self,
        X: Features,
        y: ArrayLike,
        *,
        action: ArrayLike | None = None,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the temporal-difference errors y + gamma V(next_X) - Q(X, action).

        V(next_X) is the expected value of the policy's actions, or with "greedy" the
        value of the best action. It is 0 after terminal transitions.

        Parameters
        ----------
        X, y, action, next_X, terminal, time, episode
            As for `fit`. Without next_X, time and episode every transition must be
            terminal.

        Returns
        -------
        ndarray of shape (n_transitions,)
            NaN for rows that are not terminal and have no successor, which is possible
            only with ``time``.

        Raises
        ------
        ValueError
            As for `fit`, and if successors are missing, or if an action is not in
            ``actions_``.
        """
        log_columns = LogColumns(next_X, terminal, time, episode)
        return self._errors(X, y, log_columns, action=action)[0]

    def _taken(self, values, action):
        if action is None and len(self.actions_) == 1:
            return values[:, 0]
        number = numbers_of(check_actions(action, len(values)), self.actions_)
        return values[np.arange(len(values)), number]

    def _expected(self, values, Z, following):
        policy = self.policy
        if isinstance(policy, str):
            best = best_actions(values, unknown_actions(Z, self._known))
            chances = chosen(best, len(self.actions_))
        else:
            chances = following.chances(policy, self.actions_)
        return (chances * values).sum(axis=1)

    def score(
        self,
        X: Features,
        y: ArrayLike,
        *,
        action: ArrayLike | None = None,
        next_X: Features | None = None,
        terminal: ArrayLike | None = None,
        time: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return minus the mean squared temporal-difference error: higher is better.

        The score can compare features on the same transitions, but not values of gamma.
        It does not measure how good a policy is. Use episodes of the policy or
        off-policy evaluation for that.

        Parameters
        ----------
        X, y, action, next_X, terminal, time, episode
            As for `td_error`. Rows that are not terminal and have no successor are left
            out, with terminal rows of the same step in proportion, as in `fit`.
        sample_weight : array-like of shape (n_transitions,), default=None
            Weights of the squared errors.

        Returns
        -------
        float
        """
        log_columns = LogColumns(next_X, terminal, time, episode, sample_weight)
        errors = self._errors(X, y, log_columns, action=action)
        return self._score(errors, sample_weight)

    def _rows(self, Z):
        m, n = len(self.actions_), Z.shape[0]
        rows = [pairs(Z, np.full(n, a), m) for a in range(m)]
        return sparse.vstack(rows, format="csr")

    def _check_parameters(self):
        super()._check_parameters()
        if isinstance(self.policy, str) and not self.solves_itself():
            raise ValueError(
                "solver must be 'auto' or 'lstd' with policy='greedy', got "
                f"{self.solver!r}"
            )
