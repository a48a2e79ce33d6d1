"""Maps of points: stochastic neighbour embedding with the Gaussian and the Student-t kernel.

The wing has the search for neighbours and their probabilities, the objective and its fast sums over all pairs, the
graph Laplacian that steps are measured in, starts, the placing of new samples, and the estimator `SNEEmbedding`.
"""
