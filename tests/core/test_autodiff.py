"""Problems whose derivatives JAX takes: values, precision, compilations, forms of data,
and what is refused."""

import pickle
import sys
from collections import namedtuple

import numpy as np
import pytest
from helpers import composition, regression
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import minimize
from sk_stormc.core import evaluations
from sk_stormc.core.row_functions import sums_over_rows
from sk_stormc.penalties import L1
from sk_stormc.problems import (
    DifferentiableComposition,
    DifferentiableLogMeanExp,
    check_problem,
)

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy

START = [1.0, -0.5, 0.5]
A, b = regression(1500)
Line = namedtuple("Line", "weight bias")


def loss(x, row):
    a, target = row
    return (jnp.tanh(a @ x) - target) ** 2


def loss_and_deviation(x, u, row):
    value = loss(x, row)
    return value + jnp.maximum(value - u, 0) ** 2


def problem_of(
    inner=loss, outer=loss_and_deviation, inner_data=(A, b), outer_data=(A, b), **kwargs
):
    return DifferentiableComposition(
        inner, outer, inner_data, outer_data, **{"x0": START, **kwargs}
    )


def several(x, row):
    """g with six values, in a pytree."""
    a, target = row["features"], row["target"]
    return {
        "loss": (a @ x.weight + x.bias - target) ** 2,
        "outer": (a[:, None] * jnp.sin(x.weight)[:2],),
    }


def of_several(x, u, row):
    return (
        jnp.log(1 + u["loss"]) * row[0]
        + (u["outer"][0] ** 2).sum()
        + jnp.cos(x.bias) * row.sum()
        + x.weight @ x.weight
    )


def pytrees(**kwargs):
    data = {"features": A[:200], "target": b[:200]}
    x0 = Line(np.array([0.3, -0.2, 0.9]), 0.5)
    return DifferentiableComposition(several, of_several, data, A[:70], x0=x0, **kwargs)


def jacobian_and_its_formula(n, n_u, d, dtype):
    """A problem of n_u components of g and d variables, and its Jacobian.

    JAX 0.10.2 compiles the Jacobian of this g wrongly in one form, for 50 components, 5
    variables and 400 to 10,000 rows in float64.
    """
    rows = np.random.default_rng(n).normal(size=(n, d)).astype(dtype)
    c = (np.arange(1, n_u + 1) / n_u).astype(dtype)
    problem = DifferentiableComposition(
        lambda x, row: (row @ x) * c,
        lambda x, u: (u**2).sum(),
        rows,
        x0=np.ones(d, dtype),
    )
    return problem, np.outer(c, rows.mean(axis=0, dtype=float))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "n_u", "d", "dtype"),
    [
        (400, 50, 5, np.float64),
        (16, 3, 20, np.float64),
        (10_000, 50, 5, np.float32),
        (10_000, 50, 5, np.float64),
        (100_000, 8, 8, np.float64),
    ],
)
def test_jacobians_of_any_shape_over_any_number_of_rows(n, n_u, d, dtype):
    problem, J = jacobian_and_its_formula(n, n_u, d, dtype)
    x = np.linspace(-1, 2, d).astype(dtype)
    tol = {"rtol": 1e-9, "atol": 1e-12} if dtype is np.float64 else {"atol": 1e-5}
    assert np.allclose(problem.gradient(x), 2 * J.T @ (J @ x), **tol)
    assert np.allclose(problem.jacobian(x, None), J, **tol)
    assert np.allclose(problem.jacobian(x, np.arange(n)), J, **tol)
    pair = problem.inner_pair(x, 2 * x, np.arange(16), np.arange(min(n, 1000)))
    part = problem.jacobian(x, np.arange(min(n, 1000)))
    assert np.allclose([pair[0][1], pair[1][1]], [part, part], **tol)


