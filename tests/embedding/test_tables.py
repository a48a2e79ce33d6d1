"""TableScaler: numbers from tables, with equal weight for each column."""

import datetime
import decimal
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_stormc import SNEEmbedding
from sk_stormc.preprocessing import TableScaler

pytest.importorskip("skrub")
N = 60


def table():
    """A table with columns of all common types."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": rng.lognormal(10, 1, N),
            "rooms": rng.integers(1, 6, N),
            "city": rng.choice(["Bonn", "Kyiv", "Lima"], N, p=[0.7, 0.2, 0.1]),
            "owner": rng.random(N) < 0.3,
            "since": pd.Timestamp("2024-02-28")
            + pd.to_timedelta(rng.integers(0, 10**7, N), unit="s"),
            "born": [
                f"{1950 + k % 50}-0{1 + k % 9}-11" for k in rng.integers(0, 99, N)
            ],
            "zone": pd.Categorical(rng.integers(0, 4, N)),
            "score": pd.array(rng.integers(0, 9, N), dtype="Int64"),
            "name": [f"name {k}" for k in range(N)],
            "same": "x",
            "empty": np.nan,
        }
    )


def variances(scaler, Z):
    """The summed variance of the columns of the result, for each column of the
    table."""
    names = scaler.get_feature_names_out()
    return {
        label: Z[:, [name.split("_")[0] == label for name in names]].var(axis=0).sum()
        for label in scaler.kinds_
    }


@parametrize_with_checks([TableScaler()])
def test_check_estimator(estimator, check):
    check(estimator)


def test_each_column_has_the_same_weight():
    scaler = TableScaler()
    Z = scaler.fit_transform(table())
    assert scaler.kinds_ == {
        "income": "number", "rooms": "number", "city": "category", "owner": "number",
        "since": "date", "born": "date",
        "zone": "category", "score": "number",
    }  # fmt: skip
    assert scaler.left_out_ == {
        "name": f"{N} different values",
        "same": "one value",
        "empty": "no values",
    }
    assert variances(scaler, Z) == pytest.approx(dict.fromkeys(scaler.kinds_, 1.0))
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)


def test_distances_in_one_column():
    """Numbers are divided by their deviation; two rows of different categories are
    further apart than any two alike."""
    Z = TableScaler().fit_transform(pd.DataFrame({"a": [1.0, 2.0, 3.0, 6.0]}))
    np.testing.assert_allclose(Z.ravel(), (np.array([1, 2, 3, 6]) - 3) / np.sqrt(3.5))
    Z = TableScaler().fit_transform(pd.DataFrame({"a": ["x", "x", "y", "z"]}))
    D = np.linalg.norm(Z[:, None] - Z, axis=2)
    share = np.array([0.5, 0.25, 0.25])
    np.testing.assert_allclose(D[:2, :2], 0, atol=1e-12)
    np.testing.assert_allclose(D[0, 2:], np.sqrt(2 / (share @ (1 - share))))
    np.testing.assert_allclose(D[2, 3], D[0, 2])


@pytest.mark.parametrize(
    "column", [[1.0, 2.0, 4.0, None], ["x", "y", "x", None], [True, False, True, None]]
)
def test_missing_values_are_at_the_mean_and_change_nothing_else(column):
    X = pd.DataFrame({"a": column, "b": range(4)})
    scaler = TableScaler().fit(X)
    Z = scaler.transform(X)
    np.testing.assert_array_equal(Z[3, :-1], 0)
    without = TableScaler().fit_transform(X[:3])
    np.testing.assert_allclose(Z[:3, :-1], without[:, :-1])
    gone = X.assign(a=None)
    np.testing.assert_array_equal(scaler.transform(gone)[:, :-1], 0)


DAYS = [f"2024-03-0{k}" for k in (1, 2, 5, 3)]
NUMBERS = np.array([1, 2, 5, 3])


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(NUMBERS, dtype=np.float32),
        pd.array([1, 2, 5, 3], dtype="Int64"),
        pd.array([1, 2, 5, 3], dtype="Float32"),
        ["1", "2", "5", "3"],
        [decimal.Decimal(k) for k in (1, 2, 5, 3)],
        pd.to_timedelta(NUMBERS, unit="h"),
        pd.to_datetime(DAYS),
        pd.to_datetime(DAYS, utc=True).as_unit("s"),
        [datetime.date(2024, 3, k) for k in (1, 2, 5, 3)],
        pd.PeriodIndex(DAYS, freq="D"),
        # seconds since 1970, which float32 would make one number
        1.7e9 + NUMBERS,
        1e300 * NUMBERS,
        1e-300 * NUMBERS,
    ],
    ids=lambda values: str(getattr(values, "dtype", type(values[0]).__name__)),
)
def test_types_of_numbers_and_dates(values):
    Z = TableScaler().fit_transform(pd.DataFrame({"a": values})).ravel()
    np.testing.assert_allclose(Z, (NUMBERS - 2.75) / NUMBERS.std(), rtol=1e-6)


def test_frames_of_polars_and_arrays():
    frame = table()
    other = pl.DataFrame({name: frame[name].astype(object).to_list() for name in frame})
    other = other.with_columns(pl.col("zone").cast(pl.String).cast(pl.Categorical))
    expected, scaler = TableScaler().fit_transform(frame), TableScaler()
    np.testing.assert_allclose(scaler.fit_transform(other), expected, atol=1e-12)
    some = scaler.set_output(transform="polars").transform(other[:5])
    assert some.columns == list(scaler.get_feature_names_out())
    rows = TableScaler().fit(frame).transform(other[7:9])
    np.testing.assert_allclose(rows, expected[7:9], atol=1e-12)
    mixed = TableScaler().fit([[1, "a"], [2, "b"], [None, "a"]])
    assert mixed.kinds_ == {0: "number", 1: "category"}
    assert mixed.get_feature_names_out().tolist() == ["x0", "x1_a", "x1_b"]
    assert mixed.get_feature_names_out(["u", "v"]).tolist() == ["u", "v_a", "v_b"]
    # whose fill_value is 9
    masked = np.ma.masked_equal([[1.0, 5.0], [2.0, 6.0], [9.0, 7.0]], 9.0)
    np.testing.assert_allclose(TableScaler().fit_transform(masked)[:, 0], [-1, 1, 0])


def test_conventions():
    frame = table().set_index(pd.date_range("2024", periods=N))
    scaler = TableScaler().set_output(transform="pandas").fit(frame)
    Z = scaler.transform(frame)
    assert Z.index.equals(frame.index)
    assert list(Z) == list(scaler.get_feature_names_out())
    copied = pickle.loads(pickle.dumps(scaler))
    pd.testing.assert_frame_equal(copied.transform(frame[:3]), Z[:3])
    # rows do not depend on each other
    pd.testing.assert_frame_equal(scaler.transform(frame[4:5]), Z[4:5])
    with pytest.raises(ValueError, match="same order"):
        scaler.transform(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="yet now missing:\n- rooms"):
        scaler.transform(frame.drop(columns="rooms"))


def test_new_values_are_missing_with_a_warning():
    frame = table()
    scaler = TableScaler().fit(frame)
    Z, names = scaler.transform(frame), scaler.get_feature_names_out()
    for label, value, reason in (
        ("city", "Oslo", "because fit has not seen it"),
        ("born", "long ago", "because it is no date"),
    ):
        new = frame.copy()
        new.loc[2, label] = value
        words = f"column '{label}' of X holds '{value}', which is .* missing, {reason}"
        with pytest.warns(UserWarning, match=words) as caught:
            found = scaler.transform(new)
        assert len(caught) == 1
        of_label = np.array([name.split("_")[0] == label for name in names])
        np.testing.assert_array_equal(found[2, of_label], 0)
        found[2, of_label] = Z[2, of_label]
        np.testing.assert_array_equal(found, Z)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler.transform(frame.assign(born="N/A", city=None))


@pytest.mark.parametrize(
    ("label", "values", "words"),
    [
        ("income", "much", "must hold numbers, as in fit, got 'much'"),
        ("income", pd.Timestamp("2024"), "must hold numbers, as in fit, got Timestamp"),
        ("since", 2024, "must hold dates, as in fit, got 2024"),
        ("income", np.inf, "must be finite, got inf in row 0"),
    ],
)
def test_columns_of_another_kind(label, values, words):
    frame = table()
    scaler = TableScaler().fit(frame)
    with pytest.raises(ValueError, match=f"column '{label}' of X {words}"):
        scaler.transform(frame.assign(**{label: values}))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (table()[["rooms", "rooms"]], "its own for each column, got 'rooms' twice"),
        (
            table()[["same", "empty"]],
            "different values, got none: {'same': 'one value'",
        ),
        (table()[:1], "at least two rows, got n_samples=1"),
        (pd.DataFrame({"a": [1.0, np.inf]}, index=["u", "v"]), "got inf in row 'v'"),
        (pd.DataFrame({"a": [1j, 2j]}), "must hold numbers, dates, .*, got 1j"),
        (pd.DataFrame({"a": [[1], [2]]}), r"must hold numbers, dates, .*, got \[1\]"),
        (pl.LazyFrame({"a": [1, 2]}), "X must be in memory, got a LazyFrame"),
    ],
)
def test_invalid_tables(X, words):
    with pytest.raises(ValueError, match=words):
        TableScaler().fit(X)


def test_texts_with_many_values_are_left_out_with_a_warning_if_some_repeat():
    names = [f"name {k}" for k in range(60)]
    frame = pd.DataFrame({"a": range(60), "b": [*names[:50], *names[:10]], "c": names})
    scaler = TableScaler()
    words = r"more than 40 different texts or categories are left out: \['b'\]"
    with pytest.warns(UserWarning, match=words):
        scaler.fit(frame)
    assert scaler.left_out_ == {"b": "50 different values", "c": "60 different values"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TableScaler(max_categories=50).fit_transform(frame).shape == (60, 51)


def test_without_skrub_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrub", None)
    words = r'TableScaler needs skrub: pip install "sk_stormc\[tables\]"'
    with pytest.raises(ImportError, match=words):
        TableScaler().fit(table())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_in_a_pipeline():
    frame, model = table(), SNEEmbedding(perplexity=5, max_iter=5, random_state=0)
    words = r"column 'city' holds \w+: .* sk_stormc.preprocessing.TableScaler"
    with pytest.raises(ValueError, match=words):
        model.fit(frame)
    model = make_pipeline(TableScaler(), model)
    places = model.fit_transform(frame)
    np.testing.assert_allclose(model.transform(frame[:5]), places[:5], atol=1e-6)


def test_units_do_not_matter():
    frame = table()
    grams = frame.assign(income=frame["income"] * 1e-9)
    Z, same = (TableScaler().fit_transform(some) for some in (frame, grams))
    np.testing.assert_allclose(Z, same)
