"""NumPy scalars are numbers: a grid made with np.arange or np.logspace does what the same numbers of Python's do."""

import functools

import numpy as np
import pytest
from helpers import composition, few_of, regression, slow_but
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import Advice, BellmanProblem, PortfolioProblem, SNEProblem, check_problem
from sk_stormc.schedules import constant, decay_to
from sk_stormc.solvers import SOLVERS, get_solver

# all of them exact in float32, whose scalars are tried too
RATE, LIMITS = {"learning_rate": 0.0625}, {"max_iter": 120, "max_ifo": 60_000, "tol": 2.0**-20}
BATCH = {"batch_size": 16}
STORM = RATE | BATCH | LIMITS | {"momentum": 0.25, "precision": 0.125, "init_batch_size": 64}
EPOCHS = RATE | BATCH | LIMITS | {"checkpoint_batch_size": 512, "epoch_length": 20}
CASES = {
    "storm-c": [
        BATCH | LIMITS,
        {"batch_size": (16, 32, 8)} | LIMITS,
        RATE | LIMITS,
    ],
    "storm-c-paper": [
        STORM,
        LIMITS,
        {"anchor": 50, "normalization": None} | LIMITS,
        STORM | {"anchor": 7},
        STORM | {"momentum": (0.25, 0.5, 0.125)},
    ],
    "sarah-c": [EPOCHS, BATCH | LIMITS],
    "civr": [EPOCHS | {"precision": 0.125}, BATCH | LIMITS],
    "vrsc-pg": [EPOCHS, BATCH | LIMITS],
    "scvr": [EPOCHS, BATCH | LIMITS],
    "scgd": [RATE | BATCH | LIMITS | {"beta": 0.5}, BATCH | LIMITS],
    "acc-scgd": [RATE | BATCH | LIMITS | {"beta": 0.5}, BATCH | LIMITS],
    "asc-pg": [RATE | BATCH | LIMITS | {"beta": 0.5}, BATCH | LIMITS],
    "lbfgs": [LIMITS | {"memory": 5}],
    "sketchy-storm": [RATE | LIMITS, BATCH | LIMITS | {"rank": 3, "sketch_batch_size": 64}],
}
SCALARS = {"64": (np.int64, np.float64), "32": (np.int32, np.float32)}


def as_numpy(value, kinds):
    """A parameter with each number, those in a tuple too, as a NumPy scalar."""
    if isinstance(value, tuple):
        return tuple(as_numpy(part, kinds) for part in value)
    if isinstance(value, (bool, str)) or value is None:
        return value
    return kinds[0](value) if isinstance(value, int) else kinds[1](value)


@functools.cache
def problem_of(name):
    if name == "returns":
        R = make_gaussian_returns(3000, 5, random_state=0).astype(np.float32)
        return PortfolioProblem(R, risk_measure="variance")
    return composition(*regression(1500), dtype=np.float32)


def same(ours, theirs):
    assert ours.x.dtype == theirs.x.dtype == np.float32
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.ifo, theirs.ifo)
    np.testing.assert_array_equal(ours.loss_curve, theirs.loss_curve)
    assert (ours.n_iter, ours.stop_reason) == (theirs.n_iter, theirs.stop_reason)
    assert ours.n_evaluations == theirs.n_evaluations
    assert all(type(value) is int for value in (ours.n_iter, *ours.n_evaluations.values()))


def test_all_solvers_are_there():
    assert set(CASES) == set(SOLVERS)
    for name, cases in CASES.items():
        asked = {key for case in cases for key in case}
        numbers = {"learning_rate", "batch_size", "max_iter", "max_ifo", "tol", "momentum", "beta", "epoch_length"}
        assert asked >= numbers & set(get_solver(name).get_params())


