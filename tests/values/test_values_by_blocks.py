"""Values of logs in partitions of dask and in files are those of the same log in
memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    estimated_ratios,
    off_policy_value,
)

equal, same_bits = np.testing.assert_allclose, np.testing.assert_array_equal

STATES, ACTIONS, LENGTH, EPISODES = 3, 2, 12, 50
CHUNK = 7 * LENGTH  # whole episodes


def make_log(seed=0):
    """Episodes that end after eight steps or more, of states that never repeat, in
    order, and rows that go on after the end."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(EPISODES):
        x, length = rng.normal(size=STATES), rng.integers(8, LENGTH + 1)
        for step in range(LENGTH):
            action, ends = rng.integers(ACTIONS), step + 1 == length
            after = 0.8 * x + 0.3 * (action - 0.5) + 0.3 * rng.normal(size=STATES)
            label = episode if step < length else -episode - 1
            rows.append((x, x[0] + action * x[1], action, after, ends, label))
            x = rng.normal(size=STATES) if ends else after
    names = "X", "y", "action", "next_X", "terminal", "episode"
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


LOG = make_log()
N = len(LOG["y"])
RATIOS = np.random.default_rng(2).uniform(0.5, 1.5, N)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)


def lazy(log, chunk=CHUNK, columns=2):
    """The columns of a log as dask arrays."""
    return {
        name: da.from_array(part, chunks=(chunk, columns)[: part.ndim])
        for name, part in log.items()
    }


def without(log, *names):
    return {name: part for name, part in log.items() if name not in names}


def both(estimator, log, **kwargs):
    """The fits in memory and by blocks."""
    return clone(estimator).fit(**log), clone(estimator).fit(**lazy(log, **kwargs))


def check_states(memory, blocks):
    equal(blocks.coef_, memory.coef_, rtol=1e-8)
    equal(blocks.intercept_, memory.intercept_, rtol=1e-8)
    equal(blocks.loss_curve_, memory.loss_curve_, rtol=1e-6, atol=1e-12)
    assert (blocks.objective_, blocks.rank_) == (memory.objective_, memory.rank_)


def test_an_episode_that_continues_in_the_next_partition():
    log = without(LOG, "action", "next_X")
    with pytest.raises(ValueError, match="^episode 4 continues in another"):
        BellmanValueEstimator().fit(**lazy(log, chunk=50))


def test_rows_without_successors_are_episodes_of_one_step():
    with pytest.warns(UserWarning, match="neither next_X nor terminal"):
        memory, blocks = both(BellmanValueEstimator(), {"X": LOG["X"], "y": LOG["y"]})
    check_states(memory, blocks)


def test_cycles_of_policies():
    rng = np.random.default_rng(0)
    X, after = rng.normal(size=(2, 60, 2))
    log = {"X": X, "y": rng.normal(size=60), "action": rng.integers(0, 3, 60)}
    log |= {"next_X": after, "terminal": np.zeros(60, dtype=bool)}
    q = ActionValueEstimator(gamma=0.99, fit_intercept=False, max_iter=25)
    memory, blocks = both(q, log, chunk=17)
    same_bits(blocks.policy_changes_, memory.policy_changes_)
    equal(blocks.coef_, memory.coef_, rtol=1e-5)


def test_data_frames_keep_their_names():
    log = {name: pd.Series(LOG[name]) for name in ("y", "terminal", "episode")}
    log |= {
        name: pd.DataFrame(LOG[name], columns=list("abc")) for name in ("X", "next_X")
    }
    memory = BellmanValueEstimator(features=PolynomialFeatures(2)).fit(**log)
    lazily = {name: dd.from_pandas(part, npartitions=4) for name, part in log.items()}
    blocks = clone(memory).fit(**lazily)
    check_states(memory, blocks)
    assert blocks.feature_names_in_.tolist() == list("abc")
    values = blocks.predict(lazily["X"])
    assert isinstance(values, da.Array)
    equal(values.compute(), memory.predict(log["X"]), rtol=1e-8)


def test_predictions_are_lazy():
    X, q = lazy(LOG)["X"], ActionValueEstimator().fit(**LOG)
    value = BellmanValueEstimator().fit(**without(LOG, "action"))
    for estimator, shape in ((value, (N,)), (q, (N, ACTIONS))):
        result, std = estimator.predict(X, return_std=True)
        assert isinstance(result, da.Array) and result.shape == std.shape == shape
        equal(result.compute(), estimator.predict(LOG["X"]), rtol=1e-12)
        equal(std.compute(), estimator.predict(LOG["X"], return_std=True)[1], rtol=1e-9)
        with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3"):
            estimator.predict(X[:, :2])
    action = q.predict_action(X)
    assert isinstance(action, da.Array) and action.dtype == q.actions_.dtype
    same_bits(action.compute(), q.predict_action(LOG["X"]))


