"""
A map from approximate neighbours
=================================

Above 10,000 samples ``SNEEmbedding`` searches for the nearest neighbours approximately
if the metric is Euclidean or cosine. For other metrics the search is exact, and its
time grows with the square of the number of samples. From a hundred thousand samples on
it takes most of the time. ``pynndescent`` finds nearly all neighbours faster, with many
metrics (``pip install "sk_stormc[neighbors]"``). Its transformer precedes the embedding
in a pipeline.
"""

# %%
# The embedding needs 3 perplexity + 1 neighbours of each sample. The pipeline searches
# for some more, because an approximate search misses a few.
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
