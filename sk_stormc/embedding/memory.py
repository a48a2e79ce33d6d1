"""How much memory a map takes, told before it is taken."""

import os

import numpy as np
from scipy import sparse

from sk_stormc.utils.warnings import warn

__all__ = ["needed_memory", "warn_of_memory"]

# bytes, of which about so many are held at the same time
OF_NEIGHBOR, OF_EDGE, OF_POINT = 50, 90, 400  # a neighbour of a point, one that is optimised on, the map's vectors
COPIES = 3  # of the data, during the search
OF_NODE, NODES = 40, 4096  # of the mesh that the divergence is reported from, and its nodes a side at most
WIDTH = 12  # nodes a side over the root of the number of points, about
PLENTY = 2**30  # which any machine has


def needed_memory(X, perplexity, on_mesh):
    """About the largest memory of a fit, the caller's data left out.

    Parameters
    ----------
    X : ndarray or CSR array
    perplexity : float
    on_mesh : bool
        Whether a mesh in two dimensions sums all pairs.

    Returns
    -------
    float
        Bytes.
    """
    n = X.shape[0]
    data = X.data.nbytes if sparse.issparse(X) else X.nbytes
    nearest, optimised = (min(n - 1, int(factor * perplexity) + 1) for factor in (3, 2))
    mesh = OF_NODE * min(NODES, WIDTH * np.sqrt(n)) ** 2 if on_mesh else 0
    graph = n * (OF_POINT + nearest * OF_NEIGHBOR + optimised * OF_EDGE)
    return max(COPIES * data, data + graph + mesh)


def warn_of_memory(X, perplexity, on_mesh):
    """Say so where a fit needs more memory than the machine has.

    Parameters
    ----------
    X, perplexity, on_mesh
        As for `needed_memory`.
    """
    needed = needed_memory(X, perplexity, on_mesh)
    if needed > PLENTY and needed > (there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        warn(
            f"a map of {X.shape[0]} samples at perplexity {perplexity:g} needs about {needed / 1e9:.1f} GB of memory, "
            f"and this machine has {there / 1e9:.1f} GB. A smaller perplexity and float32 data need less",
            UserWarning,
        )
