"""Markov reward processes: exact models for policy evaluation, random ones, and those
of environments."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from sk_stormc.datasets.acting import action_probabilities, discrete_sizes, environment
from sk_stormc.utils.parameters import check_choice, check_int, seeded, short
from sk_stormc.utils.types import ArrayLike, FloatArray, RandomState, SparseMatrix
from sk_stormc.values.markov import dense, refuse_rows, summed_entries
from sk_stormc.values.sums.problems import BellmanProblem


class LoggedTransitions(NamedTuple):
    """Transitions in the order of `BellmanValueEstimator.fit`'s arguments;
    ``fit(**transitions._asdict())``."""

    X: np.ndarray
    y: np.ndarray
    next_X: np.ndarray
    terminal: np.ndarray


class MarkovRewardProcess:
    """A Markov chain with rewards: an environment's model under a fixed policy.

    Parameters
    ----------
    transition_matrix : array-like or sparse matrix of shape (n_states, n_states)
        The matrix P, with rows >= 0 that sum to one.
    rewards : array-like of shape (n_states,) or (n_states, n_states)
        Rewards on leaving a state, or for each transition. The latter may be sparse.
    features : array-like or sparse matrix of shape (n_states, n_features), default=None
        Features of the states. None means one indicator for each state.
    gamma : float, default=0.95
        Discount factor in [0, 1).

    Attributes
    ----------
    n_states : int
    features : ndarray or scipy.sparse.csr_array of shape (n_states, n_features)

    Raises
    ------
    ValueError
        If rows of P are negative or do not sum to one (the message names the first),
        shapes disagree, values are not finite, or gamma is outside [0, 1).

    Examples
    --------
    >>> from sk_stormc.datasets import MarkovRewardProcess
    >>> walk = MarkovRewardProcess(
    ...     [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]],
    ...     [1.0, 1.0, 0.0],
    ...     gamma=0.5,
    ... )
    >>> walk
    MarkovRewardProcess(n_states=3, n_features=3, gamma=0.5)
    >>> walk.exact_value().round(4)
    array([1.8182, 1.4545, 0.    ])
    >>> X, y, next_X, terminal = walk.transitions(5, random_state=0)
    >>> X.shape, terminal.dtype
    ((5, 3), dtype('bool'))
    """

    def __init__(
        self,
        transition_matrix: ArrayLike | SparseMatrix,
        rewards: ArrayLike | SparseMatrix,
        features: ArrayLike | SparseMatrix | None = None,
        gamma: float = 0.95,
    ):
        problem = BellmanProblem(transition_matrix, rewards, features, gamma)
        if gamma == 1:
            raise ValueError(
                f"gamma must be < 1 for a model, got {gamma!r}: an end is a state that "
                "leads only to itself, and the equations of the model do not determine "
                "its value without a discount. If all episodes end, 1 - 1e-9 gives "
                "undiscounted values up to rounding; BellmanValueEstimator takes 1 for "
                "their logs."
            )
        self.transition_matrix = problem.transition_matrix
        self.features = problem.features
        self.gamma = gamma
        self.rewards, self.n_states, self._problem = rewards, problem.n_outer, problem

    @classmethod
    def from_gymnasium(
        cls,
        env: Any,
        policy: Any = None,
        gamma: float = 0.95,
        *,
        features: ArrayLike | None = None,
    ) -> Self:
        """The exact model, under a policy, of a Gymnasium environment that publishes it
        as ``unwrapped.P``.

        FrozenLake, CliffWalking and Taxi publish their models. A terminal state leads
        only to itself, without reward, so its value is 0. A limit on the number of
        steps in an episode is not part of the model, because a truncated episode would
        have continued.

        Parameters
        ----------
        env : gymnasium.Env or str
            The environment or its id, such as "FrozenLake-v1".
        policy : array-like or None, default=None
            Integers of shape (n_states,) are the action in each state. Numbers of shape
            (n_states, n_actions) are the probabilities of the actions. None means the
            uniform policy.
        gamma : float, default=0.95
            Discount factor in [0, 1).
        features : array-like or sparse matrix of shape (n_states, n_features), \
                default=None
            Features of the states. None means one indicator for each state.

        Returns
        -------
        MarkovRewardProcess
            ``rewards`` contains the mean reward of each transition, over the actions
            that may have caused it.

        Raises
        ------
        ImportError
            If gymnasium is not installed.
        ValueError
            If the environment has no ``unwrapped.P``, has a state that ends only some
            of the episodes that enter it, or has probabilities that do not sum to one,
            or if the policy does not match the environment.

        See Also
        --------
        collect_transitions : Logged transitions of any environment.

        Examples
        --------
        >>> from sk_stormc.datasets import MarkovRewardProcess
        >>> lake = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", gamma=0.95)
        >>> print(lake.exact_value()[14].round(3))  # beside the goal
        0.413
        """
        transition_matrix, rewards = model_of(env, policy)
        return cls(transition_matrix, rewards, features, gamma)

    def __repr__(self):
        n_states, n_features = self.features.shape
        return (
            f"{type(self).__name__}(n_states={n_states}, n_features={n_features}, "
            f"gamma={self.gamma!r})"
        )

    def exact_value(self) -> FloatArray:
        """Return the value of each state: V = (I - gamma P)^-1 E[r | s].

        Returns
        -------
        ndarray of shape (n_states,)
        """
        expected, _ = self._problem.inner_batch(None)
        P, n = self.gamma * self.transition_matrix, int(self.n_states)
        if sparse.issparse(P):
            value = np.atleast_1d(
                spsolve(sparse.csc_array(sparse.eye_array(n) - P), expected)
            )
        else:
            value = np.linalg.solve(np.eye(n) - P, expected)
        stays = self.transition_matrix.diagonal() == 1
        # exact, so that terminal states have the value 0
        value[stays] = expected[stays] / (1 - self.gamma)
        return value

    def problem(self, **params: Any) -> BellmanProblem:
        """Return the compositional problem, for `minimize`.

        Parameters
        ----------
        **params : dict
            Parameters of `BellmanProblem`: sample_weight, alpha, sampling,
            preconditioner.

        Returns
        -------
        BellmanProblem
        """
        return BellmanProblem(
            self.transition_matrix, self.rewards, self.features, self.gamma, **params
        )

    def transitions(
        self, n_transitions: int, random_state: RandomState = None
    ) -> LoggedTransitions:
        """Draw independent transitions, for `BellmanValueEstimator.fit`.

        A state that leads only to itself, without reward, is terminal. Transitions into
        it are terminal, and no transition starts in it (unless all states are
        terminal). The states are drawn uniformly from the other states.

        Parameters
        ----------
        n_transitions : int
            Number of transitions, at least 1.
        random_state : int, RandomState instance or None, default=None
            Pass an int for reproducible output across calls.

        Returns
        -------
        LoggedTransitions
            A named tuple (X, y, next_X, terminal) of arrays with n_transitions rows:
            the features of the states, the rewards, the features of the successors, and
            whether the episode ended.
        """
        check_int("n_transitions", n_transitions, low=1)
        rng, problem = seeded(random_state), self._problem
        P, n = self.transition_matrix, self.n_states
        expected, _ = problem.inner_batch(None)
        ends = (P.diagonal() == 1) & (expected == 0)
        alive = np.flatnonzero(~ends) if not ends.all() else np.arange(n)
        states = alive[rng.randint(len(alive), size=n_transitions)]
        entries = problem.entries_of(states, rng.random_sample(n_transitions))
        successors = problem.successors_of(entries)
        X, next_X = dense(self.features[states]), dense(self.features[successors])
        return LoggedTransitions(
            X, problem.entry_rewards[entries], next_X, ends[successors]
        )


def make_bellman_problem(
    n_states: int = 400,
    n_features: int | None = 100,
    gamma: float = 0.95,
    kind: Literal["dense", "garnet"] = "dense",
    random_state: RandomState = None,
) -> MarkovRewardProcess:
    """Make a random Markov reward process: the model of the paper's experiment, or a
    Garnet.

    With ``random_state=1`` and the other defaults the result is bit-for-bit the paper's
    model. P, the rewards of the transitions and the features are drawn uniformly from
    (0, 1), in this order, and filled column by column. The rows of P are then
    normalised. There is no intercept. n_states times the objective has the minimum
    47.8389, and the value 100.0195 at w = 0.

    Parameters
    ----------
    n_states : int, default=400
        Number of states.
    n_features : int or None, default=100
        Number of features. None means the tabular case, one indicator for each state.
    gamma : float, default=0.95
        Discount factor in [0, 1).
    kind : {"dense", "garnet"}, default="dense"
        With "garnet" each state has 10 successors (or n_states, if there are fewer),
        with probabilities from uniform cuts of [0, 1], and a standard normal reward. P
        is then sparse.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible output across calls.

    Returns
    -------
    MarkovRewardProcess
        Use its ``problem()`` for `minimize`, and its ``transitions(n)`` for
        `BellmanValueEstimator.fit`.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional
    Optimization"; Archibald, McKinnon & Thomas, "On the generation of Markov decision
    processes", 1995 (Garnets).

    Examples
    --------
    >>> from sk_stormc.datasets import make_bellman_problem
    >>> problem = make_bellman_problem(random_state=1).problem()
    >>> print(round(400 * problem.objective(problem.minimizer()), 4))
    47.8389
    """
    check_int("n_states", n_states, low=1)
    check_int("n_features", n_features, low=1, words=(None,))
    check_choice("kind", kind, ("dense", "garnet"))
    rng, n = seeded(random_state), n_states

    def uniform(n_columns):
        return rng.random_sample(n * n_columns).reshape((n, n_columns), order="F")

    if kind == "dense":
        P = uniform(n) + 1e-5
        P /= P.sum(axis=1, keepdims=True)
        rewards = uniform(n)
    else:
        b = min(10, n)  # successors of each state
        successors = rng.random_sample((n, n)).argpartition(b - 1, axis=1)[:, :b]
        cuts = np.sort(rng.random_sample((n, b - 1)), axis=1)
        data = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
        P = sparse.csr_array(
            (data.ravel(), successors.ravel(), np.arange(0, n * b + 1, b)), shape=(n, n)
        )
        rewards = rng.standard_normal(n)
    return MarkovRewardProcess(
        P, rewards, None if n_features is None else uniform(n_features), gamma
    )


# Models


def model_of(env, policy):
    """Transition matrix and mean rewards (both CSR) of a published model. Terminal
    states lead to themselves."""
    env = environment(env)
    model = getattr(env.unwrapped, "P", None)
    if model is None:
        raise ValueError(
            "env must publish its model as unwrapped.P, as FrozenLake, CliffWalking "
            f"and Taxi do, got {short(env)}; "
            "collect_transitions logs the transitions of any environment"
        )
    n, n_actions = discrete_sizes(env.unwrapped, "a model")
    if callable(policy):
        raise ValueError(
            f"policy must be None or an array for a model, got {short(policy)}"
        )
    chances = action_probabilities(policy, n, n_actions)
    moves = _moves(model, n, n_actions)
    state, action, successor = moves[:, [0, 1, 3]].astype(int).T
    probability, reward, ended = moves[:, 2], moves[:, 4], moves[:, 5] > 0
    ends = _ends(env, n, state, successor, ended)

    weight, last = probability * chances[state, action], np.flatnonzero(ends)
    kept = ~ends[state] & (weight > 0)
    rows, columns = np.append(state[kept], last), np.append(successor[kept], last)
    return summed_entries(
        rows,
        columns,
        np.append(weight[kept], np.ones(len(last))),
        np.append(reward[kept], np.zeros(len(last))),
        (n, n),
    )


def _moves(model, n, n_actions):
    """The model as rows of state, action, probability, successor, reward, and whether
    the episode ends."""
    try:
        moves = [
            (s, a, *move)
            for s in range(n)
            for a in range(n_actions)
            for move in model[s][a]
        ]
        moves = np.array(moves, dtype=float).reshape(-1, 6)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            "env.unwrapped.P must have a list of (probability, next state, reward, "
            f"terminated) for each state and action, got {short(model)}"
        ) from error
    refuse_rows(
        ~np.isin(moves[:, 3], np.arange(n)),
        lambda k: (
            f"env.unwrapped.P must lead to states from 0 to {n - 1}, got "
            f"{moves[k, 3]:g} from {moves[k, 0]:g}"
        ),
    )
    return moves[moves[:, 2] > 0]


def _ends(env, n, state, successor, ended):
    """The states in which episodes end."""
    ends = np.zeros(n, dtype=bool)
    ends[successor[ended]] = True
    # a terminal state must end the episode from every reachable state that leads to it
    starts = np.asarray(getattr(env.unwrapped, "initial_state_distrib", ~ends)) > 0
    onward = ~ended & ~(ends[state] & ends[successor])
    steps = sparse.csr_array(
        (np.ones(onward.sum()), (successor[onward], state[onward])), shape=(n, n)
    )
    occurs, before = starts, np.zeros(n, dtype=bool)
    while (occurs != before).any():
        before, occurs = occurs, occurs | (steps @ occurs.astype(float) > 0)
    both = np.flatnonzero(occurs & ends)
    if len(both):
        raise ValueError(
            "env must end the episode whenever it enters a state or never, got state "
            f"{both[0]}, which it enters in both ways or starts from"
        )
    return ends
