"""Every parameter of a DifferentiableComposition meets every other, and every container
of rows, with the same functions in NumPy as oracle."""

from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from helpers import covering_array, few_of, regression

from sk_stormc.core.evaluations import NUMBERS_AT_ONCE
from sk_stormc.penalties import L1
from sk_stormc.problems import DifferentiableComposition

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy

N = 60
ROWS, TARGET = regression(N)
OTHER = tuple(part[: N // 2] for part in regression(2 * N))
WEIGHTS = np.random.default_rng(3).uniform(0.5, 2.0, N)
X = np.array([0.4, 0.1, -0.7])
FACTORS = {
    "container": ["array", "frame", "memmap", "jax", "dask", "dask frame"],
    "outer_data": ["the same", "other rows", None],
    "jacobian": ["sampled", "operator"],
    "dtype": ["float64", "float32"],
    "sample_weight": [False, True],
    "u": ["number", "pytree"],
    "x0": ["array", "pytree"],
    "penalty": [False, True],
    "device_bytes": [2**32, 0],
    "numbers_at_once": [2**21, 100],
}
# weights are those of the rows of both sides
FORBIDDEN = [{"outer_data": "other rows", "sample_weight": True}]
CASES = covering_array(FACTORS, FORBIDDEN)


class Line(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray


def functions(xp, case):
    """g and f of one row, by NumPy or by JAX. Their u and x are flat for NumPy."""
    single, by_jax = case["u"] == "number", xp is jnp

    def loss(x, row):
        a, target = row
        return (xp.tanh(a @ x) - target) ** 2

    def flat(x):
        is_tree = by_jax and case["x0"] == "pytree"
        return jnp.append(x.weight, x.bias) if is_tree else x

    def inner(x, row):
        x = flat(x)
        if single:
            return loss(x, row)
        parts = {"double": loss(2 * x, row), "loss": loss(x, row)}
        return parts if by_jax else np.array(list(parts.values()))

    def parts_of(u):
        if single:
            return u, 0.0
        return (u["loss"], u["double"]) if by_jax else (u[1], u[0])

    def outer(x, u, row=None):
        x, (u, double) = flat(x), parts_of(u)
        own = x @ x if row is None else loss(x, row)
        return own + xp.log(1 + u) * x[0] + (own - u) ** 2 + double * u

    return inner, outer


def held(container, folder):
    """The rows in a container, with another chunk for dask that is empty."""
    A, b = ROWS, TARGET
    if container == "memmap":
        A = np.memmap(folder / "rows", float, "w+", shape=ROWS.shape)
        A[:] = ROWS
    elif container == "jax":
        with jax.enable_x64(True):
            A = jnp.asarray(ROWS)
    elif container == "dask":
        da = pytest.importorskip("dask.array")
        chunks = (20, 0, 25, 15)
        A, b = da.from_array(A, (chunks, 2)), da.from_array(b, (chunks,))
    elif container != "array":
        pd = pytest.importorskip("pandas")
        A, b = pd.DataFrame(A), pd.Series(b)
    if container == "dask frame":
        dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)
        A, b = dd.from_pandas(A, npartitions=3), dd.from_pandas(b, npartitions=3)
    return A, b


def problem_of(case, folder):
    inner, outer = functions(jnp, case)
    data = held(case["container"], folder)
    x0 = np.array([1.0, -0.5, 0.5], case["dtype"])
    return DifferentiableComposition(
        inner,
        outer,
        data,
        {"the same": data, "other rows": OTHER, None: None}[case["outer_data"]],
        x0=Line(x0[:2], x0[2]) if case["x0"] == "pytree" else x0,
        jacobian=case["jacobian"],
        sample_weight=WEIGHTS if case["sample_weight"] else None,
        penalty=L1(0.3) if case["penalty"] else None,
        device_bytes=case["device_bytes"],
    )


def oracle_of(case):
    """Means of g and of f by NumPy: over all rows, or over those of a batch."""
    inner, outer = functions(np, case)
    other = case["outer_data"] == "other rows"
    A, b = OTHER if other else (ROWS, TARGET)

    def average(values, batch):
        weights = WEIGHTS if case["sample_weight"] and batch is None else None
        return np.average(np.array(values), axis=0, weights=weights)

    def rows(A, b, batch):
        chosen = range(len(b)) if batch is None else batch
        return [(A[k], b[k]) for k in chosen]

    def g(x, batch=None):
        values = [inner(x, row) for row in rows(ROWS, TARGET, batch)]
        return np.atleast_1d(average(values, batch))

    def f(x, u, batch=None):
        u = u[0] if case["u"] == "number" else u
        if case["outer_data"] is None:
            return outer(x, u)
        return average([outer(x, u, row) for row in rows(A, b, batch)], batch)

    return SimpleNamespace(g=g, f=f)


def slopes(function, x):
    """The derivatives of a function, by central differences: a row for each value."""
    h = 1e-6
    parts = [
        (function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)
    ]
    return np.stack(parts, axis=-1)


def compare(value, expected, single):
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 1e-7, "atol": 1e-8}
    dtype = np.float32 if single and np.ndim(value) else float
    assert np.asarray(value).dtype == dtype
    np.testing.assert_allclose(value, expected, **tolerance)


def check_batch(problem, oracle, x, some, equal):
    """Values and derivatives over some components, or over all."""
    kept = None if some is None else [k % problem.n_outer for k in some]
    inner, outer = problem.inner_batch(some), problem.outer_batch(kept)
    if some is not None:
        inner, outer = np.array(inner), np.array(outer)
    u = problem.inner(x, inner)
    equal(u, oracle.g(X, some))
    J, expected = problem.jacobian(x, inner), slopes(lambda x: oracle.g(x, some), X)
    if problem.jacobian_kind == "sampled":
        equal(J, expected)
    v = np.arange(1.0, 1 + u.size)
    equal(problem.vjp(J, v.astype(x.dtype)), v @ expected)
    f_x, f_u = problem.outer_gradient(x, u, outer)
    u = u.astype(float)
    equal(f_x, slopes(lambda x: oracle.f(x, u, kept), X))
    equal(f_u, slopes(lambda u: oracle.f(X, u, kept), u))


@pytest.mark.parametrize("case", few_of(CASES, 7))
def test_values_and_derivatives(case, tmp_path, monkeypatch):
    monkeypatch.setitem(NUMBERS_AT_ONCE, True, case["numbers_at_once"])
    problem, oracle = problem_of(case, tmp_path), oracle_of(case)
    x = X.astype(case["dtype"])
    equal = partial(compare, single=case["dtype"] == "float32")
    penalty = 0.3 * np.abs(X).sum() if case["penalty"] else 0.0
    equal(problem.objective(x), oracle.f(X, oracle.g(X)) + penalty)
    equal(problem.gradient(x), slopes(lambda x: oracle.f(x, oracle.g(x)), X))
    check_batch(problem, oracle, x, None, equal)
    if not case["container"].startswith("dask"):  # which has no minibatches
        check_batch(problem, oracle, x, [7, 3, 59, 3, 0], equal)
