"""Random logs with known values, in the forms in which people have them: right, refused, warned, wrong in silence.

A case is drawn from its seed: a model of 3 to 8 states with two actions (episodes that end early or late, a chain,
`make_bellman_problem`), gamma from 0 to 1, what is estimated, how states are represented, how the order of rows and the
ends of episodes are given and in which types, where episodes are cut off or rows are missing, the unit of rewards, and
in half of the cases a fault that users make. Each case is fitted to twenty logs of about 1,500 rows. It is right if the
mean error is within five standard errors of this mean (from the twenty logs), or within 2 % of the size of the values,
and if at least 70 % of the errors are below twice the standard errors that the estimator states. A policy is right if
it loses at most 5 % beside the best policy for the relative frequencies of the complete log. A case is wrong in silence
if it is wrong, and the logs without a warning are wrong among themselves. Faults of which a log shows nothing, such as
truncated episodes that are marked as terminal, are left out. The seeds are those of the benchmark only.
"""

import warnings
from collections import Counter

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from benchmarks._tables import table
from benchmarks._value_logs import ACTIONS, MODELS, draw_log, draw_model, learnt
from sk_stormc import ActionValueEstimator, BellmanValueEstimator, estimated_ratios, off_policy_value
from sk_stormc.datasets import transitions_from_arrays

DURATION = "2 minutes"
NEEDS_DATA = False
PACKAGES = ("scikit-learn", "pandas")
FIRST, CASES, LOGS, ROWS = 80_000, 600, 20, 1500
TASKS = (
    "values", "values in chunks", "values of another policy", "values of actions", "best policy", "is", "wis", "pdis",
    "wpdis", "dr", "wdr", "wpdis, estimated ratios",
)  # fmt: skip
OFF_POLICY = TASKS[5:]
STATES = (
    "indicators", "text", "categories", "encoded numbers", "nullable", "sparse", "missing values", "constant column",
    "large unit", "small unit",
)  # fmt: skip
ORDERS = "next_X", "rows in order", "alternating rows", "shuffled, with time", "one clock", "flat arrays"
CUTS = "no", "at one step", "at random", "missing rows"
FLAGS = "booleans", "integers", "floats", "nullable"
CLOCKS = "integers", "floats", "dates", "nullable"
RIGHT, BIAS, LOSS = 5.0, 0.02, 0.05
HOLDS = 0.7  # fraction of errors within twice their stated standard errors


class Case:
    """What is drawn from a seed."""

    def __init__(self, seed):
        self.seed, rng = seed, np.random.default_rng(seed)
        self.kind, self.task, self.states = (str(rng.choice(names)) for names in (MODELS, TASKS, STATES))
        self.order, self.flags, self.clock = (str(rng.choice(names)) for names in (ORDERS, FLAGS, CLOCKS))
        self.cut = str(rng.choice(CUTS, p=[0.4, 0.3, 0.15, 0.15]))
        if self.task in OFF_POLICY:
            self.kind = str(rng.choice(MODELS[:3]))
            self.cut = "no" if self.cut in CUTS[2:] else self.cut
        if self.order == "flat arrays":  # has no states of other kinds
            self.states = "indicators"
        self.fault = str(rng.choice(list(FAULTS))) if seed % 2 else "none"
        self.unit = float(rng.choice([1.0, 1.0, 1.0, 1e9, 1e-9]))
        self.model = draw_model(self.kind, rng)
        self.steps = int(rng.integers(2, 7)) if self.cut == "at one step" else None
        self.params = {"fit_intercept": bool(rng.random() < 0.5)}
        self.objective = str(rng.choice(["auto", "auto", "bellman", "projected"]))
        self.trace_decay = float(rng.choice([0.0, 0.0, 0.5, 1.0])) if self.objective != "bellman" else 0.0
        self.half_life = None if rng.random() < 0.8 else float(2 * ROWS)

    def log(self, number):
        """One of the logs: columns of states, actions and so on."""
        rng = np.random.default_rng([self.seed, number])
        model, longest = self.model, 10_000 if self.model.ends else 40
        length = 1 / (1 - model.P.sum(axis=2).mean()) if model.ends else 40
        kept = self.steps or (3 if self.cut == "at random" else longest)
        m = int(np.clip(ROWS * (4 if self.task == "best policy" else 1) / min(length, kept), 25, 4000))
        limit = self.steps or longest
        if self.cut == "at random":
            limit = np.minimum(rng.geometric(0.3, m), longest)
        log = draw_log(model, m, rng, limit, 0.2 if self.cut == "missing rows" else 0.0)
        chances = (policy[log["state"], log["action"]] for policy in (model.target, model.acts))
        log["ratio"] = np.divide(*chances)
        self.best = learnt(model, log).best()
        return log, rng


