"""Readers of logs of transitions in the user's files."""

import re
from typing import Any, NamedTuple

import numpy as np

from sk_stormc.cli.data_files import FRAMES, SEPARATORS, Reading, existing
from sk_stormc.cli.table_files import check_column, numbers, read_table
from sk_stormc.utils.validation import short

COLUMNS = ("reward", "episode", "terminal", "time", "action", "behaviour")
# usual names of columns, in lower case, the best first
USUAL = {
    "reward": ("reward", "rewards", "r"),
    "episode": ("episode", "episode_id", "episodes", "trajectory", "traj", "ep"),
    "terminal": ("terminated", "terminal", "terminals", "terminations", "done"),
    "time": ("t", "time", "step", "timestep", "time_step"),
    "action": ("action", "actions", "a"),
}
STATE = re.compile(r"(state|obs|observation)s?([\W_]*\d+[\W_]*|_.+)?|s[\W_]?\d*\W?")
NEXT = re.compile(r"next[\W_]*(.+)")


class Log(NamedTuple):
    """The columns of a log: ``states`` as they are, with their names, ``features`` and
    ``next_features``, which are numbers, and what was read."""

    names: list
    states: np.ndarray
    features: np.ndarray
    reward: np.ndarray
    episode: np.ndarray
    terminal: np.ndarray | None
    action: np.ndarray | None
    target: dict  # the probabilities of each target policy
    behaviour: np.ndarray | None
    reading: Reading
    time: np.ndarray | None = None
    next_features: Any = None


def read_log(args):
    """The columns of a file that the options name, or that have usual names."""
    path = existing(args.data, (*SEPARATORS, *FRAMES))
    _refuse_monitor(path)
    frame, reading = read_table(path, args)
    columns = {name: getattr(args, name) for name in COLUMNS}
    state, columns, following = _guess(frame, args, columns)
    if args.target and not (columns["behaviour"] or columns["action"]):
        raise ValueError(
            "--target needs --behaviour, the probabilities of the behaviour policy, "
            "or --action, from which they are estimated; got neither"
        )
    for name, found in (("state", state), ("reward", columns["reward"])):
        if not found:
            raise ValueError(
                f"{path}: --{name} must name a column of --data, got none, expected "
                f"some of {short(list(frame.columns))}"
            )
    if columns["episode"] is None and (args.time or columns["terminal"] is None):
        raise ValueError(
            f"{path}: --episode must name a column of --data, got none, expected one "
            f"of {short(list(frame.columns))}. Without it --terminal divides rows that "
            "are in order"
        )
    for name in args.target:
        check_column(path, frame, name, "--target")
    for option, found in columns.items():
        if found is not None:
            check_column(path, frame, found, f"--{option}")
    for name in state:
        check_column(path, frame, name, "--state")
    both = frame[state]
    next_features = None
    if following:
        from pandas import concat

        after = frame[following].set_axis(state, axis=1)
        stacked = _features(path, concat([both, after]), args.categories)
        features, next_features = np.split(stacked, 2)
    else:
        features = _features(path, both, args.categories)
    found = {
        name: _column(path, frame, columns[name], name)
        for name in ("reward", "terminal", "behaviour")
    }
    if columns["episode"] is None:  # an episode begins after each end
        columns["time"] = None
        episode = np.append(0, np.cumsum(found["terminal"])[:-1]).astype(int)
    else:
        episode = frame[columns["episode"]].to_numpy()
    columns["action"] = columns["action"] if args.target else None
    _describe(reading, frame, state, columns, following, args.target, episode)
    action = columns["action"]
    return Log(
        names=state,
        states=both.to_numpy(object),
        features=features,
        episode=episode,
        time=_time(path, frame, columns["time"]),
        action=None if action is None else frame[action].to_numpy(),
        target={name: _column(path, frame, name, "target") for name in args.target},
        next_features=next_features,
        reading=reading,
        **found,
    )


