"""
Control: to the better side of a chain, and a pole that stays up
================================================================

`ActionValueEstimator` learns from a log what each action is worth in each state, and which policy is best. The log may
be of actions at random. Two examples of the literature show how far that goes.
"""

# %%
# A chain walk
# ------------
# There are 50 states in a row, and states 10 and 41 have a reward. An action goes to the left or to the right, and in
# one step of ten to the other side. The log has 10,000 steps, with states and actions at random. Values are linear in
# ten bumps along the chain, for each action apart.
import numpy as np
from sklearn.preprocessing import FunctionTransformer

from sk_stormc import ActionValueEstimator

rng = np.random.default_rng(0)
states, actions = rng.integers(50, size=10_000), rng.integers(2, size=10_000)
right = (actions == 1) != (rng.random(10_000) < 0.1)
after = np.clip(states + np.where(right, 1, -1), 0, 49)
rewards = np.isin(states, (9, 40)).astype(float)
centres = np.linspace(0, 49, 10)
bumps = FunctionTransformer(lambda X: np.exp(-0.5 * ((X - centres) / 4) ** 2))

q = ActionValueEstimator(gamma=0.9, features=bumps)
q.fit(states[:, None], rewards, action=actions, next_X=after[:, None])
print(
    f"The policy stays after {q.n_iter_} policies. It changed in {q.policy_changes_.round(2)} of the successors."
)

# %%
# The model is known here, so that the best values can be had by value iteration. The values that were learnt are lower
# and less sharp, as ten bumps cannot make the peaks, and yet nearly all actions are right. The strip below has them.
chain = np.arange(50)
best = np.zeros((50, 2))
for _ in range(500):
    V = best.max(axis=1)
    left, right = V[np.maximum(chain - 1, 0)], V[np.minimum(chain + 1, 49)]
    ahead = np.stack([0.9 * left + 0.1 * right, 0.1 * left + 0.9 * right], axis=1)
    best = np.isin(chain, (9, 40))[:, None] + 0.9 * ahead
found, policy = q.predict(chain[:, None]), q.policy(chain[:, None])
print(f"{np.sum(policy == best.argmax(axis=1))} of 50 actions are the best ones")

from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap

figure, axes = plt.subplots(
    2, sharex=True, height_ratios=(5, 1), figsize=(7, 4.5), layout="constrained"
)
for action, (name, color) in enumerate((("left", "C0"), ("right", "C1"))):
    axes[0].plot(chain + 1, best[:, action], ":", color=color, label=f"{name}, exact")
    axes[0].plot(chain + 1, found[:, action], color=color, label=name)
axes[0].set(ylabel="value of the action")
axes[0].legend(frameon=False, ncols=2)
axes[1].imshow(
    np.stack([policy, best.argmax(axis=1)]),
    aspect="auto",
    extent=(0.5, 50.5, -0.5, 1.5),
    cmap=ListedColormap(["C0", "C1"]),
    alpha=0.6,
    interpolation="nearest",
)
axes[1].set(
    xlabel="state", yticks=(0, 1), yticklabels=("exact", "found")
)  # the first row is on top
plt.show()

# %%
# A pole
# ------
# A cart is pushed to the left or to the right, and a pole on it should stay up. Under random pushes it soon falls, so
# that a log has many short episodes and nothing of how a pole is kept up. The values are linear in splines of the four
# numbers that a state has.
import gymnasium
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from sk_stormc.datasets import collect_transitions

splines = make_pipeline(
    StandardScaler(), SplineTransformer(n_knots=5, extrapolation="linear")
)


def steps_up(choose, n_episodes=20):
    """For how many steps the poles stay up, 500 at the most; all episodes are played at once."""
    poles = [gymnasium.make("CartPole-v1") for _ in range(n_episodes)]
    seen = np.array([pole.reset(seed=k)[0] for k, pole in enumerate(poles)])
    steps, up = np.zeros(n_episodes, dtype=int), np.arange(n_episodes)
    while len(up):
        steps[up] += 1
        came = [
            poles[k].step(int(action))
            for k, action in zip(up, choose(seen[up]), strict=True)
        ]
        seen[up] = [observation for observation, *_ in came]
        up = up[
            [not (terminated or truncated) for _, _, terminated, truncated, _ in came]
        ]
    return steps


# %%
# How long must the log be? For each length there are three logs, and each policy acts in 20 episodes. After one policy,
# the actions are the best ones by the values of pushing at random. The other ones are those of the policy that stays.
import warnings

from sklearn.exceptions import ConvergenceWarning

LENGTHS = 500, 1000, 5000, 20_000
mean = {"one policy": [], "until it stays": []}
for n_transitions in LENGTHS:
    logs = [
        collect_transitions("CartPole-v1", n_transitions=n_transitions, seed=seed)
        for seed in range(3)
    ]
    for (name, means), max_iter in zip(mean.items(), (1, None), strict=True):
        means.append([])
        for log in logs:
            q = ActionValueEstimator(
                gamma=0.95, features=splines, alpha=1e-4, max_iter=max_iter
            )
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ConvergenceWarning
                )  # the first policy does not stay
                q.fit(
                    log.X,
                    log.y,
                    action=log.action,
                    next_X=log.next_X,
                    terminal=log.terminal,
                )
            means[-1].append(steps_up(q.policy).mean())
        print(
            f"{n_transitions:6} transitions, {name:14}: up for {np.round(means[-1])} steps"
        )

# %%
# From 20,000 transitions the pole stays up until the episode is ended at 500 steps. With few transitions luck decides,
# and going on until the policy stays does not help: most of the way is made by the first policy.
at_random = n_transitions / (log.episode[-1] + 1)  # steps of an episode of the last log
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, means), shift in zip(mean.items(), (0.95, 1.05), strict=True):
    (line,) = ax.plot(np.array(LENGTHS) * shift, np.mean(means, axis=1), label=name)
    ax.plot(np.array(LENGTHS) * shift, means, "o", color=line.get_color(), markersize=4)
ax.axhline(at_random, color="grey", linestyle=":", label="random pushes")
ax.set(
    xscale="log",
    xlabel="transitions in the log",
    ylabel="steps for which the pole is up",
    ylim=(0, 520),
)
ax.legend(frameon=False)
plt.show()
