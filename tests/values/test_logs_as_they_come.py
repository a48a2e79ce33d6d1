"""Logs in the types in which they come: flags, times, states of any kind, targets; and
what contradicts itself."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    StandardScaler,
)
from value_logs import draw, episodes, messages, some

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    estimated_ratios,
    off_policy_value,
)
from sk_stormc.datasets import transitions_from_arrays

LOG, EPISODE, STEP = episodes([3, 5, 4, 6], every=2)
N = len(EPISODE)
ENDS = LOG["terminal"]


def value(**params):
    return BellmanValueEstimator(0.9, fit_intercept=False, alpha=0.1, **params)


# flags

FLAGS = {
    "integers": ENDS.astype(np.int8),
    "floats": ENDS.astype(np.float32),
    "list": ENDS.astype(int).tolist(),
    "objects": np.array(
        [int(flag) if k % 2 else bool(flag) for k, flag in enumerate(ENDS)],
        dtype=object,
    ),
    "nullable": pd.Series(ENDS, dtype="boolean"),
    "nullable integers": pd.Series(ENDS.astype(int), dtype="Int8"),
    "polars": pl.Series(ENDS),
}


@pytest.mark.parametrize("kind", FLAGS)
def test_ends_of_any_type_of_numbers(kind):
    for parts in (LOG, some(LOG, slice(None), "next_X") | {"episode": EPISODE}):
        more = parts | {"terminal": FLAGS[kind]}
        expected = value().fit(**parts)
        np.testing.assert_array_equal(value().fit(**more).coef_, expected.coef_)
        np.testing.assert_array_equal(
            value().partial_fit(**more).coef_, value().partial_fit(**parts).coef_
        )
        assert expected.score(**more) == expected.score(**parts)
    given = {
        "y": LOG["y"],
        "importance_ratio": np.ones(N),
        "episode": EPISODE,
        "method": "dr",
        "X": LOG["X"],
    }
    given |= {
        "action": np.arange(N) % 2,
        "target": lambda X: np.full((len(X), 2), 0.5),
        "next_X": LOG["next_X"],
    }
    assert (
        off_policy_value(**given, terminal=FLAGS[kind]).value
        == off_policy_value(**given, terminal=ENDS).value
    )
    recorded = {"observations": LOG["X"], "actions": np.zeros(N), "rewards": LOG["y"]}
    assert (
        transitions_from_arrays(**recorded, terminals=FLAGS[kind]).terminal.sum()
        == ENDS.sum()
    )


@pytest.mark.parametrize("wrong", [2, 0.5, np.nan, "True", None, pd.NA])
def test_flags_that_are_no_flags(wrong):
    flags = ENDS.astype(object)
    flags[4] = wrong
    with pytest.raises(
        ValueError, match="terminal must be booleans, or 0 and 1, got .* in row 4"
    ):
        value().fit(**LOG | {"terminal": flags})
    with pytest.raises(
        ValueError, match="terminals must be booleans, or 0 and 1, got .* in row 4"
    ):
        transitions_from_arrays(LOG["X"], np.zeros(N), LOG["y"], flags)


def test_masked_columns_are_refused():
    for name in ("terminal", "sample_weight", "importance_ratio"):
        masked = np.ma.masked_array(np.ones(N), mask=np.arange(N) == 3)
        with pytest.raises(
            ValueError, match=f"{name} must have all its values, got 1 that are masked"
        ):
            value().fit(**LOG | {name: masked})


# times

DAYS = np.datetime64("2024-02-27") + STEP
TIMES = {
    "floats": STEP.astype(float),
    "unsigned": STEP.astype(np.uint8),
    "nullable": pd.Series(STEP, dtype="Int64"),
    "days": DAYS,
    "quarters of an hour": np.datetime64("2024-01-01T10:00") + 15 * STEP,
    "pandas": pd.Series(DAYS),
    "of a time zone": pd.Series(DAYS).dt.tz_localize("Europe/Berlin")
    - pd.to_timedelta(EPISODE, unit="h"),
    "Python's": [
        datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=int(k)) for k in STEP
    ],
    "durations": STEP * np.timedelta64(20, "ms"),
    "polars": pl.Series(DAYS.astype("M8[D]")),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_any_type(kind):
    parts = some(LOG, slice(None), "next_X") | {"episode": EPISODE}
    order = np.random.default_rng(0).permutation(N)
    shuffled = some(parts, order) | {
        "time": TIMES[kind][order]
        if hasattr(TIMES[kind], "dtype")
        else [TIMES[kind][k] for k in order]
    }
    expected = value().fit(**parts)
    fitted = value().fit(**shuffled)
    np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-9)
    assert fitted.score(**shuffled) == pytest.approx(expected.score(**parts))
    columns = {"importance_ratio": np.linspace(0.5, 1.5, N)[order], "gamma": 0.5}
    worth = off_policy_value(
        shuffled["y"], episode=shuffled["episode"], time=shuffled["time"], **columns
    ).value
    columns = {"importance_ratio": np.linspace(0.5, 1.5, N), "gamma": 0.5}
    assert worth == pytest.approx(
        off_policy_value(LOG["y"], episode=EPISODE, **columns).value
    )


def test_dates_of_one_clock_have_gaps():
    """The smallest difference is a step, and a longer one is a gap."""
    parts = some(LOG, slice(None), "next_X")
    numbers = np.arange(N) + EPISODE
    expected = value().fit(**parts, time=numbers)
    dated = value().fit(**parts, time=np.datetime64("2024-01-01T00") + 6 * numbers)
    np.testing.assert_array_equal(dated.coef_, expected.coef_)
    order = np.random.default_rng(0).permutation(N)
    forgets = value(half_life=5.0).fit(**parts, time=numbers)
    shuffled = value(half_life=5.0).fit(
        **some(parts | {"time": np.datetime64("2024-01-01") + 7 * numbers}, order)
    )
    np.testing.assert_allclose(shuffled.coef_, forgets.coef_, rtol=1e-9)


def test_times_that_say_nothing_of_steps():
    parts = some(LOG, slice(None), "next_X") | {"episode": EPISODE}
    seconds = (60 * STEP + STEP % 3) * np.timedelta64(1, "s")
    jittered = np.datetime64("2024-01-01T00:00:00") + seconds
    for time, text in (
        (
            jittered,
            "time must be whole numbers, or dates at multiples of a step, got .* sort "
            "the rows",
        ),
        (
            np.where(STEP == 2, np.datetime64("NaT"), DAYS),
            "time must be whole numbers or dates, got NaT in row 2",
        ),
        (
            np.where(STEP == 2, np.inf, STEP),
            "time must be whole numbers or dates, got inf in row 2",
        ),
        (
            [str(day) for day in DAYS],
            "time must be whole numbers or dates, got 2024-02-27 in row 0",
        ),
        (STEP > 0, "time must be whole numbers or dates, got False in row 0"),
    ):
        with pytest.raises(ValueError, match=text):
            value().fit(**parts, time=time)
    with pytest.raises(
        ValueError, match="time must be whole numbers for partial_fit, got 2024-02-27"
    ):
        value().partial_fit(**parts, time=DAYS)


# states


def rows(n=240, seed=0):
    """A walk on named places, and a number that is sometimes missing."""
    rng = np.random.default_rng(seed)
    place = np.cumsum(rng.integers(-1, 2, n + 1)) % 4
    frame = pd.DataFrame(
        {"place": np.array(["a", "b", "c", "d"])[place], "size": rng.normal(size=n + 1)}
    )
    frame.loc[rng.random(n + 1) < 0.1, "size"] = np.nan
    y = (place[:-1] == 2) + rng.normal(size=n)
    return frame, y, np.arange(n) % 40 == 39


FRAME, Y, LAST = rows()
KINDS = {
    "strings": (FRAME[["place"]], OneHotEncoder()),
    "objects": (FRAME[["place"]].to_numpy(), OneHotEncoder()),
    "categories": (FRAME[["place"]].astype("category"), OneHotEncoder()),
    "polars": (pl.DataFrame({"place": FRAME["place"].tolist()}), OneHotEncoder()),
    "missing": (
        FRAME[["size"]].to_numpy(),
        make_pipeline(SimpleImputer(), FunctionTransformer(np.tanh)),
    ),
    "mixed": (
        FRAME,
        make_column_transformer(
            (OneHotEncoder(), ["place"]), (SimpleImputer(), ["size"])
        ),
    ),
    "sparse": (
        sparse.csr_array(pd.get_dummies(FRAME["place"]).to_numpy(float)),
        MaxAbsScaler(),
    ),
    "nullable": (
        pd.DataFrame({"size": FRAME["size"].astype("Float64")}),
        SimpleImputer(missing_values=pd.NA),
    ),
    "texts": (FRAME["place"].tolist(), CountVectorizer(analyzer="char")),
    "dicts": ([{"place": place} for place in FRAME["place"]], DictVectorizer()),
}


def at(X, part):
    return X[part] if not hasattr(X, "iloc") else X.iloc[part]


@pytest.mark.parametrize("kind", KINDS)
def test_features_get_states_as_they_come(kind):
    """The values are those of a fit on what the transformer returns."""
    states, transformer = KINDS[kind]
    X, next_X, n = at(states, slice(None, -1)), at(states, slice(1, None)), len(Y)
    Z = clone(transformer).fit(X, Y).transform(states)
    Z = np.asarray(Z.toarray() if sparse.issparse(Z) else Z, float)
    given, plain = (
        {"terminal": LAST},
        {"X": Z[:-1], "y": Y, "next_X": Z[1:], "terminal": LAST},
    )
    estimators = [
        (value(), {}),
        (value(objective="bellman"), {}),
        (value(trace_decay=0.5), {}),
    ]
    estimators.append(
        (
            ActionValueEstimator(gamma=0.9, fit_intercept=False, alpha=0.1),
            {"action": np.arange(n) % 2},
        )
    )
    for estimator, more in estimators:
        expected = clone(estimator).fit(**plain, **more)
        fitted = (
            clone(estimator)
            .set_params(features=transformer)
            .fit(X, Y, next_X=next_X, **given, **more)
        )
        np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-7)
        np.testing.assert_allclose(
            fitted.predict(states), expected.predict(Z), rtol=1e-7
        )
        assert fitted.score(X, Y, next_X=next_X, **given, **more) == pytest.approx(
            expected.score(**plain, **more)
        )
    stream = value(features=transformer).partial_fit(X, Y, next_X=next_X, **given)
    np.testing.assert_allclose(
        stream.coef_, value().partial_fit(**plain).coef_, rtol=1e-7
    )
    labelled = value(features=transformer).fit(
        X, Y, episode=np.arange(n) // 40, **given
    )
    np.testing.assert_allclose(labelled.coef_, value().fit(**plain).coef_, rtol=1e-7)
    stream = value(features=transformer).partial_fit(
        X, Y, episode=np.arange(n) // 40, **given
    )
    np.testing.assert_allclose(
        stream.coef_, value().partial_fit(**plain).coef_, rtol=1e-7
    )


def test_states_of_any_kind_are_told_apart():
    X, next_X, n = FRAME.iloc[:-1], FRAME.iloc[1:], len(Y)
    one_hot = make_column_transformer((OneHotEncoder(), ["place"]))
    fitted = value(features=one_hot).fit(
        X[["place"]], Y, next_X=next_X[["place"]], terminal=LAST
    )
    assert (fitted.n_states_, fitted.objective_) == (4, "bellman")
    impute = make_column_transformer(
        (OneHotEncoder(), ["place"]), (SimpleImputer(), ["size"])
    )
    assert value(features=impute).fit(
        X, Y, next_X=next_X, terminal=LAST
    ).n_states_ == len(X.drop_duplicates())
    target = {"method": "dr", "target": lambda X: np.where(X["place"] == "a", 1, 0)}
    columns = {
        "X": X,
        "next_X": next_X,
        "action": np.arange(n) % 2,
        "episode": np.arange(n) // 20,
    }
    ratio = np.where(np.arange(n) % 2 == (X["place"] == "a"), 2.0, 0.0)
    q = ActionValueEstimator(features=impute, alpha=1e-3)
    robust = off_policy_value(
        Y,
        ratio,
        **columns,
        **target,
        terminal=np.arange(n) % 20 == 19,
        estimator=q,
        gamma=0.9,
    )
    assert np.isfinite(robust.std_error)
    with pytest.raises(
        ValueError,
        match=r"policy is an array for 4 states|policy must have a row for each state",
    ):
        ActionValueEstimator([0, 1, 0, 1], features=one_hot).fit(
            X[["place"]],
            Y,
            action=np.arange(n) % 2,
            next_X=next_X[["place"]],
            terminal=LAST,
        )


def test_what_features_return_is_checked():
    X, next_X = FRAME[["size"]].iloc[:-1], FRAME[["size"]].iloc[1:]
    given = {"next_X": next_X, "terminal": LAST}
    for features, text in (
        (FunctionTransformer(), "features of X contains NaN"),
        (
            FunctionTransformer(lambda X: X.dropna()),
            "features must give a row for each of 240 states, got",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            value(features=features).fit(X, Y, **given)
    with pytest.raises(ValueError, match="X contains NaN|X.*NaN"):
        value().fit(X, Y, **given)
    fitted = value(features=SimpleImputer()).fit(X, Y, **given)
    with pytest.raises(ValueError, match="next_X must be of shape|next_X.*240"):
        fitted.score(X, Y, next_X=next_X[:-1], terminal=LAST)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.rename(columns={"size": "length"}))


# policies of which the values are


def policy_log(m=80, seed=0):
    chances = np.random.default_rng(3).dirichlet(np.ones(4), size=(4, 2)) * 0.75
    rewards = np.random.default_rng(4).normal(size=(4, 2))
    return draw(m, seed, chances, rewards, np.array([0.8, 0.2]), 0.3)


PARTS = policy_log()
TARGET = np.tile([0.8, 0.2], (4, 1))


@pytest.mark.parametrize("method", ["dr", "wdr"])
def test_ratios_that_contradict_the_target_are_refused(method):
    names = "X", "y", "next_X", "terminal", "episode", "importance_ratio", "action"
    log = {name: PARTS[name] for name in names} | {"gamma": 0.9, "method": method}
    ratio, second = log["importance_ratio"], int(np.argmax(log["action"]))
    assert np.isfinite(off_policy_value(**log, target=TARGET).value)
    always = log | {
        "importance_ratio": np.ones_like(ratio),
        "target": np.zeros(4, dtype=int),
    }
    with pytest.raises(
        ValueError,
        match="importance_ratio must be 0, as target does not .*, got 1 in row "
        f"{second}",
    ):
        off_policy_value(**always)
    for wrong in (0.0, 0.5, 0.79):
        low = log | {
            "importance_ratio": np.where(log["action"] == 0, wrong, ratio),
            "target": TARGET,
        }
        first = int(np.argmin(log["action"]))
        with pytest.raises(
            ValueError,
            match=f"at least 0.8, the probability of .*, got {wrong:g} in row {first}",
        ):
            off_policy_value(**low)
    order = np.random.default_rng(0).permutation(len(ratio))
    shuffled = some(
        {name: log[name] for name in names} | {"time": PARTS["time"]}, order
    )
    shuffled["importance_ratio"][7] = 0.01
    with pytest.raises(
        ValueError, match="importance_ratio must be at least .* got 0.01 in row 7"
    ):
        off_policy_value(**shuffled, gamma=0.9, method=method, target=TARGET)
    rounded = log | {"importance_ratio": np.float32(ratio.round(4)), "target": TARGET}
    assert np.isfinite(off_policy_value(**rounded).value)


def test_numbers_of_states_warn_in_doubly_robust_values():
    numbers = {name: PARTS[name].argmax(axis=1)[:, None] for name in ("X", "next_X")}
    log = {
        name: PARTS[name]
        for name in ("y", "importance_ratio", "episode", "terminal", "action")
    } | numbers
    for method in ("dr", "wdr"):
        with pytest.warns(UserWarning, match="one column, of 4 integers that repeat"):
            off_policy_value(**log, gamma=0.9, method=method, target=TARGET)
        one_hot = ActionValueEstimator(features=OneHotEncoder(), alpha=1e-6)
        assert not messages(
            off_policy_value,
            **log,
            gamma=0.9,
            method=method,
            target=TARGET,
            estimator=one_hot,
        )


@pytest.mark.filterwarnings("ignore:importance_ratio gives nearly all weight")
def test_an_interval_from_one_episode_names_a_remedy():
    ratio = np.where(np.arange(N) == 3, 1e6, 1.0)
    with pytest.warns(
        UserWarning, match="effective number is 1 .*a target policy that is closer"
    ):
        estimate = off_policy_value(LOG["y"], ratio, EPISODE)
    other = off_policy_value(LOG["y"], np.ones(N), EPISODE)
    for each in (estimate, estimate - other):
        with pytest.warns(
            UserWarning,
            match="interval is from one episode in effect.*method='wdr' .* clipped",
        ):
            each.interval()
    assert not messages(other.interval)


def test_estimated_ratios_take_the_targets_of_off_policy_values():
    X, action = PARTS["X"], PARTS["action"]
    names = np.array(["stay", "go"])[action]
    states, n = X.argmax(axis=1), len(action)
    chances, does = (
        np.random.default_rng(1).dirichlet(np.ones(2), 4),
        np.array([0, 1, 1, 0]),
    )
    one_hot = np.eye(2)[does]

    def ratios(target, X=X, action=action):
        return estimated_ratios(
            X, action, target, LogisticRegression(), episode=PARTS["episode"]
        )

    expected = ratios(chances[states])
    for target in (
        chances,
        lambda X: chances[X.argmax(axis=1)],
        chances[states, action],
        chances[states].tolist(),
    ):
        np.testing.assert_allclose(ratios(target), expected, rtol=1e-12)
    expected = ratios(one_hot[states])
    taken = pd.Series(does[states], dtype="Int64")
    for target in (
        does,
        does[states],
        taken,
        lambda X: does[X.argmax(axis=1)],
        1.0 * (does[states] == action),
    ):
        np.testing.assert_allclose(ratios(target), expected, rtol=1e-9)
    np.testing.assert_allclose(
        ratios(does, states[:, None]),
        ratios(one_hot[states], states[:, None]),
        rtol=1e-9,
    )
    # in the order of the names
    expected = ratios(one_hot[states][:, ::-1], action=names)
    np.testing.assert_allclose(
        ratios(np.array(["stay", "go"])[does], action=names), expected, rtol=1e-9
    )
    chosen_names = np.array(["stay", "go"])[does[states]]
    np.testing.assert_allclose(ratios(chosen_names, action=names), expected, rtol=1e-9)
    weights = off_policy_value(PARTS["y"], ratios(does), PARTS["episode"], gamma=0.9)
    assert np.isfinite(weights.value)
    for wrong, text in (
        (
            does[states] == action,
            "target must be among the actions .*0, 1.*, or floats, got booleans",
        ),
        (np.full(n, 7), "actions of target must be among .* got 7 in row 0"),
        ("greedy", "target must be a function of states, or an array"),
        (chances[:3], "target is an array for 3 states"),
        (np.full((n, 2), 0.4), "target must have probabilities >= 0 that sum to 1"),
    ):
        with pytest.raises(ValueError, match=text):
            ratios(wrong)


def test_estimated_ratios_of_a_classifier_that_misses_the_policy_warn():
    """Values would be those of a policy that acts alike in all states, with small
    standard errors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    action = (rng.random(1500) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    states = rng.integers(6, size=1500)
    acts = (rng.random(1500) < np.array([0.2, 0.8, 0.3, 0.7, 0.2, 0.9])[states]).astype(
        int
    )
    text, half = (
        "classifier's probabilities do not fit the log: action . depends on ",
        np.full(1500, 0.5),
    )
    strong, weak = LogisticRegression(C=1e-3), LogisticRegression()
    for data, taken, classifier, what in (
        (X, action, strong, "column 0 of X"),
        (1e-6 * X, action, weak, "column 0 of X"),
        (states[:, None], acts, weak, "the state of row"),
        (1e-6 * np.eye(6)[states], acts, weak, "(column . of X|the state of row)"),
        (
            np.array(list("abcdef"))[states][:, None],
            acts,
            make_pipeline(OneHotEncoder(), strong),
            "the state of row",
        ),
    ):
        with pytest.warns(UserWarning, match=text + what):
            estimated_ratios(data, taken, half, classifier)
    for data, taken, classifier in (
        (X, action, weak),
        (1e-6 * X, action, make_pipeline(StandardScaler(), weak)),
        (states[:, None], acts, make_pipeline(OneHotEncoder(), weak)),
        (
            states[:, None],
            acts,
            RandomForestClassifier(30, min_samples_leaf=10, random_state=0),
        ),
        (X, rng.integers(2, size=1500), strong),
    ):
        assert not messages(estimated_ratios, data, taken, half, classifier)
