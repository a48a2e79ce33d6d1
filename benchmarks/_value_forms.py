"""Logs in the forms in which people have them: what a seed draws, and the faults that
users make."""

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from benchmarks._value_logs import MODELS, draw_log, draw_model, learnt
from sk_stormc.datasets import transitions_from_arrays

ROWS = 1500
TASKS = (
    "values", "values in chunks", "values of another policy", "values of actions",
    "best policy", "is", "wis", "pdis",
    "wpdis", "dr", "wdr", "wpdis, estimated ratios",
)  # fmt: skip
OFF_POLICY = TASKS[5:]
STATES = (
    "indicators", "text", "categories", "encoded numbers", "nullable", "sparse",
    "missing values", "constant column",
    "large unit", "small unit", "linear features",
)  # fmt: skip
ORDERS = (
    "next_X",
    "rows in order",
    "alternating rows",
    "shuffled, with time",
    "one clock",
    "flat arrays",
)
CUTS = "no", "at one step", "at random", "missing rows"
FLAGS = "booleans", "integers", "floats", "nullable"
CLOCKS = "integers", "floats", "dates", "nullable"


class Case:
    """What is drawn from a seed."""

    def __init__(self, seed):
        self.seed, rng = seed, np.random.default_rng(seed)
        self.kind, self.task, self.states = (
            str(rng.choice(names)) for names in (MODELS, TASKS, STATES)
        )
        self.order, self.flags, self.clock = (
            str(rng.choice(names)) for names in (ORDERS, FLAGS, CLOCKS)
        )
        self.cut = str(rng.choice(CUTS, p=[0.4, 0.3, 0.15, 0.15]))
        if self.task in OFF_POLICY:
            self.kind = str(rng.choice(MODELS[:3]))
            self.cut = "no" if self.cut in CUTS[2:] else self.cut
        if self.order == "flat arrays":  # has no states of other kinds
            self.states = "indicators"
        self.faults, self.fault = (
            list(rng.permutation(list(FAULTS))) if seed % 2 else [],
            "none",
        )
        self.unit = float(rng.choice([1.0, 1.0, 1.0, 1e9, 1e-9]))
        self.model = draw_model(self.kind, rng)
        self.steps = int(rng.integers(2, 7)) if self.cut == "at one step" else None
        self.params = {"fit_intercept": bool(rng.random() < 0.5)}
        self.objective = str(rng.choice(["auto", "auto", "bellman", "projected"]))
        self.trace_decay = (
            float(rng.choice([0.0, 0.0, 0.5, 1.0]))
            if self.objective != "bellman"
            else 0.0
        )
        self.half_life = None if rng.random() < 0.8 else float(2 * ROWS)

    def log(self, number):
        """One of the logs: columns of states, actions and so on."""
        rng = np.random.default_rng([self.seed, number])
        model, longest = self.model, 10_000 if self.model.ends else 40
        length = 1 / (1 - model.P.sum(axis=2).mean()) if model.ends else 40
        kept = self.steps or (3 if self.cut == "at random" else longest)
        m = int(
            np.clip(
                ROWS * (4 if self.task == "best policy" else 1) / min(length, kept),
                25,
                4000,
            )
        )
        limit = self.steps or longest
        if self.cut == "at random":
            limit = np.minimum(rng.geometric(0.3, m), longest)
        log = draw_log(model, m, rng, limit, 0.2 if self.cut == "missing rows" else 0.0)
        chances = (
            policy[log["state"], log["action"]] for policy in (model.target, model.acts)
        )
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
        "nullable": lambda: (
            pd.DataFrame(indicators).astype("Float64").rename(columns=str),
            None,
        ),
        "sparse": lambda: (sparse.csr_array(indicators), MaxAbsScaler()),
        "missing values": lambda: (
            np.where(states == 0, np.nan, states)[:, None],
            make_pipeline(SimpleImputer(strategy="constant", fill_value=-1.0), one_hot),
        ),
        "constant column": lambda: (np.c_[indicators, np.full(len(states), 7.0)], None),
        "large unit": lambda: (1e8 * indicators, None),
        "small unit": lambda: (1e-8 * indicators, None),
        "linear features": lambda: (indicators @ mixed(n), None),
    }[kind]()


def mixed(n):
    """The features of n states, which can represent all values."""
    return np.random.default_rng(n).normal(size=(n, n))


def flags_of(kind, flags):
    """Flags in some type."""
    types = {"integers": int, "floats": float}
    return (
        pd.Series(flags, dtype="boolean")
        if kind == "nullable"
        else flags.astype(types.get(kind, bool))
    )


def clock_of(kind, time):
    """Times in some type."""
    if kind == "dates":
        return np.datetime64("2020-01-01T00:00") + 15 * time
    return (
        pd.Series(time, dtype="Int64")
        if kind == "nullable"
        else time.astype({"floats": float}.get(kind, int))
    )


