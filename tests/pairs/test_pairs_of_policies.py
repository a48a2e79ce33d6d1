"""Every option of `compare_policies` meets every other: a row of the table is
`off_policy_value` of the arrays, called by hand."""

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import covering_array
from sklearn.naive_bayes import GaussianNB

from sk_stormc import (
    ActionValueEstimator,
    compare_policies,
    estimated_ratios,
    off_policy_value,
)

LENGTHS = np.random.default_rng(0).integers(1, 6, 60)
N = LENGTHS.sum()
METHODS = ["wis", "wpdis", "dr", "wdr"]
FACTORS = {
    "container": ["dict", "dict of tables", "pandas", "pandas, labelled", "polars"],
    "policy": [
        "function of probabilities",
        "function of actions",
        "array of probabilities",
        "array of actions",
        "column",
    ],
    "method": ["auto", *METHODS],
    "behaviour": ["probability", "classifier"],
    "episodes": ["one row each", "end", "a third is cut off", "ends unknown"],
    "time": ["none", "steps", "dates"],
    "order": ["one by one", "alternating", "shuffled"],
    "baseline": ["behaviour", "one", "other"],
    "gamma": [0.9, 1.0],
    "actions": [(0, 1), ("a", "b")],
}
FORBIDDEN = [
    *({"time": time, "episodes": "one row each"} for time in ("steps", "dates")),
    *(
        {"order": "shuffled", "time": "none", "episodes": name}
        for name in FACTORS["episodes"][1:]
    ),
    # values without a discount need ends
    *(
        {"gamma": 1.0, "episodes": "ends unknown", "method": name}
        for name in ("dr", "wdr")
    ),
    # the probabilities of all actions, also in the last states
    *({"policy": "column", "method": name} for name in ("dr", "wdr")),
    *(
        {"policy": policy, "method": method, "episodes": episodes}
        for policy in ("array of probabilities", "array of actions")
        for method in ("dr", "wdr")
        for episodes in ("a third is cut off", "ends unknown")
    ),
]
MODEL = ActionValueEstimator(alpha=1e-2)


def make_log(case):
    """Episodes one after the other, as arrays, with actions 0 and 1."""
    rng = np.random.default_rng(1)
    last = np.cumsum(LENGTHS) - 1
    X, after = rng.normal(size=(2, N, 2))
    inside = np.setdiff1d(np.arange(N), last)
    after[inside] = X[inside + 1]
    chance = 1 / (1 + np.exp(-X[:, 0] / 2))
    action = (rng.random(N) < chance).astype(int)
    ends = np.isin(np.arange(N), last) | (case["episodes"] == "one row each")
    if case["episodes"] == "a third is cut off":
        ends[last[::3]] = False
    return {
        "X": X,
        "after": after,
        "action": action,
        "reward": X[:, 0] * action + rng.normal(size=N),
        "chance": np.where(action, chance, 1 - chance),
        "episode": np.array([f"e{k:02}" for k in np.repeat(np.arange(60), LENGTHS)]),
        "step": np.concatenate([np.arange(n) for n in LENGTHS]),
        "end": ends,
    }


def often(X):
    """Probabilities of two actions."""
    right = 1 / (1 + np.exp(-np.asarray(X)[:, 0]))
    return np.column_stack([1 - right, right])


def always_right(X):
    return np.tile([0.0, 1.0], (len(X), 1))


def rarely(X):
    return np.tile([0.6, 0.4], (len(X), 1))


def compared(case, log):
    """The comparison of the log in its container."""
    kind, labels = case["container"], np.array(case["actions"])
    columns = {name: part for name, part in log.items() if name not in ("X", "after")}
    columns["action"] = labels[log["action"]]
    columns["own"] = often(log["X"])[np.arange(N), log["action"]]
    columns["day"] = np.datetime64("2024-02-27") + log["step"]
    state, next_state = ["x0", "x1"], ["after0", "after1"]
    if kind == "dict of tables":
        columns |= {"x": log["X"], "after": log["after"]}
        state, next_state = "x", "after"
    else:
        for names, part in ((state, log["X"]), (next_state, log["after"])):
            columns |= dict(zip(names, part.T, strict=True))
    data = columns
    if "pandas" in kind:
        data = pd.DataFrame(columns)
        if "labelled" in kind:
            data = data.set_index(data.index[::-1]).astype({"action": "category"})
    elif kind == "polars":
        data = pytest.importorskip("polars").DataFrame(columns)
    policy = {
        "function of probabilities": often,
        "function of actions": lambda X: np.full(len(X), labels[1]),
        "array of probabilities": often(log["X"]),
        "array of actions": np.full(N, labels[1]),
        "column": "own",
    }[case["policy"]]
    one_row, known = (case["episodes"] == name for name in ("one row each", "end"))
    classified = case["behaviour"] == "classifier"
    return compare_policies(
        data,
        {"one": policy, "other": rarely},
        state=state,
        next_state=None if one_row or known else next_state,
        episode=None if one_row else "episode",
        terminal=None if case["episodes"] == "ends unknown" else "end",
        time={"none": None, "steps": "step", "dates": "day"}[case["time"]],
        probability=None if classified else "chance",
        classifier=GaussianNB() if classified else None,
        gamma=case["gamma"],
        method=case["method"],
        estimator=MODEL,
        baseline=case["baseline"],
    )


