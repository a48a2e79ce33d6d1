"""Tune a method on separate seeds, and report it on others."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sk_stormc.core.schedules import power

# settings that are run with all tuning seeds; the others are run with the first seed
# only
N_FINALISTS = 3
# maximum number of learning rates that are added to a grid while the best one is at an
# end
MAX_ADDED = 8
# of learning rates that decrease as in the paper of the method
EXPONENTS = {"scgd": -3 / 4, "asc-pg": -5 / 9}


def variants(methods, averages, epochs, large="full checkpoints", **checkpoint):
    """Variants of each method by their texts: the published parameters, which two texts
    describe, and others.

    A learning rate is a function of the rate of the grid, if it is not this rate
    itself.
    """
    fixed = ("learning_rate", "tol")
    published = {
        name: {k: v for k, v in params.items() if k not in fixed}
        for name, params in methods.items()
    }
    found = {}
    for method, exponent in EXPONENTS.items():
        found[method] = {f"constant, batches of {averages}, beta .9": published[method]}
        for size in (64, 16):
            decreasing = {"batch_size": size, "learning_rate": partial(power, exponent)}
            found[method][f"decreasing, batches of {size}"] = decreasing
    for method in ("vrsc-pg", "sarah-c"):
        found[method] = {epochs: published[method]}
        for size in (16, 64):
            found[method][f"{large}, batches of {size}"] = {
                "batch_size": size,
                **checkpoint,
            }
    found["storm-c-paper"] = {
        "precision .1": {},
        "precision 10": {"precision": 10.0},
        "precision 10, momentum .001": {"precision": 10.0, "momentum": 0.001},
    }
    return found


@dataclass(frozen=True)
class Setting:
    """A point of a grid, which can generate the next point, beyond an end of the
    learning rates."""

    text: str
    params: dict
    extend: Callable | None = None

    @property
    def at_end(self):
        """Whether the learning rate is the smallest or the largest that was tested."""
        return self.extend is not None


def settings_of(texts, rates, params_of):
    """The grid of a method: all learning rates times its variants, ``params_of(rate,
    variant)``."""
    step = rates[1] / rates[0] if len(rates) > 1 else 2.0
    factors = {rates[0]: 1 / step, rates[-1]: step}

    def setting(text, variant, rate, factor=None):
        extend = (
            None
            if factor is None
            else partial(setting, text, variant, rate * factor, factor)
        )
        return Setting(f"{rate:g}, {text}", params_of(rate, variant), extend)

    return [
        setting(text, variant, rate, factors.get(rate))
        for text, variant in texts.items()
        for rate in rates
    ]


def tune(settings, value_of, tuning_seeds):
    """The setting with the smallest median value over the tuning seeds, and the values
    of all with the first seed.

    All settings are run with the first seed, and the best `N_FINALISTS` settings also with the
    others. While the best setting is at an end of the grid, the grid is extended there,
    by up to `MAX_ADDED` rates.
    """

    def values(setting, seeds):
        return np.nan_to_num(
            [value_of(setting.params, seed) for seed in seeds],
            nan=math.inf,
            posinf=math.inf,
        )

    first = [values(setting, tuning_seeds[:1])[0] for setting in settings]
    kept = np.argsort(first, kind="stable")[:N_FINALISTS]
    medians = [
        np.median([first[i], *values(settings[i], tuning_seeds[1:])]) for i in kept
    ]
    least, best = min(medians), settings[kept[np.argmin(medians)]]
    for _ in range(MAX_ADDED if math.isfinite(least) else 0):
        if not best.at_end:
            break
        wider = best.extend()
        median = np.median(values(wider, tuning_seeds))
        if median >= least:
            best = replace(best, extend=None)
            break
        best, least = wider, median
    return best, first


def largest_curvature(problem, x0):
    """The largest eigenvalue of the Hessian of a quadratic problem, by 100 power
    iterations on gradient differences."""
    v = np.random.default_rng(0).normal(size=problem.n_variables)
    start = problem.gradient(x0)
    for _ in range(100):
        v = v / np.linalg.norm(v)
        v = problem.gradient(x0 + v) - start
    return float(np.linalg.norm(v))
