"""The downside risk of order p, (mean max(-y, 0)^p)^(1/p)."""

from dataclasses import dataclass

from sk_stormc.portfolio.risk.semideviation import Semideviation

__all__ = ["Downside"]


@dataclass
class Downside(Semideviation):
    """The root of the mean of powers of the returns below 0: the semideviation without
    centring."""

    name = "downside"
    shift = None
    about_mean = False
