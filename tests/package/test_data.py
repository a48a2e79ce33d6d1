"""Data in any dtype, layout, unit and order, few samples, rows without weight, NumPy's
numbers, and fits in threads."""

import functools
import tempfile
import threading
import warnings

import numpy as np
import pytest
from helpers import composition, covering_array, few_of, regression, slow_but
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from sk_stormc import (
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    minimize,
)
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import MarkovRewardProcess, make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import (
    EntropicPortfolioProblem,
    PortfolioProblem,
    ProjectedBellmanProblem,
    SNEProblem,
)
from sk_stormc.schedules import decay_to
from sk_stormc.solvers import SOLVERS, get_solver

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:perplexity=.* is too large:UserWarning"),
]
few = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=6,
    suppress_health_check=list(HealthCheck),
)
SCALES = [1e-12, 1e-8, 1e-4, 1e4, 1e8, 1e12]
MEASURES = ["variance", "semivariance", "entropic"]
seeds = st.integers(0, 2**20)
# batches are samples beyond 1024
sizes = st.one_of(st.integers(2, 6), st.integers(7, 40), st.just(1100))


def laid_out(A, layout):
    """The same numbers in another layout of memory."""
    if layout == "F":
        return np.asfortranarray(A)
    if layout == "strided":
        strided = np.zeros(tuple(2 * n for n in A.shape), A.dtype)[
            tuple(slice(None, None, 2) for _ in A.shape)
        ]
        strided[...] = A
        return strided
    if layout == "memmap":
        file = tempfile.NamedTemporaryFile(suffix=".npy")  # noqa: SIM115, it lives as long as the memmap
        np.save(file, A)
        file.flush()
        return np.load(file.name, mmap_mode="r")
    A = A.copy()
    A.flags.writeable = layout != "read-only"
    return A


def normal(seed, n, d, dtype=float):
    """Numbers of the dtype, of size about 1; of integers up to 100."""
    A = np.random.default_rng(seed).normal(0.2, 1.0, (n, d))
    if dtype is bool:
        return A > 0
    kind = np.dtype(dtype).kind
    return (np.abs(20 * A) if kind == "u" else 20 * A if kind == "i" else A).astype(
        dtype
    )


def same_bits(a, b):
    np.testing.assert_array_equal(a, b)
    assert a.dtype == b.dtype


def quietly(call, *args, **kwargs):
    """A call without its UserWarnings about the data, such as columns that look like
    numbers of states."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(*args, **kwargs)


def draw_model(data):
    """An estimator with few iterations, its data as a dict of arrays, and the name of
    the fitted attribute."""
    kind = data.draw(st.sampled_from(["portfolio", "values", "map"]))
    seed, n, d = data.draw(seeds), data.draw(sizes), data.draw(st.integers(1, 4))
    dtype = data.draw(
        st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.uint16, bool])
    )
    X, common = (
        normal(seed, n, d, dtype),
        {"solver": data.draw(st.sampled_from(list(SOLVERS))), "random_state": seed},
    )
    if kind == "portfolio":
        measure = data.draw(st.sampled_from(MEASURES))
        model = CompositionalPortfolio(
            risk_measure=measure, constraint=(-1, 1), max_iter=3, **common
        )
        return model, {"X": X}, "weights_"
    if kind == "values":
        objective, terminal = (
            data.draw(st.sampled_from(["bellman", "projected"])),
            np.arange(n) % 5 == 4,
        )
        model = BellmanValueEstimator(0.5, objective=objective, max_iter=3, **common)
        return (
            model,
            {"X": X, "y": X[:, 0], "next_X": X[::-1].copy(), "terminal": terminal},
            "coef_",
        )
    assume(n < 1000 and common["solver"] not in ("lbfgs", "sketchy-storm"))
    kernel = data.draw(st.sampled_from(["student-t", "gaussian"]))
    common |= {"kernel": kernel, "perplexity": 3.0, "init": "random", "max_iter": 6}
    return SNEEmbedding(data.draw(st.integers(1, 3)), **common), {"X": X}, "embedding_"


@few
@given(st.data())
def test_dtypes_and_layouts(data):
    """Numbers in any dtype and layout have the bits of the same numbers as a C-ordered
    array of floats."""
    model, arrays, name = draw_model(data)
    floats = {
        k: v if k == "terminal" or v.dtype == np.float32 else v.astype(float)
        for k, v in arrays.items()
    }
    expected = quietly(clone(model).fit, **floats)
    layouts = st.sampled_from(["C", "F", "strided", "read-only", "memmap"])
    given_arrays = {k: laid_out(v, data.draw(layouts)) for k, v in arrays.items()}
    fitted = quietly(clone(model).fit, **given_arrays)
    if not isinstance(given_arrays["X"], np.memmap):  # whose means are sums over blocks
        same_bits(getattr(fitted, name), getattr(expected, name))
    else:
        np.testing.assert_allclose(
            getattr(fitted, name), getattr(expected, name), rtol=1e-3, atol=1e-5
        )
    for k, v in given_arrays.items():
        np.testing.assert_array_equal(v, arrays[k])
    assert np.isfinite(
        getattr(fitted, "transform" if name == "embedding_" else "predict")(
            given_arrays["X"]
        )
    ).all()
    if name != "embedding_":
        assert np.isfinite(quietly(fitted.score, **given_arrays))
        part = quietly(
            clone(model).set_params(max_iter=2).fit, **given_arrays
        ).set_params(max_iter=3)
        same_bits(
            getattr(quietly(part.resume, **given_arrays), name), getattr(fitted, name)
        )


def converged(fit, *args, **kwargs):
    """A fit, and whether it gave no warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit(*args, **kwargs)
    return fitted, not caught


