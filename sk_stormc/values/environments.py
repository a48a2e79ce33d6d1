"""Transitions logged in Gymnasium's environments, and the models that some of them publish."""

import copy

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from sk_stormc.utils.validation import as_numbers, check_bool, check_int, short

__all__ = ["collect_transitions", "model_of"]

SUM = 1e-6  # how far an action's or a policy's probabilities may be from 1 in total


def collect_transitions(env, policy=None, n_transitions=10_000, seed=None, *, one_hot=True):
    """Let a policy act in a Gymnasium environment, and log the transitions for `BellmanValueEstimator.fit`.

    Parameters
    ----------
    env : gymnasium.Env or str
        An environment, which is reset first, or the id of one, such as "CartPole-v1". Its observations must be of a
        Box, Discrete, MultiDiscrete or MultiBinary space, or of a Tuple or Dict of such spaces.
    policy : callable, array-like or None, default=None
        None takes random actions, as the action space samples them: uniformly, if there are finitely many. A callable
        gets the observation as the environment gives it, and returns the action. Where observations and actions are
        both Discrete, an array may say what is done in each state: integers of shape (n_states,) are actions, numbers
        of shape (n_states, n_actions) are their probabilities.
    n_transitions : int, default=10,000
        Rows. The last episode ends with the last row.
    seed : int or None, default=None
        Of the environment and of the random actions, which have generators of their own. The same seed gives the same
        bits. None is different each time. NumPy's global generator is left alone.
    one_hot : bool, default=True
        Discrete and MultiDiscrete observations become one indicator for each value. False keeps them as numbers, for
        ``features=OneHotEncoder(...)``: with hundreds of states or more that takes far less memory.

    Returns
    -------
    log : sklearn.utils.Bunch
        Rows are in the order in which they happened.

        X : ndarray of shape (n_transitions, n_features)
            The observations that were left. Those of a Tuple or Dict stand side by side, arrays are flattened. float64,
            or float32 if the environment's observations are only float32.
        y : ndarray of shape (n_transitions,)
            The rewards.
        next_X : ndarray of shape (n_transitions, n_features)
            The observations that followed. After a truncated episode this is its last one, and not the first of the
            next episode.
        terminal : ndarray of bool of shape (n_transitions,)
            Gymnasium's ``terminated``. A truncated episode would have gone on, so it is not terminal.
        time : ndarray of int of shape (n_transitions,)
            Increasing by 1 within an episode, with a gap after it. It may stand in for next_X: the last row of an
            episode that was truncated is then dropped, because its successor is not a row of X.
        action : ndarray of shape (n_transitions, ...)
            What was done.
        episode : ndarray of int of shape (n_transitions,)
            The number of each row's episode, from 0.

    Raises
    ------
    ImportError
        If gymnasium is not installed.
    ValueError
        For an env that is none, observations of another space (which is named), a policy that does not fit the
        environment, an action that is not among its Discrete ones, and n_transitions, seed or one_hot out of range.

    See Also
    --------
    sk_stormc.datasets.MarkovRewardProcess.from_gymnasium : The exact model, where an environment publishes it.

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
    env = environment(env)
    try:
        return _collect(env, policy, int(n_transitions), seed, one_hot)
    finally:
        if made:
            env.close()


def environment(env):
    """An environment, made if it is an id."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("transitions of Gymnasium's environments need gymnasium: pip install gymnasium") from error
    if isinstance(env, str):
        try:
            return gymnasium.make(env)
        except gymnasium.error.Error as error:
            raise ValueError(f"env must be the id of a registered environment, got {env!r}: {error}") from error
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"env must be one gymnasium.Env or the id of one, got {short(env)}")
    return env


