"""Policies that act in Gymnasium's environments."""

import copy

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.utils.validation import as_numbers, short
from sk_stormc.values.action_data import policy_chances

__all__ = ["acting", "acting_together", "action_probabilities", "allowed", "check_target",
           "discrete_sizes", "first_observation", "probabilities", "reward_of", "seeds_of", "stacked", "step"]

SUM = 1e-6  # tolerance of the sum of a policy's probabilities


def seeds_of(seed):
    """Different seeds for an environment and a policy. With equal seeds, actions would depend on future transitions."""
    return (None, None) if seed is None else np.random.SeedSequence(seed).generate_state(2).tolist()


def first_observation(env, **how):
    """The observation of a reset."""
    found = env.reset(**how)
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(f"env must return (observation, info) from reset, as in Gymnasium 0.26, got {short(found)}")
    return found[0]


def step(env, action):
    """The five values of a step."""
    found = env.step(action)
    if not isinstance(found, tuple) or len(found) != 5:
        number = len(found) if isinstance(found, tuple) else short(found)
        raise ValueError(
            "env must return (observation, reward, terminated, truncated, info) from step, as in Gymnasium 0.26, got "
            f"{number}{' values' if isinstance(found, tuple) else ''}: the one done of older interfaces does not tell "
            "whether an episode ended or was cut off"
        )
    return found


def reward_of(reward):
    """A reward as a float, from a number or an array of one."""
    try:
        return float(np.asarray(reward, dtype=float).item())
    except (TypeError, ValueError) as error:
        raise ValueError(f"env must give one number as the reward of a step, got {short(reward)}") from error


def acting(policy, env, seed):
    """A policy as a function of the observation of an environment."""
    space = env.action_space
    if policy is None:
        space = copy.deepcopy(space)  # a copy with its own generator
        space.seed(seed)
        return lambda observation: space.sample()
    if callable(policy):
        return lambda observation: allowed(policy(observation), space)
    n_states, n_actions = discrete_sizes(env, "an array as policy")
    cumulative = np.cumsum(action_probabilities(policy, n_states, n_actions), axis=1)
    cumulative /= cumulative[:, -1:]
    first, lowest, rng = int(env.observation_space.start), int(space.start), np.random.default_rng(seed)

    def act(observation):
        return lowest + int(np.searchsorted(cumulative[int(observation) - first], rng.random(), side="right"))

    return act


def allowed(action, space):
    """The checked action. A Discrete action becomes an int. Arrays must have the space's shape and no NaN."""
    kind = type(space).__name__
    if kind == "Discrete":
        given = np.asarray(action)
        if given.shape != () or given.dtype.kind not in "iub" or not space.start <= given < space.start + space.n:
            raise ValueError(f"policy must give actions of {space}, got {short(action)}")
        return int(given)
    if kind not in ("Box", "MultiDiscrete", "MultiBinary"):
        return action
    given = as_numbers("actions of policy", action)
    if given.shape != space.shape:
        raise ValueError(
            f"policy must give actions of {space}, arrays of shape {space.shape}, got {short(action)} of shape "
            f"{given.shape}"
        )
    if np.isnan(given).any():
        raise ValueError(f"policy must give actions of {space}, got {short(action)}")
    return action


def discrete_sizes(env, what, kind=""):
    """The numbers of states and actions. ``kind`` is "single_" for a vector environment."""
    sizes = []
    for name in ("observation", "action"):
        space = getattr(env, f"{kind}{name}_space")
        if type(space).__name__ != "Discrete":
            raise ValueError(f"env must have Discrete {name}s for {what}, got {short(space)}")
        sizes.append(int(space.n))
    return tuple(sizes)


def action_probabilities(policy, n_states, n_actions):
    """A policy as probabilities of shape (n_states, n_actions). None means uniform, integers are actions from 0."""
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


def check_target(policy, target, space):
    """Raise a ValueError if the action probabilities of the target policy or of the behaviour policy are unknown."""
    if target is None:
        return
    if type(space).__name__ != "Discrete":
        raise ValueError(f"target must be None unless actions are Discrete, got a target and actions of {space}")
    if callable(policy):
        raise ValueError(
            f"policy must be None or an array where target is given, got {short(policy)}: the probabilities of a "
            "function's actions are not known"
        )


def probabilities(policy, target, log, env, kind=""):
    """The columns of the probabilities of the logged actions. ``kind`` is "single_" for a vector environment."""
    space, observed = (getattr(env, f"{kind}{name}_space") for name in ("action", "observation"))
    n, unknown = len(log.y), Bunch(probability=np.full(len(log.y), np.nan))
    if type(space).__name__ != "Discrete" or callable(policy):
        return unknown
    n_actions, number = int(space.n), np.asarray(log.action, dtype=int) - int(space.start)

    def chances(policy):
        if policy is None:
            return np.full(n, 1 / n_actions)
        if callable(policy):
            labels = np.arange(n_actions) + int(space.start)
            return policy_chances(policy, log.X, log.X, np.arange(n), labels)[np.arange(n), number]
        n_states = discrete_sizes(env, "an array as policy", kind)[0]
        numbered = log.X.shape[1] == 1 < n_states
        state = log.X[:, 0].astype(int) - int(observed.start) if numbered else log.X.argmax(axis=1)
        return action_probabilities(policy, n_states, n_actions)[state, number]

    found = Bunch(probability=chances(policy))
    if target is not None:
        try:
            found.target_probability = chances(target)
        except (TypeError, ValueError) as error:
            raise ValueError(f"target must be a policy of the environment: {error}") from error
        found.importance_ratio = found.target_probability / found.probability
    return found


def stacked(actions):
    """Actions as an array. Its dtype is object if they have no common shape."""
    try:
        return np.array(actions)
    except ValueError:  # actions of a Tuple of different spaces
        objects = np.empty(len(actions), dtype=object)
        objects[:] = actions
        return objects


def acting_together(policy, env, seed):
    """A policy as a function of the observations of a vector environment."""
    if policy is None:
        space = copy.deepcopy(env.action_space)
        space.seed(seed)
        return lambda observations: space.sample()
    if callable(policy):
        return lambda observations: allowed_together(policy(observations), env)
    observed, space = env.single_observation_space, env.single_action_space
    n_states, n_actions = discrete_sizes(env, "an array as policy", "single_")
    cumulative = np.cumsum(action_probabilities(policy, n_states, n_actions), axis=1)
    cumulative /= cumulative[:, -1:]
    first, lowest, rng = int(observed.start), int(space.start), np.random.default_rng(seed)

    def act(observations):
        below = cumulative[np.asarray(observations) - first] <= rng.random(env.num_envs)[:, None]
        return lowest + below.sum(axis=1)

    return act


def allowed_together(actions, env):
    """The checked actions, one for each environment of a vector."""
    if type(env.single_action_space).__name__ not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        return actions
    given = np.asarray(actions)
    if given.ndim == 0 or len(given) != env.num_envs:
        raise ValueError(
            f"policy must give {env.num_envs} actions, one for each environment of the vector, got {short(actions)}"
        )
    for action in given:
        allowed(action, env.single_action_space)
    return given