@few
@given(st.data())
def test_unit_of_returns(data):
    """Returns times c with the risk aversion over c have the same best weights."""
    scale, measure = (
        data.draw(st.sampled_from(SCALES)),
        data.draw(st.sampled_from(MEASURES)),
    )
    seed, n, d = (
        data.draw(seeds),
        data.draw(st.sampled_from([20, 60, 1100])),
        data.draw(st.integers(1, 4)),
    )
    R, constraint = (
        normal(seed, n, d),
        data.draw(st.sampled_from(["long_only", (-1, 1), (0, 0.75)])),
    )
    solver = data.draw(st.sampled_from(["auto", "storm-c"]))
    model = CompositionalPortfolio(
        solver, risk_measure=measure, constraint=constraint, tol=1e-6, random_state=seed
    )
    expected, good = converged(model.fit, R)
    scaled, quiet = converged(
        clone(model).set_params(risk_aversion=1 / scale).fit, R * scale
    )
    if good and quiet:
        largest = np.abs(expected.weights_).max()
        np.testing.assert_allclose(
            scaled.weights_, expected.weights_, rtol=0, atol=1e-4 * largest
        )
    assert quiet or not good or scaled.stop_reason_ != "converged"


@few
@given(st.data())
def test_units_of_rewards_and_features(data):
    """Rewards times c have values times c; features times c have the same values."""
    scale, solver = (
        data.draw(st.sampled_from(SCALES)),
        data.draw(st.sampled_from(["storm-c", "lstd", "sarah-c"])),
    )
    seed, n = data.draw(seeds), data.draw(st.sampled_from([20, 60, 1100]))
    X = normal(seed, n, 3)
    next_X, y = 0.5 * X + 0.3 * normal(seed + 1, n, 3), X.sum(axis=1) + 1
    objective, tol = (
        data.draw(st.sampled_from(["bellman", "projected"])),
        None if solver == "lstd" else 1e-6,
    )
    model = BellmanValueEstimator(
        0.8, solver, objective=objective, tol=tol, random_state=seed
    )
    expected, good = converged(model.fit, X, y, next_X=next_X)
    values = expected.predict(X)
    of_rewards, of_features = data.draw(st.sampled_from([(scale, 1.0), (1.0, scale)]))
    scaled, quiet = converged(
        clone(model).fit, X * of_features, y * of_rewards, next_X=next_X * of_features
    )
    if good and quiet:
        error = scaled.predict(X * of_features) / of_rewards - values
        assert np.abs(error).max() <= 1e-3 * np.abs(values).max()
    assert quiet or not good or scaled.stop_reason_ != "converged"


