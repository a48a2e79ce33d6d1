"""Transitions of Gymnasium's vector environments: copies of an environment that make their steps together."""

import numpy as np

from sk_stormc.utils.validation import short
from sk_stormc.values.acting import acting_together, first_observation, seeds_of, stacked, step
from sk_stormc.values.spaces import Columns, log_of

__all__ = ["collect_vector"]

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"  # Gymnasium's modes of automatic resets


def collect_vector(env, policy, n, seed, one_hot):
    """The Bunch of `collect_transitions` for a vector environment, sorted by environment.

    An environment is reset within the step that ends an episode (the last observation is then in ``info``), or by the
    next step (which is not a transition), or only on request.
    """
    from gymnasium.vector.utils import iterate

    mode, columns, k = autoreset_mode(env), Columns(env.single_observation_space), env.num_envs
    of_env, of_policy = seeds_of(seed)
    act = acting_together(policy, env, of_policy)
    steps, found = [], 0
    observations = first_observation(env, seed=of_env)
    seen, began, over = columns.rows(observations), np.zeros(k, int), np.zeros(k, bool)
    while found < n:
        actions = act(observations)
        observations, rewards, terminated, truncated, info = step(env, actions)
        came, resets = columns.rows(observations), over & (mode == NEXT_STEP)
        over = (terminated | truncated) & ~resets
        after = came
        if mode == SAME_STEP and over.any():
            after = came.copy()
            for i in np.flatnonzero(over):
                after[i] = columns.row(info["final_obs"][i])
        live = np.flatnonzero(~resets)[: n - found]
        done = list(iterate(env.action_space, actions))
        parts = began, seen, rewards, after, terminated
        steps.append((live, *(part[live] for part in parts), [done[i] for i in live]))
        found, began = found + len(live), began + over
        if mode == DISABLED and over.any():
            observations = first_observation(env, options={"reset_mask": over.copy()})
            came = columns.rows(observations)
        seen = came
    *parts, actions = zip(*steps, strict=True)
    which, began, left, rewards, after, terminal = (np.concatenate(part) for part in parts)
    order = np.argsort(which, kind="stable")
    first = np.append(True, (np.diff(which[order]) != 0) | (np.diff(began[order]) != 0))
    actions = stacked([action for part in actions for action in part])[order]
    return log_of(
        left[order], rewards[order], after[order], terminal[order], np.cumsum(first) - 1, actions, columns, one_hot
    )


def autoreset_mode(env):
    """The mode of automatic resets of a vector environment."""
    mode = env.metadata.get("autoreset_mode")
    name = getattr(mode, "value", mode)
    if name not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            f"env must have the mode of automatic resets in metadata['autoreset_mode'], as in Gymnasium 1.1, "
            f"got {short(mode)}"
        )
    return name
