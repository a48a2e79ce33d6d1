"""Readers of logs of transitions in the user's files."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.cli.data_files import SEPARATORS, TABLES, Reading, existing
from sk_stormc.cli.table_files import numbers, read_table
from sk_stormc.utils.parameters import short

# the options that name a column, and its usual names in lower case, the best first
ROLES = {
    "reward": ("reward", "rewards", "r"),
    "episode": ("episode", "episode_id", "episodes", "trajectory", "traj", "ep"),
    "terminal": ("terminated", "terminal", "terminals", "terminations", "done"),
    "time": ("t", "time", "step", "timestep", "time_step"),
    "action": ("action", "actions", "a"),
    "behaviour": (),
}
STATE = re.compile(r"(state|obs|observation)s?([\W_]*\d+[\W_]*|_.+)?|s[\W_]?\d*\W?")
NEXT = re.compile(r"next[\W_]*(.+)")
# what the numbers of a column must be
VALID = {
    "reward": ("finite numbers", np.isfinite),
    "terminal": ("0 and 1", lambda values: np.isin(values, (0, 1))),
    "target": ("probabilities", lambda values: (values >= 0) & (values <= 1)),
    "behaviour": ("positive probabilities", lambda p: (p > 0) & (p <= 1)),
}


@dataclass
class LogFromFile:
    """The columns of a log by their roles: ``states`` as they are, with their names,
    ``features`` and ``next_features``, which are numbers, those of the options, and the
    probabilities of each target policy; and what was read."""

    names: list
    states: np.ndarray
    features: np.ndarray
    columns: dict
    target: dict
    reading: Reading
    next_features: Any = None


def read_log(args):
    """The columns of a file that the options name, or that have usual names."""
    path = existing(args.data, TABLES, args)
    _refuse_monitor(path)
    frame, reading = read_table(path, args)
    state, roles, following = _roles(frame, args)
    if args.target and not {"behaviour", "action"} & set(roles):
        raise ValueError(
            "--target needs --behaviour, the probabilities of the behaviour policy, "
            "or --action, from which they are estimated; got neither"
        )
    known = f"expected some of {short(list(frame.columns))}"
    for name, found in (("state", state), ("reward", roles.get("reward"))):
        if not found:
            raise ValueError(
                f"{path}: --{name} must name a column of --data, got none, {known}"
            )
    if "episode" not in roles and (args.time or "terminal" not in roles):
        raise ValueError(
            f"{path}: --episode must name a column of --data, got none, {known}. "
            "Without it --terminal divides rows that are in order"
        )
    states = reading.take("state", state, "--state", frame)
    if following:
        reading.used["next state"] = following
    for role, name in roles.items():
        reading.take(role, [name], f"--{role}", frame)
    if args.target:
        reading.take("target", args.target, "--target", frame)
    used = {name for names in reading.used.values() for name in names}
    unused = [name for name in frame.columns if name not in used]
    reading.leave_out(unused, "named by no option")
    features, next_features = _features(reading, frame, states, following, args)
    columns = {role: _column(path, frame[name], role) for role, name in roles.items()}
    if "terminal" not in roles:
        columns["terminal"] = np.zeros(len(frame))
        reading.notes.append("no column of ends: all episodes count as cut off")
    elif roles["terminal"].lower() == "done":
        reading.notes.append(
            f"{roles['terminal']!r} counts as the end of an episode; where one was "
            "only cut off, it must be 0"
        )
    if "episode" not in roles:  # an episode begins after each end
        columns.pop("time", None)
        ends = np.append(0, np.cumsum(columns["terminal"])[:-1])
        columns["episode"] = ends.astype(int)
    episodes = len(set(columns["episode"]))
    reading.what = f"{len(frame)} transitions, {episodes} episodes, state"
    return LogFromFile(
        names=state,
        states=states.to_numpy(object),
        features=features,
        columns=columns,
        target={name: _column(path, frame[name], "target") for name in args.target},
        reading=reading,
        next_features=next_features,
    )


def _roles(frame, args):
    """The columns of the state, those of the other roles, and those of the next state,
    which have usual names if the options do not name them."""
    names = {name.lower(): name for name in reversed(list(frame.columns))}
    state = []
    for name in args.state or filter(lambda k: STATE.fullmatch(k.lower()), frame):
        # a vector is a column for each of its components
        part = re.compile(rf"{re.escape(name)}\[\d+\]")
        parts = [k for k in frame.columns if part.fullmatch(k)]
        state += [name] if name in frame.columns or not parts else parts
    roles = {}
    for role, usual in ROLES.items():
        # actions are of use only for other policies
        usual = () if role == "action" and not args.target else usual
        free = (names[k] for k in usual if k in names and names[k] not in state)
        name = getattr(args, role) or next(free, None)
        if name is not None:
            roles[role] = name
    matches = {name: NEXT.fullmatch(name.lower()) for name in frame.columns}
    after = {match[1]: name for name, match in matches.items() if match}
    following = [after.get(name.lower()) for name in state]
    return state, roles, following if None not in following else []


def _refuse_monitor(path):
    """Raise a ValueError for a log of Gymnasium's or Stable Baselines' Monitor, which
    has a row for each episode."""
    if path.kind not in SEPARATORS or path.compression:
        return
    source = path.source()
    with source if path.content is not None else open(source, "rb") as file:
        first = file.readline(10_000).strip()
    if first.startswith(b"#{") or re.fullmatch(rb"r,l,t(,.*)?", first):
        raise ValueError(
            f"{path}: expected a row for each transition, found a log of Monitor, "
            "whose rows are episodes with their return r, length l and time t: it "
            "lacks states, actions and rewards of steps. "
            "datasets.collect_transitions records them"
        )


def _features(reading, frame, states, following, args):
    """The states and the next states, or None, as numbers, with an indicator for each
    value of a text or a category."""
    from pandas import concat, get_dummies

    path = reading.file
    reading.check(args.categories, "--categories", states)
    tables = [states]
    if following:
        tables.append(frame[following].set_axis(states.columns, axis=1))
    both = concat(tables).astype(dict.fromkeys(args.categories, "category"))
    for column in map(frame.get, [*states.columns, *following]):
        valid = column.notna().to_numpy()
        if column.dtype.kind in "iufb":
            valid = valid & np.isfinite(column.to_numpy(float))
        _check(path, column, "state", "known and finite values", valid)
    texts = [name for name, dtype in both.dtypes.items() if dtype.kind not in "iufb"]
    for name in texts:
        different = both[name].nunique()
        # as many indicators would take hours, and say nothing about other states
        if different > max(len(both) / 2, 2):
            raise ValueError(
                f"{path}: --state must name columns of numbers, or of texts that "
                f"repeat, found {different} different values of {len(both)} in "
                f"column {name!r}, such as {both[name].iloc[0]!r}"
            )
    features = numbers(path, get_dummies(both, columns=texts, dtype=float))
    return np.split(features, 2) if following else (features, None)


def _column(path, column, role):
    """The values of a column: numbers, labels, or whole numbers or dates, which may be
    texts."""
    if role in VALID:
        what, valid = VALID[role]
        values = numbers(path, column.to_frame())[:, 0]
        _check(path, column, role, what, valid(values))
        return values
    what = "whole numbers or dates" if role == "time" else "labels"
    if role == "time" and column.dtype.kind not in "iufM":
        from pandas import to_datetime

        dates = to_datetime(column, errors="coerce")
        _check(path, column, role, what, dates.notna().to_numpy())
        return dates.to_numpy("M8[us]")
    _check(path, column, role, what, column.notna().to_numpy())
    return column.to_numpy()


def _check(path, column, role, what, valid):
    """Raise a ValueError for the first row whose value is not valid."""
    if not valid.all():
        k = int(np.argmin(valid))
        raise ValueError(
            f"{path}: --{role} must name a column of {what}, found "
            f"{str(column.iloc[k])!r} in row {k + 1} of column {column.name!r}"
        )
