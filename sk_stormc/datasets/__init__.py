"""Data sets: synthetic returns, the portfolios of the Kenneth R. French data library, augmented digits."""

from sk_stormc.datasets._digits import make_augmented_digits
from sk_stormc.datasets._french import fetch_french_portfolios
from sk_stormc.datasets._returns import make_gaussian_returns

__all__ = ["fetch_french_portfolios", "make_augmented_digits", "make_gaussian_returns"]
