"""Random logs with known values, in the forms in which people have them: right,
refused, warned, wrong in silence.

A case is drawn from its seed: a model of 3 to 8 states with two actions (episodes that
end early or late, a chain, `make_bellman_problem`), gamma from 0 to 1, what is
estimated, how states are represented, how the order of rows and the ends of episodes
are given and in which types, where episodes are cut off or rows are missing, the unit
of rewards, and in half of the cases a fault that users make. Each case is fitted to
twenty logs of about 1,500 rows. It is right if the mean error is within five standard
errors of this mean (from the twenty logs), or within 2 % of the size of the values, and
if at least 70 % of the errors are below twice the standard errors that the estimator
states. A policy is right if it loses at most 5 % beside the best policy for the
relative frequencies of the complete log. A case is wrong in silence if it is wrong, and
the logs without a warning are wrong among themselves. Faults of which a log shows
nothing, such as truncated episodes that are marked as terminal, are left out. The seeds
are those of the benchmark only.
"""

import warnings
from collections import Counter

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks._tables import OUTCOMES, outcome_counts, table
from benchmarks._value_forms import (
    CUTS,
    FAULTS,
    ORDERS,
    STATES,
    TASKS,
    Case,
    form,
    mixed,
    represent,
    spoilt,
)
from benchmarks._value_logs import ACTIONS
from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    estimated_ratios,
    off_policy_value,
)

DURATION = "3 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "pandas")
FIRST, CASES, LOGS = 90_000, 400, 20
RIGHT, BIAS, LOSS = 5.0, 0.02, 0.05
HOLDS = 0.7  # fraction of errors within twice their stated standard errors


# estimates


def estimate(case, given, features):
    """Estimates and their stated standard errors, or NaN, with the true values; for a
    policy, its loss."""
    model, gamma, n = case.model, case.model.gamma, len(case.model.P)
    at = represent(case.states, np.arange(n), n)[0]
    if case.fault == "numbers of states":
        at = np.arange(n)[:, None].astype(float)
    used = {
        "X",
        "y",
        "next_X",
        "terminal",
        "time",
        "episode",
        "sample_weight",
    } & given.keys()
    columns = {name: given[name] for name in used}
    target = model.target[:, ::-1] if getattr(case, "reversed", False) else model.target
    if case.task.startswith("values") and case.task != "values of actions":
        value = BellmanValueEstimator(
            gamma, features=features,
            objective="auto" if case.task == "values in chunks" else case.objective,
            trace_decay=case.trace_decay, half_life=case.half_life, **case.params,
        )  # fmt: skip
        truth = model.values(model.acts)
        if case.task == "values of another policy":
            columns["importance_ratio"], truth = (
                given["importance_ratio"],
                model.values(model.target),
            )
        if case.task == "values in chunks":
            for start in range(0, len(given["y"]), 400):
                rows = slice(start, start + 400)
                value.partial_fit(**{
                    name: column.iloc[rows] if hasattr(column, "iloc") else column[rows]
                    for name, column in columns.items()
                })  # fmt: skip
        else:
            value.fit(**columns)
        stated = (
            value.predict(at, return_std=True)[1]
            if "episode" in columns
            else np.full(n, np.nan)
        )
        return value.predict(at), stated, case.unit * truth
    if case.task in ("values of actions", "best policy"):
        columns |= {"action": given["action"]} if "action" in given else {}
        chances = target
        if case.task == "values of actions":
            q = ActionValueEstimator(
                _policy(case, chances, at), gamma, features=features, **case.params
            )
            Q = q.fit(**columns).predict(at)
            return (
                Q.ravel(),
                np.full(Q.size, np.nan),
                case.unit * model.action_values(model.target).ravel(),
            )
        taken = (
            ActionValueEstimator(gamma=gamma, features=features, **case.params)
            .fit(**columns)
            .predict_action(at)
        )
        own = model.values(np.eye(ACTIONS)[taken]).mean()
        return (
            np.array([own]),
            np.full(1, np.nan),
            np.array([model.values(case.best).mean()]),
        )
    method = case.task.split(",")[0]
    columns = {name: columns[name] for name in used - {"X", "next_X", "sample_weight"}}
    columns["importance_ratio"], truth = (
        given["importance_ratio"],
        model.values(model.target),
    )
    if case.task == "wpdis, estimated ratios":
        classifier = (
            LogisticRegression(C=10)
            if features is None
            else make_pipeline(features, LogisticRegression(C=10))
        )
        ratios = {name: given[name] for name in ("action", "episode") if name in given}
        columns["importance_ratio"] = estimated_ratios(
            given["X"],
            target=_policy(case, target, at),
            classifier=classifier,
            **ratios,
        )
    if method in ("dr", "wdr"):
        columns |= {
            name: given[name] for name in ("X", "next_X", "action") if name in given
        }
        columns |= {"target": _policy(case, target, at)}
        columns["estimator"] = ActionValueEstimator(
            features=features, alpha=1e-6, **case.params
        )
    elif case.steps is not None:
        # whose last rows are dropped
        steps = case.steps - (case.order == "flat arrays")
        truth = model.values(model.target, steps)
    found = off_policy_value(gamma=gamma, method=method, **columns)
    found.interval()
    return (
        np.array([found.value]),
        np.array([found.std_error]),
        case.unit * np.array([truth.mean()]),
    )


