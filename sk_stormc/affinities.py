"""Affinities of t-SNE: neighbour probabilities calibrated to a perplexity."""

from sk_stormc.embedding.affinities import (
    affinities,
    check_affinities,
    conditional_probabilities,
    nearest_neighbors,
    perplexity_affinities,
    perplexity_search,
)

__all__ = [
    "affinities",
    "check_affinities",
    "conditional_probabilities",
    "nearest_neighbors",
    "perplexity_affinities",
    "perplexity_search",
]
