"""Transitions logged in Gymnasium's environments, one at a time or in vectors."""

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.datasets.acting import (
    acting,
    check_target,
    environment,
    first_observation,
    probabilities,
    reward_of,
    seeds_of,
    stacked,
    step,
)
from sk_stormc.datasets.spaces import SpaceColumns, log_of
from sk_stormc.utils.parameters import check_bool, check_int, short

# Gymnasium's modes of automatic resets
NEXT_STEP = "NextStep"
SAME_STEP = "SameStep"
DISABLED = "Disabled"


def collect_transitions(
    env: Any,
    policy: Any = None,
    n_transitions: int = 10_000,
    seed: int | None = None,
    *,
    one_hot: bool | None = True,
    target: Any = None,
) -> Bunch:
    """Run a policy in a Gymnasium environment, and log the transitions for
    `BellmanValueEstimator.fit`.

    Parameters
    ----------
    env : gymnasium.Env, gymnasium.vector.VectorEnv or str
        An environment, which is reset first, or an id such as "CartPole-v1". Its
        observation space must be Box, Discrete, MultiDiscrete or MultiBinary, or a
        Tuple or Dict of such spaces. With a vector environment each row is a transition
        of one of its environments. Steps that only begin a new episode are left out.
    policy : callable, array-like or None, default=None
        None means random actions, as the action space samples them: uniformly, if there
        are finitely many. A callable receives the observation and returns the action;
        for a vector environment it receives the observations and returns the actions of
        all its environments. If observations and actions are both Discrete, an array
        can be passed: integers of shape (n_states,) are actions, numbers of shape
        (n_states, n_actions) are their probabilities.
    n_transitions : int, default=10000
        Number of rows. The last episode ends with the last row.
    seed : int or None, default=None
        Seed of the environment and of the random actions, which have separate
        generators. Results are bit-for-bit reproducible for a given seed. None means a
        different seed each time. NumPy's global generator is not used.
    one_hot : bool, default=True
        Whether Discrete and MultiDiscrete observations are encoded as one indicator for
        each value. If False, they are kept as numbers, for
        ``features=OneHotEncoder(...)``. With hundreds of states or more this needs far
        less memory.
    target : callable, array-like or None, default=None
        A target policy, whose probabilities of the logged actions are also logged. An
        array is interpreted as for ``policy``. A callable receives X of the log, and
        returns an action or a row of probabilities for each row. Actions must be
        Discrete, and ``policy`` must be None or an array.

    Returns
    -------
    log : sklearn.utils.Bunch
        Rows are in chronological order. The rows of a vector environment are sorted by
        environment.

        X : ndarray of shape (n_transitions, n_features)
            The observations before the transitions. The parts of a Tuple or Dict are
            concatenated, and arrays are flattened. The dtype is float64, or float32 if
            all observations are float32.
        y : ndarray of shape (n_transitions,)
            The rewards.
        next_X : ndarray of shape (n_transitions, n_features)
            The observations after the transitions. At the end of a truncated episode
            this is the last observation of the episode, not the first of the next one.
        terminal : ndarray of bool of shape (n_transitions,)
            Gymnasium's ``terminated``. A truncated episode would have continued, so it
            is not terminal.
        time : ndarray of int of shape (n_transitions,)
            Time that increases by 1 within an episode, with a gap after it. It can
            replace next_X: the last row of a truncated episode is then dropped, because
            its successor is not a row of X.
        action : ndarray of shape (n_transitions, ...)
            The actions.
        episode : ndarray of int of shape (n_transitions,)
            The number of each row's episode, from 0.
        probability : ndarray of shape (n_transitions,)
            The probability of the action under ``policy``. It is NaN (unknown) if
            ``policy`` is a callable, or if actions are not Discrete.
        target_probability, importance_ratio : ndarray of shape (n_transitions,)
            Only with ``target``: the probability of the action under it, and the ratio
            of this to ``probability``.

    Raises
    ------
    ImportError
        If gymnasium is not installed.
    ValueError
        If env is not an environment or has an unsupported observation space (which the
        message names), its steps do not return the five values of Gymnasium, the policy
        does not match the environment, an action or observation is not in its space, an
        observation or reward is not finite, n_transitions, seed or one_hot is out of
        range, or a target does not match or its ratios are unknown.

    See Also
    --------
    sk_stormc.datasets.MarkovRewardProcess.from_gymnasium : The exact model, if an
        environment publishes it.

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

    collect, kind = (
        (collect_vector, "single_") if isinstance(env, VectorEnv) else (_collect, "")
    )
    try:
        check_target(policy, target, getattr(env, f"{kind}action_space"))
        log = collect(env, policy, int(n_transitions), seed, one_hot)
        log.update(probabilities(policy, target, log, env, kind))
        return log
    finally:
        if made:
            env.close()


def _collect(env, policy, n, seed, one_hot):
    columns = SpaceColumns(env.observation_space)
    of_env, of_policy = seeds_of(seed)
    act = acting(policy, env, of_policy)
    left, came = columns.empty(n), columns.empty(n)
    rewards = np.empty(n)
    terminal = np.zeros(n, bool)
    episodes = np.empty(n, np.int64)
    actions = []

    observation, episode = first_observation(env, seed=of_env), 0
    for i in range(n):
        # before the step, which may change the observation in place
        left[i] = columns.row(observation)
        action = act(observation)
        observation, reward, terminated, truncated, _ = step(env, action)
        came[i], rewards[i] = columns.row(observation), reward_of(reward)
        terminal[i], episodes[i] = terminated, episode
        actions.append(action)
        if (terminated or truncated) and i + 1 < n:
            observation, episode = first_observation(env), episode + 1
    return log_of(
        left, rewards, came, terminal, episodes, stacked(actions), columns, one_hot
    )


def collect_vector(env, policy, n, seed, one_hot):
    """The Bunch of `collect_transitions` for a vector environment, sorted by
    environment.

    Depending on the mode, an environment is reset within the step that ends an episode
    (the last observation is then in ``info``), by the next step (which is not a
    transition), or only on request.
    """
    from gymnasium.vector.utils import iterate

    mode = autoreset_mode(env)
    columns = SpaceColumns(env.single_observation_space)
    k = env.num_envs
    of_env, of_policy = seeds_of(seed)
    act = acting(policy, env, of_policy, "single_")
    steps, n_rows = [], 0
    observations = first_observation(env, seed=of_env)
    seen, began, over = columns.rows(observations), np.zeros(k, int), np.zeros(k, bool)
    while n_rows < n:
        actions = act(observations)
        observations, rewards, terminated, truncated, info = step(env, actions)
        came, resets = columns.rows(observations), over & (mode == NEXT_STEP)
        over = (terminated | truncated) & ~resets
        after = came
        if mode == SAME_STEP and over.any():
            after = came.copy()
            for i in np.flatnonzero(over):
                after[i] = columns.row(info["final_obs"][i])
        live = np.flatnonzero(~resets)[: n - n_rows]
        done = list(iterate(env.action_space, actions))
        parts = began, seen, rewards, after, terminated
        steps.append((live, *(part[live] for part in parts), [done[i] for i in live]))
        n_rows, began = n_rows + len(live), began + over
        if mode == DISABLED and over.any():
            observations = first_observation(env, options={"reset_mask": over.copy()})
            came = columns.rows(observations)
        seen = came
    *parts, actions = zip(*steps, strict=True)
    which, began, left, rewards, after, terminal = (
        np.concatenate(part) for part in parts
    )
    order = np.argsort(which, kind="stable")
    first = np.append(True, (np.diff(which[order]) != 0) | (np.diff(began[order]) != 0))
    actions = stacked([action for part in actions for action in part])[order]
    return log_of(
        left[order],
        rewards[order],
        after[order],
        terminal[order],
        np.cumsum(first) - 1,
        actions,
        columns,
        one_hot,
    )


def autoreset_mode(env):
    """The mode of automatic resets of a vector environment."""
    mode = env.metadata.get("autoreset_mode")
    name = getattr(mode, "value", mode)
    if name not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            "env must have the mode of automatic resets in metadata['autoreset_mode'], "
            f"as in Gymnasium 1.1, got {short(mode)}"
        )
    return name
