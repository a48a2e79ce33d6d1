"""Displays of runs, embeddings, frontiers, walks and policies that follow the
conventions of scikit-learn's displays.

Importing this package imports matplotlib, which importing `sk_stormc` does not.
"""

from sk_stormc.plotting.alignment import align_embedding
from sk_stormc.plotting.convergence import ConvergenceDisplay
from sk_stormc.plotting.embedding import EmbeddingDisplay
from sk_stormc.plotting.frontier import FrontierDisplay
from sk_stormc.plotting.panels import plot_curves, plot_embeddings
from sk_stormc.plotting.policies import PolicyValueDisplay
from sk_stormc.plotting.tearsheet import TearsheetDisplay
from sk_stormc.plotting.walk_forward import WalkForwardDisplay

__all__ = [
    "ConvergenceDisplay",
    "EmbeddingDisplay",
    "FrontierDisplay",
    "PolicyValueDisplay",
    "TearsheetDisplay",
    "WalkForwardDisplay",
    "align_embedding",
    "plot_curves",
    "plot_embeddings",
]
