"""Policies that act in Gymnasium's environments."""

import copy

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import short
from sk_stormc.values.markov import refuse_rows
from sk_stormc.values.reading.actions import check_probabilities, policy_chances


def environment(env, vector=False):
    """The environment, created if ``env`` is an id. Vector environments are allowed
    only if ``vector``."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(
            "transitions of Gymnasium's environments need gymnasium: pip install "
            "gymnasium"
        ) from error
    if isinstance(env, str):
        try:
            return gymnasium.make(env)
        except gymnasium.error.Error as error:
            raise ValueError(
                f"env must be the id of a registered environment, got {env!r}: {error}"
            ) from error
    kinds = (gymnasium.Env, gymnasium.vector.VectorEnv) if vector else gymnasium.Env
    if not isinstance(env, kinds):
        raise ValueError(
            f"env must be one gymnasium.Env or the id of one, got {short(env)}"
        )
    return env


def seeds_of(seed):
    """Different seeds for an environment and a policy. With equal seeds, actions would
    depend on future transitions."""
    return (
        (None, None)
        if seed is None
        else np.random.SeedSequence(seed).generate_state(2).tolist()
    )


def first_observation(env, **how):
    """The observation that a reset returns."""
    result = env.reset(**how)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(
            "env must return (observation, info) from reset, as in Gymnasium 0.26, "
            f"got {short(result)}"
        )
    return result[0]


def step(env, action):
    """The five values that a step returns."""
    result = env.step(action)
    if not isinstance(result, tuple) or len(result) != 5:
        received = (
            f"{len(result)} values" if isinstance(result, tuple) else short(result)
        )
        raise ValueError(
            "env must return (observation, reward, terminated, truncated, info) from "
            f"step, as in Gymnasium 0.26, got {received}: the one done of older "
            "interfaces does not tell whether an episode ended or was cut off"
        )
    return result


def reward_of(reward):
    """A reward as a float, from a number or an array of one."""
    try:
        return float(np.asarray(reward, dtype=float).item())
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"env must give one number as the reward of a step, got {short(reward)}"
        ) from error


def acting(policy, env, seed, kind=""):
    """A policy as a function of an observation, or with "single_" of the observations
    of a vector environment."""
    observed, space = (
        getattr(env, f"{kind}{name}_space") for name in ("observation", "action")
    )
    if policy is None:
        actions = copy.deepcopy(env.action_space)  # a copy with its own generator
        actions.seed(seed)
        return lambda observation: actions.sample()
    if callable(policy):
        if kind:
            return lambda observations: allowed_together(policy(observations), env)
        return lambda observation: allowed(policy(observation), space)
    n_states, n_actions = discrete_sizes(env, "an array as policy", kind)
    cumulative = np.cumsum(action_probabilities(policy, n_states, n_actions), axis=1)
    cumulative /= cumulative[:, -1:]
    first = int(observed.start)
    lowest = int(space.start)
    rng = np.random.default_rng(seed)

    def act(observation):
        state = np.asarray(observation) - first
        action = lowest + (cumulative[state] <= rng.random(state.shape)[..., None]).sum(
            axis=-1
        )
        return action if kind else int(action)

    return act


def allowed(action, space):
    """The checked action. A Discrete action becomes an int. Arrays must have the
    space's shape and no NaN."""
    kind = type(space).__name__
    if kind == "Discrete":
        given = np.asarray(action)
        if (
            given.shape != ()
            or given.dtype.kind not in "iub"
            or not space.start <= given < space.start + space.n
        ):
            raise ValueError(
                f"policy must give actions of {space}, got {short(action)}"
            )
        return int(given)
    if kind not in ("Box", "MultiDiscrete", "MultiBinary"):
        return action
    given = as_numbers("actions of policy", action)
    if given.shape != space.shape:
        raise ValueError(
            f"policy must give actions of {space}, arrays of shape {space.shape}, got "
            f"{short(action)} of shape {given.shape}"
        )
    if np.isnan(given).any():
        raise ValueError(f"policy must give actions of {space}, got {short(action)}")
    return action