@pytest.mark.parametrize("repeated", [False, True])
def test_files(tmp_path, repeated):
    log = without(LOG, "action")
    if repeated:
        log = log | {name: np.round(log[name]) for name in ("X", "next_X")}
    memory = BellmanValueEstimator().fit(**log)
    for name in ("X", "next_X"):
        np.save(tmp_path / f"{name}.npy", log[name])
        log[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    file = BellmanValueEstimator().fit(**log)
    check_states(memory, file)
    assert file.objective_reason_ == memory.objective_reason_
    assert hasattr(file, "n_states_") == repeated


def changed(name, row, value):
    part = LOG[name].astype(float)
    part[row] = value
    return lazy(LOG | {name: part})


WRONG = [
    (changed("X", (200, 1), np.nan), r"X .* nan in column 1, row 32 \(in partition 2,"),
    (changed("y", 100, np.inf), r"y must be finite, got inf in row 16 \(in partition"),
    (changed("terminal", 85, 2), r"or 0 and 1, got .* in row 1 \(in partition 1,"),
    (changed("next_X", (3, 0), np.nan), r"nan in column 0, row 3 \(in partition 0,"),
    (lazy(LOG | {"sample_weight": 1 - 2 * np.eye(N)[99]}), r"row 15 \(in partition 1"),
    (lazy(LOG | {"sample_weight": np.zeros(N)}), "positive"),
    (lazy(LOG | {"time": LOG["episode"]}), "time must be None if next_X is given"),
    (lazy(LOG) | {"next_X": da.ones((N, 2), chunks=CHUNK)}, "have the columns of X"),
]


@pytest.mark.parametrize("log, message", WRONG)
def test_errors_name_the_place(log, message):
    for estimator, used in (
        (ActionValueEstimator(), log),
        (BellmanValueEstimator(), without(log, "action")),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.fit(**used)
        assert not hasattr(estimator, "coef_")


def test_what_blocks_do_not_support():
    for params, message in (
        ({"objective": "bellman"}, "objective must be 'auto' or 'projected' for rows in"),
        ({"trace_decay": 0.5}, "trace_decay must be 0 for rows in blocks"),
        ({"solver": "storm-c"}, "solver must be 'auto' or 'lstd' for rows in blocks"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            BellmanValueEstimator(**params).fit(**lazy(without(LOG, "action")))


def test_one_action_of_a_given_policy_is_no_reason_to_warn(recwarn):
    log = LOG | {"action": np.zeros(N, dtype=int)}
    for used in (log, lazy(log)):
        ActionValueEstimator(lambda X: np.zeros(len(X), dtype=int)).fit(**used)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="there is no other action to choose"):
        ActionValueEstimator().fit(**lazy(log))


def test_a_partition_without_weight():
    log = without(LOG, "action") | {"sample_weight": 1.0 * (np.arange(N) >= CHUNK)}
    check_states(*both(BellmanValueEstimator(), log))


def test_warnings_are_those_in_memory():
    log = without(LOG, "action")
    few = {"X": LOG["X"][np.arange(N) % 2], "y": LOG["y"], "terminal": np.ones(N) > 0}
    for parts, kind, message in (
        (without(log, "terminal"), UserWarning, "terminal was not given"),
        (few, ConvergenceWarning, "2 distinct states do not determine"),
        (log | {"next_X": 50 + 10 * LOG["next_X"]}, UserWarning, "next_X"),
    ):
        for used in (parts, lazy(parts)):
            with pytest.warns(kind, match=message):
                BellmanValueEstimator(objective="projected").fit(**used)


# Off-policy evaluation


def test_policies_of_shuffled_rows():
    starts = range(0, N - CHUNK, CHUNK)
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(CHUNK) + start for start in starts])
    ratios = np.where(np.arange(N) == 3, 1e200, RATIOS)  # whose square overflows
    parts = LOG["y"], ratios, LOG["episode"], np.arange(N) % LENGTH
    *three, time = (part[order] for part in parts)
    memory = off_policy_value(*three, time=time)
    *three, time = (da.from_array(part[order], chunks=CHUNK) for part in parts)
    found = off_policy_value(*three, time=time)
    equal(found.contributions, memory.contributions, rtol=1e-10)


COLUMNS = [da.from_array(part, CHUNK) for part in (LOG["y"], RATIOS, LOG["episode"])]
NAMES = "y", "importance_ratio", "episode"
EPISODES_WRONG = [
    ({"episode": COLUMNS[2].rechunk(50)}, "partitions of equal lengths"),
    (
        {name: part.rechunk(50) for name, part in zip(NAMES, COLUMNS, strict=True)},
        "episode 4 continues in another partition",
    ),
    ({"importance_ratio": COLUMNS[1] - 1}, r"must be .* in row \d+ \(in partition \d"),
    ({"importance_ratio": 0 * COLUMNS[1]}, "importance_ratio must be positive"),
    ({"y": COLUMNS[0] * np.inf}, r"y must be finite, got .* in row 0 \(in partition"),
    ({"method": "dr"}, "method must be 'is', 'wis', 'pdis' or 'wpdis' for dask coll"),
]


def test_wrong_episodes():
    for changes, message in EPISODES_WRONG:
        with pytest.raises(ValueError, match=message):
            off_policy_value(**dict(zip(NAMES, COLUMNS, strict=True)) | changes)


# Labels of rows


def unknown(table, n=3):
    """A collection without known divisions."""
    step = -(-len(table) // n)
    parts = [dask.delayed(table[k * step : (k + 1) * step]) for k in range(n)]
    return dd.from_delayed(parts, meta=table[:0], verify_meta=False)


def labelled(labels, names):
    """The columns of the log as tables of pandas. Those of some names have other
    labels."""
    dates = pd.date_range("2020-01-01", periods=N, name="index")
    others = {"newest first": dates[::-1], "pairs swapped": dates[np.arange(N) ^ 1]}
    tables = {}
    for name, part in LOG.items():
        index = others[labels] if name in names else dates
        table = pd.DataFrame(part, columns=list("abc")) if part.ndim == 2 else part
        tables[name] = (
            table.set_index(index) if part.ndim == 2 else pd.Series(part, index)
        )
    return tables


@pytest.mark.parametrize("where", ["memory", "beside", "dask"])
def test_labels_of_rows_are_compared(where):
    """They were joined by position in silence."""
    labels = "newest first" if where == "beside" else "pairs swapped"
    value = BellmanValueEstimator(gamma=0.9).fit(**without(LOG, "action"))
    for name in ("action", "y", "next_X", "terminal", "episode"):
        tables = labelled(labels, [name])
        if where != "memory":
            first = ["X"] if where == "beside" else list(tables)
            tables |= {key: unknown(tables[key]) for key in first}
        calls = [ActionValueEstimator(gamma=0.9).fit]
        if name != "action":
            del tables["action"]
            calls = [clone(value).fit, value.score]
            calls += [value.partial_fit] if where == "memory" else []
        message = f"{name} must have .* of the rows of X, but has the label"
        for call in calls:
            with pytest.raises(ValueError, match=message):
                call(**without(tables, "episode" if name != "episode" else ""))


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_labels_that_agree_or_only_count():
    expected = BellmanValueEstimator(gamma=0.9).fit(**without(LOG, "action"))
    agreeing = labelled("newest first", [])
    lazily = {name: unknown(table) for name, table in agreeing.items()}
    counted = {
        name: table.reset_index(drop=True) for name, table in agreeing.items()
    } | {"X": agreeing["X"]}
    files = {  # each of three begins to count from 0
        name: unknown(table.set_axis(np.arange(N) % (N // 3)))
        for name, table in counted.items()
    } | {"X": lazily["X"]}
    for log in (agreeing, lazily, counted, files):
        value = BellmanValueEstimator(gamma=0.9).fit(**without(log, "action"))
        equal(value.coef_, expected.coef_, rtol=1e-8)
        equal(value.score(**without(log, "action")),
              expected.score(**without(LOG, "action")))  # fmt: skip


def test_rewards_and_successors_may_have_the_labels_of_the_next_rows():
    walk = pd.DataFrame(
        np.random.default_rng(0).normal(size=(300, 2)),
        pd.date_range("2020-01-01", periods=300),
    )
    X, later = walk[:-1], walk[1:]
    expected = BellmanValueEstimator().fit(
        X.to_numpy(), later[0].to_numpy(), next_X=later.to_numpy()
    )
    value = BellmanValueEstimator().fit(X, later[0], next_X=later)
    same_bits(value.coef_, expected.coef_)
    with pytest.raises(ValueError, match="sample_weight must have the labels"):
        BellmanValueEstimator().fit(X, later[0], next_X=later, sample_weight=later[1])


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_in_off_policy_evaluation(lazy):
    dates = pd.date_range("2020-01-01", periods=N)
    columns = {"y": LOG["y"], "importance_ratio": RATIOS, "episode": LOG["episode"]}
    columns = {name: pd.Series(part, dates) for name, part in columns.items()}
    columns["time"] = pd.Series(np.arange(N), dates)
    for name in ("importance_ratio", "episode", "time"):
        used = columns | {name: columns[name].set_axis(dates[::-1])}
        if lazy:
            used = {key: unknown(part, 1) for key, part in used.items()}
        with pytest.raises(
            ValueError, match="must have .* the rows of .* has the label"
        ):
            off_policy_value(**used)


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_in_estimated_ratios(lazy):
    tables = labelled("pairs swapped", ["action"])
    if lazy:
        tables = {name: unknown(table) for name, table in tables.items()}
    with pytest.raises(ValueError, match="action must have .* of the rows of X"):
        estimated_ratios(
            tables["X"], tables["action"], np.full(N, 0.5), LogisticRegression()
        )


def test_partitions_that_are_not_as_they_are_declared():
    for name in ("X", "y", "next_X", "episode"):
        log = lazy(without(LOG, "action"))
        log[name] = log[name].map_blocks(lambda block: block[1:], dtype=log[name].dtype)
        message = f"partition \\d of {name} must have the shape"
        with pytest.raises(ValueError, match=message):
            BellmanValueEstimator().fit(**log)