def _collect(env, policy, n, seed, one_hot):
    leaves = leaves_of(env.observation_space)
    # the environment and the policy must not draw the same numbers: actions would then know what comes
    of_env, of_policy = (None, None) if seed is None else np.random.SeedSequence(seed).generate_state(2).tolist()
    act = _policy(policy, env, of_policy)
    width = sum(size for _, _, size in leaves)
    dtype = np.float32 if all(_is_single(space) for _, space, _ in leaves) else np.float64
    left, came = np.empty((n, width), dtype), np.empty((n, width), dtype)
    rewards, terminal, actions = np.empty(n), np.zeros(n, bool), []
    times, episodes = np.empty((2, n), np.int64)

    observation, time, episode = env.reset(seed=of_env)[0], 0, 0
    for i in range(n):
        _pull(observation, leaves, left[i])  # before the step, which may change it in place
        action = act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        _pull(observation, leaves, came[i])
        rewards[i], terminal[i], times[i], episodes[i] = reward, terminated, time, episode
        actions.append(action)
        time += 1
        if (terminated or truncated) and i + 1 < n:
            observation, time, episode = env.reset()[0], time + 1, episode + 1
    _check_range(left, leaves)
    _check_range(came, leaves)
    return Bunch(
        X=_indicators(left, leaves) if one_hot else left,
        y=rewards,
        next_X=_indicators(came, leaves) if one_hot else came,
        terminal=terminal,
        time=times,
        action=_stack(actions),
        episode=episodes,
    )


# Observations


def leaves_of(space, path=()):
    """The plain spaces within a space: (keys that lead to it, space, how many numbers it has)."""
    from gymnasium import spaces

    if isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return [(path, space, int(np.prod(space.shape)))]
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [leaf for key, part in parts for leaf in leaves_of(part, (*path, key))]
    where = "".join(f"[{key!r}]" for key in path)
    raise ValueError(
        "env must have observations of Box, Discrete, MultiDiscrete or MultiBinary, or a Tuple or Dict of them, got "
        f"{short(space)}{where and f' at {where}'}"
    )


def _is_single(space):
    return type(space).__name__ == "Box" and space.dtype == np.float32


def _pull(observation, leaves, row):
    """Write an observation's numbers into a row."""
    begin = 0
    for path, _, size in leaves:
        value = observation
        for key in path:
            value = value[key]
        row[begin : begin + size] = value if size == 1 and np.isscalar(value) else np.ravel(value)
        begin += size


def _values(space):
    """The first value and the number of values of each column of a discrete space; None for another."""
    if hasattr(space, "nvec"):
        return list(zip(np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist(), strict=True))
    return [(int(space.start), int(space.n))] if hasattr(space, "start") else None


def _check_range(numbers, leaves):
    begin = 0
    for _, space, size in leaves:
        for j, (start, n) in enumerate(_values(space) or ()):
            column = numbers[:, begin + j]
            wrong = ~((column >= start) & (column < start + n))
            if wrong.any():
                raise ValueError(f"env must give observations of its own space, {space}; got {column[wrong][0]:g}")
        begin += size


def _indicators(numbers, leaves):
    """Discrete columns as one indicator for each value, the others as they are."""
    parts, begin = [], 0
    for _, space, size in leaves:
        block = numbers[:, begin : begin + size]
        values = _values(space)
        if values is None:
            parts.append(block)
        else:
            parts += [block[:, [j]] == start + np.arange(n) for j, (start, n) in enumerate(values)]
        begin += size
    return parts[0].astype(numbers.dtype, copy=False) if len(parts) == 1 else np.hstack(parts, dtype=numbers.dtype)


# Policies


def _policy(policy, env, seed):
    """The policy as a function of the observation."""
    space = env.action_space
    finite = type(space).__name__ == "Discrete"
    if policy is None:
        space = copy.deepcopy(space)  # whose generator is ours
        space.seed(seed)
        return lambda observation: space.sample()
    if callable(policy):
        return (lambda observation: _allowed(policy(observation), space)) if finite else policy
    n_states, n_actions = _discrete(env, "an array as policy")
    cumulative = np.cumsum(action_probabilities(policy, n_states, n_actions), axis=1)
    cumulative /= cumulative[:, -1:]
    first, lowest, rng = int(env.observation_space.start), int(space.start), np.random.default_rng(seed)

    def act(observation):
        return lowest + int(np.searchsorted(cumulative[int(observation) - first], rng.random(), side="right"))

    return act