def _policy(case, chances, at):
    """A policy as an array where states are numbers or indicators, and as a function
    elsewhere."""
    if case.states in ("indicators", "nullable", "encoded numbers"):
        return chances
    n = len(chances)

    def policy(X):
        if sparse.issparse(X):
            return chances[X.toarray()[:, :n].argmax(axis=1)]
        X = np.asarray(X)
        if case.states in ("text", "categories"):
            return chances[np.searchsorted(list("abcdefgh"), X[:, 0].astype(str))]
        if case.states == "missing values":
            return chances[np.nan_to_num(X[:, 0]).astype(int)]
        if case.states == "linear features":
            return chances[(X @ np.linalg.inv(mixed(n))).argmax(axis=1)]
        return chances[X[:, :n].argmax(axis=1)]

    return policy


def judge(case, errors, stated, size):
    """Whether the errors of some logs are those of a right estimate."""
    mean, noise = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    if case.task == "best policy":
        return -mean[0] <= LOSS * size
    small = np.linalg.norm(mean) <= max(
        RIGHT * np.linalg.norm(noise), BIAS * size * np.sqrt(len(mean))
    )
    known = stated > 0
    holds = np.mean(abs(errors[known]) <= 2 * stated[known]) if known.any() else 1.0
    return bool(small and holds >= HOLDS)


def measure_case(seed, n_logs):
    """What became of one case. Logs that do not warn must be right among themselves."""
    case, found, messages, warned, refused = (
        Case(seed),
        [],
        Counter(),
        np.zeros(n_logs, dtype=bool),
        None,
    )
    for number in range(n_logs):
        log, rng = case.log(number)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                given, features = form(case, log, rng)
                found.append(estimate(case, spoilt(case, given, rng), features))
            except (
                LookupError,
                TypeError,
                ValueError,
            ) as error:  # also of a policy that gets spoilt rows
                refused = str(error)
                break
        messages.update({str(warning.message)[:60] for warning in caught})
        warned[number] = bool(caught)
    row = {
        "seed": seed, "task": case.task, "states": case.states, "order": case.order,
        "cut": case.cut,
        "fault": case.fault, "outcome": "refused",
        "warned": int(warned.sum()), "said": (refused or " | ".join(messages))[:100],
    }  # fmt: skip
    if refused is not None:
        return row
    values, stated, truth = (np.array(part) for part in zip(*found, strict=True))
    errors, size = values - truth, abs(truth).mean() + truth.std()
    right, quiet = judge(case, errors, stated, size), ~warned
    silent = quiet.sum() > n_logs / 5 and not judge(
        case, errors[quiet], stated[quiet], size
    )
    row["outcome"] = "right" if right else "silent" if silent else "warned"
    return row | {
        "error": np.linalg.norm(errors.mean(axis=0)) / (size * np.sqrt(errors.shape[1]))
    }


def run(quick, data):
    """Measure all cases."""
    seeds = range(FIRST, FIRST + (24 if quick else CASES))
    results = [measure_case(seed, 8 if quick else LOGS) for seed in seeds]
    return {
        "settings": {"first": FIRST, "cases": len(results), "logs": LOGS},
        "results": results,
    }


# tables


def tables(stored):
    """Counts by fault, and without faults by what is estimated and by form."""
    rows = stored["results"]
    by_fault = [
        outcome_counts(name, [row for row in rows if row["fault"] == name], LOGS)
        for name in ("none", *FAULTS)
    ]
    by_fault.append(outcome_counts("all", rows, LOGS))
    clean = [row for row in rows if row["fault"] == "none"]
    by_form = [
        outcome_counts(
            name if column == "task" else f"{column}: {name}",
            [row for row in clean if row[column] == name],
            LOGS,
        )
        for column, names in {
            "task": TASKS,
            "states": STATES,
            "order": ORDERS,
            "cut": CUTS,
        }.items()
        for name in names
    ]
    return {
        "faults": table(
            [row for row in by_fault if row["cases"]], {"fault": "{name}", **OUTCOMES}
        ),
        "forms": table(
            [row for row in by_form if row["cases"]],
            {"without a fault": "{name}", **OUTCOMES},
        ),
    }
