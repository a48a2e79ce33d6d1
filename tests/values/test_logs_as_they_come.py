"""Logs in the types in which they come: flags, times, states of any kind, targets; and
what contradicts itself."""

import datetime
import re

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
    "objects": np.where(
        np.arange(N) % 2, ENDS.astype(int).astype(object), ENDS.astype(object)
    ),
    "nullable": pd.Series(ENDS, dtype="boolean"),
    "nullable integers": pd.Series(ENDS.astype(int), dtype="Int8"),
    "polars": pl.Series(ENDS),
}


def test_ends_of_any_type_of_numbers():
    labelled = some(LOG, slice(None), "next_X") | {"episode": EPISODE}
    robust = LOG | {"importance_ratio": np.ones(N), "episode": EPISODE, "method": "dr"}
    robust |= {
        "action": np.arange(N) % 2,
        "target": lambda X: np.full((len(X), 2), 0.5),
    }
    worth, same_bits = off_policy_value(**robust).value, np.testing.assert_array_equal
    for flags in FLAGS.values():
        more = {"terminal": flags}
        for parts in (LOG, labelled):
            expected, stream = value().fit(**parts), value().partial_fit(**parts)
            same_bits(value().fit(**parts | more).coef_, expected.coef_)
            same_bits(value().partial_fit(**parts | more).coef_, stream.coef_)
            assert expected.score(**parts | more) == expected.score(**parts)
        assert off_policy_value(**robust | more).value == worth
        log = transitions_from_arrays(LOG["X"], np.zeros(N), LOG["y"], flags)
        assert log.terminal.sum() == ENDS.sum()


def test_flags_that_are_no_flags():
    text = "must be booleans, or 0 and 1, got .* in row 4"
    for wrong in (2, 0.5, np.nan, "True", None, pd.NA):
        flags = ENDS.astype(object)
        flags[4] = wrong
        with pytest.raises(ValueError, match=f"terminal {text}"):
            value().fit(**LOG | {"terminal": flags})
        with pytest.raises(ValueError, match=f"terminals {text}"):
            transitions_from_arrays(LOG["X"], np.zeros(N), LOG["y"], flags)


def test_masked_columns_are_refused():
    masked = np.ma.masked_array(np.ones(N), mask=np.arange(N) == 3)
    for name in ("terminal", "sample_weight", "importance_ratio"):
        with pytest.raises(ValueError, match=f"{name} must have all its"):
            value().fit(**LOG | {name: masked})


# times

DAYS = np.datetime64("2024-02-27") + STEP
ZONED = pd.Series(DAYS).dt.tz_localize("Europe/Berlin")
MINUTES = [datetime.timedelta(minutes=int(k)) for k in STEP]
TIMES = {
    "floats": STEP.astype(float),
    "unsigned": STEP.astype(np.uint8),
    "nullable": pd.Series(STEP, dtype="Int64"),
    "days": DAYS,
    "quarters of an hour": np.datetime64("2024-01-01T10:00") + 15 * STEP,
    "pandas": pd.Series(DAYS),
    "of a time zone": ZONED - pd.to_timedelta(EPISODE, unit="h"),
    "Python's": pd.Series([datetime.datetime(2024, 1, 1) + m for m in MINUTES], dtype=object),
    "durations": STEP * np.timedelta64(20, "ms"),
    "polars": pl.Series(DAYS.astype("M8[D]")),
}  # fmt: skip


def test_times_of_any_type():
    parts = some(LOG, slice(None), "next_X") | {"episode": EPISODE}
    ratio, order = np.linspace(0.5, 1.5, N), np.random.default_rng(0).permutation(N)
    expected = value().fit(**parts)
    columns = {"y": LOG["y"], "importance_ratio": ratio, "episode": EPISODE}
    worth = off_policy_value(**columns, gamma=0.5).value
    for time in TIMES.values():
        shuffled = some(parts, order) | {"time": time[order]}
        fitted = value().fit(**shuffled)
        np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-9)
        assert fitted.score(**shuffled) == pytest.approx(expected.score(**parts))
        found = off_policy_value(**some(columns, order), time=time[order], gamma=0.5)
        assert found.value == pytest.approx(worth)


