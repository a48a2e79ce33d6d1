"""Values of the states in which the episodes of your own log start.

The log has a row for each transition: the state, the reward, and the episode. Values
are linear in the columns of the state, and texts are categories. Other policies are
compared by their probabilities of the logged actions (--target). Without --data the log
is that of a simulated walk.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from sk_stormc.cli.arguments import (
    add_force_argument,
    add_option,
    add_reading_arguments,
    names,
    result_file,
    write_csv,
)
from sk_stormc.cli.table_files import (
    FRAMES,
    SEPARATORS,
    check_column,
    existing,
    numbers,
    read_table,
)
from sk_stormc.compare.policies import compare_policies
from sk_stormc.compare.tables import as_text
from sk_stormc.values.estimator import BellmanValueEstimator

SHOWN = 20  # most first states that are printed
SEVERAL = "state", "target"  # options that name several columns
COLUMNS = (*SEVERAL, "reward", "episode", "time", "terminal", "action", "behaviour")
METHODS = ("is", "wis", "pdis", "wpdis")  # those that need no model


class Log(NamedTuple):
    """The columns of a log: ``states`` as they are, with their names, and ``features``,
    which are numbers."""

    names: list
    states: np.ndarray
    features: np.ndarray
    reward: np.ndarray
    episode: np.ndarray
    time: np.ndarray | None
    terminal: np.ndarray | None
    action: np.ndarray | None
    target: dict  # the probabilities of each target policy
    behaviour: np.ndarray | None
    line: str


def add_arguments(parser):
    """Add the command's options."""
    add = partial(add_option, parser)
    kinds = ".csv, .tsv, .txt (also .gz), .parquet, .feather, .xlsx"
    add("--data", "FILE", f"a log, a row for each transition: {kinds}")
    add("--state", "A,B,...", "the columns of the state", names)
    add(
        "--categories",
        "A,B,...",
        "columns of --state whose numbers are categories, as numbers of states are; "
        "texts always are",
        names,
        (),
    )
    add("--reward", "COLUMN", "the rewards")
    add(
        "--episode",
        "COLUMN",
        "a label of each row's episode; without it, rows are in order and --terminal "
        "divides them",
    )
    add(
        "--time",
        "COLUMN",
        "whole numbers or dates that order the rows of an episode; without it they are "
        "in order",
    )
    add(
        "--terminal",
        "COLUMN",
        "whether the episode ends with the transition, 0 or 1; not where it was cut "
        "off",
    )
    probability = "the probability of the logged action under"
    add("--target", "A,B,...", f"{probability} other policies", names, ())
    add("--behaviour", "COLUMN", f"{probability} the policy that acted")
    add(
        "--action",
        "COLUMN",
        "the logged actions, from which --behaviour is estimated if not given",
    )
    add("--gamma", "G", "discount factor in [0, 1]", float, 0.95)
    add("--confidence", "C", "level of the intervals", float, 0.9)
    add(
        "--method",
        None,
        "importance sampling for --target, weighted (w) or not, of episodes or per "
        "decision (pd)",
        default="wpdis",
        choices=METHODS,
    )
    add_reading_arguments(parser)
    files = "a .csv file for the values of all first states"
    add("--out", "FILE", files, result_file(".csv"))
    add_force_argument(parser)


