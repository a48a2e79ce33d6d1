"""Input of portfolios: frames, rows in order, labels that fit in part, and forms that
could be misread."""

import collections
import copy
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import TimeSeriesSplit, cross_val_score

from sk_stormc import CompositionalPortfolio

NAMES = ["bonds", "gold", "oil", "shares"]
DAYS = pd.bdate_range("2020-01-01", periods=120)


def returns(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) + 0.0005 * rng.normal(size=d)


def frame(index=DAYS, columns=NAMES):
    return pd.DataFrame(returns(len(index), len(columns)), index=index, columns=columns)


def fit(X, **params):
    return CompositionalPortfolio(
        **{
            "constraint": "long_only",
            "risk_aversion": 30.0,
            "solver": "newton",
            "random_state": 0,
        }
        | params
    ).fit(X)


def same(one, other):
    """Whether two fits, or two arrays of weights, have the same bits."""
    np.testing.assert_array_equal(
        *(getattr(fitted, "weights_", fitted) for fitted in (one, other))
    )


def refused(words, X=None, **params):
    """A fit, of `frame` unless X is given, ends with an error that has these words."""
    with pytest.raises(ValueError, match=words):
        fit(frame() if X is None else X, **params)


def stream(*chunks, **params):
    """A portfolio after some chunks, without the warnings of a window that is not full,
    and of chunks without names."""
    params = {"constraint": "long_only", "random_state": 0} | params
    portfolio = CompositionalPortfolio(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for chunk in chunks:
            portfolio.partial_fit(chunk)
    return portfolio


# frames

STRANGE = {
    "dates": DAYS,
    "objects": [d.date() for d in DAYS],
    "numbers as text": ["0.1"] * 120,
    "categories": pd.Categorical(["up", "down"] * 60),
    "polars dates": pl.Series("when", DAYS.to_list()),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_column_that_is_no_number_is_named(kind):
    plain = frame(pd.RangeIndex(120))
    table = plain.assign(when=STRANGE[kind])
    if kind.startswith("polars"):
        plain = pl.DataFrame(returns(), schema=NAMES)
        table = plain.with_columns(STRANGE[kind])
    fitted, new = fit(plain), CompositionalPortfolio(constraint="long_only")
    for method in (new.fit, new.partial_fit, fitted.predict, fitted.score):
        with pytest.raises(ValueError, match="all numbers, but column 'when' holds"):
            method(table)
    assert not hasattr(new, "weights_")


def test_frames_of_numbers_of_any_kind():
    pyarrow = pytest.importorskip("pyarrow")
    expected = fit(frame()).weights_
    for dtype in ("Float64", "float64[pyarrow]", object, "float32"):
        found = fit(frame().astype(dtype)).weights_
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-9)
    same(fit(pyarrow.table(dict(zip(NAMES, returns().T, strict=True)))), expected)
    R = returns()
    R[:, 2] = np.arange(120) % 3 == 0
    true = pl.Series("oil", R[:, 2] == 1)
    by_polars = pl.DataFrame(R, schema=NAMES).with_columns(true)
    for table in (frame().assign(oil=R[:, 2] == 1), by_polars):
        np.testing.assert_allclose(fit(table).weights_, fit(R).weights_)


def test_missing_values_are_named():
    portfolio, new = fit(frame()), frame()
    new.iloc[3, 2] = np.nan
    for method in (portfolio.fit, portfolio.predict, portfolio.score):
        for X in (new, pl.DataFrame(new.to_numpy(), schema=NAMES)):
            row = "3" if X is not new else "'2020-01-06 00:00:00'"
            message = (
                rf"X must be finite returns, got NaN in column \['oil'\], first in "
                rf"row {row}\. Leave out"
            )
            with pytest.raises(ValueError, match=message + r".*X\.dropna\(\)"):
                method(X)
    with pytest.raises(ValueError, match=r"got NaN in column \[2\], first in row 3"):
        fit(returns()).predict(new.to_numpy())
    new.iloc[[90, 50], [1, 0]] = np.inf
    with pytest.raises(
        ValueError, match=r"columns \['bonds', 'gold'\], first in row '2020-03-11"
    ):
        CompositionalPortfolio(constraint="long_only").partial_fit(new[20:])


def test_the_first_missing_value_of_a_file_is_named(tmp_path):
    rows = np.memmap(tmp_path / "rows.f8", dtype=float, mode="w+", shape=(5000, 600))
    rows[:] = 0.01
    rows[[4000, 4900], [7, 3]] = np.nan  # in the second of its blocks
    rows.flush()
    with pytest.raises(ValueError, match=r"columns \[3, 7\], first in row 4000"):
        CompositionalPortfolio().fit(
            np.memmap(tmp_path / "rows.f8", dtype=float, mode="r", shape=(5000, 600))
        )


def test_named_weights_need_pandas(monkeypatch):
    portfolio = fit(frame())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="install pandas, or use weights_"):
        portfolio.named_weights()


