"""
Distributionally robust learning
================================

The mean loss of a model hides the rows on which it fails. Distributionally robust
learning minimises the largest mean loss over all weights p of the rows, from which the
Kullback-Leibler divergence between p and equal weights is subtracted, times a
temperature T. The maximum over p is known in closed form, T log mean exp(loss / T), so
that the objective is the logarithm of an average. It needs ``pip install
"sk_stormc[autodiff]"``.
"""

# %%
# Rows of two groups
# ------------------
# In one of ten rows the second feature has the opposite effect. The model does not know
# the group.
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import minimize as scipy_minimize

from sk_stormc import minimize
from sk_stormc.problems import DifferentiableLogMeanExp

rng = np.random.default_rng(0)
n = 20_000
A = np.c_[rng.normal(size=(n, 4)), np.ones(n)]
minority = rng.random(n) < 0.1
score = 2 * A[:, 0] + np.where(minority, -1, 1) * 1.5 * A[:, 1]
y = np.where(score + rng.logistic(size=n) > 0, 1.0, -1.0)


def loss(x, row):
    a, label = row
    return jnp.logaddexp(0, -label * (a @ x))


# %%
# The robust objective
# --------------------
# ``DifferentiableLogMeanExp`` takes the exponent of one row. The weights p of the
# maximum are proportional to exp(loss / T).
def robust(temperature, x0=None):
    return DifferentiableLogMeanExp(
        lambda x, row: loss(x, row) / temperature,
        (A, y),
        x0=np.zeros(5) if x0 is None else x0,
        scale=temperature,
    )


T = 0.5
result = minimize(robust(T), random_state=0)
print(result.stop_reason, result.fun, result.x.round(3))


# %%
# The same minimum with SciPy
# ---------------------------
# A log-sum-exp by hand, differentiated on all rows, is minimised by SciPy's L-BFGS.
# All methods of this library arrive at the same minimum. A pass counts every evaluation
# of a row once for its loss and once for its gradient.
@jax.jit
def value_and_gradient(x):
    def objective(x):
        losses = jax.vmap(loss, (None, 0))(x, (A, y))
        return T * (jax.nn.logsumexp(losses / T) - jnp.log(n))

    return jax.value_and_grad(objective)(x)


with jax.enable_x64(True):
    scipys = scipy_minimize(
        lambda x: [np.asarray(part, float) for part in value_and_gradient(x)],
        np.zeros(5),
        jac=True,
        method="L-BFGS-B",
        tol=1e-12,
    )
print(f"SciPy            {scipys.fun:.9f}")
for solver in ("storm-c", "lbfgs", "corrected-sample"):
    ours = minimize(robust(T), solver, tol=1e-6, random_state=0)
    print(f"{solver:16} {ours.fun:.9f}, {ours.ifo[-1] / (2 * n):.0f} passes")
    assert abs(ours.fun - scipys.fun) < 1e-6

# %%
# The choice of the temperature
# -----------------------------
# A small temperature gives large weights to the rows with the largest losses. The
# divergence of the weights is the radius of the ball of distributions for which the
# model is robust. Each fit starts at the result of the one before.
temperatures = np.geomspace(30, 0.3, 8)
radius, losses_of_groups, x = [], [], np.zeros(5)
for temperature in temperatures:
    x = minimize(robust(temperature, x), "lbfgs").x
    losses = np.logaddexp(0, -y * (A @ x))
    p = np.exp((losses - losses.max()) / temperature)
    p /= p.sum()
    radius.append(p @ np.log(n * p))
    losses_of_groups.append([losses[~minority].mean(), losses[minority].mean()])

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, values, label in zip(
    axes, (temperatures, radius), ("temperature", "radius (divergence)"), strict=True
):
    ax.plot(values, losses_of_groups, marker="o", label=["majority", "minority"])
    ax.set(xscale="log", xlabel=label, ylabel="mean loss of a group")
axes[0].legend()
plt.show()