@few
@given(st.data())
def test_unit_of_points(data):
    """Maps of data times a power of two have the same bits; times any other number,
    about the same divergence."""
    X = normal(data.draw(seeds), data.draw(st.integers(8, 60)), data.draw(st.integers(1,
    5)),
               data.draw(st.sampled_from([np.float64, np.float32])))  # fmt: skip
    kernel, init = (
        data.draw(st.sampled_from(["student-t", "gaussian"])),
        data.draw(st.sampled_from(["pca", "random"])),
    )
    model = SNEEmbedding(
        2, perplexity=3.0, kernel=kernel, max_iter=10, init=init, random_state=0
    )
    expected = quietly(model.fit, X=X)
    power = X.dtype.type(2.0 ** data.draw(st.integers(-39, 39)))
    same_bits(quietly(clone(model).fit, X=X * power).embedding_, expected.embedding_)
    scaled = quietly(
        clone(model).fit, X=X * X.dtype.type(data.draw(st.sampled_from(SCALES)))
    )
    assert scaled.kl_divergence_ == pytest.approx(
        expected.kl_divergence_, rel=0.05, abs=1e-3
    )


# few components


def tiny_problem(kind, n, d):
    """A problem with n components and d variables."""
    rng = np.random.default_rng(d % 2)
    A, b, penalty = (
        rng.normal(0.2, 1, (n, d)),
        rng.normal(size=n),
        [None, Simplex()][d % 2],
    )
    if kind == "bellman":
        P = rng.random((n, n))
        return MarkovRewardProcess(P / P.sum(axis=1, keepdims=True), b, A).problem()
    if kind == "projected":
        return ProjectedBellmanProblem(A, 0.5 * A[::-1], b, 0.8, alpha=0.1)
    if kind == "map":
        return SNEProblem(
            perplexity_affinities(rng.normal(size=(max(n, 4), d)), 2.0),
            2,
            kernel="student-t",
        )
    if kind == "entropic":
        return EntropicPortfolioProblem(A, penalty=penalty)
    return (
        composition(*regression(n))
        if kind == "composed"
        else PortfolioProblem(A, penalty=penalty)
    )


FEW = {
    "kind": ["portfolio", "entropic", "bellman", "projected", "map", "composed"],
    "solver": list(SOLVERS),
    "shape": [(1, 1), (1, 3), (3, 1), (5, 2)],
}


CASES = covering_array(FEW)


@pytest.mark.parametrize("case", few_of(CASES, *range(0, len(CASES), 4)), ids=str)
def test_fewer_components_than_a_batch(case):
    """Results are finite, have the same bits again, and resume with the same bits."""
    kind, solver = case["kind"], case["solver"]
    problem = tiny_problem(kind, *case["shape"])
    by_lbfgs = solver in ("lbfgs", "corrected-sample")
    if (by_lbfgs and isinstance(problem.penalty, Simplex)) or (solver, kind) == (
        "sketchy-storm",
        "map",
    ):
        return  # refused
    result, again = (
        minimize(problem, solver, random_state=0, max_iter=4) for _ in range(2)
    )
    assert np.isfinite(result.x).all() and np.isfinite(result.loss_curve).all()
    assert result.fun == pytest.approx(problem.objective(result.x), rel=1e-5, abs=1e-12)
    same_bits(result.x, again.x)
    state = minimize(problem, solver, random_state=0, max_iter=2).state
    same_bits(minimize(problem, solver, state=state, max_iter=4).x, result.x)


# threads


def at_once(calls):
    """The results of functions that run at the same time."""
    results, barrier = [None] * len(calls), threading.Barrier(len(calls))

    def work(k):
        barrier.wait()
        results[k] = calls[k]()

    workers = [threading.Thread(target=work, args=(k,)) for k in range(len(calls))]
    with warnings.catch_warnings():  # whose filters all threads share
        warnings.simplefilter("ignore")
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return results


@few
@given(st.data())
def test_two_fits_at_once(data):
    models = [draw_model(data) for _ in range(2)]
    fits = [
        functools.partial(clone(model).fit, **arrays) for model, arrays, _ in models
    ]
    alone = [
        getattr(quietly(clone(model).fit, **arrays), name)
        for model, arrays, name in models
    ]
    for fitted, expected, (_, _, name) in zip(
        at_once(fits), alone, models, strict=True
    ):
        same_bits(getattr(fitted, name), expected)


# NumPy's numbers as parameters