# labels of bounds

CAPS = [0.1, 0.5, 0.35, 0.3]
FORMS = {
    "Series": pd.Series,
    "polars frame of one row": lambda caps: pl.DataFrame([caps]),
}


@pytest.mark.parametrize("kind", FORMS)
def test_labelled_bounds_go_to_the_columns_of_their_names(kind):
    table = (
        pl.DataFrame(returns(), schema=NAMES) if kind.startswith("polars") else frame()
    )
    turned = FORMS[kind](dict(reversed(list(zip(NAMES, CAPS, strict=True)))))
    expected = fit(table, constraint=(0.0, CAPS), budget=1.0)
    same(fit(table, constraint=(0.0, turned), budget=1.0), expected)
    within = [(expected.weights_ <= caps).all() for caps in (CAPS, CAPS[::-1])]
    assert within == [True, False]
    bounds = ({"constraint": (0.0, caps), "budget": 1.0} for caps in (turned, CAPS))
    same(*(stream(table, **given) for given in bounds))


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        (
            pd.Series(CAPS, index=["bonds", "gold", "oil", "equities"]),
            ["upper bound", "'shares'", "'equities'"],
        ),
        (pd.Series(CAPS[:3], index=NAMES[:3]), ["has nothing for 'shares'"]),
        (
            pd.Series(CAPS, index=["bonds", "gold", "gold", "shares"]),
            ["twice", "'gold'"],
        ),
        (pd.Series(CAPS), ["'bonds'", "labelled 0, 1, 2, 3"]),
        ({"bonds": 1.0}, ["'gold', 'oil', 'shares'"]),
    ],
)
def test_labels_that_disagree_are_named(caps, words):
    refused(".*".join(words), constraint=(0.0, caps), budget=1.0)


def test_columns_without_names_are_known_by_their_numbers():
    turned = pd.Series(CAPS[::-1], index=[3, 2, 1, 0])
    for X in (returns(), pd.DataFrame(returns())):
        same(
            fit(X, constraint=(0, turned), budget=1.0),
            fit(X, constraint=(0, CAPS), budget=1.0),
        )
    named = pd.Series(CAPS, index=NAMES)
    refused("'bonds'.*which X does not have", returns(), constraint=(0, named))


# the order of the rows


def test_rows_without_order_are_refused_where_order_counts():
    X = frame().sample(frac=1, random_state=0)
    texts = frame(pd.Index(DAYS.strftime("%d.%m.%Y")))
    fit(X)
    for params in ({"half_life": 20}, {"risk_measure": "cdar"}):
        same(fit(texts, **params), fit(frame(), **params).weights_)
        for wrong in (X, texts.sort_index()):
            refused("ascending order.*no order", wrong, **params)
    with pytest.raises(ValueError, match="ascending order.*no order"):
        CompositionalPortfolio(constraint="long_only").partial_fit(X)
    drawdowns = fit(frame(), risk_measure="cdar")
    for wrong in (X, frame()[::-1]):
        drawdowns.predict(wrong)
        with pytest.raises(ValueError, match="ascending order"):
            drawdowns.score(wrong)


