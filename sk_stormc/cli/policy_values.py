"""Values of the states in which the episodes of your own log start.

The log has a row for each transition: the state, the reward, and the episode. Values
are linear in the columns of the state, and texts are categories. Other policies are
compared by their probabilities of the logged actions (--target). Without --data the log
is that of a simulated walk.
"""

from functools import partial

import numpy as np

from sk_stormc.cli.arguments import (
    add_check_argument,
    add_force_argument,
    add_option,
    add_reading_arguments,
    names,
    result_file,
    write_csv,
)
from sk_stormc.cli.data_files import Reading
from sk_stormc.cli.log_files import LogFromFile, read_log
from sk_stormc.compare.policies import compare_policies
from sk_stormc.compare.tables import as_text
from sk_stormc.values.estimator import BellmanValueEstimator

SHOWN = 20  # most first states that are printed
METHODS = ("is", "wis", "pdis", "wpdis")  # those that need no model


def add_arguments(parser):
    """Add the command's options."""
    add = partial(add_option, parser)
    kinds = ".csv, .tsv, .txt (also .gz), .parquet, .feather, .xlsx"
    usual = "(default: those named "
    add("--data", "FILE", f"a log, a row for each transition: {kinds}")
    add("--state", "A,B,...", f"the columns of the state {usual}state*, obs*)", names)
    add(
        "--categories",
        "A,B,...",
        "columns of --state whose numbers are categories, as numbers of states are; "
        "texts always are",
        names,
        (),
    )
    add("--reward", "COLUMN", f"the rewards {usual}reward)")
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
    add("--behaviour", "COLUMN", f"{probability} the behaviour policy")
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
    add_check_argument(parser)
    add_force_argument(parser)


def report(args):
    """Fit the values, print those of the first states, and save them."""
    log = _simulated_walk() if args.data is None else read_log(args)
    log.reading.show(args.check)
    if args.check:
        return
    columns = log.columns
    reward, episode, time = columns["reward"], columns["episode"], columns.get("time")
    model = BellmanValueEstimator(gamma=args.gamma).fit(
        log.features,
        reward,
        next_X=log.next_features,
        episode=episode,
        terminal=columns["terminal"],
        time=None if log.next_features is not None else time,
    )
    order = np.argsort(np.zeros(len(reward)) if time is None else time, kind="stable")
    first = np.sort(order[np.unique(episode[order], return_index=True)[1]])
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
    print(
        f"\nvalue of the first states: {values.mean():.4g}, "
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
    columns = {"features": log.features, "action": np.zeros(len(log.features))}
    columns |= log.columns
    roles = {name: name for name in ("episode", "time", "terminal") if name in columns}
    classifier, estimated = None, ""
    if "behaviour" in columns:
        roles["probability"] = "behaviour"
    else:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        estimated = "\nProbabilities of the behaviour policy are estimated."
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
    about = (
        "Values of policies are means of the logged returns, weighted by their ratios "
        "of probabilities.\nThey need no model, so the value of the behaviour policy "
        "differs from the one above."
    )
    table = as_text(header, rows, left=1)
    return f"{about}\n\n{table}\n\n{found.notes()}{estimated}"


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
    reading = Reading(
        "simulated walk", len(place), ["place"], used={"state": ["place"]}
    )
    reading.what = f"{len(place)} transitions, {n_episodes} episodes, state"
    columns = {
        "reward": reward.astype(float),
        "episode": episode,
        "terminal": terminal,
        "action": right.astype(int),
        "behaviour": np.full(len(place), 0.5),
    }
    return LogFromFile(
        names=["place"],
        states=place[:, None],
        features=np.eye(n_places)[place],
        columns=columns,
        target={"more to the right": np.where(right, 0.6, 0.4)},
        reading=reading,
    )
