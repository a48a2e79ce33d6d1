"""
Policies learned from logs of random actions
============================================

`ActionValueEstimator` learns the value of each action in each state, and the best
policy, from a log. The actions in the log may be random. This example has two problems
of the literature.
"""

# %%
# A chain walk
# ------------
# The chain has 50 states in a row. States 10 and 41 have a reward. The actions move to
# the left or to the right, but one step in ten moves in the opposite direction. The log
# has 10,000 steps with random states and actions. The values of each action are linear
# in ten radial basis functions along the chain.
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
print(f"{q.n_iter_} policies, which changed in these fractions of the next states:")
print(q.policy_changes_.round(2))

# %%
# The model is known, so that value iteration computes the exact values. The learned
# values are lower and smoother, because ten basis functions cannot represent the peaks.
# Nearly all actions are nevertheless the best ones. The strip below the plot shows the
# actions of both policies.
chain = np.arange(50)
best = np.zeros((50, 2))
for _ in range(500):
    V = best.max(axis=1)
    left, right = V[np.maximum(chain - 1, 0)], V[np.minimum(chain + 1, 49)]
    ahead = np.stack([0.9 * left + 0.1 * right, 0.1 * left + 0.9 * right], axis=1)
    best = np.isin(chain, (9, 40))[:, None] + 0.9 * ahead
found, policy = q.predict(chain[:, None]), q.predict_action(chain[:, None])
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
# the first row is on top
axes[1].set(xlabel="state", yticks=(0, 1), yticklabels=("exact", "learned"))
plt.show()

# %%
# A pole
# ------
# A cart is pushed to the left or to the right to balance a pole on it. Under random
# pushes the pole soon falls. The log therefore contains many short episodes, and none
# in which the pole is balanced. The values are linear in splines of the four components
# of a state.
import gymnasium
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from sk_stormc.datasets import collect_transitions

splines = make_pipeline(
    StandardScaler(), SplineTransformer(n_knots=5, extrapolation="linear")
)


def steps_up(choose, n_episodes=20):
    """The numbers of steps for which the poles of all episodes stay up, at most 500."""
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
# The next block fits policies to three logs of each length, and lets each policy act in
# 20 episodes. The first policy is greedy for the values of random pushes. The last
# policy is that after all iterations of policy iteration.
import warnings

from sklearn.exceptions import ConvergenceWarning

LENGTHS = 500, 1000, 5000, 20_000
mean = {"first policy": [], "last policy": []}
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
                # policy iteration stops before it converges
                warnings.simplefilter("ignore", ConvergenceWarning)
                q.fit(
                    log.X,
                    log.y,
                    action=log.action,
                    next_X=log.next_X,
                    terminal=log.terminal,
                )
            means[-1].append(steps_up(q.predict_action).mean())
        steps = np.round(means[-1])
        print(f"{n_transitions:6} transitions, {name}: up for {steps} steps")

# %%
# With 20,000 transitions the pole stays up until the episode is cut off at 500 steps.
# With few transitions the result depends on the log, and further iterations do not
# help: the first policy makes most of the improvement.
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
