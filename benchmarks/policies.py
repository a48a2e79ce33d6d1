"""Comparisons of policies: how often intervals hold, rows warn, and the best policy is
named wrongly.

Ten simulated problems with known values, 200 logs each. Two policies differ from each
other and from the behaviour policy.
"""

import numpy as np

from benchmarks._policy_problems import GAMMA, PROBLEMS
from benchmarks._tables import table
from sk_stormc import compare_policies

DURATION = "20 minutes"
NEEDS_DATA = False
PACKAGES = ("numpy", "scikit-learn", "gymnasium")
LOGS, SEED, CONFIDENCE = 200, 7_000_000, 0.95


LABELS = {
    "bandit": "500 rows, 5 actions",
    "many_actions": "3,000 rows, 100 actions",
    "cart_pole": "CartPole, 80 episodes",
    "frozen_lake": "FrozenLake, 300 episodes",
    "taxi": 'Taxi, 100 episodes, "wpdis"',
    "not_linear": "500 rows, 5 actions, rewards that are not linear",
    "cut_off": "100 episodes, cut off after 5 steps",
    "estimated": "500 rows, 5 actions, estimated probabilities",
    "few": "15 episodes",
    "no_overlap": "200 episodes, hardly any overlap",
}
PARTS = list(PROBLEMS)


def run_part(name, quick, images):
    """The comparisons of one problem."""
    problem = PROBLEMS[name]()
    found = [
        of_log(problem, np.random.default_rng(SEED + k))
        for k in range(4 if quick else LOGS)
    ]
    covered, quiet, wrong, named, width = (
        np.array(part) for part in zip(*found, strict=True)
    )
    return {
        "problem": LABELS[name],
        "covered": covered[quiet].mean() if quiet.any() else None,
        "right": (covered | ~quiet).mean(axis=0).min(),
        "quiet": quiet.mean(),
        "named": named.mean(),
        "wrong": wrong.mean(),
        "width": np.median(width),
    }


def of_log(problem, rng):
    """Whether intervals cover the values and rows do not warn, whether the best policy
    is named wrongly or at all, and the width of intervals over the difference of the
    policies."""
    arguments = {"state": "state", "gamma": GAMMA, "confidence": CONFIDENCE}
    compared = compare_policies(
        problem.draw(rng), problem.policies, **arguments | problem.arguments
    )
    frame, truth = compared.table, problem.truth
    values = np.array([truth[name] for name in compared.values])
    low, high = (np.asarray(frame[name]) for name in ("low", "high"))
    best, named = max(truth, key=truth.get), compared.best_ is not None
    gap = np.ptp([truth[name] for name in problem.policies])
    return (
        (low <= values) & (values <= high),
        np.asarray(frame["warning"]) == "",
        named and compared.best_ != best,
        named,
        np.median(high - low) / gap,
    )


COLUMNS = {
    "problem": "{problem}",
    "intervals hold, without a warning": lambda row: (
        "-" if row["covered"] is None else f"{row['covered']:.1%}"
    ),
    "hold or warn, least of the rows": "{right:.1%}",
    "rows without a warning": "{quiet:.0%}",
    "best policy named": "{named:.0%}",
    "named wrongly": "{wrong:.1%}",
    "width over the difference of the policies": "{width:.2g}",
}


def tables(stored):
    """The table of the problems."""
    results = stored["results"]
    rows = [results[name] for name in PROBLEMS if name in results]
    return {"policies": table(rows, COLUMNS)}