MONTHS = pd.date_range("2003-05-01", periods=120, freq="MS")
FORMS_OF_DATES = (
    "%d %b %Y", "%b %d, %Y", "%d.%m.%Y", "%d/%m/%y", "%m/%d/%Y", "%A, %d %B %Y",
    "%Y/%m/%d %H:%M", "%d%b%Y", "%Y%m%d", "%G-W%V-%u", "week %V of %G, day %u",
)  # fmt: skip
FORMS_OF_MONTHS = ("%b-%y", "%B %Y", "%m/%Y", "%Y.%m")
ORDERED = {
    "zones": DAYS.tz_localize("Europe/Paris"),
    "periods": pd.period_range("2010-01", periods=120, freq="M"),
    "days": [day.date() for day in DAYS],
    "range": pd.RangeIndex(120),
    "years": np.arange(120.0) / 12 + 1990,
    **{form: DAYS.strftime(form) for form in FORMS_OF_DATES},
    **{form: MONTHS.strftime(form) for form in FORMS_OF_MONTHS},
}


@pytest.mark.parametrize("kind", ORDERED)
def test_labels_have_the_order_of_the_periods(kind):
    X = frame(pd.Index(ORDERED[kind]))
    same(fit(X, half_life=20), fit(X.to_numpy(), half_life=20))
    portfolio = CompositionalPortfolio(constraint="long_only", random_state=0)
    words = r"X must have its periods in ascending order.*descend.*X.sort_index\(\)"
    for run in (portfolio.fit, portfolio.partial_fit):
        with pytest.raises(ValueError, match=words):
            run(X[::-1])
    assert not hasattr(portfolio, "weights_")
    refused("ascending order.*no order", X.sample(frac=1, random_state=0), half_life=20)


def test_rows_of_a_dask_frame_in_descending_order_are_refused():
    dask = pytest.importorskip("dask.dataframe")
    X = frame()
    fitted = fit(dask.from_pandas(X, npartitions=2), half_life=20)
    np.testing.assert_allclose(
        fitted.weights_, fit(X, half_life=20).weights_, rtol=1e-9
    )
    turned = dask.from_pandas(X[::-1], npartitions=2, sort=False)
    refused("descend", turned, half_life=20)


def test_texts_with_years_that_cannot_be_read_are_refused_where_order_counts():
    months = ["janvier", "mars", "mai", "juillet", "septembre", "novembre"]
    X = frame(pd.Index([f"{1 + k % 20} {months[k // 20]} 2018" for k in range(120)]))
    fit(X)
    words = "texts whose order is not known.*pandas.to_datetime"
    for params in ({"half_life": 20}, {"risk_measure": "cdar"}):
        refused(words, X, **params)


def test_texts_that_may_be_read_in_two_orders_are_refused_where_order_counts():
    # from January to March, or the reverse
    X = frame()[:3].set_axis(["03/01/2018", "02/02/2018", "01/03/2018"])
    fit(X, risk_measure="semivariance")
    refused("no order", X, risk_measure="cdar")
    # one has no month 13
    fit(X.set_axis(["12/01/2018", "13/01/2018", "01/02/2018"]), risk_measure="cdar")


def test_dates_that_occur_twice_are_refused():
    X = frame()[:20]
    for dated in (X, X.set_axis(X.index.strftime("%d.%m.%Y"))):
        twice = pd.concat([dated, dated[-3:]])
        words = f"3 of them more than once, such as '{dated.index[-3]}"
        refused(words, twice)
    counted = twice.set_axis([*range(20), *range(3)])  # numbers are no dates
    same(fit(counted), fit(twice.to_numpy()))


def test_rows_with_a_missing_label_and_with_labels_of_several_levels():
    months = pd.MultiIndex.from_product([range(2001, 2011), range(1, 13)])
    texts = [
        None if k == 50 else day for k, day in enumerate(DAYS.strftime("%Y-%m-%d"))
    ]
    for index in (months, DAYS.where(np.arange(120) != 50), pd.Index(texts)):
        X = frame(index)
        same(fit(X, half_life=20), fit(X.to_numpy(), half_life=20))
        refused("descend", X[::-1], half_life=20)


# the order of chunks


WORDS_AS_LABELS = [
    f"{word} {k}" for k in range(30) for word in ("one", "two", "three", "four")
]


def chunks_of(X, size=30):
    return [X[start : start + size] for start in range(0, len(X), size)]