@pytest.mark.slow
def test_a_jacobian_that_jax_compiles_wrongly_is_an_error(monkeypatch):
    def wrong_for_400_rows(problem):
        functions = sums_over_rows(problem)
        for name in ("jacobian", "both"):
            right = functions[name]
            functions[name] = lambda x, rows, p, right=right: (
                right(x, rows, p) * (1.05 if len(rows[0]) == 400 else 1)
            )
        return functions

    monkeypatch.setattr(evaluations, "sums_over_rows", wrong_for_400_rows)
    message = f"JAX {jax.__version__} has compiled .* wrongly for a mean of 400 rows"
    with pytest.raises(RuntimeError, match=message):
        jacobian_and_its_formula(400, 5, 3, float)
    problem, _ = jacobian_and_its_formula(500, 5, 3, float)
    x = np.ones(3)
    problem.jacobian(x, np.arange(300))
    for call in (
        lambda: problem.jacobian(x, np.arange(400)),
        lambda: problem.inner_pair(x, x, np.arange(8), np.arange(400)),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


@pytest.mark.slow
def test_rounding_errors_of_rows_that_cancel_out_are_no_wrong_jacobian():
    rows = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    problem = DifferentiableComposition(
        lambda x, row: jnp.array([row @ x, 1e4 * (row[0] * x[1]), 0.1 * (row @ x)]),
        lambda x, u: (u**2).sum(),
        np.concatenate([rows, -rows]),
        x0=np.ones(2, np.float32),
    )
    assert abs(problem.jacobian(np.ones(2, np.float32), None)).max() < 0.01


def test_trajectories_and_counts_are_those_of_derivatives_by_hand():
    options = {"solver": "storm-c", "random_state": 0, "max_iter": 40, "tol": 0}
    by_jax = minimize(problem_of(), **options)
    by_hand = minimize(composition(A, b), **options)
    assert np.allclose(by_jax.x, by_hand.x, rtol=1e-7, atol=1e-9)
    assert by_jax.n_evaluations == by_hand.n_evaluations
    assert np.array_equal(by_jax.ifo, by_hand.ifo)


# precision


@pytest.mark.slow
def test_float64_whatever_the_configuration():
    expected = minimize(problem_of(), "scgd", random_state=0, max_iter=10).x
    assert expected.dtype == np.float64 and jnp.zeros(1).dtype == np.float32
    with jax.enable_x64(True):
        result = minimize(problem_of(), "scgd", random_state=0, max_iter=10)
        assert jnp.zeros(1).dtype == np.float64
        single = problem_of(x0=np.array(START, np.float32))
        assert (
            minimize(single, "scgd", random_state=0, max_iter=10).x.dtype == np.float32
        )
    assert np.array_equal(result.x, expected)


# compilations


@pytest.mark.slow
def test_a_run_compiles_for_few_sizes_and_a_second_one_for_none():
    traces = []

    def g(x, row):
        traces.append(1)
        return loss(x, row)

    problem = problem_of(g)
    for solver in ("storm-c", "sarah-c"):
        traces.append(solver)
        result = minimize(problem, solver, random_state=0, tol=0, max_iter=100)
        assert result.n_iter == 100
    # a function of both points calls g twice
    first = traces.index("sarah-c")
    assert first <= 13 and len(traces) - first <= 3


# forms of x0 and of data


def test_a_start_and_a_solution_in_the_structure_of_x0():
    problem, options = pytrees(), {"solver": "scgd", "random_state": 0, "max_iter": 10}
    assert np.array_equal(problem.initial_point(None), [0.3, -0.2, 0.9, 0.5])
    start, seen = Line(np.array([0.1, 0.2, 0.3]), -0.5), []
    options |= {"record_every": 1, "on_record": lambda record: seen.append(record.x)}
    result = minimize(problem, x0=start, **options)
    trajectory = problem.unravel(seen)
    assert isinstance(result.x, Line)
    assert trajectory.weight.shape == (len(seen), 3)
    assert np.array_equal(trajectory.bias[-1], result.x.bias)
    flat = minimize(problem, x0=[0.1, 0.2, 0.3, -0.5], **options)
    assert isinstance(flat.x, np.ndarray) and result.x.bias == flat.x[3]
    x = np.arange(4.0)
    problem.unravel(x).weight[0] = 9
    assert x[0] == 0
    with pytest.raises(ValueError, match=r"x must be of shape \(..., 4\), got shape"):
        problem.unravel(np.zeros(3))
    with pytest.raises(
        ValueError, match=r"structure of the problem's x0, Line\(weight"
    ):
        minimize(problem, x0={"weight": np.zeros(3), "bias": 0.0})


def test_penalties_of_leaves():
    problem = pytrees(penalty=L1(Line(0.3, 0.0)))
    weight, bias = problem.unravel(minimize(problem, "lbfgs", tol=1e-3).x)
    assert (weight == 0).any() and bias != 0  # all of both would be penalised to 0
    with pytest.raises(ValueError, match="alpha must have the structure of x0"):
        pytrees(penalty=L1({"weight": 0.3}))
    with pytest.raises(
        ValueError, match=r"alpha must be a number or of shape \(4,\), got shape \(3,\)"
    ):
        pytrees(penalty=L1([0.1, 0.1, 0.1]))


def test_calls_of_functions_without_data():
    c = np.array([3.0, 1.0, 2.0])

    class Difference:
        def __call__(self, x, *rest, scale=1.0):
            assert not rest
            return scale * (x - c)

    def both_take_a_row(x, row):
        assert row is None
        return x - c

    x = np.array([2.0, 3.0, 1.0])
    for inner, outer in (
        (lambda x: x - c, lambda x, u: u @ u),
        (lambda x, c=c: x - c, lambda x, u, squared=True: u @ u if squared else 0.0),
        (both_take_a_row, lambda x, u, row: u @ u),
        (Difference(), lambda x, u: u @ u),
    ):
        assert np.isclose(problem_of(inner, outer, None, None).objective(x), 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"outer": lambda x, u: u**2},
            r"outer must be callable as outer\(x, u, row\), got a function of \(x, u\)",
        ),
        ({"inner": lambda x: x @ x}, r"callable as inner\(x, row\), got a function of"),
        (
            {"outer": lambda u: u**2, "outer_data": None},
            r"outer must be callable as outer\(x, u\), got a function of \(u\)",
        ),
        (
            {"outer": lambda x, u, row, more: u, "outer_data": None},
            r"callable as outer\(x, u, row\), .* missing a required argument: 'more'",
        ),
    ],
)
def test_functions_of_other_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        problem_of(**changes)


