"""Rows of objectives by JAX in files and in dask collections: values, passes, samples,
clusters, and what is refused."""

import sys

import numpy as np
import pytest
from helpers import regression, slow_but
from scipy.special import logsumexp

from sk_stormc import minimize
from sk_stormc.problems import DifferentiableComposition, DifferentiableLogMeanExp
from sk_stormc.solvers import SOLVERS
from sk_stormc.utils.blocks import MappedRows

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy

A, b = regression(1500)
WEIGHTS = np.random.default_rng(3).uniform(0.5, 2.0, 1500)
START, X = [1.0, -0.5, 0.5], np.array([0.3, 0.2, -0.4])
equal, same_bits = np.testing.assert_allclose, np.testing.assert_array_equal


def loss(x, row):
    a, target = row
    return (jnp.tanh(a @ x) - target) ** 2


def two_losses(x, row):
    return {"loss": loss(x, row), "double": jnp.stack([loss(2 * x, row)])}


def outer(x, u, row):
    return loss(x, row) + jnp.maximum(loss(x, row) - u["loss"], 0) ** 2


def exponent(x, row):
    return loss(x, row) / 0.5


def problem_of(data=(A, b), more=None, **kwargs):
    more = data if more is None else more
    return DifferentiableComposition(
        two_losses, outer, data, more, **{"x0": START, **kwargs}
    )


def robust_of(data=(A, b), **kwargs):
    return DifferentiableLogMeanExp(
        exponent, data, **{"x0": START, "scale": 0.5, **kwargs}
    )


PROBLEMS = {
    "sampled": problem_of,
    "operator": lambda *data, **kwargs: problem_of(
        *data, jacobian="operator", **kwargs
    ),
    "robust": robust_of,
}


def fit(problem, solver="corrected-sample"):
    options = {"sample_size": 300} if solver == "corrected-sample" else {}
    return minimize(problem, solver, random_state=0, tol=1e-3, **options)