LABELS_OF_CHUNKS = {
    "dates": DAYS,
    "zones": DAYS.tz_localize("Asia/Tokyo"),
    "months": pd.period_range("2010-01", periods=120, freq="M"),
    "days first": pd.Index(DAYS.strftime("%d.%m.%Y")),
    "numbers": pd.RangeIndex(5, 125),
    "rows of one frame": pd.RangeIndex(120),
}


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("dates", {"solver": "storm-c"}),
        *[(kind, {"half_life": 20}) for kind in LABELS_OF_CHUNKS],
    ],
)
def test_chunks_go_on_from_the_last_label(kind, params):
    first, second, third, fourth = chunks_of(frame(LABELS_OF_CHUNKS[kind]))
    # the third has no labels
    portfolio = stream(first, second, third.to_numpy(), **params)
    words = "over all chunks, but its first row has the label .* before has"
    for earlier in (first, second[5:]):
        before = portfolio.weights_.copy()
        back = pickle.loads(pickle.dumps(portfolio))
        for each in (portfolio, back, copy.deepcopy(portfolio)):
            with pytest.raises(ValueError, match=words):
                each.partial_fit(earlier)
        same(portfolio, before)
    plain = (chunk.to_numpy() for chunk in (first, second, third, fourth))
    same(portfolio.partial_fit(fourth), stream(*plain, **params))
    with pytest.raises(ValueError, match="over all chunks"):
        stream(second, first, **params)


def test_chunks_that_need_not_go_on():
    """A new stream begins anywhere, equal labels ascend, and rows that are only counted
    begin with 0 in each chunk."""
    X = frame()
    portfolio = CompositionalPortfolio(constraint="long_only", half_life=20)
    portfolio.partial_fit(X[60:]).fit(X)
    portfolio.partial_fit(X[:60]).partial_fit(X[59:])
    chunks = chunks_of(X.to_numpy())
    for form in (pd.DataFrame, pl.DataFrame, np.asarray):
        same(
            stream(*map(form, chunks), half_life=20), stream(X.to_numpy(), half_life=20)
        )
    stream(*reversed(chunks_of(frame(WORDS_AS_LABELS))), half_life=20)
    dated = stream(X[:60], pd.DataFrame(returns(), columns=NAMES))  # without labels
    with pytest.raises(ValueError, match="labels of one kind"):
        dated.partial_fit(frame(pd.RangeIndex(200, 320)))


def test_labels_that_have_no_order():
    """Texts and arrays are taken as they come, and equal labels ascend."""
    X = returns()
    expected = fit(X, half_life=20).weights_
    for index in (WORDS_AS_LABELS, sorted(WORDS_AS_LABELS, reverse=True), [7] * 120):
        same(fit(pd.DataFrame(X, index=index), half_life=20), expected)
    same(fit(pl.DataFrame(X), half_life=20), expected)
    stream(pd.DataFrame(X, index=WORDS_AS_LABELS))


# a benchmark as a Series


def market(days=None):
    """Returns of a benchmark, from before the first period to after the last."""
    days = pd.bdate_range("2019-10-01", periods=250) if days is None else days
    return pd.Series(0.01 * np.random.default_rng(9).normal(size=len(days)), index=days)


@pytest.mark.parametrize("index", [DAYS, pd.RangeIndex(50, 170)])
def test_a_benchmark_goes_to_the_rows_of_its_labels(index):
    X, series = frame(index), market(index)
    expected = fit(X, benchmark=series.to_numpy())
    portfolio = fit(X, benchmark=series.sample(frac=1, random_state=0))
    same(portfolio, expected)
    assert portfolio.score(X) == expected.score(X)
    part = X.iloc[30:80]
    inside = fit(part, benchmark=series)
    same(inside, fit(part, benchmark=series.iloc[30:80].to_numpy()))
    if index.inferred_type == "integer":
        resampled = X.iloc[[0, 0, *range(60)]]
        same(
            fit(resampled, benchmark=series),
            fit(resampled, benchmark=series.iloc[[0, 0, *range(60)]].to_numpy()),
        )


