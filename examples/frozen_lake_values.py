"""Values of FrozenLake's states: from its published model, and from logged transitions."""

import gymnasium
import numpy as np
from scipy import sparse

from sk_stormc import BellmanValueEstimator, minimize
from sk_stormc.datasets import MarkovRewardProcess

env = gymnasium.make("FrozenLake-v1", is_slippery=True).unwrapped
n, n_actions = env.observation_space.n, env.action_space.n
P, R = np.zeros((n, n)), np.zeros((n, n))
for state, actions in env.P.items():
    for moves in actions.values():  # the uniform policy
        for probability, successor, reward, _ in moves:
            # an episode's end is a state that is never left and gives nothing
            P[state, successor] += probability / n_actions
            R[state, successor] = reward
model = MarkovRewardProcess(sparse.csr_array(P), sparse.csr_array(R), gamma=0.95)
exact = model.exact_value()
result = minimize(model.problem(), random_state=0, tol=1e-8)
print(f"from the model: largest error {np.abs(result.x - exact).max():.1e} after {result.ifo[-1]} IFO")

for n_transitions in (1000, 10_000, 50_000):
    transitions = model.transitions(n_transitions, random_state=0)
    seen = np.unique(transitions.X.argmax(axis=1))
    for solver in ("storm-c", "lstd"):
        value = BellmanValueEstimator(0.95, solver, fit_intercept=False, random_state=0).fit(**transitions._asdict())
        error = value.predict(np.eye(n))[seen] - exact[seen]
        print(f"{n_transitions:6} transitions, {solver:8} RMSE {np.sqrt(np.mean(error**2)):.4f}")
