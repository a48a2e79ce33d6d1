"""Values of FrozenLake's states: from its published model, and from transitions logged in it."""

import numpy as np

from sk_stormc import BellmanValueEstimator, minimize
from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

model = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", gamma=0.95)  # under the uniform policy
exact = model.exact_value()
result = minimize(model.problem(), random_state=0, tol=1e-8)
print(f"from {model}: largest error {np.abs(result.x - exact).max():.1e} after {result.ifo[-1]} IFO")

for n_transitions in (1000, 10_000, 50_000):
    log = collect_transitions("FrozenLake-v1", n_transitions=n_transitions, seed=0)
    left = log.X.any(axis=0)  # nothing is known of the other states
    for solver in ("storm-c", "lstd"):
        value = BellmanValueEstimator(0.95, solver, random_state=0)
        value.fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
        error = (value.predict(np.eye(len(exact))) - exact)[left]
        print(f"{n_transitions:6} transitions, {solver:8} RMSE {np.sqrt(np.mean(error**2)):.4f}")
