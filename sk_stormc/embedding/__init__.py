"""Neighbour embedding: stochastic neighbour embedding with the Gaussian and the
Student-t kernel.

This package contains the nearest-neighbour search and the affinities, the objective and
its fast sums over all pairs, the preconditioner by the graph Laplacian,
initializations, the transform of new samples, and the estimator `SNEEmbedding`.
"""
