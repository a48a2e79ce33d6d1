"""Data sets: synthetic returns and the portfolios of the Kenneth R. French data library."""

from sk_stormc.datasets._french import fetch_french_portfolios
from sk_stormc.datasets._returns import make_gaussian_returns

__all__ = ["fetch_french_portfolios", "make_gaussian_returns"]