def _allowed(action, space):
    given = np.asarray(action)
    if given.shape != () or given.dtype.kind not in "iub" or not space.start <= given < space.start + space.n:
        raise ValueError(f"policy must give actions of {space}, got {short(action)}")
    return int(given)


def _discrete(env, what):
    """How many states and actions there are."""
    for name in ("observation", "action"):
        space = getattr(env, f"{name}_space")
        if type(space).__name__ != "Discrete":
            raise ValueError(f"env must have Discrete {name}s for {what}, got {short(space)}")
    return int(env.observation_space.n), int(env.action_space.n)


def action_probabilities(policy, n_states, n_actions):
    """A policy as an array of shape (n_states, n_actions).

    Parameters
    ----------
    policy : array-like or None
        None is uniform, integers of shape (n_states,) are actions (counted from 0), and numbers of shape
        (n_states, n_actions) are probabilities.
    n_states, n_actions : int
    """
    if policy is None:
        return np.full((n_states, n_actions), 1 / n_actions)
    given = as_numbers("policy", policy)
    if given.shape == (n_states,):
        wrong = ~np.isin(given, np.arange(n_actions))
        if wrong.any():
            s = np.argmax(wrong)
            raise ValueError(f"policy must have actions from 0 to {n_actions - 1}, got {given[s]:g} in state {s}")
        return np.eye(n_actions)[given.astype(int)]
    if given.shape != (n_states, n_actions):
        raise ValueError(
            f"policy must be actions of shape ({n_states},) or probabilities of shape ({n_states}, {n_actions}), got "
            f"shape {given.shape}"
        )
    wrong = ~(np.isfinite(given) & (given >= 0)).all(axis=1)
    if wrong.any():
        s = np.argmax(wrong)
        raise ValueError(f"policy must have finite probabilities >= 0, got {short(given[s])} in state {s}")
    total = given.sum(axis=1)
    wrong = abs(total - 1) > SUM
    if wrong.any():
        s = np.argmax(wrong)
        raise ValueError(f"policy must have probabilities that sum to 1, got {total[s]:.6g} in state {s}")
    return given / total[:, None]


def _stack(actions):
    try:
        return np.array(actions)
    except ValueError:  # those of a Tuple of different spaces
        stacked = np.empty(len(actions), dtype=object)
        stacked[:] = actions
        return stacked


# Models


def model_of(env, policy):
    """The transition matrix and the rewards of an environment that publishes them, under a policy.

    Parameters
    ----------
    env : gymnasium.Env or str
    policy : array-like or None
        As for `action_probabilities`.

    Returns
    -------
    P, rewards : csr_array of shape (n_states, n_states)
        A state in which episodes end leads only to itself, without reward. Rewards are the means of a transition's.
    """
    env = environment(env)
    model = getattr(env.unwrapped, "P", None)
    if model is None:
        raise ValueError(
            f"env must publish its model as unwrapped.P, as FrozenLake, CliffWalking and Taxi do, got {short(env)}; "
            "collect_transitions logs the transitions of any environment"
        )
    n, n_actions = _discrete(env.unwrapped, "a model")
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
        summed.sum_duplicates()  # scipy 1.13 keeps entries that are given several times apart
    P.eliminate_zeros()
    i, j = P.nonzero()
    return P, sparse.csr_array((total[i, j] / P[i, j], (i, j)), shape=(n, n))


def _moves(model, n, n_actions):
    """Rows of state, action, probability, successor, reward and whether the episode ends."""
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
    # a state must be an end whenever it is entered, from any state that occurs
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
