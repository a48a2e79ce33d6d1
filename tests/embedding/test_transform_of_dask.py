"""Maps of dask collections: transform is lazy and has the bits of rows in memory; fit
says what to do."""

import numpy as np
import pandas as pd
import pytest

from sk_stormc import SNEEmbedding

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

ROWS = np.random.default_rng(0).normal(size=(400, 5))
FRAME = pd.DataFrame(ROWS, columns=list("abcde"))
same_bits = np.testing.assert_array_equal


@pytest.fixture(scope="module")
def embedding():
    return SNEEmbedding(perplexity=10, max_iter=30, random_state=0).fit(FRAME[:200])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("rows", [
    da.from_array(ROWS, chunks=(130, 3)), dd.from_pandas(FRAME, npartitions=3),
    da.from_array(ROWS, chunks=97)[ROWS[:, 0] > 0],
], ids=["array", "frame", "unknown lengths"])  # fmt: skip
def test_transform_is_lazy_and_has_the_same_bits(embedding, rows):
    places, distances = embedding.transform(rows, return_distance=True)
    assert isinstance(places, da.Array) and isinstance(distances, da.Array)
    expected = embedding.transform(rows.compute(), return_distance=True)
    same_bits(places.compute(), expected[0])
    same_bits(distances.compute(), expected[1])
    same_bits(embedding.transform(rows).compute(), expected[0])


def test_maps_of_float32():
    rows = ROWS.astype(np.float32)
    embedding = SNEEmbedding(perplexity=10, max_iter=30, random_state=0).fit(rows[:200])
    places = embedding.transform(da.from_array(rows, chunks=100))
    assert places.dtype == places.compute().dtype == np.float32
    same_bits(places.compute(), embedding.transform(rows))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_error_in_a_partition(embedding):
    rows = ROWS.copy()
    rows[350, 2] = np.nan
    with pytest.raises(ValueError, match="got NaN in column"):
        embedding.transform(da.from_array(rows, chunks=100)).compute()


def test_other_columns(embedding):
    with pytest.raises(ValueError, match="feature names should match"):
        embedding.transform(
            dd.from_pandas(FRAME.rename(columns={"a": "z"}), npartitions=2)
        )


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_fit_says_what_to_do(method):
    with pytest.raises(
        ValueError,
        match="fit a random sample of at most about a million rows, and transform all",
    ):
        getattr(SNEEmbedding(), method)(da.from_array(ROWS, chunks=100))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("change, message", [
    (lambda block: block[:-1], r"partition \d of X must have the shape"),
    (lambda block: np.ma.masked_greater(block, 1.0), "must have all its values, got"),
    (lambda block: None, "must be an array, a data frame or a Series, got a NoneType"),
], ids=["shorter", "masked", "None"])  # fmt: skip
def test_blocks_that_are_not_as_they_are_declared(embedding, change, message):
    rows = da.map_blocks(
        change, da.from_array(ROWS, chunks=(100, 5)), dtype=float, meta=np.empty((0, 0))
    )
    with pytest.raises(ValueError, match=message):
        embedding.transform(rows).compute()


def test_columns_of_a_partition_in_another_order(embedding):
    columns = [list("abcde"), list("abced")]
    frame = dd.from_map(
        lambda k: FRAME[200 * k :][:200][columns[k]], [0, 1], meta=FRAME[:0],
        enforce_metadata=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match="partition 1 of X must have the columns"):
        embedding.transform(frame).compute()
