"""Base class of the CVaR and EVaR problems, which share the confidence and so the constructor."""

from typing import Any

from sk_stormc.portfolio.level import LevelProblem
from sk_stormc.portfolio.risk_measures import check_parameters
from sk_stormc.utils.types import ArrayLike

__all__ = ["TailRiskProblem"]


class TailRiskProblem(LevelProblem):
    """Minimise -mean <r_i, w> + lambda risk(w), where the risk depends on the worst losses.

    Parameters
    ----------
    risk_measure : str, default=None
        None means the measure of the class, which is the only allowed value.
    confidence : float, default=0.95
        The risk measures the worst fraction 1 - confidence of the losses.
    """

    def __init__(
        self,
        returns: ArrayLike,
        risk_aversion: float = 1.0,
        *,
        risk_measure: str | None = None,
        confidence: float = 0.95,
        width: float | None = None,
        sample_weight: ArrayLike | None = None,
        penalty: Any = None,
        metric: Any = None,
    ) -> None:
        check_parameters(confidence=confidence)
        self.confidence = float(confidence)
        super().__init__(
            returns,
            risk_aversion,
            risk_measure=risk_measure,
            width=width,
            sample_weight=sample_weight,
            penalty=penalty,
            metric=metric,
        )