@pytest.mark.slow
def test_one_table_on_both_sides_is_there_once():
    pool = problem_of()._evaluations.placement.pool
    assert sorted(array.shape for array in pool) == [(1500,), (1500, 3)]
    rows = jnp.asarray(A.astype(np.float32))
    pool = problem_of(
        inner_data=(rows, b), outer_data=(rows, b)
    )._evaluations.placement.pool
    assert any(array is rows for array in pool) and len(pool) == 2


def test_floats_that_numpy_does_not_have():
    rows, x0 = (np.asarray(jnp.asarray(part, jnp.bfloat16)) for part in (A, START))
    for table, start in ((rows, x0), (jnp.asarray(rows), START)):
        problem = problem_of(
            lambda x, row: (row[0] @ x).astype(jnp.bfloat16),
            lambda x, u: u**2,
            (table, b),
            None,
            x0=start,
        )
        u = problem.inner(np.array(START), None)
        assert np.isclose(u, (A @ START).mean(), atol=0.01)


def test_one_component_each():
    problem = DifferentiableComposition(
        lambda x, row: x - 1, lambda x, u, row: u @ u, x0=[0, 0]
    )
    assert (problem.n_inner, problem.n_outer) == (1, 1)
    assert np.allclose(minimize(problem, random_state=0).x, 1)


def test_an_inner_value_without_x_and_single_numbers():
    problem = problem_of(
        lambda x, row: row[1] ** 2, lambda x, u, row: (u + (x**2).sum())[None]
    )
    assert np.isclose(problem.objective(np.zeros(3)), np.mean(b**2))


# options


@pytest.mark.slow
def test_the_kind_of_jacobian():
    wide = {
        "inner": lambda x, row: jnp.outer(x, x),
        "outer": lambda x, u, row: u.sum(),
        "outer_data": None,
    }
    assert problem_of().jacobian_kind == problem_of(**wide).jacobian_kind == "sampled"
    assert problem_of(**wide, x0=np.ones(26)).jacobian_kind == "operator"
    assert (
        problem_of(
            x0=np.ones(40_000), inner=lambda x, r: x[0], outer=lambda x, u, r: u
        ).jacobian_kind
        == "sampled"
    )
    linear = {
        "inner": lambda x, row: row[0] @ x,
        "outer": lambda x, u, row: (row[0] @ x - u) ** 2 - u,
    }
    constant = problem_of(**linear, jacobian="constant")
    check_problem(constant, n_draws=50)
    assert (
        minimize(constant, "sarah-c", learning_rate=0.1, max_iter=3).n_evaluations[
            "jacobian"
        ]
        == 1500
    )
    with pytest.raises(ValueError, match="of kind 'constant' differ"):
        check_problem(problem_of(jacobian="constant"), n_draws=50)


@pytest.mark.slow
def test_penalty_metric_and_floor():
    problem = problem_of(
        penalty=L1(0.02), preconditioner=[1.0, 2.0, 1.0], inner_floor=0.0
    )
    by_hand = composition(
        A, b, penalty=L1(0.02), preconditioner=[1.0, 2.0, 1.0], inner_floor=0.0
    )
    results = [
        minimize(each, "scgd", random_state=0, max_iter=20, tol=0)
        for each in (problem, by_hand)
    ]
    assert np.allclose(results[0].x, results[1].x, atol=1e-9)


@pytest.mark.slow
def test_runs_resume_on_a_pickled_problem():
    problem = problem_of(jacobian="operator")
    settings = {"solver": "storm-c-paper", "random_state": 0, "tol": 0}
    settings |= {"batch_size": 8, "init_batch_size": 8}
    full = minimize(problem, **settings, max_iter=20)
    half = minimize(problem, **settings, max_iter=10)
    problem, state = pickle.loads(pickle.dumps((problem, half.state)))
    rest = minimize(problem, **settings, max_iter=20, state=state)
    assert np.array_equal(rest.x, full.x) and rest.n_evaluations == full.n_evaluations


# what is refused


def branches(x, row):
    return x[0] if x[0] > 0 else 0.0


