"""What a problem declares beside its mathematics: where its components come from, and advice to methods."""

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from helpers import composition, regression

from sk_stormc import minimize
from sk_stormc.core.source import source_of
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine.tools import advised
from sk_stormc.problems import (
    Advice,
    CompositionalProblem,
    FiniteSource,
    PortfolioProblem,
    Published,
    Source,
    StreamingProblem,
    check_problem,
)
from sk_stormc.solvers import SOLVERS

RETURNS = make_gaussian_returns(1100, 4, mean=0.3, random_state=0)


def test_an_author_meets_few_members():
    """Those that must or may be written for the mathematics, what users call, and what is declared apart."""
    mathematics = {"n_inner", "n_outer", "n_variables", "n_blocks", "jacobian_kind", "inner_floor", "penalty", "metric"}
    methods = {"initial_point", "inner_batch", "outer_batch", "inner", "jacobian", "outer_gradient", "outer"}
    overridable = {"vjp", "compositional_gradient", "inner_pair", "gradient_pair"}
    for_users = {"objective", "gradient", "reported", "description"}
    known = mathematics | methods | overridable | for_users | {"source", "advice", "in_run"}
    found = {name for name in dir(CompositionalProblem) if not name.startswith("_")}
    found |= set(CompositionalProblem.__annotations__)
    assert found == known, found ^ known


def test_the_contract_names_no_parameter_of_a_method():
    words = ("beta", "anchor", "momentum", "init_batch_size", "checkpoint_batch_size", "epoch_length")
    for thing in (CompositionalProblem, Source, FiniteSource):
        assert not [word for word in words if word in inspect.getsource(thing)]
    assert not {field.name for field in dataclasses.fields(Advice)} & set(words)


# source


@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.0, 3.0, 0.0])])
def test_draws_of_a_finite_source(weights):
    source = FiniteSource(4, 4, weights, weights)
    shares = np.full(4, 0.25) if weights is None else weights / weights.sum()
    for draw in (source.draw_inner, source.draw_outer):
        draws = draw(np.random.default_rng(0), (3, 20_000))
        counts = np.bincount(draws.ravel(), minlength=4) / draws.size
        assert draws.shape == (3, 20_000)
        assert (np.abs(counts - shares) <= 6 * np.sqrt(shares / draws.size)).all()
    assert not FiniteSource(4, 1, weights, weights).draw_outer(np.random.default_rng(0), (2, 50)).any()


def test_a_finite_source_has_the_trivial_answers():
    source, generators = FiniteSource(5, 5), [np.random.default_rng(k) for k in range(3)]
    assert source.finite and not source.weighted and not source.cumulative
    assert source.open(generators) is generators
    assert source.sizes(7) == (7, 7, 7) and source.price("inner", 7) == 7
    assert source.lasts(generators, 10**9)
    assert not source.uphill(np.zeros(2), np.ones(2))


class Importance(FiniteSource):
    """Draws by other probabilities than the components', which weights make up for."""

    weighted = True

    def __init__(self, n, chances):
        super().__init__(n, n)
        self.chances = chances / chances.sum()

    def draw_inner(self, rng, shape):
        draws = rng.choice(self.n_inner, size=shape, p=self.chances)
        return [(numbers, 1 / (self.n_inner * self.chances[numbers])) for numbers in draws]

    draw_outer = draw_inner


@pytest.mark.parametrize("solver", ["storm-c", "storm-c-paper", "sarah-c", "scgd"])
def test_a_finite_source_may_give_weights_too(solver):
    class Weighted(PortfolioProblem):
        @property
        def source(self):
            return Importance(self.n_inner, np.linspace(1.0, 2.0, self.n_inner))

    problem, options = Weighted(RETURNS), {"batch_size": 64, "tol": 0, "learning_rate": 0.01}
    result = minimize(problem, solver, max_ifo=200_000, random_state=0, **options)
    best = minimize(PortfolioProblem(RETURNS), "lbfgs", tol=1e-8).fun
    assert result.fun - best < 0.2 * (result.loss_curve[0] - best)
    again = minimize(problem, solver, max_ifo=100_000, random_state=0, **options)
    resumed = minimize(problem, solver, state=pickle.loads(pickle.dumps(again.state)), max_ifo=200_000, **options)
    assert resumed.x.tobytes() == result.x.tobytes()  # draws ahead, which a state has, are pairs


def test_the_source_of_a_problem_that_declares_none():
    problem = composition(*regression(50), "jacobian")
    assert problem.source is None
    source = source_of(problem)
    assert (source.n_inner, source.n_outer, source.weights) == (50, problem.n_outer, None)
    assert not source_of(StreamingProblem([RETURNS], PortfolioProblem)).finite


