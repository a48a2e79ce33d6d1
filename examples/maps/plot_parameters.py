"""
The effects of the parameters of a map
======================================

This example embeds the same 1,000 images of digits with several values of one parameter
at a time. The other parameters have their default values.
"""

# %%
# Six parameters
# --------------
# ``perplexity`` is the effective number of neighbours of each point. A small perplexity
# shows small structures, a large one shows large structures, and several values show
# both. ``exaggeration`` makes clusters denser. ``dof`` changes the tails of the kernel:
# values below 1 split clusters into finer ones, and values above 1 merge them.
# ``early_exaggeration`` and ``max_iter`` do not change the objective, but determine how
# well it is minimised. All maps are turned by ``align_embedding`` so that they resemble
# the default one.
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SNEEmbedding
from sk_stormc.plotting import align_embedding

X, y = load_digits(return_X_y=True)
X, y = X[:1000], y[:1000]
default = SNEEmbedding(random_state=0).fit(X)
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
            # 15 iterations are too few, and the fit warns
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SNEEmbedding(**{parameter: value}, random_state=0).fit(X)
        places = align_embedding(model.embedding_, default.embedding_)
        ax.scatter(*places.T, c=y, cmap="tab10", s=3)
        ax.set(title=f"{parameter}={value}", xticks=[], yticks=[], aspect="equal")
        width = model.embedding_.std()
        ax.set_xlabel(f"KL {model.kl_divergence_:.2f}, width {width:.0f}", fontsize=8)

# %%
# KL is the divergence. It can be compared within the rows of ``exaggeration``,
# ``early_exaggeration`` and ``max_iter``, but not within the others, because each
# perplexity has its own affinities, and each ``dof`` its own kernel. KL does not
# include the exaggeration, so that the third row shows by how much denser clusters
# increase the divergence.
#
# Continue from a finished map
# ----------------------------
# ``optimize`` adds a stage with its own exaggeration to a finished map. In this example
# two stages make the clusters denser, and a third one without exaggeration expands them
# again.
model = default
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
# The loss curve contains all stages, as the divergence without exaggeration.
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(model.record_iterations_, model.loss_curve_)
ax.set(
    xlabel="iteration",
    ylabel="KL divergence",
    title=f"{model.n_iter_} iterations in five stages",
)
plt.show()