SCALARS = {"64": (np.int64, np.float64), "small": (np.int16, np.float32)}
NUMBERS = {  # all of them exact in float32
    "learning_rate": 0.0625, "batch_size": 16, "max_iter": 60, "max_ifo": 30_000,
    "tol": 2.0**-20, "momentum": 0.25,
    "precision": 0.125, "init_batch_size": 64, "checkpoint_batch_size": 512,
    "epoch_length": 20, "beta": 0.5,
    "memory": 5, "rank": 3, "sketch_batch_size": 64,
}  # fmt: skip
TUPLES = {
    "storm-c": {"batch_size": (16, 32, 8)},
    "storm-c-paper": {"momentum": (0.25, 0.5, 0.125), "anchor": 7},
}


def as_numpy(value, kinds):
    """A parameter with each number, those in a tuple too, as a NumPy scalar."""
    if isinstance(value, tuple):
        return tuple(as_numpy(part, kinds) for part in value)
    if isinstance(value, (bool, str)) or value is None:
        return value
    return kinds[0](value) if isinstance(value, int) else kinds[1](value)


def same_runs(ours, theirs):
    same_bits(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.ifo, theirs.ifo)
    np.testing.assert_array_equal(ours.loss_curve, theirs.loss_curve)
    assert (ours.n_iter, ours.stop_reason) == (theirs.n_iter, theirs.stop_reason)
    assert ours.n_evaluations == theirs.n_evaluations
    assert all(
        type(value) is int for value in (ours.n_iter, *ours.n_evaluations.values())
    )


SINGLE = PortfolioProblem(
    make_gaussian_returns(3000, 5, random_state=0).astype(np.float32)
)


@pytest.mark.parametrize("kinds", SCALARS.values(), ids=SCALARS)
@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c", "storm-c-paper"))
def test_numpy_numbers_as_parameters_of_solvers(solver, kinds):
    """A float64 scalar would widen arrays of float32."""
    names = get_solver(solver).get_params()
    numbers = {name: value for name, value in NUMBERS.items() if name in names}
    for params in (numbers, {"max_iter": 60} | TUPLES.get(solver, {})):
        scalars = {name: as_numpy(value, kinds) for name, value in params.items()}
        same_runs(
            *(
                minimize(SINGLE, solver, random_state=0, **given)
                for given in (scalars, params)
            )
        )
    if "learning_rate" in names:
        rates = (
            decay_to(np.float64(0.03125), np.float64(0.0625), 100),
            decay_to(0.03125, 0.0625, 100),
        )
        same_runs(
            *(
                minimize(SINGLE, solver, random_state=0, learning_rate=r, max_iter=30)
                for r in rates
            )
        )


@pytest.mark.parametrize("kinds", SCALARS.values(), ids=SCALARS)
def test_numpy_numbers_as_parameters_of_estimators(kinds):
    X, y, arrays = (
        np.eye(20),
        np.arange(20.0),
        {"next_X": np.roll(np.eye(20), 1, axis=1)},
    )
    portfolio = {
        "risk_aversion": 2.0,
        "l1": 0.125,
        "max_iter": 100,
        "tol": 2.0**-20,
        "random_state": 3,
    }
    value = {"gamma": 0.5, "alpha": 0.125, "max_iter": 50, "random_state": 0}
    embedding = {
        "n_components": 2,
        "perplexity": 5.0,
        "max_iter": 30,
        "early_exaggeration": 4.0,
        "random_state": 0,
    }
    for model, params, data, more, name in (
        (
            CompositionalPortfolio("storm-c"),
            portfolio,
            (SINGLE.returns[:1500],),
            {},
            "weights_",
        ),
        (BellmanValueEstimator(), value, (X, y), arrays, "coef_"),
        (SNEEmbedding(), embedding, (normal(0, 60, 4),), {}, "embedding_"),
    ):
        scalars = {key: as_numpy(value, kinds) for key, value in params.items()}
        ours, theirs = (
            quietly(clone(model).set_params(**given).fit, *data, **more)
            for given in (scalars, params)
        )
        same_bits(getattr(ours, name), getattr(theirs, name))
        # kept as given
        assert all(
            type(ours.get_params()[key]) is type(scalar)
            for key, scalar in scalars.items()
        )
