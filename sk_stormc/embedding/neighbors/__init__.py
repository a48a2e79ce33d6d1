"""The nearest neighbours of the samples: validation, exact and approximate search, and
the graph of distances."""
