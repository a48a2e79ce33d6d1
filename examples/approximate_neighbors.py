"""Embed augmented digits from the approximate neighbours of pynndescent (`pip install "sk_stormc[neighbors]"`)."""

import pynndescent
from sklearn.pipeline import make_pipeline

from sk_stormc import SNEEmbedding
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.plotting import plot_embeddings

X, y = make_augmented_digits(5000, random_state=0)
pipe = make_pipeline(
    # twice the perplexity and one, and some to spare: an approximate search misses a few
    pynndescent.PyNNDescentTransformer(n_neighbors=95, random_state=0),
    SNEEmbedding(metric="precomputed", random_state=0),
)
Z = pipe.fit_transform(X)
print(f"KL {pipe[-1].kl_divergence_:.3f} after {pipe[-1].n_iter_} iterations")
plot_embeddings({"5,000 augmented digits": Z}, y).savefig("augmented_digits.png")
