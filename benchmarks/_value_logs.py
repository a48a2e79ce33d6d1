"""Random models whose values are known, and logs of their episodes."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sk_stormc.datasets import make_bellman_problem

MODELS = "ends", "ends soon", "chain", "dense", "garnet"
GAMMAS = 0.0, 0.5, 0.9, 0.95, 0.999, 1.0
ACTIONS = 2


class Model(NamedTuple):
    """States with two actions, of which one is taken; what is missing in a row of P
    ends the episode."""

    P: np.ndarray  # (n_states, n_actions, n_states)
    rewards: np.ndarray  # (n_states, n_actions)
    gamma: float
    acts: np.ndarray  # probabilities of the policy that acts, (n_states, n_actions)
    target: np.ndarray  # of another policy
    ends: bool  # whether episodes end

    def values(self, policy, steps=None):
        """Exact values of states, or of their first steps."""
        P, r = (
            np.einsum("sa,sat->st", policy, self.P),
            (policy * self.rewards).sum(axis=1),
        )
        if steps is None:
            return np.linalg.solve(np.eye(len(r)) - self.gamma * P, r)
        V = np.zeros(len(r))
        for _ in range(steps):
            V = r + self.gamma * P @ V
        return V

    def action_values(self, policy):
        """Exact values of actions."""
        return self.rewards + self.gamma * self.P @ self.values(policy)

    def best(self):
        """The best policy, by policy iteration."""
        policy, before = self.acts, None
        while before is None or not np.array_equal(policy, before):
            policy, before = (
                np.eye(ACTIONS)[self.action_values(policy).argmax(axis=1)],
                policy,
            )
        return policy


def learnt(model, log):
    """The model that the relative frequencies of a complete log give."""
    P, visits, total = np.zeros_like(model.P), *np.zeros((2, *model.rewards.shape))
    pair = log["state"], log["action"]
    np.add.at(visits, pair, 1.0)
    np.add.at(total, pair, log["y"])
    np.add.at(P, (*pair, log["after"]), ~log["terminal"])
    visits = np.maximum(visits, 1.0)
    return model._replace(P=P / visits[..., None], rewards=total / visits)


def draw_model(kind, rng):
    """A random model."""
    ends = kind in ("ends", "ends soon", "chain")
    gamma, n = (
        float(rng.choice(GAMMAS if ends else GAMMAS[:-1])),
        int(rng.integers(3, 9)),
    )
    if kind == "chain":
        P = np.zeros((n, ACTIONS, n))
        P[np.arange(n - 1), 0, np.arange(1, n)] = P[
            np.arange(1, n), 1, np.arange(n - 1)
        ] = 0.7
        P[np.arange(n), :, np.arange(n)] += 0.2
    elif ends:
        P = rng.dirichlet(np.full(n, 0.5), size=(n, ACTIONS)) * (
            0.9 if kind == "ends" else 0.6
        )
    else:
        seeds = rng.integers(2**31, size=ACTIONS)
        models = [
            make_bellman_problem(n, None, 0.9, kind, random_state=int(seed))
            for seed in seeds
        ]
        P = np.stack(
            [sparse.csr_array(model.transition_matrix).toarray() for model in models],
            axis=1,
        )
    rewards = rng.normal(size=(n, ACTIONS)) + rng.choice([0.0, -1.0, 3.0])
    acts, target = 0.2 + 0.6 * rng.dirichlet(np.ones(ACTIONS), size=(2, n))
    policies = (policy / policy.sum(axis=1, keepdims=True) for policy in (acts, target))
    return Model(P, rewards, gamma, *policies, ends)


def draw_log(model, n_episodes, rng, limit, lost=0.0):
    """Columns of episodes that begin anywhere.

    ``limit`` is the number of steps after which they are cut off, or one number for
    each, and ``lost`` the fraction of the rows that are missing.
    """
    n, cumulative, rows = len(model.P), model.P.cumsum(axis=2), []
    cumulative[:, :, -1] += 0.0 if model.ends else 1e-9
    state, episode, step = rng.integers(n, size=n_episodes), np.arange(n_episodes), 0
    limit = np.broadcast_to(limit, n_episodes)
    while len(state):
        action = (rng.random(len(state)) >= model.acts[state, 0]).astype(int)
        after = (rng.random((len(state), 1)) > cumulative[state, action]).sum(axis=1)
        ends = after == n
        y = model.rewards[state, action] + 0.3 * rng.normal(size=len(state))
        rows.append(
            (
                state,
                action,
                y,
                np.where(ends, 0, after),
                ends,
                episode,
                0 * state + step,
            )
        )
        step += 1
        goes_on = ~ends & (step < limit[episode])
        state, episode = after[goes_on], episode[goes_on]
    names = "state", "action", "y", "after", "terminal", "episode", "step"
    log = {
        name: np.concatenate(part)
        for name, part in zip(names, zip(*rows, strict=True), strict=True)
    }
    order = np.argsort(log["episode"], kind="stable")
    order = order[rng.random(len(order)) >= lost]
    return {name: part[order] for name, part in log.items()}