def test_one_benchmark_for_all_folds():
    X, series = frame(), market()
    given = {"solver": "newton", "constraint": "long_only", "risk_aversion": 30.0}
    portfolio = CompositionalPortfolio(benchmark=series, **given)
    by_hand = []
    for train, test in TimeSeriesSplit(2).split(X):
        of_fold = (series.reindex(X.index[rows]).to_numpy() for rows in (train, test))
        each = fit(X.iloc[train], benchmark=next(of_fold))
        by_hand.append(each.set_params(benchmark=next(of_fold)).score(X.iloc[test]))
    scores = cross_val_score(portfolio, X, cv=TimeSeriesSplit(2))
    np.testing.assert_allclose(scores, by_hand, rtol=1e-12)


def test_a_benchmark_labelled_by_columns_is_one_of_weights():
    held = pd.Series([0.4, 0.3, 0.2, 0.1], index=NAMES[::-1])
    expected = fit(returns(), benchmark=held.to_numpy()[::-1]).weights_
    for X in (frame(), pl.DataFrame(returns(), schema=NAMES)):
        same(fit(X, benchmark=held), expected)
    by_number = pd.Series([0.1, 0.2, 0.3, 0.4])
    for X in (returns(), pd.DataFrame(returns()), pd.DataFrame(returns(), index=DAYS)):
        same(fit(X, benchmark=by_number), expected)
    same(fit(returns(), benchmark=market(DAYS)), fit(frame(), benchmark=market(DAYS)))


@pytest.mark.parametrize(
    ("X", "series", "words"),
    [
        (
            frame(),
            market().drop(DAYS[[3, 7]]),
            "nothing for the rows '2020-01-06.*'2020-01-10",
        ),
        (frame(), market().iloc[[*range(250), 100]], "twice.*'2020-02-18"),
        (frame(), pd.Series(np.zeros(120)), "the rows '2020-01-01.*and 110 more"),
        (frame(), {"gold": 0.5, "oil": 0.5}, "nothing for 'bonds', 'shares'"),
        (
            frame(),
            pd.Series(0.2, index=[*NAMES, "cash"]),
            "'cash', which X does not have",
        ),
        (returns(), market(), "Series of length 250.*120 rows have no labels.*DataF"),
        (pd.DataFrame(returns(4)), pd.Series(np.zeros(4)), "as rows and as columns"),
        (
            frame(),
            market().where(market().index != DAYS[5]),
            "finite, got nan for row '2020-01-08 00:00:00'",
        ),
        (
            returns(),
            np.where(np.arange(120) == 7, np.inf, 0.01),
            "finite, got inf for row 7 of X",
        ),
        (
            frame(),
            {"bonds": 1.0, "gold": 0.0, "oil": np.nan, "shares": 0.0},
            "got nan for column 'oil' of X",
        ),
    ],
)
def test_a_benchmark_that_does_not_fit(X, series, words):
    refused(f"benchmark.*{words}", X, benchmark=series)


@pytest.mark.parametrize("columns", [range(4), [2.5, 3.0, 8.0, 9.0], DAYS[:4]])
def test_a_benchmark_that_is_the_label_of_a_column(columns):
    table, label = frame(columns=columns), columns[2]
    expected, found = fit(frame(), benchmark="oil"), fit(table, benchmark=label)
    same(found, expected)
    assert found.weights_[2] == 0 and found.score(table) == expected.score(frame())
    words = r"benchmark must be the label of a column of X.*got 5 and columns \["
    refused(words, table, benchmark=5)


def test_a_benchmark_by_its_number_or_by_several_levels():
    for number in (2, np.int64(2)):
        same(fit(returns(), benchmark=number), fit(frame(), benchmark="oil"))
    table = frame(
        columns=pd.MultiIndex.from_product([["US", "EU"], ["bonds", "shares"]])
    )
    same(fit(table, benchmark=("EU", "bonds")), fit(frame(), benchmark="oil"))
    same(
        fit(table, benchmark=(0.4, 0.3, 0.2, 0.1)),
        fit(frame(), benchmark=[0.4, 0.3, 0.2, 0.1]),
    )
    for wrong in (4, -1, 0.5, True):
        refused("benchmark must be the label of a column", returns(), benchmark=wrong)


