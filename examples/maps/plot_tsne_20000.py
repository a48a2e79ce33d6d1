"""
t-SNE of 20,000 points
======================

``SNEEmbedding`` embeds 20,000 augmented digits in a few seconds. scikit-learn's
``TSNE`` takes more than a minute on one processor for the same data. This example
therefore compares the two on fewer points.
"""

# %%
# Twenty thousand points
# ----------------------
# The data are the images of scikit-learn's digits and about ten variants of each, which
# are slightly shifted and rotated.
import time

from sk_stormc import SNEEmbedding
from sk_stormc.datasets import make_augmented_digits

X, y = make_augmented_digits(20_000, random_state=0)
began = time.process_time()
model = SNEEmbedding(random_state=0).fit(X)
seconds = time.process_time() - began
divergence = model.kl_divergence_
title = f"{len(X):,} points, {seconds:.0f} CPU seconds, divergence {divergence:.3f}"
print(title)

# %%
# The colours are the labels of the digits, which the method does not use.
from matplotlib import pyplot as plt

from sk_stormc.plotting import EmbeddingDisplay

figure, ax = plt.subplots(figsize=(7, 7), layout="constrained")
EmbeddingDisplay(model.embedding_, y=y, y_label="digit").plot(ax)
ax.set_title(title)

# %%
# Comparison with scikit-learn
# ----------------------------
# The divergence measures how much the neighbourhoods in a map differ from those in the
# data; smaller is better. It is computed for both maps from the same affinities, of 91
# neighbours of each point. ``align_embedding`` turns the second map so that it
# resembles the first.
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.plotting import align_embedding
from sk_stormc.problems import SNEProblem

X, y = load_digits(return_X_y=True)
objective = SNEProblem(
    perplexity_affinities(X, perplexity=30), n_components=2, kernel="student-t"
)
first = None
figure, axes = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
for ax, method in zip(
    axes, (SNEEmbedding(random_state=0), TSNE(random_state=0)), strict=True
):
    began = time.process_time()
    Z = method.fit_transform(X)
    seconds, divergence = (
        time.process_time() - began,
        objective.divergence(Z.astype(float).ravel()),
    )
    first = Z if first is None else first
    EmbeddingDisplay(align_embedding(Z, first), y=y).plot(ax, legend=False)
    ax.set_title(
        f"{type(method).__name__}, {seconds:.1f} s, divergence {divergence:.3f}"
    )
plt.show()
