"""Tune a method on seeds of its own, then report it on others."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sk_stormc.core.schedules import power

__all__ = ["KEPT", "WIDER", "Setting", "largest_curvature", "settings_of", "tune"]

KEPT = 3  # settings that are run with all tuning seeds; the others with the first only
WIDER = 8  # learning rates that a grid is widened by, at most, while its best one stands at an end


@dataclass(frozen=True)
class Setting:
    """A point of a grid.

    Attributes
    ----------
    text : str
    params : dict
        For `sk_stormc.minimize`.
    at_end : bool
        Whether the learning rate is the smallest or the largest that was tried.
    beyond : callable or None
        Makes the next setting on the far side of an end.
    """

    text: str
    params: dict
    at_end: bool
    beyond: Callable | None = None


def settings_of(variants, rates, rate_of, published=None):
    """The grid of a method: all learning rates times its variants, and what was published."""
    found = [] if published is None else [Setting("as published", published, False)]
    for text, params in variants.items():
        exponent = params.get("exponent")
        params = {name: value for name, value in params.items() if name != "exponent"}

        def rated(rate, factor=None, *, text=text, exponent=exponent, params=params):
            """A setting; it has a next one, at ``factor`` times its rate, where it is an end."""
            eta = rate_of(rate) if exponent is None else power(exponent, rate_of(rate))
            beyond = None if factor is None else partial(rated, rate * factor, factor)
            return Setting(f"{rate:g}, {text}", {"learning_rate": eta, **params}, beyond is not None, beyond)

        step = rates[1] / rates[0] if len(rates) > 1 else 2.0
        factors = {rates[0]: 1 / step, rates[-1]: step}
        found += [rated(rate, factors.get(rate)) for rate in rates]
    return found


def tune(settings, value_of, tuning_seeds, show: Callable = lambda fraction: None):
    """The setting with the smallest median value over the tuning seeds.

    All settings are run with the first seed, the `KEPT` best of them with the others too. While the best one stands at
    an end of the grid, the grid is widened there, by up to `WIDER` rates.
    """
    total = len(settings) + KEPT * (len(tuning_seeds) - 1)
    first = []
    for i, setting in enumerate(settings):
        first.append(_finite(value_of(setting.params, tuning_seeds[0])))
        show((i + 1) / total)
    best, least = settings[int(np.argmin(first))], math.inf
    for k, i in enumerate(np.argsort(first, kind="stable")[:KEPT]):
        others = [_finite(value_of(settings[i].params, seed)) for seed in tuning_seeds[1:]]
        median = float(np.median([first[i], *others]))
        if median < least:
            best, least = settings[i], median
        show((len(settings) + (k + 1) * (len(tuning_seeds) - 1)) / total)
    for _ in range(WIDER if math.isfinite(least) else 0):
        if best.beyond is None:
            return best
        further = best.beyond()
        median = float(np.median([_finite(value_of(further.params, seed)) for seed in tuning_seeds]))
        if median >= least:
            return replace(best, at_end=False, beyond=None)
        best, least = further, median
    return best


def _finite(value):
    return value if math.isfinite(value) else math.inf


def largest_curvature(problem, x0):
    """The largest eigenvalue of the Hessian of a quadratic problem, by 100 power iterations on gradient differences."""
    v = np.random.default_rng(0).normal(size=problem.n_variables)
    start = problem.gradient(x0)
    for _ in range(100):
        v = v / np.linalg.norm(v)
        v = problem.gradient(x0 + v) - start
    return float(np.linalg.norm(v))