def by_hand(case, log):
    """Values by name, methods, and whether there are warnings."""
    one_row, rows = case["episodes"] == "one row each", np.arange(N)
    cut = case["episodes"] in ("a third is cut off", "ends unknown")
    episode = rows if one_row else log["episode"]
    ends = None if case["episodes"] == "ends unknown" else log["end"]
    given = {"gamma": case["gamma"], "terminal": ends}
    given["time"] = None if case["time"] == "none" else log["step"]
    own = always_right if case["policy"].endswith("of actions") else often
    policies = {"one": own, "other": rarely}
    methods, values, warned = {}, {}, set()
    for name, policy in policies.items():
        logged, how = policy(log["X"])[rows, log["action"]], case["method"]
        if how == "auto":
            form = "function" if name == "other" else case["policy"].split()[0]
            known = form == "function" or (form == "array" and not cut)
            how = "wdr" if known and ends is not None else "wpdis"
        ratio, more = logged / log["chance"], {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if case["behaviour"] == "classifier":
                ratio = estimated_ratios(
                    log["X"], log["action"], logged, GaussianNB(),
                    episode=None if one_row else episode,
                )  # fmt: skip
            if how in ("dr", "wdr"):
                more = {"X": log["X"], "action": log["action"], "target": policy}
                more |= {"next_X": log["after"], "estimator": MODEL}
            values[name] = off_policy_value(
                log["reward"], ratio, episode, method=how, **given, **more
            )
        methods[name], warned = how, warned | ({name} if caught else set())
    # beside a model of what follows a cut, the log's own policy has one too
    more, methods["behaviour"] = {"method": "is"}, "is"
    if cut and {"dr", "wdr"} & set(methods.values()):
        more = {"method": "dr", "X": log["X"], "action": 0 * rows, "estimator": MODEL}
        more |= {"next_X": log["after"], "target": lambda X: np.ones((len(X), 1))}
        methods["behaviour"] = "dr"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values["behaviour"] = off_policy_value(
            log["reward"], np.ones(N), episode, **given, **more
        )
    warned |= {"behaviour"} if caught else set()
    after_cut = {name for name in methods if cut and methods[name] in ("dr", "wdr")}
    return values, methods, warned, after_cut


CASES = covering_array(FACTORS, FORBIDDEN, trials=5)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_row_is_the_value_by_hand(case):
    log = make_log(case)
    order = {
        "one by one": np.arange(N),
        "alternating": np.lexsort((log["episode"], log["step"])),
        "shuffled": np.random.default_rng(2).permutation(N),
    }[case["order"]]
    rows = {name: part[order] for name, part in log.items()}
    found = compared(case, rows)
    # without labels of episodes, folds are those of the rows as they come
    as_they_come = (case["behaviour"], case["episodes"])
    own = rows if {"classifier", "one row each"} & set(as_they_come) else log
    values, methods, warned, after_cut = by_hand(case, own)
    base = case["baseline"]
    names = list(dict.fromkeys((base, "behaviour", "one", "other")))
    assert list(found.table.index) == list(found.values) == names
    for name, row in found.table.iterrows():
        value = values[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gap = value - values[base]
            expected = [value.value, value.std_error, *value.interval(0.95)]
            difference = [gap.value, *gap.interval(0.95)]
        if (name in after_cut) != (base in after_cut):
            difference = np.full(3, np.nan)
            warned.add(name)
        if name == base:
            difference = np.zeros(3)
        np.testing.assert_allclose(
            row.iloc[:8].astype(float),
            [*expected, *difference, value.effective_size],
            rtol=1e-7,
            atol=1e-9,
        )
        method = "mean" if name == "behaviour" else methods[name]
        assert (row["method"], bool(row["warning"])) == (method, name in warned)
    if warned:
        assert found.best_ is None
        return
    first = max(values, key=lambda name: values[name].value)
    gaps = [values[first] - values[name] for name in values if name != first]
    surely = all(gap.interval(1 - 0.05 / 2)[0] > 0 for gap in gaps)
    assert found.best_ == (first if surely else None)