# advice


class Mine(PortfolioProblem):
    """A problem with advice of its own."""

    def __init__(self, returns):
        super().__init__(returns)
        self.advice = dataclasses.replace(self.advice, batch_size=None, inertia=0.5)


def test_advice_of_one_problem_is_not_that_of_another():
    before = CompositionalProblem.advice, PortfolioProblem.advice
    mine, other = Mine(RETURNS), PortfolioProblem(RETURNS)
    assert mine.advice.batch_size is None and mine.advice.inertia == 0.5
    assert (CompositionalProblem.advice, PortfolioProblem.advice) == before == (Advice(), other.advice)
    with pytest.raises(dataclasses.FrozenInstanceError):
        other.advice.inertia = 0.5
    with pytest.raises(TypeError):
        other.advice |= {"inertia": 0.5}
    assert pickle.loads(pickle.dumps(mine)).advice.inertia == 0.5


def test_a_problem_that_falls_for_ever_says_so_after_a_copy():
    falls = PortfolioProblem(RETURNS[:3])
    for problem in (falls, pickle.loads(pickle.dumps(falls))):
        assert problem.advice.unbounded_below(problem) is True
    assert CompositionalProblem.advice.unbounded_below(falls) is None


WRONG = {
    "batch_size": (0, "batch_size must be an integer >= 1"),
    "tracking": ("no", "tracking must be True or False"),
    "learning_rate": (-1.0, "learning_rate must be a finite number > 0"),
    "normalization": ("auto", "normalization must be one of"),
    "precision": (0, "precision must be a finite number > 0"),
    "inertia": (1, "inertia must be a finite number >= 0"),
    "record_every": (0, "record_every must be an integer >= 1"),
    "max_iter": (2.5, "max_iter must be an integer >= 1"),
    "smoothness": (0.0, "smoothness must be callable"),
    "unbounded_below": (False, "unbounded_below must be callable"),
    "published": ({"eta": 0.1}, "published must be a Published or None"),
    "many_minima": (1, "many_minima must be True or False"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_advice(name):
    value, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        Advice(**{name: value})


def test_what_advice_means_for_parameters():
    problem = PortfolioProblem(RETURNS)
    limits = ["normalization", "precision"]
    names = ["learning_rate", *limits, "batch_size", "init_batch_size", "momentum", "beta"]
    assert {advised(problem, name) for name in names} == {"auto"}
    problem.advice = Advice(tracking=False, batch_size=8, precision=0.5)
    found = [advised(problem, name) for name in names]
    assert found == ["auto", "auto", 0.5, 8, 8, 1.0, 1.0]
    stream = StreamingProblem([RETURNS], PortfolioProblem)
    assert advised(stream, "momentum") == "auto"


def test_published_constants_are_those_of_the_paper_method():
    class Mine(PortfolioProblem):
        advice = Advice(published=Published(eta=0.03, epsilon=0.2, a=0.05, B=50, S=80))

    rule = {"learning_rate": 0.03, "precision": 0.2, "momentum": 0.05, "batch_size": 50, "init_batch_size": 80}
    found = minimize(Mine(RETURNS), "storm-c-paper", max_iter=20, random_state=0)
    given = minimize(
        PortfolioProblem(RETURNS), "storm-c-paper", max_iter=20, random_state=0, normalization="global", **rule
    )
    assert found.x.tobytes() == given.x.tobytes()


# what is declared is checked


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"source": "uniform"}, "source: must be None or a Source"),
        ({"source": np.random.default_rng(0)}, "source: must be None or a Source"),
        ({"advice": {"batch_size": None}}, "advice: must be an Advice"),
        ({"advice": None}, "advice: must be an Advice"),
        ({"draw_inner": lambda self, rng, shape: None}, "draw_inner: is not part of the contract any more"),
        ({"defaults": {"momentum": 1.0}}, "defaults: is not part of the contract any more"),
    ],
)
def test_declarations_are_checked(members, message):
    problem = type("Mine", (PortfolioProblem,), members)(RETURNS)
    with pytest.raises(ValueError, match=f"^Mine.{message}"):
        check_problem(problem)


@pytest.mark.parametrize("solver", SOLVERS)
def test_draws_of_version_two_are_refused_and_not_ignored(solver):
    class Mine(PortfolioProblem):
        def draw_inner(self, rng, shape):
            return rng.integers(10, size=shape)

    with pytest.raises(ValueError, match=r"Mine.draw_inner: is not part of the contract any more: its source says"):
        minimize(Mine(RETURNS), solver, max_iter=3)