# forms


def represent(kind, states, n):
    """States in some form, and a transformer of them or None."""
    names, indicators = np.array(list("abcdefgh"))[states], np.eye(n)[states]
    one_hot = OneHotEncoder(handle_unknown="ignore")
    return {
        "indicators": lambda: (indicators, None),
        "text": lambda: (names[:, None].astype(object), one_hot),
        "categories": lambda: (pd.DataFrame({"state": pd.Categorical(names)}), one_hot),
        "encoded numbers": lambda: (states[:, None], one_hot),
        "nullable": lambda: (pd.DataFrame(indicators).astype("Float64").rename(columns=str), None),
        "sparse": lambda: (sparse.csr_array(indicators), MaxAbsScaler()),
        "missing values": lambda: (
            np.where(states == 0, np.nan, states)[:, None],
            make_pipeline(SimpleImputer(strategy="constant", fill_value=-1.0), one_hot),
        ),
        "constant column": lambda: (np.c_[indicators, np.full(len(states), 7.0)], None),
        "large unit": lambda: (1e8 * indicators, None),
        "small unit": lambda: (1e-8 * indicators, None),
    }[kind]()


def flags_of(kind, flags):
    """Flags in some type."""
    types = {"integers": int, "floats": float}
    return pd.Series(flags, dtype="boolean") if kind == "nullable" else flags.astype(types.get(kind, bool))


def clock_of(kind, time):
    """Times in some type."""
    if kind == "dates":
        return np.datetime64("2020-01-01T00:00") + 15 * time
    return pd.Series(time, dtype="Int64") if kind == "nullable" else time.astype({"floats": float}.get(kind, int))


def form(case, log, rng):
    """The arguments of a fit, and its transformer."""
    n, by_row = len(case.model.P), {"action": log["action"], "importance_ratio": log["ratio"]}
    by_row |= {"y": case.unit * log["y"], "episode": log["episode"]}
    state, after, ends, step = (log[name] for name in ("state", "after", "terminal", "step"))
    order = np.arange(len(state))
    if case.order == "flat arrays":
        last = np.append(np.diff(log["episode"]) > 0, True) | np.append(np.diff(step) != 1, True)
        given = {name: log[name] for name in ("action", "ratio")}
        numbers = np.c_[np.eye(n)[state], np.arange(len(state))]  # the last column finds the rows again
        flat = transitions_from_arrays(numbers, given["action"], by_row["y"], ends, last & ~ends)
        rows = flat.X[:, -1].astype(int)
        given = {"X": flat.X[:, :-1], "next_X": flat.next_X[:, :-1], "y": flat.y, "episode": flat.episode}
        given |= {"terminal": flat.terminal, "action": flat.action, "importance_ratio": log["ratio"][rows]}
        weights = {"sample_weight": flat.sample_weight} if "sample_weight" in flat else {}
        return given | weights, None
    given = dict(by_row)
    if case.order == "next_X":
        given["next_X"] = represent(case.states, after, n)[0]
    elif case.order == "alternating rows":
        order = np.lexsort((log["episode"], step))
    elif case.order == "shuffled, with time":
        order = rng.permutation(len(state))
        given["time"] = step
    elif case.order == "one clock":
        order = rng.permutation(len(state))
        given["time"] = step + 100_000 * log["episode"]
        if case.task not in OFF_POLICY:
            del given["episode"]
    if case.cut == "missing rows" and case.order in ("rows in order", "alternating rows"):
        given["time"] = step
    given["terminal"] = ends
    X, features = represent(case.states, state, n)
    given = {name: column[order] for name, column in given.items() if not hasattr(column, "iloc")} | {
        name: column.iloc[order].reset_index(drop=True) for name, column in given.items() if hasattr(column, "iloc")
    }
    given["X"] = X.iloc[order].reset_index(drop=True) if hasattr(X, "iloc") else X[order]
    given["terminal"] = flags_of(case.flags, given["terminal"])
    if "time" in given:
        given["time"] = clock_of(case.clock, given["time"])
    return given, features