def discrete_sizes(env, what, kind=""):
    """The numbers of states and actions. ``kind`` is "single_" for a vector
    environment."""
    sizes = []
    for name in ("observation", "action"):
        space = getattr(env, f"{kind}{name}_space")
        if type(space).__name__ != "Discrete":
            raise ValueError(
                f"env must have Discrete {name}s for {what}, got {short(space)}"
            )
        sizes.append(int(space.n))
    return tuple(sizes)


def action_probabilities(policy, n_states, n_actions):
    """A policy as probabilities of shape (n_states, n_actions). None means uniform,
    integers are actions from 0."""
    if policy is None:
        return np.full((n_states, n_actions), 1 / n_actions)
    given = as_numbers("policy", policy)
    if given.shape == (n_states,):
        refuse_rows(
            ~np.isin(given, np.arange(n_actions)),
            lambda s: (
                f"policy must have actions from 0 to {n_actions - 1}, got "
                f"{given[s]:g} in state {s}"
            ),
        )
        return np.eye(n_actions)[given.astype(int)]
    if given.shape != (n_states, n_actions):
        raise ValueError(
            f"policy must be actions of shape ({n_states},) or probabilities of shape "
            f"({n_states}, {n_actions}), got shape {given.shape}"
        )
    return check_probabilities("policy", given, "state")


def check_target(policy, target, space):
    """Raise a ValueError if the action probabilities of the target policy or of the
    behaviour policy are unknown."""
    if target is None:
        return
    if type(space).__name__ != "Discrete":
        raise ValueError(
            "target must be None unless actions are Discrete, got a target and "
            f"actions of {space}"
        )
    if callable(policy):
        raise ValueError(
            "policy must be None or an array where target is given, got "
            f"{short(policy)}: the probabilities of a function's actions are not known"
        )


def probabilities(policy, target, log, env, kind=""):
    """The columns with the probabilities of the logged actions. ``kind`` is "single_"
    for a vector environment."""
    space, observed = (
        getattr(env, f"{kind}{name}_space") for name in ("action", "observation")
    )
    n, unknown = len(log.y), Bunch(probability=np.full(len(log.y), np.nan))
    if type(space).__name__ != "Discrete" or callable(policy):
        return unknown
    n_actions = int(space.n)
    number = np.asarray(log.action, dtype=int) - int(space.start)

    def chances(policy):
        if policy is None:
            return np.full(n, 1 / n_actions)
        if callable(policy):
            labels = np.arange(n_actions) + int(space.start)
            return policy_chances(policy, log.X, log.X, np.arange(n), labels)[
                np.arange(n), number
            ]
        n_states = discrete_sizes(env, "an array as policy", kind)[0]
        numbered = log.X.shape[1] == 1 < n_states
        state = (
            log.X[:, 0].astype(int) - int(observed.start)
            if numbered
            else log.X.argmax(axis=1)
        )
        return action_probabilities(policy, n_states, n_actions)[state, number]

    columns = Bunch(probability=chances(policy))
    if target is not None:
        try:
            columns.target_probability = chances(target)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"target must be a policy of the environment: {error}"
            ) from error
        columns.importance_ratio = columns.target_probability / columns.probability
    return columns


def stacked(actions):
    """Actions as an array. Its dtype is object if they have no common shape."""
    try:
        return np.array(actions)
    except ValueError:  # actions of a Tuple of different spaces
        objects = np.empty(len(actions), dtype=object)
        objects[:] = actions
        return objects


def allowed_together(actions, env):
    """The checked actions, one for each environment of a vector."""
    if type(env.single_action_space).__name__ not in (
        "Box",
        "Discrete",
        "MultiDiscrete",
        "MultiBinary",
    ):
        return actions
    given = np.asarray(actions)
    if given.ndim == 0 or len(given) != env.num_envs:
        raise ValueError(
            f"policy must give {env.num_envs} actions, one for each environment of "
            f"the vector, got {short(actions)}"
        )
    for action in given:
        allowed(action, env.single_action_space)
    return given
