"""Tune a method on separate seeds, and report it on others."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

__all__ = ["KEPT", "VARIANTS", "WIDER", "Setting", "largest_curvature", "settings_of", "tune"]

KEPT = 3  # settings that are run with all tuning seeds; the others are run with the first seed only
WIDER = 8  # maximum number of learning rates that are added to a grid while the best one is at an end


# Variants of each method. "exponent": the learning rate decreases as (t + 1)^exponent, and beta decreases as in the
# paper of the method.
_EXPONENTS = {"scgd": -3 / 4, "asc-pg": -5 / 9}


def _averaging(name, batch_size, words):
    decreasing = {"exponent": _EXPONENTS[name]}
    return {
        f"constant, batches of {words}, beta .9": {"batch_size": batch_size, "beta": 0.9},
        "decreasing, batches of 64": {"batch_size": 64, **decreasing},
        "decreasing, batches of 16": {"batch_size": 16, **decreasing},
    }


def _epochs(published, words, large="full checkpoints", **checkpoint):
    return {
        words: published,
        f"{large}, batches of 16": {"batch_size": 16, **checkpoint},
        f"{large}, batches of 64": {"batch_size": 64, **checkpoint},
    }


_STORM = {
    "precision .1": {},
    "precision 10": {"precision": 10.0},
    "precision 10, momentum .001": {"precision": 10.0, "momentum": 0.001},
}
_FINITE = _epochs(
    {"checkpoint_batch_size": 2000, "batch_size": (5, 5, 1), "epoch_length": 20},
    "checkpoints of 2000, 20 steps of 5, 5 and 1",
)
# a stream has no full checkpoint
_STREAM = _epochs(
    {"checkpoint_batch_size": 2000, "batch_size": 5, "epoch_length": 20},
    "checkpoints of 2000, 20 steps of 5",
    "checkpoints of 20,000",
    checkpoint_batch_size=20_000,
)
_BELLMAN = _epochs(
    {"checkpoint_batch_size": (100, 100, 100), "batch_size": (5, 5, 1), "epoch_length": 100},
    "checkpoints of 100, 100 steps of 5, 5 and 1",
)
VARIANTS = {
    "portfolio": {
        **{name: _averaging(name, 2000, "2000") for name in _EXPONENTS},
        "vrsc-pg": _FINITE,
        "sarah-c": _FINITE,
        "storm-c-paper": _STORM,
    },
    "streaming": {
        **{name: _averaging(name, 2000, "2000") for name in _EXPONENTS},
        "vrsc-pg": _STREAM,
        "sarah-c": _STREAM,
        "storm-c-paper": _STORM,
    },
    "bellman": {
        **{name: _averaging(name, (100, 100, 1), "100, 100 and 1") for name in _EXPONENTS},
        "vrsc-pg": _BELLMAN,
        "sarah-c": _BELLMAN,
        "storm-c-paper": {
            "precision .1": {},
            "precision 10": {"precision": 10.0},
            "precision 10, momentum .02, batches of 100": {
                "precision": 10.0,
                "momentum": 0.02,
                "batch_size": 100,
                "init_batch_size": 100,
            },
        },
    },
    "sne": {
        "scgd": {"beta .5": {"beta": 0.5}, "beta .9": {"beta": 0.9}},
        "asc-pg": {"beta .5": {"beta": 0.5}, "beta .9": {"beta": 0.9}},
        "vrsc-pg": {"epochs of 3 steps": {"epoch_length": 3}, "epochs of 10 steps": {"epoch_length": 10}},
        "sarah-c": {"epochs of 3 steps": {"epoch_length": 3}, "epochs of 10 steps": {"epoch_length": 10}},
        "storm-c-paper": {"momentum .1": {"momentum": 0.1}, "momentum .5": {"momentum": 0.5}},
    },
}


@dataclass(frozen=True)
class Setting:
    """A point of a grid, which can generate the next point beyond an end of the learning rates."""

    text: str
    params: dict
    beyond: Callable | None = None

    @property
    def at_end(self):
        """Whether the learning rate is the smallest or the largest that was tested."""
        return self.beyond is not None


def settings_of(variants, rates, params_of):
    """The grid of a method: all learning rates times its variants, ``params_of(rate, variant)``."""
    step = rates[1] / rates[0] if len(rates) > 1 else 2.0
    factors = {rates[0]: 1 / step, rates[-1]: step}

    def setting(text, variant, rate, factor=None):
        beyond = None if factor is None else partial(setting, text, variant, rate * factor, factor)
        return Setting(f"{rate:g}, {text}", params_of(rate, variant), beyond)

    return [setting(text, variant, rate, factors.get(rate)) for text, variant in variants.items() for rate in rates]


def tune(settings, value_of, tuning_seeds):
    """The setting with the smallest median value over the tuning seeds, and the values of all with the first seed.

    All settings are run with the first seed, and the best `KEPT` settings also with the others. While the best setting
    is at an end of the grid, the grid is extended there, by up to `WIDER` rates.
    """

    def value(setting, seeds):
        values = [value_of(setting.params, seed) for seed in seeds]
        return [value if math.isfinite(value) else math.inf for value in values]

    first = [value(setting, tuning_seeds[:1])[0] for setting in settings]
    best, least = settings[int(np.argmin(first))], math.inf
    for i in np.argsort(first, kind="stable")[:KEPT]:
        median = float(np.median([first[i], *value(settings[i], tuning_seeds[1:])]))
        if median < least:
            best, least = settings[i], median
    for _ in range(WIDER if math.isfinite(least) else 0):
        if not best.at_end:
            break
        further = best.beyond()
        median = float(np.median(value(further, tuning_seeds)))
        if median >= least:
            best = replace(best, beyond=None)
            break
        best, least = further, median
    return best, first


def largest_curvature(problem, x0):
    """The largest eigenvalue of the Hessian of a quadratic problem, by 100 power iterations on gradient differences."""
    v = np.random.default_rng(0).normal(size=problem.n_variables)
    start = problem.gradient(x0)
    for _ in range(100):
        v = v / np.linalg.norm(v)
        v = problem.gradient(x0 + v) - start
    return float(np.linalg.norm(v))
