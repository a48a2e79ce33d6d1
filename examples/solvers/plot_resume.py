"""
Stop and resume a run
=====================

The state of a run is a small object. It can be pickled, and does not contain the data.
A run that is resumed from a state has the same result, to the last bit, as a run that
was not stopped.
"""

# %%
# Stop a run
# ----------
# ``on_record`` is called about once a pass. The run stops when it returns True.
import pickle

import numpy as np

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem

problem = PortfolioProblem(
    make_gaussian_returns(5000, 20, mean=0.2, random_state=0), risk_measure="entropic"
)
part = minimize(
    problem, "storm-c", random_state=0, on_record=lambda record: record.ifo > 40_000
)
state = pickle.dumps(part.state)
print(f"stopped after {part.ifo[-1]} oracle calls ({part.stop_reason})")
print(f"the state has {len(state):,} bytes")

# %%
# Resume it
# ---------
resumed = minimize(problem, "storm-c", state=pickle.loads(state))
whole = minimize(problem, "storm-c", random_state=0)
np.testing.assert_array_equal(resumed.x, whole.x)
np.testing.assert_array_equal(resumed.loss_curve, whole.loss_curve)
print(f"resumed until {resumed.ifo[-1]} oracle calls ({resumed.stop_reason})")

# %%
from matplotlib import pyplot as plt

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
gap = whole.loss_curve - whole.fun
ax.plot(whole.ifo[:-1], gap[:-1], color="0.75", linewidth=8, label="not stopped")
ax.plot(
    part.ifo,
    part.loss_curve - whole.fun,
    "o-",
    color="#0072B2",
    label="before the stop",
)
later = slice(len(part.ifo) - 1, -1)
ax.plot(
    resumed.ifo[later],
    resumed.loss_curve[later] - whole.fun,
    "s--",
    color="#D55E00",
    label="resumed",
)
ax.set(yscale="log", xlabel="oracle calls", ylabel="objective minus its final value")
ax.legend(frameon=False)
plt.show()
