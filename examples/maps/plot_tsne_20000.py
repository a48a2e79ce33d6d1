"""
t-SNE of 20,000 points, beside scikit-learn's
=============================================

``SNEEmbedding`` makes a map of 20,000 augmented digits in a few seconds. scikit-learn's ``TSNE`` needs more than a
minute of one processor for the same data. Its map was made once, by ``python -m benchmarks sne_vs_tsne``, and is
loaded from a file.
"""

# %%
# A map of our own
# ----------------
import time
from pathlib import Path

import numpy as np

import sk_stormc
from sk_stormc import SNEEmbedding
from sk_stormc.datasets import make_augmented_digits

X, y = make_augmented_digits(20_000, random_state=0)
began = time.process_time()
model = SNEEmbedding(random_state=0).fit(X)
seconds = time.process_time() - began
print(f"{seconds:.0f} CPU seconds, {model.n_iter_} iterations")

# %%
# Both maps, by one measure
# -------------------------
# The divergence says how much of the neighbourhoods a map has lost; smaller is better. It is taken here for both maps
# from the same probabilities, of 91 neighbours for each point.
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem

checkout = Path(sk_stormc.__file__).parents[1]  # the file is among the sources
with np.load(checkout / "docs" / "images" / "sne_20000_sklearn.npz") as stored:
    their_map, their_seconds = stored["Z"].astype(float), float(stored["seconds"])
objective = SNEProblem(perplexity_affinities(X, perplexity=30), n_components=2, kernel="student-t")
maps = {}
for name, Z, took in (
    ("SNEEmbedding", model.embedding_, seconds), ("scikit-learn's TSNE", their_map, their_seconds),
):  # fmt: skip
    maps[f"{name}, {took:.0f} s, divergence {objective.divergence(Z.ravel()):.3f}"] = Z
print(*maps, sep="\n")

# %%
# Colours are the digits, which neither method was told. A dot is a digit of scikit-learn's with its ten or so variants.
from matplotlib import pyplot as plt

from sk_stormc.plotting import EmbeddingDisplay

figure, axes = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
for ax, (title, Z) in zip(axes, maps.items(), strict=True):
    EmbeddingDisplay(Z, y=y, y_label="digit").plot(ax, legend=False)
    ax.set_title(title)
plt.show()