def test_weights_of_the_periods_in_another_order_are_refused():
    X, weights = frame(), pd.Series(np.linspace(1.0, 2.0, 120), index=DAYS)
    portfolio = fit(X).fit(X, sample_weight=weights)
    same(portfolio, fit(X).fit(X, sample_weight=weights.to_numpy()))
    words = r"sample_weight must .* label '2020-06-16 00:00:00' where X has '2020-01"
    new = CompositionalPortfolio(constraint="long_only")
    for run in (portfolio.fit, portfolio.score, new.partial_fit):
        with pytest.raises(ValueError, match=words):
            run(X, sample_weight=weights[::-1])
    # other labels are by position
    portfolio.fit(X, sample_weight=weights.set_axis(range(120)))


# labels of more or fewer assets

WIDE = {"shares": 0.4, "land": 0.9, "oil": 0.1, "bonds": 0.3, "cash": 0.7, "gold": 0.35}
WORDS = {
    "shares": "equity",
    "land": "real",
    "oil": "real",
    "bonds": "rates",
    "cash": "rates",
    "gold": ["real", "coin"],
}
NARROW = np.array([WIDE[name] for name in NAMES])


def test_labels_of_assets_that_x_does_not_have():
    params = {"constraint": (0.0, 0.6), "budget": 1.0, "transaction_cost": 1e-3}
    cost = pd.DataFrame(WIDE, index=["cost"]) / 1e3
    for name, given, plain in (
        ("constraint", (0.0, WIDE), (0.0, NARROW)),
        ("previous_weights", pd.Series(WIDE), NARROW),
        ("transaction_cost", cost, NARROW / 1e3),
    ):
        found, expected = (fit(frame(), **params | {name: v}) for v in (given, plain))
        same(found, expected)


def test_groups_of_assets_that_x_does_not_have():
    texts = ["gold + oil <= 0.3", "bonds <= 0.2"]
    expected = fit(frame(), linear_constraints=texts).weights_
    texts = ["real <= 0.3", "rates <= 0.2"]
    grouped = fit(frame(), groups=WORDS, linear_constraints=texts).weights_
    np.testing.assert_allclose(grouped, expected, atol=1e-9)
    table = pd.DataFrame({"sector": pd.Series(WORDS).drop("gold")}).reindex([*WORDS])
    limited = fit(frame(), groups=table, linear_constraints="equity <= 0.1")
    assert limited.named_weights()["shares"] <= 0.1 + 1e-9
    # a group may have lost all its assets
    left = frame()[["gold", "shares"]]
    found = fit(left, groups=WORDS, linear_constraints="rates <= 0.2").weights_
    np.testing.assert_allclose(found, fit(left).weights_, atol=1e-6)
    words = "none of the assets that 'rates >= 0.2' is about"
    refused(words, left, groups=WORDS, linear_constraints="rates >= 0.2")


def test_a_default_for_assets_without_a_label():
    caps = collections.defaultdict(lambda: 0.3, gold=0.1, cash=0.9)
    expected = fit(frame(), constraint=(0.0, [0.3, 0.1, 0.3, 0.3]), budget=1.0).weights_
    same(fit(frame(), constraint=(0.0, caps), budget=1.0), expected)
    assert list(caps) == ["gold", "cash"]  # a look-up would have added labels
    held = collections.defaultdict(float, gold=1.0)
    params = {"transaction_cost": 0.1, "previous_weights": [0.0, 1.0, 0.0, 0.0]}
    same(fit(frame(), **params | {"previous_weights": held}), fit(frame(), **params))
    sectors = collections.defaultdict(lambda: "other", gold="metal")
    limited = fit(
        frame(), groups=sectors, linear_constraints="other <= 0.4"
    ).named_weights()
    assert limited["gold"] >= 0.6 - 1e-9


def test_labels_none_of_which_is_a_column_are_refused():
    words = "must be labelled by columns of X, but is labelled 'Gold'"
    caps = collections.defaultdict(lambda: 0.5, Gold=0.1, Oil=0.2)
    refused(words, constraint=(0.0, caps), budget=1.0)
    refused(words, transaction_cost=collections.defaultdict(float, Gold=0.1))
    refused(words, groups=pd.Series({"Gold": "metal"}))


# forms that could be misread