NAN = np.array([0.0, np.nan, 0.0])
REFUSED = [
    ({"x0": {"w": NAN}}, r"x0\['w'\] must be finite, got nan at 1"),
    ({"x0": None}, "x0 must hold at least one array, got None"),
    (
        {"inner_data": (A, b[1:])},
        r"inner_data must .* 1500 rows in inner_data\[0\] and 1499 in inner_data\[1\]",
    ),
    ({"inner_data": (A[:0], b[:0])}, "inner_data must have at least one row"),
    (
        {"outer_data": (A, np.where(b > 1, np.inf, b))},
        r"outer_data\[1\] must be finite, got inf at \d+",
    ),
    (
        {"inner_data": [2**40], "x0": np.zeros(1, np.float32)},
        "inner_data must be within the range of int32",
    ),
    ({"sample_weight": np.ones(3)}, r"sample_weight must be of shape \(1500,\)"),
    (
        {"inner_data": None, "outer_data": None, "sample_weight": [1.0]},
        "sample_weight must be None",
    ),
    (
        {"preconditioner": [1.0, 2.0]},
        "preconditioner must be a vector or matrix of 3 variables",
    ),
    (
        {"inner": branches},
        r"inner must be written with jax.numpy, .* in line \d+ of test_autodiff.py: "
        r"return x",
    ),
    (
        {"inner": lambda x, row: None},
        "inner must return a number, an array or a pytree .* got None",
    ),
    (
        {"outer": lambda x, u, row: x},
        r"outer must return a number for each row, got shape \(3,\)",
    ),
    ({"inner": lambda x, row: jnp.log(row[0] @ x)}, "inner must be finite at x0"),
    (
        {"outer": lambda x, u, row: jnp.log(-u)},
        "outer must be finite at x0, got nan with u the mean of inner",
    ),
    (
        {"inner_data": (A[:3], jax.random.split(jax.random.key(0), 3))},
        r"inner_data\[1\] must be real numbers, got a jax.Array of key.*key_data",
    ),
    ({"inner": lambda x, row: jax.random.key(0)}, "inner must return a number"),
    (
        {"outer": lambda x, u, row: jnp.sqrt((0 * x) @ x)},
        "inner and outer must have finite gradients at x0",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_invalid_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        problem_of(**changes)


def test_errors_of_functions_tell_what_these_were_called_with():
    with pytest.raises(TypeError) as caught:
        problem_of(lambda x, row: row[0] @ x[:2])
    assert (
        "inner was called with x of shape (3,), row of (shape (3,), a number)"
        in caught.value.__notes__
    )


def test_gradients_that_are_zero_are_reported():
    counted = problem_of(
        lambda x, row: jnp.sign(row[0] @ x - row[1]), lambda x, u: u**2, (A, b), None
    )
    for solver in ("storm-c", "lbfgs"):
        with pytest.warns(
            ConvergenceWarning,
            match="starting point, where the gradient is exactly 0.*jnp.sign",
        ):
            result = minimize(counted, solver, random_state=0)
        assert result.success and np.array_equal(result.x, START)


# exponentials


def test_a_mean_of_exponentials_that_overflows_names_the_problem_that_does_not():
    def huge(x, row):
        return jnp.exp(loss(x, row) / 1e-4)

    with pytest.raises(
        ValueError,
        match="inner must be finite at x0, got the mean .*DifferentiableLogMeanExp",
    ):
        problem_of(huge, lambda x, u: 1e-4 * jnp.log(u), (A, b), None)


def test_logarithms_of_means_of_exponentials():
    scale, x = 1e-4, np.array([0.4, 0.1, -0.7])
    problem = DifferentiableLogMeanExp(
        lambda x, row: loss(x["w"], row) / scale,
        (A, b),
        x0={"w": START},
        scale=scale,
        device_bytes=0,
        sample_weight=np.ones(1500),
    )
    losses = (np.tanh(A @ x) - b) ** 2
    expected = scale * logsumexp(losses / scale, b=1 / 1500)
    assert np.isclose(problem.objective(x), expected, rtol=1e-12)
    slopes = 2 * (np.tanh(A @ x) - b) * (1 - np.tanh(A @ x) ** 2)
    expected = (softmax(losses / scale) * slopes) @ A
    assert np.allclose(problem.gradient(x), expected, rtol=1e-10, atol=1e-12)
    assert problem.unravel(x)["w"][0] == 0.4
    assert minimize(problem, "lbfgs", tol=1e-3).fun < problem.objective(np.array(START))
    with pytest.raises(ValueError, match="exponent must be finite at x0"):
        DifferentiableLogMeanExp(lambda x, row: jnp.log(row[0] @ x), (A, b), x0=START)


def test_without_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r'pip install "sk_stormc\[autodiff\]"'):
        problem_of()