# faults, which return False where they do not apply


def forget(name):
    """A fault that leaves an argument out."""

    def fault(case, given, rng):
        return given.pop(name, None) is not None

    return fault


def forget_ends(case, given, rng):
    """Ends are not given."""
    return case.model.ends and given.pop("terminal", None) is not None


def number_states(case, given, rng):
    """The numbers of the states as one column."""
    if case.states != "indicators":
        return False
    for name in {"X", "next_X"} & given.keys():
        given[name] = given[name].argmax(axis=1)[:, None].astype(float)
    return True


def scale_one_side(case, given, rng):
    """X is scaled, and next_X is not."""
    if case.states != "indicators" or "next_X" not in given:
        return False
    given["X"] = StandardScaler().fit_transform(given["X"])
    return True


def swap_ratios(case, given, rng):
    """The ratios of the two policies the other way round."""
    given["importance_ratio"] = 1 / given["importance_ratio"]
    return True


def multiply_ratios(case, given, rng):
    """The products of the ratios up to each row in place of the ratios."""
    if case.order not in ("next_X", "rows in order"):
        return False
    logs = np.log(given["importance_ratio"])
    begins = np.flatnonzero(np.append(True, np.diff(given["episode"]) != 0))
    before = np.repeat(np.append(0.0, np.cumsum(logs))[begins], np.diff(np.append(begins, len(logs))))
    given["importance_ratio"] = np.exp(np.cumsum(logs) - before)
    return True


def reverse_target(case, given, rng):
    """The columns of the target in another order than that of the actions."""
    case.reversed = case.task in ("dr", "wdr")
    return case.reversed


def spoil(name, value):
    """A fault that puts a value into the tenth row of a column."""

    def fault(case, given, rng):
        column = given.get(name)
        if not isinstance(column, np.ndarray) or column.dtype.kind not in "fib":
            return False
        column = column.astype(object if isinstance(value, str) else float)
        column[10] = value
        given[name] = column
        return True

    return fault


def shuffle_rows(case, given, rng):
    """Rows in any order, without anything that shows it."""
    if "next_X" in given or "time" in given:
        return False
    order = rng.permutation(len(given["y"]))
    for name, column in given.items():
        given[name] = column.iloc[order].reset_index(drop=True) if hasattr(column, "iloc") else column[order]
    return True


def stretch_time(case, given, rng):
    """Times that increase by ten in a step."""
    if "time" not in given or case.clock != "integers":
        return False
    given["time"] = 10 * given["time"]
    return True


def jitter_time(case, given, rng):
    """Times of a clock in seconds."""
    if "time" not in given or case.clock != "dates":
        return False
    given["time"] = given["time"].astype("M8[s]") + rng.integers(0, 20, len(given["time"]))
    return True


def zero_weights(case, given, rng):
    """A third of the rows have the weight 0, which is no fault."""
    given["sample_weight"] = (rng.random(len(given["y"])) < 0.67).astype(float) * given.get("sample_weight", 1.0)
    return True


def repeat_rows(case, given, rng):
    """A fifth of the rows occur twice, as after two downloads."""
    order = np.append(np.arange(len(given["y"])), np.flatnonzero(rng.random(len(given["y"])) < 0.2))
    for name, column in given.items():
        given[name] = column.iloc[order].reset_index(drop=True) if hasattr(column, "iloc") else column[order]
    return True


def single_rows(case, given, rng):
    """Each row has a label of its own."""
    if case.task in OFF_POLICY:
        return False
    given["episode"] = np.arange(len(given["y"]))
    return True


def text_flags(case, given, rng):
    """Ends as text."""
    given["terminal"] = np.where(np.asarray(given["terminal"], float) > 0, "True", "False")
    return True


