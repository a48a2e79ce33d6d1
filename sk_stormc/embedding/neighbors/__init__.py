"""The nearest neighbours of the samples: checks, exact and approximate search, and the graph of distances."""