def test_dates_of_one_clock_have_gaps():
    """The smallest difference is a step, and a longer one is a gap."""
    parts, start = some(LOG, slice(None), "next_X"), np.datetime64("2024-01-01T00")
    numbers, order = np.arange(N) + EPISODE, np.random.default_rng(0).permutation(N)
    for half_life in (None, 5.0):
        expected = value(half_life=half_life).fit(**parts, time=numbers).coef_
        dated = some(parts | {"time": start + 6 * numbers}, order)
        found = value(half_life=half_life).fit(**dated).coef_
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_times_that_say_nothing_of_steps():
    parts = some(LOG, slice(None), "next_X") | {"episode": EPISODE}
    seconds = (60 * STEP + STEP % 3) * np.timedelta64(1, "s")
    jittered = np.datetime64("2024-01-01T00:00:00") + seconds
    text = "time must be whole numbers or dates, got"
    for time, message in (
        (jittered, "or dates at multiples of a step, got .* sort the rows"),
        (np.where(STEP == 2, np.datetime64("NaT"), DAYS), f"{text} NaT in row 2"),
        (np.where(STEP == 2, np.inf, STEP), f"{text} inf in row 2"),
        ([str(day) for day in DAYS], f"{text} 2024-02-27 in row 0"),
        (STEP > 0, f"{text} False in row 0"),
    ):
        with pytest.raises(ValueError, match=message):
            value().fit(**parts, time=time)
    with pytest.raises(ValueError, match="be whole numbers for partial_fit,"):
        value().partial_fit(**parts, time=DAYS)


# states


def rows(n=240, seed=0):
    """A walk on named places, and a number that is sometimes missing."""
    rng = np.random.default_rng(seed)
    place = np.cumsum(rng.integers(-1, 2, n + 1)) % 4
    size = np.where(rng.random(n + 1) < 0.1, np.nan, rng.normal(size=n + 1))
    frame = pd.DataFrame({"place": np.array(list("abcd"))[place], "size": size})
    y = (place[:-1] == 2) + rng.normal(size=n)
    return frame, y, np.arange(n) % 40 == 39


FRAME, Y, LAST = rows()
PLACES, SIZES = FRAME[["place"]], FRAME[["size"]]
MIXED = make_column_transformer(
    (OneHotEncoder(), ["place"]), (SimpleImputer(), ["size"])
)
TANH = make_pipeline(SimpleImputer(), FunctionTransformer(np.tanh))
INDICATORS = sparse.csr_array(pd.get_dummies(FRAME["place"]).to_numpy(float))
NULLABLE = pd.DataFrame({"size": FRAME["size"].astype("Float64")})
KINDS = {
    "strings": (PLACES, OneHotEncoder()),
    "objects": (PLACES.to_numpy(), OneHotEncoder()),
    "categories": (PLACES.astype("category"), OneHotEncoder()),
    "polars": (pl.DataFrame({"place": FRAME["place"].tolist()}), OneHotEncoder()),
    "missing": (SIZES.to_numpy(), TANH),
    "mixed": (FRAME, MIXED),
    "sparse": (INDICATORS, MaxAbsScaler()),
    "nullable": (NULLABLE, SimpleImputer(missing_values=pd.NA)),
    "texts": (FRAME["place"].tolist(), CountVectorizer(analyzer="char")),
    "dicts": ([{"place": place} for place in FRAME["place"]], DictVectorizer()),
}


def at(X, part):
    return X[part] if not hasattr(X, "iloc") else X.iloc[part]


@pytest.mark.parametrize("kind", KINDS)
def test_features_get_states_as_they_come(kind):
    """The values are those of a fit on what the transformer returns."""
    states, transformer = KINDS[kind]
    Z = clone(transformer).fit(at(states, slice(None, -1)), Y).transform(states)
    Z = np.asarray(Z.toarray() if sparse.issparse(Z) else Z, float)
    given, plain = (
        {"X": at(S, slice(None, -1)), "y": Y, "next_X": at(S, slice(1, None))}
        | {"terminal": LAST}
        for S in (states, Z)
    )
    episode = {"episode": np.arange(len(Y)) // 40}
    q = ActionValueEstimator(gamma=0.9, fit_intercept=False, alpha=0.1)
    for estimator, more in (
        (value(), {}),
        (value(objective="bellman"), {}),
        (value(trace_decay=0.5), {}),
        (q, {"action": np.arange(len(Y)) % 2}),
    ):
        expected = clone(estimator).fit(**plain, **more)
        fitted = estimator.set_params(features=transformer).fit(**given, **more)
        np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-7)
        found = fitted.predict(states)
        np.testing.assert_allclose(found, expected.predict(Z), rtol=1e-7)
        score = fitted.score(**given, **more)
        assert score == pytest.approx(expected.score(**plain, **more))
    expected, stream = value().fit(**plain), value().partial_fit(**plain)
    for parts in (given, {**given, "next_X": None} | episode):
        found = value(features=transformer)
        np.testing.assert_allclose(found.fit(**parts).coef_, expected.coef_, rtol=1e-7)
        found = clone(found).partial_fit(**parts).coef_
        np.testing.assert_allclose(found, stream.coef_, rtol=1e-7)


