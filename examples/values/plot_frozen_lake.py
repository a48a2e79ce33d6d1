"""
Values on the frozen lake
=========================

In Gymnasium's FrozenLake an agent crosses slippery ice. A step moves in the chosen
direction with probability 1/3. An episode ends in a hole or at the goal, and only the
goal has a reward, which is 1. This example estimates the value of each square for an
agent that chooses its directions at random.
"""

# %%
# Exact values from the model
# ---------------------------
# FrozenLake publishes its transition probabilities, from which the exact values are
# computed.
import numpy as np

from sk_stormc import BellmanValueEstimator, minimize
from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

GAMMA = 0.95
# under random actions
model = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", gamma=GAMMA)
exact = model.exact_value()
result = minimize(model.problem(), random_state=0, tol=1e-8)
error = np.abs(result.x - exact).max()
print(f"{model}: largest error {error:.1e} after {result.ifo[-1]} oracle calls")

# %%
# Values from logged transitions
# ------------------------------
# The estimator learns from transitions alone. A log has no information about squares
# that were never left.
maps = {"exact": exact}
for n_transitions in (1000, 20_000):
    log = collect_transitions("FrozenLake-v1", n_transitions=n_transitions, seed=0)
    value = BellmanValueEstimator(GAMMA, random_state=0)
    value.fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    left = log.X.any(axis=0)
    maps[f"from {n_transitions:,} transitions"] = np.where(
        left, value.predict(np.eye(16)), 0
    )
    error = np.sqrt(np.mean((value.predict(np.eye(16)) - exact)[left] ** 2))
    print(f"{n_transitions:6} transitions: root mean square error {error:.4f}")

# %%
# The values on the grid
# ----------------------
# S is the start, G the goal and H a hole. The values decrease with the distance from
# the goal, and are lower beside holes.
import gymnasium
from matplotlib import pyplot as plt

letters = gymnasium.make("FrozenLake-v1").unwrapped.desc.astype(str)
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for ax, (title, values) in zip(axes, maps.items(), strict=True):
    image = ax.imshow(values.reshape(4, 4), cmap="YlGnBu", vmin=0, vmax=exact.max())
    for (row, column), letter in np.ndenumerate(letters):
        number = values.reshape(4, 4)[row, column]
        text = f"{letter}\n{number:.2f}" if letter in "SF" else letter
        dark = letter in "SF" and number > 0.6 * exact.max()
        ax.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            color="white" if dark else "black",
        )
    ax.set(title=title, xticks=[], yticks=[])
figure.colorbar(image, ax=axes, label="expected discounted reward", shrink=0.8)
plt.show()
