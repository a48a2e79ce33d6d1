"""Tests of the command that prints the values of the first states of a log."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import BellmanValueEstimator, compare_policies, off_policy_value
from sk_stormc.__main__ import main
from sk_stormc.values.off_policy.behaviour import estimated_ratios

PLACES = ["low", "middle", "high"]


def walk():
    """Episodes that begin in the middle or below, and end above "high" with a reward
    of 1 or below "low" without one. They go up with probability 0.6."""
    rng, rows = np.random.default_rng(4), []
    for episode in range(60):
        place = episode % 2
        while 0 <= place <= 2:
            up = rng.random() < 0.6
            after = place + (1 if up else -1)
            ends = float(after == 3), after % 4 == 3
            rows.append((f"run {episode}", PLACES[place], up, *ends))
            place = after
    log = pd.DataFrame(rows, columns=["run", "place", "up", "gain", "done"])
    old, new = np.where(log["up"], 0.6, 0.4), np.where(log["up"], 0.8, 0.2)
    return log.assign(number=log["place"].map(PLACES.index), old=old, new=new)


LOG = walk()
LOG["gain"] = LOG["gain"].astype(float)
COLUMNS = ["--reward", "gain", "--episode", "run", "--terminal", "done"]
ONE_HOT = np.eye(3)[LOG["number"]]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOG.to_csv("log.csv", index=False)


def run(capsys, *args):
    """The exit status of the command, what it prints, and its error."""
    code = main(["values", *map(str, args)])
    return code, *capsys.readouterr()


def intervals(gamma=0.95, confidence=0.9):
    """Values and intervals of the two first states and of all, from the estimator."""
    value = BellmanValueEstimator(gamma=gamma).fit(
        ONE_HOT, LOG["gain"], episode=LOG["run"], terminal=LOG["done"]
    )
    first = LOG.groupby("run", sort=False).head(1).index
    mean = value.value_interval(ONE_HOT[first], confidence, mean=True)
    return value.predict(np.eye(3)[:2]), value.value_interval(np.eye(3)[:2]), mean


def number_of(out, pattern):
    return [float(text) for text in re.search(pattern, out).groups()]


NUMBER = r"(-?[\d.]+(?:e-\d+)?)"
INTERVAL = rf"{NUMBER}, {NUMBER} to {NUMBER}"


@pytest.mark.parametrize("state", [["place"], ["number", "--categories", "number"]])
def test_values_of_the_first_states(capsys, state):
    args = *COLUMNS, "--out", "values.csv"
    code, out, _ = run(capsys, "--data", "log.csv", "--state", *state, *args)
    name = state[0]
    told = f"{len(LOG)} transitions, 60 episodes, state: {name}; reward: gain"
    assert code == 0 and told in out
    values, ends, mean = intervals()
    table = pd.read_csv("values.csv").sort_values("value")
    assert list(table) == ["value", "low", "high", "episodes", name]
    assert list(table["episodes"]) == [30, 30]
    assert list(table[name]) == (["low", "middle"] if name == "place" else [0, 1])
    np.testing.assert_allclose(table["value"], values)
    np.testing.assert_allclose(table[["low", "high"]], ends)
    shown = number_of(out, f"value of the first states: {INTERVAL}")
    np.testing.assert_allclose(shown, [values.mean(), *mean], rtol=1e-3)
    lines = out.splitlines()
    assert any(line.split()[3:] == ["30", str(table[name].iloc[0])] for line in lines)


def test_options_of_values(capsys):
    code, out, _ = run(
        capsys, "--data", "log.csv", "--state", "place", *COLUMNS, "--gamma", 0.5,
        "--confidence", 0.5,
    )  # fmt: skip
    values, _, mean = intervals(0.5, 0.5)
    shown = number_of(out, f"value of the first states: {INTERVAL}")
    np.testing.assert_allclose(shown, [values.mean(), *mean], rtol=1e-3)
    assert code == 0 and "with confidence 0.5, discount 0.5" in out


def rows_of(out):
    """The rows of the table of policies: the method, the value and its interval, and
    the difference with its interval or None."""
    lines = out[out.index("policy  ") :].splitlines()[2:]
    rows = {}
    for line in lines[: lines.index("")]:
        name, value, interval, gap, of_gap, _, _, method = re.split("  +", line)
        ends = [] if of_gap == "-" else [gap, *of_gap.split(" to ")]
        numbers = [value, *interval.split(" to "), *ends]
        rows[name, method] = list(map(float, numbers))
    return rows


@pytest.mark.parametrize("given", ["--behaviour", "--action"])
def test_the_value_of_another_policy(capsys, given):
    """With one target, by all methods."""
    column = {"--behaviour": "old", "--action": "up"}[given]
    code, out, _ = run(
        capsys, "--data", "log.csv", "--state", "place", *COLUMNS, "--target", "new",
        given, column, "--method", "pdis",
    )  # fmt: skip
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    # indicators in the order of the names, as pandas makes them
    ratio = LOG["new"] / LOG["old"] if given == "--behaviour" else estimated_ratios(
        ONE_HOT[:, [2, 0, 1]], LOG["up"], LOG["new"], classifier, episode=LOG["run"]
    )  # fmt: skip
    assert code == 0
    rows = rows_of(out)
    assert list(rows) == [
        ("behaviour", "mean"), *(("new", m) for m in ("pdis", "is", "wis", "wpdis"))
    ]  # fmt: skip
    own = off_policy_value(LOG["gain"], np.ones(len(LOG)), LOG["run"], method="is")
    np.testing.assert_allclose(
        rows.pop(("behaviour", "mean")), [own.value, *own.interval()], rtol=1e-3
    )
    for (_, method), shown in rows.items():
        new = off_policy_value(LOG["gain"], ratio, LOG["run"], method=method)
        gap = new - own
        expected = [new.value, *new.interval(), gap.value, *gap.interval()]
        np.testing.assert_allclose(shown, expected, rtol=2e-3, atol=2e-4)
    assert ("are estimated" in out) == (given == "--action")
    assert "the value of the behaviour policy differs from the one above" in out


def test_several_policies_in_a_log_that_begins_with_the_newest(capsys):
    args = [
        "--state", "place", "--reward", "gain", "--terminal", "done", "--behaviour",
        "old", "--target", "new,even", "--confidence", 0.95,
    ]  # fmt: skip
    log = LOG.assign(even=0.5, step=LOG.groupby("run").cumcount())
    log.to_csv("log.csv", index=False)
    outs = [run(capsys, "--data", "log.csv", *args, "--episode", "run")[1]]
    # without labels, the ends divide the rows
    outs += [run(capsys, "--data", "log.csv", *args)[1]]
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(log["step"], "D")
    log.assign(day=day.dt.date)[::-1].to_csv("log.csv", index=False)
    for column in ("step", "day"):
        given = [*args, "--episode", "run", "--time", column]
        outs.append(run(capsys, "--data", "log.csv", *given)[1])
    for out in outs:
        results = (text.partition("\n\n")[2] for text in (out, outs[0]))
        assert next(results) == next(results)
    assert [name for name, _ in rows_of(outs[0])] == ["behaviour", "new", "even"]
    found = compare_policies(
        LOG.assign(even=0.5), {"new": "new", "even": "even"}, state="number",
        action="up", reward="gain", episode="run", terminal="done", probability="old",
        method="wpdis",
    )  # fmt: skip
    assert f"Best: {found.best_ or 'none'}" in outs[0]


def test_the_simulated_walk(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    _, *first = number_of(out, f"value of the first states: {INTERVAL}")
    other = rows_of(out)["more to the right", "wpdis"][1:3]
    for up, (low, high) in ((0.5, first), (0.6, other)):
        moves = up * np.eye(5, k=1) + (1 - up) * np.eye(5, k=-1)
        exact = np.linalg.solve(np.eye(5) - 0.95 * moves, [0, 0, 0, 0, up])[2]
        assert low < exact < high and high - low < 0.1


def test_more_first_states_than_are_printed(capsys):
    frame = LOG.assign(size=np.arange(len(LOG)) % 97 / 7)
    frame.to_csv("log.csv", index=False)
    code, out, _ = run(
        capsys, "--data", "log.csv", "--state", "place,size", *COLUMNS, "--out", "a.csv"
    )
    n = len(frame.groupby("run").head(1)[["place", "size"]].drop_duplicates())
    assert code == 0 and f"{n} different first states, which --out saves" in out
    assert len(pd.read_csv("a.csv")) == n


MISSING = LOG.assign(place=LOG["place"].where(LOG.index != 4))
PLACE = ["--state", "place"]


GIVEN = [*PLACE, *COLUMNS]
TARGET = [*GIVEN, "--target", "new"]


@pytest.mark.parametrize(
    ("frame", "args", "message"),
    [
        (LOG, COLUMNS, "--state must name a column of --data, got none"),
        (LOG, PLACE, "--reward must name a column of --data, got none"),
        (LOG, TARGET, "--target needs --behaviour, the"),
        (
            LOG,
            ["--state", "place,x", *COLUMNS],
            "log.csv: --state must .*, got 'x', exp",
        ),
        (LOG, [*GIVEN, "--categories", "number"], "--categories must .*, got 'number'"),
        (
            LOG,
            [*TARGET, "--behaviour", "gain"],
            "of positive probabilities, found '0.0'",
        ),
        (
            LOG.assign(new=2.0),
            [*TARGET, "--behaviour", "old"],
            "--target must name a column of probabilities, found '2.0' in row 1",
        ),
        (MISSING, GIVEN, "finite values, found 'nan' in row 5 of column 'place'"),
        (
            LOG.assign(gain=np.where(LOG.index == 7, np.nan, 0.0)),
            GIVEN,
            "column of finite numbers, found 'nan' in row 8 of column 'gain'",
        ),
        (
            LOG.assign(place=[f"p{k}" for k in LOG.index]),
            GIVEN,
            "220 in column 'place'",
        ),
        (LOG.assign(gain="much"), GIVEN, "expected numbers such as 0.5"),
    ],
)
def test_what_is_refused(capsys, monkeypatch, frame, args, message):
    monkeypatch.setattr(
        BellmanValueEstimator, "fit", lambda *args, **kwargs: pytest.fail("fitted")
    )
    frame.to_csv("log.csv", index=False)
    code, out, err = run(capsys, "--data", "log.csv", *args)
    assert code == 2 and not out and err.startswith("error: ")
    assert re.search(message, err)
