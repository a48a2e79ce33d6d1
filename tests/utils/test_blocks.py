"""Sums over blocks of rows: of arrays, files, and collections of dask on a cluster of
two processes."""

import os
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.utils.blocks import (
    blocks_of,
    check_finite_rows,
    map_lazily,
    of_partitions,
)

ROWS = np.random.default_rng(0).normal(size=(1000, 4))
OTHER = np.random.default_rng(1).normal(size=1000)
FRAME = pd.DataFrame(ROWS, columns=list("abcd"))
equal, same_bits = np.testing.assert_allclose, np.testing.assert_array_equal


def products(start, rows, *others):
    """Sums, and where the blocks begin."""
    return rows.T @ rows, [start], sum(rows[:, 0] @ other for other in others)


def checked(names):
    def check(start, rows):
        check_finite_rows("X", rows, names)
        return len(rows)

    return check


# Arrays and files


def test_blocks_of_arrays_frames_and_files(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    file = np.load(tmp_path / "rows.npy", mmap_mode="r")
    expected = blocks_of(ROWS, OTHER, rows=300).sum(products)
    assert expected[1] == [0, 300, 600, 900]
    equal(expected[0], ROWS.T @ ROWS)
    equal(expected[2], ROWS[:, 0] @ OTHER)
    for rows in (file, FRAME, FRAME.astype({"b": "Float64"})):
        blocks = blocks_of(rows, None, pd.Series(OTHER), rows=300)
        for part, correct in zip(blocks.sum(products), expected, strict=True):
            same_bits(part, correct)
        same_bits(
            blocks.take(np.array([0, 299, 300, 999]))[0], ROWS[[0, 299, 300, 999]]
        )


@pytest.mark.parametrize(
    "tables", [(ROWS, OTHER[:9]), (ROWS[:0],)], ids=["lengths", "no rows"]
)
def test_tables_that_do_not_fit(tables):
    with pytest.raises(
        ValueError, match=r"must have (as many rows, got \[9, 1000\]|a row, got 0 rows)"
    ):
        blocks_of(*tables)


def test_missing_values_of_pandas_are_nan():
    frame = FRAME.astype({"b": "Float64"})
    frame.loc[7, "b"] = pd.NA
    with pytest.raises(
        ValueError, match=r"^X must be finite, got nan in column 'b', row 7$"
    ):
        blocks_of(frame).sum(checked(list("abcd")))
    with pytest.raises(
        ValueError,
        match=r"got nan in column 1, row 2 \(in the block that begins at row 5",
    ):
        blocks_of(frame, rows=5).sum(checked(None))


def test_decimals_of_arrow_are_numbers():
    """Weights of this type ended in an error of NumPy."""
    pa = pytest.importorskip("pyarrow")
    dtype = pd.ArrowDtype(pa.decimal128(9, 3))
    cents = pd.Series([Decimal("0.125"), Decimal(7), None], dtype=dtype)
    for table in (cents, cents.to_frame(name="a")):
        rows = blocks_of(table).take(np.arange(3))[0]
        assert rows.dtype == float
        same_bits(rows.ravel(), [0.125, 7, np.nan])


def test_a_text_is_named():
    with pytest.raises(
        ValueError, match="X must hold numbers, got 'much' in column 'c', row 3"
    ):
        blocks_of(FRAME.assign(c=["1", "2", None, "much"] * 250))


def test_arrays_do_not_need_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    assert blocks_of(ROWS, OTHER).n_rows == 1000


# dask

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

ARRAY = da.from_array(ROWS, chunks=(300, 3))


@pytest.mark.slow
def test_the_same_bits_for_any_number_of_workers(client):
    blocks = blocks_of(ARRAY, OTHER)

    def pass_over(start, rows, other):
        return rows.T @ rows, other @ rows, [os.getpid()]

    expected = blocks_of(ROWS, OTHER, rows=300).sum(pass_over)
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    for n_workers in (1, 2):
        with dask.annotate(workers=workers[:n_workers]):
            squares, mixed, processes = blocks.sum(pass_over)
        same_bits(squares, expected[0])
        same_bits(mixed, expected[1])
        assert os.getpid() not in processes and len(set(processes)) <= n_workers
    workers = {
        "n_workers": 3,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": ":0",
    }
    with distributed.LocalCluster(**workers) as three, distributed.Client(three):
        same_bits(blocks.sum(pass_over)[0], expected[0])
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            same_bits(blocks.sum(pass_over)[0], expected[0])


@pytest.mark.slow
def test_an_error_on_a_worker(client):
    rows = ROWS.copy()
    rows[950, 2] = np.nan
    with pytest.raises(
        ValueError,
        match=r"got nan in column 'c', row 50 \(in partition 3, which begins at row "
        r"900",
    ):
        blocks_of(da.from_array(rows, chunks=300)).sum(checked(list("abcd")))


@pytest.mark.parametrize("frame", [False, True])
def test_unknown_lengths_are_counted_once(frame):
    read = []

    def load(k):
        read.append(k)
        part = FRAME[100 * k : 100 * k + (0 if k == 1 else 50 + k)]
        return part if frame else part.to_numpy()

    parts = [dask.delayed(load)(k) for k in range(3)]
    if frame:
        table = dd.from_delayed(parts, meta=FRAME[:0], verify_meta=False)
    else:
        table = da.concatenate(
            [da.from_delayed(part, (np.nan, 4), float) for part in parts]
        )
    with dask.config.set(scheduler="synchronous"):
        blocks = blocks_of(table, table if frame else table[:, 0])
        assert sorted(read) == [0, 1, 2]
        assert blocks.ends == [50, 102]  # without the empty partition
        assert blocks.sum(lambda start, rows, *_: [start, len(rows)]) == [0, 50, 50, 52]
        with pytest.raises(ValueError, match=r"in partition 2, which begins at row 50"):
            blocks.sum(
                lambda start, rows, *_: checked(None)(
                    start, rows * (np.nan if start else 1)
                )
            )


def test_tables_are_aligned_by_the_index():
    weights = pd.Series(OTHER, FRAME.index)
    shuffled = pd.concat([weights[500:][::-1], weights[:500][::-1]])
    for n in (2, 3):
        aligned = dd.from_pandas(shuffled, npartitions=n, sort=True)
        taken = blocks_of(dd.from_pandas(FRAME, npartitions=3), aligned).take(
            np.arange(1000)
        )
        same_bits(taken[0], ROWS)
        same_bits(taken[1], OTHER)


@pytest.mark.parametrize(
    "labels", [slice(0, 1000, 2), slice(0, 500)], ids=["every second", "half"]
)
def test_rows_of_another_index(labels):
    beside = dd.from_pandas(pd.Series(OTHER)[labels], npartitions=2)
    with pytest.raises(
        ValueError, match="must have the index of X, got other labels in partition"
    ):
        blocks_of(dd.from_pandas(FRAME, npartitions=3), beside).sum(products)


def test_tables_are_aligned_by_lengths():
    frame = dd.from_pandas(FRAME, npartitions=3).clear_divisions()
    taken = blocks_of(
        frame, da.from_array(OTHER, chunks=((334, 333, 333),)), OTHER
    ).take(np.arange(1000))
    same_bits(taken[1], OTHER)
    same_bits(taken[2], OTHER)
    with pytest.raises(
        ValueError,
        match="3 partitions of X and 4 of .* that differ from partition 0 on",
    ):
        blocks_of(frame, da.from_array(OTHER, chunks=300))
    with pytest.raises(
        ValueError, match=r"must have the 1000 rows of X, got shape \(9"
    ):
        blocks_of(frame, OTHER[:9])
    with pytest.raises(
        ValueError, match="X must be a dask collection if one of the tables"
    ):
        blocks_of(ROWS, frame)


def test_partitions_of_other_types():
    parts = [
        FRAME[:500].astype({"a": "float32"}),
        FRAME[500:].astype({"b": "Float64", "c": object}),
    ]
    frame = dd.from_delayed(
        [dask.delayed(part) for part in parts], meta=FRAME[:0], verify_meta=False
    )
    equal(blocks_of(frame).sum(products)[0], ROWS.T @ ROWS, rtol=1e-6)


@pytest.mark.parametrize("wrong, message", [
    (FRAME[500:].rename(columns={"a": "z"}), r"partition 1 of X must have the columns "
                                             r"\['a', .*, got \['z'"),
    (FRAME[500:].assign(d=["much", *ROWS[501:, 3]]), r"got 'much' in column 'd', row "
                                                     r"0 \(in partition 1\)"),
])  # fmt: skip
def test_wrong_partitions(wrong, message):
    parts = [dask.delayed(part) for part in (FRAME[:500], wrong)]
    with pytest.raises(ValueError, match=message):
        blocks_of(dd.from_delayed(parts, meta=FRAME[:0], verify_meta=False)).sum(
            products
        )


def in_blocks(change, chunks=((300, 300, 400), (2, 2))):
    """A dask array of which a function changes the second chunk of rows."""
    return da.map_blocks(
        lambda block, block_info=None: (
            change(block) if block_info[0]["chunk-location"][0] == 1 else block
        ),
        da.from_array(ROWS, chunks=chunks),
        dtype=float,
        meta=np.empty((0, 0)),
    )


CHANGES = [
    (lambda block: block[:-7], r"the shape \(300, 2\) that .*, got \(293, 2\)"),
    (lambda block: np.vstack([block, block]), r"\(300, 2\) that .*, got \(600, 2\)"),
    (lambda block: block[:, :1], r"\(300, 2\) that .*, got \(300, 1\)"),
    (lambda block: block[:, 0], r"\(300, 2\) that .*, got \(300,\)"),
    (lambda block: None, "must be an array, .* got a NoneType"),
    (
        lambda block: np.ma.masked_greater(block, 2.0),
        r"must have all its values, got \d+ that are masked",
    ),
]
FUNCTIONS = [
    lambda X: blocks_of(X).sum(products),
    lambda X: blocks_of(X).take(np.array([3, 599, 998])),
    lambda X: blocks_of(X).map(lambda start, rows: rows[:, 0]).sum(products),
    lambda X: blocks_of(da.ones((1000, 1), chunks=((300, 300, 400), 1)), X).sum(
        products
    ),
    lambda X: map_lazily(lambda part: part[:, 0], X).compute(),
    lambda X: of_partitions(len, X),
]


def test_blocks_that_are_not_as_they_are_declared():
    """Dask sees only what was declared: rows that a function dropped were missing in
    sums, and masks were lost."""
    for k, function in enumerate(FUNCTIONS):
        assert function(in_blocks(lambda block: block)) is not None or k == 4
        for change, message in CHANGES if k == 0 else CHANGES[::5]:
            with pytest.raises(ValueError, match=f"partition 1 of .* {message}"):
                function(in_blocks(change))


def test_rows_that_change_with_every_computation():
    lengths = iter([300, 299])
    part = dask.delayed(lambda: ROWS[: next(lengths)])()
    rows = da.from_delayed(part, (np.nan, 4), float)
    with dask.config.set(scheduler="synchronous"):
        blocks = blocks_of(rows)
        with pytest.raises(ValueError, match=r"got \(299, 4\).*X.persist\(\)"):
            blocks.sum(products)


DATES = pd.date_range("2020-01-01", periods=1000)
DATED = FRAME.set_index(DATES)
OTHER_YEARS = DATES + pd.Timedelta(days=3000)


def unknown(table, n=4):
    """A collection without known divisions."""
    step = -(-len(table) // n)
    parts = [dask.delayed(table[k * step : (k + 1) * step]) for k in range(n)]
    return dd.from_delayed(parts, meta=table[:0], verify_meta=False)


@pytest.mark.parametrize("labels, message", [
    (DATES[::-1], "must have .* of the rows of X, but has the label"),
    (OTHER_YEARS, "must have the labels .* '20(28|29|30)-.* where X has '202[012]-"),
    (DATES.astype(str), r"has the label '[-\d]+' where X has '[-\d]+ 00:00:00'"),
    (DATES[np.arange(1000) ^ 1], "in the order of the rows of X, .*reindex"),
    (DATES, None),
    (DATES.astype("datetime64[s]"), None),
    (None, None),
    (np.tile(np.arange(250), 4), None),
], ids=["newest first", "other years", "text", "pairs swapped", "same", "seconds",
        "counted", "counted by partitions"])  # fmt: skip
def test_labels_of_rows_are_compared(labels, message):
    """Tables were joined by position, whatever their labels."""
    other = pd.Series(OTHER, labels)
    far, known = unknown(DATED), dd.from_pandas(DATED, npartitions=4)
    for X, beside in ((far, other), (known, unknown(other))):
        blocks = blocks_of(X, beside, names=("X", "sample_weight"))
        if message is None:
            same_bits(blocks.take(np.arange(1000))[1], OTHER)
            continue
        with pytest.raises(ValueError, match=f"sample_weight .*{message}.*in partit"):
            blocks.sum(products)


def test_arrays_have_no_labels_and_lost_ones_can_be_given():
    series = pd.Series(OTHER, DATES[::-1])
    for X in (ARRAY, unknown(FRAME)):
        same_bits(blocks_of(X, series).take(np.arange(1000))[1], OTHER)
    blocks = blocks_of(
        unknown(DATED), OTHER, names=("X", "y"), labels={"y": DATES[::-1]}
    )
    with pytest.raises(ValueError, match="y must have the labels of the rows of X"):
        blocks.sum(products)
    # of two that are labelled, beside one that is not
    blocks = blocks_of(
        ARRAY.rechunk((250, 4)), pd.Series(OTHER, DATES), unknown(DATED.a[::-1])
    )
    with pytest.raises(ValueError, match="beside X must have the labels"):
        blocks.sum(products)


def test_a_part_of_dask_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(ImportError, match=r'pip install "sk_stormc\[dask\]"'):
        blocks_of(ARRAY)


# Fits on the cluster


def transitions(load=None):
    """A log of random transitions in three partitions, whose second one is made by
    ``load``."""
    rng = np.random.default_rng(0)
    X, next_X, y = (
        rng.normal(size=(900, 4)),
        rng.normal(size=(900, 4)),
        rng.normal(size=900),
    )
    parts = [dask.delayed(load or (lambda rows: rows))(X[300:600])]
    parts = [dask.delayed(X[:300]), *parts, dask.delayed(X[600:])]
    lazy = da.concatenate([da.from_delayed(part, (300, 4), float) for part in parts])
    rest = {
        "next_X": next_X,
        "terminal": np.arange(900) % 9 == 8,
        "episode": np.arange(900) // 9,
    }
    return lazy, y, rest


@pytest.mark.slow
def test_fits_have_the_same_bits_after_a_worker_was_killed(client, tmp_path):
    flag = tmp_path / "killed"

    def load(rows):
        if not flag.exists():
            flag.touch()
            os._exit(1)
        return rows

    X, y, rest = transitions()
    with dask.config.set(scheduler="threads"):
        expected = BellmanValueEstimator().fit(X, y, **rest)
    values = BellmanValueEstimator().fit(transitions(load)[0], y, **rest)
    assert flag.exists()
    same_bits(values.coef_, expected.coef_)
    same_bits(values.value_interval(ROWS[:5]), expected.value_interval(ROWS[:5]))
    action = np.arange(900) % 2
    for scheduler in ("threads", None):
        with dask.config.set({"scheduler": scheduler} if scheduler else {}):
            q = ActionValueEstimator().fit(X, y, action=action, **rest)
        if scheduler:
            expected = q
    same_bits(q.coef_, expected.coef_)
    same_bits(q.predict(X).compute(), q.predict(X.compute()))