def test_what_is_no_pair_of_bounds():
    """A pair for each asset, as SciPy has them, or what has no order."""
    pairs = [(0.2, 0.6), (0.3, 0.9), (0.1, 0.4), (0.0, 0.7)]
    words = r"constraint must be .*\(low, high\), got .*a pair for each asset\. Each"
    for d, form in ((2, tuple), (3, list), (4, np.array)):
        refused(words, returns(d=d), constraint=form(pairs[:d]), budget=1.0)
    for wrong in ({0: 0, 1: 1}, {0.0, 1.0}, "01", np.array(1.0)):
        refused("constraint must be None, 'long_only' or", constraint=wrong)


def test_bounds_of_two_assets():
    X = returns(d=2)
    low, high = np.array([0.2, 0.3]), np.array([0.6, 0.9])
    expected = fit(X, constraint=(low, high), budget=1.0).weights_
    table = pd.DataFrame(X, columns=["a", "b"])
    labelled = ({"a": 0.2, "b": 0.3}, {"a": 0.6, "b": 0.9})
    same(fit(table, constraint=labelled, budget=1.0), expected)
    assert (low <= expected).all() and (expected <= high).all()
    # as pairs, these would leave nothing to choose
    fit(X, constraint=([0, 0], [1, 1]), budget=1.0)


def test_a_lazy_frame_is_to_be_collected():
    X = pl.DataFrame(returns(), schema=NAMES)
    portfolio = fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for run in (portfolio.fit, portfolio.predict, portfolio.score):
            words = r"X must be in memory, got a LazyFrame.*collect\(\)"
            with pytest.raises(ValueError, match=words):
                run(X.lazy())


COLUMNS = {
    "levels": pd.MultiIndex.from_product([["US", "EU"], ["bonds", "shares"]]),
    "tuples": [("a", 1), ("a", 2), ("b", 1), ("b", 2)],
    "text": NAMES,
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_weights_have_the_labels_of_the_columns(kind):
    X = frame(columns=COLUMNS[kind])
    portfolio = fit(X)
    streamed = CompositionalPortfolio("moments", constraint="long_only").partial_fit(X)
    for each in (portfolio, streamed):
        assert list(each.named_weights().index) == list(X.columns)
        np.testing.assert_array_equal(each.named_weights().to_numpy(), each.weights_)
    labels = X.columns[::-1]
    caps = pd.Series([0.4, 0.3, 0.2, 0.1], index=labels)
    capped = fit(X, constraint=(0.0, caps), budget=1.0).named_weights()
    np.testing.assert_allclose(capped[labels], caps, atol=1e-9)
    with pytest.raises(ValueError, match="columns have names"):
        portfolio.fit(X.to_numpy()).named_weights()


@pytest.mark.parametrize("form", ["frame", "file"])
def test_weights_of_the_periods_are_checked_where_they_come_in(form, tmp_path):
    """By fit, score and partial_fit alike, before forecasts and a benchmark use
    them."""
    X = frame()
    if form == "file":
        np.save(tmp_path / "returns.npy", returns())
        X = np.load(tmp_path / "returns.npy", mmap_mode="r")
    given = {"half_life": 50.0, "budget": 1.0, "benchmark": returns()[:, 0]}
    if form != "file":
        given["expected_returns"] = np.full(4, 0.001)
    model = CompositionalPortfolio(constraint=(0, 1), **given).fit(X)
    stream = CompositionalPortfolio(constraint="long_only")
    negative, short, zero = np.ones(120), np.ones(119), np.zeros(120)
    negative[2] = -1
    for use in (model.fit, model.score, stream.partial_fit):
        with pytest.raises(ValueError, match=r"finite and >= 0, got -1.0 for period 2"):
            use(X, sample_weight=negative)
        with pytest.raises(ValueError, match=r"of shape \(120,\), got \(119,\)"):
            use(X, sample_weight=short)
        with pytest.raises(ValueError, match=r"sample_weight must have a positive"):
            use(X, sample_weight=zero)
    weighted = copy.deepcopy(model).fit(X, sample_weight=3.0)
    np.testing.assert_allclose(weighted.weights_, model.fit(X).weights_, atol=1e-6)
