"""Data sets: returns, augmented digits, Markov reward processes, and logged transitions
of environments.

This package contains readers, generators, exact models, and logs of environments.
"""

from sk_stormc.datasets.digits import make_augmented_digits
from sk_stormc.datasets.environments import collect_transitions
from sk_stormc.datasets.french import fetch_french_portfolios
from sk_stormc.datasets.gaussian_returns import make_gaussian_returns
from sk_stormc.datasets.markov import MarkovRewardProcess, make_bellman_problem
from sk_stormc.datasets.moments import returns_from_moments
from sk_stormc.datasets.prices import returns_from_prices
from sk_stormc.datasets.recorded import (
    transitions_from_arrays,
    transitions_from_episodes,
)

__all__ = [
    "MarkovRewardProcess",
    "collect_transitions",
    "fetch_french_portfolios",
    "make_augmented_digits",
    "make_bellman_problem",
    "make_gaussian_returns",
    "returns_from_moments",
    "returns_from_prices",
    "transitions_from_arrays",
    "transitions_from_episodes",
]