FAULTS = {
    "ends forgotten": forget_ends, "ends forgotten again": forget_ends, "action forgotten": forget("action"),
    "episode forgotten": forget("episode"), "next_X forgotten": forget("next_X"), "time forgotten": forget("time"),
    "numbers of states": number_states, "X scaled alone": scale_one_side, "ratios swapped": swap_ratios,
    "ratios multiplied": multiply_ratios, "target reversed": reverse_target, "NaN in X": spoil("X", np.nan),
    "NaN in y": spoil("y", np.nan), "infinite next_X": spoil("next_X", np.inf), "text in time": spoil("time", "soon"),
    "rows shuffled": shuffle_rows, "time in tens": stretch_time, "time of a clock": jitter_time,
    "weights of 0": zero_weights, "rows twice": repeat_rows, "labels of rows": single_rows, "text flags": text_flags,
}  # fmt: skip
NAMES = {"ends forgotten again": "ends forgotten"}


# estimates


def estimate(case, given, features):
    """Estimates and their stated standard errors, or NaN, with the true values; for a policy, its loss."""
    model, gamma, n = case.model, case.model.gamma, len(case.model.P)
    at = represent(case.states, np.arange(n), n)[0]
    if case.fault == "numbers of states" and case.applied:
        at = np.arange(n)[:, None].astype(float)
    used = {"X", "y", "next_X", "terminal", "time", "episode", "sample_weight"} & given.keys()
    columns = {name: given[name] for name in used}
    target = model.target[:, ::-1] if getattr(case, "reversed", False) else model.target
    if case.task.startswith("values") and case.task != "values of actions":
        value = BellmanValueEstimator(
            gamma, features=features, objective="auto" if case.task == "values in chunks" else case.objective,
            trace_decay=case.trace_decay, half_life=case.half_life, **case.params,
        )  # fmt: skip
        truth = model.values(model.acts)
        if case.task == "values of another policy":
            columns["importance_ratio"], truth = given["importance_ratio"], model.values(model.target)
        if case.task == "values in chunks":
            for start in range(0, len(given["y"]), 400):
                rows = slice(start, start + 400)
                value.partial_fit(**{
                    name: column.iloc[rows] if hasattr(column, "iloc") else column[rows]
                    for name, column in columns.items()
                })  # fmt: skip
        else:
            value.fit(**columns)
        stated = value.predict(at, return_std=True)[1] if "episode" in columns else np.full(n, np.nan)
        return value.predict(at), stated, case.unit * truth
    if case.task in ("values of actions", "best policy"):
        columns |= {"action": given["action"]} if "action" in given else {}
        chances = target
        if case.task == "values of actions":
            q = ActionValueEstimator(_policy(case, chances, at), gamma, features=features, **case.params)
            Q = q.fit(**columns).predict(at)
            return Q.ravel(), np.full(Q.size, np.nan), case.unit * model.action_values(model.target).ravel()
        taken = ActionValueEstimator(gamma=gamma, features=features, **case.params).fit(**columns).policy(at)
        own = model.values(np.eye(ACTIONS)[taken]).mean()
        return np.array([own]), np.full(1, np.nan), np.array([model.values(case.best).mean()])
    method = case.task.split(",")[0]
    columns = {name: columns[name] for name in used - {"X", "next_X", "sample_weight"}}
    columns["importance_ratio"], truth = given["importance_ratio"], model.values(model.target)
    if case.task == "wpdis, estimated ratios":
        classifier = LogisticRegression(C=10) if features is None else make_pipeline(features, LogisticRegression(C=10))
        ratios = {name: given[name] for name in ("action", "episode") if name in given}
        columns["importance_ratio"] = estimated_ratios(
            given["X"], target=_policy(case, target, at), classifier=classifier, **ratios
        )
    if method in ("dr", "wdr"):
        columns |= {name: given[name] for name in ("X", "next_X", "action") if name in given}
        columns |= {"target": _policy(case, target, at)}
        columns["estimator"] = ActionValueEstimator(features=features, alpha=1e-6, **case.params)
    elif case.steps is not None:
        steps = case.steps - (case.order == "flat arrays")  # whose last rows are dropped
        truth = model.values(model.target, steps)
    found = off_policy_value(gamma=gamma, method=method, **columns)
    found.interval()
    return np.array([found.value]), np.array([found.std_error]), case.unit * np.array([truth.mean()])


