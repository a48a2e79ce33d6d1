"""Small models whose values are known, episodes of them, and LSTD in plain numpy."""

from typing import NamedTuple

import numpy as np

GAMMA = 0.95
ACTED = 0.5  # probability of the first of two actions


class Episodes(NamedTuple):
    """Rows of whole episodes, one behind the other."""

    state: np.ndarray
    action: np.ndarray
    y: np.ndarray
    after: np.ndarray
    terminal: np.ndarray
    episode: np.ndarray


class Model:
    """States with two actions; every step ends the episode with a probability of 1 -
    ``goes_on``."""

    def __init__(self, n_states, goes_on, seed):
        rng = np.random.default_rng(seed)
        self.n_states = n_states
        self.P = goes_on * rng.dirichlet(np.full(n_states, 0.5), size=(n_states, 2))
        self.rewards = rng.normal(size=(n_states, 2))

    def values(self, first):
        """Exact values of the policy that takes the first action with this
        probability."""
        policy = np.array([first, 1 - first])
        P = np.einsum("a,sat->st", policy, self.P)
        return np.linalg.solve(np.eye(self.n_states) - GAMMA * P, self.rewards @ policy)

    def draw(self, n_episodes, seed):
        """Episodes that begin anywhere, of the policy that takes both actions alike."""
        rng, rows = np.random.default_rng(seed), []
        cumulative = np.cumsum(self.P, axis=2)
        state, episode = (
            rng.integers(self.n_states, size=n_episodes),
            np.arange(n_episodes),
        )
        while len(state):
            action = (rng.random(len(state)) >= ACTED).astype(int)
            after = (rng.random((len(state), 1)) > cumulative[state, action]).sum(
                axis=1
            )
            ends = after == self.n_states
            y = self.rewards[state, action] + 0.5 * rng.normal(size=len(state))
            rows.append((state, action, y, np.where(ends, 0, after), ends, episode))
            state, episode = after[~ends], episode[~ends]
        parts = [np.concatenate(part) for part in zip(*rows, strict=True)]
        order = np.argsort(parts[-1], kind="stable")
        return Episodes(*(part[order] for part in parts))


def ratios(log, first):
    """Of a policy that takes the first action with this probability."""
    return np.where(log.action == 0, first / ACTED, (1 - first) / (1 - ACTED))


def numpy_lstd(log, ratio, n_states):
    """Values of all states by LSTD, and their standard errors by the plain sandwich
    over episodes."""
    Z = np.eye(n_states)[log.state]
    D = Z - GAMMA * ~log.terminal[:, None] * np.eye(n_states)[log.after]
    A, b = Z.T @ (ratio[:, None] * D), Z.T @ (ratio * log.y)
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    scores = np.zeros((log.episode.max() + 1, n_states))
    np.add.at(scores, log.episode, (ratio * (D @ x - log.y))[:, None] * Z)
    influence = np.linalg.pinv(A) @ scores.T
    return x, np.sqrt(np.square(influence).sum(axis=1))


def drives(n_episodes, seed, at_random=0.3):
    """States of episodes of MountainCar's dynamics: pushes along the speed, and at
    random with a probability."""
    rng, episodes = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        x, v = rng.uniform(-0.6, -0.4), 0.0
        states = [(x, v)]
        while x < 0.5:
            push = (
                (1 if v >= 0 else -1)
                if rng.random() > at_random
                else rng.integers(-1, 2)
            )
            v = min(max(v + 0.001 * push - 0.0025 * np.cos(3 * x), -0.07), 0.07)
            x = min(max(x + v, -1.2), 0.6)
            v = 0.0 if x <= -1.2 and v < 0 else v
            states.append((x, v))
        episodes.append(np.array(states))
    return episodes
