"""The risk measures: a file for each, with its value and subgradient, its program for
the exact method, its moments for `partial_fit`, and its compositional problem for
stochastic solvers.
"""

from sk_stormc.portfolio.risk.cdar import CDaR
from sk_stormc.portfolio.risk.cvar import CVaR
from sk_stormc.portfolio.risk.downside import Downside
from sk_stormc.portfolio.risk.entropic import Entropic
from sk_stormc.portfolio.risk.evar import EVaR
from sk_stormc.portfolio.risk.gini import Gini
from sk_stormc.portfolio.risk.semideviation import Semideviation
from sk_stormc.portfolio.risk.semivariance import Semivariance
from sk_stormc.portfolio.risk.variance import Variance

__all__ = ["MEASURES"]

MEASURES = {
    measure.name: measure
    for measure in (
        Variance,
        Semivariance,
        Entropic,
        CVaR,
        EVaR,
        Semideviation,
        Downside,
        CDaR,
        Gini,
    )
}