@pytest.mark.parametrize("kinds", SCALARS)
@pytest.mark.parametrize("problem", slow_but(["returns", "composition"], "returns"))
@pytest.mark.parametrize("name", CASES)
def test_solvers(name, problem, kinds):
    problem = problem_of(problem)
    for params in CASES[name]:
        other = {key: as_numpy(value, SCALARS[kinds]) for key, value in params.items()}
        theirs = minimize(problem, name, random_state=0, record_every=5000, **params)
        ours = minimize(problem, name, random_state=0, record_every=SCALARS[kinds][0](5000), **other)
        same(ours, theirs)


@pytest.mark.parametrize("name", ["storm-c", "sarah-c", "scgd"])
def test_schedules(name):
    for make in (constant, lambda rate: decay_to(0.5 * rate, rate, 100)):
        params = BATCH | {"max_iter": 50}
        theirs = minimize(problem_of("returns"), name, random_state=0, learning_rate=make(0.0625), **params)
        ours = minimize(problem_of("returns"), name, random_state=0, learning_rate=make(np.float64(0.0625)), **params)
        same(ours, theirs)


def test_parameters_are_kept_as_given():
    """A clone, and scikit-learn's checks, must find what was set."""
    solver = get_solver("storm-c").set_params(batch_size=np.int64(16), tol=np.float64(1e-3))
    minimize(problem_of("returns"), solver, max_iter=3)
    solver.solve(problem_of("returns"), random_state=0)
    assert type(solver.batch_size) is np.int64
    assert type(clone(solver).tol) is np.float64


def test_attributes_of_a_problem():
    """Numbers of components from a sum or a shape of NumPy's, a floor from finfo, defaults from an array."""
    plain = PortfolioProblem(make_gaussian_returns(3000, 5, random_state=0).astype(np.float32), risk_measure="entropic")
    other = PortfolioProblem(plain.returns, risk_measure="entropic")
    advice = {"batch_size": 16, "learning_rate": 0.0625, "precision": 0.25, "normalization": "global", "inertia": 0.25}
    plain.advice = Advice(**advice)
    other.advice = Advice(**{key: as_numpy(value, SCALARS["64"]) for key, value in advice.items()})
    for name in ("n_inner", "n_outer", "n_variables"):
        setattr(other, name, np.int64(getattr(plain, name)))
    other.inner_floor = np.float64(plain.inner_floor)
    check_problem(other, n_draws=100)
    for solver in ("storm-c", "sarah-c", "scgd", "lbfgs"):
        same(*(minimize(p, solver, random_state=0, max_iter=60, tol=0) for p in (other, plain)))


@pytest.mark.parametrize("kinds", few_of(SCALARS, 0))
def test_problems(kinds):
    number = functools.partial(as_numpy, kinds=SCALARS[kinds])
    R = make_gaussian_returns(200, 5, random_state=0).astype(np.float32)
    for measure in ("variance", "semivariance", "entropic"):
        problems = [PortfolioProblem(R, of(0.5), risk_measure=measure) for of in (number, float)]
        same(*(minimize(p, random_state=0) for p in problems))
    P = perplexity_affinities(np.random.default_rng(0).normal(size=(60, 4)), number(5.0))
    problems = [SNEProblem(P, of(2), exaggeration=of(2.0), n_iter=of(30)) for of in (number, lambda value: value)]
    same(*(minimize(p, random_state=0) for p in problems))
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(12), size=12), rng.normal(size=12)
    problems = [BellmanProblem(P, r, gamma=of(0.5), alpha=of(0.125)) for of in (number, float)]
    np.testing.assert_array_equal(*(minimize(p, random_state=0).x for p in problems))
    problems = [composition(*regression(1500), dtype=np.float32, inner_floor=of(-1.0)) for of in (number, float)]
    problems[0].n_inner = problems[0].n_outer = number(1500)
    same(*(minimize(p, random_state=0, max_iter=40) for p in problems))


