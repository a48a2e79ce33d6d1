"""Stop a run, pickle it, and go on with the same bits."""

import pickle

import numpy as np

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem

problem = PortfolioProblem(make_gaussian_returns(5000, 20, mean=0.2, random_state=0), risk_measure="entropic")
whole = minimize(problem, "storm-c", random_state=0)
part = minimize(problem, "storm-c", random_state=0, on_record=lambda record: record.ifo > 40_000)
state = pickle.dumps(part.state)
print(f"stopped at {part.ifo[-1]} IFO ({part.stop_reason}); the state has {len(state)} bytes")
resumed = minimize(problem, "storm-c", state=pickle.loads(state))
print(f"went on to {resumed.ifo[-1]} IFO ({resumed.stop_reason})")
np.testing.assert_array_equal(resumed.x, whole.x)
np.testing.assert_array_equal(resumed.loss_curve, whole.loss_curve)
