"""An estimate of the memory of a fit, and a warning before the fit."""

import os

import numpy as np
from scipy import sparse

from sk_stormc.utils.warnings import warn

__all__ = ["needed_memory", "warn_of_memory"]

# approximate numbers of bytes that are in use at the same time
OF_NEIGHBOR, OF_POINT = 140, 400  # for each neighbour of a point with its edge, and each point
COPIES = 3  # copies of the data during the search
OF_NODE, NODES = 40, 4096  # for each node of the mesh for the reported divergence, and its largest side
WIDTH = 12  # number of nodes of a side, divided by the square root of the number of points
PLENTY = 2**30  # memory that every machine is assumed to have


def needed_memory(X, perplexity, on_mesh):
    """An estimate of the peak memory of a fit, without the caller's data."""
    n = X.shape[0]
    data = X.data.nbytes if sparse.issparse(X) else X.nbytes
    nearest = min(n - 1, int(3 * perplexity) + 1)
    mesh = OF_NODE * min(NODES, WIDTH * np.sqrt(n)) ** 2 if on_mesh else 0
    graph = n * (OF_POINT + nearest * OF_NEIGHBOR)
    return max(COPIES * data, data + graph + mesh)


def warn_of_memory(X, perplexity, on_mesh):
    """Warn if a fit needs more memory than the machine has."""
    needed = needed_memory(X, perplexity, on_mesh)
    if needed > PLENTY and needed > (there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        warn(
            f"a map of {X.shape[0]} samples at perplexity {perplexity:g} needs about {needed / 1e9:.1f} GB of memory, "
            f"and this machine has {there / 1e9:.1f} GB. A smaller perplexity and float32 data need less",
            UserWarning,
        )