def report(args):
    """Fit the values, print those of the first states, and save them."""
    log = _simulated_walk() if args.data is None else _read_log(args)
    model = BellmanValueEstimator(gamma=args.gamma).fit(
        log.features,
        log.reward,
        episode=log.episode,
        terminal=log.terminal,
        time=log.time,
    )
    order = slice(None) if log.time is None else np.argsort(log.time, kind="stable")
    rows = np.arange(len(log.reward))[order]
    first = np.sort(rows[np.unique(log.episode[order], return_index=True)[1]])
    X0 = log.features[first]
    values = model.predict(X0)
    low, high = model.value_interval(X0, args.confidence, mean=True)
    _, kinds, counts = np.unique(X0, axis=0, return_index=True, return_counts=True)
    ends = model.value_interval(X0[kinds], args.confidence)
    columns = values[kinds], ends, counts, log.states[first[kinds]]
    rows = [
        [value, *interval, count, *state]
        for value, interval, count, state in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
    header = ["value", "low", "high", "episodes", *log.names]
    if args.out is not None:  # before anything that could fail
        write_csv(args.out, header, rows)
    print(log.line)
    print(
        f"value of the first states: {values.mean():.4g}, "
        f"{low:.4g} to {high:.4g} with confidence {args.confidence:g}, discount "
        f"{args.gamma:g}"
    )
    if len(rows) <= SHOWN:
        cells = [[f"{x:.4g}" for x in row[:3]] + [*map(str, row[3:])] for row in rows]
        print("\n" + as_text(header, cells, left=0))
    else:
        print(f"{len(rows)} different first states, which --out saves")
    if log.target:
        print(f"\n{_policies(args, log)}")
    if args.out is not None:
        print(f"Values written to {args.out}")


def _policies(args, log):
    """The table of the policies: with one target, by all methods."""
    columns = {
        "features": log.features,
        "reward": log.reward,
        "action": np.zeros(len(log.reward)) if log.action is None else log.action,
        "behaviour": log.behaviour,
        "episode": log.episode,
        "time": log.time,
        "terminal": log.terminal,
    }
    roles = {name: name for name in ("episode", "time", "terminal")}
    classifier, estimated = None, ""
    if log.behaviour is None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        estimated = "\nProbabilities of the policy that acted are estimated."
    roles = {
        role: name
        for role, name in (roles | {"probability": "behaviour"}).items()
        if columns[name] is not None
    }
    others = METHODS if len(log.target) == 1 else ()
    found, rows = None, []
    for method in (args.method, *(name for name in others if name != args.method)):
        comparison = compare_policies(
            columns | {f"target {name}": part for name, part in log.target.items()},
            {name: f"target {name}" for name in log.target},
            state="features", classifier=classifier, gamma=args.gamma, method=method,
            confidence=args.confidence, **roles,
        )  # fmt: skip
        header, cells = comparison.cells()
        rows += cells[found is not None :]
        found = found or comparison
    return f"{as_text(header, rows, left=1)}\n\n{found.notes()}{estimated}"


def _read_log(args):
    """The columns of a file that the options name."""
    given = {name: getattr(args, name) for name in COLUMNS}
    for name in ("state", "reward"):
        if not given[name]:
            raise ValueError(f"--{name} must name a column of --data, got none")
    if not (given["episode"] or given["terminal"]) or (
        given["time"] and not given["episode"]
    ):
        raise ValueError(
            "--episode must name a column of --data, got none. Without it --terminal "
            "divides rows that are in order"
        )
    if args.target and not (args.behaviour or args.action):
        raise ValueError(
            "--target needs --behaviour, the probabilities of the policy that acted, "
            "or --action, from which they are estimated; got neither"
        )
    path = existing(args.data, (*SEPARATORS, *FRAMES))
    frame, notes = read_table(path, args)
    for option in COLUMNS:
        for name in given[option] if option in SEVERAL else [given[option]]:
            if name is not None:
                check_column(path, frame, name, f"--{option}")
    states = frame[args.state]
    columns = {
        name: _column(path, frame, given[name], name)
        for name in ("reward", "terminal", "behaviour")
    }
    if args.episode is None:  # an episode begins after each end
        episode = np.append(0, np.cumsum(columns["terminal"])[:-1]).astype(int)
    else:
        episode = frame[args.episode].to_numpy()
    about = f"{path}: {len(frame)} transitions", f"{len(set(episode))} episodes"
    return Log(
        names=args.state,
        states=states.to_numpy(object),
        features=_features(path, states, args.categories),
        episode=episode,
        time=_time(path, frame, args.time),
        action=None if args.action is None else frame[args.action].to_numpy(),
        line=", ".join([*about, *notes]),
        target={name: _column(path, frame, name, "target") for name in args.target},
        **columns,
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


def _features(path, states, categories):
    """The columns of states as numbers, with an indicator for each value of a text or
    a category."""
    from pandas import get_dummies

    for name in categories:
        check_column(path, states, name, "--categories")
    states = states.astype(dict.fromkeys(categories, "category"))
    texts = [name for name, dtype in states.dtypes.items() if dtype.kind not in "iufb"]
    for name in texts:
        if states[name].is_unique:
            raise ValueError(
                f"{path}: --state must name columns of numbers, or of texts that "
                f"repeat, found only different values in column {name!r}"
            )
    known = states.notna().to_numpy()
    features = numbers(path, get_dummies(states, columns=texts, dtype=float))
    _check_finite(path, np.where(known.all(axis=1), 0.0, np.nan), "--state")
    _check_finite(path, features, "--state")
    return features


def _column(path, frame, name, option):
    """A column of numbers, or None. Probabilities are between 0 and 1, and those of the
    policy that acted are positive."""
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


def _simulated_walk(n_episodes=300, n_places=5):
    """A log of a walk on places in a row, which starts in the middle and ends at an
    end. The right end has a reward of 1. It steps to the left and to the right equally
    often; the target policy steps to the right with probability 0.6."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(n_episodes):
        place = n_places // 2
        while 0 <= place < n_places:
            right = rng.random() < 0.5
            after = place + (1 if right else -1)
            rows.append(
                (place, after == n_places, episode, not 0 <= after < n_places, right)
            )
            place = after
    place, reward, episode, terminal, right = map(np.array, zip(*rows, strict=True))
    return Log(
        names=["place"],
        states=place[:, None],
        features=np.eye(n_places)[place],
        reward=reward.astype(float),
        episode=episode,
        time=None,
        terminal=terminal,
        action=right.astype(int),
        target={"more to the right": np.where(right, 0.6, 0.4)},
        behaviour=np.full(len(place), 0.5),
        line=f"simulated walk: {len(place)} transitions, {n_episodes} episodes",
    )
