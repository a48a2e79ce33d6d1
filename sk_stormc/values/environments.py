"""Transitions logged in Gymnasium's environments, and the models that some of them publish."""

from typing import Any

import numpy as np
from scipy import sparse

from sk_stormc.utils.validation import check_bool, check_int, short
from sk_stormc.values.acting import (
    acting,
    action_probabilities,
    check_target,
    discrete_sizes,
    first_observation,
    probabilities,
    reward_of,
    seeds_of,
    stacked,
    step,
)
from sk_stormc.values.spaces import Columns, log_of
from sk_stormc.values.vector import collect_vector

__all__ = ["collect_transitions", "model_of"]


def collect_transitions(
    env: Any,
    policy: Any = None,
    n_transitions: int = 10_000,
    seed: int | None = None,
    *,
    one_hot: bool | None = True,
    target: Any = None,
):
    """Let a policy act in a Gymnasium environment, and log the transitions for `BellmanValueEstimator.fit`.

    Parameters
    ----------
    env : gymnasium.Env, gymnasium.vector.VectorEnv or str
        An environment, which is reset first, or the id of one, such as "CartPole-v1". Its observations must be of a
        Box, Discrete, MultiDiscrete or MultiBinary space, or of a Tuple or Dict of such spaces. For a vector of
        environments each row is a transition of one of them. Steps that only begin a new episode are left out.
    policy : callable, array-like or None, default=None
        None takes random actions as the action space samples them: uniformly, if there are finitely many. A callable
        gets the observation and returns the action; for a vector, the observations and actions of all its environments.
        If observations and actions are both Discrete, an array can be passed: integers of shape (n_states,) are
        actions, numbers of shape (n_states, n_actions) are their probabilities.
    n_transitions : int, default=10,000
        Number of rows. The last episode ends with the last row.
    seed : int or None, default=None
        Seed of the environment and of the random actions, which have separate generators. Results are bit-for-bit
        reproducible for a given seed. None means a different seed each time. NumPy's global generator is not used.
    one_hot : bool, default=True
        Whether Discrete and MultiDiscrete observations become one indicator for each value. False keeps them as
        numbers, for ``features=OneHotEncoder(...)``. With hundreds of states or more this needs far less memory.
    target : callable, array-like or None, default=None
        A target policy, whose probabilities of the logged actions are logged too. An array is as for ``policy``. A
        callable gets X of the log, and returns for each row the action or a row of probabilities. Actions must be
        Discrete, and ``policy`` must be None or an array.

    Returns
    -------
    log : sklearn.utils.Bunch
        Rows are in the order in which they happened. The rows of a vector are sorted by environment.

        X : ndarray of shape (n_transitions, n_features)
            The observations before the transitions. The parts of a Tuple or Dict are concatenated, and arrays are
            flattened. The dtype is float64, or float32 if all observations are float32.
        y : ndarray of shape (n_transitions,)
            The rewards.
        next_X : ndarray of shape (n_transitions, n_features)
            The observations after the transitions. At the end of a truncated episode this is its last observation, not
            the first of the next episode.
        terminal : ndarray of bool of shape (n_transitions,)
            Gymnasium's ``terminated``. A truncated episode would have continued, so it is not terminal.
        time : ndarray of int of shape (n_transitions,)
            Time that increases by 1 within an episode, with a gap after it. It can replace next_X: the last row of a
            truncated episode is then dropped, because its successor is not a row of X.
        action : ndarray of shape (n_transitions, ...)
            The actions.
        episode : ndarray of int of shape (n_transitions,)
            The number of each row's episode, from 0.
        probability : ndarray of shape (n_transitions,)
            The probability of the action under ``policy``. It is NaN (unknown) if ``policy`` is a callable, and if
            actions are not Discrete.
        target_probability, importance_ratio : ndarray of shape (n_transitions,)
            Only with ``target``: the probability of the action under it, and this divided by ``probability``.

    Raises
    ------
    ImportError
        If gymnasium is not installed.
    ValueError
        If env is not an environment or has an unsupported observation space (which is named), its steps do not have
        Gymnasium's five values, the policy does not fit the environment, an action or observation is not of its space,
        an observation or reward is not finite, n_transitions, seed or one_hot is out of range, or a target does not fit
        or its ratios are unknown.

    See Also
    --------
    sk_stormc.datasets.MarkovRewardProcess.from_gymnasium : The exact model, if an environment publishes it.

    Examples
    --------
    >>> from sk_stormc import BellmanValueEstimator
    >>> from sk_stormc.datasets import collect_transitions
    >>> log = collect_transitions("FrozenLake-v1", n_transitions=2000, seed=0)
    >>> value = BellmanValueEstimator(gamma=0.95, random_state=0)
    >>> value = value.fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    >>> value.predict(log.X).shape
    (2000,)
    """
    check_int("n_transitions", n_transitions, low=1)
    check_int("seed", seed, low=0, words=(None,))
    check_bool("one_hot", one_hot)
    made = isinstance(env, str)
    env = environment(env, vector=True)
    from gymnasium.vector import VectorEnv

    collect, kind = (collect_vector, "single_") if isinstance(env, VectorEnv) else (_collect, "")
    try:
        check_target(policy, target, getattr(env, f"{kind}action_space"))
        log = collect(env, policy, int(n_transitions), seed, one_hot)
        log.update(probabilities(policy, target, log, env, kind))
        return log
    finally:
        if made:
            env.close()


