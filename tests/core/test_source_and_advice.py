"""What a problem declares beside its mathematics: its source of components and its
advice to methods."""

import dataclasses
import pickle

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import (
    Advice,
    CompositionalProblem,
    FiniteSource,
    PortfolioProblem,
    Published,
    check_problem,
)

RETURNS = make_gaussian_returns(1100, 4, mean=0.3, random_state=0)


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
    assert (
        not FiniteSource(4, 1, weights, weights)
        .draw_outer(np.random.default_rng(0), (2, 50))
        .any()
    )


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
    assert (
        (CompositionalProblem.advice, PortfolioProblem.advice)
        == before
        == (Advice(), other.advice)
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        other.advice.inertia = 0.5
    with pytest.raises(TypeError):
        other.advice |= {"inertia": 0.5}
    assert pickle.loads(pickle.dumps(mine)).advice.inertia == 0.5


def test_published_constants_are_those_of_the_paper_method():
    class Mine(PortfolioProblem):
        advice = Advice(published=Published(eta=0.03, epsilon=0.2, a=0.05, B=50, S=80))

    rule = {
        "learning_rate": 0.03,
        "precision": 0.2,
        "momentum": 0.05,
        "batch_size": 50,
        "init_batch_size": 80,
    }
    found = minimize(Mine(RETURNS), "storm-c-paper", max_iter=20, random_state=0)
    given = minimize(
        PortfolioProblem(RETURNS),
        "storm-c-paper",
        max_iter=20,
        random_state=0,
        normalization="global",
        **rule,
    )
    assert found.x.tobytes() == given.x.tobytes()


# attributes are checked


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"source": "uniform"}, "source: must be None or a Source"),
        ({"source": np.random.default_rng(0)}, "source: must be None or a Source"),
        ({"advice": {"batch_size": None}}, "advice: must be an Advice"),
        ({"advice": None}, "advice: must be an Advice"),
    ],
)
def test_attributes_are_checked(members, message):
    problem = type("Mine", (PortfolioProblem,), members)(RETURNS)
    with pytest.raises(ValueError, match=f"^Mine.{message}"):
        check_problem(problem)