def test_states_of_any_kind_are_told_apart():
    X, next_X, action = FRAME.iloc[:-1], FRAME.iloc[1:], np.arange(len(Y)) % 2
    one_hot = make_column_transformer((OneHotEncoder(), ["place"]))
    places = {"X": X[["place"]], "y": Y, "next_X": next_X[["place"]], "terminal": LAST}
    fitted = value(features=one_hot).fit(**places)
    assert (fitted.n_states_, fitted.objective_) == (4, "bellman")
    fitted = value(features=MIXED).fit(X, Y, next_X=next_X, terminal=LAST)
    assert fitted.n_states_ == len(X.drop_duplicates())
    robust = off_policy_value(
        Y,
        np.where(action == (X["place"] == "a"), 2.0, 0.0),
        np.arange(len(Y)) // 20,
        method="dr",
        X=X,
        next_X=next_X,
        action=action,
        target=lambda X: np.where(X["place"] == "a", 1, 0),
        terminal=np.arange(len(Y)) % 20 == 19,
        estimator=ActionValueEstimator(features=MIXED, alpha=1e-3),
        gamma=0.9,
    )
    assert np.isfinite(robust.std_error)
    q = ActionValueEstimator([0, 1, 0, 1], features=one_hot)
    with pytest.raises(ValueError, match="policy (is an array for 4|must have a r)"):
        q.fit(**places, action=action)


def test_what_features_return_is_checked():
    X, given = SIZES.iloc[:-1], {"next_X": SIZES.iloc[1:], "terminal": LAST}
    dropping = FunctionTransformer(lambda X: X.dropna())
    for features, text in (
        (FunctionTransformer(), "features of X contains NaN"),
        (dropping, "features must give a row for each of 240 states, got"),
        (None, "X contains NaN|X.*NaN"),
    ):
        with pytest.raises(ValueError, match=text):
            value(features=features).fit(X, Y, **given)
    fitted = value(features=SimpleImputer()).fit(X, Y, **given)
    with pytest.raises(ValueError, match="next_X must be of shape|next_X.*240"):
        fitted.score(X, Y, next_X=SIZES[1:-1], terminal=LAST)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.rename(columns={"size": "length"}))


# policies of which the values are


def policy_log():
    chances = np.random.default_rng(3).dirichlet(np.ones(4), size=(4, 2)) * 0.75
    rewards = np.random.default_rng(4).normal(size=(4, 2))
    return draw(80, 0, chances, rewards, np.array([0.8, 0.2]), 0.3)


PARTS = policy_log()
TARGET = np.tile([0.8, 0.2], (4, 1))


