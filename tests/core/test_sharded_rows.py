"""Rows of DifferentiableComposition that lie on several devices of the host, in another
process that has them."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="needs JAX")

PROGRAM = """
import pickle
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from sk_stormc import minimize
from sk_stormc.core.evaluations import NUMBERS_AT_ONCE
from sk_stormc.problems import DifferentiableComposition

NUMBERS_AT_ONCE[True] = 2000  # several blocks on each device
rng = np.random.default_rng(0)
A, b, kind = rng.normal(size=(1002, 4)), rng.normal(size=1002), rng.integers(0, 2, 1002)
weights = rng.uniform(0.5, 2.0, 1002)

def loss(x, row):
    a, target, kind = row
    return (jnp.tanh(a[:3] @ x) - target) ** 2 * (1 + kind)

def outer(x, u, row):
    return loss(x, row) + jnp.maximum(loss(x, row) - u.sum(), 0) ** 2

def problem(data, more=None, inner=loss, **kwargs):
    more = data if more is None else more
    return DifferentiableComposition(inner, outer, data, more, x0=np.array([1.0, -0.5, 0.5]), **kwargs)

def several(x, row):
    return jnp.array([loss(x, row), 0.1 * loss(2 * x, row)])

def on(mesh, *spec):
    place = NamedSharding(mesh, PartitionSpec(*spec))
    with jax.enable_x64(True):
        return tuple(jax.device_put(table, place) for table in (A, b, kind))

def place(table, sharding):
    with jax.enable_x64(True):
        return jax.device_put(table, sharding)

def close(a, b, tol=1e-12):
    assert np.allclose(a, b, rtol=tol, atol=tol), (a, b)

TABLE = A.nbytes
alone, x = (A, b, kind), np.array([0.4, 0.1, -0.7])
devices = jax.devices()
assert len(devices) == 2
explicit = Mesh(devices, ("rows",), axis_types=(AxisType.Explicit,))
automatic = Mesh(devices, ("rows",), axis_types=(AxisType.Auto,))
both = Mesh(np.array(devices).reshape(2, 1), ("rows", "columns"))
forms = (
    (automatic, ("rows",), {"sample_weight": weights}),
    (both, (("rows", "columns"),), {"inner": several, "jacobian": "operator"}),
    (explicit, ("rows",), {}),
)
for mesh, spec, kwargs in forms:
    data = on(mesh, *spec)
    here, there = problem(alone, **kwargs), problem(data, **kwargs)
    close(there.gradient(x), here.gradient(x))
    draws = rng.integers(0, 1002, 50)
    close(there.inner(x, draws), here.inner(x, draws))
options = {"random_state": 0, "max_iter": 8, "tol": 0, "batch_size": 16}
close(minimize(there, **options).x, minimize(here, **options).x, 1e-8)
shards = [shard.data.nbytes for array in jax.live_arrays() for shard in array.addressable_shards
          if array.nbytes >= TABLE and len(array.sharding.device_set) > 1]
assert max(shards) == TABLE // 2, max(shards)
pool = there._evaluations.placement.pool
assert all(a is b for a, b in zip(pool, data)), "the rows are copied"

odd = tuple(table[:1001] for table in alone)
close(problem(data, odd).objective(x), problem(alone, odd).objective(x))  # in memory, and not divided by two
close(problem(data, on(explicit)).objective(x), here.objective(x))  # on both devices
close(pickle.loads(pickle.dumps(there)).objective(x), here.objective(x))
second = tuple(jax.device_put(table.astype(np.float32), devices[1]) for table in (A, b, kind))
close(problem(second).inner(x, np.arange(9)), here.inner(x, np.arange(9)), 1e-5)

for wrong, message in (
    (lambda: problem((place(A, NamedSharding(explicit, PartitionSpec(None, "rows"))), b, kind)),
     "divides only their rows"),
    (lambda: problem(data, second), "must lie on the same devices"),
    (lambda: problem(data, on(both, "rows")), "same devices"),
    (lambda: problem((place(np.where(A > 2, np.nan, A), data[0].sharding), b, kind)), "must be finite, got nan at ("),
):
    try:
        wrong()
    except ValueError as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)
print("done")
"""


# JAX 0.10.2 compiles a form of these Jacobians wrongly for 400 to 10,000 rows
JACOBIANS = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sk_stormc.problems import DifferentiableComposition

devices = jax.devices()
assert len(devices) == 4
place = NamedSharding(Mesh(devices, ("rows",)), PartitionSpec("rows"))
for n in (64, 1600, 40_000):
    for l, d in ((50, 5), (3, 20)):
        rows, c = np.random.default_rng(n).normal(size=(n, d)), np.arange(1, l + 1) / l
        with jax.enable_x64(True):
            divided = jax.device_put(rows, place)
        problem = DifferentiableComposition(
            lambda x, row: (row @ x) * c, lambda x, u: (u**2).sum(), divided, x0=np.ones(d)
        )
        x, J = np.linspace(-1, 2, d), np.outer(c, rows.mean(axis=0))
        assert np.allclose(problem.jacobian(x, None), J, rtol=1e-9, atol=1e-13), (n, l, d)
        assert np.allclose(problem.gradient(x), 2 * J.T @ (J @ x), rtol=1e-9), (n, l, d)
        draws = np.arange(n // 4)
        part = np.outer(c, rows[draws].mean(axis=0))
        assert np.allclose(problem.jacobian(x, draws), part, rtol=1e-9, atol=1e-13)
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("n_devices", "program"), [(2, PROGRAM), (4, JACOBIANS)])
def test_rows_on_several_devices_give_the_same_values_and_stay_there(
    n_devices, program
):
    several = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={n_devices}",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=several,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr[-3000:]
