"""Trial by fire: data of any shape, dtype, scale and layout, few samples, zero weights, and two fits at once."""

import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import few_of
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import MarkovRewardProcess
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import (
    BellmanProblem,
    EntropicPortfolioProblem,
    FiniteSumComposition,
    PortfolioProblem,
    ProjectedBellmanProblem,
    SNEProblem,
    StreamingProblem,
)
from sk_stormc.solvers import SOLVERS

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:perplexity=.* is too large:UserWarning"),
]

settings.register_profile("fire", derandomize=True, deadline=None, database=None, max_examples=12,
                          suppress_health_check=list(HealthCheck))
FEW, MANY = settings.get_profile("fire"), settings(settings.get_profile("fire"), max_examples=150)
SCALES = [1e-12, 1e-8, 1e-4, 1e4, 1e8, 1e12]
LAYOUTS = ["C", "F", "strided", "read-only", "memmap"]
DTYPES = [np.float64, np.float32, np.int64, np.int8, np.uint16, bool]
MEASURES = ["variance", "semivariance", "entropic"]
CONSTRAINTS = [None, "long_only", (-1, 1), (0, 0.75)]

seeds = st.integers(0, 2**20)
sizes = st.one_of(st.integers(2, 6), st.integers(7, 40), st.just(1100))  # batches are samples beyond 1024
solvers = st.sampled_from(list(SOLVERS))


