"""Values of the states in which the episodes of your own log start.

The log has a row for each transition: the state, the reward, and the episode. Values
are linear in the columns of the state, and texts are categories. The value of another
policy is estimated from its probabilities of the logged actions (--target). Without
--data the log is that of a simulated walk.
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
from sk_stormc.cli.log_files import Log, read_log
from sk_stormc.compare.tables import as_text
from sk_stormc.values.behaviour import estimated_ratios
from sk_stormc.values.estimator import BellmanValueEstimator
from sk_stormc.values.off_policy import METHODS, off_policy_value

SHOWN = 20  # most first states that are printed


def add_arguments(parser):
    """Add the command's options."""
    add = partial(add_option, parser)
    kinds = ".csv, .tsv, .txt (also .gz), .parquet, .feather, .xlsx"
    add("--data", "FILE", f"a log, a row for each transition: {kinds}")
    state = "the columns of the state (default: state*, obs*)"
    add("--state", "A,B,...", state, names)
    add(
        "--categories",
        "A,B,...",
        "columns of --state whose numbers are categories, as numbers of states are; "
        "texts always are",
        names,
        (),
    )
    add("--reward", "COLUMN", "the rewards (default: reward)")
    add(
        "--episode",
        "COLUMN",
        "a label of each row's episode, whose rows are in order (default: episode)",
    )
    add(
        "--terminal",
        "COLUMN",
        "whether the episode ends with the transition, 0 or 1; not where it was cut "
        "off (default: terminated, terminal or done)",
    )
    add("--time", "COLUMN", "the number of the step, if rows are in no order")
    probability = "the probability of the logged action under"
    add("--target", "COLUMN", f"{probability} another policy")
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
        choices=[method for method in METHODS if "dr" not in method],
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
    model = BellmanValueEstimator(gamma=args.gamma).fit(
        log.features,
        log.reward,
        next_X=log.next_features,
        time=None if log.next_features is not None else log.time,
        episode=log.episode,
        terminal=log.terminal,
    )
    first = _first_rows(log)
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
    if log.target is not None:
        print(f"\n{_policy_line(args, log)}")
    if args.out is not None:
        print(f"Values written to {args.out}")


def _first_rows(log):
    """The rows in which the episodes start."""
    rows = np.arange(len(log.reward))
    if log.time is not None:
        rows = np.argsort(log.time, kind="stable")
    return np.sort(rows[np.unique(log.episode[rows], return_index=True)[1]])


def _policy_line(args, log):
    """The value of the other policy, and its difference from the value of the one that
    acted."""
    estimated = ""
    if log.behaviour is not None:
        ratio = log.target / log.behaviour
    else:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        ratio = estimated_ratios(
            log.features, log.action, log.target, classifier, episode=log.episode
        )
        estimated = " (ratios estimated from actions)"
    other, own = (
        off_policy_value(
            log.reward, ratios, log.episode, gamma=args.gamma, method=args.method
        )
        for ratios in (ratio, np.ones(len(ratio)))
    )
    low, high = other.interval(args.confidence)
    least, most = (other - own).interval(args.confidence)
    return (
        f"value of the target policy: {other.value:.4g}, {low:.4g} to {high:.4g}, from "
        f"{other.effective_size:.1f} episodes in effect{estimated}\n"
        f"minus that of the policy that acted: {other.value - own.value:.4g}, "
        f"{least:.4g} to {most:.4g}"
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
    reading = Reading(
        "simulated walk", len(place), ["place"], used={"state": ["place"]}
    )
    reading.what = f"{len(place)} transitions, {n_episodes} episodes, state"
    return Log(
        names=["place"],
        states=place[:, None],
        features=np.eye(n_places)[place],
        reward=reward.astype(float),
        episode=episode,
        terminal=terminal,
        action=right.astype(int),
        target=np.where(right, 0.6, 0.4),
        behaviour=np.full(len(place), 0.5),
        reading=reading,
    )
