"""
CartPole: the choice of the ridge penalty
=========================================

The states of CartPole consist of four numbers and never repeat. In this example their
values are linear in 200 random features of a Gaussian kernel. The features are nearly
collinear, so that the values depend on the ridge penalty ``alpha``. The example
compares a search over ``alpha`` by the TD error with the errors of the values.
"""

# %%
# A log, and the true values of some states
# -----------------------------------------
# The cart is pushed to the left or to the right at random. Each step has the reward 1,
# so that the value of a state measures how long the pole will stay up. The true values
# of 40 other states are means over 40 episodes from each state.
import gymnasium
import numpy as np

from sk_stormc.datasets import collect_transitions

GAMMA, RIDGES = 0.95, np.logspace(-8, -2, 7)
env = gymnasium.make("CartPole-v1").unwrapped
rng = np.random.default_rng(0)


def steps_from(start):
    """The number of steps for which the pole stays up."""
    env.reset(seed=int(rng.integers(2**31)))
    env.state, steps, done = start, 0, False
    while not done:
        done = env.step(int(rng.integers(2)))[2]
        steps += 1
    return steps


log = collect_transitions("CartPole-v1", n_transitions=5000, seed=0)
other = collect_transitions("CartPole-v1", n_transitions=1000, seed=1)
states = other.X[rng.choice(len(other.X), 40, replace=False)].astype(float)
truth = [
    np.mean([(1 - GAMMA ** steps_from(state)) / (1 - GAMMA) for _ in range(40)])
    for state in states
]
print(f"{len(log.X)} transitions; true values of {min(truth):.1f} to {max(truth):.1f}")

# %%
# A search by the TD error, and the errors of the values
# ------------------------------------------------------
# The search passes ``next_X`` and ``terminal`` to ``fit`` and ``score`` by
# scikit-learn's metadata routing.
import sklearn
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import BellmanValueEstimator

features = make_pipeline(StandardScaler(), RBFSampler(n_components=200, random_state=0))
found = {}
for solver in ("lstd", "storm-c"):
    with sklearn.config_context(enable_metadata_routing=True):
        model = BellmanValueEstimator(
            GAMMA, solver, objective="projected", features=features, random_state=0
        )
        model.set_fit_request(next_X=True, terminal=True).set_score_request(
            next_X=True, terminal=True
        )
        search = GridSearchCV(model, {"alpha": RIDGES}, cv=3, error_score="raise")
        search.fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    rmse = []
    for alpha in RIDGES:
        fitted = sklearn.clone(model).set_params(alpha=alpha)
        fitted.fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
        rmse.append(np.sqrt(np.mean((fitted.predict(states) - truth) ** 2)))
    found[solver] = search.best_params_["alpha"], rmse
    print(
        f"{solver:8}"
        + "".join(f"{value:8.3f}" for value in rmse)
        + f"   the search selects {found[solver][0]:.0e}"
    )

# %%
# Both solvers give the same values. The search by the TD error does not select the best
# penalty. Most of the TD error is the noise of the next state, so that it is a poor
# measure of the errors of the values.
from matplotlib import pyplot as plt

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (solver, (best, rmse)), style, size in zip(
    found.items(), ("-C0", "--C1"), (13, 7), strict=True
):
    ax.plot(RIDGES, rmse, style, label=solver)
    ax.plot(
        best,
        rmse[list(RIDGES).index(best)],
        "o" + style[-2:],
        markersize=size,
        fillstyle="none",
    )
ax.set(
    xscale="log",
    yscale="log",
    xlabel="alpha",
    ylabel="RMSE of the values",
)
ax.plot([], [], "ok", fillstyle="none", label="selected by the TD error")
ax.legend(frameon=False)
plt.show()