@pytest.mark.parametrize("method", ["dr", "wdr"])
def test_ratios_that_contradict_the_target_are_refused(method):
    log = PARTS | {"target": TARGET, "gamma": 0.9, "method": method}
    ratio, action = log["importance_ratio"], log["action"]
    assert np.isfinite(off_policy_value(**log).value)
    first, second = int(np.argmin(action)), int(np.argmax(action))
    always = {"importance_ratio": np.ones(len(ratio)), "target": np.zeros(4, dtype=int)}
    text = "importance_ratio must be at least"
    for changes, message in (
        (always, f"be 0, as target does not .*, got 1 in row {second}"),
        *(
            ({"importance_ratio": np.where(action == 0, low, ratio)},
             f"{text} 0.8, the probability of .*, got {low:g} in row {first}")
            for low in (0.0, 0.5, 0.79)
        ),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            off_policy_value(**log | changes)
    order = np.random.default_rng(0).permutation(len(ratio))
    shuffled = log | some(PARTS, order)
    shuffled["importance_ratio"][7] = 0.01
    with pytest.raises(ValueError, match=f"{text} .* got 0.01 in row 7"):
        off_policy_value(**shuffled)
    rounded = log | {"importance_ratio": np.float32(ratio.round(4))}
    assert np.isfinite(off_policy_value(**rounded).value)


def test_numbers_of_states_warn_in_doubly_robust_values():
    log = PARTS | {"target": TARGET, "gamma": 0.9}
    log |= {name: PARTS[name].argmax(axis=1)[:, None] for name in ("X", "next_X")}
    one_hot = ActionValueEstimator(features=OneHotEncoder(), alpha=1e-6)
    for method in ("dr", "wdr"):
        with pytest.warns(UserWarning, match="one column, of 4 integers that repeat"):
            off_policy_value(**log, method=method)
        assert not messages(off_policy_value, **log, method=method, estimator=one_hot)


@pytest.mark.filterwarnings("ignore:importance_ratio gives nearly all weight")
def test_an_interval_from_one_episode_names_a_remedy():
    ratio = np.where(np.arange(N) == 3, 1e6, 1.0)
    with pytest.warns(UserWarning, match="number is 1 .*a target policy that"):
        estimate = off_policy_value(LOG["y"], ratio, EPISODE)
    other = off_policy_value(LOG["y"], np.ones(N), EPISODE)
    for each in (estimate, estimate - other):
        with pytest.warns(UserWarning, match="one episode in effect.*'wdr' .* clipped"):
            each.interval()
    assert not messages(other.interval)


def test_estimated_ratios_take_the_targets_of_off_policy_values():
    X, action, n = PARTS["X"], PARTS["action"], len(PARTS["action"])
    states, does = X.argmax(axis=1), np.array([0, 1, 1, 0])
    chances = np.random.default_rng(1).dirichlet(np.ones(2), 4)
    one_hot, names = np.eye(2)[does], np.array(["stay", "go"])
    named = {"action": names[action]}

    def ratios(target, X=X, action=action):
        model = LogisticRegression()
        return estimated_ratios(X, action, target, model, episode=PARTS["episode"])

    by_state, taken = lambda X: does[X.argmax(axis=1)], does[states]
    reversed_names = one_hot[states][:, ::-1]  # in the order of the names
    for target, targets, given in (
        (
            chances[states],
            [chances, lambda X: chances[X.argmax(axis=1)], chances[states, action]],
            {},
        ),
        (one_hot[states], [does, taken, pd.Series(taken, dtype="Int64"), by_state], {}),
        (one_hot[states], [1.0 * (taken == action), one_hot[states].tolist()], {}),
        (one_hot[states], [does], {"X": states[:, None]}),
        (reversed_names, [names[does], names[taken]], named),
    ):
        expected = ratios(target, **given)
        for same in targets:
            np.testing.assert_allclose(ratios(same, **given), expected, rtol=1e-9)
    for wrong, text in (
        (taken == action, "among the actions .*0, 1.*, or floats, got booleans"),
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
    rng, n = np.random.default_rng(0), 1500
    X, draws, half = rng.normal(size=(n, 3)), rng.random(n), np.full(n, 0.5)
    action = (draws < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    states = rng.integers(6, size=n)
    chance = np.array([0.2, 0.8, 0.3, 0.7, 0.2, 0.9])[states]
    acts = (rng.random(n) < chance).astype(int)
    column, named = states[:, None], np.array(list("abcdef"))[states][:, None]
    strong, weak = LogisticRegression(C=1e-3), LogisticRegression()
    forest = RandomForestClassifier(10, min_samples_leaf=10, random_state=0)
    encoded = make_pipeline(OneHotEncoder(), weak)
    first, state = "column 0 of X", "the state of row"
    for data, taken, classifier, what in (
        (X, action, strong, first),
        (1e-6 * X, action, weak, first),
        (column, acts, weak, state),
        (1e-6 * np.eye(6)[states], acts, weak, f"(column . of X|{state})"),
        (named, acts, make_pipeline(OneHotEncoder(), strong), state),
        (X, action, weak, None),
        (1e-6 * X, action, make_pipeline(StandardScaler(), weak), None),
        (column, acts, encoded, None),
        (column, acts, forest, None),
        (X, rng.integers(2, size=n), strong, None),
    ):
        found = messages(estimated_ratios, data, taken, half, classifier)
        text = f"probabilities do not fit the log: action . depends on {what}"
        assert any(re.search(text, one) for one in found) if what else not found
