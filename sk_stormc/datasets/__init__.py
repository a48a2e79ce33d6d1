"""Data sets: returns, augmented digits, Markov reward processes, transitions of Gymnasium's environments."""

from sk_stormc.datasets._bellman import MarkovRewardProcess, make_bellman_problem
from sk_stormc.datasets._digits import make_augmented_digits
from sk_stormc.datasets._french import fetch_french_portfolios
from sk_stormc.datasets._gymnasium import collect_transitions
from sk_stormc.datasets._returns import make_gaussian_returns

__all__ = [
    "MarkovRewardProcess",
    "collect_transitions",
    "fetch_french_portfolios",
    "make_augmented_digits",
    "make_bellman_problem",
    "make_gaussian_returns",
]
