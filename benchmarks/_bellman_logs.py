"""Logs of Gymnasium's environments under the uniform policy, and the values that fits are held against."""

import gymnasium
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

ENVIRONMENTS = {  # by part: the id, its options, and how many states get how many rollouts where there is no model
    "frozen_lake": ("FrozenLake-v1", {"map_name": "4x4"}, None),
    "frozen_lake_8x8": ("FrozenLake-v1", {"map_name": "8x8"}, None),
    "cliff_walking": ("CliffWalking-v1", {}, None),
    "taxi": ("Taxi-v4", {}, None),
    "blackjack": ("Blackjack-v1", {}, (100, 500)),
    "cart_pole": ("CartPole-v1", {}, (100, 400)),
    "mountain_car": ("MountainCar-v0", {}, (20, 2)),
    # 500 steps, its limit, seldom reach the end
    "acrobot": ("Acrobot-v1", {"max_episode_steps": 10_000}, (30, 30)),
}
SEED, HELD_OUT = 0, 1
HORIZON = 7000  # steps of a rollout at the most: what comes later weighs less than a thousandth at gamma = .999
RADIAL = {"n_components": 100, "gamma": 0.2, "random_state": 0}
RIDGE = 1e-5


class Log:
    """A log, features fitted on another log, and the values of some states."""

    def __init__(self, part, n_transitions, gammas, quick=False):
        name, options, self._rollouts = ENVIRONMENTS[part]
        self.env = gymnasium.make(name, **options)
        self.gammas = np.array(gammas)
        self.rows = collect_transitions(self.env, n_transitions=n_transitions, seed=SEED, one_hot=False)
        other = collect_transitions(self.env, n_transitions=5000, seed=HELD_OUT, one_hot=False).X
        space = self.env.observation_space
        parts = getattr(space, "spaces", [space])
        if all(hasattr(part, "n") for part in parts):
            features, self.alpha = OneHotEncoder(categories=[np.arange(part.n) for part in parts]), 0.0
        else:
            features, self.alpha = make_pipeline(StandardScaler(), RBFSampler(**RADIAL)), RIDGE
        self.features = FrozenEstimator(features.fit(other))
        if quick and self._rollouts:
            self._rollouts = (3, 2)
        if self._rollouts:
            rng = np.random.default_rng(HELD_OUT)
            self._held_out = other[rng.choice(len(other), self._rollouts[0], replace=False)]
            self._values = rollouts(self.env, self._held_out, self._rollouts[1], self.gammas)

    def values(self, gamma, n_transitions):
        """Values to compare with."""
        if self._rollouts is None:
            states = np.unique(self.rows.X[:n_transitions], axis=0)
            exact = MarkovRewardProcess.from_gymnasium(self.env, gamma=gamma).exact_value()
            return states, exact[states[:, 0].astype(int)], 0.0
        returns = self._values[..., np.flatnonzero(self.gammas == gamma)[0]]
        error = returns.std(axis=1, ddof=1) / np.sqrt(returns.shape[1])
        return self._held_out, returns.mean(axis=1), float(np.sqrt(np.mean(error**2)))


def rollouts(env, observations, n, gammas):
    """Discounted returns of episodes under the uniform policy."""
    begin, env = STARTS[env.spec.id], env.unwrapped  # without a limit of steps
    env.reset(seed=HELD_OUT)
    rng, found = np.random.default_rng(HELD_OUT), np.zeros((len(observations), n, len(gammas)))
    for returns, observation in zip(found.reshape(-1, len(gammas)), np.repeat(observations, n, axis=0), strict=True):
        env.reset()
        begin(env, observation)
        weight = np.ones(len(gammas))
        for action in rng.integers(env.action_space.n, size=HORIZON).tolist():
            _, reward, terminated, _, _ = env.step(action)
            returns += weight * reward
            if terminated:
                break
            weight *= gammas
    return found


def begin_control(env, observation):
    """CartPole, MountainCar: the state is what is seen."""
    env.state = tuple(observation.tolist())


def begin_acrobot(env, observation):
    """Acrobot shows cosines and sines of its two angles."""
    angles = np.arctan2(observation[[1, 3]], observation[[0, 2]])
    env.state = np.append(angles, observation[4:]).astype(float)


def begin_blackjack(env, observation):
    """Hands with the sum, the dealer's open card and the usable ace that are seen; the dealer's other card is drawn."""
    total, card, ace = observation.astype(int).tolist()
    env.player = [1, total - 11] if ace else [total]
    env.dealer = [card, min(int(env.np_random.integers(1, 14)), 10)]


STARTS = {
    "CartPole-v1": begin_control,
    "MountainCar-v0": begin_control,
    "Acrobot-v1": begin_acrobot,
    "Blackjack-v1": begin_blackjack,
}