# files


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The rows of A in a file, the slices that are read of it, and the single rows."""
    slices, rows = [], []
    read = MappedRows._read

    def counted(self, starts, length):
        if length > 1:
            slices.append(slice(starts[0], starts[0] + length))
        else:
            rows.extend(np.asarray(starts).tolist())
        return read(self, starts, length)

    np.memmap(tmp_path / "rows", float, "w+", shape=A.shape)[:] = A
    monkeypatch.setattr("sk_stormc.utils.blocks.BLOCK_BYTES", 24 * 500)
    monkeypatch.setattr(MappedRows, "_read", counted)
    return np.memmap(tmp_path / "rows", float, "r", shape=A.shape), slices, rows


@pytest.mark.parametrize("name", slow_but(PROBLEMS, "robust"))
def test_a_file_is_read_in_order_once_a_round_and_a_sample_once(name, file):
    mapped, slices, rows = file
    problem = PROBLEMS[name]((mapped, b), device_bytes=0)
    slices.clear()
    rows.clear()
    result = fit(problem)
    assert result.state.state.batch_size[0] == 300  # no round has failed
    # u and J, the gradient of f, and J.T f_u if J is an operator; at x0 the
    # constructor has read all of them
    passes = {"sampled": 2, "operator": 3, "robust": 1}[name]
    a_pass = [slice(0, 500), slice(500, 1000), slice(1000, 1500)]
    assert slices == a_pass * (passes * result.n_iter)
    samples = [rows[k : k + 300] for k in range(0, len(rows), 300)]
    assert len(samples) == (1 if name == "robust" else 2)  # of g and of f
    assert all(sample == sorted(sample) for sample in samples)
    expected = fit(PROBLEMS[name]())
    equal(result.x, expected.x, rtol=1e-8)
    assert result.ifo.tolist() == expected.ifo.tolist()


# dask

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")


def in_dask(*tables, chunks=(500, 0, 500, 500)):
    """Tables as dask arrays, with an empty chunk."""
    return tuple(
        da.from_array(table, chunks=(chunks, 2)[: table.ndim]) for table in tables
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(PROBLEMS, "robust"))
def test_fits_of_dask_arrays_are_those_in_memory(name):
    here = PROBLEMS[name](sample_weight=WEIGHTS)
    there = PROBLEMS[name](in_dask(A, b), sample_weight=WEIGHTS)
    for solver in ("corrected-sample", "lbfgs"):
        expected, result = fit(here, solver), fit(there, solver)
        equal(result.x, expected.x, rtol=1e-8)
        equal(result.loss_curve, expected.loss_curve, rtol=1e-10)
        assert result.ifo.tolist() == expected.ifo.tolist()


def test_values_by_numpy():
    def losses(x):
        return (np.tanh(A @ x) - b) ** 2

    robust = robust_of(in_dask(A, b))
    equal(robust.objective(X), 0.5 * (logsumexp(losses(X) / 0.5) - np.log(1500)))
    weighted = robust_of(in_dask(A, b), sample_weight=WEIGHTS)
    p = WEIGHTS / WEIGHTS.sum()
    equal(weighted.objective(X), 0.5 * logsumexp(losses(X) / 0.5, b=p))


def test_tables_beside_dask_arrays_and_unknown_lengths():
    far_A, far_b = in_dask(A, b)
    longer = da.concatenate([far_A, far_A + 9])
    filtered = longer[longer[:, 0] + longer[:, 1] + longer[:, 2] < 9]
    assert np.isnan(filtered.chunks[0]).all()
    expected = robust_of().gradient(X)
    for data in ((A, far_b), (filtered, b)):
        problem = robust_of(data)
        assert problem.n_inner == 1500
        equal(problem.gradient(X), expected, rtol=1e-10)


def test_rows_of_several_axes_and_integers():
    kind = np.arange(1500) % 2

    def inner(x, row):
        a, kind = row["cube"], row["kind"]
        assert jnp.issubdtype(kind.dtype, jnp.integer)
        return (a[:, kind] @ x) ** 2

    cube = da.from_array(np.stack([A, 2 * A], axis=2), chunks=(500, 2, 1))
    data = {"cube": cube, "kind": da.from_array(kind, chunks=500)}
    problem = DifferentiableComposition(inner, lambda x, u: u, data, x0=START)
    equal(problem.objective(X), np.mean(((1 + kind) * (A @ X)) ** 2))


@pytest.mark.slow
def test_the_float_type_is_that_of_x0():
    x0 = np.array(START, np.float32)
    for make in (problem_of, robust_of):
        problem = make(in_dask(A, b), x0=x0)
        F = problem.gradient(x0)
        assert F.dtype == np.float32
        equal(F, make().gradient(x0.astype(float)), rtol=1e-4)


def test_a_round_computes_each_partition_once():
    computed = []

    def counted(block):
        computed.append(len(block))
        return block

    rows = da.map_blocks(counted, da.from_array(A, chunks=(500, 3)), dtype=float)
    with dask.config.set(scheduler="synchronous"):
        problem = robust_of((rows, b))
        computed.clear()
        result = fit(problem)
    assert computed == [500, 500, 500] * (1 + result.n_iter)  # a sample, and rounds


def test_minibatch_methods_are_refused():
    problem, words = robust_of(in_dask(A, b)), "solver='corrected-sample' or 'lbfgs'"
    for solver in set(SOLVERS) - {"lbfgs", "corrected-sample"}:
        with pytest.raises(ValueError, match=f"batch_size .* dask .*Use {words}"):
            minimize(problem, solver, random_state=0)


WRONG = np.where(np.arange(1500)[:, None] * [1, 0, 0] == 1203, np.nan, A)
DELAYED = dask.delayed(A)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            in_dask(WRONG, b),
            r"inner_data\[0\] must be finite, got nan at \(1203, 0\) \(in partition 3, "
            "which begins at row 1000",
        ),
        (
            (in_dask(A)[0], b[:9]),
            r"inner_data.1. must have the 1500 rows of inner_data.0., got shape \(9,\)",
        ),
        ((in_dask(A)[0], in_dask(b, chunks=(1500,))[0]), "inner_data.*partition 0"),
        (in_dask(A[:0], b[:0], chunks=(0,)), "inner_data.* must have a row, got 0"),
        ((DELAYED, b), r"inner_data\[0\] must be an array, .* of dask, got a Delayed"),
        (
            (in_dask(A)[0].astype(str), b),
            r"inner_data\[0\] must be numbers, got a dask",
        ),
        ((da.from_array(A)[0, 0], b), r"inner_data\[0\] must have an axis of rows"),
    ],
    ids=["nan", "lengths", "chunks", "empty", "delayed", "text", "number"],
)
def test_wrong_collections(data, message):
    with pytest.raises(ValueError, match=message):
        problem_of(data, (A, b))


def test_integers_beyond_int32_and_other_types_in_a_partition():
    large = da.from_array(np.full(1500, 2**40), chunks=500)
    x0 = np.array(START, np.float32)
    with pytest.raises(ValueError, match="range of int32 where x0 is float32, got up"):
        problem_of((in_dask(A)[0].rechunk((500, 3)), large), (A, b), x0=x0)

    def broken(block):
        return block + 0.5

    other = da.map_blocks(broken, da.from_array(np.arange(1500), chunks=500), dtype=int)
    with pytest.raises(ValueError, match=r"must be of int64 .*, got float64"):
        problem_of((in_dask(A)[0].rechunk((500, 3)), other), (A, b))


def test_dask_is_not_imported_for_other_data(monkeypatch):
    for name in ("dask", "dask.array", "sk_stormc.utils.dask_blocks"):
        monkeypatch.setitem(sys.modules, name, None)
    assert robust_of(device_bytes=0).n_inner == 1500


@pytest.mark.slow
def test_the_same_bits_for_one_and_two_workers():
    distributed = pytest.importorskip("distributed")
    shift = jnp.array(0.0)  # functions that only cloudpickle can send

    def exponent(x, row):
        return (jnp.tanh(row[0] @ x) - row[1]) ** 2 / 0.001 + shift

    def inner(x, row):
        return (jnp.tanh(row[0] @ x) - row[1]) ** 2 + shift

    def outer(x, u, row):
        return inner(x, row) + jnp.maximum(inner(x, row) - u, 0) ** 2

    def results():
        far = in_dask(A, b)
        problems = (
            DifferentiableLogMeanExp(exponent, far, x0=START, scale=0.001),
            DifferentiableComposition(inner, outer, far, far, x0=START),
        )
        return [
            fit(problem, solver).x
            for problem in problems
            for solver in ("corrected-sample", "lbfgs")
        ]

    expected = results()
    for n_workers in (1, 2):
        with (
            distributed.LocalCluster(
                n_workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster),
        ):
            same_bits(results(), expected)


@pytest.mark.parametrize("side, change, message", [
    ("inner_data", lambda block: block[:-1], "must have the shape"),
    ("outer_data", lambda block: np.ma.masked_greater(block, 1.0),
     "must have all its values, got"),
], ids=["shorter", "masked"])  # fmt: skip
def test_blocks_that_are_not_as_they_are_declared(side, change, message):
    """Rows that a function drops were left out of the objective."""
    rows = da.map_blocks(change, da.from_array(A, chunks=(500, 3)), dtype=float)
    data = {"data": (A, b), "more": (A, b)}
    data["data" if side == "inner_data" else "more"] = (rows, da.from_array(b, 500))
    with pytest.raises(ValueError, match=rf"partition \d of {side}.0. {message}"):
        problem_of(**data)


@pytest.mark.parametrize("lazy", [True, False])
def test_labels_of_rows_of_data_and_weights(lazy):
    """Tables of a side belong to the same rows. They were joined by position."""
    dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    pd = pytest.importorskip("pandas")
    dates = pd.date_range("2020-01-01", periods=1500)
    frame, reversed_b = pd.DataFrame(A, dates), pd.Series(b[::-1], dates[::-1])
    rows = dd.from_pandas(frame, npartitions=3) if lazy else frame
    weights = pd.Series(WEIGHTS, dates[::-1])
    for make, name in ((problem_of, "inner_data"), (robust_of, "data")):
        message = f"must have .* of the rows of {name}.0., but has the label"
        with pytest.raises(ValueError, match=f"{name}.1. {message}"):
            make((rows, reversed_b))
        with pytest.raises(ValueError, match=f"sample_weight {message}"):
            make((rows, b), sample_weight=weights)
