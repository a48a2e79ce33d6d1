"""The divergence between a map and affinities other than those on which it was optimised."""

import numpy as np

from sk_stormc.utils.threads import each, parts

__all__ = ["divergence_from"]

TILE = 2**18  # pairs of one block


def divergence_from(P, points, per_point, log_sum, dof=1.0):
    """KL(P || Q) for given affinities P and known normalisers of Q."""
    n = P.shape[0]
    row, x = np.repeat(np.arange(n, dtype=P.indices.dtype), np.diff(P.indptr)), points.astype(float, copy=False)

    def of_some(some):
        square = sum(np.square(c[row[some]] - c[P.indices[some]]) for c in x.T)
        return float(P.data[some] @ (square if per_point else dof * np.log1p(square / dof)))

    attraction = sum(each(of_some, parts(P.nnz, TILE)))
    if per_point:
        p = P.data[P.data > 0]
        return (attraction + float(p @ np.log(p)) + log_sum) / n
    mass, other = float(P.sum()), P.T.tocsr()

    def entropy(rows):
        joint = (P[rows] + other[rows]).data / (2 * mass)
        joint = joint[joint > 0]
        return float(joint @ np.log(joint))

    entropies = each(entropy, parts(n, max(1, TILE * n // max(P.nnz, 1))))
    return attraction / mass + sum(entropies) + log_sum
