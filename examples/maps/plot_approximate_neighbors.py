"""
A map from approximate neighbours
=================================

The exact search for neighbours takes time with the square of the number of points. From a hundred thousand points on
this is most of all time. ``pynndescent`` finds nearly all neighbours faster (``pip install "sk_stormc[neighbors]"``).
Its transformer stands before the embedding in a pipeline.
"""

# %%
# Twice the perplexity and one neighbours are needed. Some more are asked for, since an approximate search misses a few.
import pynndescent
from sklearn.pipeline import make_pipeline

from sk_stormc import SNEEmbedding
from sk_stormc.datasets import make_augmented_digits

X, y = make_augmented_digits(5000, random_state=0)
pipe = make_pipeline(
    pynndescent.PyNNDescentTransformer(n_neighbors=95, random_state=0),
    SNEEmbedding(metric="precomputed", random_state=0),
).fit(X)
print(f"divergence {pipe[-1].kl_divergence_:.3f} after {pipe[-1].n_iter_} iterations")

# %%
from matplotlib import pyplot as plt

from sk_stormc.plotting import EmbeddingDisplay

EmbeddingDisplay.from_estimator(pipe[-1], y, y_label="digit")
plt.show()