def environment(env, vector=False):
    """The environment, created if ``env`` is an id. Vector environments are allowed only if ``vector``."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("transitions of Gymnasium's environments need gymnasium: pip install gymnasium") from error
    if isinstance(env, str):
        try:
            return gymnasium.make(env)
        except gymnasium.error.Error as error:
            raise ValueError(f"env must be the id of a registered environment, got {env!r}: {error}") from error
    kinds = (gymnasium.Env, gymnasium.vector.VectorEnv) if vector else gymnasium.Env
    if not isinstance(env, kinds):
        raise ValueError(f"env must be one gymnasium.Env or the id of one, got {short(env)}")
    return env


def _collect(env, policy, n, seed, one_hot):
    columns = Columns(env.observation_space)
    of_env, of_policy = seeds_of(seed)
    act = acting(policy, env, of_policy)
    left, came = columns.empty(n), columns.empty(n)
    rewards, terminal, episodes, actions = np.empty(n), np.zeros(n, bool), np.empty(n, np.int64), []

    observation, episode = first_observation(env, seed=of_env), 0
    for i in range(n):
        left[i] = columns.row(observation)  # before the step, which may change the observation in place
        action = act(observation)
        observation, reward, terminated, truncated, _ = step(env, action)
        came[i], rewards[i] = columns.row(observation), reward_of(reward)
        terminal[i], episodes[i] = terminated, episode
        actions.append(action)
        if (terminated or truncated) and i + 1 < n:
            observation, episode = first_observation(env), episode + 1
    return log_of(left, rewards, came, terminal, episodes, stacked(actions), columns, one_hot)


# Models


def model_of(env, policy):
    """The transition matrix and the mean rewards (both CSR) of a published model, in which ends lead to themselves."""
    env = environment(env)
    model = getattr(env.unwrapped, "P", None)
    if model is None:
        raise ValueError(
            f"env must publish its model as unwrapped.P, as FrozenLake, CliffWalking and Taxi do, got {short(env)}; "
            "collect_transitions logs the transitions of any environment"
        )
    n, n_actions = discrete_sizes(env.unwrapped, "a model")
    if callable(policy):
        raise ValueError(f"policy must be None or an array for a model, got {short(policy)}")
    chances = action_probabilities(policy, n, n_actions)
    moves = _moves(model, n, n_actions)
    state, action, successor = moves[:, [0, 1, 3]].astype(int).T
    probability, reward, ended = moves[:, 2], moves[:, 4], moves[:, 5] > 0
    ends = _ends(env, n, state, successor, ended)

    going = ~ends[state]
    weight = (probability * chances[state, action])[going]
    last = np.flatnonzero(ends)
    rows, columns = np.append(state[going], last), np.append(successor[going], last)
    P = sparse.csr_array((np.append(weight, np.ones(len(last))), (rows, columns)), shape=(n, n))
    total = sparse.csr_array((np.append(weight * reward[going], np.zeros(len(last))), (rows, columns)), shape=(n, n))
    for summed in (P, total):
        summed.sum_duplicates()  # scipy 1.13 does not add up duplicate entries by itself
    P.eliminate_zeros()
    i, j = P.nonzero()
    return P, sparse.csr_array((total[i, j] / P[i, j], (i, j)), shape=(n, n))


def _moves(model, n, n_actions):
    """The model as rows of state, action, probability, successor, reward, and whether the episode ends."""
    try:
        moves = [(s, a, *move) for s in range(n) for a in range(n_actions) for move in model[s][a]]
        moves = np.array(moves, dtype=float).reshape(-1, 6)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            "env.unwrapped.P must have a list of (probability, next state, reward, terminated) for each state and "
            f"action, got {short(model)}"
        ) from error
    wrong = ~np.isin(moves[:, 3], np.arange(n))
    if wrong.any():
        state, _, _, successor = moves[np.argmax(wrong), :4]
        raise ValueError(f"env.unwrapped.P must lead to states from 0 to {n - 1}, got {successor:g} from {state:g}")
    return moves[moves[:, 2] > 0]


def _ends(env, n, state, successor, ended):
    """The states in which episodes end."""
    ends = np.zeros(n, dtype=bool)
    ends[successor[ended]] = True
    # a terminal state must end the episode from every reachable state that leads to it
    starts = np.asarray(getattr(env.unwrapped, "initial_state_distrib", ~ends)) > 0
    onward = ~ended & ~(ends[state] & ends[successor])
    steps = sparse.csr_array((np.ones(onward.sum()), (successor[onward], state[onward])), shape=(n, n))
    occurs, before = starts, np.zeros(n, dtype=bool)
    while (occurs != before).any():
        before, occurs = occurs, occurs | (steps @ occurs.astype(float) > 0)
    both = np.flatnonzero(occurs & ends)
    if len(both):
        raise ValueError(
            f"env must end the episode whenever it enters a state or never, got state {both[0]}, which it enters in "
            "both ways or starts from"
        )
    return ends
