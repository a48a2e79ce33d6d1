"""Maps of points: stochastic neighbour embedding with the Gaussian and the Student-t kernel.

This package has the nearest-neighbour search and the affinities, the objective and its fast sums over all pairs, the
graph Laplacian that preconditions the steps, initialisations, the placing of new samples, and the estimator
`SNEEmbedding`.
"""