def on_fire(test):
    """Make a test of a function of hypothesis' data, in both variants."""

    @pytest.mark.parametrize("profile", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
    def both(profile):
        profile(given(data=st.data())(test))()

    both.__doc__ = test.__doc__
    return both


def laid_out(A, layout):
    """The same numbers in another layout of memory."""
    if layout == "F":
        return np.asfortranarray(A)
    if layout == "strided":
        wide = np.zeros((2 * A.shape[0], *(2 * n for n in A.shape[1:])), A.dtype)
        part = wide[tuple(slice(None, None, 2) for _ in A.shape)]
        part[...] = A
        return part
    if layout == "read-only":
        A = A.copy()
        A.flags.writeable = False
        return A
    if layout == "memmap":
        import tempfile

        file = tempfile.NamedTemporaryFile(suffix=".npy")  # noqa: SIM115, it lives as long as the memmap
        np.save(file, A)
        file.flush()
        found = np.load(file.name, mmap_mode="r")
        return found
    return np.ascontiguousarray(A)


def normal(seed, n, d, dtype=float):
    """Numbers of the dtype, of size about 1; of integers up to 100."""
    A = np.random.default_rng(seed).normal(0.2, 1.0, (n, d))
    if dtype is bool:
        return A > 0
    kind = np.dtype(dtype).kind
    return (np.abs(20 * A) if kind == "u" else 20 * A if kind == "i" else A).astype(dtype)


def same_bits(a, b):
    """The arrays agree to the last bit."""
    np.testing.assert_array_equal(a, b)
    assert a.dtype == b.dtype


# --- dtypes and layouts ------------------------------------------------------------------------------------


def draw_model(data, which=None):
    """An estimator with few iterations, its data as a dict of arrays, and the name of what it finds."""
    kind = which or data.draw(st.sampled_from(["portfolio", "values", "map"]))
    seed, n, dtype = data.draw(seeds), data.draw(sizes), data.draw(st.sampled_from(DTYPES))
    d, solver = data.draw(st.integers(1, 4)), data.draw(solvers)
    if kind == "portfolio":
        model = CompositionalPortfolio(
            solver, risk_measure=data.draw(st.sampled_from([*MEASURES, "cvar", "evar"])), constraint=(-1, 1),
            max_iter=3, random_state=seed,
        )
        return model, {"X": normal(seed, n, d, dtype)}, "weights_"
    if kind == "values":
        model = BellmanValueEstimator(
            0.5, solver, objective=data.draw(st.sampled_from(["bellman", "projected"])), max_iter=3, random_state=seed
        )
        X = normal(seed, n, d, dtype)
        terminal = np.random.default_rng(seed).random(n) < 0.2
        return model, {"X": X, "y": X[:, 0], "next_X": X[::-1].copy(), "terminal": terminal}, "coef_"
    assume(n < 1000 and solver not in ("lbfgs", "sketchy-storm"))
    model = SNEEmbedding(
        data.draw(st.integers(1, 3)), solver=solver, max_iter=6, random_state=seed, init="random",
        kernel=data.draw(st.sampled_from(["student-t", "gaussian"])), perplexity=3.0,
    )
    return model, {"X": normal(seed, n, d, dtype)}, "embedding_"


def quietly(fit, **arrays):
    """Fit; warnings of the data, such as columns that look like numbers of states, are not looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit(**arrays)


@on_fire
def test_dtypes_and_layouts(data):
    """Numbers in any dtype and layout give what the same numbers as a C-ordered array of floats give, to the bit."""
    model, arrays, name = draw_model(data)
    floats = {k: v if k == "terminal" or v.dtype == np.float32 else v.astype(float) for k, v in arrays.items()}
    expected = quietly(clone(model).fit, **floats)
    found = {k: laid_out(v, data.draw(st.sampled_from(LAYOUTS))) for k, v in arrays.items()}
    before = {k: v.copy() for k, v in found.items()}
    fitted = quietly(clone(model).fit, **found)
    assert np.isfinite(getattr(fitted, name)).all()
    if not isinstance(found["X"], np.memmap):  # whose means are sums over blocks
        same_bits(getattr(fitted, name), getattr(expected, name))
    else:
        np.testing.assert_allclose(getattr(fitted, name), getattr(expected, name), rtol=1e-3, atol=1e-5)
    for k, v in found.items():
        np.testing.assert_array_equal(v, before[k])
    for method in ("predict", "transform"):
        if hasattr(fitted, method):
            assert np.isfinite(getattr(fitted, method)(found["X"])).all()
    if hasattr(fitted, "score"):
        assert np.isfinite(quietly(fitted.score, **found))
    if name != "embedding_":  # whose last iteration is where the learning rate ends
        gone_on = quietly(clone(model).set_params(max_iter=2).fit, **found)
        same_bits(getattr(quietly(gone_on.set_params(max_iter=3).resume, **found), name), getattr(fitted, name))


DATES = np.arange("2020-01-01", "2020-01-13", dtype="M8[D]")
NO_NUMBERS = {
    "dates": np.c_[DATES, DATES],
    "durations": np.c_[DATES, DATES] - DATES[0],
    "a list of dates": [[day] for day in DATES],
    "objects that are dates": np.c_[DATES, DATES].astype(object),
    "text": np.array([["a"], ["b"]] * 6),
    "objects": np.array([[object()]] * 12),
    "complex": np.ones((12, 2), complex),
    "pandas, dates": pd.DataFrame({"day": DATES, "other": DATES}),
    "pandas, text": pd.DataFrame({"day": ["a", "b"] * 6}),
    "polars, dates": pl.DataFrame({"day": DATES.tolist()}),
    "polars, text": pl.DataFrame({"day": ["a", "b"] * 6}),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize(
    "model",
    [CompositionalPortfolio(constraint=(-1, 1)), BellmanValueEstimator(), SNEEmbedding(perplexity=2.0, max_iter=10)],
    ids=["portfolio", "values", "map"],
)
def test_what_is_no_number_is_refused_by_name(model, kind):
    X = NO_NUMBERS[kind]
    named = "column 'day'" if hasattr(X, "columns") else "X"
    with pytest.raises((TypeError, ValueError), match=rf"\bX\b.*{named}|{named}"):
        model.fit(X, np.ones(12))
    if isinstance(model, BellmanValueEstimator):
        good = np.arange(24.0).reshape(12, 2)[:, : np.shape(X)[1]]
        with pytest.raises((TypeError, ValueError), match="next_X"):
            model.fit(good, np.ones(12), next_X=X)
    fitted = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(np.random.default_rng(0).normal(size=(12, np.shape(X)[1])), np.ones(12))
    with pytest.raises((TypeError, ValueError), match=r"\bX\b"):
        getattr(fitted, "transform" if hasattr(fitted, "transform") else "predict")(X)


def test_dates_are_no_rewards():
    with pytest.raises(ValueError, match=r"\by\b must be numbers"):
        BellmanValueEstimator().fit(np.ones((12, 1)), DATES)


# --- scales ------------------------------------------------------------------------------------------------


def converged(fit, *args, **kwargs):
    """A fit, and whether it said nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit(*args, **kwargs)
    return found, not caught


@on_fire
def test_portfolios_do_not_depend_on_the_unit_of_returns(data):
    """Returns times c with the risk aversion over c have the same best weights."""
    scale, measure = data.draw(st.sampled_from(SCALES)), data.draw(st.sampled_from(MEASURES))
    seed, n, d = data.draw(seeds), data.draw(st.sampled_from([20, 60, 1100])), data.draw(st.integers(1, 4))
    R = normal(seed, n, d)
    constraint = data.draw(st.sampled_from(CONSTRAINTS[1:] if d == 1 or n == 20 else CONSTRAINTS))
    model = CompositionalPortfolio(risk_measure=measure, constraint=constraint, tol=1e-6, random_state=seed)
    expected, good = converged(model.fit, R)
    weights = expected.weights_
    found, quiet = converged(clone(model).set_params(risk_aversion=1 / scale).fit, R * scale)
    if good and quiet:
        np.testing.assert_allclose(found.weights_, weights, rtol=0, atol=1e-4 * np.abs(weights).max())
    assert quiet or not good or found.stop_reason_ != "converged"


@on_fire
def test_values_scale_with_the_rewards_and_not_with_the_features(data):
    """Rewards times c have values times c; features times c have the same values."""
    scale, solver = data.draw(st.sampled_from(SCALES)), data.draw(st.sampled_from(["storm-c", "lstd", "sarah-c"]))
    seed, n = data.draw(seeds), data.draw(st.sampled_from([20, 60, 1100]))
    X = normal(seed, n, 3)
    next_X = 0.5 * X + 0.3 * normal(seed + 1, n, 3)
    model = BellmanValueEstimator(
        0.8, solver, objective=data.draw(st.sampled_from(["bellman", "projected"])), tol=None if solver == "lstd" else
        1e-6, random_state=seed,
    )
    y = X.sum(axis=1) + 1
    expected, good = converged(model.fit, X, y, next_X=next_X)
    values = expected.predict(X)
    of_rewards = data.draw(st.booleans())
    by_rewards, by_features = (scale, 1.0) if of_rewards else (1.0, scale)
    found, quiet = converged(clone(model).fit, X * by_features, y * by_rewards, next_X=next_X * by_features)
    if good and quiet:
        error = found.predict(X * by_features) / by_rewards - values
        assert np.abs(error).max() <= 1e-3 * np.abs(values).max()
    assert quiet or not good or found.stop_reason_ != "converged"


@on_fire
def test_maps_do_not_depend_on_the_unit_of_the_data(data):
    """Data times a power of two, exactly; times any other number, as far as rounding lets them."""
    seed, n, d = data.draw(seeds), data.draw(st.integers(8, 60)), data.draw(st.integers(1, 5))
    X = normal(seed, n, d, data.draw(st.sampled_from([np.float64, np.float32])))
    model = SNEEmbedding(
        2, perplexity=3.0, kernel=data.draw(st.sampled_from(["student-t", "gaussian"])), max_iter=10,
        init=data.draw(st.sampled_from(["pca", "random"])), random_state=seed,
    )
    expected = quietly(model.fit, X=X)
    power = X.dtype.type(2.0 ** data.draw(st.integers(-39, 39)))
    same_bits(quietly(clone(model).fit, X=X * power).embedding_, expected.embedding_)
    found = quietly(clone(model).fit, X=X * X.dtype.type(data.draw(st.sampled_from(SCALES))))
    assert found.kl_divergence_ == pytest.approx(expected.kl_divergence_, rel=0.05, abs=1e-3)


# --- weights, few samples ------------------------------------------------------------------------------------


@on_fire
def test_rows_without_weight_are_as_if_they_were_not_there(data):
    seed, n, k = data.draw(seeds), data.draw(st.integers(5, 40)), data.draw(st.integers(1, 20))
    rng = np.random.default_rng(seed)
    R, junk = normal(seed, n, 3), 1e3 * normal(seed + 1, k, 3)
    order = rng.permutation(n + k)
    weights = np.r_[np.full(n, 2.0), np.zeros(k)][order]
    everything = np.vstack([R, junk])[order]
    left = everything[weights > 0]
    params = {"risk_measure": data.draw(st.sampled_from(MEASURES)), "constraint": (-1, 1), "tol": 1e-6}
    expected = CompositionalPortfolio(**params, random_state=0).fit(left)
    found = CompositionalPortfolio(**params, random_state=0).fit(everything, sample_weight=weights)
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=0, atol=1e-5)
    y, next_everything = everything.sum(axis=1), 0.5 * everything[:, ::-1]
    value = BellmanValueEstimator(0.8, objective="projected", solver=data.draw(st.sampled_from(["storm-c", "lstd"])))
    given_weights = quietly(clone(value).fit, X=everything, y=y, next_X=next_everything, sample_weight=weights)
    keep = weights > 0
    without = quietly(clone(value).fit, X=left, y=y[keep], next_X=next_everything[keep])
    scale = np.abs(without.predict(left)).max()
    np.testing.assert_allclose(given_weights.predict(left), without.predict(left), rtol=0, atol=1e-3 * scale)


