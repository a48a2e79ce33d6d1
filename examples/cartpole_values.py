"""CartPole under the uniform policy: continuous states, radial basis functions, and the ridge found by a search."""

import gymnasium
import numpy as np
import sklearn
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import BellmanValueEstimator
from sk_stormc.datasets import collect_transitions

GAMMA, RIDGES = 0.95, np.logspace(-8, -2, 7)
env = gymnasium.make("CartPole-v1").unwrapped
rng = np.random.default_rng(0)


def episode(start=None):
    """States of an episode under the uniform policy, with the last one."""
    state, _ = env.reset(seed=int(rng.integers(2**31)))
    if start is not None:
        state = env.state = start
    states, done = [np.array(state)], False
    while not done:
        state, _, done, _, _ = env.step(int(rng.integers(2)))
        states.append(np.array(state))
    return np.array(states)


log = collect_transitions("CartPole-v1", n_transitions=5000, seed=0)
X, next_X, terminal = log.X, log.next_X, log.terminal
# the value of some other states, by Monte Carlo: a step has reward 1
states = np.vstack([e[rng.integers(len(e) - 1)] for e in (episode() for _ in range(60))])
truth = [np.mean([(1 - GAMMA ** (len(episode(s)) - 1)) / (1 - GAMMA) for _ in range(60)]) for s in states]

sklearn.set_config(enable_metadata_routing=True)
features = make_pipeline(StandardScaler(), RBFSampler(n_components=200, random_state=0))
found = {}
for solver in ("lstd", "storm-c"):
    model = BellmanValueEstimator(GAMMA, solver, objective="projected", features=features, random_state=0)
    model.set_fit_request(next_X=True, terminal=True).set_score_request(next_X=True, terminal=True)
    search = GridSearchCV(model, {"alpha": RIDGES}, error_score="raise")
    search.fit(X, log.y, next_X=next_X, terminal=terminal)
    rmse = []
    for alpha in RIDGES:
        fitted = sklearn.clone(model).set_params(alpha=alpha)
        fitted.fit(X, log.y, next_X=next_X, terminal=terminal)
        rmse.append(np.sqrt(np.mean((fitted.predict(states) - truth) ** 2)))
    found[solver] = search.best_params_["alpha"], rmse
sklearn.set_config(enable_metadata_routing=False)

print(f"{len(X)} transitions, {len(states)} states valued by Monte Carlo, of {min(truth):.1f} to {max(truth):.1f}")
print(f"{'RMSE at ridge':16}" + "".join(f"{alpha:10.0e}" for alpha in RIDGES) + "   found by the search")
for solver, (best, rmse) in found.items():
    print(f"{solver:16}" + "".join(f"{value:10.3f}" for value in rmse) + f"   {best:.0e}")
