"""
A map from approximate neighbours
=================================

Above 20,000 samples ``SNEEmbedding`` searches approximately by itself where the metric is Euclidean or cosine. For
other metrics its search is exact, and takes time with the square of the number of samples: from a hundred thousand on
this is most of all time. ``pynndescent`` finds nearly all neighbours faster, in many metrics (``pip install
"sk_stormc[neighbors]"``). Its transformer stands before the embedding in a pipeline.
"""

# %%
# Three times the perplexity and one neighbours are needed. Some more are asked for, since an approximate search misses
# a few.
import pynndescent
from sklearn.pipeline import make_pipeline

from sk_stormc import SNEEmbedding
from sk_stormc.datasets import make_augmented_digits

X, y = make_augmented_digits(5000, random_state=0)
pipe = make_pipeline(
    pynndescent.PyNNDescentTransformer(
        n_neighbors=95, metric="manhattan", random_state=0
    ),
    SNEEmbedding(metric="precomputed", random_state=0),
).fit(X)
print(f"divergence {pipe[-1].kl_divergence_:.3f} after {pipe[-1].n_iter_} iterations")

# %%
from matplotlib import pyplot as plt

from sk_stormc.plotting import EmbeddingDisplay

EmbeddingDisplay.from_estimator(pipe[-1], y, y_label="digit")
plt.show()