def form(case, log, rng):
    """The arguments of a fit, and its transformer."""
    n, by_row = (
        len(case.model.P),
        {"action": log["action"], "importance_ratio": log["ratio"]},
    )
    by_row |= {"y": case.unit * log["y"], "episode": log["episode"]}
    state, after, ends, step = (
        log[name] for name in ("state", "after", "terminal", "step")
    )
    order = np.arange(len(state))
    if case.order == "flat arrays":
        last = np.append(np.diff(log["episode"]) > 0, True) | np.append(
            np.diff(step) != 1, True
        )
        given = {name: log[name] for name in ("action", "ratio")}
        # the last column finds the rows again
        numbers = np.c_[np.eye(n)[state], np.arange(len(state))]
        flat = transitions_from_arrays(
            numbers, given["action"], by_row["y"], ends, last & ~ends
        )
        rows = flat.X[:, -1].astype(int)
        given = {
            "X": flat.X[:, :-1],
            "next_X": flat.next_X[:, :-1],
            "y": flat.y,
            "episode": flat.episode,
        }
        given |= {
            "terminal": flat.terminal,
            "action": flat.action,
            "importance_ratio": log["ratio"][rows],
        }
        weights = (
            {"sample_weight": flat.sample_weight} if "sample_weight" in flat else {}
        )
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
    if case.cut == "missing rows" and case.order in (
        "rows in order",
        "alternating rows",
    ):
        given["time"] = step
    given["terminal"] = ends
    X, features = represent(case.states, state, n)
    given = {
        name: column[order]
        for name, column in given.items()
        if not hasattr(column, "iloc")
    } | {
        name: column.iloc[order].reset_index(drop=True)
        for name, column in given.items()
        if hasattr(column, "iloc")
    }
    given["X"] = (
        X.iloc[order].reset_index(drop=True) if hasattr(X, "iloc") else X[order]
    )
    given["terminal"] = flags_of(case.flags, given["terminal"])
    if "time" in given:
        given["time"] = clock_of(case.clock, given["time"])
    return given, features


# faults, which return False where they do not apply


def spoilt(case, given, rng):
    """The arguments with the first fault that applies."""
    if case.fault == "none":
        case.fault = next(
            (str(name) for name in case.faults if FAULTS[name](case, given, rng)),
            "none",
        )
    else:
        FAULTS[case.fault](case, given, rng)
    return given


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
    before = np.repeat(
        np.append(0.0, np.cumsum(logs))[begins], np.diff(np.append(begins, len(logs)))
    )
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
        given[name] = (
            column.iloc[order].reset_index(drop=True)
            if hasattr(column, "iloc")
            else column[order]
        )
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
    given["time"] = given["time"].astype("M8[s]") + rng.integers(
        0, 20, len(given["time"])
    )
    return True


def zero_weights(case, given, rng):
    """A third of the rows have the weight 0, which is no fault."""
    given["sample_weight"] = (rng.random(len(given["y"])) < 0.67).astype(
        float
    ) * given.get("sample_weight", 1.0)
    return True


def repeat_rows(case, given, rng):
    """A fifth of the rows occur twice, as after two downloads."""
    order = np.append(
        np.arange(len(given["y"])), np.flatnonzero(rng.random(len(given["y"])) < 0.2)
    )
    for name, column in given.items():
        given[name] = (
            column.iloc[order].reset_index(drop=True)
            if hasattr(column, "iloc")
            else column[order]
        )
    return True


def single_rows(case, given, rng):
    """Each row has a label of its own."""
    if case.task in OFF_POLICY:
        return False
    given["episode"] = np.arange(len(given["y"]))
    return True


def text_flags(case, given, rng):
    """Ends as text."""
    given["terminal"] = np.where(
        np.asarray(given["terminal"], float) > 0, "True", "False"
    )
    return True


FAULTS = {
    "ends forgotten": forget_ends, "action forgotten": forget("action"),
    "episode forgotten": forget("episode"), "next_X forgotten": forget("next_X"),
    "time forgotten": forget("time"),
    "numbers of states": number_states, "X scaled alone": scale_one_side,
    "ratios swapped": swap_ratios,
    "ratios multiplied": multiply_ratios, "target reversed": reverse_target,
    "NaN in X": spoil("X", np.nan),
    "NaN in y": spoil("y", np.nan), "infinite next_X": spoil("next_X", np.inf),
    "text in time": spoil("time", "soon"),
    "rows shuffled": shuffle_rows, "time in tens": stretch_time,
    "time of a clock": jitter_time,
    "weights of 0": zero_weights, "rows twice": repeat_rows,
    "labels of rows": single_rows, "text flags": text_flags,
}  # fmt: skip
