"""
Off-policy comparison of two policies
=====================================

The actions in a log of FrozenLake were chosen by one policy. This example estimates the
values of two other policies from the log, with confidence intervals, and determines
which of the two is better.
"""

# %%
# A log of one policy, and two candidates
# ---------------------------------------
# The lake is slippery: a step moves in the chosen direction with probability 1/3. The
# behaviour policy chooses the best action with probability .6. One candidate chooses
# it with probability .7, the other with probability .5.
import numpy as np

from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

GAMMA = 0.95
# the best action in each of the 16 states
BEST = np.array([0, 3, 0, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])


def prefers(chance):
    """A policy with this probability of the best action, and equal ones of the
    others."""
    policy = np.full((16, 4), (1 - chance) / 3)
    policy[np.arange(16), BEST] = chance
    return policy


acted, candidates = prefers(0.6), {"keen": prefers(0.7), "loose": prefers(0.5)}
truth = {
    name: MarkovRewardProcess.from_gymnasium(
        "FrozenLake-v1", policy, gamma=GAMMA
    ).exact_value()[0]
    for name, policy in candidates.items()
}
print({name: round(float(value), 4) for name, value in truth.items()})

# %%
# Estimates and intervals
# -----------------------
# With ``target``, ``collect_transitions`` logs the importance ratios: the probability
# of each action under the target policy, divided by that under the behaviour policy.
# The method "wpdis" uses the ratios alone. "wdr" also fits a model of the values of
# actions under the target policy, and usually has smaller errors.
import warnings

from sk_stormc import ActionValueEstimator, off_policy_value

model = ActionValueEstimator(fit_intercept=False, alpha=1e-8)


def evaluate(n_transitions, method, seed):
    """The values of both candidates, from one log."""
    found = {}
    for name, policy in candidates.items():
        log = collect_transitions(
            "FrozenLake-v1", acted, n_transitions, seed, target=policy
        )
        found[name] = off_policy_value(
            log.y,
            log.importance_ratio,
            log.episode,
            gamma=GAMMA,
            method=method,
            X=log.X,
            action=log.action,
            target=policy,
            next_X=log.next_X,
            terminal=log.terminal,
            estimator=model,
        )
    return found


SIZES, METHODS = (1000, 3000, 10_000, 30_000), ("wpdis", "wdr")
# the example includes short logs
warnings.filterwarnings("ignore", "the value is from")
results = {
    (n, method): evaluate(n, method, seed=3) for n in SIZES for method in METHODS
}
for (n, method), found in results.items():
    gain = found["keen"] - found["loose"]
    low, high = gain.interval(0.9)
    print(
        f"{n:6} transitions, {method:5}: keen is better by {gain.value:7.4f}",
        f"({low:7.4f} to {high:7.4f})",
    )

# %%
# Both candidates are evaluated on the same episodes, so that their errors are
# correlated. The error of their difference, in the right plot, is therefore smaller
# than that of either value. If its interval does not contain 0, the log is sufficient
# for choosing the better candidate.
from matplotlib import pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for k, ((n, method), found) in enumerate(results.items()):
    x, style = (
        SIZES.index(n) + 0.24 * (METHODS.index(method) - 0.5),
        ("o", "s")[METHODS.index(method)],
    )
    for j, (name, color) in enumerate(zip(candidates, ("C0", "C1"), strict=True)):
        low, high = found[name].interval(0.9)
        axes[0].plot([x + 0.08 * j] * 2, [low, high], color=color)
        axes[0].plot(
            x + 0.08 * j,
            found[name].value,
            style,
            color=color,
            label=f"{name}, {method}" if k < 2 else None,
        )
    gain = found["keen"] - found["loose"]
    axes[1].plot([x] * 2, gain.interval(0.9), color="C2")
    axes[1].plot(
        x,
        gain.value,
        style,
        color="C2",
        label=f"keen minus loose, {method}" if k < 2 else None,
    )
for name, color in zip(candidates, ("C0", "C1"), strict=True):
    axes[0].axhline(truth[name], color=color, linewidth=0.8, linestyle="--")
axes[1].axhline(
    truth["keen"] - truth["loose"],
    color="C2",
    linewidth=0.8,
    linestyle="--",
    label="exact",
)
axes[1].axhline(0, color="black", linewidth=0.8)
for ax, title in zip(
    axes, ("values, and intervals of 90 %", "their difference"), strict=True
):
    ax.set_xticks(range(len(SIZES)), [f"{n:,}" for n in SIZES])
    ax.set(xlabel="transitions in the log", title=title)
    ax.legend(frameon=False, fontsize="small")
plt.show()