@pytest.mark.parametrize("kinds", SCALARS)
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (L1, {"alpha": 0.125}),
        (Box, {"low": -0.25, "high": 0.5, "budget": 1.0, "alpha": 0.125}),
        (Simplex, {"total": 1.0}),
    ],
)
def test_penalties(kind, params, kinds):
    ours, theirs = kind(**{key: as_numpy(value, SCALARS[kinds]) for key, value in params.items()}), kind(**params)
    assert repr(ours) == repr(theirs)
    x = np.linspace(-1, 2, 5, dtype=np.float32)
    for step in (0.5, np.float64(0.5)):
        assert ours.prox(x, step).dtype == np.float32
        np.testing.assert_array_equal(ours.prox(x, step), theirs.prox(x, 0.5))
    problems = [PortfolioProblem(problem_of("returns").returns, penalty=penalty) for penalty in (ours, theirs)]
    same(*(minimize(p, random_state=0, max_iter=60) for p in problems))


@pytest.mark.parametrize("kinds", few_of(SCALARS, 0))
def test_estimators(kinds):
    number = functools.partial(as_numpy, kinds=SCALARS[kinds])

    def both(estimator, *args, **params):
        fitted = []
        for of in (number, lambda value: value):
            fitted.append(clone(estimator).set_params(**{key: of(value) for key, value in params.items()}).fit(*args))
        np.testing.assert_array_equal(fitted[0].ifo_, fitted[1].ifo_)
        np.testing.assert_array_equal(fitted[0].loss_curve_, fitted[1].loss_curve_)
        assert fitted[0].n_iter_ == fitted[1].n_iter_
        return fitted

    R = make_gaussian_returns(1500, 5, random_state=0).astype(np.float32)
    portfolio = CompositionalPortfolio("storm-c", random_state=0)
    fitted = both(portfolio, R, risk_aversion=2.0, l1=0.125, max_iter=100, tol=2.0**-20, solver__batch_size=16)
    np.testing.assert_array_equal(fitted[0].weights_, fitted[1].weights_)
    both(portfolio, R, constraint=(-0.25, 0.5), budget=1.0, max_iter=60, random_state=3)
    model = make_bellman_problem(20, 5, random_state=0)
    X, y, extra = np.eye(20), np.arange(20.0), np.roll(np.eye(20), 1, axis=1)
    for intercept in (True, False):
        fitted = [
            BellmanValueEstimator(gamma=of(0.5), alpha=of(0.125), max_iter=of(50), fit_intercept=flag, random_state=0)
            .fit(X, y, next_X=extra)
            for of, flag in ((number, np.bool_(intercept)), (lambda value: value, intercept))
        ]
        np.testing.assert_array_equal(fitted[0].predict(X), fitted[1].predict(X))
    same_x = [minimize(model.problem(alpha=of(0.125)), random_state=0).x for of in (number, float)]
    np.testing.assert_array_equal(*same_x)
    points = np.random.default_rng(0).normal(size=(60, 4))
    sne = SNEEmbedding(random_state=0)
    for kernel in ("gaussian", "student-t"):
        sne.set_params(kernel=kernel)
        fitted = both(sne, points, n_components=2, perplexity=5.0, max_iter=30, early_exaggeration=4.0)
        np.testing.assert_array_equal(fitted[0].embedding_, fitted[1].embedding_)


def test_a_grid_of_arrays():
    R = make_gaussian_returns(2500, 4, random_state=0)
    grid = {"solver__batch_size": np.array([8, 16]), "solver__learning_rate": np.logspace(-2, -1, 2)}
    search = GridSearchCV(CompositionalPortfolio(max_iter=40, random_state=0), grid, cv=2, error_score="raise").fit(R)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    names = {"risk_measure": np.array(["variance", "entropic"]), "solver": np.array(["storm-c", "sarah-c"])}
    search = GridSearchCV(CompositionalPortfolio(max_iter=40, random_state=0), names, cv=2, error_score="raise").fit(R)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
