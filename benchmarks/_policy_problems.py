"""Simulated problems with policies whose values are known, as logs of another
policy."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from sk_stormc import ActionValueEstimator

N_TRUE = 400_000  # contexts or episodes from which values are computed
GAMMA = 0.95


@dataclass
class Problem:
    """Draws logs, and knows the values of the policies."""

    draw: Any  # a function of a generator
    policies: dict
    truth: dict  # by name, "behaviour" included
    arguments: dict = field(default_factory=dict)  # of `compare_policies`


def softmax(scores):
    """Probabilities of the actions."""
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


def drawn(rng, chances):
    """An action for each row of probabilities."""
    return (rng.random(len(chances))[:, None] > chances.cumsum(axis=1)[:, :-1]).sum(1)


def bandit(n, n_actions, mean, sharpness=(0.5, 0.65, 0.4), even=0.0, **arguments):
    """n rows with two normal features, and policies that follow scores more or less,
    and take any action with probability ``even``. ``mean`` is the expected reward of
    all actions, of features and scores."""
    weights = np.random.default_rng(n_actions).normal(size=(2, n_actions))
    policies = {
        name: lambda X, s=s: even / n_actions + (1 - even) * softmax(s * (X @ weights))
        for name, s in zip(("behaviour", "sharper", "flatter"), sharpness, strict=True)
    }

    def draw(rng):
        X = rng.normal(size=(n, 2))
        chances = policies["behaviour"](X)
        action = drawn(rng, chances)
        rows = np.arange(n), action
        reward = mean(X, X @ weights)[rows] + rng.normal(size=n)
        return {
            "state": X, "action": action, "reward": reward, "p": chances[rows],
            "terminal": np.ones(n, bool),
        }  # fmt: skip

    X = np.random.default_rng(1).normal(size=(N_TRUE, 2))
    truth = {
        name: np.mean([
            (policy(part) * mean(part, part @ weights)).sum(axis=1).mean()
            for part in np.array_split(X, 100)
        ])
        for name, policy in policies.items()
    }  # fmt: skip
    given = {"terminal": "terminal", "probability": "p"} | arguments
    return Problem(draw, {k: policies[k] for k in ("sharper", "flatter")}, truth, given)


@dataclass
class Model:
    """A process with numbered states, the last of which is the end, and its transition
    probabilities P (n_states, n_actions, n_states) and rewards R."""

    P: np.ndarray
    R: np.ndarray
    start: np.ndarray

    def best(self):
        """The best action of each state."""
        Q = rewards = (self.P * self.R).sum(axis=2)
        for _ in range(500):
            Q = rewards + GAMMA * self.P @ Q.max(axis=1)
        return Q.argmax(axis=1)

    def follows(self, chance):
        """The policy with this probability of the best action."""
        n, m = self.P.shape[:2]
        policy = np.full((n, m), (1 - chance) / (m - 1))
        policy[np.arange(n), self.best()] = chance
        return policy

    def value(self, policy):
        """The exact value of a policy at the start."""
        P = np.einsum("sa,sat->st", policy, self.P)
        rewards = np.einsum("sa,sat,sat->s", policy, self.P, self.R)
        P[:, -1] = 0
        return self.start @ np.linalg.solve(np.eye(len(P)) - GAMMA * P, rewards)

    def draw(self, policy, n_episodes, limit, rng, noise=0.0):
        """The rows of episodes that end, or are cut off after a limit of steps."""
        state = drawn(rng, np.tile(self.start, (n_episodes, 1)))
        episode, rows, last = np.arange(n_episodes), [], len(self.P) - 1
        for t in range(limit):
            action = drawn(rng, policy[state])
            after = drawn(rng, self.P[state, action])
            reward = self.R[state, action, after] + noise * rng.normal(size=len(state))
            rows.append((
                state, action, reward, policy[state, action], episode,
                np.full(len(state), t), after == last, after,
            ))  # fmt: skip
            state, episode = after[after < last], episode[after < last]
            if not len(state):
                break
        names = (
            "state", "action", "reward", "p", "episode", "time", "terminal", "after",
        )  # fmt: skip
        columns = (np.concatenate(part) for part in zip(*rows, strict=True))
        return dict(zip(names, columns, strict=True))


def of_environment(name):
    """The model of an environment of Gymnasium."""
    import gymnasium

    env = gymnasium.make(name).unwrapped
    n, m = env.observation_space.n, env.action_space.n
    P, R = np.zeros((2, n + 1, m, n + 1))
    P[n, :, n] = 1
    for s, of_state in env.P.items():
        for a, outcomes in of_state.items():
            for chance, after, reward, ends in outcomes:
                to = n if ends else after
                P[s, a, to] += chance
                R[s, a, to] += chance * reward
    R /= np.where(P > 0, P, 1.0)
    start = np.append(env.initial_state_distrib, 0.0)
    return Model(P, R, start)


def chain(n_states=6, goes_on=0.85):
    """Random transitions and rewards, and an end with a constant probability."""
    rng = np.random.default_rng(3)
    P, R = np.zeros((2, n_states + 1, 2, n_states + 1))
    P[:-1, :, :-1] = goes_on * rng.dirichlet(np.ones(n_states), size=(n_states, 2))
    P[:-1, :, -1], P[-1, :, -1] = 1 - goes_on, 1
    R[:-1] = rng.normal(size=(n_states, 2))[:, :, None]
    return Model(P, R, np.append(np.full(n_states, 1 / n_states), 0.0))


def process(model, acted, targets, n_episodes, limit=500, noise=0.0, **arguments):
    """Policies that take the best action with some probabilities."""
    tables = {name: model.follows(chance) for name, chance in targets.items()}
    behaviour, n = model.follows(acted), len(model.P)
    features = OneHotEncoder(categories=[np.arange(n)])
    given = {
        "episode": "episode", "time": "time", "terminal": "terminal",
        "next_state": "after", "probability": "p",
        "estimator": ActionValueEstimator(
            features=features, fit_intercept=False, alpha=1e-6
        ),
    }  # fmt: skip
    return Problem(
        lambda rng: model.draw(behaviour, n_episodes, limit, rng, noise),
        {
            name: lambda X, table=table: table[X[:, 0].astype(int)]
            for name, table in tables.items()
        },
        {name: model.value(table) for name, table in tables.items()}
        | {"behaviour": model.value(behaviour)},
        given | arguments,
    )


def pole(chances, n_episodes, limit, rng):
    """Episodes of a cart with a pole (Barto, Sutton and Anderson, 1983). A policy
    pushes in the direction in which the pole falls with this probability."""
    x = rng.uniform(-0.05, 0.05, size=(n_episodes, 4))
    episode, rows = np.arange(n_episodes), []
    for t in range(limit):
        falls = (x[:, 2] + x[:, 3] > 0).astype(int)
        right = rng.random(len(x)) < chances
        action = np.where(right, falls, 1 - falls)
        force, (_, speed, angle, turn) = 20.0 * action - 10.0, x.T
        push = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
        bend = (9.8 * np.sin(angle) - np.cos(angle) * push) / (
            0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
        )
        pull = push - 0.05 * bend * np.cos(angle) / 1.1
        after = x + 0.02 * np.column_stack([speed, pull, turn, bend])
        ends = (abs(after[:, 0]) > 2.4) | (abs(after[:, 2]) > np.pi / 15)
        rows.append((
            x, action, np.ones(len(x)), np.where(right, chances, 1 - chances), episode,
            np.full(len(x), t), ends, after,
        ))  # fmt: skip
        x, episode = after[~ends], episode[~ends]
        if not len(x):
            break
    columns = [np.concatenate(part) for part in zip(*rows, strict=True)]
    names = "state", "action", "reward", "p", "episode", "time", "terminal", "after"
    return dict(zip(names, columns, strict=True))


def cart_pole(n_episodes=80):
    """Policies that balance the pole more and less often."""
    targets = {"steadier": 0.63, "looser": 0.57}
    truth = {}
    for name, chance in (targets | {"behaviour": 0.6}).items():
        log = pole(chance, N_TRUE // 4, 400, np.random.default_rng(2))
        truth[name] = (GAMMA ** log["time"]).sum() / (N_TRUE // 4)

    def policy(X, chance):
        falls = X[:, 2] + X[:, 3] > 0
        right = np.where(falls, chance, 1 - chance)
        return np.column_stack([1 - right, right])

    given = {
        "episode": "episode", "time": "time", "terminal": "terminal",
        "next_state": "after", "probability": "p",
    }  # fmt: skip
    return Problem(
        lambda rng: pole(0.6, n_episodes, 400, rng),
        {name: lambda X, c=c: policy(X, c) for name, c in targets.items()},
        truth,
        given,
    )


def linear(X, scores):
    """Rewards that grow with the scores."""
    return scores + X[:, :1]


def curved(X, scores):
    """Rewards that are not linear in the features."""
    return np.sin(3 * X[:, :1]) * np.sign(scores) + np.abs(X[:, 1:])


PROBLEMS = {
    "bandit": lambda: bandit(500, 5, linear),
    "many_actions": lambda: bandit(3000, 100, linear, (0.5, 0.6, 0.42), 0.5),
    "cart_pole": cart_pole,
    "frozen_lake": lambda: process(
        of_environment("FrozenLake-v1"), 0.6, {"keen": 0.75, "loose": 0.5}, 300
    ),
    "taxi": lambda: process(
        of_environment("Taxi-v4"), 0.8, {"keen": 0.82, "loose": 0.78}, 100,
        method="wpdis",
    ),
    "not_linear": lambda: bandit(500, 5, curved, (0.5, 1.0, 0.0)),
    "cut_off": lambda: process(
        chain(), 0.6, {"keen": 0.66, "loose": 0.55}, 100, 5, 0.5
    ),
    "estimated": lambda: bandit(
        500, 5, linear, probability=None,
        classifier=LogisticRegression(C=10, max_iter=1000),
    ),
    "few": lambda: process(
        chain(), 0.6, {"keen": 0.75, "loose": 0.45}, 15, noise=0.5
    ),
    "no_overlap": lambda: process(
        chain(8, 0.97), 0.1, {"keen": 0.95, "loose": 0.6}, 200, noise=0.5
    ),
}  # fmt: skip