def _policy(case, chances, at):
    """A policy as an array where states are numbers or indicators, and as a function elsewhere."""
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
        return chances[X[:, :n].argmax(axis=1)]

    return policy


def judge(case, errors, stated, size):
    """Whether the errors of some logs are those of a right estimate."""
    mean, noise = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    if case.task == "best policy":
        return -mean[0] <= LOSS * size
    small = np.linalg.norm(mean) <= max(RIGHT * np.linalg.norm(noise), BIAS * size * np.sqrt(len(mean)))
    known = stated > 0
    holds = np.mean(abs(errors[known]) <= 2 * stated[known]) if known.any() else 1.0
    return bool(small and holds >= HOLDS)


def measure_case(seed, n_logs):
    """What became of one case. Logs that do not warn must be right among themselves."""
    case, found, messages, warned, refused = Case(seed), [], Counter(), np.zeros(n_logs, dtype=bool), None
    case.applied = case.fault != "none"
    for number in range(n_logs):
        log, rng = case.log(number)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                given, features = form(case, log, rng)
                if case.fault != "none":
                    case.applied = bool(FAULTS[case.fault](case, given, rng))
                found.append(estimate(case, given, features))
            except (TypeError, ValueError) as error:
                refused = str(error)
                break
        messages.update({str(warning.message)[:60] for warning in caught})
        warned[number] = bool(caught)
    row = {
        "seed": seed, "task": case.task, "states": case.states, "order": case.order, "cut": case.cut,
        "fault": NAMES.get(case.fault, case.fault) if case.applied else "none", "outcome": "refused",
        "warned": int(warned.sum()), "said": (refused or " | ".join(messages))[:300],
    }  # fmt: skip
    if refused is not None:
        return row
    values, stated, truth = (np.array(part) for part in zip(*found, strict=True))
    errors, size = values - truth, abs(truth).mean() + truth.std()
    right, quiet = judge(case, errors, stated, size), ~warned
    silent = quiet.sum() > n_logs / 5 and not judge(case, errors[quiet], stated[quiet], size)
    row["outcome"] = "right" if right else "silent" if silent else "warned"
    return row | {"error": np.linalg.norm(errors.mean(axis=0)) / (size * np.sqrt(errors.shape[1]))}


def run(quick, data):
    """Measure all cases."""
    seeds = range(FIRST, FIRST + (24 if quick else CASES))
    results = [measure_case(seed, 3 if quick else LOGS) for seed in seeds]
    return {"settings": {"first": FIRST, "cases": len(results), "logs": LOGS}, "results": results}


# tables


def counts(name, rows):
    """How many of some cases are right, refused and so on."""
    of = Counter(row["outcome"] for row in rows)
    return {"name": name, "cases": len(rows), "alarms": sum(row["outcome"] == "right" and row["warned"] > LOGS / 2 for row in rows)} | {
        outcome: of[outcome] for outcome in ("right", "refused", "warned", "silent")
    }


COLUMNS = {
    "": "{name}", "cases": "{cases}", "right": "{right}", "of these with a warning": "{alarms}", "refused": "{refused}",
    "warned": "{warned}", "wrong in silence": "{silent}",
}  # fmt: skip


def tables(stored):
    """Counts by fault, and without faults by what is estimated, by form and by cut."""
    rows, clean = stored["results"], [row for row in stored["results"] if row["fault"] == "none"]
    faults = [name for name in dict.fromkeys(NAMES.get(name, name) for name in FAULTS)]
    by_fault = [counts(name, [row for row in rows if row["fault"] == name]) for name in ("none", *faults)]
    by_fault.append(counts("all", rows))
    by_form = []
    for column, names in (("task", TASKS), ("states", STATES), ("order", ORDERS), ("cut", CUTS)):
        for name in names:
            of = counts(f"{column}: {name}", [row for row in clean if row[column] == name])
            by_form.append(of)
    return {
        "faults": table([row for row in by_fault if row["cases"]], {"fault": "{name}", **dict(list(COLUMNS.items())[1:])}),
        "forms": table([row for row in by_form if row["cases"]], COLUMNS),
    }
