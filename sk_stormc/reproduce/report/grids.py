"""What the report runs: sizes, and the grids that methods are tuned on. All of it is in the report's text."""

__all__ = ["FULL", "METHODS", "PARTS", "QUICK", "SNE_VARIANTS", "STORM", "VARIANTS", "variants_of"]

STORM = "storm-c-paper"  # Algorithm 1
METHODS = ("scgd", "asc-pg", "vrsc-pg", "sarah-c", STORM)
PARTS = ("published", "tuned")  # by which claims are decided

FULL = {
    "seeds": 5,  # 0, 1, ...: of what is reported
    "tuning_seeds": (1000, 1001),
    "rates": tuple(2.0**k for k in range(-6, 4)),  # over the largest curvature of Phi
    "portfolio": {"periods": 2000, "assets": 200, "max_ifo": 3_000_000},
    "streaming": {"max_ifo": 3_000_000},
    "bellman": {"states": 400, "features": 100, "published_ifo": 144_000, "max_ifo": 144_000},
    "sne": {
        "points": 1797,
        "dimension": 10,
        "published_ifo": 105_300,  # 350 iterations of STORM-C
        "max_ifo": 400_000,
        "factors": (0.25, 0.5, 1.0, 2.0),  # of the problem's learning rate
        "seeds": 3,
    },
    "complexity": {"n_epsilons": 7, "seeds": 20},
    "theory": {"epsilon": 0.3, "seeds": 3},
}
QUICK = {
    "seeds": 3,
    "tuning_seeds": (1000, 1001),
    "rates": (0.25, 1.0, 4.0),
    "portfolio": {"periods": 2000, "assets": 200, "max_ifo": 360_000},
    "streaming": {"max_ifo": 600_000},
    "bellman": {"states": 150, "features": 30, "published_ifo": 144_000, "max_ifo": 36_000},
    "sne": {
        "points": 1100,
        "dimension": 10,
        "published_ifo": 30_300,
        "max_ifo": 150_000,
        "factors": (0.5, 1.0, 2.0),
        "seeds": 2,
    },
    "complexity": {"n_epsilons": 4, "seeds": 6},
    "theory": {"epsilon": 0.3, "seeds": 1},
}

# Three variants of each method. "exponent": the learning rate decreases as (t + 1)^exponent, and so does beta as the
# method's own paper has it.
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
        STORM: _STORM,
    },
    "streaming": {
        **{name: _averaging(name, 2000, "2000") for name in _EXPONENTS},
        "vrsc-pg": _STREAM,
        "sarah-c": _STREAM,
        STORM: _STORM,
    },
    "bellman": {
        **{name: _averaging(name, (100, 100, 1), "100, 100 and 1") for name in _EXPONENTS},
        "vrsc-pg": _BELLMAN,
        "sarah-c": _BELLMAN,
        STORM: {
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
}
SNE_VARIANTS = {
    "scgd": {"beta .5": {"beta": 0.5}, "beta .9": {"beta": 0.9}},
    "asc-pg": {"beta .5": {"beta": 0.5}, "beta .9": {"beta": 0.9}},
    "vrsc-pg": {"epochs of 3 steps": {"epoch_length": 3}, "epochs of 10 steps": {"epoch_length": 10}},
    "sarah-c": {"epochs of 3 steps": {"epoch_length": 3}, "epochs of 10 steps": {"epoch_length": 10}},
    STORM: {"momentum .1": {"momentum": 0.1}, "momentum .5": {"momentum": 0.5}},
}


def variants_of(experiment):
    """The variants of each method in an experiment: a dict of dicts of parameters by text."""
    return SNE_VARIANTS if experiment == "sne" else VARIANTS[experiment]
