"""
What the parameters of a map do
===============================

The same 1,000 images of digits, embedded with one parameter at a time set to several values. The other parameters are
the defaults.
"""

# %%
# Six parameters
# --------------
# ``perplexity`` is how many neighbours count. Small ones show small structures, and several at once show both.
# ``exaggeration`` presses clusters together, and ``dof`` changes the tails of the kernel: below 1 clusters fall into
# finer ones, above 1 they run into each other. ``early_exaggeration`` and ``max_iter`` are not about the objective, but
# about how well it is minimised.
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SNEEmbedding

X, y = load_digits(return_X_y=True)
X, y = X[:1000], y[:1000]
rows = {
    "perplexity": [3, 10, 30, 100],
    "several perplexities": [[3, 30], [3, 100], [10, 100], [3, 30, 100]],
    "exaggeration": [1, 2, 4, 8],
    "dof": [0.5, 0.8, 1, 5],
    "early_exaggeration": [1, 3, 6, 12],
    "max_iter": [15, 30, 70, 200],
}
figure, axes = plt.subplots(len(rows), 4, figsize=(10, 15), layout="constrained")
for of_row, (name, values) in zip(axes, rows.items(), strict=True):
    parameter = "perplexity" if name == "several perplexities" else name
    for ax, value in zip(of_row, values, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # 15 iterations are too few, and say so
            model = SNEEmbedding(**{parameter: value}, random_state=0).fit(X)
        ax.scatter(*model.embedding_.T, c=y, cmap="tab10", s=3)
        ax.set(title=f"{parameter}={value}", xticks=[], yticks=[], aspect="equal")
        width = model.embedding_.std()
        ax.set_xlabel(f"KL {model.kl_divergence_:.2f}, width {width:.0f}", fontsize=8)

# %%
# KL compares maps of one row only where the row is not about the objective: each perplexity has other affinities, and
# each number of degrees of freedom another kernel. With ``exaggeration`` the divergence without it is shown, so that it
# says what the denser clusters cost.
#
# Going on with a map
# -------------------
# ``optimize`` adds a stage to a finished map, with an exaggeration of its own. Here a map is pressed together and let
# go again.
model = SNEEmbedding(random_state=0).fit(X)
maps = {"fit": model.embedding_}
for exaggeration in (4, 12, 1):
    model.optimize(60, exaggeration=exaggeration)
    maps[f"optimize(60, exaggeration={exaggeration})"] = model.embedding_
figure, axes = plt.subplots(1, 4, figsize=(10, 3), layout="constrained")
for ax, (title, places) in zip(axes, maps.items(), strict=True):
    ax.scatter(*places.T, c=y, cmap="tab10", s=3)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.set_title(title, fontsize=8)

# %%
# The loss curve has all stages, always as the divergence without exaggeration.
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(model.record_iterations_, model.loss_curve_)
ax.set(
    xlabel="iteration",
    ylabel="KL divergence",
    title=f"{model.n_iter_} iterations in five stages",
)
plt.show()