def tiny_problem(kind, n, d, seed):
    """A problem with n components and d variables."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(0.2, 1, (n, d)), rng.normal(size=n)
    if kind == "FiniteSumComposition":
        return FiniteSumComposition(
            lambda x, j: (A[j] @ x).mean() * np.ones(1), lambda x, j: A[j].mean(axis=0)[None],
            lambda x, u, i: (x, u - b[i].mean()), lambda x, u: float(x @ x / 2 + np.mean((u[0] - b) ** 2) / 2), n, n, d,
        )
    if kind == "BellmanProblem":
        P = rng.random((n, n))
        return MarkovRewardProcess(P / P.sum(axis=1, keepdims=True), b, A).problem()
    if kind == "ProjectedBellmanProblem":
        return ProjectedBellmanProblem(A, 0.5 * A[::-1], b, 0.8, alpha=0.1)
    if kind == "SNEProblem":
        return SNEProblem(perplexity_affinities(rng.normal(size=(max(n, 4), d)), 2.0), 2, kernel="student-t")
    penalty = [None, Simplex(), Box(-1, 1), L1(0.1)][seed % 4]
    if kind == "EntropicPortfolioProblem":
        return EntropicPortfolioProblem(A, penalty=penalty)
    return PortfolioProblem(A, risk_measure=["variance", "semivariance"][seed % 2], penalty=penalty)


REFUSED = "sketchy-storm", "SNEProblem"  # with an error that says why
PROBLEMS = ["PortfolioProblem", "EntropicPortfolioProblem", "BellmanProblem", "ProjectedBellmanProblem", "SNEProblem",
            "FiniteSumComposition"]


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n, d", few_of([(1, 1), (1, 3), (3, 1), (5, 2)], 1, 3))
def test_fewer_components_than_a_batch(solver, kind, n, d):
    """One component, and fewer than every batch asks for: finite, not above the start, the same bits again."""
    problem = tiny_problem(kind, n, d, seed=d % 2)
    if (solver == "lbfgs" and isinstance(problem.penalty, Simplex)) or (solver, kind) == REFUSED:
        return
    runs = [minimize(problem, solver, random_state=0, max_iter=4) for _ in range(2)]
    assert np.isfinite(runs[0].x).all() and np.isfinite(runs[0].loss_curve).all()
    same_bits(runs[0].x, runs[1].x)
    assert runs[0].fun == pytest.approx(problem.objective(runs[0].x), rel=1e-5, abs=1e-12)
    gone_on = minimize(problem, solver, random_state=0, max_iter=2)
    same_bits(minimize(problem, solver, state=gone_on.state, max_iter=4).x, runs[0].x)


@pytest.mark.parametrize("solver", [name for name, kind in SOLVERS.items() if not kind().needed_to_stream()])
def test_a_stream_of_single_rows(solver):
    rows = normal(0, 40, 2)
    stream = StreamingProblem([row[None] for row in rows], PortfolioProblem, window=3)
    result = minimize(stream, solver, random_state=0, batch_size=1)
    assert result.stop_reason == "exhausted" and np.isfinite(result.x).all()


# --- threads -----------------------------------------------------------------------------------------------


@on_fire
def test_two_fits_at_once_have_the_bits_of_one_after_the_other(data):
    models = [draw_model(data) for _ in range(2)]
    with warnings.catch_warnings():  # whose filters all threads share
        warnings.simplefilter("ignore")
        alone = [getattr(clone(model).fit(**arrays), name) for model, arrays, name in models]
        together, barrier = [None, None], threading.Barrier(2)

        def fit(k):
            model, arrays, name = models[k]
            model = clone(model)
            barrier.wait()
            together[k] = getattr(model.fit(**arrays), name)

        threads = [threading.Thread(target=fit, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for found, expected in zip(together, alone, strict=True):
        same_bits(found, expected)


def test_two_fits_at_once_of_the_same_problem():
    """What a problem caches at its last point must not be seen by another run."""
    for kind in ("PortfolioProblem", "ProjectedBellmanProblem"):
        problem = tiny_problem(kind, 1500, 3, 0)
        alone = [minimize(problem, "sarah-c", random_state=seed, max_iter=30).x for seed in range(4)]
        found = [None] * 4

        def run(seed, problem=problem, found=found):
            with warnings.catch_warnings():
                found[seed] = minimize(problem, "sarah-c", random_state=seed, max_iter=30).x

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for x, expected in zip(found, alone, strict=True):
            same_bits(x, expected)


def test_bellman_models_of_one_state():
    for solver in SOLVERS:
        result = minimize(BellmanProblem([[1.0]], [2.0], gamma=0.5), solver, random_state=0, max_iter=20)
        assert np.isfinite(result.x).all()
    assert MarkovRewardProcess([[1.0]], [2.0], gamma=0.5).exact_value() == pytest.approx([4.0])


def test_the_filter_of_warnings_is_on():
    """pyproject.toml makes NumPy's warnings errors, wherever they come from."""
    with pytest.raises(RuntimeWarning):
        np.log(np.zeros(1))
    with pytest.raises(np.exceptions.ComplexWarning):
        np.ones(1, complex).astype(float)
    assert not issubclass(ConvergenceWarning, RuntimeWarning)