def _time(path, frame, name):
    """A column of whole numbers, or of dates, which may be texts."""
    if name is None:
        return None
    times = frame[name]
    if times.dtype.kind in "iufM":
        return times.to_numpy()
    from pandas import to_datetime

    try:
        return to_datetime(times).to_numpy("M8[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: --time must name a column of whole numbers or dates, found "
            f"{str(times.iloc[0])!r} in row 1 of column {name!r}"
        ) from error


def _guess(frame, args, columns):
    """The columns of the state, the others by their use, and those of the next state,
    which have usual names if the options do not name them."""
    names = {name.lower(): name for name in reversed(list(frame.columns))}
    state = args.state or [
        name for name in frame.columns if STATE.fullmatch(name.lower())
    ]
    # a vector is a column for each of its components
    expanded = []
    for name in state:
        parts = [
            k for k in frame.columns if re.fullmatch(rf"{re.escape(name)}\[\d+\]", k)
        ]
        expanded += parts if parts and name not in frame.columns else [name]
    columns = dict(columns)
    for use, usual in USUAL.items():
        if columns[use] is None:
            found = [names[name] for name in usual if name in names]
            columns[use] = next((name for name in found if name not in expanded), None)
    following = {
        match[1]: name
        for name in frame.columns
        if (match := NEXT.fullmatch(name.lower()))
    }
    after = [following.get(name.lower()) for name in expanded]
    complete = bool(after) and None not in after
    return expanded, columns, after if complete else []


def _describe(reading, frame, state, columns, following, target, episode):
    """Say which column was taken for what."""
    episodes = len(set(episode))
    reading.what = f"{len(frame)} transitions, {episodes} episodes, state"
    reading.used = {"state": state}
    if following:
        reading.used["next state"] = following
    for use, name in columns.items():
        if name is not None:
            reading.used[use] = [name]
    if target:
        reading.used["target"] = list(target)
    taken = {name for names in reading.used.values() for name in names}
    unused = [name for name in frame.columns if name not in taken]
    reading.leave_out(unused, "named by no option")
    terminal = columns["terminal"]
    if terminal is None:
        reading.notes.append("no column of ends: all episodes count as cut off")
    elif terminal.lower() == "done":
        reading.notes.append(
            f"{terminal!r} counts as the end of an episode; where one was only cut "
            "off, it must be 0"
        )


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


def _features(path, states, categories):
    """The columns of states as numbers, with an indicator for each value of a text or
    a category."""
    from pandas import get_dummies

    for name in categories:
        check_column(path, states, name, "--categories")
    states = states.astype(dict.fromkeys(categories, "category"))
    texts = [name for name, dtype in states.dtypes.items() if dtype.kind not in "iufb"]
    for name in texts:
        different = states[name].nunique()
        # as many indicators would take hours, and say nothing about other states
        if different > max(len(states) / 2, 2):
            raise ValueError(
                f"{path}: --state must name columns of numbers, or of texts that "
                f"repeat, found {different} different values of {len(states)} in "
                f"column {name!r}, such as {states[name].iloc[0]!r}"
            )
    known = states.notna().to_numpy()
    features = numbers(path, get_dummies(states, columns=texts, dtype=float))
    _check_finite(path, np.where(known.all(axis=1), 0.0, np.nan), "--state")
    _check_finite(path, features, "--state")
    return features


def _column(path, frame, name, option):
    """A column of numbers, or None. Probabilities are between 0 and 1, and those of the
    behaviour policy are positive."""
    if name is None:
        return None
    values = numbers(path, frame[[name]])[:, 0]
    _check_finite(path, values, f"--{option}")
    if option in ("target", "behaviour"):
        wrong = (values < 0) | (values > 1) | ((values == 0) & (option == "behaviour"))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{path}: --{option} must name a column of probabilities, found "
                f"{values[row]:g} in row {row + 1} of column {name!r}"
            )
    return values


def _check_finite(path, values, option):
    """Raise a ValueError with the first row that has a missing or infinite number."""
    wrong = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"{path}: {option} must be finite, found a missing or infinite number in "
            f"row {int(np.argmax(wrong)) + 1}"
        )
